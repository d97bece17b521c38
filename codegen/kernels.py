"""Kernels at the loops level to modules of the llvm and llvmx dialects.

A kernel `func.func @k(%d0: index, ..., %in: memref<?xf32>, ..., %out: ...)` becomes

* `int32 SYMBOL(ctx*, const int64* args)`, the only symbol others see: it loads the arguments and calls
* `SYMBOL.main(ctx*, dims.., pointers.., scratch)`, whose pointers are `noalias` but for the pairs that the function's
  attribute `kernel.alias` (argument numbers, flat: `array<i64: 1, 3>`) says may overlap;
* for each `kernel.parallel`, `SYMBOL.bodyN(ctx*, lower, upper, thread, captured..)`, and `SYMBOL.rangeN(ctx*, frame*,
  lower, upper, thread)`, which the context's `parallel_for` calls and which loads the captured values from the frame;
* where there is a `kernel.check`, `SYMBOL.report(ctx*, site, n, values*)`, cold.

All of them return 0, or the error code that `parallel_for` gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import kernel, llvmx
from ..dialects.dims import Dim, ShapeAttr, as_dim
from ..dialects.target import Target
from ..runtime.abi import Slot
from .arith import ARITH, integer_resize
from .build import FunctionBuilder, module_of
from .control import CONTROL
from .convert import CONVERT
from .llvm_types import I1, I8, I32, I64, PTR, bits_of
from .math_ops import MATH
from .memory import MEMORY
from .scope import ModuleState, Scope, TranslateError, Translation, translate_block, translate_type
from .vectors import VECTORS

NOALIAS: Mapping[str, Attribute] = {"llvm.noalias": UnitAttr()}
PLAIN: Mapping[str, Attribute] = {}


def kernel_to_llvm(function: func.FuncOp, target: Target, symbol: str) -> ModuleOp:
    """The kernel as a module of one external function `symbol` and its internal helpers.

    A `kernel.check` reports its position among the checks of the kernel, see `checks_of`.
    Raises `TranslateError` for what the loops level may not hold.
    """
    state = ModuleState(
        symbol, target, TABLE, aliased=_aliased(function), sites={op: i for i, op in enumerate(checks_of(function))}
    )
    source = function.body.blocks[0]
    _main(state, source)
    _entry(state, source)
    return module_of(state.functions, target)


def checks_of(function: func.FuncOp) -> list[kernel.CheckOp]:
    """The checks of a kernel; the position of each is the site that it reports."""
    return [op for op in function.walk() if isinstance(op, kernel.CheckOp)]


def _aliased(function: func.FuncOp) -> frozenset[SSAValue]:
    attribute = function.attributes.get("kernel.alias")
    if attribute is None:
        return frozenset()
    if not isa(attribute, DenseArrayBase[IntegerType]):
        raise TranslateError(f"kernel.alias is {attribute}")
    return frozenset(function.body.blocks[0].args[int(i)] for i in attribute.get_values())


def _entry(state: ModuleState, source: Block) -> None:
    """Loads the arguments: one slot each, the scratch pointer last."""
    f = FunctionBuilder(state.symbol, [PTR, PTR], I32, linkage="external")
    context, args = f.args
    values = [f.load_slot(args, i, translate_type(arg.type)) for i, arg in enumerate(source.args)]
    scratch = f.load_slot(args, len(source.args), PTR)
    f.ret(f.call(_main_name(state), [context, *values, scratch], I32))
    state.functions.append(f.func)


def _main_name(state: ModuleState) -> str:
    return f"{state.symbol}.main"


def _main(state: ModuleState, source: Block) -> None:
    for arg in source.args:
        if not isinstance(arg.type, IndexType | MemRefType):
            raise TranslateError(f"a kernel's argument of type {arg.type}")
    types = [translate_type(arg.type) for arg in source.args]
    attrs = [PLAIN, *(_pointer_attributes(state, arg) for arg in source.args), NOALIAS]
    f = FunctionBuilder(_main_name(state), [PTR, *types, PTR], I32, arg_attrs=attrs)
    context, *args, scratch = f.args
    dims = {f"d{i}": value for i, (arg, value) in enumerate(zip(source.args, args)) if isinstance(arg.type, IndexType)}
    scope = Scope(f, state, context, dims, scratch, dict(zip(source.args, args)), source.args)
    translate_block(scope, source)
    scope.finish()
    state.functions.append(f.func)


def _pointer_attributes(state: ModuleState, value: SSAValue) -> Mapping[str, Attribute]:
    return NOALIAS if isinstance(value.type, MemRefType) and value not in state.aliased else PLAIN


# --- kernel.dim, kernel.scratch ---


def _dim(scope: Scope, op: Operation) -> None:
    assert isinstance(op, kernel.DimOp)
    scope.values[op.result] = scope.dim(op.expr.data[0])


def _scratch(scope: Scope, op: Operation) -> None:
    """Behind the shared scratch lie the threads' own parts, one after the other."""
    assert isinstance(op, kernel.ScratchOp)
    f = scope.f
    (offset,) = op.offset.data
    if not op.thread:
        scope.values[op.result] = scope.once(lambda: f.gep(scope.scratch, scope.dim(offset), I8))
        return
    shared, each = _total(op, "kernel.scratch"), _total(op, "kernel.thread_scratch")
    start = scope.dim(shared + offset)
    mine = f.mul(scope.values[op.thread[0]], scope.dim(each), nsw=True)
    scope.values[op.result] = f.gep(scope.scratch, f.add(start, mine, nsw=True), I8)


