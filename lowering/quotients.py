"""Quantization by a constant scale without a division, and without bytes that are made only to be widened: exact.

QuantizeLinear rounds x / s to an integer, which is then brought into the range of a byte.  With z the reciprocal of s
rounded down and r what is left of it, x * z + x * r with one fma is x / s but for about 2^-47 of it, so it rounds to
the same integer, unless x / s lies as near as that to the middle between two.  There are a thousand such middles, and
whether the floats on both sides of each go where the division sends them is looked at here, for each scale; both
functions are monotonic, so all others follow.  r is not negative, so infinities stay what they are.

DequantizeLinear of the byte takes the rounded number as it is, brought into the byte's range.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, i8, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ..dialects import vectorx
from .scalar_bodies import bodies_of, insert, replace

F32 = Float32Type()
MOST = 512
"""A rounded quotient beyond this is outside of a byte's range whatever the zero point."""
BYTES = {"fptoui": (0, 255, "extui"), "fptosi": (-128, 127, "extsi")}
"""For each conversion to a byte the least and the greatest one, and the conversion to a wider integer."""
_PLAIN: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}


def use_exact_products(block: Block) -> int:
    """Rewrites the bodies and epilogues in a tensor-level kernel; gives how many quotients and bytes are gone."""
    found = 0
    for body in bodies_of(block):
        for op in list(body.ops):
            if isinstance(op, vectorx.ConvertOp) and op.kind.data in BYTES and op.result.type == i8:
                found += _multiply(op) + _keep_float(op)
    return found


def _multiply(byte: vectorx.ConvertOp) -> int:
    """A product in place of the quotient by a constant of which a byte is made."""
    low, _, _ = BYTES[byte.kind.data]
    zero: int | None = 0
    rounded, sum_ = byte.input.owner, byte.input.owner
    if isinstance(sum_, arith.AddfOp):
        convert = sum_.rhs.owner
        if not isinstance(convert, vectorx.ConvertOp) or convert.input.type != i8:
            return 0
        zero = _byte(sum_.rhs, low)
        rounded = sum_.lhs.owner
    if not isinstance(rounded, math.RoundEvenOp) or not rounded.result.has_one_use():
        return 0
    quotient = rounded.operand.owner
    if not isinstance(quotient, arith.DivfOp) or quotient.result.type != F32 or not quotient.result.has_one_use():
        return 0
    divisor = quotient.rhs.owner
    if not isinstance(divisor, arith.ConstantOp) or not isinstance(divisor.value, FloatAttr):
        return 0
    factors = reciprocal(float(np.float32(divisor.value.value.data)))
    if factors is None:
        return 0
    if zero == low:
        _drop_maximum(quotient)
    if zero == 0 and isinstance(sum_, arith.AddfOp):
        sum_.result.replace_all_uses_with(rounded.result)
        Rewriter.erase_op(sum_)
    large = _constant(factors[0], quotient)
    if factors[1] == 0:  # of a power of two there is no rest, and infinity times 0 is no number
        replace(quotient, arith.MulfOp(quotient.lhs, large))
        return 1
    rest = arith.MulfOp(quotient.lhs, _constant(factors[1], quotient))
    insert(rest, quotient)
    operands = [quotient.lhs, large, rest.result]
    replace(quotient, math.FmaOp.create(operands=operands, result_types=[F32], properties=_PLAIN.copy()))
    return 1


def _drop_maximum(quotient: arith.DivfOp) -> None:
    """What is below 0 becomes the least byte anyway."""
    maximum = quotient.lhs.owner
    if not isinstance(maximum, arith.MaximumfOp) or not maximum.result.has_one_use():
        return
    for bound, other in ((maximum.rhs.owner, maximum.lhs), (maximum.lhs.owner, maximum.rhs)):
        if isinstance(bound, arith.ConstantOp) and isinstance(bound.value, FloatAttr) and bound.value.value.data == 0:
            quotient.operands[0] = other
            Rewriter.erase_op(maximum)
            return


