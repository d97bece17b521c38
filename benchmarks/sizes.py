"""Programs whose sizes only a call tells, beside onnxruntime: random sizes around friendly ones, and the worst of them.

    PYTHONPATH=. python benchmarks/sizes.py [--only conv] [--threads 2] [--draws 4] [--fixed] [--json]

A recipe is a small model with symbols in its inputs' shapes, compiled once.  It is called at friendly sizes, and at as
many random ones as `--draws` around each of them (log-uniform, up to 1.5 times as much or as little).  At each size
both sides take turns of some milliseconds; ratios are of their medians, above 1 where ours is faster.  What counts is
the worst ratio of a recipe; the size is beside it.

With `--fixed` the model is compiled for the worst size as well: `sym/fix` is how many times as long the program of any
size takes there.  Results are held against onnxruntime's at every size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from fusion import fix_axes
from model_makers import Maker, conv, gelu, linear, normalized
from rich.console import Console
from rich.table import Table
from sardonyx.tools.feeds import make_feeds

import sardonyx as sx

Sizes = Mapping[str, int]
Call = Callable[[], Sequence[Any]]
TURN_SECONDS = 0.003
TURNS = 7
SPREAD = 1.5
"""How far random sizes are from a friendly one."""
TOLERANCE = 2e-4
"""The largest difference from onnxruntime's results, as a share of their largest number."""


@dataclass(frozen=True)
class Recipe:
    """A model with symbolic sizes, and the sizes that suit it."""

    make: Callable[[], onnx.ModelProto]
    friendly: Sequence[Sizes]


@dataclass(frozen=True)
class Point:
    """Milliseconds of one call at some sizes."""

    sizes: Sizes
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.peer / self.ours


@dataclass(frozen=True)
class Row:
    """A recipe's points; `fixed` is the time of a program that is compiled for the worst one's sizes."""

    recipe: str
    points: Sequence[Point]
    compile_seconds: float
    fixed: float | None

    @property
    def worst(self) -> Point:
        return min(self.points, key=lambda p: p.ratio)


# Recipes


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, group: int = 1, act: str = "Relu") -> Any:
    def make() -> onnx.ModelProto:
        m = Maker()
        silu = act == "SiLU"
        y = conv(m, "x", inputs, outputs, size, stride, group, "" if silu else act)
        y = m.node(f"Mul ({y}, {m.node(f'Sigmoid ({y})')})") if silu else y
        return m.model(f"float[1,{inputs},H,W] x", f"float[1,{outputs},P,Q] y", {"y": y})

    return make


def sound() -> onnx.ModelProto:
    """A convolution along one axis."""
    m = Maker()
    y = m.node(f"Conv <kernel_shape=[3], pads=[1,1]> (x, {m.weight(128, 128, 3)})")
    return m.model("float[1,128,T] x", "float[1,128,T] y", {"y": m.node(f"Relu ({y})")})


def on_image(call: str, channels: int = 64) -> Any:
    """One operator on an image."""

    def make() -> onnx.ModelProto:
        m = Maker()
        return m.model(f"float[1,{channels},H,W] x", f"float[1,{channels},P,Q] y", {"y": m.node(call)})

    return make


def product(depth: int, columns: int) -> Any:
    def make() -> onnx.ModelProto:
        m = Maker()
        return m.model(f"float[M,{depth}] x", f"float[M,{columns}] y", {"y": linear(m, "x", depth, columns)})

    return make


def computed_product() -> onnx.ModelProto:
    """A batch of products of which both sides are computed, all sizes symbolic."""
    m = Maker()
    return m.model("float[B,M,K] a, float[B,K,N] b", "float[B,M,N] y", {"y": m.node("MatMul (a, b)")})


def rows_of(call: str, signature: str = "float[M,N] x", result: str = "float[M,N] y") -> Any:
    """Operators on rows of any length."""

    def make() -> onnx.ModelProto:
        m = Maker()
        return m.model(signature, result, {"y": m.node(call.format(one=m.constant([1], np.int64)))})

    return make


def layer_norm() -> onnx.ModelProto:
    m = Maker()
    return m.model("float[M,768] x", "float[M,768] y", {"y": normalized(m, "x", 768)})


def activation() -> onnx.ModelProto:
    m = Maker()
    return m.model("float[M,N] x", "float[M,N] y", {"y": gelu(m, m.node(f"Add (x, {m.constant(0.5)})"))})


def attention() -> onnx.ModelProto:
    """Twelve heads of 64, with a mask."""
    m = Maker()
    scores = m.node(f"Mul ({m.node('MatMul (q, k)')}, {m.constant(64**-0.5)})")
    shares = m.node(f"Softmax <axis=-1> ({m.node(f'Add ({scores}, mask)')})")
    signature = "float[B,12,S,64] q, float[B,12,64,S] k, float[B,12,S,64] v, float[B,1,1,S] mask"
    return m.model(signature, "float[B,12,S,64] y", {"y": m.node(f"MatMul ({shares}, v)")})


