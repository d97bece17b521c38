"""Schedules that are given: by the caller, for kernels by name, and by the tuner, for kernels by key.

A schedule is `{kernel: {part: {choice: number}}}`.  A kernel is named as `explain` names it, by its key, or `*` for
every kernel that has the part.  What is given goes onto the kernel as the attribute `kernel.schedule` before it is
lowered, and from there into the key of its object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

from .lowering.choices import LOOPS, SCHEDULE, Schedule, ScheduleError, merged, parts_of, read_schedule
from .lowering.choices import schedule_attribute as attribute
from .lowering.kernels.precision import PRECISION
from .lowering.tensor import lower_to_tensor
from .runtime.errors import InputError

Given: TypeAlias = "Mapping[str, Any] | str | Path"
"""What `compile(schedule=...)` takes: the mapping, or a JSON file that holds it."""
EVERY = "*"


def key_of(kernel: FuncOp) -> str:
    """A kernel's key."""
    key = kernel.attributes["kernel.key"]
    assert isinstance(key, StringAttr)
    return key.data


def schedule_text(given: Given | None) -> str:
    """Schedules in one spelling, for options and keys; empty without any.

    Raises InputError for a file that cannot be read and for what is no schedule.
    """
    if given is None:
        return ""
    if not isinstance(given, Mapping):
        if not isinstance(given, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"schedule={given!r}: a mapping from kernels to parts, or the path of a file with one")
        try:
            given = json.loads(Path(given).read_text())
        except (OSError, ValueError) as e:
            raise InputError(f"schedule={str(given)!r}: {e}") from e
        if not isinstance(given, Mapping):
            raise InputError("a schedule is a mapping from kernels to parts")
    try:
        schedules = {str(name): read_schedule(value, f"schedule of {name!r}") for name, value in given.items()}
    except ScheduleError as e:
        raise InputError(str(e)) from e
    return json.dumps(schedules, sort_keys=True) if schedules else ""


def tuned_key(kernel: FuncOp, constants: Sequence[int], exact: bool) -> str:
    """What the tuner's results for a kernel are found by: algorithms also depend on which operands are constants."""
    mode = kernel.attributes.get(PRECISION)
    marks = [*(["exact"] if exact else []), *([mode.data] if isinstance(mode, StringAttr) else [])]
    return " ".join([key_of(kernel), ",".join(map(str, constants)), *marks])


def apply_schedules(
    kernels: Sequence[FuncOp], text: str, tuned: Mapping[str, Schedule], tuned_keys: Mapping[str, str]
) -> None:
    """Puts onto each kernel what is given for it; what the caller says goes before what the tuner found.

    `tuned_keys` are `tuned_key`s by the kernel's name.  Raises InputError for a name that no kernel has, and
    for a part of `*` that none has.
    """
    given: dict[str, Schedule] = json.loads(text) if text else {}
    known = {name for k in kernels for name in (k.sym_name.data, key_of(k))}
    if unknown := sorted(given.keys() - known - {EVERY}):
        names = ", ".join(k.sym_name.data for k in kernels) or "none"
        raise InputError(f"schedule: there is no kernel {unknown[0]!r}; the kernels are {names}")
    left = set(given.get(EVERY, {}))
    for kernel in kernels:
        name, key = kernel.sym_name.data, key_of(kernel)
        every = of_its_parts(kernel, given[EVERY]) if EVERY in given else {}
        left -= every.keys()
        schedule = merged([tuned.get(tuned_keys.get(name, ""), {}), every, given.get(key, {}), given.get(name, {})])
        if schedule:
            kernel.attributes[SCHEDULE] = attribute(schedule)
    if left:
        raise InputError(f"schedule of {EVERY!r}: no kernel has a part {min(left)!r}")


def of_its_parts(kernel: FuncOp, schedule: Schedule) -> Schedule:
    """What a schedule says of parts that a kernel has."""
    tensor = lower_to_tensor(kernel)
    parts = set(parts_of(tensor.body.block).values())
    if any(op.name == "linalg.generic" for op in tensor.body.block.ops):
        parts.add(LOOPS)
    return {part: numbers for part, numbers in schedule.items() if part in parts}


def digest(text: str) -> str:
    """A short digest, for names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
