"""What the classifiers and regressors of ai.onnx.ml share: transforms of scores, and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .activations import sigmoid_of, softmax_of
from .dtypes import Array, narrow, strings
from .special import normal_quantile

FLOAT = np.dtype(np.float32)


def post_transform(scores: Array, transform: str) -> Array:
    """Rows of float64 scores by the named transform.

    PROBIT is the normal quantile; SOFTMAX_ZERO is the softmax over the scores that are not 0.
    """
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return sigmoid_of(scores)
    if transform == "SOFTMAX":
        return softmax_of(scores, -1)
    if transform == "SOFTMAX_ZERO":
        present = scores != 0
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        e = np.where(present, np.exp(scores - top), 0.0)
        total = np.sum(e, axis=-1, keepdims=True)
        return e / np.where(total == 0, 1.0, total)
    if transform == "PROBIT":
        return normal_quantile(scores)
    raise ValueError(f"there is no post_transform {transform!r}")


def labels_of(chosen: Array, words: Sequence[str] | None, numbers: Sequence[int] | None) -> Array:
    """The labels at the given places of the list that the model has; without lists the places themselves."""
    if words:
        return strings([words[int(i)] for i in chosen], chosen.shape)
    if numbers:
        return np.array(numbers, dtype=np.int64)[chosen]
    return chosen.astype(np.int64)


def binary_scores(score: Array, transform: str, probability: bool) -> Array:
    """Two columns from the one score of the second class: its complement, or for raw scores its negative.

    Both are transformed; by PROBIT only where they are probabilities, since no number and its negative have quantiles.
    """
    other = 1.0 - score if probability and transform != "LOGISTIC" else -score
    pair = np.stack([other, score], axis=1)
    return post_transform(pair, transform if probability or transform != "PROBIT" else "NONE")


def delivered(scores: Array) -> Array:
    return narrow(scores, FLOAT)
