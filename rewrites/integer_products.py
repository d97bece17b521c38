"""Products of dequantized values as products of integers: exact sums, scaled once.

In a model that was quantized with pairs of QuantizeLinear and DequantizeLinear, a product takes f32 values that were
bytes.  As an integer product it reads a quarter of the memory and takes a quarter of the instructions.  What comes
after it (bias, activation, the next QuantizeLinear) stays as it is, and joins the integer product's kernel.

The sum of products is exact in 32 bits and rounded once, where f32 rounds each addition: results are closer to the
exact ones, and not always the same, so `exact` leaves this out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import Dim, dims_of, tensor_type
from ..semantics.weights import WeightStore
from .constants import attributes_of, make_constant
from .driver import Firing, Pattern, PatternRewriter, apply_patterns

MOST_TERMS = (1 << 31) // (255 * 255)
"""Products of bytes less their zero points whose sum surely fits into 32 bits."""
FLOAT = 1
"""ONNX's number of f32."""


@dataclass(frozen=True)
class Dequantized:
    """A value (q - zero) * scale, with one scale for all (`axis` None) or for each index of an axis."""

    quantized: SSAValue
    scale: SSAValue
    zero: SSAValue | None
    axis: int | None


def dequantized(value: SSAValue | None) -> Dequantized | None:
    """The bytes that an f32 value was dequantized from; None where it was not, or by blocks, or from other types."""
    op = value.owner if value is not None else None
    if not isinstance(op, onnx.DequantizeLinearOp) or onnx.attr(op, "block_size"):
        return None
    if not all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        return None  # of a rank that only data decides
    quantized, scale, zero = op.operands[0], op.operands[1], op.operand_at(2)
    if not is_byte(element_of(quantized)) or element_of(scale) != f32 or element_of(op.results[0]) != f32:
        return None
    sizes = dims_of(scale)
    if not sizes or (len(sizes) == 1 and sizes[0].is_const and sizes[0].value == 1):
        return Dequantized(quantized, scale, zero, None)
    rank = len(dims_of(quantized))
    return Dequantized(quantized, scale, zero, onnx.attr(op, "axis") % max(rank, 1)) if len(sizes) == 1 else None


def is_byte(element: Attribute) -> bool:
    """Whether the type is i8 or ui8."""
    return element == i8 or str(element) == "ui8"


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return cast("TensorType[Attribute]", value.type).element_type


def few_terms(*sizes: Dim) -> bool:
    """Whether so many products can be added in 32 bits."""
    count = 1
    for size in sizes:
        if not size.is_const:
            return False
        count *= size.value
    return count <= MOST_TERMS


def is_depthwise(op: onnx.ConvOp, w: Dequantized) -> bool:
    """Whether groups have one channel, and so few taps that f32 holds all sums of products of bytes."""
    depth, *taps = dims_of(w.quantized)[1:]
    if onnx.attr(op, "group") < 2 or not depth.is_const or depth.value != 1:
        return False
    return all(d.is_const for d in taps) and prod(d.value for d in taps) * 255 * 255 <= 1 << 24


def both_scales(rewriter: PatternRewriter, a: Dequantized, b: Dequantized) -> SSAValue:
    """The product of the scales, with b's axis."""
    kind = tensor_type(f32, dims_of(a.scale if b.axis is None else b.scale))
    return rewriter.insert(onnx.MulOp.make([a.scale, b.scale], {}, [kind])).results[0]


def scaled(rewriter: PatternRewriter, sums: SSAValue, scale: SSAValue, result: SSAValue) -> SSAValue:
    """Integer sums as f32, times a scale."""
    real = rewriter.insert(onnx.CastOp.make([sums], {"to": FLOAT}, [result.type])).results[0]
    return rewriter.insert(onnx.MulOp.make([real, scale], {}, [result.type])).results[0]


def matrix_product(
    rewriter: PatternRewriter, a: Dequantized, b: Dequantized, columns: SSAValue, result: SSAValue
) -> SSAValue:
    """The f32 product of a with b, whose bytes are `columns`."""
    kind = tensor_type(i32, dims_of(result))
    sums = onnx.MatMulIntegerOp.make([a.quantized, columns, a.zero, b.zero], {}, [kind])
    return scaled(rewriter, rewriter.insert(sums).results[0], both_scales(rewriter, a, b), result)


@dataclass(frozen=True)
class IntegerMatMul(Pattern):
    """MatMul((a - p) * s, (b - q) * t)  ->  Cast(MatMulInteger(a, b, p, q)) * (s * t)

    Declines where b's scales are not one for all or one for each column, and where the sum may not fit into 32 bits.
    """

    root = onnx.MatMulOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        a, b = dequantized(op.operands[0]), dequantized(op.operands[1])
        if a is None or b is None or a.axis is not None or not dims_of(a.quantized):
            return
        rank = len(dims_of(b.quantized))
        if (b.axis is not None and (rank < 2 or b.axis != rank - 1)) or not few_terms(dims_of(a.quantized)[-1]):
            return
        rewriter.replace(op, [matrix_product(rewriter, a, b, b.quantized, op.results[0])])


