"""One call's world: the context block that native code sees, its memory, and what it asks of us.

A context is leased for the length of one call, so calls of one program may run at the same time; what it has grown
(arena, growing region) stays for the next call.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from .abi import (
    ALLOC_DYNAMIC_SYMBOL,
    CONTEXT_SLOTS,
    ERROR_WORDS,
    PARALLEL_FOR_SYMBOL,
    REPORT_SYMBOL,
    REQUEST_SYMBOLS,
    REQUEST_WORDS,
    VERSION,
    WORD,
    ErrorCode,
    ErrorWord,
    Request,
    RequestWord,
    Slot,
)
from .available import available_memory, require
from .linker import Library
from .memory import Arena, GrowingRegion

Words = ctypes.Array[ctypes.c_int64]

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_FLAG = CONTEXT_SLOTS + ERROR_WORDS
"""Index of the poll flag in a context's words."""
_ARGS = _FLAG + 8

LARGEST_RANK = 64


class Callbacks(Protocol):
    """What a context asks of its program."""

    def allocate_output(self, context: Context, output: int, dims: tuple[int, ...]) -> int:
        """The address of a new array for that output."""
        ...

    def call_host(self, context: Context, host: int, args: int) -> None:
        """Runs a host operator on the argument words at that address."""
        ...


