"""Arithmetic on llvm values written as formulas: `p = fma(p, r, 0.5)`, `n = (bits >> 23) - 127`.

Numbers become constants of the other operand's type; everything works on scalars and vectors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from ..dialects.llvmx import lanes_of
from .build import FunctionBuilder
from .llvm_types import F32, F64, I32, I64, Constant, element_of, float_of_bits, is_float, like


@dataclass(frozen=True, eq=False)
class Lanes:
    """A scalar or vector value, and the function in which to go on computing with it."""

    f: FunctionBuilder
    value: SSAValue

    @property
    def type(self) -> Attribute:
        return self.value.type

    @property
    def count(self) -> int | None:
        """The number of lanes, None for a scalar."""
        return lanes_of(self.type)

    def of(self, value: SSAValue) -> Lanes:
        return Lanes(self.f, value)

    def const(self, number: Constant) -> Lanes:
        """The number in all lanes."""
        return Lanes(self.f, self.f.const(number, self.type))

    def bits_const(self, bits: int) -> Lanes:
        """The f32 with these bits in all lanes."""
        return self.const(float_of_bits(bits))

    def lift(self, other: Lanes | Constant) -> SSAValue:
        return other.value if isinstance(other, Lanes) else self.f.const(other, self.type)

    # arithmetic, by the type of the elements

    def __add__(self, other: Lanes | Constant) -> Lanes:
        b = self.lift(other)
        return self.of(self.f.fadd(self.value, b) if is_float(self.type) else self.f.add(self.value, b))

    def __radd__(self, other: Constant) -> Lanes:
        return self + other

    def __sub__(self, other: Lanes | Constant) -> Lanes:
        b = self.lift(other)
        return self.of(self.f.fsub(self.value, b) if is_float(self.type) else self.f.sub(self.value, b))

    def __rsub__(self, other: Constant) -> Lanes:
        return self.const(other) - self

    def __mul__(self, other: Lanes | Constant) -> Lanes:
        b = self.lift(other)
        return self.of(self.f.fmul(self.value, b) if is_float(self.type) else self.f.mul(self.value, b))

    def __rmul__(self, other: Constant) -> Lanes:
        return self * other

    def __truediv__(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.fdiv(self.value, self.lift(other)))

    def __rtruediv__(self, other: Constant) -> Lanes:
        return self.const(other) / self

    def __neg__(self) -> Lanes:
        return self.of(self.f.fneg(self.value)) if is_float(self.type) else self.const(0) - self

    def __and__(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.and_(self.value, self.lift(other)))

    def __or__(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.or_(self.value, self.lift(other)))

    def __xor__(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.xor(self.value, self.lift(other)))

    def __lshift__(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.shl(self.value, self.lift(other)))

    def __rshift__(self, other: Lanes | Constant) -> Lanes:
        """Keeps the sign; `shifted_down` does not."""
        return self.of(self.f.ashr(self.value, self.lift(other)))

    def shifted_down(self, other: Lanes | Constant) -> Lanes:
        return self.of(self.f.lshr(self.value, self.lift(other)))

    # comparisons: floats are ordered (false for NaN), integers signed

    def _compare(self, name: str, other: Lanes | Constant) -> Lanes:
        b = self.lift(other)
        if is_float(self.type):
            return self.of(self.f.fcmp(f"o{name}", self.value, b))
        return self.of(self.f.icmp(name if name in ("eq", "ne") else f"s{name}", self.value, b))

    def __lt__(self, other: Lanes | Constant) -> Lanes:
        return self._compare("lt", other)

    def __le__(self, other: Lanes | Constant) -> Lanes:
        return self._compare("le", other)

    def __gt__(self, other: Lanes | Constant) -> Lanes:
        return self._compare("gt", other)

    def __ge__(self, other: Lanes | Constant) -> Lanes:
        return self._compare("ge", other)

    def equals(self, other: Lanes | Constant) -> Lanes:
        return self._compare("eq", other)

    def is_nan(self) -> Lanes:
        return self.of(self.f.fcmp("uno", self.value, self.value))

    def choose(self, then: Lanes, otherwise: Lanes | Constant) -> Lanes:
        """`then` in the lanes where this condition holds, else `otherwise`."""
        return self.of(self.f.select(self.value, then.value, then.lift(otherwise)))

    # floats

    def abs(self) -> Lanes:
        return self.unary("llvm.fabs")

    def sqrt(self) -> Lanes:
        return self.unary("llvm.sqrt")

    def unary(self, name: str) -> Lanes:
        """An intrinsic of one operand and of the same type."""
        return self.of(self.f.intrinsic(name, (self.value,), self.type))

    def with_sign_of(self, other: Lanes) -> Lanes:
        return self.of(self.f.intrinsic("llvm.copysign", (self.value, other.value), self.type))

    def at_most(self, bound: Constant) -> Lanes:
        """The lesser of both; NaN stays (one instruction, unlike `llvm.minimum`)."""
        return (self > bound).choose(self.const(bound), self)

    def at_least(self, bound: Constant) -> Lanes:
        """The greater of both; NaN stays."""
        return (self < bound).choose(self.const(bound), self)

    # conversions

    def to(self, kind: str, element: Attribute) -> Lanes:
        """LLVM's conversion of that name to as many lanes of `element`."""
        return self.of(self.f.cast(kind, self.value, like(self.type, element)))

    def bits(self) -> Lanes:
        """The bits as integers of the same width."""
        return self.to("bitcast", I32 if element_of(self.type) == F32 else I64)

    def as_float(self) -> Lanes:
        """Integers as the floats with these bits."""
        return self.to("bitcast", F32 if element_of(self.type) == I32 else F64)

    def const_table(self, values: Sequence[Constant]) -> SSAValue:
        """A vector constant of these values, of this element type."""
        return self.f.const_lanes(values, VectorType(element_of(self.type), [len(values)]))


def fma(a: Lanes, b: Lanes, c: Lanes | Constant) -> Lanes:
    """a*b + c, rounded once."""
    return a.of(a.f.fma(a.value, b.value, a.lift(c)))


def polynomial(t: Lanes, coefficients: Sequence[float]) -> Lanes:
    """c0 + c1*t + c2*t^2 + ..., by Horner's rule with fma."""
    result = t.const(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, t, coefficient)
    return result
