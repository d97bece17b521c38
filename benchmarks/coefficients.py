"""Derives the polynomial coefficients of codegen/math_f32.py and math_wide.py (needs mpmath; run by hand).

Each entry of `FITS` is one polynomial: the function that it stands for, the interval, and the weight of the error.
`fit` finds the minimax polynomial by Remez' exchange, then rounds the coefficients to the working precision one after
the other, the most sensitive first, and fits the others again each time; so rounding costs little accuracy.

    python benchmarks/coefficients.py            # prints all tables
    python benchmarks/coefficients.py exp erf    # some of them
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mpmath as mp
import numpy as np

mp.mp.prec = 160

Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """`function(t)` as the sum of c_k * t^powers[k] on [low, high], minimizing `weight(t) * |error|`."""

    function: Function
    low: float
    high: float
    powers: Sequence[int]
    weight: Function
    bits: int = 24


def _extrema(error: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    """Where the weighted error alternates: the largest point of each run of one sign on a Chebyshev grid."""
    n = 60 * count
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]
    values = [error(t) for t in grid]
    runs: list[tuple[mp.mpf, mp.mpf]] = []
    for t, value in zip(grid, values):
        if runs and (value >= 0) == (runs[-1][1] >= 0):
            if abs(value) > abs(runs[-1][1]):
                runs[-1] = (t, value)
        else:
            runs.append((t, value))
    while len(runs) > count:
        least = min(range(len(runs)), key=lambda i: abs(runs[i][1]))
        if len(runs) == count + 1 or least in (0, len(runs) - 1):
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        else:  # the neighbours have one sign: the larger stays
            smaller = least - 1 if abs(runs[least - 1][1]) < abs(runs[least + 1][1]) else least + 1
            for i in sorted((least, smaller), reverse=True):
                runs.pop(i)
    return [t for t, _ in runs]


def _error(coefficients: Sequence[mp.mpf], powers: Sequence[int], target: Function, weight: Function) -> Function:
    """The weighted error of a polynomial."""

    def error(t: mp.mpf) -> mp.mpf:
        return (sum((c * t**p for c, p in zip(coefficients, powers)), mp.mpf(0)) - target(t)) * weight(t)

    return error


def remez(fit: Fit, powers: Sequence[int], target: Function) -> tuple[list[mp.mpf], mp.mpf]:
    """Minimax coefficients of `target` over `powers`, and the weighted error."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    count = len(powers) + 1
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    coefficients: list[mp.mpf] = []
    worst = mp.mpf(0)
    for _ in range(30):
        matrix = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, t in enumerate(points):
            for k, power in enumerate(powers):
                matrix[i, k] = t**power * fit.weight(t)
            matrix[i, count - 1] = (-1) ** i
            right[i] = target(t) * fit.weight(t)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[k] for k in range(len(powers))]

        error = _error(coefficients, powers, target, fit.weight)
        found = _extrema(error, low, high, count)
        if len(found) < count:
            worst = abs(solution[count - 1])
            break
        worst = max(abs(error(t)) for t in found)
        if worst <= abs(solution[count - 1]) * mp.mpf("1.0005"):
            break
        points = found
    return coefficients, worst


def _round(value: mp.mpf, bits: int) -> float:
    return float(np.float32(float(value))) if bits == 24 else float(value)


def _remainder(spec: Fit, fixed: Sequence[float], first: int) -> tuple[Function, Function]:
    """What the first coefficients leave over, and its weight, both divided by the power that comes next.

    (So all is well where the interval has 0 inside, although all powers that are left vanish there.)
    """
    known = list(zip(fixed, spec.powers))

    def target(t: mp.mpf) -> mp.mpf:
        t = t if t else mp.mpf(2) ** -35
        return (spec.function(t) - sum((mp.mpf(c) * t**p for c, p in known), mp.mpf(0))) / t**first

    return target, lambda t: spec.weight(t) * abs(t) ** first


