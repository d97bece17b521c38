"""The fork-join pool as generated code, in one object with the context's services, made once for a target.

`sx_parallel_for(ctx, body, frame, extent, grain)` cuts [0, extent) into contiguous ranges, one for each of
min(threads, extent / grain) threads.  The caller runs range 0, worker t runs range t.  A range that its worker has not
begun when the caller is done is taken back and run by the caller, under that range's thread number: so a sleeping or
preempted worker costs nothing but its help.  The partition depends on sizes only, never on timing.

Each worker has one word, its mailbox and the futex that it sleeps on (`runtime.abi.WorkerState`).  The caller swaps in
WORK, and wakes the worker only where it finds ASLEEP.  Whoever changes WORK back to IDLE owns the range.  The count of
ranges under way is the second futex: a caller that has waited long marks it with WAITING and sleeps, and the last
worker wakes it.  Both sides spin for `SPIN_TICKS` first.

Workers are kept off the caller's CPU, by their affinity: Linux likes to wake a thread where its waker runs, and two
threads of a job on one CPU take longer than one alone.  The masks change only when the caller has migrated.

A pool that is busy (a nested call, or another Python thread's) is not waited for: the caller runs everything itself.
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..dialects.target import Target
from ..runtime.abi import (
    CPU_MASK_BYTES,
    MOVE_TICKS,
    PARALLEL_FOR_SYMBOL,
    WORD,
    WORKER_STRIDE,
    WORKER_SYMBOL,
    WORKER_TID,
    PoolOffset,
    Slot,
    WorkerState,
)
from .build import declare, module_of
from .llvm_types import I32, I64, PTR
from .scalar import ScalarBuilder
from .services import PAUSE, services

RANGE_SYMBOL = "sx_range"
KEEP_OFF_SYMBOL = "sx_keep_off"

FUTEX, GETTID, SET_AFFINITY = 202, 186, 203
"""System call numbers on x86-64."""
FUTEX_WAIT_PRIVATE = 128
FUTEX_WAKE_PRIVATE = 129

WAITING = 1 << 30
"""Added to the count of ranges under way by a caller that sleeps on it."""


POOL_NEEDS = frozenset({"syscall", "sched_getcpu"})
"""What the pool's object needs of the C library, besides what every object may."""


def pool_module(target: Target) -> ModuleOp:
    """The module (llvm dialect) of the pool, the error report and the growing region's allocation."""
    functions = [
        declare("syscall", [I64] * 7, I64),
        declare("sched_getcpu", [], I32),
        keep_off(),
        run_range(),
        worker(),
        parallel_for(),
        *services(),
    ]
    return module_of(functions, target)


def system_call(b: ScalarBuilder, number: int, *args: SSAValue) -> SSAValue:
    """The kernel's answer."""
    padding = [b.int(0)] * (6 - len(args))
    return b.value_of("syscall", [b.int(number), *args, *padding], I64)


def futex(b: ScalarBuilder, operation: int, word: SSAValue, value: SSAValue) -> None:
    """Sleeps while `word` holds `value`, or wakes `value` threads that sleep on it."""
    system_call(b, FUTEX, b.as_int(word), b.int(operation), value)


def range_bound(b: ScalarBuilder, extent: SSAValue, part: SSAValue, parts: SSAValue) -> SSAValue:
    """Where part `part` of `parts` begins: parts differ by one at most. (extent % parts) * part cannot overflow."""
    quotient = b.binary(llvm.UDivOp, extent, parts)
    rest = b.sub(extent, b.mul(quotient, parts))
    return b.add(b.mul(quotient, part), b.binary(llvm.UDivOp, b.mul(rest, part), parts))


