"""The fork-join pool: covers each range once, on several threads, nested, from several callers, after a fork."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sardonyx.runtime.abi import PoolOffset, Slot
from sardonyx.runtime.context import Context
from sardonyx.runtime.linker import Library, linker
from sardonyx.runtime.threads import ThreadPool, pool_of

BODIES = """
define i32 @count(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
entry:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %frame, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define i32 @note(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
  %at = mul i64 %thread, 16
  %p = getelementptr i8, ptr %frame, i64 %at
  store i64 %lo, ptr %p
  %q = getelementptr i8, ptr %p, i64 8
  store i64 %hi, ptr %q
  ret i32 0
}
define i32 @nest(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
  %slot = getelementptr i64, ptr %ctx, i64 4
  %for = load ptr, ptr %slot
  %at = mul i64 %lo, 8000
  %row = getelementptr i8, ptr %frame, i64 %at
  %r = call i32 %for(ptr %ctx, ptr @count, ptr %row, i64 1000, i64 1)
  ret i32 %r
}
define i32 @fail(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
  %status = trunc i64 %thread to i32
  %bit = shl i32 1, %status
  ret i32 %bit
}
define i32 @busy(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
entry:
  %ticks = load i64, ptr %frame
  %start = call i64 @llvm.readcyclecounter()
  br label %loop
loop:
  %now = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %now, %start
  %more = icmp ult i64 %passed, %ticks
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define i32 @reports(ptr %ctx, ptr %frame, i64 %lo, i64 %hi, i64 %thread) {
entry:
  %slot = getelementptr i64, ptr %ctx, i64 12
  %report = load ptr, ptr %slot
  %value = alloca i64
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ]
  store i64 %i, ptr %value
  %node = sub i64 1000, %i
  call void %report(ptr %ctx, i64 %node, i64 7, i64 1, ptr %value)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define i32 @repeat(ptr %ctx, ptr %body, ptr %frame, i64 %extent, i64 %times) {
entry:
  %slot = getelementptr i64, ptr %ctx, i64 4
  %for = load ptr, ptr %slot
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %r = call i32 %for(ptr %ctx, ptr %body, ptr %frame, i64 %extent, i64 1)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret i32 %r
}
declare i64 @llvm.readcyclecounter()
"""

FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class Nobody:
    """A program that is never asked for anything."""

    def allocate_output(self, context: Context, output: int, dims: tuple[int, ...]) -> int:
        raise NotImplementedError

    def call_host(self, context: Context, host: int, args: int) -> None:
        raise NotImplementedError


class Bench:
    """A context of so many threads, and the bodies above."""

    def __init__(self, library: Library, bodies: Library, pool: ThreadPool, threads: int) -> None:
        self.pool, self.bodies = pool, bodies
        self.context = Context(library, pool.address, 0, threads, 8, Nobody())
        pool.ensure(threads)
        self._run = FOR(self.context.words[Slot.PARALLEL_FOR])
        self._repeat = FOR(bodies.addresses["repeat"])

    def run(self, body: str, frame: Any, extent: int, grain: int = 1) -> int:
        return self._run(self.context.address, self.bodies.addresses[body], frame.ctypes.data, extent, grain)

    def repeat(self, body: str, frame: Any, extent: int, times: int) -> int:
        return self._repeat(self.context.address, self.bodies.addresses[body], frame.ctypes.data, extent, times)


@pytest.fixture
def bench(pool_object: bytes, compiled: Callable[[str], bytes]) -> Callable[[int], Bench]:
    library = linker().link(pool_object)
    bodies = linker().link(compiled(BODIES))
    return lambda threads: Bench(library, bodies, pool_of(library), threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_index_runs_once(bench: Callable[[int], Bench], threads: int) -> None:
    b = bench(threads)
    for extent in (0, 1, 2, 3, 100, 1001):
        frame = np.zeros(1001, np.int64)
        for _ in range(20):
            assert b.run("count", frame, extent) == 0
        assert (frame[:extent] == 20).all()
        assert (frame[extent:] == 0).all()


@pytest.mark.parametrize(("extent", "grain", "parts"), [(10, 1, 4), (10, 3, 3), (10, 6, 1), (3, 1, 3), (10, 0, 4)])
def test_the_partition_is_contiguous_and_by_sizes_only(
    bench: Callable[[int], Bench], extent: int, grain: int, parts: int
) -> None:
    b = bench(4)
    for _ in range(10):
        frame = np.full((8, 2), -1, np.int64)
        b.run("note", frame, extent, grain)
        bounds = [extent * part // parts for part in range(parts + 1)]
        sizes = np.diff(frame[:parts], axis=1).ravel()
        assert frame[0, 0] == 0
        assert frame[parts - 1, 1] == extent
        assert (frame[1:parts, 0] == frame[: parts - 1, 1]).all()
        assert sizes.max() - sizes.min() <= 1, bounds
        assert (frame[parts:] == -1).all()


def test_a_nested_loop_runs_serially(bench: Callable[[int], Bench]) -> None:
    frame = np.zeros((3, 1000), np.int64)
    assert bench(3).run("nest", frame, 3) == 0
    assert (frame == 1).all()


def test_results_are_united(bench: Callable[[int], Bench]) -> None:
    assert bench(3).run("fail", np.zeros(1), 3) == 0b111
    assert bench(3).run("fail", np.zeros(1), 2) == 0b11
    assert bench(1).run("fail", np.zeros(1), 3) == 0b1


def test_the_report_with_the_lowest_node_wins(bench: Callable[[int], Bench]) -> None:
    b = bench(4)
    for _ in range(20):
        b.context.reset()
        b.run("reports", np.zeros(1), 1000)
        assert list(b.context.error[:5]) == [1, 1, 7, 1, 999]


def test_callers_on_several_threads_do_not_wait_for_each_other(bench: Callable[[int], Bench]) -> None:
    failures: list[object] = []

    def work() -> None:
        b = bench(2)
        for _ in range(300):
            frame = np.zeros(64, np.int64)
            b.run("count", frame, 64)
            if not (frame == 1).all():
                failures.append(frame)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_worker_wakes_from_its_sleep(bench: Callable[[int], Bench]) -> None:
    b = bench(2)
    frame = np.zeros(2, np.int64)
    for _ in range(5):
        time.sleep(0.01)  # much longer than a worker spins
        b.run("count", frame, 2)
    assert (frame == 5).all()


def test_a_long_range_is_waited_for_asleep(bench: Callable[[int], Bench]) -> None:
    b = bench(2)
    b.run("busy", np.array([30_000_000]), 2)
    b.run("busy", np.array([30_000_000]), 2)
    frame = np.zeros(2, np.int64)
    b.run("count", frame, 2)
    assert (frame == 1).all()


def test_workers_keep_off_the_callers_cpu(bench: Callable[[int], Bench]) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core")
    b = bench(2)
    caller = min(allowed)
    try:
        os.sched_setaffinity(0, {caller})
        time.sleep(0.01)
        b.repeat("busy", np.array([300_000]), 2, 20)
    finally:
        os.sched_setaffinity(0, allowed)
    (worker,) = [t for t in threading.enumerate() if t.name == "sardonyx-1"]
    assert worker.native_id is not None
    assert caller not in os.sched_getaffinity(worker.native_id)
    assert ctypes.c_int64.from_address(b.pool.address + PoolOffset.CALLER_CPU).value == caller


def test_a_child_process_has_a_pool_of_its_own(bench: Callable[[int], Bench]) -> None:
    b = bench(3)
    b.run("count", np.zeros(3, np.int64), 3)
    child = os.fork()
    if child == 0:
        try:
            b.pool.ensure(3)
            frame = np.zeros(30, np.int64)
            for _ in range(10):
                b.run("count", frame, 30)
            os._exit(0 if (frame == 10).all() and b.pool.count == 3 else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0


EXIT = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from conftest import compile_pool, compile_text
from test_pool import BODIES, Bench
from sardonyx.runtime.linker import linker
from sardonyx.runtime.threads import pool_of
library, bodies = linker().link(compile_pool()), linker().link(compile_text(BODIES))
bench = Bench(library, bodies, pool_of(library), 4)
frame = np.zeros(100, np.int64)
bench.run("count", frame, 100)
print(frame.sum())
"""


def test_the_interpreter_exits_in_time() -> None:
    script = EXIT.format(folder=os.path.dirname(__file__))
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\n", "")
    assert time.monotonic() - began < 20
