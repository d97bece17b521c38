"""Sizes in the entry: which symbols are bound where, and expressions of them that cannot overflow unnoticed.

An expression's magnitude bounds its absolute value and those of all sums and products on the way to it, with each
coefficient, symbol and call taken at its largest.  A `min` or `max` counts as much as its value, and of its arguments
those that are sums are looked at by themselves: `max(v, 0)` is 0 for the least int64.  Of a size that a condition
chooses the side that holds counts, and a number that is a side by itself not at all.  Where the ranges of the symbols
keep the magnitudes of an expression and of all calls' arguments in it below 2^62 nothing is checked; else the entry
computes the largest of them in f64 first and fails the call where it is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from ..dialects.dims import Dim
from ..dialects.dims.cases import case_of
from ..dialects.dims.expression import Atom, Call
from ..dialects.dims.interval import SIZE_LIMIT
from .dims import DimBuilder
from .llvm_types import F64, I64
from .scalar import ScalarBuilder

MAGNITUDE_LIMIT = float(1 << 62)
ANY = float(1 << 63)
"""The magnitude of an int64 of which nothing is known."""


class Sizes(DimBuilder):
    """The symbols bound in a region of the entry and its surroundings, and what was computed of them there."""

    def __init__(self, builder: ScalarBuilder, parent: Sizes | None = None) -> None:
        self._bound: dict[str, SSAValue] = {} if parent is None else dict(parent._bound)
        super().__init__(builder, self._bound)
        self._scalar = builder
        self._limits: dict[str, float] = {} if parent is None else dict(parent._limits)
        self._small: set[Dim] = set() if parent is None else set(parent._small)
        self.pointers: dict[tuple[str, object], SSAValue] = {} if parent is None else dict(parent.pointers)
        """Pointers computed in this region and its surroundings, by what they point to."""
        if parent is not None:
            self._dims.update(parent._dims)
            self._atoms.update(parent._atoms)

    def bind(self, symbol: str, value: SSAValue, limit: float = float(SIZE_LIMIT)) -> None:
        """The symbol stands for this i64 from here on; `limit` bounds its absolute value."""
        self._bound[symbol] = value
        self._limits[symbol] = limit

    def has(self, dim: Dim) -> bool:
        """Whether all symbols of the expression are bound."""
        return dim.symbols <= self._bound.keys()

    def unbound(self, dim: Dim) -> list[str]:
        """The symbols of the expression that are not bound, sorted."""
        return sorted(dim.symbols - self._bound.keys())

    def needs_check(self, dim: Dim) -> bool:
        """Whether the expression could leave int64 and was not checked here before."""
        if dim in self._small or bare_symbol(dim) is not None:
            return False
        return largest_magnitude(dim, self._limit) >= MAGNITUDE_LIMIT

    def is_small(self, dim: Dim) -> SSAValue:
        """Emits the comparison that tells whether all magnitudes are below the limit; notes it as checked."""
        self._small.add(dim)
        b = self._scalar
        parts: dict[Dim, SSAValue] = {}
        total = self._magnitude(dim, parts, is_value=True)
        return b.fcmp("olt", self._largest(total, parts), b.const(MAGNITUDE_LIMIT, F64))

    def _limit(self, symbol: str) -> float:
        return self._limits.get(symbol, ANY)

    def _larger(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._scalar.select(self._scalar.fcmp("olt", a, b), b, a)

    def _largest(self, total: SSAValue, parts: Mapping[Dim, SSAValue]) -> SSAValue:
        for other in parts.values():
            total = self._larger(total, other)
        return total

    def _magnitude(self, dim: Dim, parts: dict[Dim, SSAValue], *, is_value: bool = False) -> SSAValue:
        """The magnitude at run time, an f64; those of the calls' arguments are in `parts`, each computed once.

        `is_value` says that nothing is computed of the expression.
        """
        b = self._scalar
        case = case_of(dim)
        if case is not None:
            self._atom_magnitude(case.indicator, parts)
            sides = (self._side_magnitude(side, is_value) for side in (case.holds, case.fails))
            return b.select(b.icmp("ne", self._atom(case.indicator), b.const(0, I64)), *sides)
        total: SSAValue | None = None
        for coefficient, monomial in dim.terms:
            term = b.const(float(abs(coefficient)), F64)
            for atom, power in monomial:
                factor = self._atom_magnitude(atom, parts)
                for _ in range(power):
                    term = b.fmul(term, factor)
            total = term if total is None else b.fadd(total, term)
        return b.const(0.0, F64) if total is None else total

    def _side_magnitude(self, side: Dim, is_value: bool) -> SSAValue:
        if is_value and side.is_const:
            return self._scalar.const(0.0, F64)
        parts: dict[Dim, SSAValue] = {}
        return self._largest(self._magnitude(side, parts, is_value=is_value), parts)

    def _atom_magnitude(self, atom: Atom, parts: dict[Dim, SSAValue]) -> SSAValue:
        b = self._scalar
        if not isinstance(atom, Call):
            return self._absolute(b.as_double(self._bound[atom.name]))
        args = [self._argument_magnitude(arg, parts) for arg in atom.args]
        if (value := self._nearly(atom)) is not None:
            return self._absolute(value)
        if (by := constant_divisor(atom)) is not None:
            return b.fadd(b.fmul(args[0], b.const(1 / by, F64)), b.const(1.0, F64))
        if (only := DECIDING.get(atom.kind)) is not None:
            return args[only]
        first, *rest = args
        for other in rest:
            first = self._larger(first, other)
        return first

    def _argument_magnitude(self, arg: Dim, parts: dict[Dim, SSAValue]) -> SSAValue:
        """The magnitude of a call's argument; one that is an atom is as exact as that, however large it is."""
        if arg.atom is not None:
            return self._atom_magnitude(arg.atom, parts)
        if arg not in parts:
            parts[arg] = self._magnitude(arg, parts)
        return parts[arg]

    def _absolute(self, value: SSAValue) -> SSAValue:
        return self._scalar.raw_intrinsic("llvm.fabs.f64", [value], F64)

    def _nearly(self, atom: Atom) -> SSAValue | None:
        """The value of a symbol, or of the least or largest of such sums, in f64: off by a little of the arguments.

        None for other calls.
        """
        b = self._scalar
        if not isinstance(atom, Call):
            return b.as_double(self._bound[atom.name])
        if atom.kind not in ("min", "max"):
            return None
        best: SSAValue | None = None
        for arg in atom.args:
            value = self._nearly_sum(arg)
            if value is None:
                return None
            if best is None:
                best = value
            else:
                is_less = b.fcmp("olt", best, value)
                best = b.select(is_less, best, value) if atom.kind == "min" else b.select(is_less, value, best)
        return best

    def _nearly_sum(self, dim: Dim) -> SSAValue | None:
        b = self._scalar
        total = b.const(0.0, F64)
        for coefficient, monomial in dim.terms:
            term = b.const(float(coefficient), F64)
            for atom, power in monomial:
                factor = self._nearly(atom)
                if factor is None:
                    return None
                for _ in range(power):
                    term = b.fmul(term, factor)
            total = b.fadd(total, term)
        return total


