"""The normal form of quotients and remainders, both rounded down as Python's are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from . import cases, extremes, interval
from .expression import (
    ONE,
    ZERO,
    Call,
    Dim,
    Monomial,
    add,
    call_dim,
    common_factor,
    constant,
    divide_exactly,
    divide_monomials,
    exactly,
    intern,
    multiply,
    negate,
)


def split(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(q, r) with a == q*b + r, where r has every term with a coefficient in [0, that of a single-term b).

    For a divisor of several terms, r is a or 0.
    """
    if len(b.terms) != 1:
        q = divide_exactly(a, b)
        return (ZERO, a) if q is None else (q, ZERO)
    k, monomial = b.terms[0]
    quotient: list[tuple[int, Monomial]] = []
    rest: list[tuple[int, Monomial]] = []
    for c, m in a.terms:
        ratio = divide_monomials(m, monomial)
        if ratio is None:
            rest.append((c, m))
            continue
        q, r = divmod(c, k)
        quotient.append((q, ratio))
        rest.append((r, m))
    return Dim.of_terms(quotient), Dim.of_terms(rest)


def _is_better_negated(divisor: Dim) -> bool:
    """Whether a divisor's negative is written in its place, with the numerator's: it is at most 0, whatever sizes are.

    One that may have either sign stays as it is: a size is at least 0, and its negative would not be one.  So do
    several terms with calls among them: their negative may have other atoms.
    """
    plain = len(divisor.terms) == 1 or all(a.args is None for _, m in divisor.terms for a, _ in m)
    return plain and divisor.terms[0][0] < 0 and interval.is_at_least(negate(divisor), 0)


@lru_cache(maxsize=1 << 14)
def floordiv(a: Dim, b: Dim) -> Dim:
    if b is ONE or a is ZERO:
        return a
    if b is ZERO:
        raise ZeroDivisionError(f"({a}) // 0")
    if _is_better_negated(b):
        a, b = negate(a), negate(b)
        if b is ONE:
            return a
    quotient, rest = split(a, b)
    apart = cases.by_cases((rest,), lambda sides: floordiv(sides[0], b))
    return add(quotient, floordiv_rest(rest, b) if apart is None else apart)


def floordiv_rest(a: Dim, b: Dim) -> Dim:
    if a is ZERO:
        return ZERO
    a, b = _cancel_quotient(a, b)
    if b is ONE:
        return a
    known = _constant_quotient(a, b)
    if known is not None:
        return constant(known)
    if b.is_const:
        found = _nested_floordiv(a, b) or _extremum_of_quotients(a, b)
        if found is not None:
            return found
    if (atom := a.atom) is not None and atom.args is not None and atom.kind == "mod" and atom.args[1] is b:
        return ZERO
    return call_dim("floordiv", (a, b))


