"""Inputs for a program from the command line: files, constants, or random values of the right types and sizes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..runtime.arrays import dtype_of
from ..runtime.errors import InputError, UsageError

SHORT = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i1": "bool", "bool": "bool",
    "bf16": "bfloat16", "c64": "complex64", "c128": "complex128", "string": "string",
}  # fmt: skip
DEFAULT_SIZE = 3
FUNCTIONS = {"min", "max", "broadcast"}
"""What a size's expression may call."""
TEXTS = ("a", "b", "c")
"""What random texts are drawn from: few, so that some are equal."""
ANY_RANK = "..."
"""The shape of an input of any rank."""


class Spec(Protocol):
    """What is asked of a program's input."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> Sequence[int | str]: ...


def make_feeds(specs: Sequence[Spec], given: Iterable[str], sizes: Iterable[str]) -> dict[str, Any]:
    """A value for each input.

    `given` are `name=@file.npy`, `name=2x3xf32`, `name=2x3xf32=0.5` or `name=2xstring=text`; `sizes` are `N=8`.  What
    is not given is random from a fixed seed; a symbol without a size takes it from a given input, else 3.  Raises
    UsageError for what does not say so, InputError for what the model does not have, for a file or a size that cannot
    be had, and for a sequence, an optional or a map, which nothing here can say.
    """
    values: dict[str, Any] = {}
    by_name = {s.name: s for s in specs}
    for spec in specs:
        if spec.dtype == "object" and ANY_RANK not in spec.shape:  # no tensor of texts
            what = "is no tensor (a sequence, an optional or a map), and a command gives tensors only"
            raise InputError(f"input {spec.name!r} {what}: call the program from Python, with a list, None or a dict")
    rng = np.random.default_rng(0)
    for text in given:
        name, _, what = text.partition("=")
        if not what:
            raise UsageError(f"{text!r} is no input such as x=2x3xf32 or x=@file.npy")
        if name not in by_name:
            raise InputError(f"the model has no input {name!r}; it has {', '.join(map(repr, by_name))}")
        values[name] = load_array(name, what[1:]) if what.startswith("@") else constant(name, what, rng)
    bound = symbol_sizes(by_name, values, sizes)
    for spec in specs:
        if spec.name not in values:
            if ANY_RANK in spec.shape:
                raise InputError(f"input {spec.name!r} has no rank in the model: give it, as {spec.name}=2x3xf32")
            shape = [d if isinstance(d, int) else size_of(d, bound) for d in spec.shape]
            check_memory(spec.name, dtype := element_type(spec.dtype), shape)
            values[spec.name] = random_array(dtype, shape, rng)
    return values


def element_type(dtype: Any) -> np.dtype[Any]:
    """numpy's element type for an input's, which for texts is a name."""
    return dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)


def constant(name: str, text: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """`2x3xf32=0.5` as an array; without a value, random."""
    kind, _, value = text.partition("=")
    *dims, short = kind.split("x")
    if short not in SHORT or not all(d.isdigit() for d in dims):
        raise UsageError(f"input {name!r}: {kind!r} is no shape and type such as 2x3xf32")
    dtype = dtype_of(SHORT[short])
    shape = [int(d) for d in dims]
    check_memory(name, dtype, shape)
    if not value:
        return random_array(dtype, shape, rng)
    try:
        return np.full(shape, float(value) if dtype.kind == "V" else value, dtype)  # numpy casts no text to V
    except (ValueError, OverflowError) as e:
        raise UsageError(f"input {name!r}: {value!r} is no value of {dtype}") from e


def check_memory(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
    """Raises InputError for an input that this machine's memory cannot hold."""
    needed = math.prod(shape) * dtype.itemsize
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        sizes = ", ".join(map(str, shape))
        raise InputError(f"input {name!r} of [{sizes}] {dtype} takes {needed} bytes; this machine has {there}")


def symbol_sizes(specs: Mapping[str, Spec], values: Mapping[str, Any], sizes: Iterable[str]) -> dict[str, int]:
    """The sizes of symbols: those given, and those of the inputs given."""
    given = given_sizes(sizes, symbols_in(d for spec in specs.values() for d in spec.shape))
    bound = dict(given)
    for name, value in values.items():
        for dim, size in zip(specs[name].shape, np.shape(value)):
            if isinstance(dim, str) and dim.isidentifier():
                if given.get(dim, size) != size:
                    raise InputError(f"size '{dim}={given[dim]}': input {name!r}, which is given, has {size} there")
                bound.setdefault(dim, size)
    return bound


def given_sizes(sizes: Iterable[str], symbols: Iterable[str]) -> dict[str, int]:
    """`N=8`, ... as sizes of a model's symbols. Raises UsageError for what is none, InputError for another symbol."""
    known = sorted(symbols)
    bound: dict[str, int] = {}
    for text in sizes:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise UsageError(f"{text!r} is no size such as N=8")
        if name not in known:
            raise InputError(f"size {text!r}: the model has no symbol {name!r}; it has {', '.join(known) or 'none'}")
        bound[name] = int(number)
    return bound


def symbols_in(dims: Iterable[int | str]) -> set[str]:
    """The symbols of sizes, also of those that are expressions."""
    return {n for d in dims if isinstance(d, str) for n in re.findall(r"[^\W\d]\w*", d)} - FUNCTIONS


def size_of(expression: str, bound: Mapping[str, int]) -> int:
    """The value of a dim, its symbols bound or else of the default size."""
    names = symbols_in([expression])
    scope: dict[str, Any] = {n: bound.get(n, DEFAULT_SIZE) for n in names}
    scope |= {"min": min, "max": max, "broadcast": max, "__builtins__": {}}
    return int(eval(expression, scope)) if names else int(expression)


def random_array(dtype: np.dtype[Any], shape: Sequence[int], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values that suit most models: normal floats, small integers, fair bools, short texts."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 3, shape).astype(dtype)
    if dtype.kind == "O":
        return np.array(np.array(TEXTS, object)[rng.integers(0, len(TEXTS), shape)], object)
    return rng.standard_normal(shape).astype(dtype)


def load_array(name: str, path: str) -> np.ndarray[Any, Any]:
    """An .npy file; no pickles. Raises InputError where it is missing or something else."""
    try:
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except OSError as e:
        raise InputError(f"input {name!r}: {path}: {e.strerror}") from e
    except ValueError as e:
        raise InputError(f"input {name!r}: {path} is no .npy file with numbers or texts") from e
