"""The types and attributes that ONNX has and MLIR's builtin dialect has not, and ONNX's numbering of element types."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

if TYPE_CHECKING:
    import numpy as np


@irdl_attr_definition
class UnknownType(ParametrizedAttribute, TypeAttribute):
    """`!onnx.unknown`: not inferred yet. No value has it after inference."""

    name = "onnx.unknown"


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """An element of a string tensor: `tensor<2x!onnx.string>`."""

    name = "onnx.string"


@irdl_attr_definition
class Float8E4M3FNType(ParametrizedAttribute, TypeAttribute):
    """8 bits: 4 of exponent, 3 of mantissa, no infinity."""

    name = "onnx.f8e4m3fn"


@irdl_attr_definition
class Float8E4M3FNUZType(ParametrizedAttribute, TypeAttribute):
    """8 bits: 4 of exponent, 3 of mantissa, no infinity, no negative zero."""

    name = "onnx.f8e4m3fnuz"


@irdl_attr_definition
class Float8E5M2Type(ParametrizedAttribute, TypeAttribute):
    """8 bits: 5 of exponent, 2 of mantissa."""

    name = "onnx.f8e5m2"


@irdl_attr_definition
class Float8E5M2FNUZType(ParametrizedAttribute, TypeAttribute):
    """8 bits: 5 of exponent, 2 of mantissa, no infinity, no negative zero."""

    name = "onnx.f8e5m2fnuz"


@irdl_attr_definition
class Float8E8M0Type(ParametrizedAttribute, TypeAttribute):
    """8 bits of exponent: the scales of microscaling formats."""

    name = "onnx.f8e8m0"


@irdl_attr_definition
class Float4E2M1Type(ParametrizedAttribute, TypeAttribute):
    """4 bits: 2 of exponent, 1 of mantissa."""

    name = "onnx.f4e2m1"


@irdl_attr_definition
class Float6E2M3Type(ParametrizedAttribute, TypeAttribute):
    """6 bits: 2 of exponent, 3 of mantissa."""

    name = "onnx.f6e2m3"


@irdl_attr_definition
class Float6E3M2Type(ParametrizedAttribute, TypeAttribute):
    """6 bits: 3 of exponent, 2 of mantissa."""

    name = "onnx.f6e3m2"


@irdl_attr_definition
class SequenceType(ParametrizedAttribute, TypeAttribute):
    """`!onnx.sequence<tensor<?x4xf32>>`: a list. An element tensor's sizes may differ from one element to the next."""

    name = "onnx.sequence"
    element: Attribute


@irdl_attr_definition
class OptionalType(ParametrizedAttribute, TypeAttribute):
    """`!onnx.optional<tensor<4xf32>>`: a value or nothing."""

    name = "onnx.optional"
    element: Attribute


@irdl_attr_definition
class MapType(ParametrizedAttribute, TypeAttribute):
    """`!onnx.map<i64, tensor<f32>>`."""

    name = "onnx.map"
    key: Attribute
    element: Attribute


@irdl_attr_definition
class SparseType(ParametrizedAttribute, TypeAttribute):
    """`!onnx.sparse<tensor<3x4xf32>>`: a sparse tensor of that dense type."""

    name = "onnx.sparse"
    dense: Attribute


@irdl_attr_definition
class WeightAttr(Data[str]):
    """`#onnx.weight<"w17">`: a constant by its handle; the values are in a WeightStore, never in the IR."""

    name: ClassVar[str] = "onnx.weight"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)


