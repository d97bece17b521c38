"""Data, declarations and arguments that are wrong: one clear error that names the node, the operand and the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, parser
from xdsl.dialects import arith, math

import sardonyx as sx
from sardonyx.cli import cli

f32 = np.float32


def model(text: str, opset: int = 22) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    made = helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=imports, ir_version=10)
    made.graph.node[-1].name = "last"
    return made


def refused(made: onnx.ModelProto, *texts: str, **feeds: Any) -> None:
    with pytest.raises(sx.InputError) as caught:
        sx.compile(made)(feeds)
    for text in (*texts, "last"):
        assert text in str(caught.value)


# --- ArgMax and ArgMin over nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_an_index_along_an_empty_axis(op: str, keepdims: int) -> None:
    shape = "N, 1" if keepdims else "N"
    made = model(f"(float[N, M] x) => (int64[{shape}] y) {{ y = {op} <axis = -1, keepdims = {keepdims}> (x) }}")
    refused(made, f"onnx.{op}", "axis 1 of 'data'", "2 and 0", x=np.zeros((2, 0), f32))
    program = sx.compile(made)
    assert program(np.zeros((0, 0), f32))["y"].size == 0
    assert program(np.zeros((0, 3), f32))["y"].size == 0
    assert program(np.zeros((3, 1), f32))["y"].ravel().tolist() == [0, 0, 0]


def test_an_index_along_an_axis_of_the_size_0() -> None:
    with pytest.raises(sx.ModelError, match=r"onnx.ArgMax 'last' .*axis 0 of 'data'"):
        sx.compile(model("(float[0, 2] x) => (int64[2] y) { y = ArgMax <axis = 0, keepdims = 0> (x) }"))
    program = sx.compile(model("(float[0, 0] x) => (int64[1, 0] y) { y = ArgMax <axis = 0> (x) }"))
    assert program(np.zeros((0, 0), f32))["y"].shape == (1, 0)


# --- hosted operators -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float", "string"])
@pytest.mark.parametrize(
    ("repeats", "text"),
    [
        ([2, 2], "K == 1 does not hold: 2 and 1 (K is the size of 's' axis 0)"),
        ([-2], "a repeat of Tile (onnx.Tile 'last'): 0 <= v0 does not hold: 0 and -2 (v0 is a size that 's' gives)"),
    ],
)
def test_repeats_of_unknown_number(kind: str, repeats: list[int], text: str) -> None:
    made = model(f"({kind}[N] x, int64[K] s) => ({kind}[A] y) {{ y = Tile (x, s) }}")
    x = np.array(["a", "b", "c"], object) if kind == "string" else np.ones(3, f32)
    refused(made, text, x=x, s=np.array(repeats))


def test_a_hosted_operator_tells_its_operands() -> None:
    made = model("(string[N] x, int64[K] s) => (string[A] y) { y = Tile (x, s) }")
    told = f"(operands: string[3], int64[1] [{2**50}])\n  --> node"
    refused(
        made,
        f"Tile: a result needs {8 * 3 * 2**50} bytes",
        told,
        x=np.array(["a", "b", "c"], object),
        s=np.array([2**50]),
    )


# --- lengths of sequences ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("layout", [0, 1])
def test_lengths_of_sequences(op: str, gates: int, layout: int) -> None:
    sizes, result = ("2, T, 2", "2, T, 1, 2") if layout else ("T, 2, 2", "T, 1, 2, 2")
    made = model(
        f"(float[{sizes}] x, float[1, {2 * gates}, 2] w, float[1, {2 * gates}, 2] r, int32[B] l) => "
        f"(float[{result}] y) {{ y = {op} <hidden_size = 2, layout = {layout}> (x, w, r, , l) }}"
    )
    program = sx.compile(made)
    x = np.ones((2, 3, 2) if layout else (3, 2, 2), f32)
    w = np.ones((1, 2 * gates, 2), f32)
    for lengths, index in ([4, 1], 0), ([0, -1], 1), ([2**30, 1], 0):
        text = f"{op}: 'sequence_lens' has at index {index} the length {lengths[index]}, and must be in \\[0, 3\\]"
        with pytest.raises(sx.InputError, match=text) as caught:
            program(x=x, w=w, r=w, l=np.array(lengths, np.int32))
        assert "last" in str(caught.value)
        with pytest.raises((sx.InputError, ValueError), match="'sequence_lens' has at index"):
            sx.run(sx.lower(made, to="graph"), {"x": x, "w": w, "r": w, "l": np.array(lengths, np.int32)})
    assert np.all(np.isfinite(program(x=x, w=w, r=w, l=np.array([3, 0], np.int32))["y"]))
    with pytest.raises(sx.InputError, match="the batch of 'sequence_lens'"):
        program(x=x, w=w, r=w, l=np.array([3, 0, 1], np.int32))


# --- declarations -----------------------------------------------------------------------------------------------------


def test_an_element_type_that_is_declared_otherwise() -> None:
    with pytest.raises(sx.ModelError, match=r"'y' is declared tensor\(int64\), and is tensor\(float\)\n  --> .*'last'"):
        sx.compile(model("(float[N] x) => (int64[N] y) { y = Neg (x) }"))
    inner = model("(float[N] x) => (float[N] y) { z = Neg (x) y = Abs (z) }")
    inner.graph.value_info.append(helper.make_tensor_value_info("z", onnx.TensorProto.DOUBLE, None))
    with pytest.raises(sx.ModelError, match=r"'z' is declared tensor\(double\), and is tensor\(float\)"):
        sx.compile(inner)


def test_sizes_that_are_declared_otherwise_are_reported() -> None:
    program = sx.compile(model("(float[5] x) => (float[6, 1] y) { y = Neg (x) }"))
    assert program(np.ones(5, f32))["y"].shape == (5,)
    assert program.explain().to_dict()["contradicted"] == ["'y' is declared [6, 1], and has rank 1"]
    assert "'y' is declared [6, 1], and has rank 1" in str(program.explain())
    right = sx.compile(model("(float[5] x) => (float[5] y) { y = Neg (x) }"))
    assert "contradicted" not in right.explain().to_dict()


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ("(float[N] x) => (float[N] y) { y = Concat <axis = 0> (x, x) }", "'y' is declared [N], and its axis 0 is 2*N"),
        ("(float[N, M] x) => (float[M, N] y) { y = Neg (x) }", "'y' is declared [M, N], and its axis 0 is N"),
        ("(float[N, M] x) => (float[N, K] y) { y = Neg (x) }", None),
        ("(float[N, M] x) => (float[N, M] y) { y = Add (x, x) }", None),
        ("(float[N] x, float[M] z) => (float[N] y) { y = MatMul (x, z) }", "'y' is declared [N], and has rank 0"),
        ("(float[N] x, int64[1] n) => (float[N] y) { y = Expand (x, n) }", None),
    ],
)
def test_a_size_that_is_declared_by_the_name_of_another(graph: str, told: str | None, tmp_path: Path) -> None:
    made = model(graph)
    assert sx.compile(made).explain().to_dict().get("contradicted") == (None if told is None else [told])
    onnx.save(made, tmp_path / "m.onnx")
    told_by = CliRunner().invoke(cli, ["inspect", str(tmp_path / "m.onnx")])
    assert (told is not None) == ("the file declares otherwise" in told_by.output)
    assert (told or "1 nodes") in told_by.output


def test_declared_names_of_sizes_prove_nothing() -> None:
    """What reads the declared value sees the sizes that it has."""
    made = model("(float[N] x) => (float[A] y) { z = Concat <axis = 0> (x, x) y = Add (z, z) }")
    made.graph.value_info.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["N"]))
    x = np.arange(3, dtype=f32)
    np.testing.assert_array_equal(sx.compile(made)(x)["y"], 2 * np.concatenate([x, x]))


@pytest.mark.parametrize("opset", [0, -1])
def test_opsets_begin_at_1(opset: int) -> None:
    with pytest.raises(sx.ModelError, match=f"opset {opset} of ai.onnx; the first is 1"):
        sx.compile(model("(float[N] x) => (float[N] y) { y = Neg (x) }", opset))


# --- arguments --------------------------------------------------------------------------------------------------------


def test_operators_and_patterns_of_another_kind() -> None:
    made = model("(float[N] x) => (float[N] y) { y = Neg (x) }")
    for wrong in ["a"], "a", 3:
        for option in "ops", "patterns":
            with pytest.raises(sx.InputError, match=f"{option}( has .a.|=.*: a list of)"):
                sx.compile(made, **{option: wrong})  # pyright: ignore[reportArgumentType]
        with pytest.raises(sx.InputError, match=r"ops( has .a.|=.*: a list of)"):
            sx.lower(made, to="graph", ops=wrong)  # pyright: ignore[reportArgumentType]


def test_a_range_of_a_symbol_is_two_numbers() -> None:
    made = model("(float[N] x) => (float[N] y) { y = Neg (x) }")
    for wrong in {"N": 3}, {"N": (1, 2, 3)}, ["N"]:
        with pytest.raises(sx.InputError, match="dims"):
            sx.compile(made, dims=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "option", [{"threads": "a"}, {"target": "x"}, {"assume": 3}, {"assume": [3]}, {"schedule": 3}, {"patterns": [int]}]
)
def test_options_of_another_kind(option: dict[str, Any]) -> None:
    made = model("(float[N] x) => (float[N] y) { y = Neg (x) }")
    with pytest.raises(sx.InputError, match=next(iter(option))):
        sx.compile(made, **option)


def test_rewrites_and_runs_of_another_kind() -> None:
    made = model("(float[N] x) => (float[N] y) { y = Neg (x) }")
    with pytest.raises(sx.InputError, match="patterns has 'a'"):
        sx.rewrite(made, ["a"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(sx.InputError, match="inputs=3: a mapping from names to arrays"):
        sx.run(sx.lower(made, to="graph"), 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(sx.InputError, match="3 is no operator name"):
        sx.op(3)  # pyright: ignore[reportArgumentType]


def test_text_is_no_module() -> None:
    with pytest.raises(sx.InputError, match=r"a module is needed, .* str"):
        sx.run("func.func @main(", {})  # pyright: ignore[reportArgumentType]


# --- bodies of plug-ins -----------------------------------------------------------------------------------------------


def test_bodies_of_integers() -> None:
    size = sx.pointwise("mine::Size", reference=np.abs, body=lambda s, x, t: s.unary(math.AbsIOp, x))
    made = model("(int32[N] x) => (int32[N] y) { y = mine.Size (x) }")
    assert sx.compile(made, ops=[size])(np.array([-3, 2], np.int32))["y"].tolist() == [3, 2]


def test_a_body_with_an_op_that_has_no_machine_code() -> None:
    root = sx.pointwise("mine::Root", reference=np.cbrt, body=lambda s, x, t: s.unary(math.CbrtOp, x))
    made = model("(float[N] x) => (float[N] y) { y = mine.Root (x) }")
    with pytest.raises(sx.UnsupportedError, match=r"'last': the body of mine::Root has math.cbrt of f32, which has no"):
        sx.compile(made, ops=[root])


def test_a_body_that_is_of_no_use_for_an_element_type() -> None:
    bodies = {
        "math.exp": lambda s, x, t: s.unary(math.ExpOp, x),
        "arith.divf": lambda s, x, t: s.divf(x, x),
        "arith.addf": lambda s, x, t: s.emit(arith.AddfOp.create(operands=[x, x], result_types=[x.type])),
    }
    for name, body in bodies.items():
        grown = sx.pointwise("mine::Grown", reference=np.exp, body=body)
        made = model("(int32[N] x) => (int32[N] y) { y = mine.Grown (x) }")
        with pytest.raises(sx.UnsupportedError, match=rf"'last': the body of mine::Grown has {name} of i32"):
            sx.compile(made, ops=[grown])
        floats = model("(float[N] x) => (float[N] y) { y = mine.Grown (x) }")
        assert sx.compile(floats, ops=[grown])(np.zeros(2, f32))["y"].shape == (2,)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_reduction_of_a_scalar_along_an_axis(keepdims: int) -> None:
    graph = f"g (float x, int64[1] a) => (float y) {{ y = ReduceProd <keepdims = {keepdims}> (x, a) }}"
    with pytest.raises(sx.ModelError, match=r"ReduceProd .*: a scalar has no axis to reduce"):
        sx.compile(helper.make_model(parser.parse_graph(graph), opset_imports=[helper.make_opsetid("", 21)]))


def test_containers_of_something_else() -> None:
    graph = "g (seq(float[2, N]) s, int64 i) => (float[2, M] y) { a = SequenceAt (s, i) y = Neg (a) }"
    program = sx.compile(helper.make_model(parser.parse_graph(graph), opset_imports=[helper.make_opsetid("", 21)]))
    one = np.ones((2, 3), np.float32)
    assert program([one, one[:, :1]], np.array(1))["y"].shape == (2, 1)
    for wrong, text in (
        (one, "input 's' is a ndarray, expected a list"),
        (None, "input 's' is a NoneType, expected a list"),
        ([one, one[0]], r"input 's\[1\]' has 1 axis \(3,\), expected 2 axes"),
        ([one.astype(np.float64)], r"input 's\[0\]' is float64, expected float32"),
        (["text"], r"input 's\[0\]' is a str, expected an array"),
    ):
        with pytest.raises(sx.InputError, match=text):
            program(wrong, np.array(0))


def test_a_dictionary_of_something_else() -> None:
    keys = helper.make_map_type_proto(
        onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    node = helper.make_node("DictVectorizer", ["d"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    infos = [helper.make_value_info("d", keys)], [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    program = sx.compile(helper.make_model(helper.make_graph([node], "g", *infos), opset_imports=imports))
    assert program(d={"b": 2.0})["y"].reshape(-1).tolist() == [0, 2]
    with pytest.raises(sx.InputError, match="input 'd' has the key 3, expected a str"):
        program(d={3: 2.0})
    with pytest.raises(sx.InputError, match="input 'd' is a list, expected a dictionary"):
        program(d=[2.0])
