"""Stretches of the arena, and what can be said of their sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..dialects.dims import Dim, as_dim, dim_max
from ..dialects.dims.expression import Atom, Symbol, apply_call
from ..dialects.dims.reserved import THREADS

NOMINAL = 64
"""The size that a symbol is taken to have when a choice must be made for all sizes."""
NOMINAL_THREADS = 2


@dataclass(eq=False)
class Buffer:
    """A stretch of the arena, live from the op at `first` to the one at `last` in program order."""

    what: str
    size: Dim
    first: int
    last: int
    kind: str = "tensor"
    """`tensor`, `carried` (a loop's state beside its result) or `scratch` (of one kernel call)."""
    offset: Dim = field(default_factory=lambda: as_dim(0))

    @property
    def end(self) -> Dim:
        return self.offset + self.size

    def meets(self, other: Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last


def content(size: Dim) -> int:
    """The greatest common divisor of an expression's coefficients; 1 for 0."""
    return math.gcd(*(c for c, _ in size.terms)) or 1


def unit_of(size: Dim) -> Dim:
    """The expression that a size is a whole multiple of, without a common divisor of its coefficients."""
    factor = content(size)
    return size // factor if factor > 1 else size


def value_at(size: Dim, sizes: dict[str, int]) -> int:
    """The size at these values of symbols, NOMINAL for those that are not given; the least is 1.

    Where they do not broadcast, what they are broadcast to is the greater of them.
    """
    try:
        bound = {s: NOMINAL_THREADS if s == THREADS else sizes.get(s, NOMINAL) for s in size.symbols}
        return max(1, without_broadcasts(size).evaluate(bound))
    except ZeroDivisionError:
        return NOMINAL**2  # no such sizes exist, and there are others


def without_broadcasts(size: Dim) -> Dim:
    """The size with a maximum in place of each broadcast."""
    if "broadcast" not in str(size):
        return size
    return size.map_atoms(_greatest)


def _greatest(atom: Atom) -> Dim:
    if atom.args is None:
        return Dim.symbol(atom.name)
    args = [without_broadcasts(a) for a in atom.args]
    return dim_max(*args) if atom.kind == "broadcast" else apply_call(atom.kind, tuple(args))


def nominal(size: Dim) -> int:
    """The size where every symbol has its likely value."""
    return value_at(size, {})


def covers(a: Dim, b: Dim) -> bool:
    """Whether a >= b at every binding, as far as signs of coefficients tell; sizes' symbols are not negative."""
    if a is b:
        return True
    return all(c >= 0 and all(isinstance(atom, Symbol) for atom, _ in monomial) for c, monomial in (a - b).terms)
