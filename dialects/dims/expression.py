"""Symbolic sizes: polynomials with integer coefficients, in normal form and interned, so equal means identical.

The atoms of a polynomial are symbols and calls: `floordiv`, `mod` (Python's, rounding down), `min`, `max`, and
`broadcast(a, b)`, which is the size that ONNX broadcasting gives two sizes that agree or of which one is 1 (any other
pair has no value).  A symbol is a size in [0, 2^31), but for the signed ones (see `interval.is_signed`).

A quotient by zero has no value.  Simplification may give such an expression one: `(A*B)//A` is `B`, also where A is 0.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, reduce
from keyword import iskeyword
from math import gcd
from typing import TYPE_CHECKING, Literal, TypeAlias

from .text import call_text, terms_text

if TYPE_CHECKING:
    from .interval import Interval
    from .samples import Values

Kind: TypeAlias = Literal["floordiv", "mod", "min", "max", "broadcast"]
Atom: TypeAlias = "Symbol | Call"
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "tuple[tuple[int, Monomial], ...]"
SortKey: TypeAlias = tuple[int, str]

MAX_TERMS = 4096


class DimError(ValueError):
    """Text that is no dimension expression, or an expression that has no value or is absurdly large."""


class Symbol:
    """A named unknown integer.  Made by `Dim.symbol`; interned."""

    __slots__ = ("key", "name", "samples")
    args: None = None
    name: str
    key: SortKey
    samples: Values

    def __repr__(self) -> str:
        return self.name


class Call:
    """`kind(*args)`, with arguments in normal form, which no polynomial of its arguments equals.  Interned.

    floordiv and mod have two arguments, the others two or more, sorted.
    """

    __slots__ = ("args", "bounds", "choices", "key", "kind", "samples", "symbols")
    kind: Kind
    choices: int
    args: tuple[Dim, ...]
    key: SortKey
    symbols: frozenset[str]
    bounds: Interval | None
    samples: Values

    def __repr__(self) -> str:
        return self.key[1]


class Dim:
    """An integer expression in normal form: equal polynomials over equal atoms are the same object.

    Of atoms that determine each other (min and max of a pair, quotient and remainder of a division) sums keep the
    shorter choice, one pair at a time; where several play together, the prover (semantics/facts.py) decides equality.

    `terms` is ((coefficient, ((atom, power), ...)), ...), in a fixed order, the constant term (with no atoms) last;
    zero has no terms.  `str` gives Python text over `+ - * // %`, `min`, `max`, `broadcast`, read back by `parse_dim`.
    """

    __slots__ = ("_symbols", "_text", "settled", "terms")
    terms: Terms
    settled: bool
    """Whether it is known that no other way to write the sum is shorter."""
    _symbols: frozenset[str] | None
    _text: str | None

    @staticmethod
    def symbol(name: str) -> Dim:
        """The symbol of this name.  Raises DimError where the name is not usable as one."""
        if not is_symbol_name(name):
            raise DimError(f"not a symbol's name: {name!r}")
        return symbol_dim(name)

    @staticmethod
    def of_terms(terms: Iterable[tuple[int, Monomial]]) -> Dim:
        """The sum of these terms, in any order."""
        sums: dict[Monomial, int] = {}
        for coefficient, monomial in terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return from_sums(sums)

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
    def choices(self) -> int:
        """How deep min, max and broadcast stand in one another: what bounds of it cost grows with every level."""
        return max((atom.choices for _, m in self.terms for atom, _ in m if atom.args is not None), default=0)

    @property
    def atom(self) -> Atom | None:
        """The atom, where the expression is nothing else."""
        if len(self.terms) == 1:
            coefficient, monomial = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        return None

    def __add__(self, other: Dim | int) -> Dim:
        return add(self, as_dim(other))

    def __sub__(self, other: Dim | int) -> Dim:
        return add(self, negate(as_dim(other)))

    def __mul__(self, other: Dim | int) -> Dim:
        return multiply(self, as_dim(other))

    def __floordiv__(self, other: Dim | int) -> Dim:
        return division.floordiv(self, as_dim(other))

    def __mod__(self, other: Dim | int) -> Dim:
        return division.mod(self, as_dim(other))

    def __radd__(self, other: int) -> Dim:
        return add(as_dim(other), self)

    def __rsub__(self, other: int) -> Dim:
        return add(as_dim(other), negate(self))

    def __rmul__(self, other: int) -> Dim:
        return multiply(as_dim(other), self)

    def __rfloordiv__(self, other: int) -> Dim:
        return division.floordiv(as_dim(other), self)

    def __rmod__(self, other: int) -> Dim:
        return division.mod(as_dim(other), self)

    def __neg__(self) -> Dim:
        return negate(self)

    def divide_exactly(self, divisor: Dim) -> Dim | None:
        """The polynomial q with `q * divisor == self`, where there is one (also by zero-valued divisors)."""
        return divide_exactly(self, divisor)

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

    def subs(self, binding: Mapping[str, Dim | int], found: dict[Dim, Dim] | None = None) -> Dim:
        """The expression with these symbols replaced, all at once, brought to normal form.

        `found` keeps what became of expressions under this binding, also of those inside of others.
        """
        if binding.keys().isdisjoint(self.symbols):
            return self
        if found is None:
            found = {}
        result = found.get(self)
        if result is None:
            result = found[self] = self.map_atoms(lambda atom: _subs_atom(atom, binding, found))
        return result

    def map_atoms(self, replace: Callable[[Atom], Dim]) -> Dim:
        """The polynomial over other atoms: each top-level atom replaced by what the function gives for it."""
        products: list[Dim] = []
        for coefficient, monomial in self.terms:
            product = constant(coefficient)
            for atom, power in monomial:
                factor = replace(atom)
                for _ in range(power):
                    product = multiply(product, factor)
            products.append(product)
        return dim_sum(products)

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
        return parsing.parse_dim, (str(self),)


# --- interning --------------------------------------------------------------------------------------------------------

_DIMS: dict[Terms, Dim] = {}
_CALLS: dict[tuple[Kind, tuple[Dim, ...]], Call] = {}


def intern(terms: Terms) -> Dim:
    found = _DIMS.get(terms)
    if found is None:
        new = Dim()
        new.terms, new.settled, new._symbols, new._text = terms, False, None, None  # pyright: ignore[reportPrivateUsage]
        found = _DIMS.setdefault(terms, new)
    return found


@cache
def constant(value: int) -> Dim:
    return intern(((value, ()),)) if value else intern(())


ZERO, ONE = constant(0), constant(1)


@cache
def symbol_dim(name: str) -> Dim:
    symbol = Symbol()
    symbol.name, symbol.key = name, (0, name)
    symbol.samples = samples.of_symbol(name, interval.is_signed(name))
    return intern(((1, ((symbol, 1),)),))


def call_dim(kind: Kind, args: tuple[Dim, ...]) -> Dim:
    """The polynomial that is only this call, whose arguments must be in its normal form."""
    call = _CALLS.get((kind, args))
    if call is None:
        call = Call()
        call.kind, call.args, call.bounds = kind, args, None
        call.symbols = frozenset().union(*(a.symbols for a in args))
        call.choices = _choices(kind, args)
        call.key = (1, call_text(kind, args))
        call.samples = samples.of_call(kind, [samples.of_dim(a, _samples_of) for a in args])
        call = _CALLS.setdefault((kind, args), call)
    return intern(((1, ((call, 1),)),))


def _samples_of(atom: Atom) -> Values:
    return atom.samples


def _choices(kind: Kind, args: tuple[Dim, ...]) -> int:
    inside = max(a.choices for a in args)
    if kind == "min" and args[-1] is ONE:  # that of a condition counts once: min(max(N - 4, 0), 1)
        return max(inside, 1)
    return inside + (kind not in ("floordiv", "mod"))


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
        return parsing.parse_dim(value)
    return constant(int(value))


def dim_sum(parts: Sequence[Dim]) -> Dim:
    """The sum of these, in their order: what neighbours cancel is gone before the sum grows long."""
    if len(parts) > _SHORT_SUM:
        half = len(parts) // 2
        return add(dim_sum(parts[:half]), dim_sum(parts[half:]))
    return reduce(add, parts, ZERO)


_SHORT_SUM = 16


# --- ring operations --------------------------------------------------------------------------------------------------


def _term_key(term: tuple[int, Monomial]) -> tuple[int, list[tuple[SortKey, int]]]:
    monomial = term[1]
    return -sum(p for _, p in monomial), [(a.key, -p) for a, p in monomial]


def from_sums(sums: Mapping[Monomial, int], changed: set[Monomial] | None = None) -> Dim:
    """The sum in normal form; `changed` are the monomials in which it differs from a settled one."""
    settled = False
    items = [(c, m) for m, c in sums.items() if c]
    if len(items) == 1 and len(items[0][1]) + (bool(items[0][1]) and items[0][1][0][1]) > 2:
        items = [(c, m) for m, c in cases.merge_cases({items[0][1]: items[0][0]}).items() if c]
    if len(items) > 1:
        if len(items) > MAX_TERMS:
            raise DimError(f"an expression of more than {MAX_TERMS} terms")
        if any(atom.args is not None for _, m in items for atom, _ in m):
            table = {m: c for c, m in items}
            merged = cases.merge_cases(table)
            sums, settled = complements.merge_complements(merged, changed if merged is table else None)
            items = [(c, m) for m, c in sums.items() if c]
        else:
            settled = True
        items.sort(key=_term_key)
    new = intern(tuple(items))
    if settled:
        new.settled = True
    return new


@lru_cache(maxsize=1 << 16)
def add(a: Dim, b: Dim) -> Dim:
    if not a.terms:
        return b
    if not b.terms:
        return a
    sums = {m: c for c, m in a.terms}
    for c, m in b.terms:
        sums[m] = sums.get(m, 0) + c
    long, short = (a, b) if len(a.terms) >= len(b.terms) else (b, a)
    return from_sums(sums, {m for _, m in short.terms} if long.settled else None)


@lru_cache(maxsize=1 << 14)
def negate(a: Dim) -> Dim:
    if len(a.terms) > 1:
        return from_sums({m: -c for c, m in a.terms})
    return intern(tuple((-c, m) for c, m in a.terms))


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda f: f[0].key))


@lru_cache(maxsize=1 << 16)
def multiply(a: Dim, b: Dim) -> Dim:
    if a is ONE:
        return b
    if b is ONE:
        return a
    if len(a.terms) * len(b.terms) > MAX_TERMS:
        raise DimError(f"an expression of more than {MAX_TERMS} terms")
    sums: dict[Monomial, int] = {}
    for c1, m1 in a.terms:
        for c2, m2 in b.terms:
            m = multiply_monomials(m1, m2)
            sums[m] = sums.get(m, 0) + c1 * c2
    return from_sums(sums)


@lru_cache(maxsize=1 << 14)
def divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """Multivariate division by leading terms; None where a remainder is left."""
    if not b.terms:
        return None
    if b.is_const:
        k = b.value
        return intern(tuple((c // k, m) for c, m in a.terms)) if all(c % k == 0 for c, _ in a.terms) else None
    lead_c, lead_m = b.terms[0]
    quotient = ZERO
    for _ in range(64):
        if not a.terms:
            return quotient
        c, m = a.terms[0]
        ratio = divide_monomials(m, lead_m)
        if ratio is None or c % lead_c:
            return None
        step = intern(((c // lead_c, ratio),))
        quotient = add(quotient, step)
        a = add(a, negate(multiply(step, b)))
    return None


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, power) for atom, power in powers.items() if power)


def common_monomial(monomials: Iterable[Monomial]) -> Monomial:
    common: dict[Atom, int] | None = None
    for monomial in monomials:
        powers = dict(monomial)
        if common is None:
            common = powers
        else:
            common = {a: min(p, powers[a]) for a, p in common.items() if a in powers}
    return tuple((common or {}).items())


def common_factor(a: Dim, b: Dim) -> Dim:
    """The greatest single term that divides every term of both."""
    terms = a.terms + b.terms
    return intern(((gcd(*(c for c, _ in terms)), common_monomial(m for _, m in terms)),))


def exactly(a: Dim, b: Dim) -> Dim:
    q = divide_exactly(a, b)
    assert q is not None
    return q


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
            return division.floordiv(*args)
        case "mod":
            return division.mod(*args)
        case "broadcast":
            return extremes.broadcast(args)
        case _:
            return extremes.extremum(kind, args)


def _subs_atom(atom: Atom, binding: Mapping[str, Dim | int], found: dict[Dim, Dim]) -> Dim:
    if atom.args is None:
        value = binding.get(atom.name)
        return symbol_dim(atom.name) if value is None else as_dim(value)
    return apply_call(atom.kind, tuple(a.subs(binding, found) for a in atom.args))


from . import (  # noqa: E402  (made of what is above, which is in their terms)
    cases,
    complements,
    division,
    extremes,
    interval,
    parsing,
    samples,
)
from .extremes import cuts_size, dim_broadcast, dim_max, dim_min, follows_size, never_one  # noqa: E402
from .parsing import parse_dim  # noqa: E402

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
    "cuts_size",
    "dim_broadcast",
    "dim_max",
    "dim_min",
    "follows_size",
    "is_symbol_name",
    "never_one",
    "parse_dim",
]
