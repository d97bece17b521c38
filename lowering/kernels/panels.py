"""Packing at run time: transposes in registers, and panels that make every load of the inner loop contiguous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from ..element_types import byte_width
from .emit import Emitter, Ix, lanes_of, scalar_type
from .register_tile import Products

Change: TypeAlias = Callable[[int, SSAValue], SSAValue]
"""Takes a row's number and a vector of it."""

AHEAD = 16
"""Rows ahead that are asked for: they lie in other pages, which the hardware does not prefetch."""


def transpose(e: Emitter, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """As many vectors as each has lanes, transposed: 64 shuffles for 16 x 16, 24 for 8 x 8.

    Neighbours are interleaved inside 128-bit groups first (cheap on every CPU), then whole groups change places.
    """
    lanes = len(rows)
    assert lanes_of(rows[0]) == lanes, "a square of registers"
    group = min(lanes, 16 // byte_width(scalar_type(rows[0])))
    rows = list(rows)
    width = 1
    while width < group:
        rows = _interleave(e, rows, width, group)
        width *= 2
    while width < lanes:
        rows = _gather_groups(e, rows, width, group)
        width *= 2
    return rows


def _interleave(e: Emitter, rows: list[SSAValue], width: int, group: int) -> list[SSAValue]:
    """Inside groups: interleaves rows r and r + width of each block of 2 * width, by runs of `width` elements."""
    lanes = len(rows)
    result = list(rows)
    for block in range(0, lanes, 2 * width):
        for r in range(width):
            a, b = rows[block + r], rows[block + width + r]
            for half in range(2):
                picked: list[int] = []
                for start in range(0, lanes, group):
                    for run in range(half * group // 2, (half + 1) * group // 2, width):
                        picked += range(start + run, start + run + width)
                        picked += range(lanes + start + run, lanes + start + run + width)
                result[block + 2 * r + half] = e.shuffle(a, b, picked)
    return result


def _gather_groups(e: Emitter, rows: list[SSAValue], width: int, group: int) -> list[SSAValue]:
    """Whole groups: of rows r and r + width, the even groups go to the first, the odd ones to the second."""
    lanes = len(rows)
    result = list(rows)
    for r in range(lanes):
        if r & width:
            continue
        for odd in range(2):
            picked = [g + i for g in range(odd * group, 2 * lanes, 2 * group) for i in range(group)]
            result[r + odd * width] = e.shuffle(rows[r], rows[r + width], picked)
    return result


def reduced_across(e: Emitter, combine: Callable[[SSAValue, SSAValue], SSAValue], rows: Sequence[SSAValue]) -> SSAValue:
    """The vector whose lane r is all lanes of rows[r] combined, in the order of `Emitter.reduce`; 30 shuffles for 16.

    Rows are paired, and each pair's halves combined, until one vector is left: whole 128-bit groups first.
    """
    lanes = len(rows)
    group = min(lanes, 16 // byte_width(scalar_type(rows[0])))
    groups = lanes // group
    # in this order the last steps leave the rows in theirs
    vectors = [rows[n % groups * group + n // groups] for n in range(lanes)]
    parts = groups
    while parts > 1:
        half = parts // 2 * group
        starts = range(0, lanes, parts * group)
        low = [start + n for start in (*starts, *(lanes + s for s in starts)) for n in range(half)]
        vectors = _paired(e, combine, vectors, low, half)
        parts //= 2
    together = 1
    while together < group:
        low: list[int] = []
        for start in range(0, lanes, group):
            for run in range(start, start + group // 2, together):
                low += [side + n for side in (run, lanes + run) for n in range(together)]
        vectors = _paired(e, combine, vectors, low, group // 2)
        together *= 2
    [result] = vectors
    return result


def _paired(
    e: Emitter,
    combine: Callable[[SSAValue, SSAValue], SSAValue],
    vectors: Sequence[SSAValue],
    low: Sequence[int],
    distance: int,
) -> list[SSAValue]:
    """Of neighbours, the lanes `low` combined with those `distance` behind them."""
    high = [lane + distance for lane in low]
    return [combine(e.shuffle(a, b, low), e.shuffle(a, b, high)) for a, b in zip(vectors[::2], vectors[1::2])]


def slack(lanes: int, pitch: int) -> int:
    """Elements behind a panel's end that packing may overwrite: it stores whole vectors, whole chunks of the depth."""
    return lanes * pitch + lanes


def pack_across(
    e: Emitter,
    products: Products,
    source: SSAValue,
    row_at: Callable[[int], Ix],
    rows: int,
    depth: Ix,
    panel: SSAValue,
    at: Ix,
    pitch: int,
    change: Change | None = None,
) -> None:
    """panel[at + k * pitch + r] = source[row_at(r) + k]: the depth is contiguous in memory, so registers transpose.

    `depth` counts elements; where several are multiplied in one step, k stands for so many.  What is stored of row r is
    change(r, what is loaded), lane by lane.  Writes up to `slack` elements more: panels that touch are to be packed in
    ascending order.  With a pitch of whole vectors and room for whole chunks of `lanes` steps
    nothing else is touched, so that threads can share the work.
    """
    lanes = e.target.lanes(products.bytes)
    groups = [range(first, min(first + lanes, rows)) for first in range(0, rows, lanes)]
    if pitch % lanes:
        # whole vectors overlap the next step's rows, so the steps must be stored in order
        _pack_groups(e, products, source, row_at, groups, depth, panel, at, pitch, change)
        return
    for group in groups:
        _pack_groups(e, products, source, row_at, [group], depth, panel, at, pitch, change)


def _pack_groups(
    e: Emitter,
    products: Products,
    source: SSAValue,
    row_at: Callable[[int], Ix],
    groups: Sequence[range],
    depth: Ix,
    panel: SSAValue,
    at: Ix,
    pitch: int,
    change: Change | None,
) -> None:
    lanes = e.target.lanes(products.bytes)
    zero = e.constant(0, products.packed, lanes)
    starts = [[row_at(r) for r in group] for group in groups]
    with e.loop(0, depth.ceildiv(products.per_step), lanes) as chunk:
        k = chunk.index
        element = k * products.per_step
        left = depth - element
        squares: list[list[SSAValue]] = []
        for group, places in zip(groups, starts):
            square = [products.load_along(e, source, element + start, left, lanes) for start in places]
            if change is not None:
                square = [change(r, value) for r, value in zip(group, square)]
            squares.append(transpose(e, square + [zero] * (lanes - len(square))))
        place = k * pitch + at
        for step in range(lanes):
            for group, square in zip(groups, squares):
                e.store_vector(square[step], panel, place + (step * pitch + group.start))


def pack_along(
    e: Emitter,
    products: Products,
    source: SSAValue,
    source_at: Ix,
    source_pitch: Ix,
    valid: Ix,
    rows: int,
    depth: Ix,
    panel: SSAValue,
    at: Ix,
    pitch: int,
) -> None:
    """panel[at + k * pitch + r] = source[source_at + k * source_pitch + r] for r < valid, 0 for the other r < rows.

    `depth` counts elements, k steps.  Writes up to `slack` elements more, as `pack_across`.
    """
    lanes = e.target.lanes(products.bytes)
    masks = [e.mask(valid - first, lanes) for first in range(0, rows, lanes)]
    with e.loop(0, depth.ceildiv(products.per_step)) as step:
        k = step.index
        element = k * products.per_step
        for v, mask in enumerate(masks):
            for n in range(products.per_step):
                e.prefetch(source, (element + (AHEAD + n)) * source_pitch + source_at + v * lanes)
            place = element * source_pitch + source_at + v * lanes
            vector = products.load_across(e, source, place, source_pitch, depth - element, lanes, mask)
            e.store_vector(vector, panel, k * pitch + at + v * lanes)
