"""Pooling over sliding windows and over whole maps, and MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import Array, double, integers, lowest, narrow, single
from .mathematics import Function
from .windows import Windows, padded, patches, windows_of


def _kernel_axes(x: Array) -> tuple[int, ...]:
    """The axes of `patches` that run over a window."""
    return tuple(range(x.ndim, 2 * x.ndim - 2))


def max_pool(
    x: Array,
    /,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    outputs: int = 1,
) -> tuple[Array, ...]:
    """The greatest element of each window and, on request, its index into `x` flattened (padding does not count)."""
    windows = windows_of(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    values = single(x)
    least = float(np.array(lowest(x.dtype), x.dtype))  # of a float or a byte
    view = patches(padded(values, windows, least), windows)
    y = narrow(np.max(view, axis=_kernel_axes(x), initial=values.dtype.type(least)), x.dtype)
    return (y,) if outputs < 2 else (y, _max_indices(x, view, windows, storage_order))


def _max_indices(x: Array, view: Array, windows: Windows, storage_order: int) -> Array:
    spatial = x.shape[2:]
    rank = len(spatial)
    flat = view.reshape(*view.shape[: 2 + rank], -1)
    inside = np.ones((*windows.output, *windows.kernel), np.bool_)
    places: list[Array] = []
    for axis in range(rank):
        sizes = [1] * (2 * rank)
        sizes[axis], sizes[rank + axis] = windows.output[axis], windows.kernel[axis]
        place = windows.positions(axis).reshape(sizes)
        inside &= (place >= 0) & (place < spatial[axis])
        places.append(np.broadcast_to(place, inside.shape).reshape(*windows.output, -1))
    # an element of minus infinity comes before padding of the same value
    real = inside.reshape(*windows.output, -1)
    best = np.max(flat, axis=-1, keepdims=True)
    hit = np.where(np.isnan(best), np.isnan(flat), flat == best) & real
    chosen = np.argmax(np.where(hit.any(-1, keepdims=True), hit, real), axis=-1)
    index = np.zeros(chosen.shape, np.int64)
    factor = 1
    for axis in range(rank) if storage_order else reversed(range(rank)):
        place = np.broadcast_to(places[axis], (*chosen.shape, places[axis].shape[-1]))
        index += factor * np.take_along_axis(place, chosen[..., None], -1)[..., 0]
        factor *= spatial[axis]
    maps = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * factor
    return index + maps.reshape(x.shape[0], x.shape[1], *[1] * rank)


def average_pool(
    x: Array,
    /,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """Means over the windows; of padding only what `pads` names counts, and only with `count_include_pad`."""
    windows = windows_of(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    sums = np.sum(patches(padded(double(x), windows, 0.0), windows), axis=_kernel_axes(x))
    count = np.ones((), np.int64)
    for axis, extent in enumerate(x.shape[2:]):
        place = windows.positions(axis)
        low = -windows.before[axis] if count_include_pad else 0
        high = extent + (windows.after[axis] if count_include_pad else 0)
        along = np.sum((place >= low) & (place < high), axis=1)
        count = count[..., None] * along
    return narrow(sums / count, x.dtype)


def lp_pool(
    x: Array,
    /,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    windows = windows_of(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = np.abs(padded(double(x), windows, 0.0)) ** p
    return narrow(np.sum(patches(powers, windows), axis=_kernel_axes(x)) ** (1.0 / p), x.dtype)


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def global_average_pool(x: Array, /) -> Array:
    return narrow(np.mean(double(x), axis=_spatial(x), keepdims=True), x.dtype)


def global_max_pool(x: Array, /) -> Array:
    return narrow(np.max(single(x), axis=_spatial(x), keepdims=True), x.dtype)


def global_lp_pool(x: Array, /, *, p: int = 2) -> Array:
    return narrow(np.sum(np.abs(double(x)) ** p, axis=_spatial(x), keepdims=True) ** (1.0 / p), x.dtype)


def max_unpool(
    x: Array,
    indices: Array,
    output_shape: Array | None = None,
    /,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """Zeros but for the elements of `x` at `indices`, which count in the unpooled tensor without `output_shape`.

    With a larger `output_shape` the indices still refer to the sizes that the attributes give.
    """
    rank = x.ndim - 2
    steps, edges = list(strides or [1] * rank), list(pads or [0] * (2 * rank))
    spatial = [
        (n - 1) * s + k - edges[i] - edges[rank + i]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape, strict=True))
    ]
    inferred = (*x.shape[:2], *spatial)
    wanted = inferred if output_shape is None else tuple(integers(output_shape))
    flat = np.zeros(int(np.prod(inferred, dtype=np.int64)), x.dtype)
    places = indices.reshape(-1)
    if places.size and (places.min() < 0 or places.max() >= flat.size):
        # they were taken from a map of the larger size
        flat = np.zeros(int(np.prod(wanted, dtype=np.int64)), x.dtype)
        inferred = wanted
    flat[places] = x.reshape(-1)
    result = np.zeros(wanted, x.dtype)
    common = tuple(slice(0, min(a, b)) for a, b in zip(inferred, wanted, strict=True))
    result[common] = flat.reshape(inferred)[common]
    return result


def max_roi_pool(x: Array, rois: Array, /, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Array:
    """The greatest element of each of the bins that a region [batch, x1, y1, x2, y2] is cut into; 0 for an empty bin.

    Corners are rounded to whole elements and included (Fast R-CNN's RoI pooling).
    """
    height, width = pooled_shape
    result = np.zeros((rois.shape[0], x.shape[1], height, width), single(x).dtype)
    for r, roi in enumerate(double(rois)):
        corners = np.floor(roi[1:] * spatial_scale + 0.5).astype(np.int64)
        for i, rows in enumerate(_bins(int(corners[1]), int(corners[3]), height, x.shape[2])):
            for j, columns in enumerate(_bins(int(corners[0]), int(corners[2]), width, x.shape[3])):
                part = single(x)[int(roi[0]), :, rows, columns]
                if part.size:
                    result[r, :, i, j] = part.reshape(x.shape[1], -1).max(axis=1)
    return narrow(result, x.dtype)


def _bins(first: int, last: int, count: int, extent: int) -> list[slice]:
    size = max(last - first + 1, 1) / count
    edges = [(int(np.floor(i * size)) + first, int(np.ceil((i + 1) * size)) + first) for i in range(count)]
    return [slice(min(max(a, 0), extent), min(max(b, 0), extent)) for a, b in edges]


POOLING: dict[str, Function] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxRoiPool": max_roi_pool,
    "MaxUnpool": max_unpool,
}
