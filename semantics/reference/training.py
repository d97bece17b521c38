"""Losses and the optimizers of ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .activations import log_softmax_of
from .dtypes import Array, double, integer_of, narrow, scalar_of
from .mathematics import Function


def _loss(
    log_probabilities: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int | None
) -> Array:
    """The weighted negative log likelihood in float64; log_probabilities is [N, C, D...], target [N, D...]."""
    ignored = np.zeros(target.shape, np.bool_) if ignore_index is None else target == ignore_index
    classes = log_probabilities.shape[1]
    if np.any(~ignored & ((target < 0) | (target >= classes))):
        raise IndexError(f"a target is not one of {classes} classes")
    chosen = np.where(ignored, 0, target).astype(np.int64)
    picked = np.take_along_axis(log_probabilities, chosen[:, None], axis=1)[:, 0]
    factor = np.ones(classes) if weight is None else double(weight)
    applied = np.where(ignored, 0.0, factor[chosen])
    losses = np.where(ignored, 0.0, -picked * applied)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return np.asarray(np.sum(losses))
    if reduction == "mean":
        return np.asarray(np.sum(losses) / np.sum(applied))
    raise ValueError(f"a loss has no reduction {reduction!r}")


def negative_log_likelihood_loss(
    x: Array,
    target: Array,
    weight: Array | None = None,
    /,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    return narrow(_loss(double(x), target, weight, reduction, ignore_index), x.dtype)


def softmax_cross_entropy_loss(
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    /,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Array, Array]:
    """The loss, and the log of the probabilities."""
    logs = log_softmax_of(double(scores), 1)
    loss = _loss(logs, labels, weights, reduction, ignore_index)
    return narrow(loss, scores.dtype), narrow(logs, scores.dtype)


def _grouped(tensors: tuple[Array, ...], kinds: int) -> list[tuple[Array, ...]]:
    """(X, G, ...) for each optimized tensor; the operand list has all X first, then all G, and so on."""
    if len(tensors) % kinds:
        raise ValueError(f"{len(tensors)} tensors are no groups of {kinds}")
    each = len(tensors) // kinds
    return [tuple(tensors[kind * each + i] for kind in range(kinds)) for i in range(each)]


def _update(tensors: tuple[Array, ...], kinds: int, step: Callable[..., tuple[Array, ...]]) -> tuple[Array, ...]:
    """`step` applied to each group in float64; its results listed by kind."""
    groups = _grouped(tensors, kinds)
    results = [[narrow(y, group[0].dtype) for y in step(*map(double, group))] for group in groups]
    return tuple(y for kind in zip(*results, strict=True) for y in kind)


def adagrad(
    rate: Array,
    count: Array,
    /,
    *tensors: Array,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Array, ...]:
    r = double(rate).reshape(()) / (1 + double(count).reshape(()) * decay_factor)

    def step(x: Array, g: Array, h: Array) -> tuple[Array, ...]:
        regularized = norm_coefficient * x + g
        squares = h + regularized**2
        return x - r * regularized / (np.sqrt(squares) + epsilon), squares

    return _update(tensors, 3, step)


def adam(
    rate: Array,
    count: Array,
    /,
    *tensors: Array,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Array, ...]:
    r, t = double(rate).reshape(()), integer_of(count)
    if t > 0:
        r = r * np.sqrt(1 - beta**t) / (1 - alpha**t)

    def step(x: Array, g: Array, v: Array, h: Array) -> tuple[Array, ...]:
        regularized = norm_coefficient * x + g
        momentum = alpha * v + (1 - alpha) * regularized
        squares = beta * h + (1 - beta) * regularized**2
        moved = x - r * momentum / (np.sqrt(squares) + epsilon)
        return (1 - norm_coefficient_post) * moved, momentum, squares

    return _update(tensors, 4, step)


def momentum_(
    rate: Array,
    count: Array,
    /,
    *tensors: Array,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Array, ...]:
    if mode not in ("nesterov", "standard"):
        raise ValueError(f"Momentum has no mode {mode!r}")
    r = double(rate).reshape(())
    scale = beta if scalar_of(count) else 1.0

    def step(x: Array, g: Array, v: Array) -> tuple[Array, ...]:
        regularized = norm_coefficient * x + g
        velocity = alpha * v + scale * regularized
        direction = regularized + alpha * velocity if mode == "nesterov" else velocity
        return x - r * direction, velocity

    return _update(tensors, 3, step)


LOSSES: dict[str, Function] = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood_loss,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy_loss,
}
OPTIMIZERS: dict[str, Function] = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum_}
