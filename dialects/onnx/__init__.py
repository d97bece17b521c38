"""The onnx dialect: operations generated from the schemas, and the structural ones."""

from xdsl.ir import Dialect

from .base import (
    Arity,
    AttributeSpec,
    Formal,
    OnnxOp,
    Schema,
    attr,
    dense_array,
    dense_attr,
    describe,
    float_attr,
    floats_attr,
    info_of,
    int_attr,
    ints_attr,
    node_table,
    origin_of,
    origin_union,
    plain,
    string_attr,
    strings_attr,
    tensor_attr,
    to_attribute,
    value_name,
)
from .nodes import NodeInfo, NodeTableAttr
from .ops_gen import *  # noqa: F403  (its __all__ lists the operations)
from .ops_gen import OPS
from .structure import OPS as STRUCTURE
from .structure import CallOp, CustomOp, InitializerOp, PositionedOp, VersionedOp, YieldOp
from .types import (
    ELEMENT_CODES,
    ELEMENT_TYPES,
    STRING,
    TYPES,
    UNKNOWN,
    BytesAttr,
    MapType,
    OptionalType,
    RefAttr,
    SequenceType,
    SparseAttr,
    SparseType,
    StringType,
    UnknownType,
    WeightAttr,
    element_bits,
    element_of_dtype,
    numpy_dtype,
    type_string,
)

Onnx = Dialect("onnx", [*OPS, *STRUCTURE], [*TYPES, NodeTableAttr])

# operator by (domain, op_type)
OP_BY_NAME: dict[tuple[str, str], type[OnnxOp]] = {(op.SCHEMA.domain, op.SCHEMA.op_type): op for op in OPS}
