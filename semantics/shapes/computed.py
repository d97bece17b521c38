"""Operations on constants alone, computed by their reference functions: sizes and values that no rule tells."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from ...dialects import onnx
from ...dialects.dims import Dim
from ...dialects.onnx.types import numpy_dtype
from ..evaluate import reference_of
from ..known import constant_value
from ..weights import WeightStore
from .context import Context, static_shape
from .elements import MAX_ELEMENTS, Element, Ratio, row_major

Array = np.ndarray[Any, Any]

DATA_SIZED: tuple[type[Operation], ...] = (
    onnx.CompressOp,
    onnx.NonMaxSuppressionOp,
    onnx.NonZeroOp,
    onnx.UniqueOp,
)
"""Of these a result's size rests on the elements themselves, however many they are."""

UNPREDICTABLE: tuple[type[Operation], ...] = (
    onnx.BernoulliOp,
    onnx.DropoutOp,
    onnx.MultinomialOp,
    onnx.RandomNormalLikeOp,
    onnx.RandomUniformLikeOp,
)

_MOST = 1 << 22
"""Operands of more elements are left to the run."""


def computed_results(c: Context) -> list[Array] | None:
    """The results of an operation on constants alone; None for others, and where it cannot be computed."""
    op = c.op
    if not isinstance(op, onnx.OnnxOp) or op.regions or not op.operands or isinstance(op, UNPREDICTABLE):
        return None
    most = _MOST if isinstance(op, DATA_SIZED) else MAX_ELEMENTS
    operands: list[Array | None] = []
    for index, value in enumerate(c.operands):
        array = None if value is None else constant_operand(c, index, most)
        if value is not None and array is None:
            return None
        operands.append(array)
    function = reference_of(op, c.scope.weights or WeightStore())
    if function is None:
        return None
    try:
        results = function(*operands)
    except (ArithmeticError, ValueError, IndexError, TypeError, NotImplementedError):
        return None  # what is wrong with it is the shape rule's to say
    arrays = [np.asarray(r) for r in results if isinstance(r, np.ndarray | np.generic)]
    return arrays if len(arrays) == len(results) else None


def constant_operand(c: Context, index: int, most: int) -> Array | None:
    """An operand that is known entirely."""
    value = c.need(index)
    shape = static_shape(value)
    if shape is None or prod(shape) > most:
        return None
    found = constant_value(value, c.scope.weights)
    if found is not None:
        return found
    elements = c.scope.values.get(value)
    if elements is None or not isinstance(value.type, TensorType):
        return None
    numbers = [_number(e) for e in row_major(elements)]
    if any(n is None for n in numbers):
        return None
    try:
        return np.array(numbers, numpy_dtype(value.type.element_type)).reshape(elements.shape)
    except (TypeError, KeyError, OverflowError):
        return None


def _number(e: Element) -> float | int | None:
    if isinstance(e, Dim):
        return e.value if e.is_const else None
    return float(e.constant) if isinstance(e, Ratio) and e.constant is not None else None


def computed_types(c: Context, types: list[Attribute | None]) -> list[Attribute | None]:
    """The types that a rule gave, with the sizes of results that constants decide."""
    arrays = computed_results(c) if isinstance(c.op, DATA_SIZED) and c.binds else None
    if arrays is None:
        return types
    c.binds.clear()
    shapes = iter(arrays)
    return [type_ if value is None else _resized(c, type_, next(shapes)) for type_, value in zip(types, c.results)]


def _resized(c: Context, type_: Attribute | None, array: Array) -> Attribute | None:
    return c.tensor(type_.element_type, array.shape) if isinstance(type_, TensorType) else type_


__all__ = ["computed_results", "computed_types"]
