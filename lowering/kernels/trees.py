"""Template "trees": decision trees over tables, one row after the other; the rows are in parallel.

Operands x [N, C], features [n], thresholds [n], children [2 n], roots [t], first [leaves + 1] and targets [votes] (both
or neither), weights [votes], base [targets] (may be absent), as `semantics.reference.ml_trees.lowered_trees` has them.
Attributes `targets`, `aggregate`, `missing` (whether a feature's lowest bit is ever set) and `greatest_feature`.

Some trees walk side by side, for a walk is a chain of loads that wait for one another.  Scores are sums in f64, in the
order of the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext
from .emit import F32, F64, Ix
from .operator import Operator

X, FEATURES, THRESHOLDS, CHILDREN, ROOTS, FIRST, TARGETS, WEIGHTS, BASE = range(9)

SIDE_BY_SIDE = 8
"""Trees that walk at once: enough loads in flight to hide the first cache's latency."""

CYCLES_A_TREE = 40

Leaf = Callable[[Ix, SSAValue], SSAValue]


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator."""
    trees = Trees(context, op)
    e = trees.e
    grain = e.ix(e.grain_cycles // (CYCLES_A_TREE * trees.count) + 1)
    with e.parallel(trees.rows(), grain) as (lower, upper, thread):
        if trees.o.has(FIRST):
            scores = context.scratch(F64, trees.targets, thread)
            with e.loop(lower, upper, nonempty=True) as rows:
                trees.several(rows.index, scores)
        else:
            with e.loop(lower, upper, nonempty=True) as rows:
                trees.single(rows.index)


class Trees:
    """Reads the op, and emits the parts for one row."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.o = Operator(context, op)
        self.e = self.o.e
        self.columns = self.e.dim(self.o.dims(X)[1])
        self.count = self.o.dims(ROOTS)[0].value
        self.targets: int = self.o.attr("targets")
        self.aggregate: str = self.o.attr("aggregate", "SUM")
        self.compared = self.o.kind(THRESHOLDS).ir
        self.buffers = {k: self.o.buffer(k) for k in range(9) if self.o.has(k)}
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

    def single(self, row: Ix) -> None:
        """Leaves that are one vote for the only target: the score stays in a register."""

        def vote(leaf: Ix, score: SSAValue) -> SSAValue:
            return self.combined(score, self.weight(leaf))

        [score] = self.over_trees(row, [self.start()], lambda leaf, scores: [vote(leaf, scores[0])])
        self.deliver(score, row, self.e.ix(0))

    def several(self, row: Ix, scores: SSAValue) -> None:
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

        self.over_trees(row, [], votes)
        with e.loop(0, self.targets) as loop:
            self.deliver(e.load(scores, loop.index), row, loop.index)

    def over_trees(
        self,
        row: Ix,
        carried: Sequence[SSAValue],
        visit: Callable[[Ix, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """Visits the leaves of all trees in order."""
        values = carried
        whole = self.count - self.count % SIDE_BY_SIDE
        for lower, upper, step in ((0, whole, SIDE_BY_SIDE), (whole, self.count, 1)):
            if lower == upper:
                continue
            with self.e.loop(lower, upper, step, values) as loop:
                inner: Sequence[SSAValue] = loop.carried
                for leaf in self.leaves(row, [loop.index + k for k in range(step)]):
                    inner = visit(leaf, inner)
                loop.carry(inner)
            values = loop.results
        return values

    def leaves(self, row: Ix, trees: Sequence[Ix]) -> list[Ix]:
        """The leaves that the row reaches in these trees."""
        e = self.e
        start = row * self.columns

        def open_(nodes: tuple[SSAValue, ...]) -> SSAValue:
            furthest = e.ix(nodes[0])
            for node in nodes[1:]:
                furthest = furthest.max(node)
            return furthest.compare("sge", 0)

        def step(nodes: tuple[SSAValue, ...]) -> list[SSAValue]:
            return [self.next(e.ix(node), start, len(nodes) > 1).ssa for node in nodes]

        ends = e.while_([e.load_index(self.buffers[ROOTS], t).ssa for t in trees], open_, step)
        return [e.ix(-1) - end for end in ends]

    def next(self, node: Ix, start: Ix, may_be_leaf: bool) -> Ix:
        """The child that a row goes to; a leaf stays where it is."""
        e = self.e
        at = node.max(0) if may_be_leaf else node
        coded = e.load(self.buffers[FEATURES], at)
        feature = e.as_index(e.bits("shrui", coded, e.constant(1, coded.type)))
        value = self.comparable(e.load(self.buffers[X], feature + start))
        answer = e.compare("ole", value, e.load(self.buffers[THRESHOLDS], at))
        if self.o.attr("missing", 0):
            tracked = e.compare("ne", e.bits("and", coded, e.constant(1, coded.type)), e.constant(0, coded.type))
            answer = e.bits("or", answer, e.both(e.compare("uno", value, value), tracked))
        child = e.load_index(self.buffers[CHILDREN], at * 2 + e.select_index(answer, 0, 1))
        return e.select_index(node.compare("sge", 0), child, node) if may_be_leaf else child

    def comparable(self, value: SSAValue) -> SSAValue:
        """An element of x in the thresholds' type."""
        kind = self.o.kind(X)
        return self.e.convert("extf" if kind.is_float else "sitofp", value, self.compared)

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
