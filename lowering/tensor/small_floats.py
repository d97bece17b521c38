"""Floats of 4 to 8 bits and integers of less than 8: a byte in memory, taken apart and put together by their bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from .element_kinds import F32, F64, I8, I32, I64, Element, SmallFloat

if TYPE_CHECKING:
    from .scalars import Scalars


def widened(s: Scalars, value: SSAValue, element: Element) -> SSAValue:
    """The byte of a small element in its compute type."""
    if element.kind == "f":
        assert element.small is not None
        return _decoded(s, s.convert("extui", value, I32), element.small)
    spare = s.constant(8 - element.bits, I8)
    if element.kind == "u":
        return s.both(value, s.constant((1 << element.bits) - 1, I8))
    return s.int_binary(arith.ShRSIOp, s.int_binary(arith.ShLIOp, value, spare), spare)


def narrowed(s: Scalars, value: SSAValue, element: Element) -> SSAValue:
    """A value of the compute type as the byte of a small element; integers lose their high bits."""
    if element.kind == "f":
        assert element.small is not None
        code = _power_code(s, value, element) if element.small.mantissa == 0 else Encoder(s, element).code(value)
        return s.convert("trunci", code, I8)
    return s.both(value, s.constant((1 << element.bits) - 1, I8))


def _shift(s: Scalars, value: SSAValue, by: int, left: bool, t: Element) -> SSAValue:
    return s.int_binary(arith.ShLIOp if left else arith.ShRUIOp, value, s.constant(by, t))


def _decoded(s: Scalars, code: SSAValue, f: SmallFloat) -> SSAValue:
    """f32 from a code (i32): the fields moved to f32's places; subnormals as a whole number times a power of two."""
    mask = s.constant((1 << f.exponent + f.mantissa) - 1, I32)
    magnitude = s.both(code, mask)
    if f.mantissa == 0:  # powers of two from 2**-127, which is a subnormal f32
        shifted = _shift(s, magnitude, 23, True, I32)
        least = s.compare("eq", magnitude, s.constant(0, I32), I32)
        value = s.convert("bitcast", s.select(least, s.constant(1 << 22, I32), shifted), F32)
        return _or_nan(s, value, s.compare("eq", magnitude, s.constant(255, I32), I32))
    exponent = _shift(s, magnitude, f.mantissa, False, I32)
    moved = _shift(s, magnitude, 23 - f.mantissa, True, I32)
    normal = s.convert("bitcast", s.add(moved, s.constant((127 - f.bias) << 23, I32), I32), F32)
    unit = s.constant(2.0 ** (1 - f.bias - f.mantissa), F32)
    tiny = s.mul(s.convert("sitofp", magnitude, F32), unit, F32)
    value = s.select(s.compare("eq", exponent, s.constant(0, I32), I32), tiny, normal)
    negative = s.compare("ne", s.both(code, s.constant(f.sign, I32)), s.constant(0, I32), I32)
    if f.infinity is not None:
        infinite = s.compare("eq", magnitude, s.constant(f.infinity, I32), I32)
        value = s.select(infinite, s.constant(float("inf"), F32), value)
        value = _or_nan(s, value, s.compare("gt", magnitude, s.constant(f.infinity, I32), I32))
    value = s.select(negative, s.neg(value, F32), value)
    if f.nan is not None and f.infinity is None:
        field = code if f.nan == f.sign else magnitude
        value = _or_nan(s, value, s.compare("eq", field, s.constant(f.nan, I32), I32))
    return value


def _or_nan(s: Scalars, value: SSAValue, condition: SSAValue) -> SSAValue:
    return s.select(condition, s.constant(float("nan"), F32), value)


