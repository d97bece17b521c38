"""Operators that make tensors from sizes and scalars."""

from __future__ import annotations

from math import pi

import numpy as np
from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims.expression import ZERO, dim_max
from ...dialects.onnx import ELEMENT_TYPES
from .body import Body
from .casts import convert, converted
from .element_kinds import BOOL, F32, F64, I64, element_of
from .graph import Computed, Literal, Node, Sizes, Use
from .index_space import Index, product
from .movement import expanded
from .operators import Operands, Rule, size_value
from .scalars import INDEX


def constant_of_shape(o: Operands) -> list[Node]:
    value = o.attr("value")
    array = np.zeros((), np.float32) if value is None else np.asarray(value).reshape(())
    return [expanded(Literal((), o.element(), array), o.dims())]


def range_(o: Operands) -> list[Node]:
    """start + i * delta; of 16-bit floats in the precision `stash_type`"""
    start, delta, element = o[0], o[2], o.element()
    t = element if element.compute is element else element_of(ELEMENT_TYPES[o.attr("stash_type")])
    wide = t.compute
    first, step = converted(start, t), converted(delta, t)

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        at = convert(s, s.convert("index_cast", body.index(index[0]), I64), I64, wide)
        origin, stride = (body.wide(n, tuple(ZERO for _ in n.dims)) for n in (first, step))
        return s.narrow(s.add(origin, s.mul(at, stride, wide), wide), t)

    exact = Computed(o.dims(), t, ((first, Use.MANY), (step, Use.MANY)), formula, cost=4)
    return [converted(exact, element)]


def eye_like(o: Operands) -> list[Node]:
    """1 on a diagonal"""
    offset, element = o.attr("k"), o.element()

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        distance = s.sub(body.index(index[1]), body.index(index[0]), I64)
        return s.compare("eq", distance, s.constant(offset, INDEX), I64)

    return [converted(Computed(o.dims(), BOOL, (), formula, cost=3), element)]


def shape(o: Operands) -> list[Node]:
    """The sizes of the operand's axes from `start` to `end`, clamped."""
    dims = o[0].dims
    start, end = o.attr("start"), o.attr("end")
    chosen = dims[slice(start, end)]
    return [Sizes(o.dims(), I64, tuple(chosen))]


def size(o: Operands) -> list[Node]:
    return [Sizes((), I64, (product(o[0].dims),))]


def cosine_window(*coefficients: float) -> Rule:
    """sum of coefficients[k] * cos(2 pi k n / N), N one less than the size for a symmetric window; in f64.

    A symmetric window of one place is 0 / 0: NaN, as the function body has it.  Integers are cut off from what it is in
    f32, where the middle is 1.
    """

    def rule(o: Operands) -> list[Node]:
        [size] = o.dims()
        count = size_value(size if o.attr("periodic") else dim_max(size - 1, ZERO), F64)
        t = F64

        def formula(body: Body, index: Index) -> SSAValue:
            s = body.scalars
            at = s.convert("sitofp", s.convert("index_cast", body.index(index[0]), I64), t)
            angle = s.divf(s.mul(s.constant(2 * pi, t), at, t), body.read(count, ()))
            total = s.constant(coefficients[0], t)
            for k, coefficient in enumerate(coefficients[1:], 1):
                wave = s.unary(math.CosOp, s.mul(s.constant(float(k), t), angle, t))
                total = s.add(total, s.mul(s.constant(coefficient, t), wave, t), t)
            return total

        window = Computed(o.dims(), t, ((count, Use.MANY),), formula, cost=20)
        return [converted(window if o.element().is_float else converted(window, F32), o.element())]

    return rule


def bit_cast(o: Operands) -> list[Node]:
    """The same bits as another type of the same width."""
    x, to = o[0], o.element()
    if "b" in (x.element.kind, to.kind):
        return [converted(x, to)]  # a byte of 0 or 1

    def formula(body: Body, index: Index) -> SSAValue:
        value = body.read(x, index)
        return value if x.element.ir == to.ir else body.scalars.convert("bitcast", value, to)

    return [Computed(o.dims(), to, ((x, Use.ALIGNED),), formula, cost=1)]


SOURCES: dict[type[onnx.OnnxOp], Rule] = {
    onnx.BitCastOp: bit_cast,
    onnx.BlackmanWindowOp: cosine_window(0.42, -0.5, 0.08),
    onnx.ConstantOfShapeOp: constant_of_shape,
    onnx.EyeLikeOp: eye_like,
    onnx.HammingWindowOp: cosine_window(25 / 46, -21 / 46),
    onnx.HannWindowOp: cosine_window(0.5, -0.5),
    onnx.RangeOp: range_,
    onnx.ShapeOp: shape,
    onnx.SizeOp: size,
}
