"""Sizes of element types in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

_FLOAT_BYTES: dict[type[Attribute], int] = {BFloat16Type: 2, Float16Type: 2, Float32Type: 4, Float64Type: 8}


def byte_width(element: Attribute) -> int:
    """Bytes of one element in memory; a bool takes one. Raises TypeError for types that memory does not hold so."""
    if isinstance(element, IntegerType) and element.width.data in (1, 8, 16, 32, 64, 128):
        return max(1, element.width.data // 8)
    if isinstance(element, IndexType):
        return 8
    width = _FLOAT_BYTES.get(type(element))
    if width is None:
        raise TypeError(f"no size in memory: {element}")
    return width
