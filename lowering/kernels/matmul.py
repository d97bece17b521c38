"""Template "matmul": c = a . b with numpy's rules, for every number type.

Inputs a, b; result c.  Operands may have one axis or batch axes, which broadcast.  Config:

* `trans_a`, `trans_b` (bool): the last two axes of that operand are stored swapped (Gemm);
* `panel` (integer): b was a constant of two axes and is `packing.pack_columns(b, panel)`, one axis;
* `precision` ("bf16"): factors are rounded to pairs of bf16, a step takes two elements of the depth (`pair_products`);
  a packed b is `packing.pack_pair_columns(b, panel)`.

The product is cut into K blocks, row blocks and panels of columns.  For a K block and a row block, a's rows are packed
so that a tile's rows are neighbours; then panel by panel, b's columns (packed, so that a panel stays in L1) meet all
tiles of the row block (in L2).  Sums of a K block start at 0 and are added to those of the blocks before, so an
element's order of additions depends on K alone: not on how many rows, columns or threads there are.  A single column
is computed as a single row, of the swapped operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import dim_min
from ..loop_builder import Scalar
from ..template import TemplateContext
from . import strassen
from .emit import Emitter, Ix, plain
from .matmul_plan import FEW_ROWS, Plan, choose, depth_block, is_low, most_in_lower, numbers_of_tiles, panel_columns
from .matmul_problem import PointsSink, ProductBuilder, Sink, read_problem, row_index
from .operands import flag, number, stored_type
from .pair_products import products_of
from .panels import AHEAD, pack_across, pack_along, slack
from .register_tile import Factors, RegisterTile

MOST_GROUPS = 64
"""Panels whose partial sums are kept at once, where there are several K blocks."""


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the product."""
    e = Emitter(context.builder)
    a, b = op.inputs[0], op.inputs[1]
    trans = flag(op, "trans_a"), flag(op, "trans_b")
    problem = read_problem(e, context, a, b, context.dims(op.results_[0]), *trans, number(op, "panel"))
    products = products_of(op)
    factor = problem.column_factor

    def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
        context.store(op, [products.narrow(e, value, stored_type(op))], indices, mask, axis)

    def sink_points(values: Sequence[SSAValue], places: Sequence[Sequence[Scalar]], axis: int) -> None:
        stored = stored_type(op)
        context.store_in_step(op, [[products.narrow(e, v, stored)] for v in values], places, None, axis)

    given = context.part.given
    if flag(op, strassen.STRASSEN):
        fast = strassen.choose(products, problem.row_sizes, problem.columns, problem.depth, context.target, given)
        assert fast is not None, "packed for this algorithm"
        context.part.adopt(fast)
        strassen.StrassenBuilder(e, context, problem, products, fast, sink_points).build()
        return
    plan = choose(products, problem.rows, problem.columns, context.target, factor.panel, given=given)
    context.part.adopt(plan)
    in_step = sink_points if context.points_in_step(op) > 1 else None
    MatmulBuilder(e, context, problem, products, plan, sink, sink_points=in_step).build()


def whole_tiles(rows: Dim, height: int) -> Dim:
    """So many rows, rounded up to tiles of that height."""
    return (rows + (height - 1)) // height * height


@dataclass(frozen=True)
class Tile:
    """A tile while code is built: its first row, its height, and which of the plan's heights that is."""

    row: Ix
    height: Ix
    kind: Ix


