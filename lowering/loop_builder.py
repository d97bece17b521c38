"""Builds loops-level IR from outside in, with loop-invariant code placed outside its loops as it is built.

The builder holds a stack of open levels (function body, parallel region, loop, conditional).  A pure op goes to the
outermost level at which its operands are defined, and equal pure ops at one level are one op: invariant code motion
and common subexpressions by construction, so no later pass need find them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, TypeVar

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import kernel, vectorx
from ..dialects.dims import Dim, ShapeAttr, as_dim
from ..dialects.target import Target
from .choices import Part
from .element_types import byte_width
from .policy import LoopsChoices

INDEX = IndexType()
Scalar: TypeAlias = int | SSAValue
"""An index: known now, or computed by the kernel."""

NO_PROPERTIES: Mapping[str, Attribute] = {}
OVERFLOW: Mapping[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}
"""What arith's add, sub and mul of integers must have."""

OpT = TypeVar("OpT", bound=Operation)

_TRAPPING: frozenset[type[Operation]] = frozenset(
    (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.FloorDivSIOp, arith.CeilDivSIOp)
)
"""A size may be the divisor, and 0 where the loop over it is empty: not placed outside of such a loop."""


@cache
def flat(element: Attribute) -> MemRefType:
    """`memref<?xT>`, the only memref type there is at the loops level."""
    return MemRefType(element, [DYNAMIC_INDEX])


@cache
def vector_of(element: Attribute, lanes: int) -> VectorType:
    return VectorType(element, [lanes])


@cache
def _integer(value: int, element: IndexType | IntegerType) -> Mapping[str, Attribute]:
    return {"value": IntegerAttr(value, element, truncate_bits=not isinstance(element, IndexType))}


@cache
def _float(text: str, element: Attribute) -> Mapping[str, Attribute]:
    """By the number's text, since 0.0 == -0.0."""
    return {"value": FloatAttr(float(text), element)}  # pyright: ignore[reportCallIssue, reportArgumentType]


@cache
def _dim(dim: Dim) -> Mapping[str, Attribute]:
    return {"expr": ShapeAttr((dim,))}


@dataclass
class _Level:
    """An open block. While a deeper level is open, `child` is the op of this block that contains it."""

    block: Block
    floor: int = 0
    """The outermost level at which what is used here may be placed."""
    load_floor: int = 0
    """The outermost level at which a load used here may be placed."""
    child: Operation | None = None
    known: dict[tuple[object, ...], Operation] = field(default_factory=dict[tuple[object, ...], Operation])

    def add(self, op: Operation) -> None:
        if self.child is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.child)


@dataclass
class Loop:
    """An open `scf.for`: its variable and what it carries. `carry` says what goes into the next iteration."""

    op: scf.ForOp
    index: SSAValue
    carried: tuple[SSAValue, ...]
    next: tuple[SSAValue, ...]

    def carry(self, values: Sequence[SSAValue]) -> None:
        self.next = tuple(values)

    @property
    def results(self) -> tuple[SSAValue, ...]:
        """After the loop is closed: the values carried out of its last iteration."""
        return tuple(self.op.results)


