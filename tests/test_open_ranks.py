"""Models of which a rank rests on the inputs of a call: one program for each answer, made when it is first met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, helper, numpy_helper

import sardonyx as sx


def model(inputs: str, nodes: str, initializers: str = "") -> ModelProto:
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => (float[n] y) {initializers} {{ {nodes} }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def ramp(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_squeeze_without_axes_has_a_program_for_each_rank() -> None:
    program = sx.compile(model("float[A, 1, B] x", "r = Neg(x) y = Squeeze(r)"), cache=False)
    assert program.outputs[0].shape == ("...",) and program.explain().to_dict()["hosted"] == []
    for a, b in ((2, 3), (1, 3), (2, 1), (1, 1), (0, 4), (1, 0), (5, 2)):
        x = ramp(a, 1, b)
        got = program(x=x)["y"]
        assert got.shape == np.squeeze(x).shape and np.array_equal(got, -np.squeeze(x))
        assert np.array_equal(program.run(["y"], {"x": x})[0], got)
    report = program.explain()
    assert sorted(report.to_dict()["variants"]) == ["1 <= max(A - (1), 1 - (A))", "A == 1"]
    assert report.to_dict()["hosted"] == [] and "kernel calls" in str(report)


def test_rules_follow_a_rank_that_a_condition_tells() -> None:
    """What follows is compiled for the rank, too: a product of a matrix or of a vector."""
    program = sx.compile(model("float[A, 3] x, float[3, N] w", "s = Squeeze(x) y = MatMul(s, w)"), cache=False)
    for a in (1, 2, 4):
        x, w = ramp(a, 3), ramp(3, 5)
        assert np.allclose(program(x, w)["y"], np.squeeze(x) @ w)


def test_gather_nd_by_indices_of_unknown_depth() -> None:
    program = sx.compile(model("float[A, B] x, int64[N, K] i", "y = GatherND(x, i)"), cache=False)
    x = ramp(3, 4)
    assert np.array_equal(program(x, np.array([[2], [0]]))["y"], x[[2, 0]])
    assert np.array_equal(program(x, np.array([[2, 1], [0, 3]]))["y"], x[[2, 0], [1, 3]])
    with pytest.raises(sx.InputError, match="K == 3"):
        program(x, np.array([[2, 1, 0]]))


def test_reshape_to_a_shape_of_any_length() -> None:
    program = sx.compile(model("float[A, B] x, int64[R] s", "y = Reshape(x, s)"), cache=False)
    x = ramp(4, 6)
    for shape in ((24,), (2, 3, 4), (-1, 8), (1, 1, 24, 1)):
        assert np.array_equal(program(x, np.array(shape))["y"], x.reshape(shape))
    assert program(ramp(1, 1), np.array([], np.int64))["y"].shape == ()


def test_expand_and_constant_of_shape_of_any_length() -> None:
    nodes = "z = ConstantOfShape(s) e = Expand(x, s) y = Add(z, e)"
    program = sx.compile(model("float[B] x, int64[R] s", nodes), cache=False)
    for shape in ((3,), (2, 3), (2, 1, 3)):
        assert np.array_equal(program(ramp(3), np.array(shape))["y"], np.broadcast_to(ramp(3), shape))


def test_an_element_of_an_input_tells_a_rank() -> None:
    nodes = """c = Equal(k, one) s = Squeeze(c)
        y = If<then_branch = t () => (float[p] a) { a = Reshape(x, m) },
               else_branch = e () => (float[p, q] b) { b = Neg(x) }>(s)"""
    program = sx.compile(
        model("float[A, B] x, int64[1] k", nodes, "<int64[1] one = {1}, int64[1] m = {-1}>"), cache=False
    )
    x = ramp(2, 3)
    assert np.array_equal(program(x, np.array([1]))["y"], x.ravel())
    assert np.array_equal(program(x, np.array([7]))["y"], -x)


def test_two_questions_one_after_the_other() -> None:
    program = sx.compile(model("float[A] x, float[B] w", "s = Squeeze(x) t = Squeeze(w) y = Add(s, t)"), cache=False)
    for a, b in ((1, 1), (1, 3), (3, 1), (3, 3)):
        assert np.array_equal(program(ramp(a), ramp(b))["y"], np.squeeze(ramp(a)) + np.squeeze(ramp(b)))


def test_missing_and_wrong_inputs_are_the_callers_error() -> None:
    program = sx.compile(model("float[A, 1] x", "y = Squeeze(x)"), cache=False)
    with pytest.raises(sx.InputError, match="'x' is missing"):
        program()
    with pytest.raises(sx.InputError, match="axes"):
        program(np.float32(3))
    with pytest.raises(sx.InputError, match="no input named"):
        program(z=ramp(2, 1))


def test_a_call_bound_to_its_arrays() -> None:
    program = sx.compile(model("float[A, 1] x", "y = Squeeze(x)"), cache=False)
    x = ramp(3, 1)
    assert np.array_equal(program.bind({"x": x})()["y"], x[:, 0])
    out = np.empty(3, np.float32)
    program.run_into({"y": out}, {"x": x})
    assert np.array_equal(out, x[:, 0])


def test_questions_and_answers_are_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path))
    file = tmp_path / "model.onnx"
    onnx.save(model("float[A, 1] x", "y = Squeeze(x)"), file)
    assert np.array_equal(sx.compile(file)(ramp(3, 1))["y"], ramp(3))

    def no_compiler(*_: object, **__: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr("sardonyx.compiler.compile_fresh", no_compiler)
    again = sx.compile(file)
    assert again.seconds == {} and np.array_equal(again(ramp(3, 1))["y"], ramp(3))


def test_lower_names_what_to_assume() -> None:
    made = model("float[A, 1] x", "y = Squeeze(x)")
    with pytest.raises(sx.UnsupportedError, match="assume 'A == 1', or the contrary"):
        sx.lower(made, to="kernels")


FLAT_OR_NOT = """y = If (c) <
    then_branch = t () => (float[P] a) { k = Constant <value = int64[1] {-1}> () a = Reshape (x, k) },
    else_branch = e () => (float[R, S] b) { b = Neg (x) }
