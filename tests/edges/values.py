"""Element types and the values at their edges: signed zeros, ties, denormals, infinities, NaN, least and largest."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

Array = np.ndarray
Rng = np.random.Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = (np.dtype(f"f{n}") for n in (2, 4, 8))
BOOL = np.dtype(bool)
FLOATS = (F16, BF16, F32, F64)
SIGNED = tuple(np.dtype(f"i{n}") for n in (1, 2, 4, 8))
UNSIGNED = tuple(np.dtype(f"u{n}") for n in (1, 2, 4, 8))
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
I8, I16, I32, I64 = SIGNED
U8, U16, U32, U64 = UNSIGNED
FLOAT8 = tuple(
    np.dtype(getattr(ml_dtypes, n)) for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
)
F4 = np.dtype(ml_dtypes.float4_e2m1fn)
I4, U4, I2, U2 = (np.dtype(getattr(ml_dtypes, n)) for n in ("int4", "uint4", "int2", "uint2"))
SMALL = (I4, U4, I2, U2)


def ints(*values: int) -> Array:
    return np.array(values, I64)


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype in (BF16, *FLOAT8, F4)


def edges(dtype: np.dtype) -> Array:
    """The values of a type where operators differ."""
    if dtype == BOOL:
        return np.array([True, False])
    if dtype == F4:
        return np.array([0, -0.0, 0.5, -0.5, 1, 1.5, -2, 3, 4, -6], F32).astype(dtype)
    if is_float(dtype):
        info = ml_dtypes.finfo(dtype)
        plain = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5, -2.5, 0.3, -0.7, 3, -3, 10.25, -20, 100]
        wide = [float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal)]
        wide += [-float(info.smallest_subnormal)]
        nan = [np.nan] + ([np.inf, -np.inf] if dtype in (*FLOATS, FLOAT8[2]) else [])
        return np.array([*plain, *wide, *nan], F64).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    found = {0, 1, 2, 3, 5, 7, 100, high, high - 1, high // 2, low, low + 1, -1, -2, -3, -7}
    inside = np.array(sorted(v for v in found if low <= v <= high), object)
    return inside.astype(U64 if high >= 2**63 else I64).astype(dtype)


def hostile(rng: Rng, shape: Sequence[int], dtype: np.dtype) -> Array:
    """An array of edge values, each at least once where there is room."""
    pool = edges(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    order = np.concatenate([rng.permutation(len(pool)) for _ in range(count // len(pool) + 1)])[:count]
    return pool[order].reshape(tuple(shape))


def tame(rng: Rng, shape: Sequence[int], dtype: np.dtype) -> Array:
    """Moderate numbers, with ties."""
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if is_float(dtype):
        return np.asarray(rng.integers(-12, 13, shape) / 4).astype(dtype)
    low = 0 if ml_dtypes.iinfo(dtype).min == 0 else max(-5, int(ml_dtypes.iinfo(dtype).min))
    return np.asarray(rng.integers(low, min(6, int(ml_dtypes.iinfo(dtype).max) + 1), shape)).astype(dtype)


def finite(rng: Rng, shape: Sequence[int], dtype: np.dtype) -> Array:
    """Normally distributed floats."""
    return np.asarray(rng.standard_normal(tuple(shape))).astype(dtype)
