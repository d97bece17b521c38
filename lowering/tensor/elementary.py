"""Pointwise operators of one operand: functions, rounding, activations.

Activations that cancel or overflow in a plain formula are computed so that the tails keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp as math_exp

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from .casts import converted
from .element_kinds import BOOL, F32, F64, Element
from .graph import Node, View, pointwise
from .operators import Operands, Rule
from .randomness import dropped
from .scalars import Scalars

Function = Callable[[Scalars, SSAValue, Element, Operands], SSAValue]


def of_one(function: Function, cost: float) -> Rule:
    """A pointwise operator of its first operand, in the operand's compute type."""

    def rule(o: Operands) -> list[Node]:
        t = o[0].element.compute
        return [pointwise(lambda s, x: function(s, x, t, o), (o[0],), o.dims(), o.element(), cost)]

    return rule


def by_math(op: type[Operation], cost: float = 10) -> Rule:
    """An operator that is one op of the math dialect: of integers in f32, cut off."""
    of_floats = of_one(lambda s, x, t, o: s.unary(op, x), cost)

    def rule(o: Operands) -> Sequence[Node | None]:
        if o[0].element.is_float:
            return of_floats(o)
        found = pointwise(lambda s, x: s.unary(op, x), (converted(o[0], F32),), o.dims(), F32, cost)
        return [converted(found, o.element())]

    return rule


def rounding(op: type[Operation]) -> Rule:
    """floor, ceil, round: integers stay as they are."""
    return of_one(lambda s, x, t, o: s.unary(op, x) if t.is_float else x, 1)


