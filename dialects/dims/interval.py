"""Bounds of expressions: plain intervals, and a lower bound by relaxation that knows how the atoms relate.

Both are sound for every integer value of the symbols within their ranges.  Bounds are ints, or plus/minus infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .expression import Call, Dim, Monomial, Symbol
    from .samples import Values

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
        self.proved: dict[tuple[Dim, int], bool] = {}
        self._samples: dict[Symbol | Call, Values] = {}

    def __call__(self, name: str) -> Interval:
        return self._known.get(name) or default_range(name)

    def set(self, name: str, low: Bound, high: Bound) -> None:
        """Changes the range of a symbol."""
        self._known[name] = (low, high)
        self.calls, self.least, self.proved, self._samples = {}, {}, {}, {}

    def copy(self) -> Ranges:
        """The same ranges, to change apart; what is known of either is so of both until then."""
        new = Ranges(self._known)
        new.calls, new.least, new.proved, new._samples = self.calls, self.least, self.proved, self._samples
        return new

    def samples(self, atom: Symbol | Call) -> Values:
        """Values at a few bindings within the ranges."""
        found = self._samples.get(atom)
        if found is None:
            if atom.args is None:
                found = samples.within(atom.samples, *self(atom.name))
            elif atom.symbols.isdisjoint(self._known):
                found = atom.samples
            else:
                found = samples.of_call(atom.kind, [samples.of_dim(a, self.samples) for a in atom.args])
            self._samples[atom] = found
        return found


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
        return _Proof(symbol_range).lower(dim, -inf, 0)
    found = symbol_range.least.get(dim)
    if found is None:
        found = symbol_range.least[dim] = _Proof(symbol_range).lower(dim, -inf, 0)
    return found


@lru_cache(maxsize=1 << 16)
def _default_lower_bound(dim: Dim) -> Bound:
    return _Proof(default_range).lower(dim, -inf, 0)


def upper_bound(dim: Dim, symbol_range: SymbolRange = default_range) -> Bound:
    """The counterpart of `lower_bound`."""
    return min(interval(dim, symbol_range)[1], -lower_bound(-dim, symbol_range))


def is_at_least(dim: Dim, least: int, symbol_range: SymbolRange = default_range) -> bool:
    """Whether a lower bound is as much: the same rules, applied to nothing that is less somewhere."""
    if symbol_range is default_range:
        return _default_is_at_least(dim, least)
    if not isinstance(symbol_range, Ranges):
        return _Proof(symbol_range).lower(dim, least, least) >= least
    found = symbol_range.proved.get((dim, least))
    if found is None:
        found = symbol_range.proved[dim, least] = _Proof(symbol_range).lower(dim, least, least) >= least
    return found


@lru_cache(maxsize=1 << 16)
def _default_is_at_least(dim: Dim, least: int) -> bool:
    return _Proof(default_range).lower(dim, least, least) >= least


@lru_cache(maxsize=1 << 16)
def is_at_least_without_cases(dim: Dim, least: int) -> bool:
    """Whether a lower bound is as much that takes no size apart by the conditions that choose it."""
    return _Proof(default_range, takes_apart=False).lower(dim, least, least) >= least


def _ceil_div(a: Bound, b: int) -> Bound:
    return a if a in (inf, -inf) else -(-a // b)


class _Proof:
    """The search for one lower bound, by so many steps."""

    def __init__(self, symbol_range: SymbolRange, takes_apart: bool = True) -> None:
        self._range = symbol_range
        self._takes_apart = takes_apart
        self._left = _STEPS
        self._samples: Callable[[Symbol | Call], Values] | None = None
        if symbol_range is default_range:
            self._samples = _default_samples
        elif isinstance(symbol_range, Ranges):
            self._samples = symbol_range.samples

    def lower(self, dim: Dim, need: Bound, enough: Bound) -> Bound:
        """A lower bound: the best up to `enough`, or that of the interval where none is found from `need` on."""
        best = interval(dim, self._range)[0]
        if best >= enough or self._left <= 0 or len(dim.terms) > _TERMS:
            return best
        need = max(need, best + 1)
        values = self._values(dim)
        if any(v is not None and v < need for v in values):
            return best
        case = cases.any_case(dim) if self._takes_apart else None
        if case is not None:
            return max(best, self._lower_of_sides(case, need, enough))
        found = _atom_to_relax(dim, self._range)
        if found is None:
            return best
        for new in _relaxations(dim, *found, self._range):
            worst = self._lower_of_relaxed(new, values, need, enough)
            if worst >= need:
                best, need = worst, worst + 1
            if best >= enough:
                break
        return best

    def _values(self, dim: Dim) -> Values:
        return samples.of_dim(dim, self._samples) if self._samples is not None else ()

    def _lower_of_relaxed(self, new: _Relaxed, values: Values, need: Bound, enough: Bound) -> Bound:
        """The least of what the expressions of a relaxation are at least; less than `need` where one of them is."""
        need, enough = (need - 1) * new.scale + 1, (enough - 1) * new.scale + 1
        if self._samples is not None and self._is_less(new, values, need):
            return -inf
        self._left -= 1
        worst: Bound = inf
        for bound in new.bounds:
            low = self.lower(new.others * new.scale + new.factor * bound, need, enough)
            worst = min(worst, _ceil_div(low, new.scale))
            if low < need:
                break
        return worst

    def _is_less(self, new: _Relaxed, values: Values, need: Bound) -> bool:
        """Whether an expression of a relaxation is less than that at one of the samples."""
        removed, factors = self._values(new.removed), self._values(new.factor)
        for bound in new.bounds:
            for v, r, f, b in zip(values, removed, factors, self._values(bound), strict=True):
                if v is None or r is None or f is None or b is None:
                    continue
                if (v - r) * new.scale + f * b < need:
                    return True
        return False

    def _lower_of_sides(self, case: cases.Case, need: Bound, enough: Bound) -> Bound:
        """The lesser of what the two sides of a condition are at least, each also by what the condition says there."""
        worst: Bound = inf
        for side, known in ((case.holds, case.margin - 1), (case.fails, -case.margin)):
            self._left -= 1
            low = self.lower(side, need, enough)
            if low < enough:
                low = max(low, self.lower(side - known, need, enough))
            worst = min(worst, low)
            if worst < need:
                break
        return worst


def _default_samples(atom: Symbol | Call) -> Values:
    return atom.samples


class _Relaxed(NamedTuple):
    """`scale * dim` is at least the least of `scale*others + factor*bound` for the bounds; dim is others + removed."""

    scale: int
    others: Dim
    removed: Dim
    factor: Dim
    bounds: list[Dim]


def _atom_to_relax(dim: Dim, symbol_range: SymbolRange) -> tuple[int, Call, Monomial] | None:
    """(term, call, rest >= 0) of a term: one that is a case split, else the first; the others come after it."""
    first: tuple[int, Call, Monomial] | None = None
    for number, (coefficient, monomial) in enumerate(dim.terms):
        for atom, exponent in monomial:
            if exponent != 1 or atom.args is None:
                continue
            rest = tuple(f for f in monomial if f[0] is not atom)
            if rest and monomial_interval(rest, symbol_range)[0] < 0:
                continue
            kind = atom.kind
            if kind == "broadcast" or kind == ("min" if coefficient > 0 else "max"):
                return number, atom, rest
            first = first or (number, atom, rest)
    return first


def _relaxations(dim: Dim, number: int, call: Call, rest: Monomial, symbol_range: SymbolRange) -> Iterator[_Relaxed]:
    """Ways to bound `dim` from below by removing the term of this number, a multiple of `call * rest` (rest >= 0)."""
    removed = intern((dim.terms[number],))
    others = intern(dim.terms[:number] + dim.terms[number + 1 :])
    coefficient = dim.terms[number][0]
    factor = intern(((coefficient, rest),))

    def relaxed(bounds: Sequence[Dim], factor: Dim = factor, scale: int = 1) -> _Relaxed:
        return _Relaxed(scale, others, removed, factor, list(bounds))

    args = call.args
    positive = coefficient > 0
    match call.kind:
        case "broadcast":
            yield relaxed(args)
        case "max" | "min" if positive == (call.kind == "max"):
            for a in args:
                yield relaxed([a])
            if abs(coefficient) == 2 == len(args):
                yield relaxed([args[0] + args[1]], intern(((coefficient // 2, rest),)))
        case "max" | "min":
            yield relaxed(args)
        case "mod":
            numerator, divisor = args
            if interval(divisor, symbol_range)[0] < 0:
                return
            if positive:
                yield relaxed([ZERO])
                return
            if interval(numerator, symbol_range)[0] >= 0:
                yield relaxed([numerator])
            yield relaxed([divisor - 1])
        case "floordiv":
            numerator, divisor = args
            if divisor.is_const:
                k = divisor.value
                if k > 0:
                    yield relaxed([numerator - (k - 1) if positive else numerator], scale=k)
                return
            if interval(divisor, symbol_range)[0] < 0:
                return
            cofactor = factor.divide_exactly(divisor)
            if cofactor is not None:  # divisor * (numerator // divisor) is in (numerator - divisor, numerator]
                yield relaxed([numerator - (divisor - 1) if positive else numerator], cofactor)
            if interval(numerator, symbol_range)[0] >= 0:
                yield relaxed([ZERO if positive else numerator])


from . import cases, samples  # noqa: E402  (made of expressions, which have bounds)
from .expression import ZERO, intern  # noqa: E402