class LoopBuilder:
    """A position in a kernel being built, and the index and memory operations used at it."""

    def __init__(self, entry: Block, target: Target) -> None:
        self.target = target
        self._levels = [_Level(entry)]
        self._depths = {entry: 0}
        self.origin: Attribute | None = None
        """The attribute `origin` of what is being built."""
        self.part = Part("kernel")
        """The template that is being built, with its choices."""
        self.loops = LoopsChoices()
        """The choices for generics."""

    # Levels

    @property
    def depth(self) -> int:
        """The number of the innermost open level; 0 is the function's body."""
        return len(self._levels) - 1

    def depth_of(self, value: SSAValue) -> int:
        """The level at which a value is defined."""
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        while block is not None:
            if (depth := self._depths.get(block)) is not None:
                return depth
            parent = block.parent_op()
            block = None if parent is None else parent.parent
        return self.depth

    @contextmanager
    def _inside(
        self, op: Operation, block: Block, *, barrier: bool = False, speculative: bool = True
    ) -> Generator[None]:
        """Opens a level. Nothing is placed outside of a barrier, a region that becomes a function of its own; no load
        outside of a speculative one, which may run zero times, so that the load may be out of bounds.
        """
        top, depth = self._levels[-1], len(self._levels)
        top.child = op
        floor = depth if barrier else top.floor
        load_floor = depth if barrier or speculative else top.load_floor
        self._levels.append(_Level(block, floor, load_floor))
        self._depths[block] = depth
        yield
        self._levels.pop()
        del self._depths[block]
        top.child = None

    @contextmanager
    def loop(
        self,
        lower: Scalar,
        upper: Scalar,
        step: Scalar = 1,
        carried: Sequence[SSAValue] = (),
        *,
        nonempty: bool = False,
    ) -> Generator[Loop]:
        """`for index = lower to upper step step`; `nonempty` promises at least one iteration."""
        block = Block(arg_types=[INDEX, *(c.type for c in carried)])
        known = isinstance(lower, int) and isinstance(upper, int) and lower < upper
        op = scf.ForOp(self.index(lower), self.index(upper), self.index(step), carried, Region(block))
        self.insert(op)
        index, *arguments = block.args
        loop = Loop(op, index, tuple(arguments), tuple(arguments))
        with self._inside(op, block, speculative=not (known or nonempty)):
            yield loop
            self.insert(scf.YieldOp(*loop.next))

    @contextmanager
    def parallel(self, extent: Scalar, grain: Scalar) -> Generator[tuple[SSAValue, SSAValue, SSAValue]]:
        """`kernel.parallel`: yields (lower, upper, thread); the body must loop from lower to upper itself."""
        op = self.insert(kernel.ParallelOp(self.index(extent), self.index(grain)))
        block = op.body.block
        with self._inside(op, block, barrier=True):
            lower, upper, thread = block.args
            yield lower, upper, thread
            self.insert(kernel.YieldOp())

    @contextmanager
    def when(self, condition: SSAValue) -> Generator[None]:
        """`if condition`, without results."""
        block = Block()
        op = self.insert(scf.IfOp(condition, [], Region(block)))
        with self._inside(op, block):
            yield
            self.insert(scf.YieldOp())

    @contextmanager
    def branch(self, op: scf.IfOp | scf.WhileOp, region: Region) -> Generator[None]:
        """One region of an `scf.if` or `scf.while` that is already inserted; the caller ends it."""
        with self._inside(op, region.block):
            yield

    def choose(
        self, condition: SSAValue, result: Attribute, then: Callable[[], SSAValue], other: Callable[[], SSAValue]
    ) -> SSAValue:
        """`if condition then ... else ...`, for a value."""
        op = self.insert(scf.IfOp(condition, [result], Region(Block()), [Block()]))
        for side, build in zip(op.regions, (then, other)):
            with self.branch(op, side):
                self.insert(scf.YieldOp(build()))
        return op.results[0]

    # Placing ops

    def insert(self, op: OpT) -> OpT:
        """Puts an op here."""
        return self._place(op, self._levels[-1])

    def _place(self, op: OpT, level: _Level) -> OpT:
        if self.origin is not None:
            op.attributes["origin"] = self.origin
        level.add(op)
        return op

    def floor(self) -> int:
        """The outermost level at which anything may be placed: the innermost parallel region."""
        return self._levels[-1].floor

    def load_floor(self) -> int:
        """The outermost level at which a load of this place may be placed."""
        return self._levels[-1].load_floor

    def hoisted(self, op: OpT, least_depth: int = 0) -> OpT:
        """Puts a pure op at the outermost level where its operands are known, or returns its equal from there."""
        level = self._home(type(op), op.operands, least_depth)
        key = (type(op), *op.operands, *op.result_types, *op.properties.values())
        found = level.known.get(key)
        if found is not None:
            op.drop_all_references()
            assert isinstance(found, type(op))
            return found
        level.known[key] = op
        return self._place(op, level)

    def _home(self, kind: type[Operation], operands: Iterable[SSAValue], least_depth: int) -> _Level:
        top = self._levels[-1]
        depth = max(least_depth, top.load_floor if kind in _TRAPPING else top.floor)
        for operand in operands:
            depth = max(depth, self.depth_of(operand))
        return self._levels[depth]

    def pure(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Mapping[str, Attribute] = NO_PROPERTIES,
        least_depth: int = 0,
    ) -> SSAValue:
        """`hoisted` for an op of one result, which is created only where there is no equal one yet.

        The properties must be complete: defaults are not filled in.
        """
        level = self._home(kind, operands, least_depth)
        # Attributes go by identity: hashing them costs more than an op, and the op that is found keeps them alive.
        key = (kind, *operands, id(result), *map(id, properties.values()))
        found = level.known.get(key)
        if found is None:
            found = kind.create(operands=operands, result_types=[result], properties=dict(properties))
            level.known[key] = self._place(found, level)
        return found.results[0]

    def loaded(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        least_depth: int,
        properties: Mapping[str, Attribute] = NO_PROPERTIES,
    ) -> SSAValue:
        """Places a load of contents that are complete from level `least_depth` on, or returns its equal."""
        return self.pure(kind, operands, result, properties, max(least_depth, self.load_floor()))

    def checked(self, op: kernel.CheckOp) -> None:
        """Places a check on what is the same in inner loops outside of them."""
        self.hoisted(op, self.load_floor())

    # Index arithmetic, folded where the numbers are known

    def index(self, value: Scalar) -> SSAValue:
        if isinstance(value, int):
            return self.pure(arith.ConstantOp, (), INDEX, _integer(value, INDEX))
        return value

    def constant(self, value: float | bool, element: Attribute) -> SSAValue:
        """A scalar constant of an integer, index or float type."""
        if isinstance(element, IndexType | IntegerType):
            return self.pure(arith.ConstantOp, (), element, _integer(int(value), element))
        return self.pure(arith.ConstantOp, (), element, _float(repr(float(value)), element))

    def literal(self, value: IntegerAttr | FloatAttr) -> SSAValue:
        """A scalar constant."""
        number = value.value.data
        assert isinstance(number, int | float)
        return self.constant(number, value.type)

    def dim(self, dim: Dim | int) -> Scalar:
        """A size in the kernel's symbols."""
        dim = as_dim(dim)
        return dim.value if dim.is_const else self.pure(kernel.DimOp, (), INDEX, _dim(dim))

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._index_op(arith.AddiOp, a, b, OVERFLOW)

    def _index_op(
        self, kind: type[Operation], a: Scalar, b: Scalar, properties: Mapping[str, Attribute] = NO_PROPERTIES
    ) -> SSAValue:
        return self.pure(kind, (self.index(a), self.index(b)), INDEX, properties)

    def sum(self, terms: Sequence[Scalar]) -> Scalar:
        """Adds up, outer loops' terms first, so that all but the last additions are outside of the inner loop."""
        constant = sum(t for t in terms if isinstance(t, int))
        values = sorted((t for t in terms if isinstance(t, SSAValue)), key=self.depth_of)
        total: Scalar = constant
        for value in values:
            total = self.add(total, value)
        return total

    def sub(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self._index_op(arith.SubiOp, a, b, OVERFLOW)

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self._index_op(arith.MuliOp, a, b, OVERFLOW)

    def div(self, a: Scalar, b: Scalar) -> Scalar:
        """Quotient of non-negative numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if b == 1 else self._index_op(arith.DivUIOp, a, self.divisor(b))

    def divisor(self, size: Scalar) -> Scalar:
        """A size, or 1 where it is 0: a division by it does not end the process."""
        return size if isinstance(size, int) else self.maximum(size, 1)

    def mod(self, a: Scalar, b: Scalar) -> Scalar:
        """Remainder of non-negative numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if b == 1 else self._index_op(arith.RemUIOp, a, self.divisor(b))

    def minimum(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._index_op(arith.MinSIOp, a, b)

    def maximum(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self._index_op(arith.MaxSIOp, a, b)

    def compare(self, predicate: str, a: Scalar, b: Scalar) -> SSAValue:
        return self.hoisted(arith.CmpiOp(self.index(a), self.index(b), predicate)).result

    def select(self, condition: SSAValue, a: Scalar, b: Scalar) -> SSAValue:
        """An index by a condition."""
        return self.pure(arith.SelectOp, (condition, self.index(a), self.index(b)), INDEX)

    def aligned(self, base: SSAValue, bytes_: int) -> SSAValue:
        """Whether a memref starts at a multiple of so many bytes."""
        address = self.hoisted(memref.ExtractAlignedPointerAsIndexOp.get(base)).aligned_pointer
        return self.compare("eq", self.mod(address, bytes_), 0)

    # Vectors

    def broadcast(self, value: SSAValue, lanes: int) -> SSAValue:
        """A scalar in all lanes."""
        return self.pure(vector.BroadcastOp, (value,), vector_of(value.type, lanes))

    def mask(self, count: Scalar, lanes: int) -> SSAValue:
        """The first `count` lanes."""
        return self.pure(vector.CreateMaskOp, (self.index(count),), vector_of(i1, lanes))

    def load_vector(self, base: SSAValue, at: Scalar, lanes: int, mask: SSAValue | None = None) -> SSAValue:
        """`lanes` elements from offset `at` on, zero where the mask is not set; not hoisted."""
        element = element_of(base)
        index = self.index(at)
        if mask is None:
            return self.insert(vector.LoadOp(base, [index], vector_of(element, lanes))).result
        zero = self.broadcast(self.constant(0, element), lanes)
        return self.insert(vector.MaskedLoadOp(base, [index], mask, zero)).result

    def store_vector(
        self, value: SSAValue, base: SSAValue, at: Scalar, mask: SSAValue | None = None, *, nontemporal: bool = False
    ) -> None:
        index = self.index(at)
        if mask is None:
            self.insert(vector.StoreOp(value, base, [index], BoolAttr.from_bool(True) if nontemporal else None))
        else:
            self.insert(vector.MaskedStoreOp(base, [index], mask, value))

    def gather(self, base: SSAValue, offsets: SSAValue, lanes: int, mask: SSAValue | None = None) -> SSAValue:
        element = element_of(base)
        zero = None if mask is None else self.broadcast(self.constant(0, element), lanes)
        return self.insert(vectorx.GatherOp(base, offsets, mask, zero, vector_of(element, lanes))).result

    def scatter(self, value: SSAValue, base: SSAValue, offsets: SSAValue, mask: SSAValue | None = None) -> None:
        self.insert(vectorx.ScatterOp(value, base, offsets, mask))

    # Scalars in memory

    def load(self, base: SSAValue, at: Scalar) -> SSAValue:
        """One element, not hoisted."""
        return self.insert(memref.LoadOp.get(base, [self.index(at)])).res

    def store(self, value: SSAValue, base: SSAValue, at: Scalar) -> None:
        self.insert(memref.StoreOp.get(value, base, [self.index(at)]))


def element_of(base: SSAValue) -> Attribute:
    """The element type of a memref, tensor or vector value."""
    type_ = base.type
    assert isinstance(type_, MemRefType | VectorType)
    return type_.element_type


@dataclass
class ScratchSpace:
    """Lays out the kernel's scratch: offsets are aligned to 64 bytes, totals go into the function's attributes."""

    shared: Dim = field(default_factory=lambda: as_dim(0))
    per_thread: Dim = field(default_factory=lambda: as_dim(0))

    def take(self, builder: LoopBuilder, element: Attribute, size: Dim | int, thread: SSAValue | None) -> SSAValue:
        """`size` elements, of the thread's own where a thread is given (then inside of the parallel region)."""
        padded = (as_dim(size) * byte_width(element) + 63) // 64 * 64
        if thread is None:
            offset, self.shared = self.shared, self.shared + padded
        else:
            offset, self.per_thread = self.per_thread, self.per_thread + padded
        return builder.hoisted(kernel.ScratchOp(offset, size, flat(element), thread)).result


def either_space(second: Dim, first: ScratchSpace, other: ScratchSpace) -> ScratchSpace:
    """The first where `second` is 0, the other where it is 1."""

    def chosen(a: Dim, b: Dim) -> Dim:
        return a + second * (b - a)

    return ScratchSpace(chosen(first.shared, other.shared), chosen(first.per_thread, other.per_thread))
