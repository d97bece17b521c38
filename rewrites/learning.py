"""Operators of ai.onnx.ml with tables, written with ordinary operators and constants.

SVMRegressor(x), SVMClassifier(x)  ->  a kernel of x and the support vectors, and products with tables of coefficients
LinearRegressor(x), LinearClassifier(x), Scaler(x), Imputer(x), OneHotEncoder(x), LabelEncoder(x), where the table is
large  ->  MatMul, Add, Sub, Mul, Where, Equal, Lookup
LinearClassifier(x), SVMClassifier(x) whose labels are strings  ->  of numbers, and a LabelEncoder
TfIdfVectorizer(x)  ->  counts of the pool's n-grams, times weights

What no operator of the standard does is an operator of the compiler's own: `Lookup`, `NGrams`, and `Couple`, which has
class probabilities of pairwise ones.  Labels and keys that are strings stay as they are, and the normal quantile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, f32, f64, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import tensor_type
from ..dialects.onnx.types import ELEMENT_CODES, UNKNOWN, element_of_dtype
from ..semantics.custom import OWN_DOMAIN, POINTWISE, QUANTILE, TEMPLATE
from ..semantics.evaluate import plain_attributes
from ..semantics.reference.ml_trees import TRANSFORMS
from ..semantics.reference.text import pool_grams
from ..semantics.weights import WeightStore
from .axes_from_data import Build, rank_of
from .constants import make_constant
from .driver import Firing, Pattern, PatternRewriter, apply_patterns

Array = np.ndarray[Any, Any]

LARGEST_TABLE = 256
"""Numbers of a table that a kernel may hold itself."""


def rewrite_learning(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    patterns = [
        NumberClasses, ExpandSVMRegressor, ExpandSVMClassifier, ExpandLinear, ExpandScaler, ExpandImputer,
        ExpandOneHot, ExpandLabels, ExpandTfIdf,
    ]  # fmt: skip
    return apply_patterns(module, [pattern(weights) for pattern in patterns])


class Declined(Exception):
    """The form is not covered: the op stays as it is."""


class Learned(Pattern):
    """What these patterns share: the attributes at hand, and the answer in the place of the op."""

    def __init__(self, weights: WeightStore) -> None:
        self.weights = weights

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        type_ = op.operands[0].type
        if not isinstance(type_, TensorType) or type_.element_type == onnx.STRING:
            return
        attributes = {k: onnx.attr(op, k) for k in op.SCHEMA.attributes if k not in op.properties}
        attributes |= plain_attributes(op, self.weights)
        try:
            self.check(attributes, type_)
        except Declined:
            return
        values = self.expand(Tables(rewriter, self.weights), op.operands[0], attributes)
        rewriter.replace(op, list(values[: len(op.results)]))

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        """Raises Declined for a form that is not covered; `x` is the operand's type."""

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        raise NotImplementedError(type(self).__name__)


def require(condition: object) -> None:
    if not condition:
        raise Declined


def is_large(*lists: Sequence[object] | None) -> bool:
    return any(v is not None and len(v) > LARGEST_TABLE for v in lists)