def run_range() -> llvm.FuncOp:
    """`int32 sx_range(pool, thread)`: runs the body on that thread's range of the job in the pool's block."""
    b = ScalarBuilder(RANGE_SYMBOL, [PTR, I64], I32)
    pool, thread = b.args
    extent = b.load_at(pool, PoolOffset.EXTENT)
    parts = b.load_at(pool, PoolOffset.RANGES)
    lower = range_bound(b, extent, thread, parts)
    upper = range_bound(b, extent, b.add(thread, b.int(1)), parts)
    body = b.load_at(pool, PoolOffset.BODY, PTR)
    frame = b.load_at(pool, PoolOffset.FRAME, PTR)
    context = b.load_at(pool, PoolOffset.CONTEXT, PTR)
    b.ret(b.value_of_pointer(body, [context, frame, lower, upper, thread], I32))
    return b.func


def mailbox(b: ScalarBuilder, pool: SSAValue, thread: SSAValue) -> SSAValue:
    """The address of a worker's word."""
    return b.at_byte(b.at_byte(pool, PoolOffset.WORKERS), b.mul(thread, b.int(WORKER_STRIDE)))


def spin(b: ScalarBuilder, pool: SSAValue, start: SSAValue) -> SSAValue:
    """Pauses; gives whether the time for spinning that began at `start` is over."""
    b.call_intrinsic(PAUSE, [])
    passed = b.sub(b.cycles(), start)
    return b.icmp("ugt", passed, b.load_at(pool, PoolOffset.SPIN_TICKS))


def worker() -> llvm.FuncOp:
    """`int32 sx_worker(pool, thread)`: serves that thread's mailbox until it holds QUIT."""
    b = ScalarBuilder(WORKER_SYMBOL, [PTR, I64], I32, linkage="external")
    pool, thread = b.args
    word = mailbox(b, pool, thread)
    pending = b.at_byte(pool, PoolOffset.PENDING)
    status = b.at_byte(pool, PoolOffset.STATUS)
    idle, look, nothing, doze, sleep, claim, work, wake, leave = (b.new_block() for _ in range(9))
    state = {name: b.int32(name) for name in WorkerState}
    b.store_at(system_call(b, GETTID), word, WORKER_TID)
    b.atomic_store(b.int(-1), b.at_byte(pool, PoolOffset.CALLER_CPU), "release")
    b.br(idle)

    b.at(idle)
    start = b.cycles()
    b.br(look)

    b.at(look)
    found = b.atomic_load(word, I32, "acquire")
    b.switch(found, nothing, [(WorkerState.WORK, claim), (WorkerState.QUIT, leave)])

    b.at(nothing)
    b.branch(spin(b, pool, start), doze, look)

    b.at(doze)
    _, dozed = b.cmpxchg(word, state[WorkerState.IDLE], state[WorkerState.ASLEEP], "acq_rel", "acquire")
    b.branch(dozed, sleep, idle)

    b.at(sleep)
    futex(b, FUTEX_WAIT_PRIVATE, word, b.int(WorkerState.ASLEEP))
    b.cmpxchg(word, state[WorkerState.ASLEEP], state[WorkerState.IDLE], "acq_rel", "acquire")
    b.br(idle)

    b.at(claim)
    _, claimed = b.cmpxchg(word, state[WorkerState.WORK], state[WorkerState.IDLE], "acq_rel", "acquire")
    b.branch(claimed, work, idle)

    b.at(work)
    b.atomic_rmw("or", status, b.value_of(RANGE_SYMBOL, [pool, thread], I32), "acq_rel")
    left = b.atomic_rmw("sub", pending, b.int32(1), "acq_rel")
    b.branch(b.icmp("eq", left, b.int32(WAITING + 1)), wake, idle)

    b.at(wake)
    futex(b, FUTEX_WAKE_PRIVATE, pending, b.int(1))
    b.br(idle)

    b.at(leave)
    b.ret(b.int32(0))
    return b.func


