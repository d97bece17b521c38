"""Transposed convolutions whose windows do not overlap are products with each element's channels, spread out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims import as_dim, dims_of, tensor_type
from ...semantics.facts import Facts
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..driver import PatternRewriter
from .rule import Rule, constant, element_of
from .views import viewed

LEAST_CHANNELS = 16
"""Of a group: with fewer, memory counts more than products."""


@dataclass(frozen=True)
class SpreadConvolution(Rule):
    """ConvTranspose(x, w, b) with strides as long as the kernel  ->  Transpose(Conv(x, w')) with kernels of 1, in views

    Each element of x gives one block of the result, so that each tap is an output channel of its own: the same sums of
    the same products, without gaps between what is stored.  Declines where windows overlap or lie apart, with pads, for
    few channels, and where weights are not constant.
    """

    weights: WeightStore
    facts: Facts

    root = onnx.ConvTransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        x, y = op.operands[0], op.results[0]
        kernel = constant_value(op.operands[1], self.weights)
        bias = constant_value(op.operands[2], self.weights) if len(op.operands) > 2 else None
        if kernel is None or (bias is None and len(op.operands) > 2) or not spreads(op, kernel.shape[2:]):
            return
        taps, sizes, groups = kernel.shape[2:], dims_of(x)[2:], onnx.attr(op, "group")
        depth, rows = kernel.shape[0] // groups, kernel.shape[1] * groups
        if depth < LEAST_CHANNELS or list(dims_of(y)[2:]) != [d * k for d, k in zip(sizes, taps, strict=True)]:
            return
        # [group, channel, row, tap] to [group, row, tap, channel]
        turned = np.moveaxis(kernel.reshape(groups, depth, rows // groups, -1), 1, -1)
        ones = [1] * len(taps)
        operands = [x, constant(np.ascontiguousarray(turned).reshape(-1, depth, *ones), rewriter, self.weights)]
        if bias is not None:
            operands.append(constant(np.repeat(bias, prod(taps)), rewriter, self.weights))
        element, images = element_of(y), dims_of(x)[0]
        narrow = tensor_type(element, [images, as_dim(rows * prod(taps)), *sizes])
        conv = onnx.ConvOp.make(operands, {"kernel_shape": ones, "group": groups}, [narrow])
        blocks = [images, as_dim(rows), *map(as_dim, taps), *sizes]
        rank = len(taps)
        perm = [0, 1, *(2 + i + part * rank for i in range(rank) for part in (1, 0))]
        spread = [blocks[axis] for axis in perm]
        value = rewriter.insert(conv).results[0]
        apart = viewed(value, tensor_type(element, blocks), self.facts, rewriter, computed=True)
        assert apart is not None
        value = rewriter.insert(apart).results[0]
        turn = onnx.TransposeOp.make([value], {"perm": perm}, [tensor_type(element, spread)])
        joined = viewed(rewriter.insert(turn).results[0], y.type, self.facts, rewriter, computed=True)
        assert joined is not None
        rewriter.replace(op, joined)


def spreads(op: Operation, taps: tuple[int, ...]) -> bool:
    """Whether strides are the kernel's sizes, and no element falls off or is put beside the blocks."""
    if prod(taps) == 1 or list(onnx.attr(op, "strides") or []) != list(taps):
        return False
    if any(d != 1 for d in onnx.attr(op, "dilations") or []) or onnx.attr(op, "output_shape"):
        return False
    if any(onnx.attr(op, "pads") or []) or any(onnx.attr(op, "output_padding") or []):
        return False
    return onnx.attr(op, "auto_pad") in (None, "NOTSET", "VALID")
