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


class Hosted:
    """One host operator of a program, by the layout that the manifest gives."""

    def __init__(self, host: Host, function: HostFunction, node: str) -> None:
        self._host = host
        self._node = node
        self._function = function
        self._keeps_operands = any(value["dtype"] == "object" for value in host["outputs"])
        self._words = sum(1 + max(0, value["rank"]) for value in (*host["inputs"], *host["outputs"]))

    def call(self, context: Context, args: int) -> None:
        """Runs the operator on the argument words at that address. What it raises is the caller's to keep."""
        words = (ctypes.c_int64 * self._words).from_address(args)
        at = 0
        operands: list[object] = []
        for value in self._host["inputs"]:
            rank = max(0, value["rank"])
            operand = _operand(context, value, words[at], words[at + 1 : at + 1 + rank])
            if self._keeps_operands and value["dtype"] not in OBJECT_TYPES and operand is not None:
                operand = np.copy(cast("Array", operand))  # a sequence outlives the memory of what is put into it
            operands.append(operand)
            at += 1 + rank
        self._make_sure_of_room(operands, words, at)
        results = self._results(self._evaluated(operands))
        for value, result in zip(self._host["outputs"], results):
            rank = max(0, value["rank"])
            if value["dtype"] in OBJECT_TYPES:
                words[at] = context.keep(result)
                if rank:
                    words[at + 1 : at + 1 + rank] = np.shape(cast("Array", result))
            else:
                self._deliver(context, value, result, words, at)
            at += 1 + rank

    def _make_sure_of_room(self, operands: Sequence[object], words: Any, at: int) -> None:
        """Raises ResourceError where texts of known sizes are more than there is memory for; others have their room."""
        for value in self._host["outputs"]:
            rank = max(0, value["rank"])
            size = prod(words[at + 1 : at + 1 + rank]) * POINTER if value["dtype"] == "string" and rank else 0
            try:
                require(size)
            except MemoryError as error:
                free = f"a result needs {size} bytes, {available_memory()} are available"
                raise ResourceError(f"{self._host['name']}: {free}{self._where(operands)}") from error
            at += 1 + rank

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

    def _deliver(self, context: Context, value: HostValue, result: object, words: Any, at: int) -> None:
        """Copies a result to where native code wants it, or keeps it until the call ends and says where it is."""
        name = self._host["name"]
        dtype, rank = dtype_of(value["dtype"]), value["rank"]
        array: Array = np.asarray(cast("Any", result))
        if array.dtype != dtype or len(array.shape) != rank:
            raise CompilerBug(
                f"bug: host operator {name} gave {array.dtype.name} of rank {len(array.shape)}, expected"
                f" {value['dtype']} of rank {rank}"
            )
        dims = tuple(words[at + 1 : at + 1 + rank])
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


def _operand(context: Context, value: HostValue, word: int, dims: list[int]) -> object:
    if value["dtype"] == ABSENT:
        return None
    if value["dtype"] in OBJECT_TYPES:
        return context.objects[word]
    dtype = dtype_of(value["dtype"])
    size = prod(dims) * dtype.itemsize
    if size == 0:
        return np.empty(dims, dtype)
    memory = (ctypes.c_uint8 * size).from_address(word)
    return np.ctypeslib.as_array(memory).view(dtype).reshape(dims)
