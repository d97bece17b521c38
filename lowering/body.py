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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, IndexType, VectorType, i1, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ..dialects import kernel, vectorx
from ..dialects.dims import as_dim
from . import policy
from .body_rules import RULES, elementwise, select
from .loop_builder import INDEX, OVERFLOW, LoopBuilder, Scalar, vector_of
from .places import Buffer, Lanes, Splat, Storage, Value, is_flag, row_major
from .shuffles import join, pick, shuffle, split

MOST_STRIDE = 4
"""Up to this stride, contiguous vectors and shuffles are faster than a gather."""

_SEGMENTS: tuple[dict[str, Attribute], dict[str, Attribute]] = (
    {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 0, 0])},
    {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 1, 1])},
)
"""A gather's operands, without and with a mask."""


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
    count: Scalar | None = None
    """Where the mask is just that: how many leading lanes are set in it."""

    def emit(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """The values that the block's terminator yields, for these arguments."""
        return self.run(block, dict(zip(block.args, arguments, strict=True)))

    def emit_values(
        self, ops: Sequence[Operation], arguments: Mapping[SSAValue, Value], wanted: Sequence[SSAValue]
    ) -> list[Value]:
        """The wanted values, after the ops (a part of a body) are evaluated for these arguments."""
        env = dict(arguments)
        for op in ops:
            self.evaluate(op, env)
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
        elif isinstance(offset, Lanes) and is_flag(offset.stride) and not self.guarded:
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
        """Whether few vectors have the elements, and can be shuffled."""
        return place.element != i1 and isinstance(stride, int) and stride != 0 and -1 <= stride <= MOST_STRIDE

    def _strided(self, place: Buffer, offset: Lanes) -> SSAValue:
        """Every second, third ... element, or a contiguous vector backwards: by shuffles of contiguous vectors."""
        builder, lanes, stride = self.builder, self.lanes, offset.stride
        assert isinstance(stride, int)
        if stride < 0:
            backwards = list(range(lanes))[::-1]
            emitter = self if self.mask is None else self._masked_by(pick(builder, [self.mask], backwards))
            return pick(builder, [emitter._contiguous(place, builder.sub(offset.base, lanes - 1))], backwards)
        wanted = [lane * stride for lane in range(lanes)]
        if self.count is not None:
            return pick(builder, self._first_vectors(place, offset.base, stride), wanted)
        if self.mask is not None:
            return pick(builder, self._spread_vectors(place, offset.base, stride, self.mask), wanted)
        # The last vector ends with the last element that is read: what is behind it need not be memory.
        last = (stride - 1) * lanes
        starts = [*range(0, last, lanes), last - (stride - 1)]
        vectors = [self._contiguous(place, builder.add(offset.base, start)) for start in starts]
        return pick(builder, vectors, [at if at < last else at + stride - 1 for at in wanted])

    def _first_vectors(self, place: Buffer, base: Scalar, stride: int) -> list[SSAValue]:
        """What the first `count` lanes are picked of, up to the last element that one of them reads."""
        builder, lanes = self.builder, self.lanes
        assert self.count is not None
        total = builder.add(builder.mul(builder.sub(self.count, 1), stride), 1)
        vectors: list[SSAValue] = []
        for start in range(0, stride * lanes, lanes):
            left = builder.sub(total, start)
            if isinstance(left, int) and left <= 0:
                break
            whole = isinstance(left, int) and left >= lanes
            part = replace(self, mask=None if whole else builder.mask(left, lanes))
            vectors.append(part._contiguous(place, builder.add(base, start)))
        return vectors + [vectors[-1]] * (stride - len(vectors))

    def _spread_vectors(self, place: Buffer, base: Scalar, stride: int, mask: SSAValue) -> list[SSAValue]:
        """What the lanes of a mask are picked of: only their elements are read."""
        builder, lanes = self.builder, self.lanes
        none = builder.broadcast(builder.constant(0, i1), lanes)
        vectors: list[SSAValue] = []
        for start in range(0, stride * lanes, lanes):
            spread = [lanes if at % stride else at // stride for at in range(start, start + lanes)]
            emitter = self._masked_by(shuffle(builder, mask, none, spread))
            vectors.append(emitter._contiguous(place, builder.add(base, start)))
        return vectors

    def _masked_by(self, mask: SSAValue) -> BodyEmitter:
        return replace(self, mask=mask, count=None)

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
            self.builder.store_vector(
                self.vector(value), place.base, offset.base, self.mask, nontemporal=place.nontemporal
            )
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
        size = self.builder.divisor(size)
        if (uniform := self.scalar(index)) is not None:
            return Lanes(self.builder.pure(op, (uniform, self.builder.index(size)), INDEX))
        return self.builder.pure(op, (self.vector(index), self.vector(Lanes(size))), self.type_of(INDEX))

    # Operations

    def run(self, block: Block, env: dict[SSAValue, Value]) -> list[Value]:
        """Evaluates a block; gives what its terminator yields."""
        for op in block.ops:
            if op.next_op is None:
                return [self.value(operand, env) for operand in op.operands]
            self.evaluate(op, env)
        raise ValueError("a body without a terminator")

    def evaluate(self, op: Operation, env: dict[SSAValue, Value]) -> None:
        """Adds the op's results to the values."""
        rule = RULES.get(type(op), elementwise)
        for result, value in zip(op.results, rule(self, op, env), strict=True):
            env[result] = value

    def value(self, operand: SSAValue, env: Mapping[SSAValue, Value]) -> Value:
        """An operand's value; those from outside of the body are the function's own constants and symbols."""
        if (found := env.get(operand)) is not None:
            return found
        if isinstance(operand, BlockArgument) and isinstance(operand.type, IndexType):
            return Lanes(self.builder.dim(as_dim(f"d{operand.index}")))
        if isinstance(owner := operand.owner, arith.ConstantOp | kernel.DimOp):
            [value] = RULES[type(owner)](self, owner, env)
            return value
        raise ValueError(f"a body reads {operand}, which is defined outside of it")


def emit_in_step(
    emitters: Sequence[BodyEmitter], block: Block, arguments: Sequence[Sequence[Value]]
) -> list[list[Value]]:
    """What `emit` gives, for several points; their operations alternate, so that none waits for its own chain.

    A function that is a chain of operations itself is one operation on the vectors of all points, joined; the code
    generator takes each step of it for one register after the other.
    """
    environments = [dict[SSAValue, Value](zip(block.args, values, strict=True)) for values in arguments]
    *ops, end = block.ops
    for op in ops:
        if type(op) in policy.CHAINS and _evaluate_joined(emitters, op, environments):
            continue
        for emitter, env in zip(emitters, environments, strict=True):
            emitter.evaluate(op, env)
    return [[e.value(operand, env) for operand in end.operands] for e, env in zip(emitters, environments)]


def _evaluate_joined(
    emitters: Sequence[BodyEmitter], op: Operation, environments: Sequence[dict[SSAValue, Value]]
) -> bool:
    """Evaluates an op for several points at once; not where their number is no power of 2, or a value is uniform."""
    count, first = len(emitters), emitters[0]
    if count == 1 or count.bit_count() != 1 or first.lanes == 1:
        return False
    joined: dict[SSAValue, Value] = {}
    for operand in dict.fromkeys(op.operands):
        values = [e.value(operand, env) for e, env in zip(emitters, environments, strict=True)]
        vectors = [v for v in values if isinstance(v, SSAValue) and isinstance(v.type, VectorType)]
        if len(vectors) < count:
            return False
        joined[operand] = join(first.builder, vectors)
    BodyEmitter(first.builder, first.lanes * count, first.tensors).evaluate(op, joined)
    for result in op.results:
        value = joined[result]
        assert isinstance(value, SSAValue)
        for env, part in zip(environments, split(first.builder, value, count), strict=True):
            env[result] = part
    return True


def vectorizable(ops: Iterable[Operation]) -> bool:
    """Whether a body can be evaluated for several lanes at once: no loop whose length differs by lane."""
    return not any(isinstance(op, scf.WhileOp) for op in ops)


__all__ = [
    "BodyEmitter",
    "Buffer",
    "Lanes",
    "Splat",
    "Storage",
    "Value",
    "emit_in_step",
    "row_major",
    "select",
    "vectorizable",
]
