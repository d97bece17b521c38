"""Tree ensembles: compiled models against the reference functions, and the template alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from sardonyx.semantics.reference import REFERENCE
from sardonyx.semantics.reference.ml_trees import node_table

import sardonyx as sx

from .kernel_cases import Tensor
from .operator_cases import build

DOMAIN = "ai.onnx.ml"
FEATURES = 5
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
SPLITS = (-2.0, float(np.float32(-0.1)), -0.0, 0.0, float(np.float32(0.3)), 1.0, np.inf, -np.inf, np.nan)


def samples(dtype: object = np.float32, rows: int = 23, seed: int = 0) -> np.ndarray:
    """Rows that hit splits, with infinities and NaN."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-3, 4, (rows, FEATURES)).astype(dtype)
    special = (*SPLITS, 5.0, np.nan, 1e-42)
    return rng.choice(special, (rows, FEATURES)).astype(dtype)


@dataclass
class Nodes:
    """A random forest in TreeEnsemble's form."""

    modes: Sequence[int]
    targets: int = 1
    missing: bool = True
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    columns: dict[str, list[Any]] = field(default_factory=dict)
    leaves: list[tuple[int, float]] = field(default_factory=list)

    def add(self, depth: int) -> int:
        place = len(self.columns.setdefault("nodes_modes", []))
        entry: dict[str, Any] = {
            "nodes_modes": int(self.rng.choice(self.modes)),
            "nodes_featureids": int(self.rng.integers(FEATURES)),
            "nodes_splits": float(self.rng.choice(SPLITS)),
            "nodes_missing_value_tracks_true": int(self.missing and self.rng.random() < 0.5),
        } | dict.fromkeys(("nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs"), 0)
        for name, value in entry.items():
            self.columns.setdefault(name, []).append(value)
        for child in ("true", "false"):
            leaf = depth == 0 or self.rng.random() < 0.2
            if leaf:
                self.leaves.append((int(self.rng.integers(self.targets)), float(np.float32(self.rng.normal()))))
            self.columns[f"nodes_{child}leafs"][place] = int(leaf)
            self.columns[f"nodes_{child}nodeids"][place] = len(self.leaves) - 1 if leaf else self.add(depth - 1)
        return place

    def attributes(self, trees: int, dtype: object, **others: Any) -> dict[str, Any]:
        roots = [self.add(3) for _ in range(trees)]
        found: dict[str, Any] = dict(self.columns)
        members: list[float] = []
        for _ in range(found["nodes_modes"].count(6)):
            members += [*self.rng.choice((-2.0, 0.0, 0.3, 1.0, 5.0), int(self.rng.integers(0, 4))), float("nan")]
        if members:
            found["membership_values"] = np.array(members, dtype)
        found["nodes_modes"] = np.array(found["nodes_modes"], np.uint8)
        found["nodes_splits"] = np.array(found["nodes_splits"], dtype)
        found["leaf_targetids"] = [target for target, _ in self.leaves]
        found["leaf_weights"] = np.array([weight for _, weight in self.leaves], dtype)
        return found | {"tree_roots": roots, "n_targets": self.targets} | others


