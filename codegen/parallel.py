"""kernel.parallel: the region as a function of a range, which `parallel_for` calls on any number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import kernel
from ..runtime.abi import Slot
from .build import FunctionBuilder
from .llvm_types import I8, I32, I64, PTR, bits_of
from .scope import ModuleState, Scope, TranslateError, translate_block, translate_type
from .scratch import total_scratch

NOALIAS: Mapping[str, Attribute] = {"llvm.noalias": UnitAttr()}
PLAIN: Mapping[str, Attribute] = {}


def pointer_attributes(state: ModuleState, value: SSAValue) -> Mapping[str, Attribute]:
    """`noalias` for a memref that is an argument of the kernel and in no pair that may overlap."""
    return NOALIAS if isinstance(value.type, MemRefType) and value not in state.aliased else PLAIN


def parallel(scope: Scope, op: Operation) -> None:
    """Outlines the region; runs it here where one thread is enough, else by the context's `parallel_for`."""
    assert isinstance(op, kernel.ParallelOp)
    _refuse_nesting(op)
    f, state = scope.f, scope.module
    extent, grain = scope.values[op.extent], scope.values[op.grain]
    uses = _uses(op)
    captured, dims = list(uses.captured), [name for name in scope.dims if name in uses.symbols]
    body_name, range_name = state.name("body"), state.name("range")
    _body(scope, op, body_name, uses, dims)
    passed = [*(scope.values[value] for value in captured), *(scope.dims[name] for name in dims), scope.scratch]
    slots = _range(state, body_name, range_name, [value.type for value in passed])

    work, alone, shared, after = (f.new_block() for _ in range(4))
    f.cond_br(f.icmp("sgt", extent, f.const(0, I64)), work, (), after, ())
    f.at(work)
    threads = f.load_slot(scope.context, Slot.THREADS)
    enough = f.icmp("sge", extent, f.shl(grain, f.const(1, I64)))
    several = f.icmp("sgt", threads, f.const(1, I64))
    f.cond_br(f.and_(enough, several), shared, (), alone, ())

    zero = f.const(0, I64)
    failure = scope.error_block()
    f.at(alone)
    code = f.call(body_name, (scope.context, zero, extent, zero, *passed), I32)
    assert code is not None
    f.cond_br(f.icmp("eq", code, f.const(0, I32)), after, (), failure, (code,))

    f.at(shared)
    frame = f.alloca(I8, max(1, slots[-1]), 64)
    for value, offset in zip(passed, slots):
        f.store(value, f.offset(frame, offset, I8), 1)
    entry = f.load_slot(scope.context, Slot.PARALLEL_FOR, PTR)
    code = f.call_indirect(entry, (scope.context, f.address_of(range_name), frame, extent, grain), I32)
    assert code is not None
    f.cond_br(f.icmp("eq", code, f.const(0, I32)), after, (), failure, (code,))
    f.at(after)


def _refuse_nesting(op: kernel.ParallelOp) -> None:
    """A range inside of a range would share its thread's number, and so its scratch, with others."""
    outer = op.parent_op()
    while outer is not None:
        if isinstance(outer, kernel.ParallelOp):
            raise TranslateError("kernel.parallel inside of kernel.parallel")
        outer = outer.parent_op()


@dataclass
class _Uses:
    """What a region takes from outside, each in order of first use."""

    captured: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    constants: dict[arith.ConstantOp, None] = field(default_factory=dict[arith.ConstantOp, None])
    """Not carried but made anew, so that they stay constants."""
    symbols: set[str] = field(default_factory=set[str])
    """The kernel's symbols in expressions."""


def _uses(op: kernel.ParallelOp) -> _Uses:
    uses = _Uses()
    _survey(op.body.blocks[0], set(), uses)
    return uses


def _survey(block: Block, inside: set[SSAValue], uses: _Uses) -> None:
    """Definitions come before uses, so one pass in order tells inside from outside."""
    inside.update(block.args)
    for op in block.ops:
        for value in op.operands:
            if value not in inside:
                owner = value.owner
                if isinstance(owner, arith.ConstantOp):
                    uses.constants[owner] = None
                else:
                    uses.captured[value] = None
        if isinstance(op, kernel.DimOp | kernel.ScratchOp):
            uses.symbols |= _symbols(op)
        for region in op.regions:
            for inner in region.blocks:
                _survey(inner, inside, uses)
        inside.update(op.results)


def _symbols(op: kernel.DimOp | kernel.ScratchOp) -> frozenset[str]:
    if isinstance(op, kernel.DimOp):
        return op.expr.data[0].symbols
    symbols = op.offset.data[0].symbols
    if op.thread:
        for name in ("kernel.scratch", "kernel.thread_scratch"):
            symbols |= total_scratch(op, name).symbols
    return symbols


def _body(outer: Scope, op: kernel.ParallelOp, name: str, uses: _Uses, dims: Sequence[str]) -> None:
    state, captured = outer.module, list(uses.captured)
    types = [translate_type(value.type) for value in captured]
    # what was captured is an argument of the kernel or a view of scratch: only the former are known to be apart
    arguments = set(outer.arguments)
    attrs = [pointer_attributes(state, value) if value in arguments else PLAIN for value in captured]
    f = FunctionBuilder(
        name,
        [PTR, I64, I64, I64, *types, *[I64] * len(dims), PTR],
        I32,
        arg_attrs=[PLAIN] * 4 + attrs + [PLAIN] * (len(dims) + 1),
    )
    context, lower, upper, thread, *rest, scratch = f.args
    values = dict(zip(captured, rest))
    scope = Scope(f, state, context, dict(zip(dims, rest[len(captured) :])), scratch, values, outer.arguments)
    source = op.body.blocks[0]
    values.update(zip(source.args, (lower, upper, thread)))
    for constant in uses.constants:
        state.table[arith.ConstantOp](scope, constant)
    translate_block(scope, source)
    scope.finish()
    state.functions.append(f.func)


def _range(state: ModuleState, body: str, name: str, types: Sequence[Attribute]) -> list[int]:
    """The function that `parallel_for` calls; gives the byte offsets in the frame, its size last."""
    offsets = [0]
    for type_ in types:
        offsets.append(offsets[-1] + (_frame_bytes(type_) + 7) // 8 * 8)
    f = FunctionBuilder(name, [PTR, PTR, I64, I64, I64], I32)
    context, frame, lower, upper, thread = f.args
    values = [f.load(f.offset(frame, at, I8), type_, 1) for at, type_ in zip(offsets, types)]
    f.ret(f.call(body, (context, lower, upper, thread, *values), I32))
    state.functions.append(f.func)
    return offsets


def _frame_bytes(type_: Attribute) -> int:
    """Bytes of a value in a frame; a vector of i1 is packed to bits there."""
    return (bits_of(type_) + 7) // 8