def sign(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """-1, 0 (of no sign) or 1; NaN stays NaN."""
    zero, one = s.constant(0, t), s.constant(1, t)
    positive = s.compare("gt", x, zero, t)
    if t.kind == "u":
        return s.select(positive, one, zero)
    none = s.select(s.compare("eq", x, zero, t), zero, x) if t.is_float else zero
    negative = s.select(s.compare("lt", x, zero, t), s.constant(-1, t), none)
    return s.select(positive, one, negative)


def is_inf(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    negative, positive = o.attr("detect_negative"), o.attr("detect_positive")
    if not negative and not positive:
        return s.constant(0, BOOL)
    value = x if not (negative and positive) else s.abs(x, t)
    limit = float("-inf") if negative and not positive else float("inf")
    return s.compare("eq", value, s.constant(limit, t), t)


# Activations


def sigmoid(s: Scalars, x: SSAValue, t: Element) -> SSAValue:
    """1 / (1 + exp(-x)), from exp(-|x|) so that it neither overflows nor loses the left tail."""
    return _logistic(s, x, s.unary(math.ExpOp, s.neg(s.abs(x, t), t)), t)


def _logistic(s: Scalars, x: SSAValue, e: SSAValue, t: Element) -> SSAValue:
    """1 / (1 + e), or for x < 0 e / (1 + e), rounded nearly once; e is exp(-|x|)."""
    one = s.constant(1.0, t)
    positive = s.compare("ge", x, s.constant(0.0, t), t)
    above, below = s.select(positive, one, e), s.add(one, e, t)
    lost = s.sub(e, s.sub(below, one, t), t)  # exact
    q = s.divf(above, below)
    inverse = s.select(positive, q, s.sub(one, q, t))
    minus = s.neg(q, t)
    return s.fma(s.fma(minus, lost, s.fma(minus, below, above)), inverse, q)


class _Deep:
    """Where exp(-y) would lose digits to denormal numbers, and a product with it would not: exp(shift - y), and then
    exp(-shift), which for this shift is nearly a number of f32.  In f64 there is nothing to gain."""

    BOUND, SHIFT = 80.0, 37.0

    def __init__(self, s: Scalars, y: SSAValue, t: Element) -> None:
        self.s, self.t = s, t
        deep = None if t is F64 else s.compare("gt", y, s.constant(self.BOUND, t), t)
        zero, one = s.constant(0.0, t), s.constant(1.0, t)
        self.shift = zero if deep is None else s.select(deep, s.constant(self.SHIFT, t), zero)
        self.scale = one if deep is None else s.select(deep, s.constant(math_exp(-self.SHIFT), t), one)
        self.none = deep is None

    def exp_of_minus(self, y: SSAValue) -> SSAValue:
        """exp(-y), or that times exp(shift)."""
        exponent = self.s.neg(y, self.t) if self.none else self.s.sub(self.shift, y, self.t)
        return self.s.unary(math.ExpOp, exponent)

    def undone(self, product: SSAValue) -> SSAValue:
        """A product with the exponential without the shift."""
        return product if self.none else self.s.mul(product, self.scale, self.t)


def times_sigmoid(s: Scalars, x: SSAValue, y: SSAValue, t: Element, low: SSAValue | None = None) -> SSAValue:
    """x / (1 + exp(-y)), also where the exponential alone would be denormal; `low` is what y was rounded by."""
    if t is F32:
        return s.logistic(x, y) if low is None else s.logistic(x, y, low)
    return _times_sigmoid_of_any(s, x, y, t, low)


def _times_sigmoid_of_any(s: Scalars, x: SSAValue, y: SSAValue, t: Element, low: SSAValue | None) -> SSAValue:
    """`times_sigmoid` in f64, and where x and y may be of very different sizes."""
    size = s.abs(y, t)
    deep = _Deep(s, s.neg(y, t), t)
    e = deep.exp_of_minus(size)
    if low is not None:
        toward = s.select(s.compare("ge", y, s.constant(0.0, t), t), s.neg(low, t), low)
        e = s.fma(toward, e, e)
    return deep.undone(s.mul(x, _logistic(s, y, e, t), t))


def softplus(s: Scalars, x: SSAValue, t: Element) -> SSAValue:
    """log(1 + exp(x))"""
    e = s.unary(math.ExpOp, s.neg(s.abs(x, t), t))
    return s.add(s.max(x, s.constant(0.0, t), t), s.unary(math.Log1pOp, e), t)


# (1 - the normal distribution function) * exp(a*a/2) * (a + 3.5) as a polynomial of (a - 3.5) / (a + 3.5), which is in
# [-1, 1] for all a >= 0; by Chebyshev interpolation, with a relative error of 4.6e-17
_TAIL_SHIFT = 3.5
_TAIL = (
    -7.826994828821281e-10, 3.8671380954793444e-10, 8.307935518618024e-09, 1.1235481633309484e-09,
    -4.2802070023096727e-08, -3.998025351606463e-08, 1.309811565998956e-07, 3.05621058194755e-07,
    -1.4810458011888594e-07, -1.4872406600413693e-06, -1.1627943254320323e-06, 5.655736737369348e-06,
    1.1505959615831742e-05, -1.8790094792314143e-05, -7.558452919877664e-05, 6.703347468087045e-05,
    0.0004766570862080689, -0.0004450129803793889, -0.0031891010472258987, 0.006476218921988362,
    0.01740783260200885, -0.11605092871414682, 0.31542496988795304, -0.5655618160537783, 0.7444160754359381,
)  # fmt: skip


def _normal_tail(s: Scalars, x: SSAValue) -> SSAValue:
    """1 - Phi(|x|) in f64 for the normal distribution function Phi, with small relative error also where it is tiny."""
    # past the bound the tail is 0, and an infinity would make NaN
    a = s.min(s.abs(x, F64), s.constant(40.0, F64), F64)
    shift = s.constant(_TAIL_SHIFT, F64)
    inverse = s.divf(s.constant(1.0, F64), s.add(a, shift, F64))
    q = s.mul(s.sub(a, shift, F64), inverse, F64)
    value = s.mul(s.polynomial(q, _TAIL, F64), inverse, F64)
    half = s.mul(a, s.constant(0.5, F64), F64)
    square = s.mul(half, a, F64)
    lost = s.fma(half, a, s.neg(square, F64))  # what rounding the square left out: it would be magnified by exp
    e = s.unary(math.ExpOp, s.neg(square, F64))
    return s.mul(value, s.fma(s.neg(lost, F64), e, e), F64)


def gelu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """x * Phi(x), by the tail of Phi on the side where it is small; or its form by tanh."""
    if o.attr("approximate") == "tanh":
        return _gelu_by_tanh(s, x, t)
    if t is not F64:
        return s.gelu(x)
    tail = _normal_tail(s, x)
    positive = s.compare("ge", x, s.constant(0.0, t), t)
    return s.mul(x, s.select(positive, s.sub(s.constant(1.0, t), tail, t), tail), t)


_ROOT = 2 * 0.7978845608028654
_CUBE = 0.044715


def _gelu_by_tanh(s: Scalars, x: SSAValue, t: Element) -> SSAValue:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u), where 2 u = root x (1 + cube x^2) in two parts: exp magnifies errors."""
    limit = 60.0 if t is F64 else 20.0  # past it the result is x or 0
    a = s.max(s.min(x, s.constant(limit, t), t), s.constant(-limit, t), t)
    (root, root_low), (cube, cube_low), one = _in_two(s, _ROOT, t), _in_two(s, _CUBE, t), s.constant(1.0, t)
    square, square_low = _product(s, a, a, t)
    q, q_low = _product(s, cube, square, t)
    q_low = s.fma(cube, square_low, s.fma(cube_low, square, q_low))
    p = s.add(one, q, t)
    back = s.sub(p, one, t)
    p_low = s.add(s.add(s.sub(one, s.sub(p, back, t), t), s.sub(q, back, t), t), q_low, t)
    k, k_low = _product(s, root, a, t)
    k_low = s.fma(root_low, a, k_low)
    y, y_low = _product(s, k, p, t)
    return times_sigmoid(s, x, y, t, s.fma(k_low, p, s.fma(k, p_low, y_low)))


def _in_two(s: Scalars, value: float, t: Element) -> tuple[SSAValue, SSAValue]:
    """A constant as its nearest number of f32 and the rest."""
    high = float(np.float32(value))
    return s.constant(high, t), s.constant(value - high, t)


def _product(s: Scalars, a: SSAValue, b: SSAValue, t: Element) -> tuple[SSAValue, SSAValue]:
    """a * b, and what that was rounded by."""
    high = s.mul(a, b, t)
    return high, s.fma(a, b, s.neg(high, t))


def mish(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """x tanh(log(1 + e)), e = exp(x): x n / (n + 2) with n = e^2 + 2 e, in two parts each."""
    limited = s.min(x, s.constant(40.0 if t is F64 else 20.0, t), t)
    minus = s.neg(limited, t)
    deep = _Deep(s, minus, t)
    e = deep.exp_of_minus(minus)
    double = s.add(e, e, t)
    n = s.fma(e, e, double)
    n_low = s.fma(e, e, s.sub(double, n, t))
    two = s.constant(2.0, t)
    below = s.add(n, two, t)
    back = s.sub(below, n, t)
    lost = s.add(s.add(s.sub(n, s.sub(below, back, t), t), s.sub(two, back, t), t), n_low, t)
    q = s.divf(n, below)
    minus_q = s.neg(q, t)
    rest = s.add(s.fma(minus_q, lost, s.fma(minus_q, below, n)), n_low, t)
    inverse = s.mul(s.sub(s.constant(1.0, t), q, t), s.constant(0.5, t), t)
    # the corrections are none beyond the limit, where their products could be infinite
    near = deep.undone(limited)
    correction = s.mul(near, s.mul(rest, inverse, t), t)
    if not deep.none:
        correction = s.fma(s.fma(limited, deep.scale, s.neg(near, t)), q, correction)
    return s.copysign(s.fma(deep.undone(x), q, correction), x)


def swish(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """x sigmoid(alpha x)"""
    alpha = o.attr("alpha")
    if alpha == 1.0:
        return times_sigmoid(s, x, x, t)
    # an infinite product has no rest
    y, low = _product(s, x, s.constant(alpha, t), t)
    finite = s.compare("lt", s.abs(y, t), s.constant(float("inf"), t), t)
    near = 2.0**-100 < abs(alpha) < 2.0**100
    product = times_sigmoid if near else _times_sigmoid_of_any
    return product(s, x, y, t, s.select(finite, low, s.constant(0.0, t)))


def _by_sign(s: Scalars, x: SSAValue, below: SSAValue, t: Element) -> SSAValue:
    """`below` for x < 0, else x."""
    return s.select(s.compare("lt", x, s.constant(0, t), t), below, x)


def leaky_relu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    return _by_sign(s, x, s.mul(x, s.constant(o.attr("alpha"), t), t), t)


def elu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    return _by_sign(s, x, s.mul(s.unary(math.ExpM1Op, x), s.constant(o.attr("alpha"), t), t), t)


def selu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    gamma = o.attr("gamma")
    high, low = _in_two(s, o.attr("alpha") * gamma, t)
    e = s.unary(math.ExpM1Op, x)
    return s.select(
        s.compare("lt", x, s.constant(0.0, t), t),
        s.fma(e, high, s.mul(e, low, t)),
        s.mul(x, s.constant(gamma, t), t),
    )


def celu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """max(x, 0) + min(alpha expm1(x / alpha), 0), with what the quotient was rounded by."""
    alpha, zero = s.constant(o.attr("alpha"), t), s.constant(0.0, t)
    z = s.divf(s.min(x, zero, t), alpha)
    e = s.unary(math.ExpM1Op, z)
    # where x is infinite there is no rest, and e is -1
    rest = s.select(s.compare("gt", e, s.constant(-1.0, t), t), s.fma(s.neg(z, t), alpha, s.min(x, zero, t)), zero)
    below = s.fma(alpha, e, s.mul(s.add(e, s.constant(1.0, t), t), rest, t))
    return s.copysign(s.add(s.max(x, zero, t), s.min(below, zero, t), t), z)


def thresholded_relu(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    above = s.compare("gt", x, s.constant(o.attr("alpha"), t), t)
    return s.select(above, x, s.constant(0.0, t))


def hard_sigmoid(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """alpha * x + beta within [0, 1], rounded once: next to its zero nothing is left of a rounded product."""
    line = s.fma(x, s.constant(o.attr("alpha"), t), s.constant(o.attr("beta"), t))
    return s.clamp(line, 0.0, 1.0, t)


def hard_swish(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """x * (x + 3) / 6 with x + 3 within [0, 6]: that sum is exact next to its zero; 1 / 6 is in two parts."""
    whole = s.clamp(s.add(x, s.constant(3.0, t), t), 0.0, 6.0, t)
    high = 1 / 6 if t is F64 else float(np.float32(1 / 6))
    low = float(Fraction(1, 6) - Fraction(high))
    return s.mul(x, s.fma(whole, s.constant(high, t), s.mul(whole, s.constant(low, t), t)), t)


def softsign(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    return s.divf(x, s.add(s.constant(1.0, t), s.abs(x, t), t))


def shrink(s: Scalars, x: SSAValue, t: Element, o: Operands) -> SSAValue:
    """x + bias below -lambd, x - bias above lambd, else 0; integers by way of f64."""
    wide = x if t.is_float else s.convert("sitofp" if t.kind == "i" else "uitofp", x, F64)
    w = t if t.is_float else F64
    bias, limit, zero = s.constant(o.attr("bias"), w), s.constant(o.attr("lambd"), w), s.constant(0.0, w)
    above = s.select(s.compare("gt", wide, limit, w), s.sub(wide, bias, w), zero)
    result = s.select(s.compare("lt", wide, s.neg(limit, w), w), s.add(wide, bias, w), above)
    return result if t.is_float else s.convert("fptosi" if t.kind == "i" else "fptoui", result, t)


def p_relu(o: Operands) -> list[Node]:
    t = o.element().compute
    return [pointwise(lambda s, x, slope: _by_sign(s, x, s.mul(slope, x, t), t), o.all(), o.dims(), o.element(), 3)]


def swi_glu(o: Operands) -> list[Node]:
    """swish(a) * b, rounded once"""
    t = o.element().compute
    return [pointwise(lambda s, a, b: s.mul(swish(s, a, t, o), b, t), o.all(), o.dims(), o.element(), 15)]


def identity(o: Operands) -> list[Node]:
    x = o[0]
    return [View(o.dims(), o.element(), x, lambda space, index: index)]


def dropout(o: Operands) -> list[Node]:
    """The operand as it is, and a mask of true: inference."""
    training = o.constant(2)
    if o.get(2) is not None and (training is None or bool(training.reshape(()))):
        return dropped(o)
    [data] = identity(o)
    if not o.has_result(1):
        return [data]
    return [data, pointwise(lambda s: s.constant(1, BOOL), (), o.dims(1), BOOL)]


ELEMENTARY: dict[type[onnx.OnnxOp], Rule] = {
    onnx.AbsOp: of_one(lambda s, x, t, o: s.abs(x, t), 1),
    onnx.AcosOp: by_math(math.AcosOp),
    onnx.AcoshOp: by_math(math.AcoshOp),
    onnx.AsinOp: by_math(math.AsinOp),
    onnx.AsinhOp: by_math(math.AsinhOp),
    onnx.AtanOp: by_math(math.AtanOp),
    onnx.AtanhOp: by_math(math.AtanhOp),
    onnx.CeilOp: rounding(math.CeilOp),
    onnx.CeluOp: of_one(celu, 15),
    onnx.CosOp: by_math(math.CosOp),
    onnx.CoshOp: by_math(math.CoshOp),
    onnx.DropoutOp: dropout,
    onnx.EluOp: of_one(elu, 12),
    onnx.ErfOp: by_math(math.ErfOp),
    onnx.ExpOp: by_math(math.ExpOp),
    onnx.FloorOp: rounding(math.FloorOp),
    onnx.GeluOp: of_one(gelu, 20),
    onnx.HardSigmoidOp: of_one(hard_sigmoid, 4),
    onnx.HardSwishOp: of_one(hard_swish, 5),
    onnx.IdentityOp: identity,
    onnx.IsInfOp: of_one(is_inf, 2),
    onnx.IsNaNOp: of_one(lambda s, x, t, o: s.is_nan(x, t), 1),
    onnx.LeakyReluOp: of_one(leaky_relu, 3),
    onnx.LogOp: by_math(math.LogOp),
    onnx.MishOp: of_one(mish, 20),
    onnx.NegOp: of_one(lambda s, x, t, o: s.neg(x, t), 1),
    onnx.PReluOp: p_relu,
    onnx.ReciprocalOp: of_one(lambda s, x, t, o: s.divf(s.constant(1.0, t), x), 4),
    onnx.ReluOp: of_one(lambda s, x, t, o: s.max(x, s.constant(0, t), t), 1),
    onnx.RoundOp: rounding(math.RoundEvenOp),
    onnx.SeluOp: of_one(selu, 13),
    onnx.ShrinkOp: of_one(shrink, 6),
    onnx.SigmoidOp: of_one(lambda s, x, t, o: sigmoid(s, x, t), 15),
    onnx.SignOp: of_one(sign, 4),
    onnx.SinOp: by_math(math.SinOp),
    onnx.SinhOp: by_math(math.SinhOp),
    onnx.SoftplusOp: of_one(lambda s, x, t, o: softplus(s, x, t), 20),
    onnx.SoftsignOp: of_one(softsign, 6),
    onnx.SqrtOp: by_math(math.SqrtOp, 4),
    onnx.SwiGLUOp: swi_glu,
    onnx.SwishOp: of_one(swish, 16),
    onnx.TanOp: by_math(math.TanOp),
    onnx.TanhOp: by_math(math.TanhOp),
    onnx.ThresholdedReluOp: of_one(thresholded_relu, 2),
}
