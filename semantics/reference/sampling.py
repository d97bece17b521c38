"""Resampling of images: Resize, Upsample, GridSample, AffineGrid, and RoiAlign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .casting import convert
from .dtypes import Array, axes_of, by_parts, double, integer_range, integers, is_float, narrow, single
from .mathematics import Function


@dataclass(frozen=True)
class Axis:
    """How one axis is resized."""

    extent: int
    resized: int
    scale: float
    start: float = 0.0
    end: float = 1.0
    """The region of interest, normalized."""

    def coordinates(self, mode: str) -> Array:
        """The place in the original axis of each resized element.

        In float32, as scales are: 1.5 / 0.6 is then 2.5, which decides what is nearest.
        """
        return double(self._coordinates(mode))

    def _coordinates(self, mode: str) -> Array:
        x = np.arange(self.resized, dtype=np.float32)
        scale = np.float32(self.scale)
        if mode == "half_pixel":
            return (x + np.float32(0.5)) / scale - np.float32(0.5)
        if mode == "tf_half_pixel":  # of Resize-11
            return (x + np.float32(0.5)) / scale if scale != 1 else x
        if mode == "half_pixel_symmetric":
            adjustment = np.float32(self.resized) / (scale * np.float32(self.extent))
            offset = np.float32(self.extent / 2) * (1 - adjustment)
            return offset + (x + np.float32(0.5)) / scale - np.float32(0.5)
        if mode == "pytorch_half_pixel":
            return (x + np.float32(0.5)) / scale - np.float32(0.5) if self.resized > 1 else np.zeros_like(x)
        if mode == "align_corners":
            # the length that a scale asks for counts, before it is rounded down: the standard's tests have it so
            asked = scale * np.float32(self.extent)
            return x * np.float32(self.extent - 1) / (asked - 1) if self.resized > 1 else np.zeros_like(x)
        if mode == "asymmetric":
            return x / scale
        if mode == "tf_crop_and_resize":
            last = self.extent - 1
            if self.resized > 1:
                return self.start * last + x * ((self.end - self.start) * last / (self.resized - 1))
            return np.full_like(x, 0.5 * (self.start + self.end) * last)
        raise ValueError(f"Resize has no coordinate_transformation_mode {mode!r}")


def _triangle(t: Array) -> Array:
    return np.maximum(1.0 - np.abs(t), 0.0)


def _cubic(a: float) -> Callable[[Array], Array]:
    """Keys' kernel, equation (4) of https://ieeexplore.ieee.org/document/1163711."""

    def kernel(t: Array) -> Array:
        t = np.abs(t)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))

    return kernel


