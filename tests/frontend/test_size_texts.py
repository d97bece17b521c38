"""Sizes of inputs as files write them, in and out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sardonyx.dialects.dims import as_dim
from sardonyx.frontend.size_texts import dim_of_text

import sardonyx as sx


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Max(1, s0)", "max(s0, 1)"),
        ("Min(4, Max(s0, s1))", "min(max(s0, s1), 4)"),
        ("FloorDiv(s0, 2) + 1", "s0//2 + 1"),
        ("Mod(s0, 4)", "s0 % 4"),
        ("PythonMod(s0 + 1, s1)", "(s0 + 1) % s1"),
        ("s0**3", "s0*s0*s0"),
        ("floor(s0/2)", "s0//2"),
        ("ceiling(s0/2)", "(s0 + 1)//2"),
        ("ceil(s0/2)", "(s0 + 1)//2"),
        ("CeilToInt(IntTrueDiv(s0 - 1, 2))", "s0//2"),
        ("((s0 - 1)//2) + 1", "(s0 + 1)//2"),
    ],
)
def test_what_torch_and_sympy_print_is_read(text: str, meaning: str) -> None:
    assert dim_of_text(text) is as_dim(meaning)


@pytest.mark.parametrize(
    "text", ["batch size", "?", "-1", "p2o.Dim.0", "s0/2", "s0**-1", "s0**99", "f(s0)", "Max()", "Mod(s0)", "s0**s1"]
)
def test_other_text_is_no_expression(text: str) -> None:
    assert dim_of_text(text) is None


def exps(*shapes: list[str]) -> onnx.ModelProto:
    """A model that takes exp of each input."""
    names = range(len(shapes))
    graph = helper.make_graph(
        [helper.make_node("Exp", [f"x{i}"], [f"y{i}"]) for i in names],
        "g",
        [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(
    "shapes",
    [
        [["a + b"]],
        [["batch*heads", "s"]],
        [["s0//2"], ["s0//2"]],
        [["a*a"]],
        [["batch size"], ["batch size"]],
        [["s0"], ["Max(1, s0)"]],
        [["s0"], ["s0**2"]],
        [["a"], ["a + b"]],
    ],
)
def test_sizes_keep_their_text(shapes: list[list[str]]) -> None:
    out = sx.infer_shapes(exps(*shapes))
    assert [[d.dim_param for d in o.type.tensor_type.shape.dim] for o in out.graph.output] == shapes


def test_an_expression_stands_for_its_name_in_others() -> None:
    model = exps(["a*b", "4"])
    model.graph.node[0].op_type = "Identity"
    model.graph.node.append(helper.make_node("Concat", ["y0", "x0"], ["z"], axis=0))
    model.graph.output[0].name = "z"
    assert sx.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "2*a*b"


def run(model: onnx.ModelProto, *sizes: int) -> list[tuple[int, ...]]:
    program = sx.compile(model)
    return [np.shape(y) for y in program.run(None, {f"x{i}": np.zeros(n, np.float32) for i, n in enumerate(sizes)})]


def test_a_size_that_nothing_tells_is_a_name() -> None:
    assert run(exps(["s0//2"], ["s0//2"]), 3, 3) == [(3,), (3,)]
    with pytest.raises(sx.InputError, match="x1"):
        run(exps(["s0//2"], ["s0//2"]), 3, 4)
    assert run(exps(["a*a"]), 8) == [(8,)]


def test_a_size_that_others_tell_is_a_guard() -> None:
    assert run(exps(["a"], ["b"], ["a*b"]), 2, 3, 6) == [(2,), (3,), (6,)]
    with pytest.raises(sx.InputError, match="a\\*b"):
        run(exps(["a"], ["b"], ["a*b"]), 2, 3, 5)
    assert run(exps(["s0"], ["Max(1, s0)"]), 0, 1) == [(0,), (1,)]


def joined(first: str, second: str) -> tuple[list[str], list[str]]:
    """Texts of the sizes of two inputs, and of the first with itself and of the second, in the inferred model."""
    model = exps([first], [second])
    model.graph.node.append(helper.make_node("Concat", ["y0", "x0"], ["z"], axis=0))
    model.graph.output[0].name = "z"
    before = model.SerializeToString()
    inferred = sx.infer_shapes(model).graph
    assert model.SerializeToString() == before
    found = [[i.type.tensor_type.shape.dim[0].dim_param for i in side] for side in (inferred.input, inferred.output)]
    return found[0], found[1]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("batch size", "batch_size"),
        ("batch.size", "batch_size"),
        ("N/2", "N_2"),
        ("min", "min_"),
        ("\u03b1", "s_"),
        ("v 1234567890123", "v_1234567890123"),
        ("?", "x0_0"),
        ("", "x0_0"),
    ],
)
def test_a_name_in_an_expression_is_told_by_an_input(text: str, name: str) -> None:
    inputs, outputs = joined(text, "other size")
    assert outputs == [f"2*{name}", "other size"] and inputs == [name, "other size"]


def test_a_text_gives_way_wherever_it_stands() -> None:
    assert joined("batch size", "batch size") == (["batch_size", "batch_size"], ["2*batch_size", "batch_size"])
    assert joined("batch size", "batch_size") == (["batch_size_", "batch_size"], ["2*batch_size_", "batch_size"])
    assert joined("batch size", "batch.size") == (["batch_size", "batch.size"], ["2*batch_size", "batch.size"])
