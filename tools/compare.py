"""Two results of one model, value by value: absolute, relative and ulp differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def compare_outputs(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, rtol: float, atol: float) -> dict[str, Any]:
    """For each output the largest differences, and whether all are within `atol + rtol * |theirs|`.

    NaN equals NaN, and infinities must be the same.
    """
    rows = {name: compare_arrays(np.asarray(ours[name]), np.asarray(want), rtol, atol) for name, want in theirs.items()}
    return {"equal": all(row["equal"] for row in rows.values()), "outputs": rows, "rtol": rtol, "atol": atol}


def compare_arrays(got: Array, want: Array, rtol: float, atol: float) -> dict[str, Any]:
    """The differences of one array from another."""
    row: dict[str, Any] = {"dtype": str(got.dtype), "shape": list(got.shape)}
    if got.shape != want.shape or got.dtype != want.dtype:
        return {**row, "equal": False, "note": f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"}
    if want.dtype.kind not in "fiub" and want.dtype.name != "bfloat16":
        return {**row, "equal": bool(np.all(got == want))}
    if want.size == 0:
        return {**row, "equal": True, "max_abs": 0.0, "max_rel": 0.0, "max_ulp": 0}
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, gap / np.abs(b))
        close = same | (gap <= atol + rtol * np.abs(b))
    worst = int(np.nanargmax(np.where(np.isnan(gap), np.inf, gap)))
    return {
        **row,
        "equal": bool(close.all()),
        "max_abs": float(gap.max()),
        "max_rel": float(np.nanmax(relative)),
        "max_ulp": int(ulps(got, want).max()),
        "differing": int((~close).sum()),
        "at": [int(i) for i in np.unravel_index(worst, want.shape)],
        "got": float(a.flat[worst]),
        "expected": float(b.flat[worst]),
    }


def ulps(got: Array, want: Array) -> np.ndarray[Any, Any]:
    """How many representable numbers lie between the two, element by element; 0 for what is no IEEE float."""
    width = {np.dtype(np.float16): np.int16, np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
    integer = width.get(want.dtype)
    if integer is None:
        return np.zeros(want.shape, np.int64)

    def ordered(x: Array) -> np.ndarray[Any, Any]:
        bits = np.ascontiguousarray(x).view(integer).astype(np.int64)
        least = np.int64(np.iinfo(integer).min)
        return np.where(bits < 0, least - bits, bits)

    both_nan = np.isnan(got) & np.isnan(want)
    with np.errstate(over="ignore"):
        return np.where(both_nan, 0, np.abs(ordered(got) - ordered(want)))


def render_comparison(report: Mapping[str, Any]) -> str:
    """The report as text for people."""
    lines: list[str] = []
    for name, row in report["outputs"].items():
        verdict = "equal" if row["equal"] else "DIFFERS"
        detail = row.get("note") or (
            f"max abs {row['max_abs']:.3g}, rel {row['max_rel']:.3g}, ulp {row['max_ulp']}" if "max_abs" in row else ""
        )
        where = ""
        if not row["equal"] and "at" in row:
            where = f"; {row['differing']} elements, worst at {row['at']}: {row['got']!r} for {row['expected']!r}"
        lines.append(f"{name}: {verdict} {row['dtype']}{row['shape']} {detail}{where}")
    if (first := report.get("first")) is not None:
        lines.append(f"first value that differs: {first['value']} of {first['node']}")
    return "\n".join(lines)
