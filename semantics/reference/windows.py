"""Sliding windows over the spatial axes of [N, C, D1, ..., Dn]: geometry shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .dtypes import Array


@dataclass(frozen=True)
class Windows:
    """Where the windows of a convolution or pooling lie, one number for each spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    """Padding in front of the first element."""
    after: tuple[int, ...]
    output: tuple[int, ...]
    """How many windows there are."""

    @property
    def spans(self) -> tuple[int, ...]:
        """Elements from a window's first to its last."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def covered(self) -> tuple[int, ...]:
        """Elements of the padded axes up to the last window's end; at least one window's span."""
        return tuple(max(o - 1, 0) * s + w for o, s, w in zip(self.output, self.strides, self.spans, strict=True))

    def positions(self, axis: int) -> Array:
        """Index into the unpadded axis of each element of each window, [output, kernel]."""
        starts = np.arange(self.output[axis]) * self.strides[axis] - self.before[axis]
        return starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]


def windows_of(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
) -> Windows:
    """The geometry by the standard's formulas; `spatial` are the sizes of the unpadded axes."""
    rank = len(spatial)
    steps = tuple(strides or [1] * rank)
    spread = tuple(dilations or [1] * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output = [-(-n // s) for n, s in zip(spatial, steps, strict=True)]
        totals = [max((o - 1) * s + w - n, 0) for o, s, w, n in zip(output, steps, spans, spatial, strict=True)]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        before, after = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        return Windows(tuple(kernel), steps, spread, tuple(before), tuple(after), tuple(output))
    if auto_pad not in ("NOTSET", "VALID"):
        raise ValueError(f"auto_pad {auto_pad!r}")
    explicit = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    before, after = explicit[:rank], explicit[rank:]
    output = [
        _count(n + b + a - w, s, n + b, bool(ceil_mode))
        for n, b, a, w, s in zip(spatial, before, after, spans, steps, strict=True)
    ]
    return Windows(tuple(kernel), steps, spread, tuple(before), tuple(after), tuple(output))


def _count(free: int, stride: int, limit: int, ceil_mode: bool) -> int:
    """Windows that fit; with `ceil_mode` one more may hang over, but none starts in the padding behind."""
    if not ceil_mode:
        return max(free // stride + 1, 0)
    count = -(-free // stride) + 1
    return max(count - ((count - 1) * stride >= limit), 0)


def padded(x: Array, windows: Windows, fill: float) -> Array:
    """`x` with its spatial axes filled up to what the windows cover."""
    beyond = [n - b - size for n, b, size in zip(windows.covered, windows.before, x.shape[2:], strict=True)]
    width = [max(a, n, 0) for a, n in zip(windows.after, beyond, strict=True)]
    if not any(windows.before) and not any(width):
        return x
    amounts = [(0, 0), (0, 0), *zip(windows.before, width, strict=True)]
    return np.pad(x, amounts, constant_values=fill)


def patches(x: Array, windows: Windows) -> Array:
    """A view [N, C, output..., kernel...] of padded `x`."""
    view = np.lib.stride_tricks.sliding_window_view(x, windows.spans, axis=tuple(range(2, x.ndim)))
    index: list[slice] = [slice(None), slice(None)]
    index += [slice(0, (o - 1) * s + 1 if o else 0, s) for o, s in zip(windows.output, windows.strides, strict=True)]
    index += [slice(None, None, d) for d in windows.dilations]
    return view[tuple(index)]
