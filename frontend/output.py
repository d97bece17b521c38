"""The model being written: the payloads of its tensors, the opsets that it imports, the names that are taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from google.protobuf.message import Message
from onnx import TensorProto

from ..dialects import onnx
from ..semantics.weights import WeightStore
from .importer import Reader
from .wire import RAW_DATA, field_bytes


@dataclass
class Output:
    """The model being written: what it was read from, its weights, and the names that are taken."""

    weights: WeightStore
    source: Reader | None
    embed_external: bool
    reserved: set[str]
    ir_version: int = 10
    added: dict[str, int] = field(default_factory=dict[str, int])

    def version(self, domain: str, versions: Mapping[str, int]) -> int:
        """The opset of a domain; a domain that the model does not import yet is added."""
        found = versions.get(domain) or self.added.get(domain)
        if found is None:
            found = max(op.SCHEMA.since for op in onnx.OPS if op.SCHEMA.domain == domain)
            self.added[domain] = found
        return found

    # Payloads

    def restore_all(self, message: Message) -> None:
        """Puts back the payloads of all tensors in a message copied from the skeleton."""
        for tensor in tensors_in(message):
            self.restore(tensor)

    def restore(self, tensor: TensorProto) -> None:
        """Puts a tensor's payload back where a marker stands for it."""
        assert self.source is not None
        blob = self.source.skeleton.blob_of(tensor.raw_data)
        if blob is None:
            return
        data = self.source.skeleton.bytes_of(blob)
        if blob.field == RAW_DATA:
            tensor.raw_data = bytes(data)
            return
        tensor.ClearField("raw_data")
        tensor.MergeFromString(field_bytes(blob.field, data))


def tensors_in(message: Message) -> Iterator[TensorProto]:
    """All tensors in a message."""
    if isinstance(message, TensorProto):
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for inner in value if descriptor.is_repeated else (value,):
            yield from tensors_in(inner)