def _total(op: Operation, name: str) -> Dim:
    """An amount of scratch in bytes from the kernel's attributes."""
    function = op.parent_op()
    while function is not None and not isinstance(function, func.FuncOp):
        function = function.parent_op()
    attribute = None if function is None else function.attributes.get(name)
    if attribute is None and name == "kernel.scratch":
        return as_dim(0)
    if not isinstance(attribute, ShapeAttr):
        raise TranslateError(f"kernel.scratch for a thread, but the kernel has no attribute {name}")
    return attribute.data[0]


# --- kernel.check ---


def _check(scope: Scope, op: Operation) -> None:
    """Tests all lanes at once; the first lane that fails gives its values to `report`."""
    assert isinstance(op, kernel.CheckOp)
    f = scope.f
    condition = scope.values[op.condition]
    failed, after = f.new_block(), f.new_block()
    lanes = llvmx.lanes_of(condition.type)
    if lanes is None:
        f.cond_br(condition, after, (), failed, ())
        f.at(failed)
        lane = None
    else:
        bits = translate_bits(f, condition, lanes)
        f.cond_br(f.icmp("eq", bits, f.const(-1, bits.type)), after, (), failed, ())
        f.at(failed)
        lane = _first_clear(f, bits)
    values = [_failing(f, scope.values[value], lane) for value in op.values]
    _report(scope, scope.module.sites[op], values)
    f.br(after)
    f.at(after)


def translate_bits(f: FunctionBuilder, mask: SSAValue, lanes: int) -> SSAValue:
    """A mask as an integer with one bit for each lane."""
    return f.bitcast(mask, IntegerType(lanes))


def _first_clear(f: FunctionBuilder, bits: SSAValue) -> SSAValue:
    """The number of the lowest bit that is 0."""
    count = f.raw_intrinsic(f"llvm.cttz.{bits.type}", (f.not_(bits), f.const(0, I1)), bits.type)
    return count if bits_of(bits.type) == 64 else f.cast("zext", count, I64)


def _failing(f: FunctionBuilder, value: SSAValue, lane: SSAValue | None) -> SSAValue:
    if llvmx.lanes_of(value.type) is not None:
        assert lane is not None
        value = f.extract(value, lane)
    return integer_resize(f, value, I64)


