"""Choices of the loops level: lanes, unrolling, parallel grain. Plain functions of sizes and the target."""

from __future__ import annotations

GRAIN_WORK = 20_000
"""Vector operations worth a thread: about 5 us at 4 a nanosecond."""


def parallel_grain(work: float) -> int:
    """The least number of iterations that is worth a thread, for an iteration of so many vector operations."""
    return max(1, round(GRAIN_WORK / max(work, 1)))
