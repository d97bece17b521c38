"""`sardonyx tune`: measured choices for a model's kernels on this machine, kept for later compilations.

The distinct kernels are measured once as they are; then, those first that take the largest part of the time, each under
some variants of its choices (`lowering.variants`), in two rounds.  A variant is kept where it is faster by more than
noise, also when it is measured once more, and its results have the same bits.  The results go into the file of this
machine (`runtime.tuned`), by kernel, and `compile` takes them from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp

from .build import calls_in, constant_operands, name_of
from .compiler import host_target, inputs_of, lowered, state_of
from .dialects.kernel import CallOp
from .lowering.choices import Given, Schedule, merged
from .lowering.variants import variants
from .measure import MeasureJob, MeasureJobs, Timing
from .options import Options, conditions, tuned_file
from .program import Model
from .runtime.errors import Error, InputError
from .runtime.host import thread_count
from .runtime.tuned import store_tuned
from .runtime.usage import checked
from .schedules import tuned_key
from .semantics.known import constant_value
from .semantics.weights import WeightStore
from .tools.feeds import DEFAULT_SIZE, given_sizes, symbols_in
from .workers import Executor, InProcess, WorkerDied

Progress: TypeAlias = Callable[[str, int, int], None]
GAIN = 0.03
"""A variant must be faster by this part to be kept: less is noise."""
SENT_ELEMENTS = 4096
"""Constants of floats above this size are measured with random numbers in their place."""
FIRST_SECONDS, ROUND_SECONDS = 0.05, 0.6
"""How long the first measurement of a kernel takes, and a round of its variants."""
TOGETHER = 8
"""Kernels that are measured first by one worker."""


@dataclass
class KernelRow:
    """One kernel in the report; times are of one call, in seconds."""

    name: str
    key: str
    calls: int
    dims: tuple[int, ...]
    default: float | None = None
    best: float | None = None
    share: float = 0.0
    schedule: dict[str, dict[str, int | str]] = field(default_factory=dict[str, dict[str, "int | str"]])
    tried: int = 0
    """Variants that were measured."""
    refused: int = 0
    """Variants that cannot be, for this kernel."""
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Variants whose results had other bits: bugs of ours."""
    error: str = ""

    @property
    def gain(self) -> float:
        """The default's time over the best one's."""
        return self.default / self.best if self.default and self.best else 1.0


@checked
def tune(
    model: Model,
    *,
    budget: float = 60.0,
    sizes: Sequence[str] = (),
    assume: str | Iterable[str] = (),
    exact: bool = False,
    threads: int | None = None,
    workers: Executor | None = None,
    progress: Progress | None = None,
    keep: bool = True,
) -> dict[str, Any]:
    """Measures a model's kernels for about `budget` seconds and keeps the best choices for this machine.

    `sizes` are `N=8`; a symbol without one is 3.  Gives the report: `kernels`, one row each with `default` and `best`
    in seconds, their `gain`, and the `schedule` kept; `file`, where it went (None: nowhere); `seconds`.
    """
    began = time.monotonic()
    report: Progress = progress or (lambda phase, done, total: None)
    target = host_target()
    tuner = Tuner(began + budget, workers or InProcess(), report, thread_count(threads), exact)
    options = Options(assume=conditions(assume), exact=exact)
    state = state_of(model, options)
    module = lowered(state, "kernels", None)
    report("compile", 1, 1)
    kernels = [k for k in state.kernels() if name_of(k) in calls_in(module)]
    calls, constants = calls_in(module), constant_operands(module)
    dims = (d for listed in calls.values() for call in listed for d in call.dims.data)
    shapes = (d for spec in inputs_of(module) for d in spec.shape)
    bound = given_sizes(sizes, symbols_in(shapes) | {name for d in dims for name in d.symbols})
    for kernel in kernels:
        tuner.add(kernel, calls[name_of(kernel)], constants[name_of(kernel)], bound, state.weights)
    tuner.measure_defaults()
    tuner.search()
    rows = sorted(tuner.rows, key=lambda r: -r.share)
    found = {
        r.key: {"schedule": r.schedule, "default": r.default, "best": r.best, "kernel": r.name, "dims": r.dims}
        for r in rows
        if r.schedule
    }
    path = tuned_file(target) if keep else None
    if path is not None and found:
        try:
            store_tuned(path, target.cpu, found)
        except OSError as e:
            raise InputError(f"{path}: {e}") from e
    return {
        "cpu": target.cpu,
        "threads": tuner.threads,
        "seconds": time.monotonic() - began,
        "file": None if path is None else str(path),
        "kernels": [{**asdict(r), "gain": r.gain} for r in rows],
    }