def weight_matrix(
    x: Array, extent: int, kernel: Callable[[Array], Array], reach: int, stretch: float, exclude_outside: bool
) -> Array:
    """Weights [resized, extent] of an interpolation at places `x` whose kernel, widened by `stretch`, spans +-reach.

    Neighbours outside the axis count as its edge, or with `exclude_outside` not at all.
    """
    radius = int(np.ceil(reach * stretch))
    neighbours = np.floor(x)[:, None] + np.arange(-radius, radius + 2)
    weights = kernel((neighbours - x[:, None]) / stretch)
    if exclude_outside:
        weights = np.where((neighbours >= 0) & (neighbours < extent), weights, 0.0)
    if exclude_outside or stretch > 1:
        weights = weights / np.sum(weights, axis=1, keepdims=True)
    matrix = np.zeros((len(x), extent))
    rows = np.broadcast_to(np.arange(len(x))[:, None], neighbours.shape)
    np.add.at(matrix, (rows, np.clip(neighbours, 0, extent - 1).astype(np.int64)), weights)
    return matrix


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _resize_geometry(
    shape: Sequence[int],
    axes: Sequence[int],
    roi: Array | None,
    scales: Array | None,
    sizes: Array | None,
    policy: str,
    cropped: bool,
) -> dict[int, Axis]:
    regions = [(0.0, 1.0)] * len(axes)
    if roi is not None and roi.size and cropped:
        bounds = [float(v) for v in double(roi)]
        regions = list(zip(bounds[: len(axes)], bounds[len(axes) :], strict=True))
    result: dict[int, Axis] = {}
    if scales is not None and scales.size:
        for axis, factor, (start, end) in zip(axes, scales.astype(np.float32), regions, strict=True):
            # in float32, as the shape rule has it: 10 * 0.7 is 7
            resized = int(np.floor(np.float32(shape[axis]) * np.float32(end - start) * factor))
            result[axis] = Axis(shape[axis], resized, float(factor), start, end)
        return result
    if sizes is None:
        raise ValueError("Resize with neither scales nor sizes")
    wanted = integers(sizes)
    factors = [n / shape[axis] for axis, n in zip(axes, wanted, strict=True)]
    if policy != "stretch":
        common = np.float32(min(factors) if policy == "not_larger" else max(factors))
        # in float32, as the shape rule has it
        wanted = [int(np.floor(common * np.float32(shape[axis]) + np.float32(0.5))) for axis in axes]
        factors = [float(common)] * len(axes)
    for axis, n, factor, (start, end) in zip(axes, wanted, factors, regions, strict=True):
        result[axis] = Axis(shape[axis], n, factor, start, end)
    return result


