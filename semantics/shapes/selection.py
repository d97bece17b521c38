"""Which of two sizes it is, where a condition on sizes tells: booleans and choices as expressions."""

from __future__ import annotations

from ...dialects.dims.expression import ONE, Dim, dim_max, dim_min
from ..facts import Contradiction, Facts, simplified
from .elements import Truth

_MAX_TERMS = 12
"""A choice of more terms is not worth an expression."""

_MAX_CHOICES = 3
"""Nor is one between sizes in which choices stand deeper in one another: each level is tried with those outside it."""


def truth_of(value: Dim | Truth) -> Truth:
    """A boolean that sizes decide, given as 0 and 1, as a condition."""
    return value if isinstance(value, Truth) else Truth(ONE, "<=", value)


def indicator(value: Dim | Truth) -> Dim | None:
    """1 where the condition holds, else 0; None where it rests on limits of floats."""
    if isinstance(value, Dim):
        return value
    if value.limits:
        return None
    gap = value.right - value.left
    one = dim_min(dim_max(gap + 1, 0), 1) if value.op == "<=" else ONE - dim_min(dim_max(gap, -gap), 1)
    return ONE - one if value.negated else one


def chosen(facts: Facts, truth: Truth, x: Dim, y: Dim) -> Dim | None:
    """x where the condition holds, else y; as the greater or the lesser of the two where the condition says that."""
    if x is y:
        return x
    one = indicator(truth)
    if one is None or max(d.choices for d in (x, y, one)) > _MAX_CHOICES:
        return None
    sides = {value: facts.copy() for value in (True, False)}
    for value, known in sides.items():
        try:
            known.assume(truth.condition(value))
        except Contradiction:
            return y if value else x
    x, y = simplified(x, sides[True]), simplified(y, sides[False])
    found = _extremum_of(sides, x, y)
    if found is None:
        found = y + (x - y) * one
    return found if len(found.terms) <= _MAX_TERMS else None


def _extremum_of(sides: dict[bool, Facts], x: Dim, y: Dim) -> Dim | None:
    if sides[True].prove_eq(x, y):
        return y
    if sides[False].prove_eq(x, y):
        return x
    if sides[True].prove_le(y, x) and sides[False].prove_le(x, y):
        return dim_max(x, y)
    if sides[True].prove_le(x, y) and sides[False].prove_le(y, x):
        return dim_min(x, y)
    return None


def filled_choice(facts: Facts, truth: Truth, x: Dim, y: Dim) -> Dim | None:
    """x where the condition holds, else y, as one of the two with a symbol kept to the values that it has there.

    `M == 0 ? N : broadcast(M, N)` is `broadcast(max(M, 1), N)`.  So the other side need not have a value for what the
    condition rules out.
    """
    bounds = [d.value for d in (truth.left, truth.right) if d.is_const]
    if truth.limits or len(bounds) != 1:
        return None
    for value, here, there in ((True, x, y), (False, y, x)):
        inside, outside = facts.copy(), facts.copy()
        try:
            inside.assume(truth.condition(value))
            outside.assume(truth.condition(not value))
        except Contradiction:
            continue
        for name in sorted((truth.left.symbols | truth.right.symbols) & there.symbols):
            symbol = Dim.symbol(name)
            for bound in (bounds[0] + step for step in (-1, 0, 1)):
                for kept in (dim_max(symbol, bound), dim_min(symbol, bound)):
                    found = there.subs({name: kept})
                    if outside.prove_eq(kept, symbol) and inside.prove_eq(simplified(found, inside), here):
                        return found
    return None


def is_total(d: Dim) -> bool:
    """Whether an expression has a value whatever its symbols: no quotient by a size, nothing that must broadcast."""
    for _, monomial in d.terms:
        for atom, _ in monomial:
            if atom.args is None:
                continue
            if atom.kind == "broadcast" or (atom.kind in ("floordiv", "mod") and not atom.args[1].is_const):
                return False
            if not all(map(is_total, atom.args)):
                return False
    return True


__all__ = ["chosen", "filled_choice", "indicator", "is_total", "truth_of"]
