"""Operators that are called back from native code: their operands as arrays, their results into its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from .arrays import Array, address_of, dtype_of
from .available import available_memory, require
from .context import Context
from .errors import CompilerBug, Error, InputError, ResourceError
from .manifest import ABSENT, OBJECT_TYPES, Host, HostValue

HostFunction = Callable[..., object]
"""Takes the operands (arrays; Python objects for strings and sequences; None for an absent one) and gives the result,
or a sequence of them where there is more than one. Arrays are only valid during the call."""


POINTER = 8
"""Bytes of one text in a tensor of them."""


class Place:
    """Where a value of a host operator is in its argument words: its pointer (or number), then its dims."""

    __slots__ = ("at", "dtype", "end", "is_object", "is_text", "rank")

    def __init__(self, value: HostValue, at: int) -> None:
        self.at = at
        self.rank = max(0, value["rank"])
        self.end = at + 1 + self.rank
        self.is_object = value["dtype"] in OBJECT_TYPES
        self.is_text = value["dtype"] == "string" and self.rank > 0
        self.dtype = None if self.is_object or value["dtype"] == ABSENT else dtype_of(value["dtype"])

    def operand(self, context: Context, words: Any) -> object:
        """The value as the function takes it; an array is a view."""
        if self.is_object:
            return context.objects[words[self.at]]
        if self.dtype is None:
            return None
        dims = words[self.at + 1 : self.end]
        size = prod(dims) * self.dtype.itemsize
        if size == 0:
            return np.empty(dims, self.dtype)
        memory: Any = (ctypes.c_uint8 * size).from_address(words[self.at])
        return np.ndarray(dims, self.dtype, memory)


def places(values: Sequence[HostValue], at: int = 0) -> list[Place]:
    """Where values are, the first one at that word."""
    found: list[Place] = []
    for value in values:
        found.append(Place(value, at))
        at = found[-1].end
    return found


class Hosted:
    """One host operator of a program, by the layout that the manifest gives."""

    def __init__(self, host: Host, function: HostFunction, node: str) -> None:
        self._host = host
        self._node = node
        self._function = function
        self._inputs = places(host["inputs"])
        self._outputs = places(host["outputs"], self._inputs[-1].end if self._inputs else 0)
        self._texts = [place for place in self._outputs if place.is_text]
        self._keeps_operands = any(value["dtype"] == "object" for value in host["outputs"])
        self._words = ctypes.c_int64 * (self._outputs[-1].end if self._outputs else 0)

    def call(self, context: Context, args: int) -> None:
        """Runs the operator on the argument words at that address. What it raises is the caller's to keep."""
        words = self._words.from_address(args)
        operands = [place.operand(context, words) for place in self._inputs]
        if self._keeps_operands:  # a sequence outlives the memory of what is put into it
            for number, place in enumerate(self._inputs):
                if place.dtype is not None:
                    operands[number] = np.copy(cast("Array", operands[number]))
        if self._texts:
            self._make_sure_of_room(operands, words)
        for place, result in zip(self._outputs, self._results(self._evaluated(operands))):
            if not place.is_object:
                self._deliver(context, place, result, words)
                continue
            words[place.at] = context.keep(result)
            if place.rank:
                words[place.at + 1 : place.end] = np.shape(cast("Array", result))

    def _make_sure_of_room(self, operands: Sequence[object], words: Any) -> None:
        """Raises ResourceError where texts of known sizes are more than there is memory for; others have their room."""
        for place in self._texts:
            size = prod(words[place.at + 1 : place.end]) * POINTER
            try:
                require(size)
            except MemoryError as error:
                free = f"a result needs {size} bytes, {available_memory()} are available"
                raise ResourceError(f"{self._host['name']}: {free}{self._where(operands)}") from error

    def _where(self, operands: Sequence[object] | None = None) -> str:
        """The operands, and the line that names the node, where it has a name."""
        told = "" if operands is None else f" (operands: {', '.join(map(shown, operands))})"
        return f"{told}\n  --> node {self._node}" if self._node else told

    def _evaluated(self, operands: Sequence[object]) -> object:
        """What the function gives. Raises InputError, or the function's own error of ours, that names the node."""
        try:
            return self._function(*operands)
        except Exception as error:
            where = self._where(operands)
            if isinstance(error, CompilerBug):
                raise
            if isinstance(error, Error):
                raise type(error)(f"{error}{where}") from error
            if isinstance(error, MemoryError):
                raise ResourceError(f"{self._host['name']}: {error}{where}") from error
            kind = "" if isinstance(error, ValueError | IndexError) else f"{type(error).__name__}: "
            raise InputError(f"{self._host['name']}: {kind}{error}{where}") from error

    def _results(self, result: object) -> Sequence[object]:
        count = len(self._host["outputs"])
        if count == 1:
            return [result]
        results = cast("Sequence[object]", result)
        if not isinstance(result, (list, tuple)) or len(results) != count:
            raise CompilerBug(f"bug: host operator {self._host['name']} gave no {count} results")
        return results

    def _deliver(self, context: Context, place: Place, result: object, words: Any) -> None:
        """Copies a result to where native code wants it, or keeps it until the call ends and says where it is."""
        name, at = self._host["name"], place.at
        array: Array = np.asarray(cast("Any", result))
        if array.dtype != place.dtype or len(array.shape) != place.rank:
            expected = f"{cast('Any', place.dtype).name} of rank {place.rank}"
            raise CompilerBug(
                f"bug: host operator {name} gave {array.dtype.name} of rank {len(array.shape)}, expected {expected}"
            )
        dims = tuple(words[at + 1 : place.end])
        if words[at] == 0:
            kept = np.array(array, order="C", copy=True)
            context.made.append(kept)
            words[at] = address_of(kept)
            for axis, size in enumerate(kept.shape):
                words[at + 1 + axis] = size
        elif array.shape != dims:
            if self._host.get("given"):
                text = f"operator {name} gave the sizes {array.shape}, its shape rule says {dims}"
                raise InputError(text + self._where())
            raise CompilerBug(f"bug: host operator {name} gave the sizes {array.shape}, expected {dims}")
        elif array.nbytes:
            source = np.asarray(array, order="C")
            ctypes.memmove(words[at], address_of(source), source.nbytes)


SHOWN_ELEMENTS = 8
"""As many numbers as an error shows of an operand that holds sizes, axes or indices."""


def shown(value: object) -> str:
    """An operand in an error: `float32[3, 4]`, and of a few integers also the numbers."""
    if value is None:
        return "absent"
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    array = cast("Array", value)
    name = "string" if array.dtype.kind == "O" else array.dtype.name
    kind = f"{name}[{', '.join(map(str, array.shape))}]"
    few = array.dtype.kind in "iu" and array.size <= SHOWN_ELEMENTS
    return f"{kind} {array.tolist()}" if few else kind
