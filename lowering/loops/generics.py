"""Reads tensor-level kernels: what each `linalg.generic` accesses, over which extents, and how it reduces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from ...dialects import kernel
from ...dialects.dims import Dim, ShapeAttr, as_dim
from ...dialects.structured import GenericOp
from .. import policy


class LoweringError(ValueError):
    """Tensor-level IR that the loops level has no form for: a bug of whoever emitted it."""


@dataclass(frozen=True)
class Access:
    """How an operand is read or written: by the number of the loop for each axis, None where the index is 0."""

    tensor: SSAValue
    axes: tuple[int | None, ...]

    @staticmethod
    def of(tensor: SSAValue, map_: AffineMap) -> Access:
        return Access(tensor, tuple(_axis(e, map_) for e in map_.results))


def _axis(expr: object, map_: AffineMap) -> int | None:
    if isinstance(expr, AffineDimExpr):
        return expr.position
    if isinstance(expr, AffineConstantExpr) and expr.value == 0:
        return None
    raise LoweringError(f"an indexing map that is no projected permutation: {map_}")


@dataclass(frozen=True)
class Reduction:
    """`combine` folds `value`, computed at each point of the reduced loops, into a result."""

    combine: Operation
    value: SSAValue
    kind: str
    identity: float

    @property
    def element(self) -> Attribute:
        return self.combine.results[0].type

    @property
    def is_exact(self) -> bool:
        """Whether its bits are the same in whatever order it combines."""
        return not isinstance(self.combine, _INEXACT)


_INEXACT = (arith.AddfOp, arith.MulfOp, arith.MaxnumfOp, arith.MinnumfOp)
"""What rounds, or gives either of two zeros."""

_REDUCTIONS: dict[type[Operation], tuple[str, float | None]] = {
    arith.AddfOp: ("add", -0.0),
    arith.MulfOp: ("mul", 1.0),
    arith.MaximumfOp: ("maximumf", -inf),
    arith.MinimumfOp: ("minimumf", inf),
    arith.MaxnumfOp: ("maxnumf", -inf),
    arith.MinnumfOp: ("minnumf", inf),
    arith.AddiOp: ("add", 0),
    arith.MuliOp: ("mul", 1),
    arith.MaxUIOp: ("maxui", 0),
    arith.MinUIOp: ("minui", -1),
    arith.AndIOp: ("and", -1),
    arith.OrIOp: ("or", 0),
    arith.XOrIOp: ("xor", 0),
    arith.MaxSIOp: ("maxsi", None),
    arith.MinSIOp: ("minsi", None),
}
"""vectorx's name of the reduction, and its identity; None: the type's least or greatest number."""


def _identity(op: Operation, element: Attribute) -> float:
    known = _REDUCTIONS[type(op)][1]
    if known is not None:
        return known
    width = element.width.data if isinstance(element, IntegerType) else 64
    return -(1 << (width - 1)) if isinstance(op, arith.MaxSIOp) else (1 << (width - 1)) - 1


@dataclass(frozen=True, eq=False)
class Generic:
    """The outputs of one `linalg.generic` that reduce the same loops (none: maps), with the part of its body for them.

    Its inexact reductions along lanes are of one width: others have other lanes.  It has all loops of the op, with
    their extents, and an access for each operand.
    """

    op: linalg.GenericOp
    extents: tuple[Dim, ...]
    reduced: tuple[bool, ...]
    inputs: tuple[Access, ...]
    numbers: tuple[int, ...]
    """Which of the op's outputs they are."""
    outputs: tuple[Access, ...]
    reductions: tuple[Reduction | None, ...]
    """For each output: how it is reduced, None where it is a plain map."""
    ops: tuple[Operation, ...]
    """The body's ops that it needs, in order."""

    @property
    def rank(self) -> int:
        return len(self.extents)

    def extent(self, loops: Sequence[int]) -> Dim:
        """The iterations of some loops walked through as one."""
        total = as_dim(1)
        for loop in loops:
            total = total * self.extents[loop]
        return total

    @property
    def block(self) -> Block:
        return self.op.body.block

    @property
    def results(self) -> Sequence[SSAValue]:
        return [self.op.res[n] for n in self.numbers]

    @cached_property
    def arguments(self) -> tuple[tuple[SSAValue, Access], ...]:
        """The block arguments that its part of the body reads, with the accesses that they stand for."""
        arguments = [
            *self.block.args[: len(self.inputs)],
            *(self.block.args[len(self.inputs) + n] for n in self.numbers),
        ]
        used = {o for op in self.ops for inner in op.walk() for o in inner.operands} | set(self.wanted)
        pairs = zip(arguments, (*self.inputs, *self.outputs), strict=True)
        return tuple((argument, access) for argument, access in pairs if argument in used)

    @property
    def wanted(self) -> Sequence[SSAValue]:
        """The body's value for each output: what is stored, or what is added to the result."""
        stored = _yielded(self.op)
        return [stored[n] if r is None else r.value for n, r in zip(self.numbers, self.reductions)]

    @cached_property
    def leading(self) -> int:
        """The number of leading loops that are parallel."""
        return next((i for i, r in enumerate(self.reduced) if r), self.rank)

    @cached_property
    def trailing(self) -> int:
        """The number of trailing loops that are reduced."""
        return next((i for i, r in enumerate(reversed(self.reduced)) if not r), self.rank)

    @cached_property
    def indexed(self) -> frozenset[int]:
        """The loops whose index the body reads."""
        return frozenset(op.dim.value.data for op in self.walk() if isinstance(op, linalg.IndexOp))

    @cached_property
    def extracts(self) -> tuple[tensor.ExtractOp, ...]:
        """The accesses that are computed in the body."""
        return tuple(op for op in self.walk() if isinstance(op, tensor.ExtractOp))

    @cached_property
    def guarded(self) -> bool:
        """Whether the body reads under conditions, which hold at most places and fail at edges."""
        return any(isinstance(op, scf.IfOp) for op in self.walk())

    def walk(self) -> Iterator[Operation]:
        """The body's ops, with those inside of others."""
        for op in self.ops:
            yield from op.walk()

    @cached_property
    def ordered(self) -> Attribute | None:
        """The element type of the reductions whose lanes are a matter of results; None where there are none."""
        return next((r.element for r in self.reductions if r is not None and not r.is_exact), None)

    @property
    def is_map(self) -> bool:
        return not any(self.reduced)

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """Operands read through a map: inputs, and outputs whose old value a map or a reduction starts from."""
        initial = [o for o, r in zip(self.outputs, self.reductions) if r is not None]
        return (*(access for _, access in self.arguments), *initial)

    @cached_property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors that it reads."""
        return (*(a.tensor for a in self.reads), *(e.tensor for e in self.extracts))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All reads and writes; an input that only gives an extent is neither."""
        return (*self.reads, *self.outputs)


