"""What sizes in floating point rest on: bounds below which floats are exact, stated where they become integers."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ...dialects.dims import Dim, as_dim
from .context import Context, Guard

_LEAST_LIMIT = 2**23
_LEAST_SIZE = 2**16
"""A guard that expressions stay below less than the first, or that it takes sizes below the second, is too much to ask:
it would refuse calls that the model takes, and, as a fact, decide what only small sizes decide."""


def exact_below(number: Dim, most: int) -> tuple[Dim, int]:
    """What makes an integer one of a float type that has all integers up to `most`: factors of two do not count."""
    shared = gcd(*(c for c, _ in number.terms)) or 1
    reduced = number.divide_exactly(as_dim(shared & -shared))
    assert reduced is not None
    return reduced, most


def _asks_too_much(d: Dim, most: int) -> bool:
    """Whether |d| <= most takes sizes, each of which a term has as often as its degree, that are small."""
    needed = (
        abs(c) * (_LEAST_SIZE ** sum(power for _, power in monomial) if monomial else 2) for c, monomial in d.terms
    )
    return most < _LEAST_LIMIT or max(needed, default=0) > most


def holds_limits(c: Context, limits: Iterable[tuple[Dim, int]]) -> bool:
    """States that the float arithmetic behind a value was exact; False where that is too much to ask."""
    wanted: list[Guard] = []
    for d, most in dict.fromkeys(limits):
        for low, high in ((d, as_dim(most)), (as_dim(-most), d)):
            proof = c.scope.facts.prove_le(low, high)
            if proof.answer is True:
                continue
            if proof.answer is False or _asks_too_much(d, most) or is_data(c, d):
                return False
            wanted.append(Guard(f"{low} <= {high}", "a size in floating point is exact"))
    c.guards.extend(g for g in wanted if g not in c.guards)
    return True


def is_data(c: Context, d: Dim) -> bool:
    """Whether an expression rests on elements of tensors."""
    return any(name in c.scope.names.bound_owners for name in d.symbols)
