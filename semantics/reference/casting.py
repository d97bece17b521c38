"""Conversion between element types: Cast, CastLike and BitCast.

Where the standard leaves a result open, a float outside the range of an integer type: it saturates to that type, or of
types below 32 bits to int32 first and then loses the high bits (so do the standard's own tests); NaN is 0.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from .dtypes import (
    E8M0,
    FLOAT8S,
    SMALL_INTS,
    Array,
    double,
    dtype_of,
    integer_range,
    is_float,
    is_integer,
    is_string,
    single,
    strings,
    text,
)
from .mathematics import Function

_INTEGER = re.compile(r"[+-]?\d+")


def convert(x: Array, to: np.dtype, saturate: bool = True, round_mode: str = "up") -> Array:
    """`x` in the element type `to`, by the rules of Cast."""
    if is_string(x.dtype) or is_string(to):
        return _from_text(x, to, saturate, round_mode) if is_string(x.dtype) else _to_text(x, to)
    if x.dtype == to:
        return x
    if to.kind == "b":
        return np.asarray(single(x) != 0)
    if is_integer(to):
        return _to_integer(x, to)
    if to == E8M0:
        return _to_e8m0(double(_in_single(single(x))), saturate, round_mode)
    if to in FLOAT8S:
        return _to_float8(x, to, saturate)
    if to.kind == "c":
        return x.astype(to)
    return _to_float(x, to)


def _to_float(x: Array, to: np.dtype) -> Array:
    if x.dtype in SMALL_INTS or x.dtype.kind == "b":
        x = x.astype(np.int32)
    if is_float(x.dtype) and x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    return _in_single(x).astype(to) if to.itemsize < 4 else x.astype(to)


def _in_single(x: Array) -> Array:
    """Numbers in float32, such that a second rounding to fewer digits gives what one would have given.

    Toward the neighbour whose last bit is set, where a number is none of float32 (Boldo and Melquiond, "Emulation of
    FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:  # what float64 does not hold is told by one bit
        rest = x & np.array(0xFFF, x.dtype)
        large = (x >= 2**52) | (x <= -(2**52)) if x.dtype.kind == "i" else x >= 2**52
        x = np.where(large, (x - rest) | np.where(rest != 0, np.array(0x800, x.dtype), np.array(0, x.dtype)), x)
    wide = double(x)
    with np.errstate(over="ignore"):
        nearest = wide.astype(np.float32)
    bits, back = nearest.view(np.int32), double(nearest)
    moves = (back != wide) & np.isfinite(wide) & (bits & 1 == 0)
    step = np.where(np.abs(wide) > np.abs(back), 1, -1).astype(np.int32)
    return np.where(moves, bits + step, bits).astype(np.int32).view(np.float32)


def _to_integer(x: Array, to: np.dtype) -> Array:
    if is_float(x.dtype):
        return _float_to_integer(double(x), to)
    if to in SMALL_INTS:
        return _wrap_small(single(x), to)
    return single(x).astype(to)  # numpy drops the high bits


def _float_to_integer(x: Array, to: np.dtype) -> Array:
    target = np.dtype(np.int32) if to.itemsize < 4 else to
    low, high = integer_range(target)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    # 2**63 - 1 and 2**64 - 1 are no doubles: what reaches 2**63 or 2**64 is set apart
    inside = (whole >= float(low)) & (whole < float(high + 1))
    kept = np.where(inside, whole, 0.0).astype(target)
    result = np.where(inside, kept, np.where(whole < 0, np.array(low, target), np.array(high, target)))
    return _wrap_small(result, to) if to in SMALL_INTS else result.astype(to)


def _wrap_small(x: Array, to: np.dtype) -> Array:
    """Integers cut to the bits of a type of less than a byte."""
    bits, signed = SMALL_INTS[to]
    low = np.asarray(x).astype(np.int64) & ((1 << bits) - 1)
    if signed:
        low = low - ((low >> (bits - 1)) << bits)
    return low.astype(np.int8).astype(to)


def _to_float8(x: Array, to: np.dtype, saturate: bool) -> Array:
    """The two tables of Cast for float 8 types."""
    wide = _in_single(single(x))
    result = wide.astype(to)
    if not saturate:
        return result
    # rounding may leave the range, which each type shows as its infinity or NaN
    greatest = float(ml_dtypes.finfo(to).max)
    lost = ~np.isfinite(result.astype(np.float32)) & ~np.isnan(wide)
    return np.where(lost, np.copysign(np.float32(greatest), wide).astype(to), result)


def _to_e8m0(x: Array, saturate: bool, round_mode: str) -> Array:
    """Powers of two from 2**-127 to 2**127; byte 255 is NaN.  Negative values are taken by magnitude."""
    mantissa, exponent = np.frexp(np.abs(x))  # mantissa in [0.5, 1)
    exponent = exponent - 1  # |x| = 2 * mantissa * 2**exponent
    above = {"up": mantissa > 0.5, "down": np.zeros_like(x, np.bool_), "nearest": mantissa >= 0.75}[round_mode]
    power = exponent + above
    small = (x == 0) | (power < -127)
    # the rounded value decides whether it is in range
    large = (power > 127) | np.isinf(x)
    byte = np.clip(power + 127, 0, 254)
    if saturate:
        byte = np.where(small, 0, np.where(large, 254, byte))
    else:
        byte = np.where(small | large, 255, byte)
    return np.where(np.isnan(x), 255, byte).astype(np.uint8).view(E8M0)


def _to_text(x: Array, to: np.dtype) -> Array:
    def shown(value: object) -> str:
        if isinstance(value, bool | np.bool_):
            return "1" if value else "0"
        number = float(value) if is_float(x.dtype) else value  # pyright: ignore[reportArgumentType]
        if isinstance(number, float) and not np.isfinite(number):
            return "NaN" if np.isnan(number) else ("INF" if number > 0 else "-INF")
        return _shortest(x.dtype, number) if isinstance(number, float) else str(int(value))  # pyright: ignore[reportArgumentType]

    return strings([shown(v) for v in x.reshape(-1)], x.shape)


def _shortest(dtype: np.dtype, number: float) -> str:
    """The shortest decimal that gives the number back in its own type."""
    carrier = np.float64 if dtype == np.float64 else np.float16 if dtype == np.float16 else np.float32
    return str(carrier(number))


def _from_text(x: Array, to: np.dtype, saturate: bool, round_mode: str) -> Array:
    if is_string(to):
        return x
    words = [text(v).strip() for v in x.reshape(-1)]
    if is_integer(to) and all(_INTEGER.fullmatch(w) for w in words):
        modulus = 1 << 64
        whole = np.array([int(w) % modulus for w in words], dtype=np.uint64).reshape(x.shape)
        return _wrap_small(whole.astype(np.int64), to) if to in SMALL_INTS else whole.astype(to)
    numbers = np.array([_number(w) for w in words], dtype=np.float64)
    return convert(numbers.reshape(x.shape), to, saturate, round_mode)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"cannot cast the string {word!r} to a number") from None


