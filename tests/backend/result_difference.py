"""What results differ in: of any kind that a model gives, by a rule for numbers that each test has of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Alike = Callable[[Array, Array], Any]
"""Where elements of two arrays of one shape and type agree: what was got, and what is wanted."""


def difference(got: Any, want: Any, alike: Alike, *, other_types: bool = False) -> str | None:
    """What is wrong with a result; None where nothing is. With `other_types` one of another type is not compared."""
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"no sequence of {len(want)}"
        parts = (difference(g, w, alike, other_types=other_types) for g, w in zip(got, want, strict=True))
        return next(filter(None, parts), None)
    if isinstance(want, dict) or want is None:
        return None if str(got) == str(want) else f"{got} for {want}"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)} for {list(want.shape)}"
    if want.dtype.kind in "OUST":
        return None if got.astype(str).tolist() == want.astype(str).tolist() else "other texts"
    if got.dtype != want.dtype:
        return None if other_types else f"{got.dtype} for {want.dtype}"
    wrong = ~np.asarray(alike(got, want))
    if not wrong.any():
        return None
    at = np.flatnonzero(wrong.reshape(-1))[:4]
    shown = [f"{got.reshape(-1)[i]!s} for {want.reshape(-1)[i]!s} at {i}" for i in at]
    return f"{int(wrong.sum())} of {want.size} differ: {'; '.join(shown)}"


def near(got: Array, want: Array, rtol: float, atol: float) -> Array:
    """Where floats or complex numbers agree; NaN is NaN."""
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    return np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
