"""Tree ensembles of ai.onnx.ml as tables: the compiler's own operator `Trees`, and what follows it as ordinary ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, IntegerType, StringAttr, TensorType, f32, f64, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import Dim, dims_of, tensor_type
from ..dialects.dims.expression import as_dim
from ..semantics.custom import OWN_DOMAIN, POINTWISE, QUANTILE, TEMPLATE
from ..semantics.reference.ml_trees import (
    AGGREGATES,
    MODES,
    TRANSFORMS,
    Forest,
    children_of,
    either,
    flags_of,
    forest_of_nodes,
    member_sets,
    node_table,
)
from ..semantics.weights import WeightStore
from .constants import make_constant
from .driver import Pattern, PatternRewriter

Array = np.ndarray[Any, Any]

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))
_INT32 = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Ensemble:
    """A forest and the votes of its leaves: arrays of leaf, target and weight, one vote for each pair."""

    forest: Forest
    leaf: Array
    target: Array
    weight: Array
    targets: int
    aggregate: str
    base: Array | None


@dataclass(frozen=True)
class Questions:
    """A forest whose nodes all ask value <= threshold."""

    thresholds: Array
    features: Array
    yes: Array
    no: Array
    missing: Array


class Declined(Exception):
    """The op's form is not covered: it stays as it is."""


def at_most(thresholds: Array, dtype: np.dtype[Any]) -> Array:
    """The greatest value of the type that is not above each threshold."""
    near = thresholds.astype(dtype)
    return np.where(near.astype(np.float64) > thresholds, np.nextafter(near, dtype.type(-np.inf)), near)


def below(thresholds: Array, dtype: np.dtype[Any]) -> Array:
    """The greatest value of the type that is less than each threshold; NaN where there is none."""
    near = thresholds.astype(dtype)
    least = np.where(near == -np.inf, np.nan, np.nextafter(near, dtype.type(-np.inf))).astype(dtype)
    return np.where(near.astype(np.float64) < thresholds, near, least)


def questions(forest: Forest, dtype: np.dtype[Any]) -> Questions:
    """Every mode in terms of <=, for values of `dtype`: v < t as v <= the value below t, v > t as not v <= t.

    v == t asks twice, a set once for each member.
    """
    modes = forest.modes
    with np.errstate(all="ignore"):
        floor, under = at_most(forest.thresholds, dtype), below(forest.thresholds, dtype)
    thresholds = np.where(np.isin(modes, (LT, GTE)), under, floor)
    # of NaN each comparison but != is false, so nothing is exchanged
    swap = (np.isin(modes, (GTE, GT)) & ~np.isnan(forest.thresholds)) | (modes == NEQ)
    yes, no = np.where(swap, forest.no, forest.yes), np.where(swap, forest.yes, forest.no)
    missing = np.where(swap, ~forest.missing_is_yes & (modes != NEQ), forest.missing_is_yes)
    lists = Lists(thresholds.tolist(), forest.features.tolist(), yes.tolist(), no.tolist(), missing.tolist())
    for node in np.flatnonzero(np.isin(modes, (EQ, NEQ))):
        lists.equal(int(node), float(forest.thresholds[node]), dtype)
    for node in np.flatnonzero(modes == MEMBER):
        lists.member(int(node), [float(v) for v in forest.members[int(node)]], dtype)
    return Questions(
        np.array(lists.thresholds, dtype),
        np.array(lists.features, np.int64),
        np.array(lists.yes, np.int64),
        np.array(lists.no, np.int64),
        np.array(lists.missing, np.bool_),
    )


