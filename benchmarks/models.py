"""Whole models beside other runtimes: times of calls in turn, in one process, with each result's error.

    PYTHONPATH=. python benchmarks/models.py                      # models made here
    PYTHONPATH=. python benchmarks/models.py FOLDER --threads 2   # all .onnx of a folder

Inputs of a folder's model come from NAME.npz beside it (arrays by input name), else they are random; --size gives
symbols.  onnxruntime has to be there; OpenVINO (in f32) runs too where it is installed.  Each side has as many threads
as it is told, on as many CPUs.  Sides take turns of some 20 ms, with a pause between two of them, so that the threads
of one that still spin do not count against the next; medians, with the 10th and 90th percentile.

The error of a result is its largest difference from a reference, as a share of the reference's largest number: the
model evaluated by numpy in f64 where it is small enough for that, else the result of the first peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from model_makers import MODELS
from rich.console import Console
from rich.table import Table
from sardonyx.tools.feeds import make_feeds

import sardonyx as sx

Feeds = Mapping[str, Any]
Call = Callable[[], Sequence[Any]]
TURN_SECONDS = 0.02
PAUSE_SECONDS = 0.005
MOST_EXACT = 1 << 22
"""Elements of weights and inputs up to which a model is evaluated in f64."""


@dataclass(frozen=True)
class Result:
    """One side's row, in milliseconds."""

    side: str
    median: float
    low: float
    high: float
    calls: int
    ready_seconds: float
    error: float | None


@dataclass(frozen=True)
class Side:
    """A runtime with a model loaded. `call` is the least that a user writes to get new outputs."""

    name: str
    call: Call
    ready_seconds: float


def sardonyx_side(path: Path, feeds: Feeds, threads: int) -> Side:
    began = time.perf_counter()
    program = sx.compile(path, threads=threads)
    ready = time.perf_counter() - began
    return Side("sardonyx", lambda: program.run(None, feeds), ready)


def onnxruntime_side(path: Path, feeds: Feeds, threads: int) -> Side:
    import onnxruntime

    began = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ready = time.perf_counter() - began
    given = dict(feeds)
    return Side("onnxruntime", lambda: session.run(None, given), ready)


def openvino_side(path: Path, feeds: Feeds, threads: int) -> Side:
    import openvino  # pyright: ignore[reportMissingImports]

    began = time.perf_counter()
    core: Any = openvino.Core()  # pyright: ignore[reportUnknownMemberType]
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    model: Any = core.compile_model(core.read_model(path), "CPU", settings)
    ready = time.perf_counter() - began
    count, given = len(model.outputs), dict(feeds)

    def call() -> Sequence[Any]:
        results = model(given, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(count)]

    return Side("openvino", call, ready)


PEERS: Mapping[str, Callable[[Path, Feeds, int], Side]] = {
    "onnxruntime": onnxruntime_side,
    "openvino": openvino_side,
}


