"""Transposed parts of what a Concat joins: which are made by tiles before it, and which where it reads them."""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialects import onnx
from ..dialects.dims import dims_of
from ..semantics.kinds import Kind, kind_of
from .groups import Group, reads_rows
from .views import small_constant


def is_turned(op: Operation) -> bool:
    """Whether an op puts another axis last: moved tile by tile on its own, else element by element where it is read.

    A Concat of such parts would look for the part, and for the place in it, of each element alone.
    """
    return isinstance(op, onnx.TransposeOp) and not reads_rows(op)


def is_read_from_memory(op: Operation, group: Group) -> bool:
    """Whether what a group computes an op from is in memory, and not made from sizes and constants alone."""
    stack, seen = [op], set[Operation]()
    while stack:
        at = stack.pop()
        if at in seen or kind_of(at) is Kind.SOURCE:
            continue
        seen.add(at)
        for value in at.operands:
            if isinstance(value.owner, Operation) and (value.owner in group.ops or kind_of(value.owner) is Kind.SOURCE):
                stack.append(value.owner)
            elif small_constant(value) is None:
                return True
    return False


def joins_last_axis(op: onnx.ConcatOp) -> bool:
    """Whether parts lie beside each other in each row: a row of a part is a loop of its own, whatever it reads."""
    shape = dims_of(op.results[0])
    axis: int = onnx.attr(op, "axis")
    return all(d.is_const and d.value == 1 for d in shape[axis % len(shape) + 1 :])
