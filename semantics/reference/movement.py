"""Operators that only move elements: shapes, slices, concatenation, padding, layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import Array, axes_of, axis_of, integer_of, integers, is_string
from .mathematics import Function


def shape(data: Array, /, *, start: int = 0, end: int | None = None) -> Array:
    """The sizes of axes [start, end); both bounds are clamped to the rank."""
    rank = data.ndim
    first = min(max(start + rank if start < 0 else start, 0), rank)
    stop = rank if end is None else min(max(end + rank if end < 0 else end, 0), rank)
    return np.array(data.shape[first:stop], dtype=np.int64)


def size(data: Array, /) -> Array:
    return np.array(data.size, dtype=np.int64)


def reshape(data: Array, target: Array, /, *, allowzero: int = 0) -> Array:
    asked = integers(target)
    copied = [i for i, n in enumerate(asked) if n == 0 and not allowzero]
    if copied and copied[-1] >= data.ndim:
        raise ValueError(f"Reshape to {asked} copies axis {copied[-1]} of {list(data.shape)}")
    sizes = [data.shape[i] if i in copied else n for i, n in enumerate(asked)]
    if -1 in sizes:
        # a copied axis counts on neither side, so that -1 is determined for an empty batch too
        inside = int(np.prod([n for i, n in enumerate(data.shape) if i not in copied], dtype=np.int64))
        rest = int(np.prod([n for i, n in enumerate(sizes) if n != -1 and i not in copied], dtype=np.int64))
        if sizes.count(-1) > 1 or rest == 0:
            raise ValueError(f"Reshape to {asked} does not determine -1")
        sizes[sizes.index(-1)] = inside // rest
    if any(n < 0 for n in sizes) or int(np.prod(sizes, dtype=np.int64)) != data.size:
        raise ValueError(f"cannot reshape {list(data.shape)} to {asked}")
    return data.reshape(sizes)


def flatten(data: Array, /, *, axis: int = 1) -> Array:
    if not -data.ndim <= axis <= data.ndim:
        raise ValueError(f"axis {axis} is out of range for rank {data.ndim}")
    split = axis if axis >= 0 else axis + data.ndim
    rows = int(np.prod(data.shape[:split], dtype=np.int64))
    columns = int(np.prod(data.shape[split:], dtype=np.int64))
    return data.reshape(rows, columns)


def squeeze(data: Array, axes: Array | None = None, /) -> Array:
    chosen = None if axes is None else set(axes_of(integers(axes), data.ndim))
    if chosen is None:
        return data.reshape([n for n in data.shape if n != 1])
    if bad := [a for a in sorted(chosen) if data.shape[a] != 1]:
        raise ValueError(f"cannot squeeze axis {bad[0]} of size {data.shape[bad[0]]}")
    return data.reshape([n for i, n in enumerate(data.shape) if i not in chosen])


def unsqueeze(data: Array, axes: Array, /) -> Array:
    rank = data.ndim + axes.size
    chosen = axes_of(integers(axes), rank)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"repeated axes in {integers(axes)}")
    rest = iter(data.shape)
    return data.reshape([1 if i in chosen else next(rest) for i in range(rank)])


def transpose(data: Array, /, *, perm: Sequence[int] | None = None) -> Array:
    return np.transpose(data, perm)


def expand(data: Array, target: Array, /) -> Array:
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(integers(target)))).copy()


def tile(data: Array, repeats: Array, /) -> Array:
    if repeats.size != data.ndim:
        raise ValueError(f"{repeats.size} repeats for rank {data.ndim}")
    if np.any(repeats < 0):
        raise ValueError(f"'repeats' is {repeats.tolist()}, and must not be negative")
    return np.tile(data, integers(repeats))


def concat(*inputs: Array, axis: int) -> Array:
    return np.concatenate(inputs, axis=axis_of(axis, inputs[0].ndim))


def split(
    data: Array, lengths: Array | None = None, /, *, axis: int = 0, num_outputs: int | None = None, outputs: int = 1
) -> tuple[Array, ...]:
    """Parts of the given lengths, else equal ones (the last may be smaller)."""
    axis = axis_of(axis, data.ndim)
    extent = data.shape[axis]
    if lengths is None:
        count = num_outputs or outputs
        step = -(-extent // count)
        sizes = [max(min(step, extent - i * step), 0) for i in range(count)]
    else:
        sizes = integers(lengths)
    if sum(sizes) != extent:
        raise ValueError(f"parts of {sizes} for an axis of size {extent}")
    return tuple(np.split(data, np.cumsum(sizes[:-1]), axis=axis))


def slice_bounds(extent: int, start: int, end: int, step: int) -> slice:
    """The standard's clamped bounds as a Python slice."""
    if step == 0:
        raise ValueError("a slice with step 0")
    start = start + extent if start < 0 else start
    end = end + extent if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    first, last = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    if extent == 0:
        return slice(0, 0, 1)
    return slice(first, None if last < 0 else last, step)