def _keep_float(byte: vectorx.ConvertOp) -> int:
    """The number of which a byte is made, in the byte's range, in place of the byte less a zero point as a float."""
    found = 0
    if byte.input.type != F32:
        return found
    *_, extended = BYTES[byte.kind.data]
    for wide in [use.operation for use in byte.result.uses]:
        if not _converts(wide, extended) or wide.results[0].type != i32:
            continue
        for reader in [use.operation for use in wide.results[0].uses]:
            found += _less_zero_point(byte, reader, wide.results[0])
        if wide.results[0].first_use is None:
            Rewriter.erase_op(wide)
    if byte.result.first_use is None:
        Rewriter.erase_op(byte)
    return found


def _less_zero_point(byte: vectorx.ConvertOp, reader: Operation, wide: SSAValue) -> int:
    """For one reader of the widened byte: a subtraction of a known zero point, or the conversion to a float."""
    low, high, _ = BYTES[byte.kind.data]
    zero, last = 0, reader
    if isinstance(reader, arith.SubiOp):
        known = _byte(reader.rhs, low)
        if reader.lhs is not wide or known is None or not reader.result.has_one_use():
            return 0
        zero = known
        [use] = reader.result.uses
        last = use.operation
    if not _converts(last, "sitofp") or last.results[0].type != F32:
        return 0
    value = byte.input
    if low != 0:  # what is no number becomes 0, which is the least byte without a sign
        value = _chosen("ord", (value, value), (value, _constant(0.0, last)), last)
    for predicate, bound in (("ogt", _constant(low, last)), ("olt", _constant(high, last))):
        value = _chosen(predicate, (value, bound), (value, bound), last)
    # never -0, which no integer is
    replace(last, arith.SubfOp(value, _constant(zero, last)) if zero else arith.AddfOp(value, _constant(0.0, last)))
    if reader is not last:
        Rewriter.erase_op(reader)
    return 1


def _chosen(
    predicate: str, compared: tuple[SSAValue, SSAValue], values: tuple[SSAValue, SSAValue], before: Operation
) -> SSAValue:
    """The first value where the comparison holds, else the second."""
    holds = arith.CmpfOp(*compared, predicate)
    insert(holds, before)
    select = arith.SelectOp(holds.result, *values)
    insert(select, before)
    return select.result


def _constant(value: float, before: Operation) -> SSAValue:
    constant = arith.ConstantOp(FloatAttr(value, F32))
    insert(constant, before)
    return constant.result


def _converts(op: object, *kinds: str) -> bool:
    return isinstance(op, vectorx.ConvertOp) and op.kind.data in kinds


def _byte(value: SSAValue, low: int) -> int | None:
    """The number that a constant byte is, which something converts, where bytes begin at `low`."""
    wide = value.owner
    if not isinstance(wide, vectorx.ConvertOp) or wide.input.type != i8:
        return None
    constant = wide.input.owner
    if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, IntegerAttr):
        return None
    return (constant.value.value.data - low) % 256 + low


@cache
def reciprocal(scale: float) -> tuple[float, float] | None:
    """(z, r), an f32's reciprocal rounded down and what is left of it, where x * z + x * r rounds as x / scale does.

    None where it does not, or where a step could leave the range of f32.
    """
    f4 = np.float32
    if not 2.0**-60 < scale < 2.0**60:
        return None
    z = f4(1 / scale)
    if float(z) * scale > 1:  # exact in f64
        z = np.nextafter(z, f4(0))
    r = f4((1 - float(z) * scale) / scale)
    middles = np.arange(-MOST, MOST) + 0.5
    # around each middle, the floats between which the rounded quotient changes
    near = (middles * scale).astype(f4)[:, None]
    steps = np.arange(-4, 5, dtype=np.int32)
    x = (near.view(np.int32) + np.where(near < 0, -steps, steps)).view(f4)
    expected = np.rint(x / f4(scale))
    if (expected[:, 0] == expected[:, -1]).any():
        return None
    rest = (x * r).astype(np.float64)
    total = x.astype(np.float64) * float(z) + rest
    # the sum in f64 is that of the fma but for its last bit
    ends = [np.rint(np.nextafter(total, end).astype(f4)) for end in (-np.inf, np.inf)]
    return (float(z), float(r)) if all((e == expected).all() for e in ends) else None
