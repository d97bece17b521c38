"""ai.onnx.ml: tree ensembles.  All trees and rows advance together, one level a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .dtypes import Array, double, narrow
from .mathematics import Function
from .ml_scores import binary_scores, delivered, labels_of, post_transform
from .special import normal_quantile

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# row-tree pairs that are followed at once
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Forest:
    """Inner nodes as parallel arrays; a child below 0 is the leaf -1 - child."""

    roots: Array
    features: Array
    thresholds: Array
    modes: Array
    yes: Array
    no: Array
    missing_is_yes: Array
    members: dict[int, Array]
    """The set of each node with mode BRANCH_MEMBER."""

    def leaves(self, x: Array) -> Array:
        """The leaf that each row of float64 `x` reaches in each tree, [N, trees]."""
        step = max(_BLOCK // max(len(self.roots), 1), 1)
        parts = [self._leaves(x[i : i + step]) for i in range(0, len(x), step)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.roots)), np.int64)

    def _leaves(self, x: Array) -> Array:
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).reshape(-1).copy()
        row = np.repeat(np.arange(len(x)), len(self.roots))
        open_ = np.flatnonzero(at >= 0)
        for _ in range(len(self.features) + 1):
            if not open_.size:
                return (-1 - at).reshape(len(x), len(self.roots))
            node = at[open_]
            at[open_] = np.where(self._answers(node, x[row[open_], self.features[node]]), self.yes[node], self.no[node])
            open_ = open_[at[open_] >= 0]
        raise ValueError("a tree has a cycle")

    def _answers(self, node: Array, value: Array) -> Array:
        threshold, mode = self.thresholds[node], self.modes[node]
        answer = np.zeros(len(node), np.bool_)
        tests = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
        for number in np.unique(mode):
            chosen = mode == number
            if number == 6:
                for n in np.unique(node[chosen]):
                    here = node == n
                    answer[here] = np.isin(value[here], self.members[int(n)])
            else:
                answer[chosen] = tests[int(number)](value[chosen], threshold[chosen])
        return np.where(np.isnan(value), self.missing_is_yes[node] | (answer & (mode == 5)), answer)


def _aggregate(votes: Array, voted: Array, how: str, trees: int) -> Array:
    """[N, votes] summed, or least or greatest, over the last axis; `voted` says which count."""
    if how in ("SUM", "AVERAGE"):
        total = np.sum(np.where(voted, votes, 0.0), axis=-1)
        return total / trees if how == "AVERAGE" else total
    least = how == "MIN"
    empty = ~np.any(voted, axis=-1)
    filled = np.where(voted, votes, np.inf if least else -np.inf)
    return np.where(empty, 0.0, filled.min(axis=-1) if least else filled.max(axis=-1))


@dataclass(frozen=True)
class Votes:
    """What leaves contribute: parallel arrays of leaf, target and weight."""

    leaf: Array
    target: Array
    weight: Array

    def scores(self, leaves: Array, targets: int, how: str) -> tuple[Array, Array]:
        """[N, targets] aggregated over the trees, and whether anything contributed."""
        rows, trees = leaves.shape
        scores, any_vote = np.zeros((rows, targets)), np.zeros((rows, targets), np.bool_)
        last = int(max(leaves.max(initial=-1), self.leaf.max(initial=-1)))
        for target in range(targets):
            mine = self.target == target
            weight, votes = np.zeros(last + 1), np.zeros(last + 1, np.bool_)
            if how in ("MIN", "MAX"):
                (np.minimum if how == "MIN" else np.maximum).at(
                    start := np.full(last + 1, np.inf if how == "MIN" else -np.inf), self.leaf[mine], self.weight[mine]
                )
                weight = start
            else:
                np.add.at(weight, self.leaf[mine], self.weight[mine])
            votes[self.leaf[mine]] = True
            voted = votes[leaves]
            scores[:, target] = _aggregate(weight[leaves], voted, how, trees)
            any_vote[:, target] = np.any(voted, axis=1)
        return scores, any_vote


def _features(x: Array) -> Array:
    return double(x.reshape(1, -1) if x.ndim == 1 else x)


def tree_ensemble(
    x: Array,
    /,
    *,
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    tree_roots: Sequence[int],
    aggregate_function: int = 1,
    membership_values: Array | None = None,
    n_targets: int | None = None,
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    post_transform: int = 0,
) -> Array:
    del nodes_hitrates  # a hint
    targets = n_targets if n_targets is not None else max(leaf_targetids) + 1
    modes = np.asarray(nodes_modes, dtype=np.int64)
    forest = Forest(
        roots=np.array(tree_roots, dtype=np.int64),
        features=np.array(nodes_featureids, dtype=np.int64),
        thresholds=double(nodes_splits),
        modes=modes,
        yes=children_of(nodes_truenodeids, nodes_trueleafs),
        no=children_of(nodes_falsenodeids, nodes_falseleafs),
        missing_is_yes=flags_of(nodes_missing_value_tracks_true, len(modes)),
        members=member_sets(modes, membership_values),
    )
    leaf_count = len(leaf_targetids)
    votes = Votes(np.arange(leaf_count), np.array(leaf_targetids, dtype=np.int64), double(leaf_weights))
    scores, _ = votes.scores(forest.leaves(_features(x)), targets, AGGREGATES[aggregate_function])
    return narrow(_transformed(scores, TRANSFORMS[post_transform]), x.dtype)


def _transformed(scores: Array, transform: str) -> Array:
    return post_transform(scores, transform)


def children_of(ids: Sequence[int], leafs: Sequence[int]) -> Array:
    places = np.array(ids, dtype=np.int64)
    return np.where(np.array(leafs, dtype=np.bool_), -1 - places, places)


def flags_of(flags: Sequence[int] | None, count: int) -> Array:
    return np.array(flags, dtype=np.bool_) if flags else np.zeros(count, np.bool_)


def member_sets(modes: Array, values: Array | None) -> dict[int, Array]:
    """NaN-delimited sets, in the order of the nodes that test for membership."""
    nodes = np.flatnonzero(modes == MODES.index("BRANCH_MEMBER"))
    if not nodes.size:
        return {}
    if values is None:
        raise ValueError("TreeEnsemble tests for membership without membership_values")
    flat = double(values).reshape(-1)
    cuts = np.flatnonzero(np.isnan(flat))
    sets = [part[~np.isnan(part)] for part in np.split(flat, cuts)]
    sets = sets if len(sets) == len(nodes) else sets[: len(nodes)]
    return {int(n): s for n, s in zip(nodes, sets, strict=True)}


def forest_of_nodes(
    tree_ids: Sequence[int],
    node_ids: Sequence[int],
    features: Sequence[int],
    modes: Sequence[str],
    thresholds: Array,
    yes: Sequence[int],
    no: Sequence[int],
    missing: Sequence[int] | None,
) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The forest of the older operators, and the leaf number of each leaf's (tree, node)."""
    names = list(zip(tree_ids, node_ids, strict=True))
    inner = {name: i for i, name in enumerate(n for n, m in zip(names, modes, strict=True) if m != "LEAF")}
    leaf = {name: i for i, name in enumerate(n for n, m in zip(names, modes, strict=True) if m == "LEAF")}

    def place(tree: int, node: int) -> int:
        return inner[tree, node] if (tree, node) in inner else -1 - leaf[tree, node]

    kept = np.array([m != "LEAF" for m in modes], dtype=np.bool_)
    trees = np.array(tree_ids, dtype=np.int64)
    links = zip(tree_ids, modes, yes, no, strict=True)
    children = {(tree, child) for tree, mode, *pair in links if mode != "LEAF" for child in pair}
    first: dict[int, tuple[int, int]] = {}
    for name in names:  # the root is the first node that is nobody's child
        if name not in children:
            first.setdefault(name[0], name)
    forest = Forest(
        roots=np.array([place(*name) for name in first.values()], dtype=np.int64),
        features=np.array(features, dtype=np.int64)[kept],
        thresholds=double(np.asarray(thresholds))[kept],
        modes=np.array([MODES.index(m) for m in modes if m != "LEAF"], dtype=np.int64),
        yes=np.array([place(int(t), c) for t, c, k in zip(trees, yes, kept, strict=True) if k], dtype=np.int64),
        no=np.array([place(int(t), c) for t, c, k in zip(trees, no, kept, strict=True) if k], dtype=np.int64),
        missing_is_yes=flags_of(missing, len(modes))[kept],
        members={},
    )
    return forest, leaf


