"""Shape rules of ai.onnx.ml: features by rows, classifiers, trees, encoders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim, as_dim
from ...dialects.onnx.types import STRING, MapType, SequenceType
from ..reference.ml_trees import MODES
from .context import Context, ResultElements, Rules, ShapeError, Types
from .creation import attribute_type, list_length
from .elementwise import FLOAT
from .forests import places_of, require_ends


def _rows(c: Context) -> Dim:
    """The number of samples; a vector is one."""
    x = c.dims_of_rank(0, 1, 2)
    return ONE if len(x) == 1 else x[0]


def _labels(c: Context, ints: str) -> tuple[Attribute, int]:
    """(element type of labels, number of classes)."""
    strings = list_length(c, "classlabels_strings")
    return (STRING, strings) if strings else (i64, list_length(c, ints))


def _columns(c: Context) -> Dim:
    """The number of features."""
    x = c.dims_of_rank(0, 1, 2)
    return x[-1]


def _lengths(c: Context, *names: str, optional: Sequence[str] = ()) -> int:
    """The common length of lists that belong together; those of `optional` may be absent."""
    lengths = {name: list_length(c, name) for name in names}
    lengths |= {name: n for name in optional if (n := list_length(c, name))}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"'{name}' {n}" for name, n in lengths.items())
        raise ShapeError(f"its attributes belong together, and have other lengths: {listed}")
    return lengths[names[0]]


def _either(c: Context, name: str) -> str:
    """The name of an attribute that may be given as a tensor instead."""
    return f"{name}_as_tensor" if c.attr(f"{name}_as_tensor") is not None else name


def _values(c: Context, name: str) -> np.ndarray:
    """A list, which may be long and kept with the weights; none where it is not given."""
    value = c.attr(name)
    if isinstance(value, onnx.WeightAttr):
        assert c.scope.weights is not None
        value = c.scope.weights.get(value)
    return np.asarray(value if value is not None else ()).reshape(-1)


def _numbers(c: Context, name: str) -> np.ndarray:
    """A list of integers. Raises ShapeError for one of texts."""
    values = _values(c, name)
    if values.dtype.kind not in "iufb":
        raise ShapeError(f"its attribute '{name}' is to have numbers")
    return values.astype(np.int64)


def _within(c: Context, name: str, end: Dim | int) -> None:
    """States that the numbers in a list are at least 0 and below an end."""
    numbers = _numbers(c, name)
    if numbers.size and numbers.min() < 0:
        raise ShapeError(f"its attribute '{name}' has {numbers.min()}, and must be at least 0")
    if numbers.size:
        c.at_most(int(numbers.max()) + 1, end, f"the numbers in '{name}' are below {end}")


def _for_columns(c: Context, *names: str) -> None:
    """States that lists have one number for each feature, or one for all."""
    for name in names:
        if (count := list_length(c, name)) > 1:
            c.equal(_columns(c), as_dim(count), f"'{name}' and the features")


def _nodes(c: Context, prefix: str, targets: int) -> None:
    """What must hold of the lists of the older tree ensembles."""
    nodes = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids")
    optional = ("nodes_missing_value_tracks_true", _either(c, "nodes_hitrates"))
    if not _lengths(c, *nodes, "nodes_falsenodeids", _either(c, "nodes_values"), optional=optional):
        raise ShapeError("it has no nodes")
    votes = (f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", _either(c, f"{prefix}_weights"))
    _lengths(c, *votes)
    _within(c, "nodes_featureids", _columns(c))
    _within(c, f"{prefix}_ids", targets)
    trees, names = _numbers(c, "nodes_treeids"), _numbers(c, "nodes_nodeids")
    inner = np.array([mode != "LEAF" for mode in _values(c, "nodes_modes")], np.bool_)
    below = [
        places_of(name, trees[inner], _numbers(c, name)[inner], trees, names)
        for name in ("nodes_truenodeids", "nodes_falsenodeids")
    ]
    parents = np.tile(np.flatnonzero(inner), 2)
    require_ends(parents, np.concatenate(below), len(trees), lambda n: f"node {names[n]} of tree {trees[n]}")
    voters = _numbers(c, f"{prefix}_treeids"), _numbers(c, f"{prefix}_nodeids")
    branches = np.flatnonzero(inner[places_of(f"{prefix}_nodeids", *voters, trees, names)])
    if branches.size:
        tree, node = (int(v[branches[0]]) for v in voters)
        raise ShapeError(f"its attribute '{prefix}_nodeids' has node {node} of tree {tree}, which is no leaf")


def scaler(c: Context) -> Types:
    _for_columns(c, "offset", "scale")
    return [c.tensor(FLOAT, c.dims(0))]


def imputer(c: Context) -> Types:
    _for_columns(c, "imputed_value_floats", "imputed_value_int64s")
    return [c.type_of(0)]


def same(c: Context) -> Types:
    return [c.type_of(0)]


def same_dims_float(c: Context) -> Types:
    return [c.tensor(FLOAT, c.dims(0))]


def linear_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_ints")
    classes = list_length(c, "intercepts") or labels
    count = list_length(c, "coefficients")
    if classes:
        c.at_most(_columns(c) * classes, count, "the coefficients, for each class and feature")
    if classes == 1 and labels == 2:
        classes = 2
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), classes])]


def linear_regressor(c: Context) -> Types:
    targets = c.attr("targets")
    count = list_length(c, "coefficients")
    c.at_most(_columns(c) * targets, count, "the coefficients, for each target and feature")
    if list_length(c, "intercepts") not in (0, targets):
        raise ShapeError(f"it has {list_length(c, 'intercepts')} intercepts and {targets} targets")
    return [c.tensor(FLOAT, [_rows(c), targets])]


def svm_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_ints")
    pairs = labels * (labels - 1) // 2
    if list_length(c, "vectors_per_class"):
        _support_vectors(c, sum(c.attr("vectors_per_class")))
    by_class = list_length(c, "prob_a") or not list_length(c, "vectors_per_class") or labels <= 2
    scores = labels if by_class else pairs
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), scores])]


def _support_vectors(c: Context, count: int) -> None:
    """States that there are so many vectors of all features."""
    if count:
        vectors = as_dim(list_length(c, "support_vectors"))
        c.equal(_columns(c) * count, vectors, "the support vectors, each of all features")


def svm_regressor(c: Context) -> Types:
    _support_vectors(c, c.attr("n_supports"))
    return [c.tensor(FLOAT, [_rows(c), 1])]


_TREE_OPTIONAL = ("nodes_missing_value_tracks_true", "nodes_hitrates")


def tree_ensemble(c: Context) -> Types:
    targets = c.attr("n_targets")
    _within(c, "nodes_featureids", _columns(c))
    if targets is not None:
        _within(c, "leaf_targetids", targets)
    nodes, leaves = list_length(c, "nodes_featureids"), list_length(c, "leaf_targetids")
    for side in ("true", "false"):
        children, is_leaf = _numbers(c, f"nodes_{side}nodeids"), _numbers(c, f"nodes_{side}leafs")
        if children.shape != is_leaf.shape or len(children) != nodes:
            raise ShapeError(
                f"its attributes 'nodes_{side}nodeids' and 'nodes_{side}leafs' are not of all {nodes} nodes"
            )
        absent = np.flatnonzero((children < 0) | (children >= np.where(is_leaf != 0, leaves, nodes)))
        if absent.size:
            kind = "leaf" if is_leaf[absent[0]] else "node"
            raise ShapeError(
                f"its attribute 'nodes_{side}nodeids' refers to {kind} {children[absent[0]]}, which is not there"
            )
    _within(c, "tree_roots", nodes)
    _within(c, "nodes_modes", len(MODES))
    _lengths(c, "nodes_featureids", "nodes_modes", "nodes_splits", optional=_TREE_OPTIONAL)
    _lengths(c, "leaf_targetids", "leaf_weights")
    parents = [np.flatnonzero(_numbers(c, f"nodes_{side}leafs") == 0) for side in ("true", "false")]
    below = [_numbers(c, f"nodes_{side}nodeids")[at] for side, at in zip(("true", "false"), parents)]
    require_ends(np.concatenate(parents), np.concatenate(below), nodes, lambda n: f"node {n}")
    return [c.like(0, [_rows(c), 1 if targets is None else targets])]


def tree_ensemble_regressor(c: Context) -> Types:
    targets = c.attr("n_targets")
    targets = 1 if targets is None else targets
    _nodes(c, "target", targets)
    return [c.tensor(FLOAT, [_rows(c), targets])]


def tree_ensemble_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_int64s")
    _nodes(c, "class", labels)
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), labels])]


def feature_vectorizer(c: Context) -> Types:
    """Operands as tables: a vector is one row, and all axes but the first are columns."""
    tables = [d if len(d) > 1 else (ONE, *d) for d in (c.dims(i) for i in range(len(c.operands)))]
    rows = tables[0][0]
    for table in tables[1:]:
        rows = c.equal(rows, table[0], "the rows of FeatureVectorizer's inputs")
    total = sum(c.attr("inputdimensions") or (c.count(table[1:]) for table in tables), start=ONE * 0)
    return [c.tensor(FLOAT, [rows, total])]


def array_feature_extractor(c: Context) -> Types:
    x = c.dims(0)
    return [c.like(0, [*(x[:-1] if len(x) > 1 else [ONE]), c.count(c.dims(1))])]


def one_hot_encoder(c: Context) -> Types:
    categories = list_length(c, "cats_int64s") or list_length(c, "cats_strings")
    return [c.tensor(FLOAT, [*c.dims(0), categories])]


_LISTS = ("floats", "int64s", "strings", "tensor")


def label_encoder(c: Context) -> Types:
    named = (f"{part}_{kind}" for part in ("keys", "values") for kind in _LISTS)
    _lengths(c, *(name for name in named if c.attr(name) is not None))
    return [c.tensor(_encoded(c), c.dims(0))]


def _encoded(c: Context) -> Attribute:
    """The element type of LabelEncoder's values."""
    for name, element in (("values_strings", STRING), ("values_int64s", i64), ("values_floats", FLOAT)):
        if c.attr(name) is not None:
            return element
    tensor = c.op.properties.get("values_tensor")
    type_ = None if tensor is None else attribute_type(c, tensor)
    if type_ is None:
        raise ShapeError("LabelEncoder without values")
    return type_.element_type  # type: ignore[attr-defined]