@dataclass
class Tuner:
    """One search: the jobs so far, and when to stop."""

    end: float
    workers: Executor
    report: Progress
    threads: int
    exact: bool
    rows: list[KernelRow] = field(default_factory=list[KernelRow])
    jobs: dict[str, MeasureJob] = field(default_factory=dict[str, MeasureJob])
    chosen: dict[str, Schedule] = field(default_factory=dict[str, Schedule])
    """What the cost model chose, by the kernel's key."""

    def add(
        self,
        kernel: FuncOp,
        calls: Sequence[CallOp],
        constants: Sequence[int],
        bound: Mapping[str, int],
        weights: WeightStore,
    ) -> None:
        """A kernel with the sizes of its largest call. The weights that decide how it runs (integers) go along."""
        sized = [tuple(size_at(d, bound) for d in call.dims.data) for call in calls]
        dims = max(sized, key=lambda s: (np.prod(s, dtype=float), s))
        call = calls[sized.index(dims)]
        row = KernelRow(name_of(kernel), tuned_key(kernel, constants, self.exact), len(calls), dims)
        arrays = {i: constant_value(call.inputs[i], weights) for i in constants}
        sent = {i: a if a is not None and is_telling(a) else None for i, a in arrays.items()}
        key = row.key
        self.rows.append(row)
        self.jobs[key] = MeasureJob(
            str(kernel), dims, sent, ({},), host_target(), self.threads, self.exact, FIRST_SECONDS
        )

    def measure_defaults(self) -> None:
        """Every kernel as the cost model has it, and its part of the time of all."""
        groups = [self.rows[at : at + TOGETHER] for at in range(0, len(self.rows), TOGETHER)]
        futures = [self.workers.submit(MeasureJobs(tuple(self.jobs[row.key] for row in g))) for g in groups]
        for number, (group, future) in enumerate(zip(groups, futures, strict=True)):
            self.report("measure", number * TOGETHER, len(self.rows))
            try:
                found = future.result()
            except WorkerDied:  # one of them is to blame
                alone = [self.workers.submit(MeasureJobs((self.jobs[row.key],))) for row in group]
                found = [one_result(f) for f in alone]
            for row, timings in zip(group, found, strict=True):
                if isinstance(timings, Error):
                    row.error = str(timings).splitlines()[0]
                    continue
                row.default = row.best = timings[0].seconds
                self.chosen[row.key] = timings[0].choices
        total = sum((r.default or 0) * r.calls for r in self.rows) or 1.0
        for row in self.rows:
            row.share = (row.default or 0) * row.calls / total

    def search(self) -> None:
        """Both rounds for each kernel, those with the largest part of the time first, until the time is over."""
        rows = sorted((r for r in self.rows if r.default), key=lambda r: -r.share)
        for number, row in enumerate(rows):
            for turn in range(2):
                if time.monotonic() > self.end:
                    return
                self.report(f"tune {row.name}", number, len(rows))
                self.round(row, turn)
            if row.schedule:
                self.confirm(row)

    def round(self, row: KernelRow, turn: int) -> None:
        """One round for a kernel: the variants of each part, beside the default and the best so far."""
        chosen = merged([self.chosen[row.key], row.schedule])
        parts: list[tuple[str, Given]] = [
            (part, given) for part, numbers in chosen.items() for given in variants(part, numbers, host_target(), turn)
        ]
        if not parts:
            return
        schedules = [merged([row.schedule, {part: given}]) for part, given in parts]
        if row.schedule:
            schedules.insert(0, row.schedule)
        job = replace(self.jobs[row.key], schedules=({}, *schedules), seconds=ROUND_SECONDS)
        timings = self.result(row, self.workers.submit(job))
        if not timings or timings[0].seconds is None:
            return
        row.default = row.best = timings[0].seconds
        row.tried += sum(t.seconds is not None for t in timings[1:]) - bool(row.schedule)
        row.refused += sum(bool(t.error) for t in timings)
        row.rejected += [{"schedule": t.given} for t in timings if not t.same_bits]
        fastest = min(timings, key=lambda t: t.seconds or float("inf"))
        row.schedule = {}
        if fastest.seconds is not None and fastest.seconds < row.default * (1 - GAIN):
            row.schedule, row.best = merged([fastest.given]), fastest.seconds

    def confirm(self, row: KernelRow) -> None:
        """The default and what won, once more by themselves: the fastest of many is often only the luckiest."""
        job = replace(self.jobs[row.key], schedules=({}, row.schedule), seconds=ROUND_SECONDS)
        timings = self.result(row, self.workers.submit(job))
        if len(timings) < 2 or not timings[0].seconds or not timings[1].seconds:
            row.schedule, row.best = {}, row.default
            return
        row.default, row.best = timings[0].seconds, timings[1].seconds
        if row.best > row.default * (1 - GAIN):
            row.schedule, row.best = {}, row.default

    def result(self, row: KernelRow, future: Future[list[Timing]]) -> list[Timing]:
        """A job's timings; nothing, with the reason in the row, where it failed."""
        try:
            return future.result()
        except Error as e:
            row.error = str(e).splitlines()[0]
            return []


