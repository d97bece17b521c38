"""Comparing two ways to run a model: the differences, and the first node at which they begin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from sardonyx.dialects import onnx as dialect
from sardonyx.rewrites.driver import Pattern, PatternRewriter
from sardonyx.tools.compare import compare_arrays, compare_values
from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp

import sardonyx as sx
from sardonyx.cli import cli
from sardonyx.sides import SIDES

Make = Callable[..., onnx.ModelProto]
CHAIN = (
    "g (float[N, 6] x, float[6, 6] w) => (float[N, 6] z) "
    "{ a = MatMul(x, w) b = Sigmoid(a) c = Mul(b, b) d = Softmax(c) e = MatMul(d, w) f = Abs(e) z = Neg(f) }"
)


def chain_feeds() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", (3, 6)), ("w", (6, 6)))}


class NegAsItIs(Pattern):
    """Neg(x) -> Abs(x), which is wrong."""

    root = dialect.NegOp

    def rewrite(self, op: dialect.NegOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, dialect.AbsOp.make([op.operands[0]], {}, [op.results[0].type]))


class SigmoidAsTanh(Pattern):
    """Sigmoid(x) -> Tanh(x), which is wrong."""

    root = dialect.SigmoidOp

    def rewrite(self, op: dialect.SigmoidOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, dialect.TanhOp.make([op.operands[0]], {}, [op.results[0].type]))


@pytest.mark.parametrize("other", [s for s in SIDES if s != "native"])
def test_every_side_agrees_on_a_model_that_is_right(other: str, model: Make) -> None:
    report = sx.compare(model(CHAIN), chain_feeds(), against=other, trace=True, rtol=1e-5)
    assert report["equal"] and report["search"]["compared"] >= 3 and report["search"]["differing"] == 0
    assert "first" not in report


@pytest.mark.parametrize("other", ["model", "graph", "tensor", "onnxruntime"])
def test_a_wrong_pattern_is_located(other: str, model: Make) -> None:
    report = sx.compare(model(CHAIN), chain_feeds(), against=other, patterns=[SigmoidAsTanh()])
    assert not report["equal"] and report["outputs"]["z"]["max_abs"] > 1e-3
    first = report["first"]
    assert "SigmoidAsTanh" in first["patterns"] and any("node_1" in n for n in first["nodes"])
    if other != "tensor":  # there, what is inside of a kernel has no name
        # inside of the fused kernel nothing is seen; with a kernel for each operator the node itself is
        assert report["unfused"]["node"] == {"name": "node_1", "op_type": "Sigmoid"}
        assert report["unfused"]["value"] == "b"


def test_a_wrong_kernel_edited_by_hand_is_located(model: Make) -> None:
    module = sx.lower(model(CHAIN), to="loops")
    softmax = next(op for op in module.walk() if isinstance(op, FuncOp) and "softmax" in op.sym_name.data)
    divisions = [op for op in softmax.walk() if isinstance(op, arith.DivfOp)]
    for op in divisions:
        made = arith.AddfOp(op.lhs, op.rhs)
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        op.result.replace_all_uses_with(made.result)
    assert divisions
    report = sx.compare(module, chain_feeds(), against=sx.lower(model(CHAIN), to="graph"))
    first = report["first"]
    assert first["value"] == "d" and first["kernel"] == softmax.sym_name.data
    assert first["nodes"][-1] == "'node_3'" and not report["equal"]


def test_inside_of_control_flow(model: Make) -> None:
    text = """g (float[N] x, bool c) => (float[N] z) {
        z = If (c) <then_branch = t () => (float[N] y) { s = Sigmoid(x) y = Abs(s) },
                    else_branch = e () => (float[N] w) { w = Neg(x) }>
    }"""
    feeds = {"x": np.linspace(-2, 2, 5, dtype=np.float32), "c": np.array(True)}
    report = sx.compare(named(model(text)), feeds, patterns=[SigmoidAsTanh()])
    assert report["first"]["inside"] == ["If 'node_0'"] and report["unfused"]["node"]["name"] == "inner_0"
    assert sx.compare(named(model(text)), feeds | {"c": np.array(False)}, patterns=[SigmoidAsTanh()])["equal"]


def test_the_time_in_a_loop(model: Make) -> None:
    text = """g (float[3] x, int64 n) => (float[3] z) {
        t = Constant <value = bool {1}> ()
        z = Loop (n, t, x) <body = b (int64 i, bool go, float[3] s) => (bool on, float[3] r) {
            on = Identity(go) k = Cast <to = 1> (i) one = Constant <value = float {1.0}> ()
            less = Sub(k, one) u = Neg(less) r = Add(s, u) }>
    }"""
    feeds = {"x": np.zeros(3, np.float32), "n": np.array(4)}
    report = sx.compare(named(model(text)), feeds, patterns=[NegAsItIs()])
    # |k - 1| is -(k - 1) at first, for k = 0 and 1
    assert report["first"]["time"] == 2 and report["first"]["inside"] == ["Loop 'node_1'"]


def named(made: onnx.ModelProto) -> onnx.ModelProto:
    """Names the nodes of bodies."""
    number = 0
    for node in made.graph.node:
        for attribute in node.attribute:
            for inner in attribute.g.node:
                inner.name, number = f"inner_{number}", number + 1
    return made


def test_the_line_of_a_torch_export(model: Make) -> None:
    made = model(CHAIN)
    trace = 'File "model.py", line 41, in forward\n    y = torch.sigmoid(x)'
    made.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    report = sx.compare(made, chain_feeds(), patterns=[SigmoidAsTanh()])
    assert report["unfused"]["node"]["line"] == "model.py:41"


def test_a_program_is_compared_as_it_is(model: Make) -> None:
    program = sx.compile(model(CHAIN), patterns=[SigmoidAsTanh()], threads=1)
    assert sx.compare(program, chain_feeds())["unfused"]["value"] == "b"


def test_a_module_needs_something_to_compare_with(model: Make) -> None:
    with pytest.raises(sx.InputError, match="a module cannot be compared with 'model'"):
        sx.compare(sx.lower(model(CHAIN), to="loops"), chain_feeds())
    with pytest.raises(sx.UnsupportedError, match="called 'nope'; there are model, graph"):
        sx.compare(model(CHAIN), chain_feeds(), against="nope")


def test_the_command_names_the_node(model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(model(CHAIN), tmp_path / "m.onnx")
    arguments = ["compare", str(tmp_path / "m.onnx"), "--rtol", "0", "--atol", "0", "--no-cache"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "the first value that differs:\n  'c', which Mul 'node_2' makes: DIFFERS float32[3, 6]" in result.output
    found = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert found["first"]["kernel"].startswith("matmul") and found["search"]["compared"] > 0
    assert CliRunner().invoke(cli, [*arguments, "--with", "nope"]).exit_code == 2


def test_the_command_on_nodes_without_names(model: Make, tmp_path: Path) -> None:
    made = model(CHAIN)
    for node in made.graph.node:
        node.ClearField("name")
    onnx.save(made, tmp_path / "m.onnx")
    arguments = ["compare", str(tmp_path / "m.onnx"), "--rtol", "0", "--atol", "0", "--no-cache"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "the first value that differs:\n  'c', which Mul makes: DIFFERS float32[3, 6]" in result.output


def test_numbers_of_all_kinds() -> None:
    big = np.array([2**62], np.int64)
    assert not compare_arrays(big, big + 1, 0, 0)["equal"]  # equal as float64
    row = compare_arrays(np.array([1, np.nan], np.float32), np.array([np.nextafter(np.float32(1), 2), np.nan]), 0, 0)
    assert not row["equal"]  # of another type
    one, next_ = np.array([1.0], np.float32), np.nextafter(np.array([1.0], np.float32), np.float32(2))
    row = compare_arrays(one, next_, 0, 0)
    assert (row["max_ulp"], row["differing"], row["at"]) == (1, 1, [0]) and 0 < row["max_rel"] < 1.3e-7
    zeros = compare_arrays(np.array(-0.0), np.array(0.0), 0, 0)
    assert zeros["equal"] and zeros["max_ulp"] == 0
    infinite = compare_arrays(np.array([1.0]), np.array([np.inf]), 1e-3, 1e-3)
    assert not infinite["equal"] and infinite["max_abs"] == np.inf
    assert compare_arrays(np.array([1 + 1j]), np.array([1 + 1.5j]), 0, 0)["max_abs"] == 0.5
    row = compare_values([np.zeros(2), np.ones(3)], [np.zeros(2), np.zeros(3)], 0, 0)
    assert row["note"] == "element 1 of the sequence: max abs 1, rel inf, ulp 4607182418800017408"
    assert compare_values([{"a": 1.0, "b": 2.0}], [{"a": 1.0, "b": 2.000001}], 1e-3, 0)["equal"]
    assert not compare_values([{"a": 1.0}], [{"b": 1.0}], 1e-3, 0)["equal"]
    assert not compare_values(np.zeros(2), [np.zeros(2)], 0, 0)["equal"]
    assert compare_values([np.zeros(2)], [np.zeros(2)], 0, 0)["equal"]
    assert not compare_arrays(np.array(["a"], object), np.array(["b"], object), 0, 0)["equal"]
