"""Every form of `Constant` and sparse initializers, in each place from which a program reads a constant as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import sardonyx as sx


def sparse(indices: Any, *, name: str = "") -> Any:
    values = numpy_helper.from_array(np.array([5.0, 7.0], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64)), [2, 3])


DENSE = np.array([[0, 5, 0], [7, 0, 0]], np.float32)
LONG = list(range(300))
FORMS: list[tuple[str, Any, np.ndarray[Any, Any]]] = [
    ("value_float", 2.5, np.array(2.5, np.float32)),
    ("value_floats", [2.5, -0.0], np.array([2.5, -0.0], np.float32)),
    ("value_floats", [n / 3 for n in LONG], np.array([n / 3 for n in LONG], np.float32)),
    ("value_int", -3, np.array(-3, np.int64)),
    ("value_ints", [4], np.array([4], np.int64)),
    ("value_ints", LONG, np.array(LONG, np.int64)),
    ("value_string", "ab", np.array("ab", object)),
    ("value_strings", ["ab", ""], np.array(["ab", ""], object)),
    ("sparse_value", sparse([1, 3]), DENSE),
    ("sparse_value", sparse([[0, 1], [1, 0]]), DENSE),
]


def constant(form: str, value: Any) -> NodeProto:
    return helper.make_node("Constant", [], ["c"], **{form: value})


def model(nodes: list[NodeProto], array: np.ndarray[Any, Any]) -> ModelProto:
    element = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    inputs = [helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    outputs = [helper.make_tensor_value_info("y", element, array.shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def run(made: ModelProto, expected: np.ndarray[Any, Any]) -> None:
    program = sx.compile(made)
    for go in (True, False):
        found = program(np.array(go))["y"]
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert_array_equal(found, expected)


@pytest.mark.parametrize(("form", "value", "array"), FORMS)
def test_as_an_output(form: str, value: Any, array: np.ndarray[Any, Any]) -> None:
    node = constant(form, value)
    node.output[0] = "y"
    run(model([node], array), array)


@pytest.mark.parametrize(("form", "value", "array"), FORMS)
def test_as_the_result_of_a_branch(form: str, value: Any, array: np.ndarray[Any, Any]) -> None:
    element = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    body = helper.make_graph(
        [constant(form, value)], "b", [], [helper.make_tensor_value_info("c", element, array.shape)]
    )
    run(model([helper.make_node("If", ["go"], ["y"], then_branch=body, else_branch=body)], array), array)


def test_as_the_start_and_the_scan_output_of_a_loop() -> None:
    nodes = [
        helper.make_node("Constant", [], ["s"], value_float=2.0),
        helper.make_node("Add", ["v", "s"], ["w"]),
        helper.make_node("Identity", ["on"], ["more"]),
        constant("value_floats", [1.0, 3.0]),
    ]
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "b",
        [scalar("i", TensorProto.INT64, []), scalar("on", TensorProto.BOOL, []), scalar("v", TensorProto.FLOAT, [])],
        [
            scalar("more", TensorProto.BOOL, []),
            scalar("w", TensorProto.FLOAT, []),
            scalar("c", TensorProto.FLOAT, [2]),
        ],
    )
    outer = [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("Constant", [], ["start"], value_float=1.0),
        helper.make_node("Loop", ["n", "", "start"], ["last", "all"], body=body),
        helper.make_node("Add", ["last", "all"], ["y"]),
    ]
    expected = np.array([[8, 10]] * 3, np.float32)
    run(model(outer, expected), expected)


def test_as_an_attribute_of_a_function() -> None:
    made = model([helper.make_node("F", [], ["y"], domain="d", alpha=0.5)], np.array(0.5, np.float32))
    inner = helper.make_node("Constant", [], ["c"])
    inner.attribute.add(name="value_float", ref_attr_name="alpha", type=1)
    imports = [helper.make_opsetid("", 22)]
    made.functions.append(helper.make_function("d", "F", [], ["c"], [inner], imports, ["alpha"]))
    made.opset_import.add(domain="d", version=1)
    run(made, np.array(0.5, np.float32))


def test_a_sparse_one_as_an_operand() -> None:
    cast = helper.make_node("Cast", ["go"], ["x"], to=TensorProto.FLOAT)
    zero = helper.make_node("Mul", ["x", "z"], ["zero"])
    none = helper.make_node("Constant", [], ["z"], value_float=0.0)
    add = helper.make_node("Add", ["zero", "c"], ["y"])
    run(model([cast, none, zero, constant("sparse_value", sparse([1, 3])), add], DENSE), DENSE)


def test_a_sparse_initializer() -> None:
    made = model([helper.make_node("Identity", ["c"], ["y"])], DENSE)
    made.graph.sparse_initializer.append(sparse([1, 3], name="c"))
    run(made, DENSE)


@pytest.mark.parametrize("indices", [[1, 6], [-1, 0], [[0, 1], [0, 3]], [1]])
def test_a_sparse_one_with_wrong_indices(indices: Any) -> None:
    made = model([constant("sparse_value", sparse(indices)), helper.make_node("Identity", ["c"], ["y"])], DENSE)
    with pytest.raises(sx.ModelError, match=r"Constant(.|\n)*ind"):
        sx.compile(made)


def test_an_export_keeps_the_form() -> None:
    for form, value, array in FORMS:
        made = model([constant(form, value), helper.make_node("Identity", ["c"], ["y"])], array)
        assert sx.rewrite(made, []).SerializeToString() == made.SerializeToString()
