"""Writes what inference found into the IR: known integer tensors, bound symbols, guards, branches that are decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, ShapeAttr, as_dim
from ...dialects.dims.expression import ZERO
from ...dialects.dims.interval import SIZE_LIMIT, is_signed
from ...dialects.onnx.types import numpy_dtype
from ...semantics.conditions import Condition, broadcast_pair, condition_symbols, substituted
from ...semantics.shapes import Guard, Names, elements_of
from ...semantics.shapes.elements import as_integers, filled, is_integer
from .regions import visible, yields
from .settle import replace_symbols, sizes_of_branch
from .walk import RANK_FROM_DATA, Demands, ranked_dims

if TYPE_CHECKING:
    from .walk import Inference

OTHERWISE = "dims.otherwise"
"""On an assumption: an expression that may be 0 where it does not hold, and calls then have a program of their own."""

CONTROL = (onnx.IfOp, onnx.LoopOp, onnx.ScanOp, onnx.SequenceMapOp)


def materialize(inference: Inference, functions: Sequence[FuncOp], *, guarded: bool = True) -> bool:
    """Resolves branches, replaces known tensors, binds the symbols in use, and states the guards.

    A branch that can never run stays as it is where nobody will check guards (`guarded`).  Gives whether a guard in
    `main` may make sizes equal that are written otherwise.
    """
    for function in functions:
        _resolve_branches(function, inference, guarded)
    for op in _operations(functions):
        if op in inference.demands:
            _replace_results(op, inference)
            _replace_shape_operands(op, inference)
    left = _operations(functions)
    _bind(inference.names, _symbols_in_use(left, inference))
    stated = False
    for op in left:
        for guard in inference.demands.get(op, Demands()).guards:
            _state(op, guard, inference.names)
            stated = stated or (isinstance(op.parent_op(), FuncOp) and _equates(guard.condition))
    return stated


def _equates(condition: str) -> bool:
    return broadcast_pair(condition) is None and Condition.parse(condition).op == "=="


def _operations(functions: Sequence[FuncOp]) -> list[Operation]:
    return [op for function in functions for op in function.walk()]


def _copy_origin(op: Operation, new: Operation) -> None:
    origin = op.attributes.get("origin")
    if origin is not None:
        new.attributes["origin"] = origin


def _block_of(op: Operation) -> Block:
    block = op.parent
    assert block is not None
    return block


# --- branches ---------------------------------------------------------------------------------------------------------


def _resolve_branches(function: FuncOp, inference: Inference, guarded: bool) -> None:
    """A decided If gives way to its branch; a branch that can never run becomes a guard that always fails."""
    for op in list(function.walk()):
        if not isinstance(op, onnx.IfOp) or op.parent is None or not _is_attached(op, function):
            continue
        value = inference.decided.get(op)
        if value is not None:
            binding = _inline(op, op.then_branch if value else op.else_branch, inference)
            if binding:
                replace_symbols(function, binding)
                _replace_in(inference, binding)
            continue
        for region in op.regions if guarded else ():
            failure = inference.failed.get(region)
            if failure is not None:
                _make_failing(op, region, failure, inference)


def _is_attached(op: Operation, function: FuncOp) -> bool:
    parent: Operation | None = op
    while parent is not None and parent is not function:
        parent = parent.parent_op()
    return parent is function


def _inline(op: onnx.IfOp, region: Region, inference: Inference) -> dict[str, Dim]:
    """Moves a branch's operations in front of the If, whose guards go to the operation after it.

    Gives what the symbols are that the If bound to its results' sizes and elements.
    """
    block = _block_of(op)
    body = region.block
    given = list(yields(body))
    guards = inference.demands[op].guards
    anchor = op.next_op
    if guards and anchor is not None:
        demands = inference.demands.setdefault(anchor, Demands())
        demands.guards[:0] = guards
    for inner in list(body.ops):
        inner.detach()
        if isinstance(inner, onnx.YieldOp):
            inner.erase()
        else:
            block.insert_op_before(inner, op)
    binding: dict[str, Dim] = {}
    for result, value in zip(op.results, given):
        binding |= sizes_of_branch(op, value, result) | _elements_of_branch(value, result, inference)
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()
    return binding


def _elements_of_branch(value: SSAValue, result: SSAValue, inference: Inference) -> dict[str, Dim]:
    """The elements of what a branch gives for the symbols that stand for those of the If's result."""
    symbols = inference.names.bound.get(result)
    elements = None if symbols is None else elements_of(value, inference.scope)
    found = None if elements is None else as_integers(elements)
    if symbols is None or found is None:
        return {}
    return {str(symbol): d for symbol, d in zip(symbols, found, strict=True)}


