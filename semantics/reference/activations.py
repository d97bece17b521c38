"""Activation functions, gated ones too, and the softmax family: computed in float64, rounded once."""

from __future__ import annotations

import numpy as np

from .dtypes import BFLOAT16, Array, axis_of, double, is_float, narrow
from .mathematics import Function, rounded
from .special import erfc


def sigmoid_of(x: Array) -> Array:
    """1 / (1 + exp(-x)) of float64 without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def softplus_of(x: Array) -> Array:
    """log(1 + exp(x)) of float64 without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def relu(x: Array, /) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


def leaky_relu(x: Array, /, *, alpha: float = 0.01) -> Array:
    wide = double(x)
    return narrow(np.where(wide < 0, alpha * wide, wide), x.dtype)


def thresholded_relu(x: Array, /, *, alpha: float = 1.0) -> Array:
    return np.where(double(x) > alpha, x, np.zeros((), x.dtype))


def p_relu(x: Array, slope: Array, /) -> Array:
    if is_float(x.dtype):
        return narrow(np.where(double(x) < 0, double(slope) * double(x), double(x)), x.dtype)
    return np.where(x < 0, slope * x, x)


def elu(x: Array, /, *, alpha: float = 1.0) -> Array:
    wide = double(x)
    return narrow(np.where(wide < 0, alpha * np.expm1(wide), wide), x.dtype)


def celu(x: Array, /, *, alpha: float = 1.0) -> Array:
    wide = double(x)
    return narrow(np.maximum(wide, 0.0) + np.minimum(alpha * np.expm1(wide / alpha), 0.0), x.dtype)


def selu(x: Array, /, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Array:
    wide = double(x)
    return narrow(gamma * np.where(wide > 0, wide, alpha * np.expm1(wide)), x.dtype)


def gelu(x: Array, /, *, approximate: str = "none") -> Array:
    wide = double(x)
    if approximate == "tanh":
        inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        return narrow(wide * sigmoid_of(2 * inner), x.dtype)  # (1 + tanh(t)) / 2 == sigmoid(2 t), without cancellation
    return narrow(0.5 * wide * erfc(-wide / np.sqrt(2.0)), x.dtype)


def hard_sigmoid(x: Array, /, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    return narrow(np.clip(alpha * double(x) + beta, 0.0, 1.0), x.dtype)


def hard_swish(x: Array, /) -> Array:
    wide = double(x)
    return narrow(wide * np.clip(wide / 6.0 + 0.5, 0.0, 1.0), x.dtype)


def swish_of(x: Array, alpha: float) -> Array:
    return x * sigmoid_of(alpha * x)


def swish(x: Array, /, *, alpha: float = 1.0) -> Array:
    return narrow(swish_of(double(x), alpha), x.dtype)


def swi_glu(a: Array, b: Array, /, *, alpha: float = 1.0) -> Array:
    if a.shape != b.shape:
        raise ValueError(f"SwiGLU of shapes {list(a.shape)} and {list(b.shape)}")
    return narrow(swish_of(double(a), alpha) * double(b), a.dtype)


def _mish(x: Array) -> Array:
    return x * np.tanh(softplus_of(x))


def _softsign(x: Array) -> Array:
    return x / (1.0 + np.abs(x))


def shrink(x: Array, /, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    wide = double(x)
    return narrow(np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0.0)), x.dtype)


def softmax_of(x: Array, axis: int) -> Array:
    if x.size == 0:
        return x
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax_in(x: Array, axis: int, dtype: np.dtype) -> Array:
    """Softmax of float64 `x` as an operator on `dtype` has it.

    Of 16-bit floats it is the function body of the standard op by op, each rounded.  The standard's tests fix the sum
    of the exponentials: of float16 rounded once, of bfloat16 at each addition (here in runs, see `_in_runs`).
    """
    if x.size == 0 or dtype.itemsize > 2:
        return double(narrow(softmax_of(x, axis), dtype))

    def rounded_(y: Array) -> Array:
        return double(narrow(y, dtype))

    e = rounded_(np.exp(rounded_(x - np.max(x, axis=axis, keepdims=True))))
    if dtype == BFLOAT16:
        total = np.expand_dims(_in_runs(np.moveaxis(e, axis, 0), dtype), axis)
    else:
        total = rounded_(np.sum(e, axis=axis, keepdims=True))
    return rounded_(e / total)


def _in_runs(x: Array, dtype: np.dtype) -> Array:
    """The sum over axis 0: up to eight elements one by one in `dtype`, then all these runs at once.

    The elements of a run are as far apart as there are runs.
    """
    runs = -(-len(x) // 8)
    total = x[:runs]
    for first in range(runs, len(x), runs):
        more = x[first : first + runs]
        more = np.concatenate([more, np.zeros((runs - len(more), *more.shape[1:]))])
        total = double(narrow(total + more, dtype))
    return double(narrow(np.sum(total, axis=0), dtype))


def log_softmax_of(x: Array, axis: int) -> Array:
    if x.size == 0:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def softmax(x: Array, /, *, axis: int = -1) -> Array:
    return narrow(softmax_in(double(x), axis_of(axis, x.ndim), x.dtype), x.dtype)


def log_softmax(x: Array, /, *, axis: int = -1) -> Array:
    return narrow(log_softmax_of(double(x), axis_of(axis, x.ndim)), x.dtype)


def hardmax(x: Array, /, *, axis: int = -1) -> Array:
    """1 at the first maximum along `axis`, else 0."""
    axis = axis_of(axis, x.ndim)
    result = np.zeros_like(x)
    if x.size:
        np.put_along_axis(result, np.argmax(double(x), axis=axis, keepdims=True), np.ones((), x.dtype), axis)
    return result


ACTIVATIONS: dict[str, Function] = {
    "Celu": celu,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Hardmax": hardmax,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": log_softmax,
    "Mish": rounded(_mish),
    "PRelu": p_relu,
    "Relu": relu,
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": rounded(sigmoid_of),
    "Softmax": softmax,
    "Softplus": rounded(softplus_of),
    "Softsign": rounded(_softsign),
    "SwiGLU": swi_glu,
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
}
