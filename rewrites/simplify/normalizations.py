"""Normalizations recognized from the arithmetic that exporters write for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ...semantics.kinds import reduced_axes
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import Rule, constant, element_of, is_float, only_producer, producer, scalar_of


def over_root(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """(x, v) of x / sqrt(v), also written as x * (1 / sqrt(v)) or x * v ** -0.5."""
    if isinstance(op, onnx.DivOp):
        variance = under_root(op.operands[1])
        return (op.operands[0], variance) if variance is not None else None
    for x, other in (op.operands[:2], op.operands[1::-1]):
        power = producer(other, onnx.PowOp)
        if power is not None and scalar_of(power.operands[1]) == -0.5:
            return x, power.operands[0]
        inverse = producer(other, onnx.ReciprocalOp)
        quotient = producer(other, onnx.DivOp)
        if inverse is not None:
            root = inverse.operands[0]
        elif quotient is not None and scalar_of(quotient.operands[0]) == 1:
            root = quotient.operands[1]
        else:
            continue
        variance = under_root(root)
        if variance is not None:
            return x, variance
    return None


def under_root(value: SSAValue) -> SSAValue | None:
    """v of sqrt(v) or v ** 0.5."""
    root = producer(value, onnx.SqrtOp)
    if root is not None:
        return root.operands[0]
    power = producer(value, onnx.PowOp)
    return power.operands[0] if power is not None and scalar_of(power.operands[1]) == 0.5 else None


def mean_square(value: SSAValue) -> tuple[SSAValue, tuple[int, ...]] | None:
    """(d, axes) of the mean of d * d along axes that are kept."""
    mean = producer(value, onnx.ReduceMeanOp)
    axes = reduced_axes(mean) if mean is not None else None
    if mean is None or axes is None or not onnx.attr(mean, "keepdims"):
        return None
    squared = mean.operands[0]
    product = producer(squared, onnx.MulOp)
    if product is not None and product.operands[0] is product.operands[1]:
        return product.operands[0], axes
    power = producer(squared, onnx.PowOp)
    if power is not None and scalar_of(power.operands[1]) == 2:
        return power.operands[0], axes
    return None


@dataclass(frozen=True)
class Normalized:
    """d / sqrt(mean(d * d) + epsilon), where d is `source`, along the axes from `axis` on."""

    source: SSAValue
    axis: int
    epsilon: float


def normalized(op: Operation) -> Normalized | None:
    """What an op normalizes; None where it is no such quotient, or does not reduce the last axes."""
    quotient = over_root(op)
    shifted = producer(quotient[1], onnx.AddOp) if quotient is not None else None
    if quotient is None or shifted is None:
        return None
    for mean, constant_ in (shifted.operands[:2], shifted.operands[1::-1]):
        epsilon, found = scalar_of(constant_), mean_square(mean)
        if epsilon is None or found is None or found[0] is not quotient[0]:
            continue
        rank, axes = len(dims_of(quotient[0])), found[1]
        if axes and axes == tuple(range(axes[0], rank)) and quotient[0].type == op.results[0].type:
            return Normalized(quotient[0], axes[0], epsilon)
    return None


def mean_taken(value: SSAValue, axis: int) -> SSAValue | None:
    """x of x - mean(x), the mean along the axes from `axis` on."""
    difference = producer(value, onnx.SubOp)
    mean = producer(difference.operands[1], onnx.ReduceMeanOp) if difference is not None else None
    if difference is None or mean is None or mean.operands[0] is not difference.operands[0]:
        return None
    axes = reduced_axes(mean)
    whole = tuple(range(axis, len(dims_of(value))))
    return difference.operands[0] if axes == whole and onnx.attr(mean, "keepdims") else None


@dataclass(frozen=True)
class RecognizeNormalization(Rule):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)  ->  LayerNormalization(x, 1)

    And x / sqrt(mean(x^2) + e)  ->  RMSNormalization(x, 1).

    Scale and bias are folded in by the other rules here.  Declines where the extents that are normalized are no
    numbers: the operator has a scale of that size.
    """

    weights: WeightStore

    root = (onnx.DivOp, onnx.MulOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_float(op.results[0]):
            return
        found = normalized(op)
        if found is None:
            return
        extents = dims_of(found.source)[found.axis :]
        if not all(d.is_const for d in extents):
            return
        x = mean_taken(found.source, found.axis)
        cls = onnx.RMSNormalizationOp if x is None else onnx.LayerNormalizationOp
        if not rewriter.may_make(cls):
            return
        dtype = onnx.numpy_dtype(element_of(op.results[0]))
        scale = constant(np.ones([d.value for d in extents], dtype), rewriter, self.weights)
        attributes: dict[str, object] = {"axis": found.axis - len(dims_of(found.source)), "epsilon": found.epsilon}
        source = found.source if x is None else x
        rewriter.replace(op, cls.make([source, scale], attributes, [op.results[0].type]))


NORMALIZATIONS: tuple[type[onnx.OnnxOp], ...] = (onnx.LayerNormalizationOp, onnx.RMSNormalizationOp)


def normal_extents(op: onnx.OnnxOp) -> Sequence[Dim]:
    shape = dims_of(op.operands[0])
    return shape[onnx.attr(op, "axis") % len(shape) :]


def parameter(value: SSAValue, norm: onnx.OnnxOp, rewriter: PatternRewriter, weights: WeightStore) -> SSAValue | None:
    """A scale or bias in the shape of the extents that are normalized; None where it has none."""
    extents = tuple(normal_extents(norm))
    if dims_of(value) == extents and element_of(value) == element_of(norm.results[0]):
        return value
    array = constant_value(value, weights)
    if array is None or not all(d.is_const for d in extents):
        return None
    shape = tuple(d.value for d in extents)
    leading = array.shape[: max(array.ndim - len(shape), 0)]
    if any(n != 1 for n in leading):
        return None
    try:
        spread = np.broadcast_to(array.reshape(array.shape[len(leading) :]), shape)
    except ValueError:
        return None
    return constant(np.ascontiguousarray(spread), rewriter, weights)


@dataclass(frozen=True)
class FoldScaleIntoNormalization(Rule):
    """Mul(LayerNormalization(x, 1), s)  ->  LayerNormalization(x, s), and so for RMSNormalization

    Exact in types that are not rounded in between.  Declines when something else reads the normalized value, and where
    there is a bias already.
    """

    weights: WeightStore

    root = onnx.MulOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for value, scale in (op.operands[:2], op.operands[1::-1]):
            norm = only_producer(value, *NORMALIZATIONS)
            if norm is None or norm.operand_at(2) is not None or not is_one(norm.operands[1], self.weights):
                continue
            if value.type != op.results[0].type or len(norm.results) > 1:
                continue
            found = parameter(scale, norm, rewriter, self.weights)
            if found is not None:
                made = type(norm).make([norm.operands[0], found], attributes_of(norm), [op.results[0].type])
                rewriter.replace(op, made)
                rewriter.erase(norm)
                return


def is_one(value: SSAValue, weights: WeightStore) -> bool:
    return scalar_of(value, weights) == 1


@dataclass(frozen=True)
class FoldShiftIntoNormalization(Rule):
    """Add(LayerNormalization(x, s), b)  ->  LayerNormalization(x, s, b)

    Declines when something else reads the normalized value, and where there is a bias already.
    """

    weights: WeightStore

    root = onnx.AddOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for value, bias in (op.operands[:2], op.operands[1::-1]):
            norm = only_producer(value, onnx.LayerNormalizationOp)
            if norm is None or norm.operand_at(2) is not None or len(norm.results) > 1:
                continue
            if value.type != op.results[0].type:
                continue
            found = parameter(bias, norm, rewriter, self.weights)
            if found is not None:
                operands = [*norm.operands[:2], found]
                made = onnx.LayerNormalizationOp.make(operands, attributes_of(norm), [op.results[0].type])
                rewriter.replace(op, made)
                rewriter.erase(norm)
                return