>"""


def branched(inputs: str, condition: str, after: str = "") -> ModelProto:
    return model(inputs, f"{condition} {FLAT_OR_NOT.replace('y =', 'z =')} y = Exp (z) {after}")


def either(x: np.ndarray[Any, Any], taken: bool) -> np.ndarray[Any, Any]:
    return np.exp(x.reshape(-1) if taken else -x)


@pytest.mark.parametrize("shape", ["", "[1]"])
def test_an_if_whose_condition_is_an_input(shape: str) -> None:
    program = sx.compile(branched(f"bool{shape} c, float[N, 4] x", ""), cache=False)
    for taken in (True, False, True):
        x = ramp(2, 4) / 8
        assert np.allclose(program(np.full([1] if shape else [], taken), x)["y"], either(x, taken))


def test_an_if_whose_condition_is_computed() -> None:
    """The condition has a program of its own, and each answer one without the If."""
    condition = "s = ReduceSum <keepdims = 0> (x) l = Constant <value = float {1.0}> () c = Less (s, l)"
    program = sx.compile(branched("float[N, 4] x", condition), cache=False)
    for x in (ramp(2, 4) / 8, -ramp(3, 4) / 8, ramp(1, 4)):
        got = program(x)["y"]
        want = either(x, bool(x.sum() < 1))
        assert got.shape == want.shape and np.allclose(got, want)
    assert sorted(program.explain().to_dict()["variants"]) == ["branch of If 0 == 0", "branch of If 0 == 1"]


def test_an_if_inside_of_another() -> None:
    outer = f"""y = If (d) <
        then_branch = u () => (float f) {{ {FLAT_OR_NOT.replace("y =", "f =")} }},
        else_branch = v () => (float g) {{ g = ReduceSum <keepdims = 0> (x) }}
    >"""
    program = sx.compile(model("bool c, bool d, float[N, 4] x", outer), cache=False)
    x = ramp(2, 4)
    for c in (True, False):
        assert np.array_equal(program(np.array(c), np.array(True), x)["y"], x.reshape(-1) if c else -x)
        assert program(np.array(c), np.array(False), x)["y"] == x.sum()


def test_a_condition_that_chance_decides_is_not_asked_for() -> None:
    draw = "r = RandomUniformLike (x) s = ReduceSum <keepdims = 0> (r) c = Less (s, s)"
    with pytest.raises(sx.UnsupportedError, match="the rank of a value is known at run time only"):
        sx.compile(branched("float[N, 4] x", draw), cache=False)


def test_a_sequence_of_tensors_of_no_declared_rank() -> None:
    made = model("seq(float) s, int64 i", "a = SequenceAt (s, i) y = Neg (a)")
    made.graph.input[0].type.sequence_type.elem_type.tensor_type.ClearField("shape")
    program = sx.compile(made, cache=False)
    for shape in ((2, 3), (4,), (1, 2, 2)):
        tensors = [ramp(*shape), ramp(*shape)[:1]]
        assert np.array_equal(program(tensors, np.array(1))["y"], -tensors[1])
    with pytest.raises(sx.InputError, match="input 's' has tensors of ranks 1 and 2"):
        program([ramp(2), ramp(2, 2)], np.array(1))


def of_any_rank(
    op: str, inputs: dict[str, np.ndarray[Any, Any]], outputs: int, domain: str = "", **attributes: Any
) -> ModelProto:
    """A model of one node whose inputs and outputs are declared without a shape."""
    made = helper.make_node(op, list(inputs), [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for name, a in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in made.output]
    imports = [helper.make_opsetid("", 27), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([made], "g", values, results), opset_imports=imports)


BRANCH = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [2.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 1],
    "class_weights": [1.0, 1.0],
    "classlabels_int64s": [7, 9],
}


def test_types_of_elements_are_known_without_ranks() -> None:
    """Where neither the type of an input of the same name nor an attribute of a type tells them."""
    x, ones = ramp(2, 4), np.ones(4, np.float32)
    program = sx.compile(of_any_rank("LayerNormalization", {"x": x, "s": ones}, 3), cache=False)
    want = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    assert np.allclose(program(x, ones)["y0"], want, atol=1e-4)
    b, scale = x.astype(np.uint8), np.array(0.5, np.float16)
    program = sx.compile(of_any_rank("DequantizeLinear", {"b": b, "s": scale}, 1), cache=False)
    assert np.array_equal(program(b, scale)["y0"], b.astype(np.float16) / 2)
    q = ramp(1, 2, 3)
    program = sx.compile(
        of_any_rank(
            "LinearAttention", {"q": q, "k": q, "v": q}, 2, q_num_heads=1, kv_num_heads=1, update_rule="linear"
        ),
        cache=False,
    )
    assert program(q, q, q)["y1"].shape == (1, 1, 3, 3)
    encode = {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5], "default_float": -1.0}
    keys = np.array([[2, 1, 0]])
    program = sx.compile(of_any_rank("LabelEncoder", {"k": keys}, 1, "ai.onnx.ml", **encode), cache=False)
    assert program(keys)["y0"].tolist() == [[1.5, 0.5, -1.0]]
    program = sx.compile(of_any_rank("TreeEnsembleClassifier", {"x": x}, 2, "ai.onnx.ml", **BRANCH), cache=False)
    assert program(x)["y0"].tolist() == [7, 9] and program.outputs[0].dtype == np.int64


def test_elements_that_attributes_and_defaults_tell() -> None:
    x, sizes = ramp(2, 3), np.array([2, 3])
    cases: list[tuple[str, dict[str, np.ndarray[Any, Any]], type, tuple[int, ...], dict[str, Any]]] = [
        ("ConstantOfShape", {"s": sizes}, np.float32, (2, 3), {}),
        ("ConstantOfShape", {"s": sizes}, np.int64, (2, 3), {"value": numpy_helper.from_array(np.array([7]))}),
        ("EyeLike", {"x": x}, np.float32, (2, 3), {}),
        ("EyeLike", {"x": x}, np.int32, (2, 3), {"dtype": 6}),
        ("Bernoulli", {"x": x / 8}, np.float32, (2, 3), {}),
        ("RandomNormalLike", {"x": x}, np.float32, (2, 3), {}),
        ("RandomUniformLike", {"x": x}, np.float64, (2, 3), {"dtype": 11}),
        ("Multinomial", {"x": x}, np.int32, (2, 4), {"sample_size": 4}),
        ("HannWindow", {"n": np.array(5)}, np.float32, (5,), {}),
    ]
    for op, inputs, dtype, shape, attributes in cases:
        program = sx.compile(of_any_rank(op, inputs, 1, **attributes), cache=False)
        assert program.outputs[0].dtype == dtype, op
        assert program(*inputs.values())["y0"].shape == shape, op


def test_a_tensor_of_any_rank_split_to_a_sequence() -> None:
    made = model("float[A] x, int64 i", "s = SplitToSequence (x) a = SequenceAt (s, i) y = Neg (a)")
    made.graph.input[0].type.tensor_type.ClearField("shape")
    program = sx.compile(made, cache=False)
    for shape in ((3,), (2, 3), (2, 1, 3)):
        assert np.array_equal(program(ramp(*shape), np.array(1))["y"], -ramp(*shape)[1:2])


PICKED = "s = SequenceConstruct (a, b) t = SequenceAt (s, i) y = Neg (t)"


def test_tensors_of_other_ranks_by_a_position_that_is_an_input() -> None:
    program = sx.compile(model("float[A, B] a, float[C] b, int64 i", PICKED), cache=False)
    a, b = ramp(2, 3), ramp(4)
    for position, want in ((0, a), (1, b), (-1, b), (-2, a)):
        assert np.array_equal(program(a, b, np.array(position))["y"], -want)
    assert program.explain().to_dict()["hosted"] == []
    with pytest.raises(sx.InputError, match="position 5 in a sequence of 2"):
        program(a, b, np.array(5))


def test_tensors_of_other_ranks_by_a_position_that_is_computed() -> None:
    """The position has a program of its own, and each answer one for the tensor there."""
    computed = f"i = ArgMax <keepdims = 0> (w) {PICKED}"
    program = sx.compile(model("float[A, B] a, float[C] b, float[K] w", computed), cache=False)
    a, b = ramp(2, 3), ramp(4)
    for w, want in ((ramp(2), b), (-ramp(2), a), (ramp(1), a)):
        assert np.array_equal(program(a, b, w)["y"], -want)
    assert sorted(program.explain().to_dict()["variants"]) == [
        "position of SequenceAt 0 == 0",
        "position of SequenceAt 0 == 1",
    ]
    with pytest.raises(sx.InputError, match="position 2 in a sequence of 2"):
        program(a, b, ramp(3))