@dataclass(frozen=True)
class Lists:
    """The nodes while some are added."""

    thresholds: list[float]
    features: list[int]
    yes: list[int]
    no: list[int]
    missing: list[bool]

    def copy(self, node: int) -> int:
        """A new node like this one."""
        self.thresholds.append(self.thresholds[node])
        self.features.append(self.features[node])
        self.yes.append(self.yes[node])
        self.no.append(self.no[node])
        self.missing.append(self.missing[node])
        return len(self.features) - 1

    def equal(self, node: int, value: float, dtype: np.dtype[Any]) -> None:
        """Makes the node ask whether a value is equal: not above, and not below."""
        bounds = np.array([value])
        with np.errstate(all="ignore"):
            self.thresholds[node] = float(at_most(bounds, dtype)[0])
            again = self.copy(node)
            self.thresholds[again] = float(below(bounds, dtype)[0])
        self.yes[again], self.no[again] = self.no[node], self.yes[node]
        self.missing[again] = False
        self.yes[node] = again

    def member(self, node: int, values: Sequence[float], dtype: np.dtype[Any]) -> None:
        """Makes the node ask for one member, and new nodes behind it for the others."""
        at = node
        for value in values[:-1]:
            following = self.copy(at)
            self.no[at] = following
            self.equal(at, value, dtype)
            at = following
        self.equal(at, values[-1] if values else float("nan"), dtype)


def has_cycle(q: Questions, roots: Array) -> bool:
    """Whether some walk never ends."""
    front = np.unique(roots[roots >= 0])
    for _ in range(len(q.yes) + 1):
        if not front.size:
            return False
        after = np.concatenate([q.yes[front], q.no[front]])
        front = np.unique(after[after >= 0])
    return True


def merged(leaf: Array, target: Array, weight: Array, aggregate: str) -> tuple[Array, Array, Array]:
    """The votes by leaf and target, with one for each pair."""
    if not leaf.size:
        return leaf, target, weight
    wide = int(target.max()) + 1
    keys, place = np.unique(leaf * wide + target, return_inverse=True)
    if aggregate in ("MIN", "MAX"):
        total = np.full(len(keys), np.inf if aggregate == "MIN" else -np.inf)
        (np.minimum if aggregate == "MIN" else np.maximum).at(total, place, weight)
    else:
        total = np.zeros(len(keys))
        np.add.at(total, place, weight)
    return keys // wide, keys % wide, total


