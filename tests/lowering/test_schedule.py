"""The memory plan: nothing that lives at the same time overlaps, at any size, and the peak is what is touched."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from sardonyx.dialects.dims import Dim, as_dim, parse_dim
from sardonyx.lowering.schedule import ALIGNMENT, Buffer, aligned, plan_offsets

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


def test_alignment_is_no_op_where_it_is_proved() -> None:
    n = Dim.symbol("N")
    assert aligned(as_dim(1)) is as_dim(64)
    assert aligned(64 * n) is 64 * n
    assert aligned(4 * n).evaluate({"N": 1}) == 64
