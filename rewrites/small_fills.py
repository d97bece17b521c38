"""ConstantOfShape of a small element type: its value is a weight, which no kernel has as a literal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from ..dialects import onnx
from ..semantics.weights import WeightStore
from .axes_from_data import Build
from .driver import Firing, Pattern, PatternRewriter, apply_patterns


def rewrite_small_fills(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    return apply_patterns(module, [WidenFill(weights)])


@dataclass(frozen=True)
class WidenFill(Pattern):
    """ConstantOfShape(sizes) {value}  ->  Cast(ConstantOfShape(sizes) {value as f32}), which has all small numbers"""

    weights: WeightStore
    root = onnx.ConstantOfShapeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.ConstantOfShapeOp)
        if not isinstance(op.value, onnx.WeightAttr):
            return
        result = op.results[0].type
        assert isinstance(result, TensorType)
        fill = np.asarray(self.weights.get(op.value))
        if fill.dtype.itemsize > 1:  # a weight only because the file has it elsewhere
            attributes = {"value": fill}
            rewriter.replace(op, onnx.ConstantOfShapeOp.make([op.operands[0]], attributes, [result]))
            return
        fill = fill.astype(np.float32)
        wide = Build(rewriter).op(onnx.ConstantOfShapeOp, op.operands[0], attributes={"value": fill})
        code = onnx.ELEMENT_CODES[result.element_type]
        rewriter.replace(op, onnx.CastOp.make([wide], {"to": code}, [result]))
