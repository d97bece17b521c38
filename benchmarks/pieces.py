"""Derives codegen/math_tables.py: functions by 16 pieces each (needs mpmath; run by hand, a few minutes).

    python benchmarks/pieces.py > codegen/math_tables.py

A piece is a center c, the value there, and a polynomial for (f(c + d) - f(c)) / d.  The centers are such that the value
is nearly a number of f32 (S. Gal's accurate tables), so that of a piece only the last addition rounds noticeably.
Polynomials are fitted by weighted least squares that are made minimax (Lawson), their coefficients rounded one after
the other.  Which piece a number is in is a few bits of it plus or minus another number: see `codegen/math_f32.py`.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.prec = 120

Function = Callable[[mp.mpf], mp.mpf]
PIECES = 16
NODES = 60
CENTERS_TRIED = 1500
"""On each side of a piece's middle, over 6 % of its width."""


@dataclass(frozen=True)
class Table:
    """f on [0, top]: pieces between `edges`, each at the index that `index` gives; `slopes` coefficients each.

    The first piece has center 0; `linear` is what is added to it otherwise, as a multiple of x (0: nothing, then its
    first coefficient is 1).
    """

    function: Function
    edges: Sequence[float]
    index: Callable[[float], int]
    top: float
    slopes: int
    linear: float


def low_bits(x: float, shift: int) -> int:
    """Four bits of an f32, from bit number `shift` on."""
    return int(np.array([x], np.float32).view(np.uint32)[0]) >> shift & PIECES - 1


def nearly_exact(f: Function, middle: float, width: float) -> tuple[float, float]:
    """A number of f32 near the middle whose value is nearly one, too; and the value."""
    start = np.array([middle], np.float32).view(np.uint32)[0]
    step = max(1, int(width * 0.06 / CENTERS_TRIED / float(np.spacing(np.float32(middle)))))

    def error(center: float) -> mp.mpf:
        value = f(mp.mpf(center))
        return abs(mp.mpf(float(np.float32(float(value)))) - value) / value

    numbers = [int(start) + k * step for k in range(-CENTERS_TRIED, CENTERS_TRIED + 1)]
    best = min((float(n) for n in np.array(numbers, np.uint32).view(np.float32)), key=error)
    return best, float(np.float32(float(f(mp.mpf(best)))))


def fit(
    f: Function, low: float, high: float, center: float, count: int, weight: Function, first: Sequence[float] = ()
) -> list[float]:
    """Coefficients of (f(center + d) - f(center)) / d, of which the first may be given."""
    cosines = np.cos(np.pi * (2 * np.arange(NODES) + 1) / (2 * NODES))
    points = [(mp.mpf(low) + high) / 2 + (mp.mpf(high) - low) / 2 * mp.mpf(float(c)) for c in cosines]
    at = f(mp.mpf(center)) if center else mp.mpf(0)
    target = np.array([float((f(x) - at) / (x - center)) for x in points])
    d = np.array([float(x - center) for x in points])
    return minimax(d, target, np.abs(d) * np.array([float(weight(x)) for x in points]), count, first, 12)


def minimax(
    d: np.ndarray, target: np.ndarray, weight: np.ndarray, count: int, first: Sequence[float], rounds: int
) -> list[float]:
    """Rounded coefficients of the target as a polynomial of d."""
    fixed = list(first)
    while len(fixed) < count:
        powers = np.stack([d**k for k in range(len(fixed), count)], 1) * weight[:, None]
        rest = (target - sum((c * d**k for k, c in enumerate(fixed)), np.zeros_like(d))) * weight
        shares = np.ones_like(d)
        solution = np.zeros(powers.shape[1])
        for _ in range(rounds):
            roots = np.sqrt(shares)
            solution = np.linalg.lstsq(powers * roots[:, None], rest * roots, rcond=None)[0]
            error = np.abs(powers @ solution - rest)
            shares = shares * (error + 1e-3 * error.max() + 1e-30)
            shares /= shares.sum()
        fixed.append(float(np.float32(solution[0])))
    return fixed