def squares(*sizes: int) -> list[Sizes]:
    return [{"H": s, "W": s} for s in sizes]


def each(name: str, *sizes: int, **others: int) -> list[Sizes]:
    return [{name: s, **others} for s in sizes]


TABLES = [{"M": 1, "N": 1024}, {"M": 16, "N": 64}, {"M": 64, "N": 768}, {"M": 512, "N": 1024}]
POOL = "kernel_shape=[3,3], strides=[{0},{0}], pads=[1,1,1,1]"
RECIPES: dict[str, Recipe] = {
    "conv 3x3 3->32 /2": Recipe(convolution(3, 32, 3, 2), squares(32, 112, 320)),
    "conv 3x3 64": Recipe(convolution(64, 64, 3), squares(4, 14, 28, 56)),
    "conv 3x3 24 SiLU": Recipe(convolution(24, 24, 3, act="SiLU"), squares(4, 14, 40, 80)),
    "conv 3x3 256": Recipe(convolution(256, 256, 3), squares(2, 7, 14)),
    "conv 3x3 64->128 /2": Recipe(convolution(64, 128, 3, 2), squares(4, 14, 28, 56)),
    "conv 1x1 64 SiLU": Recipe(convolution(64, 64, 1, act="SiLU"), squares(4, 14, 40, 80)),
    "conv 3x3 8": Recipe(convolution(8, 8, 3), squares(8, 32, 112)),
    "conv 5x5 32": Recipe(convolution(32, 32, 5), squares(4, 14, 56)),
    "conv 1x1 128->256": Recipe(convolution(128, 256, 1), squares(2, 7, 14, 56)),
    "conv 1x1 64 /2": Recipe(convolution(64, 64, 1, 2), squares(8, 28, 56)),
    "conv along time": Recipe(sound, each("T", 4, 30, 200, 1000)),
    "depthwise 3x3": Recipe(convolution(96, 96, 3, 1, 96), squares(4, 14, 28, 112)),
    "depthwise 5x5 /2": Recipe(convolution(96, 96, 5, 2, 96), squares(4, 14, 28, 112)),
    "max pool 3x3": Recipe(on_image(f"MaxPool <{POOL.format(1)}> (x)"), squares(4, 14, 56)),
    "max pool 3x3 /2": Recipe(on_image(f"MaxPool <{POOL.format(2)}> (x)"), squares(4, 14, 56, 112)),
    "average pool 3x3 /2": Recipe(on_image(f"AveragePool <{POOL.format(2)}> (x)"), squares(4, 14, 56, 112)),
    "global average": Recipe(on_image("GlobalAveragePool (x)", 256), squares(2, 7, 14, 56)),
    "product Mx768x768": Recipe(product(768, 768), each("M", 1, 4, 16, 64, 128)),
    "product Mx100x30": Recipe(product(100, 30), each("M", 1, 8, 64, 512)),
    "product, all computed": Recipe(
        computed_product,
        [
            {"B": 1, "M": 16, "K": 64, "N": 64},
            {"B": 8, "M": 64, "K": 32, "N": 100},
            {"B": 2, "M": 256, "K": 256, "N": 256},
        ],
    ),
    "softmax": Recipe(rows_of("Softmax <axis=-1> (x)"), TABLES),
    "softmax along columns": Recipe(rows_of("Softmax <axis=0> (x)"), TABLES[1:]),
    "layer norm 768": Recipe(layer_norm, each("M", 1, 16, 128, 512)),
    "sums of rows": Recipe(rows_of("ReduceSum <keepdims=1> (x, {one})", result="float[M,1] y"), TABLES),
    "elementwise": Recipe(activation, TABLES),
    "row by column": Recipe(rows_of("Mul (x, z)", "float[M,1] x, float[N] z"), TABLES),
    "transpose": Recipe(rows_of("Transpose <perm=[1,0]> (x)", result="float[N,M] y"), TABLES),
    "transpose of heads": Recipe(
        rows_of("Transpose <perm=[0,2,1,3]> (x)", "float[B,S,12,64] x", "float[B,12,S,64] y"),
        each("S", 1, 16, 128, 512, B=1),
    ),
    "channels last": Recipe(
        rows_of("Transpose <perm=[0,2,3,1]> (x)", "float[1,64,H,W] x", "float[1,H,W,64] y"), squares(4, 14, 56)
    ),
    "concatenation": Recipe(
        rows_of("Concat <axis=1> (x, z)", "float[M,N] x, float[M,K] z", "float[M,L] y"),
        [{"M": 8, "N": 32, "K": 32}, {"M": 64, "N": 256, "K": 128}, {"M": 512, "N": 512, "K": 64}],
    ),
    "attention": Recipe(attention, each("S", 1, 16, 64, 128, 384, B=1)),
}


