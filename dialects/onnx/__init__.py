"""The onnx dialect: operations generated from the schemas, and the structural ones."""

from xdsl.ir import Dialect

from . import ops_gen
from .attributes import (
    ExactArrayAttr,
    ExactDenseAttr,
    dense_array,
    dense_attr,
    float_attr,
    floats_attr,
    int_attr,
    ints_attr,
    plain,
    string_attr,
    strings_attr,
    tensor_attr,
    text_of,
    to_attribute,
)
from .base import (
    EMPTY_ROWS,
    LIMITED,
    PROBLEM,
    REASON,
    SHARED_KEY,
    OnnxOp,
    PositionedOp,
    attr,
    describe,
    info_of,
    node_table,
    origin_of,
    origin_union,
    set_value_name,
    value_name,
)
from .declared import Declared, DeclaredAttr, declared_types
from .nodes import NodeInfo, NodeTableAttr
from .ops_gen import *  # noqa: F403
from .ops_gen import OPS
from .schema import Arity, AttributeSpec, Formal, Schema
from .structure import OPS as STRUCTURE
from .structure import CallOp, CustomOp, InitializerOp, VersionedOp, YieldOp, operator_name
from .types import (
    ELEMENT_CODES,
    ELEMENT_TYPES,
    STRING,
    TYPES,
    UNKNOWN,
    MapType,
    OptionalType,
    RefAttr,
    SequenceType,
    SparseAttr,
    SparseType,
    StringType,
    TextAttr,
    UnknownType,
    WeightAttr,
    element_bits,
    element_of_dtype,
    numpy_dtype,
    type_string,
)
from .weight_table import WeightTableAttr

Onnx = Dialect(
    "onnx", [*OPS, *STRUCTURE], [*TYPES, NodeTableAttr, DeclaredAttr, WeightTableAttr, ExactArrayAttr, ExactDenseAttr]
)

# operator by (domain, op_type)
OP_BY_NAME: dict[tuple[str, str], type[OnnxOp]] = {(op.SCHEMA.domain, op.SCHEMA.op_type): op for op in OPS}

__all__ = [
    "ELEMENT_CODES",
    "ELEMENT_TYPES",
    "EMPTY_ROWS",
    "LIMITED",
    "OPS",
    "OP_BY_NAME",
    "PROBLEM",
    "REASON",
    "SHARED_KEY",
    "STRING",
    "TYPES",
    "UNKNOWN",
    "Arity",
    "AttributeSpec",
    "CallOp",
    "CustomOp",
    "Declared",
    "DeclaredAttr",
    "Formal",
    "InitializerOp",
    "MapType",
    "NodeInfo",
    "NodeTableAttr",
    "Onnx",
    "OnnxOp",
    "OptionalType",
    "PositionedOp",
    "RefAttr",
    "Schema",
    "SequenceType",
    "SparseAttr",
    "SparseType",
    "StringType",
    "TextAttr",
    "UnknownType",
    "VersionedOp",
    "WeightAttr",
    "WeightTableAttr",
    "YieldOp",
    "attr",
    "declared_types",
    "dense_array",
    "dense_attr",
    "describe",
    "element_bits",
    "element_of_dtype",
    "float_attr",
    "floats_attr",
    "info_of",
    "int_attr",
    "ints_attr",
    "node_table",
    "numpy_dtype",
    "operator_name",
    "origin_of",
    "origin_union",
    "plain",
    "set_value_name",
    "string_attr",
    "strings_attr",
    "tensor_attr",
    "text_of",
    "to_attribute",
    "type_string",
    "value_name",
]
__all__ += ops_gen.__all__
