"""ONNX attributes as MLIR attributes and as plain Python values, and a text form that keeps every bit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from .types import TextAttr, element_of_dtype, numpy_dtype

if TYPE_CHECKING:
    import numpy as np


# Attributes as plain Python values


@lru_cache(maxsize=4096)
def int_attr(value: int) -> IntegerAttr[Any]:
    """An INT attribute (i64)."""
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def ints_attr(values: tuple[int, ...]) -> DenseArrayBase[Any]:
    """An INTS attribute, `array<i64: 1, 2>`."""
    return DenseArrayBase.from_list(i64, values)


def float_attr(value: float) -> FloatAttr[Any]:
    """A FLOAT attribute (f32)."""
    return FloatAttr(value, f32)


def floats_attr(values: Iterable[float]) -> DenseArrayBase[Any]:
    """A FLOATS attribute, `array<f32: 1.0, 2.0>`."""
    return DenseArrayBase.from_list(f32, tuple(values))


def string_attr(value: str | bytes) -> StringAttr | TextAttr:
    """A STRING attribute, or a name; what is not ASCII is a TextAttr."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return StringAttr(value) if value.isascii() else TextAttr(value)


def text_of(attribute: Attribute) -> str:
    """The text of what `string_attr` made."""
    assert isinstance(attribute, StringAttr | TextAttr)
    return attribute.data


def strings_attr(values: Iterable[str | bytes]) -> ArrayAttr[Attribute]:
    """A STRINGS attribute."""
    return ArrayAttr([string_attr(v) for v in values])


def key_of(name: str) -> str:
    """An attribute's name as a key of a dictionary in the IR, which must be ASCII to be parsed back."""
    return (
        name
        if name.isascii() and not name.startswith("utf8:")
        else "utf8:" + name.encode("utf-8", "surrogateescape").hex()
    )


def name_of_key(key: str) -> str:
    """The attribute's name; `key_of`'s inverse."""
    return bytes.fromhex(key[5:]).decode("utf-8", "surrogateescape") if key.startswith("utf8:") else key


def tensor_attr(array: np.ndarray[Any, Any]) -> DenseIntOrFPElementsAttr[Any]:
    """A small TENSOR attribute. Raises TypeError for element types that only a weight can hold."""
    element = element_of_dtype(array.dtype)
    narrow = isinstance(element, IntegerType) and element.width.data < 8 and array.dtype != bool
    if narrow or not isinstance(element, IntegerType | AnyFloat):
        raise TypeError(f"a dense attribute cannot hold {array.dtype}; use a weight")
    return dense_attr(TensorType(element, array.shape), array.tobytes())


def dense_attr(type_: Attribute, data: bytes) -> DenseIntOrFPElementsAttr[Any]:
    """The dense attribute of that tensor type with those bytes (row-major, little-endian, one byte a bool)."""
    if cast("TensorType[Attribute]", type_).element_type == i1:
        data = bytes(0xFF if byte else 0 for byte in data)  # what xDSL parses `true` to
    return DenseIntOrFPElementsAttr(cast("Any", type_), BytesAttr(data))


def to_attribute(kind: str, value: object) -> Attribute:
    """The attribute for a plain value of AttributeProto's kind; an attribute stays as it is."""
    if isinstance(value, Attribute):
        return value
    return _TO_ATTRIBUTE[kind](value)


_TO_ATTRIBUTE: dict[str, Any] = {
    "INT": lambda v: int_attr(int(v)),
    "INTS": lambda v: ints_attr(tuple(map(int, v))),
    "FLOAT": lambda v: float_attr(float(v)),
    "FLOATS": floats_attr,
    "STRING": string_attr,
    "STRINGS": strings_attr,
    "TENSOR": tensor_attr,
}


def plain(value: Attribute) -> Any:
    """The plain Python value of an attribute, as `attr` gives it."""
    match value:
        case IntegerAttr():
            return value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr() | TextAttr():
            return value.data
        case DenseArrayBase():
            return list(cast("DenseArrayBase[Any]", value).get_values())
        case ArrayAttr():
            return [plain(v) for v in value]
        case DenseIntOrFPElementsAttr():
            return dense_array(value)
        case _:
            return value


def dense_array(value: DenseIntOrFPElementsAttr[Any]) -> np.ndarray[Any, Any]:
    """The values of a dense attribute, read-only, with the shape of its type."""
    import numpy as np

    type_ = value.type
    shape = tuple(type_.get_shape())
    data = value.data.data
    if type_.element_type == i1:
        flat = np.frombuffer(bytes(byte != 0 for byte in data), np.bool_)
    else:
        flat = np.frombuffer(data, numpy_dtype(type_.element_type))
    return flat.reshape(shape) if flat.size == _product(shape) else np.broadcast_to(flat, shape)  # a splat has one


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


# Text.  xDSL prints infinities, NaNs and large whole numbers in hexadecimal, and parses that back as other numbers (in
# `dense`) or not at all (in `array`).  Where that would happen, these forms stand in the text, and only there.


@irdl_attr_definition
class ExactDenseAttr(ParametrizedAttribute):
    """`#onnx.exact_dense<tensor<1xf32>, "0000807f">`: a dense attribute by its bytes."""

    name = "onnx.exact_dense"
    type: Attribute
    data: StringAttr


@irdl_attr_definition
class ExactArrayAttr(ParametrizedAttribute):
    """`#onnx.exact_array<f32, "0000807f">`: a dense array by its bytes."""

    name = "onnx.exact_array"
    type: Attribute
    data: StringAttr


def shown(value: Attribute) -> Attribute:
    """The attribute to print for this one, so that `read` gives it back bit for bit."""
    match value:
        case DenseIntOrFPElementsAttr() if _is_inexact(value.type.element_type, value.data.data):
            return ExactDenseAttr(value.type, StringAttr(value.data.data.hex()))
        case DenseArrayBase():
            array = cast("DenseArrayBase[Any]", value)
            if _is_inexact(array.elt_type, array.data.data):
                return ExactArrayAttr(array.elt_type, StringAttr(array.data.data.hex()))
            return array
        case DictionaryAttr():
            return DictionaryAttr({key: shown(v) for key, v in value.data.items()})
        case ArrayAttr():
            return ArrayAttr([shown(v) for v in value])
        case _:
            return value


def read(value: Attribute) -> Attribute:
    """The attribute that a printed one stands for."""
    match value:
        case ExactDenseAttr():
            return DenseIntOrFPElementsAttr(cast("Any", value.type), BytesAttr(bytes.fromhex(value.data.data)))
        case ExactArrayAttr():
            return DenseArrayBase(cast("Any", value.type), BytesAttr(bytes.fromhex(value.data.data)))
        case DictionaryAttr():
            return DictionaryAttr({key: read(v) for key, v in value.data.items()})
        case ArrayAttr():
            return ArrayAttr([read(v) for v in value])
        case _:
            return value


def _is_inexact(element: Attribute, data: bytes) -> bool:
    if not isinstance(element, AnyFloat):
        return False
    return not all(_prints_exactly(v, element) for v in element.iter_unpack(data))


def _prints_exactly(value: float, element: AnyFloat) -> bool:
    if not math.isfinite(value):
        return False
    if float(f"{value:.5e}") == value:
        return True
    match element:
        case Float32Type():
            return "." in f"{value:.9g}"
        case Float64Type():
            return "." in f"{value:.17g}"
        case _:
            return "." in repr(value)
