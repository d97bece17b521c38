"""Dimension expressions as integer arithmetic on i64 values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from ..dialects.dims import Dim
from ..dialects.dims.cases import case_to_compute
from ..dialects.dims.expression import Atom, Call
from .build import FunctionBuilder
from .llvm_types import I64


class DimBuilder:
    """Builds expressions over known symbols, each sub-expression once.

    All values go to the block that is the builder's current one at the time; the caller sees to it that this block
    dominates the uses.  Division rounds down, mod has the divisor's sign (Python's rules); by zero, where a guard
    elsewhere will have refused the sizes, both give something and do not trap.  Of a size that a condition chooses both
    sides are computed, and the one that is not chosen may overflow.
    """

    def __init__(self, builder: FunctionBuilder, symbols: Mapping[str, SSAValue]) -> None:
        self.builder = builder
        self.symbols = symbols
        self._dims: dict[Dim, SSAValue] = {}
        self._atoms: dict[Atom, SSAValue] = {}

    def value(self, dim: Dim) -> SSAValue:
        """The i64 value of an expression; KeyError for a symbol that is not known."""
        found = self._dims.get(dim)
        if found is None:
            found = self._dims[dim] = self._sum(dim)
        return found

    def _sum(self, dim: Dim) -> SSAValue:
        b = self.builder
        case = case_to_compute(dim)
        if case is not None:
            holds = b.icmp("ne", self._atom(case.indicator), b.const(0, I64))
            return b.select(holds, self.value(case.holds), self.value(case.fails))
        total: SSAValue | None = None
        for coefficient, monomial in dim.terms:
            term: SSAValue | None = None
            for atom, power in monomial:
                for _ in range(power):
                    factor = self._atom(atom)
                    term = factor if term is None else b.mul(term, factor, nsw=True)
            if term is None:
                term = b.const(coefficient, I64)
            elif coefficient != 1:
                term = b.mul(term, b.const(coefficient, I64), nsw=True)
            total = term if total is None else b.add(total, term, nsw=True)
        return b.const(0, I64) if total is None else total

    def _atom(self, atom: Atom) -> SSAValue:
        found = self._atoms.get(atom)
        if found is None:
            found = self.symbols[atom.name] if not isinstance(atom, Call) else self._call(atom)
            self._atoms[atom] = found
        return found

    def _call(self, call: Call) -> SSAValue:
        first, *rest = [self.value(arg) for arg in call.args]
        combine = COMBINE[call.kind]
        for value in rest:
            first = combine(self.builder, first, value)
        return first


def _nonzero(b: FunctionBuilder, value: SSAValue) -> SSAValue:
    if isinstance(value.owner, llvm.ConstantOp):
        return value
    return b.select(b.icmp("eq", value, b.const(0, I64)), b.const(1, I64), value)


def floordiv(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x // y, rounded down: the quotient towards zero, less one where signs differ and something is left over."""
    return floordiv_nonzero(b, x, _nonzero(b, y))


def floordiv_nonzero(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x // y, rounded down, where y is known not to be zero."""
    quotient = b.binary(llvm.SDivOp, x, y)
    rest = b.sub(x, b.mul(quotient, y))
    return b.select(_lies_below(b, rest, y), b.add(quotient, b.const(-1, x.type)), quotient)


def floormod(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x mod y with the sign of y."""
    y = _nonzero(b, y)
    rest = b.binary(llvm.SRemOp, x, y)
    return b.select(_lies_below(b, rest, y), b.add(rest, y), rest)


def _lies_below(b: FunctionBuilder, rest: SSAValue, y: SSAValue) -> SSAValue:
    """Whether a remainder is not zero and has the other sign than y."""
    zero = b.const(0, rest.type)
    return b.and_(b.icmp("ne", rest, zero), b.icmp("slt", b.xor(rest, y), zero))


def _min(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.intrinsic("llvm.smin", (x, y), I64)


def _max(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.intrinsic("llvm.smax", (x, y), I64)


def _broadcast(b: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Of two sizes that broadcast, the one that is not 1."""
    return b.select(b.icmp("eq", x, b.const(1, I64)), y, x)


COMBINE: dict[str, Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue]] = {
    "floordiv": floordiv,
    "mod": floormod,
    "min": _min,
    "max": _max,
    "broadcast": _broadcast,
}
