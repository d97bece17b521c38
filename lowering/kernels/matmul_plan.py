"""Policy of the matmul template: register tile, panels, and the blocks around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...dialects.dims import Dim, as_dim, dim_min
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, ORDER, VECTOR_WIDTH, Choices, Given, given_number
from .emit import Ix
from .register_tile import Products, RegisterTile, largest_rows

FEW_ROWS = 4
"""Up to so many rows, a is read where it is, and several panels share each step to have enough sums in flight."""
PREFETCH_CYCLES = 400
"""How far ahead packed columns are asked for: what memory behind L2 takes to answer."""
MOST_VECTORS = 6
"""The widest panel."""


@dataclass(frozen=True)
class Plan(Choices):
    """The sizes of one product: tiles, and the blocks around them.

    `rows`, `vectors`: the register tile, in one panel of `vectors * lanes` columns.
    `panels`: so many panels are one group, computed together.
    `tail_rows`: the height of the last tiles, where not all are whole (0: the last tile is padded).
    `depth_block`: steps of a K block.
    `row_block`: rows that are packed at once, whole tiles.
    `steps_ahead`: how many steps ahead packed columns are asked for (0: not).
    `groups_ahead`: whether the tiles of a group also ask for the next group's packed columns, each for its share.
    """

    rows: int
    vectors: int
    panels: int
    tail_rows: int
    depth_block: int
    row_block: int
    steps_ahead: int
    groups_ahead: int
    lanes: int

    FIXED = {"depth_block": ORDER, "lanes": VECTOR_WIDTH}

    @property
    def tile(self) -> RegisterTile:
        return RegisterTile(self.rows, self.vectors * self.panels, self.lanes)

    @property
    def panel(self) -> int:
        return self.vectors * self.lanes

    @property
    def heights(self) -> list[int]:
        """The heights of tiles, falling; where the low ones are much lower, there is one between."""
        middle = self.tail_rows * 3 // 2
        return [h for h in (self.rows, middle if is_low(middle, self.rows) else 0, self.tail_rows) if h]

    def highest(self, rows: Dim) -> Dim:
        """At least the rows of the highest tile of a product of so many rows."""
        if not self.tail_rows:
            return as_dim(self.rows)
        # nearly: the expression goes into those of the plan of memory, which long ones would slow down
        return dim_min(as_dim(self.rows), rows + (self.tail_rows - 1))


def most_in_lower(rows: int, tail_rows: int) -> int:
    """The most rows that low tiles take in place of one of `rows`."""
    return (rows - 1) // tail_rows * tail_rows


def numbers_of_tiles(count: Ix, heights: Sequence[int]) -> list[Ix]:
    """How many tiles of each of these falling heights make up so many rows: few, and with few of their rows empty."""
    numbers: list[Ix] = []
    for height, lower in pairwise(heights):
        numbers.append(tall_tiles(count, height, lower))
        count = (count - numbers[-1] * height).max(0)
    return [*numbers, count.ceildiv(heights[-1])]


def tall_tiles(count: Ix, rows: int, tail_rows: int) -> Ix:
    """How many tiles of `rows` come first: the others are low as far as that leaves fewer rows empty.

    Several low tiles take the place of one of `rows` where they are at most half as high.
    """
    if is_low(tail_rows, rows):
        return (count + (rows - 1 - most_in_lower(rows, tail_rows))) // rows
    tiles = count.ceildiv(rows)
    return (tiles - (tiles * rows - count) // max(1, rows - tail_rows)).max(0)


def is_low(tail_rows: int, rows: int) -> bool:
    """Whether several tiles of `tail_rows` are as high as one of `rows`."""
    return 0 < 2 * tail_rows <= rows


def depth_block(target: Target) -> int:
    """K steps to a block: a panel of two vectors takes L1 once.  The same for all shapes (see the module)."""
    return max(64, target.l1 // (2 * target.vector_bytes) // 64 * 64)


NOTHING: Given = {}


def choose(
    products: Products,
    rows: Dim,
    columns: Dim,
    target: Target,
    panel: int | None = None,
    packs: bool = False,
    given: Given = NOTHING,
) -> Plan:
    """The sizes for a product of `rows` by `columns`; `panel` is given where b is packed already.

    With `packs` all operands are packed in any case.  What is in `given` is taken where it can be.
    """
    lanes = target.lanes(products.bytes)
    # an integer product needs a register before it is added
    registers = target.vector_registers - (0 if products.fused else 1)
    vectors = panel // lanes if panel else panel_columns(products, columns, target, given) // lanes
    most = 1 if target.plain else largest_rows(registers, vectors)
    if panel is None and not packs and rows.is_const and "vectors" not in given and not target.plain:
        highest = largest_rows(registers, 1)
        if most < rows.value <= highest and given_number(given, "rows", highest) > most:
            # one tile high: b is read once, where it is
            vectors, most = 1, highest
    height, tail, panels = most, 0, 1
    if packs and most > lanes:
        height -= most % lanes  # rows are packed by whole vectors, which must not reach into the next step
    if not rows.is_const:
        tail = min(FEW_ROWS, height)
    elif rows.value <= min(FEW_ROWS, most):
        height = max(1, rows.value)
    else:
        height = -(-rows.value // -(-rows.value // height))
    wanted = given_number(given, "rows", height, 1)
    if wanted <= min(most, rows.value if rows.is_const else most) and not (packs and wanted > lanes and wanted % lanes):
        height = wanted
    if rows.is_const and rows.value <= min(FEW_ROWS, most):
        wide = (1,) if target.plain else (4, 3, 2, 1)
        panels = next(p for p in wide if RegisterTile(height, p * vectors, lanes).registers <= registers)
    if rows.is_const and rows.value % height and not packs:
        tail = height - 1  # equal tiles but for one row
    wanted = given_number(given, "panels", panels, 1)
    if RegisterTile(height, wanted * vectors, lanes).registers <= registers:
        panels = wanted
    if tail:
        wanted = given_number(given, "tail_rows", tail, 1)
        tail = wanted if wanted <= height else min(tail, height)
    depth = depth_block(target)
    limit = max(1, target.l2 * 2 // 5 // (depth * products.bytes) // height) * height
    block = given_number(given, "row_block", limit, 1)
    # panels follow one another, so what is ahead is the next panel
    ahead = max(8, 2 * PREFETCH_CYCLES // (height * vectors * panels))
    grain = given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
    return Plan(
        height, vectors, panels, tail, depth, block if block % height == 0 else limit,
        given_number(given, "steps_ahead", ahead), min(1, given_number(given, "groups_ahead", 1)), lanes,
        grain_cycles=grain,
    )  # fmt: skip


def panel_columns(products: Products, columns: Dim, target: Target, given: Given = NOTHING) -> int:
    """The width of b's panels: two vectors, or one where that holds all columns; `given` may have `vectors`."""
    lanes = target.lanes(products.bytes)
    usual = 1 if target.plain or (columns.is_const and columns.value <= lanes) else 2
    vectors = given_number(given, "vectors", usual, 1)
    return lanes * (vectors if vectors <= MOST_VECTORS else usual)
