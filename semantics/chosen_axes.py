"""Axes that are known at run time only: which axes of a shape they are, as expressions of 0 and 1.

What several such axes leave of a shape has no expression that is worth writing: those results stay open.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.dims import Dim
from ..dialects.dims.expression import ONE, ZERO, dim_max, dim_min


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


def without_one(dims: Sequence[Dim], axis: Dim) -> tuple[Dim, ...]:
    """The dims without the chosen axis: each that is left is the one at its place, or the next."""
    at = axis % len(dims)
    later = [_is_above(at, place) for place in range(len(dims))]
    return tuple(d + (dims[place + 1] - d) * (ONE - later[place]) for place, d in enumerate(dims[:-1]))


def _is_above(value: Dim, bound: int) -> Dim:
    return dim_min(dim_max(value - bound, ZERO), ONE)


def with_one(dims: Sequence[Dim], axis: Dim) -> tuple[Dim, ...]:
    """The dims with an axis of size 1 at the chosen place of the result."""
    rank = len(dims) + 1
    at = axis % rank
    result: list[Dim] = []
    for place in range(rank):
        here, later = _is_zero(at - place), _is_above(at, place)
        mine = dims[place] if place < len(dims) else ONE
        before = dims[place - 1] if place else ONE
        result.append(before + (mine - before) * later + (ONE - before) * here)
    return tuple(result)
