"""The arena of a compiled program at given sizes: its peak, what is live there, and the formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..dialects.dims import parse_dim
from ..dialects.dims.reserved import THREADS
from ..runtime.errors import InputError

ALIGNMENT = 64
"""Every buffer begins at a multiple of this, and its size is rounded up to one."""


@dataclass(frozen=True)
class LiveBuffer:
    """Something in the arena at the peak: a tensor of the model, a loop's state, or a kernel's scratch.

    `made_by` and `last_read_by` are kernels, or operators, of the program.
    """

    name: str
    kind: str
    bytes: int
    formula: str
    offset: int
    made_by: str
    last_read_by: str


@dataclass(frozen=True)
class MemoryAnalysis:
    """The plan at one binding of the model's symbols.

    `peak` is the arena's size in bytes: at these sizes, the end of the highest buffer that any call uses.  `formula`
    says the same for all sizes.  `step` is the kernel (or operator) during which most is live, and `live` is what is
    live then: what the peak is made of, but for room that only other steps need (docs/decisions/0004).  `found` names
    the values whose size only data tells: they are not in the arena but in memory taken while the program runs.
    """

    sizes: dict[str, int]
    threads: int
    peak: int
    formula: str
    step: str
    live: tuple[LiveBuffer, ...]
    found: tuple[str, ...]

    @property
    def live_bytes(self) -> int:
        """The bytes of all that is live at the peak; less than the peak by what lies unused between."""
        return sum(b.bytes for b in self.live)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "live": [asdict(b) for b in self.live], "live_bytes": self.live_bytes}

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        lines = [f"peak: {self.peak} bytes{f' at {sizes}' if sizes else ''}, {self.threads} threads"]
        lines.append(f"formula: {self.formula}")
        if self.live:
            lines.append(f"live at {self.step}: {self.live_bytes} bytes")
        for b in sorted(self.live, key=lambda b: -b.bytes):
            note = "" if b.kind == "tensor" else f" ({b.kind})"
            lines.append(f"  {b.bytes:>12} {b.name}{note}: {b.made_by} .. {b.last_read_by}   {b.formula}")
        if self.found:
            lines.append(f"taken at run time: {', '.join(self.found)}")
        return "\n".join(lines)


def analyze(memory: Mapping[str, Any], sizes: Mapping[str, int], threads: int) -> MemoryAnalysis:
    """Evaluates a report's `memory` at these sizes of the model's symbols.

    Raises InputError for a symbol that the plan needs and that is not given, or a size below 0.
    """
    arena = parse_dim(memory["arena"])
    buffers: Sequence[Mapping[str, Any]] = memory["buffers"]
    formulas = [(parse_dim(b["bytes"]), parse_dim(b["offset"])) for b in buffers]
    needed = arena.symbols.union(*(d.symbols for pair in formulas for d in pair)) - {THREADS}
    check_sizes(needed, sizes)
    binding = {**sizes, THREADS: threads}
    peak = arena.evaluate(binding)
    places = [(size.evaluate(binding), offset.evaluate(binding)) for size, offset in formulas]
    at = busiest_step(buffers, places)
    names = {s["at"]: s["runs"] for s in memory["steps"]}

    def step(number: int) -> str:
        return names.get(number) or next((names[n] for n in sorted(names) if n >= number), "the end")

    live = tuple(
        LiveBuffer(b["name"], b["kind"], size, b["bytes"], offset, step(b["first"]), step(b["last"]))
        for b, (size, offset) in zip(buffers, places, strict=True)
        if at is not None and size and b["first"] <= at <= b["last"]
    )
    where = step(at) if at is not None else ""
    return MemoryAnalysis(dict(sizes), threads, peak, memory["arena"], where, live, tuple(memory["found"]))


def check_sizes(needed: frozenset[str], sizes: Mapping[str, int]) -> None:
    """Raises InputError where the sizes are not those of the symbols needed."""
    if missing := sorted(needed - sizes.keys()):
        raise InputError(f"the memory depends on {', '.join(missing)}: give a size for each")
    if negative := [name for name, value in sizes.items() if value < 0]:
        raise InputError(f"{negative[0]} is {sizes[negative[0]]}, and a size is not negative")


def busiest_step(buffers: Sequence[Mapping[str, Any]], places: Sequence[tuple[int, int]]) -> int | None:
    """The step at which most bytes are live, the first of equals; None for no arena."""
    sizes = [size for size, _ in places]
    totals = {
        at: sum(size for b, size in zip(buffers, sizes, strict=True) if b["first"] <= at <= b["last"])
        for at in {b["first"] for b in buffers}
    }
    return max(totals, key=lambda at: (totals[at], -at), default=None)
