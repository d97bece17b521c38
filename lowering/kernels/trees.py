"""Template "trees": decision trees over one table, one row after the other; the rows are in parallel.

Operands x [N, C], features [f], nodes [2 n] in int64, first [leaves + 1] and targets [votes] (both or neither), weights
[votes], base [targets] (may be absent), as `semantics.reference.ml_trees.lowered_trees` has them.  Attributes `trees`,
`negated` (how many features at the end are), `targets`, `aggregate` and `greatest_feature`.

The features that nodes ask for are read once for each row, in f64, into slots.  Some trees walk side by side, for a
walk is a chain of loads that wait for one another.  A node is two words in one cache line.  A leaf is a node that leads
to itself, so that walks of different lengths end together without a question for each.  Scores are sums in f64, in the
order of the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext
from .emit import F32, F64, Ix
from .operator import Operator

X, FEATURES, NODES, FIRST, TARGETS, WEIGHTS, BASE = range(7)

SIDE_BY_SIDE = 12
"""Trees that walk at once: enough loads in flight to hide the first cache's latency."""

CYCLES_A_TREE = 40

LOW = (1 << 32) - 1


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator."""
    trees = Trees(context, op)
    e = trees.e
    grain = e.ix(e.grain_cycles // (CYCLES_A_TREE * trees.count) + 1)
    with e.parallel(trees.rows(), grain) as (lower, upper, thread):
        slots = context.scratch(F64, trees.features + 1, thread)
        e.store(e.constant(0.0, F64), slots, 0)
        scores = context.scratch(F64, trees.targets, thread) if trees.o.has(FIRST) else None
        with e.loop(lower, upper, nonempty=True) as rows:
            trees.fill(slots, rows.index)
            if scores is None:
                trees.single(rows.index, slots)
            else:
                trees.several(rows.index, slots, scores)


class Trees:
    """Reads the op, and emits the parts for one row."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.o = Operator(context, op)
        self.e = self.o.e
        self.columns = self.e.dim(self.o.dims(X)[1])
        self.count: int = self.o.attr("trees")
        self.features = self.o.dims(FEATURES)[0].value
        self.targets: int = self.o.attr("targets")
        self.aggregate: str = self.o.attr("aggregate", "SUM")
        self.buffers = {k: self.o.buffer(k) for k in range(7) if self.o.has(k)}
        self.result = self.o.result_buffer(0)

    def rows(self) -> Ix:
        """How many rows there are; none, with a report, where they lack a feature that a node asks for."""
        e, rows = self.e, self.e.dim(self.o.dims(X)[0])
        greatest: int = self.o.attr("greatest_feature")
        if self.columns.known is not None and self.columns.known > greatest:
            return rows
        inside = self.columns.compare("sgt", greatest)
        message = self.o.problem("the trees ask for the feature {0}; axis 1 of 'X' has size {1}")
        e.check(inside, "index", message, [e.ix(greatest).ssa, self.columns.ssa])
        return e.select_index(inside, rows, 0)

    # One row

    def fill(self, slots: SSAValue, row: Ix) -> None:
        """The features of a row from slot 1 on; the last ones negated."""
        e, start = self.e, row * self.columns
        plain = self.features - int(self.o.attr("negated"))
        for lower, upper in ((0, plain), (plain, self.features)):
            if lower == upper:
                continue
            with e.loop(lower, upper) as loop:
                value = e.load(self.buffers[X], start + e.load_index(self.buffers[FEATURES], loop.index))
                value = e.convert("extf" if self.o.kind(X).is_float else "sitofp", value, F64)
                e.store(value if lower == 0 and plain else e.sub(e.constant(0.0, F64), value), slots, loop.index + 1)

    def single(self, row: Ix, slots: SSAValue) -> None:
        """Leaves that are one vote for the only target: the score stays in a register."""

        def vote(leaf: Ix, score: SSAValue) -> SSAValue:
            return self.combined(score, self.weight(leaf))

        [score] = self.over_trees(slots, [self.start()], lambda leaf, scores: [vote(leaf, scores[0])])
        self.deliver(score, row, self.e.ix(0))

    def several(self, row: Ix, slots: SSAValue, scores: SSAValue) -> None:
        """Leaves with votes for any targets."""
        e = self.e
        with e.loop(0, self.targets) as loop:
            e.store(self.start(), scores, loop.index)

        def votes(leaf: Ix, _: Sequence[SSAValue]) -> list[SSAValue]:
            first = self.buffers[FIRST]
            with e.loop(e.load_index(first, leaf), e.load_index(first, leaf + 1)) as loop:
                target = e.load_index(self.buffers[TARGETS], loop.index)
                e.store(self.combined(e.load(scores, target), self.weight(loop.index)), scores, target)
            return []

        self.over_trees(slots, [], votes)
        with e.loop(0, self.targets) as loop:
            self.deliver(e.load(scores, loop.index), row, loop.index)

    def over_trees(
        self,
        slots: SSAValue,
        carried: Sequence[SSAValue],
        visit: Callable[[Ix, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """Visits the leaves of all trees in order."""
        values = carried
        rest = self.count % SIDE_BY_SIDE
        for lower, upper, step in ((0, self.count - rest, SIDE_BY_SIDE), (self.count - rest, self.count, rest)):
            if lower == upper:
                continue
            with self.e.loop(lower, upper, step, values) as loop:
                inner: Sequence[SSAValue] = loop.carried
                for leaf in self.leaves(slots, [loop.index + k for k in range(step)]):
                    inner = visit(leaf, inner)
                loop.carry(inner)
            values = loop.results
        return values

    def leaves(self, slots: SSAValue, trees: Sequence[Ix]) -> list[Ix]:
        """The leaves that are reached in these trees."""
        e = self.e

        def open_(state: tuple[SSAValue, ...]) -> SSAValue:
            """Whether a word asks for a slot: a leaf's asks for slot 0."""
            words = state[::2]
            either = words[0]
            for word in words[1:]:
                either = e.bits("or", either, word)
            return e.compare("ne", e.bits("and", either, e.constant(LOW, i64)), e.constant(0, i64))

        def step(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            pairs = zip(state[::2], state[1::2], strict=True)
            return [part for word, threshold in pairs for part in self.node(self.next(word, threshold, slots))]

        ends = e.while_([part for tree in trees for part in self.node(tree * 2)], open_, step)
        return [self.number(word) for word in ends[::2]]

    def node(self, place: Ix) -> tuple[SSAValue, SSAValue]:
        """A node's word and threshold."""
        e, nodes = self.e, self.buffers[NODES]
        return e.load(nodes, place + 1), e.convert("bitcast", e.load(nodes, place), F64)

    def next(self, word: SSAValue, threshold: SSAValue, slots: SSAValue) -> Ix:
        """Where the node is that comes next."""
        e = self.e
        value = e.load(slots, e.as_index(e.bits("and", word, e.constant(LOW, i64))))
        return self.child(word) + e.select_index(e.compare("ugt", value, threshold), 2, 0)

    def child(self, word: SSAValue) -> Ix:
        """Where the first child is."""
        return self.e.as_index(self.e.bits("shrsi", word, self.e.constant(32, i64)))

    def number(self, word: SSAValue) -> Ix:
        """The number of a leaf, of its word: in the low half of its threshold, a NaN."""
        threshold = self.e.load(self.buffers[NODES], self.child(word) + 2)
        return self.e.as_index(self.e.bits("and", threshold, self.e.constant(LOW, i64)))

    # Scores

    def start(self) -> SSAValue:
        """The score without any vote: of MIN and MAX a NaN, which no vote is."""
        return self.e.constant(nan if self.aggregate in ("MIN", "MAX") else 0.0, F64)

    def weight(self, vote: Ix) -> SSAValue:
        return self.e.convert("extf", self.e.load(self.buffers[WEIGHTS], vote), F64)

    def combined(self, score: SSAValue, weight: SSAValue) -> SSAValue:
        if self.aggregate in ("MIN", "MAX"):
            further = self.e.extremum("minimumf" if self.aggregate == "MIN" else "maximumf", score, weight)
            return self.e.select(self.e.compare("uno", score, score), weight, further)
        return self.e.add(score, weight)

    def deliver(self, score: SSAValue, row: Ix, target: Ix) -> None:
        """The average, or 0 where nobody voted, and the base value; rounded once."""
        e = self.e
        if self.aggregate == "AVERAGE":
            score = e.div(score, e.constant(self.count, F64))
        elif self.aggregate in ("MIN", "MAX"):
            score = e.select(e.compare("uno", score, score), e.constant(0.0, F64), score)
        if BASE in self.buffers:
            score = e.add(score, e.load(self.buffers[BASE], target))
        if self.o.result_kind(0).ir == F32:
            score = e.convert("truncf", score, F32)
        e.store(score, self.result, target + row * self.targets)