def _report(scope: Scope, site: int, values: Sequence[SSAValue]) -> None:
    f = scope.f
    frame = f.alloca(I64, max(1, len(values)), 8)
    for i, value in enumerate(values):
        f.store_slot(value, frame, i)
    arguments = (scope.context, f.const(site, I64), f.const(len(values), I64), frame)
    f.call(_report_function(scope.module), arguments)


def _report_function(state: ModuleState) -> str:
    """The cold function that passes a failed check on, with the node that `main` says is running."""
    name = f"{state.symbol}.report"
    if name not in state.known:
        state.known.add(name)
        f = FunctionBuilder(name, [PTR, I64, I64, PTR], attrs=("nounwind", "cold", "noinline"))
        context, site, count, values = f.args
        report = f.load_slot(context, Slot.REPORT, PTR)
        node = f.load_slot(context, Slot.NODE)
        f.call_indirect(report, (context, node, site, count, values))
        f.ret()
        state.functions.append(f.func)
    return name


# --- kernel.parallel ---


def _parallel(scope: Scope, op: Operation) -> None:
    """Outlines the region; runs it here where one thread is enough, else by the context's `parallel_for`."""
    assert isinstance(op, kernel.ParallelOp)
    _refuse_nesting(op)
    f, state = scope.f, scope.module
    extent, grain = scope.values[op.extent], scope.values[op.grain]
    captured = _captured(op)
    body_name, range_name = state.name("body"), state.name("range")
    dims = _captured_dims(op, scope)
    _body(scope, op, body_name, captured, dims)
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


def _captured(op: kernel.ParallelOp) -> list[SSAValue]:
    """The values from outside that the region uses, in order of use; constants are not carried, but made anew."""
    captured: dict[SSAValue, None] = {}
    for inner in op.body.walk():
        for value in inner.operands:
            if value not in captured and not _inside(value, op):
                captured[value] = None
    return [value for value in captured if not _is_constant(value)]


def _inside(value: SSAValue, op: Operation) -> bool:
    owner = value.owner
    return op.is_ancestor(owner)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)


def _captured_dims(op: kernel.ParallelOp, scope: Scope) -> list[str]:
    """The kernel's symbols that expressions in the region use."""
    names: set[str] = set()
    for inner in op.body.walk():
        if isinstance(inner, kernel.DimOp):
            names |= inner.expr.data[0].symbols
        elif isinstance(inner, kernel.ScratchOp):
            names |= inner.offset.data[0].symbols
            if inner.thread:
                names |= _total(inner, "kernel.scratch").symbols | _total(inner, "kernel.thread_scratch").symbols
    return [name for name in scope.dims if name in names]


def _body(outer: Scope, op: kernel.ParallelOp, name: str, captured: Sequence[SSAValue], dims: Sequence[str]) -> None:
    state = outer.module
    types = [translate_type(value.type) for value in captured]
    # what was captured is an argument of the kernel or a view of scratch: only the former are known to be apart
    arguments = set(outer.arguments)
    attrs = [_pointer_attributes(state, value) if value in arguments else PLAIN for value in captured]
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
    _rebuild_constants(scope, op)
    translate_block(scope, source)
    scope.finish()
    state.functions.append(f.func)


def _rebuild_constants(scope: Scope, op: kernel.ParallelOp) -> None:
    for inner in op.body.walk():
        for value in inner.operands:
            if value not in scope.values and _is_constant(value) and isinstance(value.owner, Operation):
                TABLE[type(value.owner)](scope, value.owner)


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


KERNEL: Mapping[type[Operation], Translation] = {
    kernel.DimOp: _dim,
    kernel.ScratchOp: _scratch,
    kernel.CheckOp: _check,
    kernel.ParallelOp: _parallel,
}

TABLE: Mapping[type[Operation], Translation] = {
    **ARITH,
    **CONVERT,
    **MATH,
    **MEMORY,
    **VECTORS,
    **CONTROL,
    **KERNEL,
}