@dataclass
class Encoder:
    """From f32 to a code (i32), rounded to nearest even; beyond the range by the element's `saturate`."""

    s: Scalars
    element: Element

    @property
    def small(self) -> SmallFloat:
        assert self.element.small is not None
        return self.element.small

    def code(self, value: SSAValue) -> SSAValue:
        s, f = self.s, self.small
        bits = s.convert("bitcast", value, I32)
        negative = s.compare("lt", bits, s.constant(0, I32), I32)
        magnitude = self._rounded(s.abs(value, F32))
        over = s.compare("gt", magnitude, s.constant(f.greatest, I32), I32)
        if self.element.saturate or (f.infinity is None and f.nan is None):
            magnitude = s.select(over, s.constant(f.greatest, I32), magnitude)
        else:
            lost = f.infinity if f.infinity is not None else f.nan
            assert lost is not None
            magnitude = s.select(over, s.constant(lost, I32), magnitude)
        return self._with_sign(value, magnitude, negative)

    def _rounded(self, value: SSAValue) -> SSAValue:
        """The code of a magnitude, which may be beyond the greatest."""
        s, f = self.s, self.small
        drop = 23 - f.mantissa
        bits = s.convert("bitcast", value, I32)
        odd = s.both(_shift(s, bits, drop, False, I32), s.constant(1, I32))
        up = s.add(s.add(bits, odd, I32), s.constant((1 << drop - 1) - 1, I32), I32)
        normal = s.sub(_shift(s, up, drop, False, I32), s.constant((127 - f.bias) << f.mantissa, I32), I32)
        unit = 2.0 ** (1 - f.bias - f.mantissa)
        whole = s.unary(math.RoundEvenOp, s.mul(value, s.constant(1 / unit, F32), F32))
        # rounding a subnormal up to the least normal number gives that number's code
        tiny = s.convert("fptosi", whole, I32)
        return s.select(s.compare("lt", value, s.constant(2.0 ** (1 - f.bias), F32), F32), tiny, normal)

    def _with_sign(self, value: SSAValue, magnitude: SSAValue, negative: SSAValue) -> SSAValue:
        s, f = self.s, self.small
        sign = s.constant(f.sign, I32)
        zero = s.constant(0, I32)
        nan = s.is_nan(value, F32)
        if f.nan == f.sign:  # no negative zero: its code is NaN
            nonzero = s.compare("ne", magnitude, zero, I32)
            signed = s.select(s.both(negative, nonzero), s.either(magnitude, sign), magnitude)
            lost = s.either(nan, s.compare("eq", magnitude, sign, I32))
            return s.select(lost, sign, signed)
        signed = s.select(negative, s.either(magnitude, sign), magnitude)
        if f.nan is None:  # ml_dtypes gives a zero of the other sign
            return s.select(nan, s.select(negative, zero, sign), signed)
        invalid = s.constant(f.nan, I32)
        return s.select(nan, s.select(negative, s.either(invalid, sign), invalid), signed)


def _power_code(s: Scalars, value: SSAValue, element: Element) -> SSAValue:
    """The biased exponent of a magnitude, rounded by the element's `rounding`, i32.

    In f64, where every f32 is a normal number. What is below 2**-127 or above 2**127 saturates, or is NaN (255).
    """
    bits = s.convert("bitcast", s.abs(s.convert("extf", value, F64), F64), I64)
    exponent = s.sub(_shift(s, bits, 52, False, I64), s.constant(1023, I64), I64)
    fraction = s.both(bits, s.constant((1 << 52) - 1, I64))
    if element.rounding != "down":
        least = 1 if element.rounding == "up" else 1 << 51
        above = s.compare("ge", fraction, s.constant(least, I64), I64)
        exponent = s.add(exponent, s.convert("extui", above, I64), I64)
    code = s.add(exponent, s.constant(127, I64), I64)
    low, high = s.constant(0, I64), s.constant(254, I64)
    bounded = s.min(s.max(code, low, I64), high, I64)
    if not element.saturate:
        outside = s.either(s.compare("lt", code, low, I64), s.compare("gt", code, high, I64))
        bounded = s.select(outside, s.constant(255, I64), bounded)
    nan = s.is_nan(value, F32)
    return s.convert("trunci", s.select(nan, s.constant(255, I64), bounded), I32)
