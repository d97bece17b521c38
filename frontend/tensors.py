"""TensorProto as attributes: small ones dense, the others as handles of weights that stay where they are."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute

from ..dialects.onnx.attributes import dense_attr, ints_attr
from ..dialects.onnx.types import ELEMENT_TYPES, STRING, SparseAttr, SparseType, element_bits, numpy_dtype
from ..runtime.errors import ModelError
from ..semantics.known import check_sparse
from ..semantics.weights import File, WeightStore, decode, map_file, nbytes_of
from .wire import Skeleton

SMALL = 64  # elements; a larger constant is a weight

_BIG = 1 << 62  # bytes; no file has them, and no size in the IR may reach it


_DATA_FIELDS = ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data")


@lru_cache(maxsize=1 << 12)
def _static_type(code: int, shape: tuple[int, ...]) -> TensorType[Attribute]:
    """The type of tensors of this element type, by ONNX's number, and shape."""
    return TensorType(ELEMENT_TYPES[code], shape)


class Tensors:
    """The tensors of one model: from its own bytes, or from the files beside it that it names."""

    def __init__(self, skeleton: Skeleton, file: File, weights: WeightStore, folder: Path | None) -> None:
        self._skeleton = skeleton
        self._file = file
        self._weights = weights
        self._folder = folder
        self._external: dict[str, File] = {}

    def type_of(self, proto: TensorProto) -> TensorType[Attribute]:
        """The static type of a tensor. Raises ModelError for sizes or an element type that cannot be."""
        element = ELEMENT_TYPES.get(proto.data_type)
        if element is None:
            raise ModelError(f"{_title(proto)} has the element type {proto.data_type}, which does not exist")
        shape = tuple(proto.dims)
        if any(size < 0 for size in shape) or math.prod(shape) > _BIG // 16:
            raise ModelError(f"{_title(proto)} has the sizes {list(shape)}")
        return _static_type(proto.data_type, shape)

    def attribute(self, proto: TensorProto) -> Attribute:
        """The attribute with the tensor's values. Raises ModelError where they are not there, or too few or many."""
        type_ = self.type_of(proto)
        element, shape = type_.element_type, type_.get_shape()
        if proto.HasField("segment"):
            raise ModelError(f"{_title(proto)} is one segment of a tensor, which no operator can take")
        if len(fields := [name for name in _DATA_FIELDS if len(getattr(proto, name))]) > 1:
            listed = " and in ".join(f"'{name}'" for name in fields)
            raise ModelError(f"{_title(proto)} has values in {listed}")
        if element == STRING:
            return self._weights.add(self._strings(proto, shape))
        if proto.data_location == TensorProto.EXTERNAL:
            return self._external_attribute(proto, element, shape)
        blob = self._skeleton.blob_of(proto.raw_data)
        if blob is not None and blob.field not in _blob_fields(proto.data_type):
            raise ModelError(f"{_title(proto)} has its values in a field of another element type")
        if blob is not None and (math.prod(shape) > SMALL or not _fits_dense(element)):
            self._check_size(proto, blob.length, shape)
            return self._weights.add_slice(self._file, blob.offset, blob.length, proto.data_type, shape)
        data = bytes(self._skeleton.bytes_of(blob)) if blob is not None else self._bytes(proto, element)
        self._check_size(proto, len(data), shape)
        return self._of_bytes(data, proto.data_type, type_)

    def sparse_attribute(self, proto: SparseTensorProto) -> tuple[SparseAttr, SparseType]:
        """A sparse constant and its type."""
        values, indices = self.attribute(proto.values), self.attribute(proto.indices)
        dense = TensorType(self.type_of(proto.values).element_type, tuple(proto.dims))
        if proto.indices.data_type != TensorProto.INT64:
            raise ModelError(f"{_title(proto.values)} is sparse, and its indices are no int64")
        sparse = SparseAttr(values, indices, ints_attr(tuple(proto.dims)))
        try:
            check_sparse(sparse, self._weights)
        except ValueError as error:
            raise ModelError(f"{_title(proto.values)} is sparse: {error}") from None
        return sparse, SparseType(dense)

    def _of_bytes(self, data: bytes, code: int, type_: TensorType[Attribute]) -> Attribute:
        shape = type_.get_shape()
        if math.prod(shape) <= SMALL and _fits_dense(type_.element_type):
            return dense_attr(type_, data)
        return self._weights.add(decode(data, code, shape))

    def _check_size(self, proto: TensorProto, length: int, shape: tuple[int, ...]) -> None:
        expected = nbytes_of(proto.data_type, shape)
        if length != expected:
            raise ModelError(f"{_title(proto)} has the sizes {list(shape)}, so {expected} bytes, and holds {length}")

    def _strings(self, proto: TensorProto, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if len(proto.string_data) != math.prod(shape):
            raise ModelError(f"{_title(proto)} has the sizes {list(shape)}, and {len(proto.string_data)} strings")
        array = np.empty(len(proto.string_data), object)
        for index, text in enumerate(proto.string_data):
            array[index] = text.decode("utf-8", "surrogateescape")
        array.flags.writeable = False
        return array.reshape(shape)

    def _bytes(self, proto: TensorProto, element: Attribute) -> bytes:
        """The values' bytes, from whichever field has them."""
        if proto.HasField("raw_data"):
            return proto.raw_data
        code = proto.data_type
        if code in (1, 14):
            return np.array(proto.float_data, np.float32).tobytes()
        if code in (11, 15):
            return np.array(proto.double_data, np.float64).tobytes()
        if code == 7:
            return np.array(proto.int64_data, np.int64).tobytes()
        if code in (12, 13):
            return np.array(proto.uint64_data, np.uint64).astype(numpy_dtype(element)).tobytes()
        numbers = np.array(proto.int32_data, np.int32)
        bits = element_bits(element)
        if bits == 6:  # one number an element here, four elements in three bytes in raw data
            spread = np.unpackbits(numbers.astype(np.uint8)[:, None], axis=1, bitorder="little")[:, :6]
            return np.packbits(spread.ravel(), bitorder="little").tobytes()
        if code == 9:
            return (numbers != 0).tobytes()
        return numbers.astype(np.dtype(f"u{max(bits, 8) // 8}")).tobytes()

    def _external_attribute(self, proto: TensorProto, element: Attribute, shape: tuple[int, ...]) -> Attribute:
        entries = {entry.key: entry.value for entry in proto.external_data}
        expected = nbytes_of(proto.data_type, shape)
        file = self._external_file(proto, entries.get("location", ""))
        offset = _number(proto, entries, "offset", 0)
        length = _number(proto, entries, "length", expected)
        if length != expected:
            raise ModelError(
                f"{_title(proto)} has the sizes {list(shape)}, so {expected} bytes; its length is {length}"
            )
        if offset + length > len(file):
            raise ModelError(f"{_title(proto)} goes beyond the end of '{entries['location']}', {len(file)} bytes")
        if math.prod(shape) <= SMALL and _fits_dense(element):
            return dense_attr(TensorType(element, shape), bytes(memoryview(file.buffer)[offset : offset + length]))
        return self._weights.add_slice(file, offset, length, proto.data_type, shape)

    def _external_file(self, proto: TensorProto, location: str) -> File:
        if location in self._external:
            return self._external[location]
        if self._folder is None:
            raise ModelError(
                f"{_title(proto)} is in the file '{location}' beside the model; give the model's path, not its bytes"
            )
        path = Path(location)
        if not location or "\0" in location or path.is_absolute() or ".." in path.parts:
            raise ModelError(f"{_title(proto)} is in '{location}', which is no path inside the model's folder")
        file = map_file(self._folder / path, self._folder)
        self._external[location] = file
        self._weights.files.add(self._folder / path)
        return file


def _blob_fields(code: int) -> tuple[int, ...]:
    """The fields of TensorProto that may hold an element type's values as bytes."""
    return {1: (9, 4), 14: (9, 4), 11: (9, 10), 15: (9, 10)}.get(code, (9,))


def _fits_dense(element: Attribute) -> bool:
    """Whether MLIR's builtin dense attribute can hold such elements."""
    if isinstance(element, IntegerType):
        return element.width.data == 1 or element.width.data >= 8
    return isinstance(element, AnyFloat)


def _number(proto: TensorProto, entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ModelError(f"{_title(proto)} has the {key} '{text}', which is no number of bytes")
    return int(text)


def _title(proto: TensorProto) -> str:
    return f"tensor '{proto.name}'" if proto.name else "a tensor without a name"
