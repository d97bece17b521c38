"""Sequences, optionals and dictionaries that users pass, held against what the model declares of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .arrays import Array, Spec, as_input, as_objects
from .errors import InputError
from .manifest import Held


def as_held(value: object, held: Held, name: str) -> object:
    """The value, with its tensors as arrays of the declared element type, rank and known sizes. Raises InputError."""
    match held["kind"]:
        case "sequence":
            if not isinstance(value, (list, tuple)):
                raise InputError(f"input '{name}' is a {type(value).__name__}, expected a list")
            items = cast("Sequence[object]", value)
            return [as_held(item, _inner(held), f"{name}[{at}]") for at, item in enumerate(items)]
        case "optional":
            return None if value is None else as_held(value, _inner(held), name)
        case "map":
            return _as_map(value, held, name)
        case _:
            return _as_tensor(value, held, name)


def _inner(held: Held) -> Held:
    assert "element" in held
    return held["element"]


def _as_map(value: object, held: Held, name: str) -> object:
    if not isinstance(value, Mapping):
        raise InputError(f"input '{name}' is a {type(value).__name__}, expected a dictionary")
    kind = str if held.get("dtype") == "string" else int
    wrong = next((key for key in cast("Mapping[object, object]", value) if not isinstance(key, kind)), None)
    if wrong is not None:
        raise InputError(f"input '{name}' has the key {wrong!r}, expected a {kind.__name__}")
    return cast("object", value)


def _as_tensor(value: object, held: Held, name: str) -> Array:
    dims = held.get("dims")
    spec = Spec({"name": name, "dtype": held.get("dtype", ""), "dims": ["..."] if dims is None else [*dims]})
    array = cast("Any", as_objects(value, spec)) if spec.is_object else as_input(value, spec)
    for axis, (size, wanted) in enumerate(zip(array.shape, dims or ())):
        if wanted not in (-1, size):
            raise InputError(f"input '{name}' has the size {size} along axis {axis}, expected {wanted}")
    return array
