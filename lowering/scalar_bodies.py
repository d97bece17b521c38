"""The scalar code of a tensor-level kernel, and changes in it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, OpResult
from xdsl.rewriter import Rewriter

from ..dialects import kernel


def bodies_of(block: Block) -> Iterator[Block]:
    """The bodies of a kernel's generics and the epilogues of its templates."""
    for op in block.ops:
        if isinstance(op, linalg.GenericOp):
            yield op.body.block
        elif isinstance(op, kernel.TemplateOp) and op.epilogue is not None:
            yield op.epilogue.block


def insert(new: Operation, before: Operation) -> None:
    """With the origin of the op that it comes before."""
    assert before.parent is not None
    before.parent.insert_op_before(new, before)
    if (origin := before.attributes.get("origin")) is not None:
        new.attributes["origin"] = origin


def replace(old: Operation, new: Operation) -> None:
    """An op of one result by another."""
    insert(new, old)
    result = new.results[0]
    assert isinstance(result, OpResult)
    old.results[0].replace_all_uses_with(result)
    Rewriter.erase_op(old)
