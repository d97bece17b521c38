"""Operators that make a tensor of a given shape: constants, ranges, identity matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dialects.dims.interval import SIZE_LIMIT
from .casting import convert
from .dtypes import (
    BFLOAT16,
    FLOAT16,
    Array,
    double,
    dtype_of,
    integer_of,
    integers,
    narrow,
    scalar_of,
    single,
    strings,
)
from .mathematics import Function


def constant(
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Array:
    """The one attribute that is given; `sparse_value` comes as the dense tensor that it stands for."""
    for given, dtype in (
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
    ):
        if given is not None:
            return np.array(given, dtype=dtype)
    if value_string is not None:
        return strings([value_string], ())
    if value_strings is not None:
        return strings(list(value_strings))
    tensor = value if value is not None else sparse_value
    if tensor is None:
        raise ValueError("Constant without a value")
    return tensor


def constant_of_shape(target: Array, /, *, value: Array | None = None) -> Array:
    fill = np.zeros(1, np.float32) if value is None else value.reshape(1)
    sizes = integers(target)
    if any(n < 0 for n in sizes):
        raise ValueError(f"ConstantOfShape of {sizes}")
    return np.broadcast_to(fill.reshape(()), sizes).copy()


def eye_like(x: Array, /, *, dtype: int | None = None, k: int = 0) -> Array:
    if x.ndim != 2:
        raise ValueError(f"EyeLike of rank {x.ndim}")
    ones = np.arange(x.shape[1]) - np.arange(x.shape[0])[:, None] == k
    return convert(ones, x.dtype if dtype is None else dtype_of(dtype))


def range_(start: Array, limit: Array, delta: Array, /, *, stash_type: int = 1) -> Array:
    """start, start + delta, ... below `limit`; counted in float64, 16-bit floats made in the precision `stash_type`."""
    dtype = start.dtype
    if scalar_of(single(delta)) == 0:
        raise ValueError("Range with delta 0")
    if dtype.kind in "iu":
        first, end, step = map(integer_of, (start, limit, delta))
        count = _countable(-((first - end) // step))  # the exact ceiling
        places = np.arange(count, dtype=np.int64)  # products and sums wrap where they are int64, as they should
        return (places * np.int64(step) + np.int64(first)).astype(dtype)
    count = _count_of_floats(*(double(v).reshape(()) for v in (start, limit, delta)))
    stash = dtype_of(stash_type) if dtype in (FLOAT16, BFLOAT16) else dtype
    origin, stride = (single(convert(v, stash)).reshape(()) for v in (start, delta))
    return narrow(narrow(origin + np.arange(count).astype(origin.dtype) * stride, stash), dtype)


def _count_of_floats(start: Array, limit: Array, delta: Array) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.ceil((limit - start) / delta)
    if not np.isfinite(length):
        raise ValueError(f"Range from {start} to {limit} by {delta} has no number of elements")
    return _countable(int(length))


def _countable(count: int) -> int:
    """A number of elements, at least 0. Raises ValueError for more than an axis has."""
    if count >= SIZE_LIMIT:
        raise ValueError(f"Range would have {count} elements")
    return max(count, 0)


CREATION: dict[str, Function] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "Range": range_,
}