@dataclass
class Shapes:
    """The dims of every tensor value, and for the result of a `kernel.view` the tensor that holds its elements."""

    dims: dict[SSAValue, tuple[Dim, ...]]
    roots: dict[SSAValue, SSAValue]

    def __getitem__(self, tensor: SSAValue) -> tuple[Dim, ...]:
        return self.dims[tensor]

    def views(self, tensor: SSAValue) -> list[SSAValue]:
        """A tensor and its views."""
        return [tensor, *(view for view, root in self.roots.items() if root is tensor)]

    def root(self, tensor: SSAValue) -> SSAValue:
        return self.roots.get(tensor, tensor)

    def shared_axes(self, tensor: SSAValue) -> int:
        """The number of leading axes of a view that are those of its root."""
        pairs = zip(self.dims[tensor], self.dims[self.root(tensor)])
        return next(
            (i for i, (a, b) in enumerate(pairs) if a is not b), min(map(len, (self[tensor], self[self.root(tensor)])))
        )


def read_generics(op: linalg.GenericOp, shapes: Shapes) -> list[Generic]:
    """Analyses one op: a generic for its maps, one for each set of loops that outputs reduce (and width of sums).

    Raises LoweringError for what the loops level does not do.
    """
    maps = [m.data for m in op.indexing_maps]
    accesses = [Access.of(v, m) for v, m in zip((*op.inputs, *op.outputs), maps, strict=True)]
    inputs, outputs = tuple(accesses[: len(op.inputs)]), accesses[len(op.inputs) :]
    rank = len(op.iterator_types)
    extents = _extents(rank, (*outputs, *inputs), shapes)
    groups: dict[tuple[bool, ...], list[int]] = {}
    for number, output in enumerate(outputs):
        groups.setdefault(tuple(i not in output.axes for i in range(rank)), []).append(number)
    generics: list[Generic] = []
    for reduced, numbers in _by_width(op, sorted(groups.items())):
        reductions = tuple(_reduction(op, n) if any(reduced) else None for n in numbers)
        stored = _yielded(op)
        wanted = [stored[n] if r is None else r.value for n, r in zip(numbers, reductions)]
        ops = _needed(op.body.block, wanted, checks=not generics)
        mine = tuple(outputs[n] for n in numbers)
        generics.append(Generic(op, extents, reduced, inputs, tuple(numbers), mine, reductions, ops))
    return generics


