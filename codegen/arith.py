"""arith to llvm, one operation each where LLVM has it; the same code for scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isnan

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import llvmx
from .build import FunctionBuilder
from .dims import floordiv_nonzero
from .literals import bf16_bits
from .llvm_types import bits_of, element_of, like
from .scope import Scope, TranslateError, Translation, operands


def _plain(kind: type[Operation]) -> Translation:
    def translation(scope: Scope, op: Operation) -> None:
        a, b = operands(scope, op)
        scope.values[op.results[0]] = scope.f.binary(kind, a, b)

    return translation


def _quotient(kind: type[Operation]) -> Translation:
    """A division.  By a size it is frozen: else LLVM computes it anew in each turn of a loop where an address steps by
    it, ten cycles instead of none."""

    def translation(scope: Scope, op: Operation) -> None:
        a, b = operands(scope, op)
        value = scope.f.binary(kind, a, b)
        if not isinstance(value.type, VectorType) and not isinstance(b.owner, llvm.ConstantOp):
            value = scope.f.freeze(value)
        scope.values[op.results[0]] = value

    return translation


def _overflowing(kind: type[Operation]) -> Translation:
    """add, sub, mul, shl with the nsw/nuw flags that the source op has."""

    def translation(scope: Scope, op: Operation) -> None:
        a, b = operands(scope, op)
        flags = op.properties.get("overflowFlags")
        properties = {"overflowFlags": _overflow(flags)}
        scope.values[op.results[0]] = scope.f.insert(kind, (a, b), a.type, properties)

    return translation


@cache
def _overflow(flags: Attribute | None) -> IntegerAttr:
    bits = 0
    if isinstance(flags, arith.IntegerOverflowAttr):
        bits = sum({"nsw": 1, "nuw": 2}[flag.value] for flag in flags.data)
    return IntegerAttr(bits, 32)


def _float(kind: type[Operation]) -> Translation:
    """A float operation; fast-math flags are those of the source op, normally none."""

    def translation(scope: Scope, op: Operation) -> None:
        properties = {"fastmathFlags": _fastmath(op.properties.get("fastmath"))}
        values = operands(scope, op)
        scope.values[op.results[0]] = scope.f.insert(kind, values, values[0].type, properties)

    return translation


@cache
def _fastmath(flags: Attribute | None) -> llvm.FastMathAttr:
    return llvm.FastMathAttr(tuple(flags.data) if isinstance(flags, arith.FastMathFlagsAttr) else None)


def _intrinsic(name: str) -> Translation:
    def translation(scope: Scope, op: Operation) -> None:
        values = operands(scope, op)
        scope.values[op.results[0]] = scope.f.intrinsic(name, values, values[0].type)

    return translation


def _constant(scope: Scope, op: Operation) -> None:
    assert isinstance(op, arith.ConstantOp)
    f, value = scope.f, op.value
    type_ = scope.type(op.result.type)
    bits = bf16_bits if isinstance(element_of(op.result.type), BFloat16Type) else _number
    if isinstance(value, DenseIntOrFPElementsAttr) and isinstance(type_, VectorType):
        lanes = [bits(_number(lane)) for lane in value.get_values()]
        scope.values[op.result] = f.const(lanes[0], type_) if value.is_splat() else f.const_lanes(lanes, type_)
    elif isinstance(value, IntegerAttr | FloatAttr):
        scope.values[op.result] = f.const(bits(value.value.data), type_)
    else:
        raise TranslateError(f"constant {value}")


def _number(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TranslateError(f"constant {value}")


PREDICATES = tuple(flag.value for flag in llvm.ICmpPredicateFlag)
FLOAT_PREDICATES = ("", *llvmx.FCMP_PREDICATES, "")


def _cmpi(scope: Scope, op: Operation) -> None:
    assert isinstance(op, arith.CmpiOp)
    a, b = operands(scope, op)
    scope.values[op.result] = scope.f.icmp(PREDICATES[op.predicate.value.data], a, b)


def _cmpf(scope: Scope, op: Operation) -> None:
    assert isinstance(op, arith.CmpfOp)
    a, b = operands(scope, op)
    number = op.predicate.value.data
    if FLOAT_PREDICATES[number]:
        scope.values[op.result] = scope.f.fcmp(FLOAT_PREDICATES[number], a, b)
    else:
        scope.values[op.result] = scope.f.const(number == 15, scope.type(op.result.type))


def _select(scope: Scope, op: Operation) -> None:
    condition, a, b = operands(scope, op)
    scope.values[op.results[0]] = scope.f.select(condition, a, b)


def extremum(predicate: str) -> Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue]:
    """The greater ("ogt") or lesser ("olt") of two floats, NaN where one of them is.

    `llvm.maximum` also puts -0 below +0, for twice as many instructions; of two zeros, here the second is taken.
    `maxps` gives its second operand where one is NaN: alone that is right if the first is a number.
    """

    chosen = extremum_of_numbers(predicate)

    def combine(f: FunctionBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        if _is_number(b):
            a, b = b, a
        result = chosen(f, a, b)
        return result if _is_number(a) else f.select(f.fcmp("uno", a, a), a, result)

    return combine


def extremum_of_numbers(predicate: str) -> Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue]:
    """The greater or lesser of two floats, the second where one is NaN: `maxps` and `minps`."""
    return lambda f, a, b: f.select(f.fcmp(predicate, a, b), a, b)


def _is_number(value: SSAValue) -> bool:
    """Whether a value is a constant other than NaN in all lanes."""
    owner = value.owner
    if isinstance(owner, llvmx.SplatOp):
        owner = owner.input.owner
    return (
        isinstance(owner, llvm.ConstantOp) and isinstance(owner.value, FloatAttr) and not isnan(owner.value.value.data)
    )


def _extremum(predicate: str) -> Translation:
    combine = extremum(predicate)

    def translation(scope: Scope, op: Operation) -> None:
        a, b = operands(scope, op)
        scope.values[op.results[0]] = combine(scope.f, a, b)

    return translation


def _floordiv(scope: Scope, op: Operation) -> None:
    a, b = operands(scope, op)
    scope.values[op.results[0]] = floordiv_nonzero(scope.f, a, b)


def _ceildiv_signed(scope: Scope, op: Operation) -> None:
    """The quotient towards zero, and one more where signs agree and something is left over."""
    a, b = operands(scope, op)
    f = scope.f
    quotient = f.binary(llvm.SDivOp, a, b)
    rest = f.sub(a, f.mul(quotient, b))
    zero = f.const(0, a.type)
    above = f.and_(f.icmp("ne", rest, zero), f.icmp("sge", f.xor(rest, b), zero))
    scope.values[op.results[0]] = f.select(above, f.add(quotient, f.const(1, a.type)), quotient)


def _ceildiv_unsigned(scope: Scope, op: Operation) -> None:
    a, b = operands(scope, op)
    f = scope.f
    quotient = f.binary(llvm.UDivOp, a, b)
    rest = f.icmp("ne", f.sub(a, f.mul(quotient, b)), f.const(0, a.type))
    scope.values[op.results[0]] = f.add(quotient, f.cast("zext", rest, a.type))


def _add_extended(scope: Scope, op: Operation) -> None:
    a, b = operands(scope, op)
    total = scope.f.add(a, b)
    scope.values[op.results[0]] = total
    scope.values[op.results[1]] = scope.f.icmp("ult", total, a)


def _mul_extended(extend: str) -> Translation:
    """Low and high half of the product, by a multiplication of twice the width."""

    def translation(scope: Scope, op: Operation) -> None:
        a, b = operands(scope, op)
        f = scope.f
        width = bits_of(element_of(a.type))
        wide = like(a.type, IntegerType(2 * width))
        product = f.mul(f.cast(extend, a, wide), f.cast(extend, b, wide))
        scope.values[op.results[0]] = f.cast("trunc", product, a.type)
        scope.values[op.results[1]] = f.cast("trunc", f.lshr(product, f.const(width, wide)), a.type)

    return translation


def integer_resize(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Extends as signed, or cuts, to the width of `type_`."""
    have, want = bits_of(element_of(value.type)), bits_of(element_of(type_))
    if have == want:
        return value
    return f.cast("sext" if have < want else "trunc", value, type_)


