"""Sequences, optionals and dictionaries that users pass, held against what the model declares of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from .arrays import C_ORDER_ALIGNED, Spec, as_input, as_objects
from .errors import InputError
from .manifest import Held

Reader = Callable[[object, str], object]
"""Takes a value and its name, for errors; gives the value as the model declares it. Raises InputError."""


def reader_of(held: Held) -> Reader:
    """What makes values fit: their tensors become arrays of the declared element type, rank and known sizes.

    It is built once for an input, so that a call decides nothing over again.
    """
    match held["kind"]:
        case "sequence":
            return _sequence_reader(_inner(held))
        case "optional":
            inner = _inner(held)
            read = reader_of(inner)
            return lambda value, name: None if value is None else read(value, name)
        case "map":
            return lambda value, name: _as_map(value, held, name)
        case _:
            return _tensor_reader(held)


def _inner(held: Held) -> Held:
    assert "element" in held
    return held["element"]


def _sequence_reader(element: Held) -> Reader:
    read = reader_of(element)

    def read_sequence(value: object, name: str) -> object:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"input '{name}' is a {type(value).__name__}, expected a list")
        items: Sequence[object] = value
        return [read(item, f"{name}[{at}]") for at, item in enumerate(items)]

    return read_sequence


def _as_map(value: object, held: Held, name: str) -> object:
    if not isinstance(value, Mapping):
        raise InputError(f"input '{name}' is a {type(value).__name__}, expected a dictionary")
    kind = str if held.get("dtype") == "string" else int
    wrong = next((key for key in cast("Mapping[object, object]", value) if not isinstance(key, kind)), None)
    if wrong is not None:
        raise InputError(f"input '{name}' has the key {wrong!r}, expected a {kind.__name__}")
    return cast("object", value)


def _tensor_reader(held: Held) -> Reader:
    sizes = held.get("dims")
    text = held.get("dtype", "")
    dims: list[int | str] = ["..."] if sizes is None else [*sizes]
    spec = Spec({"name": "", "dtype": text, "dims": dims})
    known = [(axis, size) for axis, size in enumerate(sizes or ()) if size != -1]

    def read_tensor(value: object, name: str) -> object:
        fits = (
            type(value) is np.ndarray
            and value.dtype is spec.dtype
            and (value.ndim == spec.rank or spec.rank < 0)
            and value.flags.num & C_ORDER_ALIGNED == C_ORDER_ALIGNED
        )
        if not fits or spec.is_object:
            named = Spec({"name": name, "dtype": text, "dims": dims})
            value = as_objects(value, named) if spec.is_object else as_input(value, named)
        for axis, wanted in known:
            size = cast("Any", value).shape[axis]
            if size != wanted:
                raise InputError(f"input '{name}' has the size {size} along axis {axis}, expected {wanted}")
        return value

    return read_tensor
