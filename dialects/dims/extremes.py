"""The normal form of least, greatest and broadcast sizes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import Literal

from . import cases, interval
from .expression import (
    ONE,
    ZERO,
    Atom,
    Dim,
    DimError,
    Kind,
    add,
    as_dim,
    call_dim,
    common_monomial,
    exactly,
    intern,
    multiply,
    negate,
)


def dim_max(*args: Dim | int) -> Dim:
    """The greatest of one or more."""
    return extremum("max", tuple(map(as_dim, args)))


def dim_min(*args: Dim | int) -> Dim:
    """The least of one or more."""
    return extremum("min", tuple(map(as_dim, args)))


@lru_cache(maxsize=1 << 14)
def extremum(kind: Literal["min", "max"], args: tuple[Dim, ...]) -> Dim:
    """Moves what the arguments share out: `max(N - 1, 0)` is `max(N, 1) - 1`, `max(2*N, 2*M)` is `2*max(N, M)`."""
    args = _undominated(kind, _flatten(kind, args))
    if len(args) == 1:
        return args[0]
    found = cases.by_cases(args, lambda sides: extremum(kind, sides)) or _one_of_two(kind, args)
    if found is not None:
        return found
    offset = _least_coefficients(args)
    if offset is not ZERO:
        rest = tuple(add(a, negate(offset)) for a in args)
        if _weight(rest) < _weight(args):
            return add(offset, extremum(kind, rest))
    factor = _shared_factor(args)
    if factor is not ONE:
        return multiply(factor, extremum(kind, tuple(exactly(a, factor) for a in args)))
    return call_dim(kind, tuple(sorted(args, key=_argument_key)))


def stays(kind: Literal["min", "max"], args: tuple[Dim, ...]) -> bool:
    """Whether the extremum of two arguments in normal form is a call of just these.

    What it is else is not made here: to write that, the complements of its atoms are chosen, which is what asks.
    """
    if _flatten(kind, args) != args or len(_undominated(kind, args)) < 2 or cases.depends_on_cases(args):
        return False
    if _least_coefficients(args) is not ZERO or _shared_factor(args) is not ONE:
        return False
    a, b = args
    if not b.is_const:
        return True
    if kind == "max":
        return not cases.is_cut(add(add(b, ONE), negate(a)))
    if not interval.is_at_least(add(add(a, negate(b)), ONE), 0):
        return True
    found = cases.positive(a).atom if b is ONE else None
    return found is not None and found.args == args


def _one_of_two(kind: Literal["min", "max"], args: tuple[Dim, ...]) -> Dim | None:
    """What is one of two numbers that follow each other, as the lesser of them and an indicator."""
    bound = next((a for a in args if a.is_const), None)
    if bound is None:
        return None
    others = [a for a in args if a is not bound]
    if kind == "min":
        above = [add(add(a, negate(bound)), ONE) for a in others]
        if not all(interval.is_at_least(a, 0) for a in above):
            return None
        many = len(above) > 1
        found = call_dim("min", (*sorted(above, key=_argument_key), ONE)) if many else cases.positive(above[0])
        return add(found, add(bound, negate(ONE)))
    below = add(add(bound, ONE), negate(others[0]))
    return add(add(bound, ONE), negate(cases.positive(below))) if len(others) == 1 and cases.is_cut(below) else None


def _flatten(kind: Kind, args: Iterable[Dim]) -> tuple[Dim, ...]:
    """The arguments, with those of a nested call of the kind in its place, without repetition.

    A call plus an expression, `max(a, b) + c`, counts as `max(a + c, b + c)`.
    """
    flat: dict[Dim, None] = {}
    for arg in args:
        inner = next(
            (m[0][0] for c, m in arg.terms if c == 1 and len(m) == 1 and m[0][1] == 1 and _is_kind(m[0][0], kind)), None
        )
        if inner is None or inner.args is None:
            flat[arg] = None
        elif arg.atom is inner:
            flat.update(dict.fromkeys(_flatten(kind, inner.args)))
        elif kind != "broadcast":
            rest = add(arg, negate(intern(((1, ((inner, 1),)),))))
            flat.update(dict.fromkeys(_flatten(kind, [add(a, rest) for a in inner.args])))
        else:
            flat[arg] = None
    return tuple(flat)


def _argument_key(dim: Dim) -> tuple[bool, str]:
    return dim.is_const, str(dim)


def _is_kind(atom: Atom, kind: Kind) -> bool:
    return atom.args is not None and atom.kind == kind


def _undominated(kind: Literal["min", "max"], args: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Without the arguments that another one makes irrelevant for every value of the symbols."""
    kept = list(args)
    for arg in args:
        for other in kept:
            if other is arg:
                continue
            margin = other - arg if kind == "max" else arg - other
            if interval.is_at_least(margin, 0):
                kept.remove(arg)
                break
    return tuple(kept)