def cast(x: Array, /, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    return convert(x, dtype_of(to), bool(saturate), round_mode)


def cast_like(x: Array, target: Array, /, *, saturate: int = 1, round_mode: str = "up") -> Array:
    return convert(x, target.dtype, bool(saturate), round_mode)


def bit_cast(x: Array, /, *, to: int) -> Array:
    """The same bits as another type of the same width."""
    target = dtype_of(to)
    source_bits, target_bits = bit_width(x.dtype), bit_width(target)
    if source_bits != target_bits:
        raise ValueError(f"BitCast from {x.dtype} ({source_bits} bits) to {target} ({target_bits} bits)")
    raw = np.ascontiguousarray(x).reshape(x.shape)
    if x.dtype.itemsize <= 8:
        raw = raw.view(np.dtype(f"u{x.dtype.itemsize}"))
    if source_bits < 8:
        raw = raw & np.uint8((1 << source_bits) - 1)
        if target in SMALL_INTS:
            return _wrap_small(raw, target)
    if target.kind == "b":
        raw = (raw != 0).astype(np.uint8)
    return raw.view(target)


def bit_width(dtype: np.dtype) -> int:
    if dtype in SMALL_INTS:
        return SMALL_INTS[dtype][0]
    narrow_floats = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
    return narrow_floats.get(dtype.name, dtype.itemsize * 8)


CASTING: dict[str, Function] = {"BitCast": bit_cast, "Cast": cast, "CastLike": cast_like}
