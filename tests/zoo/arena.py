"""What a call touches of its arena, and what was planned."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sardonyx.dialects.dims import parse_dim
from sardonyx.lowering.schedule import THREADS
from sardonyx.runtime.errors import InputError

from sardonyx.program import Program

PATTERN = 0xA5
ALIGNMENT = 64


def touched(program: Program, feeds: Mapping[str, Any]) -> int:
    """The number of bytes up to the highest that a call writes."""
    program(feeds)  # reserves the arena
    (context,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    address, size = context.arena.address, context.arena.size
    if not size:
        return 0
    ctypes.memset(address, PATTERN, size)
    program(feeds)
    content = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    changed = np.flatnonzero(content != PATTERN)
    return int(changed[-1]) + 1 if changed.size else 0


def planned(program: Program, **symbols: int) -> int:
    """The arena's size by its formula."""
    formula = program.explain().to_dict()["memory"]["arena"]
    return parse_dim(formula).evaluate({**symbols, THREADS: program.threads})


def bindings(program: Program, feeds: Mapping[str, Any], count: int = 3) -> Iterator[dict[str, Any]]:
    """The inputs as they are, then repeated or cut to other sizes that the program takes; `count` if there are."""
    yield dict(feeds)
    sizes = symbols_of(program, feeds)
    tried = [sizes]
    changed = [{name: change(size) for name, size in sizes.items()} for change in CHANGES]
    changed += [{**sizes, name: change(size)} for change in CHANGES for name, size in sizes.items()]
    found = 1
    for other in changed:
        if other in tried:
            continue
        tried.append(other)
        resized = {
            spec.name: np.resize(feeds[spec.name], [parse_dim(str(dim)).evaluate(other) for dim in spec.shape])
            for spec in program.inputs
        }
        try:
            program(resized)
        except InputError:
            continue  # not a size that the model takes
        yield resized
        found += 1
        if found == count:
            return


CHANGES: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n,
    lambda n: n + 1,
    lambda n: 3 * n,
    lambda n: n + 32,
    lambda n: max(1, n // 2),
    lambda n: 1,
)
"""Other sizes to try."""


def symbols_of(program: Program, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of the inputs' symbols."""
    bound: dict[str, int] = {}
    for spec in program.inputs:
        for dim, size in zip(spec.shape, np.shape(feeds[spec.name]), strict=True):
            if isinstance(dim, str) and dim.isidentifier():
                bound.setdefault(dim, size)
    return bound
