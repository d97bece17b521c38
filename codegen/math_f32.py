"""Elementary functions of f32, written out in vector operations; scalars take the same way and give the same bits.

Each docstring gives the formula and the largest error found over all 2^32 inputs against a float64 reference
(`benchmarks/ulp.py`), in units of the last place of the exact result (denormal results: of the smallest denormal).
Coefficients come from `benchmarks/coefficients.py`.  inf, NaN, zeros and denormals are as in C99; nothing is flushed.

"exact" below means that a step has no rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ..dialects.target import Target
from .lanes import Lanes, fma, polynomial
from .llvm_types import F32, I32
from .lookup import lookup
from .math_tables import ERF, EXP, EXPM1, ROOTS, ROOTS_LOW, TANH, Pieces
from .math_wide import cos_of_any, sin_of_any
from .mathematics import Mathematics

INF = float("inf")
NAN = float("nan")

LOG2_E = 1.4426950216293335
LOG2_E_LOW = 1.925963033500011e-08
LN2 = 0.6931471824645996
LN2_LOW = -1.9046542121259336e-09
LN2_SHORT = 0.693145751953125  # 15 bits: exponent * LN2_SHORT is exact
LN2_SHORT_LOW = 1.428606765330187e-06
LOG10_E = 0.4342944920063019
LOG10_E_LOW = -1.0103049952192578e-08
LOG10_2_SHORT = 0.301025390625
LOG10_2_SHORT_LOW = 4.605039066518657e-06
HALF_PI, HALF_PI_2, HALF_PI_3 = 1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15
INVERSE_HALF_PI = 0.6366197466850281

EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.05550359934568405,
    0.009618504904210567,
    0.0013390810927376151,
    0.00015326947323046625,
)
LOG = (
    0.33333316445350647,
    -0.25000810623168945,
    0.20002306997776031,
    -0.166245698928833,
    0.14180812239646912,
    -0.13128229975700378,
    0.1288372129201889,
    -0.0786331370472908,
)
SIN = (-0.16666655242443085, 0.008332189172506332, -0.0001951829035533592)
COS = (0.04166664555668831, -0.00138873013202101, 2.4430672056041658e-05)
ASIN = (0.16666752099990845, 0.07495306432247162, 0.04546976834535599, 0.024180814623832703, 0.04216630756855011)
ATAN = (
    -0.33333298563957214,
    0.1999852955341339,
    -0.14264015853405,
    0.10950881987810135,
    -0.08399321883916855,
    0.05788198858499527,
    -0.031098058447241783,
    0.010869592428207397,
    -0.0017831134609878063,
)
SINH = (0.1666666716337204, 0.008333311416208744, 0.00019842603069264442, 2.784345724649029e-06)

MOST_LANES = 16
"""Of f32 in one register."""

MAGIC = 12582912.0
"""1.5 * 2^23: adding it leaves a float's nearest integer in the low bits."""


def nearest(product: Lanes) -> tuple[Lanes, Lanes]:
    """Of `x*c + MAGIC`: the nearest integer to x*c as float and as i32 (|x*c| < 2^22)."""
    return product - MAGIC, product.bits() - product.const(MAGIC).bits()


def times_power_of_two(target: Target, x: Lanes, n: Lanes, whole: Lanes) -> Lanes:
    """x * 2^n, rounded once, for |n| <= 252; `whole` is n as integer."""
    if has_scalef(target, x):
        return _scalef(x, n, _SCALEF_BITS[x.count or 0])
    half = whole >> 1
    rest = whole - half
    return x * power_of_two(half) * power_of_two(rest)


_SCALEF_BITS = {4: 128, 8: 256, 16: 512, 32: 512, 64: 512}


def has_scalef(target: Target, x: Lanes) -> bool:
    """Whether one instruction multiplies such a vector by powers of 2, of any size."""
    width = _SCALEF_BITS.get(x.count or 0)
    return width is not None and target.has("avx512f") and (width == 512 or target.has("avx512vl"))


