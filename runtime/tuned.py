"""What the tuner found on this machine, in a plain file beside the caches: schedules by kernel.

    <caches>/tuned/<cpu>-<digest>.json

One file for each CPU and compiler: choices that were measured elsewhere, or in other code, are not used.  Turning the
caches off turns this off too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .cache import default_root
from .stored import new_file

FORMAT = 1


def tuned_path(cpu: str, machine: str) -> Path | None:
    """The file for a CPU by LLVM's name, and a text of all that measurements depend on; None where caches are off."""
    root = default_root()
    digest = hashlib.sha256(machine.encode()).hexdigest()[:16]
    return None if root is None else root / "tuned" / f"{cpu}-{digest}.json"


def load_tuned(path: Path | None) -> dict[str, dict[str, Any]]:
    """Entries by the kernel's key: `schedule`, `default` and `best` in seconds; nothing for a damaged file."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text())
        return found["kernels"] if found["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def store_tuned(path: Path, cpu: str, entries: dict[str, dict[str, Any]]) -> None:
    """Adds entries to the file; those of the same kernels are replaced. Raises OSError where it cannot be written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kernels = load_tuned(path) | entries
    with new_file(path) as out:
        out.write(json.dumps({"format": FORMAT, "cpu": cpu, "kernels": kernels}, indent=1, sort_keys=True).encode())


def forget_tuned(path: Path | None) -> int:
    """Removes the file; the number of entries that it had."""
    count = len(load_tuned(path))
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return count


def tuned_digest(path: Path | None) -> str:
    """A digest of the file, for keys of programs; empty where there is none."""
    try:
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
