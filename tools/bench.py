"""Time of a program, beside onnxruntime where it is installed, in interleaved rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.usage import checked

Call = Callable[[], Any]


@checked
def bench_model(
    model: Path, program: Any, feeds: Mapping[str, Any], *, seconds: float, threads: int | None
) -> dict[str, Any]:
    """Median, minimum and spread of each side in milliseconds, and the largest difference of their outputs."""
    ours = program(feeds)
    sides: dict[str, Call] = {"sardonyx": lambda: program(feeds)}
    report: dict[str, Any] = {"threads": threads or program.threads}
    session = peer_session(model, report["threads"])
    if session is not None:
        import onnxruntime

        theirs = session.run(None, dict(feeds))
        report["onnxruntime_version"] = onnxruntime.__version__
        report["max_abs_difference"] = max(
            (difference(a, b) for a, b in zip(ours.values(), theirs, strict=True)), default=0.0
        )
        sides["onnxruntime"] = lambda: session.run(None, dict(feeds))
    report["ms"] = {name: summary(times) for name, times in interleaved(sides, seconds).items()}
    if session is not None:
        report["ratio"] = report["ms"]["onnxruntime"]["median"] / report["ms"]["sardonyx"]["median"]
    return report


def peer_session(model: Path, threads: int) -> Any | None:
    """An onnxruntime session with as many threads, or None where it is not installed or refuses the model."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception:  # whatever the peer cannot load is no error of ours: the row is left out
        return None


def interleaved(sides: Mapping[str, Call], seconds: float) -> dict[str, list[float]]:
    """Times of each side in milliseconds: rounds of about 20 ms of each in turn, so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for call in sides.values():
        for _ in range(3):
            call()
    end = time.perf_counter() + seconds * len(sides)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, call in sides.items():
            until = time.perf_counter() + 0.02
            while True:
                began = time.perf_counter()
                call()
                now = time.perf_counter()
                times[name].append((now - began) * 1e3)
                if now > until:
                    break
    return times


def summary(times: list[float]) -> dict[str, float]:
    """Median, minimum, 90th percentile and number of calls."""
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "min": ordered[0],
        "p90": ordered[int(len(ordered) * 0.9)],
        "calls": len(ordered),
    }


def difference(a: Any, b: Any) -> float:
    """The largest absolute difference of two results, 0 for what has no numbers."""
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype.kind not in "fiub" or x.size == 0:
        return 0.0
    return float(np.nanmax(np.abs(x.astype(np.float64) - y.astype(np.float64))))


def render_bench(report: Mapping[str, Any]) -> str:
    """The report as text for people."""
    lines = [f"{report['threads']} threads"]
    for name, row in report["ms"].items():
        lines.append(
            f"  {name:<12} median {row['median']:.4f} ms  min {row['min']:.4f}  p90 {row['p90']:.4f}"
            f"  {row['calls']} calls"
        )
    if "ratio" in report:
        lines.append(
            f"  onnxruntime {report['onnxruntime_version']} / sardonyx = {report['ratio']:.2f}"
            f"  (largest difference {report['max_abs_difference']:.3g})"
        )
    return "\n".join(lines)
