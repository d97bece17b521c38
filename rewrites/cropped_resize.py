"""Resize that shrinks a region without aliasing by scales that are data: how many elements are weighted is data, too.

Resize(x, roi, scales)  ->  for each axis ReduceSum(Gather(x, places) * weights), and Where outside of x

Places and weights are tables [resized, taps]: a kernel as wide as the scale asks for, around the place in x of each
resized element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ComplexType, ModuleOp, TensorType, bf16, f16, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import dims_of
from ..dialects.dims.expression import ZERO
from ..dialects.onnx.types import ELEMENT_CODES
from ..semantics.known import constant_value
from .axes_from_data import Build, rank_of
from .driver import Firing, Pattern, PatternRewriter, apply_patterns

REACH = {"linear": 1, "cubic": 2}


def rewrite_cropped_resize(module: ModuleOp) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    return apply_patterns(module, [SpreadCroppedResize()])


class SpreadCroppedResize(Pattern):
    """Resize(x, roi, scales) with antialias  ->  sums with tables of weights, where the scales are data"""

    root = onnx.ResizeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.ResizeOp)
        x, roi, scales = (op.operand_at(i) for i in range(3))
        if not self.is_meant(op, x, roi, scales):
            return
        assert x is not None and roi is not None and scales is not None
        assert isinstance(x.type, TensorType)
        element: Attribute = x.type.element_type
        rank = x.type.get_num_dims()
        axes = [a % rank for a in onnx.attr(op, "axes") or range(rank)]
        t = f32 if element in (f16, bf16, f32) else f64
        b = Formulas(rewriter, t)
        sizes, bounds, factors = b.shape(x), b.cast(roi, f32), b.cast(scales, f32)
        y, outside = b.cast(x, t), None
        for k, axis in enumerate(axes):
            start, end, scale = (b.at(v, i) for v, i in ((bounds, k), (bounds, len(axes) + k), (factors, k)))
            taken = Region.of(b, b.at(sizes, axis), start, end, scale)
            y = taken.weighted(b, op, y, axis)
            beyond = b.op(onnx.ReshapeOp, taken.beyond(b), b.ints([-1] + [1] * (rank - 1 - axis)))
            outside = beyond if outside is None else b.op(onnx.OrOp, outside, beyond)
        assert outside is not None
        is_integer = t != element and t == f64
        if is_integer:
            y = b.op(onnx.RoundOp, y)
        value = b.typed(onnx.attr(op, "extrapolation_value"), t)
        y = b.where(outside, value, y)
        if is_integer:  # they saturate
            info = np.iinfo(onnx.numpy_dtype(element))
            y = b.op(onnx.ClipOp, y, b.typed(info.min, t), b.typed(info.max, t))
        rewriter.replace(op, [b.cast(y, element)])

    def is_meant(self, op: onnx.ResizeOp, x: SSAValue | None, roi: SSAValue | None, scales: SSAValue | None) -> bool:
        if onnx.attr(op, "coordinate_transformation_mode") != "tf_crop_and_resize" or not onnx.attr(op, "antialias"):
            return False
        if onnx.attr(op, "mode") not in REACH or rank_of(x) is None or not (given(roi) and given(scales)):
            return False
        assert x is not None and isinstance(x.type, TensorType) and scales is not None
        return not isinstance(x.type.element_type, ComplexType) and constant_value(scales) is None


def given(value: SSAValue | None) -> bool:
    """Whether an operand is there, and not the empty tensor that says that it is not."""
    return value is not None and isinstance(value.type, TensorType) and dims_of(value)[0] is not ZERO


class Formulas(Build):
    """Arithmetic on floats; `t` is what elements are weighted in, f32 or f64."""

    def __init__(self, rewriter: PatternRewriter, t: Attribute) -> None:
        super().__init__(rewriter)
        self.t = t

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        return self.op(onnx.CastOp, x, attributes={"to": ELEMENT_CODES[element]})

    def typed(self, value: float, element: Attribute) -> SSAValue:
        """A scalar constant."""
        tensor = onnx.tensor_attr(np.array(value, np.float64))
        made = onnx.ConstantOp.make([], {"value": tensor}, [tensor.type])
        return self.cast(self.rewriter.insert(made).results[0], element)

    def mul(self, *factors: SSAValue) -> SSAValue:
        total = factors[0]
        for factor in factors[1:]:
            total = self.op(onnx.MulOp, total, factor)
        return total

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.DivOp, a, b)

    def numbers(self, start: SSAValue, limit: SSAValue) -> SSAValue:
        """start, start + 1, ... below the limit."""
        return self.op(onnx.RangeOp, start, limit, self.ints(1))

    def polynomial(self, x: SSAValue, *coefficients: float) -> SSAValue:
        """Highest power first."""
        total = self.typed(coefficients[0], self.t)
        for coefficient in coefficients[1:]:
            total = self.mul(total, x)
            total = self.add(total, self.typed(coefficient, self.t)) if coefficient else total
        return total


@dataclass(frozen=True)
class Region:
    """One axis: its extent (int64), the scale, and the place in it of each resized element (all in f32)."""

    extent: SSAValue
    last: SSAValue
    scale: SSAValue
    place: SSAValue

    @staticmethod
    def of(b: Formulas, extent: SSAValue, start: SSAValue, end: SSAValue, scale: SSAValue) -> Region:
        size, part = b.cast(extent, f32), b.sub(end, start)
        resized = b.opaque(b.as_int64(b.op(onnx.FloorOp, b.mul(size, part, scale))))
        one, last = b.typed(1.0, f32), b.sub(size, b.typed(1.0, f32))
        count = b.cast(resized, f32)
        step = b.div(b.mul(part, last), b.sub(count, one))
        along = b.add(b.mul(start, last), b.mul(b.cast(b.numbers(b.ints(0), resized), f32), step))
        middle = b.mul(b.add(start, end), b.typed(0.5, f32), last)
        return Region(extent, last, scale, b.where(b.less(one, count), along, middle))

    def beyond(self, b: Formulas) -> SSAValue:
        """Which places are outside of the axis."""
        before = b.less(self.place, b.typed(0.0, f32))
        return b.op(onnx.OrOp, before, b.less(self.last, self.place))

    def weighted(self, b: Formulas, op: onnx.ResizeOp, y: SSAValue, axis: int) -> SSAValue:
        """y with this axis resized."""
        rank, reach = rank_of(op.operand_at(0)), REACH[onnx.attr(op, "mode")]
        assert rank is not None
        one = b.typed(1.0, b.t)
        stretch = b.op(onnx.MaxOp, b.div(one, b.cast(self.scale, b.t)), one)
        radius = b.opaque(b.as_int64(b.op(onnx.CeilOp, b.mul(stretch, b.typed(reach, b.t)))))
        taps = b.numbers(b.sub(b.ints(0), radius), b.add(radius, b.ints(2)))
        place = b.op(onnx.UnsqueezeOp, b.cast(self.place, b.t), b.ints([1]))
        neighbours = b.add(b.as_int64(b.op(onnx.FloorOp, place)), taps)
        distance = b.op(onnx.AbsOp, b.div(b.sub(b.cast(neighbours, b.t), place), stretch))
        weights = self.kernel(b, distance, reach, onnx.attr(op, "cubic_coeff_a"))
        places = b.op(onnx.ClipOp, neighbours, b.ints(0), b.sub(self.extent, b.ints(1)))
        if onnx.attr(op, "exclude_outside"):
            inside = b.op(onnx.EqualOp, places, neighbours)
            weights = b.where(inside, weights, b.typed(0.0, b.t))
        total = b.op(onnx.ReduceSumOp, weights, b.ints([1]))
        weights = b.op(onnx.UnsqueezeOp, b.div(weights, total), b.ints(list(range(2, rank - axis + 1))))
        gathered = b.op(onnx.GatherOp, y, places, attributes={"axis": axis})
        return b.sum(b.mul(gathered, weights), axis + 1)

    def kernel(self, b: Formulas, distance: SSAValue, reach: int, a: float) -> SSAValue:
        """A triangle, or Keys' cubic with its free coefficient."""
        zero, one = b.typed(0.0, b.t), b.typed(1.0, b.t)
        if reach == 1:
            return b.op(onnx.MaxOp, b.sub(one, distance), zero)
        near = b.polynomial(distance, a + 2, -(a + 3), 0.0, 1.0)
        far = b.polynomial(distance, a, -5 * a, 8 * a, -4 * a)
        outer = b.where(b.less(distance, b.typed(2.0, b.t)), far, zero)
        return b.where(b.less(one, distance), outer, near)


__all__ = ["rewrite_cropped_resize"]
