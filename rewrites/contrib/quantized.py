"""Operators on quantized tensors: dequantized, computed, and quantized; products of integers with their scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule
from .products import WINDOW, channels_second, exchanged, last_axes


def dequantized(b: Expansion, x: SSAValue, scale: SSAValue, zero: SSAValue | None) -> SSAValue:
    """By one scale and zero point, which may be vectors of one element."""
    zero = None if zero is None else b.scalar(zero)
    return b.value(onnx.DequantizeLinearOp, x, b.scalar(scale), zero)


def quantized(b: Expansion, y: SSAValue, scale: SSAValue, zero: SSAValue | None, like: SSAValue) -> SSAValue:
    """By one scale and zero point, to the element type of `like`."""
    zero = b.number(0, like) if zero is None else b.scalar(zero)
    return b.value(onnx.QuantizeLinearOp, y, b.scalar(scale), zero)


def of_two(cls: type[onnx.OnnxOp]) -> Rule:
    """An operator on a, its scale and zero point, b and its own, then those of the result."""

    def rule(b: Expansion) -> Results:
        """The operator on dequantized tensors, quantized."""
        b.known()
        left, right = dequantized(b, b.x(0), b.x(1), b.at(2)), dequantized(b, b.x(3), b.x(4), b.at(5))
        return [quantized(b, b.value(cls, left, right), b.x(6), b.at(7), b.x(0))]

    return rule


def of_one(known: Sequence[str], compute: Callable[[Expansion, SSAValue], SSAValue]) -> Rule:
    """An operator on x, its scale and zero point, then those of the result."""

    def rule(b: Expansion) -> Results:
        """The operator on a dequantized tensor, quantized."""
        b.known(*known)
        y = compute(b, dequantized(b, b.x(0), b.x(1), b.at(2)))
        return [quantized(b, y, b.x(3), b.at(4), b.x(0))]

    return rule


def _sigmoid(b: Expansion, x: SSAValue) -> SSAValue:
    return b.value(onnx.SigmoidOp, x)


def _leaky_relu(b: Expansion, x: SSAValue) -> SSAValue:
    return b.value(onnx.LeakyReluOp, x, attributes={"alpha": b.attr("alpha", 0.01)})


def _softmax(b: Expansion, x: SSAValue) -> SSAValue:
    """Along an axis; before opset 13 over all axes from it on."""
    axis, rank = b.attr("axis", -1), b.rank(b.x(0))
    if b.attr("opset", 13) >= 13 or axis % rank == rank - 1:
        return b.value(onnx.SoftmaxOp, x, attributes={"axis": axis})
    flat = b.value(onnx.FlattenOp, x, attributes={"axis": axis})
    return b.value(onnx.ReshapeOp, b.value(onnx.SoftmaxOp, flat), b.shape(x), attributes={"allowzero": 1})


POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _average_pool(b: Expansion, x: SSAValue) -> SSAValue:
    """Of the numbers inside of the image, or of the padding too; never of what `ceil_mode` has beyond that."""
    attributes = {name: b.attr(name) for name in POOL}
    return _channels_second(b, x, lambda y: b.value(onnx.AveragePoolOp, y, attributes=attributes))


def _global_average_pool(b: Expansion, x: SSAValue) -> SSAValue:
    return _channels_second(b, x, lambda y: b.value(onnx.GlobalAveragePoolOp, y))


def _channels_second(b: Expansion, x: SSAValue, compute: Callable[[SSAValue], SSAValue]) -> SSAValue:
    if not b.attr("channels_last", 0):
        return compute(x)
    rank = b.rank(b.x(0))
    moved = b.transposed(x, [0, rank - 1, *range(1, rank - 1)])
    return b.transposed(compute(moved), last_axes(rank))


def _reduce_mean(b: Expansion, x: SSAValue) -> SSAValue:
    axes, keep = b.attr("axes", []), {"keepdims": b.attr("keepdims", 1)}
    return b.value(onnx.ReduceMeanOp, x, b.ints(axes) if axes else None, attributes=keep)


def concat(b: Expansion) -> Results:
    """The scale and zero point of the result, then a tensor, its scale and its zero point each."""
    b.known("axis")
    given = b.inputs()[2:]
    parts: list[SSAValue] = []
    for at in range(0, len(given), 3):
        x, scale = given[at], given[at + 1]
        assert x is not None and scale is not None
        parts.append(dequantized(b, x, scale, given[at + 2] if at + 2 < len(given) else None))
    return [quantized(b, b.concat(parts, b.attr("axis")), b.x(0), b.at(1), b.x(2))]


def where(b: Expansion) -> Results:
    """Where(condition, x, y), each with a scale and zero point."""
    b.known()
    x, y = (dequantized(b, b.x(k), b.x(k + 1), b.at(k + 2)) for k in (1, 4))
    return [quantized(b, b.value(onnx.WhereOp, b.x(0), x, y), b.x(7), b.at(8), b.x(1))]


def qlinear_conv(b: Expansion) -> Results:
    """QLinearConv, also with the channels last."""
    b.known(*WINDOW, "channels_last")
    last = bool(b.attr("channels_last", 0))
    operands = b.inputs()
    operands[0] = channels_second(b, b.x(0)) if last else operands[0]
    y = b.value(onnx.QLinearConvOp, *operands, attributes={name: b.attr(name) for name in WINDOW})
    return [b.transposed(y, last_axes(b.rank(b.x(0)))) if last else y]


# Products


def scaled_product(
    b: Expansion,
    operands: tuple[SSAValue, SSAValue],
    zeros: tuple[SSAValue | None, SSAValue | None],
    scale: SSAValue,
    bias: SSAValue | None,
) -> SSAValue:
    """scale (a - a_zero) (b - b_zero) + bias; the scale is one, or one for each column."""
    needed = [None if z is None or _is_zero(b, z) else _one_or_vector(b, z) for z in zeros]
    total = b.value(onnx.MatMulIntegerOp, *operands, *needed)
    return b.biased(b.mul(b.cast(total, b.element(scale)), scale), bias)


def _is_zero(b: Expansion, zero: SSAValue) -> bool:
    known = b.array(zero)
    return known is not None and not known.any()


def _one_or_vector(b: Expansion, zero: SSAValue) -> SSAValue:
    """As a scalar where it has one element."""
    return b.scalar(zero) if b.rank(zero) == 1 and b.size(zero, 0) == 1 else zero


def matmul_integer_to_float(b: Expansion) -> Results:
    """a_scale b_scale (a - a_zero) (b - b_zero) + bias"""
    b.known()
    scale = b.mul(b.scalar(b.x(2)), b.x(3))
    return [scaled_product(b, (b.x(0), b.x(1)), (b.at(4), b.at(5)), scale, b.at(6))]


def dynamic_quantize_matmul(b: Expansion) -> Results:
    """a b with a quantized as a whole, and b quantized by b_scale and b_zero."""
    b.known()
    a, a_scale, a_zero = dynamically_quantized(b, b.x(0))
    scale = b.mul(a_scale, b.x(2))
    zero = b.at(3)
    zero = None if zero is None or _is_zero(b, zero) else _one_or_vector(b, zero)
    total = b.value(onnx.MatMulIntegerOp, a, b.x(1), a_zero, zero)
    return [b.biased(b.mul(b.cast(total, f32), scale), b.at(4))]


def dynamically_quantized(b: Expansion, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The tensor as bytes, its scale and its zero point."""
    q, scale, zero = b.several(onnx.DynamicQuantizeLinearOp, [x], [True] * 3)
    assert q is not None and scale is not None and zero is not None
    return q, scale, zero


