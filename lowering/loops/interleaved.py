"""Pointwise nests with a short loop that lies innermost in memory: pixels of 3 channels, pairs, boxes of 4 numbers.

The lanes go along a long loop.  Where memory has the short loop innermost, its whole stretch is read or written as
contiguous vectors and taken apart or put together by shuffles; all of the short loop is one straight line of code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ...dialects.dims import as_dim
from .. import policy
from ..body import BodyEmitter, Buffer, Lanes, Storage
from ..loop_builder import Scalar
from ..shuffles import deinterleave, interleave
from .generics import Access, Generic, Shapes
from .nests import Axis, loop_stride
from .points import Points
from .vector_loop import Carried, Point, VectorLoop


@dataclass(frozen=True)
class Interleaving:
    """Lanes along `along`, the loop `short` of `count` points unrolled; these accesses have the two in one stretch."""

    along: Axis
    short: Axis
    count: int
    reads: tuple[Access, ...]
    writes: tuple[tuple[SSAValue, Access], ...]
    """Results, with how they are written."""


def find_interleaving(
    axes: Sequence[Axis], generics: Sequence[Generic], shapes: Shapes, straight_cycles: int
) -> Interleaving | None:
    """The two loops for which most accesses have the short one innermost, next to the long one."""
    cost = policy.cycles(op for g in generics for op in g.walk())
    found: list[Interleaving] = []
    for short in axes:
        extent = generics[0].extent(short)
        if not extent.is_const or not policy.worth_interleaving(extent.value, cost, straight_cycles):
            continue
        for along in axes:
            if along is not short:
                found.append(_interleaving(along, short, extent.value, generics, shapes))
    useful = [f for f in found if f.writes or f.reads]
    return max(useful, key=lambda f: 2 * len(f.writes) + len(f.reads), default=None)


def _interleaving(along: Axis, short: Axis, count: int, generics: Sequence[Generic], shapes: Shapes) -> Interleaving:
    written = {r for g in generics for r in g.results}
    one, step = as_dim(1), as_dim(count)

    def together(access: Access) -> bool:
        inner, outer = (loop_stride(access, axis[-1], shapes) for axis in (short, along))
        return inner is one and outer is step

    reads = tuple(a for a in dict.fromkeys(a for g in generics for a in g.reads) if together(a))
    writes = tuple((r, a) for g in generics for r, a in zip(g.results, g.outputs) if together(a))
    return Interleaving(along, short, count, tuple(a for a in reads if shapes.root(a.tensor) not in written), writes)


def fits(found: Interleaving, along: Axis, generics: Sequence[Generic]) -> bool:
    """Whether the lanes would go along the same loop anyway, or all results are contiguous only this way."""
    writes = [a for g in generics for a in g.outputs]
    if found.along == along:
        return bool(found.reads) or bool(found.writes)
    return len(found.writes) == len(writes)


@dataclass
class InterleavedLoop:
    """The vector loop along the long loop."""

    points: Points
    plan: Interleaving

    def run(self, lower: Scalar, count: Scalar) -> None:
        """All of [lower, lower + count)."""
        end = self.points.builder.add(lower, count)

        def body(group: Sequence[Point], carried: Carried) -> Carried:
            for point in group:
                self._emit(point, end)
            return carried

        VectorLoop(self.points.builder, lower, count, self.points.lanes).run(body, body)

    def _emit(self, point: Point, end: Scalar) -> None:
        points, plan = self.points, self.plan
        points.indices[plan.short[-1]] = Lanes(0)
        points.indices[plan.along[-1]] = Lanes(point.at)
        parts = self._parts(point, end)
        sources = {a: self._stretch(parts[0].tensors[a.tensor], a) for a in plan.reads}
        # a result that only this loop reads stays in registers
        stored = [(r, a, points.row.local.get(r)) for r, a in plan.writes]
        sinks = {r: self._stretch(place, a) for r, a, place in stored if place is not None}
        given = {access: self._read(stretch, parts) for access, stretch in sources.items()}
        taken: dict[SSAValue, list[SSAValue]] = {result: [] for result in sinks}
        for number in range(plan.count):
            points.indices[plan.short[-1]] = Lanes(number)
            emitter = points.emitter(point, [plan.along])
            points.emit(emitter, (), {a: v[number] for a, v in given.items()}, taken)
        for result, vectors in taken.items():
            self._write(sinks[result], parts, interleave(points.builder, vectors))

    def _parts(self, point: Point, end: Scalar) -> list[BodyEmitter]:
        """Emitters for the vectors of a stretch, with masks where it is not whole."""
        lanes, builder, count = self.points.lanes, self.points.builder, self.plan.count
        emitter = self.points.emitter(point, ())
        if point.mask is None:
            return [emitter] * count
        left = builder.mul(builder.sub(end, point.at), count)
        inside = [builder.maximum(0, builder.minimum(lanes, builder.sub(left, t * lanes))) for t in range(count)]
        return [replace(emitter, mask=builder.mask(lanes_in, lanes), guarded=True) for lanes_in in inside]

    def _stretch(self, place: Storage, access: Access) -> Stretch:
        """The stretch at the open loops' indices."""
        assert isinstance(place, Buffer)
        offset = self.points.emitter(Point(0), ()).offset(place, self.points.at(access))
        assert isinstance(offset, Lanes)
        return Stretch(place, offset.base)

    def _read(self, stretch: Stretch, parts: Sequence[BodyEmitter]) -> list[SSAValue]:
        loaded = [e.vector(e.load_at(stretch.place, self._offset(stretch, t))) for t, e in enumerate(parts)]
        return deinterleave(self.points.builder, loaded)

    def _write(self, stretch: Stretch, parts: Sequence[BodyEmitter], vectors: Sequence[SSAValue]) -> None:
        for t, (emitter, value) in enumerate(zip(parts, vectors)):
            emitter.store_at(value, stretch.place, self._offset(stretch, t))

    def _offset(self, stretch: Stretch, part: int) -> Lanes:
        return Lanes(self.points.builder.add(stretch.start, part * self.points.lanes), 1)


@dataclass(frozen=True)
class Stretch:
    """The elements of an operand for one vector of points: contiguous from offset `start` on."""

    place: Buffer
    start: Scalar
