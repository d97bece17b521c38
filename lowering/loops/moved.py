"""Operands and results that are only moved before or behind a template.

One that takes any strides reads them where they lie, and writes them where they are to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE
from ..loop_builder import LoopBuilder, Scalar
from ..places import Buffer
from .generics import Generic, Shapes
from .nests import Nest
from .unmade import read_by, without_ones

IN_PLACE: Mapping[str, range] = {"attention": range(3)}
"""The operands that a template reads with any strides on all axes but the last."""

WRITTEN: Mapping[str, int] = {"attention": 0}
"""The result that a template writes with any strides on all axes but the last."""

Step: TypeAlias = Nest | kernel.TemplateOp


@dataclass(frozen=True)
class Linear:
    """An index: a constant, and for each loop what is added for one more of it."""

    constant: Dim
    terms: Mapping[int, Dim] = field(default_factory=dict[int, Dim])

    def plus(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for loop, term in other.terms.items():
            terms[loop] = terms[loop] + term if loop in terms else term
        return Linear(self.constant + other.constant, terms)

    def times(self, factor: Dim) -> Linear:
        return Linear(self.constant * factor, {loop: term * factor for loop, term in self.terms.items()})


@dataclass(frozen=True)
class Moved:
    """An element of an operand is that of `source` at `indices`, linear in the loops that `loops` has by axis."""

    source: SSAValue
    indices: Sequence[Linear]
    loops: Sequence[int | None]

    def place(self, builder: LoopBuilder, source: Buffer) -> Buffer:
        """Where the operand lies, with its source there."""

        def along(dims: Sequence[Dim]) -> Scalar:
            return builder.sum([builder.mul(builder.dim(d), s) for d, s in zip(dims, source.strides, strict=True)])

        zero = as_dim(0)
        strides = [along([zero if k is None else i.terms.get(k, zero) for i in self.indices]) for k in self.loops]
        offset = builder.sum([source.offset, along([i.constant for i in self.indices])])
        return Buffer(source.base, tuple(strides), offset, source.depth)


def moved_operands(
    steps: Sequence[Step], kept: Mapping[SSAValue, object], shapes: Shapes
) -> tuple[dict[SSAValue, Moved], list[Nest]]:
    """Operands that templates read where they lie, and the nests that so need not run.

    `kept` are the tensors that have a place in any case: arguments, from which is read, and results.
    """
    readers: dict[SSAValue, list[Step]] = {}
    for step in steps:
        for root in dict.fromkeys(shapes.root(t) for t in read_by(step)):
            readers.setdefault(root, []).append(step)
    found: dict[SSAValue, Moved] = {}
    idle: list[Nest] = []
    for step in steps:
        if not isinstance(step, Nest):
            continue
        made: dict[SSAValue, Moved] | None = {}
        for generic in step.generics:
            for number, root in enumerate(generic.results):
                operands = None if root in kept else operands_in_place(root, readers.get(root, []), shapes)
                moves = [moved(generic, number, operand, kept, shapes) for operand in operands or ()]
                if not moves or None in moves or made is None:
                    made = None
                    break
                made |= {o: m for o, m in zip(operands or (), moves) if m is not None}
        if made:
            found |= made
            idle.append(step)
    return found, idle


@dataclass(frozen=True)
class Ordered:
    """A template's result that lies in `target`, whose axes are its own in another order; None: an axis of size 1."""

    target: SSAValue
    axes: Sequence[int | None]

    def place(self, target: Buffer) -> Buffer:
        strides = tuple(0 if axis is None else target.strides[axis] for axis in self.axes)
        return Buffer(target.base, strides, target.offset, target.depth)


def ordered_results(
    steps: Sequence[Step], kept: Mapping[SSAValue, object], shapes: Shapes
) -> tuple[dict[SSAValue, Ordered], list[Nest]]:
    """Results that templates write where nests would move them, and these nests, which need not run."""
    found: dict[SSAValue, Ordered] = {}
    idle: list[Nest] = []
    for step in steps:
        if not isinstance(step, kernel.TemplateOp) or step.template.data not in WRITTEN:
            continue
        result = step.results_[WRITTEN[step.template.data]]
        readers = [other for other in steps if any(shapes.root(t) is result for t in read_by(other))]
        if result in kept or len(readers) != 1 or not isinstance(readers[0], Nest):
            continue
        ordered = ordered_by(readers[0], result, kept, shapes)
        if ordered is not None:
            found[result] = ordered
            idle.append(readers[0])
    return found, idle


