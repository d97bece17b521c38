"""Operators that do nothing, by their types and attributes, and pairs that are one."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.known import known_dims
from ..driver import Pattern, PatternRewriter


class DropIdentity(Pattern):
    """Identity(x)  ->  x"""

    root = onnx.IdentityOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, [op.operands[0]])


class DropSameType(Pattern):
    """Reshape, Expand, Cast, Squeeze, Unsqueeze, Flatten of x to x's own type  ->  x

    The result has as many elements in the same order, so equal types mean the same value.
    """

    root = (onnx.ReshapeOp, onnx.ExpandOp, onnx.CastOp, onnx.CastLikeOp, onnx.SqueezeOp, onnx.UnsqueezeOp,
            onnx.FlattenOp)  # fmt: skip

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if op.results[0].type == op.operands[0].type:
            rewriter.replace(op, [op.operands[0]])


class DropWholeSlice(Pattern):
    """Slice(x) of x's own type with positive steps  ->  x

    With step 1 a slice as long as its axis starts at 0; a longer step cannot give the same length unless it is below 2.
    """

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        slice_ = cast(onnx.SliceOp, op)
        if op.results[0].type != op.operands[0].type:
            return
        steps = slice_.operand_at(4)
        if steps is not None:
            known = known_dims(steps)
            if known is None or not all(s.is_const and s.value == 1 for s in known):
                return
        rewriter.replace(op, [op.operands[0]])


class DropZeroPad(Pattern):
    """Pad(x) by nothing  ->  x"""

    root = onnx.PadOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        pads = known_dims(op.operands[1])
        if pads is not None and all(p.is_const and p.value == 0 for p in pads):
            rewriter.replace(op, [op.operands[0]])


class DropConcatOfOne(Pattern):
    """Concat(x)  ->  x, also where all other operands are empty along the axis"""

    root = onnx.ConcatOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        axis = onnx.attr(op, "axis")
        kept = [o for o in op.operands if not empty_along(o, axis)]
        if len(kept) == 1 and kept[0].type == op.results[0].type:
            rewriter.replace(op, [kept[0]])


def empty_along(value: SSAValue, axis: int) -> bool:
    """Whether a dim is known to be 0."""
    size = dims_of(value)[axis]
    return size.is_const and size.value == 0


class MergeTransposes(Pattern):
    """Transpose(Transpose(x, p), q)  ->  Transpose(x, p[q]), or x where that keeps the order"""

    root = onnx.TransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        perm = permutation(op)
        inner = op.operands[0].owner
        if perm == list(range(len(perm))):
            rewriter.replace(op, [op.operands[0]])
        elif isinstance(inner, onnx.TransposeOp):
            first = permutation(inner)
            both = [first[p] for p in perm]
            rewriter.replace(op, onnx.TransposeOp.make([inner.operands[0]], {"perm": both}, [op.results[0].type]))


def permutation(op: Operation) -> list[int]:
    """The perm attribute, or its default: all axes reversed."""
    perm = onnx.attr(op, "perm")
    return list(perm) if perm is not None else list(reversed(range(len(dims_of(op.operands[0])))))


class MergeReshapes(Pattern):
    """Reshape(Reshape(x, s), t)  ->  Reshape(x, t), where t has no 0 that copies a dim

    Squeeze, Unsqueeze and Flatten count as the inner reshape as well: none of them moves an element.
    """

    root = onnx.ReshapeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = op.operands[0].owner
        if not isinstance(inner, (onnx.ReshapeOp, onnx.SqueezeOp, onnx.UnsqueezeOp, onnx.FlattenOp)):
            return
        target = known_dims(op.operands[1])
        if target is None or any(t.is_const and t.value == 0 for t in target):
            return
        source = inner.operands[0]
        rewriter.replace(op, onnx.ReshapeOp.make([source, op.operands[1]], {}, [op.results[0].type]))


IDENTITIES: tuple[Pattern, ...] = (
    DropIdentity(),
    DropSameType(),
    DropWholeSlice(),
    DropZeroPad(),
    DropConcatOfOne(),
    MergeTransposes(),
    MergeReshapes(),
)
