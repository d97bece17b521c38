"""Policy of the conv template: which operand is in vectors, tile sizes, loop order, prefetching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ...dialects.dims import Dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, VECTOR_WIDTH, Choices, Given, given_number
from .register_tile import Products, RegisterTile, largest_rows
from .window import ONE, Convolution, Windows

TYPICAL_POSITIONS = 784
"""Output positions that are many, where they are not known."""
POSITIONS_OF_IMAGES = (36, 400, 1600)
"""Those of images that a tile is chosen for, likewise: one number alone may fit an odd tile by chance."""
FEW_POSITIONS = 8
"""As many along one axis may as well be few: a stretch of sound comes in pieces."""
TYPICAL_ROWS = 64
"""Output channels, likewise."""
L2_BYTES_A_CYCLE = 20
"""What L2 gives an inner loop beside its other loads, about."""
FEW_STEPS = 160
"""Up to so many products to a sum, its way by memory to the epilogue shows."""
WAY_CYCLES = 6
"""Of a vector of sums by memory, of which a store from registers hides most in the next tile."""
SINGLE_SHARE = 1.08
"""What a step takes where each scalar is for one vector only."""
TRANSPOSE_CYCLES = 100
"""For the store of one square of registers that has to be turned."""


POSITIONS, CHANNELS = "positions", "channels"
DIRECT, DEPTHWISE, WINOGRAD = "direct", "depthwise", "winograd"
"""Algorithms.  The first two add in the same order; the third changes rounding, so nobody but `exact` turns it off."""
NOTHING: Given = {}


@dataclass(frozen=True)
class ConvPlan(Choices):
    """How one convolution is computed directly.

    `rows`, `vectors`: the register tile.
    `vectors_over`: what vectors run over, `positions` (a tile's rows are output channels then) or `channels` (the rows
    are positions), which wastes less on small images.
    `outer`: with `channels` all positions are computed for some output channels, else all channels for some positions.
    `channels_ahead`, `tiles_ahead`, `steps_ahead`: prefetches of what is so far ahead (0: none).
    """

    rows: int
    vectors: int
    vectors_over: str
    outer: str
    channels_ahead: int
    tiles_ahead: int
    steps_ahead: int
    lanes: int
    algorithm: str = DIRECT

    FIXED = {"lanes": VECTOR_WIDTH}

    @property
    def tile(self) -> RegisterTile:
        return RegisterTile(self.rows, self.vectors, self.lanes)

    @property
    def pixels(self) -> bool:
        """Whether rows are positions."""
        return self.vectors_over == CHANNELS

    @property
    def rows_outside(self) -> bool:
        return self.outer == CHANNELS


def choose(c: Convolution, products: Products, target: Target, given: Given = NOTHING) -> ConvPlan:
    """The plan with the least estimated work of those that are as given; of all, where none is."""
    candidates = list(_candidates(c, products, target))
    wanted = [p for p in candidates if _is_as_given(*p, given)] or candidates
    tile, pixels = min(wanted, key=lambda p: _cycles(c, products, target, *p))
    return plan_of(c, products, target, tile, pixels, given)


def cycles_of(c: Convolution, products: Products, target: Target) -> float:
    """The estimated work of the best plan for one image."""
    return min(_cycles(c, products, target, *p) for p in _candidates(c, products, target))


def cycles_by(plan: ConvPlan, c: Convolution, products: Products, target: Target) -> float:
    """The estimated work of a plan for one image."""
    return _cycles(c, products, target, plan.tile, plan.pixels)


def choose_for_bytes(
    c: Convolution, products: Products, target: Target, extra: bool, given: Given = NOTHING
) -> tuple[RegisterTile, bool]:
    """The best tile, and whether its rows are positions; `extra` for one row more, which is no channel's."""
    candidates = list(_candidates(c, products, target))
    if extra:
        fits = [t for t, pixels in candidates if not pixels and t.registers + t.vectors <= target.vector_registers]
        candidates = [(RegisterTile(t.rows + 1, t.vectors, t.lanes), False) for t in fits]
    wanted = [p for p in candidates if _is_as_given(*p, given)] or candidates

    def cycles(candidate: tuple[RegisterTile, bool]) -> float:
        tile, pixels = candidate
        return _cycles(c, products, target, RegisterTile(tile.rows - extra, tile.vectors, tile.lanes), pixels)

    return min(wanted, key=cycles)


def _is_as_given(tile: RegisterTile, pixels: bool, given: Given) -> bool:
    here: Given = {
        "rows": tile.rows,
        "vectors": tile.vectors,
        "vectors_over": CHANNELS if pixels else POSITIONS,
    }
    return all(given.get(name, value) == value for name, value in here.items())


