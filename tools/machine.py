"""What this machine can do at most: multiply-additions a second, and bytes a second from each level of memory.

Measured with kernels of our own on as many threads as a program uses, once: the numbers are kept in the object cache.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import Float32Type, FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ..codegen.kernels import kernel_to_llvm
from ..codegen.llvm_text import emit
from ..codegen.objects import compile_object
from ..dialects.dims import ShapeAttr, as_dim
from ..dialects.target import Target
from ..lowering.loop_builder import INDEX, LoopBuilder, flat
from ..runtime.cache import open_cache
from ..runtime.host import detect
from ..runtime.linker import linker

F32 = Float32Type()
ROUNDS = 12
LEAST_SECONDS = 0.004


@dataclass(frozen=True)
class Machine:
    """Operations (f32, two for a multiply-addition) and bytes read a second, by all threads together."""

    threads: int
    operations: float
    l1: float
    l2: float
    l3: float
    dram: float


@cache
def measured(threads: int) -> Machine:
    """This machine's numbers for so many threads, measured at the first use."""
    target = Target(**asdict(detect()))
    key = hashlib.sha256(f"machine {target} {threads} 4".encode()).hexdigest()
    store = open_cache()
    if store is not None and (stored := store.load_object(key)) is not None:
        return Machine(**json.loads(stored))
    peak = _Kernel(_multiply_additions(target), target)
    reading = _Kernel(_reading(target), target)
    lanes = target.lanes(4)
    operations = _rate(threads, lambda: _multiplying(peak, lanes))
    sizes = (target.l1 // 2, target.l2 // 2, target.l3 // 2 // threads, 4 * target.l3 // threads)
    rates = [_rate(threads, lambda size=size: _read_all(reading, size)) for size in sizes]
    machine = Machine(threads, operations, *rates)
    if store is not None:
        store.store_object(key, json.dumps(asdict(machine)).encode())
    return machine


Work = Callable[[], float]
"""Does something and says how much."""


def _rate(threads: int, make: Callable[[], Work]) -> float:
    """The most work a second that threads at the same time do together, of some rounds."""
    works = [make() for _ in range(threads)]
    best = 0.0
    for _ in range(ROUNDS):
        rates = [0.0] * threads
        start = threading.Barrier(threads)

        def run(number: int, rates: list[float] = rates, start: threading.Barrier = start) -> None:
            start.wait()
            began, done = time.perf_counter(), 0.0
            while (passed := time.perf_counter() - began) < LEAST_SECONDS:
                done += works[number]()
            rates[number] = done / passed

        workers = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, sum(rates))
    return best


def _multiplying(kernel: _Kernel, lanes: int) -> Work:
    memory, steps = np.zeros(1024, np.float32), 20_000

    def work() -> float:
        kernel.call(steps, memory)
        return 2.0 * lanes * ACCUMULATORS * steps

    return work


def _read_all(kernel: _Kernel, size: int) -> Work:
    memory = np.ones(max(size // 4 // 1024, 1) * 1024, np.float32)  # not zeros: those would all be one page

    def work() -> float:
        kernel.call(memory.size - 1024, memory)  # the last stretch takes the result
        return float(memory.nbytes)

    work()
    return work


ACCUMULATORS = 12


class _Kernel:
    """A compiled kernel of a number and an array."""

    def __init__(self, function: FuncOp, target: Target) -> None:
        name = function.sym_name.data
        self._library = linker().link(compile_object(emit(kernel_to_llvm(function, target, name)), target))
        entry: Any = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self._entry = entry(self._library.addresses[name])

    def call(self, number: int, array: np.ndarray[Any, Any]) -> None:
        words = (ctypes.c_int64 * 3)(number, array.ctypes.data, 0)
        context = (ctypes.c_int64 * 32)()
        self._entry(ctypes.addressof(context), ctypes.addressof(words))


def _multiply_additions(target: Target) -> FuncOp:
    """Independent multiply-additions: for count steps, each accumulator one more."""
    block = Block(arg_types=[INDEX, flat(F32)])
    steps, memory = block.args
    b = LoopBuilder(block, target)
    lanes = target.lanes(4)
    factor = b.load_vector(memory, 0, lanes)
    zero = b.broadcast(b.constant(0.0, F32), lanes)
    with b.loop(0, steps, carried=[zero] * ACCUMULATORS) as loop:
        loop.carry([b.insert(vector.FMAOp(factor, factor, s)).res for s in loop.carried])
    total = loop.results[0]
    for part in loop.results[1:]:
        total = b.insert(arith.AddfOp(total, part)).result
    b.store_vector(total, memory, 0)
    return _finished("sx_machine_peak", block, b)


def _reading(target: Target) -> FuncOp:
    """The sum of count elements, in 8 vectors at a time; it is stored behind them."""
    block = Block(arg_types=[INDEX, flat(F32)])
    count, memory = block.args
    b = LoopBuilder(block, target)
    lanes = target.lanes(4)
    zero = b.broadcast(b.constant(0.0, F32), lanes)
    with b.loop(0, count, 8 * lanes, carried=[zero] * 8) as loop:
        loaded = [b.load_vector(memory, b.add(loop.index, i * lanes), lanes) for i in range(8)]
        loop.carry([b.insert(arith.AddfOp(s, v)).result for s, v in zip(loop.carried, loaded, strict=True)])
    total = loop.results[0]
    for part in loop.results[1:]:
        total = b.insert(arith.AddfOp(total, part)).result
    b.store_vector(total, memory, count)
    return _finished("sx_machine_read", block, b)


def _finished(name: str, block: Block, b: LoopBuilder) -> FuncOp:
    b.insert(ReturnOp())
    function = FuncOp(name, FunctionType.from_lists([a.type for a in block.args], []), Region(block))
    function.attributes["kernel.scratch"] = ShapeAttr((as_dim(0),))
    function.attributes["kernel.thread_scratch"] = ShapeAttr((as_dim(0),))
    return function