class Tables(Build):
    """Builds with constants of any size."""

    def __init__(self, rewriter: PatternRewriter, weights: WeightStore) -> None:
        super().__init__(rewriter)
        self.weights = weights

    def table(self, array: Array, element: Attribute) -> SSAValue:
        """A constant of that element type."""
        array = np.ascontiguousarray(array, onnx.numpy_dtype(element))
        type_ = tensor_type(element, array.shape)
        return self.rewriter.insert(make_constant(array, type_, self.weights)).results[0]

    def own(self, name: str, operands: Sequence[SSAValue], kind: str = TEMPLATE, **attributes: int) -> SSAValue:
        """An operator of the compiler's own."""
        properties: dict[str, Attribute] = {
            "domain": onnx.string_attr(OWN_DOMAIN),
            "op_type": onnx.string_attr(name),
            "attributes": DictionaryAttr({k: IntegerAttr(v, i64) for k, v in attributes.items()}),
            "kind": StringAttr(kind),
        }
        return self.rewriter.insert(onnx.CustomOp.build_at(properties, list(operands), [UNKNOWN])).results[0]

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        return self.op(onnx.CastOp, x, attributes={"to": ELEMENT_CODES[element]})

    def rows(self, x: SSAValue) -> tuple[SSAValue, Attribute]:
        """Samples by features in the type that scores are computed in: f32 for f32 features, else f64."""
        assert isinstance(x.type, TensorType)
        t = f32 if x.type.element_type == f32 else f64
        rows = x if rank_of(x) == 2 else self.op(onnx.ReshapeOp, x, self.ints([1, -1]))
        return self.cast(rows, t), t

    def product(self, x: SSAValue, matrix: Array, t: Attribute) -> SSAValue:
        return self.op(onnx.MatMulOp, x, self.table(matrix, t))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.MulOp, a, b)

    def transformed(self, scores: SSAValue, kind: str, t: Attribute) -> SSAValue:
        """By `post_transform`, along the rows."""
        if kind == "LOGISTIC":
            return self.op(onnx.SigmoidOp, scores)
        if kind == "SOFTMAX":
            return self.op(onnx.SoftmaxOp, scores, attributes={"axis": -1})
        if kind == "SOFTMAX_ZERO":
            zero, last = self.table(np.zeros(()), t), self.ints([-1])
            absent = self.op(onnx.EqualOp, scores, zero)
            e = self.op(onnx.ExpOp, self.sub(scores, self.op(onnx.ReduceMaxOp, scores, last)))
            present = self.where(absent, zero, e)
            total = self.op(onnx.ReduceSumOp, present, last)
            divisor = self.where(self.op(onnx.EqualOp, total, zero), self.table(np.ones(()), t), total)
            return self.op(onnx.DivOp, present, divisor)
        return scores if kind == "NONE" else self.own(QUANTILE, [scores], POINTWISE)

    def labels(self, chosen: SSAValue, numbers: Sequence[int] | None) -> SSAValue:
        return chosen if not numbers else self.op(onnx.GatherOp, self.table(np.array(numbers), i64), chosen)

    def two_columns(self, first: SSAValue, second: SSAValue) -> SSAValue:
        return self.op(onnx.ConcatOp, first, second, attributes={"axis": 1})


# Support vector machines


def support_kernel(b: Tables, x: SSAValue, vectors: Array, a: Mapping[str, Any], t: Attribute) -> SSAValue:
    """[N, vectors]: the kernel of each row and each support vector."""
    gamma, coef0, degree = (*(a["kernel_params"] or ()), 0.0, 0.0, 0.0)[:3]
    kind = a["kernel_type"]
    if kind == "RBF":
        apart = b.sub(b.op(onnx.UnsqueezeOp, x, b.ints([1])), b.table(vectors, t))
        return b.op(onnx.ExpOp, b.mul(b.sum(b.mul(apart, apart), 2), b.table(np.array(-gamma), t)))
    dot = b.product(x, vectors.T, t)
    if kind == "LINEAR":
        return dot
    affine = b.add(b.mul(dot, b.table(np.array(gamma), t)), b.table(np.array(coef0), t))
    if kind == "POLY":
        return b.op(onnx.PowOp, affine, b.table(np.array(degree), t))
    assert kind == "SIGMOID"
    return b.op(onnx.TanhOp, affine)


def check_machine(a: Mapping[str, Any]) -> None:
    require(a["kernel_type"] in ("LINEAR", "RBF", "POLY", "SIGMOID"))
    require(a["post_transform"] in TRANSFORMS)
    require(a["coefficients"])


class NumberClasses(Learned):
    """LinearClassifier(x), SVMClassifier(x) with labels that are strings  ->  LabelEncoder(the place of the label)"""

    root = (onnx.MlLinearClassifierOp, onnx.MlSVMClassifierOp)

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(attributes["classlabels_strings"])

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        words = a["classlabels_strings"]
        numbers = list(range(len(words)))
        attributes = {**a, "classlabels_strings": None, "classlabels_ints": numbers}
        root = b.rewriter.root
        assert isinstance(root, onnx.OnnxOp)
        made = b.rewriter.insert(type(root).make([x], attributes, [UNKNOWN, UNKNOWN]))
        labels = {"keys_int64s": numbers, "values_strings": list(words)}
        return [b.op(onnx.MlLabelEncoderOp, made.results[0], attributes=labels), made.results[1]]


