"""QLinearMatMul that has 8-bit floats as a product of f32: there are no integers to sum up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import dims_of
from .axes_from_data import Build
from .driver import Firing, Pattern, PatternRewriter, apply_patterns

FLOAT = onnx.ELEMENT_CODES[f32]


def rewrite_float_products(module: ModuleOp) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    return apply_patterns(module, [WidenFloatProduct()])


@dataclass(frozen=True)
class WidenFloatProduct(Pattern):
    """QLinearMatMul(a, s, p, b, t, q, u, z)  ->  Cast(MatMul(a - p, b - q) * s * t / u + z), of 8-bit floats

    Where only an operand is of floats, the quotient is rounded, and the result saturates.  Scales and zero points of
    rows stand along the last axis but one, those of columns along the last.
    """

    root = onnx.QLinearMatMulOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = op.operands
        element = _element(y_zero)
        if all(isinstance(_element(v), IntegerType) for v in (a, b, y_zero)):
            return
        build = Build(rewriter)
        to_rows = [-1, 1] if len(dims_of(a)) > 1 else []

        def wide(value: SSAValue) -> SSAValue:
            return build.op(onnx.CastOp, value, attributes={"to": FLOAT})

        def of_rows(value: SSAValue) -> SSAValue:
            flat = len(dims_of(value)) < 2
            return build.reshape(wide(value), build.ints(to_rows)) if flat else wide(value)

        left = build.sub(wide(a), of_rows(a_zero))
        product = build.op(onnx.MatMulOp, left, build.sub(wide(b), wide(b_zero)))
        real = build.op(onnx.MulOp, build.op(onnx.MulOp, product, of_rows(a_scale)), wide(b_scale))
        quotient = build.op(onnx.DivOp, real, of_rows(y_scale))
        if isinstance(element, IntegerType):
            limits = np.iinfo(onnx.numpy_dtype(element))
            quotient = build.add(build.op(onnx.RoundOp, quotient), of_rows(y_zero))
            quotient = build.op(onnx.ClipOp, quotient, build.float32(limits.min), build.float32(limits.max))
        else:
            quotient = build.add(quotient, of_rows(y_zero))
        code = onnx.ELEMENT_CODES[element]
        rewriter.replace(op, onnx.CastOp.make([quotient], {"to": code}, [op.results[0].type]))


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.element_type