def _by_width(
    op: linalg.GenericOp, groups: Iterable[tuple[tuple[bool, ...], list[int]]]
) -> Iterator[tuple[tuple[bool, ...], list[int]]]:
    """The groups, those with inexact reductions of several widths along lanes cut up; exact ones go with the first."""
    for reduced, numbers in groups:
        widths: dict[int, list[int]] = {}
        exact: list[int] = []
        for number in numbers:
            reduction = _reduction(op, number) if any(reduced[-1:]) else None
            if reduction is None or reduction.is_exact:
                exact.append(number)
            else:
                widths.setdefault(policy.reduction_width(reduction.element), []).append(number)
        first, *others = widths.values() or [[]]
        yield reduced, sorted([*exact, *first])
        yield from ((reduced, other) for other in others)


def _yielded(op: linalg.GenericOp) -> Sequence[SSAValue]:
    terminator = op.body.block.last_op
    assert terminator is not None
    return terminator.operands


def _needed(block: Block, wanted: Sequence[SSAValue], checks: bool) -> tuple[Operation, ...]:
    """The ops of a block that the wanted values depend on, and its checks."""
    needed: set[SSAValue] = set(wanted)
    found: list[Operation] = []
    for op in reversed(list(block.ops)):
        effect = checks and any(isinstance(inner, kernel.CheckOp) for inner in op.walk())
        if effect or any(r in needed for r in op.results):
            found.append(op)
            needed.update(o for inner in op.walk() for o in inner.operands)
    return tuple(reversed(found))


def _extents(rank: int, accesses: Sequence[Access], shapes: Shapes) -> tuple[Dim, ...]:
    extents: dict[int, Dim] = {}
    for access in accesses:
        for loop, size in zip(access.axes, shapes[access.tensor], strict=True):
            if loop is not None:
                extents.setdefault(loop, size)
    if len(extents) != rank:
        raise LoweringError("a loop of a linalg.generic that no operand has")
    return tuple(extents[i] for i in range(rank))


def _reduction(op: linalg.GenericOp, number: int) -> Reduction:
    combine = _yielded(op)[number].owner
    argument = op.body.block.args[len(op.inputs) + number]
    if not isinstance(combine, Operation) or type(combine) not in _REDUCTIONS or argument not in combine.operands:
        raise LoweringError("a reduction that does not combine by one arith op")
    [value] = [o for o in combine.operands if o is not argument]
    kind = _REDUCTIONS[type(combine)][0]
    return Reduction(combine, value, kind, _identity(combine, argument.type))


def shapes_of(func: FuncOp) -> Shapes:
    """The dims of every tensor value of a tensor-level kernel, in the kernel's symbols."""
    shapes: dict[SSAValue, tuple[Dim, ...]] = {}
    roots: dict[SSAValue, SSAValue] = {}
    tensors = [a for a in func.args if isinstance(a.type, TensorType)]
    given = func.attributes.get("kernel.arg_dims")
    if isinstance(given, ArrayAttr):
        for argument, dims in zip(tensors, given, strict=True):
            assert isinstance(dims, ShapeAttr)
            shapes[argument] = dims.data
    else:
        shapes.update((a, _type_dims(a.type, ())) for a in tensors)
    for op in func.body.block.ops:
        _SHAPES.get(type(op), _no_shapes)(op, shapes)
        if isinstance(op, kernel.ViewOp):
            roots[op.result] = roots.get(op.source, op.source)
    return Shapes(shapes, roots)


