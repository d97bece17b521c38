"""Memory of our own, straight from the kernel: page-aligned, huge pages where they help, given back at once.

An arena is one stretch that is thrown away to grow. A growing region keeps its address: its range is reserved without
memory and made usable piece by piece.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from functools import cache

from .abi import LARGEST
from .available import physical_memory, require

PAGE = mmap.PAGESIZE
HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14
MAP_NORESERVE = 0x4000
MAP_FAILED = (1 << 64) - 1

LARGEST_RESERVATION = 1 << 40
SMALLEST_RESERVATION = 1 << 26
FIRST_PIECE = 1 << 20
LARGEST_AHEAD = 1 << 26
"""Bytes; a growing region has at most so many more than were asked for, since what it has is not asked about again."""
BEHIND = 1 << 15
"""Bytes behind an arena that kernels, which ask for what comes next, may ask for."""


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_uint64
    libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]
    libc.madvise.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]
    return libc


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _unmap(address: int, size: int) -> None:
    _libc().munmap(address, size)


class Mapping:
    """Anonymous pages, zero at first; unmapped when the object dies. Raises MemoryError."""

    def __init__(self, size: int, protection: int = mmap.PROT_READ | mmap.PROT_WRITE, flags: int = 0) -> None:
        if not 0 < size < LARGEST:
            raise MemoryError(f"{size} bytes")
        self.size = _round_up(size, HUGE_PAGE if size >= HUGE_PAGE else PAGE)
        self.address: int = _libc().mmap(0, self.size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags, -1, 0)
        if self.address == MAP_FAILED:
            raise MemoryError(f"{size} bytes")
        if self.size >= HUGE_PAGE:
            _libc().madvise(self.address, self.size, MADV_HUGEPAGE)
        self._finalizer = weakref.finalize(self, _unmap, self.address, self.size)
        self._finalizer.atexit = False  # the kernel frees it; a daemon thread may still be running in it

    def touch(self, count: int) -> None:
        """Makes the last `count` bytes present: asking ahead for what is not is as slow as waiting for it."""
        for at in range(self.size - _round_up(count, PAGE), self.size, PAGE):
            ctypes.c_uint8.from_address(self.address + at).value = 0

    def close(self) -> None:
        """Gives the pages back now."""
        self._finalizer()


class Arena:
    """A block of memory that is replaced by a larger one on demand; its content does not outlive that."""

    def __init__(self) -> None:
        self._mapping: Mapping | None = None
        self.owed = False
        """Whether there are addresses for all of it, but not known to be memory."""

    @property
    def address(self) -> int:
        return 0 if self._mapping is None else self._mapping.address

    @property
    def size(self) -> int:
        return 0 if self._mapping is None or self.owed else self._mapping.size - BEHIND

    def reserve(self, size: int, certain: int = 0) -> None:
        """Makes the arena at least `size` bytes, of which so many are certain to be touched.

        Raises MemoryError, also for more than is free, and keeps what there is. Where only what is certain is free,
        the arena has addresses for the rest.
        """
        if size <= self.size:
            return
        owed = False
        try:
            require(size - self.size)
        except MemoryError:
            if not 0 < certain < size:
                raise
            require(certain)
            owed = True
        mapping = Mapping(size + BEHIND, flags=MAP_NORESERVE if owed else 0)
        mapping.touch(BEHIND)
        if self._mapping is not None:
            self._mapping.close()
        self._mapping, self.owed = mapping, owed


class GrowingRegion:
    """A range of addresses whose usable part grows without moving."""

    def __init__(self) -> None:
        size = LARGEST_RESERVATION
        while True:
            try:
                self._range = Mapping(size, protection=0, flags=MAP_NORESERVE)
                break
            except MemoryError:  # a limit on address space
                size //= 2
                if size < SMALLEST_RESERVATION:
                    raise
        self.address = self._range.address
        self.end = self.address
        self._limit = self.address + min(self._range.size, physical_memory())

    def reach(self, top: int) -> None:
        """Makes everything below the address `top` usable. Raises MemoryError, also for more than is free."""
        if top <= self.end:
            return
        if top > self._limit:
            raise MemoryError(f"{top - self.address} bytes")
        require(top - self.end)
        asked, twice = top - self.address, 2 * (self.end - self.address)
        size = max(asked, FIRST_PIECE, min(twice, asked + LARGEST_AHEAD))
        end = min(_round_up(self.address + size, PAGE), self._limit)
        if _libc().mprotect(self.end, end - self.end, mmap.PROT_READ | mmap.PROT_WRITE):
            raise MemoryError(f"{top - self.address} bytes")
        self.end = end


def protect(pages: Mapping, size: int, protection: int) -> None:
    """Sets what may be done with the first `size` bytes, which are whole pages. Raises MemoryError."""
    if size and _libc().mprotect(pages.address, size, protection):
        raise MemoryError("the system does not let memory be made executable")
