"""Random operators.  A seed makes the draw repeatable; which numbers it gives is this library's own choice.

The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), a hash of the
element's place and a key, so that elements can be drawn in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casting import convert
from .dtypes import Array, double, dtype_of, narrow, scalar_of
from .mathematics import Function

GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mixed(x: Array) -> Array:
    """SplitMix64's finalizer on uint64."""
    with np.errstate(over="ignore"):
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return x ^ x >> np.uint64(31)


def numbers(seed: float | None, shape: Sequence[int]) -> Array:
    """64 random bits for each element: mix(key + (place + 1) * GAMMA), the key being the mixed seed."""
    if seed is None:
        given = np.random.default_rng().integers(0, 1 << 64, (), np.uint64, endpoint=False)
    else:
        given = np.float64(seed).view(np.uint64)
    place = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64).reshape(tuple(shape))
    with np.errstate(over="ignore"):
        return mixed(mixed(np.asarray(given)) + place * GAMMA)


def precision(dtype: np.dtype) -> np.dtype:
    """The type that draws are made in: f64 for f64, else f32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def unit(bits: Array, t: np.dtype) -> Array:
    """Numbers from 0 on and below 1: the upper 24 bits as f32, or 52 as f64."""
    if t == np.float32:
        return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return (bits >> np.uint64(12) | np.float64(1.0).view(np.uint64)).view(np.float64) - 1.0


def positive(bits: Array, t: np.dtype) -> Array:
    """Numbers above 0 up to 1."""
    if t == np.float32:
        return ((bits >> np.uint64(33)).astype(np.float32) + np.float32(1)) * np.float32(2.0**-31)
    return 1.0 - unit(bits, t)


def uniform_in(shape: Sequence[int], dtype: np.dtype, low: float, high: float, seed: float | None) -> Array:
    t = precision(dtype)
    return narrow(unit(numbers(seed, shape), t) * t.type(high - low) + t.type(low), dtype)


def normal_in(shape: Sequence[int], dtype: np.dtype, mean: float, scale: float, seed: float | None) -> Array:
    """By Box and Muller: sqrt(-2 ln p) cos(2 pi q)."""
    t = precision(dtype)
    bits = numbers(seed, (*shape, 2))
    radius = np.sqrt(t.type(-2) * np.log(positive(bits[..., 0], t)))
    drawn = radius * np.cos(t.type(2 * np.pi) * unit(bits[..., 1], t))
    return narrow(drawn * t.type(scale) + t.type(mean), dtype)


def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return normal_in(shape, dtype_of(dtype), mean, scale, seed)


def random_normal_like(
    x: Array, /, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return normal_in(x.shape, x.dtype if dtype is None else dtype_of(dtype), mean, scale, seed)


def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return uniform_in(shape, dtype_of(dtype), low, high, seed)


def random_uniform_like(
    x: Array, /, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return uniform_in(x.shape, x.dtype if dtype is None else dtype_of(dtype), low, high, seed)


def bernoulli(x: Array, /, *, dtype: int | None = None, seed: float | None = None) -> Array:
    t = precision(x.dtype)
    drawn = unit(numbers(seed, x.shape), t) < x.astype(t)
    return convert(np.asarray(drawn), x.dtype if dtype is None else dtype_of(dtype))


def multinomial(x: Array, /, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Array:
    """Samples [batch, sample_size] of classes by their unnormalized log-probabilities."""
    wide = double(x)
    sums = np.cumsum(np.exp(wide - np.max(wide, axis=1, keepdims=True)), axis=1)
    drawn = unit(numbers(seed, (x.shape[0], sample_size)), np.dtype(np.float64)) * sums[:, -1:]
    chosen = np.sum(drawn[:, :, None] >= sums[:, None, :-1], axis=2)
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
    t = precision(x.dtype)
    share = t.type(0.5) if ratio is None else np.asarray(ratio).reshape(()).astype(t)
    if training_mode is None or not scalar_of(training_mode) or share == 0:
        return x, np.ones(x.shape, np.bool_)
    if not 0 <= share < 1:
        raise ValueError(f"the ratio is {share:g}, and must be in [0, 1)")
    kept = unit(numbers(seed, x.shape), t) >= share
    return narrow(np.where(kept, x.astype(t) / (t.type(1) - share), t.type(0)), x.dtype), kept


RANDOMNESS: dict[str, Function] = {
    "Bernoulli": bernoulli,
    "Dropout": dropout,
    "Multinomial": multinomial,
    "RandomNormal": random_normal,
    "RandomNormalLike": random_normal_like,
    "RandomUniform": random_uniform,
    "RandomUniformLike": random_uniform_like,
}
