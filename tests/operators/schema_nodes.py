"""One small valid node of each operator, with values: of the standard's tests, and here where those have none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto, helper, numpy_helper
from standard_cases import cases, data_of

ML = "ai.onnx.ml"
FORMS = 6
"""As many nodes of one operator differ in which attributes and operands they have."""


@dataclass(frozen=True)
class Node:
    """A node and its operands by position: arrays, lists of arrays, dictionaries, None where one is left out."""

    domain: str
    op: str
    operands: tuple[Any, ...]
    attributes: dict[str, AttributeProto]
    results: tuple[bool, ...]
    """Whether each result is asked for."""


def made(op: str, *operands: Any, results: int = 1, domain: str = "", **attributes: Any) -> Node:
    protos = {key: helper.make_attribute(key, value) for key, value in attributes.items()}
    return Node(domain, op, operands, protos, (True,) * results)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, object)


@cache
def nodes() -> dict[tuple[str, str], list[Node]]:
    """By domain and name; of those that are alike the smallest."""
    found: dict[tuple[str, str], dict[object, tuple[int, Node]]] = defaultdict(dict)
    for rank, source in enumerate((of_no_tests(), of_tests())):
        for node in source:
            form = (rank, tuple(sorted(node.attributes)), tuple(v is None for v in node.operands), node.results)
            size = sum(v.size for v in node.operands if isinstance(v, np.ndarray))
            kept = found[node.domain, node.op]
            if form not in kept or size < kept[form][0]:
                kept[form] = (size, node)
    return {key: [node for _, node in list(kept.values())[:FORMS]] for key, kept in found.items()}


def of_tests() -> Iterator[Node]:
    """The standard's tests of one node."""
    for _, case in sorted(cases().items()):
        if case.kind != "node":
            continue
        model, sets = data_of(case)
        if len(model.graph.node) != 1 or not sets:
            continue
        [node] = model.graph.node
        fixed = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        fed = [info.name for info in model.graph.input if info.name not in fixed]
        values = dict(zip(fed, sets[0][0])) | fixed
        operands = tuple(values.get(name) if name else None for name in node.input)
        attributes = {attribute.name: attribute for attribute in node.attribute}
        yield Node(node.domain, node.op_type, operands, attributes, tuple(map(bool, node.output)))


TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.2, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "nodes_hitrates": [1.0, 1.0, 1.0],
    "nodes_missing_value_tracks_true": [0, 0, 0],
}  # fmt: skip
SVM: dict[str, Any] = {
    "kernel_params": [0.5, 0.1, 3.0], "kernel_type": "RBF", "support_vectors": [1.0, 2.0, 0.5, -1.0, 0.0, 1.0],
    "rho": [0.3], "post_transform": "NONE", "coefficients": [1.0, -1.0, 0.5],
}  # fmt: skip
CLASSES: dict[str, Any] = {"coefficients": [1.0, 2.0, 3.0, 4.0, -1.0, 2.0], "intercepts": [0.0, 1.0, 2.0]}


def of_no_tests() -> Iterator[Node]:
    """Operators, and forms of them, that the standard's tests leave out."""
    yield from of_tensors()
    yield from of_containers()
    yield from of_learning()


