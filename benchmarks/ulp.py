"""Errors of the f32 functions of codegen/math_*.py, in units of the last place, over all inputs.

    python benchmarks/ulp.py               # every function, every 1009th of the 2^32 inputs
    python benchmarks/ulp.py exp erf -s 1  # these, all inputs (about a minute each)
    python benchmarks/ulp.py -t avx2       # with the code for another target
    python benchmarks/ulp.py --speed       # ns per element on 8 KB buffers instead

The reference is the C library's function of f64, which is exact enough for f32 by many bits.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from sardonyx.codegen.kernels import kernel_to_llvm
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import compile_object
from sardonyx.dialects.target import AVX2, AVX512, Target
from sardonyx.dialects.vectorx import VectorX
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector
from xdsl.parser import Parser

UNARY = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "rsqrt", "gelu"),
)
OURS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": lambda x: x * 0.5 * _erfc(-x / np.sqrt(2.0)),
}
"""Functions of one operand of the project's own dialect, and the same in f64."""
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
TARGETS = {"avx2": AVX2, "avx512": AVX512}
_numbers = itertools.count()

LOOP = """
func.func private @k(%d0: index, %repeat: index, %x: memref<?x{T}>, {second}%y: memref<?x{T}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant {step} : index
  scf.for %r = %c0 to %repeat step %c1 {{
    scf.for %i = %c0 to %d0 step %step {{
      %a = vector.load %x[%i] : memref<?x{T}>, vector<{lanes}x{T}>
      {load}
      %b = {op} : vector<{lanes}x{T}>
      vector.store %b, %y[%i] : memref<?x{T}>, vector<{lanes}x{T}>
    }}
  }}
  func.return
}}
"""


def loop_text(op: str, lanes: int, element: str, *, binary: bool = False) -> str:
    """A kernel that applies an operation of the math dialect to whole vectors."""
    return LOOP.format(
        op=f"{_dialect(op)}.{op} %a, %a2" if binary else f"{_dialect(op)}.{op} %a",
        T=element,
        lanes=lanes,
        step=lanes,
        second=f"%x2: memref<?x{element}>, " if binary else "",
        load=f"%a2 = vector.load %x2[%i] : memref<?x{element}>, vector<{lanes}x{element}>" if binary else "",
    )


def _dialect(op: str) -> str:
    return "vectorx" if op in OURS else "math"


class Jit:
    """A compiled kernel: call it with numbers and arrays."""

    def __init__(self, text: str, target: Target) -> None:
        context = Context()
        for dialect in (Builtin, Func, Scf, Arith, Math, MemRef, Vector, VectorX):
            context.load_dialect(dialect)
        (function,) = [op for op in Parser(context, text).parse_module().ops if isinstance(op, FuncOp)]
        symbol = f"k_ulp{next(_numbers)}"
        image = compile_object(emit(kernel_to_llvm(function, target, symbol)), target)
        self.jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(symbol)
        self.library = builder.link(self.jit, symbol)
        self.function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self.library[symbol])

    def __call__(self, *args: int | np.ndarray) -> None:
        values = [arg if isinstance(arg, int) else arg.ctypes.data for arg in args]
        table = (ctypes.c_int64 * (len(values) + 1))(*values, 0)
        context = (ctypes.c_int64 * 32)()
        self.function(ctypes.addressof(context), ctypes.addressof(table))


def ulp_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in ulps of f32 at `exact` (f64); inf where NaN, infinity or the sign of a zero is wrong."""
    exponent = np.maximum((exact.view(np.int64) >> 52) & 0x7FF, 1023 - 126)
    places = ((2 * 1023 + 23 - exponent) << 52).view(np.float64)  # 2^(23 - exponent)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - exact) * places
    odd = np.flatnonzero(~(error < 2.0**40) | (exact == 0))
    error[odd] = _odd_errors(got[odd], exact[odd])
    return error


def _odd_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The same for NaN, infinities and zeros: 0 where both agree, the distance to 2^128 where one overflowed."""
    limit = 2.0**128
    with np.errstate(all="ignore"):
        finite = np.abs(np.clip(got.astype(np.float64), -limit, limit) - np.clip(exact, -limit, limit)) / 2.0**104
        same = np.where(exact == 0, (got == 0) & (np.signbit(got) == np.signbit(exact)), got == exact)
        one_nan = np.isnan(got) != np.isnan(exact)
        lost = one_nan | (np.isinf(exact) & ~same) | ((exact == 0) & ~same)
    return np.where(lost, np.inf, np.where(same | np.isnan(exact), 0, finite))


SYMMETRIC = frozenset({"tanh", "sinh", "cosh", "erf", "sin", "cos", "tan", "asin", "atan", "asinh", "atanh"})
"""f(-x) is f(x) or -f(x), and so is what is computed: only the sign bit differs (one in 2^16 is tried)."""


def measure(name: str, target: Target, stride: int) -> tuple[float, float]:
    """The largest error and the input that has it."""
    lanes = target.lanes(4)
    fast = Jit(loop_text(name, lanes, "f32"), target)
    slow = None if name in OURS else Jit(loop_text(name, 1, "f64"), target)
    chunk = 1 << 20
    worst, where = -1.0, 0.0
    half = 1 << (31 if name in SYMMETRIC else 32)
    parts = [range(at, min(at + chunk * stride, half), stride) for at in range(0, half, chunk * stride)]
    parts.append(range(half, 1 << 32, 65537))
    for part in filter(len, parts):
        x = np.arange(part.start, part.stop, part.step, dtype=np.uint64).astype(np.uint32)
        x = np.resize(x, -(-len(x) // lanes) * lanes).view(np.float32)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            y, wide = np.empty_like(x), x.astype(np.float64)
            exact = OURS[name](wide) if slow is None else np.empty_like(wide)
        fast(len(x), 1, x, y)
        if slow is not None:
            slow(len(x), 1, wide, exact)
        error = ulp_errors(y, exact)
        at = int(error.argmax())
        if error[at] > worst:
            worst, where = float(error[at]), float(x[at])
    return worst, where


RANGES = {"log": (0.01, 100), "acosh": (1, 10), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "rsqrt": (0.01, 9)}


def speed(name: str, target: Target) -> float:
    """ns per element, least of many runs over 1,024 elements."""
    x = np.random.default_rng(0).uniform(*RANGES.get(name.rstrip("210p"), (-4, 4)), 1024).astype(np.float32)
    y = np.empty_like(x)
    jit = Jit(loop_text(name, target.lanes(4), "f32"), target)
    repeat, best = 200, 1e9
    for _ in range(30):
        start = time.perf_counter()
        jit(len(x), repeat, x, y)
        best = min(best, time.perf_counter() - start)
    return best / repeat / len(x) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=UNARY)
    parser.add_argument("-s", "--stride", type=int, default=1009)
    parser.add_argument("-t", "--target", choices=TARGETS, default="avx512")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    target = TARGETS[args.target]
    for name in args.names:
        if args.speed:
            print(f"{name:8} {speed(name, target):.3f} ns", flush=True)
        else:
            worst, where = measure(name, target, args.stride)
            print(f"{name:8} {worst:.4f} ULP at {where!r}", flush=True)


if __name__ == "__main__":
    main()
