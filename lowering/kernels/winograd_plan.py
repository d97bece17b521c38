"""Policy of Winograd's algorithm: whether it pays, its form, what vectors run over, the register tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from ...dialects.dims import as_dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, VECTOR_WIDTH, Choices, Given, given_number
from .conv_plan import (
    CHANNELS,
    L2_BYTES_A_CYCLE,
    NOTHING,
    POSITIONS,
    TRANSPOSE_CYCLES,
    WINOGRAD,
    cycles_by,
)
from .conv_plan import choose as choose_direct
from .register_tile import Products, RegisterTile, largest_rows
from .window import Axis, Convolution, Windows
from .winograd_forms import FORMS, Form

LEAST_CHANNELS = 16
TERM_CYCLES, SUM_CYCLES, RESULT_CYCLES = 1.75, 1.5, 4
"""Of the transforms, about: for a vector of each term; for one of each sum, and of each result with its store."""
SHARE_OF_DIRECT, SHARE_OF_ANY_SIZE = 0.85, 0.95
"""Of the direct form's estimated work, that the algorithm may take.  Where only a call tells the sizes, the direct form
has more empty lanes than its estimate for each of them knows."""
TYPICAL_SIZES = (6, 20, 40)
"""Output rows and columns that a convolution is planned for where they are not known."""


def forms(c: Convolution) -> Iterator[Form]:
    """The forms that the convolution has: of 3x3 windows, one group, no dilation, channels known."""
    axes = c.windows.axes
    three = as_dim(3)
    if (
        len(axes) == 2
        and c.groups == 1
        and all(a.kernel is three and a.dilation == 1 for a in axes)
        and all(d.is_const and d.value >= LEAST_CHANNELS for d in (c.depth, c.rows))
    ):
        yield from (f for f in FORMS if all(a.stride == line.stride for a, line in zip(axes, f.lines)))


def tile_windows(c: Convolution, form: Form) -> Windows:
    """The patches: windows of their size, one for each tile of results."""
    return Windows(
        tuple(
            Axis(a.size, (a.out + (line.outputs - 1)) // line.outputs, as_dim(line.patch), line.step, 1, a.before)
            for a, line in zip(c.windows.axes, form.lines)
        )
    )


@dataclass(frozen=True)
class WinogradPlan(Choices):
    """How one convolution is computed by this algorithm.

    `form`: the name of one of `winograd_forms.FORMS`.
    `rows`, `vectors`: the register tile.
    `vectors_over`: what its vectors run over, `positions`, or `channels` (see `winograd_channels`).
    `steps_ahead`: how far ahead weights are asked for (0: not).
    """

    form: str
    rows: int
    vectors: int
    vectors_over: str
    steps_ahead: int
    lanes: int
    algorithm: str = WINOGRAD

    FIXED = {
        "lanes": VECTOR_WIDTH,
        "algorithm": "another algorithm rounds differently (`exact` turns this one off)",
        "form": "another form rounds differently",
    }


def plan_of(form: Form, tile: RegisterTile, channels: bool, given: Given) -> WinogradPlan:
    """The choices around a form and a register tile."""
    ahead, grain = given_number(given, "steps_ahead", 32), given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
    over = CHANNELS if channels else POSITIONS
    return WinogradPlan(form.name, tile.rows, tile.vectors, over, ahead, tile.lanes, grain_cycles=grain)


def choose(
    c: Convolution, products: Products, target: Target, given: Given = NOTHING, most: float | None = None
) -> WinogradPlan | None:
    """The best plan; None where the direct form is as fast.

    `most` is the work that it may take, where that does not follow from the direct form of these products.
    Whether it is None, and which form it has, does not depend on what is given, for these change rounding.
    """
    if target.plain:
        return None
    plans = {plan: work for form in forms(c) for plan, work in _candidates(c, form, products, target, given)}
    if not plans:
        return None
    best = min(plans, key=lambda p: plans[p])
    if most is None:
        direct = choose_direct(c, products, target)
        share = SHARE_OF_DIRECT if c.windows.positions.is_const else SHARE_OF_ANY_SIZE
        most = share * _mean(cycles_by(direct, like, products, target) for like in typical(c))
    if plans[best] > most:
        return None
    names = ("rows", "vectors", "vectors_over")
    plans = {p: work for p, work in plans.items() if p.form == best.form}
    wanted = [p for p in plans if all(given.get(n, getattr(p, n)) == getattr(p, n) for n in names)]
    return min(wanted or plans, key=lambda p: plans[p])


def _candidates(
    c: Convolution, form: Form, products: Products, target: Target, given: Given
) -> Iterator[tuple[WinogradPlan, float]]:
    """Plans with their estimated work."""
    lanes, bytes_ = target.lanes(products.bytes), products.bytes
    if not c.windows.positions.is_const:
        yield from _candidates_for_any_size(c, form, products, target, given)
        return
    windows = tile_windows(c, form)
    for vectors in range(1, 5):
        for rows in range(1, largest_rows(target.vector_registers, vectors) + 1):
            tile = RegisterTile(rows, vectors, lanes)
            if len(form.slots) * c.depth.value * vectors * lanes * bytes_ <= target.l2 * 2 // 3:
                yield plan_of(form, tile, False, given), _positions_cycles(c, form, windows, target, tile, products)
            work = _channels_cycles(c, form, tile, bytes_, target)
            if work is not None:
                yield plan_of(form, tile, True, given), work


def _transform_cycles(form: Form) -> tuple[float, float]:
    """For a vector of patches, and for a vector of tiles' results."""
    return TERM_CYCLES * len(form.slots), SUM_CYCLES * len(form.elements) + RESULT_CYCLES * form.results


