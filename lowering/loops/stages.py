"""The loops of one stage: along lanes, along columns, or none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from xdsl.ir import SSAValue

from ...dialects import vectorx
from .. import policy
from ..body import Lanes
from ..loop_builder import Scalar, ScratchSpace
from .nests import Axis, best_vector_axis, merge_loops
from .points import Points
from .vector_loop import Carried, Point, VectorLoop


def axes_of(points: Points) -> tuple[list[Axis], list[Axis]]:
    """The stage's merged inner loops: parallel ones, reduced ones."""
    loops = points.nest.inner(points.stage.generics[0])
    axes = merge_loops(loops, points.stage.generics, points.shapes)
    reduced = dict(zip(loops, points.stage.reduced or (False,) * len(loops)))
    return [a for a in axes if not reduced[a[0]]], [a for a in axes if reduced[a[0]]]


def open_loop(rows: Sequence[Points], stack: ExitStack, axis: Axis) -> None:
    """Opens the loop over an axis until the stack is closed."""
    first = rows[0]
    loop = stack.enter_context(first.builder.loop(0, first.builder.dim(first.extent(axis))))
    for points in rows:
        points.indices[axis[-1]] = Lanes(loop.index)


def run_point(points: Points) -> None:
    """A stage without inner loops: one scalar evaluation."""
    points.lanes = 1
    _finish_lanes(points, tuple(points.emit(points.emitter(Point(0), ()), points.identities(1))))


# Along lanes


def run_lanes(rows: Sequence[Points]) -> None:
    """Parallel loops, then reduced ones, the innermost vectorized; a vector is a part of one row.

    The rows, which are of one stage, run side by side in the same loops.
    """
    first = rows[0]
    parallel, reduced = axes_of(first)
    if not (parallel or reduced):
        for points in rows:
            run_point(points)
        return
    if reduced:
        trailing = first.stage.trailing(first.stage.generics[0])
        vector = [a for a in reduced if set(a) <= set(trailing)]
    else:
        vector = [parallel.pop(best_vector_axis(parallel, first.stage.generics, first.shapes, first.lanes))]
    outer = [a for a in reduced if a not in vector]
    with ExitStack() as stack:
        for axis in parallel:
            open_loop(rows, stack, axis)
        count = first.builder.dim(first.extent(tuple(itertools.chain(*vector))))
        each = policy.ACCUMULATORS if vector and first.lanes > 1 else 1
        carried = tuple(acc for points in rows for acc in points.identities(each))
        carried = _reduce(rows, outer, carried, lambda accs: run_axis(rows, vector, 0, count, accs))
        _finish_rows(rows, carried)


def run_joined(stages: Sequence[Points], axis: Axis) -> None:
    """One vector loop along the only inner axis of several stages, each of which is at a row of its own."""
    first = stages[0]
    each = policy.ACCUMULATORS if first.lanes > 1 else 1
    carried = tuple(acc for points in stages for acc in points.identities(each))
    _finish_rows(stages, run_axis(stages, [axis], 0, first.builder.dim(first.extent(axis)), carried))


def _finish_rows(rows: Sequence[Points], carried: Carried) -> None:
    for points, accumulators in zip(rows, _shares(rows, carried)):
        _finish_lanes(points, accumulators)


def _shares(rows: Sequence[Points], carried: Carried) -> list[Carried]:
    """Each row's part of what is carried, in order: as many accumulators for each reduction."""
    total = sum(len(points.reductions) for points in rows)
    each, shares, at = len(carried) // max(1, total), list[Carried](), 0
    for points in rows:
        shares.append(carried[at : at + each * len(points.reductions)])
        at += len(shares[-1])
    return shares


def run_axis(
    rows: Sequence[Points], axes: Sequence[Axis], lower: Scalar, count: Scalar, carried: Carried = ()
) -> Carried:
    """The vector loop over [lower, lower + count) of some axes walked through as one; a single point without axes."""
    first = rows[0]

    def several(group: Sequence[Point], carried: Carried) -> Carried:
        pairs = zip(rows, _shares(rows, carried))
        return tuple(itertools.chain(*(_points_of_row(points, axes, group, accs) for points, accs in pairs)))

    def in_turn(group: Sequence[Point], carried: Carried) -> Carried:
        each = policy.ACCUMULATORS
        new = several(group, carried)
        return tuple(new[r + (i + 1) % each] for r in range(0, len(new), each) for i in range(each))

    if not axes:
        return several([Point(0)], carried)
    reduces = any(points.reductions for points in rows)
    if not reduces or first.lanes == 1:
        edges = not reduces and any(g.guarded for g in first.stage.generics)
        return VectorLoop(first.builder, lower, count, first.lanes, edges=edges).run(several, several, carried)
    if max(points.cost for points in rows) > policy.UNROLLED_COST:
        loop = VectorLoop(first.builder, lower, count, first.lanes, turns=policy.ACCUMULATORS)
        return loop.run(in_turn, several, carried)
    loop = VectorLoop(first.builder, lower, count, first.lanes, policy.ACCUMULATORS)
    return loop.run(several, several, carried)


def _points_of_row(
    points: Points, axes: Sequence[Axis], group: Sequence[Point], accumulators: Carried
) -> Sequence[SSAValue]:
    """Emits some points of one row; gives its accumulators' next values."""
    each = len(accumulators) // len(points.reductions) if points.reductions else 0
    new = list(accumulators)
    for number, point in enumerate(group):
        mine = range(number, len(new), each or 1)
        for i, acc in zip(mine, points.emit(points.emitter(point, axes), [accumulators[i] for i in mine])):
            new[i] = acc
    return new