def model(operator: str, attributes: dict[str, Any], x: np.ndarray, outputs: int = 1, version: int = 5) -> bytes:
    given = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
    names = ["y", "z"][:outputs]
    node = helper.make_node(operator, ["x"], names, domain=DOMAIN, **given)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    undefined = [onnx.ValueInfoProto(name=name) for name in names]
    source = helper.make_tensor_value_info("x", element, ["N", x.shape[1]])
    graph = helper.make_graph([node], "g", [source], undefined)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def check(
    operator: str, attributes: dict[str, Any], x: np.ndarray, outputs: int = 1, hosted: Sequence[str] = ()
) -> list[np.ndarray]:
    """Compiles the op, and compares: the kernels' sums are rounded once, as the reference's."""
    program = sx.compile(model(operator, attributes, x, outputs, 5 if operator == "TreeEnsemble" else 3))
    assert sorted(program.explain().to_dict()["hosted"]) == list(hosted)
    found = [np.asarray(v) for v in program(x=x).values()] if outputs > 1 else [np.asarray(program(x=x)["y"])]
    expected = REFERENCE[DOMAIN, operator]([x], attributes, outputs)
    for got, want in zip(found, expected, strict=True):
        want = np.asarray(want)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind in "iO":
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), 4 * np.finfo(got.dtype).eps, 1e-12)
    return found


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_every_mode(dtype: str) -> None:
    for mode in range(len(MODES)):
        forest = Nodes([mode], rng=np.random.default_rng(mode))
        check("TreeEnsemble", forest.attributes(3, dtype, aggregate_function=1), samples(dtype))


@pytest.mark.parametrize("trees", [1, 8, 19])
def test_mixed_modes(trees: int) -> None:
    for missing in (False, True):
        forest = Nodes(range(len(MODES)), 1, missing, np.random.default_rng(trees))
        check("TreeEnsemble", forest.attributes(trees, "f4", aggregate_function=1), samples(rows=70))


@pytest.mark.parametrize("aggregate", range(len(AGGREGATES)), ids=AGGREGATES)
def test_aggregates(aggregate: int) -> None:
    for targets in (1, 3):
        forest = Nodes([0, 3], targets, rng=np.random.default_rng(aggregate))
        check("TreeEnsemble", forest.attributes(5, "f4", aggregate_function=aggregate), samples())


@pytest.mark.parametrize("aggregate", ["MIN", "MAX"])
def test_infinite_votes_are_votes(aggregate: str) -> None:
    attributes = Nodes([0, 3], 3, rng=np.random.default_rng(1)).attributes(
        5, "f4", aggregate_function=AGGREGATES.index(aggregate)
    )
    for weight in (np.inf, -np.inf):
        check(
            "TreeEnsemble", attributes | {"leaf_weights": np.full_like(attributes["leaf_weights"], weight)}, samples()
        )


def test_a_child_that_is_not_there_is_named() -> None:
    attributes = Nodes([0], 1).attributes(1, "f4", aggregate_function=1)
    children = [*attributes["nodes_truenodeids"][:-1], 99]
    with pytest.raises(sx.ModelError, match=r"'nodes_truenodeids' refers to (leaf|node) 99, which is not there"):
        sx.compile(model("TreeEnsemble", attributes | {"nodes_truenodeids": children}, samples()))
    lists = older(2, "target", (0,)) | {"n_targets": 1}
    lists["nodes_falsenodeids"][7] = 30
    with pytest.raises(sx.ModelError, match="'nodes_falsenodeids' refers to node 30 of tree 1, which is not there"):
        sx.compile(model("TreeEnsembleRegressor", lists, samples(), version=3))
    lists = older(2, "target", (0,)) | {"n_targets": 1}
    lists["target_nodeids"][0] = 8
    with pytest.raises(sx.ModelError, match="'target_nodeids' refers to node 8 of tree 0"):
        sx.compile(model("TreeEnsembleRegressor", lists, samples(), version=3))


def refused(text: str, operator: str, attributes: dict[str, Any], version: int = 5) -> None:
    with pytest.raises(sx.ModelError, match=text):
        sx.lower(model(operator, attributes, samples(), version=version), to="graph")


def test_trees_that_lead_back_to_themselves() -> None:
    attributes = Nodes([0], 1).attributes(1, "f4", aggregate_function=1)
    inner = [at for at, leaf in enumerate(attributes["nodes_trueleafs"]) if not leaf]
    children = list(attributes["nodes_truenodeids"])
    children[inner[-1]] = inner[-1]
    refused(f"node {inner[-1]} leads back to itself", "TreeEnsemble", attributes | {"nodes_truenodeids": children})
    children[inner[-1]] = 0
    refused("leads back to itself", "TreeEnsemble", attributes | {"nodes_truenodeids": children})
    lists = older(2, "target", (0,)) | {"n_targets": 1}
    lists["nodes_truenodeids"][0] = lists["nodes_nodeids"][0]
    refused("node 0 of tree 0 leads back to itself", "TreeEnsembleRegressor", lists, 3)


