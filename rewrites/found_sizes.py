"""Operators whose own execution finds the size of their results, and the most that it can be.

Their kernels get room for the most, and say what they found; the content is contiguous for the sizes found.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from ..dialects import onnx
from ..dialects.dims import Dim, as_dim, dims_of
from ..dialects.dims.expression import dim_min
from ..semantics.known import constant_value

FOUND = "kernel.found"
"""On an op in a kernel: how many sizes it finds. The kernel has one more result, which is given them, as int64."""


def _elements(op: Operation) -> Dim:
    total = as_dim(1)
    for size in dims_of(op.operands[0]):
        total = total * size
    return total


def _along_axis(op: Operation) -> Dim:
    """The size of the axis that the operator picks from; all elements where it has no axis."""
    axis = onnx.attr(op, "axis")
    return _elements(op) if axis is None else dims_of(op.operands[0])[axis]


def _boxes(op: Operation) -> Dim:
    """All boxes of all classes, or so many of each class as there may be."""
    batches, classes, boxes = dims_of(op.operands[1])
    assert isinstance(op, onnx.OnnxOp)
    limit = op.operand_at(2)
    most = None if limit is None else constant_value(limit)
    if most is not None:
        boxes = dim_min(boxes, as_dim(max(int(most.reshape(())), 0)))
    return batches * classes * boxes


MOST: dict[type[Operation], Callable[[Operation], Dim]] = {
    onnx.CompressOp: _along_axis,
    onnx.NonMaxSuppressionOp: _boxes,
    onnx.NonZeroOp: _elements,
    onnx.UniqueOp: _along_axis,
}


def bound_by_execution(op: Operation) -> list[str]:
    """The symbols that the op's execution binds."""
    binds = op.attributes.get("dims.binds")
    return [s.data for s in binds if isinstance(s, StringAttr)] if isinstance(binds, ArrayAttr) else []


def most_of(op: Operation) -> dict[str, Dim] | None:
    """For each symbol that the op's execution binds, the most that it can be; None where nothing bounds one."""
    symbols = bound_by_execution(op)
    if not symbols:
        return {}
    rule = MOST.get(type(op))
    return {symbols[0]: rule(op)} if rule is not None and len(symbols) == 1 else None