def plan_of(
    c: Convolution, products: Products, target: Target, tile: RegisterTile, pixels: bool, given: Given = NOTHING
) -> ConvPlan:
    """The plan for a given tile."""
    weights = _known(c.rows * c.steps) * products.bytes
    image = _known(c.windows.channel * c.depth) * products.bytes
    one_tap = c.windows.taps == ONE
    big_weights = weights > target.l2 // 2
    outer = CHANNELS if big_weights and image <= max(target.l2 // 2, weights) else POSITIONS
    if given.get("outer") in (CHANNELS, POSITIONS):
        outer = str(given["outer"])
    return ConvPlan(
        tile.rows,
        tile.vectors,
        CHANNELS if pixels else POSITIONS,
        outer,
        # the taps of a channel are near each other, so only with one tap does each step go to other lines
        channels_ahead=0 if pixels else given_number(given, "channels_ahead", 8 if one_tap else 0),
        tiles_ahead=0 if pixels else given_number(given, "tiles_ahead", 1 if one_tap and image > target.l2 else 0),
        steps_ahead=given_number(given, "steps_ahead", 32 if big_weights else 0),
        lanes=tile.lanes,
        grain_cycles=given_number(given, "grain_cycles", GRAIN_CYCLES, 1),
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
    if not (c.windows.positions.is_const or _may_be_few(c)) or c.rows == ONE:
        return
    for vectors in range(1, 4):
        for rows in range(1, min(width, lanes, largest_rows(registers, vectors)) + 1):
            yield RegisterTile(rows, vectors, lanes), True


def in_order(windows: Windows, rows: int) -> bool:
    """Whether tiles of so many positions are parts of a row, or whole rows, of an image with gaps between its rows."""
    width, pitches = windows.axes[-1].out, windows.pitches
    if windows.is_flat or not all(d.is_const for d in (*pitches, *[a.out for a in windows.axes])):
        return False
    return width.value % rows == 0 or (len(pitches) == 2 and rows % width.value == 0)


def _may_be_few(c: Convolution) -> bool:
    """Whether a call may well have few positions, or many."""
    moving = [axis for axis in c.windows.axes if axis.out is not ONE]
    return not c.windows.positions.is_const and len(moving) == 1


def _cycles(c: Convolution, products: Products, target: Target, tile: RegisterTile, pixels: bool) -> float:
    """The estimated work; of positions that are not known, the geometric mean for several numbers of them."""
    positions = c.windows.positions
    if positions.is_const:
        return _cycles_for(c, positions.value, products, target, tile, pixels)
    typical = (FEW_POSITIONS, TYPICAL_POSITIONS) if _may_be_few(c) else POSITIONS_OF_IMAGES
    return prod(_cycles_for(c, n, products, target, tile, pixels) for n in typical) ** (1 / len(typical))


def _cycles_for(
    c: Convolution, width: int, products: Products, target: Target, tile: RegisterTile, pixels: bool
) -> float:
    """Whole tiles for so many positions, each step as long as what limits it, and the stores."""
    height = _known(c.rows, TYPICAL_ROWS)
    steps = _known(c.steps, 576)
    if pixels and in_order(c.windows, tile.rows):
        width = c.windows.outputs.value
    outer, inner = (width, height) if pixels else (height, width)
    tiles = -(-outer // tile.rows) * -(-inner // tile.columns)
    narrow = 0
    if not pixels and not c.windows.positions.is_const and tile.vectors > 1 and 0 < inner % tile.columns <= tile.lanes:
        # few positions take a tile of one vector
        narrow = -(-outer // tile.rows)
        tiles -= narrow
    # two sums a cycle, unless too few are in flight; two loads, and vectors across lines count twice
    sums = max(tile.rows * tile.vectors, products.in_flight) / 2
    loads = (tile.rows + tile.vectors * (1 if pixels or c.windows.taps == ONE else 2)) / 2
    # with several taps the vectors of a channel overlap
    streamed = tile.columns if pixels else tile.columns / max(1, _known(c.windows.taps, 9) ** 0.5)
    streamed = (streamed + tile.rows) * products.bytes
    behind_l1 = streamed * steps > target.l1 * 0.6
    step = max(sums, loads, streamed / L2_BYTES_A_CYCLE if behind_l1 else 0) + 0.3
    if steps <= FEW_STEPS and tile.vectors == 1 and not pixels:
        step *= SINGLE_SHARE
    stores = tile.rows * tile.vectors * 2 + 40
    if pixels:
        stores += TRANSPOSE_CYCLES * tile.vectors
    elif c.windows.is_flat and steps <= FEW_STEPS:
        at_once = stores_at_once(c, tile.rows)
        stores = tile.rows * tile.vectors // 2 + 10 if at_once else tile.rows * tile.vectors * WAY_CYCLES + 40
    if narrow:
        one = (max(tile.rows, products.in_flight, tile.rows + 2) / 2 + 0.3) * steps * SINGLE_SHARE
        return tiles * (step * steps + stores) + narrow * (one + stores / tile.vectors)
    return tiles * (step * steps + stores)


def narrow_vectors(vectors: int) -> list[int]:
    """How many vectors a tile of so many may have, rising, where few of an unknown number of positions are left."""
    return sorted({v for v in (1, (vectors + 1) // 2) if v < vectors})


def stores_at_once(c: Convolution, rows: int) -> bool:
    """Whether tiles of so many channels can give their sums from registers: they are few, short and whole."""
    few = c.steps.is_const and c.steps.value <= FEW_STEPS
    return few and c.windows.is_flat and c.rows.is_const and c.rows.value % rows == 0


def _known(dim: Dim, typical: int = TYPICAL_ROWS) -> int:
    return dim.value if dim.is_const else typical
