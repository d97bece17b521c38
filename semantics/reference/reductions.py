"""Reductions over axes and running sums.  Floats are added up in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .casting import convert
from .dtypes import Array, axes_of, axis_of, double, highest, integer_of, integers, is_float, lowest, narrow, single
from .mathematics import Function

Axes = tuple[int, ...]
Reducer = Callable[[Array, Axes, bool], Array]


def chosen_axes(rank: int, axes: Array | None, noop_with_empty_axes: int) -> Axes:
    """The axes to reduce: all of them where none is given, or none where `noop_with_empty_axes` says so."""
    if axes is None or axes.size == 0:
        return () if noop_with_empty_axes else tuple(range(rank))
    return tuple(sorted(set(axes_of(integers(axes), rank))))


def reduction(reducer: Reducer) -> Function:
    def apply(data: Array, axes: Array | None = None, /, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
        return reducer(data, chosen_axes(data.ndim, axes, noop_with_empty_axes), bool(keepdims))

    return apply


def _wide(x: Array) -> Array:
    return double(x) if is_float(x.dtype) else x


def _sum(x: Array, axes: Axes, keep: bool) -> Array:
    if is_float(x.dtype):
        return narrow(np.sum(double(x), axis=axes, keepdims=keep), x.dtype)
    return np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _product(x: Array, axes: Axes, keep: bool) -> Array:
    if is_float(x.dtype):
        return narrow(np.prod(double(x), axis=axes, keepdims=keep), x.dtype)
    return np.asarray(np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _mean(x: Array, axes: Axes, keep: bool) -> Array:
    """Means; of integers exact ones, truncated toward zero, and 0 over nothing."""
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    if is_float(x.dtype):
        return narrow(np.sum(double(x), axis=axes, keepdims=keep) / np.float64(count), x.dtype)
    whole = np.asarray(np.sum(x.astype(object), axis=axes, keepdims=keep), object)
    if count == 0 or not whole.size:
        return whole.astype(x.dtype)
    return np.asarray(np.abs(whole) // count * np.sign(whole)).astype(x.dtype)


def _extreme(ufunc: np.ufunc, identity: Callable[[np.dtype], object]) -> Reducer:
    def apply(x: Array, axes: Axes, keep: bool) -> Array:
        values = single(x)
        initial = np.array(identity(x.dtype), dtype=x.dtype).astype(values.dtype)[()]
        return narrow(ufunc.reduce(values, axis=axes, keepdims=keep, initial=initial), x.dtype)

    return apply


def _from_squares(x: Array, axes: Axes, keep: bool) -> Array:
    wide = _wide(x)
    return np.sum(wide * wide, axis=axes, keepdims=keep, dtype=wide.dtype)


def _sum_square(x: Array, axes: Axes, keep: bool) -> Array:
    return narrow(_from_squares(x, axes, keep), x.dtype)


def _l1(x: Array, axes: Axes, keep: bool) -> Array:
    return _sum(np.abs(single(x)), axes, keep) if not is_float(x.dtype) else _norm1(x, axes, keep)


def _norm1(x: Array, axes: Axes, keep: bool) -> Array:
    return narrow(np.sum(np.abs(double(x)), axis=axes, keepdims=keep), x.dtype)


def _l2(x: Array, axes: Axes, keep: bool) -> Array:
    return _from_wide(np.sqrt(np.sum(double(x) ** 2, axis=axes, keepdims=keep)), x.dtype)


def _from_wide(x: Array | np.generic, dtype: np.dtype) -> Array:
    """A result in float64 as the operand's type has it: rounded to a float, cast to an integer."""
    return narrow(x, dtype) if is_float(dtype) else convert(np.asarray(x), dtype)


def _log_sum(x: Array, axes: Axes, keep: bool) -> Array:
    return _from_wide(np.log(np.sum(double(x), axis=axes, keepdims=keep)), x.dtype)


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    wide = double(x)
    top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.sum(np.exp(wide - shift), axis=axes, keepdims=keep)
    return _from_wide(np.log(total) + (shift if keep else shift.reshape(np.shape(total))), x.dtype)


def _running(x: Array, axis: Array, exclusive: int, reverse: int, ufunc: np.ufunc) -> Array:
    along = axis_of(integer_of(axis), x.ndim)
    values = _wide(x)
    if reverse:
        values = np.flip(values, along)
    if exclusive and x.shape[along]:
        head = np.full_like(np.take(values, [0], along), ufunc.identity)
        values = np.concatenate([head, np.take(values, np.arange(x.shape[along] - 1), along)], along)
    values = ufunc.accumulate(values, axis=along, dtype=values.dtype)
    return narrow(np.flip(values, along) if reverse else values, x.dtype)


def cum_sum(x: Array, axis: Array, /, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return _running(x, axis, exclusive, reverse, np.add)


def cum_prod(x: Array, axis: Array, /, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return _running(x, axis, exclusive, reverse, np.multiply)


REDUCTIONS: dict[str, Function] = {
    "CumProd": cum_prod,
    "CumSum": cum_sum,
    "ReduceL1": reduction(_l1),
    "ReduceL2": reduction(_l2),
    "ReduceLogSum": reduction(_log_sum),
    "ReduceLogSumExp": reduction(_log_sum_exp),
    "ReduceMax": reduction(_extreme(np.maximum, lowest)),
    "ReduceMean": reduction(_mean),
    "ReduceMin": reduction(_extreme(np.minimum, highest)),
    "ReduceProd": reduction(_product),
    "ReduceSum": reduction(_sum),
    "ReduceSumSquare": reduction(_sum_square),
}
