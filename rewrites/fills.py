"""Values that are the same everywhere, and known, are fills: a kernel that reads one holds the value itself.

With sizes that are numbers such a tensor is a constant.  Here is what it is with others: the zeros with which a
recurrence begins, a mask of ones, a shape's worth of one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, StringAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import kernel, onnx
from ..dialects.dims import dims_of
from ..semantics.facts import Facts
from ..semantics.known import constant_value, known_dims
from .driver import origins_of, set_origins
from .views import KEPT_IN_KERNEL, product

MOVED: frozenset[type[Operation]] = frozenset((
    onnx.ExpandOp, onnx.ReshapeOp, onnx.SqueezeOp, onnx.UnsqueezeOp, onnx.FlattenOp, onnx.IdentityOp, onnx.TransposeOp,
    onnx.SliceOp, onnx.SplitOp, onnx.TileOp, onnx.DepthToSpaceOp, onnx.SpaceToDepthOp,
))  # fmt: skip
"""Operators whose results have no element that their first operand does not have, and that check no value of it."""


def find_fills(block: Block, facts: Facts) -> None:
    """Puts a `kernel.fill` in place of each result of the block's operators that has one known value everywhere."""
    for op in list(block.ops):
        if is_small(op) or (value := fill_of(op, facts)) is None:
            continue
        for result in op.results:
            fill = kernel.FillOp(value, result.type)
            fill.result.name_hint = result.name_hint
            set_origins(fill, origins_of(op))
            if (name := onnx.value_name(result)) is not None:
                fill.attributes["onnx.names"] = ArrayAttr([StringAttr(name)])
            block.insert_op_before(fill, op)
            result.replace_all_uses_with(fill.result)
        op.detach()
        op.erase()


def is_small(op: Operation) -> bool:
    """Whether an op's results are no tensors, or are constants anyway."""
    return not op.results or any(
        not isinstance(r.type, TensorType) or ((d := product(dims_of(r))).is_const and d.value <= KEPT_IN_KERNEL)
        for r in op.results
    )


def fill_of(op: Operation, facts: Facts) -> DenseIntOrFPElementsAttr | None:
    """The value that all elements of an op's results have, of rank 0; None where it is not known."""
    if isinstance(op, onnx.ConstantOfShapeOp):
        fill = onnx.attr(op, "value")
        return dense_scalar(np.zeros(1, np.float32) if fill is None else np.asarray(fill))
    if type(op) in MOVED or (isinstance(op, onnx.GatherOp) and is_inside(op, facts)):
        return value_everywhere(op.operands[0])
    if isinstance(op, onnx.ConcatOp):
        first, *others = map(value_everywhere, op.operands)
        return first if all(other == first for other in others) else None
    return None


def is_inside(op: onnx.GatherOp, facts: Facts) -> bool:
    """Whether all indices are known and inside of the axis, so that nothing needs to check them."""
    indices = known_dims(op.operands[1])
    source = dims_of(op.operands[0])
    if indices is None or not source:
        return False
    size = source[onnx.attr(op, "axis") % len(source)]
    return all(
        facts.prove_le(-size, at).answer is True and facts.prove_le(at + 1, size).answer is True for at in indices
    )


def value_everywhere(value: SSAValue) -> DenseIntOrFPElementsAttr | None:
    """The one value of all elements of a small constant, or of a fill."""
    if isinstance(value.owner, kernel.FillOp):
        return value.owner.value
    array = constant_value(value)
    return None if array is None else dense_scalar(array)


def dense_scalar(array: np.ndarray[Any, Any]) -> DenseIntOrFPElementsAttr | None:
    """The value of all elements, bit for bit, as an attribute of rank 0; None where there is none."""
    if array.size == 0 or array.dtype == object:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.tobytes() != flat[:1].tobytes() * flat.size:
        return None
    try:
        return onnx.tensor_attr(flat[:1].reshape(()))
    except TypeError:
        return None  # an element type that only weights hold