def either(tensor: Array | None, floats: Sequence[float] | None) -> Array:
    return np.array(floats or (), dtype=np.float64) if tensor is None else double(tensor).reshape(-1)


def votes_of(
    leaf: dict[tuple[int, int], int], trees: Sequence[int], nodes: Sequence[int], targets: Sequence[int], weights: Array
) -> Votes:
    place = [leaf[name] for name in zip(trees, nodes, strict=True)]
    return Votes(np.array(place, dtype=np.int64), np.array(targets, dtype=np.int64), weights)


def tree_ensemble_regressor(
    x: Array,
    /,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] | None = None,
    base_values_as_tensor: Array | None = None,
    n_targets: int | None = None,
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[int] = (),
    target_nodeids: Sequence[int] = (),
    target_treeids: Sequence[int] = (),
    target_weights: Sequence[float] | None = None,
    target_weights_as_tensor: Array | None = None,
) -> Array:
    del nodes_hitrates, nodes_hitrates_as_tensor
    forest, leaf = forest_of_nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        nodes_modes,
        either(nodes_values_as_tensor, nodes_values),
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    weights = either(target_weights_as_tensor, target_weights)
    votes = votes_of(leaf, target_treeids, target_nodeids, target_ids, weights)
    targets = n_targets if n_targets is not None else max(target_ids, default=0) + 1
    scores, _ = votes.scores(forest.leaves(_features(x)), targets, aggregate_function)
    base = either(base_values_as_tensor, base_values)
    return delivered(_transformed(scores + base if base.size else scores, post_transform))