def _reduce(
    rows: Sequence[Points], axes: Sequence[Axis], carried: Carried, body: Callable[[Carried], Carried]
) -> Carried:
    """Nested loops that carry values through the body."""
    if not axes:
        return body(carried)
    builder = rows[0].builder
    with builder.loop(0, builder.dim(rows[0].extent(axes[0])), carried=carried) as loop:
        for points in rows:
            points.indices[axes[0][-1]] = Lanes(loop.index)
        loop.carry(_reduce(rows, axes[1:], loop.carried, body))
    return loop.results


def _finish_lanes(points: Points, accumulators: Carried) -> None:
    """Adds up the accumulators as a tree, then their lanes, then to what the result starts from."""
    lanes, builder = points.lanes, points.builder
    each = len(accumulators) // len(points.reductions) if points.reductions else 0
    points.lanes = 1
    for number, reduced in enumerate(points.reductions):
        builder.origin = reduced.generic.op.attributes.get("origin")
        parts = list(accumulators[number * each : (number + 1) * each])
        while len(parts) > 1:
            parts = [points.apply(reduced.reduction, a, b) for a, b in zip(parts[::2], parts[1::2])]
        [total] = parts
        if lanes > 1:
            op = vectorx.ReduceOp(reduced.reduction.kind, total, reduced.reduction.element)
            total = builder.hoisted(op).result
        points.finish(points.emitter(Point(0), ()), reduced, total)


# Along columns


def run_columns(points: Points, space: ScratchSpace) -> None:
    """Parallel loops, then reduced ones, then columns; the lanes of a vector are columns, each added up in order."""
    parallel, reduced = axes_of(points)
    with ExitStack() as stack:
        for axis in parallel:
            open_loop([points], stack, axis)
        if not points.reductions:
            _each_column(points, lambda point: _map_column(points, point))
        elif policy.unrolled([points.extent(a) for a in reduced], points.cost, points.builder.loops.straight_cycles):
            _each_column(points, lambda point: _add_up_at_once(points, point, reduced))
        else:
            _add_up_in_memory(points, reduced, space)


def _column(points: Points) -> list[Axis]:
    return [points.nest.column(points.stage.generics[0])]


def _each_column(points: Points, emit: Callable[[Point], None]) -> None:
    """The vector loop over the row's columns."""

    def body(group: Sequence[Point], carried: Carried) -> Carried:
        for point in group:
            emit(point)
        return carried

    VectorLoop(points.builder, points.row.start, points.row.count, points.lanes).run(body, body)


def _map_column(points: Points, point: Point) -> None:
    points.emit(points.emitter(point, _column(points)))


def _add_up_at_once(points: Points, point: Point, reduced: Sequence[Axis]) -> None:
    """All of a few reduced points of one vector of columns, one after the other."""
    accs = list(points.identities(1))
    for indices in itertools.product(*(range(points.extent(a).value) for a in reduced)):
        for axis, index in zip(reduced, indices):
            points.indices[axis[-1]] = Lanes(index)
        accs = points.emit(points.emitter(point, _column(points)), accs)
    for result, acc in zip(points.reductions, accs):
        points.finish(points.emitter(point, _column(points)), result, acc)


def _add_up_in_memory(points: Points, reduced: Sequence[Axis], space: ScratchSpace) -> None:
    """Accumulators of all the row's columns in scratch; some reduced points are added at each visit."""
    builder, row = points.builder, points.row
    tile = points.nest.column_tile(points.lanes, builder.loops.column_tile)
    sums = [space.take(builder, r.reduction.element, tile, row.thread) for r in points.reductions]

    def load(point: Point) -> list[SSAValue]:
        at = builder.sub(point.at, row.start)
        if points.lanes == 1:
            return [builder.load(s, at) for s in sums]
        return [builder.load_vector(s, at, points.lanes, point.mask) for s in sums]

    def store(point: Point, values: Sequence[SSAValue]) -> None:
        at = builder.sub(point.at, row.start)
        for base, value in zip(sums, values):
            if points.lanes == 1:
                builder.store(value, base, at)
            else:
                builder.store_vector(value, base, at, point.mask)

    def add(indices: Sequence[Scalar]) -> None:
        def visit(point: Point) -> None:
            accs = load(point)
            for index in indices:
                points.indices[reduced[-1][-1]] = Lanes(index)
                accs = points.emit(points.emitter(point, _column(points)), accs)
            store(point, accs)
            for index in indices if points.streams and point.mask is None else ():
                points.indices[reduced[-1][-1]] = Lanes(builder.add(index, len(indices)))
                points.ask_ahead(points.emitter(point, _column(points)))

        _each_column(points, visit)

    def finish(point: Point) -> None:
        for result, acc in zip(points.reductions, load(point)):
            points.finish(points.emitter(point, _column(points)), result, acc)

    _each_column(points, lambda point: store(point, points.identities(1)))
    with ExitStack() as stack:
        for axis in reduced[:-1]:
            open_loop([points], stack, axis)
        _in_groups(points, reduced[-1], policy.column_rows(points.cost, builder.loops.straight_cycles), add)
    _each_column(points, finish)


def _in_groups(points: Points, axis: Axis, group: int, add: Callable[[Sequence[Scalar]], None]) -> None:
    """A loop over an axis, several of its points an iteration, and the rest one by one."""
    builder = points.builder
    extent = builder.dim(points.extent(axis))
    whole = builder.mul(builder.div(extent, group), group)
    if whole != 0:
        with builder.loop(0, whole, group) as loop:
            add([builder.add(loop.index, i) for i in range(group)])
    if whole != extent:
        with builder.loop(whole, extent) as loop:
            add([loop.index])
