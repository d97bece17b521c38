"""Elementwise functions of several tensors, with numpy's broadcasting.

Where the standard leaves integers open: they wrap; x / 0 and x % 0 are 0; the least value divided by -1 is itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from .casting import convert
from .dtypes import Array, double, is_float, is_string, narrow, single
from .mathematics import Function

Binary = Callable[[Array, Array], Array]


def arithmetic(function: Binary) -> Function:
    """`function` in the operands' type, narrow floats by way of float32."""

    def apply(a: Array, b: Array, /) -> Array:
        return narrow(function(single(a), single(b)), a.dtype)

    return apply


def comparison(function: Binary) -> Function:
    def apply(a: Array, b: Array, /) -> Array:
        return np.asarray(function(single(a), single(b)), dtype=np.bool_)

    return apply


def logic(function: Binary) -> Function:
    def apply(a: Array, b: Array, /) -> Array:
        return function(a, b)

    return apply


def divide(a: Array, b: Array, /) -> Array:
    """Quotients; of integers, truncated toward zero."""
    if is_float(a.dtype):
        return narrow(np.divide(single(a), single(b)), a.dtype)
    x, y = np.broadcast_arrays(a, b)
    zero = y == 0
    divisor = np.where(zero, np.ones((), y.dtype), y)
    quotient = np.floor_divide(x, divisor)
    if x.dtype.kind == "i":
        # floor rounds away from zero where the signs differ and something is left over
        inexact = np.multiply(quotient, divisor) != x
        quotient = quotient + (inexact & ((x < 0) != (divisor < 0))).astype(x.dtype)
    return np.where(zero, np.zeros((), x.dtype), quotient)


def modulo(a: Array, b: Array, /, *, fmod: int = 0) -> Array:
    """Remainders with the sign of the divisor, or with `fmod` of the dividend."""
    function = np.fmod if fmod else np.mod
    if is_float(a.dtype):
        return narrow(function(single(a), single(b)), a.dtype)
    x, y = np.broadcast_arrays(a, b)
    zero = y == 0
    return np.where(zero, np.zeros((), x.dtype), function(x, np.where(zero, np.ones((), y.dtype), y)))


def power(x: Array, y: Array, /) -> Array:
    """x ** y in x's type.

    Integer powers of integers wrap; a negative exponent truncates 1 / x ** -y toward zero (and of 0 gives 0).
    """
    if is_float(x.dtype):
        return narrow(np.power(double(x), double(y)), x.dtype)
    if is_float(y.dtype):
        return convert(np.power(double(x), double(y)), x.dtype)
    base, exponent = np.broadcast_arrays(x, y)
    negative = exponent < 0
    result = np.power(base, np.where(negative, np.zeros((), exponent.dtype), exponent).astype(base.dtype))
    odd = (exponent & np.ones((), exponent.dtype)).astype(np.bool_)
    one = np.ones((), base.dtype)
    inverse = np.where(base == 1, one, np.where(base == -1, np.where(odd, -one, one), np.zeros((), base.dtype)))
    return np.where(negative, inverse, result)


def bit_shift(x: Array, y: Array, /, *, direction: str) -> Array:
    """Shifts; an amount that is negative or not below the width leaves only what sign extension gives."""
    value, amount = np.broadcast_arrays(x, y)
    valid = (amount >= 0) & (amount < value.dtype.itemsize * 8)
    amount = np.where(valid, amount, np.zeros((), amount.dtype))
    if direction == "LEFT":
        return np.where(valid, np.left_shift(value, amount), np.zeros((), value.dtype))
    fill = np.where(value < 0, np.array(-1 if value.dtype.kind == "i" else 0, value.dtype), np.zeros((), value.dtype))
    return np.where(valid, np.right_shift(value, amount), fill)


def equal(a: Array, b: Array, /) -> Array:
    if is_string(a.dtype):
        return np.asarray(a.astype(object) == b.astype(object), dtype=np.bool_)
    return np.equal(single(a), single(b))


def maximum(*data: Array) -> Array:
    return narrow(reduce(np.maximum, map(single, data)), data[0].dtype)


def minimum(*data: Array) -> Array:
    return narrow(reduce(np.minimum, map(single, data)), data[0].dtype)


def total(*data: Array) -> Array:
    return narrow(reduce(np.add, map(double, data)), data[0].dtype)


def mean(*data: Array) -> Array:
    return narrow(reduce(np.add, map(double, data)) / len(data), data[0].dtype)


def where(condition: Array, x: Array, y: Array, /) -> Array:
    return np.where(condition, x, y)


def clip(x: Array, low: Array | None = None, high: Array | None = None, /) -> Array:
    """Min(high, Max(low, x)): `high` wins where it is the lower one; of zeros of both signs x stays."""
    y = single(x)
    if low is not None:
        low = single(low.reshape(()))
        y = np.where((y < low) | (low != low), low, y)
    if high is not None:
        high = single(high.reshape(()))
        y = np.where((y > high) | (high != high), high, y)
    return narrow(y, x.dtype)


ARITHMETIC: dict[str, Function] = {
    "Add": arithmetic(np.add),
    "And": logic(np.logical_and),
    "BitShift": bit_shift,
    "BitwiseAnd": logic(np.bitwise_and),
    "BitwiseOr": logic(np.bitwise_or),
    "BitwiseXor": logic(np.bitwise_xor),
    "Clip": clip,
    "Div": divide,
    "Equal": equal,
    "Greater": comparison(np.greater),
    "GreaterOrEqual": comparison(np.greater_equal),
    "Less": comparison(np.less),
    "LessOrEqual": comparison(np.less_equal),
    "Max": maximum,
    "Mean": mean,
    "Min": minimum,
    "Mod": modulo,
    "Mul": arithmetic(np.multiply),
    "Or": logic(np.logical_or),
    "Pow": power,
    "Sub": arithmetic(np.subtract),
    "Sum": total,
    "Where": where,
    "Xor": logic(np.logical_xor),
}