# Measurement


def random_sizes(friendly: Sequence[Sizes], draws: int, rng: np.random.Generator) -> list[Sizes]:
    """The friendly sizes, and random ones around each; an axis of 1 stays."""
    found: list[Sizes] = []
    for sizes in friendly:
        found.append(sizes)
        for _ in range(draws):
            factors = SPREAD ** rng.uniform(-1, 1, len(sizes))
            found.append({n: 1 if s == 1 else max(1, round(s * f)) for (n, s), f in zip(sizes.items(), factors)})
    return found


def medians(sides: Sequence[Call]) -> list[float]:
    """Milliseconds of each side's call, in turns; the first of each turn is not counted."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(TURNS):
        for call, taken in zip(sides, times):
            call()
            until = time.perf_counter() + TURN_SECONDS
            while True:
                began = time.perf_counter()
                call()
                now = time.perf_counter()
                taken.append((now - began) * 1e3)
                if now > until:
                    break
    return [statistics.median(t) for t in times]


def peer_call(model: onnx.ModelProto, threads: int) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def cpu_seconds() -> float:
    return time.process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def check(recipe: str, sizes: Sizes, ours: Sequence[Any], peer: Sequence[Any]) -> None:
    """Exits where the results are not the same."""
    for a, b in zip(ours, peer, strict=True):
        if a.shape != b.shape or np.abs(a - b).max(initial=0) > TOLERANCE * max(1.0, np.abs(b).max(initial=0)):
            sys.exit(f"{recipe} at {shown(sizes)}: the results differ from onnxruntime's")


def shown(sizes: Sizes) -> str:
    return " ".join(f"{n}={s}" for n, s in sizes.items())


def measure(name: str, recipe: Recipe, options: argparse.Namespace) -> Row:
    """All points of one recipe."""
    model = recipe.make()
    began = cpu_seconds()
    program = sx.compile(model, threads=options.threads)
    compiled = cpu_seconds() - began
    peer = peer_call(model, options.threads)
    # as many draws for one recipe, whichever others are measured
    rng = np.random.default_rng(options.seed)
    points: list[Point] = []
    for sizes in random_sizes(recipe.friendly, options.draws, rng):
        feeds = feeds_at(program, sizes)
        check(name, sizes, program.run(None, feeds), peer(feeds))
        ours, theirs = medians([partial(program.run, None, feeds), partial(peer, feeds)])
        points.append(Point(sizes, ours, theirs))
    row = Row(name, points, compiled, None)
    if not options.fixed:
        return row
    feeds = feeds_at(program, row.worst.sizes)
    fixed = sx.compile(fix_axes(model, {n: a.shape for n, a in feeds.items()}), threads=options.threads)
    ours, same = medians([partial(program.run, None, feeds), partial(fixed.run, None, feeds)])
    return Row(name, points, compiled, row.worst.ours * same / ours)


def feeds_at(program: sx.Program, sizes: Sizes) -> Mapping[str, Any]:
    return make_feeds(program.inputs, (), [f"{n}={s}" for n, s in sizes.items()])


def table_of(rows: Sequence[Row], threads: int) -> Table:
    """A line for each recipe, the worst ratio last."""
    table = Table(title=f"onnxruntime / ours at sizes that only a call tells, {threads} threads")
    for column in ("recipe", "points", "geometric mean", "worst", "at", "ours ms", "peer ms", "sym/fix", "compile s"):
        table.add_column(column, justify="left" if column in ("recipe", "at") else "right")
    for row in rows:
        worst, mean = row.worst, float(np.exp(np.mean([np.log(p.ratio) for p in row.points])))
        fixed = "" if row.fixed is None else f"{worst.ours / row.fixed:.2f}"
        table.add_row(
            row.recipe, str(len(row.points)), f"{mean:.2f}", f"{worst.ratio:.2f}", shown(worst.sizes),
            f"{worst.ours:.4f}", f"{worst.peer:.4f}", fixed, f"{row.compile_seconds:.1f}",
        )  # fmt: skip
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="recipes whose name has this in it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draws", type=int, default=4, help="random sizes around each friendly one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true", help="compile for the worst sizes as well")
    parser.add_argument("--points", action="store_true", help="print every point")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    rows: list[Row] = []
    for name, recipe in RECIPES.items():
        if options.only in name:
            rows.append(measure(name, recipe, options))
            for p in rows[-1].points if options.points else ():
                print(f"{name:24} {shown(p.sizes):28} {p.ours:9.4f} {p.peer:9.4f} {p.ratio:6.2f}", flush=True)
    if options.json:
        print(json.dumps([{**asdict(r), "worst": asdict(r.worst)} for r in rows]))
    else:
        Console(width=160).print(table_of(rows, options.threads))
    return 0


if __name__ == "__main__":
    sys.exit(main())
