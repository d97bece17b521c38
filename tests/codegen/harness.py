"""Compiles loops-level IR text and calls it in this process."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import llvmlite.binding as llvm
import numpy as np
from sardonyx.codegen.kernels import kernel_to_llvm
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import compile_object
from sardonyx.dialects.dims import Dims
from sardonyx.dialects.kernel import Kernel
from sardonyx.dialects.llvmx import LLVMX
from sardonyx.dialects.target import AVX2, AVX512, Target, TargetDialect
from sardonyx.dialects.vectorx import VectorX
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.llvm import LLVM
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector
from xdsl.parser import Parser

DIALECTS = (Builtin, Func, Scf, Arith, Math, MemRef, Vector, LLVM, VectorX, Kernel, Dims, LLVMX, TargetDialect)

PARALLEL_BODY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
PARALLEL_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, PARALLEL_BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
REPORT = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
)
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


def host_has(*features: str) -> bool:
    """Whether code that needs these features can run here."""
    have = llvm.get_host_cpu_features()
    return all(have.get(feature) for feature in features)


TARGETS = (AVX2, AVX512) if host_has("avx512f", "avx512vl", "avx512bw", "avx512dq") else (AVX2,)


def context() -> Context:
    """A context with every dialect of the lower levels."""
    ctx = Context()
    for dialect in DIALECTS:
        ctx.load_dialect(dialect)
    return ctx


def parse(text: str) -> ModuleOp:
    """Parses and verifies a module."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def function_of(text: str) -> FuncOp:
    """The one function of a module's text."""
    (function,) = [op for op in parse(text).walk() if isinstance(op, FuncOp)]
    return function


_numbers = itertools.count()


@dataclass
class Call:
    """What happened in a call: what `report` and `parallel_for` were told."""

    code: int
    reports: list[tuple[int, int, list[int]]] = field(default_factory=list)
    ranges: list[tuple[int, int, int]] = field(default_factory=list)


class Compiled:
    """A kernel in this process. Call it with numbers for the dims and arrays for the memrefs."""

    def __init__(self, text: str, target: Target, *, check_ir: bool = True) -> None:
        function = function_of(text)
        symbol = f"k_test{next(_numbers)}"
        self.module = kernel_to_llvm(function, target, symbol)
        if check_ir:
            self.module.verify()
            again = parse(str(self.module))
            assert again.is_structurally_equivalent(self.module), "the llvm level does not survive print and parse"
        self.text = emit(self.module)
        self.image = compile_object(self.text, target)
        self.jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(self.image).add_current_process().export_symbol(symbol)
        self.library = builder.link(self.jit, symbol)
        self.function = KERNEL(self.library[symbol])

    def __call__(
        self,
        *args: int | np.ndarray,
        scratch: np.ndarray | None = None,
        threads: int = 1,
        node: int = 7,
        parallel_code: int = 0,
    ) -> Call:
        call = Call(0)
        slots = (ctypes.c_int64 * 32)()

        def parallel_for(ctx: int, body: object, frame: int, extent: int, grain: int) -> int:
            half = extent // 2
            for thread, (low, high) in enumerate(((half, extent), (0, half))):
                call.ranges.append((low, high, thread))
                code = body(ctx, frame, low, high, thread)  # type: ignore[operator]
                if code:
                    return code
            return parallel_code

        def report(ctx: int, node: int, site: int, count: int, values: Sequence[int]) -> None:
            call.reports.append((node, site, [values[i] for i in range(count)]))

        callbacks = PARALLEL_FOR(parallel_for), REPORT(report)
        slots[4] = ctypes.cast(callbacks[0], ctypes.c_void_p).value or 0
        slots[12] = ctypes.cast(callbacks[1], ctypes.c_void_p).value or 0
        slots[11] = threads
        slots[14] = node
        values = [int(arg) if isinstance(arg, int | np.integer) else arg.ctypes.data for arg in args]
        values.append(scratch.ctypes.data if scratch is not None else 0)
        table = (ctypes.c_int64 * len(values))(*values)
        call.code = self.function(ctypes.addressof(slots), ctypes.addressof(table))
        return call