def _replace_in(inference: Inference, binding: Mapping[str, Dim]) -> None:
    """Puts expressions in the place of symbols in what inference keeps beside the IR."""
    for demands in inference.demands.values():
        demands.guards[:] = [
            guard
            if condition_symbols(guard.condition).isdisjoint(binding)
            else Guard(substituted(guard.condition, binding), guard.why, guard.otherwise)
            for guard in demands.guards
        ]
        for index, found in demands.shape_operands.items():
            demands.shape_operands[index] = tuple(d.subs(binding) for d in found)
    for value, elements in inference.scope.values.items():
        row = [e.subs(binding) if isinstance(e, Dim) else e for e in elements.reshape(-1)]
        inference.scope.values[value] = filled(elements.shape, row)


def _make_failing(op: onnx.IfOp, region: Region, failure: str, inference: Inference) -> None:
    """A body that states why it cannot run, and yields something of the results' types where that can be made."""
    body = region.block
    made: list[Operation] = [dims.AssumeOp("1 <= 0", failure)]
    values: list[SSAValue] = []
    for result in op.results:
        ops = _placeholder(result.type, op, inference.names)
        if ops is None:
            return  # the branch stays as it is
        made += ops
        values.append(ops[-1].results[0])
    for inner in reversed(list(body.ops)):
        inner.detach()
        inner.erase()
    for inner in (*made, onnx.YieldOp.make(values)):
        _copy_origin(op, inner)
        body.add_op(inner)


def _placeholder(type_: Attribute, op: onnx.IfOp, names: Names) -> list[Operation] | None:
    """Operations that make a tensor of this type; sizes that the If itself decides are 0."""
    if not isinstance(type_, TensorType):
        return None
    try:
        fill = onnx.tensor_attr(np.zeros(1, numpy_dtype(type_.element_type)))
    except (TypeError, KeyError):
        return None
    own = {name for r in op.results for d in ranked_dims(r.type) for name in d.symbols if names.owners.get(name) is r}
    found = [d if own.isdisjoint(d.symbols) else ZERO for d in ranked_dims(type_)]
    if not all(visible(d, names, op.regions) for d in found):
        return None
    shape = known_tensor(found, dims.tensor_type(i64, [len(found)]), (len(found),))
    result = dims.tensor_type(type_.element_type, found)
    return [shape, onnx.ConstantOfShapeOp.make([shape.results[0]], {"value": fill}, [result])]


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
        if any(is_data(d, inference.names) for d in found):
            continue
        new = known_tensor(found, value.type, elements.shape)
        _copy_origin(op, new)
        _block_of(op).insert_op_after(new, op)
        value.replace_all_uses_with(new.results[0])


def is_data(dim: Dim, names: Names) -> bool:
    """Whether an expression rests on elements of tensors."""
    return any(name in names.bound_owners for name in dim.symbols)


def known_tensor(found: Sequence[Dim], type_: Attribute, shape: tuple[int, ...]) -> Operation:
    """The op that makes a known integer tensor."""
    assert isinstance(type_, TensorType)
    if all(d.is_const for d in found):
        try:
            array = np.array([d.value for d in found], numpy_dtype(type_.element_type)).reshape(shape)
            return onnx.ConstantOp.make([], {"value": onnx.tensor_attr(array)}, [type_])
        except TypeError:
            pass  # element types that dense attributes do not have
    return dims.TensorOp(list(found), type_)


