"""What a run gave, for the command line: a description of each output, and all of them in a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SHOWN = 6
"""Values of an output that are printed."""


def described(value: Any) -> dict[str, Any]:
    """Type, shape, range and the first values of a result, as plain data."""
    if isinstance(value, dict):
        return {"dtype": "map", "shape": [len(value)], "first": str(value)[:80]}
    if isinstance(value, (list, tuple)):
        return {"dtype": "sequence", "shape": [len(value)], "elements": [described(v) for v in value[:SHOWN]]}
    array = np.asarray(value)
    row: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size == 0:
        return row
    if array.dtype.kind in "OUS":
        return {**row, "first": [str(v) for v in array.ravel()[:SHOWN]]}
    if array.dtype.kind == "c":
        return {**row, "first": [str(v) for v in array.ravel()[:SHOWN].tolist()]}
    numbers = array if array.dtype.kind in "fiub" else array.astype(np.float32)
    return {**row, "min": numbers.min().item(), "max": numbers.max().item(), "first": numbers.ravel()[:SHOWN].tolist()}


def rendered(row: Mapping[str, Any]) -> str:
    """One line on a result."""
    text = f"{row['dtype']}{row['shape']}"
    if "min" in row:
        text += f" min {short(row['min'])} max {short(row['max'])}"
    if "elements" in row:
        more = row["shape"][0] - len(row["elements"])
        listed = [rendered(e) for e in row["elements"]]
        text += f": {'; '.join(listed)}{'; ...' if more else ''}"
    if "first" in row:
        first = row["first"]
        count = int(np.prod(row["shape"], dtype=np.int64))
        listed = first if isinstance(first, str) else " ".join(map(short, first))
        text += f": {listed}{' ...' if not isinstance(first, str) and count > len(first) else ''}"
    return text


def short(value: Any) -> str:
    """A number with the digits that tell it from its neighbours for people."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def save(path: Path, outputs: Mapping[str, Any]) -> None:
    """Writes an .npz file; any name of an output will do."""
    with zipfile.ZipFile(path, "w") as file:
        for name, value in outputs.items():
            array = np.asarray(value)
            if array.dtype.hasobject:
                array = array.astype(str)
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
