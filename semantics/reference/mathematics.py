"""Elementwise functions of one tensor: roots, exponentials, trigonometry, rounding, classification."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .dtypes import Array, double, is_float, narrow, single
from .special import erf

Function = Callable[..., object]


def rounded(function: Callable[[Array], Array]) -> Function:
    """`function` in float64, rounded once to the operand's type; of integers rounded to float32 and cut off."""

    def apply(x: Array, /) -> Array:
        within = x.dtype if is_float(x.dtype) else np.dtype(np.float32)
        return narrow(function(double(x)), within).astype(x.dtype, copy=False)

    return apply


def exact(function: Callable[[Array], Array]) -> Function:
    """`function` whose result has no rounding, in any numeric type."""

    def apply(x: Array, /) -> Array:
        return narrow(function(single(x)), x.dtype)

    return apply


def is_nan(x: Array, /) -> Array:
    return np.isnan(double(x))


def is_inf(x: Array, /, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    wide = double(x)
    negative = np.isneginf(wide) if detect_negative else np.False_
    positive = np.isposinf(wide) if detect_positive else np.False_
    return np.broadcast_to(negative | positive, x.shape).copy()


def sign(x: Array, /) -> Array:
    """-1, 0 or 1; NaN stays NaN."""
    return narrow(np.sign(single(x)), x.dtype)


def bitwise_not(x: Array, /) -> Array:
    return np.invert(x)


def logical_not(x: Array, /) -> Array:
    return np.logical_not(x)


def identity(x: object, /) -> object:
    return x


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _rint(x: Array) -> Array:
    return np.rint(x) if is_float(x.dtype) else x


MATHEMATICS: dict[str, Function] = {
    "Abs": exact(np.abs),
    "Acos": rounded(np.arccos),
    "Acosh": rounded(np.arccosh),
    "Asin": rounded(np.arcsin),
    "Asinh": rounded(np.arcsinh),
    "Atan": rounded(np.arctan),
    "Atanh": rounded(np.arctanh),
    "BitwiseNot": bitwise_not,
    "Ceil": exact(np.ceil),
    "Cos": rounded(np.cos),
    "Cosh": rounded(np.cosh),
    "Erf": rounded(erf),
    "Exp": rounded(np.exp),
    "Floor": exact(np.floor),
    "Identity": identity,
    "IsInf": is_inf,
    "IsNaN": is_nan,
    "Log": rounded(np.log),
    "Neg": exact(np.negative),
    "Not": logical_not,
    "Reciprocal": rounded(_reciprocal),
    "Round": exact(_rint),
    "Sign": sign,
    "Sin": rounded(np.sin),
    "Sinh": rounded(np.sinh),
    "Sqrt": rounded(np.sqrt),
    "Tan": rounded(np.tan),
    "Tanh": rounded(np.tanh),
}
