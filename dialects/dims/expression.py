"""Symbolic sizes: polynomials with integer coefficients, in normal form and interned, so equal means identical.

The atoms of a polynomial are symbols and calls: `floordiv`, `mod` (Python's, rounding down), `min`, `max`, and
`broadcast(a, b)`, which is the size that ONNX broadcasting gives two sizes that agree or of which one is 1 (any other
pair has no value).  A symbol is a size in [0, 2^31), but for the signed ones (see `interval.is_signed`).

A quotient by zero has no value.  Simplification may give such an expression one: `(A*B)//A` is `B`, also where A is 0.
"""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from keyword import iskeyword
from math import gcd
from typing import Literal, TypeAlias

from . import interval
from .interval import Interval
from .text import call_text, terms_text

Kind: TypeAlias = Literal["floordiv", "mod", "min", "max", "broadcast"]
Atom: TypeAlias = "Symbol | Call"
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "tuple[tuple[int, Monomial], ...]"
SortKey: TypeAlias = tuple[int, str]

_MAX_TERMS = 4096


class DimError(ValueError):
    """Text that is no dimension expression, or an expression that has no value or is absurdly large."""


class Symbol:
    """A named unknown integer.  Made by `Dim.symbol`; interned."""

    __slots__ = ("key", "name")
    args: None = None
    name: str
    key: SortKey

    def __repr__(self) -> str:
        return self.name


class Call:
    """`kind(*args)`, with arguments in normal form, which no polynomial of its arguments equals.  Interned.

    floordiv and mod have two arguments, the others two or more, sorted.
    """

    __slots__ = ("args", "bounds", "key", "kind", "symbols")
    kind: Kind
    args: tuple[Dim, ...]
    key: SortKey
    symbols: frozenset[str]
    bounds: Interval | None

    def __repr__(self) -> str:
        return self.key[1]


