"""What operators read: values from outside, and the symbols in their types and conditions."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..dialects import dims
from ..dialects.dims import ShapeAttr
from ..semantics.conditions import condition_symbols
from .found_sizes import bound_by_execution


def inputs_of(ops: Iterable[Operation]) -> list[SSAValue]:
    """The values that the ops read and do not make, in order of first use."""
    members = list(ops)
    inside = {r for op in members for r in op.results}
    found: dict[SSAValue, None] = {}
    for op in members:
        for operand in op.operands:
            if operand not in inside:
                found.setdefault(operand)
    return list(found)


def bound_symbols(op: Operation) -> list[str]:
    """The symbols that an op gives a value to at run time."""
    return [s.data for s in op.symbols] if isinstance(op, dims.BindOp) else bound_by_execution(op)


def symbols_of(op: Operation) -> set[str]:
    """The symbols in an op's result types, block argument types and expressions, less those that it binds."""
    found: set[str] = set()
    for result in op.results:
        if isinstance(result.type, TensorType) and isinstance(result.type.encoding, ShapeAttr):
            for d in result.type.encoding.data:
                found |= d.symbols
    for attribute in op.properties.values():
        if isinstance(attribute, ShapeAttr):
            for d in attribute.data:
                found |= d.symbols
    if isinstance(op, dims.AssumeOp):
        found |= assumed_symbols(op)
    return found - set(bound_symbols(op))


def assumed_symbols(op: dims.AssumeOp) -> frozenset[str]:
    """The symbols in a guard's condition."""
    return condition_symbols(op.condition.data)
