"""What breaks the schema, and what users' own parts do wrong: one clear error that names the node."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from sardonyx.dialects import onnx as ops
from sardonyx.rewrites.driver import Pattern
from xdsl.dialects.builtin import TensorType

import sardonyx as sx


def model(text: str, opset: int = 22, *domains: str) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = helper.make_model(parser.parse_graph(text), opset_imports=imports, ir_version=10)
    made.graph.node[-1].name = "last"
    return made


@pytest.mark.parametrize(
    ("graph", "opset", "text"),
    [
        ("(int64[2] x) => (int64[2] y) { y = Sigmoid(x) }", 9,
         "onnx.Sigmoid 'last' (opset 9): input 0 ('X') is int64; Sigmoid-13 takes bfloat16, double, float or float16"),
        ("(bool[2] x) => (bool[2] y) { y = Relu(x) }", 14, "input 0 ('X') is bool; Relu-14 takes bfloat16, "),
        ("(float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }", 14,
         "input 1 ('B') is int64, and input 0 ('A') is float; both are to be of one type"),
        ("(float[2] x) => (float[2] y) { y = Concat <axis = 5> (x, x) }", 13,
         "its attribute 'axis' is 5, out of range for rank 1: -1 to 0"),
        ("(float[2] x) => (float[2] y) { y = Softmax <axis = 7> (x) }", 11,
         "onnx.Flatten of Softmax 'last' (opset 11)"),
        ("(float[2, 3] x) => (float[A, B] y) { y = Transpose <perm = [0, 0]> (x) }", 13,
         "its attribute 'perm' is [0, 0], and must list each of the axes 0 to 1 once"),
        ("(float[2] x) => (float[2] y) { y = Cast <to = 77> (x) }", 13, "'to' is 77, which is no element type; there "),
        ("(float[2] x) => (float[2] y) { y = Gelu <approximate = \"bogus\"> (x) }", 20,
         "its attribute 'approximate' is 'bogus', and must be 'none' or 'tanh'"),
        ("(float[1, 2, 3] x, float[1, 4, 3] w, float[1, 4, 4] r) => (float[A, B, C, D] y) "
         "{ y = RNN <hidden_size = 4, activations = [\"Bogus\"]> (x, w, r) }", 22,
         "'activations' has 'Bogus', and must"),
        ("(float[1, 1, 5] x) => (float[1, 1, A] y) { y = MaxPool <kernel_shape = [2], strides = [0]> (x) }", 22,
         "its attribute 'strides' is [0], and must be at least 1"),
        ("(float[1, 1, 5] x) => (float[1, 1, A] y) { y = MaxPool <kernel_shape = [2, 2]> (x) }", 22,
         "its attribute 'kernel_shape' has 2 numbers, and must have 1 for rank 3"),
        ("(float[1, 2, 5] x, float[4, 2, 1] w, float[3] b) => (float[1, 4, 5] y) { y = Conv (x, w, b) }", 22,
         "axis 0 of input 2 ('B'): 3 == 4 cannot hold"),
        ("(float[3] x, int64[2, 2] s) => (float[A] y) { y = Reshape(x, s) }", 22,
         "input 1 ('shape') has rank 2, and must have 1"),
        ("() => (float[A] y) { y = Constant () }", 22, "it must have one of the attributes 'value_"),
    ],
)  # fmt: skip
def test_what_the_schema_does_not_allow(graph: str, opset: int, text: str) -> None:
    with pytest.raises(sx.ModelError) as caught:
        sx.compile(model(f"g {graph}", opset))
    assert text in str(caught.value)
    assert "'last'" in str(caught.value)


def learned(operator: str, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", name="last", **attributes)
    x, y = helper.make_tensor_value_info("x", 1, ["N", 4]), helper.make_empty_tensor_value_info("y")
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=8)


TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [3, 0, 0], "n_targets": 1,
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"nodes_featureids": [4, 0, 0]}, "the numbers in 'nodes_featureids' are below 4: 5 <= 4 cannot hold"),
        ({"nodes_featureids": [-1, 0, 0]}, "its attribute 'nodes_featureids' has -1, and must be at least 0"),
        ({"target_ids": [0, 1]}, "the numbers in 'target_ids' are below 1: 2 <= 1 cannot hold"),
        ({"nodes_values": [0.5]}, "its attributes belong together, and have other lengths: 'nodes_treeids' 3, "),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "BOGUS"]}, "its attribute 'nodes_modes' is 'BOGUS', and must be"),
    ],
)
def test_tables_of_trees(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(sx.ModelError) as caught:
        sx.compile(learned("TreeEnsembleRegressor", **TREE | wrong))
    assert f"onnx.ml.TreeEnsembleRegressor 'last' (opset 3): {text}" in str(caught.value)


def test_lists_of_learned_operators_fit_the_features() -> None:
    for made, text in (
        (learned("Scaler", offset=[1.0, 2.0, 3.0], scale=[1.0]), "'offset' and the features: 4 == 3 cannot hold"),
        (learned("LinearRegressor", coefficients=[1.0] * 3), "the coefficients, for each target and feature: 4 <= 3"),
    ):
        with pytest.raises(sx.ModelError) as caught:
            sx.compile(made)
        assert text in str(caught.value)


def test_an_input_without_a_rank_is_a_program_for_each() -> None:
    made = model("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    made.graph.input[0].type.tensor_type.ClearField("shape")
    program = sx.compile(made, cache=False)
    for shape in ((), (3,), (2, 0), (2, 3, 1)):
        assert program(-np.ones(shape, np.float32))["y"].shape == shape


def test_pools_that_hang_over_a_small_input() -> None:
    text = (
        "g (float[1, 1, L] x) => (float[1, 1, M] y) {{ y = {} <kernel_shape = [3], strides = [2], ceil_mode = 1> (x) }}"
    )
    x = np.array([[[1, 4]]], np.float32)
    for op, value in (("MaxPool", 4.0), ("AveragePool", 2.5), ("LpPool", np.sqrt(17))):
        np.testing.assert_allclose(sx.compile(model(text.format(op)))(x)["y"], [[[value]]], rtol=1e-6)


def test_reshape_copies_an_axis_of_no_elements() -> None:
    made = model("g (float[0, 3] x) => (float[A, B] y) { s = Constant <value_ints = [0, -1]> () y = Reshape(x, s) }")
    assert sx.compile(made)(np.zeros((0, 3), np.float32))["y"].shape == (0, 3)


def test_relations_are_without_common_factors() -> None:
    made = model("g (float[N, 4] x) => (float[4] y) { s = Constant <value_ints = [4]> () y = Reshape(x, s) }")
    with pytest.raises(sx.InputError, match=r"N == 1 does not hold: 2 and 1 \(N is the size of 'x' axis 0\)"):
        sx.compile(made)(np.zeros((2, 4), np.float32))


def test_sizes_that_a_computed_shape_gives_are_named() -> None:
    text = """g (float[N, 4] x, int64[K] k) => (float[A, B] y) {
        zero = Constant <value_ints = [0]> () two = Constant <value_ints = [2]> ()
        a = Slice(k, zero, two) c = Mul(a, a) y = Reshape(x, c)
    }"""
    with pytest.raises(sx.InputError) as caught:
        sx.compile(model(text))(np.zeros((2, 4), np.float32), np.array([3, 2]))
    assert "u0 is a size that 'c' gives" in str(caught.value)
    assert "a computed size" not in str(caught.value)


# Parts of users


@sx.op("com.acme::Fails")
def fails(x: Any) -> Any:
    raise KeyError("nothing")


FAILS = "g (float[N] x) => (float[N] y) { y = com.acme.Fails(x) }"


def test_a_function_of_a_user_that_fails() -> None:
    with pytest.raises(sx.InputError) as caught:
        sx.compile(model(FAILS, 22, "com.acme"), ops=[fails])(np.zeros(2, np.float32))
    text = str(caught.value)
    assert "com.acme::Fails raised KeyError: 'nothing'" in text
    assert text.endswith("\n  --> node 'last'")
    assert caught.value.__cause__ is not None


def test_a_body_and_a_shape_rule_of_a_user_that_fail() -> None:
    body = sx.pointwise("com.acme::Fails", reference=lambda x: x, body=lambda s, x, t: s.nothing(x))
    rule = sx.op("com.acme::Fails", shape=lambda c: 1 / 0)(lambda x: x)
    for operator, text in (
        (body, "'last': the body of com.acme::Fails raised AttributeError: "),
        (rule, "'last': the shape rule of com.acme::Fails raised ZeroDivisionError: division by zero"),
    ):
        with pytest.raises(sx.InputError) as caught:
            sx.compile(model(FAILS, 22, "com.acme"), ops=[operator])
        assert text in str(caught.value)


@pytest.mark.parametrize("given", [3, "a", TensorType("f32", [3]), [1]], ids=["3", "a", "f32", "list"])  # type: ignore[list-item]
def test_a_shape_rule_that_gives_no_type(given: Any) -> None:
    rule = sx.op("com.acme::Fails", shape=lambda c: [given])(lambda x: x)
    with pytest.raises(sx.InputError, match=r"'last': the shape rule of com.acme::Fails gave .* which is no type"):
        sx.compile(model(FAILS, 22, "com.acme"), ops=[rule])


@pytest.mark.parametrize("result", [lambda x: x, lambda x: [x, x], lambda x: (x,)])
def test_a_function_that_gives_too_few_results(result: Callable[[Any], Any]) -> None:
    two = model("g (float[N] x) => (float[N] y, float[N] z) { y, z = com.acme.Fails(x) }", 22, "com.acme")
    rule = sx.op("com.acme::Fails", shape=lambda c: [c.type_of(0)] * 2)(result)
    with pytest.raises(sx.InputError, match="Fails gave 1 result for 2 outputs: several results are a tuple"):
        sx.compile(two, ops=[rule])(np.zeros(2, np.float32))


def test_a_node_may_leave_out_the_last_results() -> None:
    operator = sx.op("com.acme::Fails")(lambda x: (x + 1, x))
    x = np.zeros(2, np.float32)
    assert sx.compile(model(FAILS, 22, "com.acme"), ops=[operator])(x)["y"].tolist() == [1, 1]


class Breaks(Pattern):
    """Relu(x)  ->  an exception"""

    root = ops.ReluOp

    def rewrite(self, op: Any, rewriter: Any, /) -> None:
        raise LookupError("lost")


def test_a_pattern_of_a_user_that_fails() -> None:
    with pytest.raises(sx.InputError) as caught:
        sx.compile(model("g (float[N] x) => (float[N] y) { y = Relu(x) }"), patterns=[Breaks()])
    assert str(caught.value) == "pattern Breaks raised LookupError on onnx.Relu 'last': lost"
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_hosted_operator_that_fails() -> None:
    text = "g (int64[N] x, int64 i) => (int64[A] y) { s = SequenceConstruct(x, x) y = SequenceAt(s, i) }"
    program = sx.compile(model(text))
    with pytest.raises(sx.InputError) as caught:
        program(np.arange(3), np.array(5))
    assert "SequenceAt" in str(caught.value)
    assert str(caught.value).endswith("--> node 'last'")
    assert program(np.arange(3), np.array(-1))["y"].tolist() == [0, 1, 2]


def test_indices_of_a_sparse_constant() -> None:
    made = model("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    values = helper.make_tensor("w", 1, [1], [1.0])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, helper.make_tensor("i", 7, [1], [9]), [4]))
    with pytest.raises(sx.ModelError, match="'w' is sparse: an index is outside of the tensor, whose sizes are"):
        sx.compile(made)


# The face


def test_a_program_shows_what_it_takes_and_gives(digits: Path) -> None:
    shown = repr(sx.compile(digits))
    assert shown.startswith(
        "<Program digits: (image: float32[batch, 1, 8, 8]) -> (probabilities: float32[batch, 10]), "
    )
    assert shown.endswith(" kernels>")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [(["explain", "none.onnx"], 3, "none.onnx"), (["explain", "none.onnx", "--bogus"], 2, "--bogus")],
)
def test_errors_are_json_where_results_are(arguments: list[str], status: int, text: str) -> None:
    command = [sys.executable, "-m", "sardonyx", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    report = json.loads(done.stdout)
    assert text in report["error"]
    assert report["exit_code"] == status
    assert done.stderr == ""
