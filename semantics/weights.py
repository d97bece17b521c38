"""The store of weights: numpy views on the model's files, by the handles that stand for them in the IR.

What comes from a file is mapped, not read.  A view may be at any address (a payload in a protobuf file is not aligned),
and must not be written to.  A table on the module lets printed IR find its weights again (`attach`, `from_module`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute

from ..dialects.onnx.types import ELEMENT_CODES, ELEMENT_TYPES, WeightAttr, element_bits, element_of_dtype, numpy_dtype
from ..dialects.onnx.weight_table import WeightRow, WeightTableAttr
from ..runtime.errors import ModelError

Array = np.ndarray[Any, Any]
Buffer = bytes | mmap.mmap | memoryview

TABLE = "onnx.weights"  # the module's attribute
SOURCE = "source"  # the table's row for the model's own bytes
FOLDER = "folder"  # the table's row for the folder of its external data


@dataclass(frozen=True)
class File:
    """Bytes that weights are parts of: mapped from `path`, or in memory where there is none."""

    buffer: Buffer
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.buffer)


@dataclass
class _Slice:
    """`nbytes` from `offset` on of a file, as a tensor; `digest` is what they must have, where it is known."""

    file: File
    offset: int
    nbytes: int
    element: int  # TensorProto.DataType
    shape: tuple[int, ...]
    digest: str = ""
    array: Array | None = field(default=None, repr=False)

    def bytes(self) -> memoryview:
        return memoryview(self.file.buffer)[self.offset : self.offset + self.nbytes]


class WeightStore:
    """Arrays by handle: views on the files that they come from, and arrays that passes have computed."""

    def __init__(self) -> None:
        self._entries: dict[str, Array | _Slice] = {}
        self._next = 0
        self.source: File | None = None  # the model as it was read, for an export that loses nothing
        self.folder: Path | None = None  # where its external data is
        self.home: Path | None = None  # the folder of the model's own file, or of its text's
        self.files: set[Path] = set()  # what was opened for weights, however little of it is left

    def add(self, array: Array) -> WeightAttr:
        """Keeps the array (not a copy) under a new handle."""
        return self._keep(array)

    def add_slice(self, file: File, offset: int, nbytes: int, element: int, shape: tuple[int, ...]) -> WeightAttr:
        """Keeps part of a file as a tensor under a new handle. `element` is ONNX's number of the element type."""
        return self._keep(_Slice(file, offset, nbytes, element, shape))

    def _keep(self, entry: Array | _Slice) -> WeightAttr:
        key = f"w{self._next}"
        self._next += 1
        self._entries[key] = entry
        return WeightAttr(key)

    def _entry(self, handle: WeightAttr) -> Array | _Slice:
        entry = self._entries.get(handle.data)
        if entry is None:
            raise ModelError(
                f"weight {handle.data} is not here: text has its weights beside it only where it was written to a file "
                "(compile --emit LEVEL -o FILE)"
            )
        return entry

    def get(self, handle: WeightAttr) -> Array:
        """The array of a handle, not to be written to.

        Raises ModelError for one that is not here, and where the bytes of its file have changed.
        """
        entry = self._entry(handle)
        if not isinstance(entry, _Slice):
            return entry
        if entry.array is None:
            data = entry.bytes()
            if entry.digest and digest(data) != entry.digest:
                raise ModelError(
                    f"{entry.file.path}: the bytes of weight {handle.data} are not those that were compiled"
                )
            entry.array = decode(data, entry.element, entry.shape)
        return entry.array

    def shape(self, handle: WeightAttr) -> tuple[int, ...]:
        """The sizes of a weight, without reading it."""
        return self._entry(handle).shape

    def external_names(self) -> list[str]:
        """The files that weights were read from, but for the model itself; relative to its folder if they are in it."""
        home = self.home
        return sorted(
            str(f.relative_to(home) if home is not None and f.is_relative_to(home) else f) for f in self.files
        )

    def file_of(self, handle: WeightAttr) -> tuple[Path, int, int] | None:
        """The file that a weight is a part of, its first byte and its bytes; None for what is in no file."""
        entry = self._entry(handle)
        if isinstance(entry, _Slice) and entry.file.path is not None:
            return entry.file.path, entry.offset, entry.nbytes
        return None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, handle: WeightAttr) -> bool:
        return handle.data in self._entries

    def __iter__(self) -> Iterator[WeightAttr]:
        return map(WeightAttr, self._entries)

    # With the text of a module

    def attach(self, module: ModuleOp, blob: Path | None = None) -> None:
        """Gives the module the table of the weights that it has, and writes to `blob` what is in no file yet.

        Paths in the table are relative to the blob's folder where they are in it.  Without a blob the text has no place
        of its own: what is in no file goes to the system's temporary folder, and all paths are absolute.  Reads every
        weight once.
        """
        rows: list[WeightRow] = []
        folder = blob.parent.resolve() if blob is not None else None
        blob = blob or Path(tempfile.gettempdir()) / f"sardonyx-{uuid4().hex}.weights"
        used = handles_in(module)
        entries = {key: entry for key, entry in self._entries.items() if key in used}
        if self.source is not None:
            entries[SOURCE] = _Slice(self.source, 0, len(self.source), 2, (len(self.source),))
        with _Appender(blob) as out:
            for key, entry in entries.items():
                if isinstance(entry, _Slice) and entry.file.path is not None:
                    path, offset, data = entry.file.path, entry.offset, entry.bytes()
                else:
                    data = entry.bytes() if isinstance(entry, _Slice) else memoryview(encode(entry))
                    path, offset = blob, out.append(data)
                element = entry.element if isinstance(entry, _Slice) else ELEMENT_CODES[element_of_dtype(entry.dtype)]
                rows.append(
                    WeightRow(key, _shown(path, folder), offset, len(data), digest(data), element, tuple(entry.shape))
                )
        if self.folder is not None:
            rows.append(WeightRow(FOLDER, _shown(self.folder, folder), 0, 0, "", 2, (0,)))
        module.attributes[TABLE] = WeightTableAttr(tuple(rows))

    @staticmethod
    def from_module(module: ModuleOp, folder: Path) -> WeightStore:
        """The store that the table on a parsed module describes; `folder` is where the text is from.

        Raises ModelError where a file is missing or too short; a file that has changed is noticed by `get`.
        """
        store = WeightStore()
        store.home = folder
        table = module.attributes.get(TABLE)
        files: dict[str, File] = {}
        for row in table.data if isinstance(table, WeightTableAttr) else ():
            if row.key == FOLDER:
                store.folder = folder / row.file
                continue
            if row.file not in files:
                files[row.file] = map_file(folder / row.file)
                store.files.add(folder / row.file)
            file = files[row.file]
            if row.offset + row.nbytes > len(file):
                raise ModelError(f"{file.path}: weight {row.key} goes beyond its end; the file has changed")
            entry = _Slice(file, row.offset, row.nbytes, row.element, row.shape, row.digest)
            if row.key == SOURCE:
                data = entry.bytes()
                if digest(data) != row.digest:
                    raise ModelError(f"{file.path}: this is not the model that the text was made from; it has changed")
                store.source = file if len(data) == len(file) else File(data)
                continue
            store._entries[row.key] = entry
            number = row.key.removeprefix("w")
            if number.isdecimal():
                store._next = max(store._next, int(number) + 1)
        return store