def _least_coefficients(args: tuple[Dim, ...]) -> Dim:
    """The sum of each monomial times its least coefficient in any of the arguments."""
    tables = [{m: c for c, m in a.terms} for a in args]
    monomials = dict.fromkeys(m for t in tables for m in t)
    return Dim.of_terms([(min(t.get(m, 0) for t in tables), m) for m in monomials])


def _weight(args: tuple[Dim, ...]) -> tuple[int, int, int, int]:
    """What is subtracted in the arguments and what is added, the same of indicators: less without what they share.

    It is not where the rest is written by other atoms, `1 + (-1) % k` as `-k*((-1)//k)`, which may be shared again.
    """
    weight = [0, 0, 0, 0]
    for c, m in (term for a in args for term in a.terms):
        least = 2 if len(m) == 1 and cases.margin_of(m[0][0]) is not None else 0
        weight[least + (c > 0)] += abs(c)
    return weight[0], weight[1], weight[2], weight[3]


def _shared_factor(args: tuple[Dim, ...]) -> Dim:
    terms = [t for a in args for t in a.terms]
    common = common_monomial(m for _, m in terms)
    positive = tuple(f for f in common if interval.monomial_interval((f,), interval.default_range)[0] >= 0)
    return intern(((gcd(*(c for c, _ in terms)), positive),))


# --- broadcast --------------------------------------------------------------------------------------------------------


def dim_broadcast(*args: Dim | int) -> Dim:
    """The size that broadcasting gives these sizes, on the assumption that they broadcast.

    Raises DimError where two constants do not.
    """
    return broadcast(tuple(map(as_dim, args)))


@lru_cache(maxsize=1 << 14)
def broadcast(args: tuple[Dim, ...]) -> Dim:
    args = tuple(a for a in _flatten("broadcast", args) if a is not ONE)
    constants = [a for a in args if a.is_const]
    if len(constants) > 1:
        raise DimError(f"sizes that do not broadcast: {', '.join(map(str, args))}")
    if constants:
        return constants[0]
    if len(args) < 2:
        return args[0] if args else ONE
    for arg in args:
        if never_one(arg):
            return arg
    cut = [a for a in args if _has_extremum(a)]
    follows = {a for a in cut if any(follows_size(a, b) or cuts_size(a, b) for b in args if b is not a)}
    if follows:
        return broadcast(tuple(a for a in args if a not in follows))
    return call_dim("broadcast", tuple(sorted(args, key=str)))


def _has_extremum(a: Dim) -> bool:
    """Whether it is a min or max of two, plus a constant: no other may follow from another size."""
    atom = a.atom or (a - a.constant_term).atom
    return atom is not None and atom.args is not None and atom.kind in ("min", "max") and len(atom.args) == 2


def follows_size(a: Dim, size: Dim) -> bool:
    """Whether a broadcasts with a size to that size, whatever it is: `max(N, 1)` and `min(N, 1)` with N."""
    atom = a.atom
    if atom is None or atom.args is None or atom.kind not in ("min", "max") or len(atom.args) != 2:
        return False
    return size in atom.args and ONE in atom.args and interval.is_at_least(size, 0)


def cuts_size(a: Dim, size: Dim) -> bool:
    """Whether a is `min(size, 64)` or so: it broadcasts with the size only where it is the size.

    So is `max(min(size + 1, 65), 1) - 1`, no size being below 0.
    """
    shift = a.constant_term
    atom = (a - shift).atom
    if atom is None or atom.args is None or len(atom.args) != 2:
        return False
    if atom.kind == "min":
        return size - shift in atom.args and any(b.is_const and b.value + shift > 1 for b in atom.args)
    cut, least = atom.args if atom.args[1].is_const else atom.args[::-1]
    if atom.kind != "max" or not least.is_const or least.value + shift > 0:
        return False
    return cut + shift is size or cuts_size(cut + shift, size)


def never_one(dim: Dim) -> bool:
    """Whether no values of the symbols make it 1, as far as ranges and common factors tell."""
    g = gcd(*(c for c, m in dim.terms if m))
    if g == 0:
        return dim is not ONE
    if (1 - dim.constant_term) % g:
        return True
    return interval.is_at_least(dim, 2)
