"""Linear quantization, by tensor, axis or block, and the quantized products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casting import convert
from .convolution import correlate
from .dtypes import (
    E8M0,
    Array,
    axis_of,
    double,
    dtype_of,
    integer_range,
    is_integer,
    narrow,
)
from .linear import per_row_or_column
from .mathematics import Function
from .windows import windows_of


def spread(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    """A scale or zero point so that it broadcasts against `x`: of the tensor, of each index of `axis`, or of blocks."""
    if block_size and parameter.ndim == x.ndim:
        along = axis_of(axis, x.ndim)
        repeated = np.repeat(parameter, block_size, axis=along)
        return np.take(repeated, np.arange(x.shape[along]), axis=along)
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim != 1:
        raise ValueError(f"a scale of shape {list(parameter.shape)} without block_size")
    along = axis_of(axis, x.ndim)
    return parameter.reshape([-1 if i == along else 1 for i in range(x.ndim)])


def saturated(x: Array, dtype: np.dtype, saturate: bool = True) -> Array:
    """Whole numbers, or for a float type any, within the range of `dtype`."""
    if not is_integer(dtype):
        return convert(narrow(x, np.dtype(np.float32)), dtype, saturate)
    low, high = integer_range(dtype)
    return convert(np.clip(np.nan_to_num(x, nan=0.0), low, high), dtype)


def quantize_linear(
    x: Array,
    y_scale: Array,
    y_zero_point: Array | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    """saturate(round(x / scale) + zero point); the quotient is rounded to `precision`, else to the scale's type."""
    if output_dtype:
        dtype = dtype_of(output_dtype)
    else:
        dtype = np.dtype(np.uint8) if y_zero_point is None else y_zero_point.dtype
    within = dtype_of(precision) if precision else y_scale.dtype
    scale = spread(y_scale, x, axis, block_size)
    if is_integer(within) or within == E8M0:
        quotient = double(x) / double(scale)
    else:
        quotient = double(narrow(double(convert(x, within)) / double(convert(scale, within)), within))
    if is_integer(dtype):
        quotient = np.rint(quotient)
    if y_zero_point is not None:
        quotient = quotient + double(spread(y_zero_point, x, axis, block_size))
    return saturated(quotient, dtype, bool(saturate))


def dequantize_linear(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    """(x - zero point) * scale."""
    dtype = dtype_of(output_dtype) if output_dtype else x_scale.dtype
    value = double(x)
    if x_zero_point is not None:
        value = value - double(spread(x_zero_point, x, axis, block_size))
    # the difference takes part as a float32 at least, as it does where the operator is split
    value = value if dtype == np.float64 else double(value.astype(np.float32))
    return narrow(value * double(spread(x_scale, x, axis, block_size)), dtype)


def dynamic_parameters(x: Array) -> tuple[Array, Array]:
    """Scale (float32) and zero point (uint8) that map the range of float32 `x` and 0 onto 0 .. 255."""
    low = np.minimum(np.min(x, initial=np.inf), np.float32(0))
    high = np.maximum(np.max(x, initial=-np.inf), np.float32(0))
    scale = np.asarray((high - low) / np.float32(255), dtype=np.float32)
    zero_point = np.rint(np.clip(np.float32(0) - low / scale, 0, 255))
    return scale, np.asarray(np.nan_to_num(zero_point), dtype=np.uint8)


def dynamic_quantize_linear(x: Array, /) -> tuple[Array, Array, Array]:
    scale, zero_point = dynamic_parameters(x)
    return quantize_linear(x, scale, zero_point), scale, zero_point


def q_linear_mat_mul(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    /,
) -> Array:
    left = double(a) - double(per_row_or_column(a_zero_point, True))
    right = double(b) - double(per_row_or_column(b_zero_point, False))
    scale = double(per_row_or_column(a_scale, True)) * double(per_row_or_column(b_scale, False))
    return _requantized(np.matmul(left, right) * scale, per_row_or_column(y_scale, True), y_zero_point)


def _requantized(real: Array, scale: Array, zero_point: Array) -> Array:
    quotient = real / double(scale)
    if is_integer(zero_point.dtype):
        quotient = np.rint(quotient)
    return saturated(quotient + double(per_row_or_column(zero_point, True)), zero_point.dtype)


def q_linear_conv(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    b: Array | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    windows = windows_of(x.shape[2:], kernel_shape or w.shape[2:], strides, dilations, pads, auto_pad)
    by_feature = (-1, *[1] * (w.ndim - 1))
    values = double(x) - double(x_zero_point).reshape(())
    sums = correlate(values, double(w) - double(w_zero_point).reshape(by_feature), windows, group)
    by_channel = (1, *by_feature[:-1])
    if b is not None:
        sums = sums + double(b).reshape(by_channel)
    scale = double(x_scale).reshape(()) * double(w_scale).reshape(by_channel)
    return _requantized(sums * scale, y_scale.reshape(()), y_zero_point.reshape(()))


QUANTIZATION: dict[str, Function] = {
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": q_linear_conv,
    "QLinearMatMul": q_linear_mat_mul,
    "QuantizeLinear": quantize_linear,
}
