"""The context's services as generated code: error reports, the growing region, and what is asked of the runtime."""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.ir import Attribute, SSAValue

from ..runtime.abi import (
    ALLOC_DYNAMIC_SYMBOL,
    ERROR_VALUES,
    LARGEST,
    REPORT_SYMBOL,
    REQUEST_SYMBOLS,
    REQUEST_WORDS,
    WORD,
    ErrorCode,
    ErrorWord,
    Request,
    RequestWord,
    Slot,
)
from .build import I1, I32, I64, PTR
from .scalar import ScalarBuilder

PAUSE = "llvm.x86.sse2.pause"
ALIGNMENT = 64

REQUESTS: dict[Slot, tuple[Request, list[Attribute], Attribute]] = {
    Slot.RESERVE: (Request.RESERVE, [I64], I32),
    Slot.ALLOC_OUTPUT: (Request.ALLOC_OUTPUT, [I64, I64, PTR], PTR),
    Slot.HOST_CALL: (Request.HOST_CALL, [I64, PTR], I32),
    Slot.POLL: (Request.POLL, [], I32),
    Slot.GROW: (Request.GROW, [I64], I32),
}
"""The slots that the runtime serves: kind, types of the arguments after `ctx`, type of the result."""


def request(slot: Slot) -> llvm.FuncOp:
    """The slot's function: hands its arguments over as one block, whose result says failure until it is set.

    One callback with one argument is what the runtime can guard against an interrupt that arrives as it begins.
    """
    kind, types, result_type = REQUESTS[slot]
    b = ScalarBuilder(REQUEST_SYMBOLS[slot], [PTR, *types], result_type, linkage="external")
    context, *args = b.args
    block = b.words(REQUEST_WORDS)
    b.store_at(b.int(kind), block, WORD * RequestWord.KIND)
    for i, arg in enumerate(args):
        b.store_at(arg, block, WORD * (RequestWord.FIRST + i))
    failure = b.int(0) if result_type == PTR else b.int(1)
    b.store_at(failure, block, WORD * RequestWord.RESULT)
    b.call_indirect(b.load_at(context, WORD * Slot.CALLBACK, PTR), [block])
    result = b.load_at(block, WORD * RequestWord.RESULT, PTR if result_type == PTR else I64)
    b.ret(result if result_type == PTR else b.cast("trunc", result, I32))
    return b.func


def report() -> llvm.FuncOp:
    """`void sx_report(ctx, node, site, count, values)`: keeps the least (node, site, values) of all reports.

    So the record does not depend on which thread came first.
    """
    b = ScalarBuilder(REPORT_SYMBOL, [PTR, I64, I64, I64, PTR], linkage="external")
    context, node, own_site, given, values = b.args
    site = b.add(own_site, b.load_at(context, WORD * Slot.SITE_BASE))
    record = b.load_at(context, WORD * Slot.ERROR, PTR)
    lock = b.at_byte(context, WORD * Slot.REPORT_LOCK)
    count = b.smin(given, b.int(ERROR_VALUES))
    spinning, pause, locked = b.new_block(), b.new_block(), b.new_block()
    unlock, copy_head, copy, filled = b.new_block(), b.new_block(I64), b.new_block(), b.new_block()
    b.br(spinning)

    b.at(spinning)
    _, got = b.cmpxchg(lock, b.int32(0), b.int32(1), "acquire", "monotonic")
    b.branch(got, locked, pause)
    b.at(pause)
    b.call_intrinsic(PAUSE, [])
    b.br(spinning)

    b.at(locked)
    before = is_less(b, record, node, site, count, values)
    code = b.load_at(record, WORD * ErrorWord.CODE)
    first = b.icmp("eq", code, b.int(ErrorCode.NONE))
    write = b.new_block()
    b.branch(b.or_(first, before), write, unlock)

    b.at(write)
    for value, word in (
        (b.int(ErrorCode.CHECK), ErrorWord.CODE),
        (node, ErrorWord.NODE),
        (site, ErrorWord.SITE),
        (count, ErrorWord.COUNT),
    ):
        b.store_at(value, record, WORD * word)
    b.br(copy_head, [b.int(0)])
    at = b.at(copy_head)[0]
    b.branch(b.icmp("slt", at, count), copy, filled)
    b.at(copy)
    slot = b.at_byte(record, WORD * ErrorWord.VALUES)
    b.store(b.load(b.gep(values, at, I64), I64, 8), b.gep(slot, at, I64), 8)
    b.br(copy_head, [b.add(at, b.int(1))])

    b.at(filled)
    b.br(unlock)
    b.at(unlock)
    b.atomic_store(b.int32(0), lock, "release")
    b.ret()
    return b.func


