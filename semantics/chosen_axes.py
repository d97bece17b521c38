"""Axes that are known at run time only: which axes of a shape they are, as expressions of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.dims import Dim
from ..dialects.dims.expression import ONE, ZERO, as_dim, dim_max, dim_min


def is_chosen(axes: Sequence[Dim], number: int, rank: int) -> Dim:
    """1 where one of the axes, which may count from the end, is that number, else 0."""
    flag = ZERO
    for axis in axes:
        flag = dim_max(flag, _is_zero(axis % rank - number))
    return flag


def _is_zero(value: Dim) -> Dim:
    return ONE - dim_min(dim_max(value, -value), ONE)


def reduced_to_one(dims: Sequence[Dim], axes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims with the chosen axes of size 1."""
    return tuple(d - (d - 1) * is_chosen(axes, a, len(dims)) for a, d in enumerate(dims))


def kept_only(dims: Sequence[Dim], axes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims without the chosen axes, which must differ from one another."""
    rank = len(dims)
    flags = [is_chosen(axes, a, rank) for a in range(rank)]
    before = [ZERO]  # how many kept axes there are in front of each
    for flag in flags:
        before.append(before[-1] + 1 - flag)
    kept: list[Dim] = []
    for place in range(rank - len(axes)):
        size = ZERO
        for a, d in enumerate(dims):
            size = size + d * (ONE - flags[a]) * _is_zero(before[a] - as_dim(place))
        kept.append(size)
    return tuple(kept)