def parallel_for() -> llvm.FuncOp:
    """`int32 sx_parallel_for(ctx, body, frame, extent, grain)`: the union of all bodies' results."""
    b = ScalarBuilder(PARALLEL_FOR_SYMBOL, [PTR, PTR, PTR, I64, I64], I32, linkage="external")
    context, body, frame, extent, grain = b.args
    some, sized, lock, serial, empty, fork = (b.new_block() for _ in range(6))
    one = b.int(1)
    b.branch(b.icmp("sgt", extent, b.int(0)), some, empty)

    b.at(empty)
    b.ret(b.int32(0))

    b.at(some)
    pool = b.load_at(context, WORD * Slot.POOL, PTR)
    b.branch(b.is_null(pool), serial, sized)

    b.at(sized)
    worthwhile = b.binary(llvm.UDivOp, extent, b.smax(grain, one))
    parts = b.smin(b.load_at(context, WORD * Slot.THREADS), worthwhile)
    b.branch(b.icmp("sgt", parts, one), lock, serial)

    b.at(lock)
    _, locked = b.cmpxchg(b.at_byte(pool, PoolOffset.BUSY), b.int32(0), b.int32(1), "acquire", "monotonic")
    b.branch(locked, fork, serial)

    b.at(serial)
    b.ret(b.value_of_pointer(body, [context, frame, b.int(0), extent, b.int(0)], I32))

    b.at(fork)
    stay_alone(b, pool)
    for value, offset in (
        (body, PoolOffset.BODY),
        (frame, PoolOffset.FRAME),
        (extent, PoolOffset.EXTENT),
        (parts, PoolOffset.RANGES),
        (context, PoolOffset.CONTEXT),
        (b.int32(0), PoolOffset.STATUS),
    ):
        b.store_at(value, pool, offset)
    pending = b.at_byte(pool, PoolOffset.PENDING)
    b.atomic_store(b.cast("trunc", b.sub(parts, one), I32), pending, "release")
    publish(b, pool, parts)
    own = b.value_of(RANGE_SYMBOL, [pool, b.int(0)], I32)
    stolen = take_back(b, pool, parts, own)
    join(b, pool)
    status = b.atomic_load(b.at_byte(pool, PoolOffset.STATUS), I32, "acquire")
    b.atomic_store(b.int32(0), b.at_byte(pool, PoolOffset.BUSY), "release")
    b.ret(b.or_(stolen, status))
    return b.func


def stay_alone(b: ScalarBuilder, pool: SSAValue) -> None:
    """Where the caller runs on another CPU than at the last job, has the workers keep off it."""
    moved, late, done = b.new_block(), b.new_block(), b.new_block()
    cpu = b.cast("sext", b.value_of("sched_getcpu", [], I32), I64)
    last = b.atomic_load(b.at_byte(pool, PoolOffset.CALLER_CPU), I64, "acquire")
    b.branch(b.icmp("eq", cpu, last), done, moved)

    b.at(moved)
    passed = b.sub(b.cycles(), b.load_at(pool, PoolOffset.MOVED_AT))
    first = b.icmp("slt", last, b.int(0))
    b.branch(b.or_(first, b.icmp("ugt", passed, b.int(MOVE_TICKS))), late, done)

    b.at(late)
    b.call(KEEP_OFF_SYMBOL, [pool, cpu])
    b.br(done)
    b.at(done)


def keep_off() -> llvm.FuncOp:
    """`void sx_keep_off(pool, cpu)`: gives every worker all allowed CPUs but this one, if that leaves any."""
    b = ScalarBuilder(KEEP_OFF_SYMBOL, [PTR, I64])
    pool, cpu = b.args
    words = CPU_MASK_BYTES // WORD
    known, head, body, set_mask, following, done = (
        b.new_block(),
        b.new_block(I64),
        b.new_block(),
        b.new_block(),
        b.new_block(),
        b.new_block(),
    )
    b.atomic_store(cpu, b.at_byte(pool, PoolOffset.CALLER_CPU), "release")
    b.store_at(b.cycles(), pool, PoolOffset.MOVED_AT)
    b.branch(b.icmp("ult", cpu, b.int(CPU_MASK_BYTES * 8)), known, done)

    b.at(known)
    left = b.int(0)
    bit = b.shl(b.int(1), b.and_(cpu, b.int(63)))
    at_word = b.lshr(cpu, b.int(6))
    for word in range(words):
        allowed = b.load_at(pool, PoolOffset.ALLOWED + WORD * word)
        without = b.and_(allowed, b.not_(bit))
        mask = b.select(b.icmp("eq", at_word, b.int(word)), without, allowed)
        b.store_at(mask, pool, PoolOffset.MASK + WORD * word)
        left = b.or_(left, mask)
    b.cond_br(b.icmp("ne", left, b.int(0)), head, [b.int(1)], done, [])

    thread = b.at(head)[0]
    b.branch(b.icmp("slt", thread, b.load_at(pool, PoolOffset.COUNT)), body, done)
    b.at(body)
    tid = b.load_at(mailbox(b, pool, thread), WORKER_TID)
    b.branch(b.icmp("sgt", tid, b.int(0)), set_mask, following)
    b.at(set_mask)
    system_call(b, SET_AFFINITY, tid, b.int(CPU_MASK_BYTES), b.as_int(b.at_byte(pool, PoolOffset.MASK)))
    b.br(following)
    b.at(following)
    b.br(head, [b.add(thread, b.int(1))])

    b.at(done)
    b.ret()
    return b.func


