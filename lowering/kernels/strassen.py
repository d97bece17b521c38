"""A product by one step of Strassen's algorithm: 7 products of halves where the direct form has 8.

Pairs of rows, pairs of panels of columns and the halves of a K block are the 2 x 2 blocks:

    m1 = (a11 + a22)(b11 + b22)    m2 = (a21 + a22) b11    m3 = a11 (b12 - b22)    m4 = a22 (b21 - b11)
    m5 = (a11 + a12) b22    m6 = (a21 - a11)(b11 + b12)    m7 = (a12 - a22)(b21 + b22)
    c11 += m1 + m4 - m5 + m7    c12 += m3 + m5    c21 += m2 + m4    c22 += m1 - m2 + m3 + m6

(V. Strassen, Gaussian elimination is not optimal, 1969.)  Rows are sums already when they are packed.  Of the columns
four sums are packed beforehand, from which the other three follow by an addition each, so constant weights take no
more memory than in the direct form.  Each product is added to its one or two results when its register tile is done.

Each row of a K block is scaled by a power of two when it is packed, and each column beforehand, so that those which are
added to one another are of one magnitude; results get their scales back (`row_scales`, `packing.pack_strassen`).  So an
error is small against the largest numbers of its own row and its own column, whatever is beside them.

Rows 2i and 2i + 1 of a sample are a pair, whatever the batch is: its results do not depend on the samples beside it
(`rows_of_a_sample`).  The row that is left over in an odd number is a pair with itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, ORDER, VECTOR_WIDTH, Choices, Given, given_number
from ..loop_builder import Scalar
from .emit import Ix, plain
from .matmul_plan import NOTHING, depth_block, tall_tiles
from .matmul_problem import ONE, PointsSink, ProductBuilder, row_index
from .panels import pack_across, slack
from .register_tile import Factors, Products, RegisterTile, largest_rows
from .row_scales import RowScales

STRASSEN = "strassen"
VECTORS = 2
"""Vectors of a panel."""
LEAST_ROWS = 64
"""Rows of a sample from which the sums of columns are worth their time."""
LEAST_SIDE = 256
"""Columns and depth from which the sums of rows are."""
MOST_STEPS = 384
"""Steps of a K block: chains of half as many additions keep the errors below twice those of common libraries."""
MOST_GROUPS = 16
"""Groups of columns whose results are kept at once."""

Place: TypeAlias = tuple[int, int]
"""A block of results and the sign with which a product is added to it."""

Added: TypeAlias = "tuple[Ix, Ix, SSAValue | None]"
"""The block in a kernel, the table of its rows' inverse scales with that sign, whether there is this place at all."""

C11, C12, C21, C22 = range(4)
PRODUCTS: tuple[tuple[Place, ...], ...] = (
    ((C21, 1), (C22, -1)),
    ((C11, -1), (C12, 1)),
    ((C12, 1), (C22, 1)),
    ((C11, 1), (C21, 1)),
    ((C11, 1), (C22, 1)),
    ((C22, 1),),
    ((C11, 1),),
)
"""Where m2, m5, m3, m4 (whose right factors b11, b22, b12 - b22 and b21 - b11 are packed), m1, m6 and m7 go to."""
FIRST = 2
"""The products before which nothing has been added to a block of results."""
PACKED = 4
"""The products whose right factors are packed; those of the others are sums of them."""

A11, A12, A21, A22 = range(4)
QUARTER_SLOTS = {A11: 2, A12: 1, A21: 5, A22: 3}
"""The product in whose left factor's place a quarter of the rows is packed first."""
ROW_SUMS = {
    0: (A21, A22, True), 1: (A11, A12, True), 4: (A11, A22, True), 5: (A21, A11, False), 6: (A12, A22, False),
}  # fmt: skip
"""The left factors that are sums (True) or differences, by product."""


@dataclass(frozen=True)
class StrassenPlan(Choices):
    """The sizes of one product: tiles of `rows` pairs and, where not all are whole, of `tail_rows`; `row_block` pairs
    are packed at once; K blocks of `depth_block` steps; `groups_ahead` as for the direct form."""

    rows: int
    tail_rows: int
    row_block: int
    depth_block: int
    groups_ahead: int
    lanes: int
    algorithm: str = STRASSEN

    FIXED = {
        "depth_block": ORDER,
        "lanes": VECTOR_WIDTH,
        "algorithm": "another algorithm rounds differently (`exact` turns this one off)",
    }

    @property
    def panel(self) -> int:
        return VECTORS * self.lanes