def is_less(
    b: ScalarBuilder, record: SSAValue, node: SSAValue, site: SSAValue, count: SSAValue, values: SSAValue
) -> SSAValue:
    """Whether (node, site, values) comes before what the record holds, compared in that order."""
    answer, head, next_value = b.new_block(I1), b.new_block(I64), b.new_block()
    same_node, other_site, same_site, other = b.new_block(), b.new_block(), b.new_block(), b.new_block()
    old_node = b.load_at(record, WORD * ErrorWord.NODE)
    old_site = b.load_at(record, WORD * ErrorWord.SITE)
    false = b.const(0, I1)
    b.cond_br(b.icmp("eq", node, old_node), same_node, [], answer, [b.icmp("slt", node, old_node)])

    b.at(same_node)
    b.branch(b.icmp("eq", site, old_site), same_site, other_site)
    b.at(other_site)
    b.br(answer, [b.icmp("slt", site, old_site)])

    b.at(same_site)
    b.br(head, [b.int(0)])
    at = b.at(head)[0]
    b.cond_br(b.icmp("slt", at, count), next_value, [], answer, [false])
    b.at(next_value)
    new = b.load(b.gep(values, at, I64), I64, 8)
    old = b.load(b.gep(b.at_byte(record, WORD * ErrorWord.VALUES), at, I64), I64, 8)
    b.cond_br(b.icmp("eq", new, old), head, [b.add(at, b.int(1))], other, [])
    b.at(other)
    b.br(answer, [b.icmp("slt", new, old)])
    return b.at(answer)[0]


def alloc_dynamic() -> llvm.FuncOp:
    """`ptr sx_alloc_dynamic(ctx, bytes)`: the next bytes of the growing region, 64-byte aligned; null for no memory.

    Freed by setting the slot DYNAMIC_TOP back; the runtime does so at the end of a call, a loop after an iteration.
    """
    b = ScalarBuilder(ALLOC_DYNAMIC_SYMBOL, [PTR, I64], PTR, linkage="external")
    context, size = b.args
    sane, enough, grow, grown, failed = (b.new_block() for _ in range(5))
    b.branch(b.icmp("ult", size, b.int(LARGEST)), sane, failed)

    b.at(sane)
    top = b.load_at(context, WORD * Slot.DYNAMIC_TOP, PTR)
    rounded = b.and_(b.add(size, b.int(ALIGNMENT - 1)), b.int(-ALIGNMENT))
    after = b.add(b.as_int(top), rounded)
    end = b.load_at(context, WORD * Slot.DYNAMIC_END)
    begun = b.icmp("ne", b.as_int(top), b.int(0))
    b.branch(b.and_(begun, b.icmp("ule", after, end)), enough, grow)

    b.at(grow)
    callback = b.load_at(context, WORD * Slot.GROW, PTR)
    refused = b.value_of_pointer(callback, [context, after], I32)
    b.branch(b.icmp("eq", refused, b.int32(0)), grown, failed)
    b.at(grown)
    # the first use moves the region, so look again where it begins
    fresh = b.load_at(context, WORD * Slot.DYNAMIC_TOP, PTR)
    b.store_at(b.add(b.as_int(fresh), rounded), context, WORD * Slot.DYNAMIC_TOP)
    b.ret(fresh)

    b.at(enough)
    b.store_at(after, context, WORD * Slot.DYNAMIC_TOP)
    b.ret(top)

    b.at(failed)
    b.ret(b.null())
    return b.func


def services() -> list[llvm.FuncOp]:
    """All of them."""
    return [report(), alloc_dynamic(), *(request(slot) for slot in REQUESTS)]
