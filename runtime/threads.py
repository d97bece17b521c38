"""The threads of the fork-join pool: Python threads that live in generated code, one pool for a process.

What they do is in `codegen/pool.py`; here they are started, stopped, and forgotten after a fork.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading

from .abi import (
    CPU_MASK_BYTES,
    MAX_THREADS,
    POOL_BYTES,
    SPIN_TICKS,
    WORKER_STRIDE,
    WORKER_SYMBOL,
    PoolOffset,
    WorkerState,
)
from .linker import Library
from .memory import Mapping

CROWDED_SPIN_TICKS = 4_000
"""Spinning time where there are more threads than cores: who spins keeps another from working."""
FUTEX = 202
FUTEX_WAKE_PRIVATE = 129
SECONDS_TO_STOP = 1.0

_WORKER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """The workers that serve one pool block. `address` is what goes into the context."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._worker = _WORKER(library.addresses[WORKER_SYMBOL])
        self._block = Mapping(POOL_BYTES)
        self.address = self._block.address
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.count = 1
        """Threads that there are, the caller counted."""
        self._prepare()

    def ensure(self, threads: int) -> None:
        """Starts workers until there are `threads` in all; at most MAX_THREADS."""
        with self._lock:
            wanted = min(threads, MAX_THREADS)
            cores = len(os.sched_getaffinity(0))
            self._word(PoolOffset.SPIN_TICKS).value = SPIN_TICKS if wanted <= cores else CROWDED_SPIN_TICKS
            while self.count < wanted:
                number = self.count
                thread = threading.Thread(
                    target=self._worker, args=(self.address, number), name=f"sardonyx-{number}", daemon=True
                )
                thread.start()
                self._threads.append(thread)
                self.count += 1
                self._word(PoolOffset.COUNT).value = self.count

    def stop(self) -> None:
        """Ends the workers, for the interpreter's exit: what is running is finished first."""
        with self._lock:
            libc = ctypes.CDLL(None)
            for number in range(1, self.count):
                word = ctypes.c_int32.from_address(self.address + PoolOffset.WORKERS + WORKER_STRIDE * number)
                word.value = WorkerState.QUIT
                libc.syscall(FUTEX, ctypes.c_void_p(ctypes.addressof(word)), FUTEX_WAKE_PRIVATE, 1, None, None, 0)
            for thread in self._threads:
                thread.join(SECONDS_TO_STOP)

    def forget(self) -> None:
        """In a child process after a fork: its threads are not there, and whoever held the pool is not either."""
        self._lock = threading.Lock()
        self._threads = []
        self.count = 1
        ctypes.memset(self.address, 0, POOL_BYTES)
        self._prepare()

    def _prepare(self) -> None:
        self._word(PoolOffset.SPIN_TICKS).value = SPIN_TICKS
        self._word(PoolOffset.CALLER_CPU).value = -1
        self._word(PoolOffset.COUNT).value = 1
        allowed = sum(1 << cpu for cpu in os.sched_getaffinity(0) if cpu < 8 * CPU_MASK_BYTES)
        ctypes.memmove(self.address + PoolOffset.ALLOWED, allowed.to_bytes(CPU_MASK_BYTES, "little"), CPU_MASK_BYTES)

    def _word(self, offset: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + offset)


_pools: dict[Library, ThreadPool] = {}
"""Every pool of the process: never freed, since its threads run in its block until the process ends."""
_making = threading.Lock()


def pool_of(library: Library) -> ThreadPool:
    """The pool whose code is this library; one for each."""
    with _making:
        pool = _pools.get(library)
        if pool is None:
            pool = _pools[library] = ThreadPool(library)
        return pool


def _stop_all() -> None:
    for pool in list(_pools.values()):
        pool.stop()


def _forget_all() -> None:
    global _making
    _making = threading.Lock()
    for pool in _pools.values():
        pool.forget()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
