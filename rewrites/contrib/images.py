"""Pools and samples of images, also with the channels last, and Fourier transforms of rows."""

from __future__ import annotations

from collections.abc import Mapping

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule
from .products import channels_second, last_axes


def nhwc_max_pool(b: Expansion) -> Results:
    """MaxPool with the channels last."""
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    b.known(*names)
    attributes = {name: b.attr(name) for name in names}
    y = b.value(onnx.MaxPoolOp, channels_second(b, b.x()), attributes=attributes)
    return [b.transposed(y, last_axes(b.rank(b.x())))]


def grid_sample(b: Expansion) -> Results:
    """GridSample, whose modes have other names."""
    b.known("align_corners", "mode", "padding_mode")
    mode = b.attr("mode", "bilinear")
    attributes = {
        "align_corners": b.attr("align_corners", 0),
        "mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        "padding_mode": b.attr("padding_mode", "zeros"),
    }
    return [b.value(onnx.GridSampleOp, b.x(0), b.x(1), attributes=attributes)]


def rfft(b: Expansion) -> Results:
    """The transform of real rows, its first half, as pairs of numbers."""
    _check_transform(b)
    pairs = b.unsqueezed(b.x(), -1)
    return [b.value(onnx.DFTOp, pairs, None, b.ints(-2), attributes={"onesided": 1})]


def irfft(b: Expansion) -> Results:
    """Real rows of 2 (n - 1) elements from the first n numbers of their transform."""
    _check_transform(b)
    x = b.x()
    rank = b.rank(x)
    inner = b.sliced(x, rank - 2, -2, 0, -1)  # all but the first and the last, backwards
    rest = b.mul(inner, b.value(onnx.CastLikeOp, b.ints([1, -1]), inner))
    full = b.concat([x, rest], rank - 2)
    y = b.value(onnx.DFTOp, full, None, b.ints(-2), attributes={"inverse": 1})
    return [b.squeezed(b.sliced(y, rank - 1, 0, 1), rank - 1)]


def _check_transform(b: Expansion) -> None:
    b.known("normalized", "onesided", "signal_ndim")
    b.only("signal_ndim", 1)
    b.only("normalized", 0)
    b.only("onesided", 1)


IMAGES: Mapping[str, Rule] = {
    "GridSample": grid_sample,
    "Irfft": irfft,
    "NhwcMaxPool": nhwc_max_pool,
    "Rfft": rfft,
}
