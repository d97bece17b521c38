"""Operators that runtimes have in ONNX's own domain, and no opset has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule
from .normalizations import simplified_layer_normalization


def affine(b: Expansion) -> Results:
    """alpha x + beta"""
    b.known("alpha", "beta")
    x = b.x()
    return [b.add(b.scaled(x, b.attr("alpha", 1.0)), b.number(b.attr("beta", 0.0), x))]


def scale(b: Expansion) -> Results:
    """scale x"""
    b.known("scale")
    return [b.mul(b.x(), b.number(b.attr("scale", 1.0), b.x()))]


def scaled_tanh(b: Expansion) -> Results:
    """alpha tanh(beta x)"""
    b.known("alpha", "beta")
    inner = b.value(onnx.TanhOp, b.scaled(b.x(), b.attr("beta", 1.0)))
    return [b.scaled(inner, b.attr("alpha", 1.0))]


def parametric_softplus(b: Expansion) -> Results:
    """alpha log(1 + exp(beta x))"""
    b.known("alpha", "beta")
    inner = b.value(onnx.SoftplusOp, b.scaled(b.x(), b.attr("beta", 1.0)))
    return [b.scaled(inner, b.attr("alpha", 1.0))]


def image_scaler(b: Expansion) -> Results:
    """scale x + the channel's bias"""
    b.known("bias", "scale")
    x, bias = b.scaled(b.x(), b.attr("scale", 1.0)), b.attr("bias", [])
    if not bias:
        return [b.value(onnx.IdentityOp, x)]
    column = b.unsqueezed(b.constant(_floats(bias)), *range(1, b.rank(x) - 1))
    return [b.add(x, b.value(onnx.CastLikeOp, column, x))]


def crop(b: Expansion) -> Results:
    """An image without a border (left, top, right, bottom), or of a size from its corner on."""
    b.known("border", "scale")
    left, top, right, bottom = b.attr("border")
    size = b.attr("scale")
    rows, columns = (top + size[0], left + size[1]) if size else (-bottom or _END, -right or _END)
    parts = [b.ints(values) for values in ([top, left], [rows, columns], [2, 3])]
    return [b.value(onnx.SliceOp, b.x(), *parts)]


_END = np.iinfo(np.int64).max


def _floats(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


EXPERIMENTAL: Mapping[str, Rule] = {
    "Affine": affine,
    "Crop": crop,
    "ImageScaler": image_scaler,
    "ParametricSoftplus": parametric_softplus,
    "Scale": scale,
    "ScaledTanh": scaled_tanh,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
}
