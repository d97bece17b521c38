"""The demo: a digits classifier with convolutions and attention, through every level, on 360 held-out images."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sardonyx.tools.bench import bench_model

import sardonyx as sx

HERE = Path(__file__).resolve().parent / "digits"
MODEL = HERE / "digits.onnx"


def main() -> None:
    console = Console(width=110)
    data = np.load(HERE / "test.npz")
    images = (data["images"] / 16).astype(np.float32)
    labels = data["labels"]

    console.rule("what came in")
    program, seconds = timed(lambda: sx.compile(MODEL))
    report = program.explain().to_dict()
    for role, specs in (("input", program.inputs), ("output", program.outputs)):
        for spec in specs:
            console.print(f"{role} {spec.name}: {spec.dtype}{list(spec.shape)}", highlight=False)
    from_cache = not program.seconds
    console.print(f"{'loaded from the cache' if from_cache else 'compiled'} in {seconds:.2f} s", highlight=False)

    console.rule("what each level made of it")
    table = Table("level", "operations", "the most frequent", box=None, header_style="bold")
    modules = {level: sx.lower(MODEL, to=level) for level in ("graph", "kernels", "tensor", "loops", "llvm")}
    for level, module in modules.items():
        counts = Counter(op.name for op in module.walk())
        frequent = ", ".join(f"{name} {n}" for name, n in counts.most_common(4))
        table.add_row(level, str(sum(counts.values())), frequent)
    console.print(table)

    console.rule("kernels and fusions")
    for call in report["kernels"]:
        fused = report["functions"][call["name"]]["ops"]
        console.print(f"{call['name']:<26} {' + '.join(op.removeprefix('onnx.') for op in fused)}", highlight=False)
    console.print(f"{len(report['refused'])} pairs of neighbours stay apart; the reasons: ", highlight=False)
    for why, count in Counter(row["why"] for row in report["refused"]).most_common():
        console.print(f"  {count} x {why}", highlight=False)

    console.rule("memory")
    console.print(f"arena: {report['memory']['arena']} bytes", highlight=False)

    console.rule(f"{len(labels)} held-out images")
    probabilities = program(images)["probabilities"]
    console.print(f"accuracy {np.mean(probabilities.argmax(axis=1) == labels):.4f}", highlight=False)
    for level in ("graph", "tensor"):
        reference = sx.run(modules[level], {"image": images})["probabilities"]
        console.print(
            f"largest difference from the numpy reference at level {level}: "
            f"{np.abs(probabilities - reference).max():.2g}",
            highlight=False,
        )
    one_by_one = np.concatenate([program(image[None])["probabilities"] for image in images])
    same = np.array_equal(one_by_one, probabilities)
    console.print(f"one image at a time gives {'the same bits' if same else 'other bits'}", highlight=False)

    console.rule("time for 64 images")
    times = bench_model(MODEL, program, {"image": images[:64]}, seconds=1.0, threads=None)
    for name, row in times["ms"].items():
        console.print(f"{name:<12} median {row['median']:.3f} ms", highlight=False)
    if "ratio" in times:
        console.print(f"onnxruntime / sardonyx = {times['ratio']:.2f}", highlight=False)
    else:
        console.print("onnxruntime is not installed, so there is nothing to compare with", highlight=False)


def timed(call):
    """What a call gives, and the seconds that it took."""
    began = time.perf_counter()
    result = call()
    return result, time.perf_counter() - began


if __name__ == "__main__":
    main()