DECIDING = {"floordiv": 0, "mod": 1}
"""The argument that bounds such a call's value; the values of the others are bounded by their largest argument."""


def constant_divisor(call: Call) -> int | None:
    """The absolute value of the number that a call divides by: the quotient, rounded down, is as much less."""
    if call.kind != "floordiv" or not call.args[1].is_const:
        return None
    return abs(call.args[1].value) or None


def largest_magnitude(dim: Dim, limit: Callable[[str], float]) -> float:
    """The largest magnitude of the expression and of all calls' arguments in it."""
    parts: dict[Dim, float] = {}
    own = _magnitude(dim, limit, parts, is_value=True)
    return max([own, *parts.values()])


def _magnitude(dim: Dim, limit: Callable[[str], float], parts: dict[Dim, float], *, is_value: bool = False) -> float:
    case = case_of(dim)
    if case is not None:
        _atom_magnitude(case.indicator, limit, parts)
        sides = [side for side in (case.holds, case.fails) if not (is_value and side.is_const)]
        return max((_magnitude(side, limit, parts, is_value=is_value) for side in sides), default=0.0)
    total = 0.0
    for coefficient, monomial in dim.terms:
        term = float(abs(coefficient))
        for atom, power in monomial:
            factor = _atom_magnitude(atom, limit, parts)
            for _ in range(power):
                term *= factor  # becomes infinite, where ** would raise
        total += term
    return total


def _atom_magnitude(atom: Atom, limit: Callable[[str], float], parts: dict[Dim, float]) -> float:
    if not isinstance(atom, Call):
        return limit(atom.name)
    args: list[float] = []
    for arg in atom.args:
        if arg.atom is not None:
            args.append(_atom_magnitude(arg.atom, limit, parts))
            continue
        if arg not in parts:
            parts[arg] = _magnitude(arg, limit, parts)
        args.append(parts[arg])
    if (by := constant_divisor(atom)) is not None:
        return args[0] / by + 1
    only = DECIDING.get(atom.kind)
    return max(args) if only is None else args[only]


def bare_symbol(dim: Dim) -> str | None:
    """The name, where the expression is a symbol alone."""
    atom = dim.atom
    return None if atom is None or isinstance(atom, Call) else atom.name