class ExpandSVMRegressor(Learned):
    """SVMRegressor(x)  ->  kernel(x, vectors) @ coefficients + rho"""

    root = onnx.MlSVMRegressorOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        check_machine(attributes)

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        rows, t = b.rows(x)
        if a["n_supports"]:
            vectors = np.array(a["support_vectors"], np.float64).reshape(a["n_supports"], -1)
            rows = support_kernel(b, rows, vectors, a, t)
        scores = b.product(rows, np.array(a["coefficients"]).reshape(-1, 1), t)
        scores = b.add(scores, b.table(np.array((a["rho"] or [0.0])[:1]), t))
        if a["one_class"]:
            inside = b.op(onnx.GreaterOp, scores, b.table(np.zeros(()), t))
            return [b.where(inside, b.table(np.array(1.0), f32), b.table(np.array(-1.0), f32))]
        return [b.cast(b.transformed(scores, a["post_transform"], t), f32)]


class ExpandSVMClassifier(Learned):
    """SVMClassifier(x)  ->  ArgMax of the votes of the pairs of classes, and scores"""

    root = onnx.MlSVMClassifierOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        check_machine(attributes)
        require(not attributes["classlabels_strings"] and attributes["classlabels_ints"])

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        rows, t = b.rows(x)
        numbers, counts = a["classlabels_ints"], a["vectors_per_class"]
        classes, rho = len(numbers), np.array(a["rho"] or [0.0])
        if not counts:
            scores = b.product(rows, np.array(a["coefficients"]).reshape(classes, -1).T, t)
            scores = b.add(scores, b.table(rho[:1], t))
            return [self.best(b, scores, numbers), b.cast(b.transformed(scores, a["post_transform"], t), f32)]
        vectors = np.array(a["support_vectors"], np.float64).reshape(sum(counts), -1)
        pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
        table, votes, none = self.tables(np.array(a["coefficients"]), counts, pairs)
        decisions = b.product(support_kernel(b, rows, vectors, a, t), table, t)
        decisions = b.add(decisions, b.table(rho[: len(pairs)], t))
        positive = b.cast(b.op(onnx.GreaterOp, decisions, b.table(np.zeros(()), t)), t)
        label = self.best(b, b.add(b.product(positive, votes, t), b.table(none, t)), numbers)
        return [label, b.cast(self.scores(b, decisions, a, classes, t), f32)]

    def best(self, b: Tables, scores: SSAValue, numbers: Sequence[int]) -> SSAValue:
        return b.labels(b.op(onnx.ArgMaxOp, scores, attributes={"axis": 1, "keepdims": 0}), numbers)

    def tables(
        self, coefficients: Array, counts: Sequence[int], pairs: Sequence[tuple[int, int]]
    ) -> tuple[Array, Array, Array]:
        """[vectors, pairs] coefficients of the decisions; [pairs, classes] what a decision above 0 changes of the votes
        that there are without any.
        """
        starts = np.concatenate([[0], np.cumsum(counts)])
        own = coefficients.reshape(len(counts) - 1, -1)
        table = np.zeros((own.shape[1], len(pairs)))
        votes, none = np.zeros((len(pairs), len(counts))), np.zeros(len(counts))
        for number, (i, j) in enumerate(pairs):
            mine, theirs = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            table[mine, number], table[theirs, number] = own[j - 1, mine], own[i, theirs]
            votes[number, i], votes[number, j] = 1, -1
            none[j] += 1
        return table, votes, none

    def scores(self, b: Tables, decisions: SSAValue, a: Mapping[str, Any], classes: int, t: Attribute) -> SSAValue:
        kind = a["post_transform"]
        if a["prob_a"]:
            wide = b.cast(decisions, f64)
            slopes, offsets = (b.table(np.array(a[k] or [0.0]), f64) for k in ("prob_a", "prob_b"))
            likely = b.op(onnx.SigmoidOp, b.op(onnx.NegOp, b.add(b.mul(wide, slopes), offsets)))
            bounds = (b.table(np.array(v), f64) for v in (1e-7, 1 - 1e-7))
            coupled = b.own("Couple", [b.op(onnx.ClipOp, likely, *bounds)], classes=classes)
            return b.transformed(coupled, kind, f64)
        if classes == 2:
            both = b.two_columns(b.op(onnx.NegOp, decisions), decisions)
            return b.transformed(both, kind if kind != "PROBIT" else "NONE", t)  # no number has two quantiles
        return b.transformed(decisions, kind, t)


# Large tables


