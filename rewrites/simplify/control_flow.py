"""Control flow whose course is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.onnx.groups import PART, WHOLE
from ...semantics.known import constant_attribute, constant_value
from ...semantics.weights import WeightStore
from ..driver import Pattern, PatternRewriter
from ..infer.settle import replace_symbols, sizes_of_branch
from .redundancy import IMPURE
from .rule import axes_constant, constant, element_of


class InlineKnownIf(Pattern):
    """If(true) {a} {b}  ->  a

    The branch's ops move in front of the If; the other branch, which may not even have types, is gone.
    """

    root = onnx.IfOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        branch = cast(onnx.IfOp, op)
        condition = constant_value(branch.operands[0])
        if condition is None or condition.size != 1:
            return
        taken = branch.then_branch if bool(condition.reshape(-1)[0]) else branch.else_branch
        body = taken.block
        end = body.last_op
        assert isinstance(end, onnx.YieldOp)
        for inner in list(body.ops):
            if inner is not end:
                inner.detach()
                rewriter.insert(inner)
        values = list(end.values)
        end.detach()
        end.erase()
        function = enclosing_function(branch)
        binding: dict[str, Dim] = {}
        for value, result in zip(values, branch.results, strict=True):
            binding |= sizes_of_branch(branch, value, result)
        rewriter.replace(op, values)
        if binding and function is not None:
            replace_symbols(function, binding)


def enclosing_function(op: Operation) -> Operation | None:
    """The function that an op is in, at whatever depth."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


NOT_COPIED = ("onnx.node", "onnx.names", PART, WHOLE)
"""What says of an op that it is a certain node of the file, or a part of one."""


@dataclass(frozen=True)
class UnrollLoop(Pattern):
    """Loop(2, true, x) {body}  ->  body(1, body(0, x))

    A loop whose trip count is a constant and whose condition stays true, or that does not run at all.  Declines where
    more than `most` ops would come of it, for bodies that bind sizes of their own, and for states that change type.
    """

    weights: WeightStore
    most: int

    root = onnx.LoopOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        loop = cast(onnx.LoopOp, op)
        body = loop.body.block
        trips = known_trips(loop, body)
        inner = [o for o in body.ops if not isinstance(o, onnx.YieldOp)]
        counted = [o for o in inner if not isinstance(o, onnx.ConstantOp)]
        if trips is None or trips * len(counted) > max(self.most, len(counted) + 1) or not can_copy(inner):
            return
        carried = list(loop.operands[len(loop.operands) - (len(body.args) - 2) :]) if len(body.args) > 2 else []
        end = body.last_op
        assert isinstance(end, onnx.YieldOp)
        scans = len(op.results) - len(carried)
        if len(op.results) != len(end.values) - 1 or not all(isinstance(r.type, TensorType) for r in op.results):
            return
        if any(a.type != v.type for a, v in zip(body.args[2:], carried, strict=True)):
            return  # its sizes change from trip to trip
        if any(v.type != a.type for v, a in zip(end.values[1 : 1 + len(carried)], body.args[2:], strict=True)):
            return
        if trips == 0 and scans:
            return
        collected: list[list[SSAValue]] = [[] for _ in range(scans)]
        for trip in range(trips):
            number = constant(np.array(trip, np.int64), rewriter, self.weights)
            true = constant(np.array(True), rewriter, self.weights)
            mapping: dict[SSAValue, SSAValue] = dict(zip(body.args, [number, true, *carried], strict=True))
            for old in inner:
                copy = old.clone(mapping)
                for name in NOT_COPIED:
                    copy.attributes.pop(name, None)
                rewriter.insert(copy)
            values = [mapping.get(v, v) for v in end.values[1:]]
            carried = values[: len(carried)]
            for listed, value in zip(collected, values[len(carried) :], strict=True):
                listed.append(value)
        stacked = [stack(v, r, rewriter) for v, r in zip(collected, op.results[len(carried) :], strict=True)]
        rewriter.replace(op, [*carried, *stacked])


class ReadWhatLoopsKeep(Pattern):
    """Loop(n, c, x) {(x') yield x'}  ->  the same, where x stands for x' in the body, and for the result

    A state that each trip hands on as it came is none: while loops of TensorFlow pass all their weights so, and as a
    state nothing can be folded into them or packed.  Declines where the types differ.
    """

    root = onnx.LoopOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        loop = cast(onnx.LoopOp, op)
        body = loop.body.block
        end = body.last_op
        assert isinstance(end, onnx.YieldOp)
        states = body.args[2:]
        begins = loop.operands[len(loop.operands) - len(states) :]
        for state, begin, handed_on, result in zip(states, begins, end.values[1:], op.results):
            if handed_on is not state or not state.type == begin.type == result.type:
                continue
            readers = [use for use in state.uses if use.operation is not end]
            if readers:
                rewriter.touched.extend(use.operation for use in readers)
                state.replace_uses_with_if(begin, lambda use: use.operation is not end)
            if result.first_use is not None:
                rewriter.touched.extend(use.operation for use in result.uses)
                result.replace_all_uses_with(begin)


class CopyYieldedConstant(Pattern):
    """If(c) {yield w} {...}  ->  If(c) {yield Constant}, where w is a short constant around it

    A body gives what it makes: what is from around it needs an Identity, and a constant is no node that runs.
    """

    root = onnx.YieldOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for index, value in enumerate(op.operands):
            attribute = constant_attribute(value)
            if value.owner.parent is not op.parent and isinstance(attribute, DenseIntOrFPElementsAttr):
                copy = rewriter.insert(onnx.ConstantOp.make([], {"value": attribute}, [value.type]))
                op.operands[index] = copy.results[0]


def known_trips(loop: onnx.LoopOp, body: Block) -> int | None:
    """How often the body runs, where that is a number."""
    condition = loop.operand_at(1)
    start = constant_value(condition) if condition is not None else np.array(True)
    if start is not None and not start.reshape(-1)[0]:
        return 0
    most = loop.operand_at(0)
    count = constant_value(most) if most is not None else None
    end = body.last_op
    assert isinstance(end, onnx.YieldOp)
    again = end.values[0]
    while isinstance(again.owner, onnx.IdentityOp):
        again = again.owner.input
    stays = (
        condition is None
        or again is body.args[1]
        or ((c := constant_value(again)) is not None and bool(c.reshape(-1)[0]))
    )
    if start is None or count is None or not stays:
        return 0 if count is not None and count.reshape(-1)[0] <= 0 else None
    return max(int(count.reshape(-1)[0]), 0)


def can_copy(ops: list[Operation]) -> bool:
    """Whether ops may stand in a block several times: they bind no sizes, and draw no random numbers."""
    return all(
        type(inner) not in IMPURE and "dims.binds" not in inner.attributes and not isinstance(inner, dims.AssumeOp)
        for op in ops
        for inner in op.walk()
    )


def stack(values: list[SSAValue], result: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """The scan output of all trips: each trip's value with a new first axis, one after another."""
    parts: list[SSAValue] = []
    for value in values:
        type_ = dims.tensor_type(element_of(value), [1, *dims_of(value)])
        axes = axes_constant([0], rewriter)
        parts.append(rewriter.insert(onnx.UnsqueezeOp.make([value, axes], {}, [type_])).results[0])
    return rewriter.insert(onnx.ConcatOp.make(parts, {"axis": 0}, [result.type])).results[0]
