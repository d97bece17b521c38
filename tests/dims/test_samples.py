"""Samples are values that expressions have at bindings within the ranges of their symbols."""

from __future__ import annotations

import pytest
from sardonyx.dialects.dims import parse_dim
from sardonyx.dialects.dims.expression import Atom, Dim, DimError
from sardonyx.dialects.dims.interval import Ranges, default_range, is_signed
from sardonyx.dialects.dims.samples import POINTS, Values, of_dim, of_symbol

TEXTS = [
    "N", "v0", "3*N*M - v1*v1 + 7", "N//M + N % (M + 1)", "min(N, 2*M, v0) - max(N - M, 0)", "broadcast(N, M)*2",
    "min(max(v0 + 1, 0), 1)*(N - M) + M", "(N + 31)//32*32 - N", "broadcast(N, 4)//(N - M)", "5", "0",
]  # fmt: skip
NAMES = ("N", "M", "v0", "v1")


def own(atom: Atom) -> Values:
    return atom.samples


@pytest.mark.parametrize("text", TEXTS)
def test_samples_are_values(text: str) -> None:
    dim = parse_dim(text)
    for at, value in enumerate(of_dim(dim, own)):
        assert value == evaluated(dim, {n: of_symbol(n, is_signed(n))[at] for n in NAMES})


@pytest.mark.parametrize("text", TEXTS)
def test_samples_within_ranges_are_values(text: str) -> None:
    dim = parse_dim(text)
    ranges = Ranges({"N": (3, 9), "v0": (-2, float("inf"))})
    points = {n: of_dim(Dim.symbol(n), ranges.samples) for n in NAMES}
    assert all(v is not None and 3 <= v <= 9 for v in points["N"])
    for at, value in enumerate(of_dim(dim, ranges.samples)):
        assert value == evaluated(dim, {n: v for n in NAMES if (v := points[n][at]) is not None})


@pytest.mark.parametrize("name", ["N", "v0", "d17", "batch_size", "s_x_0"])
def test_samples_of_symbols_are_in_their_range(name: str) -> None:
    low, high = default_range(name)
    values = of_symbol(name, is_signed(name))
    assert len(values) == POINTS
    assert all(v is not None and low <= v <= high for v in values)
    assert {low, high} <= set(values)


def evaluated(dim: Dim, binding: dict[str, int | None]) -> int | None:
    try:
        return dim.evaluate({n: v for n, v in binding.items() if v is not None})
    except (ZeroDivisionError, DimError):
        return None
