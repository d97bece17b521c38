"""Conversion between element types, and linear quantization.

A float outside the range of an integer type saturates (to int32 for a narrower type, of which the high bits are then
lost, as the standard's own tests have it) and NaN is 0; an integer is cut to the bits of a narrower one.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import as_dim
from ...dialects.dims.expression import ONE
from ...dialects.onnx import ELEMENT_TYPES
from .element_kinds import F32, F64, I32, I64, U8, Element, element_of
from .graph import Combine, Node, Use, View, pointwise
from .index_space import Index, IndexSpace
from .operators import Operands, Rule, axis_of, reduced, scalar_literal
from .scalars import Scalars


def convert(s: Scalars, x: SSAValue, source: Element, to: Element) -> SSAValue:
    """A value of `source`'s compute type in `to`'s compute type."""
    t, w = source.compute, to.compute
    if t is w and source.kind == to.kind:
        return x
    if w.kind == "b":
        return s.compare("ne", x, s.constant(0, t), t)
    if t.is_float:
        if w.is_float:
            return s.convert("extf" if t.bits < w.bits else "truncf", x, w)
        if w.bits < 32:
            return s.convert("trunci", s.convert("fptosi", x, I32), w)
        return s.convert("fptosi" if w.kind == "i" else "fptoui", x, w)
    if w.is_float:
        return s.convert("sitofp" if t.kind == "i" else "uitofp", x, w)
    if t.bits == w.bits:
        return x
    if t.bits > w.bits:
        return s.convert("trunci", x, w)
    return s.convert("extsi" if t.kind == "i" else "extui", x, w)


def converted(x: Node, to: Element) -> Node:
    """A node in another element type."""
    source = x.element
    if source is to:
        return x
    return pointwise(lambda s, v: convert(s, v, source, to), (x,), x.dims, to)


def cast(o: Operands) -> list[Node]:
    x, to = o[0], o.element()
    if to.small is not None:
        to = replace(to, saturate=bool(o.attr("saturate")), rounding=o.attr("round_mode"))
    source = x.element
    if to.is_float and to.bits < 32 and (source is F64 or (source.is_integer and source.bits >= 32)):
        return [pointwise(lambda s, v: _in_odd_f32(s, v, source), (x,), x.dims, to, 8)]
    return [converted(x, to)]


def _in_odd_f32(s: Scalars, v: SSAValue, source: Element) -> SSAValue:
    """In f32, such that a second rounding to fewer digits gives what one would have given.

    Towards the neighbour whose last bit is set, where the value is none of f32 (Boldo and Melquiond, "Emulation of FMA
    and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    if source.is_integer:
        v = convert(s, _sticky(s, v, source) if source.bits == 64 else v, source, F64)
    nearest = s.convert("truncf", v, F32)
    back, bits, zero = s.convert("extf", nearest, F64), s.convert("bitcast", nearest, I32), s.constant(0, I32)
    is_odd = s.compare("ne", s.both(bits, s.constant(1, I32)), zero, I32)
    stays = s.either(is_odd, s.negate(s.compare("ne", s.sub(back, v, F64), s.constant(0.0, F64), F64)))
    stays = s.either(
        stays, s.either(s.is_nan(v, F64), s.compare("eq", s.abs(v, F64), s.constant(float("inf"), F64), F64))
    )
    outward = s.compare("gt", s.abs(v, F64), s.abs(back, F64), F64)
    step = s.select(outward, s.constant(1, I32), s.constant(-1, I32))
    return s.convert("bitcast", s.add(bits, s.select(stays, zero, step), I32), F32)


def _sticky(s: Scalars, v: SSAValue, t: Element) -> SSAValue:
    """A number of 64 bits as one that f64 holds: where it is large its last 12 bits only tell whether any is set."""
    low = s.constant(0xFFF, t)
    rest = s.both(v, low)
    some = s.select(s.compare("eq", rest, s.constant(0, t), t), s.constant(0, t), s.constant(0x800, t))
    cut = s.either(s.sub(v, rest, t), some)
    small = s.compare("lt", v, s.constant(1 << 52, t), t)
    if t.kind == "i":
        small = s.both(small, s.compare("gt", v, s.constant(-(1 << 52), t), t))
    return s.select(small, v, cut)


# Quantization


def _spread(o: Operands, parameter: Node, x: Node) -> Node:
    """A scale or zero point that broadcasts against x: of the tensor, of each index of `axis`, or of blocks."""
    axis, block = o.attr("axis"), o.attr("block_size")
    rank = len(x.dims)
    if block and len(parameter.dims) == rank:
        along = axis_of(axis, rank)

        def of_block(space: IndexSpace, index: Index) -> Index:
            return tuple(space.divide(at, as_dim(block))[0] if k == along else at for k, at in enumerate(index))

        return View(x.dims, parameter.element, parameter, of_block, Use.MANY)
    inside = len(parameter.dims) == 1 and -rank <= axis < rank
    if not inside or all(d is ONE for d in parameter.dims):  # of one number, as inference has stated
        return View((), parameter.element, parameter, lambda space, index: tuple(as_dim(0) for _ in parameter.dims))
    along = axis_of(axis, rank)
    dims = tuple(parameter.dims[0] if k == along else ONE for k in range(rank))
    return View(dims, parameter.element, parameter, lambda space, index: (index[along],))


def quantized(o: Operands, x: Node, scale: Node, zero_point: Node | None, within: Element, to: Element) -> Node:
    """saturate(round(x / scale) + zero point); the quotient is rounded to the element `within`."""
    quotient = pointwise(
        lambda s, a, b: s.divf(a, b), (converted(x, within), converted(scale, within)), x.dims, within, 4
    )
    t = within.compute
    if to.is_float:
        return _rounded_to(quotient, zero_point, to)

    def saturated(s: Scalars, value: SSAValue, *zero: SSAValue) -> SSAValue:
        whole = s.unary(math.RoundEvenOp, value)
        if zero_point is not None:
            whole = s.add(whole, convert(s, zero[0], zero_point.element, t), t)
        if to.is_packed:  # what it is converted to has more bits
            whole = s.clamp(whole, to.lowest, to.highest, t)
        return s.convert("fptosi" if to.kind == "i" else "fptoui", whole, to)

    inputs = [quotient] if zero_point is None else [quotient, zero_point]
    return pointwise(saturated, inputs, x.dims, to, 6)


def _rounded_to(quotient: Node, zero_point: Node | None, to: Element) -> Node:
    """The quotient, which keeps its fraction, plus the zero point, in a small float."""
    t = quotient.element.compute

    def moved(s: Scalars, value: SSAValue, *zero: SSAValue) -> SSAValue:
        if zero_point is not None:  # nearly always 0, which is to keep the sign of a 0
            by, none = convert(s, zero[0], zero_point.element, t), s.constant(0.0, t)
            value = s.select(s.compare("eq", by, none, t), value, s.add(value, by, t))
        return convert(s, value, quotient.element, to)

    inputs = [quotient] if zero_point is None else [quotient, zero_point]
    return pointwise(moved, inputs, quotient.dims, to, 20)


def quantize_linear(o: Operands) -> list[Node]:
    x, scale, zero_point = o[0], o[1], o.get(2)
    precision = o.attr("precision")
    within = element_of(ELEMENT_TYPES[precision]) if precision else scale.element
    if not within.is_float or (within.small is not None and not within.small.mantissa):
        within = F64  # by integers or powers of 2 a quotient keeps its fraction
    zero = None if zero_point is None else _spread(o, zero_point, x)
    to = o.element()
    if to.small is not None:
        to = replace(to, saturate=bool(o.attr("saturate")))
    return [quantized(o, x, _spread(o, scale, x), zero, within, to)]


def dequantize_linear(o: Operands) -> list[Node]:
    """(x - zero point) * scale; the difference is exact, then rounded to f32 (f64 for an f64 result)."""
    x, scale, zero_point, to = o[0], o[1], o.get(2), o.element()
    t, source = to.compute, x.element
    wide = t if source.is_float else I64 if source.bits >= 32 else I32

    def function(s: Scalars, value: SSAValue, by: SSAValue, *zero: SSAValue) -> SSAValue:
        whole = convert(s, value, source, wide)
        if zero:
            whole = s.sub(whole, convert(s, zero[0], source, wide), wide)
        return s.mul(convert(s, whole, wide, t), convert(s, by, scale.element, t), t)

    inputs = [x, _spread(o, scale, x)]
    if zero_point is not None:
        inputs.append(_spread(o, zero_point, x))
    return [pointwise(function, inputs, o.dims(), to, 5)]


def dynamic_quantize_linear(o: Operands) -> list[Node]:
    """Scale and zero point that map the range of x, with 0, onto 0 .. 255; x quantized by these."""
    x, t = o[0], F32
    axes, zero = range(len(x.dims)), scalar_literal(0.0, F32)
    low = pointwise(lambda s, a, b: s.min(a, b, t), (reduced(Combine.MIN, x, axes), zero), (), F32)
    high = pointwise(lambda s, a, b: s.max(a, b, t), (reduced(Combine.MAX, x, axes), zero), (), F32)
    scale = pointwise(lambda s, a, b: s.divf(s.sub(b, a, t), s.constant(255.0, t)), (low, high), (), F32, 5)

    def offset(s: Scalars, least: SSAValue, by: SSAValue) -> SSAValue:
        exact = s.sub(s.constant(0.0, t), s.divf(least, by), t)
        return s.convert("fptoui", s.unary(math.RoundEvenOp, s.clamp(exact, 0.0, 255.0, t)), U8)

    zero_point = pointwise(offset, (low, scale), (), U8, 10)
    return [quantized(o, x, scale, zero_point, F32, U8), scale, zero_point]


CASTS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.CastOp: cast,
    onnx.CastLikeOp: cast,
    onnx.DequantizeLinearOp: dequantize_linear,
    onnx.DynamicQuantizeLinearOp: dynamic_quantize_linear,
    onnx.QuantizeLinearOp: quantize_linear,
}