def qgemm(b: Expansion) -> Results:
    """alpha a_scale b_scale ((a - a_zero) (b - b_zero) + c), quantized where the result's scale is given."""
    b.known("alpha", "transA", "transB")
    operands = (exchanged(b, b.x(0), bool(b.attr("transA", 0)), False),
                exchanged(b, b.x(3), bool(b.attr("transB", 0)), False))  # fmt: skip
    a_zero, b_zero = (None if z is None else _one_or_vector(b, z) for z in (b.at(2), b.at(5)))
    total = b.biased(b.value(onnx.MatMulIntegerOp, *operands, a_zero, b_zero), b.at(6))
    scale = b.scaled(b.mul(b.scalar(b.x(1)), b.x(4)), b.attr("alpha", 1.0))
    y = b.mul(b.cast(total, f32), scale)
    if b.at(7) is None:
        return [y]
    return [quantized(b, y, b.x(7), b.at(8), b.x(0))]


# What ONNX has by now


def quantize_linear(b: Expansion) -> Results:
    """QuantizeLinear; without `axis` by one scale."""
    b.known("axis")
    return [_linear(b, onnx.QuantizeLinearOp)]


def dequantize_linear(b: Expansion) -> Results:
    """DequantizeLinear; without `axis` by one scale."""
    b.known("axis")
    return [_linear(b, onnx.DequantizeLinearOp)]


def _linear(b: Expansion, cls: type[onnx.OnnxOp]) -> SSAValue:
    x, scale, zero = b.x(0), b.x(1), b.at(2)
    if b.rank(scale) == 0 or b.size(scale, 0) == 1:
        return b.value(cls, x, b.scalar(scale), None if zero is None else b.scalar(zero))
    return b.value(cls, x, scale, zero, attributes={"axis": b.attr("axis", 1)})


def mul_integer(b: Expansion) -> Results:
    """(a - a_zero) (b - b_zero) in int32"""
    b.known()
    return [b.mul(centred(b, b.x(0), b.at(1)), centred(b, b.x(2), b.at(3)))]


def centred(b: Expansion, x: SSAValue, zero: SSAValue | None) -> SSAValue:
    """x - zero in int32"""
    wide = b.cast(x, i32)
    return wide if zero is None else b.sub(wide, b.cast(b.scalar(zero), i32))


def reduce_sum_integer(b: Expansion) -> Results:
    """The sum over axes in int32."""
    b.known("axes", "keepdims")
    axes, keep = b.attr("axes", []), {"keepdims": b.attr("keepdims", 1)}
    return [b.value(onnx.ReduceSumOp, b.cast(b.x(), i32), b.ints(axes) if axes else None, attributes=keep)]


def matmul_integer16(b: Expansion) -> Results:
    """The product of integers of 16 bits, in int32."""
    b.known()
    return [b.value(onnx.MatMulOp, b.cast(b.x(0), i32), b.cast(b.x(1), i32))]


QUANTIZED: Mapping[str, Rule] = {
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulInteger16": matmul_integer16,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MulInteger": mul_integer,
    "QGemm": qgemm,
    "QLinearAdd": of_two(onnx.AddOp),
    "QLinearAveragePool": of_one((*POOL, "channels_last"), _average_pool),
    "QLinearConcat": concat,
    "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": of_one(("channels_last",), _global_average_pool),
    "QLinearLeakyRelu": of_one(("alpha",), _leaky_relu),
    "QLinearMul": of_two(onnx.MulOp),
    "QLinearReduceMean": of_one(("axes", "keepdims"), _reduce_mean),
    "QLinearSigmoid": of_one((), _sigmoid),
    "QLinearSoftmax": of_one(("axis", "opset"), _softmax),
    "QLinearWhere": where,
    "QuantizeLinear": quantize_linear,
    "ReduceSumInteger": reduce_sum_integer,
}
