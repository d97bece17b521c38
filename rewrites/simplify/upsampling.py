"""Transposed convolutions whose windows do not overlap are products with each element's channels, spread out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim, dims_of, tensor_type
from ...semantics.facts import Facts
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..driver import PatternRewriter
from .rule import FLOATS, Rule, constant, element_of
from .views import viewed
from .weights import affine_of

LEAST_CHANNELS = 16
"""Of a group: with fewer, memory counts more than products."""


@dataclass(frozen=True)
class SpreadConvolution(Rule):
    """ConvTranspose(x, w, b) with strides as long as the kernel  ->  Transpose(Add(MatMul(w', x), b')), in views

    Each element of x gives one block of the result, so that each tap is a row of the product: the same sums of the
    same products, without gaps between what is stored. Declines where windows overlap or lie apart, with pads, for few
    channels, for halves, whose bias would be rounded apart, before arithmetic that can go into the weights, and where
    these are not constant.
    """

    weights: WeightStore

    root = onnx.ConvTransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        x, y = op.operands[0], op.results[0]
        element = element_of(y)
        kernel = constant_value(op.operands[1], self.weights)
        bias = constant_value(op.operands[2], self.weights) if len(op.operands) > 2 else None
        if kernel is None or (bias is None and len(op.operands) > 2) or element not in FLOATS[2:]:
            return
        taps, (images, _, *sizes), groups = kernel.shape[2:], dims_of(x), onnx.attr(op, "group")
        depth, rows = kernel.shape[0] // groups, kernel.shape[1] * groups
        if depth < LEAST_CHANNELS or not spreads(op, taps):
            return
        if y.has_one_use() and affine_of(next(iter(y.uses)).operation, 1, self.weights) is not None:
            return  # that goes into the weights first
        if list(dims_of(y)[2:]) != [d * k for d, k in zip(sizes, taps, strict=True)]:
            return
        points = as_dim(1)
        for size in sizes:
            points = points * size

        def view(value: SSAValue, shape: Sequence[Dim]) -> SSAValue:
            made = viewed(value, tensor_type(element, shape), Facts(), rewriter, computed=True)
            assert made is not None
            return rewriter.insert(made).results[0]

        # [group, channel, row, tap] to [group, row and tap, channel]
        turned = np.moveaxis(kernel.reshape(groups, depth, rows // groups, -1), 1, -1).reshape(groups, -1, depth)
        narrow = [images, as_dim(groups), as_dim(turned.shape[1]), points]
        factors = [constant(turned, rewriter, self.weights), view(x, [images, as_dim(groups), as_dim(depth), points])]
        value = rewriter.insert(onnx.MatMulOp.make(factors, {}, [tensor_type(element, narrow)])).results[0]
        if bias is not None:
            added = constant(np.repeat(bias, prod(taps)).reshape(groups, -1, 1), rewriter, self.weights)
            value = rewriter.insert(onnx.AddOp.make([value, added], {}, [value.type])).results[0]
        blocks = [images, as_dim(rows), *map(as_dim, taps), *sizes]
        rank = len(taps)
        perm = [0, 1, *(2 + i + part * rank for i in range(rank) for part in (1, 0))]
        spread = tensor_type(element, [blocks[axis] for axis in perm])
        turn = onnx.TransposeOp.make([view(value, blocks)], {"perm": perm}, [spread])
        rewriter.replace(op, [view(rewriter.insert(turn).results[0], dims_of(y))])


def spreads(op: Operation, taps: tuple[int, ...]) -> bool:
    """Whether strides are the kernel's sizes, and no element falls off or is put beside the blocks."""
    if prod(taps) == 1 or list(onnx.attr(op, "strides") or []) != list(taps):
        return False
    if any(d != 1 for d in onnx.attr(op, "dilations") or []) or onnx.attr(op, "output_shape"):
        return False
    if any(onnx.attr(op, "pads") or []) or any(onnx.attr(op, "output_padding") or []):
        return False
    return onnx.attr(op, "auto_pad") in (None, "NOTSET", "VALID")
