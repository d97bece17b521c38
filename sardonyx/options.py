"""What a compilation is asked for, and the key that says which compiler, machine and options a program is of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import __version__
from .runtime.host import detect


@dataclass(frozen=True)
class Options:
    """Every field is part of the program cache's key.

    `dims` are ranges of symbols (name, least, greatest), `assume` facts on sizes; both are guarded.  `exact` leaves out
    rewrites that change rounding.  `fuse=False` makes each operator a kernel of its own.
    """

    dims: tuple[tuple[str, int, int], ...] = ()
    assume: tuple[str, ...] = ()
    fuse: bool = True
    exact: bool = False
    fast_math: bool = False
    precision: str = "f32"
    overridden: tuple[str, ...] = ()
    """Initializers that the file lists as inputs and that the caller gives values for: these are inputs."""


@cache
def compiler_digest() -> str:
    """A digest of the compiler's sources by name, size and time: what other code made is never used."""
    found = hashlib.sha256(__version__.encode())
    here = Path(__file__).resolve().parent
    folders = [here, *(Path(p) for p in _package_paths() if Path(p) != here)]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            stat = path.stat()
            found.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _package_paths() -> list[str]:
    """Where the product's packages are: beside the face in a checkout, inside it when installed."""
    from . import codegen, dialects, frontend, lowering, rewrites, runtime, semantics

    packages = (codegen, dialects, frontend, lowering, rewrites, runtime, semantics)
    return [path for package in packages for path in package.__path__]


def program_key(options: Options, target: object | None) -> str:
    """Everything but the model that a compiled program depends on."""
    return f"{options} {target or detect()} {compiler_digest()}"
