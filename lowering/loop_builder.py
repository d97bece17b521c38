"""Builds loops-level IR from outside in, with loop-invariant code placed outside its loops as it is built.

The builder holds a stack of open levels (function body, parallel region, loop, conditional).  A pure op goes to the
outermost level at which its operands are defined, and equal pure ops at one level are one op: invariant code motion
and common subexpressions by construction, so no later pass need find them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, TypeVar

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects import kernel, vectorx
from ..dialects.dims import Dim, as_dim
from ..dialects.target import Target
from .element_types import byte_width

INDEX = IndexType()
Scalar: TypeAlias = int | SSAValue
"""An index: known now, or computed by the kernel."""

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


@dataclass
class _Level:
    """An open block. While a deeper level is open, `child` is the op of this block that contains it."""

    block: Block
    barrier: bool
    """Nothing is placed outside of it (a region that becomes a function of its own)."""
    speculative: bool
    """The block may run zero times or under a condition: a load inside of it may be out of bounds outside."""
    child: Operation | None = None
    known: dict[tuple[object, ...], Operation] = field(default_factory=dict[tuple[object, ...], Operation])

    @property
    def point(self) -> InsertPoint:
        return InsertPoint.at_end(self.block) if self.child is None else InsertPoint.before(self.child)


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
        self._levels = [_Level(entry, barrier=True, speculative=False)]
        self._depths = {entry: 0}
        self.origin: Attribute | None = None
        """The attribute `origin` of what is being built."""

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
        top = self._levels[-1]
        top.child = op
        self._levels.append(_Level(block, barrier, speculative))
        self._depths[block] = self.depth
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
    def branch(self, op: scf.IfOp, region: Region) -> Generator[None]:
        """One side of an `scf.if` with results that is already inserted; the caller ends it with `scf.yield`."""
        with self._inside(op, region.block):
            yield

    # Placing ops

    def insert(self, op: OpT) -> OpT:
        """Puts an op here."""
        return self._place(op, self._levels[-1])

    def _place(self, op: OpT, level: _Level) -> OpT:
        if self.origin is not None:
            op.attributes["origin"] = self.origin
        Rewriter.insert_op(op, level.point)
        return op

    def floor(self) -> int:
        """The outermost level at which anything may be placed: the innermost parallel region."""
        return max(d for d, level in enumerate(self._levels) if level.barrier)

    def load_floor(self) -> int:
        """The outermost level at which a load of this place may be placed."""
        return max(d for d, level in enumerate(self._levels) if level.barrier or level.speculative or d == 0)

    def hoisted(self, op: OpT, least_depth: int = 0) -> OpT:
        """Puts a pure op at the outermost level where its operands are known, or returns its equal from there."""
        if type(op) in _TRAPPING:
            least_depth = max(least_depth, self.load_floor())
        depth = max((least_depth, self.floor(), *map(self.depth_of, op.operands)))
        level = self._levels[depth]
        key = (type(op), tuple(op.operands), tuple(op.result_types), tuple(op.properties.values()))
        found = level.known.get(key)
        if found is not None:
            op.drop_all_references()
            assert isinstance(found, type(op))
            return found
        level.known[key] = op
        return self._place(op, level)

    def loaded(self, op: Operation, least_depth: int) -> SSAValue:
        """Places a load of contents that are complete from level `least_depth` on, or returns its equal."""
        return self.hoisted(op, max(least_depth, self.load_floor())).results[0]

    def checked(self, op: kernel.CheckOp) -> None:
        """Places a check on what is the same in inner loops outside of them."""
        self.hoisted(op, self.load_floor())

    # Index arithmetic, folded where the numbers are known

    def index(self, value: Scalar) -> SSAValue:
        if isinstance(value, int):
            return self.hoisted(arith.ConstantOp(IntegerAttr(value, INDEX))).result
        return value

    def constant(self, value: float | bool, element: Attribute) -> SSAValue:
        """A scalar constant of an integer, index or float type."""
        if isinstance(element, IndexType | IntegerType):
            return self.hoisted(arith.ConstantOp(IntegerAttr(int(value), element, truncate_bits=True))).result
        return self.hoisted(arith.ConstantOp(FloatAttr(value, element))).result  # pyright: ignore[reportCallIssue, reportArgumentType]

    def dim(self, dim: Dim | int) -> Scalar:
        """A size in the kernel's symbols."""
        dim = as_dim(dim)
        return dim.value if dim.is_const else self.hoisted(kernel.DimOp(dim)).result

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.hoisted(arith.AddiOp(self.index(a), self.index(b))).result

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
        return a if b == 0 else self.hoisted(arith.SubiOp(self.index(a), self.index(b))).result

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.hoisted(arith.MuliOp(self.index(a), self.index(b))).result

    def div(self, a: Scalar, b: Scalar) -> Scalar:
        """Quotient of non-negative numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if b == 1 else self.hoisted(arith.DivUIOp(self.index(a), self.index(b))).result

    def mod(self, a: Scalar, b: Scalar) -> Scalar:
        """Remainder of non-negative numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if b == 1 else self.hoisted(arith.RemUIOp(self.index(a), self.index(b))).result

    def minimum(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.hoisted(arith.MinSIOp(self.index(a), self.index(b))).result

    def maximum(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.hoisted(arith.MaxSIOp(self.index(a), self.index(b))).result

    def compare(self, predicate: str, a: Scalar, b: Scalar) -> SSAValue:
        return self.hoisted(arith.CmpiOp(self.index(a), self.index(b), predicate)).result

    # Vectors

    def broadcast(self, value: SSAValue, lanes: int) -> SSAValue:
        """A scalar in all lanes."""
        return self.hoisted(vector.BroadcastOp(value, vector_of(value.type, lanes))).vector

    def mask(self, count: Scalar, lanes: int) -> SSAValue:
        """The first `count` lanes."""
        return self.hoisted(vector.CreateMaskOp([self.index(count)], vector_of(i1, lanes))).mask_vector

    def load_vector(self, base: SSAValue, at: Scalar, lanes: int, mask: SSAValue | None = None) -> SSAValue:
        """`lanes` elements from offset `at` on, zero where the mask is not set; not hoisted."""
        element = element_of(base)
        index = self.index(at)
        if mask is None:
            return self.insert(vector.LoadOp(base, [index], vector_of(element, lanes))).result
        zero = self.broadcast(self.constant(0, element), lanes)
        return self.insert(vector.MaskedLoadOp(base, [index], mask, zero)).result

    def store_vector(self, value: SSAValue, base: SSAValue, at: Scalar, mask: SSAValue | None = None) -> None:
        index = self.index(at)
        if mask is None:
            self.insert(vector.StoreOp(value, base, [index]))
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
