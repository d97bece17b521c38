"""Index arithmetic with operators, and the vector ops that templates use, over the loop builder.

Templates are mostly address arithmetic, and `b.add(b.mul(row, stride), column)` would bury it: `row * stride + column`
makes the same ops.  Numbers that are known while building are folded, so a template is written once for static and
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import kernel, vectorx
from ...dialects.dims import Dim
from ..element_types import byte_width
from ..loop_builder import INDEX, Loop, LoopBuilder, element_of, vector_of

F32, F64 = Float32Type(), Float64Type()
F16, BF16 = Float16Type(), BFloat16Type()


Binary: TypeAlias = Callable[[SSAValue, SSAValue], Operation]
Unary: TypeAlias = Callable[[SSAValue], Operation]

BIT_OPS: dict[str, Binary] = {
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
    "shl": arith.ShLIOp,
    "shrsi": arith.ShRSIOp,
    "shrui": arith.ShRUIOp,
}
EXTREMA: dict[str, Binary] = {
    "maximumf": arith.MaximumfOp,
    "minimumf": arith.MinimumfOp,
    "maxsi": arith.MaxSIOp,
    "maxui": arith.MaxUIOp,
    "minsi": arith.MinSIOp,
    "minui": arith.MinUIOp,
}
MATH_OPS: dict[str, Unary] = {
    "absf": math.AbsFOp,
    "ceil": math.CeilOp,
    "exp": math.ExpOp,
    "cos": math.CosOp,
    "expm1": math.ExpM1Op,
    "floor": math.FloorOp,
    "log1p": math.Log1pOp,
    "sin": math.SinOp,
    "tanh": math.TanhOp,
    "roundeven": math.RoundEvenOp,
    "sqrt": math.SqrtOp,
}


class Ix:
    """An index while code is built: a number known now, or an SSA value.  Division and remainder are for >= 0.

    Sums are placed where their operands are known, so in an inner loop write the loop's own part first:
    `(k * stride + base) + 3` needs one register where `k * stride + (base + 3)` keeps one for each constant.
    """

    __slots__ = ("b", "value")

    def __init__(self, b: LoopBuilder, value: IndexLike) -> None:
        self.b = b
        self.value: SSAValue | int = plain(value)

    @property
    def ssa(self) -> SSAValue:
        return self.b.index(self.value)

    @property
    def known(self) -> int | None:
        """The number, where it is known while building."""
        return self.value if isinstance(self.value, int) else None

    def __add__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.add(self.value, plain(other)))

    def __sub__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.sub(self.value, plain(other)))

    def __rsub__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.sub(plain(other), self.value))

    def __mul__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.mul(self.value, plain(other)))

    def __floordiv__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.div(self.value, plain(other)))

    def __mod__(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.mod(self.value, plain(other)))

    __radd__ = __add__
    __rmul__ = __mul__

    def min(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.minimum(self.value, plain(other)))

    def max(self, other: IndexLike) -> Ix:
        return Ix(self.b, self.b.maximum(self.value, plain(other)))

    def ceildiv(self, other: IndexLike) -> Ix:
        """Rounded up, for >= 0 by > 0."""
        return self if plain(other) == 1 else (self + other - 1) // other

    def round_up(self, other: IndexLike) -> Ix:
        return self.ceildiv(other) * other

    def compare(self, predicate: str, other: IndexLike) -> SSAValue:
        """`self predicate other` as i1; predicates are arith.cmpi's."""
        return self.b.compare(predicate, self.value, plain(other))


IndexLike: TypeAlias = Ix | SSAValue | int


def plain(value: IndexLike) -> SSAValue | int:
    """What the loop builder takes."""
    return value.value if isinstance(value, Ix) else value


def scalar_type(value: SSAValue) -> Attribute:
    """A scalar's own type, a vector's element type."""
    return value.type.element_type if isinstance(value.type, VectorType) else value.type


def is_float(element: Attribute) -> bool:
    return isinstance(element, AnyFloat)


@dataclass
class OpenLoop:
    """What a `with e.loop(...)` block sees; `results` after it."""

    index: Ix
    loop: Loop

    @property
    def carried(self) -> tuple[SSAValue, ...]:
        return self.loop.carried

    def carry(self, values: Sequence[SSAValue]) -> None:
        """What goes into the next iteration."""
        self.loop.carry(values)

    @property
    def results(self) -> tuple[SSAValue, ...]:
        return self.loop.results