def _scalef(x: Lanes, n: Lanes, width: int) -> Lanes:
    """x * 2^n in one instruction; wider vectors in halves."""
    f = x.f
    count = x.count or 1
    if count > MOST_LANES:
        lanes = (range(count // 2), range(count // 2, count))
        low, high = (_scalef(x.of(f.shuffle(x.value, x.value, part)), x.of(f.shuffle(n.value, n.value, part)), width)
                     for part in lanes)  # fmt: skip
        return x.of(f.shuffle(low.value, high.value, range(count)))
    all_lanes = f.const(-1, IntegerType(max(8, width // 32)))
    name = f"llvm.x86.avx512.mask.scalef.ps.{width}"
    passthru = f.const(0.0, x.type)
    arguments: list[SSAValue] = [x.value, n.value, passthru, all_lanes]
    if width == 512:
        arguments.append(f.const(4, I32))  # the current rounding mode
    return x.of(f.raw_intrinsic(name, arguments, x.type))


def power_of_two(n: Lanes) -> Lanes:
    """2^n for -126 <= n <= 127."""
    return ((n + 127) << 23).as_float()


SIXTEENTH = 786432.0
"""1.5 * 2^19: adding it leaves a float's nearest sixteenth in the low bits."""


def nearest_sixteenth(product: Lanes) -> tuple[Lanes, Lanes]:
    """Of `x*c + SIXTEENTH`: the nearest multiple of 1/16 to x*c as float, and 16 times that as i32 (|x*c| < 2^18)."""
    return product - SIXTEENTH, product.bits() - product.const(SIXTEENTH).bits()


def exp_pieces(target: Target, x: Lanes, coefficients: Sequence[float] = EXP) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """exp(x) = t * (1 + e) * 2^floor(n), with n within 1/32 of x/ln2: t, a power of 2 in f32, and e; n, floor(n).

    With x = n*ln2 + r, 16*n being whole and |r| <= ln2/32, e is expm1(r) and what t lacks.
    """
    n, sixteenths = nearest_sixteenth(fma(x, x.const(LOG2_E), SIXTEENTH))
    r = fma(n, x.const(-LN2), x)  # exact
    low = fma(n, x.const(-LN2_LOW), lookup(target, ROOTS_LOW, sixteenths))
    rest = r + fma(polynomial(r, coefficients), r * r, low)  # the only rounding that counts
    return lookup(target, ROOTS, sixteenths), rest, n, sixteenths >> 4


def exp_parts(target: Target, x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """exp(x) = p * 2^floor(n), 1 <= p <= 2, rounded once: p, n, and floor(n) as i32."""
    root, rest, n, whole = exp_pieces(target, x)
    return fma(root, rest, root), n, whole


def exp(m: Mathematics, x: Lanes) -> Lanes:
    """By `exp_parts`, times a power of 2; max error 0.81 ULP."""
    p, n, whole = exp_parts(m.target, x.at_most(89.0).at_least(-104.0))
    return times_power_of_two(m.target, p, n, whole)


def exp2(m: Mathematics, x: Lanes) -> Lanes:
    """2^(n + r) = 2^n * (1 + r*p(r)); max error 0.879 ULP."""
    x = x.at_most(129.0).at_least(-151.0)
    n, whole = nearest(x + MAGIC)
    r = x - n  # exact
    return times_power_of_two(m.target, fma(polynomial(r, EXP2), r, 1.0), n, whole)


def expm1(m: Mathematics, x: Lanes) -> Lanes:
    """h - 1 + h*e, where h = t * 2^n of `exp_pieces`, halved so that it does not overflow; max error 1.57 ULP."""
    root, rest, _, whole = exp_pieces(m.target, x.at_most(89.0).at_least(-18.0), coefficients=EXPM1)
    half = root * power_of_two(whole - 1)
    high = half - 0.5
    back = high - half
    lost = (half - (high - back)) - (back + 0.5)
    result = high + fma(half, rest, lost)
    return (x.abs() < 2.0**-24).choose(x, result + result)


# --- logarithms ---


def _split(x: Lanes) -> tuple[Lanes, Lanes]:
    """x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): e and f as floats, f exact; for x > 0, finite."""
    small = x < 1.1754943508222875e-38
    scaled = small.choose(x * 8388608.0, x)
    bits = scaled.bits()
    e = (bits - 0x3F3504F3) >> 23
    mantissa = (bits - (e << 23)).as_float()
    exponent = e.to("sitofp", F32)
    return small.choose(exponent - 23.0, exponent), mantissa - 1.0


def _log_tail(f: Lanes) -> Lanes:
    """log(1 + f) - f = -f^2/2 + f^3*p(f)."""
    return (f * f) * fma(polynomial(f, LOG), f, -0.5)


def _log_specials(x: Lanes, result: Lanes) -> Lanes:
    """log of +inf is +inf, of 0 -inf, of less or NaN is NaN."""
    result = (x < INF).choose(result, x)  # NaN and +inf as they are
    result = x.equals(0.0).choose(x.const(-INF), result)
    return (x < 0.0).choose(x.const(NAN), result)


def log(m: Mathematics, x: Lanes) -> Lanes:
    """e*ln2 + f - f^2/2 + f^3*p(f), small parts first; max error 0.933 ULP."""
    e, f = _split(x)
    tail = fma(e, e.const(LN2_SHORT_LOW), _log_tail(f))
    return _log_specials(x, fma(e, e.const(LN2_SHORT), f + tail))


def log2(m: Mathematics, x: Lanes) -> Lanes:
    """e + log2(e)*log(1 + f), the product in two parts; max error 1.164 ULP."""
    e, f = _split(x)
    high = f * LOG2_E
    low = fma(f, f.const(LOG2_E), -high)
    low = fma(f, f.const(LOG2_E_LOW), fma(_log_tail(f), f.const(LOG2_E), low))
    total = e + high
    return _log_specials(x, total + ((high - (total - e)) + low))


def log10(m: Mathematics, x: Lanes) -> Lanes:
    """e*log10(2) + log10(e)*log(1 + f), the products in two parts; max error 1.085 ULP."""
    e, f = _split(x)
    high = f * LOG10_E
    low = fma(f, f.const(LOG10_E), -high)
    low = fma(f, f.const(LOG10_E_LOW), fma(_log_tail(f), f.const(LOG10_E), low))
    low = fma(e, e.const(LOG10_2_SHORT_LOW), low)
    whole = e * LOG10_2_SHORT  # exact
    total = whole + high
    return _log_specials(x, total + ((high - (total - whole)) + low))


def log1p(m: Mathematics, x: Lanes) -> Lanes:
    """log of u = 1 + x, whose rounding error is put back into f; max error 1.523 ULP."""
    u = x + 1.0
    back = u - 1.0
    error = (1.0 - (u - back)) + (x - back)
    bits = u.bits()
    e = (bits - 0x3F3504F3) >> 23
    # where e is large the error no longer counts
    f = fma(error, power_of_two(0 - e.at_most(126)), (bits - (e << 23)).as_float() - 1.0)
    exponent = e.to("sitofp", F32)
    tail = fma(exponent, f.const(LN2_SHORT_LOW), _log_tail(f))
    result = fma(exponent, f.const(LN2_SHORT), f + tail)
    result = (x < INF).choose(result, x)
    result = x.equals(-1.0).choose(x.const(-INF), result)
    result = (x < -1.0).choose(x.const(NAN), result)
    return (x.abs() < 2.0**-24).choose(x, result)


# --- hyperbolic functions ---


def tanh(m: Mathematics, x: Lanes) -> Lanes:
    """By pieces of |x|, an odd function; max error 0.733 ULP."""
    a = x.abs().at_most(9.1)
    return piecewise(m.target, a, (a + 1.0).bits().shifted_down(21), TANH, first=a).with_sign_of(x)


def sinh(m: Mathematics, x: Lanes) -> Lanes:
    """|x| < 1: x + x^3*p(x^2); else e - 1/(4e) with e = exp(|x|)/2; max error 1.620 ULP."""
    size = x.abs()
    t = x * x
    near = fma(polynomial(t, SINH) * t, x, x)
    half = _half_exp(m, size)
    return (size < 1.0).choose(near, (half - 0.25 / half).with_sign_of(x))


def cosh(m: Mathematics, x: Lanes) -> Lanes:
    """e + 1/(4e) with e = exp(|x|)/2; max error 1.043 ULP."""
    half = _half_exp(m, x.abs())
    return half + 0.25 / half


def _half_exp(m: Mathematics, x: Lanes) -> Lanes:
    """exp(x)/2, which overflows where sinh and cosh do."""
    p, n, whole = exp_parts(m.target, x.at_most(90.0))
    return times_power_of_two(m.target, p, n - 1.0, whole - 1)


def erf(m: Mathematics, x: Lanes) -> Lanes:
    """By pieces of |x|, an odd function; max error 0.725 ULP."""
    a = x.abs().at_most(3.99)
    return piecewise(m.target, a, (a + 2.0).bits().shifted_down(20), ERF, first=a).with_sign_of(x)


def piecewise(target: Target, a: Lanes, index: Lanes, table: Pieces, first: Lanes | None = None) -> Lanes:
    """value + d*slope(d), where d = a - center, by the low four bits of the index.

    The centers are such that their values are nearly numbers of f32; `first` is the value around 0.
    """
    center = lookup(target, table.centers, index)
    d = a - center
    slope = lookup(target, table.slopes[-1], index)
    for coefficients in table.slopes[-2::-1]:
        slope = fma(slope, d, lookup(target, coefficients, index))
    value = lookup(target, table.values, index)
    return fma(d, slope, value if first is None else center.equals(0.0).choose(first, value))


# --- trigonometric functions ---

SIN_LIMIT = 1.0e5
"""Up to here three parts of pi/2 are enough; beyond, `math_wide` does it in a cold function."""


def _sin_of_quarters(x: Lanes, quarters: int) -> Lanes:
    """sin(x + quarters*pi/2) for |x| <= SIN_LIMIT.

    x = n*pi/2 + r + low, |r| <= pi/4, where n*HALF_PI is exact and low is what r was rounded by; by n, that is
    sin(r) = r + r^3*p(r^2), plus low, or cos(r) = 1 - r^2/2 + r^4*q(r^2), less r*low.
    """
    n, whole = nearest(fma(x, x.const(INVERSE_HALF_PI), MAGIC))
    first = fma(n, x.const(-HALF_PI), x)  # exact
    second = n * HALF_PI_2
    r = first - second
    missed = (first - r) - second  # exact: `first` is a multiple of the last place of `second`
    low = fma(n, x.const(-HALF_PI_3), missed - fma(n, x.const(HALF_PI_2), -second))
    t = r * r
    sine = r + fma(polynomial(t, SIN) * t, r, low)
    cosine = fma(t, t.const(-0.5), 1.0) + fma(polynomial(t, COS) * t, t, -(r * low))
    if quarters:
        whole = whole + quarters
    value = (whole & 1).equals(0).choose(sine, cosine)
    return (((whole & 2) << 30) ^ value.bits()).as_float()


def sin(m: Mathematics, x: Lanes) -> Lanes:
    """A polynomial in x less the nearest multiple of pi/2; max error 1.273 ULP."""
    fast = x.equals(0.0).choose(x, _sin_of_quarters(x, 0))
    return m.with_slow_path(x, fast, SIN_LIMIT, "sin", sin_of_any)


def cos(m: Mathematics, x: Lanes) -> Lanes:
    """sin a quarter further; max error 1.280 ULP."""
    return m.with_slow_path(x, _sin_of_quarters(x, 1), SIN_LIMIT, "cos", cos_of_any)


def asin(m: Mathematics, x: Lanes) -> Lanes:
    """|x| < 1/2: x + x^3*p(x^2); else pi/2 - 2*asin(sqrt((1 - |x|)/2)); max error 1.677 ULP."""
    size = x.abs()
    s, tail = _asin_parts(size)
    near = s + tail
    far = HALF_PI - ((s + s) - (HALF_PI_2 - (tail + tail)))
    return (size < 0.5).choose(near, far).with_sign_of(x)


def _asin_parts(size: Lanes) -> tuple[Lanes, Lanes]:
    """s and asin(s) - s, where s is `size` below 1/2 and sqrt((1 - size)/2) from there on."""
    t = (size < 0.5).choose(size * size, fma(size, size.const(-0.5), 0.5))
    s = (size < 0.5).choose(size, t.sqrt())
    return s, polynomial(t, ASIN) * t * s


def acos(m: Mathematics, x: Lanes) -> Lanes:
    """|x| < 1/2: pi/2 - asin(x); else 2*asin(sqrt((1 - |x|)/2)), from pi for x < 0; max error 1.154 ULP."""
    size = x.abs()
    s, tail = _asin_parts(size)
    signed_s, signed_tail = s.with_sign_of(x), tail.with_sign_of(x)
    middle = HALF_PI - (signed_s - (HALF_PI_2 - signed_tail))
    far = (s + tail) * 2.0
    negative = 2.0 * (HALF_PI - ((s + tail) - HALF_PI_2))
    return (size < 0.5).choose(middle, (x < 0.0).choose(negative, far))


def atan(m: Mathematics, x: Lanes) -> Lanes:
    """t + t^3*p(t^2) for t = |x|, or t = 1/|x| above 1, taken from pi/2; max error 1.337 ULP."""
    size = x.abs()
    large = size > 1.0
    t = large.choose(1.0 / size, size)
    square = t * t
    tail = polynomial(square, ATAN) * square
    near = fma(tail, t, t)
    far = HALF_PI - (near - HALF_PI_2)
    return large.choose(far, near).with_sign_of(x)


# --- roots ---


def sqrt(m: Mathematics, x: Lanes) -> Lanes:
    """The processor's, correctly rounded."""
    return x.sqrt()


def rsqrt(m: Mathematics, x: Lanes) -> Lanes:
    """1/sqrt(x), two roundings; max error 1.491 ULP."""
    return 1.0 / x.sqrt()