def handles_in(module: ModuleOp) -> set[str]:
    """The handles of weights in a module's attributes, at any depth."""
    found: set[str] = set()
    stack: list[Attribute] = [a for op in module.walk() for a in (*op.properties.values(), *op.attributes.values())]
    while stack:
        attribute = stack.pop()
        if isinstance(attribute, WeightAttr):
            found.add(attribute.data)
        elif isinstance(attribute, ArrayAttr):
            stack.extend(cast("ArrayAttr[Attribute]", attribute).data)
        elif isinstance(attribute, DictionaryAttr):
            stack.extend(attribute.data.values())
        elif isinstance(attribute, ParametrizedAttribute):
            stack.extend(attribute.parameters)
    return found


class _Appender:
    """Appends payloads to a file, which is made at the first; each starts at a multiple of 64 bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._out: Any = None

    def __enter__(self) -> _Appender:
        return self

    def append(self, data: memoryview) -> int:
        """Writes the payload; returns where it starts."""
        if self._out is None:
            self._out = self._part.open("wb")
        self._out.write(b"\0" * (-self._out.tell() % 64))
        at: int = self._out.tell()
        self._out.write(data)
        return at

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._out is None:
            return
        self._out.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink()


def _shown(path: Path, folder: Path | None) -> str:
    resolved = path.resolve()
    return (
        str(resolved.relative_to(folder)) if folder is not None and resolved.is_relative_to(folder) else str(resolved)
    )


def map_file(path: Path, within: Path | None = None) -> File:
    """Maps a regular file, read-only; an empty one is empty bytes.

    With `within`, the file must be in that folder: not through a link out of it, and without a second name anywhere (a
    hard link may be to any file of the disk).  Raises ModelError otherwise, and where it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"{path}: cannot be read: {reason}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path}: is not a regular file")
        if within is not None:
            real = Path(os.path.realpath(f"/proc/self/fd/{handle}"))
            if not real.is_relative_to(within.resolve()):
                raise ModelError(f"{path}: is a link out of the model's folder")
            if status.st_nlink > 1:
                raise ModelError(f"{path}: has a second name (a hard link), which may be outside of the model's folder")
        buffer = mmap.mmap(handle, 0, access=mmap.ACCESS_READ) if status.st_size else b""
    finally:
        os.close(handle)
    return File(buffer, path)


