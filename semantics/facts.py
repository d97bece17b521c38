"""What is known about dimensions, and the prover: is `a == b`, is `a <= b`, and which fact would decide it.

A fact is applied by solving it for a symbol: `N >= M` makes N `M + t` with a new t >= 0, `N % 4 == 0` makes it `4*q`,
`N == 2*M` makes it `2*M`.  After that substitution the normal form of expressions decides most questions by itself.
What cannot be solved so is kept: equations as rewrites of their leading term, inequalities as a list to try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import gcd
from typing import TypeAlias

from ..dialects.dims.expression import (
    ONE,
    ZERO,
    Atom,
    Call,
    Dim,
    DimError,
    Monomial,
    Symbol,
    apply_call,
    as_dim,
    follows_size,
)
from ..dialects.dims.interval import (
    Bound,
    SymbolRange,
    inf,
    interval,
    is_at_least,
    is_signed,
    lower_bound,
    upper_bound,
)
from ..dialects.dims.interval import (
    Ranges as SymbolRanges,
)
from ..dialects.dims.reserved import FACT, FIRST_SIGNED_FACT, is_reserved
from ..dialects.dims.text import BRIEF
from .conditions import (
    Condition,
    at_most,
    brief_condition,
    broadcast_condition,
    broadcast_pair,
    difference_condition,
    difference_pair,
    equality,
)

Ranges: TypeAlias = Mapping[str, "tuple[int, int | None]"]

_MAX_INTERNAL = 500  # past so many, facts are kept as equations and inequalities
_MAX_TIED = (0, 4, 16)  # inequalities that share a term with a question, taken for it: of the last one, of the first
_REDUCED = 3  # how deep inside calls equations rewrite
_MAX_EQUATION = 4  # terms of an equation that is worth keeping


class Contradiction(DimError):
    """Facts of which not all can hold."""


@dataclass(frozen=True)
class Proof:
    """The answer: True (always), False (never), or None with a fact, `missing`, that would decide it."""

    answer: bool | None
    missing: str | None = None

    def __bool__(self) -> bool:
        return self.answer is True


_YES, _NO = Proof(True), Proof(False)


class Facts:
    """A set of facts, which only grows; `copy` to explore.

    `ranges` gives inclusive bounds of symbols (None: no upper one); others have the default range of their name.
    """

    def __init__(self, ranges: Ranges | None = None, assumptions: Iterable[str] = ()) -> None:
        self._solved: dict[str, Dim] = {}
        self._gone: dict[str, Dim] = {}  # internal symbols that were solved for, in those that were there then
        self._substituted: dict[Dim, Dim] = {}  # what expressions are with those solutions
        self._ranges = SymbolRanges()
        self._equations: tuple[tuple[int, Monomial, Dim], ...] = ()  # coefficient * monomial == rest
        self._nonnegative: list[Dim] = []
        self._broadcasts: set[frozenset[Dim]] = set()
        self._different: list[Dim] = []  # none of which is 0
        self._assumed: set[Condition] = set()
        self._known: dict[Dim, Dim] = {}  # what `known` and `_reduce` gave, while no fact changes it
        self._reduced: tuple[dict[Dim, Dim], ...] = ()
        self._forget()
        self._fresh = 0
        self.assumptions: list[str] = []
        for name, (low, high) in (ranges or {}).items():
            self._bound(name, low, inf if high is None else high)
        for text in assumptions:
            self.assume(text)

    def copy(self) -> Facts:
        new = Facts()
        new._solved, new._gone, new._ranges = dict(self._solved), dict(self._gone), self._ranges.copy()
        new._equations, new._nonnegative = self._equations, list(self._nonnegative)
        new._substituted, new._known, new._reduced = self._substituted, self._known, self._reduced
        new._broadcasts, new._different = set(self._broadcasts), list(self._different)
        new._assumed = set(self._assumed)
        new._fresh, new.assumptions = self._fresh, list(self.assumptions)
        return new

    def _forget(self) -> None:
        """Solutions or equations are others: copies keep what they shared until now."""
        self._substituted, self._known = {}, {}
        self._reduced = tuple({} for _ in range(_REDUCED + 1))

    # --- adding ---------------------------------------------------------------------------------------------------

    def assume(self, condition: str | Condition) -> None:
        """Adds a fact.  Raises DimError for text that is none, Contradiction where it cannot hold with the others."""
        if isinstance(condition, str):
            pair = broadcast_pair(condition)
            if pair is not None:
                self._broadcasts.add(frozenset(pair))
                self.assumptions.append(condition)
                return
            pair = difference_pair(condition)
            if pair is not None:
                gap = pair[0] - pair[1]
                if self.prove_eq(gap, 0):
                    raise Contradiction(f"{brief_condition(condition)} cannot hold")
                self._different.append(gap)
            condition = Condition.parse(condition)
        self.assumptions.append(str(condition))
        self._assumed.add(condition)
        if condition.op == "<=":
            self._assume_nonnegative(self.known(condition.right - condition.left), str(condition))
        else:
            self._assume_zero(condition.left - condition.right, str(condition))

    def _name(self, signed: bool = False) -> str:
        self._fresh += 1
        return f"v{FIRST_SIGNED_FACT + self._fresh}" if signed else f"{FACT}{self._fresh}"

    def _new(self, low: Bound, high: Bound) -> Dim:
        """An internal symbol of this range."""
        name = self._name(signed=low < 0)
        self._ranges.set(name, low, high)
        return Dim.symbol(name)

    def _solve(self, name: str, value: Dim) -> None:
        """Puts `value` in place of a symbol everywhere, keeping what the symbol's range says."""
        low, high = self._ranges(name)
        one = {name: value}
        self._solved = {n: d.subs(one) for n, d in self._solved.items()}
        (self._gone if is_reserved(name) else self._solved)[name] = value
        equations, self._equations = self._equations, ()
        self._forget()
        nonnegative, self._nonnegative = self._nonnegative, []
        for c, m, rest in equations:
            self._assume_zero(Dim.of_terms([(c, m)]) - rest, "an earlier fact")
        for d in nonnegative:
            self._assume_nonnegative(d.subs(one), "an earlier fact")
        if low != -inf:
            self._assume_nonnegative(value - int(low), f"the range of {name}")
        if high != inf:
            self._assume_nonnegative(int(high) - value, f"the range of {name}")

    def _bound(self, name: str, low: Bound, high: Bound) -> None:
        """Narrows a symbol's range; a new lower bound is solved for, so that normal form sees it."""
        known = self._solved.get(name) or self._gone.get(name)
        if known is not None:
            if low != -inf:
                self._assume_nonnegative(known - int(low), f"the range of {name}")
            if high != inf:
                self._assume_nonnegative(int(high) - known, f"the range of {name}")
            return
        old = self._ranges(name)
        low, high = max(low, old[0]), min(high, old[1])
        if low > high:
            raise Contradiction(f"no value is left for {name}")
        if low == high:
            self._ranges.set(name, low, high)
            self._solve(name, as_dim(int(low)))
        elif low >= 0 and (low > 0 or is_signed(name)):
            self._ranges.set(name, low, high)
            self._solve(name, self._new(0, high - low) + int(low))
        else:
            self._ranges.set(name, low, high)

    def _assume_nonnegative(self, d: Dim, text: str) -> None:
        """d >= 0, for d in internal symbols."""
        if is_at_least(d, 0, self._ranges):
            return
        if is_at_least(-d, 1, self._ranges):
            raise Contradiction(f"{_brief(text)} cannot hold")
        if is_at_least(-d, 0, self._ranges):
            self._assume_zero(d, text)
            return
        parts = _parts_of_bound(d)
        if parts is not None:
            for part in parts:
                self._assume_nonnegative(self.known(part), text)
            return
        linear = list(_linear_symbols(d))
        if len(d.symbols) == 1 and linear:
            self._bound_linear(linear[0].name, d)
            return
        for symbol in linear:  # N - rest >= 0: N is rest + t
            if _coefficient(d, symbol) != 1 or self._fresh >= _MAX_INTERNAL:
                continue
            rest = Dim.symbol(symbol.name) - d
            if interval(rest, self._ranges)[0] >= 0:
                self._solve(symbol.name, rest + self._new(0, self._ranges(symbol.name)[1]))
                return
        self._nonnegative.append(d)

    def _bound_linear(self, name: str, d: Dim) -> None:
        """d = c*name + constant >= 0."""
        c, constant = d.terms[0][0], d.constant_term
        if c > 0:
            self._bound(name, -(constant // c), inf)
        else:
            self._bound(name, -inf, constant // -c)

    def _assume_zero(self, d: Dim, text: str) -> None:
        """d == 0."""
        d = self.known(d)
        if d is ZERO:
            return
        if is_at_least(d, 1, self._ranges) or is_at_least(-d, 1, self._ranges):
            raise Contradiction(f"{_brief(text)} cannot hold")
        if _never_zero(d):
            raise Contradiction(f"{_brief(text)} cannot hold")
        g = gcd(*(c for c, _ in d.terms))
        d = Dim.of_terms([(c // g, m) for c, m in d.terms])
        if self._fresh < _MAX_INTERNAL and (self._solve_mod(d) or self._solve_linear(d)):
            return
        if len(d.terms) <= _MAX_EQUATION:
            c, m = _leading_term(d)
            if c < 0:
                c, d = -c, -d
            self._equations = (*self._equations, (c, m, Dim.of_terms([(c, m)]) - d))
            self._forget()

    def _solve_linear(self, d: Dim) -> bool:
        """A symbol that stands only alone and once, times 1 or -1: the last in the alphabet of those that do."""
        coefficients = {s.name: _coefficient(d, s) for s in _linear_symbols(d) if abs(_coefficient(d, s)) == 1}
        if not coefficients:
            return False
        name = max(coefficients, key=lambda n: (_is_internal(n), n))
        c = coefficients[name]
        self._solve(name, Dim.symbol(name) - d * c)
        return True

    def _solve_mod(self, d: Dim) -> bool:
        """`(N + rest) % k == r`: N is `k*q - rest + r`."""
        found = _mod_equation(d)
        if found is None:
            return False
        call, remainder = found
        x, k = call.args
        for symbol in _linear_symbols(x):
            if _coefficient(x, symbol) != 1 or symbol.name in k.symbols:
                continue
            rest = Dim.symbol(symbol.name) - x
            low = interval(x, self._ranges)[0]
            bound = (0, inf) if low >= 0 and interval(k, self._ranges)[0] >= 0 else (-inf, inf)
            self._solve(symbol.name, k * self._new(*bound) + remainder + rest)
            return True
        if interval(x, self._ranges)[0] >= 0 and interval(k, self._ranges)[0] >= 0:
            self._assume_zero(x - k * self._new(0, inf) - remainder, "a remainder")
            return True
        return False

    # --- asking ---------------------------------------------------------------------------------------------------

    def known(self, d: Dim | int | str) -> Dim:
        """The expression with the facts applied, over internal symbols: equal results mean equal values."""
        d = as_dim(d)
        if not (self._solved or self._gone or self._equations):
            return d
        found = self._known.get(d)
        if found is None:
            found = self._in_internal(d)
            found = self._known[d] = self._reduce(found) if self._equations else found
        return found

    def _in_internal(self, d: Dim) -> Dim:
        """The expression in internal symbols that are not solved for."""
        d = d.subs(self._solved, self._substituted)
        while not self._gone.keys().isdisjoint(d.symbols):
            d = d.subs(self._gone)
        return d

    def _reduce(self, d: Dim, depth: int = _REDUCED) -> Dim:
        """Rewrites by the equations, also inside calls; gives up at a depth, since a call may hold what makes it."""
        found = self._reduced[depth].get(d)
        if found is None:
            found = self._reduced[depth][d] = self._rewritten(d, depth)
        return found

    def _rewritten(self, d: Dim, depth: int) -> Dim:
        for _ in range(4):
            before = d
            if depth:
                d = d.map_atoms(lambda a: _map_args(a, lambda arg: self._reduce(arg, depth - 1)))
            for c, m, rest in self._equations:
                d = _rewrite(d, c, m, rest)
            if d is before:
                return d
        return d

    def range(self, d: Dim | int | str) -> tuple[int | None, int | None]:
        """Inclusive bounds; None where there is none."""
        d = self.known(d)
        low, high = lower_bound(d, self._ranges), upper_bound(d, self._ranges)
        return None if low == -inf else int(low), None if high == inf else int(high)

    @property
    def symbol_range(self) -> SymbolRange:
        """The ranges of the symbols of what is `known`."""
        return self._ranges

    def prove_eq(self, a: Dim | int | str, b: Dim | int | str) -> Proof:
        """Is a == b for every value of the symbols?"""
        a, b = as_dim(a), as_dim(b)
        if a is b:
            return _YES
        d = _expand(self.known(a - b))
        # of a difference's normal form an equation's leading term can be gone: b - min(b, c) is max(b, c) - c
        if d is ZERO or self.known(a) is self.known(b):
            return _YES
        if self._is_nonnegative(d - 1) or self._is_nonnegative(-d - 1) or _never_zero(d):
            return _NO
        if self._different and any(d in (gap, -gap) for gap in map(_expand, map(self.known, self._different))):
            return _NO
        if self._is_nonnegative(d) and self._is_nonnegative(-d):
            return _YES
        return Proof(None, _missing_equality(a - b))

    def prove_le(self, a: Dim | int | str, b: Dim | int | str) -> Proof:
        """Is a <= b for every value of the symbols?"""
        a, b = as_dim(a), as_dim(b)
        gap = b - a
        if interval(self._in_internal(gap), self._ranges)[0] >= 0 or is_at_least(gap, 0):
            return _YES
        d = self.known(gap)
        if self._is_nonnegative(d):
            return _YES
        if self._is_nonnegative(-d - 1):
            return _NO
        return Proof(None, _inequality_text(gap))

    def prove(self, condition: str | Condition) -> Proof:
        """Does the condition always hold?"""
        if isinstance(condition, str):
            pair = broadcast_pair(condition)
            if pair is not None:
                return self.prove_broadcast(*pair)
            condition = Condition.parse(condition)
        if condition in self._assumed:
            return _YES
        ask = self.prove_eq if condition.op == "==" else self.prove_le
        return ask(condition.left, condition.right)

    def prove_divides(self, divisor: Dim | int, d: Dim | int | str) -> Proof:
        """Is d a multiple of the divisor (of which zero is not asked)?"""
        d, divisor = as_dim(d), as_dim(divisor)
        proof = self.prove_eq(d % divisor, 0)
        return proof if proof.answer is not None else Proof(None, f"{d % divisor} == 0")

    def prove_broadcast(self, a: Dim, b: Dim) -> Proof:
        """Do the two sizes broadcast: are they equal, or is one of them 1?"""
        if frozenset((a, b)) in self._broadcasts or _is_part(a, b) or _is_part(b, a):
            return _YES
        if follows_size(a, b) or follows_size(b, a):
            return _YES
        if self.prove_eq(a, b) or self.prove_eq(a, 1) or self.prove_eq(b, 1):
            return _YES
        never = [self.prove_eq(*p).answer is False for p in ((a, b), (a, 1), (b, 1))]
        if all(never):
            return _NO
        return Proof(None, f"{a} == {b}")

    def _is_nonnegative(self, d: Dim, depth: int = 2) -> bool:
        if is_at_least(d, 0, self._ranges):
            return True
        if depth and self._nonnegative:
            mine = {m for _, m in d.terms if m}
            tied = (h for h in self._nonnegative if not mine.isdisjoint(m for _, m in h.terms))
            return any(self._is_nonnegative(d - h, depth - 1) for h in islice(tied, _MAX_TIED[depth]))
        return False


def simplified(d: Dim, facts: Facts) -> Dim:
    """The expression with every min, max and broadcast argument dropped that the facts make irrelevant.

    For expressions that code generation evaluates; types keep their normal form.
    """

    def replace(atom: Atom) -> Dim:
        if atom.args is None:
            return Dim.symbol(atom.name)
        args = tuple(simplified(a, facts) for a in atom.args)
        if atom.kind in ("min", "max"):
            kept = list(args)
            for a in args:
                for other in kept:
                    pair = (a, other) if atom.kind == "max" else (other, a)
                    if other is not a and facts.prove_le(*pair):
                        kept.remove(a)
                        break
            args = tuple(kept)
        elif atom.kind == "broadcast":
            args = tuple(a for a in args if not facts.prove_eq(a, 1)) or (ONE,)
        first, *others = args
        return apply_call(atom.kind, args) if others else first

    return d.map_atoms(replace)


def _brief(text: str) -> str:
    """What a message says of a fact; of conditions only long ones are other than they are."""
    return text if len(text) <= 2 * BRIEF else brief_condition(text)


# --- pieces -----------------------------------------------------------------------------------------------------------


def _leading_term(d: Dim) -> tuple[int, Monomial]:
    """The term to rewrite where d == 0: a call that stands alone and of which nothing else is made, else the first."""
    for c, m in d.terms:
        call = m[0][0] if len(m) == 1 and abs(c) == 1 and m[0][1] == 1 else None
        if call is not None and call.args is not None and call not in _calls_of(_other_atoms(d, call)):
            return c, m
    return d.terms[0]


def _calls_of(calls: Iterable[Call]) -> set[Call]:
    """The calls and all inside of them."""
    found: set[Call] = set()
    left = list(calls)
    while left:
        call = left.pop()
        if call not in found:
            found.add(call)
            left += (atom for arg in call.args for _, m in arg.terms for atom, _ in m if atom.args is not None)
    return found


def _never_zero(d: Dim) -> bool:
    """Whether the coefficients' common factor rules zero out."""
    g = gcd(*(c for c, m in d.terms if m))
    return g > 1 and d.constant_term % g != 0


def _is_internal(name: str) -> bool:
    return name.startswith(FACT)


def _linear_symbols(d: Dim) -> Iterator[Symbol]:
    """The symbols that occur in one term only, alone and to the first power."""
    for _, monomial in d.terms:
        if len(monomial) != 1 or monomial[0][1] != 1:
            continue
        symbol = monomial[0][0]
        if symbol.args is not None:
            continue
        elsewhere = any(symbol.name in a.symbols for a in _other_atoms(d, symbol))
        if not elsewhere and sum(any(a is symbol for a, _ in m) for _, m in d.terms) == 1:
            yield symbol


def _parts_of_bound(d: Dim) -> list[Dim] | None:
    """Sizes that are all at least 0 exactly where a bound of one call, `d >= 0`, holds; None where d is no such bound.

    `x // k >= n` is `x >= n*k`, `min(a, b) >= n` is `a >= n` and `b >= n`: of these a symbol can be solved for.
    """
    (c, monomial), *others = d.terms or ((0, ()),)
    if len(monomial) != 1 or monomial[0][1] != 1 or any(m for _, m in others):
        return None
    call = monomial[0][0]
    if call.args is None:
        return None
    least, most = -(d.constant_term // c), d.constant_term // -c  # c > 0: the call is at least; c < 0: at most
    match call.kind:
        case "floordiv" if call.args[1].is_const and (k := call.args[1].value) > 0:
            return [call.args[0] - least * k if c > 0 else as_dim(most * k + k - 1) - call.args[0]]
        case "min" if c > 0:
            return [a - least for a in call.args]
        case "max" if c < 0:
            return [most - a for a in call.args]
        case _:
            return None


def _coefficient(d: Dim, symbol: Symbol) -> int:
    return next((c for c, m in d.terms if m == ((symbol, 1),)), 0)


def _other_atoms(d: Dim, symbol: Atom) -> Iterator[Call]:
    for _, m in d.terms:
        for atom, _ in m:
            if atom is not symbol and atom.args is not None:
                yield atom


def _mod_equation(d: Dim) -> tuple[Call, int] | None:
    """(x % k, r) for `x % k - r` or its negative."""
    rest = d - d.constant_term
    if len(rest.terms) != 1:
        return None
    c = d.terms[0][0]
    atom = ((d - d.constant_term) * c).atom
    if abs(c) != 1 or atom is None or atom.args is None or atom.kind != "mod":
        return None
    return atom, -c * d.constant_term


def _is_part(a: Dim, b: Dim) -> bool:
    """Whether b is a broadcast of a and others, which has a value only where a is 1 or b."""
    atom = b.atom
    return atom is not None and atom.args is not None and atom.kind == "broadcast" and a in atom.args


def _map_args(atom: Atom, function: Callable[[Dim], Dim]) -> Dim:
    if atom.args is None:
        return Dim.symbol(atom.name)
    return apply_call(atom.kind, tuple(function(a) for a in atom.args))


def _rewrite(d: Dim, c: int, m: Monomial, rest: Dim) -> Dim:
    """Replaces multiples of c*m in d by the same multiple of rest."""
    lead = Dim.of_terms([(c, m)])
    for term in d.terms:
        one = Dim.of_terms([term])
        factor = one.divide_exactly(lead)
        if factor is not None:
            d = d - one + factor * rest
    return d


@lru_cache(maxsize=1 << 12)
def _expand(d: Dim) -> Dim:
    """Over a basis: `x % k` as `x - k*(x//k)`, min of two by max, `(x + 1)//2` as `x - x//2`."""

    def replace(atom: Atom) -> Dim:
        if atom.args is None:
            return Dim.symbol(atom.name)
        args = tuple(map(_expand, atom.args))
        if atom.kind == "mod":
            return args[0] - args[1] * (args[0] // args[1])
        if atom.kind == "min" and len(args) == 2:
            return args[0] + args[1] - apply_call("max", args)
        if atom.kind == "floordiv" and args[1] is as_dim(2) and args[0].constant_term == 1:
            return args[0] - 1 - (args[0] - 1) // 2
        return apply_call(atom.kind, args)

    return d.map_atoms(replace)


def _missing_equality(d: Dim) -> str:
    """The simplest condition for d == 0."""
    for c, m in d.terms:
        for atom, power in m:
            if atom.args is not None and atom.kind == "floordiv" and power == 1:
                x, k = atom.args
                gap = (x - k * apply_call("floordiv", (x, k))) * c
                rest = tuple(f for f in m if f[0] is not atom)
                whole = gap * Dim.of_terms([(1, rest)])
                if d * k + whole is ZERO or d + whole is ZERO:
                    return f"{x % k} == 0"
    positive = Dim.of_terms([t for t in d.terms if t[0] > 0])
    negative = -Dim.of_terms([t for t in d.terms if t[0] < 0])
    return equality(negative, positive) if positive is ZERO else equality(positive, negative)


def _inequality_text(d: Dim) -> str:
    """d >= 0, with no negative coefficients."""
    positive = Dim.of_terms([t for t in d.terms if t[0] > 0])
    negative = -Dim.of_terms([t for t in d.terms if t[0] < 0])
    return at_most(negative, positive)


__all__ = ["Condition", "Contradiction", "Facts", "Proof", "broadcast_condition", "difference_condition", "simplified"]