def _positions_cycles(
    c: Convolution, form: Form, windows: Windows, target: Target, tile: RegisterTile, products: Products
) -> float:
    depth, height = len(form.slots) * c.depth.value, c.rows.value
    into, out = _transform_cycles(form)
    blocks = -(-windows.positions.value // tile.columns)
    step = max(tile.rows * tile.vectors, 8, tile.rows + tile.vectors) / 2 + 0.3
    # the weights of a row tile come from behind L2, where they do not fit there
    if depth * height * products.bytes > target.l2 // 2:
        step = max(step, tile.rows * products.bytes / 6)
    row_tile = depth * step + len(form.elements) * (tile.rows * tile.vectors + 10) + tile.rows * tile.vectors * out
    return blocks * (c.depth.value * tile.vectors * into + -(-height // tile.rows) * row_tile)


MOST_TILES = 8
"""Register tiles that are written out for a block."""
MOST_IMAGE_TILES = 112
"""Tiles of an image of any size in a block."""
DRAM_BYTES_A_CYCLE = 8
"""What memory gives, about."""


def block_rows(form: Form, windows: Windows, depth: int, bytes_: int, l2: int) -> int:
    """Rows of tiles in a block: as many as V has room for in L2, in equal blocks."""
    height = windows.axes[0].out.value
    row = len(form.slots) * depth * windows.pitches[0].value * bytes_
    most = max(1, l2 * 9 // 10 // row)
    return -(-height // -(-height // most))


def heights(tiles: int, rows: int) -> list[int]:
    """Equal heights for register tiles of at most so many rows."""
    number = -(-tiles // rows)
    return [tiles // number + (i < tiles % number) for i in range(number)]


def _channels_cycles(c: Convolution, form: Form, tile: RegisterTile, bytes_: int, target: Target) -> float | None:
    """The estimated work for one image; None where the form does not suit."""
    windows = tile_windows(c, form)
    rows = block_rows(form, windows, c.depth.value, bytes_, target.l2)
    height, width = (a.out.value for a in windows.axes)
    depth, channels = c.depth.value, c.rows.value
    parts = heights(rows * width, tile.rows)
    if len(parts) > MOST_TILES:
        return None
    into, out = _transform_cycles(form)
    slots, elements = len(form.slots), len(form.elements)
    blocks, column_tiles = -(-height // rows), -(-channels // tile.columns)
    # all register tiles but the first one find the weights in L2
    streamed = 2 * tile.columns * bytes_ / L2_BYTES_A_CYCLE if depth * tile.columns * bytes_ > target.l1 else 0
    steps = sum(
        slots * depth * (max(h * tile.vectors, 8, h + tile.vectors, streamed) / 2 + 0.3)
        + elements * (h * tile.vectors + 30)
        for h in parts
    )
    product = blocks * column_tiles * steps
    weights = slots * depth * channels * bytes_
    if weights > target.l2:
        product = max(product, blocks * weights / DRAM_BYTES_A_CYCLE)
    vectors = -(-(rows * windows.pitches[0].value) // tile.lanes)
    squares = form.rows.outputs * rows * -(-form.columns.outputs * width // tile.lanes)
    return (
        product
        + blocks * depth * vectors * 2 * into
        + blocks * -(-channels // tile.lanes) * (rows * width * out + squares * 2 * TRANSPOSE_CYCLES)
    )


# Sizes that only a call tells


def typical(c: Convolution) -> list[Convolution]:
    """The convolution for some sizes that a call may have, or itself where its sizes are known."""
    if c.windows.positions.is_const:
        return [c]
    return [replace(c, windows=Windows(tuple(_sized(a, size) for a in c.windows.axes))) for size in TYPICAL_SIZES]


def _sized(axis: Axis, size: int) -> Axis:
    """An axis with so many outputs, unless it is known how many it has."""
    before = axis.before if axis.before.is_const else as_dim(1)
    if axis.out.is_const:
        return replace(axis, size=axis.size if axis.size.is_const else axis.out, before=before)
    return Axis(as_dim(size * axis.stride), as_dim(size), axis.kernel, axis.stride, axis.dilation, before)


def _mean(works: Iterable[float]) -> float:
    """The geometric mean, so that no size rules."""
    values = list(works)
    return prod(values) ** (1 / len(values))


def _candidates_for_any_size(
    c: Convolution, form: Form, products: Products, target: Target, given: Given
) -> Iterator[tuple[WinogradPlan, float]]:
    lanes, bytes_ = target.lanes(products.bytes), products.bytes
    for vectors in range(1, 5):
        for rows in range(2, min(lanes, largest_rows(target.vector_registers, vectors)) + 1):
            tile = RegisterTile(rows, vectors, lanes)
            work = _mean(_tiles_cycles(like, form, tile, bytes_, target) for like in typical(c))
            yield plan_of(form, tile, True, given), work


def last_heights(rows: int) -> list[int]:
    """The heights, rising, that a register tile may have where fewer tiles of the image are left."""
    return sorted({h for h in (rows // 7, rows // 4, rows // 2, rows * 3 // 4) if h > 0})


def tiles_at_once(form: Form, depth: int, tile: RegisterTile, bytes_: int, target: Target) -> int:
    """The most tiles in a block: as many whole register tiles as V has room for in L2 beside weights and products."""
    column = len(form.slots) * depth * bytes_
    most = target.l2 // 2 // column
    return max(1, min(most, MOST_IMAGE_TILES) // tile.rows) * tile.rows


def _tiles_cycles(
    c: Convolution, form: Form, tile: RegisterTile, bytes_: int, target: Target, bandwidth: int = DRAM_BYTES_A_CYCLE
) -> float:
    """The estimated work of `winograd_tiles` for one image."""
    depth, channels = c.depth.value, c.rows.value
    height, width = (a.out.value for a in tile_windows(c, form).axes)
    at_once = tiles_at_once(form, depth, tile, bytes_, target)
    into, out = _transform_cycles(form)
    slots, elements = len(form.slots), len(form.elements)
    columns = -(-channels // tile.columns)
    tiles, (rest, left) = height * width, divmod(height * width, tile.rows)
    heights_ = [tile.rows] * rest + [min(h for h in (*last_heights(tile.rows), tile.rows) if h >= left)] * (left > 0)
    streamed = 2 * tile.columns * bytes_ / L2_BYTES_A_CYCLE if depth * tile.columns * bytes_ > target.l1 else 0
    product = columns * sum(
        slots * depth * (max(h * tile.vectors, 8, h + tile.vectors, streamed) / 2 + 0.3)
        + elements * (h * tile.vectors + 30)
        for h in heights_
    )
    weights = slots * depth * channels * bytes_
    if weights > target.l2:
        product = max(product, -(-tiles // at_once) * weights / bandwidth)
    pixels = form.results * tiles
    return (
        product
        + depth * height * -(-width // tile.lanes) * 2 * into
        + -(-channels // tile.lanes) * (tiles * out + -(-pixels // tile.lanes) * 2 * TRANSPOSE_CYCLES)
    )


SMALL_ROWS = 6
"""Positions of a register tile on small maps: those of 2x2 are five with what is between their rows."""
L3_BYTES_A_CYCLE = 20
"""What the last cache gives, about."""
MOST_SMALL = 16
"""Rows and columns of maps that are called small, at most."""


def small_maps(
    c: Convolution, plan: WinogradPlan, products: Products, target: Target
) -> tuple[RegisterTile, int] | None:
    """The direct form's register tile for small maps, and up to how many positions it is for.

    None where sizes are known, or where the algorithm's weights stay in the second cache.
    """
    form = next(f for f in FORMS if f.name == plan.form)
    weights = c.depth.value * c.rows.value * products.bytes
    if c.windows.positions.is_const or 2 * len(form.slots) * weights < target.l2:
        return None
    vectors = max(v for v in range(1, 5) if v == 1 or largest_rows(target.vector_registers, v) >= SMALL_ROWS)
    tile, most = RegisterTile(SMALL_ROWS, vectors, target.lanes(products.bytes)), 0
    fast = RegisterTile(plan.rows, plan.vectors, plan.lanes)
    step = tile.rows * tile.vectors / 2 + 0.3
    for size in range(1, MOST_SMALL + 1):
        like = replace(c, windows=Windows(tuple(_sized(a, size) for a in c.windows.axes)))
        tiles = -(-like.windows.positions.value // tile.rows) * -(-c.rows.value // tile.columns)
        direct = tiles * (c.steps.value * step + 2 * TRANSPOSE_CYCLES * tile.vectors)
        direct = max(direct, c.windows.taps.value * weights / L3_BYTES_A_CYCLE)
        if direct > _tiles_cycles(like, form, fast, products.bytes, target, L3_BYTES_A_CYCLE):
            break
        most = like.windows.positions.value
    return (tile, most) if most else None
