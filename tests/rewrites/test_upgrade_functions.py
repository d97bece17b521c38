"""Instances of local functions: references resolved, absent inputs absent, calls of calls, and written as the call."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, parser
from sardonyx.dialects import onnx
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import ModelError
from sardonyx.semantics.interpreter import run_graph

import sardonyx as sx

X = np.array([-1.0, 2.0, 5.0], np.float32)


def reference(op_type: str, inputs: list[str], outputs: list[str], attribute: str, of: str, kind: int) -> NodeProto:
    node = helper.make_node(op_type, inputs, outputs)
    node.attribute.add(name=attribute, ref_attr_name=of, type=kind)
    return node


def function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[NodeProto], opset: int = 18, **fields: object
) -> FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, **fields)


def model(nodes: list[NodeProto], functions: list[FunctionProto], outputs: list[str], opset: int = 18) -> ModelProto:
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_empty_tensor_value_info(o) for o in outputs])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def call(function: str, inputs: list[str], outputs: list[str], **attributes: object) -> NodeProto:
    return helper.make_node(function, inputs, outputs, domain="local", **attributes)


def results(m: ModelProto) -> list[np.ndarray]:
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    module.verify()
    assert not any(isinstance(op, onnx.CallOp) for op in main_of(module).walk())
    assert export_model(module, weights) == m
    found = run_graph(module, weights, {"x": X})
    return [found[o.name] for o in m.graph.output]


SCALE = function(
    "Scale",
    ["p", "low", "high"],
    ["s", "t"],
    [
        reference("Constant", [], ["k"], "value_float", "alpha", AttributeProto.FLOAT),
        helper.make_node("Mul", ["p", "k"], ["m"], name="times"),
        helper.make_node("Clip", ["m", "low", "high"], ["s"]),
        helper.make_node("Neg", ["m"], ["t"]),
    ],
    attribute_protos=[helper.make_attribute("alpha", 0.5)],
)


def test_attributes_and_their_defaults() -> None:
    m = model([call("Scale", ["x"], ["a"], alpha=3.0), call("Scale", ["x"], ["b"])], [SCALE], ["a", "b"])
    given, default = results(m)
    assert given.tolist() == [-3, 6, 15]
    assert default.tolist() == [-0.5, 1, 2.5]


def test_absent_inputs_and_outputs() -> None:
    zero = helper.make_node("Constant", [], ["z"], value_float=0.0)
    nodes = [zero, call("Scale", ["x", "", "z"], ["", "b"], alpha=1.0), call("Scale", ["x", "z"], ["a"])]
    found = results(model(nodes, [SCALE], ["b", "a"]))
    assert found[0].tolist() == [1, -2, -5]
    assert found[1].tolist() == [0, 1, 2.5]


def test_a_needed_input_that_the_call_leaves_out() -> None:
    module, weights = import_model(model([call("Scale", [""], ["a"], name="empty")], [SCALE], ["a"]))
    with pytest.raises(ModelError, match="needs 'A', which the call leaves out"):
        upgrade_opset(module, weights)


def test_too_many_inputs() -> None:
    module, weights = import_model(model([call("Scale", ["x"] * 4, ["a"])], [SCALE], ["a"]))
    with pytest.raises(ModelError, match=r"Scale calls local\.Scale with 4 inputs, and it has 3"):
        upgrade_opset(module, weights)


def test_attributes_that_pass_through_a_call() -> None:
    inner = call("Scale", ["q"], ["r"])
    inner.attribute.add(name="alpha", ref_attr_name="factor", type=AttributeProto.FLOAT)
    outer = function("Outer", ["q"], ["r"], [inner], attributes=["factor"])
    nodes = [call("Outer", ["x"], ["a"], factor=2.0), call("Outer", ["x"], ["b"])]
    given, default = results(model(nodes, [outer, SCALE], ["a", "b"]))
    assert given.tolist() == [-2, 4, 10]
    assert default.tolist() == [-0.5, 1, 2.5]


def test_functions_have_opsets_of_their_own() -> None:
    """The same Squeeze node, of opset 11 in the function and of 18 in the graph."""
    old = function("Old", ["q"], ["r"], [helper.make_node("Squeeze", ["q"], ["r"], axes=[0])], opset=11)
    nodes = [
        helper.make_node("Constant", [], ["zero"], value_ints=[0]),
        helper.make_node("Unsqueeze", ["x", "zero"], ["u"]),
        call("Old", ["u"], ["a"]),
    ]
    (found,) = results(model(nodes, [old], ["a"]))
    assert found.tolist() == X.tolist()


def body(reads: str, op_type: str) -> GraphProto:
    nodes = [helper.make_node(op_type, [reads], ["inner"]), call("Scale", ["inner"], ["o"], alpha=10.0)]
    return helper.make_graph(nodes, op_type, [], [helper.make_empty_tensor_value_info("o")])


def test_calls_in_bodies_of_functions() -> None:
    branch = helper.make_node("If", ["c"], ["r"], then_branch=body("q", "Neg"), else_branch=body("q", "Abs"))
    chooser = function("Choose", ["q", "c"], ["r"], [branch])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["c"], to=TensorProto.BOOL),
        call("Choose", ["x", "c"], ["a"]),
    ]
    (found,) = results(model(nodes, [chooser, SCALE], ["a"]))
    assert found.tolist() == [10, -20, -50]


def test_an_output_that_is_an_input() -> None:
    same = function("Same", ["q"], ["q"], [])
    (found,) = results(model([call("Same", ["x"], ["u"]), helper.make_node("Neg", ["u"], ["a"])], [same], ["a"]))
    assert found.tolist() == [1, -2, -5]


def test_instances_know_where_they_are_from() -> None:
    module, weights = import_model(model([call("Scale", ["x"], ["a"], name="here")], [SCALE], ["a"]))
    upgrade_opset(module, weights)
    mul = next(op for op in main_of(module).walk() if isinstance(op, onnx.MulOp))
    table = onnx.node_table(mul)
    assert [table[i].name for i in onnx.origin_of(mul)] == ["here", "times"]
    assert onnx.value_name(mul.C) == "here/m"
    assert [onnx.value_name(v) for v in main_of(module).body.block.last_op.operands] == ["a"]


def test_a_call_in_a_body_of_the_graph() -> None:
    branch = helper.make_node("If", ["c"], ["a"], then_branch=body("x", "Neg"), else_branch=body("x", "Abs"))
    nodes = [helper.make_node("Constant", [], ["c"], value=helper.make_tensor("t", TensorProto.BOOL, [], [1])), branch]
    (found,) = results(model(nodes, [SCALE], ["a"]))
    assert found.tolist() == [10, -20, -50]


def test_names_inside_of_instances_are_unique() -> None:
    outer = function("Outer", ["q"], ["r"], [call("Scale", ["q"], ["t"], name="a"), call("Scale", ["t"], ["r"])])
    module, weights = import_model(model([call("Outer", ["x"], ["y"])], [outer, SCALE], ["y"]))
    upgrade_opset(module, weights)
    names = [onnx.value_name(op.results[0]) for op in main_of(module).walk() if isinstance(op, onnx.MulOp)]
    assert names == ["y/a/m", "y/r/m"]


def test_one_function_for_several_types() -> None:
    """A call decides the types; equal instances are one kernel, and others are compiled for what they are."""
    twice = function(
        "Twice", ["p"], ["s"], [helper.make_node("Softmax", ["p"], ["t"]), helper.make_node("Add", ["t", "p"], ["s"])]
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [call("Twice", [name], [f"{name}2"]) for name in ("a", "b", "c", "d")],
        "g",
        [info("a", TensorProto.FLOAT, ["N", 4]), info("b", TensorProto.FLOAT, ["M", 4]),
         info("c", TensorProto.DOUBLE, ["N", 4]), info("d", TensorProto.FLOAT, [2, "N", 3])],
        [helper.make_empty_tensor_value_info(f"{name}2") for name in ("a", "b", "c", "d")],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    made = helper.make_model(graph, opset_imports=imports, functions=[twice], ir_version=10)
    program = sx.compile(made)
    report = program.explain().to_dict()
    assert len(report["kernels"]) == 4 and len(report["functions"]) == 3
    rng = np.random.default_rng(0)
    shapes = {"a": (2, 4), "b": (3, 4), "c": (2, 4), "d": (2, 2, 3)}
    feeds = {n: rng.random(s).astype(np.float64 if n == "c" else np.float32) for n, s in shapes.items()}
    for name, x in feeds.items():
        soft = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(program(feeds)[f"{name}2"], soft / soft.sum(-1, keepdims=True) + x, rtol=1e-5)


def test_functions_that_double_are_compiled_once() -> None:
    """256 instances of one operator."""
    tower = [function("F0", ["p"], ["s"], [helper.make_node("Softmax", ["p"], ["s"])])]
    for k in range(1, 9):
        tower.append(
            function(f"F{k}", ["p"], ["s"], [call(f"F{k - 1}", ["p"], ["m"]), call(f"F{k - 1}", ["m"], ["s"])])
        )
    report = sx.compile(model([call("F8", ["x"], ["y"])], tower, ["y"]), fuse=False).explain().to_dict()
    assert len(report["kernels"]) == 256 and len(report["functions"]) == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("y = l.f (x, x)", "node f calls l.f with 2 inputs, and it has 1"),
        ("y, z = l.f (x)", "node f calls l.f with 2 outputs, and it has 1"),
    ],
)
def test_calls_that_do_not_fit(call: str, text: str) -> None:
    head = '<ir_version: 10, opset_import: ["" : 21, "l" : 1]> '
    function = '<domain: "l", opset_import: ["" : 21]> f (x) => (y) { y = Neg (x) }'
    model = parser.parse_model(f"{head} g (float[N] x) => (float[N] y) {{ {call} }} {function}")
    with pytest.raises(sx.ModelError, match=text):
        sx.compile(model)