def of_tensors() -> Iterator[Node]:
    x = floats(2, 3)
    yield made("Constant", value=numpy_helper.from_array(x))
    yield made("ConstantOfShape", ints(2, 3), value=numpy_helper.from_array(np.array([1.5], np.float32)))
    yield made("DFT", floats(1, 6, 1), np.array(5), axis=1)
    yield made("DepthToSpace", floats(1, 8, 2, 2), blocksize=2)
    yield made("Dropout", x, results=2)
    yield made("EyeLike", floats(3, 4), k=1)
    yield made("GRU", floats(3, 2, 4), floats(1, 15, 4), floats(1, 15, 5), hidden_size=5, results=2)
    yield made("GlobalLpPool", floats(1, 2, 3, 3), p=2)
    yield made("GroupNormalization", floats(1, 4, 3), floats(4), floats(4), num_groups=4)
    regions = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 5, 5]], np.float32)
    yield made("MaxRoiPool", floats(1, 2, 6, 6), regions, pooled_shape=[2, 2])
    yield made("Multinomial", x, sample_size=4, seed=1.0, dtype=6)
    yield made("RandomNormal", shape=[3, 4], seed=1.0)
    yield made("RandomNormalLike", x, seed=1.0)
    yield made("RandomUniform", shape=[3, 4], seed=1.0)
    yield made("RandomUniformLike", x, seed=1.0)
    yield made("RoiAlign", floats(1, 2, 6, 6), regions[:, 1:], ints(0, 0), output_height=2, output_width=2)
    yield made("Scatter", floats(3, 3), np.array([[1, 0, 2]]), floats(1, 3), axis=1)
    yield made("Tile", x, ints(2, 1))
    yield made("Upsample", floats(1, 1, 2, 3), np.array([1, 1, 2, 2], np.float32), mode="nearest")


def of_containers() -> Iterator[Node]:
    x = floats(2, 3)
    yield made("ConcatFromSequence", [x, x], axis=0)
    yield made("Optional", x)
    yield made("OptionalGetElement", x)
    yield made("OptionalHasElement", x)
    yield made("SequenceAt", [x, x[:1]], np.array(1))
    yield made("SequenceConstruct", x, floats(3))
    yield made("SequenceEmpty", dtype=1)
    yield made("SequenceErase", [x, x[:1]], np.array(0))
    yield made("SequenceLength", [x, x])
    yield made("SplitToSequence", x, axis=1)
    yield made("SequenceMap", [x, x[:1]], body=body("SequenceMap", 1))
    yield made("If", np.array(True), then_branch=body("If", 1), else_branch=body("If", 1))
    yield made("Loop", np.array(3), np.array(True), x, body=body("Loop", 1), results=2)
    yield made("Scan", floats(2), floats(3, 2), body=body("Scan", 1), num_scan_inputs=1, results=2)


def body(op: str, element: int) -> GraphProto:
    """A body that hands on what it is given, of that element type."""
    info = helper.make_tensor_value_info
    pairs = {"SequenceMap": [("a", "b")], "If": [], "Loop": [("c", "d"), ("a", "b"), ("a", "e")]}
    copies = [helper.make_node("Identity", [x], [y]) for x, y in pairs.get(op, [("x", "t"), ("s", "y")])]
    match op:
        case "SequenceMap":
            return helper.make_graph(copies, "body", [info("a", element, None)], [info("b", element, None)])
        case "If":
            value = tensor_of(retyped(np.arange(3), element), element)
            constant = helper.make_node("Constant", [], ["r"], value=value)
            return helper.make_graph([constant], "branch", [], [info("r", element, [3])])
        case "Loop":
            given = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("a", element, [2, 3])]
            gives = [info("d", TensorProto.BOOL, []), info("b", element, [2, 3]), info("e", element, [2, 3])]
            return helper.make_graph(copies, "body", given, gives)
        case _:
            given, gives = [info(n, element, [2]) for n in "sx"], [info(n, element, [2]) for n in "ty"]
            return helper.make_graph(copies, "body", given, gives)


