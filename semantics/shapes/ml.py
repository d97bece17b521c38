"""Shape rules of ai.onnx.ml: features by rows, classifiers, trees, encoders."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim
from ...dialects.onnx.types import STRING, MapType, SequenceType
from .context import Context, Rules, ShapeError, Types
from .creation import attribute_type, list_length
from .elementwise import FLOAT


def _rows(c: Context) -> Dim:
    """The number of samples; a vector is one."""
    x = c.dims_of_rank(0, 1, 2)
    return ONE if len(x) == 1 else x[0]


def _labels(c: Context, ints: str) -> tuple[Attribute, int]:
    """(element type of labels, number of classes)."""
    strings = list_length(c, "classlabels_strings")
    return (STRING, strings) if strings else (i64, list_length(c, ints))


def same(c: Context) -> Types:
    return [c.type_of(0)]


def same_dims_float(c: Context) -> Types:
    return [c.tensor(FLOAT, c.dims(0))]


def linear_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_ints")
    classes = list_length(c, "intercepts") or labels
    if classes == 1 and labels == 2:
        classes = 2
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), classes])]


def linear_regressor(c: Context) -> Types:
    return [c.tensor(FLOAT, [_rows(c), c.attr("targets")])]


def svm_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_ints")
    pairs = labels * (labels - 1) // 2
    by_class = list_length(c, "prob_a") or not list_length(c, "vectors_per_class") or labels <= 2
    scores = labels if by_class else pairs
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), scores])]


def svm_regressor(c: Context) -> Types:
    return [c.tensor(FLOAT, [_rows(c), 1])]


def tree_ensemble(c: Context) -> Types:
    targets = c.attr("n_targets")
    return [c.like(0, [_rows(c), 1 if targets is None else targets])]


def tree_ensemble_regressor(c: Context) -> Types:
    targets = c.attr("n_targets")
    return [c.tensor(FLOAT, [_rows(c), 1 if targets is None else targets])]


def tree_ensemble_classifier(c: Context) -> Types:
    element, labels = _labels(c, "classlabels_int64s")
    return [c.tensor(element, [_rows(c)]), c.tensor(FLOAT, [_rows(c), labels])]


def feature_vectorizer(c: Context) -> Types:
    given = c.attr("inputdimensions")
    if given:
        total = sum(given)
    else:
        total = sum((c.dims(i)[-1] for i in range(len(c.operands))), start=ONE * 0)
    return [c.tensor(FLOAT, [_rows(c), total])]


def array_feature_extractor(c: Context) -> Types:
    x = c.dims(0)
    return [c.like(0, [*(x[:-1] if len(x) > 1 else [ONE]), c.count(c.dims(1))])]


def one_hot_encoder(c: Context) -> Types:
    categories = list_length(c, "cats_int64s") or list_length(c, "cats_strings")
    return [c.tensor(FLOAT, [*c.dims(0), categories])]


def label_encoder(c: Context) -> Types:
    for name, element in (("values_strings", STRING), ("values_int64s", i64), ("values_floats", FLOAT)):
        if c.attr(name) is not None:
            return [c.tensor(element, c.dims(0))]
    tensor = c.op.properties.get("values_tensor")
    type_ = None if tensor is None else attribute_type(c, tensor)
    if type_ is None:
        raise ShapeError("LabelEncoder without values")
    return [c.tensor(type_.element_type, c.dims(0))]  # type: ignore[attr-defined]


def category_mapper(c: Context) -> Types:
    return [c.tensor(i64 if c.element(0) == STRING else STRING, c.dims(0))]


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
    onnx.MlImputerOp: same,
    onnx.MlScalerOp: same_dims_float,
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
