"""Attributes of the IR as protos, and what protos take over from those that they come from."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute

from ..dialects.onnx.attributes import dense_array, plain, text_of
from ..dialects.onnx.types import ELEMENT_CODES, RefAttr, SparseAttr, TextAttr, WeightAttr, element_of_dtype
from ..runtime.errors import ModelError
from ..semantics.weights import WeightStore, encode
from .types import type_proto_of


def tensor_proto(value: Attribute, weights: WeightStore, name: str = "") -> TensorProto:
    """A TensorProto with the values of a dense attribute or a weight, as raw data."""
    array = weights.get(value) if isinstance(value, WeightAttr) else dense_array(_dense(value))
    return array_proto(array, name)


def array_proto(array: np.ndarray[Any, Any], name: str = "") -> TensorProto:
    """A TensorProto with the array's values, as raw data; strings as strings."""
    proto = TensorProto(data_type=ELEMENT_CODES[element_of_dtype(array.dtype)], dims=array.shape)
    if name:
        proto.name = name
    if array.dtype.kind in "OUS":
        proto.string_data.extend(_bytes_of(text) for text in array.ravel())
    else:
        proto.raw_data = encode(array)
    return proto


def sparse_proto(value: SparseAttr, weights: WeightStore, name: str = "") -> SparseTensorProto:
    """A SparseTensorProto; the name stands on its values."""
    return SparseTensorProto(
        values=tensor_proto(value.values, weights, name),
        indices=tensor_proto(value.indices, weights),
        dims=plain(value.dims),
    )


def _dense(value: Attribute) -> DenseIntOrFPElementsAttr[Any]:
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise ModelError(f"no tensor can be written from {value}")
    return cast("DenseIntOrFPElementsAttr[Any]", value)


def _bytes_of(text: object) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")


def add_attribute(node: NodeProto, name: str, value: Attribute, kind: str, weights: WeightStore) -> None:
    """Adds an attribute to a node. `kind` is AttributeProto's, or "" where only the value tells."""
    proto = node.attribute.add()
    fill_attribute(proto, name, value, kind or kind_of(value), weights)


def fill_attribute(proto: AttributeProto, name: str, value: Attribute, kind: str, weights: WeightStore) -> None:
    """Makes the proto that attribute; what else it has is lost."""
    proto.Clear()
    proto.name = name
    if isinstance(value, RefAttr):
        proto.ref_attr_name = text_of(value.attribute)
        proto.type = cast("Any", AttributeProto.AttributeType.Value(value.kind.data))
        return
    proto.type = cast("Any", AttributeProto.AttributeType.Value(kind))
    listed = weights.get(value) if isinstance(value, WeightAttr) and kind in ("INTS", "FLOATS", "STRINGS") else None
    match kind:
        case "INT":
            proto.i = plain(value)
        case "FLOAT":
            proto.f = plain(value)
        case "STRING":
            proto.s = _bytes_of(plain(value))
        case "INTS":
            proto.ints.extend(plain(value) if listed is None else listed.tolist())
        case "FLOATS":
            proto.floats.extend(plain(value) if listed is None else listed.tolist())
        case "STRINGS":
            proto.strings.extend(map(_bytes_of, plain(value) if listed is None else listed.tolist()))
        case "TENSOR":
            proto.t.CopyFrom(tensor_proto(value, weights))
        case "TENSORS":
            proto.tensors.extend(tensor_proto(v, weights) for v in cast("ArrayAttr[Attribute]", value))
        case "SPARSE_TENSOR":
            proto.sparse_tensor.CopyFrom(sparse_proto(cast("SparseAttr", value), weights))
        case "TYPE_PROTO":
            proto.tp.CopyFrom(type_proto_of(value))
        case _:
            raise ModelError(f"an attribute '{name}' of kind {kind} cannot be written")


def kind_of(value: Attribute) -> str:
    """AttributeProto's kind of a value whose operator has no schema."""
    match value:
        case IntegerAttr():
            return "INT"
        case FloatAttr():
            return "FLOAT"
        case StringAttr() | TextAttr():
            return "STRING"
        case DenseArrayBase():
            return "INTS" if isinstance(cast("Any", value).elt_type, IntegerType) else "FLOATS"
        case ArrayAttr():
            entries = value.data
            texts = not entries or isinstance(entries[0], StringAttr | TextAttr)
            return "STRINGS" if texts else "TENSORS"
        case SparseAttr():
            return "SPARSE_TENSOR"
        case DenseIntOrFPElementsAttr() | WeightAttr():
            return "TENSOR"
        case _:
            return "TYPE_PROTO"


def copy_head(source: GraphProto, target: GraphProto) -> None:
    """Copies a graph's own fields, without its nodes, initializers, inputs, outputs and declarations."""
    for descriptor, value in source.ListFields():
        if descriptor.name in ("name", "doc_string"):
            setattr(target, descriptor.name, value)
        elif descriptor.name in ("quantization_annotation", "metadata_props"):
            getattr(target, descriptor.name).MergeFrom(value)


def copy_notes(source: NodeProto, target: NodeProto) -> None:
    """Copies what says who a node is."""
    if source.HasField("name"):
        target.name = source.name
    if source.HasField("doc_string"):
        target.doc_string = source.doc_string
    target.metadata_props.MergeFrom(source.metadata_props)


def add_info(target: Any, name: str, type_: Attribute, source: ValueInfoProto | None) -> None:
    """Adds a declaration: the file's under this name, or a new one."""
    info: ValueInfoProto = target.add()
    if source is not None:
        info.CopyFrom(source)
    else:
        info.type.CopyFrom(type_proto_of(type_))
    if source is None or info.name != name:
        info.name = name


def all_names(graph: GraphProto) -> set[str]:
    """The names of all values of a graph itself."""
    found = {info.name for info in (*graph.input, *graph.output)}
    found |= {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return found | {name for node in graph.node for name in node.output}
