"""Elementary functions of f32 beside other libraries': ns an element in the first cache, and the largest error.

    PYTHONPATH=. python benchmarks/vector_math.py [exp tanh ...]

Peers are libmvec, called by a loop that `cc` compiles, and torch's functions on a tensor, each where it is there.  A
peer counts where its error is not larger than ours; `ratio` is our time by that of the fastest that counts.  Errors are
of every 4099th number of f32, against the C library's functions of f64.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ulp
from kernels_harness import arena, host_target

Array = np.ndarray[Any, Any]
Function = Callable[[Array, Array], None]
ELEMENTS = 2048
MOST_TIMES = 1.15
MVEC = {"exp": "expf", "log": "logf", "erf": "erff", "tanh": "tanhf", "sin": "sinf", "cos": "cosf"}
EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "gelu": ulp.OURS["gelu"],
}
RANGES = {"log": (0.01, 100.0)}


def ours(name: str) -> tuple[Function, Function]:
    """One vector after the other, and four in step."""
    target = host_target()
    jits = [ulp.Jit(ulp.loop_text(name, target.lanes(4) * times, "f32"), target) for times in (1, 4)]
    one, four = ((lambda x, y, jit=jit: jit(len(x), 1, x, y)) for jit in jits)
    return one, four


def mvec(name: str, folder: Path) -> Function | None:
    """A loop that calls libmvec's function for 16 lanes."""
    compiler = shutil.which("cc")
    if compiler is None or name not in MVEC:
        return None
    call = f"_ZGVeN16v_{MVEC[name]}"
    (folder / f"{name}.c").write_text(f"""#include <immintrin.h>
    __m512 {call}(__m512);
    void loop(const float *x, float *y, long n, long repeat) {{
        for (long r = 0; r < repeat; r++)
            for (long i = 0; i < n; i += 16) _mm512_storeu_ps(y + i, {call}(_mm512_loadu_ps(x + i)));
    }}""")
    library = folder / f"{name}.so"
    command = [
        compiler,
        "-O3",
        "-mavx512f",
        "-shared",
        "-fPIC",
        str(folder / f"{name}.c"),
        "-o",
        str(library),
        "-lmvec",
    ]
    if subprocess.run([*command, "-lm"], check=False, capture_output=True).returncode:
        return None
    loop = ctypes.CDLL(str(library)).loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    return lambda x, y: loop(x.ctypes.data, y.ctypes.data, len(x), 1)


def torch_function(name: str) -> Function | None:
    """torch's function into a given tensor, on one thread."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    if name == "gelu":
        return lambda x, y: torch.ops.aten.gelu.out(torch.from_numpy(x), out=torch.from_numpy(y))
    function = getattr(torch, name, None)
    return None if function is None else lambda x, y: function(torch.from_numpy(x), out=torch.from_numpy(y))


def nanoseconds(function: Function, elements: int, low: float, high: float) -> float:
    """A call for so many elements: the least of many."""
    x = arena(4 * elements).view(np.float32)
    y = arena(4 * elements).view(np.float32)
    x[:] = np.random.default_rng(0).uniform(low, high, elements)
    times: list[float] = []
    for _ in range(300):
        started = time.perf_counter()
        for _ in range(10):
            function(x, y)
        times.append(time.perf_counter() - started)
    return min(times) / 10 * 1e9


def rate(function: Function, name: str) -> float:
    """ns an element, without what a call costs: of three times as many elements, less of once as many."""
    low, high = RANGES.get(name, (-4.0, 4.0))
    many, few = (nanoseconds(function, ELEMENTS * k, low, high) for k in (3, 1))
    return (many - few) / (2 * ELEMENTS)


def error(function: Function, name: str) -> float:
    """The largest, in units of the last place, of numbers whose result is a normal number."""
    x = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    x = np.resize(x, -(-len(x) // 64) * 64).view(np.float32).copy()
    y = np.empty_like(x)
    function(x, y)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    normal = np.isfinite(x) & (np.abs(exact) >= 2.0**-126) & (np.abs(exact) < 3.4e38)
    return float(np.max(ulp.ulp_errors(y[normal], exact[normal])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(EXACT))
    names = parser.parse_args().names
    within = True
    print(f"{'':8} {'ours ns':>8} {'ULP':>8} {'libmvec':>8} {'ULP':>8} {'torch':>8} {'ULP':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            one, four = ours(name)
            mine, wrong = min(rate(one, name), rate(four, name)), error(one, name)
            line, counting = f"{name:8} {mine:8.3f} {wrong:8.2f}", list[float]()
            for peer in (mvec(name, Path(folder)), torch_function(name)):
                if peer is None:
                    line += f" {'-':>8} {'-':>8}"
                    continue
                takes, misses = rate(peer, name), error(peer, name)
                line += f" {takes:8.3f} {misses:8.3g}"
                if misses <= wrong:
                    counting.append(takes)
            ratio = mine / min(counting) if counting else None
            within = within and (ratio is None or ratio <= MOST_TIMES)
            print(line, "no peer" if ratio is None else f"{ratio:6.2f}", flush=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