@dataclass(eq=False)
class MatmulBuilder(ProductBuilder):
    """Emits one product; the methods are the loops, from outside in."""

    plan: Plan
    sink: Sink
    sink_points: PointsSink | None = field(default=None, kw_only=True)
    """Where it is better than `sink`, because the epilogue is long."""

    def __post_init__(self) -> None:
        plan, products, self.deep = self.plan, self.products, self.problem.depth
        steps = (self.deep + (products.per_step - 1)) // products.per_step
        self.problem = problem = replace(self.problem, depth=steps)
        self.one_block = problem.depth.is_const and problem.depth.value <= plan.depth_block
        one_tile = problem.rows.is_const and problem.rows.value <= plan.tile.rows
        direct = problem.column_factor.panel is None and problem.column_factor.outer_stride.known == 1
        self.rows_in_place = one_tile and plan.tile.rows <= FEW_ROWS
        self.columns_in_place = one_tile and direct
        self.rows_converted = self.rows_in_place and products.per_step > 1
        """Rows that are few: each is packed by itself, one after the other."""
        contiguous = self.problem.row_factor.depth_stride.known == 1
        self.low_in_place = is_low(plan.tail_rows, plan.rows) and products.per_step == 1 and contiguous
        """Whether low tiles read their rows where they are."""

    def build(self) -> None:
        e, plan, problem = self.e, self.plan, self.problem
        if any(d is as_dim(0) for d in (*problem.batch, problem.rows, problem.columns)):
            return
        rows, columns = e.dim(problem.rows), e.dim(problem.columns)
        blocks = rows.ceildiv(plan.row_block)
        groups = columns.ceildiv(plan.tile.columns)
        extent = e.product([e.dim(d) for d in problem.batch]) * blocks * groups
        work = rows.min(plan.row_block) * e.dim(problem.depth) * plan.tile.vectors
        grain = e.ix(2 * e.grain_cycles) // work.max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, thread):
            self.take_scratch(thread)
            # one item is a batch index and a row block; of the first and the last only some groups may be ours
            with e.loop(lower // groups, (upper - 1) // groups + 1, nonempty=True) as items:
                start = items.index * groups
                self.item(items.index, (lower - start).max(0), (upper - start).min(groups), blocks)

    def take_scratch(self, thread: SSAValue) -> None:
        """Packed rows, packed columns, and the sums of a tile (of all tiles, where there are several K blocks)."""
        plan, problem, sums = self.plan, self.problem, self.products.sums
        packed = self.products.packed
        lanes, depth = plan.tile.lanes, dim_min(problem.depth, as_dim(plan.depth_block))
        if not self.rows_in_place:
            in_low = most_in_lower(plan.rows, plan.heights[1]) if self.low_in_place else 0
            height = dim_min(whole_tiles(problem.rows - in_low, plan.rows), as_dim(plan.row_block))
            size = height * depth + slack(lanes, plan.rows)
            self.packed_rows = self.context.scratch(packed, size, thread)
        elif self.rows_converted:
            self.packed_rows = self.context.scratch(packed, depth * plan.tile.rows + lanes, thread)
        if problem.column_factor.panel is None and not self.columns_in_place:
            size = depth * plan.tile.columns + slack(lanes, plan.panel)
            self.packed_columns = self.context.scratch(packed, size, thread)
        if self.one_block:
            size = plan.highest(problem.rows) * plan.tile.columns
        else:
            groups = (problem.columns + (plan.tile.columns - 1)) // plan.tile.columns
            low = is_low(plan.tail_rows, plan.rows)
            height = problem.rows + (plan.tail_rows - 1) if low else whole_tiles(problem.rows, plan.rows)
            height = dim_min(height, as_dim(plan.row_block))
            size = height * dim_min(groups, as_dim(MOST_GROUPS)) * plan.tile.columns
        self.sums = self.context.scratch(sums, size, thread)

    def item(self, item: Ix, first: Ix, last: Ix, blocks: Ix) -> None:
        """The groups of columns [first, last) of one batch index and row block."""
        e, plan = self.e, self.plan
        rows = e.dim(self.problem.rows)
        # equal blocks of whole tiles
        height = rows.ceildiv(blocks).round_up(plan.tile.rows) if blocks.known != 1 else rows
        block = item % blocks
        self.row_start = block * height
        self.row_end = (self.row_start + height).min(rows)
        self.batch = self.batch_index(item // blocks)
        if self.one_block:
            self.group_base, self.groups_kept = first, e.ix(1)
            self.depth_blocks(first, last)
            return
        with e.loop(first, last, MOST_GROUPS) as outer:
            self.group_base = outer.index
            end = (outer.index + MOST_GROUPS).min(last)
            self.groups_kept = end - outer.index
            self.depth_blocks(outer.index, end)

    def batch_index(self, flat: Ix) -> list[Ix]:
        """The index on each batch axis."""
        indices: list[Ix] = []
        for size in reversed(self.problem.batch):
            extent = self.e.dim(size)
            indices.append(flat % extent)
            flat = flat // extent
        return indices[::-1]

    def depth_blocks(self, first: Ix, last: Ix) -> None:
        e, block = self.e, self.plan.depth_block
        depth, deep, elements = e.dim(self.problem.depth), e.dim(self.deep), self.products.per_step
        if self.one_block:
            self.depth_start, self.steps, self.element_start, self.elements = e.ix(0), depth, e.ix(0), deep
            self.row_block(first, last)
            return
        # a product of no terms at all is 0, and must be stored
        with e.loop(0, depth.max(1), block, nonempty=True) as loop:
            self.depth_start = loop.index
            self.steps = (depth - loop.index).min(block)
            self.element_start = loop.index * elements
            self.elements = (deep - self.element_start).min(block * elements)
            self.row_block(first, last)

    def row_block(self, first: Ix, last: Ix) -> None:
        e, plan = self.e, self.plan
        count = self.row_end - self.row_start
        numbers = numbers_of_tiles(count, plan.heights)
        if not self.rows_in_place:
            row = self.row_start
            for height, number in zip(plan.heights, numbers):
                if not self.in_place(height):
                    end = row + number * height if len(numbers) > 1 else self.row_end
                    with e.loop(row, end, height) as loop:
                        self.pack_rows(self.tile_of(height), loop.index)
                row = row + number * height
        elif self.rows_converted:
            self.convert_rows(plan.tile)
        self.first_group, self.last_group = first, last
        # low tiles ask for nothing
        self.tiles = sum((n for h, n in zip(plan.heights, numbers) if not is_low(h, plan.rows)), e.ix(0))
        with e.loop(first, last, nonempty=True) as groups:
            self.prepare_columns(groups.index)
            if len(numbers) == 1:
                with e.loop(self.row_start, self.row_end, plan.rows) as loop:
                    self.tile(Tile(loop.index, e.ix(plan.rows), e.ix(0)), groups.index)
                return
            with e.loop(0, sum(numbers, e.ix(0)), nonempty=True) as loop:
                self.tile(self.tile_at(loop.index, numbers), groups.index)

    def tile_of(self, height: int) -> RegisterTile:
        """The register tile of that height."""
        return RegisterTile(height, self.plan.tile.vectors, self.plan.lanes)

    def tile_at(self, index: Ix, numbers: list[Ix]) -> Tile:
        """The tile of a number, where so many have each height."""
        e, [height, *lower] = self.e, self.plan.heights
        row, height, kind = self.row_start + index * height, e.ix(height), e.ix(0)
        end, end_row = numbers[0], self.row_start + numbers[0] * height
        for which, (low, there) in enumerate(zip(lower, numbers[1:]), 1):
            behind = index.compare("sge", end)
            row = e.select_index(behind, (index - end) * low + end_row, row)
            height, kind = e.select_index(behind, low, height), e.select_index(behind, which, kind)
            end, end_row = end + there, end_row + there * low
        return Tile(row, height, kind)

    def in_place(self, height: int) -> bool:
        """Whether tiles of that height read their rows where they are."""
        return self.rows_in_place or (self.low_in_place and height < self.plan.rows)

    def pack_rows(self, tile: RegisterTile, row: Ix) -> None:
        """The rows of a tile; below the last row it is repeated, and what that gives is not stored."""
        e, factor = self.e, self.problem.row_factor
        at = (row - self.row_start) * self.steps
        if factor.depth_stride.known == 1:
            last = e.dim(self.problem.rows) - 1

            def row_at(r: int) -> Ix:
                return factor.at(self.batch, (row + r).min(last), self.element_start)

            pack_across(
                e, self.products, factor.buffer, row_at, tile.rows, self.elements, self.packed_rows, at, tile.rows
            )
            return
        start = factor.at(self.batch, row, self.element_start)
        valid = e.dim(self.problem.rows) - row
        pack_along(
            e, self.products, factor.buffer, start, factor.depth_stride, valid.min(tile.rows), tile.rows, self.elements,
            self.packed_rows, at, tile.rows,
        )  # fmt: skip

    def convert_rows(self, tile: RegisterTile) -> None:
        """The steps of each row of the only tile, packed, one row behind the other."""
        e, factor, lanes = self.e, self.problem.row_factor, tile.lanes
        for r in range(tile.rows):
            start, at = factor.at(self.batch, self.row_start + r, self.element_start), self.steps * r
            with e.loop(0, self.steps, lanes) as loop:
                element = loop.index * self.products.per_step
                left = self.elements - element
                if factor.depth_stride.known == 1:
                    words = self.products.load_along(e, factor.buffer, start + element, left, lanes)
                else:
                    words = self.products.load_spread(
                        e, factor.buffer, start + element * factor.depth_stride, factor.depth_stride, left, lanes
                    )
                e.store_vector(words, self.packed_rows, loop.index + at)

    def prepare_columns(self, group: Ix) -> None:
        """Packs the panels of a group where they are not packed, and are not read where they are."""
        if self.problem.column_factor.panel is None and not self.columns_in_place:
            self.pack_columns(group)

    def pack_columns(self, group: Ix) -> None:
        """The panels of a group."""
        e, plan, factor = self.e, self.plan, self.problem.column_factor
        columns = e.dim(self.problem.columns)
        for p in range(plan.panels):
            column = group * plan.tile.columns + p * plan.panel
            at = self.steps * (p * plan.panel)
            if factor.outer_stride.known == 1:
                start = factor.at(self.batch, column, self.element_start)
                pack_along(
                    e, self.products, factor.buffer, start, factor.depth_stride, columns - column, plan.panel,
                    self.elements, self.packed_columns, at, plan.panel,
                )  # fmt: skip
                continue

            def row_at(r: int, column: Ix = column) -> Ix:
                return factor.at(self.batch, (column + r).min(columns - 1), self.element_start)

            pack_across(
                e, self.products, factor.buffer, row_at, plan.panel, self.elements, self.packed_columns, at, plan.panel
            )

    def tile(self, tile: Tile, group: Ix) -> None:
        """One tile of sums over a K block, and where that was the last one, the stores: one code for all heights."""
        e, heights, columns = self.e, self.plan.heights, self.plan.tile.columns
        at = e.ix(0)
        if not self.one_block:
            row_size = self.groups_kept * columns
            at = (tile.row - self.row_start) * row_size + (group - self.group_base) * (tile.height * columns)
        for kind, height in enumerate(heights):
            whole = self.tile_of(height)
            with nullcontext() if len(heights) == 1 else e.when(tile.kind.compare("eq", kind)):
                self.keep(whole, self.accumulate(whole, tile.row, group), at)
        if self.one_block:
            self.store(tile, group, at)
            return
        done = (self.depth_start + self.steps).compare("eq", e.dim(self.problem.depth))
        with e.when(done):
            self.store(tile, group, at)

    def accumulate(self, tile: RegisterTile, row: Ix, group: Ix) -> list[SSAValue]:
        e, problem, products = self.e, self.problem, self.products
        rows_at = (row - self.row_start) * self.steps

        buffer, starts, pitch, masks = self.column_vectors(group)
        # a few rows are limited by memory anyway, and the hardware does well with one stream
        in_place, low = self.in_place(tile.rows), is_low(tile.rows, self.plan.rows)
        ahead = 0 if in_place or low else self.plan.steps_ahead
        per_panel = tile.vectors // len(starts)
        share = None if low else self.share_of_next(row, group, starts)
        places = [row + r for r in range(tile.rows if in_place else 0)]
        if not self.rows_in_place:
            places = [place.min(e.dim(problem.rows) - 1) for place in places]

        def factors(indices: list[Ix]) -> Factors:
            [k] = indices

            def scalar(r: int) -> SSAValue:
                if not in_place:
                    return products.load(e, self.packed_rows, k * tile.rows + rows_at + r)
                if self.rows_converted:
                    return products.load(e, self.packed_rows, k + self.steps * r)
                factor = problem.row_factor
                at = k * factor.depth_stride + factor.at(self.batch, places[r], self.depth_start)
                return products.load(e, factor.buffer, at)

            vectors: list[SSAValue] = []
            if share is not None:
                e.prefetch(buffer, k * share[1] + share[0])
            for v in range(tile.vectors):
                at = k * pitch + starts[v // per_panel] + v % per_panel * tile.lanes
                if self.columns_in_place:
                    stride = problem.column_factor.depth_stride
                    for n in range(products.per_step if ahead else 0):
                        e.prefetch(buffer, at + stride * (AHEAD + n))
                    left = self.elements - k * products.per_step
                    mask = masks[v] if masks else None
                    vectors.append(products.load_across(e, buffer, at, stride, left, tile.lanes, mask))
                    continue
                if ahead and problem.column_factor.panel is not None:
                    e.prefetch(buffer, at + ahead * self.plan.panel)
                vectors.append(products.load_vector(e, buffer, at, tile.lanes))
            return vectors, scalar

        return tile.accumulate(e, products, [self.steps], factors)

    def share_of_next(self, row: Ix, group: Ix, starts: list[Ix]) -> tuple[Ix, Ix] | None:
        """What a tile asks for of the packed columns that the group after this one reads: (start, elements a step).

        Each tile of the row block asks for an equal share: so memory is at work all the time, not only while the first
        tile meets columns that no cache has.
        """
        e, plan, problem = self.e, self.plan, self.problem
        if problem.column_factor.panel is None or not plan.groups_ahead or self.tiles.known == 1:
            return None
        width = plan.tile.columns
        depth = e.dim(problem.depth)
        # behind the last group comes the first one, in the next K block
        over = (self.steps - (self.last_group - 1 - self.first_group) * depth) * width
        is_last = (group + 1).compare("eq", self.last_group)
        following = e.select_index(is_last, over, depth * width) if not self.one_block else depth * width
        stride = (self.tiles + (width - 1)) // self.tiles
        tile = (row - self.row_start) // plan.tile.rows
        return starts[0] + following + tile * self.steps * stride, stride

    def column_vectors(self, group: Ix) -> tuple[SSAValue, list[Ix], Ix, list[SSAValue]]:
        """Where the vectors of a group are: buffer, start of each panel, elements between steps, masks if any."""
        e, plan, factor = self.e, self.plan, self.problem.column_factor
        columns = e.dim(self.problem.columns)
        if factor.panel is not None:
            last = columns.ceildiv(factor.panel) - 1
            depth = e.dim(self.problem.depth)
            starts: list[Ix] = []
            for p in range(plan.panels):
                panel = group * plan.panels + p
                panel = panel if plan.panels == 1 else panel.min(last)
                starts.append((panel * depth + self.depth_start) * factor.panel + factor.offset)
            return factor.buffer, starts, e.ix(factor.panel), []
        if not self.columns_in_place:
            starts = [self.steps * (p * plan.panel) for p in range(plan.panels)]
            return self.packed_columns, starts, e.ix(plan.panel), []
        column = group * plan.tile.columns
        start = factor.at(self.batch, column, self.element_start)
        return factor.buffer, [start], factor.depth_stride * self.products.per_step, self.column_masks(column)

    def column_masks(self, column: Ix) -> list[SSAValue]:
        """For each vector of the group which columns there are; none where all vectors are whole."""
        columns, tile = self.problem.columns, self.plan.tile
        if columns.is_const and columns.value % tile.columns == 0:
            return []
        left = self.e.dim(columns) - column
        return [self.e.mask(left - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]

    def keep(self, tile: RegisterTile, sums: list[SSAValue], at: Ix) -> None:
        """Writes the tile's sums to scratch, added to those of the K blocks before."""
        e = self.e

        def write(add: bool) -> None:
            for i, total in enumerate(sums):
                place = at + i * tile.lanes
                if add:
                    total = e.add(e.load_vector(self.sums, place, tile.lanes), total)
                e.store_vector(total, self.sums, place)

        if self.one_block:
            write(False)
            return
        with e.when(self.depth_start.compare("eq", 0)):
            write(False)
        with e.when(self.depth_start.compare("ne", 0)):
            write(True)

    def store(self, place: Tile, group: Ix, at: Ix) -> None:
        """The epilogue and the stores of a tile, row by row."""
        e, problem, tile, row = self.e, self.problem, self.plan.tile, place.row
        column = group * tile.columns
        if problem.column_axis is None and problem.result_rank == len(problem.batch):
            indices = [plain(b) for b in self.batch]  # of two vectors: one number
            value = e.load_vector(self.sums, at, tile.lanes)
            value = self.corrected(value, row, group, 0, indices, None, -1)
            self.sink(e.first_lane(value), indices, None, -1)
            return
        masks = self.column_masks(column)
        start = row_index(e, problem, row)
        count = (self.row_end - row).min(place.height)
        axis = problem.column_axis if problem.column_axis is not None else -1
        in_step = self.sink_points if not masks else None
        # two rows of two vectors are enough for the chain of one to be covered by the others
        together = 2 if in_step is not None and tile.vectors <= 2 else 1
        with e.loop(0, count, together, carried=[i.ssa for i in start], nonempty=True) as loop:
            index = [e.ix(i) for i in loop.carried]
            values: list[SSAValue] = []
            places: list[list[Scalar]] = []
            number = loop.index
            for later in range(together):
                if later:
                    # behind the last row that one is stored again
                    number = (loop.index + later).min(count - 1)
                    there = (loop.index + later).compare("ult", count)
                    index = [e.select_index(there, i, j) for i, j in zip(self.next_row(index), index)]
                start_of_row = number * tile.columns + at
                for v in range(tile.vectors):
                    value = e.load_vector(self.sums, start_of_row + v * tile.lanes, tile.lanes)
                    indices = self.result_index(index, column + v * tile.lanes)
                    mask = masks[v] if masks else None
                    value = self.corrected(value, number + row, group, v, indices, mask, axis)
                    if in_step is None:
                        self.sink(value, indices, mask, axis)
                    values.append(value)
                    places.append(indices)
            if in_step is not None:
                in_step(values, places, axis)
            loop.carry([i.ssa for i in self.next_row(index)])

    def corrected(
        self,
        value: SSAValue,
        row: Ix,
        group: Ix,
        vector: int,
        indices: list[Scalar],
        mask: SSAValue | None,
        axis: int,
    ) -> SSAValue:
        """What is stored for a vector of finished sums of a row; for those who derive from this."""
        return value

    def next_row(self, index: list[Ix]) -> list[Ix]:
        """Counts one row on."""
        e = self.e
        carry: SSAValue | None = None
        result: list[Ix] = []
        for i, size in zip(reversed(index), reversed(self.problem.row_sizes), strict=True):
            stepped = i + 1 if carry is None else e.select_index(carry, i + 1, i)
            full = stepped.compare("eq", e.dim(size))
            carry = full
            result.append(stepped if len(result) == len(index) - 1 else e.select_index(full, 0, stepped))
        return result[::-1]

    def result_index(self, rows: list[Ix], column: Ix) -> list[Scalar]:
        """The result's indices of a row and column."""
        problem = self.problem
        indices: list[Scalar] = [0] * problem.result_rank
        axes = problem.batch_axes if problem.batch_axes is not None else range(len(self.batch))
        for axis, index in zip(axes, self.batch, strict=True):
            indices[axis] = plain(index)
        for axis, index in zip(problem.row_axes, rows):
            indices[axis] = plain(index)
        if problem.column_axis is not None:
            indices[problem.column_axis] = plain(column)
        return indices


__all__ = ["Plan", "build", "choose", "depth_block", "panel_columns"]
