"""Builds, compiles and calls single kernels for the benchmarks."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from sardonyx.codegen.kernels import kernel_to_llvm
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import compile_object
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import Dim, ShapeAttr, as_dim
from sardonyx.dialects.target import Target
from sardonyx.lowering.body import Buffer, Storage, row_major
from sardonyx.lowering.kernels import TEMPLATES
from sardonyx.lowering.loop_builder import INDEX, LoopBuilder, ScratchSpace, flat
from sardonyx.lowering.template import TemplateContext
from sardonyx.runtime.host import detect
from xdsl.dialects import arith, tensor, vector
from xdsl.dialects.builtin import Float32Type, FunctionType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

Array = np.ndarray[Any, Any]
F32 = Float32Type()
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_numbers = itertools.count()


@cache
def host_target() -> Target:
    """This machine."""
    return Target(**asdict(detect()))


class Arena:
    """Memory in huge pages, as the runtime's."""

    def __init__(self, size: int) -> None:
        mapping = mmap.mmap(-1, size)
        mapping.madvise(mmap.MADV_HUGEPAGE)
        data = np.frombuffer(mapping, np.uint8)
        self._data = data[-data.ctypes.data % (2 << 20) :]
        self._used = 0

    def __call__(self, size: int) -> Array:
        start, self._used = self._used, self._used + (size + 4159) // 4096 * 4096
        return self._data[start : start + size]


arena = Arena(1 << 29)


def loops_kernel(
    template: str,
    config: Mapping[str, Attribute],
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> FuncOp:
    """The loops-level function of one template op on f32 tensors."""
    types = [TensorType(F32, list(s)) for s in (*inputs, *outputs)]
    block = Block(arg_types=[flat(F32)] * len(types))
    sources = Block(arg_types=types[: len(inputs)])
    empties = [tensor.EmptyOp([], t) for t in types[len(inputs) :]]
    op = kernel.TemplateOp(template, dict(config), list(sources.args), [e.tensor for e in empties])
    builder = LoopBuilder(block, host_target())
    storage: dict[SSAValue, Storage] = {}
    shapes: dict[SSAValue, tuple[Dim, ...]] = {}
    for value, type_, argument in zip((*sources.args, *op.results_), types, block.args, strict=True):
        shapes[value] = tuple(map(as_dim, type_.get_shape()))
        storage[value] = Buffer(argument, row_major(builder, list(type_.get_shape())))
    space = ScratchSpace()
    TEMPLATES[template](TemplateContext(builder, storage, shapes, space), op)
    builder.insert(ReturnOp())
    return finished(block, space)


def finished(block: Block, space: ScratchSpace) -> FuncOp:
    """The block as a kernel function."""
    kind = FunctionType.from_lists([a.type for a in block.args], [])
    function = FuncOp(f"bench{next(_numbers)}", kind, Region(block))
    function.attributes["kernel.scratch"] = ShapeAttr((space.shared,))
    function.attributes["kernel.thread_scratch"] = ShapeAttr((space.per_thread,))
    return function


class Kernel:
    """A compiled kernel without symbols, for one thread."""

    def __init__(self, function: FuncOp) -> None:
        name = function.sym_name.data
        self.scratch = 0
        for part in ("scratch", "thread_scratch"):
            size = function.attributes[f"kernel.{part}"]
            assert isinstance(size, ShapeAttr)
            self.scratch += size.data[0].value
        started = time.process_time()
        image = compile_object(emit(kernel_to_llvm(function, host_target(), name)), host_target())
        self.compile_ms = (time.process_time() - started) * 1e3
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(name)
        self._library = builder.link(llvm.create_lljit_compiler(), name)
        self._entry = ENTRY(self._library[name])

    def bind(self, arguments: Sequence[Array | int]) -> Callable[[], int]:
        """A call that is ready to be made."""
        slots = (ctypes.c_int64 * 32)()
        slots[11] = 1
        scratch = arena(self.scratch + 64)
        values = [a if isinstance(a, int) else a.ctypes.data for a in (*arguments, scratch)]
        table = (ctypes.c_int64 * len(values))(*values)
        kept = (slots, table, scratch, arguments)
        context, args = ctypes.addressof(slots), ctypes.addressof(table)

        def call() -> int:
            assert kept
            return self._entry(context, args)

        return call


class PeakKernel:
    """Accumulators that do not depend on each other, and beside them a chain of dependent additions.

    An addition alternates with an exclusive or, which nothing can combine; both take one cycle.
    """

    ACCUMULATORS = 24
    CHAIN = 16
    STEPS = 10_000

    def __init__(self, accumulators: int, chain: int) -> None:
        self.accumulators, self.chain = accumulators, chain
        self.lanes = host_target().lanes(4)
        self.flops_a_cycle = 4.0 * self.lanes
        self.data = arena(4096).view(np.float32)
        self.call = Kernel(self._function()).bind([self.STEPS, 3, self.data])

    def _function(self) -> FuncOp:
        block = Block(arg_types=[INDEX, INDEX, flat(F32)])
        steps, term, memory = block.args
        b = LoopBuilder(block, host_target())
        factor = b.load_vector(memory, 0, self.lanes)
        zero = b.broadcast(b.constant(0.0, F32), self.lanes)
        with b.loop(0, steps, carried=[*[zero] * self.accumulators, b.index(0)]) as loop:
            *sums, link = loop.carried
            for number in range(max(self.accumulators, self.chain)):
                if number < self.accumulators:
                    sums[number] = b.insert(vector.FMAOp(factor, factor, sums[number])).res
                if number < self.chain:
                    combine = arith.AddiOp if number % 2 else arith.XOrIOp
                    link = b.insert(combine(link, term)).result
            loop.carry([*sums, link])
        *sums, link = loop.results
        total = sums[0]
        for part in sums[1:]:
            total = b.insert(arith.AddfOp(total, part)).result
        b.store_vector(total, memory, 0)
        b.store_vector(total, memory, b.add(b.mod(link, 64), self.lanes))
        b.insert(ReturnOp())
        return finished(block, ScratchSpace())

    def seconds(self) -> float:
        started = time.thread_time()
        self.call()
        return time.thread_time() - started


class Peak:
    """Measures both: the fastest FMA loop, and how many cycles a second there are while FMAs run."""

    def __init__(self) -> None:
        # 24 sums take 12 cycles, less than the chain of 16 in the second loop: that one counts cycles
        self._sums = PeakKernel(PeakKernel.ACCUMULATORS if host_target().vector_registers > 16 else 12, 2)
        self._cycles = PeakKernel(self._sums.accumulators, self._sums.accumulators // 2 + 4)
        self.flops_a_cycle = self._sums.flops_a_cycle

    def run(self) -> tuple[float, float]:
        """(FLOP/s, cycles a second)."""
        sums, chain = self._sums, self._cycles
        flops = 2.0 * sums.lanes * sums.accumulators * sums.STEPS / sums.seconds()
        return flops, chain.chain * chain.STEPS / chain.seconds()


@cache
def peak_kernel() -> Peak:
    return Peak()
