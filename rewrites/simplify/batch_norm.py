"""Normalization by constants, folded into the weights in front of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims import tensor_type
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of, make_constant
from ..driver import Pattern, PatternRewriter


@dataclass(frozen=True)
class FoldBatchNormIntoConv(Pattern):
    """BatchNormalization(Conv(x, w, b))  ->  Conv(x, w * s, (b - mean) * s + bias),  s = scale / sqrt(var + eps)

    The folding is done in float64 and rounded once.  Declines when the convolution has another user, when a statistic
    is not constant, and in training mode.
    """

    weights: WeightStore

    root = onnx.BatchNormalizationOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        conv = op.operands[0].owner
        if not isinstance(conv, onnx.ConvOp) or conv.results[0].uses.get_length() != 1:
            return
        if onnx.attr(op, "training_mode") or any(r.uses.get_length() for r in op.results[1:]):
            return
        statistics = [constant_value(v, self.weights) for v in op.operands[1:5]]
        kernel = constant_value(conv.operands[1], self.weights)
        bias_operand = conv.operand_at(2)
        bias = constant_value(bias_operand, self.weights) if bias_operand is not None else None
        if kernel is None or any(s is None for s in statistics) or (bias_operand is not None and bias is None):
            return
        scale, shift, mean, var = (np.asarray(s, np.float64) for s in statistics)
        factor = scale / np.sqrt(var + onnx.attr(op, "epsilon"))
        folded = kernel.astype(np.float64) * factor.reshape(-1, *[1] * (kernel.ndim - 1))
        offset = ((0.0 if bias is None else bias.astype(np.float64)) - mean) * factor + shift
        result = op.results[0].type
        assert isinstance(result, TensorType)
        element = result.element_type
        new_kernel = make_constant(folded.astype(kernel.dtype), conv.operands[1].type, self.weights)
        new_bias = make_constant(offset.astype(kernel.dtype), tensor_type(element, offset.shape), self.weights)
        rewriter.insert(new_kernel)
        rewriter.insert(new_bias)
        fused = onnx.ConvOp.make(
            [conv.operands[0], new_kernel.results[0], new_bias.results[0]], attributes_of(conv), [result]
        )
        rewriter.replace(op, [rewriter.insert(fused).results[0], *[None] * (len(op.results) - 1)])
        rewriter.erase(conv)
