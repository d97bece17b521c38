"""Reductions of reductions, and the axes of size 1 that they keep."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.kinds import reduced_axes
from ...semantics.known import known_dims
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import Rule, axes_constant, only_producer


class MergeReductions(Rule):
    """ReduceMax(ReduceMax(x, a), b)  ->  ReduceMax(x, a and b), and so for ReduceMin

    Declines when something else reads the inner one, and where the axes are not known.
    """

    root = (onnx.ReduceMaxOp, onnx.ReduceMinOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = only_producer(op.operands[0], type(op))
        if inner is None or not isinstance(inner, onnx.OnnxOp):
            return
        first, second = reduced_axes(inner), reduced_axes(op)
        if not first or not second or bool(onnx.attr(inner, "keepdims")) != bool(onnx.attr(op, "keepdims")):
            return
        if not onnx.attr(inner, "keepdims"):
            left = [a for a in range(len(dims_of(inner.operands[0]))) if a not in first]
            second = tuple(left[a] for a in second)
        axes = axes_constant(sorted({*first, *second}), rewriter)
        attributes = {"keepdims": onnx.attr(op, "keepdims")}
        rewriter.replace(op, type(op).make([inner.operands[0], axes], attributes, [op.results[0].type]))  # pyright: ignore


class FoldSqueezeIntoReduction(Rule):
    """Unsqueeze(ReduceMax(x, a) {keepdims = 0}, a)  ->  ReduceMax(x, a) {keepdims = 1}, and Squeeze the other way round

    Any reduction whose axes are known, and whose own axes are those that come or go.  Declines when something else
    reads the reduced value.
    """

    root = (onnx.UnsqueezeOp, onnx.SqueezeOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = only_producer(op.operands[0], *REDUCTIONS)
        adds = isinstance(op, onnx.UnsqueezeOp)
        if inner is None or bool(onnx.attr(inner, "keepdims")) == adds:
            return
        axes = reduced_axes(inner)
        given = known_dims(op.operands[1]) if len(op.operands) > 1 else None
        if not axes or given is None or not all(g.is_const for g in given):
            return
        rank = len(dims_of(inner.operands[0]))
        if sorted(g.value % rank for g in given) != list(axes):
            return
        attributes = {**attributes_of(inner), "keepdims": onnx.int_attr(int(adds))}
        operands = inner.formal_operands()
        rewriter.replace(op, type(inner).make(operands, attributes, [op.results[0].type]))
        rewriter.erase(inner)


REDUCTIONS: tuple[type[onnx.OnnxOp], ...] = (
    onnx.ReduceSumOp, onnx.ReduceMeanOp, onnx.ReduceMaxOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceL1Op,
    onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceSumSquareOp, onnx.ArgMaxOp, onnx.ArgMinOp,
)  # fmt: skip
