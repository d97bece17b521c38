"""Element types as numpy dtypes, and how arithmetic on the narrow ones is rounded.

numpy knows no bfloat16, no float below 16 bits and no integer below 8; ml_dtypes adds them.  Arithmetic widens such
operands, computes, and rounds the result once (`narrow`): first to float32, then to the narrow type, which for +, -,
*, / and sqrt is the correctly rounded result (float32 has more than twice the digits of float16 and bfloat16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray
Value = Array | list["Value"] | dict[object, object] | None
"""A tensor, a sequence, a map, or an optional without an element."""

# the numbers of TensorProto.DataType, from onnx.proto
DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    8: np.dtype(object),  # strings
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
    27: np.dtype(ml_dtypes.float6_e2m3fn),
    28: np.dtype(ml_dtypes.float6_e3m2fn),
}
NUMBERS: dict[np.dtype, int] = {dtype: number for number, dtype in DTYPES.items()}

FLOAT16, BFLOAT16 = DTYPES[10], DTYPES[16]
FLOAT8S = frozenset(DTYPES[n] for n in (17, 18, 19, 20))
E8M0 = DTYPES[24]
FLOATS = frozenset(DTYPES[n] for n in (1, 10, 11, 16, 17, 18, 19, 20, 23, 24, 27, 28))
SMALL_INTS: dict[np.dtype, tuple[int, bool]] = {
    DTYPES[21]: (4, False),
    DTYPES[22]: (4, True),
    DTYPES[25]: (2, False),
    DTYPES[26]: (2, True),
}
"""Integers of less than a byte: their bits, and whether they are signed."""


def dtype_of(number: object) -> np.dtype:
    """The numpy dtype of a TensorProto.DataType number.  Raises ValueError for a number that is none."""
    if not isinstance(number, int) or number not in DTYPES:
        raise ValueError(f"{number!r} is not an element type")
    return DTYPES[number]


def is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS


def is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or dtype in SMALL_INTS


def is_string(dtype: np.dtype) -> bool:
    return dtype.kind in "OUST"


def integer_range(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if dtype in SMALL_INTS:
        bits, signed = SMALL_INTS[dtype]
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def lowest(dtype: np.dtype) -> object:
    """The value below all others: minus infinity where there is one, False for bool."""
    if is_float(dtype):
        return -np.inf if np.isinf(np.float64(-np.inf).astype(dtype).astype(np.float64)) else ml_dtypes.finfo(dtype).min
    return False if dtype.kind == "b" else integer_range(dtype)[0]


def highest(dtype: np.dtype) -> object:
    """The value above all others: infinity where there is one, True for bool."""
    if is_float(dtype):
        return np.inf if np.isinf(np.float64(np.inf).astype(dtype).astype(np.float64)) else ml_dtypes.finfo(dtype).max
    return True if dtype.kind == "b" else integer_range(dtype)[1]


def single(x: Array) -> Array:
    """The same numbers in a type that numpy computes in: float32 for narrower floats, bytes for narrower integers."""
    if is_float(x.dtype) and x.dtype.itemsize < 4:
        return x.astype(np.float32)
    if x.dtype in SMALL_INTS:
        return x.astype(np.int8 if SMALL_INTS[x.dtype][1] else np.uint8)
    return x


def double(x: Array) -> Array:
    """The same numbers as float64, in which the transcendental functions and all sums of products are computed."""
    return x.astype(np.float64, copy=False)


def by_parts(function: Callable[..., Array]) -> Callable[..., Array]:
    """A linear function of its first operand, also of complex numbers: of the real and of the imaginary parts."""

    @wraps(function)
    def apply(x: Array, /, *operands: Any, **attributes: Any) -> Array:
        if x.dtype.kind != "c":
            return function(x, *operands, **attributes)
        real = function(np.real(x), *operands, **attributes)
        if "extrapolation_value" in attributes:
            attributes["extrapolation_value"] = 0.0  # a number outside of the tensor is real
        return (real + 1j * function(np.imag(x), *operands, **attributes)).astype(x.dtype)

    return apply


def narrow(x: Array | np.generic, dtype: np.dtype) -> Array:
    """Round `x`, a wider float, to `dtype`; to less than 32 bits by way of float32."""
    y = np.asarray(x)
    if y.dtype == np.float64 and dtype.itemsize < 4 and is_float(dtype):
        y = y.astype(np.float32)
    return y.astype(dtype, copy=False)


def strings(values: Sequence[str], shape: tuple[int, ...] | None = None) -> Array:
    """A string tensor of `values` in row-major order; 1-D unless `shape` is given."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result if shape is None else result.reshape(shape)


def text(value: object) -> str:
    """One element of a string tensor as str (files hold bytes)."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def integers(x: Array) -> list[int]:
    """A tensor of shape-like integers as Python numbers, flattened."""
    return [int(v) for v in x.reshape(-1)]


def scalar_of(x: Array) -> object:
    """The only element of a tensor of one element.  Raises ValueError for any other size."""
    if x.size != 1:
        raise ValueError(f"a tensor of one element is expected, not of shape {list(x.shape)}")
    return x.reshape(()).item()


def integer_of(x: Array) -> int:
    """The only element of a tensor of one element as a Python integer.  Raises ValueError for any other size."""
    if x.size != 1:
        raise ValueError(f"a tensor of one element is expected, not of shape {list(x.shape)}")
    return int(x.reshape(-1)[0])


def axis_of(axis: int, rank: int) -> int:
    """A possibly negative axis as a number in [0, rank).  Raises ValueError outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    return [axis_of(int(a), rank) for a in axes]
