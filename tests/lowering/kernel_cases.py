"""Builds one template's kernel from shapes, compiles it and calls it on arrays: what the template tests share."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
from sardonyx.codegen.kernels import kernel_to_llvm
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import assembly, compile_object
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import Dim, ShapeAttr, as_dim
from sardonyx.dialects.target import AVX2, AVX512, Target
from sardonyx.lowering.body import Buffer, Storage, row_major
from sardonyx.lowering.kernels import TEMPLATES
from sardonyx.lowering.loop_builder import LoopBuilder, ScratchSpace, flat
from sardonyx.lowering.template import TemplateContext
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FunctionType,
    IndexType,
    IntegerType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

ELEMENTS: dict[np.dtype, Attribute] = {
    np.dtype(np.float32): Float32Type(),
    np.dtype(np.float64): Float64Type(),
    np.dtype(np.float16): Float16Type(),
    np.dtype(ml_dtypes.bfloat16): BFloat16Type(),
    np.dtype(np.bool_): IntegerType(1),
} | {np.dtype(f"{sign}int{8 * size}"): IntegerType(8 * size) for sign in ("u", "") for size in (1, 2, 4, 8)}

Shape = Sequence[int | str | Dim]
BODY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
PARALLEL_FOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
REPORT = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
)
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


@cache
def host_target() -> Target:
    """This machine, with the caches of an ordinary server core."""
    features = llvm.get_host_cpu_features()
    text = features.flatten()
    if features.get("avx512f") and features.get("avx512bw"):
        return Target(llvm.get_host_cpu_name(), text, 64, 32, 48 << 10, 1 << 20, 32 << 20)
    return Target(llvm.get_host_cpu_name(), text, 32, 16, 32 << 10, 512 << 10, 16 << 20)


def targets() -> list[Target]:
    """The targets that can run here: AVX2 always."""
    return [AVX2, *([AVX512] if host_target().vector_bytes == 64 else [])]


@dataclass(frozen=True)
class Tensor:
    """An operand: dtype and sizes, which may be expressions in d0, d1, ..."""

    dtype: np.dtype
    shape: tuple[Dim, ...]

    @staticmethod
    def of(dtype: object, *shape: int | str | Dim) -> Tensor:
        return Tensor(np.dtype(dtype), tuple(map(as_dim, shape)))

    @property
    def type(self) -> TensorType[Attribute]:
        sizes = [d.value if d.is_const else DYNAMIC_INDEX for d in self.shape]
        return TensorType(ELEMENTS[self.dtype], sizes)


_numbers = itertools.count()
Epilogue = Callable[[Block], None]


def loops_kernel(
    template: str,
    config: Mapping[str, Attribute],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    dims: int = 0,
    target: Target | None = None,
    epilogue: Region | None = None,
    extra: Mapping[SSAValue, Tensor] | None = None,
) -> FuncOp:
    """The loops-level function of one template op: d0.., inputs, `extra` tensors that the epilogue reads, outputs."""
    target = target or host_target()
    extra = extra or {}
    specs = [*inputs, *extra.values(), *outputs]
    types = [IndexType()] * dims + [flat(t.type.element_type) for t in specs]
    block = Block(arg_types=types)
    sources = Block(arg_types=[t.type for t in inputs])
    empties = [tensor.EmptyOp([], t.type) for t in outputs]
    op = kernel.TemplateOp(template, dict(config), list(sources.args), [x.tensor for x in empties], epilogue)
    builder = LoopBuilder(block, target)
    storage: dict[SSAValue, Storage] = {}
    shapes: dict[SSAValue, tuple[Dim, ...]] = {}
    for value, spec, argument in zip((*sources.args, *extra, *op.results_), specs, block.args[dims:], strict=True):
        shapes[value] = spec.shape
        storage[value] = Buffer(argument, row_major(builder, [builder.dim(d) for d in spec.shape]))
    space = ScratchSpace()
    TEMPLATES[template](TemplateContext(builder, storage, shapes, space), op)
    builder.insert(ReturnOp())
    function = FuncOp(f"k{next(_numbers)}", FunctionType.from_lists(types, []), Region(block))
    function.attributes["kernel.scratch"] = ShapeAttr((space.shared,))
    function.attributes["kernel.thread_scratch"] = ShapeAttr((space.per_thread,))
    function.verify()
    return function


def aligned(size: int) -> np.ndarray:
    """Bytes from a multiple of 4096 on, filled with NaN patterns: scratch must not be trusted."""
    raw = np.full(size + 4096, 0xFF, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size]


class Kernel:
    """A compiled kernel. `run` takes the dims' values and arrays; `seconds` repeats a call."""

    def __init__(self, function: FuncOp, target: Target | None = None, threads: int = 1) -> None:
        self.target = target or host_target()
        self.threads = threads
        name = function.sym_name.data
        self.scratch_sizes = [function.attributes[f"kernel.{k}"].data[0] for k in ("scratch", "thread_scratch")]
        started = time.perf_counter()
        self.module = kernel_to_llvm(function, self.target, name)
        self.text = emit(self.module)
        self.llvm_seconds = time.perf_counter() - started
        self.image = compile_object(self.text, self.target)
        self.compile_seconds = time.perf_counter() - started
        self.name = name
        self.reports: list[tuple[int, list[int]]] = []

    @cached_property
    def function(self) -> Callable[[int, int], int]:
        """Linked when it is first called: a kernel for another CPU may be looked at."""
        self.jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(self.image).add_current_process().export_symbol(self.name)
        self.library = builder.link(self.jit, self.name)
        return KERNEL(self.library[self.name])

    @property
    def assembly(self) -> str:
        return assembly(self.text, self.target)

    def _parallel_for(self, ctx: int, body: object, frame: int, extent: int, grain: int) -> int:
        """Uneven ranges, the last first, each on a thread number of its own."""
        edges = sorted({0, extent // 3, extent // 3 + (extent > 1), extent})
        ranges = list(itertools.pairwise(edges))[::-1]
        for thread, (low, high) in enumerate(ranges):
            code = body(ctx, frame, low, high, thread)  # type: ignore[operator]
            if code:
                return code
        return 0

    def bind(self, dims: Sequence[int], arrays: Sequence[np.ndarray]) -> Callable[[], int]:
        """A call that is ready to be made."""
        slots = (ctypes.c_int64 * 32)()

        def report(ctx: int, node: int, site: int, count: int, values: Sequence[int]) -> None:
            self.reports.append((site, [values[i] for i in range(count)]))

        callbacks = PARALLEL_FOR(self._parallel_for), REPORT(report)
        slots[4] = ctypes.cast(callbacks[0], ctypes.c_void_p).value or 0
        slots[12] = ctypes.cast(callbacks[1], ctypes.c_void_p).value or 0
        slots[11] = self.threads
        binding = {f"d{i}": v for i, v in enumerate(dims)}
        shared, own = (size.evaluate(binding) for size in self.scratch_sizes)
        scratch = aligned(shared + 3 * own + 64)
        values = [*dims, *(a.ctypes.data for a in arrays), scratch.ctypes.data]
        table = (ctypes.c_int64 * len(values))(*values)
        keep = (slots, scratch, table, callbacks, arrays)
        context, args = ctypes.addressof(slots), ctypes.addressof(table)

        def call() -> int:
            assert keep
            return self.function(context, args)

        return call

    def run(self, dims: Sequence[int], *arrays: np.ndarray) -> None:
        code = self.bind(dims, arrays)()
        assert code == 0


def compiled(
    template: str,
    config: Mapping[str, Attribute],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    dims: int = 0,
    target: Target | None = None,
    threads: int = 1,
    **options: object,
) -> Kernel:
    function = loops_kernel(template, config, inputs, outputs, dims, target, **options)  # type: ignore[arg-type]
    return Kernel(function, target, threads)


__all__ = ["Kernel", "StringAttr", "Tensor", "compiled", "host_target", "loops_kernel", "replace", "targets"]
