"""Normalizations.  Statistics are taken in float64; a stage whose precision the standard names is rounded to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casting import convert
from .dtypes import Array, axis_of, double, dtype_of, narrow
from .mathematics import Function


def _per_channel(parameter: Array, rank: int) -> Array:
    return double(parameter).reshape([-1 if i == 1 else 1 for i in range(max(rank, 2))])


def batch_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    input_mean: Array,
    input_var: Array,
    /,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Array | tuple[Array, Array, Array]:
    """With the given statistics, or in training mode with those of the batch and the running ones updated."""
    wide = double(x) if x.ndim > 1 else double(x)[:, None]
    mean, variance = double(input_mean), double(input_var)
    if training_mode:
        axes = tuple(i for i in range(wide.ndim) if i != 1)
        mean, variance = np.mean(wide, axis=axes), np.var(wide, axis=axes)
    deviation = np.sqrt(_per_channel(variance, wide.ndim) + epsilon)
    y = (wide - _per_channel(mean, wide.ndim)) / deviation * _per_channel(scale, wide.ndim)
    y = narrow(y + _per_channel(bias, wide.ndim), x.dtype).reshape(x.shape)
    if not training_mode:
        return y
    running_mean = double(input_mean) * momentum + mean * (1 - momentum)
    running_var = double(input_var) * momentum + variance * (1 - momentum)
    return y, narrow(running_mean, input_mean.dtype), narrow(running_var, input_var.dtype)


def instance_normalization(x: Array, scale: Array, bias: Array, /, *, epsilon: float = 1e-5) -> Array:
    axes = tuple(range(2, x.ndim))
    wide = double(x)
    centred = wide - np.mean(wide, axis=axes, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + epsilon)
    return narrow(centred / deviation * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim), x.dtype)


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float, stash: np.dtype) -> tuple[Array, Array, Array]:
    """The standard score, the mean and the inverse standard deviation over `axes` of x as `stash`, in float64."""
    wide = double(convert(x, stash))
    mean = np.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    inverse = 1.0 / np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def _stage_one(score: Array, stash: np.dtype, dtype: np.dtype) -> Array:
    """The first stage's result: in the precision `stash`, then in the type of X."""
    return narrow(narrow(score, stash), dtype)


def layer_normalization(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Array, Array, Array]:
    """Y, and the mean and inverse standard deviation in the type `stash_type`."""
    stash = dtype_of(stash_type)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    score, mean, inverse = _standardized(x, axes, epsilon, stash)
    y = narrow(double(_stage_one(score, stash, x.dtype)) * double(scale), x.dtype)
    if bias is not None:
        y = narrow(double(y) + double(bias), x.dtype)
    return y, narrow(mean, stash), narrow(inverse, stash)


def rms_normalization(
    x: Array, scale: Array, /, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    stash = dtype_of(stash_type)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = double(convert(x, stash))
    score = wide / np.sqrt(np.mean(wide**2, axis=axes, keepdims=True) + epsilon)
    normalized = convert(_stage_one(score, stash, x.dtype), scale.dtype)
    return narrow(double(normalized) * double(scale), scale.dtype)


def group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    /,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Array:
    stash = dtype_of(stash_type)
    groups = x.reshape(x.shape[0], num_groups, -1)
    score, _, _ = _standardized(groups, (2,), epsilon, stash)
    normalized = _stage_one(score, stash, x.dtype).reshape(x.shape)
    y = narrow(double(normalized) * _per_channel(scale, x.ndim), x.dtype)
    return narrow(double(y) + _per_channel(bias, x.ndim), x.dtype)


def mean_variance_normalization(x: Array, /, *, axes: Sequence[int] = (0, 2, 3)) -> Array:
    """The score over `axes`; the function body adds 1e-9 to the deviation."""
    wide = double(x)
    along = tuple(axis_of(a, x.ndim) for a in axes)
    centred = wide - np.mean(wide, axis=along, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=along, keepdims=True))
    return narrow(centred / (deviation + 1e-9), x.dtype)


def lp_normalization(x: Array, /, *, axis: int = -1, p: int = 2) -> Array:
    """x divided by its norm along `axis`; zero where the norm is."""
    wide = double(x)
    norm = np.sum(np.abs(wide) ** p, axis=axis_of(axis, x.ndim), keepdims=True) ** (1.0 / p)
    return narrow(np.where(norm == 0, 0.0, wide / np.where(norm == 0, 1.0, norm)), x.dtype)


def lrn(x: Array, /, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """Local response normalization over `size` neighbouring channels."""
    squares = double(x) ** 2
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    channels = x.shape[1]
    sums = np.zeros_like(squares)
    for shift in range(-min(before, channels), min(after, channels) + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            sums[:, low:high] += squares[:, low + shift : high + shift]
    return narrow(double(x) / (bias + alpha / size * sums) ** beta, x.dtype)


NORMALIZATION: dict[str, Function] = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}
