"""Branches in a loop's body that give other ranks: what follows of them moves into both, up to where they agree.

Which of them runs may differ from iteration to iteration, so that code for each rank in its turn is none for the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import onnx
from ..dialects.onnx.types import UNKNOWN
from .driver import origins_of, set_origins
from .infer.walk import set_type
from .simplify.control_flow import NOT_COPIED


def move_into_branches(module: ModuleOp) -> bool:
    """If(c) {a} {b}; y = f(If)  ->  If(c) {f(a)} {f(b)}, in the bodies of loops, where a and b have other ranks.

    One If at a time: what is made has no types yet, so inference is to run again where anything has moved.
    """
    found = [op for op in module.walk() if isinstance(op, onnx.IfOp) and is_meant(op)]
    return any(move_dependents(op) for op in found)


def is_meant(op: onnx.IfOp) -> bool:
    """Whether the op is in a body and only the branch that runs tells a rank."""
    parent = op.parent_op()
    if parent is None or isinstance(parent, FuncOp):
        return False
    return any(
        isinstance(result.type, UnrankedTensorType) and not all(isinstance(v.type, UnrankedTensorType) for v in given)
        for result, given in zip(op.results, zip(*(end_of(r.block).values for r in op.regions)))
    )


def end_of(block: Block) -> onnx.YieldOp:
    last = block.last_op
    assert isinstance(last, onnx.YieldOp)
    return last


def move_dependents(op: onnx.IfOp) -> bool:
    """Whether anything depends on the results but the end of the block, and has moved."""
    dependents = dependents_of(op)
    if not dependents:
        return False
    inside = {op, *dependents}
    values = [r for each in (op, *dependents) for r in each.results]
    leaving = [v for v in values if any(outermost(use.operation, op) not in inside for use in v.uses)]
    regions = [op.detach_region(region) for region in (op.else_branch, op.then_branch)]
    for region in regions:
        extend(region.block, op, dependents, leaving)
    made = onnx.IfOp.make([op.cond], {}, [UNKNOWN] * len(leaving), like=op, regions=regions)
    set_origins(made, {i for each in inside for i in origins_of(each)})
    block = op.parent
    assert block is not None and block.last_op is not None
    block.insert_op_before(made, block.last_op)  # behind all that the dependents read, and only the end reads them
    for old, new in zip(leaving, made.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for each in reversed((op, *dependents)):
        each.detach()
        each.erase(safe_erase=False)
    return True


def dependents_of(op: onnx.IfOp) -> list[Operation]:
    """The ops of the block that need a result of the op, in order; the end of the block is none."""
    found: list[Operation] = []
    known: set[SSAValue] = set(op.results)
    current = op.next_op
    while current is not None and not isinstance(current, onnx.YieldOp):
        if any(value in known for inner in current.walk() for value in inner.operands):
            found.append(current)
            known.update(current.results)
        current = current.next_op
    return found


def outermost(op: Operation, beside: Operation) -> Operation:
    """The op, or what it is in, that is in the same block as another."""
    while op.parent is not beside.parent:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def extend(block: Block, op: onnx.IfOp, dependents: Sequence[Operation], leaving: Sequence[SSAValue]) -> None:
    """Copies the dependents to the end of a branch, which gives the leaving values."""
    end = end_of(block)
    mapping: dict[SSAValue, SSAValue] = dict(zip(op.results, end.values, strict=True))
    for old in dependents:
        copy = old.clone(mapping)
        for name in NOT_COPIED:
            copy.attributes.pop(name, None)
        for result in copy.results:
            set_type(result, UNKNOWN)
        block.insert_op_before(copy, end)
    block.insert_op_before(onnx.YieldOp.make([mapping[v] for v in leaving]), end)
    end.detach()
    end.erase()


__all__ = ["move_into_branches"]
