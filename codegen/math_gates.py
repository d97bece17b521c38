"""Products with a distribution function as one formula of f32: the logistic (SiLU, GELU by tanh) or the normal one."""

from __future__ import annotations

from ..dialects.target import Target
from .lanes import Lanes, fma, polynomial
from .lookup import lookup
from .math_f32 import (
    LN2,
    LN2_LOW,
    LOG2_E,
    MAGIC,
    SIXTEENTH,
    has_scalef,
    nearest,
    nearest_sixteenth,
    piecewise,
    power_of_two,
    times_power_of_two,
)
from .math_tables import EXP, GELU, NORMAL_TAIL, ROOTS, ROOTS_LOW
from .mathematics import Mathematics

MOST = 17.5
"""From here on 1 + exp(-y) is 1."""
LEAST = -200.0
"""From here on any product with exp(y) is 0."""
RECIPROCAL = 0x7EF311C7
"""Less the bits of a number of f32: those of nearly its inverse."""
MOST_LOW = 2.0**-16
"""What a number between these is rounded by is less."""


def logistic(m: Mathematics, x: Lanes, y: Lanes, low: Lanes | None = None) -> Lanes:
    """x / (1 + exp(-y)) = (x / (1 + p*2^n) * p) * 2^n with exp(y) = p*2^n, which becomes a denormal number only in the
    end; max error 1.92 ULP for x = y, which goes by a shorter formula. `low` is what y was rounded by.

    For x of at most 2^100 times the size of y, or the other way round.
    """
    if low is None and x.value is y.value:
        return _silu(m.target, x)
    if low is not None:
        low = low.at_most(MOST_LOW).at_least(-MOST_LOW)
    t = y.at_most(MOST).at_least(LEAST)
    n, whole = nearest(fma(t, t.const(LOG2_E), MAGIC))
    r = fma(n, t.const(-LN2_LOW), fma(n, t.const(-LN2), t))
    if low is not None:
        r = r + low
    # not by pieces as exp: tables would take registers from the sums that this is the epilogue of
    slope = fma(polynomial(r, EXP_SLOPE), r, 1.0)
    p = fma(slope, r, 1.0)
    e = _scaled(m.target, p, n, whole)
    below = e + 1.0
    q = x / below
    product = q * p
    # what product, p and the sum were rounded by; the last relative to it, by its inverse to one digit
    back = below - e
    lost = ((e - (below - back)) + (1.0 - back)) * (RECIPROCAL - below.bits()).as_float()
    rest = fma(q, fma(slope, r, 1.0 - p), fma(q, p, -product))
    result = _scaled(m.target, product + fma(-product, lost, rest), n, whole)
    # 0, but NaN for an infinite x
    return (y > MOST).choose(x, (y < LEAST).choose(x * 0.0, result)).with_sign_of(x)


LEAST_SILU = -199.8
"""As `LEAST`, and a little less than a multiple of ln2."""
LOST = 0.85
"""About 1 / (1 + exp(-|x|)), between 1/2 and 1: nearer to 1, where the other errors are greater."""


def _silu(target: Target, x: Lanes) -> Lanes:
    """q = x / (1 + exp(-|x|)) for x >= 0, else (q + q*s) * 2^n with exp(-|x|) = (1 + s) * 2^n; max error 1.94 ULP.

    As exp(-|x|) <= 1, what the sum was rounded by is found in two steps; s is rounded once, and 1 + s not at all where
    it multiplies.
    """
    t = (-x.abs()).at_least(LEAST_SILU)
    n, whole = nearest(fma(t, t.const(LOG2_E), MAGIC))
    r = fma(n, t.const(-LN2_LOW), fma(n, t.const(-LN2), t))
    slope = fma(polynomial(r, EXP_SLOPE), r, 1.0)
    p = fma(slope, r, 1.0)
    e = _scaled(target, p, n, whole)
    below = e + 1.0
    q = x / below
    lost = e - (below - 1.0)  # exact
    s = fma(slope, r, lost * -LOST * p)
    # NaN for -inf: s < 0 at LEAST_SILU, so that the sum is of infinities of both signs
    return (x >= 0.0).choose(q, _scaled(target, fma(q, s, q), n, whole)).with_sign_of(x)


EXP_SLOPE = (
    0.4999999403953552,
    0.1666652113199234,
    0.041668280959129333,
    0.008368694223463535,
    0.0013819608138874173,
)
"""exp(r) = 1 + r*(1 + r*p(r)) for |r| <= ln2/2."""


GELU_NEAR = 5.0
"""Up to here one formula does; beyond, which is rare, a longer one in a cold function."""
LN2_SHORT = 0.693115234375  # 12 bits: a multiple of 1/16 times it is exact
LN2_SHORT_LOW = 3.194618495250318e-05
HALF_LOG2_E = 0.7213475108146667


def gelu(m: Mathematics, x: Lanes) -> Lanes:
    """max(x, 0) - g(|x|), where g(a) = a * Phi(-a) for the normal distribution function Phi; max error 1.75 ULP.

    2*g goes by pieces, which are short where g falls steeply.
    """
    a = x.abs()
    double = piecewise(m.target, a, (7.0 - a).bits().shifted_down(20), GELU)
    fast = fma(double, x.const(-0.5), x.at_least(-0.0))
    return m.with_slow_path(x, fast, GELU_NEAR, "gelu", lambda x: _gelu_of_any(m.target, x))


def _gelu_of_any(target: Target, x: Lanes) -> Lanes:
    """The same where g is tiny: 2 * g(a) * exp(a^2/2) goes by pieces.

    exp(-a^2/2) = 2^n * t * (1 + e) as in `exp_parts`: a^2 is never rounded, and what the product with t was rounded by
    is kept.
    """
    a = x.abs().at_most(14.9)
    smooth = piecewise(target, a, (a + 1.0).bits().shifted_down(21), NORMAL_TAIL, first=a)
    n, sixteenths = nearest_sixteenth(fma(a * a, a.const(-HALF_LOG2_E), SIXTEENTH))
    r = fma(a, a, n * (2 * LN2_SHORT))  # -2 times the rest of the exponent, within 0.044
    r = fma(n, r.const(2 * LN2_SHORT_LOW), r)
    root = lookup(target, ROOTS, sixteenths)
    linear = fma(r, r.const(-0.5), lookup(target, ROOTS_LOW, sixteenths))
    rest = fma(fma(r, r.const(-EXP[1] / 8), EXP[0] / 4), r * r, linear)
    product = root * smooth
    tail = product + fma(product, rest, fma(root, smooth, -product))
    zero = x.at_most(0.0) * 0.0  # of the right sign, and NaN for -inf
    return (x > zero).choose(x, zero) - times_power_of_two(target, tail, n - 1.0, (sixteenths >> 4) - 1)


def _scaled(target: Target, x: Lanes, n: Lanes, whole: Lanes) -> Lanes:
    """x * 2^n for LEAST <= n*ln2."""
    if has_scalef(target, x):
        return times_power_of_two(target, x, n, whole)
    third = whole >> 2
    factor = power_of_two(third)
    return x * power_of_two(whole - third * 3) * factor * factor * factor