ARITH: Mapping[type[Operation], Translation] = {
    arith.ConstantOp: _constant,
    arith.AddiOp: _overflowing(llvm.AddOp),
    arith.SubiOp: _overflowing(llvm.SubOp),
    arith.MuliOp: _overflowing(llvm.MulOp),
    arith.ShLIOp: _overflowing(llvm.ShlOp),
    arith.ShRSIOp: _plain(llvm.AShrOp),
    arith.ShRUIOp: _plain(llvm.LShrOp),
    arith.AndIOp: _plain(llvm.AndOp),
    arith.OrIOp: _plain(llvm.OrOp),
    arith.XOrIOp: _plain(llvm.XOrOp),
    arith.DivSIOp: _plain(llvm.SDivOp),
    arith.DivUIOp: _quotient(llvm.UDivOp),
    arith.RemSIOp: _plain(llvm.SRemOp),
    arith.RemUIOp: _quotient(llvm.URemOp),
    arith.FloorDivSIOp: _floordiv,
    arith.CeilDivSIOp: _ceildiv_signed,
    arith.CeilDivUIOp: _ceildiv_unsigned,
    arith.AddUIExtendedOp: _add_extended,
    arith.MulUIExtendedOp: _mul_extended("zext"),
    arith.MulSIExtendedOp: _mul_extended("sext"),
    arith.MinSIOp: _intrinsic("llvm.smin"),
    arith.MaxSIOp: _intrinsic("llvm.smax"),
    arith.MinUIOp: _intrinsic("llvm.umin"),
    arith.MaxUIOp: _intrinsic("llvm.umax"),
    arith.AddfOp: _float(llvm.FAddOp),
    arith.SubfOp: _float(llvm.FSubOp),
    arith.MulfOp: _float(llvm.FMulOp),
    arith.DivfOp: _float(llvm.FDivOp),
    arith.NegfOp: _float(llvm.FNegOp),
    arith.MaximumfOp: _extremum("ogt"),
    arith.MinimumfOp: _extremum("olt"),
    arith.MaxnumfOp: _intrinsic("llvm.maxnum"),
    arith.MinnumfOp: _intrinsic("llvm.minnum"),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
}
