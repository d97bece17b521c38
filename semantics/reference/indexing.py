"""Gather, scatter, selection and search: operators whose result depends on indices or on an order of values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .dtypes import Array, axis_of, double, integer_of, integers, is_float, is_string, narrow, single, text
from .mathematics import Function


class OutOfRange(IndexError):
    """An index that an axis does not have."""

    def __init__(self, index: int, extent: int) -> None:
        axis = f"out of range for an axis of size {extent}" if extent else "for an axis that is empty"
        super().__init__(f"index {index} is {axis}")
        self.index = index


def bounded(indices: Array, extent: int) -> Array:
    """Indices in [-extent, extent) as numbers in [0, extent).  Raises OutOfRange for any other."""
    wide = indices.astype(np.int64)
    if wide.size and (wide.min() < -extent or wide.max() >= extent):
        bad = wide[(wide < -extent) | (wide >= extent)].reshape(-1)[0]
        raise OutOfRange(int(bad), extent)
    return np.where(wide < 0, wide + extent, wide)


def gather(data: Array, indices: Array, /, *, axis: int = 0) -> Array:
    axis = axis_of(axis, data.ndim)
    return np.take(data, bounded(indices, data.shape[axis]), axis=axis)


def _element_grid(data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """The full index into `data` of each element of `indices`."""
    if data.ndim != indices.ndim:
        raise ValueError(f"indices of rank {indices.ndim} for data of rank {data.ndim}")
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    for i, n in enumerate(indices.shape):
        if i != axis and n > data.shape[i]:
            raise ValueError(f"indices of shape {list(indices.shape)} for data of shape {list(data.shape)}")
    grid[axis] = bounded(indices, data.shape[axis])
    return tuple(grid)


def gather_elements(data: Array, indices: Array, /, *, axis: int = 0) -> Array:
    return data[_element_grid(data, indices, axis_of(axis, data.ndim))]


def gather_nd(data: Array, indices: Array, /, *, batch_dims: int = 0) -> Array:
    depth, batch = indices.shape[-1], data.shape[:batch_dims]
    if batch_dims + depth > data.ndim:
        raise ValueError(f"index tuples of {depth} for data of rank {data.ndim} with {batch_dims} batch axes")
    if batch != indices.shape[:batch_dims]:
        raise ValueError(f"batch axes {list(batch)} of the data, {list(indices.shape[:batch_dims])} of the indices")
    inner = indices.ndim - 1 - batch_dims
    prefix = [g.reshape(g.shape + (1,) * inner) for g in np.indices(batch, sparse=True)] if batch_dims else []
    chosen = [bounded(indices[..., i], data.shape[batch_dims + i]) for i in range(depth)]
    index = tuple(prefix) + tuple(chosen)
    if not index:  # tuples of no index: each is the whole of the data
        return np.broadcast_to(data, indices.shape[:-1] + data.shape).copy()
    if not depth:
        index = tuple(np.broadcast_arrays(*prefix, np.zeros(indices.shape[:-1], np.int64))[:-1])
    return data[index]


_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _scatter(data: Array, index: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """`data` with `updates` written or combined at `index`, one after the other, rounding after each."""
    if reduction == "none":
        result = data.copy()
        result[index] = updates
        return result
    if reduction not in _COMBINE:
        raise ValueError(f"scatter has no reduction {reduction!r}")
    if data.dtype.kind == "b":
        return _scatter(data.astype(np.uint8), index, updates.astype(np.uint8), reduction) != 0
    result = single(data).copy()
    ufunc = _COMBINE[reduction]
    getattr(ufunc, "at")(result, index, single(updates))  # noqa: B009  (typed as a plain callable above)
    return narrow(result, data.dtype)


def scatter_elements(
    data: Array, indices: Array, updates: Array, /, *, axis: int = 0, reduction: str = "none"
) -> Array:
    return _scatter(data, _element_grid(data, indices, axis_of(axis, data.ndim)), updates, reduction)


def scatter(data: Array, indices: Array, updates: Array, /, *, axis: int = 0) -> Array:
    return scatter_elements(data, indices, updates, axis=axis)


def scatter_nd(data: Array, indices: Array, updates: Array, /, *, reduction: str = "none") -> Array:
    depth = indices.shape[-1]
    if depth > data.ndim:
        raise ValueError(f"index tuples of {depth} for data of rank {data.ndim}")
    if updates.shape != indices.shape[:-1] + data.shape[depth:]:
        raise ValueError(f"updates of shape {list(updates.shape)}, not {[*indices.shape[:-1], *data.shape[depth:]]}")
    index = tuple(bounded(indices[..., i], data.shape[i]) for i in range(depth))
    return _scatter(data, index, updates, reduction)


def tensor_scatter(
    past: Array, update: Array, write_indices: Array | None = None, /, *, axis: int = -2, mode: str = "linear"
) -> Array:
    """A cache with `update` written from each sample's write index on."""
    axis = axis_of(axis, past.ndim)
    batch, extent, count = past.shape[0], past.shape[axis], update.shape[axis]
    first = np.zeros(batch, np.int64) if write_indices is None else write_indices.astype(np.int64)
    positions = first[:, None] + np.arange(count)
    positions = positions % extent if mode == "circular" else bounded(positions, extent)
    result = past.copy()
    cache, new = np.moveaxis(result, axis, 1), np.moveaxis(update, axis, 1)
    cache[np.arange(batch)[:, None], positions] = new
    return result


