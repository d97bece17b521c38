"""Emits one nest of generics: the row loops, in parallel where there is enough to do, and the stages in them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Block as IRBlock
from xdsl.ir import Region, SSAValue

from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from .. import policy
from ..body import Buffer, Lanes, Storage, Value, row_major, vectorizable
from ..element_types import byte_width
from ..loop_builder import LoopBuilder, Scalar, ScratchSpace
from .generics import Access, Generic, Shapes, joint_origin
from .interleaved import InterleavedLoop, Interleaving, find_interleaving, fits
from .lending import lent_outputs
from .nests import Axis, Nest, Stage, best_vector_axis, loop_stride, merge_loops
from .pipelines import Pipeline, Step, find_pipeline
from .points import LINE_BYTES, Points, Row, Stream, element_type, generic_cost
from .stages import run_axis, run_columns, run_joined, run_lanes, run_point
from .streams import find_streams, round_the_caches
from .transposes import Block, Turned, turned_operands


@dataclass
class NestEmitter:
    """Emits a nest at the builder's place."""

    builder: LoopBuilder
    nest: Nest
    shapes: Shapes
    storage: dict[SSAValue, Storage]
    space: ScratchSpace
    scratch: dict[tuple[SSAValue, int], SSAValue] = field(default_factory=dict[tuple[SSAValue, int], SSAValue])
    """Row scratch by result and by the number of the row among those that run side by side."""
    nontemporal: Sequence[SSAValue] | None = None
    """Results that go round the caches; None where that is still to be decided."""

    def run(self) -> None:
        self.builder.origin = joint_origin(g.op for g in self.generics)
        if self.nest.pure:
            self._run_pure()
        elif self.nest.columns:
            self._run_columns()
        else:
            self._run_rows()

    @property
    def target(self) -> Target:
        return self.builder.target

    @property
    def generics(self) -> list[Generic]:
        return self.nest.generics

    def extent(self, axis: Axis) -> Dim:
        """The iterations of an axis of rows."""
        return self.generics[0].extent(axis)

    @cached_property
    def cost(self) -> float:
        """Cycles for one vector of each generic."""
        return sum(generic_cost(g) for g in self.generics)

    @cached_property
    def row_axes(self) -> list[Axis]:
        return merge_loops(range(self.nest.rows), self.generics, self.shapes)

    @cached_property
    def small(self) -> bool:
        """Whether all of it is known to be too little work for threads."""
        lanes = self.target.lanes(4)
        work = sum(generic_cost(g) * policy.estimate(g.extents) / lanes for g in self.generics)
        return policy.known(e for g in self.generics for e in g.extents) and work < self.builder.loops.serial_cycles

    # Row loops

    @contextmanager
    def _rows(
        self, axes: Sequence[Axis], pieces: Sequence[Dim], cycles: float, inner: Scalar, step: int = 1
    ) -> Generator[tuple[Row, list[Scalar]]]:
        """Opens the row loops, and loops over `pieces` of each row: yields the row and the pieces' numbers.

        An iteration has `inner` points of so many cycles.  Of the last axis, only each row divisible by `step`.
        """
        builder = self.builder
        extents = [*map(self.extent, axes), *pieces]
        if step > 1:
            extents[len(axes) - 1] //= step
        with ExitStack() as stack:
            count = 0 if self.small else policy.flattened_rows(extents, self.builder.loops.parallel_iterations)
            indices: list[Scalar] = []
            thread = None
            if count:
                sizes = [builder.dim(e) for e in extents[:count]]
                grain = self._grain(policy.estimate(extents[count:]) * cycles, inner)
                lower, upper, thread = stack.enter_context(builder.parallel(_product(builder, sizes), grain))
                indices += self._flattened(stack, lower, upper, sizes)
            for extent in extents[count:]:
                indices.append(stack.enter_context(builder.loop(0, builder.dim(extent))).index)
            if step > 1:
                indices[len(axes) - 1] = builder.mul(indices[len(axes) - 1], step)
            row = Row({axis[-1]: Lanes(i) for axis, i in zip(axes, indices)}, thread, builder.depth)
            yield row, indices[len(axes) :]

    def _flattened(self, stack: ExitStack, lower: SSAValue, upper: SSAValue, sizes: Sequence[Scalar]) -> list[Scalar]:
        """Opens a loop over a range of several loops' points; gives their indices, which are counted, not divided."""
        builder = self.builder
        if len(sizes) == 1:
            return [stack.enter_context(builder.loop(lower, upper, nonempty=True)).index]
        first = [builder.index(i) for i in split(builder, lower, sizes)]
        loop = stack.enter_context(builder.loop(lower, upper, carried=first, nonempty=True))
        following: list[SSAValue] = []
        step: Scalar = 1
        for index, size in zip(reversed(loop.carried), reversed(sizes)):
            stepped = builder.add(index, step)
            ends = builder.compare("eq", stepped, size)
            following.append(builder.select(ends, 0, stepped))
            step = builder.select(ends, 1, 0)
        loop.carry(following[::-1])
        return list(loop.carried)

    def _grain(self, cycles: float, inner: Scalar) -> Scalar:
        builder = self.builder
        grain = policy.parallel_grain(cycles, builder.loops.grain_cycles)
        return builder.maximum(1, builder.div(grain, builder.maximum(1, inner)))

    def _points(self, stage: Stage, row: Row, lanes: int) -> Points:
        """The stage's points in a row, all results having got their places."""
        self._give_places(stage, row)
        return Points(self.builder, self.nest, stage, row, self.storage, self.shapes, lanes)

    def _map_lanes(self, generics: Sequence[Generic]) -> int:
        ops = [op for g in generics for op in g.walk()]
        if not vectorizable(ops):
            return 1
        elements = [element_type(a.tensor) for g in generics for a in g.accesses]
        return min(policy.map_lanes(ops, elements, self.target), self.builder.loops.most_lanes)

    # A pointwise nest: the loops may be ordered and merged at will

    def _run_pure(self) -> None:
        axes = list(self.row_axes)
        lanes = self._map_lanes(self.generics)
        if not axes or lanes == 1:
            with self._rows(axes, (), self.cost, 1) as (row, _):
                run_point(self._points(self.nest.stages[0], row, 1))
            return
        vector = axes[best_vector_axis(axes, self.generics, self.shapes, lanes)]
        straight = self.builder.loops.straight_cycles
        interleaving = find_interleaving(axes, self.generics, self.shapes, straight)
        if interleaving is not None and fits(interleaving, vector, self.generics):
            self._run_interleaved(axes, interleaving, lanes)
            return
        axes.remove(vector)
        turned = turned_operands(axes, vector, self.generics, self.shapes)
        if turned is None:
            self._run_flat(axes, vector, lanes)
        else:
            self._run_blocks(axes, vector, turned, min(lanes, policy.BLOCK_LANES))

    def _run_flat(self, axes: Sequence[Axis], vector: Axis, lanes: int) -> None:
        """Vectors along one loop, inside of the others."""
        size = self.extent(vector)
        chunk = self._chunk(axes, size, lanes)
        pieces = [] if chunk is None else [(size + (chunk - 1)) // chunk]
        inner = self.builder.dim(size) if chunk is None else chunk
        wide = lanes * self._side_by_side(vector, lanes)
        if chunk is not None and chunk % wide:
            wide = lanes
        with self._rows(axes, pieces, self.cost / lanes, inner) as (row, numbers):
            lower, count = self._piece(size, chunk, numbers[0] if numbers else 0)
            points = self._points(self.nest.stages[0], row, wide)
            points.streams = self._streams[0]
            run_axis([points], [vector], lower, count)

    def _side_by_side(self, vector: Axis, lanes: int) -> int:
        """How many vectors along the axis are evaluated in step: all operands must be contiguous or the same there."""
        plain = not any(g.extracts or g.guarded for g in self.generics)
        steps = {loop_stride(a, vector[-1], self.shapes) for g in self.generics for a in g.accesses}
        if not plain or not steps <= {as_dim(0), as_dim(1)}:
            return 1
        return policy.side_by_side([op for g in self.generics for op in g.walk()], self.extent(vector), lanes)

    def _run_interleaved(self, axes: list[Axis], plan: Interleaving, lanes: int) -> None:
        """Vectors along one loop, a short one unrolled, inside of the others."""
        rows = [a for a in axes if a not in (plan.along, plan.short)]
        size = self.extent(plan.along)
        chunk = self._chunk(rows, size, lanes)
        pieces = [] if chunk is None else [(size + (chunk - 1)) // chunk]
        inner = self.builder.dim(size) if chunk is None else chunk
        with self._rows(rows, pieces, self.cost * plan.count / lanes, inner) as (row, numbers):
            lower, count = self._piece(size, chunk, numbers[0] if numbers else 0)
            InterleavedLoop(self._points(self.nest.stages[0], row, lanes), plan).run(lower, count)

    def _run_blocks(self, axes: list[Axis], along: Axis, turned: Turned, lanes: int) -> None:
        """Blocks of two loops, in the order that keeps a stretch of the rows that are read in the caches."""
        across = axes.pop(turned.axis)
        size, stretch = self.extent(along), self.builder.loops.block_stretch
        pieces = [(size + (stretch - 1)) // stretch, (self.extent(across) + (lanes - 1)) // lanes]
        cycles = self.cost + 2 * policy.ACCESS_CYCLES
        with self._rows(axes, pieces, cycles, min(stretch, policy.estimate([size]))) as (row, (piece, block)):
            points = self._points(self.nest.stages[0], row, lanes)
            start, count = self._piece(size, stretch, piece)
            Block(points, along, across, turned.accesses, self.space).run(start, count, block)

    def _piece(self, size: Dim, length: int | None, number: Scalar) -> tuple[Scalar, Scalar]:
        """Start and length of one piece of an extent; None: the whole."""
        builder = self.builder
        if length is None:
            return 0, builder.dim(size)
        start = builder.mul(number, length)
        if (size % length) is as_dim(0):
            return start, length
        return start, builder.minimum(length, builder.sub(builder.dim(size), start))

    def _chunk(self, axes: Sequence[Axis], size: Dim, lanes: int) -> int | None:
        """The pieces into which to cut the vector loop so that there is enough to do in parallel; None: uncut."""
        rows = policy.known_iterations(map(self.extent, axes))
        if self.small or rows >= self.builder.loops.parallel_iterations:
            return None
        vectors = max(1, round(self.builder.loops.grain_cycles / 4 / self.cost))
        chunk = 1 << (vectors * lanes - 1).bit_length()
        return None if size.is_const and size.value <= chunk else chunk

    # Rows with stages

    def _run_rows(self) -> None:
        if self.nontemporal is None:
            self._run_by_place(round_the_caches(self.nest, self.shapes, self.storage, self._stage_lanes, self.target))
        elif self._pipeline is not None:
            self._run_pipeline(self._pipeline)
        else:
            self._run_in_turn()

    def _run_by_place(self, results: Sequence[SSAValue]) -> None:
        """The nest once for results that start at a cache line, which go round the caches, and once for others."""
        if not results:
            replace(self, nontemporal=()).run()
            return
        builder = self.builder
        starts = [builder.aligned(self._whole(result, Row({}, None, 0)).base, LINE_BYTES) for result in results]
        aligned = reduce(lambda a, b: builder.pure(arith.AndIOp, (a, b), i1), starts)
        choice = builder.insert(scf.IfOp(aligned, [], Region(IRBlock()), [IRBlock()]))
        for region, chosen in zip(choice.regions, (results, ())):
            with builder.branch(choice, region):
                replace(self, scratch={}, nontemporal=chosen).run()
                builder.insert(scf.YieldOp())

    def _run_in_turn(self) -> None:
        lanes, together = self.target.lanes(4), self._rows_together()
        cycles = self.cost * together / lanes
        with self._rows(self.row_axes, (), cycles, self._inner_points(), together) as (row, _):
            rows = [row, *(self._following(row, i) for i in range(1, together))]
            for stage, streams in zip(self.nest.stages, self._streams):
                points = [self._points(stage, r, self._stage_lanes(stage)) for r in rows]
                for p in points:
                    p.streams = streams
                run_lanes(points)

    # Rows in a pipeline

    @cached_property
    def _pipeline(self) -> Pipeline | None:
        """How rows go through the stages in a pipeline, where consecutive iterations are along the last axis."""
        if self.nest.pure or self.nest.columns or not self.row_axes:
            return None
        *outer, last = map(self.extent, self.row_axes)
        most = self.builder.loops.parallel_iterations
        if outer and not self.small and policy.flattened_rows([*outer, last], most) > len(outer):
            return None
        return find_pipeline(self.nest, last, self.shapes, self._stage_lanes, self.target)

    def _run_pipeline(self, pipeline: Pipeline) -> None:
        """At each time, each step of the pipeline is at the row after that of the following step."""
        builder, most = self.builder, len(pipeline.steps) - 1
        with self._last_rows() as (row, lower, upper), builder.loop(lower, builder.add(upper, most)) as loop:
            row = replace(row, depth=builder.depth, slots=len(pipeline.steps))
            filled = builder.compare("sge", builder.sub(loop.index, most), lower)
            within = builder.compare("slt", loop.index, upper)
            whole = builder.insert(arith.AndIOp(filled, within))
            choice = builder.insert(scf.IfOp(whole.result, [], Region(IRBlock()), [IRBlock()]))
            with builder.branch(choice, choice.true_region):
                self._run_steps(pipeline, [self._step_row(pipeline, row, loop.index, s) for s in pipeline.steps])
                builder.insert(scf.YieldOp())
            with builder.branch(choice, choice.false_region):
                for step in pipeline.steps:
                    number = builder.sub(loop.index, step.number)
                    there = builder.compare("ult", builder.sub(number, lower), builder.sub(upper, lower))
                    with builder.when(there):
                        self._run_steps(pipeline, [self._step_row(pipeline, row, loop.index, step)])
                builder.insert(scf.YieldOp())

    @contextmanager
    def _last_rows(self) -> Generator[tuple[Row, Scalar, Scalar]]:
        """Opens the loops over all axes of rows but the last: yields a row in them, and the last one's range."""
        *outer, last = self.row_axes
        cycles, inner, extent = (
            self.cost / self.target.lanes(4),
            self._inner_points(),
            self.builder.dim(self.extent(last)),
        )
        if outer or self.small:
            with self._rows(outer, (), cycles, self.builder.mul(inner, extent)) as (row, _):
                yield row, 0, extent
        else:
            with self.builder.parallel(extent, self._grain(cycles, inner)) as (lower, upper, thread):
                yield Row({}, thread, self.builder.depth), lower, upper

    def _step_row(self, pipeline: Pipeline, row: Row, time: Scalar, step: Step) -> tuple[Step, Row]:
        """The row that a step is at, with what the steps before it have left."""
        builder = self.builder
        index = builder.sub(time, step.number)
        indices: dict[int, Value] = {**row.indices, self.row_axes[-1][-1]: Lanes(index)}
        slot = builder.mod(builder.add(index, row.slots), row.slots)
        row = replace(row, indices=indices, slot=slot, registers={}, local={})
        for before in pipeline.steps[: step.number]:
            for stage in before.stages:
                self._give_places(stage, row)
        for result in step.taken:
            value = builder.load(self._register(result, row), slot)
            for view in self.shapes.views(result):
                row.registers[view] = value
        return step, row

    def _run_steps(self, pipeline: Pipeline, steps: Sequence[tuple[Step, Row]]) -> None:
        """Some steps, each at its row."""
        for step, row in steps:
            for stage in step.before:
                run_lanes([self._points(stage, row, 1)])
        joined: list[Points] = []
        for step, row in steps:
            joined.append(self._points(step.loop, row, self._stage_lanes(step.loop)))
            joined[-1].streams = self._streams[self.nest.stages.index(step.loop)]
        run_joined(joined, pipeline.axis)
        for step, row in steps:
            for stage in step.after:
                run_lanes([self._points(stage, row, 1)])
            for result in step.left:
                self.builder.store(row.registers[result], self._register(result, row), row.slot)

    def _register(self, result: SSAValue, row: Row) -> SSAValue:
        """Scratch for the one element that each row in the pipeline has of a result."""
        key = (result, 0)
        if key not in self.scratch:
            self.scratch[key] = self.space.take(self.builder, element_type(result), row.slots, row.thread)
        return self.scratch[key]

    def _rows_together(self) -> int:
        """How many rows to run side by side, so that one's sums are made while another's are waited for."""
        extents = [e for g in self.generics for e in g.extents[self.nest.rows :]]
        if not self.row_axes or not policy.known(extents) or all(g.is_map for g in self.generics):
            return 1
        cost = sum(policy.cycles(g.walk()) for g in self.generics if g.rank > self.nest.rows)
        return policy.rows_together(self.extent(self.row_axes[-1]), cost)

    def _following(self, row: Row, number: int) -> Row:
        """The row that is so many further along the last axis."""
        last = self.row_axes[-1][-1]
        first = row.indices[last]
        assert isinstance(first, Lanes)
        indices: dict[int, Value] = {**row.indices, last: Lanes(self.builder.add(first.base, number))}
        return Row(indices, row.thread, row.depth, number=number)

    def _inner_points(self) -> Scalar:
        """The points of a row, in the stage that has most."""
        total: Scalar = 1
        for extent in max((s.extents for s in self.nest.stages), key=policy.estimate):
            total = self.builder.mul(total, self.builder.dim(extent))
        return total

    def _stage_lanes(self, stage: Stage) -> int:
        """Lanes of a stage's loop: those of the reductions whose order they decide, whatever else is in the loop."""
        ordered = [g.ordered for g in stage.generics if g.ordered is not None]
        elements = ordered or [r.element for g in stage.generics for r in g.reductions if r is not None]
        lanes = self._map_lanes(stage.generics)
        return policy.reduction_lanes(elements[0], self.target) if elements and lanes > 1 else lanes

    # Columns

    def _run_columns(self) -> None:
        lanes = self._map_lanes(self.generics)
        with self._column_tiles(lanes) as row:
            for stage, streams in zip(self.nest.stages, self._streams):
                points = self._points(stage, row, lanes)
                points.streams = streams
                run_columns(points, self.space)

    @contextmanager
    def _column_tiles(self, lanes: int) -> Generator[Row]:
        """Opens the loops over rows and over tiles of columns. Without rows, threads share out vectors of columns."""
        builder, width = self.builder, self.nest.width
        tile, inner = self.nest.column_tile(lanes, builder.loops.column_tile), self._inner_points()
        if self.row_axes or self.small:
            cycles = self.cost * min(tile, policy.estimate([width])) / lanes
            with self._rows(self.row_axes, [(width + (tile - 1)) // tile], cycles, inner) as (row, [piece]):
                start, count = self._piece(width, tile, piece)
                yield replace(row, start=start, count=count)
            return
        vectors = builder.dim((width + (lanes - 1)) // lanes)
        with builder.parallel(vectors, self._grain(self.cost, inner)) as (lower, upper, thread):
            end = builder.minimum(builder.mul(upper, lanes), builder.dim(width))
            with builder.loop(builder.mul(lower, lanes), end, tile) as loop:
                count = builder.minimum(tile, builder.sub(end, loop.index))
                yield Row({}, thread, builder.depth, loop.index, count)

    # What a row keeps

    def _give_places(self, stage: Stage, row: Row) -> None:
        for generic in stage.generics:
            for write, result in zip(generic.outputs, generic.results):
                self._give_place(stage, row, generic, write, result)

    def _give_place(self, stage: Stage, row: Row, generic: Generic, write: Access, result: SSAValue) -> None:
        shapes = self.shapes
        if result in self.storage:
            for view in shapes.views(result):
                row.local[view] = self._whole(view, row)
        elif not self._is_read_later(stage, result) or self.nest.is_register(generic, write):
            return
        elif result in self._lent:
            row.local[result] = self._whole(self._lent[result], row)
        else:
            for view in shapes.views(result):
                row.local[view] = self._row_buffer(row, generic, write, view)

    def _whole(self, result: SSAValue, row: Row) -> Buffer:
        """All of a result in memory, of which this row is complete from here on."""
        place = self.storage[result]
        assert isinstance(place, Buffer)
        return replace(place, depth=row.depth, nontemporal=result in (self.nontemporal or ()))

    @cached_property
    def _lent(self) -> dict[SSAValue, SSAValue]:
        outputs = [result for result in self.storage if result not in (self.nontemporal or ())]
        return lent_outputs(self.nest, self.shapes, outputs)

    @cached_property
    def _streams(self) -> list[list[Stream]]:
        in_order = self._pipeline is not None
        past = self.nontemporal or ()
        return find_streams(
            self.nest, self.shapes, self.storage, self._lent, self.target, in_order=in_order, nontemporal=past
        )

    def _is_read_later(self, stage: Stage, result: SSAValue) -> bool:
        """Whether another stage of the nest reads the result."""
        others = [g for g in self.generics if g not in stage.generics]
        return any(self.shapes.root(t) is result for g in others for t in g.tensors)

    def _row_buffer(self, row: Row, generic: Generic, write: Access, view: SSAValue) -> Buffer:
        """Scratch for one row of a result, as the result itself or a view of it."""
        builder, shapes, result = self.builder, self.shapes, self.shapes.root(view)
        inner, tile = self.nest.inner(generic), self._tile()
        key = (result, row.number)
        size = generic.extent([a for a in write.axes if a is not None and a in inner]) * tile
        if row.slots > 1:
            lanes = LINE_BYTES // byte_width(element_type(result))
            size = (size + (lanes - 1)) // lanes * lanes
        if key not in self.scratch:
            self.scratch[key] = self.space.take(builder, element_type(result), size * row.slots, row.thread)
        # A row's own axes come first in the result and are the same in a view of it.
        kept = len(write.axes) if view is result else shapes.shared_axes(view)
        axes = [*write.axes[:kept], *(inner.start for _ in shapes[view][kept:])]
        sizes = [d for d, a in zip(shapes[view], axes) if a in inner]
        strides = iter(builder.mul(s, tile) for s in row_major(builder, [builder.dim(d) for d in sizes]))
        column = self.nest.column(generic)[-1] if self.nest.columns else None
        by_axis = tuple(next(strides) if a in inner else int(a is not None and a == column) for a in axes)
        offset = builder.sub(builder.mul(row.slot, builder.dim(size)), row.start)
        return Buffer(self.scratch[key], by_axis, offset, row.depth)

    def _tile(self) -> int:
        """Columns that a row's scratch has room for."""
        if not self.nest.columns:
            return 1
        return self.nest.column_tile(self._map_lanes(self.generics), self.builder.loops.column_tile)


def split(builder: LoopBuilder, index: Scalar, sizes: Sequence[Scalar]) -> list[Scalar]:
    """The row-major indices of a flat index."""
    indices: list[Scalar] = []
    for size in reversed(sizes[1:]):
        indices.append(builder.mod(index, size))
        index = builder.div(index, size)
    return [index, *reversed(indices)]


def _product(builder: LoopBuilder, sizes: Sequence[Scalar]) -> Scalar:
    total: Scalar = 1
    for size in sizes:
        total = builder.mul(total, size)
    return total
