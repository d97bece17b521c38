"""The memory plan: nothing that lives at the same time overlaps, at any size, and the peak is what is touched."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from sardonyx.dialects.dims import Dim, as_dim, parse_dim
from sardonyx.lowering.arena import plan_offsets
from sardonyx.lowering.buffers import Buffer, value_at
from sardonyx.lowering.schedule import ALIGNMENT, aligned

SIZES = ["64", "128", "4096", "64*N", "64*M", "64*N*M", "128*N", "64*N + 64", "64*max(N, M)"]


def random_buffers(seed: int, count: int) -> list[Buffer]:
    rng = random.Random(seed)
    buffers: list[Buffer] = []
    for number in range(count):
        first = rng.randrange(30)
        buffers.append(Buffer(f"b{number}", parse_dim(rng.choice(SIZES)), first, first + rng.randrange(6)))
    return buffers


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14))
def test_buffers_that_meet_never_overlap(seed: int, count: int) -> None:
    buffers = random_buffers(seed, count)
    total = plan_offsets(buffers)
    for binding in ({"N": 0, "M": 0}, {"N": 1, "M": 50}, {"N": 50, "M": 1}, {"N": 7, "M": 7}):
        ends = [0]
        for a in buffers:
            low, high = a.offset.evaluate(binding), a.end.evaluate(binding)
            ends.append(high)
            assert low >= 0 and low % ALIGNMENT == 0
            for b in buffers:
                if a is not b and a.meets(b) and low != high:
                    other_low, other_high = b.offset.evaluate(binding), b.end.evaluate(binding)
                    assert other_low == other_high or high <= other_low or other_high <= low
        assert total.evaluate(binding) == max(ends)


def test_a_chain_of_equal_sizes_needs_two_buffers() -> None:
    size = parse_dim("64*N")
    buffers = [Buffer(str(i), size, i, i + 1) for i in range(6)]
    assert plan_offsets(buffers) is parse_dim("128*N")


def test_what_does_not_meet_lies_at_the_same_place() -> None:
    """Scratch, then a tensor with scratch beside it: of sizes that nothing is known of, the peak is the greater sum."""
    sizes = ["64*((N + 1)//2)", "64*((M*N + 15)//16)", "128*K", "64*min(M, 192) + 64*K"]
    times = [(0, 0), (1, 2), (1, 1), (2, 2)]
    buffers = [Buffer(str(i), parse_dim(s), *t) for i, (s, t) in enumerate(zip(sizes, times, strict=True))]
    total = plan_offsets(buffers)
    for binding in ({"N": 500, "M": 1, "K": 1}, {"N": 64, "M": 96, "K": 2}, {"N": 1, "M": 8, "K": 300}):
        first, tensor, *scratch = (b.size.evaluate(binding) for b in buffers)
        assert total.evaluate(binding) == max(first, tensor + max(scratch))


def test_sizes_are_compared_where_they_broadcast() -> None:
    at = {"N": 3, "M": 200}
    assert value_at(parse_dim("64*broadcast(N, M)"), at) == 64 * 200
    assert value_at(parse_dim("64*((broadcast(N + M, K) + 7)//8)"), at) == 64 * 26
    assert value_at(parse_dim("N - 8"), at) == 1


def test_alignment_is_no_op_where_it_is_proved() -> None:
    n = Dim.symbol("N")
    assert aligned(as_dim(1)) is as_dim(64)
    assert aligned(64 * n) is 64 * n
    assert aligned(4 * n).evaluate({"N": 1}) == 64