def one_result(future: Future[list[list[Timing] | Error]]) -> list[Timing] | Error:
    """The result of one job in a worker of its own."""
    try:
        return future.result()[0]
    except Error as e:
        return e


def size_at(dim: Any, bound: Mapping[str, int]) -> int:
    """A size of a call, symbols that nothing is known of being 3."""
    return max(0, dim.evaluate({s: bound.get(s, DEFAULT_SIZE) for s in dim.symbols}))


def is_telling(array: np.ndarray[Any, Any]) -> bool:
    """Whether a constant may decide what a kernel does: indices and tables do, and small ones cost nothing."""
    return array.dtype.kind != "f" or array.size <= SENT_ELEMENTS


def render_tuning(report: Mapping[str, Any]) -> str:
    """The report as a table for people."""
    lines = [f"{report['cpu']}, {report['threads']} threads, {report['seconds']:.0f} s"]
    lines.append(f"{'kernel':<28} {'share':>6} {'default us':>11} {'best us':>10} {'gain':>6}  kept")
    for row in report["kernels"]:
        if row["default"] is None:
            lines.append(f"{row['name']:<28} {'':>6} not measured: {row['error']}")
            continue
        kept = "; ".join(
            f"{part}: {', '.join(f'{k}={v}' for k, v in numbers.items())}" for part, numbers in row["schedule"].items()
        )
        lines.append(
            f"{row['name']:<28} {row['share']:6.1%} {row['default'] * 1e6:11.2f} {row['best'] * 1e6:10.2f}"
            f" {row['gain']:6.2f}  {kept or '-'}{'  (' + row['error'] + ')' if row['error'] else ''}"
        )
        lines.extend(f"    REJECTED, other bits: {r['schedule']}" for r in row["rejected"])
    if not any(row["schedule"] for row in report["kernels"]):
        lines.append("nothing was faster than what the cost model chose")
    else:
        lines.append(f"kept in {report['file']}" if report["file"] else "not kept")
    return "\n".join(lines)
