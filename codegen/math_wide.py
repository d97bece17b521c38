"""Elementary functions of f32 that are computed in f64: powers, inverse hyperbolic functions, tangents, large angles.

f64 has bits to spare, so these are simple, correctly rounded but for a few cases (about 0.5 ULP), and half as fast as
they might be.  Formulas and measured errors as in `math_f32`.
"""

from __future__ import annotations

from .lanes import Lanes, fma, polynomial
from .llvm_types import F32, F64, I32, I64

INF = float("inf")
NAN = float("nan")

LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
INVERSE_HALF_PI = 0.6366197723675814
HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17

MAGIC = 6755399441055744.0
"""1.5 * 2^52: adding it leaves a float's nearest integer in the low bits."""
LARGE_ANGLE = 1.0e9
"""Up to here pi/2 in two parts of f64 is enough."""

LOG_F64 = (0.6666666667578826, 0.3999999562524895, 0.28572108890131587, 0.22176196035921766, 0.195840997603842)
EXP2_F64 = (
    0.6931471807042945,
    0.2402265106681764,
    0.0555041036744731,
    0.009618038088261095,
    0.0013333933342329588,
    0.0001546677192603994,
    1.5196670799027319e-05,
)
SIN_F64 = (-0.16666666640792355, 0.008333329304280074, -0.00019839312105780375, 2.718120259807596e-06)
COS_F64 = (0.041666666622827496, -0.0013888883753358137, 2.4799519997841885e-05, -2.7210237107043866e-07)

TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561)
"""The bits of 2/pi behind the point in words of 32, after one word of zeros."""


def _wide(x: Lanes) -> Lanes:
    return x.to("fpext", F64)


def _narrow(x: Lanes) -> Lanes:
    return x.to("fptrunc", F32)


# --- logarithms and powers ---


def _log_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """For a normal f64 above 0: x = 2^e * m, m in [sqrt(1/2), sqrt(2)): e, and log(m) with a relative error of 2^-44.

    log(m) = 2s + s^3*p(s^2) with s = (m - 1)/(m + 1).
    """
    bits = x.bits()
    e = (bits - 0x3FE6A09E667F3BCD).shifted_down(52).to("trunc", I32)
    e = (e << 20) >> 20  # 12 bits with sign
    mantissa = (bits - (e.to("sext", I64) << 52)).as_float()
    s = (mantissa - 1.0) / (mantissa + 1.0)
    t = s * s
    return e.to("sitofp", F64), fma(polynomial(t, LOG_F64) * t, s, s + s)


def _log(x: Lanes) -> Lanes:
    """Natural logarithm of a normal f64 above 0."""
    e, log_m = _log_parts(x)
    return fma(e, e.const(LN2), log_m)


def _exp2(x: Lanes) -> Lanes:
    """2^x for |x| <= 1000; relative error 2^-34."""
    shifted = x + MAGIC
    r = x - (shifted - MAGIC)
    scale = ((shifted.bits() + 1023) << 52).as_float()  # the bits of MAGIC are shifted out
    return fma(polynomial(r, EXP2_F64), r, 1.0) * scale


def power(x: Lanes, y: Lanes) -> Lanes:
    """2^(y*log2|x|), the sign and the special cases as in C99's pow; error 0.501 ULP over 2e7 random pairs."""
    size = x.abs()
    wide = _wide(size)
    e, log_m = _log_parts(wide)
    log2 = fma(log_m, log_m.const(LOG2_E), e)
    product = (_wide(y) * log2).at_most(200.0).at_least(-200.0)
    result = _narrow(_exp2(product))
    # what |x| is not finite or zero: inf or 0 by the signs of y and of log|x|
    none = size.equals(0.0)
    endless = size.equals(INF)
    outward = none.choose(y < 0.0, y > 0.0)
    result = (none | endless).choose(outward.choose(x.const(INF), x.const(0.0)), result)
    # y infinite: by |x| against 1
    limit = ((size > 1.0) ^ (y < 0.0)).choose(x.const(INF), x.const(0.0))
    result = y.abs().equals(INF).choose(size.equals(1.0).choose(x.const(1.0), limit), result)
    # sign: an odd integer y takes that of x, another y gives NaN for x < 0
    whole = y.unary("llvm.trunc").equals(y)
    odd = whole & ((y * 0.5).unary("llvm.trunc").equals(y * 0.5) ^ True) & (y.abs() < 16777216.0)
    result = odd.choose(result.with_sign_of(x), result)
    negative = (x < 0.0) & (x > -INF)
    result = (negative & (whole ^ True) & (y.abs() < INF)).choose(x.const(NAN), result)
    result = (x.is_nan() | y.is_nan()).choose(x + y, result)
    return (x.equals(1.0) | y.equals(0.0)).choose(x.const(1.0), result)


def asinh(x: Lanes) -> Lanes:
    """log(|x| + sqrt(x^2 + 1)); below 2^-12 x - x^3/6; max error 0.501 ULP."""
    wide = _wide(x.abs())
    result = _narrow(_log(wide + fma(wide, wide, 1.0).sqrt()))
    result = (x.abs() < 2.0**-12).choose(fma(x * x * (-1 / 6), x, x), result).with_sign_of(x)
    return (x.abs() < INF).choose(result, x)


def acosh(x: Lanes) -> Lanes:
    """log(x + sqrt(x^2 - 1)); max error 0.501 ULP."""
    wide = _wide(x)
    result = _narrow(_log(wide + fma(wide, wide, -1.0).sqrt()))
    result = (x < INF).choose(result, x)
    return (x < 1.0).choose(x.const(NAN), result)


