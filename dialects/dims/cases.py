"""Sizes that a condition chooses: polynomials in indicators, each of which is 1 where the condition holds, else 0.

An indicator is `min(x, 1)` for an x that is never negative: it tells whether x is at least 1.  So does `x % 2`.  Any
comparison has one, `x >= 1` for an x of either sign `min(max(x, 0), 1)`; "and" is the product of two, "not" is `1 - i`.
`a` where i is 1, else `b`, is `b + (a - b)*i`, written without powers of indicators, without products of those of which
one follows from the other, and without the leading term of x times the indicator of x, since `x*min(max(x, 0), 1)` is
`max(x, 0)`.

Quotients, remainders and extremes of such sizes are taken of each side apart: of what a size is where a condition does
not hold nothing is left in what it is where it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from . import division, extremes
from .expression import (
    ONE,
    ZERO,
    add,
    apply_call,
    call_dim,
    constant,
    divide_monomials,
    intern,
    multiply,
    negate,
    symbol_dim,
)
from .interval import SIZE_LIMIT, is_at_least, is_at_least_without_cases

if TYPE_CHECKING:
    from .expression import Atom, Call, Dim, Monomial

Sums = dict["Monomial", int]

_TWO = constant(2)

MAX_CASES, MAX_TERMS = 3, 16
"""Conditions on which the arguments of a call may depend for it to be taken apart, and terms that they may have."""
MAX_CHOSEN = 8
"""Terms that what is taken apart may come to.  More of them stay one call: a product of such sizes, which the volume of
a tensor is, would have a term for each combination of theirs."""


class Case(NamedTuple):
    """An expression as what it is where an indicator is 1 (`margin` is at least 1), and where it is 0."""

    indicator: Call
    margin: Dim
    holds: Dim
    fails: Dim


# --- indicators -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def indicator(margin: Dim) -> Dim:
    """1 where the margin is at least 1, else 0; of a condition and its opposite one is written by the other."""
    if margin.is_const:
        return ONE if margin.value >= 1 else ZERO
    g = gcd(*(c for c, m in margin.terms if m))
    if g > 1:
        whole = add(margin, constant(g - 1))
        margin = intern(tuple((c // g, m) for c, m in whole.terms if m or c // g))
    opposite = add(ONE, negate(margin))
    if margin.terms[0][0] < 0 < opposite.terms[0][0]:
        return add(ONE, negate(indicator(opposite)))
    if is_at_least(margin, 1):
        return ONE
    if is_at_least(negate(margin), 0):
        return ZERO
    apart = by_cases((margin,), lambda args: indicator(args[0]))
    if apart is not None:
        return apart
    above = margin if is_at_least(margin, 0) else extremes.dim_max(margin, 0)
    if is_at_least(opposite, 0):
        return above
    return call_dim("min", (above, ONE))


def positive(x: Dim) -> Dim:
    """`min(x, 1)` for what is never negative: 1 where it is positive."""
    return indicator(_signed(x))


def is_cut(x: Dim) -> bool:
    """Whether it is `max(y, 0)`, however that is written."""
    return _signed(x) is not x


def margin_of(atom: Atom) -> Dim | None:
    """What is at least 1 where an indicator is 1, and at most 0 where it is 0; None for other atoms."""
    if atom.args is None:
        return None
    if atom.kind == "mod" and atom.args[1] is _TWO:
        return intern(((1, ((atom, 1),)),))
    return _margin(atom) if atom.kind == "min" and atom.args[-1] is ONE else None


@lru_cache(maxsize=1 << 14)
def _margin(call: Call) -> Dim | None:
    others = call.args[:-1]
    if not all(is_at_least(a, 0) for a in others):
        return None
    signed = [_signed(a) for a in others]
    return signed[0] if len(signed) == 1 else extremes.extremum("min", tuple(signed))


def _signed(x: Dim) -> Dim:
    """An expression that is `max(y, 0)`, however that is written, as y; others as they are."""
    for c, m in x.terms:
        if len(m) != 1 or m[0][1] != 1 or abs(c) != 1:
            continue
        call = m[0][0]
        if call.args is None or call.kind != ("max" if c > 0 else "min") or margin_of(call) is not None:
            continue
        rest = add(x, negate(intern(((c, m),))))
        parts = tuple(add(rest, a if c > 0 else negate(a)) for a in call.args)
        for part in parts:
            others = extremes.extremum("max", tuple(p for p in parts if p is not part))
            if part is ZERO or others is ZERO:
                return others if part is ZERO else part
    return x


# --- normal form ------------------------------------------------------------------------------------------------------


def merge_cases(sums: Sums) -> Sums:
    """The sum without powers and redundant products of indicators, and of an indicator with what its margin starts."""
    for _ in range(256):
        for monomial, coefficient in sums.items():
            if not coefficient or (len(monomial) < 2 and (not monomial or monomial[0][1] == 1)):
                continue
            new = _rewritten(monomial)
            if new is not None:
                sums = dict(sums)
                del sums[monomial]
                for c, m in new.terms:
                    sums[m] = sums.get(m, 0) + c * coefficient
                break
        else:
            return sums
    return sums


@lru_cache(maxsize=1 << 14)
def _rewritten(monomial: Monomial) -> Dim | None:
    """A product with an indicator in normal form; None where it is so."""
    found = [(a, power, x) for a, power in monomial if a.args is not None and (x := margin_of(a)) is not None]
    for atom, power, _ in found:
        if power > 1:
            return intern(((1, tuple((a, 1 if a is atom else p) for a, p in monomial)),))
    for at, (a, _, x) in enumerate(found):
        for b, _, y in found[at + 1 :]:
            both = _both(a, x, b, y)
            if both is not None:
                rest = intern(((1, tuple(f for f in monomial if f[0] is not a and f[0] is not b)),))
                return multiply(rest, both)
    for atom, _, margin in found:
        others = tuple(f for f in monomial if f[0] is not atom)
        new = _with_margin(atom, margin, others)
        if new is not None:
            return new
    return None


def _both(a: Call, x: Dim, b: Call, y: Dim) -> Dim | None:
    """The product of two indicators where it is one of them, or 0, or their sum less 1."""
    one, other = intern(((1, ((a, 1),)),)), intern(((1, ((b, 1),)),))
    if is_at_least_without_cases(y - x, 0):
        return one
    if is_at_least_without_cases(x - y, 0):
        return other
    if is_at_least_without_cases(1 - x - y, 0):
        return ZERO
    if is_at_least_without_cases(x + y, 1):
        return add(add(one, other), constant(-1))
    return None


def _with_margin(atom: Call, margin: Dim, others: Monomial) -> Dim | None:
    """`i * others` where others have the leading term of what i times is known."""
    for whole, value in _products(atom, margin):
        lead_c, lead = whole.terms[0]
        rest = divide_monomials(others, lead)
        if abs(lead_c) != 1 or rest is None:
            continue
        factor = intern(((lead_c, rest),))
        tail = add(whole, negate(intern(((lead_c, lead),))))
        return multiply(factor, add(value, negate(multiply(tail, intern(((1, ((atom, 1),)),))))))
    return None


def _products(atom: Call, margin: Dim) -> Iterator[tuple[Dim, Dim]]:
    """Expressions and what they are times the indicator."""
    if len(atom.args) != 2 or atom.kind == "mod":
        return
    gap = next(distance_of(margin), None)
    if gap is not None:
        yield gap, gap
        return
    yield margin, atom.args[0]
    over = margin.atom
    if over is not None and over.args is not None and over.kind == "mod" and over.args[1].is_const:
        most = add(over.args[1], constant(-1))  # what fills up is written in the place of -(x % k)
        missing = division.mod(add(most, negate(over.args[0])), over.args[1])
        if missing.atom is not None:
            yield missing, add(multiply(most, intern(((1, ((atom, 1),)),))), negate(margin))


def distance_of(x: Dim) -> Iterator[Dim]:
    """The difference d where x is its absolute value: `max(d, -d)` is `2*max(a, b) - a - b`."""
    for _, m in x.terms:
        call = m[0][0] if len(m) == 1 and m[0][1] == 1 else None
        if call is None or call.args is None or call.kind not in ("min", "max") or len(call.args) != 2:
            continue
        a, b = call.args
        twice = add(multiply(constant(2), intern(((1, m),))), negate(add(a, b)))
        if x is (twice if call.kind == "max" else negate(twice)):
            yield add(a, negate(b))


# --- apart ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def any_case(dim: Dim) -> Case | None:
    """The two sides of an expression for the first indicator in it."""
    for margin, call in _indicators(dim):
        return Case(call, margin, side_of(dim, call, margin, True), side_of(dim, call, margin, False))
    return None


@lru_cache(maxsize=1 << 14)
def case_of(dim: Dim) -> Case | None:
    """The two sides of an expression that an indicator of it chooses, for the first that is more than a step of 1."""
    for margin, call in _indicators(dim):
        times = [(c, divide_monomials(m, ((call, 1),))) for c, m in dim.terms]
        steps = [(c, m) for c, m in times if m is not None]
        if all(not m and abs(c) == 1 for c, m in steps):
            continue
        return Case(call, margin, side_of(dim, call, margin, True), side_of(dim, call, margin, False))
    return None


@lru_cache(maxsize=1 << 14)
def case_to_compute(dim: Dim) -> Case | None:
    """The two sides of an expression of which native code computes each by itself; None where it is computed as it is.

    Each condition doubles what is computed.  So of many those alone count that choose numbers beyond sizes: a term that
    is not chosen is 0 then, if what an indicator is multiplied with does not leave int64.
    """
    found = list(_indicators(dim))
    if len(found) <= MAX_CASES:
        return case_of(dim) if found else None
    if len(found) > 2 * MAX_CASES:
        return None
    large = [m for c, m in dim.terms if abs(c) > SIZE_LIMIT]
    for margin, call in found:
        if any(divide_monomials(m, ((call, 1),)) is not None for m in large):
            return Case(call, margin, side_of(dim, call, margin, True), side_of(dim, call, margin, False))
    return None


def _indicators(dim: Dim) -> Iterator[tuple[Dim, Call]]:
    seen: set[Call] = set()
    for _, m in dim.terms:
        for atom, _ in m:
            if atom.args is not None and atom not in seen and (margin := margin_of(atom)) is not None:
                seen.add(atom)
                yield margin, atom


def side_of(dim: Dim, call: Call, margin: Dim, value: bool) -> Dim:
    """The expression where the indicator has this value, without what that decides."""
    decided = {call: value}
    for other, x in ((a, x) for x, a in _indicators(dim) if a is not call):
        if value:
            answer = (
                True
                if is_at_least_without_cases(x - margin, 0)
                else False
                if is_at_least_without_cases(1 - margin - x, 0)
                else None
            )
        else:
            answer = (
                False
                if is_at_least_without_cases(margin - x, 0)
                else True
                if is_at_least_without_cases(margin + x, 1)
                else None
            )
        if answer is not None:
            decided[other] = answer
    known = add(margin, constant(-1)) if value else negate(margin)

    def replace(atom: Atom) -> Dim:
        if atom.args is None:
            return symbol_dim(atom.name)
        found = decided.get(atom)
        if found is not None:
            return ONE if found else ZERO
        return _given(atom, known)

    return dim.map_atoms(replace)


def _given(call: Call, known: Dim) -> Dim:
    """A call without the arguments that `known >= 0` makes irrelevant."""
    args = call.args
    if call.kind in ("min", "max"):
        kept = list(args)
        for a in args:
            for other in kept:
                if other is a:
                    continue
                gap = add(other, negate(a)) if call.kind == "max" else add(a, negate(other))
                if is_at_least_without_cases(gap, 0) or is_at_least_without_cases(add(gap, negate(known)), 0):
                    kept.remove(a)
                    break
        if len(kept) < len(args):
            return kept[0] if len(kept) == 1 else apply_call(call.kind, tuple(kept))
    return intern(((1, ((call, 1),)),))


def by_cases(args: tuple[Dim, ...], function: Callable[[tuple[Dim, ...]], Dim]) -> Dim | None:
    """A function of sizes of which one is chosen by a condition, as the choice of what it gives for either side.

    None where none is, and where they depend on many conditions.
    """
    case = _case_of_any(args)
    if case is None:
        return None
    call, margin = case.indicator, case.margin
    holds, fails = (function(tuple(side_of(a, call, margin, value) for a in args)) for value in (True, False))
    one = intern(((1, ((call, 1),)),))
    holds, fails = (side_of(d, call, margin, value) for d, value in ((holds, True), (fails, False)))
    chosen = add(fails, multiply(add(holds, negate(fails)), one))
    return chosen if len(chosen.terms) <= MAX_CHOSEN else None


def depends_on_cases(args: tuple[Dim, ...]) -> bool:
    """Whether one of these sizes is chosen by a condition, and they depend on few."""
    return _case_of_any(args) is not None


def _case_of_any(args: tuple[Dim, ...]) -> Case | None:
    if sum(len(a.terms) for a in args) > MAX_TERMS:
        return None
    case = next((found for a in args if (found := case_of(a)) is not None), None)
    return case if case and len({call for a in args for _, call in _indicators(a)}) <= MAX_CASES else None


__all__ = [
    "Case",
    "any_case",
    "by_cases",
    "case_of",
    "case_to_compute",
    "depends_on_cases",
    "indicator",
    "is_cut",
    "margin_of",
    "merge_cases",
    "positive",
]
