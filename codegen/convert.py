"""Conversions between element types, lane by lane.

LLVM's own are used where they are right and fast.  Not so:

* float to integer: LLVM's gives poison out of range; here it saturates and NaN gives 0.
* bf16: `vcvtneps2bf16` flushes denormals, and without it LLVM calls a library, even to move a value.  So a bf16 value
  is an i16, its bits; it is widened by a shift and narrowed by integer arithmetic: the half of the last kept bit is
  added (and one less where that bit is 0, which is round to nearest even), NaN stays a quiet NaN with its sign and
  upper payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import vectorx
from .arith import integer_resize
from .build import FunctionBuilder
from .llvm_types import F32, I16, I32, bits_of, element_of, like
from .scope import Scope, TranslateError, Translation


def bf16_to_f32(f: FunctionBuilder, value: SSAValue) -> SSAValue:
    """Exact: the bits are the upper half of the f32."""
    wide = f.cast("zext", value, like(value.type, I32))
    return f.bitcast(f.shl(wide, f.const(16, wide.type)), like(value.type, F32))


def f32_to_bf16(f: FunctionBuilder, value: SSAValue) -> SSAValue:
    """Rounds to nearest even; denormals are kept, overflow gives infinity, NaN stays NaN."""
    bits_type = like(value.type, I32)
    bits = f.bitcast(value, bits_type)
    upper = f.lshr(bits, f.const(16, bits_type))
    odd = f.and_(upper, f.const(1, bits_type))
    rounded = f.lshr(f.add(bits, f.add(odd, f.const(0x7FFF, bits_type))), f.const(16, bits_type))
    quiet = f.or_(upper, f.const(0x40, bits_type))
    chosen = f.select(f.fcmp("uno", value, value), quiet, rounded)
    return f.cast("trunc", chosen, like(value.type, I16))


def widen_float(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """To a float type with more bits (f16 -> f32 -> f64)."""
    return value if value.type == type_ else f.cast("fpext", value, type_)


def narrow_float(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """To a float type with fewer bits, rounding to nearest even once."""
    if isinstance(element_of(type_), Float16Type) and not isinstance(element_of(value.type), Float32Type):
        return f.cast("fptrunc", _round_to_odd(f, value), type_)
    return f.cast("fptrunc", value, type_)


def _round_to_odd(f: FunctionBuilder, value: SSAValue) -> SSAValue:
    """f64 to f32 such that a second rounding to at most 22 bits gives what one rounding would have given.

    Rounded towards zero, with the last bit set where something was cut off (Boldo and Melquiond, "Emulation of
    FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    narrow_type = like(value.type, F32)
    bits_type = like(value.type, I32)
    nearest = f.cast("fptrunc", value, narrow_type)
    back = f.cast("fpext", nearest, value.type)
    bits = f.bitcast(nearest, bits_type)
    exact = f.or_(f.fcmp("ueq", back, value), f.icmp("ne", f.and_(bits, f.const(1, bits_type)), f.const(0, bits_type)))
    # nearest is even and off: step one ulp to where the value lies, which is odd
    magnitude = f.intrinsic("llvm.fabs", (value,), value.type)
    outward = f.fcmp("ogt", magnitude, f.intrinsic("llvm.fabs", (back,), value.type))
    step = f.select(outward, f.const(1, bits_type), f.const(-1, bits_type))
    odd = f.select(exact, bits, f.add(bits, step))
    return f.bitcast(odd, narrow_type)


def float_to_signed(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Towards zero, saturating; NaN gives 0."""
    width = bits_of(element_of(type_))
    return _saturate(f, "fptosi", value, type_, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def float_to_unsigned(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Towards zero, saturating (negative gives 0); NaN gives 0."""
    return _saturate(f, "fptoui", value, type_, 0, (1 << bits_of(element_of(type_))) - 1)


def _saturate(f: FunctionBuilder, kind: str, value: SSAValue, type_: Attribute, least: int, greatest: int) -> SSAValue:
    """Brings the number into the range before it converts (LLVM's saturating intrinsics go lane by lane on x86)."""
    if isinstance(element_of(value.type), Float16Type):
        value = widen_float(f, value, like(value.type, F32))
    digits = 24 if isinstance(element_of(value.type), Float32Type) else 53
    low, high = f.const(float(least), value.type), f.const(float(_rounded_down(greatest, digits)), value.type)

    def within(number: SSAValue) -> SSAValue:
        """NaN gives the least."""
        inside = f.select(f.fcmp("ogt", number, low), number, low)
        return f.select(f.fcmp("olt", inside, high), inside, high)

    if bits_of(element_of(type_)) < 32:  # LLVM converts no narrower lanes itself
        whole = f.cast("fptosi", within(value), like(type_, I32))
        if least != 0:
            whole = f.select(f.fcmp("ord", value, value), whole, f.const(0, whole.type))
        return f.cast("trunc", whole, type_)
    number = f.select(f.fcmp("ord", value, value), value, f.const(0.0, value.type))
    whole = f.cast(kind, within(number), type_)
    if _rounded_down(greatest, digits) == greatest:
        return whole
    above = f.fcmp("ogt", number, high)
    return f.select(above, f.const(greatest, type_), whole)


def _rounded_down(value: int, digits: int) -> int:
    """The greatest number of so many binary digits that is not above the value."""
    cut = max(0, value.bit_length() - digits)
    return value >> cut << cut


def integer_to_float(kind: str) -> Callable[[FunctionBuilder, SSAValue, Attribute], SSAValue]:
    """sitofp or uitofp; to f16 and bf16 through a wider type that is rounded once."""

    def convert(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
        element = element_of(type_)
        if isinstance(element, Float16Type):
            raise TranslateError(f"{kind} to {type_}: convert to f32 first")
        return f.cast(kind, value, type_)

    return convert


def _cast(kind: str) -> Callable[[FunctionBuilder, SSAValue, Attribute], SSAValue]:
    def convert(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
        return f.cast(kind, value, type_)

    return convert


CONVERSIONS: Mapping[str, Callable[[FunctionBuilder, SSAValue, Attribute], SSAValue]] = {
    "extsi": _cast("sext"),
    "extui": _cast("zext"),
    "trunci": _cast("trunc"),
    "sitofp": integer_to_float("sitofp"),
    "uitofp": integer_to_float("uitofp"),
    "fptosi": float_to_signed,
    "fptoui": float_to_unsigned,
    "extf": widen_float,
    "truncf": narrow_float,
    "bitcast": _cast("bitcast"),
    "index_cast": integer_resize,
}


def _convert(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.ConvertOp)
    _apply(scope, op, op.kind.data)


def _apply(scope: Scope, op: Operation, kind: str) -> None:
    operand, result, f = op.operands[0], op.results[0], scope.f
    value, type_ = scope.values[operand], scope.type(result.type)
    if kind != "bitcast" and isinstance(element_of(operand.type), BFloat16Type):
        value = bf16_to_f32(f, value)
    if kind != "bitcast" and isinstance(element_of(result.type), BFloat16Type):
        if kind != "truncf":
            raise TranslateError(f"{kind} to {result.type}: convert to f32 first")
        narrow = value if isinstance(element_of(value.type), Float32Type) else _round_to_odd(f, value)
        scope.values[result] = f32_to_bf16(f, narrow)
    else:
        scope.values[result] = value if value.type == type_ else CONVERSIONS[kind](f, value, type_)


def _named(kind: str) -> Translation:
    def translation(scope: Scope, op: Operation) -> None:
        _apply(scope, op, kind)

    return translation


CONVERT: Mapping[type[Operation], Translation] = {
    vectorx.ConvertOp: _convert,
    vector.BitcastOp: _named("bitcast"),
    arith.BitcastOp: _named("bitcast"),
    arith.IndexCastOp: _named("index_cast"),
    arith.ExtSIOp: _named("extsi"),
    arith.ExtUIOp: _named("extui"),
    arith.TruncIOp: _named("trunci"),
    arith.SIToFPOp: _named("sitofp"),
    arith.UIToFPOp: _named("uitofp"),
    arith.FPToSIOp: _named("fptosi"),
    arith.FPToUIOp: _named("fptoui"),
    arith.ExtFOp: _named("extf"),
    arith.TruncFOp: _named("truncf"),
}
