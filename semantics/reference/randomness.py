"""Random operators.  A seed makes the draw repeatable; which numbers it gives is this library's own choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casting import convert
from .dtypes import Array, double, dtype_of, narrow, scalar_of
from .mathematics import Function


def generator(seed: float | None) -> np.random.Generator:
    """Seeded by the bits of a float or integer seed, else from the operating system."""
    return np.random.default_rng() if seed is None else np.random.default_rng(np.float64(seed).view(np.uint64))


def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return narrow(generator(seed).normal(mean, scale, tuple(shape)), dtype_of(dtype))


def random_normal_like(
    x: Array, /, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return narrow(generator(seed).normal(mean, scale, x.shape), x.dtype if dtype is None else dtype_of(dtype))


def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return narrow(generator(seed).uniform(low, high, tuple(shape)), dtype_of(dtype))


def random_uniform_like(
    x: Array, /, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return narrow(generator(seed).uniform(low, high, x.shape), x.dtype if dtype is None else dtype_of(dtype))


def bernoulli(x: Array, /, *, dtype: int | None = None, seed: float | None = None) -> Array:
    drawn = generator(seed).random(x.shape) < double(x)
    return convert(np.asarray(drawn), x.dtype if dtype is None else dtype_of(dtype))


def multinomial(x: Array, /, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Array:
    """Samples [batch, sample_size] of classes by their unnormalized log-probabilities."""
    wide = double(x)
    weights = np.exp(wide - np.max(wide, axis=1, keepdims=True))
    bounds = np.cumsum(weights / np.sum(weights, axis=1, keepdims=True), axis=1)
    drawn = generator(seed).random((x.shape[0], sample_size))
    chosen = np.sum(drawn[:, :, None] >= bounds[:, None, :-1], axis=2)
    return chosen.astype(dtype_of(dtype))


def dropout(
    x: Array,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    /,
    *,
    seed: int | None = None,
) -> tuple[Array, Array]:
    """The input, in training mode with elements dropped and the rest scaled up, and the mask of what was kept."""
    share = 0.5 if ratio is None else float(double(ratio).reshape(()))
    if training_mode is None or not scalar_of(training_mode) or share == 0:
        return x, np.ones(x.shape, np.bool_)
    kept = generator(seed).random(x.shape) >= share
    return narrow(np.where(kept, double(x) / (1 - share), 0.0), x.dtype), kept


RANDOMNESS: dict[str, Function] = {
    "Bernoulli": bernoulli,
    "Dropout": dropout,
    "Multinomial": multinomial,
    "RandomNormal": random_normal,
    "RandomNormalLike": random_normal_like,
    "RandomUniform": random_uniform,
    "RandomUniformLike": random_uniform_like,
}
