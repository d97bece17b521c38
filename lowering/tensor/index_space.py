"""Index expressions: `Dim` polynomials over loop variables, computed indices and the kernel's symbols, with bounds.

Loop variables are the symbols i0, i1, ...; indices computed by the body (a gathered one) are s0, s1, ....  All are at
least 0 and below a bound.  An index expression is read only where its loops run, so every loop's extent is at least 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO, Atom, Call, DimError, dim_min, never_one
from ...dialects.dims.interval import Ranges, default_range, is_at_least, is_signed, upper_bound

Index = tuple[Dim, ...]


class IndexSpace:
    """The variables of index expressions with their exclusive upper bounds, and what follows from these."""

    def __init__(self, bounds: Mapping[str, Dim]) -> None:
        self._bounds: dict[str, Dim] = {}
        self._ranges = Ranges()
        for bound in bounds.values():
            self._note_at_least_one(bound)
        for name, bound in bounds.items():
            self.add(name, bound)

    def _note_at_least_one(self, bound: Dim) -> None:
        atom = bound.atom
        if atom is not None and atom.args is None and is_signed(atom.name):
            self._ranges.set(atom.name, 1, default_range(atom.name)[1])

    def add(self, name: str, bound: Dim) -> Dim:
        """A further variable, in [0, bound)."""
        self._bounds[name] = bound
        self._ranges.set(name, 0, bound.value - 1 if bound.is_const else inf)
        return Dim.symbol(name)

    def varies(self, expression: Dim) -> bool:
        """Whether it depends on any variable, not only on the kernel's symbols."""
        return not expression.symbols.isdisjoint(self._bounds)

    def is_negative_free(self, expression: Dim) -> bool:
        """Whether it is certainly at least 0 wherever it is read."""
        try:
            if is_at_least(expression, 0, self._ranges):
                return True
            least = self._least_value(expression)
            return least is not None and is_at_least(least, 0, self._ranges)
        except DimError:  # too large to be looked at
            return False

    def most(self, expression: Dim) -> int | None:
        """A number that it is never above wherever it is read; None where none is known."""
        try:
            bound = upper_bound(expression, self._ranges)
        except DimError:  # too large to be looked at
            return None
        return None if bound == inf else int(bound)

    def is_below(self, expression: Dim, bound: Dim) -> bool:
        """Whether 0 <= expression < bound for certain."""
        return self.is_negative_free(expression) and self.is_negative_free(bound - expression - 1)

    def _least_value(self, expression: Dim) -> Dim | None:
        """A lower bound in the kernel's symbols only: each variable at the end of its range that its sign asks for."""
        for _ in range(len(expression.terms) + 4):
            found = self._first_variable(expression)
            if found is None:
                return expression
            variable, bound = found
            factor, rest = coefficient_of(expression, variable)
            if factor is None:
                return None
            sign = self._sign(factor)
            if sign == 0:
                return None
            expression = rest if sign > 0 else rest + factor * (bound - 1)
        return None

    def _first_variable(self, expression: Dim) -> tuple[Atom, Dim] | None:
        for _, monomial in expression.terms:
            for atom, _ in monomial:
                if (bound := self._bound_of(atom)) is not None:
                    return atom, bound
        return None

    def _bound_of(self, atom: Atom) -> Dim | None:
        if atom.args is None:
            return self._bounds.get(atom.name)
        if atom.kind == "mod" and not atom.symbols.isdisjoint(self._bounds):
            return atom.args[1]
        if (
            atom.kind == "floordiv"
            and not atom.symbols.isdisjoint(self._bounds)
            and self.is_negative_free(atom.args[0])
        ):
            most = self._least_value(-atom.args[0])
            return None if most is None else (-most) // atom.args[1] + 1
        return None

    def _sign(self, factor: Dim) -> int:
        """1 where it is at least 0, -1 where it is at most 0, 0 where neither is certain."""
        if is_at_least(factor, 0, self._ranges) or self.is_negative_free(factor):
            return 1
        return -1 if self.is_negative_free(-factor) else 0

    def divide(self, expression: Dim, divisor: Dim) -> tuple[Dim, Dim]:
        """Quotient and remainder, without `//` and `%` where the bounds allow."""
        if divisor is ONE:
            return expression, ZERO
        if divisor is ZERO:
            return ZERO, ZERO  # an empty tensor: no index is ever read
        if expression is ZERO or self.is_below(expression, divisor):
            return ZERO, expression
        quotient, rest = long_division(expression, divisor)
        if quotient is not ZERO and self.is_below(rest, divisor):
            return quotient, rest
        return expression // divisor, expression % divisor

    def linearize(self, index: Index, dims: Sequence[Dim]) -> Dim:
        """The row-major offset of an index."""
        offset = ZERO
        for at, size in zip(index, dims):
            offset = offset * size + at
        return offset

    def delinearize(self, offset: Dim, dims: Sequence[Dim]) -> Index:
        """The index at a row-major offset, which must be inside."""
        index: list[Dim] = []
        for size in reversed(dims[1:]):
            offset, at = self.divide(offset, size)
            index.append(at)
        if dims:
            index.append(offset)
        return tuple(reversed(index))

    def joined(self, index: Index, dims: Sequence[Dim]) -> tuple[Index, tuple[Dim, ...]] | None:
        """The index and the dims with axes joined where that undoes a division: x // B and x % B are x again.

        None where there are no such axes.
        """
        out: list[tuple[Dim, Dim]] = []
        for at, size in zip(index, dims, strict=True):
            out.append((at, size))
            while len(out) > 1 and (whole := _undivided(*out[-2:])) is not None:
                out[-2:] = [whole]
        if len(out) == len(dims):
            return None
        return tuple(at for at, _ in out), tuple(size for _, size in out)

    def reshape(self, index: Index, dims: Sequence[Dim], source: Sequence[Dim]) -> Index:
        """The index into a tensor of dims `source` of the element that has `index` in its reshape to `dims`.

        Axes are matched in groups of equal product first, so that what is not touched stays as it is.
        """
        out: list[Dim] = []
        at, before = 0, 0
        while before < len(source):
            if at < len(dims) and dims[at] is source[before]:
                out.append(index[at])
                at, before = at + 1, before + 1
                continue
            if source[before] is ONE:
                out.append(ZERO)
                before += 1
                continue
            if at < len(dims) and dims[at] is ONE:
                at += 1
                continue
            group = _group(dims[at:], source[before:])
            if group is None:
                offset = self.linearize(index[at:], dims[at:])
                out.extend(self.delinearize(offset, source[before:]))
                break
            wide, narrow = group
            offset = self.linearize(index[at : at + wide], dims[at : at + wide])
            out.extend(self.delinearize(offset, source[before : before + narrow]))
            at, before = at + wide, before + narrow
        return tuple(out)


