"""Files that are damaged, or that hold what this version of ONNX does not know."""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto

from ..runtime.errors import ModelError


def parse(data: bytes) -> ModelProto:
    """The proto of a model's bytes. Raises ModelError where they are none."""
    if not data:
        raise ModelError("the file is empty")
    try:
        return ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"the file is no ONNX model, or damaged: {error}") from None


def refuse_bad_text(message: Message, where: str = "the model") -> None:
    """Raises ModelError where a text in the message is no UTF-8."""
    for descriptor, value in message.ListFields():
        for entry in value if descriptor.is_repeated else (value,):
            if isinstance(entry, Message):
                refuse_bad_text(entry, f"{where}.{descriptor.name}")
            elif descriptor.type == FieldDescriptor.TYPE_STRING and isinstance(entry, bytes):
                raise ModelError(f"the file is damaged: a text in {where}.{descriptor.name} is no UTF-8: {entry[:40]}")


def refuse_unknown(proto: ModelProto) -> None:
    """Raises ModelError where the file has fields that this version of ONNX does not know."""
    known = ModelProto()
    known.CopyFrom(proto)
    known.DiscardUnknownFields()
    if known.ByteSize() != proto.ByteSize():
        raise ModelError("the file has fields that this version of ONNX does not know; writing it would lose them")
