"""What a compilation is asked for, and the key that says which compiler, machine and options a program is of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .runtime.host import detect
from .runtime.tuned import tuned_digest, tuned_path
from .runtime.usage import listed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
    schedule: str = ""
    """Choices that the caller gives for kernels, as `schedules.schedule_text` spells them."""
    tuned: bool = True
    """Whether choices that the tuner found on this machine are taken."""
    timed: bool = False
    """Whether the entry can note the time of each call of a kernel, for `sardonyx profile`."""
    answers: tuple[str, ...] = ()
    """What the inputs of a call answered where a rank rests on them: facts like those of `assume`."""
    overridden: tuple[str, ...] = ()
    """Initializers that the file lists as inputs and that the caller gives values for: these are inputs."""


def conditions(assume: str | Iterable[str]) -> tuple[str, ...]:
    """Facts as options hold them; one may come as it is. Raises UsageError for what is none."""
    return (assume,) if isinstance(assume, str) else listed("assume", assume, str, "a condition such as 'S == T'")


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


def machine_of(target: DataclassInstance | None) -> str:
    """All that a kernel's speed depends on besides itself: the target's numbers and the compiler."""
    return f"{asdict(target or detect())} {compiler_digest()}"


def tuned_file(target: DataclassInstance | None) -> Path | None:
    """Where the tuner's results for a target are (None: this machine); None where the caches are off."""
    numbers = asdict(target or detect())
    return tuned_path(numbers["cpu"], machine_of(target))


def program_key(options: Options, target: DataclassInstance | None) -> str:
    """Everything but the model that a compiled program depends on."""
    found = tuned_digest(tuned_file(target)) if options.tuned else ""
    return f"{options} {machine_of(target)} {found}"