def test_votes_of_what_is_no_leaf_and_modes_that_do_not_exist() -> None:
    lists = older(2, "target", (0,)) | {"n_targets": 1}
    lists["target_nodeids"][0] = 0
    refused("'target_nodeids' has node 0 of tree 0, which is no leaf", "TreeEnsembleRegressor", lists, 3)
    attributes = Nodes([0], 1).attributes(1, "f4", aggregate_function=1)
    modes = np.array(attributes["nodes_modes"])
    modes[0] = 9
    refused("the numbers in 'nodes_modes' are below 7", "TreeEnsemble", attributes | {"nodes_modes": modes})
    refused(
        "belong together, and have other lengths: 'nodes_featureids'",
        "TreeEnsemble",
        attributes | {"nodes_splits": attributes["nodes_splits"][1:]},
    )


@pytest.mark.parametrize("transform", range(len(TRANSFORMS)), ids=TRANSFORMS)
def test_transforms(transform: int) -> None:
    forest = Nodes([0], 3)
    check("TreeEnsemble", forest.attributes(3, "f4", aggregate_function=1, post_transform=transform), samples())


def older(trees: int, prefix: str, ids: Sequence[int], seed: int = 0, positive: bool = False) -> dict[str, Any]:
    """Random trees of depth 2 in the older operators' form; each leaf votes for one or two of `ids`."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {}
    votes: dict[str, list[Any]] = {}
    for tree in range(trees):
        for node in range(7):
            inner = node < 3
            entry = {
                "nodes_treeids": tree,
                "nodes_nodeids": node,
                "nodes_featureids": int(rng.integers(FEATURES)) if inner else 0,
                "nodes_modes": MODES[int(rng.integers(6))] if inner else "LEAF",
                "nodes_values": float(rng.choice(SPLITS)) if inner else 0.0,
                "nodes_truenodeids": 2 * node + 1 if inner else 0,
                "nodes_falsenodeids": 2 * node + 2 if inner else 0,
                "nodes_missing_value_tracks_true": int(inner and rng.random() < 0.5),
            }
            for name, value in entry.items():
                columns.setdefault(name, []).append(value)
            for id_ in [] if inner else rng.choice(ids, min(len(ids), int(rng.integers(1, 3))), replace=False):
                weight = float(np.float32(rng.normal()))
                vote = {
                    "treeids": tree,
                    "nodeids": node,
                    "ids": int(id_),
                    "weights": abs(weight) if positive else weight,
                }
                for name, value in vote.items():
                    votes.setdefault(f"{prefix}_{name}", []).append(value)
    return columns | votes


@pytest.mark.parametrize(("dtype", "aggregate"), list(zip(("f4", "f8", "i8", "i4"), AGGREGATES, strict=True)))
def test_regressor(dtype: str, aggregate: str) -> None:
    attributes = older(9, "target", (0, 1, 2)) | {"n_targets": 3, "aggregate_function": aggregate}
    check("TreeEnsembleRegressor", attributes | {"base_values": [0.5, -1.0, 2.0]}, samples(dtype))


def test_long_tables_and_base_value() -> None:
    attributes = older(60, "target", (0,)) | {"n_targets": 1, "base_values": [0.25], "post_transform": "LOGISTIC"}
    check("TreeEnsembleRegressor", attributes, samples(rows=9))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_classifier(transform: str) -> None:
    attributes = older(9, "class", (0, 1, 2)) | {"post_transform": transform, "base_values": [0.5, 0.1, -0.5]}
    labels, _ = check("TreeEnsembleClassifier", attributes | {"classlabels_int64s": [7, -3, 40]}, samples(), 2)
    assert set(labels.tolist()) <= {7, -3, 40}


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_binary_classifier(transform: str) -> None:
    for positive in (False, True):
        for voted in (0, 1):
            attributes = older(3, "class", (voted,), voted, positive) | {"post_transform": transform}
            check("TreeEnsembleClassifier", attributes | {"classlabels_int64s": [5, 2]}, samples(), 2)


def test_labels_that_are_strings_are_looked_up_outside() -> None:
    attributes = older(3, "class", (0, 1, 2)) | {"classlabels_strings": ["a", "b", "c"]}
    check("TreeEnsembleClassifier", attributes, samples(), 2, ["ai.onnx.ml.LabelEncoder"])


@pytest.mark.parametrize("trees", [1, 14])
def test_roots_that_are_leaves(trees: int) -> None:
    """No feature is asked for, or by one tree alone."""
    leaf = {
        "nodes_modes": "LEAF",
        "nodes_values": 0.0,
        "nodes_featureids": 0,
        "nodes_truenodeids": 0,
        "nodes_nodeids": 0,
    }
    attributes: dict[str, Any] = {name: [value] * trees for name, value in leaf.items()}
    attributes |= {"nodes_falsenodeids": [0] * trees, "nodes_treeids": [*range(trees)], "n_targets": 1}
    attributes |= {"target_treeids": [*range(trees)], "target_nodeids": [0] * trees, "target_ids": [0] * trees}
    attributes["target_weights"] = [float(n + 1) for n in range(trees)]
    check("TreeEnsembleRegressor", attributes, samples())
    asking = {
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [-2.0, 0.0, 0.0],
        "nodes_nodeids": [0, 1, 2],
    }
    asking |= {"nodes_featureids": [4, 0, 0], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}
    asking |= {"nodes_treeids": [trees] * 3, "target_treeids": [trees] * 2, "target_nodeids": [1, 2]}
    asking |= {"target_ids": [0, 0], "target_weights": [0.5, 0.25]}
    both = {name: value + asking[name] if name in asking else value for name, value in attributes.items()}
    for missing in (0, 1):
        tracked = {"nodes_missing_value_tracks_true": [0] * trees + [missing, 0, 0]}
        check("TreeEnsembleRegressor", both | tracked, samples())


def test_no_rows() -> None:
    check("TreeEnsembleRegressor", older(2, "target", (0,)) | {"n_targets": 1}, samples(rows=0))


FEATURES_READ, NEGATED, NODES = node_table(*(np.array(part) for part in ([0], [3], [0.5], [-1], [-2], [False])))
TABLES = [FEATURES_READ.astype(np.int32), NODES, np.array([1.0, 2.0], np.float32)]


def test_rows_that_lack_a_feature_are_reported() -> None:
    specs = [Tensor.of(t.dtype, *t.shape) for t in TABLES[:-1]]
    operands = [Tensor.of(np.float32, "d0", "d1"), *specs, None, None, Tensor.of(np.float32, 2)]
    attributes = {"trees": 1, "negated": NEGATED, "targets": 1, "aggregate": "SUM", "greatest_feature": 3}
    kernel = build("Trees", attributes, operands, [Tensor.of(np.float32, "d0", 1)], 2)
    y = np.zeros((2, 1), np.float32)
    kernel.run([2, 4], np.array([[9, 9, 9, 0], [0, 0, 0, 9]], np.float32), *TABLES, y)
    assert y.tolist() == [[1.0], [2.0]] and not kernel.reports
    kernel.run([2, 3], np.zeros((2, 3), np.float32), *TABLES, y)
    assert [values for _, values in kernel.reports] == [[3, 3]]
    assert y.tolist() == [[1.0], [2.0]]
