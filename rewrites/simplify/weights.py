"""Arithmetic by constants behind a convolution or a product, folded into its weights and bias.

Everything is one form: y = x * factor + offset, with a factor and an offset for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import FLOATS, Array, Rule, constant, element_of, is_used, only_producer

LINEAR: tuple[type[onnx.OnnxOp], ...] = (onnx.ConvOp, onnx.ConvTransposeOp, onnx.GemmOp)


@dataclass(frozen=True)
class Affine:
    """What an op does to the channels of its operand: x * factor + offset, in f64; `channels` values each."""

    source: SSAValue
    factor: Array
    offset: Array


def affine_of(op: Operation, axis: int, weights: WeightStore) -> Affine | None:
    """An op as an affine function of each channel, the size of `axis` from the left; None where it is none."""
    read = AFFINE.get(type(op))
    return read(op, axis, weights) if read is not None else None


def channels(op: Operation, axis: int) -> int | None:
    shape = dims_of(op.results[0])
    return shape[axis].value if axis < len(shape) and shape[axis].is_const else None


def by_channel(value: SSAValue, op: Operation, axis: int, weights: WeightStore) -> Array | None:
    """A constant operand as one number for each channel; None where it varies along another axis, or widens x."""
    array = constant_value(value, weights)
    count, rank = channels(op, axis), len(dims_of(op.results[0]))
    if array is None or count is None or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for i, n in enumerate(shape) if i != axis) or shape[axis] not in (1, count):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (count,))


def with_constant(
    combine: Callable[[Array], tuple[Array, Array]], swapped: Callable[[Array], tuple[Array, Array]] | None
) -> Callable[[Operation, int, WeightStore], Affine | None]:
    """Reads a binary op of a tensor and a constant; `swapped` is for a constant on the left."""

    def read(op: Operation, axis: int, weights: WeightStore) -> Affine | None:
        left, right = op.operands[0], op.operands[1]
        for source, other, rule in ((left, right, combine), (right, left, swapped)):
            if rule is None or source.type != op.results[0].type:
                continue
            numbers = by_channel(other, op, axis, weights)
            if numbers is not None:
                return Affine(source, *rule(numbers))
        return None

    return read


def batch_norm(op: Operation, axis: int, weights: WeightStore) -> Affine | None:
    """BatchNormalization by constants, outside of training: (x - mean) / sqrt(var + epsilon) * scale + bias."""
    if axis != 1 or onnx.attr(op, "training_mode") or any(is_used(r) for r in op.results[1:]):
        return None
    statistics = [constant_value(v, weights) for v in op.operands[1:5]]
    if any(s is None for s in statistics):
        return None
    scale, bias, mean, variance = (np.asarray(s, np.float64) for s in statistics)
    factor = scale / np.sqrt(variance + onnx.attr(op, "epsilon"))
    return Affine(op.operands[0], factor, bias - mean * factor)


def ones(c: Array) -> Array:
    return np.ones_like(c)


def zeros(c: Array) -> Array:
    return np.zeros_like(c)


def inverse(c: Array) -> Array:
    with np.errstate(divide="ignore"):
        return 1 / c


AFFINE: dict[type[Operation], Callable[[Operation, int, WeightStore], Affine | None]] = {
    onnx.AddOp: with_constant(lambda c: (ones(c), c), lambda c: (ones(c), c)),
    onnx.SubOp: with_constant(lambda c: (ones(c), -c), lambda c: (-ones(c), c)),
    onnx.MulOp: with_constant(lambda c: (c, zeros(c)), lambda c: (c, zeros(c))),
    onnx.DivOp: with_constant(lambda c: (inverse(c), zeros(c)), None),
    onnx.BatchNormalizationOp: batch_norm,
}


@dataclass(frozen=True)
class FoldIntoWeights(Rule):
    """Conv(x, w, b) * f + t  ->  Conv(x, w * f, b * f + t), of constants; also ConvTranspose and Gemm

    The arithmetic may be a BatchNormalization, Add, Sub, Mul or Div.  It is done in f64 and rounded once.  Declines
    when the convolution has another user, when something is not constant, and where a folded weight is not finite.
    With `exact`, only an Add behind a convolution without bias is folded, in types that are not rounded in between.
    """

    weights: WeightStore
    exact: bool

    root = tuple(AFFINE)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for operand in op.operands[:2]:
            linear = only_producer(operand, *LINEAR)
            if linear is not None and self.fold(op, linear, rewriter):
                return

    def fold(self, op: Operation, linear: onnx.OnnxOp, rewriter: PatternRewriter) -> bool:
        if element_of(linear.results[0]) not in FLOATS:
            return False
        affine = affine_of(op, 1, self.weights)
        if affine is None or affine.source is not linear.results[0] or not np.all(np.isfinite(affine.factor)):
            return False
        bias = linear.operand_at(2)
        if self.exact and (bias is not None or np.any(affine.factor != 1) or not is_wide(op)):
            return False
        gemm = isinstance(linear, onnx.GemmOp)
        if gemm and (onnx.attr(linear, "alpha") != 1 or onnx.attr(linear, "beta") != 1):
            return False
        kernel = constant_value(linear.operands[1], self.weights)
        shift = constant_value(bias, self.weights) if bias is not None else None
        changes = not np.all(affine.factor == 1)
        if (changes and kernel is None) or (bias is not None and shift is None):
            return False
        if gemm and shift is not None and shift.ndim > 1 and shift.shape[0] != 1:
            return False  # a bias for each row
        dtype = onnx.numpy_dtype(element_of(linear.results[0]))
        old = 0.0 if shift is None else shift.astype(np.float64).reshape(-1)
        new_bias = (old * affine.factor + affine.offset).astype(dtype)
        operands = [linear.operands[0], linear.operands[1], None]
        new_kernel: Array | None = None
        if changes:
            assert kernel is not None
            new_kernel = (kernel.astype(np.float64) * along(affine.factor, linear, kernel)).astype(dtype)
        if not np.all(np.isfinite(new_bias)) or (new_kernel is not None and not np.all(np.isfinite(new_kernel))):
            return False
        if new_kernel is not None:
            operands[1] = constant(new_kernel, rewriter, self.weights)
        if bias is not None or np.any(new_bias):
            operands[2] = constant(new_bias, rewriter, self.weights)
        folded = type(linear).make(operands, attributes_of(linear), [op.results[0].type])
        rewriter.replace(op, [rewriter.insert(folded).results[0], *[None] * (len(op.results) - 1)])
        rewriter.erase(linear)
        return True


def is_wide(op: Operation) -> bool:
    """Whether results are not rounded to fewer bits than sums are made in."""
    return element_of(op.results[0]) in FLOATS[2:]


def along(factor: Array, linear: onnx.OnnxOp, kernel: Array) -> Array:
    """The factors of the result's channels, in a shape that broadcasts over the weights."""
    tail = [1] * (kernel.ndim - 2)
    if isinstance(linear, onnx.ConvOp):
        return factor.reshape(-1, 1, *tail)
    if isinstance(linear, onnx.GemmOp):
        return factor.reshape(-1, 1) if onnx.attr(linear, "transB") else factor.reshape(1, -1)
    # ConvTranspose: (C, M / group, ...), where channel m of group g is g * (M / group) + m
    groups, inputs = onnx.attr(linear, "group"), kernel.shape[0]
    each = np.repeat(factor.reshape(groups, -1), inputs // groups, axis=0)
    return each.reshape(inputs, -1, *tail)


@dataclass(frozen=True)
class MergeConstants(Rule):
    """(x + a) + b  ->  x + (a + b), and (x * a) * b  ->  x * (a * b), of constants

    Declines when something else reads the inner result, and where the constants broadcast to more than either.
    """

    weights: WeightStore

    root = (onnx.AddOp, onnx.MulOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        found = split(op, self.weights)
        inner = only_producer(found[0], type(op)) if found is not None else None
        before = split(inner, self.weights) if inner is not None else None
        if found is None or before is None or element_of(op.results[0]) not in FLOATS:
            return
        b, a = found[1], before[1]
        merged = np.add(a, b, dtype=np.float64) if isinstance(op, onnx.AddOp) else np.multiply(a, b, dtype=np.float64)
        with np.errstate(over="ignore"):
            merged = merged.astype(a.dtype)
        if merged.size > max(a.size, b.size) or not np.all(np.isfinite(merged)):
            return
        if isinstance(op, onnx.MulOp) and np.any((merged == 0) & (a != 0) & (b != 0)):
            return  # it underflows
        if before[0].type != op.results[0].type:
            return
        operand = constant(merged, rewriter, self.weights)
        rewriter.replace(op, type(op).make([before[0], operand], {}, [op.results[0].type]))  # pyright: ignore


def split(op: Operation, weights: WeightStore) -> tuple[SSAValue, Array] | None:
    """Of a commutative op, the operand that is no constant and the constant."""
    left, right = op.operands[0], op.operands[1]
    for value, other in ((left, right), (right, left)):
        array = constant_value(other, weights)
        if array is not None and constant_value(value, weights) is None:
            return value, array
    return None


@dataclass(frozen=True)
class FoldScaleBefore(Rule):
    """Conv(x * s, w)  ->  Conv(x, w * s), of a constant number or one for each channel; also MatMul and Gemm

    Zeros that pad are zeros either way.  Declines when something else reads the product.
    """

    weights: WeightStore

    root = (onnx.ConvOp, onnx.MatMulOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        product = only_producer(op.operands[0], onnx.MulOp, onnx.DivOp)
        kernel = constant_value(op.operands[1], self.weights)
        if product is None or kernel is None or element_of(op.results[0]) not in FLOATS:
            return
        convolves = isinstance(op, onnx.ConvOp)
        axis = 1 if convolves else len(dims_of(product.results[0])) - 1
        affine = affine_of(product, axis, self.weights)
        if affine is None or kernel.ndim < 2:
            return
        if convolves and onnx.attr(op, "group") != 1:
            if not np.all(affine.factor == affine.factor[:1]):
                return
            factor = affine.factor[:1].reshape([1] * kernel.ndim)
        elif convolves:
            factor = affine.factor.reshape(1, -1, *[1] * (kernel.ndim - 2))
        else:
            factor = affine.factor.reshape(-1, 1)
        scaled = (kernel.astype(np.float64) * factor).astype(kernel.dtype)
        if not np.all(np.isfinite(scaled)):
            return
        operands: list[SSAValue | None] = [affine.source, constant(scaled, rewriter, self.weights)]
        operands += cast(onnx.OnnxOp, op).formal_operands()[2:]
        rewriter.replace(op, type(op).make(operands, attributes_of(cast(onnx.OnnxOp, op)), [op.results[0].type]))  # pyright: ignore
        rewriter.erase(product)
