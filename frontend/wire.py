"""Protobuf's wire format: cuts the big payloads out of a model, so that weights stay where they are.

protobuf copies each payload several times and refuses 2 GB.  Here the nesting that can hold tensors is walked by hand,
and each payload of LIMIT bytes or more is replaced by a marker; what is left is parsed by protobuf as usual.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

from ..runtime.errors import ModelError

LIMIT = 1024  # bytes; a smaller payload is copied

Buffer = memoryview | bytes | mmap.mmap

# message -> its length-delimited fields that can hold a tensor: number -> message (numbers are onnx.proto's)
_NESTED: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {},
}
_LISTS = (7, 8, 9)  # AttributeProto's floats, ints, strings
RAW_DATA, FLOAT_DATA, DOUBLE_DATA = 9, 4, 10
_MAX_DEPTH = 100  # protobuf's own


@dataclass(frozen=True)
class Blob:
    """A payload in the buffer: the tensor's field that it belongs to, its first byte, its length in bytes."""

    field: int
    offset: int
    length: int


class Skeleton:
    """A model's bytes without the big payloads.

    `data` is parsed by protobuf; a tensor whose `raw_data` is a marker has its payload in the original buffer, and
    `blob_of` finds it.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._view = memoryview(buffer)
        self._mark = os.urandom(16)  # no file can hold it, but by a chance of 2**-128
        self.blobs: list[Blob] = []
        parts: list[Buffer] = []
        self._cut("Model", 0, len(self._view), parts, 0)
        self.data = b"".join(parts)

    def blob_of(self, raw_data: bytes) -> Blob | None:
        """The payload that this marker stands for; None for ordinary raw data."""
        if len(raw_data) != 24 or not raw_data.startswith(self._mark):
            return None
        return self.blobs[int.from_bytes(raw_data[16:], "little")]

    def bytes_of(self, blob: Blob) -> memoryview:
        """The payload itself, a view."""
        return self._view[blob.offset : blob.offset + blob.length]

    def _cut(self, message: str, start: int, end: int, parts: list[Buffer], depth: int) -> int:
        """Appends the message [start, end) to `parts`, cut; returns how many bytes were appended."""
        if depth > _MAX_DEPTH:
            raise ModelError("the file is damaged: messages are nested too deeply")
        if message == "Tensor":
            return self._cut_tensor(start, end, parts)
        view, nested = self._view, _NESTED[message]
        written, kept, at = 0, start, start
        while at < end:
            field_at = at
            tag, at = self._varint(at, end)
            wire = tag & 7
            if message == "Attribute" and tag >> 3 in _LISTS:
                break  # a list of numbers or strings, so no tensor: protobuf reads it faster
            if wire != 2:
                at = self._skip(wire, at, end)
                continue
            length, at = self._varint(at, end)
            if at + length > end:
                raise self._truncated(field_at)
            inner = nested.get(tag >> 3)
            if inner is not None and length >= LIMIT:
                pieces: list[Buffer] = []
                size = self._cut(inner, at, at + length, pieces, depth + 1)
                if size != length:
                    head = _varint(tag) + _varint(size)
                    parts += [view[kept:field_at], head, *pieces]
                    written += field_at - kept + len(head) + size
                    kept = at + length
            at += length
        parts.append(view[kept:end])
        return written + end - kept

    def _cut_tensor(self, start: int, end: int, parts: list[Buffer]) -> int:
        found: list[tuple[int, int, int, int]] = []  # field, where its tag is, where its payload is, length
        at, data_fields = start, 0
        while at < end:
            field_at = at
            tag, at = self._varint(at, end)
            if tag & 7 != 2:
                at = self._skip(tag & 7, at, end)
                continue
            length, at = self._varint(at, end)
            if at + length > end:
                raise self._truncated(field_at)
            if tag >> 3 in (RAW_DATA, FLOAT_DATA, DOUBLE_DATA):
                data_fields += 1
                found.append((tag >> 3, field_at, at, length))
            at += length
        if data_fields != 1 or found[0][3] < LIMIT:
            parts.append(self._view[start:end])  # small, or spread over several fields: protobuf merges them
            return end - start
        field, field_at, payload, length = found[0]
        marker = self._mark + len(self.blobs).to_bytes(8, "little")
        self.blobs.append(Blob(field, payload, length))
        stand_in = _varint(RAW_DATA << 3 | 2) + _varint(len(marker)) + marker
        parts += [self._view[start:field_at], stand_in, self._view[payload + length : end]]
        return end - start - (payload + length - field_at) + len(stand_in)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        view, value, shift = self._view, 0, 0
        while at < end and shift < 64:
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise self._truncated(at)

    def _skip(self, wire: int, at: int, end: int) -> int:
        if wire == 0:
            return self._varint(at, end)[1]
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            raise ModelError(f"the file is no ONNX model, or damaged: no field can start at byte {at}")
        if at + size > end:
            raise self._truncated(at)
        return at + size

    def _truncated(self, at: int) -> ModelError:
        return ModelError(f"the file is no ONNX model, or damaged: what starts at byte {at} goes beyond its end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_bytes(number: int, payload: Buffer) -> bytes:
    """A length-delimited field as it stands in a message."""
    return b"".join((_varint(number << 3 | 2), _varint(len(payload)), payload))
