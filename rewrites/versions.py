"""Two versions of neighbouring kernels, chosen by a fact on sizes that is tested when the model runs.

Where a pair of kernels would be one if a likely fact held (a batch of one, two inputs of one length), `main` tests it:
an `onnx.If` on a `dims.tensor` that is 1 where the fact holds runs the pair with the fact, or as it is without.  Both
compute every element in the same order of operations, so their results have the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, as_dim
from ..dialects.dims.expression import dim_max, dim_min
from ..semantics.conditions import Condition
from .driver import origins_of, set_origins
from .group import Grouping
from .reasons import Decision

VERSION = "kernel.version"
"""The attribute of an `onnx.If` that chooses between versions: the condition on which its `then_branch` relies."""
MAX_VERSIONS = 8
"""More tests of sizes than so many would be code that is seldom worth it."""

ONE = as_dim(1)


def version_pairs(grouping: Grouping, inputs: Sequence[SSAValue]) -> list[tuple[onnx.IfOp, str]]:
    """Puts pairs that lack a likely fact into both branches of an If on it; gives these and their conditions."""
    batches, sizes = likely_symbols(inputs)
    used: set[Operation] = set()
    made: list[tuple[onnx.IfOp, str]] = []
    for decision in list(grouping.refused.values()):
        if len(made) == MAX_VERSIONS or decision.missing is None or " and " in decision.missing:
            continue
        condition = Condition.parse(decision.missing)
        members = members_of(grouping, decision)
        if not is_likely(condition, batches, sizes) or used & members or not is_alone(grouping, decision, members):
            continue
        used |= members
        ops = sorted(members, key=grouping.index.__getitem__)
        made.append((choose(grouping.block, ops, condition), decision.missing))
    return made


def likely_symbols(inputs: Sequence[SSAValue]) -> tuple[frozenset[str], frozenset[str]]:
    """The symbols that are the first axis of half of the inputs or more, a batch; and all that are an axis of one."""
    shapes = [shape for v in inputs if isinstance(v.type, TensorType) and (shape := dims.dims_of(v))]
    first = Counter(str(shape[0]) for shape in shapes if is_symbol(shape[0]))
    batches = frozenset(name for name, count in first.items() if 2 * count >= len(shapes))
    return batches, frozenset(str(d) for s in shapes for d in s if is_symbol(d))


def is_symbol(d: Dim) -> bool:
    return d.atom is not None and d.atom.args is None


def is_likely(condition: Condition, batches: frozenset[str], sizes: frozenset[str]) -> bool:
    """A batch of one, or inputs whose sizes are equal, or broadcast to one of them."""
    if condition.op != "==":
        return False
    left, right = condition.left, condition.right
    if ONE in (left, right):
        return str(left if right is ONE else right) in batches
    return all(is_symbol(d) or is_broadcast(d) for d in (left, right)) and left.symbols | right.symbols <= sizes


def is_broadcast(d: Dim) -> bool:
    return d.atom is not None and d.atom.args is not None and d.atom.kind == "broadcast"


def members_of(grouping: Grouping, decision: Decision) -> set[Operation]:
    """The operators of both kernels of a pair, and the views between them."""
    p, c = grouping.group_of[decision.producer], grouping.group_of[decision.consumer]
    members = {*p.ops, *c.ops}
    for op in c.ops:
        for operand in op.operands:
            value, between = operand, list[Operation]()
            while isinstance(value.owner, Operation) and value.owner in grouping.views:
                between.append(value.owner)
                value = value.owner.operands[0]
            if value.owner in p.ops:
                members.update(between)
    return members


def is_alone(grouping: Grouping, decision: Decision, members: set[Operation]) -> bool:
    """Whether the pair can run in one place, and only the second kernel's results are read elsewhere."""
    p, c = grouping.group_of[decision.producer], grouping.group_of[decision.consumer]
    inner = [op for op in members if op not in c.ops]
    return not grouping.dependences.has_path_between(p, c, grouping.group_of) and all(
        use.operation in members for op in inner for r in op.results for use in r.uses
    )


def choose(block: Block, ops: Sequence[Operation], condition: Condition) -> onnx.IfOp:
    """An If on the condition in the place of the ops, which both of its branches hold a copy of."""
    inside = set(ops)
    results = [r for op in ops for r in op.results if any(use.operation not in inside for use in r.uses)]
    gap = dim_max(condition.left, condition.right) - dim_min(condition.left, condition.right)
    test = dims.TensorOp([ONE - dim_min(gap, ONE)], TensorType(i1, []))
    choice = onnx.IfOp.create(
        operands=[test.result],
        result_types=[r.type for r in results],
        regions=[copied(ops, results), copied(ops, results)],
        attributes={VERSION: StringAttr(str(condition))},
    )
    choice.attributes["onnx.names"] = ArrayAttr([StringAttr(onnx.value_name(r) or "") for r in results])
    for op in (test, choice):
        set_origins(op, {i for member in ops for i in origins_of(member)})
        block.insert_op_before(op, ops[-1])
    for old, new in zip(results, choice.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.detach()
        op.erase(safe_erase=False)
    return choice


def copied(ops: Sequence[Operation], results: Sequence[SSAValue]) -> Region:
    """A branch of copies of the ops that yields their results."""
    block = Block()
    mapper: dict[SSAValue, SSAValue] = {}
    for op in ops:
        block.add_op(op.clone(mapper))
    block.add_op(onnx.YieldOp.make([mapper[r] for r in results]))
    return Region(block)