class Context:
    """The block of `abi.Slot`s, the error record, the poll flag and the argument words, in one stretch of memory.

    `exception` is what a callback raised: native code returns soon after it, and the caller raises it again.
    """

    def __init__(
        self, pool: Library, pool_address: int, weights: int, threads: int, args: int, callbacks: Callbacks
    ) -> None:
        self.words: Words = (ctypes.c_int64 * (_ARGS + args))()
        self.address = ctypes.addressof(self.words)
        self.args_offset = WORD * _ARGS
        self.args = self.address + self.args_offset
        self.arena = Arena()
        self.growing: GrowingRegion | None = None
        self.exception: BaseException | None = None
        self.outputs: dict[int, object] = {}
        """Arrays that `allocate_output` made in this call."""
        self.objects: list[object] = []
        """Values that native code knows by number only: strings, sequences."""
        self.made: list[object] = []
        """What host operators made that must live until the call ends."""
        self._callbacks = weakref.ref(callbacks)  # a call keeps its program alive, idle contexts should not
        self.dirty = False
        """Whether `reset` has something to do."""
        self._serve = _server(weakref.ref(self))
        next(self._serve)
        # a bound C method: an interrupt that is pending when native code calls back is raised inside the generator,
        # at its `yield`, where it is caught; a Python function here would let it out before its own first line
        self._callback = _CALLBACK(self._serve.send)
        self._fill(pool, pool_address, weights, threads)

    def _fill(self, pool: Library, pool_address: int, weights: int, threads: int) -> None:
        words = self.words
        words[Slot.VERSION] = VERSION
        words[Slot.WEIGHTS] = weights
        words[Slot.POLL_FLAG] = self.address + WORD * _FLAG
        words[Slot.ERROR] = self.address + WORD * CONTEXT_SLOTS
        words[Slot.THREADS] = threads
        words[Slot.ENTROPY] = int.from_bytes(os.urandom(WORD), "little", signed=True)
        words[Slot.POOL] = pool_address
        words[Slot.PARALLEL_FOR] = pool.addresses[PARALLEL_FOR_SYMBOL]
        words[Slot.REPORT] = pool.addresses[REPORT_SYMBOL]
        words[Slot.ALLOC_DYNAMIC] = pool.addresses[ALLOC_DYNAMIC_SYMBOL]
        for slot, symbol in REQUEST_SYMBOLS.items():
            words[slot] = pool.addresses[symbol]
        words[Slot.CALLBACK] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def keep(self, value: object) -> int:
        """The number by which native code knows the object in this call."""
        self.dirty = True
        self.objects.append(value)
        return len(self.objects) - 1

    # --- the error record ---

    @property
    def error(self) -> Sequence[int]:
        """The error record's words."""
        return self.words[CONTEXT_SLOTS : CONTEXT_SLOTS + ERROR_WORDS]

    def reset(self) -> None:
        """Makes the context ready for the next call, after one that failed or grew something."""
        words = self.words
        words[CONTEXT_SLOTS + ErrorWord.CODE] = ErrorCode.NONE
        words[_FLAG] = 0
        words[Slot.NODE] = -1
        self.exception = None
        if self.growing is not None:
            words[Slot.DYNAMIC_TOP] = self.growing.address
        self.outputs.clear()
        self.objects.clear()
        self.made.clear()
        self.dirty = self.growing is not None

    @property
    def serves(self) -> bool:
        """Whether native code can still call back: a second interrupt, in the midst of the first, ends that."""
        return inspect.getgeneratorstate(self._serve) != inspect.GEN_CLOSED

    def stop(self) -> None:
        """Has a running call of this context end at its next poll; from any thread."""
        self.words[_FLAG] = 1

    # --- what native code asks ---

    def answer(self, address: int) -> None:
        """Serves the request at that address."""
        self.dirty = True
        request = (ctypes.c_int64 * REQUEST_WORDS).from_address(address)
        request[RequestWord.RESULT] = _HANDLERS[request[RequestWord.KIND]](self, request)

    def fail(self, error: BaseException) -> None:
        """Notes what a callback raised; native code returns at its next poll at the latest."""
        self.dirty = True
        self.exception = error
        self.stop()

    def _reserve(self, request: Words) -> int:
        size, words = request[RequestWord.FIRST], self.words
        try:
            if words[Slot.ARENA_OWED]:  # by a branch, for what it has addresses for
                require(size)
                return 0
            self.arena.reserve(size, words[Slot.ARENA_CERTAIN])
        except MemoryError:
            self._out_of_memory(size)
            return 1
        words[Slot.ARENA], words[Slot.ARENA_BYTES] = self.arena.address, self.arena.size
        words[Slot.ARENA_OWED] = self.arena.owed
        return 0

    def _grow(self, request: Words) -> int:
        top = request[RequestWord.FIRST]
        try:
            if self.growing is None:
                self.growing = GrowingRegion()
                self.words[Slot.DYNAMIC_TOP] = self.growing.address
                top += self.growing.address  # the first request counts from null
            self.growing.reach(top)
        except MemoryError:
            self._out_of_memory(top - (self.growing.address if self.growing else 0))
            return 1
        self.words[Slot.DYNAMIC_END] = self.growing.end
        return 0

    def _out_of_memory(self, size: int) -> None:
        at = CONTEXT_SLOTS
        if self.words[at + ErrorWord.CODE] == ErrorCode.NONE:
            self.words[at + ErrorWord.CODE] = ErrorCode.MEMORY
            self.words[at + ErrorWord.COUNT] = 2
            self.words[at + ErrorWord.VALUES] = size
            self.words[at + ErrorWord.VALUES + 1] = available_memory()

    def _allocate_output(self, request: Words) -> int:
        output, rank, dims_at = request[RequestWord.FIRST : RequestWord.FIRST + 3]
        if not 0 <= rank <= LARGEST_RANK:
            raise ValueError(f"output {output} has rank {rank}")
        dims = tuple((ctypes.c_int64 * rank).from_address(dims_at)) if rank else ()
        return self._program().allocate_output(self, output, dims)

    def _call_host(self, request: Words) -> int:
        host, args = request[RequestWord.FIRST : RequestWord.FIRST + 2]
        self._program().call_host(self, host, args)
        return 0

    def _program(self) -> Callbacks:
        program = self._callbacks()
        assert program is not None, "native code runs for a program that is gone"
        return program

    def _poll(self, request: Words) -> int:
        return self.words[_FLAG]  # that Python code runs here at all lets a pending signal's handler run


def _server(reference: weakref.ref[Context]) -> Generator[None, int, None]:
    """Serves the requests sent to it. Holds no reference, so a context that nobody uses is freed at once."""
    while True:
        try:
            address = yield
            _serve(reference, address)
        except GeneratorExit:
            return
        except BaseException as error:
            _fail(reference, error)


def _serve(reference: weakref.ref[Context], address: int) -> None:
    context = reference()
    assert context is not None, "native code runs in a context that is gone"
    context.answer(address)


def _fail(reference: weakref.ref[Context], error: BaseException) -> None:
    context = reference()
    if context is not None:
        context.fail(error)


_HANDLERS: dict[int, Callable[[Context, Words], int]] = {
    Request.RESERVE: Context._reserve,  # pyright: ignore[reportPrivateUsage]
    Request.ALLOC_OUTPUT: Context._allocate_output,  # pyright: ignore[reportPrivateUsage]
    Request.HOST_CALL: Context._call_host,  # pyright: ignore[reportPrivateUsage]
    Request.POLL: Context._poll,  # pyright: ignore[reportPrivateUsage]
    Request.GROW: Context._grow,  # pyright: ignore[reportPrivateUsage]
}