class ExpandLinear(Learned):
    """LinearRegressor(x), LinearClassifier(x) with a large table, or of an unknown number of columns  ->
    x @ coefficients + intercepts
    """

    root = (onnx.MlLinearRegressorOp, onnx.MlLinearClassifierOp)

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(is_large(attributes["coefficients"], attributes["intercepts"]) or x.get_shape()[-1] < 0)
        require(not attributes.get("classlabels_strings"))
        require(attributes["post_transform"] in TRANSFORMS)

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        rows, t = b.rows(x)
        labels, intercepts, kind = a.get("classlabels_ints"), a["intercepts"] or [0.0], a["post_transform"]
        flat = np.array(a["coefficients"], np.float64)
        count = a["targets"] if "targets" in a else len(a["intercepts"] or labels or [0])
        if "targets" not in a and not a["intercepts"] and len(labels or ()) == 2 and self.features(x) == len(flat):
            count = 1
        scores = self.product(b, rows, flat, count, self.features(x), t)
        scores = b.add(scores, b.table(np.array(intercepts), t))
        binary = "targets" not in a and count == 1 and len(labels or ()) == 2
        softmax = binary and kind in ("SOFTMAX", "SOFTMAX_ZERO")
        both = b.two_columns(b.sub(b.table(np.zeros(()), t), scores), scores) if softmax else scores
        table = b.transformed(both, kind, t)
        if "targets" in a:
            return [b.cast(table, f32)]
        if binary:
            above = b.op(onnx.GreaterOp, scores, b.table(np.zeros(()), t))
            chosen = b.op(onnx.ReshapeOp, b.cast(above, i64), b.ints([-1]))
            if not softmax:
                table = b.two_columns(b.sub(b.table(np.ones(()), t), table), table)
        else:
            chosen = b.op(onnx.ArgMaxOp, scores, attributes={"axis": 1, "keepdims": 0})
        return [b.labels(chosen, labels), b.cast(table, f32)]

    def product(
        self, b: Tables, rows: SSAValue, flat: Array, count: int, features: int | None, t: Attribute
    ) -> SSAValue:
        """[rows, count]; the first coefficients count, where there are more."""
        if features is not None:
            return b.product(rows, flat[: count * features].reshape(count, features).T, t)
        columns = b.op(onnx.ShapeOp, rows, attributes={"start": 1})
        used = b.op(onnx.SliceOp, b.table(flat, t), b.ints([0]), b.mul(columns, b.ints([count])), b.ints([0]))
        sizes = b.op(onnx.ConcatOp, b.ints([count]), columns, attributes={"axis": 0})
        matrix = b.op(onnx.ReshapeOp, used, sizes, attributes={"allowzero": 1})
        return b.op(onnx.MatMulOp, rows, b.op(onnx.TransposeOp, matrix))

    def features(self, x: SSAValue) -> int | None:
        assert isinstance(x.type, TensorType)
        size = x.type.get_shape()[-1]
        return size if size >= 0 else None


class ExpandScaler(Learned):
    """Scaler(x) with a large table  ->  (x - offset) * scale"""

    root = onnx.MlScalerOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(is_large(attributes["offset"], attributes["scale"]))

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        assert isinstance(x.type, TensorType)
        t = f32 if x.type.element_type == f32 else f64
        offset, scale = (b.table(np.array(a[k] or [d]), t) for k, d in (("offset", 0.0), ("scale", 1.0)))
        return [b.cast(b.mul(b.sub(b.cast(x, t), offset), scale), f32)]


class ExpandImputer(Learned):
    """Imputer(x) with a large table  ->  Where(x == replaced, values, x)"""

    root = onnx.MlImputerOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(is_large(attributes["imputed_value_floats"], attributes["imputed_value_int64s"]))

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        assert isinstance(x.type, TensorType)
        element = x.type.element_type
        is_float = element in (f32, f64)
        replaced = a["replaced_value_float" if is_float else "replaced_value_int64"]
        values = b.table(np.array(a["imputed_value_floats" if is_float else "imputed_value_int64s"]), element)
        if is_float and np.isnan(replaced):
            missing = b.op(onnx.IsNaNOp, x)
        else:
            missing = b.op(onnx.EqualOp, x, b.table(np.array(replaced), element))
        return [b.where(missing, values, x)]


