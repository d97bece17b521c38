"""Operators of ai.onnx.ml that are arithmetic on features: scaling, linear models.  Scores are float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import as_dim
from ...dialects.dims.expression import ONE, ZERO
from .body import Body
from .casts import convert, converted
from .element_kinds import BOOL, F32, F64, I64, Element
from .elementary import sigmoid
from .gathers import gathered, out_of_range
from .graph import Combine, Computed, Literal, Node, Use, pointwise, with_unit_axes
from .index_space import Index
from .index_space import product as product_of
from .movement import concatenated, padded, reshaped, sliced
from .operators import Operands, Rule, binary, quotient, reduced, reduced_keeping, scalar_literal
from .quantile import COST, quantile
from .reductions import absolute, exp, extremum_index, square, square_root
from .scalars import Scalars
from .templates import matrix_product

LARGEST_TABLE = 256
"""Numbers of an attribute that a kernel may hold itself; larger models are for a rewrite to take apart."""


def table(o: Operands, values: Sequence[float], element: Element) -> Literal:
    """A list attribute as a tensor of one axis."""
    if len(values) > LARGEST_TABLE:
        raise o.refuse(f"an attribute of {len(values)} numbers")
    dtype = {F32: np.float32, F64: np.float64, I64: np.int64}[element]
    return Literal((as_dim(len(values)),), element, np.array(values, dtype))


def working(x: Node) -> Element:
    """What scores are computed in: f32 for f32 features, f64 for others."""
    return F32 if x.element is F32 else F64


def scaler(o: Operands) -> list[Node]:
    """(x - offset) * scale"""
    x = o[0]
    t = working(x)
    offset, scale = table(o, o.attr("offset") or [0.0], t), table(o, o.attr("scale") or [1.0], t)
    source = x.element

    def function(s: Scalars, v: SSAValue, shift: SSAValue, factor: SSAValue) -> SSAValue:
        scaled = s.mul(s.sub(convert(s, v, source, t), shift, t), factor, t)
        return convert(s, scaled, t, F32)

    return [pointwise(function, (x, offset, scale), o.dims(), F32, 4)]


def binarizer(o: Operands) -> list[Node]:
    x = o[0]
    t, limit = x.element.compute, o.attr("threshold")
    wide = t if t.is_float else F64

    def function(s: Scalars, v: SSAValue) -> SSAValue:
        above = s.compare("gt", convert(s, v, x.element, wide), s.constant(limit, wide), wide)
        return s.select(above, s.constant(1, t), s.constant(0, t))

    return [pointwise(function, (x,), o.dims(), o.element(), 3)]


def imputer(o: Operands) -> list[Node]:
    """Elements equal to the replaced value (NaN to NaN) exchanged, by feature where there is a list."""
    x = o[0]
    t = x.element
    names = ("imputed_value_floats", "replaced_value_float") if t.is_float else (
        "imputed_value_int64s", "replaced_value_int64"
    )  # fmt: skip
    values, replaced = o.attr(names[0]), o.attr(names[1])
    if not values:
        raise o.refuse("no value to put in")
    given = table(o, values, F32 if t.is_float else I64)

    def function(s: Scalars, v: SSAValue, new: SSAValue) -> SSAValue:
        if replaced != replaced:
            missing = s.is_nan(v, t)
        else:
            missing = s.compare("eq", v, s.constant(replaced, t), t)
        return s.select(missing, convert(s, new, given.element, t), v)

    return [pointwise(function, (x, given), o.dims(), o.element(), 3)]


def normalizer(o: Operands) -> list[Node]:
    """Rows over their maximum, sum of magnitudes or Euclidean norm; where that is 0, as they are."""
    t, kind = working(o[0]), o.attr("norm")
    x = converted(o[0], t)
    axes = [len(x.dims) - 1]
    if kind == "MAX":
        norm = reduced(Combine.MAX, x, axes)
    elif kind == "L1":
        norm = reduced(Combine.ADD, absolute(x), axes)
    else:
        norm = square_root(reduced(Combine.ADD, square(x), axes))

    def function(s: Scalars, v: SSAValue, by: SSAValue) -> SSAValue:
        zero = s.compare("eq", by, s.constant(0.0, t), t)
        return convert(s, s.divf(v, s.select(zero, s.constant(1.0, t), by)), t, F32)

    return [pointwise(function, (x, with_unit_axes(norm, axes)), x.dims, F32, 6)]


def feature_vectorizer(o: Operands) -> list[Node]:
    """Columns side by side, all axes but the first as one; `inputdimensions` cuts or pads each input to its number of
    columns.
    """
    parts: list[Node] = []
    inputs = o.all()
    widths = o.attr("inputdimensions") or [None] * len(inputs)
    for x, width in zip(inputs, widths):
        count, sizes = (ONE, x.dims) if len(x.dims) < 2 else (x.dims[0], x.dims[1:])
        part = converted(reshaped(x, (count, product_of(sizes))), F32)
        if width is not None and as_dim(width) is not part.dims[1]:
            part = _fitted(part, width)
        parts.append(part)
    return [concatenated(parts, 1, o.dims())]


def _fitted(x: Node, width: int) -> Node:
    dims = (x.dims[0], as_dim(width))
    if not x.dims[1].is_const:

        def formula(body: Body, index: Index) -> SSAValue:
            inside = body.inside(index[1], x.dims[1])
            return body.guarded(inside, lambda: body.read(x, index), lambda: body.scalars.constant(0.0, F32))

        return Computed(dims, F32, ((x, Use.ONCE),), formula, cost=3)
    if x.dims[1].value > width:
        return sliced(x, dims, [ZERO, ZERO], [1, 1])
    return padded(x, dims, [ZERO, ZERO], scalar_literal(0.0, F32))


def array_feature_extractor(o: Operands) -> list[Node]:
    """Columns of the last axis; of a vector as one row."""
    x, indices = o[0], o[1]
    rows = reshaped(x, (ONE, *x.dims)) if len(x.dims) == 1 else x
    places = reshaped(indices, (o.dims()[-1],))
    return [gathered(rows, places, len(rows.dims) - 1, out_of_range(o, 1, "the last axis of 'X'"))]


def one_hot_encoder(o: Operands) -> list[Node]:
    """1 in the column of the element's category; an unknown one is an error without `zeros`."""
    x, categories, zeros = o[0], o.attr("cats_int64s"), bool(o.attr("zeros"))
    if not categories:
        raise o.refuse("categories that are no numbers")
    known, message = table(o, categories, I64), o.problem("'X' has the value {0}, which is none of 'cats_int64s'")

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        value = convert(s, body.wide(x, index[:-1]), x.element, I64)
        if not zeros:
            found = s.constant(0, BOOL)
            for category in categories:
                found = s.either(found, s.compare("eq", value, s.constant(category, I64), I64))
            s.check(found, "value", message, [value])
        here = s.compare("eq", value, body.read(known, index[-1:]), I64)
        return s.convert("uitofp", here, F32)

    return [Computed(o.dims(), F32, ((x, Use.MANY), (known, Use.MANY)), formula, cost=4)]


