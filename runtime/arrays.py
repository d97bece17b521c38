"""What users pass, as arrays that native code can read: checked, never guessed.

Anything with `__dlpack__`, `__array__` or the buffer protocol is taken, and numbers and lists as numpy takes them.
The element type must be the model's own; only byte order, strides and alignment are put right, by a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from .available import available_memory, require
from .errors import InputError, ResourceError
from .manifest import OBJECT_TYPES, TensorSpec

Array = np.ndarray[Any, Any]

C_ORDER_ALIGNED = 0x101
"""The bits of `ndarray.flags.num` that a native kernel needs: C-contiguous, aligned."""

_EXTENSION_TYPES = frozenset(
    {
        "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
    }
)  # fmt: skip
"""Element types of ml_dtypes; each element takes a byte, two for bfloat16."""


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """numpy's element type for a name in a manifest. ml_dtypes is only imported where a model needs it."""
    if name in OBJECT_TYPES:
        return np.dtype(object)
    if name in _EXTENSION_TYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


class Spec:
    """An input as the call path needs it."""

    __slots__ = ("default", "dtype", "holds", "is_object", "name", "rank", "text")

    def __init__(self, spec: TensorSpec) -> None:
        self.name = spec["name"]
        self.text = spec["dtype"]
        self.dtype = dtype_of(spec["dtype"])
        self.rank = len(spec["dims"]) if spec["dims"] != ["..."] else -1  # any
        self.is_object = spec["dtype"] in OBJECT_TYPES
        self.holds = spec.get("holds")
        self.default = spec.get("default")


# --- the address of an array's first element ---


def _address_by_interface(array: Array) -> int:
    return cast("int", array.__array_interface__["data"][0])


def _address_by_field(array: Array) -> int:
    """Reads the first field of numpy's array object, ten times faster than `array.ctypes.data`."""
    return _read(id(array) + _HEADER).value


_read = ctypes.c_ssize_t.from_address
_HEADER = object.__basicsize__


def _fields_are_as_published() -> bool:
    """Whether the layout in numpy's public header (`PyArrayObject_fields`: head, then data) holds in this process."""
    samples = [np.empty(1), np.empty((2, 3), np.int8)[:, 1:], np.zeros(0), np.array(1)]
    return all(_address_by_field(a) == _address_by_interface(a) for a in samples)


address_of: Callable[[Array], int] = _address_by_field if _fields_are_as_published() else _address_by_interface
"""The address of an array's first element. The caller keeps the array alive."""


# --- conversion ---


def as_input(value: object, spec: Spec) -> Array:
    """The value as an array of the input's element type and rank, contiguous and aligned. Raises InputError."""
    if (
        type(value) is np.ndarray
        and value.dtype is spec.dtype
        and value.ndim == spec.rank
        and value.flags.num & C_ORDER_ALIGNED == C_ORDER_ALIGNED
    ):
        return value
    array = _as_array(value, spec)
    if spec.rank >= 0 and len(array.shape) != spec.rank:
        raise InputError(f"input '{spec.name}' has {_axes(array.ndim)} {array.shape}, expected {_axes(spec.rank)}")
    if array.dtype != spec.dtype and array.dtype.newbyteorder("=") != spec.dtype:
        raise InputError(f"input '{spec.name}' is {array.dtype.name}, expected {spec.text}")
    if array.dtype != spec.dtype or array.flags.num & C_ORDER_ALIGNED != C_ORDER_ALIGNED:
        return _copied(array, spec)
    return array


def _copied(array: Array, spec: Spec) -> Array:
    """The array in the order and byte order that programs read. Raises ResourceError where that takes too much."""
    size = array.size * spec.dtype.itemsize
    try:
        require(size)
        return np.array(array, spec.dtype, order="C", copy=True)
    except MemoryError as error:
        free = f"its copy has {size} bytes, {available_memory()} are available"
        text = f"input '{spec.name}' with the sizes {array.shape} does not lie in order, and does not fit into memory"
        raise ResourceError(f"{text}: {free}") from error


def _axes(rank: int) -> str:
    return f"{rank} axis" if rank == 1 else f"{rank} axes"


def _as_array(value: object, spec: Spec) -> Array:
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    if value is None:
        raise InputError(f"input '{spec.name}' is None, expected an array of {spec.text}")
    if hasattr(value, "__array__"):
        return _made(lambda: np.asarray(cast("Any", value)), value, spec)
    if hasattr(value, "__dlpack__"):
        return _made(lambda: cast("Array", np.from_dlpack(cast("Any", value))), value, spec)
    if isinstance(value, (int, float, complex, list, tuple)):
        return _made(lambda: _literal(value, spec), cast("object", value), spec)
    try:
        view = memoryview(cast("Any", value))
    except TypeError:
        raise InputError(
            f"input '{spec.name}' is a {type(value).__name__}, expected an array (numpy's, __dlpack__, __array__ or"
            " the buffer protocol)"
        ) from None
    return _made(lambda: np.asarray(view), value, spec)


def _made(make: Callable[[], Array], value: object, spec: Spec) -> Array:
    """The array, or an InputError that says what was passed."""
    try:
        return make()
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as error:
        raise InputError(f"input '{spec.name}': cannot read a {type(value).__name__} as an array: {error}") from error


def _literal(value: object, spec: Spec) -> Array:
    """Numbers and lists take the input's element type where numpy calls that the same kind."""
    array = np.asarray(value)
    if array.dtype == spec.dtype or array.dtype.kind == "O":
        return array
    weaker = array.dtype.kind in "biu" and spec.dtype.kind in "biufcV"
    if weaker or np.can_cast(array.dtype, spec.dtype, "same_kind"):
        converted = array.astype(spec.dtype)
        if array.dtype.kind in "iu" and spec.dtype.kind in "iub" and not np.array_equal(converted, array):
            raise ValueError(f"a value is out of the range of {spec.text}")
        return converted
    return array


def as_objects(value: object, spec: Spec) -> object:
    """A string tensor as an array of Python strings; any other object as it is. Raises InputError."""
    if spec.text != "string":
        return value
    array = np.asarray(cast("Any", value))
    if spec.rank >= 0 and len(array.shape) != spec.rank:
        raise InputError(f"input '{spec.name}' has {_axes(array.ndim)} {array.shape}, expected {_axes(spec.rank)}")
    if array.dtype.kind not in "OUST":
        raise InputError(f"input '{spec.name}' is {array.dtype.name}, expected {spec.text}")
    if array.dtype.kind != "O":
        array = array.astype(object)
    flat = [_as_string(item, spec) for item in array.reshape(-1)]
    strings = np.empty(len(flat), object)
    strings[:] = flat
    return strings.reshape(array.shape)


def _as_string(item: object, spec: Spec) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        return item.decode()
    raise InputError(f"input '{spec.name}' holds a {type(item).__name__}, expected strings")
