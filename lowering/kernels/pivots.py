"""The step that eliminations of matrices share: the search for a column's pivot, in f64."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .emit import Emitter, Ix


def pivot_row(e: Emitter, at: Callable[[Ix, Ix], SSAValue], k: Ix, n: Ix) -> Ix:
    """The row from k up to n with the largest element in column k, the first of equals; `at` loads an element."""
    start = e.math("absf", at(k, k))
    with e.loop(k + 1, n, carried=[k.ssa, start]) as loop:
        value = e.math("absf", at(loop.index, k))
        better = e.compare("ogt", value, loop.carried[1])
        row = e.select_index(better, loop.index, loop.carried[0])
        loop.carry([row.ssa, e.select(better, value, loop.carried[1])])
    return e.ix(loop.results[0])
