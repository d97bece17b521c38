"""What the rules share: the question of types that the driver asks for them, and how they look at their neighbours.

A rule sees tensors of known rank only.  The driver asks that of the root (`Rule.takes`); other ops are reached through
`producer` and `only_producer`, which ask it as well.  So a rule may call `dims_of` on whatever it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...dialects import dims, onnx
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of, make_constant
from ..driver import Pattern, PatternRewriter

Array = np.ndarray[Any, Any]
OpT = TypeVar("OpT", bound=Operation)

FLOATS: tuple[Attribute, ...] = (f16, bf16, f32, f64)

BROADCASTING: tuple[type[onnx.OnnxOp], ...] = (
    onnx.AddOp, onnx.AndOp, onnx.BitShiftOp, onnx.BitwiseAndOp, onnx.BitwiseOrOp, onnx.BitwiseXorOp, onnx.DivOp,
    onnx.EqualOp, onnx.GreaterOp, onnx.GreaterOrEqualOp, onnx.LessOp, onnx.LessOrEqualOp, onnx.MaxOp, onnx.MeanOp,
    onnx.MinOp, onnx.ModOp, onnx.MulOp, onnx.OrOp, onnx.PowOp, onnx.SubOp, onnx.SumOp, onnx.WhereOp, onnx.XorOp,
)  # fmt: skip
"""Operators whose operands all broadcast, as numpy has it."""


def broadcasts(rewriter: PatternRewriter) -> bool:
    """Whether all of `BROADCASTING` do so in the model's opset: before 7 and 8 they had other rules."""
    return rewriter.opsets is None or rewriter.opsets.get("", 8) >= 8


class Rule(Pattern):
    """A pattern of the rule set: the driver asks it only about ops of which every value is a tensor of known rank."""

    @staticmethod
    def takes(op: Operation, /) -> bool:
        return is_ranked(op)


def is_ranked(op: Operation) -> bool:
    """Whether all operands and results are tensors whose rank is known."""
    return all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def producer(value: SSAValue | None, *classes: type[OpT]) -> OpT | None:
    """The op of these classes that makes a value, if all that it reads and makes are tensors of known rank."""
    owner = value.owner if isinstance(value, OpResult) else None
    return owner if isinstance(owner, classes) and is_ranked(owner) else None


def only_producer(value: SSAValue | None, *classes: type[OpT]) -> OpT | None:
    """As `producer`, where nothing but one operand reads the value: the op goes when its reader does."""
    return producer(value, *classes) if value is not None and value.has_one_use() else None


def is_used(value: SSAValue | None) -> bool:
    """Whether anything reads a result; an absent one is not read."""
    return value is not None and value.first_use is not None


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return cast("TensorType[Attribute]", value.type).element_type


def is_float(value: SSAValue) -> bool:
    """Whether a tensor has f16, bf16, f32 or f64 elements."""
    return element_of(value) in FLOATS


def scalar_of(value: SSAValue | None, weights: WeightStore | None = None) -> float | None:
    """The value of a constant of one element, or whose elements are all the same; None otherwise.

    Integers beyond 2^53 and complex numbers are no scalars here.
    """
    array = constant_value(value, weights) if value is not None else None
    if array is None or array.size == 0 or (array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16"):
        return None
    first = array.reshape(-1)[0]
    if array.size > 1 and not bool(np.all(array == first)):
        return None
    return float(first) if array.dtype.kind not in "iu" or abs(int(first)) < 2**53 else None


def is_scalar(value: SSAValue | None, wanted: float, tolerance: float = 1e-3) -> bool:
    """Whether a value is a constant with all elements equal to a number, as far as its element type can tell.

    Exporters round: 0.7978845608 stands as f32 or f16 in the file, sometimes as 0.7979.
    """
    found = scalar_of(value)
    return found is not None and abs(found - wanted) <= tolerance * max(abs(wanted), 1e-6)


def pair(op: Operation, *classes: type[OpT]) -> tuple[OpT, SSAValue] | None:
    """Of a commutative op, the operand that an op of these classes makes, and the other operand."""
    left, right = op.operands[0], op.operands[1]
    for one, other in ((left, right), (right, left)):
        made = producer(one, *classes)
        if made is not None:
            return made, other
    return None


def with_scalar(op: Operation, weights: WeightStore | None = None) -> tuple[SSAValue, float] | None:
    """Of a commutative op, the operand that is no constant and the number that the other one is everywhere."""
    left, right = op.operands[0], op.operands[1]
    for value, other in ((left, right), (right, left)):
        number = scalar_of(other, weights)
        if number is not None and constant_rank(other) <= len(dims.dims_of(value)):
            return value, number
    return None


def constant_rank(value: SSAValue) -> int:
    return len(dims.dims_of(value))


def remade(
    op: onnx.OnnxOp, operands: Sequence[SSAValue | None], rewriter: PatternRewriter, **attributes: object
) -> SSAValue:
    """The one result of the same op on other operands, with its type; `attributes` replace its own."""
    made = type(op).make(operands, {**attributes_of(op), **attributes}, [op.results[0].type])
    return rewriter.insert(made).results[0]


def constant(array: Array, rewriter: PatternRewriter, weights: WeightStore) -> SSAValue:
    """A constant that a rule makes."""
    type_ = dims.tensor_type(onnx.element_of_dtype(array.dtype), array.shape)
    return rewriter.insert(make_constant(array, type_, weights)).results[0]


def axes_constant(axes: Sequence[int], rewriter: PatternRewriter, before: Operation | None = None) -> SSAValue:
    """A short vector of int64, before the root or before the op given."""
    tensor = onnx.tensor_attr(np.array(axes, np.int64))
    return rewriter.insert(onnx.ConstantOp.make([], {"value": tensor}, [tensor.type]), before).results[0]
