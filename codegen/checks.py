"""kernel.check: errors that are noted while a kernel runs on."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ..dialects import kernel, llvmx
from ..runtime.abi import Slot
from .arith import integer_resize
from .build import FunctionBuilder
from .llvm_types import I1, I64, PTR, bits_of
from .scope import ModuleState, Scope, TranslateError


def checks_of(function: func.FuncOp) -> list[kernel.CheckOp]:
    """The checks of a kernel; the position of each is the site that it reports."""
    return [op for op in function.walk() if isinstance(op, kernel.CheckOp)]


def check(scope: Scope, op: Operation) -> None:
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
        bits = f.bitcast(condition, IntegerType(lanes))
        f.cond_br(f.icmp("eq", bits, f.const(-1, bits.type)), after, (), failed, ())
        f.at(failed)
        lane = _first_clear(f, bits)
    values = [_failing(f, scope.values[value], lane) for value in op.values]
    _report(scope, scope.module.sites[op], values)
    f.br(after)
    f.at(after)


def _first_clear(f: FunctionBuilder, bits: SSAValue) -> SSAValue:
    """The number of the lowest bit that is 0."""
    count = f.raw_intrinsic(f"llvm.cttz.{bits.type}", (f.not_(bits), f.const(0, I1)), bits.type)
    return count if bits_of(bits.type) == 64 else f.cast("zext", count, I64)


def _failing(f: FunctionBuilder, value: SSAValue, lane: SSAValue | None) -> SSAValue:
    if llvmx.lanes_of(value.type) is not None:
        if lane is None:
            raise TranslateError("kernel.check of a scalar with a vector's values")
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
