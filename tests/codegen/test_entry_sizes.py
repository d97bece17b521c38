"""Magnitudes of size expressions bound everything that is computed on the way."""

from __future__ import annotations

import itertools

import pytest
from sardonyx.codegen.entry_sizes import MAGNITUDE_LIMIT, largest_magnitude
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
