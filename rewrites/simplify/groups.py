"""Group normalization recognized from the instance normalization of groups that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.kinds import is_view
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import FLOATS, Rule, constant, element_of, only_producer, producer
from .views import VIEW_OPS
from .weights import affine_of

SINCE = 21
"""The opset whose GroupNormalization has a scale for each channel; before, it had one for each group."""


@dataclass(frozen=True)
class RecognizeGroupNormalization(Rule):
    """Reshape(InstanceNormalization(Reshape(x, [N, groups, -1]), s, b), x's shape)  ->  GroupNormalization(x, s', b')

    s' and b' hold for each channel what s and b hold for its group.  Declines where groups or channels are no numbers,
    where s and b are no constants, and when something else reads what is normalized.
    """

    weights: WeightStore

    root = VIEW_OPS

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        norm = only_producer(op.operands[0], onnx.InstanceNormalizationOp)
        apart = producer(norm.operands[0], *VIEW_OPS) if norm is not None else None
        if norm is None or apart is None or not is_view(op) or not is_view(apart):
            return
        source = apart.operands[0]
        x, grouped = dims_of(source), dims_of(norm.operands[0])
        if tuple(dims_of(op.results[0])) != tuple(x) or len(x) < 3 or x[0] is not grouped[0]:
            return
        scale, bias = (constant_value(o, self.weights) for o in norm.operands[1:3])
        if scale is None or bias is None or not x[1].is_const or not grouped[1].is_const:
            return
        channels, groups = x[1].value, grouped[1].value
        if not groups or channels % groups or not rewriter.may_make(onnx.GroupNormalizationOp, since=SINCE):
            return
        each = [constant(np.repeat(a, channels // groups), rewriter, self.weights) for a in (scale, bias)]
        attributes = {"num_groups": groups, "epsilon": onnx.attr(norm, "epsilon")}
        rewriter.replace(op, onnx.GroupNormalizationOp.make([source, *each], attributes, [op.results[0].type]))


@dataclass(frozen=True)
class FoldIntoGroupNormalization(Rule):
    """GroupNormalization(x, s, b) * f + o  ->  GroupNormalization(x, s * f, b * f + o), of constants for each channel

    Declines when something else reads the normalized value, and in types that are rounded in between.
    """

    weights: WeightStore

    root = (onnx.MulOp, onnx.AddOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if len(dims_of(op.results[0])) < 3 or element_of(op.results[0]) not in FLOATS[2:]:
            return
        affine = affine_of(op, 1, self.weights)
        norm = only_producer(affine.source, onnx.GroupNormalizationOp) if affine is not None else None
        if affine is None or norm is None or norm.results[0].type != op.results[0].type:
            return
        scale, bias = (constant_value(o, self.weights) for o in norm.operands[1:3])
        if scale is None or bias is None:
            return
        dtype = scale.dtype
        new = [scale.astype(np.float64) * affine.factor, bias.astype(np.float64) * affine.factor + affine.offset]
        if not all(np.all(np.isfinite(a.astype(dtype))) for a in new):
            return
        each = [constant(a.astype(dtype), rewriter, self.weights) for a in new]
        attributes = attributes_of(cast(onnx.OnnxOp, norm))
        made = onnx.GroupNormalizationOp.make([norm.operands[0], *each], attributes, [op.results[0].type])
        rewriter.replace(op, made)
        rewriter.erase(norm)