def label_encoder(o: Operands) -> list[Node]:
    """Each element's value by key, the last of equal keys; any NaN is the same key."""
    x = o[0]
    t, to = x.element, o.element()
    keys, values = _listed(o, "keys"), _listed(o, "values")
    if len(keys) > LARGEST_TABLE // 4:
        raise o.refuse(f"a table of {len(keys)} keys")
    default = o.attr("default_tensor")
    if default is not None:
        otherwise = np.asarray(default).reshape(-1)[0].item()
    elif o.attr("values_tensor") is not None:
        otherwise = -0.0 if to.is_float else -1
    else:
        otherwise = o.attr("default_float" if to.is_float else "default_int64")

    def function(s: Scalars, v: SSAValue) -> SSAValue:
        found = s.constant(otherwise, to.compute)
        for key, value in zip(keys, values):
            same = s.is_nan(v, t.compute) if key != key else s.compare("eq", v, s.constant(key, t.compute), t.compute)
            found = s.select(same, s.constant(value, to.compute), found)
        return found

    return [pointwise(function, (x,), o.dims(), to, len(keys))]


def _listed(o: Operands, which: str) -> list[float]:
    """The numbers of `keys_*` or `values_*`."""
    tensor = o.attr(f"{which}_tensor")
    if tensor is not None:
        array = np.asarray(tensor).reshape(-1)
        if array.dtype.kind not in "iufb":
            raise o.refuse("strings")
        return array.tolist()
    found = o.attr(f"{which}_int64s") or o.attr(f"{which}_floats")
    if not found:
        raise o.refuse("strings")
    return list(found)


# Linear models


def _scores(o: Operands, targets: int) -> Node:
    """x @ coefficients' + intercepts, [rows, targets]"""
    x = o[0]
    t = working(x)
    rows = converted(x if len(x.dims) == 2 else reshaped(x, (ONE, x.dims[0])), t)
    if not rows.dims[1].is_const:
        raise o.refuse("a number of features that is known at run time only")
    features = rows.dims[1].value
    flat = table(o, o.attr("coefficients")[: targets * features], t)
    weights = Literal((as_dim(targets), rows.dims[1]), t, flat.array.reshape(targets, features))
    dims = (rows.dims[0], as_dim(targets))
    total = matrix_product(rows, weights, 0, 1, dims, t)
    intercepts = table(o, o.attr("intercepts") or [0.0], t)
    return pointwise(lambda s, v, c: s.add(v, c, t), (total, intercepts), dims, t)


