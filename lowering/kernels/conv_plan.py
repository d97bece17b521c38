"""Policy of the conv template: which operand is in vectors, tile sizes, loop order, prefetching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...dialects.dims import Dim
from ...dialects.target import Target
from .register_tile import Products, RegisterTile, largest_rows
from .window import ONE, Convolution

TYPICAL_POSITIONS = 784
"""Output positions that a tile is chosen for where they are not known."""
TYPICAL_ROWS = 64
"""Output channels, likewise."""
L2_BYTES_A_CYCLE = 20
"""What L2 gives an inner loop beside its other loads, about."""
TRANSPOSE_CYCLES = 100
"""For the store of one square of registers that has to be turned."""


@dataclass(frozen=True)
class ConvPlan:
    """How one convolution is computed.

    Vectors run over positions, and a tile's rows are output channels; with `pixels` it is the other way round, which
    wastes less on small images.  With `rows_outside` all positions are computed for some output channels, else all
    channels for some positions.  The prefetches ask for what is so many channels, tiles and steps ahead (0: not).
    """

    tile: RegisterTile
    pixels: bool
    rows_outside: bool
    channels_ahead: int
    tiles_ahead: int
    steps_ahead: int


def choose(c: Convolution, products: Products, target: Target) -> ConvPlan:
    """The plan with the least estimated work."""
    tile, pixels = min(_candidates(c, products, target), key=lambda p: _cycles(c, products, target, *p))
    return plan_of(c, products, target, tile, pixels)


def cycles_of(c: Convolution, products: Products, target: Target) -> float:
    """The estimated work of the best plan for one image."""
    return min(_cycles(c, products, target, *p) for p in _candidates(c, products, target))


def choose_rows(c: Convolution, products: Products, target: Target, extra: bool) -> RegisterTile:
    """The best tile with channels as rows; `extra` for one row more, which is no channel's."""
    tiles = [t for t, pixels in _candidates(c, products, target) if not pixels]
    if extra:
        registers = target.vector_registers
        tiles = [t for t in tiles if t.registers + t.vectors <= registers]
    best = min(tiles, key=lambda t: _cycles(c, products, target, t, False))
    return RegisterTile(best.rows + extra, best.vectors, best.lanes)


def plan_of(c: Convolution, products: Products, target: Target, tile: RegisterTile, pixels: bool) -> ConvPlan:
    """The plan for a given tile."""
    weights = _known(c.rows * c.steps) * products.bytes
    image = _known(c.windows.channel * c.depth) * products.bytes
    one_tap = c.windows.taps == ONE
    big_weights = weights > target.l2 // 2
    return ConvPlan(
        tile,
        pixels,
        rows_outside=big_weights and image <= max(target.l2 // 2, weights),
        # the taps of a channel are near each other, so only with one tap does each step go to other lines
        channels_ahead=8 if one_tap and not pixels else 0,
        tiles_ahead=1 if one_tap and not pixels and image > target.l2 else 0,
        steps_ahead=32 if big_weights else 0,
    )


def _candidates(c: Convolution, products: Products, target: Target) -> Iterator[tuple[RegisterTile, bool]]:
    lanes = target.lanes(products.bytes)
    registers = target.vector_registers - (0 if products.fused else 1)
    height, width = _known(c.rows, TYPICAL_ROWS), _known(c.windows.positions, TYPICAL_POSITIONS)
    if target.plain:
        yield RegisterTile(1, 1, lanes), False
        return
    for vectors in range(1, 9):
        for rows in range(1, min(height, largest_rows(registers, vectors)) + 1):
            yield RegisterTile(rows, vectors, lanes), False
    if not c.windows.positions.is_const or c.rows == ONE:
        return
    for vectors in range(1, 4):
        for rows in range(1, min(width, lanes, largest_rows(registers, vectors)) + 1):
            yield RegisterTile(rows, vectors, lanes), True


def _cycles(c: Convolution, products: Products, target: Target, tile: RegisterTile, pixels: bool) -> float:
    """Whole tiles, each step as long as what limits it, and the stores."""
    height, width = _known(c.rows, TYPICAL_ROWS), _known(c.windows.positions, TYPICAL_POSITIONS)
    steps = _known(c.steps, 576)
    outer, inner = (width, height) if pixels else (height, width)
    tiles = -(-outer // tile.rows) * -(-inner // tile.columns)
    # two sums a cycle, unless fewer than 8 are in flight; two loads, and vectors across lines count twice
    sums = max(tile.rows * tile.vectors, 8) / 2
    loads = (tile.rows + tile.vectors * (1 if pixels or c.windows.taps == ONE else 2)) / 2
    # with several taps the vectors of a channel overlap
    streamed = tile.columns if pixels else tile.columns / max(1, _known(c.windows.taps, 9) ** 0.5)
    streamed = (streamed + tile.rows) * products.bytes
    behind_l1 = streamed * steps > target.l1 * 0.6
    step = max(sums, loads, streamed / L2_BYTES_A_CYCLE if behind_l1 else 0) + 0.3
    stores = tile.rows * tile.vectors * 2 + 40
    if pixels:
        stores += TRANSPOSE_CYCLES * tile.vectors
    return tiles * (step * steps + stores)


def _known(dim: Dim, typical: int = TYPICAL_ROWS) -> int:
    return dim.value if dim.is_const else typical