@dataclass(frozen=True)
class LowerTrees(Pattern):
    """TreeEnsemble(x)  ->  transform(Trees(x, tables)),  and of a classifier's scores the label.

    Declines for tables that are not well formed, and x that is not a matrix of numbers.
    """

    weights: WeightStore

    root = (onnx.MlTreeEnsembleOp, onnx.MlTreeEnsembleRegressorOp, onnx.MlTreeEnsembleClassifierOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        try:
            values = Lowering(op, rewriter, self.weights).run()
        except (Declined, ValueError, KeyError, IndexError):  # what the tables' own reader does not take
            return
        for made in values.ops:
            rewriter.insert(made)
        rewriter.replace(op, values.results)


@dataclass(frozen=True)
class Lowered:
    """The new ops in order, and what replaces the op's results."""

    ops: list[Operation]
    results: list[SSAValue | None]


class Lowering:
    """One op being rewritten; nothing is inserted before all of it has succeeded."""

    def __init__(self, op: onnx.OnnxOp, rewriter: PatternRewriter, weights: WeightStore) -> None:
        self.op, self.weights = op, weights
        x = op.operand_at(0)
        assert x is not None
        self.x = x
        if not isinstance(x.type, TensorType) or len(dims_of(x)) != 2:
            raise Declined
        self.element = x.type.element_type
        if self.element not in (f32, f64, i64, IntegerType(32)) and str(self.element) != "f16":
            raise Declined
        self.dtype = np.dtype(np.float32 if str(self.element) in ("f32", "f16") else np.float64)
        self.rows, self.columns = dims_of(x)
        self.ops: list[Operation] = []

    def run(self) -> Lowered:
        results: list[SSAValue | None]
        if isinstance(self.op, onnx.MlTreeEnsembleClassifierOp):
            results = self.classifier()
        elif isinstance(self.op, onnx.MlTreeEnsembleRegressorOp):
            results = [self.scores(self.regressor(), self.transform_name(), f32)]
        else:
            results = [self.scores(self.ensemble(), self.transform_name(), self.element)]
        return Lowered(self.ops, results)

    # Attributes

    def plain(self, name: str) -> Any:
        """An attribute, or None; long lists are weights."""
        value = onnx.attr(self.op, name)
        if isinstance(value, onnx.WeightAttr):
            array = self.weights.get(value)
            return array if self.op.SCHEMA.attributes[name].kind == "TENSOR" else array.tolist()
        if isinstance(value, Attribute):
            raise Declined
        return value

    def transform_name(self) -> str:
        given = self.plain("post_transform")
        name = TRANSFORMS[given] if isinstance(given, int) else given
        if name not in TRANSFORMS:
            raise Declined
        return name

    def numbers(self, name: str) -> Array:
        return either(self.plain(f"{name}_as_tensor"), self.plain(name))

    def ensemble(self) -> Ensemble:
        """Of TreeEnsemble."""
        modes = np.asarray(self.plain("nodes_modes"), np.int64).reshape(-1)
        forest = Forest(
            roots=np.array(self.plain("tree_roots"), np.int64),
            features=np.array(self.plain("nodes_featureids"), np.int64),
            thresholds=np.asarray(self.plain("nodes_splits")).astype(np.float64).reshape(-1),
            modes=modes,
            yes=children_of(self.plain("nodes_truenodeids"), self.plain("nodes_trueleafs")),
            no=children_of(self.plain("nodes_falsenodeids"), self.plain("nodes_falseleafs")),
            missing_is_yes=flags_of(self.plain("nodes_missing_value_tracks_true"), len(modes)),
            members=member_sets(modes, self.plain("membership_values")),
        )
        target = np.array(self.plain("leaf_targetids"), np.int64)
        weight = np.asarray(self.plain("leaf_weights")).astype(np.float64).reshape(-1)
        targets = self.plain("n_targets")
        count = targets if targets is not None else int(target.max()) + 1
        aggregate = AGGREGATES[self.plain("aggregate_function")]
        return Ensemble(forest, np.arange(len(target)), target, weight, count, aggregate, None)

    def nodes(self, prefix: str) -> tuple[Forest, Array, Array, Array]:
        """Of the older operators: the forest and the votes."""
        forest, leaves = forest_of_nodes(
            self.plain("nodes_treeids"),
            self.plain("nodes_nodeids"),
            self.plain("nodes_featureids"),
            self.plain("nodes_modes"),
            self.numbers("nodes_values"),
            self.plain("nodes_truenodeids"),
            self.plain("nodes_falsenodeids"),
            self.plain("nodes_missing_value_tracks_true"),
        )
        names = zip(self.plain(f"{prefix}_treeids"), self.plain(f"{prefix}_nodeids"), strict=True)
        leaf = np.array([leaves[name] for name in names], np.int64)
        target = np.array(self.plain(f"{prefix}_ids"), np.int64)
        return forest, leaf, target, self.numbers(f"{prefix}_weights")

    def base(self, targets: int) -> Array | None:
        base = self.numbers("base_values")
        return np.broadcast_to(base, (targets,)) if base.size else None

    def regressor(self) -> Ensemble:
        """Of TreeEnsembleRegressor."""
        forest, leaf, target, weight = self.nodes("target")
        targets = self.plain("n_targets")
        count = targets if targets is not None else int(target.max()) + 1
        return Ensemble(forest, leaf, target, weight, count, self.plain("aggregate_function"), self.base(count))

    def classifier(self) -> list[SSAValue | None]:
        """Labels and scores of TreeEnsembleClassifier."""
        words, integers = self.plain("classlabels_strings"), self.plain("classlabels_int64s")
        classes = len(words or integers or ())
        transform = self.transform_name()
        forest, leaf, target, weight = self.nodes("class")
        if not classes:
            raise Declined
        if classes == 2 and len(np.unique(target)) == 1:
            chosen, table = self.binary(forest, leaf, weight, transform)
        else:
            ensemble = Ensemble(forest, leaf, target, weight, classes, "SUM", self.base(classes))
            raw = self.trees(ensemble, f64)
            chosen = self.add(onnx.ArgMaxOp, [raw], [self.rows], i64, axis=1, keepdims=0)
            table = self.transformed(raw, transform, [self.rows, as_dim(classes)])
        scores = self.cast(table, [self.rows, as_dim(classes)], f32)
        return [self.labels(chosen, words, integers), scores]

    def binary(self, forest: Forest, leaf: Array, weight: Array, transform: str) -> tuple[SSAValue, SSAValue]:
        """The place of the label and two columns of scores, from votes for one of two classes."""
        base = self.numbers("base_values")
        ensemble = Ensemble(forest, leaf, np.zeros_like(leaf), weight, 1, "SUM", base[-1:] if base.size else None)
        column, pair = [self.rows, as_dim(1)], [self.rows, as_dim(2)]
        score = self.trees(ensemble, f64)
        probability = bool(np.all(weight >= 0))
        limit = self.constant(np.array(0.5 if probability else 0.0))
        above = self.add(onnx.GreaterOp, [score, limit], column, i1)
        chosen = self.add(onnx.CastOp, [above], column, i64, to=7)
        axes = self.constant(np.array([1], np.int64))
        chosen = self.add(onnx.SqueezeOp, [chosen, axes], [self.rows], i64)
        if transform != "LOGISTIC" and probability:
            other = self.add(onnx.SubOp, [self.constant(np.array(1.0)), score], column, f64)
        else:
            other = self.add(onnx.NegOp, [score], column, f64)
        table = self.add(onnx.ConcatOp, [other, score], pair, f64, axis=1)
        if transform == "PROBIT" and not probability:  # no number and its negative have quantiles
            transform = "NONE"
        return chosen, self.transformed(table, transform, pair)

    def labels(self, chosen: SSAValue, words: Sequence[str] | None, integers: Sequence[int] | None) -> SSAValue | None:
        result = self.op.result_at(0)
        if result is None or not result.uses.get_length():
            return None
        if words:
            encoder = onnx.MlLabelEncoderOp.make(
                [chosen], {"keys_int64s": list(range(len(words))), "values_strings": list(words)}, [result.type]
            )
            self.ops.append(encoder)
            return encoder.results[0]
        assert integers
        if list(integers) == list(range(len(integers))):
            return chosen
        table = self.constant(np.array(integers, np.int64))
        return self.add(onnx.GatherOp, [table, chosen], [self.rows], i64)

    # Building

    def add(
        self,
        cls: type[onnx.OnnxOp],
        operands: Sequence[SSAValue],
        dims: Sequence[Dim],
        element: Attribute,
        **attributes: Any,
    ) -> SSAValue:
        op = cls.make(list(operands), attributes, [tensor_type(element, dims)])
        self.ops.append(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        element = {"f": f32, "d": f64, "i": IntegerType(32), "l": i64}[array.dtype.char]
        made = make_constant(array, tensor_type(element, array.shape), self.weights)
        self.ops.append(made)
        return made.results[0]

    def scores(self, ensemble: Ensemble, transform: str, element: Attribute) -> SSAValue:
        """The regressors' result."""
        dims = [self.rows, as_dim(ensemble.targets)]
        plain = transform == "NONE" and element != f64
        raw = self.trees(ensemble, f32 if plain else f64)
        if plain:
            return raw if element == f32 else self.cast(raw, dims, element)
        table = self.transformed(raw, transform, dims)
        if str(element) == "f16":
            table = self.cast(table, dims, f32)
        return self.cast(table, dims, element)

    def cast(self, value: SSAValue, dims: Sequence[Dim], element: Attribute) -> SSAValue:
        assert isinstance(value.type, TensorType)
        if value.type.element_type == element:
            return value
        return self.add(onnx.CastOp, [value], dims, element, to={"f32": 1, "f16": 10, "f64": 11}[str(element)])

    def transformed(self, scores: SSAValue, transform: str, dims: Sequence[Dim]) -> SSAValue:
        """The post transform in float64."""
        if transform == "LOGISTIC":
            return self.add(onnx.SigmoidOp, [scores], dims, f64)
        if transform == "SOFTMAX":
            return self.add(onnx.SoftmaxOp, [scores], dims, f64, axis=-1)
        if transform == "PROBIT":
            return self.own(QUANTILE, POINTWISE, [scores], {}, tensor_type(f64, dims))
        return scores if transform == "NONE" else self.softmax_zero(scores, dims)

    def softmax_zero(self, scores: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        """The softmax over the scores that are not 0."""
        column = [dims[0], as_dim(1)]
        zero, one = self.constant(np.array(0.0)), self.constant(np.array(1.0))
        axes = self.constant(np.array([1], np.int64))
        top = self.add(onnx.ReduceMaxOp, [scores, axes], column, f64, keepdims=1)
        powers = self.add(onnx.ExpOp, [self.add(onnx.SubOp, [scores, top], dims, f64)], dims, f64)
        absent = self.add(onnx.EqualOp, [scores, zero], dims, i1)
        e = self.add(onnx.WhereOp, [absent, zero, powers], dims, f64)
        total = self.add(onnx.ReduceSumOp, [e, axes], column, f64, keepdims=1)
        nothing = self.add(onnx.EqualOp, [total, zero], column, i1)
        divisor = self.add(onnx.WhereOp, [nothing, one, total], column, f64)
        return self.add(onnx.DivOp, [e, divisor], dims, f64)

    def trees(self, ensemble: Ensemble, element: Attribute) -> SSAValue:
        """The op `Trees` with its tables."""
        q = questions(ensemble.forest, self.dtype)
        leaf, target, weight = merged(ensemble.leaf, ensemble.target, ensemble.weight, ensemble.aggregate)
        leaves = self.checked(ensemble, q, leaf, target, weight)
        votes: list[SSAValue | None] = [None, None]
        if ensemble.targets == 1 and np.array_equal(leaf, np.arange(leaves)):
            pass
        else:
            first = np.searchsorted(leaf, np.arange(leaves + 1))
            votes = [self.constant(first.astype(np.int32)), self.constant(target.astype(np.int32))]
        single = weight.astype(np.float32)
        features, negated, nodes = node_table(ensemble.forest.roots, q.features, q.thresholds, q.yes, q.no, q.missing)
        operands = [
            self.x,
            self.constant(features.astype(np.int32)),
            self.constant(nodes),
            *votes,
            self.constant(single if np.array_equal(single, weight) else weight),
            None if ensemble.base is None else self.constant(np.array(ensemble.base, np.float64)),
        ]
        attributes: dict[str, Attribute] = {
            "trees": IntegerAttr(len(ensemble.forest.roots), i64),
            "targets": IntegerAttr(ensemble.targets, i64),
            "aggregate": StringAttr(ensemble.aggregate),
            "negated": IntegerAttr(negated, i64),
            "greatest_feature": IntegerAttr(int(q.features.max(initial=0)), i64),
            "double_result": IntegerAttr(int(element == f64), i64),
        }
        if operands[-1] is None:
            operands.pop()
        type_ = tensor_type(element, [self.rows, as_dim(ensemble.targets)])
        return self.own("Trees", TEMPLATE, operands, attributes, type_)

    def own(
        self,
        name: str,
        kind: str,
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, Attribute],
        type_: Attribute,
    ) -> SSAValue:
        """An operator of the compiler's own."""
        properties: dict[str, Attribute] = {
            "domain": onnx.string_attr(OWN_DOMAIN),
            "op_type": onnx.string_attr(name),
            "attributes": DictionaryAttr(attributes),
            "kind": StringAttr(kind),
        }
        op = onnx.CustomOp.build_at(properties, operands, [type_])
        self.ops.append(op)
        return op.results[0]

    def checked(self, ensemble: Ensemble, q: Questions, leaf: Array, target: Array, weight: Array) -> int:
        """The number of leaves.  Raises Declined for tables with which a walk would go astray."""
        roots, nodes = ensemble.forest.roots, len(q.features)
        places = np.concatenate([q.yes, q.no, roots])
        leaves = int(max(leaf.max(initial=-1), (-1 - places).max(initial=-1))) + 1
        widths = {len(q.thresholds), len(q.yes), len(q.no), len(q.missing), nodes}
        sound = (
            len(roots) > 0
            and leaves > 0
            and weight.size > 0
            and len(widths) == 1
            and places.max(initial=-1) < nodes
            and q.features.min(initial=0) >= 0
            and max(int(q.features.max(initial=0)), nodes, leaves, len(weight), len(roots)) < _INT32 // 8
            and target.min(initial=0) >= 0
            and target.max(initial=0) < ensemble.targets
            and not has_cycle(q, roots)
        )
        if ensemble.aggregate not in AGGREGATES or (ensemble.aggregate in ("MIN", "MAX") and np.isnan(weight).any()):
            sound = False
        if self.columns.is_const and self.columns.value <= q.features.max(initial=0):
            sound = False
        if not sound:
            raise Declined
        return leaves
