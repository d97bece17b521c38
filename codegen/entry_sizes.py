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
from ..dialects.dims.cases import case_to_compute
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
        self._bounds = LargestMagnitudes(self._limit)
        self._small: set[Dim] = set() if parent is None else set(parent._small)
        self.pointers: dict[tuple[str, object], SSAValue] = {} if parent is None else dict(parent.pointers)
        """Pointers computed in this region and its surroundings, by what they point to."""
        self._magnitudes: dict[tuple[Dim, bool], tuple[SSAValue, dict[Dim, SSAValue]]] = {}
        """Of expressions, and whether they are values: the magnitude, and those of the calls' arguments in them."""
        self._of_atoms: dict[Atom, tuple[SSAValue, dict[Dim, SSAValue]]] = {}
        self._largest_of: dict[tuple[Dim, bool], SSAValue] = {}
        self._values: dict[Atom, SSAValue | None] = {}
        """What is nearly an atom's value, in f64."""
        if parent is not None:
            self._dims.update(parent._dims)
            self._atoms.update(parent._atoms)
            self._magnitudes.update(parent._magnitudes)
            self._of_atoms.update(parent._of_atoms)
            self._largest_of.update(parent._largest_of)
            self._values.update(parent._values)

    def bind(self, symbol: str, value: SSAValue, limit: float = float(SIZE_LIMIT)) -> None:
        """The symbol stands for this i64 from here on; `limit` bounds its absolute value."""
        self._bound[symbol] = value
        self._limits[symbol] = limit
        self._bounds = LargestMagnitudes(self._limit)

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
        return max(self._bounds.of_dim(dim, is_value=True)) >= MAGNITUDE_LIMIT

    def is_small(self, dim: Dim) -> SSAValue:
        """Emits the comparison that tells whether all magnitudes are below the limit; notes it as checked."""
        self._small.add(dim)
        b = self._scalar
        return b.fcmp("olt", self._side_magnitude(dim, is_value=True), b.const(MAGNITUDE_LIMIT, F64))

    def _limit(self, symbol: str) -> float:
        return self._limits.get(symbol, ANY)

    def _larger(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._scalar.select(self._scalar.fcmp("olt", a, b), b, a)

    def _largest(self, total: SSAValue, parts: Mapping[Dim, SSAValue]) -> SSAValue:
        for other in parts.values():
            total = self._larger(total, other)
        return total

    def _side_magnitude(self, dim: Dim, is_value: bool) -> SSAValue:
        """The largest of an expression's magnitude and those of the calls' arguments in it."""
        found = self._largest_of.get((dim, is_value))
        if found is None:
            parts: dict[Dim, SSAValue] = {}
            found = self._largest(self._magnitude(dim, parts, is_value), parts)
            self._largest_of[dim, is_value] = found
        return found

    def _magnitude(self, dim: Dim, parts: dict[Dim, SSAValue], is_value: bool = False) -> SSAValue:
        """The magnitude at run time, an f64; those of the calls' arguments that can be too large are put into `parts`.

        `is_value` says that nothing is computed of the expression.
        """
        found = self._magnitudes.get((dim, is_value))
        if found is None:
            inside: dict[Dim, SSAValue] = {}
            found = self._magnitudes[dim, is_value] = self._new_magnitude(dim, inside, is_value), inside
        parts.update(found[1])
        return found[0]

    def _new_magnitude(self, dim: Dim, parts: dict[Dim, SSAValue], is_value: bool) -> SSAValue:
        b = self._scalar
        case = case_to_compute(dim)
        if case is not None:
            self._atom_magnitude(case.indicator, parts)
            sides = [
                b.const(0.0, F64) if is_value and side.is_const else self._side_magnitude(side, is_value)
                for side in (case.holds, case.fails)
            ]
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

    def _atom_magnitude(self, atom: Atom, parts: dict[Dim, SSAValue]) -> SSAValue:
        found = self._of_atoms.get(atom)
        if found is None:
            inside: dict[Dim, SSAValue] = {}
            found = self._of_atoms[atom] = self._new_atom_magnitude(atom, inside), inside
        parts.update(found[1])
        return found[0]

    def _new_atom_magnitude(self, atom: Atom, parts: dict[Dim, SSAValue]) -> SSAValue:
        b = self._scalar
        if not isinstance(atom, Call):
            return self._absolute(b.as_double(self._bound[atom.name]))
        if (value := self._nearly(atom)) is not None:
            for arg in atom.args:
                if max(self._bounds.of_dim(arg)) >= MAGNITUDE_LIMIT:
                    self._argument_magnitude(arg, parts)
            return self._absolute(value)
        args = [self._argument_magnitude(arg, parts) for arg in atom.args]
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
        own = self._magnitude(arg, parts)
        if self._bounds.of_dim(arg)[0] >= MAGNITUDE_LIMIT:
            parts[arg] = own
        return own

    def _absolute(self, value: SSAValue) -> SSAValue:
        return self._scalar.raw_intrinsic("llvm.fabs.f64", [value], F64)

    def _nearly(self, atom: Atom) -> SSAValue | None:
        """The value of a symbol, or of the least or largest of such sums, in f64: off by a little of the arguments.

        None for other calls.
        """
        if atom not in self._values:
            self._values[atom] = self._new_value(atom)
        return self._values[atom]

    def _new_value(self, atom: Atom) -> SSAValue | None:
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
    return max(LargestMagnitudes(limit).of_dim(dim, is_value=True))


class LargestMagnitudes:
    """Magnitudes, and the largest of those of the calls' arguments inside, where symbols are as large as can be."""

    def __init__(self, limit: Callable[[str], float]) -> None:
        self._limit = limit
        self._of_dims: dict[tuple[Dim, bool], tuple[float, float]] = {}
        self._of_atoms: dict[Atom, tuple[float, float]] = {}

    def of_dim(self, dim: Dim, is_value: bool = False) -> tuple[float, float]:
        """Those of an expression; `is_value` says that nothing is computed of it."""
        found = self._of_dims.get((dim, is_value))
        if found is None:
            found = self._of_dims[dim, is_value] = self._new_dim(dim, is_value)
        return found

    def _new_dim(self, dim: Dim, is_value: bool) -> tuple[float, float]:
        case = case_to_compute(dim)
        if case is not None:
            sides = [side for side in (case.holds, case.fails) if not (is_value and side.is_const)]
            found = [self.of_dim(side, is_value) for side in sides]
            inside = self._of_atom(case.indicator)[1]
            return max((own for own, _ in found), default=0.0), max(inside, *(part for _, part in found), 0.0)
        total = inside = 0.0
        for coefficient, monomial in dim.terms:
            term = float(abs(coefficient))
            for atom, power in monomial:
                factor, part = self._of_atom(atom)
                inside = max(inside, part)
                for _ in range(power):
                    term *= factor  # becomes infinite, where ** would raise
            total += term
        return total, inside

    def _of_atom(self, atom: Atom) -> tuple[float, float]:
        found = self._of_atoms.get(atom)
        if found is None:
            found = self._of_atoms[atom] = self._new_atom(atom)
        return found

    def _new_atom(self, atom: Atom) -> tuple[float, float]:
        if not isinstance(atom, Call):
            return self._limit(atom.name), 0.0
        args: list[float] = []
        inside = 0.0
        for arg in atom.args:
            own, part = self._of_atom(arg.atom) if arg.atom is not None else self.of_dim(arg)
            args.append(own)
            inside = max(inside, part, 0.0 if arg.atom is not None else own)
        if (by := constant_divisor(atom)) is not None:
            return args[0] / by + 1, inside
        only = DECIDING.get(atom.kind)
        return (max(args) if only is None else args[only]), inside


def bare_symbol(dim: Dim) -> str | None:
    """The name, where the expression is a symbol alone."""
    atom = dim.atom
    return None if atom is None or isinstance(atom, Call) else atom.name
