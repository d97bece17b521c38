"""Numbers that generated code and the runtime agree on: the context's slots, the error record, the pool's block.

A change of meaning here is a new `VERSION`: objects of another version are not called, they are compiled again.
"""

from __future__ import annotations

from enum import IntEnum, unique

VERSION = 3

CONTEXT_SLOTS = 32
WORD = 8
"""Bytes of a slot; every slot is an int64 or a pointer."""


@unique
class Slot(IntEnum):
    """The context: what a call knows of the world. Slots 28 to 31 are spare."""

    VERSION = 0
    ARENA = 1
    ARENA_BYTES = 2
    WEIGHTS = 3
    PARALLEL_FOR = 4
    ALLOC_OUTPUT = 5
    HOST_CALL = 6
    POLL_FLAG = 7
    ERROR = 8
    RESERVE = 9
    ALLOC_DYNAMIC = 10
    THREADS = 11
    REPORT = 12
    USER = 13
    NODE = 14
    POOL = 15
    POLL = 16
    """`int32(ctx*)`, or null: called by loops about every 25 ms; non-zero means stop."""
    LAST_POLL = 17
    """Time stamp counter at the last poll."""
    DYNAMIC_TOP = 18
    """First free byte of the growing region. A loop saves and restores it to free what an iteration made."""
    DYNAMIC_END = 19
    """End of the part of the growing region that may be touched."""
    GROW = 20
    """`int32(ctx*, int64 top)`: makes the growing region touchable up to the address `top`."""
    REPORT_LOCK = 21
    SITE_BASE = 23
    """What `report` adds to a kernel's own site number, so that kernels need not know the program they are in."""
    CALLBACK = 22
    """`void(int64* request)` of whoever made the context; only the functions of `REQUESTS` call it."""
    ENTROPY = 24
    """A number that each unseeded draw of random numbers takes as its key, and moves on."""
    ARENA_CERTAIN = 25
    """The bytes of the arena that a call takes whatever branches it enters; 0 where that is all of it."""
    ARENA_OWED = 26
    """Whether only these were found to be free: a branch calls `RESERVE` for its own before it takes them."""
    TIMES = 27
    """Where an entry that was compiled to be timed notes its steps (`TimeWord`), or null."""


class TimeWord(IntEnum):
    """The words that a timed entry writes to: how many notes there are, room for how many, and the notes.

    A note is the number of the step in the manifest's `steps`, and the time stamp counter before and after it; the
    number behind the last step's stands for the whole call. Notes that there is no room for are only counted.
    """

    COUNT = 0
    ROOM = 1
    NOTES = 2


NOTE_WORDS = 3

ERROR_WORDS = 16
ERROR_VALUES = 12
"""The record holds at most so many values."""


class ErrorWord(IntEnum):
    """Indices into the error record."""

    CODE = 0
    NODE = 1
    SITE = 2
    COUNT = 3
    VALUES = 4


class ErrorCode(IntEnum):
    """What a failed call died of."""

    NONE = 0
    CHECK = 1
    """A guard or a kernel's check; node, site and values say which."""
    MEMORY = 2
    """No memory, or an absurd size: values[0] is the number of bytes, -1 where it leaves int64, values[1] how many
    could be taken, 0 where nobody asked; the site says for what, -1 for all that the call needs."""
    INTERRUPTED = 3
    """The poll flag was set."""
    CALLBACK = 4
    """A callback failed and keeps its own exception."""


LARGEST = 1 << 46
"""Bytes; more than any x86-64 process can map. Sizes above are an error and not an attempt."""

POLL_TICKS = 1 << 26
"""Time stamp ticks between two calls of the poll callback: 13 to 34 ms at 2 to 5 GHz."""


class PoolOffset(IntEnum):
    """Byte offsets in the pool's block. Words that different threads write are on lines of their own."""

    BUSY = 0
    PENDING = 128
    BODY = 256
    FRAME = 264
    EXTENT = 272
    RANGES = 280
    CONTEXT = 288
    STATUS = 296
    SPIN_TICKS = 384
    CALLER_CPU = 392
    """The CPU that the workers keep off, -1 for none yet."""
    MOVED_AT = 400
    """Time stamp counter when that last changed."""
    COUNT = 408
    """Number of threads that there are, the caller counted."""
    ALLOWED = 512
    """The CPUs that this process may use, as the kernel's bit mask of `CPU_MASK_BYTES`."""
    MASK = 640
    """Room to make a worker's mask in."""
    WORKERS = 768


class WorkerState(IntEnum):
    """The word of one worker, at `WORKERS + WORKER_STRIDE * thread`; it is also the futex that the worker sleeps on."""

    IDLE = 0
    WORK = 1
    ASLEEP = 2
    QUIT = 3


WORKER_STRIDE = 128
"""Two cache lines: the hardware prefetcher fetches pairs."""
WORKER_TID = 64
"""Where in its stretch a worker notes its kernel thread id, 0 before it runs."""
CPU_MASK_BYTES = 128
MOVE_TICKS = 1 << 21
"""Workers are moved at most about once a millisecond, however often the caller's CPU changes."""
MAX_THREADS = 256
POOL_BYTES = PoolOffset.WORKERS + WORKER_STRIDE * MAX_THREADS

SPIN_TICKS = 100_000
"""How long a thread spins before it sleeps: 20 to 50 us at 5 to 2 GHz."""

WORKER_SYMBOL = "sx_worker"
PARALLEL_FOR_SYMBOL = "sx_parallel_for"
REPORT_SYMBOL = "sx_report"
ALLOC_DYNAMIC_SYMBOL = "sx_alloc_dynamic"
ENTRY_SYMBOL = "sx_entry"


class Request(IntEnum):
    """What native code asks of the runtime, the first word of a request."""

    RESERVE = 0
    ALLOC_OUTPUT = 1
    HOST_CALL = 2
    POLL = 3
    GROW = 4


class RequestWord(IntEnum):
    """A request's int64 words. The result is preset to failure, so a callback that dies half-way has failed."""

    KIND = 0
    FIRST = 1
    """Up to three arguments, in the order of the slot's signature after `ctx`."""
    RESULT = 4


REQUEST_WORDS = 6
REQUEST_SYMBOLS = {
    Slot.RESERVE: "sx_reserve",
    Slot.ALLOC_OUTPUT: "sx_alloc_output",
    Slot.HOST_CALL: "sx_host_call",
    Slot.POLL: "sx_poll",
    Slot.GROW: "sx_grow",
}
