"""Recurrences: an initial state of zeros is what the operator has without one."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import Rule, producer, scalar_of

MOVED: tuple[type[onnx.OnnxOp], ...] = (
    onnx.ExpandOp, onnx.ReshapeOp, onnx.SliceOp, onnx.SqueezeOp, onnx.UnsqueezeOp, onnx.TransposeOp, onnx.TileOp,
    onnx.CastOp, onnx.GatherOp, onnx.SplitOp,
)  # fmt: skip


def is_zeros(value: SSAValue) -> bool:
    """Whether every element of a tensor is 0: a constant, a fill, or elements moved from one."""
    if scalar_of(value) == 0:
        return True
    filled = producer(value, onnx.ConstantOfShapeOp)
    if filled is not None:
        fill = onnx.attr(filled, "value")
        return fill is None or not fill.any()
    moved = producer(value, *MOVED)
    if moved is not None:
        return is_zeros(moved.operands[0])
    joined = producer(value, onnx.ConcatOp)
    return joined is not None and all(is_zeros(o) for o in joined.operands)


class DropZeroState(Rule):
    """LSTM(x, w, r, b, lens, zeros, zeros)  ->  LSTM(x, w, r, b, lens), and so for GRU, RNN and a bias of zeros"""

    root = (onnx.LSTMOp, onnx.GRUOp, onnx.RNNOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        recurrence = cast(onnx.OnnxOp, op)
        operands = recurrence.formal_operands()
        kept = [v if v is None or at not in (3, 5, 6) or not is_zeros(v) else None for at, v in enumerate(operands)]
        if kept == operands:
            return
        types = [None if r is None else r.type for r in recurrence.formal_results()]
        rewriter.replace(op, type(recurrence).make(kept, attributes_of(recurrence), types))