class ExpandOneHot(Learned):
    """OneHotEncoder(x) with many categories  ->  x == categories

    Where an unknown category is an error, its place is beyond the categories, and nothing can be taken from there.
    """

    root = onnx.MlOneHotEncoderOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(is_large(attributes["cats_int64s"]))

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        categories = np.array(a["cats_int64s"], np.int64)
        cells = b.as_int64(x)
        column = b.op(onnx.UnsqueezeOp, cells, b.ints([-1]))
        here = b.cast(b.op(onnx.EqualOp, column, b.table(categories, i64)), f32)
        if a["zeros"]:
            return [here]
        absent = b.op(onnx.EqualOp, b.op(onnx.ReduceMaxOp, here, b.ints([-1])), b.table(np.zeros(()), f32))
        place = b.where(absent, b.ints(len(categories)), b.ints(0))
        return [b.mul(here, b.op(onnx.GatherOp, b.table(np.ones(len(categories)), f32), place))]


class ExpandLabels(Learned):
    """LabelEncoder(x) with many keys  ->  Lookup(x, sorted keys, values)"""

    root = onnx.MlLabelEncoderOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        keys, values = (_listed(attributes, which) for which in ("keys", "values"))
        require(keys is not None and values is not None and len(keys) > LARGEST_TABLE // 4)

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        assert isinstance(x.type, TensorType)
        keys, values = _listed(a, "keys"), _listed(a, "values")
        assert keys is not None and values is not None
        default = a["default_tensor"]
        if default is not None:
            otherwise = np.asarray(default).reshape(-1)[0]
        elif a["values_tensor"] is not None:
            otherwise = -0.0 if values.dtype.kind == "f" else -1
        else:
            otherwise = a["default_float" if values.dtype.kind == "f" else "default_int64"]
        # of equal keys the last counts, and NaN is behind all numbers
        dtype = onnx.numpy_dtype(x.type.element_type)
        found, first = np.unique(keys.astype(dtype)[::-1], return_index=True)
        table = np.append(values[::-1][first], np.array(otherwise).astype(values.dtype))
        result = element_of_dtype(table.dtype)
        return [b.own("Lookup", [x, b.table(found, x.type.element_type), b.table(table, result)])]


def _listed(a: Mapping[str, Any], which: str) -> Array | None:
    """The numbers of `keys_*` or `values_*`; None for strings."""
    if (tensor := a[f"{which}_tensor"]) is not None:
        array = np.asarray(tensor).reshape(-1)
        return array if array.dtype.kind in "iuf" else None
    if a[f"{which}_int64s"]:
        return np.array(a[f"{which}_int64s"], np.int64)
    return np.array(a[f"{which}_floats"], np.float32) if a[f"{which}_floats"] else None


# n-grams


class ExpandTfIdf(Learned):
    """TfIdfVectorizer(x)  ->  NGrams(x, pool), times weights as the mode says"""

    root = onnx.TfIdfVectorizerOp

    def check(self, attributes: Mapping[str, Any], x: TensorType[Attribute]) -> None:
        require(attributes["pool_strings"] is None and attributes["mode"] in ("TF", "IDF", "TFIDF"))

    def expand(self, b: Tables, x: SSAValue, a: Mapping[str, Any]) -> Sequence[SSAValue]:
        shortest, longest, indexes = a["min_gram_length"], a["max_gram_length"], a["ngram_indexes"]
        grams = pool_grams(list(a["pool_int64s"] or ()), a["ngram_counts"], shortest, longest)
        ordered = sorted((len(g), np.array(g, np.int64).tolist(), indexes[number]) for g, number in grams.items())
        pool = np.zeros((len(ordered), longest + 1), np.int64)
        for row, (length, gram, column) in zip(pool, ordered):
            row[:length], row[-1] = gram, column
        lengths = np.searchsorted([length for length, _, _ in ordered], range(longest + 2))
        width = max(indexes) + 1
        operands = [b.as_int64(x), b.table(pool, i64), b.table(lengths, i64)]
        counts = b.own("NGrams", operands, columns=width, shortest=shortest, longest=longest, skips=a["max_skip_count"])
        if a["mode"] == "TF":
            return [counts]
        factor = np.ones(width, np.float32)
        if a["weights"] is not None:
            factor[list(indexes)] = a["weights"]
        weights = b.table(factor, f32)
        if a["mode"] == "IDF":
            none = b.table(np.zeros(()), f32)
            return [b.op(onnx.WhereOp, b.op(onnx.GreaterOp, counts, none), weights, none)]
        return [b.mul(counts, weights)]
