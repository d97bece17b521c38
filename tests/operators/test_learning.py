"""ai.onnx.ml and n-grams: support vector machines, and tables of any size."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from sardonyx.semantics.reference import REFERENCE

import sardonyx as sx

from .cases import check, model_of

RNG = np.random.default_rng(0)
ML = "ai.onnx.ml"


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ml(name: str, x: np.ndarray, results: int = 1, tolerance: float = 64, **attributes: object) -> None:
    check(name, [x], attributes, domain=ML, results=results, tolerance=tolerance)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_svm_regressor(kernel: str, dtype: type) -> None:
    shared = {"kernel_type": kernel, "kernel_params": [0.5, 1.0, 2.0], "rho": [0.25]}
    x = (floats(5, 3) * 2).astype(dtype)
    vectors, weights = floats(7, 3).ravel().tolist(), floats(7).tolist()
    ml("SVMRegressor", x, **shared, support_vectors=vectors, coefficients=weights, n_supports=7)
    ml("SVMRegressor", x, **shared, support_vectors=vectors, coefficients=weights, n_supports=7, one_class=1)
    ml("SVMRegressor", x, rho=[0.5], coefficients=weights[:3], post_transform="LOGISTIC")


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("counts", [(3, 4), (2, 1, 3), (1, 2, 2, 1)])
def test_svm_classifier(counts: tuple[int, ...], probability: bool) -> None:
    total, classes = sum(counts), len(counts)
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, object] = {
        "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0], "rho": floats(pairs).tolist(),
        "support_vectors": floats(total, 4).ravel().tolist(), "vectors_per_class": list(counts),
        "coefficients": floats(classes - 1, total).ravel().tolist(), "classlabels_ints": list(range(3, 3 + classes)),
    }  # fmt: skip
    if probability:
        attributes |= {"prob_a": (-floats(pairs)).tolist(), "prob_b": floats(pairs).tolist()}
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        ml("SVMClassifier", floats(6, 4), results=2, tolerance=256, **attributes, post_transform=transform)
    ml("SVMClassifier", floats(2, 4).astype(np.float64), results=2, **attributes)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_scores_of_two_classes_are_transformed(transform: str) -> None:
    """Both columns are: the decision, and the negative of it."""
    attributes = {
        "kernel_type": "LINEAR", "support_vectors": [1.0, -2.0], "vectors_per_class": [1, 1], "rho": [0.5],
        "coefficients": [0.75, 0.25], "classlabels_ints": [4, 6], "post_transform": transform,
    }  # fmt: skip
    x = np.array([[2.0], [-3.0], [0.0]], np.float32)
    s = 0.75 * x[:, 0] * 1 + 0.25 * x[:, 0] * -2 + 0.5  # the decision of the pair
    pair = np.stack([-s, s], 1).astype(np.float64)
    e = np.exp(pair)
    want = {"NONE": pair, "LOGISTIC": 1 / (1 + np.exp(-pair))}.get(transform, e / e.sum(1, keepdims=True))
    model = model_of("SVMClassifier", [x], attributes, [np.zeros(3, np.int64), x], domain=ML)
    _, scores = sx.compile(model)(x).values()
    np.testing.assert_allclose(scores, want.astype(np.float32), rtol=1e-5)
    np.testing.assert_allclose([*sx.run(sx.lower(model, to="graph"), {"x0": x}).values()][1], scores, rtol=1e-5)


def test_linear_classifier_by_a_machine_without_vectors() -> None:
    ml("SVMClassifier", floats(4, 3), results=2, coefficients=floats(6).tolist(), classlabels_ints=[5, 9], rho=[0.1])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_large_linear_models(transform: str) -> None:
    x = floats(3, 40)
    weights, offsets = floats(400).tolist(), floats(10).tolist()
    ml("LinearRegressor", x, coefficients=weights, intercepts=offsets, targets=10, post_transform=transform)
    labels = {"classlabels_ints": list(range(10, 20)), "post_transform": transform}
    ml("LinearClassifier", x, results=2, coefficients=weights, intercepts=offsets, **labels)
    two = {"classlabels_ints": [0, 1], "post_transform": transform}
    check("LinearClassifier", [floats(3, 400)], {"coefficients": weights, "intercepts": [0.5], **two},
          domain=ML, results=2, tolerance=256, forms=(False,))  # fmt: skip


def test_large_tables_of_features() -> None:
    x = floats(2, 300)
    ml("Scaler", x, offset=floats(300).tolist(), scale=floats(300).tolist())
    x[0, ::3] = np.nan
    ml("Imputer", x, imputed_value_floats=floats(300).tolist(), replaced_value_float=float("nan"))
    numbers = RNG.integers(0, 5, (3, 280))
    ml("Imputer", numbers, imputed_value_int64s=list(range(280)), replaced_value_int64=2)
    ml("OneHotEncoder", RNG.integers(0, 400, (2, 3)), cats_int64s=RNG.permutation(300).tolist())


def test_many_labels() -> None:
    keys, values = RNG.permutation(1000)[:700], RNG.integers(-9, 9, 700)
    x = RNG.integers(-5, 1000, (4, 9))
    ml("LabelEncoder", x, keys_int64s=keys.tolist(), values_int64s=values.tolist(), default_int64=77)
    ml("LabelEncoder", x, keys_int64s=keys.tolist(), values_floats=floats(700).tolist())
    real = np.array([*RNG.standard_normal(99), np.nan, 0.0], np.float32)
    x = np.array([real[3], np.nan, -0.0, 5.0, np.inf], np.float32)
    ml("LabelEncoder", x, keys_floats=real.tolist(), values_int64s=list(range(101)))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_n_grams(mode: str, dtype: type) -> None:
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 5, 6, 7]
    attributes = {
        "max_gram_length": 3, "max_skip_count": 2, "min_gram_length": 1, "mode": mode, "ngram_counts": [0, 4, 10],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6, 8], "pool_int64s": pool, "weights": floats(8).tolist(),
    }  # fmt: skip
    for shape in ((12,), (3, 20), (2, 1), (0, 4)):
        x = RNG.integers(2, 9, shape).astype(dtype)
        check("TfIdfVectorizer", [x], attributes, tolerance=2)


def test_the_normal_quantile_of_scores() -> None:
    """PROBIT, of probabilities in the middle, in both tails and at their ends, and of what is none."""
    p = np.concatenate(
        [10.0 ** -np.arange(1, 300, 7.0), np.linspace(0, 1, 41), 1 - 10.0 ** -np.arange(1, 16), [-0.5, 2]]
    )
    model = {"coefficients": [1.0], "post_transform": "PROBIT"}
    [made] = check("LinearRegressor", [p[:, None]], model | {"targets": 1}, domain=ML, tolerance=1)
    np.testing.assert_allclose(made[:-2, 0], [quantile(v) for v in p[:-2]], rtol=1e-6)
    assert np.isnan(made[-2:]).all()
    ml("SVMRegressor", p[:, None], **model, rho=[0.0])
    x = RNG.uniform(0.2, 0.8, (5, 2)).astype(np.float32)
    ml("SVMClassifier", x, results=2, coefficients=[0.4, 0.5, 0.3, 0.6], classlabels_ints=[5, 9], rho=[0.1],
       post_transform="PROBIT")  # fmt: skip
    ml("LinearClassifier", x, results=2, coefficients=[0.4, 0.5, 0.3, 0.6], intercepts=[0.01, 0.02],
       classlabels_ints=[5, 9], post_transform="PROBIT")  # fmt: skip
    many = {"coefficients": RNG.uniform(0, 0.004, 400).tolist(), "intercepts": RNG.uniform(0.2, 0.3, 10).tolist()}
    ml("LinearRegressor", RNG.uniform(0, 1, (3, 40)), **many, targets=10, post_transform="PROBIT")


def quantile(p: float) -> float:
    if p in (0, 1):
        return -np.inf if p == 0 else np.inf
    return NormalDist().inv_cdf(p)


def test_many_categories_of_which_one_must_be_there() -> None:
    numbers, x = RNG.permutation(300).tolist(), RNG.integers(0, 300, (2, 3))
    ml("OneHotEncoder", x, cats_int64s=numbers, zeros=0)
    model = model_of("OneHotEncoder", [x], {"cats_int64s": numbers, "zeros": 0}, [floats(1)], domain=ML)
    with pytest.raises(sx.InputError, match="has the index 300"):
        sx.compile(model)(x0=x + 300)


@pytest.mark.parametrize("widths", [[3, 5], [2, 4], [7, 1]])
def test_columns_side_by_side_of_any_number(widths: list[int]) -> None:
    check("FeatureVectorizer", [floats(2, 3), floats(2, 4)], {"inputdimensions": widths}, domain=ML)


@pytest.mark.parametrize("widths", [{}, {"inputdimensions": [4, 3]}, {"inputdimensions": [7, 30]}], ids=str)
def test_tables_of_any_rank_side_by_side(widths: dict[str, Any]) -> None:
    check("FeatureVectorizer", [floats(3, 2, 3), floats(3, 4)], widths, domain=ML, levels=("graph", "tensor"))
    check("FeatureVectorizer", [floats(3), floats(4)], {}, domain=ML)


MACHINE: dict[str, Any] = {
    "kernel_params": [0.5, 0.1, 3.0], "kernel_type": "RBF", "support_vectors": [1.0, 2.0, 0.5, -1.0, 0.0, 1.0],
    "rho": [0.3], "coefficients": [1.0, -1.0, 0.5], "vectors_per_class": [2, 1],
}  # fmt: skip
CLASSIFIERS: list[tuple[str, dict[str, Any]]] = [
    ("SVMClassifier", MACHINE | {"classlabels_strings": ["u", "v"]}),
    ("LinearClassifier", {"coefficients": [1.0, 2.0], "intercepts": [0.1], "classlabels_strings": ["u", "v"]}),
    ("LinearClassifier", {"coefficients": [1.0, 2.0, 3.0, -4.0, 5.0, 0.0], "intercepts": [0.1, 0.0, 1.0],
                          "classlabels_strings": ["u", "v", "w"], "post_transform": "SOFTMAX"}),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(CLASSIFIERS)), ids=lambda at: CLASSIFIERS[at][0])
def test_only_the_labels_of_a_classifier_are_texts(at: int) -> None:
    name, attributes = CLASSIFIERS[at]
    x = floats(9, 2)
    labels, scores = REFERENCE[ML, name]([x], attributes, 2)
    for dynamic in (False, True):
        model = model_of(name, [x], attributes, [floats(1), floats(1)], domain=ML, dynamic=dynamic)
        model.graph.output[0].type.tensor_type.elem_type = 8
        program = sx.compile(model)
        assert program.explain().to_dict()["hosted"] == ["ai.onnx.ml.LabelEncoder"]
        got = program(x)
        assert got["y0"].tolist() == labels.tolist()
        np.testing.assert_allclose(got["y1"], scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("votes", [(0.25, 0.75), (-0.5, 0.75)])
def test_votes_for_one_of_two_classes_are_transformed(transform: str, votes: tuple[float, float]) -> None:
    """Both columns: the probability and its complement, or any score and its negative."""
    attributes = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [2.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 0],
        "class_weights": votes, "classlabels_int64s": [7, 9], "post_transform": transform,
    }  # fmt: skip
    x = np.array([[1.0], [4.0]], np.float32)
    s, probability = np.array(votes), min(votes) >= 0
    pair = np.stack([1 - s if probability and transform != "LOGISTIC" else -s, s], 1)
    e = np.exp(pair)
    want = {"LOGISTIC": 1 / (1 + np.exp(-pair)), "SOFTMAX": e / e.sum(1, keepdims=True)}
    want["SOFTMAX_ZERO"] = want["SOFTMAX"]
    if probability:
        want["PROBIT"] = np.array([[0.6744897502, -0.6744897502], [-0.6744897502, 0.6744897502]])
    model = model_of("TreeEnsembleClassifier", [x], attributes, [np.zeros(2, np.int64), x], domain=ML)
    for labels, scores in (sx.compile(model)(x).values(), sx.run(sx.lower(model, to="graph"), {"x0": x}).values()):
        assert labels.tolist() == [7, 9]
        np.testing.assert_allclose(scores, want.get(transform, pair), rtol=1e-5)
