"""Sequences whose items are known one by one: the tensors themselves take their place."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim, dims_of, tensor_type
from ...semantics.known import constant_value
from ..driver import Pattern, PatternRewriter
from .rule import axes_constant, element_of


def position(op: onnx.SequenceAtOp, count: int) -> int | None:
    """Which of so many items is taken; None where it is not known or not there."""
    at = constant_value(op.operands[1])
    if at is None or at.size != 1:
        return None
    number = int(at.reshape(-1)[0])
    number = number + count if number < 0 else number
    return number if 0 <= number < count else None


class SplitWithoutSequence(Pattern):
    """SequenceAt(SplitToSequence(x, sizes), 1)  ->  Split(x, sizes)[1]

    Declines where the axis, the sizes or a position is no number, and where something else reads the sequence.
    """

    root = onnx.SplitToSequenceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        split = cast(onnx.SplitToSequenceOp, op)
        x = split.operands[0]
        if not isinstance(x.type, TensorType):
            return
        shape = list(dims_of(x))
        axis = onnx.attr(split, "axis") % max(len(shape), 1)
        sizes = part_sizes(split, shape[axis]) if shape else None
        takers = [use.operation for use in split.results[0].uses]
        if not sizes or not takers or not all(isinstance(t, onnx.SequenceAtOp) for t in takers):
            return
        places = [position(cast(onnx.SequenceAtOp, taker), len(sizes)) for taker in takers]
        if None in places:
            return
        element = element_of(x)
        types: list[Attribute] = [tensor_type(element, [*shape[:axis], s, *shape[axis + 1 :]]) for s in sizes]
        made = rewriter.insert(onnx.SplitOp.make([x, axes_constant(sizes, rewriter)], {"axis": axis}, types))
        squeezed = split.operand_at(1) is None and not onnx.attr(split, "keepdims")
        for taker, place in zip(takers, places, strict=True):
            assert place is not None
            part: SSAValue = made.results[place]
            if squeezed:
                type_ = tensor_type(element, [*shape[:axis], *shape[axis + 1 :]])
                part = rewriter.insert(
                    onnx.SqueezeOp.make([part, axes_constant([axis], rewriter)], {}, [type_])
                ).results[0]
            rewriter.replace(taker, [part])
        rewriter.erase(split)


class GatherWithoutSequence(Pattern):
    """SequenceAt(SplitToSequence(x), p)  ->  Gather(x, p), with or without the axis

    Of slices one by one any may be taken, also where their number is known at run time only.  Declines where parts are
    longer, a position is no scalar, and where something else reads the sequence.
    """

    root = onnx.SplitToSequenceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        split = cast(onnx.SplitToSequenceOp, op)
        x, given = split.operands[0], split.operand_at(1)
        if not isinstance(x.type, TensorType) or not dims_of(x):
            return
        part = None if given is None else constant_value(given)
        if given is not None and (part is None or part.ndim or int(part) != 1):
            return
        takers = [use.operation for use in split.results[0].uses]
        if not takers or not all(isinstance(t, onnx.SequenceAtOp) and is_scalar(t.operands[1]) for t in takers):
            return
        shape = list(dims_of(x))
        axis = onnx.attr(split, "axis") % len(shape)
        rest = [*shape[:axis], *shape[axis + 1 :]]
        for taker in takers:
            made = onnx.GatherOp.make([x, taker.operands[1]], {"axis": axis}, [tensor_type(element_of(x), rest)])
            item = rewriter.insert(made, before=taker).results[0]  # where its position is there
            if given is not None or onnx.attr(split, "keepdims"):
                item = with_axis(item, axis, rewriter, before=taker)
            rewriter.replace(taker, [item])
        rewriter.erase(split)


def is_scalar(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and not value.type.get_shape()


MOST_PARTS = 64


def part_sizes(split: onnx.SplitToSequenceOp, size: Dim) -> list[int] | None:
    """The sizes of the parts of an axis of known size; None where they are not known."""
    if not size.is_const:
        return None
    given = split.operand_at(1)
    if given is None:
        return [1] * size.value if 0 < size.value <= MOST_PARTS else None
    array = constant_value(given)
    if array is None:
        return None
    if array.ndim:
        sizes = [int(s) for s in array]
        return sizes if sum(sizes) == size.value and min(sizes, default=0) >= 0 else None
    part = int(array)
    if part < 1 or size.value > part * MOST_PARTS or not size.value:
        return None
    whole, rest = divmod(size.value, part)
    return [part] * whole + ([rest] if rest else [])


class TakeItem(Pattern):
    """SequenceAt(SequenceConstruct(x, y), 1)  ->  y"""

    root = onnx.SequenceAtOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        made = op.operands[0].owner
        if not isinstance(made, onnx.SequenceConstructOp):
            return
        at = position(cast(onnx.SequenceAtOp, op), len(made.operands))
        if at is not None and made.operands[at].type == op.results[0].type:
            rewriter.replace(op, [made.operands[at]])


class ConcatWithoutSequence(Pattern):
    """ConcatFromSequence(SequenceConstruct(x, y))  ->  Concat(x, y), of unsqueezed items where it makes a new axis"""

    root = onnx.ConcatFromSequenceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        made = op.operands[0].owner
        if not isinstance(made, onnx.SequenceConstructOp) or not isinstance(op.results[0].type, TensorType):
            return
        if not all(isinstance(item.type, TensorType) for item in made.operands):
            return
        axis = onnx.attr(op, "axis") % max(len(dims_of(op.results[0])), 1)
        items: list[SSAValue] = list(made.operands)
        if onnx.attr(op, "new_axis"):
            items = [with_axis(item, axis, rewriter) for item in items]
        rewriter.replace(op, onnx.ConcatOp.make(items, {"axis": axis}, [op.results[0].type]))


def with_axis(value: SSAValue, axis: int, rewriter: PatternRewriter, before: Operation | None = None) -> SSAValue:
    shape = list(dims_of(value))
    type_ = tensor_type(element_of(value), [*shape[:axis], as_dim(1), *shape[axis:]])
    made = onnx.UnsqueezeOp.make([value, axes_constant([axis], rewriter)], {}, [type_])
    return rewriter.insert(made, before).results[0]