def digest(data: Buffer) -> str:
    """128 bits of BLAKE2b, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# Bytes, as they are in a file


def nbytes_of(element: int, shape: tuple[int, ...]) -> int:
    """How many bytes a tensor takes in a file. Raises KeyError for strings and for what is no element type."""
    count = 1
    for size in shape:
        count *= size
    return (count * element_bits(ELEMENT_TYPES[element]) + 7) // 8


def decode(data: Buffer, element: int, shape: tuple[int, ...]) -> Array:
    """The array of a tensor's bytes: a view, but for elements below 8 bits and strings, which are unpacked."""
    type_ = ELEMENT_TYPES[element]
    dtype = numpy_dtype(type_)
    if dtype.kind == "O":
        return _unpack_strings(bytes(data), shape)
    bits = element_bits(type_)
    if dtype.kind == "b":
        array = _booleans(np.frombuffer(data, np.uint8)).reshape(shape)
    elif bits >= 8:
        array = np.frombuffer(data, dtype).reshape(shape)
    else:
        array = _unpack(np.frombuffer(data, np.uint8), bits, prod(shape), dtype).reshape(shape)
    array.flags.writeable = False
    return array


def encode(array: Array) -> bytes:
    """The bytes of an array as they stand in a file; `decode`'s inverse."""
    element = element_of_dtype(array.dtype)
    if array.dtype.kind in "OUS":
        return _pack_strings(array)
    bits = element_bits(element)
    if bits >= 8:
        return np.ascontiguousarray(array).tobytes()
    return _pack(np.ascontiguousarray(array).ravel().view(np.uint8), bits)


def _booleans(data: np.ndarray[Any, Any]) -> Array:
    """A view where every byte is 0 or 1, as generated code needs it; else a copy, any other byte being true."""
    return data.view(np.bool_) if not data.size or data.max() <= 1 else data != 0


def _unpack(data: np.ndarray[Any, Any], bits: int, count: int, dtype: np.dtype[Any]) -> Array:
    """Elements of 2, 4 or 6 bits, the first in the lowest bits (6: four elements in three bytes)."""
    spread = np.unpackbits(data, bitorder="little")[: count * bits].reshape(count, bits)
    values = np.zeros(count, np.uint8)
    for at in range(bits):
        values |= spread[:, at] << at
    return values.view(dtype)


def _pack(data: np.ndarray[Any, Any], bits: int) -> bytes:
    spread = np.unpackbits(data[:, None], axis=1, bitorder="little")[:, :bits]
    return np.packbits(spread.ravel(), bitorder="little").tobytes()


def _pack_strings(array: Array) -> bytes:
    """Each string's length in 8 bytes, then all of them one after the other."""
    texts = [str(text).encode("utf-8", "surrogateescape") for text in array.ravel()]
    lengths = np.array([len(text) for text in texts], "<u8")
    return lengths.tobytes() + b"".join(texts)


def _unpack_strings(data: bytes, shape: tuple[int, ...]) -> Array:
    count = prod(shape)
    at = 8 * count
    array = np.empty(count, object)
    for index, length in enumerate(np.frombuffer(data, "<u8", count).tolist()):
        array[index] = data[at : at + length].decode("utf-8", "surrogateescape")
        at += length
    array.flags.writeable = False
    return array.reshape(shape)
