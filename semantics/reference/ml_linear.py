"""ai.onnx.ml: linear models and support vector machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import Array, double
from .mathematics import Function
from .ml_scores import binary_scores, delivered, labels_of
from .ml_scores import post_transform as transformed


def _rows(x: Array) -> Array:
    return double(x.reshape(1, -1) if x.ndim == 1 else x)


def linear_regressor(
    x: Array,
    /,
    *,
    coefficients: Sequence[float] | None = None,
    intercepts: Sequence[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Array:
    weights = np.array(coefficients or (), dtype=np.float64).reshape(targets, -1)
    scores = _rows(x) @ weights.T + np.array(intercepts if intercepts else [0.0])
    return delivered(transformed(scores, post_transform))


def linear_classifier(
    x: Array,
    /,
    *,
    coefficients: Sequence[float],
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    intercepts: Sequence[float] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    """Labels and scores.  One row of coefficients is a binary model, whose second class wins above 0.

    The softmaxes are of its score and the negative of it.
    """
    del multi_class  # both forms evaluate alike
    rows = _rows(x)
    features = rows.shape[1]
    count = len(intercepts) if intercepts else len(coefficients) // features
    # models in the wild have more coefficients than features times classes; the first ones count
    weights = np.array(coefficients[: count * features], dtype=np.float64).reshape(count, features)
    scores = rows @ weights.T + np.array(intercepts if intercepts else [0.0])
    labels = classlabels_strings or classlabels_ints or ()
    if scores.shape[1] == 1 and len(labels) == 2:
        chosen = (scores[:, 0] > 0).astype(np.int64)
        if post_transform in ("SOFTMAX", "SOFTMAX_ZERO"):
            table = transformed(np.hstack([-scores, scores]), post_transform)
        else:
            table = binary_scores(transformed(scores, post_transform)[:, 0], "NONE", probability=True)
    else:
        chosen, table = np.argmax(scores, axis=1), transformed(scores, post_transform)
    return labels_of(chosen, classlabels_strings, classlabels_ints), delivered(table)


def _kernel(x: Array, vectors: Array, kind: str, params: Sequence[float] | None) -> Array:
    """[N, vectors] products of rows and support vectors."""
    gamma, coef0, degree = (*(params or ()), 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        difference = x[:, None] - vectors
        return np.exp(-gamma * np.sum(difference**2, axis=2))
    dot = x @ vectors.T
    if kind == "LINEAR":
        return dot
    if kind == "POLY":
        return (gamma * dot + coef0) ** degree
    if kind == "SIGMOID":
        return np.tanh(gamma * dot + coef0)
    raise ValueError(f"there is no kernel_type {kind!r}")


def svm_regressor(
    x: Array,
    /,
    *,
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] = (0.0,),
    support_vectors: Sequence[float] = (),
) -> Array:
    """[N, 1] values; of a one-class machine 1 inside and -1 outside."""
    rows, weights = _rows(x), np.array(coefficients, dtype=np.float64)
    if n_supports:
        vectors = np.array(support_vectors, dtype=np.float64).reshape(n_supports, -1)
        scores = _kernel(rows, vectors, kernel_type, kernel_params) @ weights
    else:
        scores = rows @ weights
    scores = scores[:, None] + rho[0]
    if one_class:
        return delivered(np.where(scores > 0, 1.0, -1.0))
    return delivered(transformed(scores, post_transform))


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def _decisions(kernel: Array, coefficients: Array, counts: Sequence[int], rho: Sequence[float]) -> Array:
    """libsvm's one-against-one decision values, [N, pairs]: above 0 for the pair's first class."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    table = coefficients.reshape(len(counts) - 1, -1)
    columns: list[Array] = []
    for number, (i, j) in enumerate(_pairs(len(counts))):
        mine, theirs = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        value = kernel[:, mine] @ table[j - 1, mine] + kernel[:, theirs] @ table[i, theirs]
        columns.append(value + rho[number])
    return np.stack(columns, axis=1)


def couple(likely: Array, /, *, classes: int) -> Array:
    """Class probabilities [N, classes] from those of pairs, [N, pairs]."""
    result: list[Array] = []
    for row in likely:
        table = np.zeros((classes, classes))
        for value, (i, j) in zip(row, _pairs(classes), strict=True):
            table[i, j], table[j, i] = value, 1 - value
        result.append(_coupled(table))
    return np.array(result).reshape(len(likely), classes)


def _coupled(pairwise: Array) -> Array:
    """Class probabilities [classes] from pairwise ones r[i, j], by the second method of Wu, Lin and Weng (2004)."""
    classes = len(pairwise)
    off = pairwise * (1 - np.eye(classes))
    q = -off.T * off + np.diag(np.sum(off.T**2, axis=1))
    p = np.full(classes, 1.0 / classes)
    for _ in range(max(100, classes)):
        qp = q @ p
        total = p @ qp
        if np.max(np.abs(qp - total)) < 0.005 / classes:
            break
        for t in range(classes):
            step = (total - qp[t]) / q[t, t]
            p[t] += step
            total = (total + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            qp = (qp + step * q[t]) / (1 + step)
            p = p / (1 + step)
    return p


def _probabilities(decisions: Array, prob_a: Sequence[float], prob_b: Sequence[float], classes: int) -> Array:
    exponent = decisions * np.array(prob_a) + np.array(prob_b)
    likely = np.clip(1.0 / (1.0 + np.exp(exponent)), 1e-7, 1 - 1e-7)
    return couple(likely, classes=classes)


def svm_classifier(
    x: Array,
    /,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    rho: Sequence[float] = (0.0,),
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[Array, Array]:
    """Labels, by the votes of the pairs, and scores: probabilities, decision values, or a linear model's values."""
    rows, weights = _rows(x), np.array(coefficients, dtype=np.float64)
    classes = len(classlabels_strings or classlabels_ints or ())
    if not vectors_per_class:
        scores = rows @ weights.reshape(classes, -1).T + rho[0]
        chosen = np.argmax(scores, axis=1)
        return labels_of(chosen, classlabels_strings, classlabels_ints), delivered(transformed(scores, post_transform))
    vectors = np.array(support_vectors, dtype=np.float64).reshape(sum(vectors_per_class), -1)
    decisions = _decisions(_kernel(rows, vectors, kernel_type, kernel_params), weights, vectors_per_class, rho)
    votes = np.zeros((len(rows), classes), np.int64)
    for column, (i, j) in zip(decisions.T, _pairs(classes), strict=True):
        votes[np.arange(len(rows)), np.where(column > 0, i, j)] += 1
    chosen = np.argmax(votes, axis=1)
    if prob_a:
        scores = transformed(_probabilities(decisions, prob_a, prob_b or (), classes), post_transform)
    elif classes == 2:
        pair = np.hstack([-decisions, decisions])
        scores = (
            pair if post_transform == "PROBIT" else transformed(pair, post_transform)
        )  # no number has two quantiles
    else:
        scores = transformed(decisions, post_transform)
    return labels_of(chosen, classlabels_strings, classlabels_ints), delivered(scores)


ML_LINEAR: dict[str, Function] = {
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
}