def _replace_shape_operands(op: Operation, inference: Inference) -> None:
    """Puts `dims.tensor` in the place of operands whose run-time values result sizes rest on."""
    if isinstance(op, CONTROL) or not isinstance(op, onnx.OnnxOp):
        return
    for index, found in inference.demands[op].shape_operands.items():
        operands = op.formal_operands()
        value = operands[index]
        if value is None or isinstance(value.owner, dims.TensorOp | onnx.ConstantOp | onnx.InitializerOp):
            continue
        if not any(is_data(d, inference.names) for d in found):
            continue
        new = dims.TensorOp(list(found), value.type)
        _copy_origin(op, new)
        _block_of(op).insert_op_before(new, op)
        op.operands[sum(v is not None for v in operands[:index])] = new.result


# --- symbols ----------------------------------------------------------------------------------------------------------


def _symbols_in_use(ops: Iterable[Operation], inference: Inference) -> list[str]:
    """The symbols of elements in types, expressions and guards."""
    used: dict[str, None] = {}
    for op in ops:
        found: list[Dim] = [d for value in op.results for d in ranked_dims(value.type)]
        for region in op.regions:
            for block in region.blocks:
                found += [d for arg in block.args for d in ranked_dims(arg.type)]
        if isinstance(op, dims.TensorOp):
            found += op.exprs.data
        conditions = [guard.condition for guard in inference.demands.get(op, Demands()).guards]
        if isinstance(op, dims.AssumeOp):
            conditions.append(op.condition.data)
        for text in (*conditions, *told_by(op)):
            is_condition = any(sign in text for sign in "=<>")
            found += map(as_dim, sorted(condition_symbols(text))) if is_condition else [as_dim(text)]
        for dim in found:
            for name in sorted(dim.symbols):
                if name in inference.names.bound_owners:
                    used.setdefault(name)
    return list(used)


def told_by(op: Operation) -> list[str]:
    """The conditions and expressions that tell the rank of an op's result."""
    listed = op.attributes.get(RANK_FROM_DATA)
    return [text.data for text in listed if isinstance(text, StringAttr)] if isinstance(listed, ArrayAttr) else []


def _bind(names: Names, used: Iterable[str]) -> None:
    """A `dims.bind` after the definition of each value whose elements' symbols are in use."""
    for value in dict.fromkeys(names.bound_owners[name] for name in used):
        symbols = [str(d) for d in names.bound[value]]
        if any(
            isinstance(b := use.operation, dims.BindOp) and [s.data for s in b.symbols] == symbols for use in value.uses
        ):
            continue
        bind = dims.BindOp(value, symbols, *_size_range(symbols))
        owner = value.owner
        if isinstance(owner, Operation):
            _copy_origin(owner, bind)
            _block_of(owner).insert_op_after(bind, owner)
        elif (first := owner.first_op) is not None:
            owner.insert_op_before(bind, first)
        else:
            owner.add_op(bind)


def _size_range(symbols: Sequence[str]) -> tuple[ShapeAttr, ShapeAttr] | tuple[()]:
    """The range that is guarded of elements that are sizes; none of any integers."""
    if any(map(is_signed, symbols)):
        return ()
    return ShapeAttr((ZERO,) * len(symbols)), ShapeAttr((as_dim(SIZE_LIMIT - 1),) * len(symbols))


# --- guards -----------------------------------------------------------------------------------------------------------


def _state(op: Operation, guard: Guard, names: Names) -> None:
    """Puts a guard where its symbols are known: at the start of the block, or before the op that needs it."""
    told = op.attributes.get(onnx.REASON)  # which names the operator of the file
    why = told.data if isinstance(told, StringAttr) else f"{guard.why} ({onnx.describe(op)})"
    assume = dims.AssumeOp(guard.condition, why)
    if guard.otherwise:
        assume.attributes[OTHERWISE] = StringAttr(guard.otherwise)
    _copy_origin(op, assume)
    block = _block_of(op)
    owners = [names.owners.get(name) for name in condition_symbols(guard.condition)]
    if any(owner is not None and _home(owner) is block for owner in owners):
        block.insert_op_before(assume, op)
        return
    at = block.first_op
    while isinstance(at, dims.AssumeOp):
        at = at.next_op
    assert at is not None
    block.insert_op_before(assume, at)


def _home(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


__all__ = ["is_data", "known_tensor", "materialize", "told_by"]
