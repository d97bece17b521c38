"""Nodes left by simplification, ours against onnxsim, OnnxSlim and onnxscript's optimizer, where these are installed.

    PYTHONPATH=. python benchmarks/simplify.py FOLDER
    PYTHONPATH=. python benchmarks/simplify.py FOLDER --keep OUT --json counts.json
    PYTHONPATH=. python benchmarks/simplify.py FOLDER --systems sardonyx --against counts.json

Every `*.onnx` file below the folder is simplified by every system in a process of its own.  What counts is what a
runtime has to run: the nodes of the graph and of the bodies in it, a call of a local function as the nodes of its
body, `Constant` not at all (an initializer is no node either).  A result counts only where `onnx.checker` accepts it,
onnxruntime (where installed) loads it, and its inputs (but those that have a default), outputs and opset are the
model's.  Exit 1 where ours has more nodes than the best of the others, or does not count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

OURS = "sardonyx"
NONE = "none"


def sardonyx(path: Path) -> Any:
    from sardonyx.simplifier import simplify_model

    return simplify_model(path).model


def unchanged(path: Path) -> Any:
    import onnx

    return onnx.load(path)


def onnxsim(path: Path) -> Any:
    import onnx
    import onnxsim  # pyright: ignore[reportMissingImports]

    model, right = onnxsim.simplify(onnx.load(path))  # pyright: ignore
    assert right, "it found its own result wrong"
    return model


def onnxslim(path: Path) -> Any:
    import onnx
    import onnxslim  # pyright: ignore[reportMissingImports]

    return onnxslim.slim(onnx.load(path))  # pyright: ignore


def onnxscript(path: Path) -> Any:
    import onnx
    from onnxscript import optimizer  # pyright: ignore

    return optimizer.optimize(onnx.load(path))  # pyright: ignore


SYSTEMS: dict[str, Callable[[Path], Any]] = {
    NONE: unchanged,
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxscript": onnxscript,
    OURS: sardonyx,
}


def nodes_of(model: Any) -> Counter[str]:
    """How often each operator would run, by name; see this file's head."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def count(nodes: Any) -> Iterator[str]:
        for node in nodes:
            function = functions.get((node.domain, node.op_type, node.overload))
            if function is not None:
                yield from count(function.node)
            elif node.op_type != "Constant" or node.domain:
                yield f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            for attribute in node.attribute:
                for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                    yield from count(graph.node)

    return Counter(count(model.graph.node))


def interface(model: Any) -> tuple[list[bytes], dict[str, int]]:
    """Inputs and outputs with their types, and the opsets."""
    defaults = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in defaults]
    values = [v.SerializeToString(deterministic=True) for v in (*inputs, *model.graph.output)]
    return values, {o.domain: o.version for o in model.opset_import}


def child(system: str, path: Path, target: Path) -> dict[str, Any]:
    """One model by one system, written to `target`: counts, seconds, and what is wrong with the result."""
    import onnx

    began = time.perf_counter()
    model = SYSTEMS[system](path)
    seconds = time.perf_counter() - began
    target.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, target)
    nodes = nodes_of(model)
    row: dict[str, Any] = {"nodes": sum(nodes.values()), "ops": dict(nodes.most_common()), "seconds": seconds}
    try:
        onnx.checker.check_model(str(target))
        if find_spec("onnxruntime"):
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
        if system == OURS:
            before, after = interface(unchanged(path)), interface(model)
            if before[0] != after[0]:
                row["error"] = "its inputs or outputs are others"
            if any(after[1].get(domain, version) != version for domain, version in before[1].items()):
                row["error"] = "its opset is another"
    except Exception as e:  # onnxruntime has no common class of errors
        row["error"] = f"{type(e).__name__}: {e}".splitlines()[0]
    return row


def measure(system: str, path: Path, keep: Path | None, timeout: float) -> dict[str, Any]:
    """Runs `child` in a process of its own, for what a system does to it."""
    command = [sys.executable, __file__, str(path), "--child", system, *(["--keep", str(keep)] if keep else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if lines:
        return json.loads(lines[-1].removeprefix("RESULT "))
    return {"error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200]}


def best_of(rows: dict[str, dict[str, Any]]) -> int | None:
    """The fewest nodes that another system left, with a result that counts; the model itself is one."""
    counts = [r["nodes"] for s, r in rows.items() if s != OURS and "error" not in r]
    return min(counts, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--systems", help="comma-separated; default: all that are installed")
    parser.add_argument("--only", help="models whose path contains one of these texts, comma-separated")
    parser.add_argument("--keep", type=Path, help="a folder for our results, by the models' own paths")
    parser.add_argument("--json", type=Path, help="where to write everything")
    parser.add_argument("--against", type=Path, help="counts of the others, from --json of an earlier run")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--child", choices=SYSTEMS, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:
        with TemporaryDirectory(prefix="simplify-") as folder:
            target = a.keep or Path(folder) / f"{a.child}-{a.folder.stem}.onnx"
            print("RESULT " + json.dumps(child(a.child, a.folder, target)))
        return
    installed = [s for s in SYSTEMS if s in (NONE, OURS) or find_spec(s)]
    systems = a.systems.split(",") if a.systems else installed
    earlier = json.loads(a.against.read_text()) if a.against else {}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    worse = 0
    print(f"{'model':58}" + "".join(f"{s:>11}" for s in SYSTEMS) + "       best")
    for path in sorted(a.folder.rglob("*.onnx")):
        name = str(path.relative_to(a.folder))
        if a.only and not any(text in name for text in a.only.split(",")):
            continue
        rows: dict[str, dict[str, Any]] = {s: r for s, r in earlier.get(name, {}).items() if s not in systems}
        for system in systems:
            keep = a.keep / name if a.keep and system == OURS else None
            rows[system] = measure(system, path, keep, a.timeout)
        found[name] = rows
        best, ours = best_of(rows), rows.get(OURS, {})
        bad = "error" in ours or (best is not None and ours.get("nodes", 0) > best)
        worse += bad
        cells = "".join(f"{'-' if s not in rows else rows[s].get('nodes', 'fails'):>11}" for s in SYSTEMS)
        print(f"{name[-58:]:58}{cells}{best if best is not None else '-':>11}{'  <' if bad else ''}", flush=True)
        if OURS in rows and "error" in ours:
            print(f"    {ours['error']}")
        if a.json:
            a.json.write_text(json.dumps(found, indent=1))
    print(f"{len(found)} models, ours worse or wrong on {worse}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
