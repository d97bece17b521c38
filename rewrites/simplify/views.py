"""Operators that keep every element where it is in memory and only name the sizes anew: views.

A chain of them is one.  In the IR that is a Reshape to `dims.tensor`; for a model file it is whichever of Squeeze,
Unsqueeze and Reshape by a constant can say it, for a shape that is computed costs nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, dims_of
from ...semantics.facts import Facts
from ...semantics.kinds import is_view
from ...semantics.known import known_dims
from ..driver import PatternRewriter
from .rule import Rule, axes_constant, producer

VIEW_OPS: tuple[type[onnx.OnnxOp], ...] = (
    onnx.ReshapeOp,
    onnx.SqueezeOp,
    onnx.UnsqueezeOp,
    onnx.FlattenOp,
    onnx.TransposeOp,
)


@dataclass(frozen=True)
class MergeViews(Rule):
    """Reshape(Reshape(x))  ->  Reshape(x), or x where that is its type

    Squeeze, Unsqueeze, Flatten and a Transpose that only moves axes of size 1 count as reshapes.  In a model for a file
    (`for_file`) it declines where the new shape would have to be computed.
    """

    facts: Facts
    for_file: bool

    root = VIEW_OPS

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = producer(op.operands[0], *VIEW_OPS)
        if inner is None or not is_view(inner) or not is_view(op):
            return
        source, target = inner.operands[0], op.results[0].type
        if source.type == target:
            rewriter.replace(op, [source])
            return
        merged = viewed(source, target, self.facts, rewriter, computed=not self.for_file)
        if merged is None and isinstance(op, onnx.ReshapeOp) and says_all_sizes(op):
            merged = onnx.ReshapeOp.make([source, op.operands[1]], {}, [target])
        if merged is not None:
            rewriter.replace(op, merged)


def says_all_sizes(reshape: onnx.ReshapeOp) -> bool:
    """Whether no entry of the shape is a 0 that copies a size of the operand."""
    entries = known_dims(reshape.operands[1])
    return entries is not None and not any(e.is_const and e.value == 0 for e in entries)


@dataclass(frozen=True)
class SpellTransposeOfOnes(Rule):
    """Transpose(x) that only moves axes of size 1  ->  Reshape(x), Squeeze(x) or Unsqueeze(x)"""

    facts: Facts

    root = onnx.TransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_view(op) or op.operands[0].type == op.results[0].type:
            return
        view = viewed(op.operands[0], op.results[0].type, self.facts, rewriter, computed=False)
        if view is not None:
            rewriter.replace(op, view)


@dataclass(frozen=True)
class SpellReshape(Rule):
    """Reshape(x, a shape that is computed)  ->  Reshape(x, [0, -1, 64])

    0 copies a size, -1 is what is left; the latter only where no other entry can be 0.
    """

    facts: Facts

    root = onnx.ReshapeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op.operands[1].owner, dims.TensorOp):
            return
        view = viewed(op.operands[0], op.results[0].type, self.facts, rewriter, computed=False)
        if view is not None:
            rewriter.replace(op, view)


def viewed(
    source: SSAValue, target: Attribute, facts: Facts, rewriter: PatternRewriter, *, computed: bool
) -> onnx.OnnxOp | None:
    """The op that reads the elements of `source` as a tensor of type `target`, not yet inserted; its constants are.

    None where that needs a shape that is computed, and `computed` is False.
    """
    before, after = dims_of(source), dims_of(target)
    removed = extra_ones(before, after)
    if removed:
        return onnx.SqueezeOp.make([source, axes_constant(removed, rewriter)], {}, [target])
    added = extra_ones(after, before)
    if added:
        return onnx.UnsqueezeOp.make([source, axes_constant(added, rewriter)], {}, [target])
    entries = constant_entries(before, after, facts)
    if entries is not None:
        return onnx.ReshapeOp.make([source, axes_constant(entries, rewriter)], {}, [target])
    if not computed:
        return None
    shape = dims.TensorOp(list(after), dims.tensor_type(i64, [len(after)]))
    return onnx.ReshapeOp.make([source, rewriter.insert(shape).results[0]], {"allowzero": 1}, [target])


def extra_ones(longer: Sequence[Dim], shorter: Sequence[Dim]) -> list[int] | None:
    """The axes of size 1 that `longer` has beyond `shorter`; None where they differ in more than that."""
    axes: list[int] = []
    at = 0
    for axis, size in enumerate(longer):
        if at < len(shorter) and size is shorter[at]:
            at += 1
        elif size.is_const and size.value == 1:
            axes.append(axis)
        else:
            return None
    return axes if at == len(shorter) else None


def constant_entries(before: Sequence[Dim], after: Sequence[Dim], facts: Facts) -> list[int] | None:
    """The shape operand of Reshape as numbers; None where there is none that holds for all sizes."""
    entries: list[int] = []
    unknown: list[int] = []
    zero = False  # whether an entry may be 0, beside which -1 has no meaning
    for axis, size in enumerate(after):
        copied = axis < len(before) and before[axis] is size
        if size.is_const and size.value > 0:
            entries.append(size.value)
        elif copied:
            entries.append(0)
            zero = zero or not is_positive(size, facts)
        elif size.is_const:
            return None  # a 0 would copy
        else:
            unknown.append(axis)
            entries.append(-1)
    return entries if not unknown or (len(unknown) == 1 and not zero) else None


def is_positive(size: Dim, facts: Facts) -> bool:
    return facts.prove_le(1, size).answer is True


@dataclass(frozen=True)
class SpellExpand(Rule):
    """Expand(x, a shape that is computed)  ->  Expand(x, constants), with 1 where x has the size already"""

    root = onnx.ExpandOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op.operands[1].owner, dims.TensorOp):
            return
        source, result = dims_of(op.operands[0]), dims_of(op.results[0])
        missing = len(result) - len(source)
        entries: list[int] = []
        for axis, size in enumerate(result):
            if axis >= missing and source[axis - missing] is size:
                entries.append(1)
            elif size.is_const:
                entries.append(size.value)
            else:
                return
        shape = axes_constant(entries, rewriter)
        rewriter.replace(op, onnx.ExpandOp.make([op.operands[0], shape], {}, [op.results[0].type]))


END = (1 << 63) - 1


@dataclass(frozen=True)
class SpellSlice(Rule):
    """Slice(x, starts, ends that are computed)  ->  Slice(x, constants), -k for k before an axis' end"""

    facts: Facts

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        cut = cast(onnx.SliceOp, op)
        if not any(isinstance(v.owner, dims.TensorOp) for v in op.operands[1:3]):
            return
        starts, ends = known_dims(op.operands[1]), known_dims(op.operands[2])
        steps = known_dims(s) if (s := cut.operand_at(4)) is not None else ()
        axes = known_dims(a) if (a := cut.operand_at(3)) is not None else None
        if starts is None or ends is None or steps is None or any(not s.is_const or s.value != 1 for s in steps):
            return
        if a is not None and (axes is None or not all(x.is_const for x in axes)):
            return
        shape = dims_of(op.operands[0])
        cuts = [x.value % len(shape) for x in axes] if axes is not None else list(range(len(starts)))
        first = [self.spelled(d, shape[axis], end=False) for d, axis in zip(starts, cuts)]
        last = [self.spelled(d, shape[axis], end=True) for d, axis in zip(ends, cuts)]
        if None in first or None in last:
            return
        operands = [op.operands[0], *(axes_constant(cast("list[int]", v), rewriter) for v in (first, last))]
        rest = [cut.operand_at(3), cut.operand_at(4)]
        rewriter.replace(op, onnx.SliceOp.make([*operands, *rest], {}, [op.results[0].type]))

    def spelled(self, place: Dim, size: Dim, *, end: bool) -> int | None:
        """A constant that means the same place along an axis of that size; None where there is none."""
        if place.is_const:
            return place.value
        if end and self.facts.prove_le(size, place).answer is True:
            return END
        before = size - place
        if before.is_const and before.value > 0 and self.facts.prove_le(0, place).answer is True:
            return -before.value
        return None