class Dim:
    """An integer expression in normal form: equal polynomials over equal atoms are the same object.

    Of atoms that determine each other (min and max of a pair, quotient and remainder of a division) sums keep the
    shorter choice, one pair at a time; where several play together, the prover (semantics/facts.py) decides equality.

    `terms` is ((coefficient, ((atom, power), ...)), ...), in a fixed order, the constant term (with no atoms) last;
    zero has no terms.  `str` gives Python text over `+ - * // %`, `min`, `max`, `broadcast`, read back by `parse_dim`.
    """

    __slots__ = ("_symbols", "_text", "terms")
    terms: Terms
    _symbols: frozenset[str] | None
    _text: str | None

    @staticmethod
    def symbol(name: str) -> Dim:
        """The symbol of this name.  Raises DimError where the name is not usable as one."""
        if not is_symbol_name(name):
            raise DimError(f"not a symbol's name: {name!r}")
        return _symbol(name)

    @staticmethod
    def of_terms(terms: Iterable[tuple[int, Monomial]]) -> Dim:
        """The sum of these terms, in any order."""
        sums: dict[Monomial, int] = {}
        for coefficient, monomial in terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return _from_sums(sums)

    @property
    def is_const(self) -> bool:
        terms = self.terms
        return not terms or (len(terms) == 1 and not terms[0][1])

    @property
    def value(self) -> int:
        """The value of a constant.  Raises DimError for others."""
        if not self.terms:
            return 0
        if not self.is_const:
            raise DimError(f"not a constant: {self}")
        return self.terms[0][0]

    @property
    def constant_term(self) -> int:
        """The coefficient of the term with no atoms."""
        return self.terms[-1][0] if self.terms and not self.terms[-1][1] else 0

    @property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols in it, also inside calls."""
        if self._symbols is None:
            names: set[str] = set()
            for _, monomial in self.terms:
                for atom, _ in monomial:
                    if atom.args is None:
                        names.add(atom.name)
                    else:
                        names |= atom.symbols
            self._symbols = frozenset(names)
        return self._symbols

    @property
    def atom(self) -> Atom | None:
        """The atom, where the expression is nothing else."""
        if len(self.terms) == 1:
            coefficient, monomial = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        return None

    def __add__(self, other: Dim | int) -> Dim:
        return _add(self, as_dim(other))

    def __sub__(self, other: Dim | int) -> Dim:
        return _add(self, _negate(as_dim(other)))

    def __mul__(self, other: Dim | int) -> Dim:
        return _multiply(self, as_dim(other))

    def __floordiv__(self, other: Dim | int) -> Dim:
        return _floordiv(self, as_dim(other))

    def __mod__(self, other: Dim | int) -> Dim:
        return _mod(self, as_dim(other))

    def __radd__(self, other: int) -> Dim:
        return _add(as_dim(other), self)

    def __rsub__(self, other: int) -> Dim:
        return _add(as_dim(other), _negate(self))

    def __rmul__(self, other: int) -> Dim:
        return _multiply(as_dim(other), self)

    def __rfloordiv__(self, other: int) -> Dim:
        return _floordiv(as_dim(other), self)

    def __rmod__(self, other: int) -> Dim:
        return _mod(as_dim(other), self)

    def __neg__(self) -> Dim:
        return _negate(self)

    def divide_exactly(self, divisor: Dim) -> Dim | None:
        """The polynomial q with `q * divisor == self`, where there is one (also by zero-valued divisors)."""
        return _divide_exactly(self, divisor)

    def evaluate(self, binding: Mapping[str, int]) -> int:
        """The value under a binding of its symbols.

        Raises KeyError for an unbound symbol, ZeroDivisionError, and DimError where sizes do not broadcast.
        """
        total = 0
        for coefficient, monomial in self.terms:
            for atom, power in monomial:
                value = binding[atom.name] if atom.args is None else _evaluate_call(atom, binding)
                coefficient *= value if power == 1 else value**power
            total += coefficient
        return total

    def subs(self, binding: Mapping[str, Dim | int]) -> Dim:
        """The expression with these symbols replaced, all at once, brought to normal form."""
        if self.symbols.isdisjoint(binding):
            return self
        return self.map_atoms(lambda atom: _subs_atom(atom, binding))

    def map_atoms(self, replace: Callable[[Atom], Dim]) -> Dim:
        """The polynomial over other atoms: each top-level atom replaced by what the function gives for it."""
        total = ZERO
        for coefficient, monomial in self.terms:
            product = as_dim(coefficient)
            for atom, power in monomial:
                factor = replace(atom)
                for _ in range(power):
                    product = _multiply(product, factor)
            total = _add(total, product)
        return total

    def __str__(self) -> str:
        if self._text is None:
            self._text = terms_text(self.terms)
        return self._text

    def __repr__(self) -> str:
        return f"Dim({str(self)!r})"

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: object) -> Dim:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Dim], tuple[str]]:
        return parse_dim, (str(self),)


# --- interning --------------------------------------------------------------------------------------------------------

_DIMS: dict[Terms, Dim] = {}
_CALLS: dict[tuple[Kind, tuple[Dim, ...]], Call] = {}


def _intern(terms: Terms) -> Dim:
    found = _DIMS.get(terms)
    if found is None:
        new = Dim()
        new.terms, new._symbols, new._text = terms, None, None  # pyright: ignore[reportPrivateUsage]
        found = _DIMS.setdefault(terms, new)
    return found


@cache
def _constant(value: int) -> Dim:
    return _intern(((value, ()),)) if value else _intern(())


ZERO, ONE = _constant(0), _constant(1)


@cache
def _symbol(name: str) -> Dim:
    symbol = Symbol()
    symbol.name, symbol.key = name, (0, name)
    return _intern(((1, ((symbol, 1),)),))


def _call(kind: Kind, args: tuple[Dim, ...]) -> Dim:
    """The polynomial that is only this call, whose arguments must be in its normal form."""
    call = _CALLS.get((kind, args))
    if call is None:
        call = Call()
        call.kind, call.args, call.bounds = kind, args, None
        call.symbols = frozenset().union(*(a.symbols for a in args))
        call.key = (1, call_text(kind, args))
        call = _CALLS.setdefault((kind, args), call)
    return _intern(((1, ((call, 1),)),))


def is_symbol_name(name: str) -> bool:
    """Whether a dim_param of this text can be a symbol as it stands."""
    return (
        name.isidentifier()
        and not iskeyword(name)
        and name not in ("min", "max", "broadcast")
        and unicodedata.is_normalized("NFKC", name)
    )


def as_dim(value: int | str | Dim) -> Dim:
    """A number, an expression's text, or a Dim, as a Dim.  Raises DimError."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, str):
        return parse_dim(value)
    return _constant(int(value))


