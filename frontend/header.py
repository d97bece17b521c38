"""What a model says of itself, as attributes of the module and back."""

from __future__ import annotations

from typing import Any, cast

from onnx import ModelProto
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import int_attr, plain, string_attr, text_of


def header_of(proto: ModelProto) -> dict[str, Attribute]:
    """The module attributes for what a model says of itself."""
    header: dict[str, Attribute] = {
        names.IR_VERSION: int_attr(proto.ir_version),
        names.OPSETS: names.opsets_attr([(o.domain, o.version) for o in proto.opset_import]),
    }
    for key in ("producer_name", "producer_version", "domain", "doc_string"):
        if getattr(proto, key):
            header[f"onnx.{key}"] = string_attr(getattr(proto, key))
    if proto.model_version:
        header["onnx.model_version"] = int_attr(proto.model_version)
    if proto.metadata_props:
        rows = [ArrayAttr([string_attr(entry.key), string_attr(entry.value)]) for entry in proto.metadata_props]
        header["onnx.metadata"] = ArrayAttr(rows)
    return header


def _set_text(name: str) -> Any:
    def write(proto: ModelProto, value: Attribute | None) -> None:
        proto.ClearField(cast("Any", name))
        if value is not None:
            setattr(proto, name, text_of(value))

    return write


def _set_number(name: str) -> Any:
    def write(proto: ModelProto, value: Attribute | None) -> None:
        proto.ClearField(cast("Any", name))
        if value is not None:
            setattr(proto, name, plain(value))

    return write


def _set_opsets(proto: ModelProto, value: Attribute | None) -> None:
    del proto.opset_import[:]
    for domain, version in plain(value) if value is not None else ():
        proto.opset_import.add(domain=domain, version=version)


def _set_metadata(proto: ModelProto, value: Attribute | None) -> None:
    del proto.metadata_props[:]
    for key, text in plain(value) if value is not None else ():
        proto.metadata_props.add(key=key, value=text)


WRITE_HEADER: dict[str, Any] = {
    names.IR_VERSION: _set_number("ir_version"),
    names.OPSETS: _set_opsets,
    "onnx.producer_name": _set_text("producer_name"),
    "onnx.producer_version": _set_text("producer_version"),
    "onnx.domain": _set_text("domain"),
    "onnx.doc_string": _set_text("doc_string"),
    "onnx.model_version": _set_number("model_version"),
    "onnx.metadata": _set_metadata,
}