@irdl_attr_definition
class TextAttr(Data[str]):
    """`#onnx.text<"caf\\C3\\A9">`: text that is not ASCII, which xDSL cannot parse back as a StringAttr.

    Bytes that are no UTF-8 stand in `data` as surrogates (Python's `surrogateescape`).
    """

    name: ClassVar[str] = "onnx.text"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parse_text(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_text(printer, self.data)


def parse_text(parser: AttrParser) -> str:
    """Parses a string literal of any bytes."""
    data = parser.parse_optional_bytes_literal()
    return parser.parse_str_literal() if data is None else data.decode("utf-8", "surrogateescape")


def print_text(printer: Printer, text: str) -> None:
    """Prints what `parse_text` reads."""
    printer.print_bytes_literal(text.encode("utf-8", "surrogateescape"))


@irdl_attr_definition
class RefAttr(ParametrizedAttribute):
    """`#onnx.ref<"alpha">`: inside a local function, the caller's attribute of that name (and its default, if none)."""

    name = "onnx.ref"
    attribute: Attribute
    kind: StringAttr


@irdl_attr_definition
class SparseAttr(ParametrizedAttribute):
    """A sparse constant in coordinate form: `values[k]` stands at `indices[k]` of a tensor with the sizes `dims`."""

    name = "onnx.sparse_value"
    values: Attribute
    indices: Attribute
    dims: Attribute


UNKNOWN = UnknownType()
STRING = StringType()

# TensorProto.DataType -> element type (the numbers are ONNX's, in onnx.proto)
ELEMENT_TYPES: dict[int, Attribute] = {
    1: Float32Type(),
    2: IntegerType(8, Signedness.UNSIGNED),
    3: IntegerType(8),
    4: IntegerType(16, Signedness.UNSIGNED),
    5: IntegerType(16),
    6: IntegerType(32),
    7: IntegerType(64),
    8: STRING,
    9: IntegerType(1),
    10: Float16Type(),
    11: Float64Type(),
    12: IntegerType(32, Signedness.UNSIGNED),
    13: IntegerType(64, Signedness.UNSIGNED),
    14: ComplexType(Float32Type()),
    15: ComplexType(Float64Type()),
    16: BFloat16Type(),
    17: Float8E4M3FNType(),
    18: Float8E4M3FNUZType(),
    19: Float8E5M2Type(),
    20: Float8E5M2FNUZType(),
    21: IntegerType(4, Signedness.UNSIGNED),
    22: IntegerType(4),
    23: Float4E2M1Type(),
    24: Float8E8M0Type(),
    25: IntegerType(2, Signedness.UNSIGNED),
    26: IntegerType(2),
    27: Float6E2M3Type(),
    28: Float6E3M2Type(),
}
ELEMENT_CODES: dict[Attribute, int] = {type_: code for code, type_ in ELEMENT_TYPES.items()}

# element type -> its name in ONNX's type strings, `tensor(float)`
_NAMES = {
    1: "float",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "double",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}
ELEMENT_NAMES: dict[Attribute, str] = {ELEMENT_TYPES[code]: name for code, name in _NAMES.items()}

# TensorProto.DataType -> (numpy's or ml_dtypes' name, bits an element takes in raw_data)
_STORAGE: dict[int, tuple[str, int]] = {
    1: ("float32", 32),
    2: ("uint8", 8),
    3: ("int8", 8),
    4: ("uint16", 16),
    5: ("int16", 16),
    6: ("int32", 32),
    7: ("int64", 64),
    9: ("bool", 8),
    10: ("float16", 16),
    11: ("float64", 64),
    12: ("uint32", 32),
    13: ("uint64", 64),
    14: ("complex64", 64),
    15: ("complex128", 128),
    16: ("bfloat16", 16),
    17: ("float8_e4m3fn", 8),
    18: ("float8_e4m3fnuz", 8),
    19: ("float8_e5m2", 8),
    20: ("float8_e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4_e2m1fn", 4),
    24: ("float8_e8m0fnu", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
    27: ("float6_e2m3fn", 6),
    28: ("float6_e3m2fn", 6),
}


@cache
def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype of arrays with this element type: ml_dtypes' for what numpy lacks, `object` (str) for strings.

    Raises KeyError for what is no ONNX element type.
    """
    import numpy as np

    if element == STRING:
        return np.dtype(object)
    name, _ = _STORAGE[ELEMENT_CODES[element]]
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def element_of_dtype(dtype: np.dtype[Any]) -> Attribute:
    """The element type of arrays with this dtype; object and str arrays are string tensors.

    Raises KeyError where ONNX has no such element.
    """
    return STRING if dtype.kind in "OUS" else _by_dtype()[dtype.name]


@cache
def _by_dtype() -> dict[str, Attribute]:
    return {name: ELEMENT_TYPES[code] for code, (name, _) in _STORAGE.items()}


def element_bits(element: Attribute) -> int:
    """How many bits one element takes in a file. Raises KeyError for strings, which have no fixed size."""
    return _STORAGE[ELEMENT_CODES[element]][1]


@cache
def type_string(type_: Attribute) -> str | None:
    """ONNX's type string, `tensor(float)`, `seq(tensor(int64))`; None where the type is not known yet."""
    match type_:
        case TensorType() | UnrankedTensorType():
            element: Attribute = type_.element_type
            name = ELEMENT_NAMES.get(element)
            return name and f"tensor({name})"
        case SequenceType():
            inner = type_string(type_.element)
            return inner and f"seq({inner})"
        case OptionalType():
            inner = type_string(type_.element)
            return inner and f"optional({inner})"
        case MapType():
            inner = type_string(type_.element)
            inner = inner and inner.removeprefix("tensor(").removesuffix(")")  # ONNX writes map(int64, float)
            return inner and f"map({ELEMENT_NAMES[type_.key]}, {inner})"
        case SparseType():
            inner = type_string(type_.dense)
            return inner and f"sparse_{inner}"
        case _:
            return None


TYPES: list[type[Attribute]] = [
    UnknownType,
    StringType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2Type,
    Float8E5M2FNUZType,
    Float8E8M0Type,
    Float4E2M1Type,
    Float6E2M3Type,
    Float6E3M2Type,
    SequenceType,
    OptionalType,
    MapType,
    SparseType,
    WeightAttr,
    TextAttr,
    RefAttr,
    SparseAttr,
]
