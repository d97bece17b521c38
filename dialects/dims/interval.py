"""Bounds of expressions: plain intervals, and a lower bound by relaxation that knows how the atoms relate.

Both are sound for every integer value of the symbols within their ranges.  Bounds are ints, or plus/minus infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from math import inf
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .expression import Call, Dim, Monomial, Symbol

Bound: TypeAlias = int | float
Interval: TypeAlias = tuple[Bound, Bound]
SymbolRange: TypeAlias = Callable[[str], Interval]

SIZE_LIMIT = 2**31
"""Sizes are below this: the range of a symbol where nothing else is known is [0, SIZE_LIMIT)."""

_SIZE: Interval = (0, SIZE_LIMIT - 1)
_INT64: Interval = (-(2**63), 2**63 - 1)
_SIGNED = re.compile(r"[vd][0-9]+")


@cache
def is_signed(name: str) -> bool:
    """Whether a symbol of this name may be negative: `v0`, `v1` (bound to data) and `d0`, `d1` (a kernel's arguments).

    All others are sizes.  The sign goes by the name so that an expression's normal form depends on its text only.
    """
    return _SIGNED.fullmatch(name) is not None


def default_range(name: str) -> Interval:
    """The range of a symbol of which nothing is known but its name."""
    return _INT64 if is_signed(name) else _SIZE


class Ranges:
    """Ranges of symbols, by default those of their names; it remembers the bounds of what it met while unchanged.

    Expressions share their parts: without that, bounds of nested calls are computed once for each way to a part.
    """

    def __init__(self, known: Mapping[str, Interval] | None = None) -> None:
        self._known = dict(known or {})
        self.calls: dict[Call, Interval] = {}
        self.least: dict[Dim, Bound] = {}

    def __call__(self, name: str) -> Interval:
        return self._known.get(name) or default_range(name)

    def set(self, name: str, low: Bound, high: Bound) -> None:
        """Changes the range of a symbol."""
        self._known[name] = (low, high)
        self.calls, self.least = {}, {}

    def copy(self) -> Ranges:
        """The same ranges, to change apart; what is known of either is so of both until then."""
        new = Ranges(self._known)
        new.calls, new.least = self.calls, self.least
        return new


def times(a: Bound, b: Bound) -> Bound:
    """a * b, where 0 * infinity is 0."""
    return 0 if a == 0 or b == 0 else a * b


def product(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return times(a[0], b[0]), times(a[1], b[1])
    corners = [times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _floordiv_bound(a: Bound, b: Bound) -> Bound:
    """a // b for b >= 1, where either may be infinite."""
    if a in (inf, -inf):
        return a if b != inf else (-1 if a < 0 else inf)
    if b == inf:
        return -1 if a < 0 else 0
    return a // b


def _floordiv(a: Interval, b: Interval) -> Interval:
    """Bounds of a // b; a divisor of zero is undefined, so a divisor that is not negative is at least 1."""
    low, high = b
    if low >= 0:
        low = max(low, 1)
        if high < low:
            return -inf, inf
        corners = [_floordiv_bound(x, y) for x in a for y in (low, high)]
        return min(corners), max(corners)
    return -inf, inf


def _mod(a: Interval, b: Interval) -> Interval:
    """Bounds of a % b, whose sign is the divisor's."""
    high = max(b[1] - 1, 0)
    if a[0] >= 0:
        high = min(high, max(a[1], 0))
    return min(b[0] + 1, 0), high


def call_interval(call: Call, symbol_range: SymbolRange) -> Interval:
    """Bounds of one call atom."""
    parts = [interval(a, symbol_range) for a in call.args]
    match call.kind:
        case "floordiv":
            return _floordiv(parts[0], parts[1])
        case "mod":
            return _mod(parts[0], parts[1])
        case "max":
            return max(p[0] for p in parts), max(p[1] for p in parts)
        case "min":
            return min(p[0] for p in parts), min(p[1] for p in parts)
        case "broadcast":  # the value is that of one of the arguments
            return min(p[0] for p in parts), max(p[1] for p in parts)


def _atom_interval(atom: Symbol | Call, symbol_range: SymbolRange) -> Interval:
    if atom.args is None:
        return symbol_range(atom.name)
    if symbol_range is default_range:
        if atom.bounds is None:
            atom.bounds = call_interval(atom, default_range)
        return atom.bounds
    if not isinstance(symbol_range, Ranges):
        return call_interval(atom, symbol_range)
    found = symbol_range.calls.get(atom)
    if found is None:
        found = symbol_range.calls[atom] = call_interval(atom, symbol_range)
    return found


def _power(base: Interval, exponent: int) -> Interval:
    low, high = base
    if low >= 0:
        return low**exponent, high**exponent
    out = base
    for _ in range(exponent - 1):
        out = product(out, base)
    return (max(out[0], 0), out[1]) if exponent % 2 == 0 else out


def monomial_interval(monomial: Monomial, symbol_range: SymbolRange) -> Interval:
    out: Interval = (1, 1)
    for atom, exponent in monomial:
        one = _atom_interval(atom, symbol_range)
        out = product(out, one if exponent == 1 else _power(one, exponent))
    return out


def interval(dim: Dim, symbol_range: SymbolRange = default_range) -> Interval:
    """Bounds of an expression, term by term."""
    low: Bound = 0
    high: Bound = 0
    for coefficient, monomial in dim.terms:
        a, b = monomial_interval(monomial, symbol_range)
        if coefficient < 0:
            a, b = b, a
        low += times(coefficient, a)
        high += times(coefficient, b)
    return low, high


# --- relaxation -------------------------------------------------------------------------------------------------------

_STEPS = 48  # expressions tried for one bound; past it the plain interval stands
_TERMS = 24  # longer expressions have their plain interval


def lower_bound(dim: Dim, symbol_range: SymbolRange = default_range) -> Bound:
    """A lower bound, at least as good as the interval's, that also uses how atoms relate to what they are made of.

    `N - N//2 >= 0`, `max(N, M) - M >= 0`, `N - N % B >= 0`: each call atom in turn is replaced by an expression that
    bounds it from the side that its coefficient needs, and the best choice counts.
    """
    if symbol_range is default_range:
        return _default_lower_bound(dim)
    if not isinstance(symbol_range, Ranges):
        return _lower(dim, symbol_range, [_STEPS, 1])
    found = symbol_range.least.get(dim)
    if found is None:
        found = symbol_range.least[dim] = _lower(dim, symbol_range, [_STEPS, 1])
    return found


@lru_cache(maxsize=1 << 16)
def _default_lower_bound(dim: Dim) -> Bound:
    return _lower(dim, default_range, [_STEPS, 1])


@lru_cache(maxsize=1 << 16)
def bound_without_cases(dim: Dim) -> Bound:
    """A lower bound that takes no size apart by the conditions that choose it."""
    return _lower(dim, default_range, [_STEPS, 0])


def upper_bound(dim: Dim, symbol_range: SymbolRange = default_range) -> Bound:
    """The counterpart of `lower_bound`."""
    return min(interval(dim, symbol_range)[1], -lower_bound(-dim, symbol_range))


def _ceil_div(a: Bound, b: int) -> Bound:
    return a if a in (inf, -inf) else -(-a // b)


def _lower(dim: Dim, symbol_range: SymbolRange, budget: list[int]) -> Bound:
    """`budget` is the steps that are left, and whether conditions tell."""
    best = interval(dim, symbol_range)[0]
    if best >= 0 or budget[0] <= 0 or len(dim.terms) > _TERMS:
        return best
    case = cases.any_case(dim) if budget[1] else None
    if case is not None:
        return max(best, _lower_of_sides(case, symbol_range, budget))
    found = _atom_to_relax(dim, symbol_range)
    if found is None:
        return best
    for scale, choices in _relaxations(dim, *found, symbol_range):
        budget[0] -= 1
        worst: Bound = inf
        for choice in choices:
            worst = min(worst, _ceil_div(_lower(choice, symbol_range, budget), scale))
            if worst <= best:
                break
        best = max(best, worst)
        if best >= 0:
            break
    return best


def _lower_of_sides(case: cases.Case, symbol_range: SymbolRange, budget: list[int]) -> Bound:
    """The lesser of what the two sides of a condition are at least, each also by what the condition says there."""
    worst: Bound = inf
    for side, known in ((case.holds, case.margin - 1), (case.fails, -case.margin)):
        budget[0] -= 1
        low = _lower(side, symbol_range, budget)
        if low < 0:
            low = max(low, _lower(side - known, symbol_range, budget))
        worst = min(worst, low)
        if worst == -inf:
            break
    return worst


def _atom_to_relax(dim: Dim, symbol_range: SymbolRange) -> tuple[int, Call, Monomial] | None:
    """(coefficient, call, rest >= 0) of a term: one that is a case split, else the first; the others come after it."""
    first: tuple[int, Call, Monomial] | None = None
    for coefficient, monomial in dim.terms:
        for atom, exponent in monomial:
            if exponent != 1 or atom.args is None:
                continue
            rest = tuple(f for f in monomial if f[0] is not atom)
            if rest and monomial_interval(rest, symbol_range)[0] < 0:
                continue
            kind = atom.kind
            if kind == "broadcast" or kind == ("min" if coefficient > 0 else "max"):
                return coefficient, atom, rest
            first = first or (coefficient, atom, rest)
    return first


def _relaxations(
    dim: Dim, coefficient: int, call: Call, rest: Monomial, symbol_range: SymbolRange
) -> Iterator[tuple[int, list[Dim]]]:
    """Ways to bound `dim` from below by removing `coefficient * call * rest` (rest >= 0) from it.

    Yields (scale, expressions): scale * dim is at least the least of the expressions.
    """
    factor = dim.of_terms(((coefficient, rest),))
    others = dim - factor * dim.of_terms(((1, ((call, 1),)),))
    args = call.args
    positive = coefficient > 0
    match call.kind:
        case "broadcast":
            yield 1, [others + factor * a for a in args]
        case "max" if positive:
            for a in args:
                yield 1, [others + factor * a]
            if coefficient == 2 == len(args):
                yield 1, [others + dim.of_terms(((1, rest),)) * (args[0] + args[1])]
        case "max":
            yield 1, [others + factor * a for a in args]
        case "min" if not positive:
            for a in args:
                yield 1, [others + factor * a]
            if -coefficient == 2 == len(args):
                yield 1, [others - dim.of_terms(((1, rest),)) * (args[0] + args[1])]
        case "min":
            yield 1, [others + factor * a for a in args]
        case "mod":
            numerator, divisor = args
            if interval(divisor, symbol_range)[0] < 0:
                return
            if positive:
                yield 1, [others]
                return
            if interval(numerator, symbol_range)[0] >= 0:
                yield 1, [others + factor * numerator]
            yield 1, [others + factor * (divisor - 1)]
        case "floordiv":
            yield from _relax_floordiv(others, factor, args, positive, symbol_range)


def _relax_floordiv(
    others: Dim, factor: Dim, args: tuple[Dim, ...], positive: bool, symbol_range: SymbolRange
) -> Iterator[tuple[int, list[Dim]]]:
    numerator, divisor = args
    if divisor.is_const:
        k = divisor.value
        if k > 0:
            bound = numerator - (k - 1) if positive else numerator
            yield k, [others * k + factor * bound]
        return
    if interval(divisor, symbol_range)[0] < 0:
        return
    cofactor = factor.divide_exactly(divisor)
    if cofactor is not None:  # divisor * (numerator // divisor) is in (numerator - divisor, numerator]
        bound = numerator - (divisor - 1) if positive else numerator
        yield 1, [others + cofactor * bound]
    if interval(numerator, symbol_range)[0] >= 0:
        yield 1, [others if positive else others + factor * numerator]


from . import cases  # noqa: E402  (made of expressions, which have bounds)
