"""Magnitudes of size expressions bound everything that is computed on the way."""

from __future__ import annotations

import itertools
import re

import pytest
from sardonyx.codegen.entry_sizes import ANY, MAGNITUDE_LIMIT, Sizes, largest_magnitude
from sardonyx.codegen.llvm_types import I64
from sardonyx.codegen.scalar import ScalarBuilder
from sardonyx.dialects.dims import parse_dim

LIMIT = 5


@pytest.mark.parametrize(
    "text",
    [
        "N", "2*N*M - 7*N + 3", "N//M", "(3*N + 1)//(M + 1)*4", "N*N*N % (M + 2)", "max(N, M*M) - min(N, 4)",
        "broadcast(N, M)*N", "-N*M", "(-24)//(N*M + 1)", "7", "0",
    ],
)  # fmt: skip
def test_the_magnitude_bounds_every_value(text: str) -> None:
    dim = parse_dim(text)
    bound = largest_magnitude(dim, lambda symbol: float(LIMIT))
    for n, m in itertools.product(range(-LIMIT, LIMIT + 1), repeat=2):
        try:
            value = dim.evaluate({"N": n, "M": m})
        except (ArithmeticError, ValueError):  # a quotient by zero, or sizes that do not broadcast
            continue
        assert abs(value) <= bound


def test_an_argument_counts_as_much_as_the_value() -> None:
    inner = parse_dim("(N*N*N*N)//(N*N*N + 1)")
    assert largest_magnitude(inner, lambda symbol: 2.0**31) >= MAGNITUDE_LIMIT
    assert largest_magnitude(parse_dim("(N*M)%8"), lambda symbol: 2.0**32) >= MAGNITUDE_LIMIT
    assert largest_magnitude(parse_dim("24//(N*M + 1)"), lambda symbol: 1000.0) < 2e6


def test_high_powers_are_infinite_and_no_error() -> None:
    text = "*".join(["N"] * 60)
    assert largest_magnitude(parse_dim(text), lambda symbol: 2.0**63) == float("inf")


I, J = "min(max(v2 + 1, 0), 1)", "min(max(v3 + 1, 0), 1)"
BEFORE = f"(d + v1)*{I} + max(d + v2, v1 + v2, 0)*{I} + min(max(d, v1), v3)*{J} + {J} + min(v3 + 1, 0)"
WITHIN = f"max(d + v1, d + v2 + min(d, v1), v1 + v2 + min(d, v1))*{I} + max(d, v1)*{J}"
CROPPED = (
    f"max({BEFORE} + d, {BEFORE} + v1, {WITHIN} + 1, {WITHIN} + d + v2 + 1, {WITHIN} + v1 + v2 + 1)"
    f" - ({WITHIN}) - max(d + v2, v1 + v2, 0) - 1"
)


def test_sizes_with_many_conditions_take_few_instructions() -> None:
    """Each of 6 conditions, and of those inside of calls, would double what is computed."""
    dims = [parse_dim(re.sub(r"\bd\b|\bv\d", rf"\g<0>{axis}", CROPPED)) for axis in range(3)]
    total = dims[0] * dims[1] * dims[2]
    symbols = sorted(total.symbols)
    builder = ScalarBuilder("sizes", [I64] * len(symbols))
    sizes = Sizes(builder)
    for name, value in zip(symbols, builder.args, strict=True):
        sizes.bind(name, value, ANY)
    assert sizes.needs_check(total)
    sizes.is_small(total)
    sizes.value(total)
    assert len(builder.block.ops) < 5000