def _constant_quotient(a: Dim, b: Dim) -> int | None:
    """The value of a // b where the ranges leave only one."""
    low, high = interval.interval(a)
    if b.is_const:
        if abs(low) == interval.inf or abs(high) == interval.inf:
            return None
        k = b.value
        return int(low // k) if low // k == high // k else None
    if low >= 0 and interval.is_at_least(b - a - 1, 0):
        return 0
    return None


def _cancel_quotient(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """The same quotient without common factors; over a constant, the numerator's constant is rounded down."""
    if b.is_const:
        k = b.value
        g = gcd(k, *(c for c, m in a.terms if m))
        if g == 1:
            return a, b
        return intern(tuple((c // g, m) for c, m in a.terms if m or c // g)), constant(k // g)
    common = common_factor(a, b)
    if common is ONE:
        return a, b
    a, b = exactly(a, common), exactly(b, common)
    if _is_better_negated(b):
        a, b = negate(a), negate(b)
    return a, b


def _nested_floordiv(a: Dim, b: Dim) -> Dim | None:
    """`(x//j + z)//k` is `(x + j*z)//(j*k)`, for constants j, k > 0 and where only one term is a quotient.

    Not where the product is larger than sizes: quotients that are sizes have numerators below 2^62 then.
    """
    inner: Call | None = None
    for c, m in a.terms:
        for atom, power in m:
            if atom.args is not None and atom.kind == "floordiv":
                if inner is not None or c != 1 or power != 1 or len(m) != 1 or not atom.args[1].is_const:
                    return None
                inner = atom
    if inner is None:
        return None
    numerator, j = inner.args
    if j.value * b.value > interval.SIZE_LIMIT:
        return None
    z = add(a, negate(intern(((1, ((inner, 1),)),))))
    return floordiv(add(numerator, multiply(j, z)), multiply(j, b))


def _extremum_of_quotients(a: Dim, b: Dim) -> Dim | None:
    """`max(x, y)//k` is `max(x//k, y//k)` for a constant k > 0; so is a multiple of max or min plus a constant."""
    c, m = a.terms[0]
    if len(m) != 1 or m[0][1] != 1 or len(a.terms) - bool(a.constant_term) != 1:
        return None
    call = m[0][0]
    if call.args is None or call.kind not in ("min", "max"):
        return None
    kind = call.kind
    if c < 0:
        kind = "max" if kind == "min" else "min"
    return extremes.extremum(kind, tuple(floordiv(x * c + a.constant_term, b) for x in call.args))


@lru_cache(maxsize=1 << 14)
def mod(a: Dim, b: Dim) -> Dim:
    if b is ZERO:
        raise ZeroDivisionError(f"({a}) % 0")
    if _is_better_negated(b):
        return negate(mod(negate(a), negate(b)))
    a = _strip_inner_mods(a, b)
    _, a = split(a, b)
    if a is ZERO or b is ONE:
        return ZERO
    apart = cases.by_cases((a,), lambda sides: mod(sides[0], b))
    if apart is not None:
        return apart
    if b.is_const:
        return _mod_constant(a, b.value)
    common = common_factor(a, b)
    if common is not ONE:
        return multiply(common, mod(exactly(a, common), exactly(b, common)))
    if interval.interval(a)[0] >= 0 and interval.is_at_least(b - a - 1, 0):
        return a
    return call_dim("mod", (a, b))


def _mod_constant(a: Dim, k: int) -> Dim:
    offset = a.constant_term
    g = gcd(k, *(c for c, m in a.terms if m))
    if g == k:  # only a constant is left
        return constant(offset % k)
    if g > 1:
        reduced = intern(tuple((c // g, m) for c, m in a.terms if m or c // g))
        return _mod_constant(reduced, k // g) * g + offset % g
    low, high = interval.interval(a)
    if low >= 0 and high < k:
        return a
    return call_dim("mod", (a, constant(k)))


def _strip_inner_mods(a: Dim, b: Dim) -> Dim:
    """`(c * (x % q)) % b` is `(c*x) % b` where b divides c*q."""
    for c, m in a.terms:
        for atom, power in m:
            if atom.args is None or atom.kind != "mod" or power != 1:
                continue
            factor = intern(((c, tuple(f for f in m if f[0] is not atom)),))
            x, q = atom.args
            if divide_exactly(multiply(factor, q), b) is not None:
                term = intern(((c, m),))
                return _strip_inner_mods(add(add(a, negate(term)), multiply(factor, x)), b)
    return a


def solved_for(dim: Dim, unbound: Sequence[str]) -> tuple[str, int, Dim] | None:
    """(symbol, factor, others) where the size is `factor*symbol + others`, with one symbol that is not known."""
    if len(unbound) != 1:
        return None
    (symbol,) = unbound
    others = dim.subs({symbol: 0})
    factor = (dim - others).divide_exactly(Dim.symbol(symbol))
    if factor is None or not factor.is_const or factor.value <= 0:
        return None
    return symbol, factor.value, others