def publish(b: ScalarBuilder, pool: SSAValue, parts: SSAValue) -> None:
    """Puts WORK into the mailboxes of threads 1 to parts - 1 and wakes those that sleep."""
    head, wake, following, done = b.new_block(I64), b.new_block(), b.new_block(), b.new_block()
    b.br(head, [b.int(1)])

    thread = b.at(head)[0]
    word = mailbox(b, pool, thread)
    before = b.atomic_rmw("xchg", word, b.int32(WorkerState.WORK), "acq_rel")
    b.branch(b.icmp("eq", before, b.int32(WorkerState.ASLEEP)), wake, following)

    b.at(wake)
    futex(b, FUTEX_WAKE_PRIVATE, word, b.int(1))
    b.br(following)

    b.at(following)
    after = b.add(thread, b.int(1))
    b.cond_br(b.icmp("slt", after, parts), head, [after], done, [])
    b.at(done)


def take_back(b: ScalarBuilder, pool: SSAValue, parts: SSAValue, own: SSAValue) -> SSAValue:
    """Runs every range that no worker has begun; gives the union of the results."""
    head, mine, following, done = b.new_block(I64, I32), b.new_block(), b.new_block(I32), b.new_block(I32)
    b.br(head, [b.int(1), own])

    thread, status = b.at(head)
    word = mailbox(b, pool, thread)
    _, taken = b.cmpxchg(word, b.int32(WorkerState.WORK), b.int32(WorkerState.IDLE), "acq_rel", "acquire")
    b.cond_br(taken, mine, [], following, [status])

    b.at(mine)
    result = b.value_of(RANGE_SYMBOL, [pool, thread], I32)
    b.atomic_rmw("sub", b.at_byte(pool, PoolOffset.PENDING), b.int32(1), "acq_rel")
    b.br(following, [b.or_(status, result)])

    union = b.at(following)[0]
    after = b.add(thread, b.int(1))
    b.cond_br(b.icmp("slt", after, parts), head, [after, union], done, [union])
    return b.at(done)[0]


def join(b: ScalarBuilder, pool: SSAValue) -> None:
    """Waits until no range is under way."""
    look, wait, mark, recheck, sleep, done = (b.new_block() for _ in range(6))
    pending = b.at_byte(pool, PoolOffset.PENDING)
    start = b.cycles()
    zero = b.int32(0)
    b.br(look)

    b.at(look)
    b.branch(b.icmp("eq", b.atomic_load(pending, I32, "acquire"), zero), done, wait)

    b.at(wait)
    b.branch(spin(b, pool, start), mark, look)

    b.at(mark)
    b.atomic_rmw("or", pending, b.int32(WAITING), "acq_rel")
    b.br(recheck)

    b.at(recheck)
    now = b.atomic_load(pending, I32, "acquire")
    b.branch(b.icmp("eq", now, b.int32(WAITING)), done, sleep)

    b.at(sleep)
    futex(b, FUTEX_WAIT_PRIVATE, pending, b.cast("zext", now, I64))
    b.br(recheck)
    b.at(done)
