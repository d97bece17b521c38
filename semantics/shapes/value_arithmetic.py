"""Value rules of arithmetic, comparison, logic, reductions and casts.

Floats are followed as exact quotients of sizes as long as their type holds them; what that rests on goes with them as
limits, and becomes a guard where an integer is made of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation

from ...dialects import onnx
from ...dialects.dims.expression import ONE, ZERO, Dim, as_dim, common_factor, dim_max, dim_min
from ...dialects.dims.reserved import is_reserved
from ...dialects.onnx.types import ELEMENT_TYPES, numpy_dtype
from .context import Context
from .elements import (
    MANTISSA,
    Element,
    Elements,
    Limit,
    Ratio,
    Truth,
    filled,
    integer_range,
    is_integer,
    ratio_of_float,
    row_major,
)
from .limits import exact_below, holds_limits, is_data
from .progressions import progression_of
from .selection import chosen, indicator, truth_of
from .value_rule import Known, numbers_of, result_element, result_shape, small_result, zero_of

_MAX_CHOICES = 2  # of what is rounded to zero
_MAX_ODD = 256  # odd parts of factors above it leave too few sizes exact to be worth a guard
_MAX_FACTOR = 2**32  # with factors above it sizes leave the range of floats sooner or later


Binary: TypeAlias = "Callable[[Context, Any, Any], Element]"
Unary: TypeAlias = "Callable[[Context, Any], Element]"


def elementwise(function: Callable[..., Element]) -> Callable[[Context], Known]:
    """A rule from a function of one element of each operand, with broadcasting."""

    def rule(c: Context) -> Known:
        operands = [c.elements(i) for i in range(len(c.operands))]
        known = [x for x in operands if x is not None]
        if len(known) < len(operands) or small_result(c) is None:
            return None
        arrays = np.broadcast_arrays(*known)
        out = np.empty(arrays[0].shape, object)
        flat = [a.reshape(-1) for a in arrays]
        target = out.reshape(-1)
        for at in range(out.size):
            args = [a[at] for a in flat]
            target[at] = None if any(x is None for x in args) else function(c, *args)
        return [out]

    return rule


def constant_or(exact: Binary, numeric: Callable[[Any, Any], Any]) -> Binary:
    """Numbers of a float type are computed in that type; all else by the exact rule."""

    def function(c: Context, a: Any, b: Any) -> Element:
        if isinstance(a, Ratio) and isinstance(b, Ratio) and a.constant is not None and b.constant is not None:
            return _in_float(c, numeric, a.constant, b.constant)
        return exact(c, a, b)

    return function


def _in_float(c: Context, function: Callable[..., Any], *args: Fraction) -> Element:
    dtype = numpy_dtype(c.element(0))
    with np.errstate(all="ignore"):
        return ratio_of_float(float(function(*(dtype.type(float(a)) for a in args))))


def folded(function: Binary) -> Callable[[Context], Known]:
    """A variadic operator from its binary function."""
    return elementwise(lambda c, *args: reduce(lambda a, b: None if a is None else function(c, a, b), args))


def ratio(c: Context, numerator: Dim, denominator: int, *sources: Ratio, exact: bool = True) -> Ratio | None:
    """The quotient as a float of the operands' type, exact below the type's limit."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    most = 2 ** MANTISSA.get(type(c.element(0)), 0)
    limits = tuple(dict.fromkeys(l for s in sources for l in s.limits))
    if numerator.is_const:
        if abs(numerator.value) > most:
            return None
    elif (limit := exact_below(numerator, most)) not in limits:
        limits = (*limits, limit)
    if exact and denominator & (denominator - 1):
        return None
    return Ratio(numerator, denominator, exact, limits)


