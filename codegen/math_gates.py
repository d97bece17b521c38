"""Products with a logistic function, which SiLU and GELU by tanh are, as one formula of f32."""

from __future__ import annotations

from ..dialects.target import Target
from .lanes import Lanes
from .math_f32 import exp_parts, has_scalef, power_of_two, times_power_of_two
from .mathematics import Mathematics

MOST = 17.5
"""From here on 1 + exp(-y) is 1."""
LEAST = -200.0
"""From here on any product with exp(y) is 0."""
MOST_LOW = 2.0**-16
"""What a number between these is rounded by is less."""


def logistic(m: Mathematics, x: Lanes, y: Lanes, low: Lanes | None = None) -> Lanes:
    """x / (1 + exp(-y)) = (x / (1 + p*2^n) * p) * 2^n with exp(y) = p*2^n, which becomes a denormal number only in the
    end; max error 2.8 ULP for x = y. `low` is what y was rounded by.

    For x of at most 2^100 times the size of y, or the other way round.
    """
    if low is not None:
        low = low.at_most(MOST_LOW).at_least(-MOST_LOW)
    p, n, whole = exp_parts(y.at_most(MOST).at_least(LEAST), low)
    q = x / (_scaled(m.target, p, n, whole) + 1.0) * p
    # 0, but NaN for an infinite x
    return (y < LEAST).choose(x * 0.0, _scaled(m.target, q, n, whole))


def _scaled(target: Target, x: Lanes, n: Lanes, whole: Lanes) -> Lanes:
    """x * 2^n for LEAST <= n*ln2."""
    if has_scalef(target, x):
        return times_power_of_two(target, x, n, whole)
    third = whole >> 2
    factor = power_of_two(third)
    return x * power_of_two(whole - third * 3) * factor * factor * factor
