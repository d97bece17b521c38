"""Pointwise nests with operands that are contiguous along another loop than the results: blocks turned in registers.

The block of `lanes` x `lanes` points is read as vectors along the one loop, transposed by shuffles (Eklundh), and
evaluated as vectors along the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects.dims import as_dim
from .. import policy
from ..body import Lanes
from ..loop_builder import LoopBuilder, Scalar, ScratchSpace
from ..shuffles import transpose
from .generics import Access, Generic, Shapes
from .nests import Axis, loop_stride
from .points import Points, element_type
from .vector_loop import Point


@dataclass(frozen=True)
class Turned:
    """The loop along which the turned operands are contiguous, and those operands."""

    axis: int
    accesses: tuple[Access, ...]


def turned_operands(axes: Sequence[Axis], along: Axis, generics: Sequence[Generic], shapes: Shapes) -> Turned | None:
    """What to turn where the results are written as vectors along `along`, `axes` being the other loops."""
    one, zero = as_dim(1), as_dim(0)
    written = {r for g in generics for r in g.results}
    found: dict[int, list[Access]] = {}
    for access in dict.fromkeys(a for g in generics for a in g.reads):
        if shapes.root(access.tensor) in written:
            continue  # a value at hand
        if loop_stride(access, along[-1], shapes) in (one, zero):
            continue
        for number, axis in enumerate(axes):
            extent = generics[0].extent(axis)
            if extent.is_const and extent.value < policy.LEAST_BLOCK:
                continue
            if loop_stride(access, axis[-1], shapes) is one:
                found.setdefault(number, []).append(access)
    if not found:
        return None
    axis = max(found, key=lambda number: (len(found[number]), number))
    return Turned(axis, tuple(found[axis]))


@dataclass
class Block:
    """A block of points: `along` is the loop of the lanes, `across` the one along which operands are contiguous."""

    points: Points
    along: Axis
    across: Axis
    turned: tuple[Access, ...]
    space: ScratchSpace

    @property
    def builder(self) -> LoopBuilder:
        return self.points.builder

    @property
    def lanes(self) -> int:
        return self.points.lanes

    def run(self, start: Scalar, count: Scalar, block: Scalar) -> None:
        """All blocks of a stretch of the loop along, in block number `block` of the loop across."""
        builder, lanes = self.builder, self.lanes
        extent = builder.dim(self.points.extent(self.across))
        across = builder.mul(block, lanes)
        columns = lanes if _fits(extent, lanes) else builder.minimum(lanes, builder.sub(extent, across))
        whole = builder.mul(builder.div(count, lanes), lanes)
        end = builder.add(start, count)
        if whole != 0:
            with builder.loop(start, builder.add(start, whole), lanes) as loop:
                self._either(loop.index, across, columns)
        if whole != count:
            with builder.loop(builder.add(start, whole), end, lanes) as loop:
                self._emit(loop.index, across, builder.sub(end, loop.index), columns)

    def _either(self, along: Scalar, across: Scalar, columns: Scalar) -> None:
        """A block of whole rows: the code without masks where the columns are whole too."""
        builder, lanes = self.builder, self.lanes
        if isinstance(columns, int):
            self._emit(along, across, lanes, columns)
            return
        with builder.when(builder.compare("eq", columns, lanes)):
            self._emit(along, across, lanes, lanes)
        with builder.when(builder.compare("ne", columns, lanes)):
            self._emit(along, across, lanes, columns)

    def _emit(self, along: Scalar, across: Scalar, rows: Scalar, columns: Scalar) -> None:
        """`rows` points of the loop along (lanes of results), `columns` of the loop across (vectors of results)."""
        given = {a: transpose(self.builder, self._read(a, along, across, rows, columns)) for a in self.turned}
        if self.points.cost > policy.UNROLLED_BLOCK or not isinstance(columns, int):
            self._loop_over_vectors(given, along, across, rows, columns)
            return
        for number in range(columns):
            mask = self._mask(number, columns, rows)
            self._point(along, self.builder.add(across, number), mask, {a: v[number] for a, v in given.items()})

    def _read(self, access: Access, along: Scalar, across: Scalar, rows: Scalar, columns: Scalar) -> list[SSAValue]:
        """The operand as vectors along its contiguous loop, one for each lane of the results."""
        points, builder = self.points, self.builder
        vectors: list[SSAValue] = []
        for lane in range(rows if isinstance(rows, int) else self.lanes):
            emitter = points.emitter(Point(0, self._mask(lane, rows, columns)), ())
            points.indices[self.along[-1]] = Lanes(builder.add(along, lane))
            points.indices[self.across[-1]] = Lanes(across, 1)
            vectors.append(emitter.vector(points.read(emitter, access)))
        return vectors + [vectors[0]] * (self.lanes - len(vectors))

    def _mask(self, number: int, count: Scalar, lanes: Scalar) -> SSAValue | None:
        """The first `lanes` lanes of vector `number`, or none where there are not so many vectors."""
        builder = self.builder
        if isinstance(count, int):
            return None if lanes == self.lanes else builder.mask(lanes, self.lanes)
        inside = builder.compare("slt", number, count)
        return builder.mask(builder.select(inside, lanes, 0), self.lanes)

    def _point(self, along: Scalar, across: Scalar, mask: SSAValue | None, given: dict[Access, SSAValue]) -> None:
        points = self.points
        points.indices[self.along[-1]] = Lanes(along, 1)
        points.indices[self.across[-1]] = Lanes(across)
        points.emit(points.emitter(Point(along, mask), ()), (), given)

    def _loop_over_vectors(
        self, given: dict[Access, list[SSAValue]], along: Scalar, across: Scalar, rows: Scalar, columns: Scalar
    ) -> None:
        """One copy of a long body: the turned block goes through scratch."""
        builder, lanes = self.builder, self.lanes
        tiles: dict[Access, SSAValue] = {}
        for access, vectors in given.items():
            size = lanes * lanes
            tiles[access] = self.space.take(builder, element_type(access.tensor), size, self.points.row.thread)
            for number, value in enumerate(vectors):
                builder.store_vector(value, tiles[access], number * lanes)
        with builder.loop(0, columns) as loop:
            at = builder.mul(loop.index, lanes)
            loaded = {a: builder.load_vector(tile, at, lanes) for a, tile in tiles.items()}
            mask = None if rows == lanes else builder.mask(rows, lanes)
            self._point(along, builder.add(across, loop.index), mask, loaded)


def _fits(extent: Scalar, lanes: int) -> bool:
    return isinstance(extent, int) and extent % lanes == 0
