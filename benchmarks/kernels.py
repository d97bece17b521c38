"""Speed of the convolution and matrix product templates on one thread, in GFLOP/s and percent of the FMA peak, and of
kernels that memory or elementary functions bound, in multiples of that bound (`memory_rows.py`).

    PYTHONPATH=. python benchmarks/kernels.py [--seconds 20] [--only conv]

Weights are packed beforehand, as for a constant; times are the thread's own.  Each row is the 10th percentile of many
short slices, which alternate with the peak loop, so that a machine that others use, and a clock that moves, do not
matter.
A slice runs a kernel twice and measures the second run: activations come from where a previous layer would have left
them.

The peak loop is independent FMA accumulators.  It is checked against a chain of dependent additions in the same loop,
one a cycle: the fraction of 2 FMAs a cycle that it reaches is printed, and below 95 % the run does not count (exit 1).
FLOPs are those of the direct form, so Winograd's rows pass the peak.

A memory-bound row alternates with the copy of its bytes, on the same arrays, after both have run a few times: what they
have in common, the caches' state and the machine's other users, is in both.  Medians, with the 10th and 90th
percentile.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from kernels_harness import Array, Kernel, arena, host_target, loops_kernel, peak_kernel
from memory_rows import MEMORY, MOST_TIMES, MemoryRow, function_call, function_seconds
from sardonyx.dialects.dims import as_dim
from sardonyx.lowering.kernels import conv_plan, matmul, winograd_plan
from sardonyx.lowering.kernels.packing import pack_columns, pack_conv, pack_winograd, pack_winograd_columns
from sardonyx.lowering.kernels.register_tile import Products
from sardonyx.lowering.kernels.window import Axis, Convolution, Windows
from sardonyx.lowering.kernels.winograd_forms import FORMS
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, IntegerAttr, i64
from xdsl.ir import Attribute

LEAST_PEAK = 0.95


@dataclass(frozen=True)
class Row:
    """One line of the table: a call that is ready to be made."""

    name: str
    flops: float
    call: Callable[[], object]
    compile_ms: float


def integers(values: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i64, list(values))


def filled(array: Array) -> Array:
    """The same values in page-aligned memory, in huge pages where there are any."""
    copy = arena(array.nbytes).view(array.dtype)[: array.size].reshape(array.shape)
    copy[...] = array
    return copy


def conv_row(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    pad: int,
    stride: int = 1,
    group: int = 1,
    fast: bool = False,
) -> Row:
    """A convolution of [N, C, H, W] with square windows; `fast` by Winograd's algorithm."""
    rng = np.random.default_rng(0)
    sizes = [(n + 2 * pad - w[2]) // stride + 1 for n in x[2:]]
    result = (x[0], w[0], *sizes)
    axes = tuple(Axis(as_dim(n), as_dim(o), as_dim(w[2]), stride, 1, as_dim(pad)) for n, o in zip(x[2:], sizes))
    shape = Convolution(as_dim(x[0]), group, as_dim(w[1]), as_dim(w[0] // group), Windows(axes))
    plan = conv_plan.choose(shape, Products(Float32Type()), host_target())
    config: dict[str, Attribute] = {
        "pads": integers([pad] * 4),
        "strides": integers([stride] * 2),
        "kernel_shape": integers(w[2:]),
        "group": IntegerAttr(group, 64),
    }
    weights = rng.standard_normal(w).astype(np.float32)
    packed = weights.reshape(-1)
    given: tuple[int, ...] = w
    if fast:
        fast_plan = winograd_plan.choose(shape, Products(Float32Type()), host_target())
        assert fast_plan is not None, "the direct form would be chosen"
        channels = fast_plan.vectors_over == conv_plan.CHANNELS
        columns = fast_plan.vectors * fast_plan.lanes
        number, form = next((n, f) for n, f in enumerate(FORMS) if f.name == fast_plan.form)
        packed = (
            pack_winograd_columns(weights, form, columns) if channels else pack_winograd(weights, form, fast_plan.rows)
        )
        config["winograd"] = integers([number, fast_plan.rows, fast_plan.vectors, int(channels)])
        given = packed.shape
    elif w[1] > 1:
        packed = pack_conv(weights, group, plan.tile.rows, plan.tile.columns, plan.pixels)
        config["packed"] = integers([plan.tile.rows, plan.tile.vectors, int(plan.pixels)])
        given = packed.shape
    kernel = Kernel(loops_kernel("conv", config, [x, given], [result]))
    data = filled(rng.standard_normal(x).astype(np.float32))
    call = kernel.bind([data, filled(packed), filled(np.zeros(result, np.float32))])
    return Row(name, 2 * prod(result) * prod(w[1:]), call, kernel.compile_ms)


def gemm_row(name: str, m: int, n: int, k: int, packed: bool = True) -> Row:
    """[m, k] x [k, n]"""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    config: dict[str, Attribute] = {}
    if packed:
        panel = matmul.panel_columns(Products(Float32Type()), as_dim(n), host_target())
        b, config = pack_columns(b, panel), {"panel": IntegerAttr(panel, 64)}
    kernel = Kernel(loops_kernel("matmul", config, [a.shape, b.shape], [(m, n)]))
    call = kernel.bind([filled(a), filled(b), filled(np.zeros((m, n), np.float32))])
    return Row(name, 2 * m * n * k, call, kernel.compile_ms)


CONVOLUTIONS: dict[str, Callable[[str], Row]] = {
    "conv 3x3 56x56 64->64": lambda n: conv_row(n, (1, 64, 56, 56), (64, 64, 3, 3), 1),
    "conv 3x3 28x28 128->128": lambda n: conv_row(n, (1, 128, 28, 28), (128, 128, 3, 3), 1),
    "conv 1x1 56x56 64->256": lambda n: conv_row(n, (1, 64, 56, 56), (256, 64, 1, 1), 0),
    "conv 1x1 56x56 256->64": lambda n: conv_row(n, (1, 256, 56, 56), (64, 256, 1, 1), 0),
    "conv 3x3 14x14 256->256": lambda n: conv_row(n, (1, 256, 14, 14), (256, 256, 3, 3), 1),
    "conv 1x1 14x14 1024->256": lambda n: conv_row(n, (1, 1024, 14, 14), (256, 1024, 1, 1), 0),
    "conv 3x3 7x7 512->512": lambda n: conv_row(n, (1, 512, 7, 7), (512, 512, 3, 3), 1),
    "conv 7x7/2 224x224 3->64": lambda n: conv_row(n, (1, 3, 224, 224), (64, 3, 7, 7), 3, 2),
    "conv 3x3/2 56x56 128->128": lambda n: conv_row(n, (1, 128, 56, 56), (128, 128, 3, 3), 1, 2),
    "depthwise 3x3 112x112 32": lambda n: conv_row(n, (1, 32, 112, 112), (32, 1, 3, 3), 1, 1, 32),
    "depthwise 3x3 14x14 512": lambda n: conv_row(n, (1, 512, 14, 14), (512, 1, 3, 3), 1, 1, 512),
}
FAST: dict[str, Callable[[str], Row]] = {
    "winograd 3x3 56x56 64->64": lambda n: conv_row(n, (1, 64, 56, 56), (64, 64, 3, 3), 1, fast=True),
    "winograd 3x3 28x28 128->128": lambda n: conv_row(n, (1, 128, 28, 28), (128, 128, 3, 3), 1, fast=True),
    "winograd 3x3/2 56x56 128->128": lambda n: conv_row(n, (1, 128, 56, 56), (128, 128, 3, 3), 1, 2, fast=True),
    "winograd 3x3/2 28x28 256->256": lambda n: conv_row(n, (1, 256, 28, 28), (256, 256, 3, 3), 1, 2, fast=True),
    "winograd 3x3 14x14 256->256": lambda n: conv_row(n, (1, 256, 14, 14), (256, 256, 3, 3), 1, fast=True),
}
PRODUCTS: dict[str, Callable[[str], Row]] = {
    "gemm 128x768x3072": lambda n: gemm_row(n, 128, 768, 3072),
    "gemm 512x512x512": lambda n: gemm_row(n, 512, 512, 512),
    "gemm 512x512x512, b packed each time": lambda n: gemm_row(n, 512, 512, 512, packed=False),
    "gemm 16x3072x768": lambda n: gemm_row(n, 16, 3072, 768),
    "gemm 1x768x768": lambda n: gemm_row(n, 1, 768, 768),
}


def measure(rows: Sequence[Row], seconds: float) -> tuple[list[float], float, float]:
    """Seconds of each row, the peak in FLOP/s, and its fraction of 2 FMAs for each of the chain's cycles.

    The 10th percentile each: the very fastest slice may be one whose time a virtual machine has counted wrong.
    """
    peak = peak_kernel()
    times: list[list[float]] = [[] for _ in rows]
    rates: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not rates:
        for row, each in zip(rows, times):
            rates.append(peak.run())
            row.call()
            each.append(timed(row.call))
    flops, cycles = (tenth([-rate[k] for rate in rates]) for k in (0, 1))
    return [tenth(each) for each in times], -flops, flops / (cycles * peak.flops_a_cycle)


def tenth(values: Sequence[float]) -> float:
    """The 10th percentile."""
    return sorted(values)[len(values) // 10]


def timed(call: Callable[[], object]) -> float:
    """The thread's own seconds for one call."""
    started = time.thread_time()
    call()
    return time.thread_time() - started


def measure_memory(rows: Sequence[MemoryRow], seconds: float) -> dict[object, list[float]]:
    """Seconds of each row's calls by the row, of its copy by the copy, of each elementary function by its class."""
    times: dict[object, list[float]] = {}
    functions = sorted({f for row in rows for f in row.functions}, key=lambda f: f.name)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for row in rows:
            for warm in (True, False):
                for _ in range(4):
                    for key, call in ((row.name, row.call), (row.copy, row.copy)):
                        if warm:
                            call()
                        else:
                            times.setdefault(key, []).append(timed(call))
        for function in functions:
            for _ in range(4):
                times.setdefault(function, []).append(timed(function_call(function)))
    return times


def print_memory(rows: Sequence[MemoryRow], times: dict[object, list[float]]) -> bool:
    """Prints each row beside its bound; whether all are within `MOST_TIMES` of it."""
    print(f"{'us':>49} {'10 %':>8} {'90 %':>8} {'copy':>8} {'functions':>10} {'ratio':>6}")
    within = True
    for row in rows:
        each = sorted(times[row.name])
        median, copy = statistics.median(each), statistics.median(times[row.copy])
        functions = sum(n * function_seconds(statistics.median(times[f])) for f, n in row.functions.items())
        ratio = median / max(copy, functions)
        within = within and ratio <= MOST_TIMES
        spread = (each[len(each) // 10], each[-1 - len(each) // 10])
        print(
            f"{row.name:40} {median * 1e6:8.0f} {spread[0] * 1e6:8.0f} {spread[1] * 1e6:8.0f} {copy * 1e6:8.0f}"
            f" {functions * 1e6:10.0f} {ratio:6.2f}{'' if ratio <= MOST_TIMES else f'  above {MOST_TIMES}'}"
        )
    return within


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args(arguments)
    makers = {n: make for n, make in (CONVOLUTIONS | FAST | PRODUCTS).items() if options.only in n}
    memory = [make(name) for name, make in MEMORY.items() if options.only in name]
    within = not memory or print_memory(memory, measure_memory(memory, options.seconds / 2))
    rows = [make(name) for name, make in makers.items()]
    if not rows:
        return 0 if within else 1
    times, peak, fraction = measure(rows, options.seconds)
    print(f"peak {peak / 1e9:.1f} GF/s, {fraction:.1%} of 2 FMAs a cycle; {host_target().cpu}")
    print(f"{'':40} {'us':>9} {'GF/s':>8} {'of peak':>8} {'compile ms':>11}")
    for row, seconds in zip(rows, times):
        rate = row.flops / seconds
        print(f"{row.name:40} {seconds * 1e6:9.1f} {rate / 1e9:8.1f} {rate / peak:8.1%} {row.compile_ms:11.0f}")
    return 0 if fraction >= LEAST_PEAK and within else 1


if __name__ == "__main__":
    sys.exit(main())
