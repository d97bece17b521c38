"""What sizes in floating point rest on: bounds below which floats are exact, stated where they become integers."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ...dialects.dims import Dim, as_dim
from .context import Context, Guard
from .elements import Limit

_LEAST_LIMIT = 2**23
_LEAST_SIZE = 2**16
"""A guard that expressions stay below less than the first, or that it takes sizes below the second, is too much to ask:
it would refuse calls that the model takes, and, as a fact, decide what only small sizes decide."""


def exact_below(number: Dim, most: int) -> Limit:
    """What makes an integer one of a float type that has all integers up to `most`: factors of two do not count."""
    shared = gcd(*(c for c, _ in number.terms)) or 1
    reduced = number.divide_exactly(as_dim(shared & -shared))
    assert reduced is not None
    return Limit(reduced, most)


def _asks_too_much(d: Dim, most: int) -> bool:
    """Whether |d| <= most takes sizes, each of which a term has as often as its degree, that are small."""
    needed = (
        abs(c) * (_LEAST_SIZE ** sum(power for _, power in monomial) if monomial else 2) for c, monomial in d.terms
    )
    return most < _LEAST_LIMIT or max(needed, default=0) > most


def holds_limits(c: Context, limits: Iterable[Limit]) -> bool:
    """States that the float arithmetic behind a value was exact; False where that is too much to ask.

    Of what is `meant` only the type is asked: beyond the limit the model itself has another number than it means.
    """
    wanted: list[Guard] = []
    for d, most, meant in dict.fromkeys(limits):
        for low, high in ((d, as_dim(most)), (as_dim(-most), d)):
            proof = c.scope.facts.prove_le(low, high)
            if proof.answer is True:
                continue
            if proof.answer is False or is_data(c, d) or (most < _LEAST_LIMIT if meant else _asks_too_much(d, most)):
                return False
            wanted.append(Guard(f"{low} <= {high}", "a size in floating point is exact"))
    c.guards.extend(g for g in wanted if g not in c.guards)
    return True


def is_data(c: Context, d: Dim) -> bool:
    """Whether an expression rests on elements of tensors."""
    return any(name in c.scope.names.bound_owners for name in d.symbols)