def compress(data: Array, condition: Array, /, *, axis: int | None = None) -> Array:
    flat = data.reshape(-1) if axis is None else data
    along = 0 if axis is None else axis_of(axis, data.ndim)
    kept = np.flatnonzero(condition)
    if kept.size and kept[-1] >= flat.shape[along]:
        raise ValueError(f"the condition is true at {kept[-1]}, of {flat.shape[along]} elements")
    return np.take(flat, kept, axis=along)


def non_zero(x: Array, /) -> Array:
    """Indices of the non-zero elements, [rank, count]; of a scalar, [0, count]."""
    present = np.asarray(x != "") if is_string(x.dtype) else single(x) != 0
    if x.ndim == 0:
        return np.zeros((0, int(present)), np.int64)
    return np.array(np.nonzero(present), dtype=np.int64)


def one_hot(indices: Array, depth: Array, values: Array, /, *, axis: int = -1) -> Array:
    count = integer_of(depth)
    axis = axis_of(axis, indices.ndim + 1)
    chosen = indices.astype(np.int64) if indices.dtype.kind != "u" else indices.astype(np.uint64).astype(np.int64)
    chosen = np.expand_dims(np.where(chosen < 0, chosen + count, chosen), axis)
    classes = np.arange(count).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return np.where(chosen == classes, values[1], values[0]).astype(values.dtype)


def _ordered(x: Array) -> Array:
    """Values that numpy can sort and compare: NaN is above all others."""
    return x if is_string(x.dtype) else single(x)


def top_k(x: Array, k: Array, /, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Array, Array]:
    """The k largest or smallest elements in order; of equal ones the lower index comes first."""
    del sorted  # an unsorted result may have any order
    axis = axis_of(axis, x.ndim)
    (count,) = integers(k)
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"k = {count} for an axis of size {x.shape[axis]}")
    values = np.moveaxis(_ordered(x), axis, -1)
    if largest:  # a stable ascending sort of the reversed axis, reversed, is a stable descending one
        order = values.shape[-1] - 1 - np.flip(np.argsort(np.flip(values, -1), axis=-1, kind="stable"), -1)
    else:
        order = np.argsort(values, axis=-1, kind="stable")
    order = np.moveaxis(order[..., :count], -1, axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


def unique(x: Array, /, *, axis: int | None = None, sorted: int = 1) -> tuple[Array, Array, Array, Array]:
    """Unique values (or slices along `axis`), their first places, the inverse, and their counts.

    NaNs are equal to one another, as in numpy.unique, and sorted behind all numbers.
    """
    flat = x.reshape(-1) if axis is None else np.moveaxis(x, axis_of(axis, x.ndim), 0)
    rows = flat.reshape(flat.shape[0], int(np.prod(flat.shape[1:], dtype=np.int64)))
    columns = _codes(rows)
    order = np.lexsort(columns.T[::-1]) if columns.shape[1] else np.arange(len(rows))
    ranked = columns[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any(ranked[1:] != ranked[:-1], axis=1)
    group = np.cumsum(new) - 1
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = group
    first = order[new]  # lexsort is stable: the first of a group is the first in x
    counts = np.bincount(group, minlength=len(first)).astype(np.int64)
    if not sorted:
        by_place = np.argsort(first, kind="stable")
        position = np.empty_like(by_place)
        position[by_place] = np.arange(len(by_place))
        first, counts, inverse = first[by_place], counts[by_place], position[inverse]
    y = np.take(flat, first, axis=0)
    y = y if axis is None else np.moveaxis(y, 0, axis_of(axis, x.ndim))
    return y, first.astype(np.int64), inverse.astype(np.int64), counts


def _codes(rows: Array) -> Array:
    """Ranks of the elements among all: integers that compare as the elements do, NaNs equal."""
    flat = rows.reshape(-1)
    if is_string(rows.dtype):
        words = [text(v) for v in flat]
        rank = {w: i for i, w in enumerate(sorted(set(words)))}
        return np.array([rank[w] for w in words], np.int64).reshape(rows.shape)
    _, codes = np.unique(single(flat), return_inverse=True)
    return codes.reshape(rows.shape)


def _arg_extreme(x: Array, axis: int, keepdims: int, select_last_index: int, largest: bool) -> Array:
    axis = axis_of(axis, x.ndim)
    values = double(x) if is_float(x.dtype) else single(x)
    if select_last_index:
        values = np.flip(values, axis)
    if x.shape[axis] == 0 if x.ndim else False:
        raise ValueError("ArgMax or ArgMin over an empty axis")
    index = (np.argmax if largest else np.argmin)(values, axis=axis, keepdims=bool(keepdims))
    return np.asarray(x.shape[axis] - 1 - index if select_last_index else index, dtype=np.int64)


def arg_max(data: Array, /, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    return _arg_extreme(data, axis, keepdims, select_last_index, largest=True)


def arg_min(data: Array, /, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    return _arg_extreme(data, axis, keepdims, select_last_index, largest=False)


INDEXING: dict[str, Function] = {
    "ArgMax": arg_max,
    "ArgMin": arg_min,
    "Compress": compress,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Scatter": scatter,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
    "Unique": unique,
}
