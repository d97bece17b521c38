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

from collections.abc import Mapping

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import kernel
from ..dialects.target import Target
from .arith import ARITH
from .build import FunctionBuilder, module_of
from .checks import check, checks_of
from .control import CONTROL
from .convert import CONVERT
from .entropy import entropy
from .llvm_types import I32, PTR
from .math_ops import MATH
from .memory import MEMORY
from .parallel import NOALIAS, PLAIN, parallel, pointer_attributes
from .scope import ModuleState, Scope, TranslateError, Translation, translate_block, translate_type
from .scratch import dim_value, scratch
from .vectors import VECTORS


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
    attrs = [PLAIN, *(pointer_attributes(state, arg) for arg in source.args), NOALIAS]
    f = FunctionBuilder(_main_name(state), [PTR, *types, PTR], I32, arg_attrs=attrs)
    context, *args, scratch = f.args
    dims = {f"d{i}": value for i, (arg, value) in enumerate(zip(source.args, args)) if isinstance(arg.type, IndexType)}
    scope = Scope(f, state, context, dims, scratch, dict(zip(source.args, args)), source.args)
    translate_block(scope, source)
    scope.finish()
    state.functions.append(f.func)


KERNEL: Mapping[type[Operation], Translation] = {
    kernel.DimOp: dim_value,
    kernel.ScratchOp: scratch,
    kernel.CheckOp: check,
    kernel.EntropyOp: entropy,
    kernel.ParallelOp: parallel,
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
