"""Evaluates a scalar body for several lanes at once.

A body is the region of a `linalg.generic`, or the epilogue of a `kernel.template`.  One loop variable is spread over
the lanes.  Every value is tracked as one of

* `Lanes(base, stride)`: an index that is `base + stride * lane` (uniform where stride is 0);
* a scalar SSA value: the same in all lanes;
* a vector SSA value: one element for each lane.

Uniform arithmetic stays scalar, and every op is placed at the outermost loop where its operands are known
(`LoopBuilder.hoisted`).  A load is scalar, contiguous or a gather by the stride of its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from xdsl.dialects import arith, memref, scf, tensor, vector
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IndexType, IntegerAttr, StringAttr, VectorType, i1, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ..dialects import kernel, vectorx
from ..dialects.dims import as_dim
from ..dialects.dims.interval import upper_bound
from .loop_builder import INDEX, OVERFLOW, LoopBuilder, Scalar, element_of, vector_of
from .shuffles import pick


@dataclass(frozen=True)
class Lanes:
    """An index: lane l has `base + stride * l`."""

    base: Scalar
    stride: Scalar = 0


Value: TypeAlias = Lanes | SSAValue

MOST_STRIDE = 4
"""Up to this stride, contiguous vectors and shuffles are faster than a gather."""

_SEGMENTS: tuple[dict[str, Attribute], dict[str, Attribute]] = (
    {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 0, 0])},
    {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 1, 1])},
)
"""A gather's operands, without and with a mask."""


@dataclass(frozen=True)
class Buffer:
    """Where a tensor is: element [i, j, ...] is `base[offset + i * strides[0] + j * strides[1] + ...]`.

    Axes that the buffer does not have (a row's scratch holds one row only) have stride 0.  `depth` is the loop level
    from which on the contents are complete; no load is placed outside of it.
    """

    base: SSAValue
    strides: tuple[Scalar, ...]
    offset: Scalar = 0
    depth: int = 0

    @property
    def element(self) -> Attribute:
        return element_of(self.base)


@dataclass(frozen=True)
class Splat:
    """A tensor that is the same constant everywhere."""

    value: IntegerAttr | FloatAttr


Storage: TypeAlias = Buffer | Splat | SSAValue
"""A tensor's place: memory, or a register that holds its only element (or its element for each lane)."""


def _is_flag(stride: Scalar) -> bool:
    """Whether a stride is 0 or 1: `min(d, 2) - 1` for the index along an axis of size d that may be broadcast."""
    if isinstance(stride, int) or not isinstance(stride.owner, kernel.DimOp):
        return False
    return upper_bound(stride.owner.expr.data[0]) <= 1


