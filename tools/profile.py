"""Where a model's time goes, kernel by kernel: times from inside of the native call, beside what the machine can do.

The program is the one that runs otherwise, with the same fusions; only its entry notes the time stamp counter before
and after each call.  Reported are means over the half of the runs whose time is in the middle, so that the parts add
up to the whole.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..dialects.dims import parse_dim
from ..runtime.abi import NOTE_WORDS, TimeWord
from ..runtime.errors import UnsupportedError, UsageError
from ..runtime.usage import checked
from .machine import Machine

ROOM = 1 << 16
"""Notes of one run; a loop of more calls is an error."""
LEAST_RUNS = 8

Note = tuple[int, int, int]
"""A step's number, and the time stamp counter before and after it."""


@dataclass
class Runs:
    """The notes of each run, and how long a tick of the counter is."""

    notes: list[list[Note]]
    seconds_a_tick: float


def recorded(program: Any, feeds: Mapping[str, Any], seconds: float) -> Runs:
    """Runs a timed program for about so long. Raises UnsupportedError for a run of more calls than there is room."""
    words = (ctypes.c_int64 * (TimeWord.NOTES + NOTE_WORDS * ROOM))()
    words[TimeWord.ROOM] = ROOM
    program.loaded.note_times(words)
    try:
        for _ in range(3):
            program(feeds)
        runs: list[list[Note]] = []
        began, end = time.perf_counter(), time.perf_counter() + seconds
        while time.perf_counter() < end or len(runs) < LEAST_RUNS:
            words[TimeWord.COUNT] = 0
            program(feeds)
            runs.append(list(_notes(words)))
        passed = time.perf_counter() - began
    finally:
        program.loaded.note_times(None)
    ticks = runs[-1][-1][2] - runs[0][-1][1]
    return Runs(runs, passed / max(ticks, 1))


def _notes(words: ctypes.Array[ctypes.c_int64]) -> Iterator[Note]:
    count = words[TimeWord.COUNT]
    if count > ROOM:
        raise UnsupportedError(f"a run makes {count} calls of kernels, more than the {ROOM} that can be noted")
    for at in range(TimeWord.NOTES, TimeWord.NOTES + NOTE_WORDS * count, NOTE_WORDS):
        yield words[at], words[at + 1], words[at + 2]


