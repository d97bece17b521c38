"""Convolutions: Conv, ConvTranspose, ConvInteger, DeformConv, CausalConvWithState, and Col2Im.

A convolution is one matrix product of the gathered windows with the kernel, accumulated in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from .activations import swish_of
from .dtypes import Array, by_parts, double, integers, narrow
from .mathematics import Function
from .windows import Windows, padded, patches, windows_of

# elements of gathered windows held at once, 128 MB
_GATHERED = 1 << 24


def correlate(x: Array, w: Array, windows: Windows, group: int) -> Array:
    """Sums of products of float64 `x` [N, C, D...] and `w` [M, C / group, K...] over the windows: [N, M, output...]."""
    n, spatial = x.shape[0], len(windows.kernel)
    view = patches(padded(x, windows, 0.0), windows)
    depth = int(np.prod(w.shape[1:], dtype=np.int64))
    rows = w.reshape(group, w.shape[0] // group, depth)
    result = np.empty((n, w.shape[0], *windows.output))
    # [N, C, o..., k...] -> [N, C, k..., o...]
    order = (0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
    row = int(np.prod([n, x.shape[1], *windows.kernel, *windows.output[1:]], dtype=np.int64))
    step = max(_GATHERED // max(row, 1), 1)
    for first in range(0, windows.output[0], step):
        part = view[:, :, first : first + step]
        places = part.shape[2 : 2 + spatial]
        columns = part.transpose(order).reshape(n, group, depth, int(np.prod(places, dtype=np.int64)))
        result[:, :, first : first + step] = np.matmul(rows, columns).reshape(n, w.shape[0], *places)
    return result


def _with_bias(y: Array, b: Array | None, dtype: np.dtype) -> Array:
    if b is not None:
        y = y + double(b).reshape(1, -1, *[1] * (y.ndim - 2))
    return narrow(y, dtype)


def _check_channels(x: Array, w: Array, group: int) -> None:
    if x.ndim != w.ndim or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"convolution of {list(x.shape)} by {list(w.shape)} in {group} groups")


def conv(
    x: Array,
    w: Array,
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
    _check_channels(x, w, group)
    windows = windows_of(x.shape[2:], kernel_shape or w.shape[2:], strides, dilations, pads, auto_pad)
    return _with_bias(correlate(double(x), double(w), windows, group), b, x.dtype)


def conv_integer(
    x: Array,
    w: Array,
    x_zero_point: Array | None = None,
    w_zero_point: Array | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """A convolution of bytes less their zero points, int32; padding counts as the zero point."""
    _check_channels(x, w, group)
    windows = windows_of(x.shape[2:], kernel_shape or w.shape[2:], strides, dilations, pads, auto_pad)
    values = double(x) - (0.0 if x_zero_point is None else double(x_zero_point).reshape(()))
    weights = double(w)
    if w_zero_point is not None:
        weights = weights - double(w_zero_point).reshape(-1, *[1] * (w.ndim - 1))
    # exact: float64 holds every sum of products of 9-bit numbers
    return correlate(values, weights, windows, group).astype(np.int64).astype(np.int32)


def scatter_windows(columns: Array, windows: Windows, spatial: Sequence[int]) -> Array:
    """Add [N, C, kernel..., places...] onto [N, C, spatial...] where the windows lie; padding is cut off."""
    rank = len(windows.kernel)
    inner = [b + size + a for b, size, a in zip(windows.before, spatial, windows.after, strict=True)]
    full = [max(n, i) for n, i in zip(windows.covered, inner, strict=True)]
    canvas = np.zeros((*columns.shape[:2], *full), columns.dtype)
    for offset in product(*map(range, windows.kernel)):
        index = [slice(None), slice(None)]
        for i in range(rank):
            start = offset[i] * windows.dilations[i]
            index.append(slice(start, start + (windows.output[i] - 1) * windows.strides[i] + 1, windows.strides[i]))
        if all(windows.output):
            canvas[tuple(index)] += columns[(slice(None), slice(None), *offset)]
    crop = (slice(b, b + size) for b, size in zip(windows.before, spatial, strict=True))
    return canvas[(slice(None), slice(None), *crop)]


def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    rank = x.ndim - 2
    if x.ndim != w.ndim or x.shape[1] != w.shape[0] or x.shape[1] % group:
        raise ValueError(f"transposed convolution of {list(x.shape)} by {list(w.shape)} in {group} groups")
    steps, spread = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    kernel = tuple(kernel_shape or w.shape[2:])
    before, after, sizes = _transposed_geometry(
        x.shape[2:], kernel, steps, spread, tuple(output_padding or [0] * rank), output_shape, pads, auto_pad
    )
    windows = Windows(kernel, steps, spread, before, after, x.shape[2:])
    n, channels, features = x.shape[0], x.shape[1] // group, w.shape[1]
    rows = double(w).reshape(group, channels, -1).transpose(0, 2, 1)
    columns = np.matmul(rows, double(x).reshape(n, group, channels, prod(x.shape[2:])))
    columns = columns.reshape(n, group * features, *kernel, *x.shape[2:])
    return _with_bias(scatter_windows(columns, windows, sizes), b, x.dtype)


def _transposed_geometry(
    spatial: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int],
    extra: Sequence[int],
    output_shape: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """What to cut off in front and behind, and the sizes that remain."""
    rank = len(spatial)
    covered = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(spatial, steps, kernel, spread, strict=True)]
    whole = [c + e for c, e in zip(covered, extra, strict=True)]
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [n * s for n, s in zip(spatial, steps, strict=True)]
    if output_shape is None:
        explicit = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
        before, after = explicit[:rank], explicit[rank:]
        sizes = [n - b - a for n, b, a in zip(whole, before, after, strict=True)]
    else:
        sizes = list(output_shape)[-rank:]
        totals = [n - o for n, o in zip(whole, sizes, strict=True)]
        half = [max(t, 0) // 2 for t in totals]
        rest = [max(t, 0) - h for t, h in zip(totals, half, strict=True)]
        before, after = (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)
    return tuple(before), tuple(after), tuple(sizes)


def col2_im(
    x: Array,
    image_shape: Array,
    block_shape: Array,
    /,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """Blocks [N, C * block, L] added up where they lie in an image [N, C, image...]."""
    image, block = integers(image_shape), integers(block_shape)
    windows = windows_of(image, block, strides, dilations, pads, "NOTSET")
    channels = x.shape[1] // int(np.prod(block, dtype=np.int64))
    columns = x.reshape(x.shape[0], channels, *block, *windows.output)
    if x.dtype.kind in "fV":
        return narrow(scatter_windows(double(columns), windows, image), x.dtype)
    return scatter_windows(columns, windows, image)


def deform_conv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    /,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """A convolution whose sampling places are shifted by `offset` and weighted by `mask`; linear interpolation."""
    rank, n = x.ndim - 2, x.shape[0]
    windows = windows_of(x.shape[2:], kernel_shape or w.shape[2:], strides, dilations, pads, "NOTSET")
    taps = int(np.prod(windows.kernel, dtype=np.int64))
    shifts = double(offset).reshape(n, offset_group, *windows.kernel, rank, *windows.output)
    places: list[Array] = []
    for axis in range(rank):
        base = windows.positions(axis).T  # [kernel, output]
        sizes = [1] * (2 * rank)
        sizes[axis], sizes[rank + axis] = base.shape
        places.append(base.reshape(sizes) + np.take(shifts, axis, axis=2 + rank))
    channels = x.shape[1] // offset_group
    image = double(x).reshape(n, offset_group, channels, *x.shape[2:])
    sampled = np.stack(
        [np.stack([interpolate(image[i, g], [p[i, g] for p in places]) for g in range(offset_group)]) for i in range(n)]
    )  # [N, offset_group, C / offset_group, kernel..., output...]
    if mask is not None:
        sampled = sampled * double(mask).reshape(n, offset_group, 1, *windows.kernel, *windows.output)
    columns = sampled.reshape(n, group, x.shape[1] // group * taps, prod(windows.output))
    rows = double(w).reshape(group, w.shape[0] // group, -1)
    return _with_bias(np.matmul(rows, columns).reshape(n, w.shape[0], *windows.output), b, x.dtype)


def interpolate(image: Array, places: Sequence[Array]) -> Array:
    """Values of `image` [C, D...] at fractional places, one array a spatial axis: multilinear, zero outside."""
    floors = [np.floor(p) for p in places]
    result = np.zeros((image.shape[0], *places[0].shape))
    for corner in product((0, 1), repeat=len(places)):
        weight, inside, index = np.ones_like(places[0]), np.ones(places[0].shape, np.bool_), []
        for p, low, step, extent in zip(places, floors, corner, image.shape[1:], strict=True):
            weight = weight * (p - low if step else 1 - (p - low))
            at = low + step
            inside &= (at >= 0) & (at < extent)
            index.append(np.clip(np.nan_to_num(at), 0, max(extent - 1, 0)).astype(np.int64))
        if all(image.shape[1:]):
            result += np.where(inside, weight, 0.0) * image[(slice(None), *index)]
    return result


def causal_conv_with_state(
    x: Array,
    w: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    /,
    *,
    activation: str = "none",
) -> tuple[Array, Array]:
    """A depthwise convolution of [B, C, L] over current and past positions, and the last k - 1 positions seen."""
    depth = w.shape[2]
    state = np.zeros((x.shape[0], x.shape[1], depth - 1), x.dtype) if past_state is None else past_state
    seen = np.concatenate([state, x], axis=2)
    windows = windows_of(seen.shape[2:], (depth,), None, None, None, "NOTSET")
    y = correlate(double(seen), double(w), windows, x.shape[1])
    if bias is not None:
        y = y + double(bias)[:, None]
    if activation in ("silu", "swish"):
        y = swish_of(y, 1.0)
    elif activation != "none":
        raise ValueError(f"CausalConvWithState has no activation {activation!r}")
    return narrow(y, x.dtype), seen[:, :, seen.shape[2] - (depth - 1) :]


CONVOLUTION: dict[str, Function] = {
    "CausalConvWithState": causal_conv_with_state,
    "Col2Im": by_parts(col2_im),
    "Conv": conv,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
}
