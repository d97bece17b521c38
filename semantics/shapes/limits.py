"""What sizes in floating point rest on: bounds below which floats are exact, stated where they become integers."""

from __future__ import annotations

from collections.abc import Iterable

from ...dialects.dims import Dim, as_dim
from .context import Context, Guard

_LEAST_LIMIT = 2**23
"""A guard that sizes stay below less than that is too much to ask."""


def holds_limits(c: Context, limits: Iterable[tuple[Dim, int]]) -> bool:
    """States that the float arithmetic behind a value was exact; False where that is too much to ask."""
    wanted: list[Guard] = []
    for d, most in dict.fromkeys(limits):
        for low, high in ((d, as_dim(most)), (as_dim(-most), d)):
            proof = c.scope.facts.prove_le(low, high)
            if proof.answer is True:
                continue
            if proof.answer is False or most < _LEAST_LIMIT or is_data(c, d):
                return False
            wanted.append(Guard(f"{low} <= {high}", "a size in floating point is exact"))
    c.guards.extend(g for g in wanted if g not in c.guards)
    return True


def is_data(c: Context, d: Dim) -> bool:
    """Whether an expression rests on elements of tensors."""
    return any(name in c.scope.names.bound_owners for name in d.symbols)
