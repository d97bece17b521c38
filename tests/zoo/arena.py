"""What a call touches of its arena, and what was planned."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from sardonyx.dialects.dims import parse_dim
from sardonyx.lowering.schedule import THREADS

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


def symbols_of(program: Program, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of the inputs' symbols."""
    bound: dict[str, int] = {}
    for spec in program.inputs:
        for dim, size in zip(spec.shape, np.shape(feeds[spec.name]), strict=True):
            if isinstance(dim, str) and dim.isidentifier():
                bound.setdefault(dim, size)
    return bound