# --- ring operations --------------------------------------------------------------------------------------------------


def _term_key(term: tuple[int, Monomial]) -> tuple[int, list[tuple[SortKey, int]]]:
    monomial = term[1]
    return -sum(p for _, p in monomial), [(a.key, -p) for a, p in monomial]


def _from_sums(sums: Mapping[Monomial, int]) -> Dim:
    items = [(c, m) for m, c in sums.items() if c]
    if len(items) > 1:
        if len(items) > _MAX_TERMS:
            raise DimError(f"an expression of more than {_MAX_TERMS} terms")
        if any(atom.args is not None for _, m in items for atom, _ in m):
            sums = _merge_complements({m: c for c, m in items})
            items = [(c, m) for m, c in sums.items() if c]
        items.sort(key=_term_key)
    return _intern(tuple(items))


@lru_cache(maxsize=1 << 16)
def _add(a: Dim, b: Dim) -> Dim:
    if not a.terms:
        return b
    if not b.terms:
        return a
    sums = {m: c for c, m in a.terms}
    for c, m in b.terms:
        sums[m] = sums.get(m, 0) + c
    return _from_sums(sums)


@lru_cache(maxsize=1 << 14)
def _negate(a: Dim) -> Dim:
    if len(a.terms) > 1:
        return _from_sums({m: -c for c, m in a.terms})
    return _intern(tuple((-c, m) for c, m in a.terms))


def _multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda f: f[0].key))


@lru_cache(maxsize=1 << 16)
def _multiply(a: Dim, b: Dim) -> Dim:
    if a is ONE:
        return b
    if b is ONE:
        return a
    if len(a.terms) * len(b.terms) > _MAX_TERMS:
        raise DimError(f"an expression of more than {_MAX_TERMS} terms")
    sums: dict[Monomial, int] = {}
    for c1, m1 in a.terms:
        for c2, m2 in b.terms:
            m = _multiply_monomials(m1, m2)
            sums[m] = sums.get(m, 0) + c1 * c2
    return _from_sums(sums)


def _merge_complements(sums: dict[Monomial, int]) -> dict[Monomial, int]:
    """Chooses between atoms that determine each other: `min(a, b) + max(a, b)` is `a + b`, `x % k + k*(x//k)` is `x`.

    Of the two ways to write the sum with only one of a pair, the shorter is taken, else that with a remainder or with a
    positive coefficient.
    """
    for _ in range(8):
        for monomial in sums:
            shorter = next((s for f in monomial if (s := _rewritten(sums, monomial, f))), None)
            if shorter is not None:
                sums = shorter
                break
        else:
            return sums
    return sums


