"""Quantized values that are widened only to be moved, and zero points that are all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of, tensor_type
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of, make_constant
from ..driver import PatternRewriter
from .rule import Rule, element_of, only_producer, producer, scalar_of

MOVEMENT: tuple[type[onnx.OnnxOp], ...] = (
    onnx.ReshapeOp, onnx.SqueezeOp, onnx.UnsqueezeOp, onnx.FlattenOp, onnx.TransposeOp, onnx.SliceOp, onnx.GatherOp,
    onnx.ExpandOp, onnx.TileOp, onnx.DepthToSpaceOp, onnx.SpaceToDepthOp,
)  # fmt: skip

MAX_CHAIN = 8


class DropRequantize(Rule):
    """QuantizeLinear(Transpose(DequantizeLinear(q, s, z)), s, z)  ->  Transpose(q), any operators that move elements

    Exact for elements of at most 16 bits: (q - z) * s / s lies nearer to q - z than to any other integer.  Declines
    where scale or zero point differ or belong to an axis, and where something else reads what stands between.
    """

    root = onnx.QuantizeLinearOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        chain: list[onnx.OnnxOp] = []
        value = op.operands[0]
        while (moved := only_producer(value, *MOVEMENT)) is not None and len(chain) < MAX_CHAIN:
            chain.append(moved)
            value = moved.operands[0]
        widened = producer(value, onnx.DequantizeLinearOp)
        if widened is None or not same_parameters(cast(onnx.QuantizeLinearOp, op), widened):
            return
        source = widened.operands[0]
        element = element_of(source)
        if element != element_of(op.results[0]) or not isinstance(element, IntegerType) or element.width.data > 16:
            return
        for moved in reversed(chain):
            type_ = tensor_type(element, dims_of(moved.results[0]))
            made = type(moved).make([source, *moved.formal_operands()[1:]], attributes_of(moved), [type_])
            source = rewriter.insert(made).results[0]
        rewriter.replace(op, [source])


ZERO_POINTS: dict[type[Operation], tuple[int, ...]] = {
    onnx.ConvIntegerOp: (3,),
    onnx.MatMulIntegerOp: (2, 3),
    onnx.QLinearConvOp: (5,),
    onnx.QLinearMatMulOp: (2, 5),
}
"""The operands that are one zero point, or one for each row, column or channel."""


@dataclass(frozen=True)
class ShareZeroPoint(Rule):
    """QLinearConv(x, ..., zero points that are all the same, ...)  ->  QLinearConv(x, ..., one of them, ...)

    And of the other products of integers.  One number is known where a kernel is built, which a weight is not.
    """

    weights: WeightStore

    root = tuple(ZERO_POINTS)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        for place in ZERO_POINTS[type(op)]:
            zeros = op.operand_at(place)
            if zeros is None or len(dims_of(zeros)) != 1:
                continue
            number = scalar_of(zeros, self.weights)
            if number is None:
                continue
            type_ = tensor_type(element_of(zeros), ())
            array = np.array(number, np.uint8 if str(element_of(zeros)) == "ui8" else np.int8)
            one = rewriter.insert(make_constant(array, type_, self.weights)).results[0]
            operands = op.formal_operands()
            operands[place] = one
            made = type(op).make(operands, attributes_of(op), [op.results[0].type])
            rewriter.replace(op, [rewriter.insert(made).results[0]])
            return


def same_parameters(one: onnx.QuantizeLinearOp, other: onnx.DequantizeLinearOp) -> bool:
    """Whether both have the same scale, a positive number, and the same zero point."""
    return same_scalar(one.operand_at(1), other.operand_at(1), positive=True) and same_scalar(
        one.operand_at(2), other.operand_at(2), positive=False
    )


def same_scalar(one: SSAValue | None, other: SSAValue | None, *, positive: bool) -> bool:
    """Whether two operands are the same constant of one element; an absent zero point is 0."""
    a = constant_value(one) if one is not None else None
    b = constant_value(other) if other is not None else None
    if one is None and other is None:
        return not positive
    values = [None if v is None else v.reshape(-1) for v in (a, b)]
    if (one is not None and a is None) or (other is not None and b is None):
        return False
    numbers = [0.0 if v is None else float(v[0]) if v.size == 1 else float("nan") for v in values]
    return numbers[0] == numbers[1] and (not positive or numbers[0] > 0)
