"""`sardonyx simplify`: fewer nodes at the model's own opset, its interface as it was, a log, and values that stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import ModelProto, TensorProto, helper, numpy_helper
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.simplify import simplify
from sardonyx.rewrites.upgrade import upgrade_opset

import sardonyx as sx
from sardonyx.cli import cli
from sardonyx.simplifier import simplify_model, validated, where_validated


def model(text: str, opset: int = 17, ir_version: int = 9) -> ModelProto:
    graph = onnx.parser.parse_graph("g " + text)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def ops(proto: ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node if node.op_type != "Constant"]


VANISH = {
    "parts put together again": """(float[N, 4] x) => (float[N, 4] y)
        <int64[1] z = {0}, int64[1] m = {-1}, int64[1] e = {9223372036854775807}, int64[1] a = {0}>
        { p = Slice(x, z, m, a) q = Slice(x, m, e, a) y = Concat<axis=0>(p, q) }""",
    "parts of a split": """(float[N, 4] x) => (float[N, 4] y) <int64[2] s = {1, 3}>
        { p, q = Split<axis=1>(x, s) y = Concat<axis=1>(p, q) }""",
    "heads there and back": """(float[B, S, 12] x) => (float[B, S, 12] y)
        <int64[2] h = {3, 4}, int64[1] w = {12}, int64[1] z = {0}, int64[1] two = {2}>
        {
            s = Shape(x) l = Slice(s, z, two) t = Concat<axis=0>(l, h)
            a = Reshape(x, t) b = Transpose<perm=[0, 2, 1, 3]>(a) c = Transpose<perm=[0, 2, 1, 3]>(b)
            u = Concat<axis=0>(l, w) y = Reshape(c, u)
        }""",
    "an expand that torch writes": """(float[N, 4] x) => (float[N, 4] y)
        <int64[2] given = {-1, 4}, int64 minus = {-1}, int64[1] two = {2}, int64 one = {1}>
        {
            ones = ConstantOfShape<value = int64[1] {1}>(two) k = Equal(given, minus) t = Where(k, ones, given)
            y = Expand(x, t)
        }""",
    "to rows of six and back": """(float[A, B, 6] x) => (float[A, B, 6] y) <int64[2] s = {-1, 6}, int64[2] t = {-1, 6},
        int64[1] z = {0}, int64[1] o = {1}>
        { r = Reshape(x, s) n = Shape(x) a = Slice(n, z, o) u = Concat<axis=0>(a, t) y = Reshape(r, u) }""",
    "casts that lose nothing": "(int8[N] x) => (int8[N] y) { a = Cast<to=6>(x) b = Cast<to=11>(a) y = Cast<to=3>(b) }",
}


@pytest.mark.parametrize("case", VANISH)
def test_what_does_nothing_vanishes(case: str) -> None:
    found = simplify_model(model(VANISH[case]))
    assert ops(found.model) == ["Identity"] and found.after == 1  # an output needs a node
    program = sx.compile(model(VANISH[case]))
    assert [c for c in program.explain().to_dict()["functions"].values() if c["ops"] != ["onnx.Identity"]] == []


GELU = """(float[N, 8] x) => (float[N, 8] y) <float r = {1.4142135}, float o = {1}, float h = {0.5}>
    { d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }"""


def test_a_rule_declines_what_the_opset_lacks_and_the_log_says_so() -> None:
    old, new = simplify_model(model(GELU, 17)), simplify_model(model(GELU, 20))
    assert ops(old.model) == ["Div", "Erf", "Add", "Mul", "Mul"] and ops(new.model) == ["Gelu"]
    [declined] = old.log.declined
    assert declined.pattern == "RecognizeActivation" and "Gelu is new in opset 20" in declined.reason
    assert not new.log.declined and [f.pattern for f in new.log.firings if "Activation" in f.pattern]


@pytest.mark.parametrize("opset", [7, 8, 10, 12, 15, 22])
def test_what_a_rule_makes_is_written_at_the_models_opset(opset: int) -> None:
    """The padding moves into the convolution, and the batch normalization into the weights, whatever their form was."""
    rng = np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "s": (4,), "b": (4,), "m": (4,), "v": (4,)}
    tensors = [numpy_helper.from_array(rng.random(shape).astype(np.float32), name) for name, shape in weights.items()]
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    nodes = [helper.make_node("Pad", ["x"], ["p"], pads=pads)]
    if opset >= 11:
        tensors.append(numpy_helper.from_array(np.array(pads), "pads"))
        nodes = [helper.make_node("Pad", ["x", "pads"], ["p"])]
    nodes += [
        helper.make_node("Conv", ["p", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Identity", ["n"], ["i"]),
        helper.make_node("Relu", ["i"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", c, "H", "W"]) for n, c in (("x", 3), ("y", 4))]
    inputs = [info[0], *(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors)]
    graph = helper.make_graph(nodes, "g", inputs, [info[1]], tensors)
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    found = simplify_model(before)
    onnx.checker.check_model(found.model)
    assert ops(found.model) == ["Conv", "Relu"] and found.model.opset_import == before.opset_import
    assert [i.name for i in found.model.graph.input] == ["x"] and found.model.graph.output == before.graph.output
    assert validated(before, found.model, rtol=1e-4, atol=1e-5)["equal"]


def test_defaults_of_inputs_are_kept_where_that_is_asked() -> None:
    text = "(float[N, 4] x, float[4] s) => (float[N, 4] y) <float[4] s = {1, 1, 1, 1}> { y = Mul(x, s) }"
    proto = model(text)
    assert ops(simplify_model(proto).model) == ["Identity"]
    kept = simplify_model(proto, keep_defaults=True).model
    assert ops(kept) == ["Mul"] and kept.graph.input == proto.graph.input


def test_sizes_that_are_computed_are_read_from_the_shortest_place() -> None:
    """A Reshape to sizes of another tensor: its whole shape is one node, whatever the file has computed."""
    text = """(float[N, M] x, float[M, N] z) => (float[M, N] y) <int64 a = {0}, int64 b = {1}, int64[1] c = {0}>
        {
            s = Shape(z) p = Gather(s, a) q = Gather(s, b) u = Unsqueeze(p, c) v = Unsqueeze(q, c)
            t = Concat<axis=0>(u, v) e = Exp(x) y = Reshape(e, t)
        }"""
    found = simplify_model(model(text))
    assert ops(found.model) == ["Exp", "Shape", "Reshape"] or ops(found.model) == ["Shape", "Exp", "Reshape"]
    assert validated(model(text), found.model, rtol=0, atol=0)["equal"]


def test_a_result_that_is_larger_is_the_model_as_it_came() -> None:
    text = "(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }"
    found = simplify_model(model(text))
    assert found.model == model(text) and found.before == found.after == 1


def test_a_branch_that_always_fails_still_fails() -> None:
    """A program has a guard there; a file has none, and zeros would be a wrong number."""
    text = """(float[N, 4] x, bool c) => (float[N, 4] y) <int64[2] s = {0, 3}> {
        y = If (c) <then_branch = t () => (a) { a = Identity(x) }, else_branch = e () => (b) { b = Reshape(x, s) }>
    }"""
    found = simplify_model(model(text)).model
    session = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.ones((2, 4), np.float32)
    assert session.run(None, {"x": x, "c": np.array(True)})[0].shape == (2, 4)
    with pytest.raises(Exception, match="Reshape"):
        session.run(None, {"x": x, "c": np.array(False)})


def test_rules_leave_alone_what_has_no_type() -> None:
    """A sequence in the middle, and a module that inference has not run on."""
    text = """(float[N, 4] x) => (float[A, B] y) <int64 at = {0}>
        { i = Identity(x) s = SequenceConstruct(i) e = SequenceAt(s, at) c = Concat<axis=0>(e) y = Relu(c) }"""
    found = simplify_model(model(text))
    assert "Relu" in ops(found.model) and "Concat" not in ops(found.model)
    module, weights = import_model(model(text))
    upgrade_opset(module, weights)
    log = simplify(module, weights)
    module.verify()
    assert "DropIdentity" in {f.pattern for f in log.firings}


def test_the_command_and_its_log(tmp_path: Path) -> None:
    before = model(GELU, 17)
    before.graph.node[0].name = "the divisor"
    onnx.save(before, tmp_path / "in.onnx")
    arguments = ["simplify", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--validate"]
    text = CliRunner().invoke(cli, arguments).output
    assert "RecognizeActivation declined: Gelu is new in opset 20" in text and "equal by onnxruntime" in text
    report: dict[str, Any] = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert report["before"] == report["after"] == 5 and report["validation"]["equal"]
    assert report["declined"][0]["rule"] == "RecognizeActivation"


def test_the_log_names_nodes(tmp_path: Path) -> None:
    before = model("(float[N, 4] x) => (float[N, 4] y) { a = Neg(x) b = Neg(a) y = Exp(b) }")
    for at, node in enumerate(before.graph.node):
        node.name = f"node {at}"
    onnx.save(before, tmp_path / "in.onnx")
    arguments = ["simplify", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx")]
    text = CliRunner().invoke(cli, arguments).output
    assert "DropInverse: 1  (node 1)" in text and "3 nodes -> 1" in text


LOOP = """(float[N, 4] x, float[N, 4] w) => (float[N, 4] y) <int64 n = {3}, bool c = {1}, float[3] t = {1, 1, 1}> {
    y = Loop (n, c, x) <body = b (int64 i, bool k, float[N, 4] a) => (bool l, float[N, 4] d)
        { l = Identity(k) g = Gather<axis=0>(t, i) m = Mul(a, g) BODY }>
    }"""


@pytest.mark.parametrize(
    ("body", "left"), [("d = Add(m, w)", ["Add"] * 3), ("e = Exp(m) f = Neg(e) h = Sin(f) d = Add(h, w)", ["Loop"])]
)
def test_a_loop_is_unrolled_where_that_leaves_fewer_nodes(tmp_path: Path, body: str, left: list[str]) -> None:
    before = model(LOOP.replace("BODY", body))
    after = simplify_model(before)
    assert ops(after.model) == left and after.after <= after.before
    onnx.save(after.model, tmp_path / "after.onnx")
    assert validated(before.SerializeToString(), tmp_path / "after.onnx", rtol=1e-6, atol=1e-6)["equal"]


GROUPS = """(float[N, 6, H, W] x) => (float[N, 6, H, W] y)
    <int64[3] g = {0, 3, -1}, float[3] s = {1, 2, 0.5}, float[3] b = {0, 1, -1}, float[6, 1, 1] f = {1, 2, 3, 4, 5, 6}>
    { r = Reshape(x, g) n = InstanceNormalization(r, s, b) t = Shape(x) u = Reshape(n, t) y = Mul(u, f) }"""


@pytest.mark.parametrize(("opset", "count"), [(17, 5), (20, 5), (21, 1)])
def test_an_older_form_of_an_operator_is_not_made(opset: int, count: int) -> None:
    result = simplify_model(model(GROUPS, opset, ir_version=10))
    assert result.after == count and (count == 1) == (not result.log.declined)
    assert all("GroupNormalization is new in" in d.reason for d in result.log.declined)


def test_a_mask_in_a_file_has_a_row_for_each_query() -> None:
    """As other runtimes want it."""
    inputs = "float[B, 2, 3, 4] q, float[B, 2, 3, 4] k, float[B, 2, 3, 4] v, float[B, 1, 1, 3] m"
    text = """{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) a = Add(s, m) w = Softmax<axis=-1>(a)
        y = MatMul(w, v) }"""
    result = simplify_model(model(f"({inputs}) => (float[B, 2, 3, 4] y) {text}", 23, ir_version=11))
    assert ops(result.model) == ["Expand", "Attention"]


def test_validation_is_at_sizes_that_differ_and_at_large_ones_where_the_model_needs_them() -> None:
    two = model("(float[N, 4] x, float[M, 4] z) => (float[K, 4] y) { y = Concat<axis=0>(x, z) }")
    found = validated(two, two, rtol=0, atol=0)
    assert found["equal"] and list(found["sizes"]) == ["1", "2", "3", "7", "M=2, N=3", "M=3, N=2"]
    assert list(validated(two, two, sizes=["M=5"], rtol=0, atol=0)["sizes"]) == ["1", "2", "3", "7"]
    wide = model(
        '(float[1, 1, N] x) => (float[1, 1, M] y) <int64[6] p = {0, 0, 40, 0, 0, 40}> { y = Pad<mode="reflect">(x, p) }'
    )
    assert list(validated(wide, wide, rtol=0, atol=0)["sizes"]) == ["100", "250"]
    deep = model(
        "(float[N, N, N, 4] x) => (float[M, N, N, 4] y) <int64[8] p = {40, 0, 0, 0, 40, 0, 0, 0}>"
        '{ y = Pad<mode="reflect">(x, p) }'
    )
    with pytest.raises(sx.InputError, match="runs at none of the sizes"):  # larger ones are too many elements
        validated(deep, deep, rtol=0, atol=0)


WRONG = {
    "DIFFERS by onnxruntime": "(float[N, 8] x) => (float[N, 8] y) { y = Neg(x) }",
    "REFUSED by onnxruntime": "(float[N, 8] x) => (float[N, 8] y) { a = Transpose(x) y = Add(a, x) }",
}


@pytest.mark.parametrize("verdict", WRONG)
def test_a_result_that_is_wrong_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str) -> None:
    onnx.save(model(GELU, 17), tmp_path / "in.onnx")
    wrong = replace(simplify_model(tmp_path / "in.onnx"), model=model(WRONG[verdict]))
    monkeypatch.setattr("sardonyx.simplifier.simplify_model", lambda *_, **__: wrong)
    arguments = ["simplify", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--validate"]
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 1 and verdict in found.output and "out.onnx is not written" in found.output
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]
    report = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert not report["written"] and not report["validation"]["equal"]


AGAIN = {
    "windows there and back, whose last size is left open": """(float[B, H, W, 5] x)
        => (float[K, 7, 7, 5] f, float[B, H, W, 5] y)
        <int64[1] z = {0}, int64[1] o = {1}, int64[1] two = {2}, int64[1] t = {3}, int64[1] seven = {7},
         int64[1] c = {5}, int64[1] m = {-1}, int64[1] e = {4611686018427387904}, int64[4] w = {-1, 7, 7, 5}> {
            s = Shape(x) b = Slice(s, z, o) h = Slice(s, o, two) v = Slice(s, two, t)
            aa = Slice(x, t, e, o) ab = Slice(x, z, t, o) a = Concat<axis=1>(aa, ab)
            ba = Slice(a, t, e, two) bb = Slice(a, z, t, two) r = Concat<axis=2>(ba, bb)
            p = Div(h, seven) q = Div(v, seven) i = Concat<axis=0>(b, p, seven, q, seven, c)
            d = Reshape(r, i) n = Transpose<perm=[0, 1, 3, 2, 4, 5]>(d) f = Reshape(n, w)
            j = Concat<axis=0>(b, p, q, seven, seven, c) g = Reshape(f, j)
            k = Transpose<perm=[0, 1, 3, 2, 4, 5]>(g) l = Concat<axis=0>(b, h, v, m) u = Reshape(k, l) y = Add(u, x)
        }""",
    "a size that two values have": """(float[B, P] past, float[B, S] x) => (int64[K] y)
        <int64 o = {1}, int64 z = {0}, int64[1] a = {0}> {
            p = Shape(past) i = Gather<axis=0>(p, o) s = Shape(x) j = Gather<axis=0>(s, o) n = Add(i, j)
            r = Range(z, n, o) t = Shape(past) u = Gather<axis=0>(t, o) k = Unsqueeze(u, a) l = Unsqueeze(n, a)
            y = Slice(r, k, l, a)
        }""",
    "the smaller of two sizes": """(float[N] x, float[M] y) => (float[K] z) <int64[1] a = {0}> {
            n = Size(x) m = Size(y) c = Less(n, m)
            k = If(c) <then_branch = t () => (int64 p) { p = Identity(n) },
                       else_branch = e () => (int64 q) { q = Identity(m) }>
            u = Unsqueeze(k, a) z = Slice(x, a, u, a)
        }""",
}


@pytest.mark.parametrize("case", AGAIN)
def test_nothing_is_left_to_simplify(case: str) -> None:
    first = simplify_model(model(AGAIN[case], 18))
    assert simplify_model(first.model).after == first.after
    assert all(first.names(f.origins) for f in first.log.firings if f.origins)


def test_a_validation_says_at_which_sizes_both_ran() -> None:
    two = model("(float[N, 4] x, float[M, 4] z) => (float[K, 4] y) { y = Concat<axis=0>(x, z) }")
    for sizes, said in (
        (["N=5", "M=6"], " with N=5, M=6"),
        (["M=5"], " with M=5 and other symbols at 1; 2; 3; 7"),
        ([], " with symbols at 1; 2; 3; 7; M=2, N=3; M=3, N=2"),
    ):
        assert where_validated(validated(two, two, sizes=sizes, rtol=0, atol=0)) == said