def columns(table: Table) -> np.ndarray:
    """For each index a row: center, value, coefficients. Indices that no number has are as the last piece."""
    f = table.function
    rows, last = np.zeros((PIECES, 2 + table.slopes)), np.zeros(2 + table.slopes)
    for low, high in itertools.pairwise(table.edges):
        end = min(high, table.top)
        at = table.index((low + high) / 2)
        if low >= table.top:
            rows[at] = last
            continue
        if low == 0:
            first = () if table.linear else (1.0,)
            rest = fit(lambda x: f(x) - table.linear * x, 1e-6, end, 0.0, table.slopes, lambda x: 1 / f(x), first)
            last = np.array([0.0, 0.0, *rest])
        else:
            center, value = nearly_exact(f, (low + end) / 2, end - low)
            last = np.array([center, value, *fit(f, low, end, center, table.slopes, lambda x: 1 / f(x))])
        rows[at] = last
    return rows


def steps(*parts: tuple[float, float, int]) -> list[float]:
    """Edges: so many pieces of a width, from a start on."""
    return [start + width * k for start, width, count in parts for k in range(count)] + [
        parts[-1][0] + parts[-1][1] * parts[-1][2]
    ]


BY_OCTAVES = steps((0, 0.25, 4), (1, 0.5, 4), (3, 1, 4), (7, 2, 4))
TABLES = {
    "ERF": Table(mp.erf, steps((0, 0.25, 8), (2, 0.5, 8)), lambda x: low_bits(x + 2, 20), 4.0, 6, 1.0),
    "TANH": Table(mp.tanh, BY_OCTAVES, lambda x: low_bits(x + 1, 21), 9.2, 6, 1.0),
    # 2a * Phi(-a)
    "GELU": Table(
        lambda a: a * mp.erfc(a / mp.sqrt(2)),
        steps((0, 0.5, 6), (3, 0.25, 8)),
        lambda x: low_bits(7 - x, 20),
        5.0,
        6,
        0.0,
    ),
    # 2a * Phi(-a) * exp(a^2/2)
    "NORMAL_TAIL": Table(
        lambda a: a * mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2),
        BY_OCTAVES,
        lambda x: low_bits(x + 1, 21),
        15.0,
        6,
        1.0,
    ),
}


def exp_coefficients(count: int) -> list[float]:
    """(expm1(r) - r) / r^2 for |r| <= ln2/32."""
    r = np.log(2) / 32 * 1.002 * np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    target = np.array([float((mp.expm1(mp.mpf(x)) - x) / mp.mpf(x) ** 2) for x in r])
    return minimax(r, target, r**2, count, (), 60)


HEAD = '''"""Tables and coefficients of the functions of f32 that go by pieces; from `benchmarks/pieces.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pieces:
    """A function around 16 centers, each column one piece: value + d*(slopes[0] + slopes[1]*d + ...) at center + d."""

    centers: Sequence[float]
    values: Sequence[float]
    slopes: Sequence[Sequence[float]]


# fmt: off'''


def written(values: Sequence[float], indent: int = 0) -> str:
    """A tuple in Python, of numbers of f32."""
    text, pad = ", ".join(repr(float(np.float32(v))) for v in values), " " * indent
    if len(text) < 100:
        return f"({text})"
    body = textwrap.fill(text, 116, initial_indent=f"{pad}    ", subsequent_indent=f"{pad}    ")
    return f"(\n{body},\n{pad})"


def main() -> None:
    roots = 2.0 ** (np.arange(PIECES) / PIECES)
    rounded = roots.astype(np.float32).astype(np.float64)
    print(HEAD)
    print(f'ROOTS = {written(rounded)}\n"""2^(j/16) in f32."""\n')
    print(f'ROOTS_LOW = {written((roots - rounded) / rounded)}\n"""What is missing of them, relative to them."""\n')
    print(f'EXP = {written(exp_coefficients(2))}\n"""expm1(r) = r + r^2*p(r) for |r| <= ln2/32."""\n')
    print(f'EXPM1 = {written(exp_coefficients(3))}\n"""The same, nearer."""\n')
    for name, table in TABLES.items():
        print(f"{name}: ...", file=sys.stderr, flush=True)
        rows = columns(table)
        if name == "GELU":  # 7 - a is 7 for a tiny a
            rows[low_bits(7.0, 20)] = rows[low_bits(6.75, 20)]
        lines = "".join(f"        {written(rows[:, k], 8)},\n" for k in range(2, 2 + table.slopes))
        print(
            f"{name} = Pieces(\n    {written(rows[:, 0], 4)},\n    {written(rows[:, 1], 4)},\n    (\n{lines}    ),\n)"
        )


if __name__ == "__main__":
    main()
