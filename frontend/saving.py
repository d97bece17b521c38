"""Models as files: under another name until they are known to be right, and with the data that they do not hold.

External data is found by a path in the model's own folder.  A model that goes to another folder takes its data along,
in one file beside it; what protobuf cannot hold is written there as well.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from ..runtime.errors import InputError
from ..semantics.weights import map_file, nbytes_of
from .output import tensors_in

MOST_BYTES = 2**31 - 2**24
"""Of all tensors in a model file: protobuf refuses 2 GB, and nodes and names take some."""

SMALLEST = 1 << 10
"""Bytes of a tensor that is worth a place in another file."""

ALIGNMENT = 1 << 12
"""Bytes: where tensors start, so that each can be mapped by itself."""


@dataclass
class Draft:
    """A model written as `path`, its data, if any, as `data`; `keep` gives both the names that they are to have."""

    model: ModelProto
    output: Path
    path: Path
    moved: Sequence[TensorProto] = ()
    data: Path | None = None
    data_output: Path | None = None
    left: list[Path] = field(default_factory=list[Path])

    def keep(self) -> None:
        """Puts the files in their places."""
        if self.data is not None and self.data_output is not None:
            for tensor in self.moved:
                set_entry(tensor, "location", self.data_output.name)
            onnx.save(self.model, self.path)
            os.replace(self.data, self.data_output)
        os.replace(self.path, self.output)


@contextmanager
def drafted(model: ModelProto, output: Path, folder: Path | None, *, most_bytes: int = MOST_BYTES) -> Generator[Draft]:
    """Writes a model beside `output`, and removes what is there at the end unless `keep` was called.

    `folder` is where the external data is that the model refers to.  In the same folder it is left where it is, else
    written anew; then, and where there are more than `most_bytes` of tensors, the model is changed to tell the new
    places.  Raises InputError where a file cannot be written.
    """
    draft = Draft(model, output, output.with_name(f".{output.stem}.part{output.suffix}"))
    try:
        _write(draft, folder, most_bytes)
        yield draft
    except OSError as e:
        raise InputError(f"{str(output)!r}: cannot be written: {e.strerror}") from e
    finally:
        for path in (draft.path, draft.data):
            if path is not None:
                path.unlink(missing_ok=True)


def _write(draft: Draft, folder: Path | None, most_bytes: int) -> None:
    tensors = list(tensors_in(draft.model))
    outside = [t for t in tensors if t.data_location == TensorProto.EXTERNAL]
    used = {(folder / entry_of(t, "location")).resolve() for t in outside} if folder is not None else set[Path]()
    if draft.output.resolve() in used:
        raise InputError(f"{str(draft.output)!r}: the model's own data is there")
    stays = folder is None or folder.resolve() == draft.output.parent.resolve()
    moved = [] if stays else outside
    inside = [t for t in tensors if t.data_location != TensorProto.EXTERNAL]
    if payload_of(draft.model) > most_bytes:
        moved += [t for t in inside if payload_bytes(t) >= SMALLEST]
    if moved:
        draft.moved = moved
        draft.data_output = _unused(draft.output, used)
        draft.data = draft.output.with_name(f".{draft.output.stem}.part.data")
        with draft.data.open("wb") as out:
            _write_data(moved, folder, draft.data.name, out)
    onnx.save(draft.model, draft.path)


def _unused(output: Path, used: set[Path]) -> Path:
    """The file for a model's data: `model.onnx.data`, where that is no file that the model's data is in already."""
    found, number = output.with_name(f"{output.name}.data"), 0
    while found.resolve() in used:
        number += 1
        found = output.with_name(f"{output.name}.{number}.data")
    return found


def _write_data(tensors: Sequence[TensorProto], folder: Path | None, name: str, out: BinaryIO) -> None:
    """Writes the tensors' bytes one after another, what several share once, and makes them external in that file."""
    places: dict[tuple[str, int, int], tuple[int, int]] = {}
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            assert folder is not None
            location, start = entry_of(tensor, "location"), int(entry_of(tensor, "offset") or 0)
            size = nbytes_of(tensor.data_type, tuple(tensor.dims))
            if (location, start, size) not in places:
                whole = memoryview(map_file(folder / location, folder).buffer)
                places[location, start, size] = _append(out, whole[start : start + size])
            at, size = places[location, start, size]
        else:
            at, size = _append(out, memoryview(payload(tensor)))
            for name_of_field in ("raw_data", "float_data", "double_data", "int64_data"):
                tensor.ClearField(name_of_field)
            tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", str(at)), ("length", str(size))):
            set_entry(tensor, key, value)


def _append(out: BinaryIO, data: memoryview) -> tuple[int, int]:
    """Where the bytes start, and how many they are."""
    out.write(b"\0" * (-out.tell() % ALIGNMENT))
    at = out.tell()
    out.write(data)
    return at, len(data)


def payload_of(model: ModelProto) -> int:
    """The bytes of all tensors that a model holds itself."""
    return sum(map(payload_bytes, tensors_in(model)))


def payload_bytes(tensor: TensorProto) -> int:
    """The bytes of a tensor's values as the file has them, for those that may be very many."""
    wide = len(tensor.double_data) + len(tensor.int64_data)
    return len(tensor.raw_data) + 4 * len(tensor.float_data) + 8 * wide


def payload(tensor: TensorProto) -> bytes:
    """A tensor's values as raw data."""
    return tensor.raw_data if tensor.HasField("raw_data") else numpy_helper.to_array(tensor).tobytes()


def entry_of(tensor: TensorProto, key: str) -> str:
    """What an external tensor says about its place; "" where it says nothing."""
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


def set_entry(tensor: TensorProto, key: str, value: str) -> None:
    """Says something about the place of an external tensor."""
    entry = next((entry for entry in tensor.external_data if entry.key == key), None)
    entry = entry if entry is not None else tensor.external_data.add(key=key)
    entry.value = value
