"""The pattern driver: provenance, the worklist, and the cap that names the pattern."""

from __future__ import annotations

from typing import ClassVar

import pytest
from sardonyx.dialects import onnx
from sardonyx.rewrites.driver import Pattern, PatternRewriter, apply_patterns, origins_of
from sardonyx.rewrites.simplify.identity import DropIdentity
from sardonyx.runtime.errors import CompilerBug
from sardonyx.tools.explain import main_of
from xdsl.ir import Operation

from sardonyx.testing import parse

CHAIN = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = onnx.Neg(%x) {origin = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = onnx.Neg(%a) {origin = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %c = onnx.Identity(%b) {origin = array<i64: 2>} : (tensor<4xf32>) -> tensor<4xf32>
  %d = onnx.Abs(%c) {origin = array<i64: 3>} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}
"""


class FuseNegAbs(Pattern):
    """Abs(Neg(x))  ->  Abs(x)"""

    root = onnx.AbsOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        neg = op.operands[0].owner
        if not isinstance(neg, onnx.NegOp) or not neg.results[0].has_one_use():
            return
        rewriter.replace(op, onnx.AbsOp.make([neg.operands[0]], {}, [op.results[0].type]))
        rewriter.erase(neg)


class NegForever(Pattern):
    """Neg(x)  ->  Neg(x)"""

    root: ClassVar = onnx.NegOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, onnx.NegOp.make([op.operands[0]], {}, [op.results[0].type]))


def ops(ir_module: Operation) -> list[str]:
    return [op.name for op in ir_module.walk() if op.name.startswith("onnx.")]


def test_rewrites_reach_a_fixpoint_through_each_other() -> None:
    module = parse(CHAIN)
    fired = apply_patterns(module, [FuseNegAbs(), DropIdentity()])
    assert [f.pattern for f in fired] == ["DropIdentity", "FuseNegAbs", "FuseNegAbs"]
    assert ops(module) == ["onnx.Abs"]
    module.verify()


def test_a_new_op_comes_from_all_that_was_matched() -> None:
    module = parse(CHAIN)
    apply_patterns(module, [FuseNegAbs(), DropIdentity()])
    (made,) = [op for op in main_of(module).walk() if isinstance(op, onnx.AbsOp)]
    assert set(origins_of(made)) >= {0, 1, 3}
    assert "pattern" in made.attributes


def test_a_pattern_that_does_not_stop_is_named() -> None:
    with pytest.raises(CompilerBug, match=r"NegForever does not stop.*onnx\.Neg"):
        apply_patterns(parse(CHAIN), [NegForever()])