def _type_dims(type_: Attribute, dynamic: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims of a tensor type; `dynamic` gives the unknown ones."""
    assert isinstance(type_, TensorType)
    sizes = iter(dynamic)
    return tuple(as_dim(n) if n != DYNAMIC_INDEX else next(sizes) for n in type_.get_shape())


def index_expression(value: SSAValue) -> Dim:
    """The expression of an index value that a kernel computes outside of bodies."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        return as_dim(f"d{value.index}")
    if isinstance(owner, kernel.DimOp):
        return owner.expr.data[0]
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return as_dim(owner.value.value.data)
    raise LoweringError(f"a size that is no expression in the kernel's symbols: {value}")


def _no_shapes(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    for result in op.results:
        if isinstance(result.type, TensorType):
            raise LoweringError(f"{op.name} is not allowed in a tensor-level kernel")


def _empty_shape(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    assert isinstance(op, tensor.EmptyOp)
    shapes[op.tensor] = _type_dims(op.tensor.type, [index_expression(v) for v in op.dynamic_sizes])


def _splat_shape(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    assert isinstance(op, tensor.SplatOp)
    shapes[op.result] = _type_dims(op.result.type, [index_expression(v) for v in op.dynamicSizes])


def _constant_shape(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    if isinstance(op.results[0].type, TensorType):
        shapes[op.results[0]] = _type_dims(op.results[0].type, ())


def _output_shapes(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    assert isinstance(op, linalg.GenericOp | linalg.FillOp | kernel.TemplateOp)
    for result, output in zip(op.results, op.outputs, strict=True):
        shapes[result] = shapes[output]


def _view_shape(op: Operation, shapes: dict[SSAValue, tuple[Dim, ...]]) -> None:
    assert isinstance(op, kernel.ViewOp)
    given = op.attributes.get("dims")
    shapes[op.result] = given.data if isinstance(given, ShapeAttr) else _type_dims(op.result.type, ())


_SHAPES: dict[type[Operation], Callable[[Operation, dict[SSAValue, tuple[Dim, ...]]], None]] = {
    kernel.ViewOp: _view_shape,
    tensor.EmptyOp: _empty_shape,
    tensor.SplatOp: _splat_shape,
    arith.ConstantOp: _constant_shape,
    linalg.GenericOp: _output_shapes,
    GenericOp: _output_shapes,
    linalg.FillOp: _output_shapes,
    kernel.TemplateOp: _output_shapes,
}


def joint_origin(ops: Iterable[Operation]) -> Attribute | None:
    """The attribute `origin` (node ids) of what is built for several ops: the union."""
    origins = [op.attributes.get("origin") for op in ops]
    ids = sorted({i for origin in origins if isinstance(origin, DenseArrayBase) for i in origin.iter_values()})
    return DenseArrayBase.from_list(i64, ids) if any(origins) else None


def splat_value(value: SSAValue) -> IntegerAttr | FloatAttr | SSAValue | None:
    """The scalar that a tensor has everywhere: a constant, or a constant op's result; None where it is not known so."""
    owner = value.owner
    if isinstance(owner, linalg.FillOp):
        return owner.inputs[0]
    if isinstance(owner, tensor.SplatOp):
        return owner.input
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr):
        return dense_attribute(owner.value, 0) if len(owner.value) and owner.value.is_splat() else None
    if isinstance(owner, linalg.GenericOp) and not any(b.uses for b in owner.body.block.args):
        terminator = owner.body.block.last_op
        assert terminator is not None and isinstance(value, SSAValue)
        yielded = terminator.operands[list(owner.res).index(value)]  # pyright: ignore[reportArgumentType]
        if isinstance(yielded.owner, arith.ConstantOp):
            return yielded
    return None


def dense_attribute(dense: DenseIntOrFPElementsAttr, at: int) -> IntegerAttr | FloatAttr:
    """One element of a dense constant as an attribute."""
    element = dense.get_element_type()
    number = dense.get_values()[0 if dense.is_splat() else at]
    if element == i1:
        return IntegerAttr(int(bool(number)), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if isinstance(element, AnyFloat):
        return FloatAttr(float(number), element)  # pyright: ignore[reportArgumentType]
    return IntegerAttr(int(number), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