def of_learning() -> Iterator[Node]:
    x, three = floats(4, 2), floats(2, 3)
    labels, words = ints(1, 2, 5), texts("a", "c", "x")
    yield made("CastMap", {1: 1.5, 3: 2.5}, cast_to="TO_FLOAT", map_form="SPARSE", max_map=5, domain=ML)
    yield made("CastMap", {1: "1.5", 3: "2.5"}, cast_to="TO_FLOAT", domain=ML)
    yield made("CategoryMapper", labels, cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], domain=ML)
    yield made("CategoryMapper", words, cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], domain=ML)
    yield made("DictVectorizer", {"a": 1.5, "b": 2.5}, string_vocabulary=["b", "c", "a"], domain=ML)
    yield made("DictVectorizer", {1: 1.5, 3: 2.5}, int64_vocabulary=[3, 1, 2], domain=ML)
    yield made("FeatureVectorizer", three, floats(2, 2), inputdimensions=[3, 2], domain=ML)
    nan, row = float("nan"), np.array([[1, np.nan, 3]], np.float32)
    yield made("Imputer", row, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=nan, domain=ML)
    yield made("LabelEncoder", labels, keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5], domain=ML)
    yield made("LabelEncoder", words, keys_strings=["a", "b"], values_strings=["u", "v"], domain=ML)
    yield made("LinearClassifier", x, **CLASSES, classlabels_ints=[0, 1, 2], results=2, domain=ML)
    yield made("LinearClassifier", x, **CLASSES, classlabels_strings=["a", "b", "c"], results=2, domain=ML)
    yield made("LinearRegressor", x, coefficients=[1.0, 2.0], intercepts=[0.5], targets=1, domain=ML)
    yield made("Normalizer", x, norm="L2", domain=ML)
    yield made("OneHotEncoder", labels, cats_int64s=[1, 2, 3], domain=ML)
    yield made("OneHotEncoder", words, cats_strings=["a", "b", "c"], domain=ML)
    yield made("SVMClassifier", x, **SVM, classlabels_ints=[0, 1], vectors_per_class=[2, 1], results=2, domain=ML)
    yield made("SVMRegressor", x, **SVM, n_supports=3, domain=ML)
    yield made("Scaler", x, offset=[1.0, 2.0], scale=[2.0, 3.0], domain=ML)
    votes = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 1], "class_weights": [0.7, 0.4]}
    for labelled in ({"classlabels_int64s": [0, 1]}, {"classlabels_strings": ["u", "v"]}):
        yield made("TreeEnsembleClassifier", x, **TREE, **votes, **labelled, results=2, domain=ML)
    targets = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [0.7, 0.4]}
    yield made("TreeEnsembleRegressor", x, **TREE, **targets, n_targets=1, domain=ML)
    yield made("ZipMap", np.abs(three), classlabels_int64s=[1, 5, 7], domain=ML)


def element_of(value: Any) -> int:
    """The element type of an array, or of those in a list."""
    if isinstance(value, list):
        return element_of(value[0]) if value else TensorProto.FLOAT
    return TensorProto.STRING if value.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(value.dtype)


def tensor_of(array: np.ndarray[Any, Any], element: int) -> TensorProto:
    if element == TensorProto.STRING:
        return helper.make_tensor("", element, array.shape, [str(v).encode() for v in array.ravel()])
    return numpy_helper.from_array(array)


def retyped(value: Any, element: int) -> Any:
    """The values in another element type, in its range."""
    import ml_dtypes

    if isinstance(value, list):
        return [retyped(item, element) for item in value]
    array, given = np.asarray(value), element_of(np.asarray(value))
    if given == element:
        return value
    if given == TensorProto.STRING:
        array = np.arange(array.size).reshape(array.shape)
    if element == TensorProto.STRING:
        return np.array([str(v) for v in array.ravel()], object).reshape(array.shape)
    dtype = helper.tensor_dtype_to_np_dtype(element)
    wide = array.real.astype(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)
    if dtype.kind == "c":
        return (wide + 1j * wide.ravel()[::-1].reshape(wide.shape)).astype(dtype)
    if dtype.kind == "b":
        return wide > 0
    if dtype.kind in "iu" or "int" in dtype.name:
        info = ml_dtypes.iinfo(dtype)
        wide = np.nan_to_num(np.rint(wide * (1 if array.dtype.kind in "iub" else 2)))
        low, high = max(int(info.min), -100), min(int(info.max), 100)
        return np.clip(np.abs(wide) if low == 0 else wide, low, high).astype(np.int64).astype(dtype)
    if dtype.name == "float8_e8m0fnu":
        wide = np.exp2(np.round(np.clip(wide, -4, 4)))
    with np.errstate(over="ignore"):
        return wide.astype(np.float32 if dtype != np.float64 else np.float64).astype(dtype)
