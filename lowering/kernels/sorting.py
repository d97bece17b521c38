"""A stable merge sort of indices, for templates: bottom up, between two arrays."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .emit import Emitter, Ix
from .topk import as_i64

Less = Callable[[Ix, Ix], SSAValue]
"""Whether the element with the first index comes before that with the second for certain."""


def sort_indices(e: Emitter, count: Ix, order: SSAValue, other: SSAValue, less: Less) -> None:
    """Leaves 0 .. count - 1 in `order` (i64), sorted; `other` is room for as many."""
    with e.loop(0, count) as fill:
        e.store(as_i64(e, fill.index), order, fill.index)

    def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
        return e.ix(state[0]).compare("slt", count)

    def double(state: tuple[SSAValue, ...]) -> list[SSAValue]:
        width = e.ix(state[0])
        with e.loop(0, count, width * 2) as runs:
            middle, end = (runs.index + width).min(count), (runs.index + width * 2).min(count)
            merge(e, order, other, less, runs.index, middle, end)
        with e.loop(0, count) as back:
            e.store(e.load(other, back.index), order, back.index)
        return [(width * 2).ssa]

    e.while_([e.ix(1).ssa], goes_on, double)


def merge(e: Emitter, source: SSAValue, dest: SSAValue, less: Less, first: Ix, middle: Ix, end: Ix) -> None:
    """Two sorted runs side by side as one; of equal elements those of the first run come first."""
    with e.loop(first, end, carried=[first.ssa, middle.ssa]) as loop:
        left, right = e.ix(loop.carried[0]), e.ix(loop.carried[1])
        a, b = (e.load(source, at.min(end - 1)) for at in (left, right))
        is_later = less(e.as_index(b), e.as_index(a))
        takes_right = e.both(right.compare("slt", end), e.bits("or", is_later, left.compare("sge", middle)))
        e.store(e.select(takes_right, b, a), dest, loop.index)
        next_left = e.select_index(takes_right, left, left + 1)
        next_right = e.select_index(takes_right, right + 1, right)
        loop.carry([next_left.ssa, next_right.ssa])