def _undivided(outer: tuple[Dim, Dim], inner: tuple[Dim, Dim]) -> tuple[Dim, Dim] | None:
    """The index into two axes as one, and its size, where the inner index is the remainder of the outer's division."""
    (above, count), (below, size) = outer, inner
    atom = below.atom
    if atom is None or atom.args is None or atom.kind != "mod" or atom.args[1] is not size:
        return None
    dividend = atom.args[0]
    quotient = (dividend // size).atom
    if quotient is None:
        return None
    factor, rest = coefficient_of(above, quotient)
    return (rest * size + dividend, count * size) if factor is ONE else None


def _group(dims: Sequence[Dim], source: Sequence[Dim]) -> tuple[int, int] | None:
    """The shortest leading axes of both with equal products; None where that is not before the end."""
    if not dims or not source:
        return None
    products: dict[Dim, int] = {}
    total = ONE
    for count, size in enumerate(dims, 1):
        total = total * size
        products.setdefault(total, count)
    total = ONE
    for count, size in enumerate(source, 1):
        total = total * size
        if (wide := products.get(total)) is not None:
            return wide, count
    return None


def long_division(expression: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """(q, r) with expression == q * divisor + r, by the leading terms: r has no term that divisor's first divides."""
    quotient, rest, left = ZERO, ZERO, expression
    if not divisor.terms:
        return ZERO, expression
    lead = Dim.of_terms((divisor.terms[0],))
    for _ in range(64):
        if not left.terms:
            return quotient, rest
        term = Dim.of_terms((left.terms[0],))
        step = term.divide_exactly(lead)
        if step is None:
            rest, left = rest + term, left - term
        else:
            quotient, left = quotient + step, left - step * divisor
    return ZERO, expression


def coefficient_of(expression: Dim, atom: Atom) -> tuple[Dim | None, Dim]:
    """(c, rest) with expression == c * atom + rest and no atom in either; c is None where it is not linear."""
    factor: list[tuple[int, tuple[tuple[Atom, int], ...]]] = []
    rest: list[tuple[int, tuple[tuple[Atom, int], ...]]] = []
    for coefficient, monomial in expression.terms:
        power = next((p for a, p in monomial if a is atom), 0)
        if power > 1:
            return None, expression
        if power:
            factor.append((coefficient, tuple(f for f in monomial if f[0] is not atom)))
        else:
            rest.append((coefficient, monomial))
    return Dim.of_terms(factor), Dim.of_terms(rest)


def atoms_of(expression: Dim) -> list[Atom]:
    """Its atoms, each once, in order."""
    found: dict[Atom, None] = {}
    for _, monomial in expression.terms:
        for atom, _ in monomial:
            found[atom] = None
    return list(found)


def calls_of(expression: Dim) -> list[Call]:
    return [a for a in atoms_of(expression) if a.args is not None]


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements of a shape."""
    total = ONE
    for size in dims:
        total = total * size
    return total


def without(dims: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    return tuple(d for axis, d in enumerate(dims) if axis not in axes)


def broadcast_stride(size: Dim, to: Dim) -> Dim:
    """What an index into an axis of size `to` is multiplied by for an axis of this size: 0 for size 1, else 1."""
    if size is ONE:
        return ZERO
    if size is to or size.is_const:
        return ONE
    return ONE if never_one(size) else dim_min(size - 1, as_dim(1))