def category_mapper(c: Context) -> Types:
    return [c.tensor(_mapped(c), c.dims(0))]


def _mapped(c: Context) -> Attribute:
    return i64 if c.element(0) == STRING else STRING


def cast_map(c: Context) -> Types:
    element = {"TO_FLOAT": FLOAT, "TO_STRING": STRING, "TO_INT64": i64}[c.attr("cast_to")]
    sparse = c.attr("map_form") == "SPARSE"
    return [c.tensor(element, [ONE, c.attr("max_map") if sparse else c.fresh(0, 1)])]


def dict_vectorizer(c: Context) -> Types:
    type_ = c.type_of(0)
    if not isinstance(type_, MapType):
        raise ShapeError(f"input 0 is {type_}, not a map")
    element = getattr(type_.element, "element_type", type_.element)
    return [c.tensor(element, [ONE, list_length(c, "int64_vocabulary") or list_length(c, "string_vocabulary")])]


def zip_map(c: Context) -> Types:
    key = STRING if c.attr("classlabels_strings") else i64
    return [SequenceType(MapType(key, c.tensor(FLOAT, ())))]


RULES: Rules = {
    onnx.MlBinarizerOp: same,
    onnx.MlImputerOp: imputer,
    onnx.MlScalerOp: scaler,
    onnx.MlNormalizerOp: same_dims_float,
    onnx.MlLinearClassifierOp: linear_classifier,
    onnx.MlLinearRegressorOp: linear_regressor,
    onnx.MlSVMClassifierOp: svm_classifier,
    onnx.MlSVMRegressorOp: svm_regressor,
    onnx.MlTreeEnsembleOp: tree_ensemble,
    onnx.MlTreeEnsembleRegressorOp: tree_ensemble_regressor,
    onnx.MlTreeEnsembleClassifierOp: tree_ensemble_classifier,
    onnx.MlFeatureVectorizerOp: feature_vectorizer,
    onnx.MlArrayFeatureExtractorOp: array_feature_extractor,
    onnx.MlOneHotEncoderOp: one_hot_encoder,
    onnx.MlLabelEncoderOp: label_encoder,
    onnx.MlCategoryMapperOp: category_mapper,
    onnx.MlCastMapOp: cast_map,
    onnx.MlDictVectorizerOp: dict_vectorizer,
    onnx.MlZipMapOp: zip_map,
}

ELEMENTS: ResultElements = {
    onnx.MlCategoryMapperOp: lambda c: [_mapped(c)],
    onnx.MlLabelEncoderOp: lambda c: [_encoded(c)],
    onnx.MlLinearClassifierOp: lambda c: [_labels(c, "classlabels_ints")[0], FLOAT],
    onnx.MlSVMClassifierOp: lambda c: [_labels(c, "classlabels_ints")[0], FLOAT],
    onnx.MlTreeEnsembleClassifierOp: lambda c: [_labels(c, "classlabels_int64s")[0], FLOAT],
}
