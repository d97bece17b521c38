"""Masks of attention scores: which are given up for a very low number, and which of them are the causal one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...dialects.onnx.attributes import plain
from ...semantics.kinds import is_view
from ...semantics.known import constant_value, known_dims
from ...semantics.weights import WeightStore
from .movement import cuts_of
from .rule import element_of, only_producer, producer, scalar_of

Array = np.ndarray[Any, Any]

LOW = -1e30
"""A sum of a score with a number below this is that number in f32, and its softmax is 0 beside any other score."""

BOOL = IntegerType(1)


class Masked(NamedTuple):
    """Scores of which those where `condition` is `where` are `fill` instead."""

    scores: SSAValue
    condition: SSAValue
    where: bool
    fill: float


def masked(value: SSAValue) -> Masked | None:
    """Where(condition, fill, scores) or Where(condition, scores, fill) that nothing else reads."""
    op = only_producer(value, onnx.WhereOp)
    if op is None:
        return None
    condition, yes, no = op.operands
    for scores, other, where in ((no, yes, True), (yes, no, False)):
        fill = scalar_of(other)
        if fill is not None and fill <= LOW and scores.type == value.type:
            return Masked(scores, condition, where, fill)
    return None


def is_causal_bias(value: SSAValue, weights: WeightStore) -> bool:
    """Whether the last two axes, which are equal, hold 0 on and below the diagonal and a very low number above."""
    value = without_leading(value)
    op = producer(value, onnx.WhereOp, onnx.TriluOp)
    if isinstance(op, onnx.WhereOp):
        condition, yes, no = op.operands
        numbers = (uniform(yes), uniform(no))
        if None in numbers or sorted(n > LOW for n in numbers if n is not None) != [False, True]:
            return False
        keeps = numbers.index(max(n for n in numbers if n is not None)) == 0
        return max(n for n in numbers if n is not None) == 0 and triangle(condition, weights) is keeps
    if op is not None:
        fill = uniform(op.operands[0])
        return fill is not None and fill <= LOW and diagonal_of(op) == (True, 1)
    table = square_table(value, weights)
    if table is None or table.dtype.kind != "f":
        return False
    above = np.triu(np.ones(table.shape[-2:], np.bool_), 1)
    return bool(np.all(table[..., ~above] == 0) and np.all(table[..., above] <= LOW))


def triangle(value: SSAValue, weights: WeightStore) -> bool | None:
    """True for a condition that holds on and below the diagonal of its last two axes only, False above it only."""
    value = without_leading(value)
    op = producer(value, onnx.NotOp, onnx.CastOp, onnx.EqualOp, onnx.TriluOp, *COMPARISONS)
    match op:
        case onnx.NotOp():
            found = triangle(op.operands[0], weights)
            return None if found is None else not found
        case onnx.CastOp():
            return triangle(op.operands[0], weights) if element_of(value) == BOOL else None
        case onnx.EqualOp():
            found = triangle(op.operands[0], weights) if scalar_of(op.operands[1]) == 0 else None
            return None if found is None else not found
        case onnx.TriluOp():
            fill, diagonal = uniform(op.operands[0]), diagonal_of(op)
            return {(False, 0): True, (True, 1): False}.get(diagonal) if fill and diagonal is not None else None
        case onnx.GreaterOp() if scalar_of(op.operands[1]) == 0:
            return triangle(op.operands[0], weights)
        case None:
            return triangle_of_table(square_table(value, weights))
        case _:
            return compared(op)


def triangle_of_table(table: Array | None) -> bool | None:
    """As `triangle`, of a constant; numbers count as true where they are not 0."""
    if table is None:
        return None
    below = np.tril(np.ones(table.shape[-2:], np.bool_))
    holds = table != 0
    return True if bool(np.all(holds == below)) else False if bool(np.all(holds == ~below)) else None


COMPARISONS: tuple[type[onnx.OnnxOp], ...] = (
    onnx.LessOp, onnx.LessOrEqualOp, onnx.GreaterOp, onnx.GreaterOrEqualOp,
)  # fmt: skip

COLUMNS_FIRST: dict[type[Operation], bool] = {onnx.LessOrEqualOp: True, onnx.GreaterOp: False}
ROWS_FIRST: dict[type[Operation], bool] = {onnx.GreaterOrEqualOp: True, onnx.LessOp: False}


def compared(op: Operation) -> bool | None:
    """The triangle that a comparison of the positions of rows and columns gives."""
    left, right = (positions(o) for o in op.operands)
    if left is None or right is None or left.start is not right.start or {left.axis, right.axis} != {-1, -2}:
        return None
    table = COLUMNS_FIRST if left.axis == -1 else ROWS_FIRST
    return table.get(type(op))


class Positions(NamedTuple):
    """start, start + 1, ... along an axis counted from the end; all other axes have the size 1."""

    start: object
    axis: int


def positions(value: SSAValue) -> Positions | None:
    shape = dims_of(value)
    wide = [axis - len(shape) for axis, d in enumerate(shape) if not (d.is_const and d.value == 1)]
    if len(wide) != 1:
        return None
    while (view := producer(value, onnx.UnsqueezeOp, onnx.ReshapeOp, onnx.CastOp)) is not None:
        if not isinstance(view, onnx.CastOp) and not is_view(view):
            return None
        if isinstance(view, onnx.CastOp) and scalar_kind(view) not in "if":
            return None
        value = view.operands[0]
    made = producer(value, onnx.RangeOp)
    if made is None or scalar_of(made.operands[2]) != 1:
        return None
    start = known_dims(made.operands[0])
    return Positions(start[0], wide[0]) if start else None


def scalar_kind(op: Operation) -> str:
    return onnx.numpy_dtype(element_of(op.results[0])).kind


def diagonal_of(op: onnx.TriluOp) -> tuple[bool, int] | None:
    """(upper, k) of a Trilu; None where k is not known."""
    offset = op.operand_at(1)
    k = 0 if offset is None else scalar_of(offset)
    return None if k is None else (bool(onnx.attr(op, "upper")), int(k))


def uniform(value: SSAValue) -> float | None:
    """The number that all elements of a tensor are."""
    op = producer(value, onnx.ExpandOp, onnx.ConstantOfShapeOp)
    if isinstance(op, onnx.ExpandOp):
        return uniform(op.operands[0])
    if op is not None:
        fill = op.properties.get("value")
        return 0.0 if fill is None else float(np.asarray(plain(fill)).reshape(-1)[0])
    return scalar_of(value)


def without_leading(value: SSAValue) -> SSAValue:
    """The same matrix without axes before the last two, which are of size 1 or repeat it."""
    while (op := producer(value, onnx.UnsqueezeOp, onnx.ReshapeOp, onnx.ExpandOp)) is not None:
        inner, outer = dims_of(op.operands[0]), dims_of(value)
        if len(inner) < 2 or inner[-2:] != outer[-2:]:
            return value
        if not isinstance(op, onnx.ExpandOp) and not all(d.is_const and d.value == 1 for d in inner[:-2]):
            return value
        if isinstance(op, onnx.ReshapeOp) and not is_view(op):
            return value
        value = op.operands[0]
    return value


def square_table(value: SSAValue, weights: WeightStore) -> Array | None:
    """A constant square matrix, of which the value may be a corner of equal sides that starts at the origin."""
    cut = producer(value, onnx.SliceOp)
    if cut is not None:
        rank, cuts = len(dims_of(value)), cuts_of(cut)
        if cuts is None or set(cuts) != {rank - 2, rank - 1}:
            return None
        rows, columns = cuts[rank - 2], cuts[rank - 1]
        if rows.step != 1 or columns.step != 1 or not (rows.first is columns.first and rows.last is columns.last):
            return None
        if not rows.first.is_const or rows.first.value != 0 or (rows.last.is_const and rows.last.value < 0):
            return None
        value = cut.operands[0]
    table = constant_value(value, weights)
    if table is None or table.ndim < 2 or table.shape[-1] != table.shape[-2] or any(n != 1 for n in table.shape[:-2]):
        return None
    return table


__all__ = ["Masked", "is_causal_bias", "masked", "triangle"]
