"""Writes what inference found into the IR: known integer tensors, bound symbols, guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim
from ...dialects.onnx.types import numpy_dtype
from ...semantics.facts import Condition
from ...semantics.shapes import Guard, Names
from ...semantics.shapes.elements import Elements, as_integers, is_integer
from .walk import BINDS, ranked_dims

if TYPE_CHECKING:
    from .walk import Inference

CONTROL = (onnx.IfOp, onnx.LoopOp, onnx.ScanOp, onnx.SequenceMapOp)


def materialize(inference: Inference, functions: Sequence[FuncOp]) -> None:
    """Replaces known tensors, then binds the symbols in use, then states the guards."""
    used: dict[str, None] = {}
    for function in functions:
        for op in list(function.walk()):
            if op in inference.demands:
                _replace_results(op, inference)
                _replace_shape_operands(op, inference)
    for function in functions:
        for op in function.walk():
            _collect_symbols(op, inference, used)
    _bind(inference.names, used)
    for op, demands in inference.demands.items():
        for guard in demands.guards:
            _state(op, guard, inference.names)


def _is_data(dim: Dim, names: Names) -> bool:
    return any(name in names.bound_owners for name in dim.symbols)


# --- known tensors ----------------------------------------------------------------------------------------------------


def _replace_results(op: Operation, inference: Inference) -> None:
    """Puts a constant or `dims.tensor` in the place of each integer result that rests on sizes only."""
    if isinstance(op, onnx.ConstantOp | onnx.InitializerOp | dims.TensorOp):
        return
    for value in op.results:
        elements = inference.scope.values.get(value)
        if elements is None or not isinstance(value.type, TensorType) or value.first_use is None:
            continue
        found = as_integers(elements)
        if found is None or not is_integer(value.type.element_type):
            continue
        if any(_is_data(d, inference.names) for d in found):
            continue
        new = known_tensor(found, value.type, elements)
        block = op.parent
        assert block is not None
        _copy_origin(op, new)
        block.insert_op_after(new, op)
        new.results[0].name_hint = value.name_hint
        value.replace_all_uses_with(new.results[0])


def known_tensor(found: Sequence[Dim], type_: TensorType[Attribute], shape: Elements) -> Operation:
    """The op that makes a known integer tensor."""
    if all(d.is_const for d in found):
        try:
            array = np.array([d.value for d in found], numpy_dtype(type_.element_type)).reshape(shape.shape)
            return onnx.ConstantOp.make([], {"value": onnx.tensor_attr(array)}, [type_])
        except TypeError:
            pass  # element types that dense attributes do not have
    return dims.TensorOp(list(found), type_)


def _replace_shape_operands(op: Operation, inference: Inference) -> None:
    """Puts `dims.tensor` in the place of operands whose run-time values result sizes rest on."""
    if isinstance(op, CONTROL) or not isinstance(op, onnx.OnnxOp):
        return
    for index, found in inference.demands[op].shape_operands.items():
        value = op.operand_at(index)
        if value is None or isinstance(value.owner, dims.TensorOp | onnx.ConstantOp | onnx.InitializerOp):
            continue
        if not any(_is_data(d, inference.names) for d in found):
            continue
        assert isinstance(value.type, TensorType)
        new = dims.TensorOp(list(found), value.type)
        _copy_origin(op, new)
        block = op.parent
        assert block is not None
        block.insert_op_before(new, op)
        at = next(i for i, v in enumerate(op.operands) if v is value)
        for position, operand in enumerate(op.formal_operands()[: index + 1]):
            if position == index:
                break
            if operand is value:  # the same value in an earlier place stays
                at = next(i for i, v in enumerate(op.operands) if v is value and i > at)
        op.operands[at] = new.result


def _copy_origin(op: Operation, new: Operation) -> None:
    origin = op.attributes.get("origin")
    if origin is not None:
        new.attributes["origin"] = origin


# --- symbols ----------------------------------------------------------------------------------------------------------


def _collect_symbols(op: Operation, inference: Inference, used: dict[str, None]) -> None:
    """The data symbols in types, expressions and guards."""
    found: list[Dim] = [d for value in op.results for d in ranked_dims(value.type)]
    for region in op.regions:
        for block in region.blocks:
            found += [d for arg in block.args for d in ranked_dims(arg.type)]
    if isinstance(op, dims.TensorOp):
        found += op.exprs.data
    demands = inference.demands.get(op)
    for guard in demands.guards if demands is not None else ():
        condition = Condition.parse(guard.condition)
        found += [condition.left, condition.right]
    for dim in found:
        for name in sorted(dim.symbols):
            if name in inference.names.bound_owners:
                used.setdefault(name)


def _bind(names: Names, used: Iterable[str]) -> None:
    """A `dims.bind` after the definition of each value whose elements' symbols are in use."""
    sources: dict[SSAValue, None] = {names.bound_owners[name]: None for name in used}
    for value in sources:
        if any(isinstance(use.operation, dims.BindOp) for use in value.uses):
            continue
        bind = dims.BindOp(value, [str(d) for d in names.bound[value]])
        owner = value.owner
        if isinstance(owner, Block):
            first = owner.first_op
            if first is None:
                owner.add_op(bind)
            else:
                owner.insert_op_before(bind, first)
        else:
            _copy_origin(owner, bind)
            block = owner.parent
            assert block is not None
            block.insert_op_after(bind, owner)


# --- guards -----------------------------------------------------------------------------------------------------------


def _state(op: Operation, guard: Guard, names: Names) -> None:
    """Puts a guard where its symbols are known: at the start of the block, or before the op that needs it."""
    assume = dims.AssumeOp(guard.condition, f"{guard.why} ({onnx.describe(op)})")
    _copy_origin(op, assume)
    block = op.parent
    assert block is not None
    condition = Condition.parse(guard.condition)
    owners = [names.owners.get(name) for name in condition.left.symbols | condition.right.symbols]
    if any(owner is not None and _block_of(owner) is block for owner in owners):
        block.insert_op_before(assume, op)
        return
    at = block.first_op
    while isinstance(at, dims.AssumeOp | dims.BindOp) and not (
        isinstance(at, dims.BindOp) and isinstance(at.source.owner, Operation)
    ):
        at = at.next_op
    assert at is not None
    block.insert_op_before(assume, at)


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


__all__ = ["BINDS", "materialize"]
