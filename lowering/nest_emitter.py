"""Emits one nest of generics: the row loops, the stages' loops, their points.

A *point* is one vector of results: a place in all loops, where one loop's index varies over the lanes.  A pointwise
loop evaluates one or two points an iteration, a reduction one for each of its accumulators, and a nest of columns
one for each vector of a tile of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import vectorx
from ..dialects.dims import Dim, as_dim
from ..dialects.target import Target
from . import policy
from .body import BodyEmitter, Buffer, Lanes, Storage, Value, row_major, select, vectorizable
from .generics import Access, Generic, LoweringError, Reduction, Shapes
from .loop_builder import LoopBuilder, Scalar, ScratchSpace
from .nests import Nest, Stage, loop_stride, merge_loops

Axis = tuple[int, ...]
"""Loops that are walked through as one; the last one's index stands for all."""

Accumulators = tuple[SSAValue, ...]


@dataclass(frozen=True)
class Point:
    """One vector of results: `at` is the vector's index in the loop over lanes (or columns)."""

    at: Scalar
    mask: SSAValue | None = None
    register: int = 0
    """Which of a row value's registers is this point's."""


@dataclass
class Row:
    """One iteration of the row loops."""

    indices: dict[int, Value]
    thread: SSAValue | None
    depth: int
    points: tuple[Point, ...] = ()
    """A nest of columns: the tile's vectors."""
    registers: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    local: dict[SSAValue, Storage] = field(default_factory=dict[SSAValue, Storage])