def choose(
    products: Products, rows: tuple[Dim, ...], columns: Dim, depth: Dim, target: Target, given: Given = NOTHING
) -> StrassenPlan | None:
    """The sizes for a product with the row axes `rows`; None where the direct form is chosen.

    Whether it is None does not depend on the batch, nor on what is given.
    """
    lanes = target.lanes(products.bytes)
    panel = VECTORS * lanes
    sample_rows = rows_of_a_sample(rows)
    if target.plain or products.element != f32 or sample_rows is None or sample_rows < LEAST_ROWS:
        return None
    if not columns.is_const or not depth.is_const:
        return None
    if columns.value < LEAST_SIDE or columns.value % (2 * panel) or depth.value < LEAST_SIDE:
        return None
    block = split_depth(depth.value, target, lanes)
    if block is None:
        return None
    most = largest_rows(target.vector_registers, VECTORS)
    height, tail = most, most - 1
    if all(d.is_const for d in rows):
        pairs = max(1, prod(d.value for d in rows) // sample_rows * -(-sample_rows // 2))
        height = -(-pairs // -(-pairs // most))
        tail = height - 1 if pairs % height else 0
    wanted = given_number(given, "rows", height, 2)
    if wanted != height and wanted <= most:
        height, tail = wanted, wanted - 1
    wanted = given_number(given, "tail_rows", tail, 1)
    if tail and wanted < height:
        tail = wanted
    limit = max(1, target.l2 * 3 // 5 // (len(PRODUCTS) * block // 2 * products.bytes) // height) * height
    rows_at_once = given_number(given, "row_block", limit, 1)
    return StrassenPlan(
        height, tail, rows_at_once if rows_at_once % height == 0 else limit, block,
        min(1, given_number(given, "groups_ahead", 1)), lanes,
        grain_cycles=given_number(given, "grain_cycles", GRAIN_CYCLES, 1),
    )  # fmt: skip


def rows_of_a_sample(rows: tuple[Dim, ...]) -> int | None:
    """How many rows, one after the other, may be taken in pairs; None where that is not known.

    They are the last axis that is not 1.  An axis that is alone and has a known size is taken too: a program of fixed
    sizes has no other batch that its results could be compared with.
    """
    axes = [d for d in rows if d is not ONE]
    return axes[-1].value if axes and axes[-1].is_const else None


def split_depth(depth: int, target: Target, lanes: int) -> int | None:
    """The steps of a K block: the most that divide the depth into halves of whole vectors; None where they are few."""
    most = min(depth_block(target), MOST_STEPS)
    return next((b for b in range(most, most // 3, -1) if depth % b == 0 and b % (2 * lanes) == 0), None)


@dataclass(eq=False)
class StrassenBuilder(ProductBuilder):
    """Emits one product; the methods are the loops, from outside in."""

    plan: StrassenPlan
    sink: PointsSink

    def __post_init__(self) -> None:
        self.half = self.plan.depth_block // 2
        sample_rows = rows_of_a_sample(self.problem.row_sizes)
        assert sample_rows is not None
        self.sample_rows = sample_rows
        self.pairs_each = -(-self.sample_rows // 2)
        self.panel = self.plan.panel
        self.quarter = self.half * self.panel

    def build(self) -> None:
        e, problem, plan = self.e, self.problem, self.plan
        if problem.rows is as_dim(0):
            return
        self.pairs = e.product([e.dim(d) for d in problem.row_sizes]) // self.sample_rows * self.pairs_each
        self.groups = problem.columns.value // (2 * self.panel)
        blocks = self.pairs.ceildiv(plan.row_block)
        work = self.pairs.min(plan.row_block) * (problem.depth.value * 2 * VECTORS)
        grain = e.ix(2 * e.grain_cycles) // work.max(1) + 1
        with e.parallel(blocks * self.groups, grain) as (lower, upper, thread):
            self.take_scratch(thread)
            with e.loop(lower // self.groups, (upper - 1) // self.groups + 1, nonempty=True) as items:
                start = items.index * self.groups
                self.block(items.index, (lower - start).max(0), (upper - start).min(self.groups), blocks)

    def take_scratch(self, thread: SSAValue) -> None:
        """Packed rows, the sums of columns that are not packed, and the results of a row block."""
        plan, sums = self.plan, self.products.sums
        height = plan.row_block + plan.rows
        self.slot = height * self.half + slack(plan.lanes, plan.rows)
        self.packed = self.context.scratch(sums, len(PRODUCTS) * self.slot, thread)
        self.column_sums = self.context.scratch(sums, (len(PRODUCTS) - PACKED) * self.quarter, thread)
        kept = min(self.groups, MOST_GROUPS)
        self.results = self.context.scratch(sums, height * kept * 4 * self.panel, thread)
        self.scales = RowScales.take(self.e, self.context, height, thread)

    def block(self, item: Ix, first: Ix, last: Ix, blocks: Ix) -> None:
        """The groups of columns [first, last) of one row block."""
        e, plan = self.e, self.plan
        height = self.pairs.ceildiv(blocks).round_up(plan.rows) if blocks.known != 1 else self.pairs
        self.start = item * height
        self.end = (self.start + height).min(self.pairs)
        self.tiles = (self.end - self.start).ceildiv(plan.rows)
        depth = self.problem.depth.value
        with e.loop(first, last, MOST_GROUPS, nonempty=True) as chunk:
            self.first_group, self.last_group = chunk.index, (chunk.index + MOST_GROUPS).min(last)
            with e.loop(0, depth // plan.depth_block, nonempty=True) as k:
                self.depth_start = k.index * plan.depth_block
                self.pack_rows()
                with e.loop(self.first_group, self.last_group, nonempty=True) as groups:
                    self.columns_at = (k.index * self.groups + groups.index) * (4 * self.quarter)
                    self.group(groups.index)

    def each_tile(self, body: Callable[[RegisterTile, Ix], None], skip_first: bool = False) -> None:
        """The tiles of the row block, by their first pair; the first one is tall."""
        e, plan = self.e, self.plan
        if not plan.tail_rows:
            ranges = [(plan.rows, self.start, self.end)]
        else:
            tall = tall_tiles(self.end - self.start, plan.rows, plan.tail_rows).max(1)
            split = self.start + tall * plan.rows
            ranges = [(plan.rows, self.start, split), (plan.tail_rows, split, self.end)]
        for height, start, end in ranges:
            if skip_first and height == plan.rows and start is self.start:
                start = start + height
            with e.loop(start, end, height) as loop:
                body(RegisterTile(height, VECTORS, plan.lanes), loop.index)

    # Rows

    def row_of(self, pair: Ix, odd: int) -> Ix:
        """The row in all samples; what is behind a sample's last row is that row."""
        row = (pair % self.pairs_each * 2 + odd).min(self.sample_rows - 1)
        return pair // self.pairs_each * self.sample_rows + row

    def place_in_row(self, pair: Ix, odd: int, depth: Ix) -> Ix:
        """Where a row lies in memory, from a step on; behind the last pair is that pair again."""
        return self.problem.row_factor.at((), self.row_of(pair.min(self.pairs - 1), odd), depth)

    def pack_rows(self) -> None:
        """The quarters of a's row block, scaled, and their sums."""
        self.each_tile(self.pack_tile)

    def pack_tile(self, tile: RegisterTile, pair: Ix) -> None:
        e, source, lanes = self.e, self.problem.row_factor.buffer, self.plan.lanes
        first = pair - self.start
        at = first * self.half
        with e.loop(0, tile.rows, nonempty=True) as loop:
            even, odd = (self.place_in_row(loop.index + pair, odd, self.depth_start) for odd in range(2))
            self.scales.measure(loop.index + first, source, (even, odd), self.plan.depth_block)
        for quarter, slot in QUARTER_SLOTS.items():
            odd, right = divmod(quarter, 2)
            depth = self.depth_start + right * self.half

            def row_at(r: int, odd: int = odd, depth: Ix = depth) -> Ix:
                return self.place_in_row(pair + r, odd, depth)

            def scaled(r: int, value: SSAValue, odd: int = odd) -> SSAValue:
                return self.scales.scaled(first + r, odd, value)

            pack_across(
                e, self.products, source, row_at, tile.rows, e.ix(self.half), self.packed,
                at + slot * self.slot, tile.rows, scaled,
            )  # fmt: skip
        with e.loop(0, tile.rows * self.half, lanes) as loop:
            place = loop.index + at
            quarters = {
                quarter: e.load_vector(self.packed, place + slot * self.slot, lanes)
                for quarter, slot in QUARTER_SLOTS.items()
            }
            for slot, (left, right, plus) in ROW_SUMS.items():
                combine = e.add if plus else e.sub
                e.store_vector(combine(quarters[left], quarters[right]), self.packed, place + slot * self.slot)

    # Columns

    def group(self, group: Ix) -> None:
        """A K block's part of the results in one group of columns; after the last K block they are stored."""
        e = self.e
        with e.loop(0, PACKED, nonempty=True) as loop:
            self.packed_products(group, loop.index)
        with e.loop(PACKED, len(PRODUCTS), nonempty=True) as loop:
            self.summed_products(group, loop.index)
        last = self.depth_start.compare("eq", self.problem.depth.value - self.plan.depth_block)
        with e.when(last):
            self.each_tile(lambda tile, pair: self.store(tile, pair, group))

    def place(self, tile: RegisterTile, pair: Ix, group: Ix) -> Ix:
        """Where a tile's results are kept: four blocks of `rows` times a panel."""
        width = (self.last_group - self.first_group) * (4 * self.panel)
        return (pair - self.start) * width + (group - self.first_group) * (tile.rows * 4 * self.panel)

    def packed_products(self, group: Ix, number: Ix) -> None:
        """m2, m5, m3 or m4, for all tiles."""
        e = self.e
        columns = self.problem.column_factor.buffer
        targets = self.targets(number, range(PACKED))
        at = self.columns_at + number * self.quarter
        # the first two products are the first for all four blocks
        first = (self.depth_start + number).compare("ult", FIRST)
        kept = e.mask(e.select_index(first, 0, self.plan.lanes), self.plan.lanes)

        def vectors(k: Ix) -> list[SSAValue]:
            return self.panel_vectors(columns, k, at)

        self.each_tile(lambda tile, pair: self.product(tile, pair, group, number, vectors, targets, kept))

    def summed_products(self, group: Ix, number: Ix) -> None:
        """m1, m6 or m7, for all tiles. The first tile makes the right factor, which the others read.

        b11 + b22 is there when the others are made of it and one packed sum each.
        """
        e, columns = self.e, self.problem.column_factor.buffer
        targets = self.targets(number, range(PACKED, len(PRODUCTS)))
        sums_at = (number - PACKED) * self.quarter
        both_at = self.columns_at + (number - (PACKED - 1)) * self.quarter

        def first(left: SSAValue, left_at: Ix) -> Callable[[Ix], list[SSAValue]]:
            def vectors(k: Ix) -> list[SSAValue]:
                pairs = zip(self.panel_vectors(left, k, left_at), self.panel_vectors(columns, k, both_at))
                found = [e.add(a, b) for a, b in pairs]
                for v, value in enumerate(found):
                    e.store_vector(value, self.column_sums, k * self.panel + sums_at + v * self.plan.lanes)
                return found

            return vectors

        def others(k: Ix) -> list[SSAValue]:
            return self.panel_vectors(self.column_sums, k, sums_at)

        tall = RegisterTile(self.plan.rows, VECTORS, self.plan.lanes)
        with e.when(number.compare("eq", PACKED)):
            self.product(tall, self.start, group, number, first(columns, self.columns_at), targets)
        with e.when(number.compare("ne", PACKED)):
            self.product(tall, self.start, group, number, first(self.column_sums, e.ix(0)), targets)
        self.each_tile(lambda tile, pair: self.product(tile, pair, group, number, others, targets), skip_first=True)

    def panel_vectors(self, buffer: SSAValue, k: Ix, at: Ix) -> list[SSAValue]:
        lanes = self.plan.lanes
        return [self.e.load_vector(buffer, k * self.panel + at + v * lanes, lanes) for v in range(VECTORS)]

    def targets(self, number: Ix, numbers: range) -> list[Added]:
        """Where the product of that number, one of some, goes to."""
        number = number - numbers.start
        found: list[Added] = []
        for t in range(2):
            places = [PRODUCTS[n][min(t, len(PRODUCTS[n]) - 1)] for n in numbers]
            block = self.chosen(number, [block for block, _ in places])
            scales = self.chosen(number, [self.scales.inverse_at(block // 2, sign) for block, sign in places])
            with_two = [len(PRODUCTS[n]) > t for n in numbers]
            there = None if all(with_two) else number.compare("ult", with_two.index(False))
            found.append((block, scales, there))
        return found

    def product(
        self,
        tile: RegisterTile,
        pair: Ix,
        group: Ix,
        number: Ix,
        vectors: Callable[[Ix], list[SSAValue]],
        targets: list[Added],
        kept: SSAValue | None = None,
    ) -> None:
        """A tile of the product of that number, added to its results; `kept` masks what is not there yet."""
        e = self.e
        row = (pair - self.start) * self.half + number * self.slot
        ahead = self.share_of_next(group, number, pair)

        def factors(indices: list[Ix]) -> Factors:
            [k] = indices
            if ahead is not None:
                e.prefetch(self.problem.column_factor.buffer, k * ahead[1] + ahead[0])
            return vectors(k), lambda r: self.products.load(e, self.packed, k * tile.rows + row + r)

        sums = tile.accumulate(e, self.products, [self.half], factors)
        place = self.place(tile, pair, group)
        for block, scales, there in targets:
            at, scales_at = place + block * (tile.rows * self.panel), pair - self.start + scales
            if there is None:
                self.update(sums, at, scales_at, kept)
                continue
            with e.when(there):
                self.update(sums, at, scales_at, kept)

    def chosen(self, number: Ix, values: list[int]) -> Ix:
        """values[number]"""
        result = self.e.ix(values[-1])
        for i, value in reversed(list(enumerate(values[:-1]))):
            if value != values[i + 1] or result.known != value:
                result = self.e.select_index(number.compare("eq", i), value, result)
        return result

    def share_of_next(self, group: Ix, number: Ix, pair: Ix) -> tuple[Ix, Ix] | None:
        """What a tile asks for of the columns that the group after this one reads: (start, elements a step)."""
        e = self.e
        if not self.plan.groups_ahead:
            return None
        tiles = self.tiles * len(PRODUCTS)
        stride = (tiles + (4 * self.panel - 1)) // tiles
        size = 4 * self.quarter
        # behind the last group comes the first one, in the next K block
        over = (self.first_group - self.last_group + (1 + self.groups)) * size
        following = e.select_index((group + 1).compare("eq", self.last_group), over, size)
        tile = number * self.tiles + (pair - self.start) // self.plan.rows
        return self.columns_at + following + tile * self.half * stride, stride

    def update(self, sums: list[SSAValue], at: Ix, scales_at: Ix, kept: SSAValue | None) -> None:
        """Adds a product, whose rows get their own scale again, to a block of results."""
        e, lanes = self.e, self.plan.lanes
        for row in range(len(sums) // VECTORS):
            inverse = self.scales.inverse(scales_at + row, lanes)
            for i in range(row * VECTORS, (row + 1) * VECTORS):
                place = at + i * lanes
                before = e.load_vector(self.results, place, lanes, kept)
                e.store_vector(e.fma(inverse, sums[i], before), self.results, place)

    # Results

    def store(self, tile: RegisterTile, pair: Ix, group: Ix) -> None:
        """The epilogue and the stores of a tile's four blocks, pair by pair."""
        e = self.e
        at = self.place(tile, pair, group)
        count = (self.end - pair).min(tile.rows)
        with e.loop(0, count, nonempty=True) as loop:
            for odd in range(2):
                number = pair + loop.index
                if not odd or self.sample_rows % 2 == 0:
                    self.store_row(tile, number, odd, group, loop.index * self.panel + at)
                    continue
                with e.when((number % self.pairs_each).compare("ne", self.pairs_each - 1)):
                    self.store_row(tile, number, odd, group, loop.index * self.panel + at)

    def store_row(self, tile: RegisterTile, pair: Ix, odd: int, group: Ix, at: Ix) -> None:
        e, lanes, panel = self.e, self.plan.lanes, self.panel
        rows = row_index(e, self.problem, self.row_of(pair, odd))
        zero = e.constant(0, self.products.sums, lanes)
        columns, scales_at = self.problem.column_factor.buffer, self.problem.depth.value * self.problem.columns.value
        values: list[SSAValue] = []
        places: list[list[Scalar]] = []
        for right in range(2):
            for v in range(VECTORS):
                place = at + ((2 * odd + right) * (tile.rows * panel) + v * lanes)
                column = group * (2 * panel) + (right * panel + v * lanes)
                scale = e.load_vector(columns, column + scales_at, lanes)
                # a sum, so that no result is -0
                values.append(e.fma(e.load_vector(self.results, place, lanes), scale, zero))
                places.append([*map(plain, rows), plain(column)])
        axis = self.problem.column_axis
        assert axis is not None
        self.sink(values, places, axis)