def tree_ensemble_classifier(
    x: Array,
    /,
    *,
    base_values: Sequence[float] | None = None,
    base_values_as_tensor: Array | None = None,
    class_ids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (),
    class_treeids: Sequence[int] = (),
    class_weights: Sequence[float] | None = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    """Labels and scores.

    Two classes of which only one gets votes are a binary model: its score is that of the second class.  A model whose
    weights are all positive then votes with probabilities, and the second class wins above 0.5; else it wins above 0.
    """
    del nodes_hitrates, nodes_hitrates_as_tensor
    forest, leaf = forest_of_nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        nodes_modes,
        either(nodes_values_as_tensor, nodes_values),
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    weights = either(class_weights_as_tensor, class_weights)
    votes = votes_of(leaf, class_treeids, class_nodeids, class_ids, weights)
    classes = len(classlabels_strings or classlabels_int64s or ())
    scores, _ = votes.scores(forest.leaves(_features(x)), classes, "SUM")
    base = either(base_values_as_tensor, base_values)
    if classes == 2 and len(set(class_ids)) == 1:
        score = scores[:, class_ids[0]] + (base[-1] if base.size else 0.0)
        positive = bool(np.all(weights >= 0))
        chosen = (score > (0.5 if positive else 0.0)).astype(np.int64)
        table = binary_scores(score, post_transform, positive)
    else:
        scores = scores + base if base.size else scores
        chosen, table = np.argmax(scores, axis=1), _transformed(scores, post_transform)
    return labels_of(chosen, classlabels_strings, classlabels_int64s), delivered(table)


def quantile(p: Array, /) -> Array:
    """The normal quantile of probabilities."""
    return narrow(normal_quantile(p), p.dtype)


def lowered_trees(
    x: Array,
    features: Array,
    nodes: Array,
    first: Array | None,
    targets_of: Array | None,
    weights: Array,
    base: Array | None = None,
    /,
    *,
    trees: int,
    targets: int,
    negated: int = 0,
    aggregate: str = "SUM",
    greatest_feature: int = 0,
    double_result: int = 0,
) -> Array:
    """The compiler's own form of the ensembles.

    Of each row the slots 0, x[features[0]], x[features[1]], ... are taken, the last `negated` of them negated.  `nodes`
    [2 n] in int64 has two words for each node, the roots' first, as `node_table` makes them.  Leaf l has the votes
    first[l] to first[l + 1]; without `first` leaf l is one vote for target 0.  Results are [N, targets] in float32 or
    float64; no transform is applied.
    """
    del greatest_feature  # what the table's readers would have to look for
    slots = np.pad(double(x)[:, features], ((0, 0), (1, 0)))
    slots[:, slots.shape[1] - negated :] *= -1
    words = nodes[1::2]
    asked, children = words & _LOW, words >> 33
    places = np.where(asked == 0, -1 - (nodes[0::2] & _LOW), np.arange(len(words)))
    forest = Forest(
        roots=places[:trees],
        features=asked,
        thresholds=nodes[0::2].copy().view(np.float64),
        modes=np.zeros(len(words), np.int64),
        yes=places[np.maximum(children, 0)],
        no=places[children + 1],
        missing_is_yes=np.zeros(len(words), np.bool_),
        members={},
    )
    if first is None or targets_of is None:
        votes = Votes(np.arange(len(weights)), np.zeros(len(weights), np.int64), double(weights))
    else:
        leaf = np.repeat(np.arange(len(first) - 1), np.diff(first))
        votes = Votes(leaf, targets_of.astype(np.int64), double(weights))
    scores, _ = votes.scores(forest.leaves(slots), targets, aggregate)
    total = scores if base is None else scores + base
    return total if double_result else delivered(total)


_LOW = (1 << 32) - 1
_NAN = 0x7FF8 << 48


def node_table(
    roots: Array, features: Array, thresholds: Array, yes: Array, no: Array, missing_is_yes: Array
) -> tuple[Array, int, Array]:
    """Features, how many of them are negated, and nodes, as `lowered_trees` reads them, of inner nodes as arrays.

    A child below 0 is the leaf -1 - child.  Every node asks x[feature] <= threshold.  In the table it asks whether a
    slot is at most a threshold, and goes to its first child, else, or where the slot is NaN, to the one behind it.  A
    node where NaN means yes asks for the negated feature, with its children exchanged: x <= t where -x is above the
    number below -t.

    A node's first word has the bits of its threshold in float64; its second word in the low half its slot, from 1 on,
    and in the high half where the first child's words begin.  The slot of a leaf is 0, its threshold is a NaN with the
    leaf's number in the low half, and its child is the node before it, so that it leads to itself.
    """
    features, thresholds = features.astype(np.int64), double(thresholds)
    with np.errstate(invalid="ignore", over="ignore"):
        under = np.nextafter(-thresholds, -np.inf)
    under = np.where(thresholds == np.inf, np.nan, np.where(np.isnan(thresholds), np.inf, under))
    used, slots = np.unique(np.stack([missing_is_yes.astype(np.int64), features]), axis=1, return_inverse=True)
    pairs = np.where(missing_is_yes, [no, yes], [yes, no])
    places = np.concatenate([roots, pairs.T.reshape(-1)]).astype(np.int64)
    own = np.arange(len(places))
    table = np.stack([_NAN | (-1 - places), (own - 1) << 33], axis=1)
    inner, node = own[places >= 0], places[places >= 0]
    table[inner, 0] = np.where(missing_is_yes, under, thresholds).view(np.int64)[node]
    table[inner, 1] = ((len(roots) + 2 * node) << 33) | (slots.reshape(-1)[node] + 1)
    return used[1], int(used[0].sum()), table.reshape(-1)


ML_TREES: dict[str, Function] = {
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}

LOWERED: dict[str, Function] = {"Quantile": quantile, "Trees": lowered_trees}
"""The compiler's own operators, of the domain "sardonyx"."""