def _rewritten(sums: dict[Monomial, int], monomial: Monomial, factor: tuple[Atom, int]) -> dict[Monomial, int] | None:
    """The sum with one pair written the preferred way; None where it is so already."""
    atom, power = factor
    if atom.args is None or power != 1 or (relation := _relation(atom)) is None:
        return None
    first, (k, second), total = relation
    rest = _divide_monomials(monomial, first if first[0][0] is atom else second)
    if rest is None:
        return None
    one, other = _multiply_monomials(rest, first), _multiply_monomials(rest, second)
    p, q = sums.get(one, 0), sums.get(other, 0)
    if not (p and q) and not _may_shorten(sums, rest, total, -p if p else -(q // k)):
        return None
    # p*first + q*second, where first + k*second == total
    choices = [_replaced(sums, rest, total, {one: -p, other: -k * p}, p)]
    if q % k == 0:
        choices.append(_replaced(sums, rest, total, {one: -q // k, other: -q}, q // k))
    if atom.kind in ("mod", "floordiv"):  # a remainder has better bounds than a difference of two

        def rank(terms: dict[Monomial, int]) -> tuple[int, int, int]:
            return len(terms), int(one not in terms), 0
    else:

        def rank(terms: dict[Monomial, int]) -> tuple[int, int, int]:
            return len(terms), -terms.get(one, 0), -terms.get(other, 0)

    best = min(choices, key=rank)
    return best if rank(best) < rank(sums) else None


def _may_shorten(sums: dict[Monomial, int], rest: Monomial, total: Dim, times: int) -> bool:
    """Whether taking away `times * rest * total` removes as many terms as it adds."""
    gain = 0
    for c, m in total.terms:
        there = sums.get(_multiply_monomials(rest, m), 0)
        gain += (there == c * times) - (there == 0)
    return gain >= 0


def _replaced(
    sums: dict[Monomial, int], rest: Monomial, total: Dim, change: dict[Monomial, int], times: int
) -> dict[Monomial, int]:
    """The sum with coefficients changed and `times * rest * total` added."""
    out = dict(sums)
    for m, c in change.items():
        out[m] = out.get(m, 0) + c
    if times:
        for c, m in total.terms:
            m = _multiply_monomials(rest, m)
            out[m] = out.get(m, 0) + c * times
    return {m: c for m, c in out.items() if c}


@lru_cache(maxsize=1 << 12)
def _relation(atom: Call) -> tuple[Monomial, tuple[int, Monomial], Dim] | None:
    """(a, (k, b), total) with `a + k*b == total`, where the atom is in one of the monomials a and b."""
    a, b = atom.args[:2]
    if atom.kind in ("min", "max") and len(atom.args) == 2:
        low, high = _extremum("min", atom.args), _extremum("max", atom.args)
        if all(d.atom is not None and d.atom.args == atom.args for d in (low, high)):
            return high.terms[0][1], low.terms[0], _add(a, b)
    if atom.kind in ("mod", "floordiv") and len(b.terms) == 1 and b.terms[0][0] > 0:
        rest, quotient = _mod(a, b), _floordiv(a, b)
        if rest.atom is not None and quotient.atom is not None:
            k, m = b.terms[0]
            return rest.terms[0][1], (k, _multiply_monomials(m, quotient.terms[0][1])), a
    return None


@lru_cache(maxsize=1 << 14)
def _divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """Multivariate division by leading terms; None where a remainder is left."""
    if not b.terms:
        return None
    if b.is_const:
        k = b.value
        return _intern(tuple((c // k, m) for c, m in a.terms)) if all(c % k == 0 for c, _ in a.terms) else None
    lead_c, lead_m = b.terms[0]
    quotient = ZERO
    for _ in range(64):
        if not a.terms:
            return quotient
        c, m = a.terms[0]
        ratio = _divide_monomials(m, lead_m)
        if ratio is None or c % lead_c:
            return None
        step = _intern(((c // lead_c, ratio),))
        quotient = _add(quotient, step)
        a = _add(a, _negate(_multiply(step, b)))
    return None


def _divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, power) for atom, power in powers.items() if power)


def _common_monomial(monomials: Iterable[Monomial]) -> Monomial:
    common: dict[Atom, int] | None = None
    for monomial in monomials:
        powers = dict(monomial)
        if common is None:
            common = powers
        else:
            common = {a: min(p, powers[a]) for a, p in common.items() if a in powers}
    return tuple((common or {}).items())


# --- floordiv and mod -------------------------------------------------------------------------------------------------


def _split(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(q, r) with a == q*b + r, where r has every term with a coefficient in [0, that of a single-term b).

    For a divisor of several terms, r is a or 0.
    """
    if len(b.terms) != 1:
        q = _divide_exactly(a, b)
        return (ZERO, a) if q is None else (q, ZERO)
    k, monomial = b.terms[0]
    quotient: list[tuple[int, Monomial]] = []
    rest: list[tuple[int, Monomial]] = []
    for c, m in a.terms:
        ratio = _divide_monomials(m, monomial)
        if ratio is None:
            rest.append((c, m))
            continue
        q, r = divmod(c, k)
        quotient.append((q, ratio))
        rest.append((r, m))
    return Dim.of_terms(quotient), Dim.of_terms(rest)


def _is_better_negated(divisor: Dim) -> bool:
    """Whether a divisor's negative is written in its place, with the numerator's: its leading coefficient is negative.

    Several terms with calls among them stay: their negative may have other atoms.
    """
    plain = len(divisor.terms) == 1 or all(a.args is None for _, m in divisor.terms for a, _ in m)
    return plain and divisor.terms[0][0] < 0


@lru_cache(maxsize=1 << 14)
def _floordiv(a: Dim, b: Dim) -> Dim:
    if b is ONE or a is ZERO:
        return a
    if b is ZERO:
        raise ZeroDivisionError(f"({a}) // 0")
    if _is_better_negated(b):
        a, b = _negate(a), _negate(b)
        if b is ONE:
            return a
    quotient, rest = _split(a, b)
    return _add(quotient, _floordiv_rest(rest, b))


def _floordiv_rest(a: Dim, b: Dim) -> Dim:
    if a is ZERO:
        return ZERO
    a, b = _cancel_quotient(a, b)
    if b is ONE:
        return a
    known = _constant_quotient(a, b)
    if known is not None:
        return _constant(known)
    if b.is_const:
        nested = _nested_floordiv(a, b)
        if nested is not None:
            return nested
    if (atom := a.atom) is not None and atom.args is not None and atom.kind == "mod" and atom.args[1] is b:
        return ZERO
    return _call("floordiv", (a, b))


def _constant_quotient(a: Dim, b: Dim) -> int | None:
    """The value of a // b where the ranges leave only one."""
    low, high = interval.interval(a)
    if b.is_const:
        if abs(low) == interval.inf or abs(high) == interval.inf:
            return None
        k = b.value
        return int(low // k) if low // k == high // k else None
    if low >= 0 and interval.lower_bound(b - a - 1) >= 0:
        return 0
    return None


def _cancel_quotient(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """The same quotient without common factors; over a constant, the numerator's constant is rounded down."""
    if b.is_const:
        k = b.value
        g = gcd(k, *(c for c, m in a.terms if m))
        if g == 1:
            return a, b
        return _intern(tuple((c // g, m) for c, m in a.terms if m or c // g)), _constant(k // g)
    common = common_factor(a, b)
    if common is ONE:
        return a, b
    a, b = _exactly(a, common), _exactly(b, common)
    if _is_better_negated(b):
        a, b = _negate(a), _negate(b)
    return a, b


def common_factor(a: Dim, b: Dim) -> Dim:
    """The greatest single term that divides every term of both."""
    terms = a.terms + b.terms
    return _intern(((gcd(*(c for c, _ in terms)), _common_monomial(m for _, m in terms)),))


def _exactly(a: Dim, b: Dim) -> Dim:
    q = _divide_exactly(a, b)
    assert q is not None
    return q


def _nested_floordiv(a: Dim, b: Dim) -> Dim | None:
    """`(x//j + z)//k` is `(x + j*z)//(j*k)`, for constants j, k > 0 and where only one term is a quotient."""
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
    z = _add(a, _negate(_intern(((1, ((inner, 1),)),))))
    return _floordiv(_add(numerator, _multiply(j, z)), _multiply(j, b))


@lru_cache(maxsize=1 << 14)
def _mod(a: Dim, b: Dim) -> Dim:
    if b is ZERO:
        raise ZeroDivisionError(f"({a}) % 0")
    if _is_better_negated(b):
        return _negate(_mod(_negate(a), _negate(b)))
    a = _strip_inner_mods(a, b)
    _, a = _split(a, b)
    if a is ZERO or b is ONE:
        return ZERO
    if b.is_const:
        return _mod_constant(a, b.value)
    common = common_factor(a, b)
    if common is not ONE:
        return _multiply(common, _mod(_exactly(a, common), _exactly(b, common)))
    if interval.interval(a)[0] >= 0 and interval.lower_bound(b - a - 1) >= 0:
        return a
    return _call("mod", (a, b))


def _mod_constant(a: Dim, k: int) -> Dim:
    constant = a.constant_term
    g = gcd(k, *(c for c, m in a.terms if m))
    if g == k:  # only a constant is left
        return _constant(constant % k)
    if g > 1:
        reduced = _intern(tuple((c // g, m) for c, m in a.terms if m or c // g))
        return _mod_constant(reduced, k // g) * g + constant % g
    low, high = interval.interval(a)
    if low >= 0 and high < k:
        return a
    return _call("mod", (a, _constant(k)))


def _strip_inner_mods(a: Dim, b: Dim) -> Dim:
    """`(c * (x % q)) % b` is `(c*x) % b` where b divides c*q."""
    for c, m in a.terms:
        for atom, power in m:
            if atom.args is None or atom.kind != "mod" or power != 1:
                continue
            factor = _intern(((c, tuple(f for f in m if f[0] is not atom)),))
            x, q = atom.args
            if _divide_exactly(_multiply(factor, q), b) is not None:
                term = _intern(((c, m),))
                return _strip_inner_mods(_add(_add(a, _negate(term)), _multiply(factor, x)), b)
    return a


# --- min and max ------------------------------------------------------------------------------------------------------


def dim_max(*args: Dim | int) -> Dim:
    """The greatest of one or more."""
    return _extremum("max", tuple(map(as_dim, args)))


def dim_min(*args: Dim | int) -> Dim:
    """The least of one or more."""
    return _extremum("min", tuple(map(as_dim, args)))


@lru_cache(maxsize=1 << 14)
def _extremum(kind: Literal["min", "max"], args: tuple[Dim, ...]) -> Dim:
    """Moves what the arguments share out: `max(N - 1, 0)` is `max(N, 1) - 1`, `max(2*N, 2*M)` is `2*max(N, M)`."""
    args = _undominated(kind, _flatten(kind, args))
    if len(args) == 1:
        return args[0]
    offset = _least_coefficients(args)
    if offset is not ZERO:
        return _add(offset, _extremum(kind, tuple(_add(a, _negate(offset)) for a in args)))
    factor = _shared_factor(args)
    if factor is not ONE:
        return _multiply(factor, _extremum(kind, tuple(_exactly(a, factor) for a in args)))
    return _call(kind, tuple(sorted(args, key=_argument_key)))


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
            rest = _add(arg, _negate(_intern(((1, ((inner, 1),)),))))
            flat.update(dict.fromkeys(_flatten(kind, [_add(a, rest) for a in inner.args])))
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
            if interval.lower_bound(margin) >= 0:
                kept.remove(arg)
                break
    return tuple(kept)


def _least_coefficients(args: tuple[Dim, ...]) -> Dim:
    """The sum of each monomial times its least coefficient in any of the arguments."""
    tables = [{m: c for c, m in a.terms} for a in args]
    monomials = dict.fromkeys(m for t in tables for m in t)
    return Dim.of_terms([(min(t.get(m, 0) for t in tables), m) for m in monomials])


def _shared_factor(args: tuple[Dim, ...]) -> Dim:
    terms = [t for a in args for t in a.terms]
    common = _common_monomial(m for _, m in terms)
    positive = tuple(f for f in common if interval.monomial_interval((f,), interval.default_range)[0] >= 0)
    return _intern(((gcd(*(c for c, _ in terms)), positive),))


# --- broadcast --------------------------------------------------------------------------------------------------------


def dim_broadcast(*args: Dim | int) -> Dim:
    """The size that broadcasting gives these sizes, on the assumption that they broadcast.

    Raises DimError where two constants do not.
    """
    return _broadcast(tuple(map(as_dim, args)))


@lru_cache(maxsize=1 << 14)
def _broadcast(args: tuple[Dim, ...]) -> Dim:
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
    return _call("broadcast", tuple(sorted(args, key=str)))


def never_one(dim: Dim) -> bool:
    """Whether no values of the symbols make it 1, as far as ranges and common factors tell."""
    g = gcd(*(c for c, m in dim.terms if m))
    if g == 0:
        return dim is not ONE
    if (1 - dim.constant_term) % g:
        return True
    return interval.lower_bound(dim) > 1


# --- evaluation and substitution --------------------------------------------------------------------------------------


def _evaluate_call(call: Call, binding: Mapping[str, int]) -> int:
    values = [a.evaluate(binding) for a in call.args]
    match call.kind:
        case "floordiv":
            return values[0] // values[1]
        case "mod":
            return values[0] % values[1]
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "broadcast":
            wide = {v for v in values if v != 1}
            if len(wide) > 1:
                raise DimError(f"sizes that do not broadcast: {call} with {', '.join(map(str, values))}")
            return wide.pop() if wide else 1


def apply_call(kind: Kind, args: tuple[Dim, ...]) -> Dim:
    """The call of these arguments, in normal form."""
    match kind:
        case "floordiv":
            return _floordiv(*args)
        case "mod":
            return _mod(*args)
        case "broadcast":
            return _broadcast(args)
        case _:
            return _extremum(kind, args)


def _subs_atom(atom: Atom, binding: Mapping[str, Dim | int]) -> Dim:
    if atom.args is None:
        found = binding.get(atom.name)
        return _symbol(atom.name) if found is None else as_dim(found)
    return apply_call(atom.kind, tuple(a.subs(binding) for a in atom.args))


# --- text -------------------------------------------------------------------------------------------------------------


_BINARY: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: Dim.__add__,
    ast.Sub: Dim.__sub__,
    ast.Mult: Dim.__mul__,
    ast.FloorDiv: Dim.__floordiv__,
    ast.Mod: Dim.__mod__,
}
_FUNCTIONS: dict[str, Callable[..., Dim]] = {"min": dim_min, "max": dim_max, "broadcast": dim_broadcast}


@lru_cache(maxsize=1 << 14)
def parse_dim(text: str) -> Dim:
    """Reads an expression over names, integers, `+ - * // %`, `min()`, `max()` and `broadcast()`.

    Raises DimError for any other text.
    """
    try:
        if not unicodedata.is_normalized("NFKC", text):  # two names that Python takes for one would be one symbol
            raise DimError("not normalized")
        return _parse(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise DimError(f"not a dimension expression: {text[:100]!r}") from error


def _parse(node: ast.expr) -> Dim:
    match node:
        case ast.Name(id=name):
            return Dim.symbol(name)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return _constant(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_parse(left), _parse(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _FUNCTIONS[name](*map(_parse, args))
        case _:
            raise DimError("outside the grammar")


__all__ = [
    "ONE",
    "ZERO",
    "Atom",
    "Call",
    "Dim",
    "DimError",
    "Kind",
    "Monomial",
    "Symbol",
    "Terms",
    "apply_call",
    "as_dim",
    "common_factor",
    "dim_broadcast",
    "dim_max",
    "dim_min",
    "is_symbol_name",
    "never_one",
    "parse_dim",
]