def fit(spec: Fit) -> tuple[list[float], float]:
    """Rounded coefficients in the order of the powers, and the weighted error with them."""
    fixed: list[float] = []
    while len(fixed) < len(spec.powers):
        rest = spec.powers[len(fixed) :]
        target, weight = _remainder(spec, fixed, rest[0])
        coefficients, _ = remez(replace(spec, weight=weight), [p - rest[0] for p in rest], target)
        fixed.append(_round(coefficients[0], spec.bits))
    low, high = mp.mpf(spec.low), mp.mpf(spec.high)
    worst = mp.mpf(0)
    for i in range(2001):
        t = low + (high - low) * i / 2000
        value = sum((mp.mpf(c) * t**p for c, p in zip(fixed, spec.powers)), mp.mpf(0))
        worst = max(worst, abs(value - spec.function(t)) * spec.weight(t))
    return fixed, float(worst)


def _limit(function: Function, at_zero: float) -> Function:
    """The function with its limit where it is 0/0, and where 160 bits cancel too much."""
    return lambda t: function(t) if abs(t) > mp.mpf(2) ** -40 else mp.mpf(at_zero)


def _odd(function: Function, derivative: float, cubic: float) -> Function:
    """p of function(x) = derivative*x + x^3 * p(x^2)."""
    return _limit(lambda t: (function(mp.sqrt(t)) / mp.sqrt(t) - derivative) / t, cubic)


def _odd_weight(function: Function, derivative: float) -> Function:
    return lambda t: t / (function(mp.sqrt(t)) / mp.sqrt(t)) if t > 0 else mp.mpf(0)


def _cos_rest(t: mp.mpf) -> mp.mpf:
    return (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2


QUARTER_PI = 0.7854
ROOT_HALF, ROOT_TWO = -0.29290, 0.41422

FITS: dict[str, Fit] = {
    # 2^r = 1 + r * p(r)
    "exp2": Fit(_limit(lambda r: (2**r - 1) / r, float(mp.log(2))), -0.5, 0.5001, range(6), lambda r: abs(r) / 2**r),
    # log(1 + f) = f - f^2/2 + f^3 * p(f)
    "log": Fit(
        _limit(lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, 1 / 3),
        ROOT_HALF,
        ROOT_TWO,
        range(8),
        lambda f: abs(f) ** 2,
    ),
    # sin(x) = x + x^3 * p(x^2), cos(x) = 1 - x^2/2 + x^4 * p(x^2)
    "sin": Fit(_odd(mp.sin, 1, -1 / 6), 0.0, QUARTER_PI**2, range(3), _odd_weight(mp.sin, 1)),
    "cos": Fit(_limit(_cos_rest, 1 / 24), 0.0, QUARTER_PI**2, range(3), lambda t: t**2),
    "asin": Fit(_odd(mp.asin, 1, 1 / 6), 0.0, 0.2501, range(5), _odd_weight(mp.asin, 1)),
    "atan": Fit(_odd(mp.atan, 1, -1 / 3), 0.0, 1.0, range(9), _odd_weight(mp.atan, 1)),
    "sinh": Fit(_odd(mp.sinh, 1, 1 / 6), 0.0, 1.01, range(4), _odd_weight(mp.sinh, 1)),
    # f64, for f32 results
    # log((1 + s)/(1 - s)) = 2*s + s^3 * p(s^2)
    "log_f64": Fit(
        _odd(lambda s: 2 * mp.atanh(s), 2, 2 / 3),
        0.0,
        0.02945,
        range(5),
        _odd_weight(lambda s: 2 * mp.atanh(s), 2),
        53,
    ),
    "exp2_f64": Fit(
        _limit(lambda r: (2**r - 1) / r, float(mp.log(2))), -0.5, 0.5001, range(7), lambda r: abs(r) / 2**r, 53
    ),
    "sin_f64": Fit(_odd(mp.sin, 1, -1 / 6), 0.0, QUARTER_PI**2, range(4), _odd_weight(mp.sin, 1), 53),
    "cos_f64": Fit(_limit(_cos_rest, 1 / 24), 0.0, QUARTER_PI**2, range(4), lambda t: t**2, 53),
}


def main(names: Sequence[str]) -> None:
    for name in names or FITS:
        coefficients, error = fit(FITS[name])
        print(f"{name}: error 2^{float(mp.log(error, 2)):.2f}")
        print("    (" + ", ".join(map(repr, coefficients)) + ")")


if __name__ == "__main__":
    main(sys.argv[1:])
