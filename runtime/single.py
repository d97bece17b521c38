"""One kernel of a program, called from Python by itself: for tools that look at every value as it is made."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .abi import WORD, ErrorCode, ErrorWord, Slot
from .arrays import Array, address_of
from .context import Context
from .errors import CompilerBug, InputError
from .linker import linker
from .program import fill_in
from .threads import pool_of

ALIGNMENT = 64
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class SingleKernel:
    """The compiled kernel `symbol` of an object. `checks` are its (code, message) by site, `pool` the pool's object.

    Not for speed: every call has a context of its own.
    """

    def __init__(
        self, image: bytes, symbol: str, checks: Sequence[tuple[str, str]], pool: bytes, threads: int = 1
    ) -> None:
        self._library = linker().link(image)
        self._pool_library = linker().link(pool)
        self._pool = pool_of(self._pool_library)
        self._function = _KERNEL(self._library.addresses[symbol])
        self._checks = checks
        self._threads = threads

    def __call__(
        self, dims: Sequence[int], inputs: Sequence[Array], outputs: Sequence[Array], scratch_bytes: int
    ) -> None:
        """Runs the kernel on contiguous arrays; writes `outputs`. Raises InputError where one of its checks fails."""
        if self._threads > 1:
            self._pool.ensure(self._threads)
        pool = self._pool.address if self._threads > 1 else 0
        scratch = np.empty(scratch_bytes + ALIGNMENT, np.uint8)
        at = address_of(scratch)
        words = [*dims, *map(address_of, inputs), *map(address_of, outputs), at + -at % ALIGNMENT]
        context = Context(self._pool_library, pool, 0, self._threads, len(words), self)
        context.words[Slot.NODE] = -1
        for index, word in enumerate(words):
            context.words[context.args_offset // WORD + index] = word
        self._function(context.address, context.args)
        if context.error[ErrorWord.CODE] != ErrorCode.NONE:
            self._fail(list(context.error))

    def _fail(self, record: list[int]) -> None:
        if record[ErrorWord.CODE] != ErrorCode.CHECK:
            raise CompilerBug(f"bug: a kernel failed with the error record {record[: ErrorWord.VALUES]}")
        _, message = self._checks[record[ErrorWord.SITE]]
        raise InputError(fill_in(message, record[ErrorWord.VALUES :][: record[ErrorWord.COUNT]]))

    def allocate_output(self, context: Context, output: int, dims: tuple[int, ...]) -> int:
        """Kernels are given their outputs."""
        raise CompilerBug(f"bug: a kernel asks for output {output} of sizes {dims}")

    def call_host(self, context: Context, host: int, args: int) -> None:
        """Kernels call nobody."""
        raise CompilerBug(f"bug: a kernel calls host operator {host}")
