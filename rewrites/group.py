"""Fusion: which operators run together as one kernel.  All of it is decided here, and nowhere below.

Operators are looked at in the block's order; each joins the groups of its producers where a rule allows it.  A group
is one of three shapes: a *loop* (pointwise and movement over one iteration space), *rows* (reductions over trailing
axes and what surrounds them, row by row), or a *template* with a prologue, loops that only make its operands, and an
epilogue, the pointwise operators behind it.
Every decision, taken or refused, has a reason from a closed set, and is recorded in the IR by `outline`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, dims_of
from ..dialects.dims.expression import DimError
from ..semantics.conditions import Condition
from ..semantics.facts import Facts
from ..semantics.kinds import TRANSCENDENTAL, VIEWS, Kind, is_view, kind_of
from .dependences import Dependences
from .found_sizes import most_of
from .groups import LOOPS, MOVED_ONCE, Group, has_epilogue, reads_rows, space, space_of, start_group
from .integer_products import element_of, is_byte
from .pass_views import is_swap
from .reasons import TAKEN, Decision, Reason
from .sink import INDEX_MAPS
from .turned import is_read_from_memory, is_turned, joins_last_axis
from .uses import bound_symbols, inputs_of
from .views import ONE, is_stretch, is_whole, product, small_constant

MAX_OPS = 96
MAX_INPUTS = 32
MAX_CONCAT = 8
MAX_EPILOGUE = 32
MAX_ROUNDS = 4
"""A merge can make room for another; past so many looks at all pairs, what is left stays apart."""
MAX_PARTS = 4
"""Of a value that more operators move than so many, the parts are made in one pass and not by those who read them."""
MAX_FACTS = 3
"""A pair that lacks more facts than these is not worth assuming them."""


@dataclass
class Grouping:
    """The groups of one block and the decisions that led to them."""

    block: Block
    native: Callable[[Operation], str | None]
    facts: Facts
    fuse: bool = True
    group_of: dict[Operation, Group] = field(default_factory=dict[Operation, Group])
    taken: list[Decision] = field(default_factory=list[Decision])
    refused: dict[tuple[Operation, Operation], Decision] = field(
        default_factory=dict[tuple[Operation, Operation], Decision]
    )
    grantable: frozenset[str] = frozenset()
    """The symbols that a caller can assume something of."""
    views: set[Operation] = field(default_factory=set[Operation])
    """Operators in front of all groups that move no element: they stay in the caller."""

    def __post_init__(self) -> None:
        self.dependences = Dependences(self.block)
        self.index = self.dependences.index

    def run(self) -> None:
        """Groups every native operator of the block: epilogues first, then each operator with its producers."""
        grouped = [op for op in self.block.ops if self.is_kernel_op(op)]
        for op in grouped:
            self.group_of[op] = start_group(op)
        if self.fuse:
            for op in grouped:
                if has_epilogue(op):
                    self.grow_epilogue(op)
            for op in grouped:
                if self.is_border_view(op):
                    self.views.add(op)
                    del self.group_of[op]
            for _ in range(MAX_ROUNDS):
                self.refused.clear()
                merged = [self.consider(producer, op) for op in grouped for producer in self.producers(op)]
                if not any(merged):
                    break
            for op in grouped:
                if op in self.group_of and self.is_loop(self.group_of[op]):
                    self.follow_template(self.group_of[op])
            self.join_siblings(grouped)
        self.leave_views(grouped)
        self.settle([op for op in grouped if op in self.group_of])
        for op in grouped:
            if op in self.group_of:
                self.group_of[op].ops.sort(key=self.index.__getitem__)

    def follow_template(self, group: Group) -> None:
        """Merges pointwise operators on parts of a template's result, or on it in another order, with the template.

        They (the gates of a cell, the batch in front of a recurrence's steps) run behind it, over what it has just
        made, where nothing else reads that.
        """
        makers = [p for op in group.ops for p in self.producers(op) if self.group_of[p].anchor is not None]
        first = self.group_of[makers[0]] if makers else None
        if first is None or any(self.group_of[p] is not first for p in makers) or any(map(bound_symbols, first.ops)):
            return
        if not all(runs_behind(op) for op in self.reached_from(first, group)):
            return
        views = self.views_between(first, group)
        if views is None or len(first.ops) + len(group.ops) > MAX_OPS:
            return
        if not any(type(op) in MOVED_ONCE for op in (*views, *group.ops)):
            return  # it would be in the epilogue, but for its size
        if self.dependences.has_path_between(first, group, self.group_of, views):
            return
        self.taken.append(Decision(makers[0], group.ops[0], Reason.BEHIND))
        for view in views:
            self.views.discard(view)
            self.group_of[view] = Group([view])
            self.merge(first, self.group_of[view])
        self.merge(first, group)

    def reached_from(self, p: Group, c: Group) -> list[Operation]:
        """The ops of `c` that read what `p` makes, directly or through others; the rest is made from elsewhere."""
        found: set[Operation] = set()
        for op in c.ops:
            owners = (self.behind_views(v).owner for v in op.operands)
            if any(isinstance(o, Operation) and (o in found or self.inside(o, p)) for o in owners):
                found.add(op)
        return [op for op in c.ops if op in found]

    def views_between(self, p: Group, c: Group) -> list[Operation] | None:
        """The views through which `c` reads all of what `p` makes; None where something else reads a part of it."""
        found: list[Operation] = []
        stack = self.outputs_of(p)
        while stack:
            for use in stack.pop().uses:
                user = use.operation
                if user in self.views and (type(user) in MOVED_ONCE or is_view(user)):
                    if user not in found:
                        found.append(user)
                        stack.extend(user.results)
                elif not self.inside(user, p, c):
                    return None
        return found

    def join_siblings(self, grouped: Sequence[Operation]) -> None:
        """Merges loops that move or compute elements of one value over the same space, and do not need each other."""
        for op in grouped:
            if op not in self.group_of or not self.is_loop(self.group_of[op]):
                continue
            for operand in op.operands:
                for use in list(operand.uses):
                    other = use.operation
                    if other not in self.group_of or self.index[other] <= self.index[op]:
                        continue
                    p, c = self.group_of[op], self.group_of[other]
                    if p is not c and small_constant(operand) is None and self.are_siblings(p, c):
                        self.taken.append(Decision(op, other, Reason.SIBLINGS))
                        self.merge(p, c)

    def is_loop(self, group: Group) -> bool:
        """Whether a group has one iteration space, and something to do in it."""
        return (
            group.anchor is None
            and group.rows is None
            and not group.closed
            and all(kind_of(op) in (Kind.POINTWISE, Kind.MOVEMENT) for op in group.ops)
            and not all(self.moves_nothing(op) for op in group.ops)
        )

    def are_siblings(self, p: Group, c: Group) -> bool:
        """Whether two groups that read the same value can be one: same space, small enough, no path between them."""
        return (
            self.is_loop(p)
            and self.is_loop(c)
            and self.unequal(space(p), space(c)) is None
            and len(p.ops) + len(c.ops) <= MAX_OPS
            and len(arguments_of([*p.ops, *c.ops])) + len(self.outputs_of(p)) + len(self.outputs_of(c)) <= MAX_INPUTS
            and not self.dependences.has_path_between(p, c, self.group_of)
            and not self.dependences.has_path_between(c, p, self.group_of)
        )

    def outputs_of(self, group: Group) -> list[SSAValue]:
        return self.live_values(set(group.ops))

    def leave_views(self, grouped: Sequence[Operation]) -> None:
        """Groups that move no element at all are no kernels."""
        for op in grouped:
            if op in self.group_of and all(self.moves_nothing(member) for member in self.group_of[op].ops):
                for member in self.group_of[op].ops:
                    self.views.add(member)
                    del self.group_of[member]

    def moves_nothing(self, op: Operation) -> bool:
        return bool(op.operands) and is_stretch(op, self.facts) and small_constant(op.operands[0]) is None

    def is_border_view(self, op: Operation) -> bool:
        """Whether an op only shows a part of what no loop computes: an input, a template's result, another view."""
        if not self.moves_nothing(op):
            return False
        owner = op.operands[0].owner
        return not isinstance(owner, Operation) or owner not in self.group_of or self.has_anchor(owner)

    def has_anchor(self, op: Operation) -> bool:
        return self.group_of[op].anchor is not None

    def is_view(self, op: Operation) -> bool:
        """Whether the op has its operand's elements in the same order and number."""
        return is_whole(op, self.facts)

    def grow_epilogue(self, anchor: Operation) -> None:
        """Takes the pointwise operators behind a template into its epilogue, up to the last place with one live value.

        In between there may be several: in x * sigmoid(x) the product's value has two users, but both are inside.
        """
        want = dims_of(anchor.results[0])
        members = [anchor]
        inside = {anchor}
        taken = 0
        waiting = self.users_of(anchor)
        while waiting and len(members) < MAX_EPILOGUE:
            op = heapq.heappop(waiting)[1]
            if op in inside or not self.may_follow(op, want) or self.is_reached_from_outside(inside, op):
                continue
            inside.add(op)
            members.append(op)
            for entry in self.users_of(op):
                heapq.heappush(waiting, entry)
            if self.live_values(inside) == [op.results[0]]:
                taken = len(members) - 1
        for op in members[1 : taken + 1]:
            self.taken.append(Decision(anchor, op, Reason.EPILOGUE))
            self.merge(self.group_of[anchor], self.group_of[op])

    def users_of(self, op: Operation) -> list[tuple[int, Operation]]:
        """The ops of this block that read an op's results, by place, as a heap."""
        found = {u.operation for r in op.results for u in r.uses if u.operation.parent is self.block}
        return sorted(((self.index[u], u) for u in found), key=lambda entry: entry[0])

    def may_follow(self, op: Operation, want: tuple[Dim, ...]) -> bool:
        """Whether an op can be part of an epilogue over these dims."""
        return (
            op in self.group_of
            and kind_of(op) is Kind.POINTWISE
            and len(self.group_of[op].ops) == 1
            and len(op.results) == 1
            and not is_widened_for_window(op)
            and self.unequal(dims_of(op.results[0]), want) is None
        )

    def is_reached_from_outside(self, inside: set[Operation], op: Operation) -> bool:
        """Whether some op outside stands on a path from the ops inside to `op`."""
        members = Group(sorted(inside, key=self.index.__getitem__))
        return self.dependences.has_path_between(members, Group([op]), self.group_of)

    def live_values(self, inside: set[Operation]) -> list[SSAValue]:
        """The values that are made inside and read outside."""
        return [r for op in inside for r in op.results if any(u.operation not in inside for u in r.uses)]

    def is_kernel_op(self, op: Operation) -> bool:
        """Whether the op runs inside a kernel: numeric, no control flow, and the lowering takes it."""
        kind = kind_of(op)
        if kind in (Kind.CONTROL, Kind.OTHER) or isinstance(op, dims.TensorOp):
            return False
        if most_of(op) is None:
            return False  # it would need room for results of a size that nothing bounds
        return self.native(op) is None

    def producers(self, op: Operation) -> list[Operation]:
        """The ops of this block that are grouped and feed `op`, nearest last in operand order."""
        found: list[Operation] = []
        for operand in op.operands if op in self.group_of else ():
            owner = self.behind_views(operand).owner
            if isinstance(owner, Operation) and owner in self.group_of and owner not in found:
                found.append(owner)
        # a template first: its epilogue is the best place for a consumer
        found.sort(key=lambda p: (self.group_of[p].anchor is None, self.group_of[p].rows is None, -self.index[p]))
        return found

    def behind_views(self, value: SSAValue) -> SSAValue:
        """What a value is, or is a view of."""
        while isinstance(value.owner, Operation) and value.owner in self.views:
            value = value.owner.operands[0]
        return value

    def consider(self, producer: Operation, consumer: Operation) -> bool:
        """Merges the two ops' groups where a rule allows it, and records the decision; says whether it merged."""
        p, c = self.group_of[producer], self.group_of[consumer]
        if p is c:
            return False
        reason, missing = self.judge_pair(p, c, producer, consumer)
        decision = Decision(producer, consumer, reason, missing)
        if reason not in TAKEN:
            self.refused[producer, consumer] = decision
            return False
        self.taken.append(decision)
        self.merge(p, c)
        return True

    def judge_pair(self, p: Group, c: Group, producer: Operation, consumer: Operation) -> tuple[Reason, str | None]:
        reason, missing = self.judge(p, c, producer, consumer)
        if reason in TAKEN and not any(v.owner is producer for v in consumer.operands):
            return Reason.VIEW, None
        return reason, missing

    def settle(self, grouped: Sequence[Operation]) -> None:
        """Leaves a decision for each pair of neighbours that stay apart, with the facts that would join them."""
        apart: dict[tuple[Operation, Operation], Decision] = {}
        for op in grouped:
            for producer in self.producers(op):
                if self.group_of[producer] is self.group_of[op]:
                    continue
                decision = self.refused.get((producer, op))
                if decision is None:
                    reason = self.judge_pair(self.group_of[producer], self.group_of[op], producer, op)[0]
                    decision = Decision(producer, op, Reason.UNFUSED if reason in TAKEN else reason)
                apart[producer, op] = self.with_facts(decision) if self.fuse else decision
        self.refused = apart

    def with_facts(self, decision: Decision) -> Decision:
        """The decision with all that a caller must assume so that the pair fuses, or without where nothing would."""
        missing = self.facts_to_fuse(decision) or self.facts_to_view(decision)
        return replace(decision, missing=missing)

    def facts_to_fuse(self, decision: Decision) -> str | None:
        """The facts with which a rule takes the pair, found one after the other."""
        p, c = self.group_of[decision.producer], self.group_of[decision.consumer]
        known, missing, needed = self.facts, decision.missing, list[str]()
        try:
            while missing and len(needed) < MAX_FACTS and self.can_assume(missing):
                needed.append(missing)
                self.facts = with_assumptions(known, needed)
                reason, missing = self.judge_pair(p, c, decision.producer, decision.consumer)
                if reason in TAKEN:
                    return None if self.is_empty(decision) else " and ".join(needed)
        except DimError:
            pass  # they contradict what is known
        finally:
            self.facts = known
        return None

    def is_empty(self, decision: Decision) -> bool:
        """Whether, with what is assumed, there is nothing to compute: no reason to fuse."""
        volume = product(dims_of(decision.consumer.results[0])) * product(dims_of(decision.producer.results[0]))
        return self.facts.prove_eq(volume, 0).answer is True

    def facts_to_view(self, decision: Decision) -> str | None:
        """A size of 1 with which one of the two moves no element, so that it is a view and no kernel."""
        for op in (decision.consumer, decision.producer):
            if kind_of(op) is not Kind.MOVEMENT or len(self.group_of[op].ops) > 1:
                continue
            for d in dims_of(op.operands[0]):
                condition = f"{d} == 1"
                if d.is_const or not self.can_assume(condition):
                    continue
                try:
                    if is_stretch(op, with_assumptions(self.facts, [condition])):
                        return condition
                except DimError:
                    continue
        return None

    def can_assume(self, condition: str) -> bool:
        parsed = Condition.parse(condition)
        return parsed.left.symbols | parsed.right.symbols <= self.grantable

    def merge(self, p: Group, c: Group) -> None:
        merged = p if p.anchor is not None or len(p.ops) >= len(c.ops) else c
        other = c if merged is p else p
        merged.anchor = p.anchor or c.anchor
        merged.rows = p.rows if p.rows is not None else c.rows
        merged.closed = p.closed or c.closed
        merged.ops = sorted((*merged.ops, *other.ops), key=self.index.__getitem__)
        for op in other.ops:
            self.group_of[op] = merged

    def judge(self, p: Group, c: Group, producer: Operation, consumer: Operation) -> tuple[Reason, str | None]:
        """The rule for a pair of groups joined by an edge from `producer` to `consumer`."""
        if p.anchor is not None and c.anchor is not None:
            if consumer is not c.anchor:
                return Reason.OTHER_KERNEL, None
            return (Reason.TWO_TEMPLATES if producer is p.anchor else Reason.TEMPLATE_INPUT), None
        if len(p.ops) + len(c.ops) > MAX_OPS or len(arguments_of([*p.ops, *c.ops])) > MAX_INPUTS:
            return Reason.SIZE, None
        if self.dependences.has_path_between(p, c, self.group_of):
            third = self.dependences.has_path_between(p, c, self.group_of, self.views)
            return (Reason.CYCLE if third else Reason.VIEW), None
        if c.anchor is not None:
            return self.judge_template_operand(p, c, producer, consumer)
        if p.anchor is not None:
            return self.judge_epilogue(p, c)
        turned = any(is_turned(op) and not self.moves_nothing(op) and is_read_from_memory(op, p) for op in p.ops)
        if turned and isinstance(consumer, onnx.ConcatOp) and not joins_last_axis(consumer):
            return Reason.TURNED, None
        if p.rows is not None or c.rows is not None or p.closed or c.closed:
            return self.judge_rows(p, c, producer, consumer)
        return self.judge_loops(p, c, producer, consumer)

    def judge_template_operand(
        self, p: Group, c: Group, producer: Operation, consumer: Operation
    ) -> tuple[Reason, str | None]:
        """The rule for what a template's group reads: as an operand, in its prologue, or in its epilogue."""
        anchor = c.anchor
        assert anchor is not None
        loops = p.rows is None and not p.closed and all(kind_of(op) in LOOPS for op in p.ops)
        if consumer is not anchor and consumer in self.prologue(c):
            if not loops:
                return (Reason.WINDOW if kind_of(producer) is Kind.WINDOW else Reason.MOVEMENT), None
            if not self.used_only_in(p, c):
                return Reason.USERS, None
            return self.judge_inlining(p, consumer)
        if any(use.operation is anchor for op in p.ops for r in op.results for use in r.uses):
            if self.is_read_swapped(p, anchor):
                return Reason.OPERAND, None
            if not loops:
                return Reason.TEMPLATE_INPUT, None
            if self.is_part_of_many(p):
                return Reason.PARTS, None
            if self.is_written_so(p):
                return Reason.WRITTEN, None
            return (Reason.PROLOGUE if self.used_only_in(p, c) else Reason.USERS), None
        if p.rows is not None or p.closed:
            return Reason.POINTWISE_ONLY, None
        if not self.used_only_in(p, c):
            return Reason.USERS, None
        return Reason.EPILOGUE, None  # of a smaller size, it is made before the template where that is cheaper

    def is_part_of_many(self, p: Group) -> bool:
        """Whether a group moves elements of a value of which many others move others: one pass makes all of them."""
        if any(kind_of(op) is not Kind.MOVEMENT for op in p.ops):
            return False
        sources = [v for v in inputs_of(p.ops) if not isinstance(v.owner, (onnx.InitializerOp, onnx.ConstantOp))]
        return any(
            len({u.operation for u in v.uses if kind_of(u.operation) is Kind.MOVEMENT}) > MAX_PARTS for v in sources
        )

    def is_written_so(self, p: Group) -> bool:
        """Whether a group only moves whole rows of an attention's result, which writes them with any strides."""
        moving = [op for op in p.ops if not self.moves_nothing(op)]
        if len(moving) != 1 or not isinstance(moving[0], onnx.TransposeOp) or is_turned(moving[0]):
            return False
        [source] = moving[0].operands
        made = source.owner
        if not isinstance(made, onnx.AttentionOp) or source is not made.results[0] or made not in self.group_of:
            return False
        first = self.group_of[made]
        alone = source.uses.get_length() == 1 and len(first.ops) + len(p.ops) <= MAX_OPS
        return alone and not any(map(bound_symbols, first.ops))

    def prologue(self, group: Group) -> list[Operation]:
        """The ops of a template's group that its operands are made by, in block order."""
        found: set[Operation] = set()
        stack: list[Operation] = [group.anchor] if group.anchor is not None else []
        while stack:
            op = stack.pop()
            found.add(op)
            stack += [v.owner for v in op.operands if isinstance(v.owner, Operation) and v.owner in group.ops]
        return [op for op in group.ops if op in found and op is not group.anchor]

    def is_read_swapped(self, p: Group, anchor: Operation) -> bool:
        """Whether a group only swaps the last two axes of a matrix product's operand, which reads it so as well."""
        [*rest, op] = p.ops
        if rest or not isinstance(op, onnx.TransposeOp) or not isinstance(anchor, (onnx.MatMulOp, onnx.GemmOp)):
            return False
        return is_swap(op) and all(use.operation is anchor for use in op.results[0].uses)

    def judge_epilogue(self, p: Group, c: Group) -> tuple[Reason, str | None]:
        anchor = p.anchor
        assert anchor is not None
        if not has_epilogue(anchor):
            return Reason.NO_EPILOGUE, None
        if any(kind_of(op) is not Kind.POINTWISE for op in c.ops):
            return Reason.POINTWISE_ONLY, None
        if is_widened_for_window(c.ops[0]):
            return Reason.WIDENED, None
        want = dims_of(anchor.results[0])
        for op in c.ops:
            if (missing := self.unequal(dims_of(op.results[0]), want)) is not None:
                return Reason.SHAPE, missing
        if not self.used_only_in(p, c):
            return Reason.USERS, None
        return Reason.EPILOGUE, None

    def judge_rows(self, p: Group, c: Group, producer: Operation, consumer: Operation) -> tuple[Reason, str | None]:
        if kind_of(consumer) is Kind.WINDOW or kind_of(producer) is Kind.WINDOW:
            return (Reason.WINDOW if kind_of(consumer) is Kind.WINDOW else Reason.WINDOW_RESULT), None
        if p.rows is None and not p.closed:  # a loop in front of a reduction
            if not self.used_only_in(p, c) and (c.closed or not self.outputs_fit(p, c, consumer)):
                return Reason.USERS, None
            if c.rows is not None and not all(self.may_be_read_in_rows(op) for op in p.ops):
                return Reason.MOVEMENT, None
            return Reason.PRODUCER, None
        if p.closed or c.closed:
            if c.rows is not None or c.closed:
                return Reason.AXES, None
            if any(kind_of(op) is not Kind.POINTWISE for op in c.ops):
                return Reason.MOVEMENT, None
            want = space_of(next(op for op in p.ops if kind_of(op) is Kind.REDUCTION))
            for op in c.ops:
                if (missing := self.unequal(dims_of(op.results[0]), want)) is not None:
                    return Reason.SHAPE, missing
            return (Reason.ROWS, None) if self.used_only_in(p, c) else (Reason.USERS, None)
        rows = p.rows
        assert rows is not None
        if not rows:
            return Reason.ALL_AXES, None
        if c.rows is not None and (missing := self.unequal(c.rows, rows)) is not None:
            return Reason.SHAPE, missing
        for op in c.ops:
            if kind_of(op) not in (Kind.POINTWISE, Kind.REDUCTION) and not self.keeps_rows(op, rows):
                return Reason.MOVEMENT, None
            if (missing := self.unequal(space_of(op)[: len(rows)], rows)) is not None:
                return Reason.SHAPE, missing
        return Reason.ROWS, None

    def judge_loops(self, p: Group, c: Group, producer: Operation, consumer: Operation) -> tuple[Reason, str | None]:
        if any(kind_of(op) is Kind.WINDOW for op in p.ops):
            return Reason.WINDOW_RESULT, None
        if kind_of(consumer) is Kind.WINDOW:
            if self.is_costly(p) or not all(reads_rows(op) or self.moves_nothing(op) for op in p.ops):
                return Reason.WINDOW, None
            return (Reason.PRODUCER if self.used_only_in(p, c) else Reason.USERS), None
        if isinstance(consumer, onnx.ConcatOp) and len(consumer.operands) > MAX_CONCAT:
            return Reason.SIZE, None
        goal = space(c)
        if not self.used_only_in(p, c):
            outputs = [r for op in p.ops for r in op.results if any(not self.inside(u.operation, p, c) for u in r.uses)]
            for value in outputs:
                if (missing := self.unequal(dims_of(value), goal)) is not None:
                    return Reason.USERS, missing
            if any(kind_of(op) is Kind.MOVEMENT for op in c.ops):
                return Reason.USERS, None
        return self.judge_inlining(p, consumer)

    def judge_inlining(self, p: Group, consumer: Operation) -> tuple[Reason, str | None]:
        """Whether loops may compute what `p` makes where `consumer` reads it, or in front, in the kernel's scratch."""
        if isinstance(consumer, (onnx.GatherOp, onnx.GatherElementsOp, onnx.GatherNDOp)) and self.is_costly(p):
            return Reason.RECOMPUTE, None
        return Reason.PRODUCER, None

    def outputs_fit(self, p: Group, c: Group, consumer: Operation) -> bool:
        """Whether what is needed elsewhere of `p` has the dims that the rows run over, so that it can be stored too."""
        goal = space_of(consumer, reads=True)
        return all(
            self.unequal(dims_of(r), goal) is None
            for op in p.ops
            for r in op.results
            if any(not self.inside(u.operation, p, c) for u in r.uses)
        )

    def may_be_read_in_rows(self, op: Operation) -> bool:
        """Whether a reduction may read through an op, row by row and maybe several times."""
        return kind_of(op) is not Kind.MOVEMENT or self.is_view(op) or type(op) in INDEX_MAPS or reads_rows(op)

    def keeps_rows(self, op: Operation, rows: tuple[Dim, ...]) -> bool:
        """A view that adds or drops axes of size 1 behind the rows: the leading dims stay where they are."""
        if type(op) not in VIEWS:
            return False
        source, result = dims_of(op.operands[0]), dims_of(op.results[0])
        if self.unequal(source[: len(rows)], rows) is not None or self.unequal(result[: len(rows)], rows) is not None:
            return False
        inner = [[d for d in shape[len(rows) :] if d is not ONE] for shape in (source, result)]
        return self.unequal(*inner) is None

    def inside(self, op: Operation, *groups: Group) -> bool:
        return any(self.group_of.get(op) is g for g in groups)

    def used_only_in(self, p: Group, c: Group) -> bool:
        return all(self.inside(u.operation, p, c) for op in p.ops for r in op.results for u in r.uses)

    def is_costly(self, group: Group) -> bool:
        work = [op for op in group.ops if not self.is_view(op)]
        return len(work) > 4 or any(type(op) in TRANSCENDENTAL for op in work)

    def unequal(self, left: Sequence[Dim], right: Sequence[Dim]) -> str | None:
        """None where the dims are proved equal; else the fact that would make them so (empty: they differ)."""
        if len(left) != len(right):
            return ""
        for a, b in zip(left, right, strict=True):
            if a is b:
                continue
            proof = self.facts.prove_eq(a, b)
            if proof.answer is not True:
                return "" if proof.answer is False else (proof.missing or f"{a} == {b}")
        return None


def arguments_of(ops: Sequence[Operation]) -> list[SSAValue]:
    """What a kernel of these ops reads; it holds small constants and sizes itself."""
    return [value for value in inputs_of(ops) if small_constant(value) is None]


def runs_behind(op: Operation) -> bool:
    """Whether an op may read parts of a template's result behind it."""
    return kind_of(op) is Kind.POINTWISE or type(op) in MOVED_ONCE or is_view(op)


def is_widened_for_window(first: Operation) -> bool:
    """Whether an op makes floats of bytes, for nothing but a convolution of one channel to a group, which may as well
    make them where it copies its input."""
    if not isinstance(first, (onnx.CastOp, onnx.DequantizeLinearOp)) or not is_byte(element_of(first.operands[0])):
        return False
    value: SSAValue = first.results[0]
    while value.has_one_use():
        [use] = value.uses
        op = use.operation
        if isinstance(op, onnx.ConvOp):
            return use.index == 0 and onnx.attr(op, "group") > 1 and dims_of(op.operands[1])[1] is ONE
        if kind_of(op) is not Kind.POINTWISE or len(op.results) != 1:
            return False
        value = op.results[0]
    return False


def with_assumptions(facts: Facts, conditions: Sequence[str]) -> Facts:
    """The facts and these; raises DimError where they cannot all hold."""
    more = facts.copy()
    for condition in conditions:
        more.assume(condition)
    return more
