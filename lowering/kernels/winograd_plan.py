"""Policy of Winograd's algorithm: whether it pays, what vectors run over, the register tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...dialects.dims import as_dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, VECTOR_WIDTH, Choices, Given, given_number
from .conv_plan import CHANNELS, L2_BYTES_A_CYCLE, NOTHING, POSITIONS, TRANSPOSE_CYCLES, WINOGRAD, cycles_of
from .register_tile import Products, RegisterTile, largest_rows
from .window import Axis, Convolution, Windows

PATCH = 16
"""Elements of a 4x4 patch."""
LEAST_CHANNELS = 16
INPUT_CYCLES, OUTPUT_CYCLES = 28, 40
"""For the transform of a vector of patches, and of a vector of sums with its stores, about."""


def applies(c: Convolution) -> bool:
    """Whether the convolution has the form: 3x3, stride 1, one group, no dilation, sizes known."""
    axes = c.windows.axes
    three = as_dim(3)
    return (
        len(axes) == 2
        and c.groups == 1
        and all(a.kernel is three and a.stride == 1 and a.dilation == 1 for a in axes)
        and all(d.is_const and d.value >= LEAST_CHANNELS for d in (c.depth, c.rows))
    )


def tile_windows(c: Convolution) -> Windows:
    """The patches: windows of 4 with stride 2, one for each tile of results."""
    four = as_dim(4)
    return Windows(tuple(Axis(a.size, (a.out + 1) // 2, four, 2, 1, a.before) for a in c.windows.axes))


@dataclass(frozen=True)
class WinogradPlan(Choices):
    """How one convolution is computed by this algorithm.

    `rows`, `vectors`: the register tile.
    `vectors_over`: what its vectors run over, `positions`, or `channels` (see `winograd_channels`).
    `steps_ahead`: how far ahead weights are asked for (0: not).
    """

    rows: int
    vectors: int
    vectors_over: str
    steps_ahead: int
    lanes: int
    algorithm: str = WINOGRAD

    FIXED = {"lanes": VECTOR_WIDTH, "algorithm": "another algorithm rounds differently (`exact` turns this one off)"}


def plan_of(tile: RegisterTile, channels: bool, given: Given) -> WinogradPlan:
    """The choices around a register tile."""
    ahead, grain = given_number(given, "steps_ahead", 32), given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
    over = CHANNELS if channels else POSITIONS
    return WinogradPlan(tile.rows, tile.vectors, over, ahead, tile.lanes, grain_cycles=grain)


def choose(c: Convolution, products: Products, target: Target, given: Given = NOTHING) -> WinogradPlan | None:
    """The best plan; None where the direct form is as fast, or the sizes are not known.

    Whether it is None does not depend on what is given, for it changes rounding.
    """
    windows = tile_windows(c)
    if target.plain or not applies(c) or not windows.positions.is_const:
        return None
    plans = dict(_candidates(c, windows, products, target, given))
    if not plans or min(plans.values()) > 0.9 * cycles_of(c, products, target):
        return None
    names = ("rows", "vectors", "vectors_over")
    wanted = [p for p in plans if all(given.get(n, getattr(p, n)) == getattr(p, n) for n in names)]
    return min(wanted or plans, key=lambda p: plans[p])


def _candidates(
    c: Convolution, windows: Windows, products: Products, target: Target, given: Given
) -> Iterator[tuple[WinogradPlan, float]]:
    """Plans with their estimated work."""
    lanes, bytes_ = target.lanes(products.bytes), products.bytes
    for vectors in range(1, 5):
        for rows in range(1, largest_rows(target.vector_registers, vectors) + 1):
            tile = RegisterTile(rows, vectors, lanes)
            if PATCH * c.depth.value * vectors * lanes * bytes_ <= target.l2 * 2 // 3:
                yield plan_of(tile, False, given), _positions_cycles(c, windows, target, tile, products)
            work = _channels_cycles(c, tile, bytes_, target)
            if work is not None:
                yield plan_of(tile, True, given), work


def _positions_cycles(
    c: Convolution, windows: Windows, target: Target, tile: RegisterTile, products: Products
) -> float:
    depth, height = c.depth.value, c.rows.value
    blocks = -(-windows.positions.value // tile.columns)
    step = max(tile.rows * tile.vectors, 8, tile.rows + tile.vectors) / 2 + 0.3
    # the weights of a row tile come from behind L2, where they do not fit there
    weights = PATCH * depth * tile.rows * products.bytes
    if PATCH * depth * height * products.bytes > target.l2 // 2:
        step = max(step, weights / (PATCH * depth) / 6)
    row_tile = PATCH * (depth * step + tile.rows * tile.vectors + 10) + tile.rows * tile.vectors * OUTPUT_CYCLES
    return blocks * (depth * tile.vectors * INPUT_CYCLES + -(-height // tile.rows) * row_tile)


MOST_TILES = 8
"""Register tiles that are written out for a block."""
DRAM_BYTES_A_CYCLE = 8
"""What memory gives, about."""


def block_rows(windows: Windows, depth: int, bytes_: int, l2: int) -> int:
    """Rows of tiles in a block: as many as V has room for in L2, in equal blocks."""
    height = windows.axes[0].out.value
    row = PATCH * depth * windows.pitches[0].value * bytes_
    most = max(1, l2 * 9 // 10 // row)
    return -(-height // -(-height // most))


def heights(tiles: int, rows: int) -> list[int]:
    """Equal heights for register tiles of at most so many rows."""
    number = -(-tiles // rows)
    return [tiles // number + (i < tiles % number) for i in range(number)]


def _channels_cycles(c: Convolution, tile: RegisterTile, bytes_: int, target: Target) -> float | None:
    """The estimated work for one image; None where the form does not suit."""
    windows = tile_windows(c)
    rows = block_rows(windows, c.depth.value, bytes_, target.l2)
    height, width = (a.out.value for a in windows.axes)
    depth, channels = c.depth.value, c.rows.value
    parts = heights(rows * width, tile.rows)
    if len(parts) > MOST_TILES:
        return None
    blocks, column_tiles = -(-height // rows), -(-channels // tile.columns)
    # all register tiles but the first one find the weights in L2
    streamed = 2 * tile.columns * bytes_ / L2_BYTES_A_CYCLE if depth * tile.columns * bytes_ > target.l1 else 0
    steps = sum(
        depth * (max(h * tile.vectors, 8, h + tile.vectors, streamed) / 2 + 0.3) + h * tile.vectors + 30 for h in parts
    )
    product = blocks * column_tiles * PATCH * steps
    weights = PATCH * depth * channels * bytes_
    if weights > target.l2:
        product = max(product, blocks * weights / DRAM_BYTES_A_CYCLE)
    vectors = -(-(rows * windows.pitches[0].value) // tile.lanes)
    squares = 2 * rows * -(-2 * width // tile.lanes)
    return (
        product
        + blocks * depth * vectors * 2 * INPUT_CYCLES
        + blocks * -(-channels // tile.lanes) * (rows * width * OUTPUT_CYCLES + squares * 2 * TRANSPOSE_CYCLES)
    )
