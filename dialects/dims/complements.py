"""Atoms that determine each other: of the ways to write a sum, normal form keeps the shorter.

`min(a, b) + max(a, b)` is `a + b`; `x % k + k*(x//k)` is `x`; `x//k + (k - 1 - x)//k` is 0, a quotient rounded down and
one rounded up; `x % k + (k - 1 - x) % k` is `k - 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from . import division, extremes
from .expression import (
    ONE,
    Atom,
    Call,
    Dim,
    Monomial,
    add,
    call_dim,
    constant,
    divide_monomials,
    multiply,
    multiply_monomials,
    negate,
)


class Relation(NamedTuple):
    """`first + times*second == total`, with an atom in each of the monomials first and second."""

    first: Monomial
    times: int
    second: Monomial
    total: Dim
    only_plus: bool  # whether neither of the two is to be written with a minus in place of the other
    prefers_first: bool  # among equally short ways: a remainder has better bounds than a difference of two
    keeps_second: bool = False  # whether the second is never written by the first: an indicator stays one

    @property
    def monomials(self) -> frozenset[Monomial]:
        """Those whose coefficients decide what is written by what."""
        return frozenset((self.first, self.second, *(m for _, m in self.total.terms)))


Sums = dict[Monomial, int]


def merge_complements(sums: Sums, changed: set[Monomial] | None = None) -> tuple[Sums, bool]:
    """Chooses between atoms that determine each other; also whether nothing is left to choose.

    Of the ways to write the sum with only one of a pair, the shorter is taken, else that with a remainder or with
    positive coefficients.  `changed` are the monomials in which the sum differs from one that nothing is left of:
    without, all of them.
    """
    for _ in range(8):
        for monomial in sums:
            found = (s for f in monomial if (s := _rewritten(sums, monomial, f, changed)) is not None)
            shorter = next(found, None)
            if shorter is None:
                shorter = _rounded_by_condition(sums, monomial)
            if shorter is not None:
                if changed is not None:
                    changed = changed | {m for m in {**sums, **shorter} if sums.get(m, 0) != shorter.get(m, 0)}
                sums = shorter
                break
        else:
            return sums, True
    return sums, False


def _rewritten(sums: Sums, monomial: Monomial, factor: tuple[Atom, int], changed: set[Monomial] | None) -> Sums | None:
    """The sum with one pair written the preferred way; None where it is so already."""
    atom, power = factor
    if atom.args is None or power != 1:
        return None
    for relation, monomials in _relations(atom):
        if changed is not None and len(monomial) == 1 and changed.isdisjoint(monomials):
            continue
        found = _with_relation(sums, monomial, atom, relation)
        if found is not None:
            return found
    return None


def _remainder_tested(atom: Atom) -> Call | None:
    """The remainder by a constant of which an indicator tells that it is not 0."""
    if atom.args is None:
        return None
    if atom.kind == "min" and len(atom.args) == 2 and atom.args[1] is ONE:
        over = atom.args[0].atom
        return over if over is not None and over.args is not None and _is_remainder(over) else None
    return atom if _is_remainder(atom) and atom.args[1].value == 2 else None


def _is_remainder(call: Call) -> bool:
    return call.kind == "mod" and call.args[1].is_const


def _rounded_by_condition(sums: Sums, monomial: Monomial) -> Sums | None:
    """What a condition on a remainder rounds up: `x//k + min(x % k, 1)`, or fills up: `k*min(x % k, 1) - x % k`."""
    for atom, power in monomial:
        over = _remainder_tested(atom) if power == 1 else None
        if over is None:
            continue
        rest, c, (x, k) = divide_monomials(monomial, ((atom, 1),)) or (), sums[monomial], over.args
        number = division.floordiv(x, k).atom
        below = multiply_monomials(rest, ((over, 1),))
        if c % k.value == 0:
            most, times, missing = constant(k.value - 1), c // k.value, division.mod(negate(x), k)
            if sums.get(below) == -times:
                return _replaced(sums, rest, missing, {monomial: -c, below: times}, times)
            other = division.mod(add(most, negate(x)), k).atom
            if other is not None and sums.get(above := multiply_monomials(rest, ((other, 1),))) == times:
                return _replaced(sums, rest, add(missing, most), {monomial: -c, above: -times}, times)
        if number is not None and sums.get(whole := multiply_monomials(rest, ((number, 1),))) == c:
            up = division.floordiv(add(x, constant(k.value - 1)), k)
            return _replaced(sums, rest, up, {monomial: -c, whole: -c}, c)
    return None


def _with_relation(sums: Sums, monomial: Monomial, atom: Call, relation: Relation) -> Sums | None:
    first, k, second, total, only_plus, prefers_first, keeps_second = relation
    rest = divide_monomials(monomial, first if first[0][0] is atom else second)
    if rest is None:
        return None
    one, other = multiply_monomials(rest, first), multiply_monomials(rest, second)
    p, q = sums.get(one, 0), sums.get(other, 0)
    if not (p and q) and not _may_shorten(sums, rest, total, -p if p else -(q // k)):
        return None
    choices = [_replaced(sums, rest, total, {one: -p, other: -k * p}, p)]
    if q % k == 0 and not keeps_second:
        choices.append(_replaced(sums, rest, total, {one: -q // k, other: -q}, q // k))

    if only_plus:
        choices = [terms for terms in choices if terms.get(one, 0) >= 0 and terms.get(other, 0) >= 0]

    def rank(terms: Sums) -> tuple[int, int, int]:
        if prefers_first:
            return len(terms), int(one not in terms), 0
        return len(terms), -terms.get(one, 0), -terms.get(other, 0)

    best = min(choices, key=rank, default=sums)
    return best if rank(best) < rank(sums) else None


def _may_shorten(sums: Sums, rest: Monomial, total: Dim, times: int) -> bool:
    """Whether taking away `times * rest * total` removes as many terms as it adds."""
    gain = 0
    for c, m in total.terms:
        there = sums.get(multiply_monomials(rest, m), 0)
        gain += (there == c * times) - (there == 0)
    return gain >= 0


def _replaced(sums: Sums, rest: Monomial, total: Dim, change: Sums, times: int) -> Sums:
    """The sum with coefficients changed and `times * rest * total` added."""
    out = dict(sums)
    for m, c in change.items():
        out[m] = out.get(m, 0) + c
    if times:
        for c, m in total.terms:
            m = multiply_monomials(rest, m)
            out[m] = out.get(m, 0) + c * times
    return {m: c for m, c in out.items() if c}


@lru_cache(maxsize=1 << 14)
def _relations(atom: Call) -> tuple[tuple[Relation, frozenset[Monomial]], ...]:
    """What determines an atom, and the atom it; with the monomials of each relation."""
    return tuple((relation, relation.monomials) for relation in _pairs(atom))


def _pairs(atom: Call) -> Iterator[Relation]:
    a, b = atom.args[:2]
    shifted = atom.kind == "min" and b is ONE and a.constant_term != 0  # an indicator that is no atom's counterpart
    two = atom.kind in ("min", "max") and len(atom.args) == 2 and not shifted
    if two and extremes.stays("max" if atom.kind == "min" else "min", atom.args):
        low, high = call_dim("min", atom.args), call_dim("max", atom.args)
        yield Relation(high.terms[0][1], 1, low.terms[0][1], add(a, b), False, False, b is ONE)
    if atom.kind in ("mod", "floordiv") and len(b.terms) == 1 and b.terms[0][0] > 0:
        rest, quotient = division.mod(a, b), division.floordiv(a, b)
        if rest.atom is not None and quotient.atom is not None:
            k, m = b.terms[0]
            yield Relation(rest.terms[0][1], k, multiply_monomials(m, quotient.terms[0][1]), a, False, True)
    if atom.kind in ("mod", "floordiv") and b.is_const:
        yield from _rounded_up(atom, a, b)


def _rounded_up(atom: Call, a: Dim, b: Dim) -> Iterator[Relation]:
    """`a//k` is `-((k - 1 - a)//k)`, of which normal form makes a sum with one other quotient.

    So `a % k` is `a` plus k times that: what fills up a size to a multiple of k makes a product with it.
    """
    if atom.kind == "mod":
        yield from _fills_up(atom, a, b)
    whole, rest = division.split(add(constant(b.value - 1), negate(a)), b)
    other = division.floordiv_rest(rest, b).atom
    if other is None or other is atom or other.args is None or other.kind != "floordiv":
        return
    if atom.kind == "mod":
        yield Relation(((atom, 1),), -b.value, ((other, 1),), add(a, multiply(b, whole)), False, True)
        return
    first, second = sorted((atom, other), key=lambda x: x.key)
    yield Relation(((first, 1),), 1, ((second, 1),), negate(whole), False, False)


def _fills_up(atom: Call, a: Dim, b: Dim) -> Iterator[Relation]:
    """`a % k` and `(k - 1 - a) % k` make `k - 1`: what is over a multiple of k, and what is missing to the next."""
    most = constant(b.value - 1)
    other = division.mod(add(most, negate(a)), b).atom
    if other is not None and other is not atom and other.args is not None and other.kind == "mod":
        first, second = sorted((atom, other), key=lambda x: x.key)
        yield Relation(((first, 1),), 1, ((second, 1),), most, True, False)


__all__ = ["merge_complements"]
