"""What value rules share: the type that they have, and looks at operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.ir import Attribute

from ...dialects import dims as dims_dialect
from ...dialects.dims.expression import ZERO, Dim
from .context import Context, static_shape
from .elements import MAX_ELEMENTS, Element, Elements, Ratio, is_integer

Known: TypeAlias = "Sequence[Elements | None] | None"
"""What a value rule gives: the elements of the results by formal position, None where it cannot tell."""


def result_shape(c: Context, index: int = 0) -> tuple[int, ...] | None:
    value = c.results[index]
    return None if value is None else static_shape(value)


def numbers_of(elements: Elements | None) -> list[int] | None:
    """The elements, where all are integers and numbers."""
    if elements is None:
        return None
    values = [e.value for e in elements.reshape(-1) if isinstance(e, Dim) and e.is_const]
    return values if len(values) == elements.size else None


def small_result(c: Context) -> tuple[int, ...] | None:
    shape = result_shape(c)
    return shape if shape is not None and prod(shape) <= MAX_ELEMENTS else None


def zero_of(element: Attribute) -> Element:
    return ZERO if is_integer(element) else Ratio(ZERO)


def result_element(c: Context) -> Attribute:
    """The first result's element type."""
    result = c.results[0]
    assert result is not None
    type_ = result.type
    assert isinstance(type_, dims_dialect.TensorType)
    return type_.element_type