def sides_of(path: Path, feeds: Feeds, threads: int, peers: Sequence[str]) -> list[Side]:
    """Ours and the peers that are installed and take the model."""
    sides = [sardonyx_side(path, feeds, threads)]
    for name in peers:
        try:
            side = PEERS[name](path, feeds, threads)
            side.call()
        except ImportError:
            continue
        except Exception as error:  # a peer that refuses a model has no row
            print(f"{path.stem}: {name} refuses: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            continue
        sides.append(side)
    return sides


def in_turns(sides: Sequence[Side], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each side's calls; the first of each turn is not counted."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    end = time.perf_counter() + seconds * len(sides)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for side in sides:
            time.sleep(PAUSE_SECONDS)
            side.call()
            until = time.perf_counter() + TURN_SECONDS
            while True:
                began = time.perf_counter()
                side.call()
                now = time.perf_counter()
                times[side.name].append((now - began) * 1e3)
                if now > until:
                    break
    return times


def exact_results(path: Path, feeds: Feeds) -> list[Any] | None:
    """The model's results with all floats in f64, by ONNX's own evaluator; None for what is too big for that."""
    model = onnx.load(path)
    total = sum(int(np.prod(w.dims)) for w in model.graph.initializer) + sum(np.asarray(v).size for v in feeds.values())
    if total > MOST_EXACT or any(w.data_type == onnx.TensorProto.FLOAT16 for w in model.graph.initializer):
        return None
    from onnx.reference import ReferenceEvaluator

    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            values = onnx.numpy_helper.to_array(weight).astype(np.float64)
            weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    wide = {n: np.asarray(v, np.float64) if np.asarray(v).dtype == np.float32 else v for n, v in feeds.items()}
    try:
        return list(ReferenceEvaluator(model).run(None, wide))
    except Exception:  # an operator that it lacks, or that insists on f32
        return None


def error_of(results: Sequence[Any], reference: Sequence[Any]) -> float:
    """The largest difference as a share of the reference's largest number, over all outputs."""
    worst = 0.0
    for a, b in zip(results, reference, strict=True):
        x, y = np.asarray(a), np.asarray(b)
        if y.dtype.kind not in "fiub" or y.size == 0:
            continue
        difference = np.abs(x.astype(np.float64) - y.astype(np.float64))
        worst = max(worst, float(np.nanmax(difference)) / max(float(np.nanmax(np.abs(y.astype(np.float64)))), 1e-30))
    return worst


def measured(path: Path, feeds: Feeds, threads: int, peers: Sequence[str], seconds: float) -> list[Result]:
    """A row for each side of one model."""
    sides = sides_of(path, feeds, threads, peers)
    outputs = {side.name: [np.array(o) for o in side.call()] for side in sides}
    reference = exact_results(path, feeds)
    if reference is None and len(sides) > 1:
        reference = outputs[sides[1].name]
    rows: list[Result] = []
    times = in_turns(sides, seconds)
    for side in sides:
        each = sorted(times[side.name])
        error = None if reference is None else error_of(outputs[side.name], reference)
        low, high = each[len(each) // 10], each[-1 - len(each) // 10]
        rows.append(Result(side.name, statistics.median(each), low, high, len(each), side.ready_seconds, error))
    return rows


def made_models(folder: Path, only: str) -> list[tuple[Path, Feeds]]:
    """The models of `model_makers.py`, written to a folder, with random inputs."""
    found: list[tuple[Path, Feeds]] = []
    for name, (make, sizes) in MODELS.items():
        if only in name:
            path = folder / f"{name}.onnx"
            onnx.save(make(), path)
            found.append((path, feeds_of(path, [f"{symbol}={size}" for symbol, size in sizes.items()])))
    return found


def feeds_of(path: Path, sizes: Sequence[str]) -> Feeds:
    """The inputs beside a model's file, or random ones."""
    beside = path.with_suffix(".npz")
    if beside.exists():
        with np.load(beside) as arrays:
            return {name: arrays[name] for name in arrays.files}
    return make_feeds(sx.compile(path).inputs, (), tuple(sizes))


def versions() -> dict[str, str]:
    """Of all that is measured, where it is installed."""
    found = {"sardonyx": sx.__version__, "numpy": np.__version__}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def table_of(results: Mapping[str, Sequence[Result]], threads: int) -> Table:
    """The table for people: ratios are of the fastest peer's median and ours."""
    table = Table(title=f"ms a call, {threads} threads: median (10 % to 90 %)")
    names = list(dict.fromkeys(row.side for rows in results.values() for row in rows))
    for column in ("model", *names, "ratio", "error", "ready s"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for model, rows in results.items():
        by_side = {row.side: row for row in rows}
        cells = [shown(by_side.get(name)) for name in names]
        ratio = ratio_of(rows)
        ours = rows[0]
        error = "" if ours.error is None else f"{ours.error:.1e}"
        table.add_row(model, *cells, "" if ratio is None else f"{ratio:.2f}", error, f"{ours.ready_seconds:.2f}")
    return table


def shown(row: Result | None) -> str:
    return "" if row is None else f"{row.median:.4g} ({row.low:.4g} to {row.high:.4g})"


def ratio_of(rows: Sequence[Result]) -> float | None:
    """How many times as long the fastest peer takes as we do."""
    ours, *peers = rows
    return min(p.median for p in peers) / ours.median if peers else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of .onnx files; none: models made here")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side of each model")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--size", action="append", default=[], metavar="SYMBOL=N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    results: dict[str, list[Result]] = {}
    with TemporaryDirectory() as scratch:
        if options.folder is None:
            models = made_models(Path(scratch), options.only)
        else:
            paths = sorted(p for p in options.folder.glob("*.onnx") if options.only in p.stem)
            models = [(path, feeds_of(path, options.size)) for path in paths]
        for path, feeds in models:
            results[path.stem] = measured(path, feeds, options.threads, options.peers.split(","), options.seconds)
    ratios = [r for rows in results.values() if (r := ratio_of(rows)) is not None]
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
    if options.json:
        rows = {model: [asdict(row) for row in rows] for model, rows in results.items()}
        print(json.dumps({"versions": versions(), "threads": options.threads, "models": rows, "mean_ratio": mean}))
    else:
        console = Console(width=160)
        console.print(table_of(results, options.threads))
        console.print(", ".join(f"{name} {text}" for name, text in versions().items()))
        if mean is not None:
            console.print(f"geometric mean of the ratios {mean:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