@checked
def profile_program(program: Any, feeds: Mapping[str, Any], machine: Machine, *, seconds: float) -> dict[str, Any]:
    """The report on a timed program: the whole, each step, and what is left for the entry itself.

    Seconds are of one run.  `operations` and `bytes` are None where they depend on what only a run tells.
    """
    steps: list[dict[str, Any]] = program.explain().to_dict().get("steps", [])
    if not steps:
        raise UsageError("the program notes no times: compile it with timed=True")
    runs = recorded(program, feeds, seconds)
    whole_step = len(steps)
    chosen = sorted(runs.notes, key=_whole)
    chosen = chosen[len(chosen) // 4 : -(len(chosen) // 4)]
    spent, calls = [0.0] * whole_step, [0] * whole_step
    for notes in chosen:
        for step, start, end in notes:
            if step < whole_step:
                spent[step] += (end - start) * runs.seconds_a_tick / len(chosen)
                calls[step] += 1
    whole = sum(map(_whole, chosen)) / len(chosen) * runs.seconds_a_tick
    sizes = sizes_of(program, feeds)
    rows = [
        row_of(step, spent[k], calls[k] / len(chosen), sizes, machine) | {"share": spent[k] / whole}
        for k, step in enumerate(steps)
    ]
    return {
        "threads": machine.threads,
        "runs": len(runs.notes),
        "seconds": whole,
        "fastest": _whole(min(runs.notes, key=_whole)) * runs.seconds_a_tick,
        "steps": rows,
        "entry": whole - sum(spent),
        "machine": {name: getattr(machine, name) for name in ("operations", "l1", "l2", "l3", "dram")},
        "trace": trace_of(steps, chosen[len(chosen) // 2], runs.seconds_a_tick),
    }


def _whole(notes: list[Note]) -> int:
    """The ticks of a run: its last note is the whole call's."""
    return notes[-1][2] - notes[-1][1]


def sizes_of(program: Any, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The symbols that are sizes of inputs."""
    found: dict[str, int] = {}
    for info in program.inputs:
        for size, name in zip(getattr(feeds.get(info.name), "shape", ()), info.shape):
            if isinstance(name, str):
                found.setdefault(name, size)
    return found


def row_of(
    step: Mapping[str, Any], seconds: float, calls: float, sizes: Mapping[str, int], machine: Machine
) -> dict[str, Any]:
    """One step's row: rates, and which of the machine's limits is the nearest and how near."""
    row: dict[str, Any] = {"name": step["name"], "nodes": step["nodes"], "calls": calls, "seconds": seconds}
    operations, moved = (evaluated(step.get(key), sizes) for key in ("operations", "bytes"))
    row |= {"operations": operations, "bytes": moved, "bound": None, "of_bound": None}
    if operations is None or moved is None or not seconds:
        return row
    each = seconds / calls
    row |= {"operations_a_second": operations / each, "bytes_a_second": moved / each}
    level = memory_level(moved, machine.threads)
    limits = {"compute": operations / machine.operations, level: moved / getattr(machine, level)}
    bound = max(limits, key=lambda name: limits[name])
    row |= {"bound": bound, "of_bound": limits[bound] / each}
    return row


def memory_level(moved: int, threads: int) -> str:
    """From where bytes come that were there a moment ago: the nearest memory that the shares of all threads fit in."""
    from ..runtime.host import detect

    host = detect()
    sizes = {"l1": host.l1 * threads, "l2": host.l2 * threads, "l3": host.l3}
    return next((level for level, size in sizes.items() if moved <= size), "dram")


def evaluated(expression: str | None, sizes: Mapping[str, int]) -> int | None:
    """The number that an expression stands for, None where it has symbols that only a run tells."""
    if expression is None:
        return None
    dim = parse_dim(expression)
    return dim.evaluate(dict(sizes)) if dim.symbols <= set(sizes) else None


def trace_of(steps: list[dict[str, Any]], notes: list[Note], seconds_a_tick: float) -> dict[str, Any]:
    """One run as Chrome's trace events; times in microseconds from the call's start."""
    origin = notes[-1][1]
    names = [*(step["name"] for step in steps), "call"]
    events = [
        {
            "name": names[step],
            "ph": "X",
            "pid": 0,
            "tid": 0,
            "ts": (start - origin) * seconds_a_tick * 1e6,
            "dur": (end - start) * seconds_a_tick * 1e6,
            "args": {"nodes": steps[step]["nodes"]} if step < len(steps) else {},
        }
        for step, start, end in notes
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def render_profile(report: Mapping[str, Any], limit: int = 30) -> str:
    """The report as text for people: the steps that take longest first."""
    machine = report["machine"]
    lines = [
        f"{report['seconds'] * 1e3:.3f} ms a call (fastest {report['fastest'] * 1e3:.3f}), {report['runs']} runs,"
        f" {report['threads']} threads; machine {machine['operations'] / 1e9:.0f} GF/s,"
        f" L1 {machine['l1'] / 1e9:.0f}, L2 {machine['l2'] / 1e9:.0f},"
        f" L3 {machine['l3'] / 1e9:.0f}, DRAM {machine['dram'] / 1e9:.0f} GB/s",
        f"{'us':>10} {'share':>6} {'calls':>6} {'GF/s':>7} {'GB/s':>7} {'bound':>14}  kernel: nodes",
    ]
    ordered = sorted(report["steps"], key=lambda row: -row["seconds"])
    for row in ordered[:limit]:
        lines.append(_line(row))
    rest = ordered[limit:]
    if rest:
        seconds = sum(row["seconds"] for row in rest)
        lines.append(f"{seconds * 1e6:10.1f} {seconds / report['seconds']:6.1%}  {len(rest)} more")
    lines.append(f"{report['entry'] * 1e6:10.1f} {report['entry'] / report['seconds']:6.1%}  the entry itself")
    if any((row["of_bound"] or 0) > 1 for row in report["steps"]):
        lines.append("above 100%: the rates of the memories are those of reading, and a step may also write")
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    def scaled(key: str) -> str:
        return f"{row[key] / 1e9:.1f}" if key in row else ""

    bound = f"{row['of_bound']:.0%} of {row['bound']}" if row["bound"] else ""
    return (
        f"{row['seconds'] * 1e6:10.1f} {row['share']:6.1%} {row['calls']:6.0f} {scaled('operations_a_second'):>7}"
        f" {scaled('bytes_a_second'):>7} {bound:>14}  {row['name']}: {', '.join(row['nodes'])}"
    )