def ordered_by(nest: Nest, result: SSAValue, kept: Mapping[SSAValue, object], shapes: Shapes) -> Ordered | None:
    """How a nest that does nothing else puts the elements of a result into one that is kept, whole rows together."""
    if len(nest.generics) != 1:
        return None
    [generic] = nest.generics
    if not generic.is_map or len(generic.outputs) != 1 or generic.ops or len(generic.arguments) != 1:
        return None
    [(argument, read)], [write], [value] = generic.arguments, generic.outputs, generic.wanted
    if argument is not value or not isinstance(kept.get(generic.results[0]), Buffer):
        return None
    if without_ones(shapes[read.tensor]) != without_ones(shapes[result]):
        return None
    loops = [loop for loop, d in zip(read.axes, shapes[read.tensor], strict=True) if d is not ONE]
    places = [loop for loop, d in zip(write.axes, shapes[generic.results[0]], strict=True) if d is not ONE]
    # every element goes to one place, and none is left out
    if None in loops or len(set(loops)) < len(loops) or sorted(map(str, loops)) != sorted(map(str, places)):
        return None
    if loops and (loops[-1] != places[-1] or shapes[result][-1] is ONE):
        return None
    large = iter(loops)
    of_loop = {loop: axis for axis, loop in enumerate(write.axes) if loop in loops}
    return Ordered(generic.results[0], [None if d is ONE else of_loop[next(large)] for d in shapes[result]])


def operands_in_place(root: SSAValue, readers: Sequence[Step], shapes: Shapes) -> list[SSAValue] | None:
    """The operands that are a tensor or views of it; None where something reads them otherwise."""
    operands: list[SSAValue] = []
    for step in readers:
        if not isinstance(step, kernel.TemplateOp):
            return None
        places = IN_PLACE.get(step.template.data, range(0))
        there = [step.inputs[k] for k in places if shapes.root(step.inputs[k]) is root]
        if len(there) != sum(shapes.root(t) is root for t in read_by(step)):
            return None
        operands += there
    return operands


def moved(
    generic: Generic, number: int, operand: SSAValue, kept: Mapping[SSAValue, object], shapes: Shapes
) -> Moved | None:
    """How an operand that is a generic's output lies in what the generic reads, contiguous along its last axis."""
    write, root, value = generic.outputs[number], generic.results[number], generic.wanted[number]
    if not generic.is_map or any(isinstance(op, kernel.CheckOp) for op in generic.walk()):
        return None
    if without_ones(shapes[operand]) != without_ones(shapes[root]):
        return None
    large = iter([loop for loop, d in zip(write.axes, shapes[root], strict=True) if d is not ONE])
    loops = [None if d is ONE else next(large) for d in shapes[operand]]
    if isinstance(value.owner, tensor.ExtractOp):
        source, given = value.owner.tensor, [linear(i) for i in value.owner.indices]
    else:
        access = next((access for argument, access in generic.arguments if argument is value), None)
        if access is None or access in generic.outputs:
            return None
        source = access.tensor
        given = [Linear(as_dim(0)) if k is None else Linear(as_dim(0), {k: ONE}) for k in access.axes]
    indices = [i for i in given if i is not None]
    if len(indices) < len(given) or not isinstance(kept.get(shapes.root(source)), Buffer):
        return None
    last = loops[-1] if loops else None
    if last is not None:
        steps = [i.terms.get(last) for i in indices]
        if steps[-1] is not ONE or any(step is not None for step in steps[:-1]):
            return None
    return Moved(source, indices, loops)


def linear(index: SSAValue) -> Linear | None:
    """An index of a generic's body as sums and multiples of its loops."""
    op = index.owner
    if isinstance(op, IndexOp):
        return Linear(as_dim(0), {op.dim.value.data: ONE})
    if isinstance(op, kernel.DimOp):
        return Linear(op.expr.data[0])
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return Linear(as_dim(op.value.value.data))
    if not isinstance(op, arith.AddiOp | arith.MuliOp):
        return None
    a, b = linear(op.lhs), linear(op.rhs)
    if a is None or b is None:
        return None
    if isinstance(op, arith.AddiOp):
        return a.plus(b)
    if a.terms and b.terms:
        return None
    return a.times(b.constant) if a.terms else b.times(a.constant)