def atanh(x: Lanes) -> Lanes:
    """log((1 + x)/(1 - x))/2; below 2^-12 x + x^3/3; max error 0.501 ULP."""
    wide = _wide(x.abs())
    result = _narrow(_log((wide + 1.0) / (1.0 - wide)) * 0.5).with_sign_of(x)
    result = (x.abs() < 2.0**-12).choose(fma(x * x * (1 / 3), x, x), result)
    result = x.abs().equals(1.0).choose(x.const(INF).with_sign_of(x), result)
    return (x.abs() <= 1.0).choose(result, (x - x) / (x - x))


# --- angles of any size ---


def _reduce(x: Lanes) -> tuple[Lanes, Lanes]:
    """x = n*pi/2 + r: r as f64, |r| <= pi/4, and the low bits of n as i32. An infinite x gives r = NaN."""
    near, near_n = _reduce_near(x)
    far, far_n = _payne_hanek(x)
    large = x.abs() > LARGE_ANGLE
    result = x.abs().equals(INF).choose(far.const(NAN), large.choose(far, near))
    return result, large.choose(far_n, near_n)


def _reduce_near(x: Lanes) -> tuple[Lanes, Lanes]:
    """The same for |x| <= LARGE_ANGLE: n*pi/2 is taken off in two parts."""
    wide = _wide(x)
    shifted = fma(wide, wide.const(INVERSE_HALF_PI), MAGIC)
    n = shifted - MAGIC
    r = fma(n, wide.const(-HALF_PI_LOW), fma(n, wide.const(-HALF_PI), wide))
    return r, shifted.bits().to("trunc", I32)


def _payne_hanek(x: Lanes) -> tuple[Lanes, Lanes]:
    """For |x| >= 2^5: with x = k * 2^e, k of 24 bits, the bits of 2/pi that matter times k, modulo 4.

    Of k * 2^e * sum(bit_i * 2^-i) the bits i <= e - 2 give multiples of 4. The 64 bits from i = e - 1 on, times k in
    64-bit arithmetic that drops what overflows, are x*2/pi mod 4 with 62 bits behind the point; 32 bits more make the
    last place right (Payne and Hanek, "Radian reduction for trigonometric functions", 1983).
    """
    bits = x.bits()
    k = (bits & 0x7FFFFF) | 0x800000
    start = ((bits.shifted_down(23) & 0xFF) - 150) + 30  # of the window, in bits of TWO_OVER_PI
    word, offset = start.shifted_down(5), start & 31
    words = [_pick(word, i) for i in range(4)]
    first, second, third = (_funnel(words[i], words[i + 1], offset) for i in range(3))
    window = (first.to("zext", I64) << 32) | second.to("zext", I64)
    wide_k = k.to("zext", I64)
    turns = window * wide_k + (third.to("zext", I64) * wide_k).shifted_down(32)
    n = (turns + (1 << 61)).shifted_down(62)
    rest = turns - (n << 62)
    r = rest.to("sitofp", F64) * (HALF_PI * 2.0**-62)
    negative = x < 0.0
    whole = n.to("trunc", I32)
    return negative.choose(-r, r), negative.choose(0 - whole, whole)


def _pick(index: Lanes, offset: int) -> Lanes:
    """TWO_OVER_PI[index + offset] for 0 <= index <= 4."""
    result = index.const(TWO_OVER_PI[4 + offset])
    for i in range(4):
        result = index.equals(i).choose(index.const(TWO_OVER_PI[i + offset]), result)
    return result


def _funnel(high: Lanes, low: Lanes, offset: Lanes) -> Lanes:
    """The 32 bits from `offset` on of two words."""
    return high.of(high.f.intrinsic("llvm.fshl", (high.value, low.value, offset.value), high.type))


def _sin_cos(r: Lanes) -> tuple[Lanes, Lanes]:
    """sin and cos of a reduced angle in f64."""
    t = r * r
    sine = fma(polynomial(t, SIN_F64) * t, r, r)
    cosine = fma(polynomial(t, COS_F64) * t, t, fma(t, t.const(-0.5), 1.0))
    return sine, cosine


def _by_quadrant(n: Lanes, sine: Lanes, cosine: Lanes) -> Lanes:
    """sin(n*pi/2 + r) from sin(r) and cos(r)."""
    value = _narrow((n & 1).equals(0).choose(sine, cosine))
    return (((n & 2) << 30) ^ value.bits()).as_float()


def sin_of_any(x: Lanes) -> Lanes:
    """sin in f64, angles of any size; max error 0.501 ULP."""
    r, n = _reduce(x)
    return _by_quadrant(n, *_sin_cos(r))


def cos_of_any(x: Lanes) -> Lanes:
    """cos in f64, angles of any size; max error 0.501 ULP."""
    r, n = _reduce(x)
    return _by_quadrant(n + 1, *_sin_cos(r))


def tan_of_any(x: Lanes) -> Lanes:
    """sin/cos in f64, angles of any size; max error 0.501 ULP."""
    r, n = _reduce(x)
    return _tan_of(x, r, n)


def _tan_of(x: Lanes, r: Lanes, n: Lanes) -> Lanes:
    sine, cosine = _sin_cos(r)
    even = (n & 1).equals(0)
    value = _narrow(even.choose(sine, -cosine) / even.choose(cosine, sine))
    return x.equals(0.0).choose(x, value)


def tan(x: Lanes) -> Lanes:
    """sin/cos in f64 for |x| <= LARGE_ANGLE; max error 0.501 ULP."""
    return _tan_of(x, *_reduce_near(x))
