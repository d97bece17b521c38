"""Names of symbols that the compiler makes for itself: no size of a model has one."""

from __future__ import annotations

import re

THREADS = "sx_threads"
"""The number of threads."""

FACT = "__fact"
"""The start of the names of unknowns that facts are solved for."""

FIRST_SIGNED_FACT = 10**9
"""Those that may be negative are `v` and a number above this."""

_RESERVED = re.compile(rf"{THREADS}|{FACT}[0-9]*|v[0-9]{{10,}}")


def is_reserved(name: str) -> bool:
    """Whether the name of a model's size has to be another one in the compiler."""
    return _RESERVED.fullmatch(name) is not None