@dataclass(frozen=True)
class IntegerGemm(Pattern):
    """Gemm((a - p) * s, (b - q) * t, c)  ->  Cast(MatMulInteger(a, b, p, q)) * (s * t) + c

    b may be stored transposed.  Declines as `IntegerMatMul`, and for a transposed a, alpha and beta.
    """

    root = onnx.GemmOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.GemmOp)
        a, b, c = dequantized(op.operands[0]), dequantized(op.operands[1]), op.operand_at(2)
        if a is None or b is None or a.axis is not None or not few_terms(dims_of(a.quantized)[-1]):
            return
        swapped = bool(onnx.attr(op, "transB"))
        if onnx.attr(op, "transA") or onnx.attr(op, "alpha") != 1 or (c is not None and onnx.attr(op, "beta") != 1):
            return
        if b.axis is not None and b.axis != (0 if swapped else 1):
            return
        columns = b.quantized
        if swapped:
            kind = tensor_type(element_of(columns), dims_of(columns)[::-1])
            columns = rewriter.insert(onnx.TransposeOp.make([columns], {"perm": (1, 0)}, [kind])).results[0]
        value = matrix_product(rewriter, a, b, columns, op.results[0])
        if c is not None:
            value = rewriter.insert(onnx.AddOp.make([value, c], {}, [op.results[0].type])).results[0]
        rewriter.replace(op, [value])


@dataclass(frozen=True)
class IntegerConv(Pattern):
    """Conv((x - p) * s, (w - q) * t, b)  ->  Cast(ConvInteger(x, w, p, q)) * (s * t) + b

    With one channel to a group, where there are no four to multiply at once, it is Conv(x - p, w - q) * (s * t) + b, if
    f32 holds the sums.  Declines where w's scales are not one for all or one for each output channel, and where the sum
    may not fit.
    """

    weights: WeightStore

    root = onnx.ConvOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.ConvOp)
        x, w, bias = dequantized(op.operands[0]), dequantized(op.operands[1]), op.operand_at(2)
        if x is None or w is None or x.axis is not None or w.axis not in (None, 0):
            return
        if not few_terms(*dims_of(w.quantized)[1:]):
            return
        result = op.results[0]
        axes = len(dims_of(result)) - 2
        scale = both_scales(rewriter, x, w)
        if w.axis is not None:
            scale = self.by_channel(rewriter, scale, axes)
        if is_depthwise(op, w):
            factors = [self.numbers(rewriter, x, axes), self.numbers(rewriter, w, axes)]
            sums = rewriter.insert(onnx.ConvOp.make(factors, attributes_of(op), [result.type])).results[0]
            value = rewriter.insert(onnx.MulOp.make([sums, scale], {}, [result.type])).results[0]
        else:
            operands = [x.quantized, w.quantized, x.zero, w.zero]
            kind = tensor_type(i32, dims_of(result))
            sums = rewriter.insert(onnx.ConvIntegerOp.make(operands, attributes_of(op), [kind])).results[0]
            value = scaled(rewriter, sums, scale, result)
        if bias is not None:
            bias = self.by_channel(rewriter, bias, axes)
            value = rewriter.insert(onnx.AddOp.make([value, bias], {}, [result.type])).results[0]
        rewriter.replace(op, [value])

    def numbers(self, rewriter: PatternRewriter, x: Dequantized, axes: int) -> SSAValue:
        """Bytes less their zero points, which are by channel where `axes` of an image follow, as f32."""

        def as_float(value: SSAValue) -> SSAValue:
            kind = tensor_type(f32, dims_of(value))
            return rewriter.insert(onnx.CastOp.make([value], {"to": FLOAT}, [kind])).results[0]

        value = as_float(x.quantized)
        if x.zero is None:
            return value
        zero = as_float(x.zero)
        if x.axis is not None:
            zero = self.by_channel(rewriter, zero, axes + 1)
        return rewriter.insert(onnx.SubOp.make([value, zero], {}, [value.type])).results[0]

    def by_channel(self, rewriter: PatternRewriter, vector: SSAValue, axes: int) -> SSAValue:
        """A number for each channel, so that it broadcasts against images."""
        [size] = dims_of(vector)
        shape = np.array([-1] + [1] * axes, np.int64)
        given = make_constant(shape, tensor_type(onnx.element_of_dtype(shape.dtype), shape.shape), self.weights)
        kind = tensor_type(f32, [size, *[1] * axes])
        operands = [vector, rewriter.insert(given).results[0]]
        return rewriter.insert(onnx.ReshapeOp.make(operands, {}, [kind])).results[0]


def use_integer_products(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Rewrites products of dequantized bytes; the module must be inferred, and constants not yet folded."""
    return apply_patterns(module, [IntegerMatMul(), IntegerGemm(), IntegerConv(weights)])