def resize(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    /,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Array:
    chosen = list(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    plan = _resize_geometry(x.shape, chosen, roi, scales, sizes, keep_aspect_ratio_policy, cropped)
    places = {i: axis.coordinates(coordinate_transformation_mode) for i, axis in plan.items()}
    if mode == "nearest":
        y = x
        for i, axis in plan.items():
            source = np.clip(_NEAREST[nearest_mode](places[i]), 0, axis.extent - 1).astype(np.int64)
            y = np.take(y, source, axis=i)
    elif mode in ("linear", "cubic"):
        kernel, reach = (_triangle, 1) if mode == "linear" else (_cubic(cubic_coeff_a), 2)
        wide = double(x)
        for i, axis in plan.items():
            if axis.extent == axis.resized and np.array_equal(places[i], np.arange(axis.extent)):
                continue
            stretch = max(1.0, 1.0 / axis.scale) if antialias else 1.0
            matrix = weight_matrix(places[i], axis.extent, kernel, reach, stretch, bool(exclude_outside))
            wide = np.moveaxis(_combined(matrix, np.moveaxis(wide, i, 0)), 0, i)
        y = _rounded_to(np.rint(wide) if antialias and not is_float(x.dtype) else wide, x.dtype)
    else:
        raise ValueError(f"Resize has no mode {mode!r}")
    if cropped:
        y = _extrapolated(y, plan, places, extrapolation_value)
    return y


def _combined(matrix: Array, x: Array) -> Array:
    """matrix @ x along the first axis; what is infinite or no number goes only where its weight is not 0."""
    if np.isfinite(x).all():
        return np.tensordot(matrix, x, axes=(1, 0))
    rows = [np.tensordot(row[row != 0], x[row != 0], axes=(0, 0)) for row in matrix]
    return np.stack(rows) if rows else np.empty((0, *x.shape[1:]))


def _rounded_to(y: Array, dtype: np.dtype) -> Array:
    """Floats rounded to `dtype`; to integers truncated and saturated."""
    return narrow(y, dtype) if is_float(dtype) else convert(np.clip(y, *integer_range(dtype)), dtype)


def _extrapolated(y: Array, plan: dict[int, Axis], places: dict[int, Array], value: float) -> Array:
    outside = np.zeros((1,) * y.ndim, np.bool_)
    for i, axis in plan.items():
        beyond = (places[i] < 0) | (places[i] > axis.extent - 1)
        outside = outside | beyond.reshape([-1 if j == i else 1 for j in range(y.ndim)])
    return np.where(outside, _rounded_to(np.asarray(value), y.dtype), y)


def upsample(x: Array, scales: Array, /, *, mode: str = "nearest") -> Array:
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def affine_grid(theta: Array, size: Array, /, *, align_corners: int = 0) -> Array:
    """Sampling places [N, (D,) H, W, 2 or 3], innermost coordinate first. Raises ValueError for sizes that are none."""
    batch, *rest = integers(size)
    if batch != len(theta) or min(rest) < 0:
        raise ValueError(f"the sizes {[batch, *rest]} for {len(theta)} transformations")
    spatial = rest[1:]
    mesh = np.meshgrid(*(_normalized_line(n, bool(align_corners)) for n in spatial), indexing="ij")
    places = np.stack([*reversed(mesh), np.ones_like(mesh[0])], axis=-1)
    wide = double(theta)
    moved = places.reshape(1, -1, len(spatial) + 1) @ wide.transpose(0, 2, 1)
    return narrow(moved.reshape(len(wide), *spatial, len(spatial)), theta.dtype)


def _normalized_line(count: int, align_corners: bool) -> Array:
    if align_corners:
        return -1 + np.arange(count) * (2 / (count - 1) if count > 1 else 0.0)
    return (2 * np.arange(count) + 1) / count - 1


def grid_sample(
    x: Array, grid: Array, /, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Array:
    """Values of x [N, C, D...] at normalized places [N, out..., r], innermost coordinate first."""
    rank = x.ndim - 2
    spatial = x.shape[2:]
    places: list[Array] = []
    for axis, extent in enumerate(spatial):
        g = double(grid)[..., rank - 1 - axis]
        at = (g + 1) / 2 * (extent - 1) if align_corners else ((g + 1) * extent - 1) / 2
        places.append(_reflected_into(at, extent, bool(align_corners)) if padding_mode == "reflection" else at)
    if mode == "nearest":
        taps, kernel = [0], None
        bases = [np.rint(p) for p in places]
    elif mode in ("linear", "cubic"):
        taps, kernel = ([0, 1], _triangle) if mode == "linear" else ([-1, 0, 1, 2], _cubic(-0.75))
        bases = [np.floor(p) for p in places]
    else:
        raise ValueError(f"GridSample has no mode {mode!r}")
    whole = kernel is None
    source = x if whole else x.astype(np.complex128) if x.dtype.kind == "c" else double(x)
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * rank)
    moved = np.moveaxis(source, 1, -1)  # channels last, so that one index picks them all
    result = np.zeros((*places[0].shape, x.shape[1]), source.dtype)
    if source.dtype == np.dtype(object):
        result[...] = ""
    for corner in product(taps, repeat=rank):
        weight, inside, index = np.ones(places[0].shape), np.ones(places[0].shape, np.bool_), [batch]
        for p, base, step, extent in zip(places, bases, corner, spatial, strict=True):
            at = base + step
            if kernel is not None:
                weight = weight * kernel(at - p)
            within, chosen = _pixel(at, extent, bool(align_corners), padding_mode)
            inside &= within
            index.append(chosen)
        values = moved[tuple(index)]
        if whole:
            result = np.where(inside[..., None], values, result)
        else:
            result += np.where(inside, weight, 0.0)[..., None] * values
    y = np.moveaxis(result, -1, 1)
    return y if whole else y.astype(x.dtype) if x.dtype.kind == "c" else _rounded_to(y, x.dtype)


def _bounds(extent: int, align_corners: bool) -> tuple[float, float]:
    return (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)


def _reflected_into(at: Array, extent: int, align_corners: bool) -> Array:
    """Places outside the image mirrored into it."""
    low, high = _bounds(extent, align_corners)
    return np.where((at < low) | (at > high), _reflected(at, low, high), at)


def _reflected(at: Array, low: float, high: float) -> Array:
    span = high - low
    if span <= 0:
        return np.zeros_like(at)
    folded = np.mod(at - low, 2 * span)
    return low + np.minimum(folded, 2 * span - folded)


def _pixel(at: Array, extent: int, align_corners: bool, padding_mode: str) -> tuple[Array, Array]:
    """Whether a pixel contributes, and its index."""
    within = (at >= 0) & (at < extent)
    if padding_mode == "reflection":
        at = np.where(within, at, np.rint(_reflected(at, *_bounds(extent, align_corners))))
    chosen = np.clip(np.nan_to_num(at), 0, max(extent - 1, 0)).astype(np.int64)
    return (within if padding_mode == "zeros" else np.ones_like(within)), chosen


def roi_align(
    x: Array,
    rois: Array,
    batch_indices: Array,
    /,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Means of bilinear samples in the bins of each region; [regions, C, height, width].  Of no samples it is 0.

    Mode "max" is the greatest of the samples' corner pixels times their weights, as the standard's tests and
    onnxruntime have it (not of the interpolated samples).
    """
    if mode not in ("avg", "max"):
        raise ValueError(f"RoiAlign has no mode {mode!r}")
    half_pixel = coordinate_transformation_mode == "half_pixel"
    result = np.zeros((len(rois), x.shape[1], output_height, output_width))
    places = single(rois)  # how many samples there are is decided in their own type
    places = places * places.dtype.type(spatial_scale) - places.dtype.type(0.5 if half_pixel else 0.0)
    for r, (roi, batch) in enumerate(zip(places, integers(batch_indices), strict=True)):
        left, top, right, bottom = roi
        width, height = right - left, bottom - top
        if not half_pixel:
            width, height = (max(size, places.dtype.type(1)) for size in (width, height))
        ys, rows = _samples(top, height, output_height, sampling_ratio)
        xs, columns = _samples(left, width, output_width, sampling_ratio)
        if not rows * columns:
            continue
        corners = _weighted_corners(double(x[batch]), ys, xs)
        samples = np.sum(corners, axis=0) if mode == "avg" else np.max(corners, axis=0)
        bins = samples.reshape(x.shape[1], output_height, rows, output_width, columns)
        result[r] = bins.mean(axis=(2, 4)) if mode == "avg" else bins.max(axis=(2, 4))
    return narrow(result, x.dtype)


def _samples(start: np.floating, length: np.floating, bins: int, sampling_ratio: int) -> tuple[Array, int]:
    """Sampling places along one axis, and how many there are in a bin."""
    count = sampling_ratio if sampling_ratio > 0 else max(int(np.ceil(length / length.dtype.type(bins))), 0)
    number, size = np.arange(bins * count), float(length) / bins
    whole = max(count, 1)
    return start + number // whole * size + (number % whole + 0.5) * size / whole, count


def _weighted_corners(image: Array, ys: Array, xs: Array) -> Array:
    """[4, C, ys, xs]: the four pixels of image [C, H, W] round each pair of places, times their bilinear weights.

    Places up to one element outside count as the edge; those further out weigh nothing.
    """
    sides: list[list[tuple[Array, Array]]] = []
    for places, extent in ((ys, image.shape[1]), (xs, image.shape[2])):
        inside = (places >= -1) & (places <= extent)
        at = np.clip(places, 0, extent - 1)
        low = np.minimum(np.floor(at), max(extent - 2, 0)).astype(np.int64)
        high = np.minimum(low + 1, extent - 1)
        sides.append([(low, np.where(inside, low + 1 - at, 0.0)), (high, np.where(inside, at - low, 0.0))])
    return np.stack([image[:, i][:, :, j] * (p[:, None] * q) for i, p in sides[0] for j, q in sides[1]])


SAMPLING: dict[str, Function] = {
    "AffineGrid": affine_grid,
    "GridSample": by_parts(grid_sample),
    "Resize": by_parts(resize),
    "RoiAlign": roi_align,
    "Upsample": upsample,
}
