"""Evaluates the generics of a stage at one point: reads, bodies, stores, and what reductions add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, TensorType, VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import vectorx
from ...dialects.dims import Dim
from .. import policy
from ..body import BodyEmitter, Buffer, Lanes, Storage, Value, select
from ..element_types import byte_width
from ..loop_builder import LoopBuilder, Scalar, vector_of
from .generics import Access, Generic, LoweringError, Reduction, Shapes
from .nests import Axis, Nest, Stage
from .vector_loop import Point

LINE_BYTES = 64


@dataclass
class Row:
    """One iteration of the row loops. A nest of columns has in each row `count` columns from `start` on."""

    indices: dict[int, Value]
    thread: SSAValue | None
    depth: int
    start: Scalar = 0
    count: Scalar = 1
    number: int = 0
    """Which of the rows that run side by side it is."""
    slot: Scalar = 0
    slots: int = 1
    """Of the rows that are computed at a time in a pipeline: its place in scratch, and how many there are."""
    registers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Results of which a row has one element."""
    local: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])
    """Results of the nest that are in memory, complete from this row on."""


@dataclass(frozen=True)
class Stream:
    """Memory that a stage walks through once, to be asked for so many elements ahead."""

    access: Access
    ahead: int
    write: bool


@dataclass
class Points:
    """Emits points of one stage. `indices` are the open loops' by number, `given` what need not be read at a point."""

    builder: LoopBuilder
    nest: Nest
    stage: Stage
    row: Row
    storage: Mapping[SSAValue, Storage]
    shapes: Shapes
    lanes: int
    streams: Sequence[Stream] = ()
    indices: dict[int, Value] = field(default_factory=dict[int, Value])

    def __post_init__(self) -> None:
        self.indices = dict(self.row.indices)
        self.reductions = [Reduced(g, k, r) for g in self.stage.generics for k, r in enumerate(g.reductions) if r]
        self.cost = sum(generic_cost(g) for g in self.stage.generics)

    def extent(self, axis: Axis) -> Dim:
        """The iterations of an axis of the stage."""
        return self.stage.generics[0].extent(axis)

    def emitter(self, point: Point, axes: Sequence[Axis]) -> BodyEmitter:
        """Bodies at a point of a vector loop that runs over `axes` as one."""
        tensors = {**self.storage, **self.row.local, **self.row.registers}
        emitter = BodyEmitter(self.builder, self.lanes, tensors, (), point.mask, count=point.count)
        if axes:
            sizes = [self.builder.dim(self.extent(a)) for a in axes]
            lane = Lanes(point.at, int(self.lanes > 1))
            for axis, index in zip(axes, emitter.split(lane, sizes)):
                self.indices[axis[-1]] = index
        rank = max(g.rank for g in self.stage.generics)
        return replace(emitter, indices=[self.indices.get(i, Lanes(0)) for i in range(rank)])

    def emit(
        self,
        emitter: BodyEmitter,
        accumulators: Sequence[SSAValue] = (),
        given: Mapping[Access, SSAValue] | None = None,
        taken: Mapping[SSAValue, list[SSAValue]] | None = None,
    ) -> list[SSAValue]:
        """Evaluates all generics, stores their results, and gives the next accumulator of each reduction.

        `given` are operands that need not be read, `taken` gets results that are not to be stored.
        """
        if not self.nest.columns:
            self.ask_ahead(emitter)
        here: dict[SSAValue, Value] = {}
        accs: list[SSAValue] = []
        for generic in self.stage.generics:
            self.builder.origin = generic.op.attributes.get("origin")
            arguments = self._arguments(generic, emitter, here, given or {})
            values = emitter.emit_values(generic.ops, arguments, generic.wanted)
            for number, (value, reduction) in enumerate(zip(values, generic.reductions)):
                if reduction is not None:
                    accs.append(self._combine(emitter, reduction, accumulators[len(accs)], value))
                else:
                    result = generic.results[number]
                    here[result] = value
                    if taken and result in taken:
                        taken[result].append(emitter.vector(value))
                    else:
                        self.store(emitter, generic, number, value)
        return accs

    def ask_ahead(self, emitter: BodyEmitter) -> None:
        """Asks for the lines that the streams come to later; for a vector's part there is no need."""
        for stream in self.streams if emitter.mask is None and self.lanes > 1 else ():
            place = self.row.local.get(stream.access.tensor, self.storage.get(stream.access.tensor))
            offset = emitter.offset(place, self.at(stream.access)) if isinstance(place, Buffer) else None
            if isinstance(place, Buffer) and isinstance(offset, Lanes) and offset.stride == 1:
                for line in range(0, self.lanes, max(1, LINE_BYTES // byte_width(place.element))):
                    index = self.builder.index(self.builder.add(offset.base, stream.ahead + line))
                    self.builder.insert(vectorx.PrefetchOp(place.base, index, write=stream.write))

    def _arguments(
        self,
        generic: Generic,
        emitter: BodyEmitter,
        here: Mapping[SSAValue, Value],
        given: Mapping[Access, SSAValue],
    ) -> dict[SSAValue, Value]:
        arguments: dict[SSAValue, Value] = {}
        for argument, access in generic.arguments:
            known = given.get(access, here.get(access.tensor))
            arguments[argument] = self.read(emitter, access) if known is None else known
        return arguments

    def read(self, emitter: BodyEmitter, access: Access) -> Value:
        """The operand at the open loops' indices."""
        place = emitter.tensors.get(access.tensor)
        if place is None:
            raise LoweringError(f"a read of a tensor that nothing has written: {access.tensor}")
        return emitter.load(place, self.at(access), surely=True)

    def at(self, access: Access) -> list[Value]:
        """The open loops' indices along the axes of an operand."""
        return [Lanes(0) if axis is None else self.indices.get(axis, Lanes(0)) for axis in access.axes]

    def store(self, emitter: BodyEmitter, generic: Generic, number: int, value: Value) -> None:
        """Puts a result where it belongs: memory, or one of the row's registers."""
        result, write = generic.results[number], generic.outputs[number]
        place = self.row.local.get(result)
        if place is not None:
            emitter.store(value, place, self.at(write))
        if self.nest.is_register(generic, write):
            for view in self.shapes.views(result):
                self.row.registers[view] = emitter.vector(value)

    # Reductions

    def identities(self, count: int) -> tuple[SSAValue, ...]:
        """`count` accumulators for each reduction, to which nothing has been added."""
        return tuple(self.identity(reduced.reduction) for reduced in self.reductions for _ in range(count))

    def identity(self, reduction: Reduction) -> SSAValue:
        """What combines with anything to that, in all lanes."""
        scalar = self.builder.constant(reduction.identity, reduction.element)
        return scalar if self.lanes == 1 else self.builder.broadcast(scalar, self.lanes)

    def _combine(self, emitter: BodyEmitter, reduction: Reduction, accumulator: SSAValue, value: Value) -> SSAValue:
        lanes = emitter.vector(value)
        if emitter.mask is not None and not self.nest.columns:
            chosen = select(emitter, emitter.mask, lanes, self.identity(reduction))
            assert isinstance(chosen, SSAValue)
            lanes = chosen
        # an extremum looks at its first operand for NaN: that one does not wait for the accumulator
        return self.apply(reduction, lanes, accumulator)

    def apply(self, reduction: Reduction, a: SSAValue, b: SSAValue) -> SSAValue:
        """The reduction's op on scalars or vectors. b is what was combined so far: a number if NaN is passed over."""
        op = type(reduction.combine)
        if predicate := _OF_NUMBERS.get(op):
            flag = self.builder.pure(vectorx.CompareOp, (a, b), _flags(a.type), {"predicate": predicate})
            return self.builder.pure(vectorx.SelectOp, (flag, a, b), a.type)
        return self.builder.pure(op, (a, b), a.type, reduction.combine.properties)

    def finish(self, emitter: BodyEmitter, reduced: Reduced, total: SSAValue) -> None:
        """Combines what the result starts from with the total, and stores that."""
        generic, number, reduction = reduced.generic, reduced.number, reduced.reduction
        self.builder.origin = generic.op.attributes.get("origin")
        initial = emitter.vector(self.read(emitter, generic.outputs[number]))
        self.store(emitter, generic, number, self.apply(reduction, initial, total))


_OF_NUMBERS: Mapping[type[Operation], StringAttr] = {
    arith.MaxnumfOp: StringAttr("ogt"),
    arith.MinnumfOp: StringAttr("olt"),
}
"""One instruction where the second operand is a number: it is chosen where the first is NaN."""


def _flags(type_: Attribute) -> Attribute:
    return vector_of(i1, type_.get_shape()[0]) if isinstance(type_, VectorType) else i1


@dataclass(frozen=True)
class Reduced:
    """Output `number` of a generic, which is reduced."""

    generic: Generic
    number: int
    reduction: Reduction


def generic_cost(generic: Generic) -> float:
    """Cycles for one vector: the body, and each operand in memory."""
    return policy.cycles(generic.walk()) + policy.ACCESS_CYCLES * len(generic.accesses)


def element_type(tensor: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    assert isinstance(tensor.type, TensorType)
    return tensor.type.element_type