@dataclass
class NestEmitter:
    """Emits a nest at the builder's place."""

    builder: LoopBuilder
    nest: Nest
    shapes: Shapes
    storage: dict[SSAValue, Storage]
    space: ScratchSpace
    scratch: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self) -> None:
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
        """Cycles for one vector of each generic, with its loads and stores."""
        return sum(_cost(g) for g in self.generics)

    @cached_property
    def row_axes(self) -> list[Axis]:
        return merge_loops(range(self.nest.rows), self.generics, self.shapes)

    @cached_property
    def static(self) -> bool:
        return all(e.is_const for g in self.generics for e in g.extents)

    @cached_property
    def small(self) -> bool:
        """Whether all of it is known to be too little work for threads."""
        lanes = self.target.lanes(4)
        work = sum(_cost(g) * policy.estimate(g.extents) / lanes for g in self.generics)
        return self.static and work < policy.SERIAL_CYCLES

    # Row loops

    @contextmanager
    def _rows(self, extents: Sequence[Dim], cycles_per_row: float, inner: Scalar) -> Generator[Row]:
        """Opens the row loops; `inner` counts the points of a row that take `cycles_per_row` each."""
        builder, axes = self.builder, self.row_axes
        with ExitStack() as stack:
            count = 0 if self.small else policy.flattened_rows(extents)
            indices: list[Scalar] = []
            thread = None
            if count:
                sizes = [builder.dim(e) for e in extents[:count]]
                per_row = policy.estimate(extents[count:]) * cycles_per_row
                grain = self._grain(per_row, inner)
                lower, upper, thread = stack.enter_context(builder.parallel(_product(builder, sizes), grain))
                loop = stack.enter_context(builder.loop(lower, upper, nonempty=True))
                indices += split(builder, loop.index, sizes)
            for extent in extents[count:]:
                indices.append(stack.enter_context(builder.loop(0, builder.dim(extent))).index)
            row = Row({axis[-1]: Lanes(i) for axis, i in zip(axes, indices)}, thread, builder.depth)
            row.indices[_EXTRA] = Lanes(indices[-1]) if len(indices) > len(axes) else Lanes(0)
            yield row

    def _grain(self, cycles: float, inner: Scalar) -> Scalar:
        iterations = max(1, round(policy.GRAIN_CYCLES / max(cycles, 1)))
        builder = self.builder
        return builder.maximum(1, builder.div(iterations, builder.maximum(1, inner)))

    # A pointwise nest: the loops may be ordered and merged at will

    def _run_pure(self) -> None:
        axes = self.row_axes
        lanes = policy.map_lanes([g.op.body for g in self.generics], self._elements(), self.target)
        if not axes or not all(vectorizable(g.op.body) for g in self.generics):
            with self._rows([self.extent(a) for a in axes], self.cost, 1) as row:
                StageEmitter(self, self.nest.stages[0], row, 1).run_point()
            return
        vector = axes.pop(self.vector_axis(axes))
        size, extents = self.extent(vector), [self.extent(a) for a in axes]
        chunk = self._chunk(extents, size, lanes)
        if chunk is None:
            with self._rows(extents, self.cost / lanes, self.builder.dim(size)) as row:
                self._pure_row(row, vector, lanes, 0, self.builder.dim(size))
            return
        with self._rows([*extents, (size + (chunk - 1)) // chunk], self.cost / lanes, chunk) as row:
            start = row.indices.pop(_EXTRA)
            assert isinstance(start, Lanes)
            lower = self.builder.mul(start.base, chunk)
            whole = (size % chunk) is as_dim(0)
            rest = self.builder.sub(self.builder.dim(size), lower)
            self._pure_row(row, vector, lanes, lower, chunk if whole else self.builder.minimum(chunk, rest))

    def _pure_row(self, row: Row, vector: Axis, lanes: int, lower: Scalar, count: Scalar) -> None:
        StageEmitter(self, self.nest.stages[0], row, lanes).run_vectors([vector], lower, count, ())

    def _chunk(self, extents: Sequence[Dim], size: Dim, lanes: int) -> int | None:
        """The pieces into which to cut the vector loop so that there is enough to do in parallel; None: uncut."""
        rows = policy.known_iterations(extents)
        if self.small or rows >= policy.PARALLEL_ITERATIONS:
            return None
        vectors = max(1, round(policy.GRAIN_CYCLES / 4 / self.cost))
        chunk = 1 << (vectors * lanes - 1).bit_length()
        return None if size.is_const and size.value <= chunk else chunk

    def vector_axis(self, axes: Sequence[Axis]) -> int:
        """The axis along which most operands are contiguous, results counting twice; the last of equals."""

        def score(number: int) -> tuple[int, int]:
            loop, one = axes[number][-1], as_dim(1)
            reads = sum(loop_stride(a, loop, self.shapes) is one for g in self.generics for a in g.reads)
            writes = sum(loop_stride(a, loop, self.shapes) is one for g in self.generics for a in g.outputs)
            return reads + 2 * writes, number

        return max(range(len(axes)), key=score)

    def _elements(self) -> list[Attribute]:
        accesses = [a for g in self.generics for a in g.accesses]
        return [element_type(a.tensor) for a in accesses]

    # Rows with stages

    def _run_rows(self) -> None:
        inner = self.builder.dim(1)
        widest = max(self.nest.stages, key=lambda s: policy.estimate(s.extents))
        for extent in widest.extents:
            inner = self.builder.mul(inner, self.builder.dim(extent))
        lanes = self.target.lanes(4)
        with self._rows([self.extent(a) for a in self.row_axes], self.cost / lanes, inner) as row:
            for stage in self.nest.stages:
                self._stage(stage, row)

    def _stage(self, stage: Stage, row: Row) -> None:
        StageEmitter(self, stage, row, self._stage_lanes(stage)).run()

    def _stage_lanes(self, stage: Stage) -> int:
        if not all(vectorizable(g.op.body) for g in stage.generics):
            return 1
        reduced = [element_type(o.tensor) for g in stage.generics for o, r in zip(g.outputs, g.reductions) if r]
        if reduced:
            return policy.reduction_lanes(reduced[0], self.target)
        accesses = [a for g in stage.generics for a in g.accesses]
        bodies = [g.op.body for g in stage.generics]
        return policy.map_lanes(bodies, [element_type(a.tensor) for a in accesses], self.target)

    # Columns

    def _run_columns(self) -> None:
        builder = self.builder
        width = self.generics[0].extents[-1]
        lanes = policy.map_lanes([g.op.body for g in self.generics], self._elements(), self.target)
        if not all(vectorizable(g.op.body) for g in self.generics):
            lanes = 1
        vectors = policy.column_vectors(width, lanes, self.cost, self.target.vector_registers)
        tile = vectors * lanes
        tiles = (width + (tile - 1)) // tile
        inner = builder.dim(1)
        for extent in max((s.extents for s in self.nest.stages), key=policy.estimate):
            inner = builder.mul(inner, builder.dim(extent))
        with self._rows([*(self.extent(a) for a in self.row_axes), tiles], self.cost * vectors, inner) as row:
            number = row.indices.pop(_EXTRA)
            assert isinstance(number, Lanes)
            self._tile(row, builder.mul(number.base, tile), builder.dim(width), vectors, lanes)

    def _tile(self, row: Row, start: Scalar, width: Scalar, vectors: int, lanes: int) -> None:
        """The stages for one tile of columns: whole vectors, or what is left at the end."""
        builder, tile = self.builder, vectors * lanes
        full = [Point(builder.add(start, i * lanes), None, i) for i in range(vectors)]
        if isinstance(width, int) and width % tile == 0:
            self._columns(row, full, start, tile, lanes)
            return
        if not isinstance(width, int) or width > tile:
            with builder.when(builder.compare("sle", builder.add(start, tile), width)):
                self._columns(row, full, start, tile, lanes)
        with ExitStack() as stack:
            if not isinstance(width, int) or width > tile:
                stack.enter_context(builder.when(builder.compare("sgt", builder.add(start, tile), width)))
            if isinstance(width, int):
                self._columns(row, self._last_points(start, width % tile, lanes), start, tile, lanes)
            else:
                at = stack.enter_context(builder.loop(start, width, lanes)).index
                mask = builder.mask(builder.minimum(builder.sub(width, at), lanes), lanes) if lanes > 1 else None
                self._columns(row, [Point(at, mask)], at, tile, lanes)

    def _last_points(self, start: Scalar, count: int, lanes: int) -> list[Point]:
        builder = self.builder
        points: list[Point] = []
        for number in range(-(-count // lanes)):
            left = count - number * lanes
            mask = builder.mask(left, lanes) if left < lanes else None
            points.append(Point(builder.add(start, number * lanes), mask, number))
        return points

    def _columns(self, row: Row, points: Sequence[Point], start: Scalar, tile: int, lanes: int) -> None:
        inner = replace(row, points=tuple(points), depth=self.builder.depth, registers={}, local={})
        self.column_start, self.column_tile = start, tile
        for stage in self.nest.stages:
            StageEmitter(self, stage, inner, lanes).run_columns()

    column_start: Scalar = 0
    column_tile: int = 1

    # What a row keeps

    def is_register(self, generic: Generic, write: Access) -> bool:
        """Whether a row has a single element of the result (or one for each column)."""
        return not any(axis in self.nest.inner(generic) for axis in write.axes)

    def needs_place(self, stage: Stage, generic: Generic, result: SSAValue) -> bool:
        """Whether another stage of the nest reads the result."""
        return any(_generic_of(user, self.nest) not in (None, *stage.generics) for user in self.shapes.readers(result))

    def row_buffer(self, row: Row, generic: Generic, write: Access, view: SSAValue) -> Buffer:
        """Scratch for one row of a result, as the result itself or a view of it."""
        builder, shapes, result = self.builder, self.shapes, self.shapes.root(view)
        inner = self.nest.inner(generic)
        tile = self.column_tile if self.nest.columns else 1
        if result not in self.scratch:
            size = generic.extent([a for a in write.axes if a is not None and a in inner]) * tile
            self.scratch[result] = self.space.take(builder, element_type(result), size, row.thread)
        # A row's own axes come first in the result and are the same in a view of it.
        kept = len(write.axes) if view is result else shapes.shared_axes(view)
        axes = [*write.axes[:kept], *(inner.start for _ in shapes[view][kept:])]
        sizes = [d for d, a in zip(shapes[view], axes) if a in inner]
        strides = iter(builder.mul(s, tile) for s in row_major(builder, [builder.dim(d) for d in sizes]))
        column = generic.rank - 1 if self.nest.columns else None
        by_axis = tuple(next(strides) if a in inner else int(a is not None and a == column) for a in axes)
        offset = builder.sub(0, self.column_start) if self.nest.columns else 0
        return Buffer(self.scratch[result], by_axis, offset, row.depth)


_EXTRA = -1
"""The key of a row's index over chunks or tiles, which is none of the loops."""


@dataclass
class StageEmitter:
    """Emits one stage for one row."""

    nest: NestEmitter
    stage: Stage
    row: Row
    lanes: int

    def __post_init__(self) -> None:
        self.builder = self.nest.builder
        self.indices: dict[int, Value] = dict(self.row.indices)
        generics = self.stage.generics
        self.reductions = [(g, k, r) for g in generics for k, r in enumerate(g.reductions) if r is not None]
        self.cost = sum(_cost(g) for g in generics)
        for generic in generics:
            for write, result in zip(generic.outputs, generic.results):
                self._give_place(generic, write, result)

    def _give_place(self, generic: Generic, write: Access, result: SSAValue) -> None:
        nest, row = self.nest, self.row
        if result in nest.storage:
            for view in nest.shapes.views(result):
                whole = nest.storage[view]
                assert isinstance(whole, Buffer)
                row.local[view] = replace(whole, depth=row.depth)
        elif nest.needs_place(self.stage, generic, result) and not nest.is_register(generic, write):
            for view in nest.shapes.views(result):
                row.local[view] = nest.row_buffer(row, generic, write, view)

    def extent(self, axis: Axis) -> Dim:
        """The iterations of an axis of the stage."""
        return self.stage.generics[0].extent(axis)

    # The loops of a stage

    def run(self) -> None:
        """Along lanes: parallel loops, then reduced ones, the innermost vectorized."""
        parallel, reduced = self._axes(self.nest.nest.inner(self.stage.generics[0]))
        axes = reduced or parallel
        if not axes:
            self.run_point()
            return
        if reduced:
            vector = [a for a in reduced if set(a) <= set(self._trailing())]
            outer = [a for a in reduced if a not in vector]
        else:
            vector = [parallel.pop(self.nest.vector_axis(parallel))]
            outer = []
        with ExitStack() as stack:
            for axis in parallel:
                self._open(stack, axis)
            accumulators = self._identities(1 if not vector or self.lanes == 1 else policy.ACCUMULATORS)
            size = self.extent(tuple(loop for axis in vector for loop in axis))
            count = self.builder.dim(size)

            def body(accs: Accumulators) -> Accumulators:
                return self.run_vectors(vector, 0, count, accs) if vector else self._points([Point(0)], [], accs)

            self._finish_lanes(self._reduce(outer, accumulators, body))

    def run_point(self) -> None:
        """A stage without inner loops: one scalar evaluation."""
        self.lanes = 1
        self._finish_lanes(self._points([Point(0)], [], self._identities(1)))

    def run_columns(self) -> None:
        """Along columns: parallel loops, then reduced ones, all points of the tile in each iteration."""
        parallel, reduced = self._axes(self.nest.nest.inner(self.stage.generics[0]))
        with ExitStack() as stack:
            for axis in parallel:
                self._open(stack, axis)
            column = [(self.stage.generics[0].rank - 1,)]
            points = self.row.points
            final = self._reduce(
                reduced, self._identities(len(points)), lambda accs: self._points(points, column, accs)
            )
            self._finish_columns(final, column)

    def _axes(self, loops: Sequence[int]) -> tuple[list[Axis], list[Axis]]:
        """The stage's merged loops: parallel ones, reduced ones."""
        axes = merge_loops(loops, self.stage.generics, self.nest.shapes)
        reduced = self.stage.reduced or (False,) * len(loops)
        is_reduced = dict(zip(loops, reduced))
        return [a for a in axes if not is_reduced[a[0]]], [a for a in axes if is_reduced[a[0]]]

    def _trailing(self) -> range:
        rank = self.stage.generics[0].rank
        reduced = self.stage.reduced or ()
        return range(rank - next((i for i, r in enumerate(reversed(reduced)) if not r), len(reduced)), rank)

    def _open(self, stack: ExitStack, axis: Axis) -> None:
        loop = stack.enter_context(self.builder.loop(0, self.builder.dim(self.extent(axis))))
        self.indices[axis[-1]] = Lanes(loop.index)

    def _reduce(
        self, axes: Sequence[Axis], accumulators: Accumulators, body: Callable[[Accumulators], Accumulators]
    ) -> Accumulators:
        """Nested loops that carry the accumulators through the body."""
        if not axes:
            return body(accumulators)
        extent = self.builder.dim(self.extent(axes[0]))
        with self.builder.loop(0, extent, carried=accumulators) as loop:
            self.indices[axes[0][-1]] = Lanes(loop.index)
            loop.carry(self._reduce(axes[1:], loop.carried, body))
        return loop.results

    # The vector loop

    def run_vectors(
        self, axes: Sequence[Axis], lower: Scalar, count: Scalar, accumulators: Accumulators
    ) -> Accumulators:
        """All vectors of [lower, lower + count): several at once, then one by one, then what is left under a mask."""
        builder, lanes = self.builder, self.lanes
        group, rolled = self._group()
        block = group * lanes
        whole = builder.mul(builder.div(count, block), block)
        accs = accumulators
        if whole != 0:
            step = lanes if rolled else block
            points = 1 if rolled else group
            accs = self._span(axes, lower, whole, step, points, accs, rotate=rolled)
        if lanes == 1 and group == 1:
            return accs
        vectors = builder.mul(builder.div(count, lanes), lanes)
        if group > 1 and vectors != whole:
            accs = self._span(axes, builder.add(lower, whole), builder.sub(vectors, whole), lanes, 1, accs)
        if lanes > 1 and vectors != count and not (isinstance(count, int) and count == vectors):
            accs = self._tail(axes, builder.add(lower, vectors), builder.sub(count, vectors), accs)
        return accs

    def _group(self) -> tuple[int, bool]:
        """Points an iteration, and whether a reduction goes round its accumulators with one point an iteration."""
        if self.reductions:
            if self.lanes == 1:
                return 1, False
            return policy.ACCUMULATORS, self.cost > policy.UNROLLED_COST
        return policy.map_unroll(self.cost) if self.lanes > 1 else 1, False

    def _span(
        self,
        axes: Sequence[Axis],
        lower: Scalar,
        count: Scalar,
        step: int,
        points: int,
        accumulators: Accumulators,
        rotate: bool = False,
    ) -> Accumulators:
        """A loop over [lower, lower + count), which is a multiple of step, of `points` whole vectors an iteration."""
        builder = self.builder

        def at(base: Scalar) -> list[Point]:
            return [Point(builder.add(base, i * self.lanes)) for i in range(points)]

        if isinstance(count, int) and count == step:
            return self._points(at(lower), axes, accumulators, rotate)
        with builder.loop(
            lower, builder.add(lower, count), step, accumulators, nonempty=isinstance(count, int)
        ) as loop:
            loop.carry(self._points(at(loop.index), axes, loop.carried, rotate))
        return loop.results

    def _tail(self, axes: Sequence[Axis], at: Scalar, count: Scalar, accumulators: Accumulators) -> Accumulators:
        """The last vector, of fewer lanes; where that is not known now, a loop of no or one iteration."""
        builder = self.builder
        if isinstance(count, int):
            return self._points([Point(at, builder.mask(count, self.lanes))], axes, accumulators)
        with builder.loop(0, count, self.lanes, accumulators) as loop:
            point = Point(builder.add(at, loop.index), builder.mask(count, self.lanes))
            loop.carry(self._points([point], axes, loop.carried))
        return loop.results

    # Points

    def _points(
        self, points: Sequence[Point], axes: Sequence[Axis], accumulators: Accumulators, rotate: bool = False
    ) -> Accumulators:
        """Evaluates the stage at some points; point i adds into accumulator i of each reduction."""
        each = len(accumulators) // len(self.reductions) if self.reductions else 0
        accs = list(accumulators)
        for number, point in enumerate(points):
            mine = [i * each + number for i in range(len(self.reductions))]
            for i, value in zip(mine, self._point(point, axes, [accs[i] for i in mine])):
                accs[i] = value
        if rotate:
            accs = [accs[r * each + (i + 1) % each] for r in range(len(self.reductions)) for i in range(each)]
        return tuple(accs)

    def _emitter(self, point: Point, axes: Sequence[Axis]) -> BodyEmitter:
        emitter = BodyEmitter(self.builder, self.lanes, self._tensors(point), (), point.mask)
        if axes:
            sizes = [self.builder.dim(self.extent(a)) for a in axes]
            lane = Lanes(point.at, int(self.lanes > 1))
            for axis, index in zip(axes, emitter.split(lane, sizes)):
                self.indices[axis[-1]] = index
        rank = max(g.rank for g in self.stage.generics)
        return replace(emitter, indices=[self.indices.get(i, Lanes(0)) for i in range(rank)])

    def _tensors(self, point: Point) -> dict[SSAValue, Storage]:
        registers = {t: values[min(point.register, len(values) - 1)] for t, values in self.row.registers.items()}
        return {**self.nest.storage, **self.row.local, **registers}

    def _point(self, point: Point, axes: Sequence[Axis], accumulators: Sequence[SSAValue]) -> list[SSAValue]:
        emitter = self._emitter(point, axes)
        here: dict[SSAValue, Value] = {}
        accs: list[SSAValue] = []
        for generic in self.stage.generics:
            self.builder.origin = generic.op.attributes.get("origin")
            combining = [r for r in generic.reductions if r is not None]
            values = emitter.emit_values(
                generic.block,
                self._arguments(generic, emitter, here),
                [v if r is None else r.value for v, r in zip(_yielded(generic), generic.reductions)],
                {r.combine for r in combining},
            )
            for number, (value, reduction) in enumerate(zip(values, generic.reductions)):
                if reduction is not None:
                    accs.append(self._combine(emitter, reduction, accumulators[len(accs)], value))
                else:
                    here[generic.results[number]] = value
                    self._store_map(emitter, generic, number, value, point)
        return accs

    def _arguments(self, generic: Generic, emitter: BodyEmitter, here: dict[SSAValue, Value]) -> dict[SSAValue, Value]:
        arguments: dict[SSAValue, Value] = {}
        accesses = (*generic.inputs, *generic.outputs)
        reductions = (*(None for _ in generic.inputs), *generic.reductions)
        for argument, access, reduction in zip(generic.block.args, accesses, reductions, strict=True):
            if not argument.uses or reduction is not None:
                continue
            known = here.get(access.tensor)
            arguments[argument] = self._read(emitter, access) if known is None else known
        return arguments

    def _read(self, emitter: BodyEmitter, access: Access) -> Value:
        place = emitter.tensors.get(access.tensor)
        if place is None:
            raise LoweringError(f"a read of a tensor that nothing has written: {access.tensor}")
        return emitter.load(place, self._at(access))

    def _at(self, access: Access) -> list[Value]:
        return [Lanes(0) if axis is None else self.indices.get(axis, Lanes(0)) for axis in access.axes]

    def _store_map(self, emitter: BodyEmitter, generic: Generic, number: int, value: Value, point: Point) -> None:
        result, write = generic.results[number], generic.outputs[number]
        place = self.row.local.get(result)
        if isinstance(place, Buffer):
            emitter.store(value, place, self._at(write))
        if self.nest.is_register(generic, write) and not self.nest.nest.pure:
            self._keep(result, emitter.vector(value))

    def _keep(self, result: SSAValue, value: SSAValue) -> None:
        for view in self.nest.shapes.views(result):
            self.row.registers.setdefault(view, []).append(value)

    # Reductions

    def _identities(self, count: int) -> Accumulators:
        values: list[SSAValue] = []
        for generic, number, reduction in self.reductions:
            element = element_type(generic.outputs[number].tensor)
            identity = self.builder.constant(reduction.identity, element)
            vector = identity if self.lanes == 1 else self.builder.broadcast(identity, self.lanes)
            values += [vector] * count
        return tuple(values)

    def _combine(self, emitter: BodyEmitter, reduction: Reduction, accumulator: SSAValue, value: Value) -> SSAValue:
        lanes = emitter.vector(value)
        if emitter.mask is not None and not self.nest.nest.columns:
            element = reduction.value.type
            identity = self.builder.broadcast(self.builder.constant(reduction.identity, element), self.lanes)
            chosen = select(emitter, emitter.mask, lanes, identity)
            assert isinstance(chosen, SSAValue)
            lanes = chosen
        return self._apply(reduction, accumulator, lanes)

    def _apply(self, reduction: Reduction, a: SSAValue, b: SSAValue) -> SSAValue:
        op = type(reduction.combine)
        new = op.create(operands=[a, b], result_types=[a.type], properties=reduction.combine.properties)
        return self.builder.hoisted(new).results[0]

    def _finish_lanes(self, accumulators: Accumulators) -> None:
        """Adds up the accumulators as a tree, then their lanes, then to the initial value."""
        each = len(accumulators) // len(self.reductions) if self.reductions else 0
        for number, (generic, output, reduction) in enumerate(self.reductions):
            self.builder.origin = generic.op.attributes.get("origin")
            parts = list(accumulators[number * each : (number + 1) * each])
            while len(parts) > 1:
                parts = [self._apply(reduction, a, b) for a, b in zip(parts[::2], parts[1::2])]
            [total] = parts
            if self.lanes > 1:
                element = reduction.combine.results[0].type
                total = self.builder.hoisted(vectorx.ReduceOp(reduction.kind, total, element)).result
            self._finish(BodyEmitter(self.builder, 1, self._tensors(Point(0))), generic, output, reduction, total)

    def _finish_columns(self, accumulators: Accumulators, column: Sequence[Axis]) -> None:
        points = self.row.points
        for number, (generic, output, reduction) in enumerate(self.reductions):
            self.builder.origin = generic.op.attributes.get("origin")
            for i, point in enumerate(points):
                total = accumulators[number * len(points) + i]
                self._finish(self._emitter(point, column), generic, output, reduction, total)

    def _finish(
        self, emitter: BodyEmitter, generic: Generic, number: int, reduction: Reduction, total: SSAValue
    ) -> None:
        write, result = generic.outputs[number], generic.results[number]
        initial = emitter.vector(self._read(emitter, write))
        value = self._apply(reduction, initial, total)
        place = self.row.local.get(result)
        if isinstance(place, Buffer):
            emitter.store(value, place, self._at(write))
        if self.nest.is_register(generic, write):
            self._keep(result, value)


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


def _yielded(generic: Generic) -> Sequence[SSAValue]:
    terminator = generic.block.last_op
    assert terminator is not None
    return terminator.operands


def _cost(generic: Generic) -> float:
    """Cycles for one vector: the body, and 4 for each operand in memory."""
    return policy.cycles(generic.op.body.walk()) + 4 * len(generic.accesses)


def _generic_of(user: Operation, nest: Nest) -> Generic | None:
    """The generic of the nest that contains the user."""
    op: Operation | None = user
    while op is not None:
        for generic in nest.generics:
            if generic.op is op:
                return generic
        op = op.parent_op()
    return None


def element_type(tensor: SSAValue) -> Attribute:
    assert isinstance(tensor.type, TensorType)
    return tensor.type.element_type


__all__ = ["NestEmitter", "Point", "Row", "StageEmitter", "element_type", "split"]