def add(c: Context, a: Any, b: Any) -> Element:
    if isinstance(a, Dim):
        return a + b
    if not (a.exact and b.exact):
        return _shifted(c, a, b) or _shifted(c, b, a)
    common = max(a.denominator, b.denominator)
    return ratio(c, a.numerator * (common // a.denominator) + b.numerator * (common // b.denominator), common, a, b)


def _shifted(c: Context, quotient: Ratio, number: Ratio) -> Ratio | None:
    """A rounded quotient that is not negative, plus a number above 0: its floor and ceiling are those of the exact sum.

    The two roundings are off by less than 2/2^m of the sum, m the bits of the mantissa, and a sum that is no integer is
    at least 1/denominator from the next: that is more while the numerator is at most 2^m / 2.  Where the sum is an
    integer, the quotient is a multiple of the number's last bit, and nothing is rounded.
    """
    by = number.constant
    if quotient.exact or quotient.shifted or not number.exact or by is None or by <= 0 or _large(number):
        return None
    if not c.scope.facts.prove_le(0, quotient.numerator):
        return None
    total = quotient.numerator * by.denominator + by.numerator * quotient.denominator
    limit = Limit(total, 2 ** MANTISSA.get(type(c.element(0)), 0) // 2)
    return Ratio(total, quotient.denominator * by.denominator, False, (*quotient.limits, limit), True)


def subtract(c: Context, a: Any, b: Any) -> Element:
    if isinstance(a, Dim):
        return a - b
    return add(c, a, negate(c, b))


def multiply(c: Context, a: Any, b: Any) -> Element:
    if isinstance(a, Dim):
        return a * b
    if not (a.exact and b.exact):
        return _scaled(c, a, b.constant, b) or _scaled(c, b, a.constant, a)
    if _large(a) or _large(b):
        return None
    return ratio(c, a.numerator * b.numerator, a.denominator * b.denominator, a, b)


def _scaled(c: Context, quotient: Ratio, by: Fraction | None, number: Ratio) -> Ratio | None:
    """A rounded quotient that is not negative, times a number above 0: its floor and ceiling are those of the product.

    As for a sum (`_shifted`), the two roundings are off by less than a product that is no integer is from the next.
    Where it is an integer, the quotient is one, too, but for powers of two, since the number has no factor of the
    divisor: nothing is rounded.
    """
    if quotient.exact or quotient.shifted or not number.exact or by is None or by <= 0 or _large(number):
        return None
    odd = quotient.denominator // (quotient.denominator & -quotient.denominator)
    if gcd(odd, by.numerator) > 1 or not c.scope.facts.prove_le(0, quotient.numerator):
        return None
    total, most = quotient.numerator * by.numerator, 2 ** MANTISSA.get(type(c.element(0)), 0)
    limits = (*quotient.limits, Limit(total, most // 2))
    return Ratio(total, quotient.denominator * by.denominator, False, limits, True)


def _large(x: Ratio) -> bool:
    """A number whose product with a size is exact for few sizes only."""
    if not x.numerator.is_const:
        return False
    value = abs(x.numerator.value)
    return max(value, x.denominator) > _MAX_FACTOR or value // (value & -value or 1) > _MAX_ODD


def divide(c: Context, a: Any, b: Any) -> Element:
    if isinstance(a, Dim):
        return divided(c, a, b)
    by = b.constant
    if by is None and (quotient := _quotient(c, a, b)) is not None:
        return quotient
    if not a.exact and by:
        return _scaled(c, a, 1 / by, b)
    if not (a.exact and b.exact) or not by or _large(b):
        return None
    numerator, denominator = a.numerator * by.denominator, a.denominator * by.numerator
    odd = abs(denominator) // (denominator & -denominator)
    if odd == 1:
        return ratio(c, numerator, denominator, a)
    if c.scope.facts.prove_divides(odd, numerator):  # a multiple's quotient is exact wherever the multiple is
        sign = 1 if denominator > 0 else -1
        return Ratio(numerator // odd * sign, abs(denominator) // odd, True, a.limits)
    return ratio(c, numerator, denominator, a, exact=False)


def _quotient(c: Context, a: Ratio, b: Ratio) -> Element:
    """A quotient of sizes that is a whole expression wherever it has a value: `2*N / N`, `B*N / N`.

    A model that divides a product of sizes by one of them means the other; where floats do not hold the product, what
    it gets instead is off by one, or right by luck.
    """
    if not (a.exact and b.exact):
        return None
    known = c.scope.facts.known
    over, under = known(a.numerator * b.denominator), known(b.numerator * a.denominator)
    common = common_factor(over, under)
    top, bottom = over.divide_exactly(common), under.divide_exactly(common)
    if top is None or bottom is None:
        return None
    limits = (*a.limits, *b.limits)
    if top.is_const and bottom.is_const and bottom.value:
        found = _in_float(c, np.divide, Fraction(top.value), Fraction(bottom.value))
        return None if not isinstance(found, Ratio) else Ratio(found.numerator, found.denominator, True, limits)
    whole = over.divide_exactly(under)
    if whole is None or any(map(is_reserved, whole.symbols)):
        return None
    found = ratio(c, whole, 1, a, b)
    return found and Ratio(whole, 1, True, tuple(limit._replace(meant=True) for limit in found.limits))


def divided(c: Context, a: Dim, b: Dim) -> Dim | None:
    """Integer division, which ONNX rounds to zero."""
    facts = c.scope.facts
    if b is ZERO or not facts.prove_le(0, b):
        return None if b is ZERO or not b.is_const else divided(c, -a, -b)
    _require_divisor(c, b)
    return _toward_zero(c, a, b)


def _require_divisor(c: Context, b: Dim) -> None:
    """States that a size that divides is not 0; what data hold is the kernels' business."""
    if not b.is_const and c.scope.facts.prove_le(0, b) and not is_data(c, b):
        c.at_most(1, b, "a size is not divided by 0")


def _toward_zero(c: Context, a: Dim, b: Dim) -> Dim | None:
    """a / b for b > 0, rounded to zero: down where a is not negative, else up; None where that is too long to follow.

    Each such quotient of one whose sign is not known has it twice.
    """
    if c.scope.facts.prove_le(0, a):
        return a // b
    if a.choices > _MAX_CHOICES:
        return None
    return dim_max(a // b, dim_min((a + b - 1) // b, 0))


def modulo(c: Context, a: Any, b: Any) -> Element:
    if not isinstance(a, Dim) or b is ZERO:
        return None
    _require_divisor(c, b)
    if not c.attr("fmod"):
        return a % b
    facts = c.scope.facts  # the sign is the dividend's
    quotient = _toward_zero(c, a, b) if facts.prove_le(0, b) else None
    return None if quotient is None else a - b * quotient


def power(c: Context, a: Any, b: Any) -> Element:
    exponent = b.value if isinstance(b, Dim) and b.is_const else b.constant if isinstance(b, Ratio) else None
    if exponent is None or exponent != int(exponent) or not 0 <= exponent <= 4:
        return None
    if isinstance(a, Dim):
        return reduce(lambda x, _: x * a, range(int(exponent)), ONE)
    if not a.exact or exponent == 0 or _large(a):
        return None
    return ratio(c, reduce(lambda x, _: x * a.numerator, range(int(exponent)), ONE), a.denominator ** int(exponent), a)


def maximum(c: Context, a: Any, b: Any) -> Element:
    return extremum(a, b, dim_max)


def minimum(c: Context, a: Any, b: Any) -> Element:
    return extremum(a, b, dim_min)


def extremum(a: Any, b: Any, function: Callable[[Dim, Dim], Dim]) -> Element:
    if isinstance(a, Dim):
        return function(a, b)
    if not (a.exact and b.exact):
        return None
    common = max(a.denominator, b.denominator)
    numerator = function(a.numerator * (common // a.denominator), b.numerator * (common // b.denominator))
    return Ratio(numerator, common, True, (*a.limits, *b.limits))


def negate(c: Context, a: Any) -> Element:
    return -a if isinstance(a, Dim) else replace(a, numerator=-a.numerator)


def absolute(c: Context, a: Any) -> Element:
    if isinstance(a, Dim):
        return dim_max(a, -a)
    return replace(a, numerator=dim_max(a.numerator, -a.numerator))


def sign(c: Context, a: Any) -> Element:
    d = a if isinstance(a, Dim) else a.numerator
    s = dim_max(dim_min(d, 1), -1)
    return s if isinstance(a, Dim) else Ratio(s, 1, True, a.limits)


def floor(c: Context, a: Any) -> Element:
    return Ratio(a.numerator // a.denominator, 1, True, a.limits) if isinstance(a, Ratio) else None


def ceil(c: Context, a: Any) -> Element:
    return (
        Ratio((a.numerator + (a.denominator - 1)) // a.denominator, 1, True, a.limits) if isinstance(a, Ratio) else None
    )


def round_(c: Context, a: Any) -> Element:
    """To the nearest, from a half to the even one: up where the integer below is odd."""
    if not isinstance(a, Ratio):
        return None
    n, d = a.numerator, a.denominator
    if d == 1:
        return a
    if a.shifted:
        return None
    limits = a.limits
    if not a.exact:  # past half of what the type holds, rounding of the quotient itself may reach a half
        limits = (*limits, Limit(n, 2 ** MANTISSA.get(type(c.element(0)), 0) // 2))
    half = (n * 2 + d) // (2 * d) if d % 2 else (n + (d // 2 - 1) + (n // d) % 2) // d
    return Ratio(half, 1, True, limits)


def square_root(c: Context, a: Any) -> Element:
    if not isinstance(a, Ratio) or a.constant is None or a.constant < 0:
        return None
    return _in_float(c, np.sqrt, a.constant)


def reciprocal(c: Context, a: Any) -> Element:
    if not isinstance(a, Ratio) or not a.constant:
        return None
    return _in_float(c, lambda x: x.dtype.type(1) / x, a.constant)


def clip(c: Context) -> Known:
    x = c.elements(0)
    if x is None:
        return None
    out: Elements = x
    for index, function in ((1, dim_max), (2, dim_min)):
        if c.has(index):
            bound = c.elements(index)
            one = None if bound is None else row_major(bound)[0]
            if one is None:
                return None
            values = [None if e is None else extremum(e, one, function) for e in row_major(out)]
            out = filled(x.shape, values)
    return [out]


# --- comparison and logic ---------------------------------------------------------------------------------------------


def _decided(answer: bool | None, otherwise: Truth) -> Element:
    return otherwise if answer is None else ONE if answer else ZERO


def _sides(a: Any, b: Any) -> tuple[Dim, Dim, tuple[Limit, ...]] | None:
    """Two numbers as integers that compare alike within the limits."""
    if isinstance(a, Dim) and isinstance(b, Dim):
        return a, b, ()
    if not isinstance(a, Ratio) or not isinstance(b, Ratio) or not (a.exact and b.exact):
        return None
    common = gcd(a.denominator, b.denominator)
    left, right = a.numerator * (b.denominator // common), b.numerator * (a.denominator // common)
    return left, right, (*a.limits, *b.limits)


def _compared(c: Context, a: Any, b: Any, op: str, offset: int = 0) -> Element:
    """`a + offset op b`, decided where it is and no limits are in the way."""
    sides = _sides(a, b)
    if sides is None:
        return None
    left, right, limits = sides
    left = left + offset
    if limits:
        return Truth(left, op, right, False, limits)
    facts = c.scope.facts
    proof = facts.prove_eq(left, right) if op == "==" else facts.prove_le(left, right)
    return _decided(proof.answer, Truth(left, op, right))


def equal(c: Context, a: Any, b: Any) -> Element:
    return _compared(c, a, b, "==")


def less(c: Context, a: Any, b: Any) -> Element:
    return _compared(c, a, b, "<=", 1)


def less_or_equal(c: Context, a: Any, b: Any) -> Element:
    return _compared(c, a, b, "<=")


def negation(c: Context, a: Any) -> Element:
    return a.inverse() if isinstance(a, Truth) else 1 - a


def conjunction(c: Context, a: Any, b: Any) -> Element:
    if ZERO in (a, b):
        return ZERO
    if a is ONE or b is ONE or a == b:
        return b if a is ONE else a
    if isinstance(a, Truth) and isinstance(b, Truth) and (found := _stronger(c, a, b) or _stronger(c, b, a)):
        return found
    return combined(lambda x, y: x * y, a, b)


def combined(function: Callable[[Dim, Dim], Dim], a: Dim | Truth, b: Dim | Truth) -> Element:
    """A function of two booleans as 0 and 1."""
    x, y = indicator(a), indicator(b)
    return None if x is None or y is None else function(x, y)


def _stronger(c: Context, a: Truth, b: Truth) -> Truth | None:
    """The first of two inequalities where the other follows from it."""
    if a.op != "<=" or b.op != "<=" or a.negated or b.negated:
        return None
    if not c.scope.facts.prove_le(a.right - a.left, b.right - b.left):
        return None
    return Truth(a.left, a.op, a.right, False, tuple(dict.fromkeys((*a.limits, *b.limits))))


def disjunction(c: Context, a: Any, b: Any) -> Element:
    if ONE in (a, b):
        return ONE
    if a is ZERO:
        return b
    return a if b is ZERO or a == b else combined(dim_max, a, b)


def exclusive(c: Context, a: Any, b: Any) -> Element:
    if a in (ZERO, ONE):
        a, b = b, a
    if b in (ZERO, ONE):
        return a if b is ZERO else negation(c, a)
    return combined(lambda x, y: dim_max(x, y) - dim_min(x, y), a, b)


def where(c: Context) -> Known:
    """Equal choices tell whatever the condition; where sizes decide it, the choice is an expression."""
    condition, a, b = (c.elements(i) for i in range(3))
    shape = small_result(c)
    if a is None or b is None or shape is None:
        return None
    unknown = np.full((), None, object)
    arrays = np.broadcast_arrays(unknown if condition is None else condition, a, b)
    out: list[Element] = []
    for test, x, y in zip(*(row_major(array) for array in arrays)):
        if isinstance(test, Dim) and test.is_const:
            out.append(x if test.value else y)
        elif isinstance(test, Dim | Truth) and isinstance(x, Dim) and isinstance(y, Dim):
            out.append(chosen(c.scope.facts, truth_of(test), x, y))
        else:
            out.append(x if x is y else None)
    return [np.broadcast_to(filled(arrays[0].shape, out), shape)]


# --- reductions -------------------------------------------------------------------------------------------------------


def reduced(function: Callable[[Dim, Dim], Dim], start: Dim | None) -> Callable[[Context], Known]:
    """A reduction of integers over axes given as numbers."""

    def rule(c: Context) -> Known:
        x = c.elements(0)
        if x is None and function in (dim_max, dim_min):
            return _extreme_of_range(c, function is dim_max)
        axes = numbers_of(c.elements(1)) if c.has(1) else []
        if x is None or axes is None or not is_integer(c.element(0)):
            return None
        if not axes:
            if c.attr("noop_with_empty_axes"):
                return [x]
            axes = list(range(x.ndim))
        gone = sorted({c.axis(a, x.ndim) for a in axes})
        shape = result_shape(c)
        if shape is None or not all(isinstance(e, Dim) for e in x.reshape(-1)):
            return None
        kept = [a for a in range(x.ndim) if a not in gone]
        rows = x.transpose([*kept, *gone]).reshape(prod(x.shape[a] for a in kept), -1)
        if start is None and not rows.shape[1]:
            return None
        values: list[Element] = [
            reduce(function, row) if start is None else reduce(function, row, start) for row in rows
        ]
        return [filled(shape, values)]

    return rule


def _extreme_of_range(c: Context, greatest: bool) -> Known:
    """The greatest or least of a long, or open, row of numbers, where all of it is reduced to one."""
    shape = result_shape(c)
    row = progression_of(c, 0) if shape is not None and prod(shape) == 1 else None
    found = None if row is None else row.extreme(c, greatest)
    return None if found is None or shape is None else [filled(shape, [found])]


def cumulative(function: Callable[[Dim, Dim], Dim], start: Dim) -> Callable[[Context], Known]:
    """Sums or products along an axis; exclusive ones leave each element itself out, reverse ones go from the end."""

    def rule(c: Context) -> Known:
        x, axis = c.elements(0), numbers_of(c.elements(1))
        if x is None or axis is None or not all(isinstance(e, Dim) for e in x.reshape(-1)):
            return None
        rows = np.moveaxis(x, axis[0], 0)
        if c.attr("reverse"):
            rows = rows[::-1]
        out = np.empty(rows.shape, object)
        total: Elements = np.full(rows.shape[1:], start, object)
        for at in range(len(rows)):
            pairs = zip(total.reshape(-1), rows[at : at + 1].reshape(-1))
            after = filled(total.shape, [function(a, b) for a, b in pairs])
            out[at, ...] = total if c.attr("exclusive") else after
            total = after
        if c.attr("reverse"):
            out = out[::-1]
        return [np.moveaxis(out, 0, axis[0])]

    return rule


def shifted(c: Context, a: Any, b: Any) -> Element:
    """A shift by a number; to the left it may lose bits, which a size does not."""
    if not isinstance(a, Dim) or not isinstance(b, Dim) or not b.is_const or not 0 <= b.value < 64:
        return None
    if c.attr("direction") == "RIGHT":
        return a // 2**b.value
    moved = a * 2**b.value
    low, high = integer_range(c.element(0))
    facts = c.scope.facts
    return moved if facts.prove_le(low, moved) and facts.prove_le(moved, high) else None


def bits_kept(c: Context, a: Any, b: Any) -> Element:
    """The lowest bits of a number, or all but these; a power of two divides by what the mask keeps or clears."""
    for value, mask in ((a, b), (b, a)):
        if not isinstance(value, Dim) or not isinstance(mask, Dim) or not mask.is_const:
            continue
        size = mask.value + 1 if mask.value >= 0 else -mask.value
        if size & (size - 1) == 0:
            return value % size if mask.value >= 0 else value - value % size
    return None


# --- casts ------------------------------------------------------------------------------------------------------------


def cast(c: Context) -> Known:
    x = c.elements(0)
    if x is None:
        return None
    to = result_element(c)
    return [filled(x.shape, [None if e is None else _cast_one(c, e, to) for e in row_major(x)])]


def _cast_one(c: Context, e: Dim | Ratio | Truth, to: Attribute) -> Element:
    if isinstance(e, Truth):
        if to == IntegerType(1):
            return e
        one = indicator(e)
        return one if one is None or is_integer(to) else Ratio(one)
    if isinstance(e, Dim):
        if is_integer(to):
            return _to_bool(c, e) if to == IntegerType(1) else e
        most = 2 ** MANTISSA.get(type(to), 0)
        if e.is_const:
            return Ratio(e) if abs(e.value) <= most else None
        return Ratio(e, 1, True, (exact_below(e, most),))
    if is_integer(to):
        return _truncated(c, e, to)
    most = 2 ** MANTISSA.get(type(to), 0)
    if e.numerator.is_const and to == ELEMENT_TYPES[1] and e.constant is not None:
        return ratio_of_float(float(np.float32(float(e.constant))))
    return Ratio(e.numerator, e.denominator, True, (*e.limits, exact_below(e.numerator, most))) if e.exact else None


def _to_bool(c: Context, e: Dim) -> Element:
    answer = c.scope.facts.prove_eq(e, 0).answer
    return _decided(None if answer is None else not answer, Truth(e, "==", ZERO, negated=True))


def _truncated(c: Context, e: Ratio, to: Attribute) -> Element:
    """A float as an integer, rounded to zero; here what it rests on is stated."""
    if to == IntegerType(1) or not holds_limits(c, e.limits):
        return None
    if e.denominator == 1:
        return e.numerator
    return _toward_zero(c, e.numerator, as_dim(e.denominator))


RULES: Mapping[type[Operation], Callable[[Context], Known]] = {
    onnx.AddOp: elementwise(constant_or(add, lambda a, b: a + b)),
    onnx.SubOp: elementwise(constant_or(subtract, lambda a, b: a - b)),
    onnx.MulOp: elementwise(constant_or(multiply, lambda a, b: a * b)),
    onnx.DivOp: elementwise(constant_or(divide, lambda a, b: a / b)),
    onnx.PowOp: elementwise(constant_or(power, lambda a, b: a**b)),
    onnx.ModOp: elementwise(modulo),
    onnx.SumOp: folded(constant_or(add, lambda a, b: a + b)),
    onnx.MaxOp: folded(maximum),
    onnx.MinOp: folded(minimum),
    onnx.NegOp: elementwise(negate),
    onnx.AbsOp: elementwise(absolute),
    onnx.SignOp: elementwise(sign),
    onnx.FloorOp: elementwise(floor),
    onnx.CeilOp: elementwise(ceil),
    onnx.RoundOp: elementwise(round_),
    onnx.SqrtOp: elementwise(square_root),
    onnx.ReciprocalOp: elementwise(reciprocal),
    onnx.ClipOp: clip,
    onnx.ReluOp: elementwise(lambda c, a: extremum(a, zero_of(c.element(0)), dim_max)),
    onnx.EqualOp: elementwise(equal),
    onnx.LessOp: elementwise(less),
    onnx.GreaterOp: elementwise(lambda c, a, b: less(c, b, a)),
    onnx.LessOrEqualOp: elementwise(less_or_equal),
    onnx.GreaterOrEqualOp: elementwise(lambda c, a, b: less_or_equal(c, b, a)),
    onnx.NotOp: elementwise(negation),
    onnx.AndOp: elementwise(conjunction),
    onnx.OrOp: elementwise(disjunction),
    onnx.XorOp: elementwise(exclusive),
    onnx.WhereOp: where,
    onnx.ReduceSumOp: reduced(lambda a, b: a + b, ZERO),
    onnx.ReduceProdOp: reduced(lambda a, b: a * b, ONE),
    onnx.ReduceMaxOp: reduced(dim_max, None),
    onnx.ReduceMinOp: reduced(dim_min, None),
    onnx.CumSumOp: cumulative(lambda a, b: a + b, ZERO),
    onnx.CumProdOp: cumulative(lambda a, b: a * b, ONE),
    onnx.BitShiftOp: elementwise(shifted),
    onnx.BitwiseAndOp: elementwise(bits_kept),
    onnx.CastOp: cast,
    onnx.CastLikeOp: cast,
}