def transformed(o: Operands, scores: Node) -> Node:
    """By `post_transform`, along the rows."""
    kind, t = o.attr("post_transform"), scores.element
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return pointwise(lambda s, v: sigmoid(s, v, t), (scores,), scores.dims, t, 15)
    if kind == "SOFTMAX":
        e = exp(binary(Scalars.sub, scores, reduced_keeping(Combine.MAX, scores, [1])))
        return quotient(e, reduced_keeping(Combine.ADD, e, [1]))
    if kind == "SOFTMAX_ZERO":
        e = exp(binary(Scalars.sub, scores, reduced_keeping(Combine.MAX, scores, [1])))
        present = pointwise(_where_not_zero(t), (scores, e), scores.dims, t, 2)
        total = reduced_keeping(Combine.ADD, present, [1])
        return pointwise(_over_not_zero(t), (present, total), scores.dims, t, 6)
    if kind == "PROBIT":
        return pointwise(lambda s, v: quantile(s, v, t), (scores,), scores.dims, t, COST)
    raise o.refuse(f"post_transform {kind}")


def _where_not_zero(t: Element) -> Callable[..., SSAValue]:
    def function(s: Scalars, v: SSAValue, e: SSAValue) -> SSAValue:
        zero = s.constant(0.0, t)
        return s.select(s.compare("eq", v, zero, t), zero, e)

    return function


def _over_not_zero(t: Element) -> Callable[..., SSAValue]:
    def function(s: Scalars, v: SSAValue, by: SSAValue) -> SSAValue:
        zero = s.compare("eq", by, s.constant(0.0, t), t)
        return s.divf(v, s.select(zero, s.constant(1.0, t), by))

    return function


def linear_regressor(o: Operands) -> list[Node]:
    return [converted(transformed(o, _scores(o, o.attr("targets"))), F32)]


def linear_classifier(o: Operands) -> list[Node]:
    """Labels and scores.  One row of coefficients is a binary model, whose second class wins above 0.

    The softmaxes are of its score and the negative of it.
    """
    labels = o.attr("classlabels_ints")
    if o.attr("classlabels_strings"):
        raise o.refuse("labels that are strings")
    intercepts, features = o.attr("intercepts"), o[0].dims[-1]
    if not features.is_const:
        raise o.refuse("a number of features that is known at run time only")
    count = len(intercepts) if intercepts else len(o.attr("coefficients")) // features.value
    scores = _scores(o, count)
    t = scores.element
    if count == 1 and len(labels or ()) == 2:
        score = reshaped(scores, (scores.dims[0],))
        chosen = pointwise(
            lambda s, v: s.convert("extui", s.compare("gt", v, s.constant(0.0, t), t), I64),
            (score,),
            score.dims,
            I64,
            2,
        )
        if o.attr("post_transform") in ("SOFTMAX", "SOFTMAX_ZERO"):
            negative = pointwise(lambda s, v: s.sub(s.constant(0.0, t), v, t), (scores,), scores.dims, t)
            delivered = transformed(o, concatenated([negative, scores], 1, o.dims(1)))
        else:
            second = transformed(o, scores)
            first = pointwise(lambda s, v: s.sub(s.constant(1.0, t), v, t), (second,), second.dims, t)
            delivered = concatenated([first, second], 1, o.dims(1))
    else:
        chosen, delivered = extremum_index(scores, 1, Combine.MAX), transformed(o, scores)
    return [_labels(o, chosen, labels), converted(delivered, F32)]


def _labels(o: Operands, chosen: Node, labels: Sequence[int] | None) -> Node:
    if not labels:
        return chosen
    names = table(o, labels, I64)

    def formula(body: Body, index: Index) -> SSAValue:
        at = body.variable(body.index_of(body.read(chosen, index), I64), names.dims[0])
        return body.read(names, (at,))

    return Computed(chosen.dims, I64, ((chosen, Use.ALIGNED), (names, Use.MANY)), formula, cost=3)


LEARNING: dict[type[onnx.OnnxOp], Rule] = {
    onnx.MlArrayFeatureExtractorOp: array_feature_extractor,
    onnx.MlBinarizerOp: binarizer,
    onnx.MlFeatureVectorizerOp: feature_vectorizer,
    onnx.MlImputerOp: imputer,
    onnx.MlLabelEncoderOp: label_encoder,
    onnx.MlLinearClassifierOp: linear_classifier,
    onnx.MlLinearRegressorOp: linear_regressor,
    onnx.MlNormalizerOp: normalizer,
    onnx.MlOneHotEncoderOp: one_hot_encoder,
    onnx.MlScalerOp: scaler,
}