def slice_(data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None, /) -> Array:
    chosen = list(range(starts.size)) if axes is None else axes_of(integers(axes), data.ndim)
    strides = [1] * starts.size if steps is None else integers(steps)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(chosen, integers(starts), integers(ends), strides, strict=True):
        index[axis] = slice_bounds(data.shape[axis], start, end, step)
    return data[tuple(index)]


def zero_of(dtype: np.dtype) -> object:
    """0, False or the empty string."""
    return "" if is_string(dtype) else np.zeros((), dtype)[()]


def pad(
    data: Array,
    pads: Array,
    constant_value: Array | None = None,
    axes: Array | None = None,
    /,
    *,
    mode: str = "constant",
) -> Array:
    """Padding by a constant, the mirrored, the edge's or the wrapped-around elements; negative amounts crop."""
    chosen = list(range(data.ndim)) if axes is None else axes_of(integers(axes), data.ndim)
    amounts = integers(pads)
    if len(amounts) != 2 * len(chosen):
        raise ValueError(f"{len(amounts)} pads for {len(chosen)} axes")
    fill = zero_of(data.dtype) if constant_value is None else scalar_or_string(constant_value)
    for i, axis in enumerate(chosen):
        data = _pad_axis(data, axis, amounts[i], amounts[i + len(chosen)], mode, fill)
    return data


def scalar_or_string(x: Array) -> object:
    if x.size != 1:
        raise ValueError(f"a tensor of one element is expected, not of shape {list(x.shape)}")
    return x.reshape(())[()]


def _pad_axis(data: Array, axis: int, before: int, after: int, mode: str, fill: object) -> Array:
    extent = data.shape[axis]
    if extent + before + after < 0:
        raise ValueError(f"pads {before} and {after} for an axis of size {extent}")
    # cropping comes first, so that the other modes see only what is left
    data = np.take(data, np.arange(max(-before, 0), extent - max(-after, 0)), axis=axis)
    before, after, extent = max(before, 0), max(after, 0), data.shape[axis]
    positions = np.arange(-before, extent + after)
    if mode == "constant":
        shape_ = list(data.shape)
        shape_[axis] = len(positions)
        result = np.full(shape_, fill, dtype=data.dtype)
        index: list[slice] = [slice(None)] * data.ndim
        index[axis] = slice(before, before + extent)
        result[tuple(index)] = data
        return result
    if extent == 0 and len(positions):
        raise ValueError(f"cannot pad an empty axis in mode {mode}")
    return np.take(data, _sources(positions, extent, mode), axis=axis)


def _sources(positions: Array, extent: int, mode: str) -> Array:
    """Which element each padded position repeats."""
    if mode == "edge":
        return np.clip(positions, 0, extent - 1)
    if mode == "wrap":
        return positions % extent
    if mode == "reflect":
        period = max(2 * (extent - 1), 1)
        folded = positions % period
        return np.minimum(folded, period - folded) if extent > 1 else np.zeros_like(positions)
    raise ValueError(f"Pad has no mode {mode!r}")


def center_crop_pad(data: Array, target: Array, /, *, axes: Sequence[int] | None = None) -> Array:
    chosen = list(range(data.ndim)) if axes is None else axes_of(axes, data.ndim)
    for axis, wanted in zip(chosen, integers(target), strict=True):
        extent = data.shape[axis]
        if wanted <= extent:
            start = (extent - wanted) // 2
            data = np.take(data, np.arange(start, start + wanted), axis=axis)
        else:
            before = (wanted - extent) // 2
            data = _pad_axis(data, axis, before, wanted - extent - before, "constant", zero_of(data.dtype))
    return data


def depth_to_space(x: Array, /, *, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        blocks = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, depth, h * b, w * b)


def space_to_depth(x: Array, /, *, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(order).reshape(n, c * b * b, h // b, w // b)


def trilu(x: Array, k: Array | None = None, /, *, upper: int = 1) -> Array:
    diagonal = 0 if k is None else integer_of(k)
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return np.where(kept, x, np.array(zero_of(x.dtype), dtype=x.dtype))


def reverse_sequence(x: Array, sequence_lens: Array, /, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    data = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    time = np.arange(data.shape[1])
    lengths = sequence_lens.reshape(-1, 1)
    source = np.where(time < lengths, lengths - 1 - time, time)
    return np.moveaxis(data[np.arange(data.shape[0])[:, None], source], (0, 1), (batch_axis, time_axis))


MOVEMENT: dict[str, Function] = {
    "CenterCropPad": center_crop_pad,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": flatten,
    "Pad": pad,
    "Reshape": reshape,
    "ReverseSequence": reverse_sequence,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
}
