"""Symbols that an earlier run made and that nothing binds any more, replaced by what their sizes are by now."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, ShapeAttr
from ...dialects.onnx.types import OptionalType, SequenceType
from ...semantics.conditions import condition_symbols, substituted
from ...semantics.shapes import Names
from ...semantics.shapes.containers import container_dims
from .walk import BINDS, current_condition, ranked_dims, set_type


def settle_symbols(root: Operation, names: Names) -> None:
    """Rewrites what an earlier run stated in symbols of sizes that by now are known otherwise."""
    if not names.axes:
        return
    for op in root.walk():
        match op:
            case dims.TensorOp() if names.settled({name for d in op.exprs.data for name in d.symbols}):
                op.exprs = ShapeAttr(tuple(map(names.current, op.exprs.data)))
            case dims.AssumeOp():
                op.condition = StringAttr(current_condition(op, names))
            case _:
                pass


def sizes_of_branch(op: onnx.IfOp, given: SSAValue, result: SSAValue) -> dict[str, Dim]:
    """The sizes of what a branch gives for the symbols that the If binds to those of its result."""
    binds = op.attributes.get(BINDS)
    listed = {s.data for s in binds if isinstance(s, StringAttr)} if isinstance(binds, ArrayAttr) else set[str]()
    before, after = ranked_dims(result.type), ranked_dims(given.type)
    if len(before) != len(after):
        return {}
    return {str(old): new for old, new in zip(before, after, strict=True) if str(old) in listed and old is not new}


def replace_symbols(root: Operation, binding: Mapping[str, Dim]) -> None:
    """Puts expressions in the place of symbols in all types, `dims.tensor` and `dims.assume` inside of an op."""
    for op in root.walk():
        values: list[SSAValue] = list(op.results)
        for region in op.regions:
            for block in region.blocks:
                values += block.args
        for value in values:
            if (type_ := _replaced(value.type, binding)) is not value.type:
                set_type(value, type_)
        match op:
            case dims.TensorOp():
                op.exprs = ShapeAttr(tuple(d.subs(binding) for d in op.exprs.data))
            case dims.AssumeOp() if not condition_symbols(op.condition.data).isdisjoint(binding):
                op.condition = StringAttr(substituted(op.condition.data, binding))
            case _:
                pass


def _replaced(type_: Attribute, binding: Mapping[str, Dim]) -> Attribute:
    match type_:
        case TensorType() if any(not d.symbols.isdisjoint(binding) for d in container_dims(type_)):
            return dims.tensor_type(type_.element_type, [d.subs(binding) for d in container_dims(type_)])
        case SequenceType() | OptionalType() if (element := _replaced(type_.element, binding)) is not type_.element:
            return type(type_)(element)
        case _:
            return type_
