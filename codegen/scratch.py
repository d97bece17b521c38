"""kernel.dim and kernel.scratch: the kernel's sizes, and its working memory."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import Operation

from ..dialects import kernel
from ..dialects.dims import Dim, ShapeAttr, as_dim
from .llvm_types import I8
from .scope import Scope, TranslateError


def dim_value(scope: Scope, op: Operation) -> None:
    assert isinstance(op, kernel.DimOp)
    scope.values[op.result] = scope.dim(op.expr.data[0])


def scratch(scope: Scope, op: Operation) -> None:
    """Behind the shared scratch lie the threads' own parts, one after the other."""
    assert isinstance(op, kernel.ScratchOp)
    f = scope.f
    (offset,) = op.offset.data
    if not op.thread:
        scope.values[op.result] = scope.once(lambda: f.gep(scope.scratch, scope.dim(offset), I8))
        return
    shared, each = total_scratch(op, "kernel.scratch"), total_scratch(op, "kernel.thread_scratch")
    start = scope.dim(shared + offset)
    mine = f.mul(scope.values[op.thread[0]], scope.dim(each), nsw=True)
    scope.values[op.result] = f.gep(scope.scratch, f.add(start, mine, nsw=True), I8)


def total_scratch(op: Operation, name: str) -> Dim:
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