class Emitter:
    """The ops of a template, at the loop builder's place."""

    def __init__(self, b: LoopBuilder) -> None:
        self.b = b
        self.target = b.target

    @property
    def grain_cycles(self) -> int:
        """The work that is worth another thread."""
        return self.b.part.chosen.grain_cycles

    # Indices

    def ix(self, value: IndexLike) -> Ix:
        return value if isinstance(value, Ix) else Ix(self.b, value)

    def dim(self, dim: Dim | int) -> Ix:
        """A size in the kernel's symbols."""
        return Ix(self.b, self.b.dim(dim))

    def product(self, factors: Sequence[IndexLike]) -> Ix:
        total = self.ix(1)
        for factor in factors:
            total = total * factor
        return total

    # Values of any element type, scalars and vectors

    def constant(self, value: float, element: Attribute, lanes: int | None = None) -> SSAValue:
        """A scalar, or with `lanes` the vector that has it in every lane."""
        scalar = self.b.constant(value, element)
        return scalar if lanes is None else self.b.broadcast(scalar, lanes)

    def splat(self, scalar: SSAValue, lanes: int) -> SSAValue:
        """The scalar in every lane, here (a loaded scalar's splat is not shared with other places)."""
        return self.b.insert(vector.BroadcastOp(scalar, vector_of(scalar.type, lanes))).vector

    def spread(self, value: SSAValue, lanes: int) -> SSAValue:
        """A scalar in every lane; a vector as it is."""
        return value if isinstance(value.type, VectorType) else self.b.broadcast(value, lanes)

    def first_lane(self, value: SSAValue) -> SSAValue:
        """The first lane of a vector."""
        return self.b.hoisted(vector.ExtractOp(value, [0], scalar_type(value))).result

    def _binary(self, floats: Binary, integers: Binary, a: SSAValue, b: SSAValue) -> SSAValue:
        cls = floats if is_float(scalar_type(a)) else integers
        return self.b.hoisted(cls(a, b)).results[0]

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._binary(arith.AddfOp, arith.AddiOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._binary(arith.SubfOp, arith.SubiOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._binary(arith.MulfOp, arith.MuliOp, a, b)

    def fma(self, a: SSAValue, b: SSAValue, accumulator: SSAValue) -> SSAValue:
        """a * b + accumulator on vectors: rounded once for floats, wrapping for integers."""
        if is_float(scalar_type(a)):
            return self.b.insert(vector.FMAOp(a, b, accumulator)).res
        return self.add(self.mul(a, b), accumulator)

    def convert(self, kind: str, value: SSAValue, element: Attribute) -> SSAValue:
        """`vectorx.convert`, keeping the lanes; nothing where the element type is that already."""
        if scalar_type(value) == element:
            return value
        lanes = lanes_of(value)
        type_ = element if lanes is None else vector_of(element, lanes)
        return self.b.hoisted(vectorx.ConvertOp(kind, value, type_)).result

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Floats."""
        return self.b.hoisted(arith.DivfOp(a, b)).result

    def bits(self, op: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integers: "and", "or", "xor", "shl", "shrsi", "shrui"."""
        return self.b.hoisted(BIT_OPS[op](a, b)).results[0]

    def extremum(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """ "maximumf", "minimumf" (both pass NaN on), "maxsi", "maxui", "minsi", "minui"."""
        return self.b.hoisted(EXTREMA[kind](a, b)).results[0]

    def math(self, op: str, x: SSAValue) -> SSAValue:
        """An elementary function of f32 or f64: "exp", "tanh", "log1p", "absf", ..."""
        return self.b.hoisted(MATH_OPS[op](x)).results[0]

    def reduce(self, kind: str, vector_: SSAValue) -> SSAValue:
        """All lanes as a balanced tree; kinds are vectorx.reduce's."""
        return self.b.hoisted(vectorx.ReduceOp(kind, vector_, scalar_type(vector_))).result

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integers or floats, scalars or vectors; predicates are arith.cmpi's or arith.cmpf's."""
        lanes = lanes_of(a)
        if lanes is not None:
            return self.b.hoisted(vectorx.CompareOp(predicate, a, b, vector_of(i1, lanes))).result
        cls = arith.CmpfOp if is_float(a.type) else arith.CmpiOp
        return self.b.hoisted(cls(a, b, predicate)).result

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """Chooses as a whole, or lane by lane where the condition is a vector."""
        cls = vectorx.SelectOp if isinstance(condition.type, VectorType) else arith.SelectOp
        return self.b.hoisted(cls(condition, a, b)).results[0]

    def select_index(self, condition: SSAValue, a: IndexLike, b: IndexLike) -> Ix:
        return self.ix(self.select(condition, self.ix(a).ssa, self.ix(b).ssa))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.b.hoisted(arith.AndIOp(a, b)).result

    def dot(self, kind: str, total: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`vectorx.dot`: total + four products of bytes to each lane."""
        return self.b.insert(vectorx.DotOp(kind, total, a, b)).result

    def flip(self, condition: SSAValue) -> SSAValue:
        """Not, of an i1 or a mask."""
        return self.bits("xor", condition, self.constant(1, i1, lanes_of(condition)))

    def as_float(self, index: Ix, element: Attribute) -> SSAValue:
        """An index as a number of f32 or f64."""
        return self.convert("sitofp", self.convert("index_cast", index.ssa, i64), element)

    def shuffle(self, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """Lanes of a (numbers below its length) and then of b."""
        result = vector_of(scalar_type(a), len(lanes))
        mask = DenseArrayBase.from_list(i64, list(lanes))
        return self.b.insert(vector.ShuffleOp(a, b, mask, result_type=result)).result

    # Memory: buffers are flat, indices are element offsets

    def load(self, buffer: SSAValue, at: IndexLike) -> SSAValue:
        return self.b.load(buffer, plain(at))

    def store(self, value: SSAValue, buffer: SSAValue, at: IndexLike) -> None:
        self.b.store(value, buffer, plain(at))

    def load_vector(self, buffer: SSAValue, at: IndexLike, lanes: int, mask: SSAValue | None = None) -> SSAValue:
        """Consecutive elements; lanes outside of the mask are 0 and are not read."""
        return self.b.load_vector(buffer, plain(at), lanes, mask)

    def store_vector(self, value: SSAValue, buffer: SSAValue, at: IndexLike, mask: SSAValue | None = None) -> None:
        self.b.store_vector(value, buffer, plain(at), mask)

    def gather(self, buffer: SSAValue, offsets: SSAValue, mask: SSAValue | None = None) -> SSAValue:
        """buffer[offsets[lane]]; 0 outside of the mask."""
        lanes = lanes_of(offsets)
        assert lanes is not None
        return self.b.gather(buffer, offsets, lanes, mask)

    def ramp(self, base: IndexLike, stride: IndexLike, lanes: int) -> SSAValue:
        """The indices base, base + stride, ..."""
        step = self.b.hoisted(vectorx.StepOp(vector_of(INDEX, lanes))).result
        stride = self.ix(stride)
        scaled = step if stride.known == 1 else self.mul(step, self.b.broadcast(stride.ssa, lanes))
        return self.add(self.b.broadcast(self.ix(base).ssa, lanes), scaled)

    def load_index(self, buffer: SSAValue, at: IndexLike) -> Ix:
        """An element of a buffer of i32, i64 or index as an index."""
        return self.as_index(self.load(buffer, at))

    def as_index(self, value: SSAValue) -> Ix:
        """An integer as an index, sign-extended."""
        return self.ix(self.convert("index_cast", value, INDEX))

    def mask(self, count: IndexLike, lanes: int) -> SSAValue:
        """Lanes below `count`, which may be negative or more than `lanes`."""
        return self.b.mask(plain(count), lanes)

    def prefetch(self, buffer: SSAValue, at: IndexLike, locality: int = 3) -> None:
        self.b.insert(vectorx.PrefetchOp(buffer, self.ix(at).ssa, locality))

    def check(self, condition: SSAValue, code: str, message: str, values: Sequence[SSAValue]) -> None:
        """`kernel.check`, here."""
        self.b.insert(kernel.CheckOp(condition, code, message, values))

    # Control

    @contextmanager
    def loop(
        self,
        lower: IndexLike,
        upper: IndexLike,
        step: IndexLike = 1,
        carried: Sequence[SSAValue] = (),
        *,
        nonempty: bool = False,
    ) -> Generator[OpenLoop]:
        """`scf.for`: `with e.loop(0, n, carried=[x]) as l: l.carry([f(l.index, *l.carried)])`, then `l.results`."""
        with self.b.loop(plain(lower), plain(upper), plain(step), carried, nonempty=nonempty) as loop:
            yield OpenLoop(Ix(self.b, loop.index), loop)

    def nest(
        self,
        extents: Sequence[IndexLike],
        carried: Sequence[SSAValue],
        body: Callable[[list[Ix], tuple[SSAValue, ...]], Sequence[SSAValue]],
    ) -> tuple[SSAValue, ...]:
        """Nested loops over [0, extent) that carry values through all of them; the results of the outermost."""

        def level(indices: list[Ix], values: tuple[SSAValue, ...]) -> Sequence[SSAValue]:
            if len(indices) == len(extents):
                return body(indices, values)
            extent = self.ix(extents[len(indices)])
            if extent.known == 1:
                return level([*indices, self.ix(0)], values)
            with self.loop(0, extent, carried=values) as loop:
                loop.carry(level([*indices, loop.index], loop.carried))
            return loop.results

        return tuple(level([], tuple(carried)))

    @contextmanager
    def when(self, condition: SSAValue) -> Generator[None]:
        """`scf.if` without an else and without results."""
        with self.b.when(condition):
            yield

    def while_(
        self,
        start: Sequence[SSAValue],
        condition: Callable[[tuple[SSAValue, ...]], SSAValue],
        body: Callable[[tuple[SSAValue, ...]], Sequence[SSAValue]],
    ) -> tuple[SSAValue, ...]:
        """`scf.while`: the values once `condition` is false of them."""
        types = [v.type for v in start]
        before, after = Region(Block(arg_types=types)), Region(Block(arg_types=types))
        op = self.b.insert(scf.WhileOp(start, types, before, after))
        with self.b.branch(op, before):
            values = tuple(before.block.args)
            self.b.insert(scf.ConditionOp(condition(values), *values))
        with self.b.branch(op, after):
            self.b.insert(scf.YieldOp(*body(tuple(after.block.args))))
        return tuple(op.results)

    def copy(self, source: SSAValue, source_at: IndexLike, dest: SSAValue, at: IndexLike, count: IndexLike) -> None:
        """dest[at..] = source[source_at..], `count` elements of one type."""
        lanes = self.target.lanes(byte_width(element_of(dest)))
        count = self.ix(count)
        with self.loop(0, count, lanes) as loop:
            mask = self.mask(count - loop.index, lanes)
            self.store_vector(
                self.load_vector(source, loop.index + source_at, lanes, mask), dest, loop.index + at, mask
            )

    def copy_all(self, source: SSAValue, dest: SSAValue, count: IndexLike) -> None:
        """As `copy`, from the beginnings, on all threads."""
        lanes = self.target.lanes(byte_width(element_of(dest)))
        with self.parallel(count, 32 * self.grain_cycles) as (lower, upper, _), self.loop(lower, upper, lanes) as loop:
            mask = self.mask(upper - loop.index, lanes)
            self.store_vector(self.load_vector(source, loop.index, lanes, mask), dest, loop.index, mask)

    def fill_all(self, dest: SSAValue, number: SSAValue, count: IndexLike) -> None:
        """dest[..] = number, `count` elements, on all threads."""
        lanes = self.target.lanes(byte_width(element_of(dest)))
        vector = self.b.broadcast(number, lanes)
        with self.parallel(count, 32 * self.grain_cycles) as (lower, upper, _), self.loop(lower, upper, lanes) as loop:
            self.store_vector(vector, dest, loop.index, self.mask(upper - loop.index, lanes))

    @contextmanager
    def parallel(self, extent: IndexLike, grain: IndexLike) -> Generator[tuple[Ix, Ix, SSAValue]]:
        """`kernel.parallel`; gives (lower, upper, thread)."""
        with self.b.parallel(plain(extent), plain(grain)) as (lower, upper, thread):
            yield Ix(self.b, lower), Ix(self.b, upper), thread


def lanes_of(value: SSAValue) -> int | None:
    """Lanes of a vector, None for a scalar."""
    return value.type.get_shape()[0] if isinstance(value.type, VectorType) else None
