"""Control flow whose course is known."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from ...dialects import onnx
from ...semantics.known import constant_value
from ..driver import Pattern, PatternRewriter


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
        rewriter.replace(op, values)