def row_major(builder: LoopBuilder, sizes: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The strides, in elements, of a contiguous tensor."""
    strides: list[Scalar] = [1] if sizes else []
    for size in reversed(sizes[1:]):
        strides.append(builder.mul(strides[-1], size))
    return tuple(reversed(strides))


@dataclass(frozen=True)
class BodyEmitter:
    """Emits bodies at the builder's place for `lanes` lanes (1: scalar code).

    Lanes outside of `mask` must not touch memory and do not fail checks.  `guarded` says that not even one lane need
    be set in the mask.  `tensors` says where the tensors are that bodies read by `tensor.extract`, `indices` what
    `linalg.index` gives.
    """

    builder: LoopBuilder
    lanes: int
    tensors: Mapping[SSAValue, Storage]
    indices: Sequence[Value] = ()
    mask: SSAValue | None = None
    guarded: bool = False

    def emit(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """The values that the block's terminator yields, for these arguments."""
        return self.run(block, dict(zip(block.args, arguments, strict=True)))

    def emit_values(
        self, ops: Sequence[Operation], arguments: Mapping[SSAValue, Value], wanted: Sequence[SSAValue]
    ) -> list[Value]:
        """The wanted values, after the ops (a part of a body) are evaluated for these arguments."""
        env = dict(arguments)
        for op in ops:
            self._evaluate(op, env)
        return [self.value(v, env) for v in wanted]

    # Values

    def scalar(self, value: Value) -> SSAValue | None:
        """The value if it is the same in all lanes."""
        if isinstance(value, Lanes):
            return self.builder.index(value.base) if value.stride == 0 or self.lanes == 1 else None
        return None if isinstance(value.type, VectorType) else value

    def vector(self, value: Value) -> SSAValue:
        """The value for each lane; in scalar code the scalar."""
        if (uniform := self.scalar(value)) is not None:
            return uniform if self.lanes == 1 else self.builder.broadcast(uniform, self.lanes)
        if isinstance(value, Lanes):
            ramp = self._ramp(value.stride)
            return ramp if value.base == 0 else self._combine(arith.AddiOp, Lanes(value.base), ramp)
        return value

    def _ramp(self, stride: Scalar) -> SSAValue:
        """0, stride, 2 * stride, ..."""
        step = self.builder.pure(vectorx.StepOp, (), vector_of(INDEX, self.lanes))
        return step if stride == 1 else self._combine(arith.MuliOp, step, Lanes(stride))

    def _combine(self, kind: type[Operation], a: Value, b: Value) -> SSAValue:
        """An op on index vectors."""
        return self.builder.pure(kind, (self.vector(a), self.vector(b)), self.type_of(INDEX), OVERFLOW)

    def type_of(self, element: Attribute) -> Attribute:
        """The type of one value a lane."""
        return element if self.lanes == 1 else vector_of(element, self.lanes)

    # Memory

    def load(self, place: Storage, indices: Sequence[Value], *, surely: bool = False) -> Value:
        """The elements at these indices, one a lane.

        `surely` says that the element is there wherever the indices are known, so that the load may leave a loop that
        may have no iterations.
        """
        if isinstance(place, SSAValue):
            return place
        if isinstance(place, Splat):
            return self.builder.literal(place.value)
        return self.load_at(place, self.offset(place, indices), surely=surely)

    def load_at(self, place: Buffer, offset: Value, *, surely: bool = False) -> Value:
        """The elements at these offsets of a buffer."""
        builder = self.builder
        if isinstance(offset, Lanes) and (offset.stride == 0 or self.lanes == 1):
            if not self.guarded:
                operands = (place.base, builder.index(offset.base))
                depth = place.depth if surely else max(place.depth, builder.load_floor())
                return builder.pure(memref.LoadOp, operands, place.element, least_depth=depth)
        elif isinstance(offset, Lanes) and offset.stride == 1:
            return self._contiguous(place, offset.base)
        elif isinstance(offset, Lanes) and self._shuffles_well(place, offset.stride):
            return self._strided(place, offset)
        elif isinstance(offset, Lanes) and _is_flag(offset.stride) and not self.guarded:
            return self._by_flag(place, offset)
        return self._gather(place, offset)

    def _by_flag(self, place: Buffer, offset: Lanes) -> SSAValue:
        """A load along an axis that is broadcast where its size, which only a call tells, is 1."""
        builder, base = self.builder, offset.base
        return builder.choose(
            builder.compare("eq", offset.stride, 1),
            vector_of(place.element, self.lanes),
            lambda: self._contiguous(place, base),
            lambda: builder.broadcast(builder.load(place.base, base), self.lanes),
        )

    def _gather(self, place: Buffer, offset: Value) -> SSAValue:
        builder, element, mask = self.builder, place.element, self.mask
        result = vector_of(element, self.lanes)
        gathered = [place.base, self.vector(offset)]
        if mask is not None:
            gathered += [mask, builder.broadcast(builder.constant(0, element), self.lanes)]
        return builder.loaded(vectorx.GatherOp, gathered, result, place.depth, _SEGMENTS[mask is not None])

    def _contiguous(self, place: Buffer, at: Scalar) -> SSAValue:
        builder, element = self.builder, place.element
        index, result = builder.index(at), vector_of(element, self.lanes)
        if self.mask is None:
            return builder.loaded(vector.LoadOp, (place.base, index), result, place.depth)
        zero = builder.broadcast(builder.constant(0, element), self.lanes)
        return builder.loaded(vector.MaskedLoadOp, (place.base, index, self.mask, zero), result, place.depth)

    def _shuffles_well(self, place: Buffer, stride: Scalar) -> bool:
        """Whether all lanes are there, few vectors have them all, and their elements can be shuffled."""
        return self.mask is None and place.element != i1 and isinstance(stride, int) and -1 <= stride <= MOST_STRIDE

    def _strided(self, place: Buffer, offset: Lanes) -> SSAValue:
        """Every second, third ... element, or a contiguous vector backwards: by shuffles of contiguous vectors."""
        builder, lanes, stride = self.builder, self.lanes, offset.stride
        assert isinstance(stride, int)
        if stride < 0:
            vector_ = self._contiguous(place, builder.sub(offset.base, lanes - 1))
            return pick(builder, [vector_], list(range(lanes))[::-1])
        # The last vector ends with the last element that is read: what is behind it need not be memory.
        last = (stride - 1) * lanes
        starts = [*range(0, last, lanes), last - (stride - 1)]
        vectors = [self._contiguous(place, builder.add(offset.base, start)) for start in starts]
        wanted = [lane * stride for lane in range(lanes)]
        return pick(builder, vectors, [at if at < last else at + stride - 1 for at in wanted])

    def store(self, value: Value, place: Buffer, indices: Sequence[Value]) -> None:
        """Stores one element a lane (or a single one, where the indices are the same in all lanes)."""
        self.store_at(value, place, self.offset(place, indices))

    def store_at(self, value: Value, place: Buffer, offset: Value) -> None:
        """Stores at these offsets of a buffer."""
        if isinstance(offset, Lanes) and (offset.stride == 0 or self.lanes == 1):
            scalar = self.scalar(value)
            assert scalar is not None, "lanes would overwrite each other"
            self.builder.store(scalar, place.base, offset.base)
        elif isinstance(offset, Lanes) and offset.stride == 1:
            self.builder.store_vector(self.vector(value), place.base, offset.base, self.mask)
        else:
            self.builder.scatter(self.vector(value), place.base, self.vector(offset), self.mask)

    def offset(self, place: Buffer, indices: Sequence[Value]) -> Value:
        """The element offset of an access."""
        terms: list[Value] = [Lanes(place.offset)]
        for index, stride in zip(indices, place.strides, strict=True):
            if stride != 0:
                terms.append(self.multiply(index, Lanes(stride)))
        return self.sum(terms)

    # Index arithmetic

    def sum(self, terms: Iterable[Value]) -> Value:
        """The sum, those of outer loops first, so that they are added outside."""
        linear = [t for t in terms if isinstance(t, Lanes)]
        base: Scalar = self.builder.sum([t.base for t in linear])
        stride: Scalar = self.builder.sum([t.stride for t in linear])
        total: Value = Lanes(base, stride)
        for term in terms:
            if not isinstance(term, Lanes):
                if total == Lanes(0):
                    total = term
                else:
                    total = self._combine(arith.AddiOp, total, term)
        return total

    def add(self, a: Value, b: Value) -> Value:
        return self.sum((a, b))

    def subtract(self, a: Value, b: Value) -> Value:
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return Lanes(self.builder.sub(a.base, b.base), self.builder.sub(a.stride, b.stride))
        return self._combine(arith.SubiOp, a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            if a.stride == 0:
                a, b = b, a
            if b.stride == 0:
                return Lanes(self.builder.mul(a.base, b.base), self.builder.mul(a.stride, b.base))
        return self._combine(arith.MuliOp, a, b)

    def split(self, index: Value, sizes: Sequence[Scalar]) -> list[Value]:
        """The row-major indices of a flat index; `sizes[0]` is not needed."""
        indices: list[Value] = []
        for size in reversed(sizes[1:]):
            indices.append(self._divide(arith.RemUIOp, index, size))
            index = self._divide(arith.DivUIOp, index, size)
        return [index, *reversed(indices)]

    def _divide(self, op: type[arith.RemUIOp] | type[arith.DivUIOp], index: Value, size: Scalar) -> Value:
        if (uniform := self.scalar(index)) is not None:
            return Lanes(self.builder.pure(op, (uniform, self.builder.index(size)), INDEX))
        return self.builder.pure(op, (self.vector(index), self.vector(Lanes(size))), self.type_of(INDEX))

    # Operations

    def run(self, block: Block, env: dict[SSAValue, Value]) -> list[Value]:
        """Evaluates a block; gives what its terminator yields."""
        for op in block.ops:
            if op.next_op is None:
                return [self.value(operand, env) for operand in op.operands]
            self._evaluate(op, env)
        raise ValueError("a body without a terminator")

    def _evaluate(self, op: Operation, env: dict[SSAValue, Value]) -> None:
        rule = _RULES.get(type(op), _elementwise)
        for result, value in zip(op.results, rule(self, op, env), strict=True):
            env[result] = value

    def value(self, operand: SSAValue, env: Mapping[SSAValue, Value]) -> Value:
        """An operand's value; those from outside of the body are the function's own constants and symbols."""
        if (found := env.get(operand)) is not None:
            return found
        if isinstance(operand, BlockArgument) and isinstance(operand.type, IndexType):
            return Lanes(self.builder.dim(as_dim(f"d{operand.index}")))
        if isinstance(owner := operand.owner, arith.ConstantOp | kernel.DimOp):
            [value] = _RULES[type(owner)](self, owner, env)
            return value
        raise ValueError(f"a body reads {operand}, which is defined outside of it")


Env: TypeAlias = dict[SSAValue, Value]
Rule: TypeAlias = Callable[[BodyEmitter, Operation, Mapping[SSAValue, Value]], Sequence[Value]]


def _elementwise(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """The same op on vectors, or on scalars where all operands are uniform."""
    if op.dialect_name() not in ("arith", "math", "vectorx") or op.regions:
        raise ValueError(f"{op.name} is not allowed in a body")
    values = [e.value(o, env) for o in op.operands]
    scalars = [e.scalar(v) for v in values]
    known = [s for s in scalars if s is not None]
    uniform = len(known) == len(values)
    operands = known if uniform else [e.vector(v) for v in values]
    types = [r.type if uniform else e.type_of(r.type) for r in op.results]
    if len(types) == 1:
        return [_tracked(e.builder.pure(type(op), operands, types[0], op.properties))]
    new = type(op).create(operands=operands, result_types=types, properties=op.properties)
    return [_tracked(r) for r in e.builder.hoisted(new).results]


def _tracked(value: SSAValue) -> Value:
    return Lanes(value) if isinstance(value.type, IndexType) else value


def _constant(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, arith.ConstantOp)
    if isinstance(op.value, IntegerAttr) and isinstance(op.value.type, IndexType):
        return [Lanes(op.value.value.data)]
    assert isinstance(op.value, IntegerAttr | FloatAttr)
    return [e.builder.literal(op.value)]


def _dim(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, kernel.DimOp)
    return [Lanes(e.builder.dim(op.expr.data[0]))]


def _index(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, linalg.IndexOp)
    return [e.indices[op.dim.value.data]]


def _index_binary(combine: Callable[[BodyEmitter, Value, Value], Value]) -> Rule:
    """An op on integers that keeps `Lanes` as they are when the integers are indices."""

    def rule(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
        if not isinstance(op.results[0].type, IndexType):
            return _elementwise(e, op, env)
        lhs, rhs = (e.value(o, env) for o in op.operands)
        return [combine(e, lhs, rhs)]

    return rule


def _extremum(combine: Callable[[int, int], int]) -> Callable[[BodyEmitter, Value, Value], Value | None]:
    def fold(e: BodyEmitter, a: Value, b: Value) -> Value | None:
        if isinstance(a, Lanes) and isinstance(b, Lanes) and isinstance(a.base, int) and isinstance(b.base, int):
            return Lanes(combine(a.base, b.base)) if a.stride == b.stride == 0 else None
        return None

    return fold


def _folded(fold: Callable[[BodyEmitter, Value, Value], Value | None]) -> Rule:
    """An op on integers that is known for some index operands."""

    def rule(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
        if isinstance(op.results[0].type, IndexType):
            lhs, rhs = (e.value(o, env) for o in op.operands)
            if (value := fold(e, lhs, rhs)) is not None:
                return [value]
        return _elementwise(e, op, env)

    return rule


def _quotient(e: BodyEmitter, a: Value, b: Value) -> Value | None:
    return a if b == Lanes(1) else None


def _remainder(e: BodyEmitter, a: Value, b: Value) -> Value | None:
    return Lanes(0) if b == Lanes(1) else None


@cache
def _name(key: str, value: str) -> Mapping[str, Attribute]:
    return {key: StringAttr(value)}


def _compare(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Compares of vectors are vectorx's: xDSL's arith has them for scalars only."""
    assert isinstance(op, arith.CmpiOp | arith.CmpfOp)
    values = [e.value(o, env) for o in op.operands]
    if all(e.scalar(v) is not None for v in values):
        return _elementwise(e, op, env)
    names = arith.CMPI_COMPARISON_OPERATIONS if isinstance(op, arith.CmpiOp) else arith.CMPF_COMPARISON_OPERATIONS
    lhs, rhs = map(e.vector, values)
    predicate = names[op.predicate.value.data]
    return [e.builder.pure(vectorx.CompareOp, (lhs, rhs), e.type_of(i1), _name("predicate", predicate))]


def _select(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    condition, lhs, rhs = (e.value(o, env) for o in op.operands)
    if lhs == rhs:
        return [lhs]
    return [select(e, condition, lhs, rhs)]


def select(e: BodyEmitter, condition: Value, lhs: Value, rhs: Value) -> Value:
    """Chooses lane by lane."""
    scalar = e.scalar(condition)
    if scalar is None:
        operands = (e.vector(condition), e.vector(lhs), e.vector(rhs))
        return e.builder.pure(vectorx.SelectOp, operands, operands[1].type)
    if isinstance(lhs, Lanes) and isinstance(rhs, Lanes) and lhs.stride == rhs.stride:
        base = e.builder.hoisted(arith.SelectOp(scalar, e.builder.index(lhs.base), e.builder.index(rhs.base))).result
        return Lanes(base, lhs.stride)
    a, b = e.scalar(lhs), e.scalar(rhs)
    if a is None or b is None:
        a, b = e.vector(lhs), e.vector(rhs)
    return _tracked(e.builder.hoisted(arith.SelectOp(scalar, a, b)).result)


_CONVERSIONS: dict[type[Operation], str] = {
    arith.ExtSIOp: "extsi",
    arith.ExtUIOp: "extui",
    arith.TruncIOp: "trunci",
    arith.SIToFPOp: "sitofp",
    arith.UIToFPOp: "uitofp",
    arith.FPToSIOp: "fptosi",
    arith.FPToUIOp: "fptoui",
    arith.ExtFOp: "extf",
    arith.TruncFOp: "truncf",
    arith.BitcastOp: "bitcast",
    arith.IndexCastOp: "index_cast",
}


def _convert(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Conversions are vectorx's for scalars too, so that both saturate the same way."""
    kind = op.kind.data if isinstance(op, vectorx.ConvertOp) else _CONVERSIONS[type(op)]
    properties = _name("kind", kind)
    value = e.value(op.operands[0], env)
    scalar, element = e.scalar(value), op.results[0].type
    if scalar is not None:
        return [_tracked(e.builder.pure(vectorx.ConvertOp, (scalar,), element, properties))]
    return [e.builder.pure(vectorx.ConvertOp, (e.vector(value),), e.type_of(element), properties)]


def _extract(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, tensor.ExtractOp)
    return [e.load(e.tensors[op.tensor], [e.value(i, env) for i in op.indices])]


def _check(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, kernel.CheckOp)
    condition = e.value(op.condition, env)
    values = [e.value(v, env) for v in op.values]
    scalar = e.scalar(condition)
    scalars = [s for v in values if (s := e.scalar(v)) is not None]
    if scalar is not None and len(scalars) == len(values) and not e.guarded:
        e.builder.checked(_same_check(op, scalar, scalars))
        return ()
    lanes = e.vector(condition)
    if e.mask is not None:
        true = e.builder.broadcast(e.builder.constant(True, i1), e.lanes)
        lanes = e.builder.hoisted(vectorx.SelectOp(e.mask, lanes, true)).result
    e.builder.insert(_same_check(op, lanes, [e.vector(v) for v in values]))
    return ()


def _same_check(op: kernel.CheckOp, condition: SSAValue, values: Sequence[SSAValue]) -> kernel.CheckOp:
    check = kernel.CheckOp(condition, op.code.data, op.message.data, values)
    check.attributes.update(op.attributes)
    return check


def _if(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, scf.IfOp)
    condition = e.value(op.cond, env)
    scalar = e.scalar(condition)
    return _masked_if(e, op, e.vector(condition), env) if scalar is None else _uniform_if(e, op, scalar, env)


def _masked_if(e: BodyEmitter, op: scf.IfOp, condition: SSAValue, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Both sides for all lanes, each under its mask."""
    builder = e.builder
    true = builder.broadcast(builder.constant(True, i1), e.lanes)
    otherwise = builder.hoisted(arith.XOrIOp(condition, true)).result
    sides: list[list[Value]] = []
    for side, taken in ((op.true_region, condition), (op.false_region, otherwise)):
        mask = taken if e.mask is None else builder.hoisted(arith.AndIOp(e.mask, taken)).result
        inner = replace(e, mask=mask, guarded=True)
        sides.append(inner.run(side.block, dict(env)) if side.blocks else [])
    return [select(e, condition, a, b) for a, b in zip(*sides, strict=True)]


def _uniform_if(e: BodyEmitter, op: scf.IfOp, condition: SSAValue, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """A branch. Its results are scalars where both sides are uniform."""
    builder = e.builder
    sides = [op.true_region, op.false_region] if op.false_region.blocks else [op.true_region]
    regions = [Region(Block()) for _ in sides]
    draft = builder.insert(scf.IfOp(condition, [], regions[0], regions[1] if len(regions) > 1 else None))
    yielded: list[list[Value]] = []
    for side, region in zip(sides, regions):
        with builder.branch(draft, region):
            yielded.append(e.run(side.block, dict(env)))
    uniform = [all(e.scalar(v) is not None for v in values) for values in zip(*yielded, strict=True)]
    for region, values in zip(regions, yielded):
        with builder.branch(draft, region):
            ends = [e.scalar(v) if u else e.vector(v) for v, u in zip(values, uniform)]
            builder.insert(scf.YieldOp(*(v for v in ends if v is not None)))
    types = [r.type if u else e.type_of(r.type) for r, u in zip(op.results, uniform)]
    if not types:
        return ()
    moved = [draft.detach_region(r) for r in regions]
    final = builder.insert(scf.IfOp(condition, types, moved[0], moved[1]))
    draft.detach()
    draft.erase()
    return [_tracked(r) for r in final.results]


def _for(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """A loop whose bounds are uniform; what it carries is kept for each lane."""
    assert isinstance(op, scf.ForOp)
    bounds = [e.scalar(e.value(v, env)) for v in (op.lb, op.ub, op.step)]
    lower, upper, step = (b for b in bounds if b is not None)
    carried = [e.vector(e.value(v, env)) for v in op.iter_args]
    with e.builder.loop(lower, upper, step, carried) as loop:
        inner = dict(env)
        inner[op.body.block.args[0]] = Lanes(loop.index)
        inner.update(zip(op.body.block.args[1:], map(_tracked, loop.carried)))
        loop.carry([e.vector(v) for v in e.run(op.body.block, inner)])
    return [_tracked(r) for r in loop.results]


_RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    kernel.DimOp: _dim,
    linalg.IndexOp: _index,
    arith.AddiOp: _index_binary(BodyEmitter.add),
    arith.SubiOp: _index_binary(BodyEmitter.subtract),
    arith.MuliOp: _index_binary(BodyEmitter.multiply),
    arith.DivSIOp: _folded(_quotient),
    arith.DivUIOp: _folded(_quotient),
    arith.FloorDivSIOp: _folded(_quotient),
    arith.RemSIOp: _folded(_remainder),
    arith.RemUIOp: _folded(_remainder),
    arith.MinSIOp: _folded(_extremum(min)),
    arith.MaxSIOp: _folded(_extremum(max)),
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
    vectorx.SelectOp: _select,
    vectorx.ConvertOp: _convert,
    tensor.ExtractOp: _extract,
    kernel.CheckOp: _check,
    scf.IfOp: _if,
    scf.ForOp: _for,
} | dict.fromkeys(_CONVERSIONS, _convert)


def vectorizable(ops: Iterable[Operation]) -> bool:
    """Whether a body can be evaluated for several lanes at once: no loop whose length differs by lane."""
    return not any(isinstance(op, scf.WhileOp) for op in ops)


__all__ = ["BodyEmitter", "Buffer", "Lanes", "Storage", "Value", "row_major", "select", "vectorizable"]
