"""Bodies of control flow that do not fit their node: each a ModelError that names the node and the body."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from onnx import ModelProto
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.runtime.errors import InputError, ModelError

import sardonyx as sx

LOOP = """g (int64 n, float[4] x) => (float[4] y{more}) {{ [turn] y{more_names} = Loop(n, , x) <body = b
    (int64 i, bool c{inputs}) => ({outputs}) {{ d = Identity(c) z = Neg(x) q = Abs(x) }}> }}"""
IF = """g (bool c, float[4] x) => (float[4] y) {{ [choose] y = If({condition}) <
    then_branch = t ({inputs}) => ({then}) {{ a = Relu(x) a2 = Neg(x) }},
    else_branch = e () => ({other}) {{ b = Neg(x) b2 = Abs(x) }}> }}"""
SCAN = """g (float[K] x, float s) => (float y, float[M] r) {{ [walk] y, r = Scan(s, x) <num_scan_inputs = 1, body = b
    (float a{inputs}) => ({outputs}) {{ z = Neg(a) o = Abs(a) w = Relu(a) }}> }}"""
MAP = """g (float[N] x) => (seq(float[N]) y) {{ s = SequenceConstruct(x, x) [each] y = SequenceMap(s) <body = b
    ({inputs}) => ({outputs}) {{ z = Neg(x) w = Abs(x) }}> }}"""
FLEX = """g (float[1,2,3,4] q) => (float[1,2,3,4] y) {{ [attend] y = ai.onnx.preview.FlexAttention(q, q, q) <
    prob_mod = b ({inputs}) => ({outputs}) {{ z = Neg(a) w = Abs(a) }}> }}"""
LATE = ", float[4] a"
TURN, CHOOSE, WALK = (
    "node 'turn' (Loop): its 'body', the graph 'b', has ",
    "node 'choose' (If): its ",
    "node 'walk' (Scan)",
)
EACH, ATTEND = (
    "node 'each' (SequenceMap): its 'body', the graph 'b', has ",
    "node 'attend' (FlexAttention): its 'prob_mod'",
)


def made(text: str) -> ModelProto:
    graph = onnx.parser.parse_graph(text)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", 22), ("ai.onnx.preview", 1))]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def loop(inputs: str, outputs: str, more: str = "") -> str:
    return LOOP.format(
        inputs=inputs, outputs=outputs, more=f", float[Z,4] {more}" * bool(more), more_names=f", {more}" * bool(more)
    )


def if_(inputs: str = "", then: str = "float[4] a", other: str = "float[4] b", condition: str = "c") -> str:
    return IF.format(inputs=inputs, then=then, other=other, condition=condition)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (loop(LATE, "bool d, float[4] z, float[4] q"), TURN + "3 outputs, not 2: the condition, and one for each"),
        (loop(LATE, "bool d, float[4] z", "w"), TURN + "2 outputs, not 3"),
        (loop(LATE, ""), TURN + "0 outputs, not 2"),
        (loop("", "bool d, float[4] z"), TURN + "2 inputs, not 3: the iteration's number, the condition, and 1 state"),
        (loop(LATE + ", float[4] e", "bool d, float[4] z"), TURN + "4 inputs, not 3"),
        (if_(then="float[4] a, float[4] a2"), CHOOSE + "'then_branch', the graph 't', has 2 outputs, not 1: one for"),
        (if_(other="float[4] b, float[4] b2"), CHOOSE + "'else_branch', the graph 'e', has 2 outputs, not 1"),
        (if_(then="", other=""), CHOOSE + "'then_branch', the graph 't', has 0 outputs, not 1"),
        (if_("float[4] q"), CHOOSE + "'then_branch', the graph 't', has 1 input, not 0"),
        (SCAN.format(inputs=", float p", outputs="float z"), WALK + ": its 'body', the graph 'b', has 1 output, not 2"),
        (SCAN.format(inputs=", float p", outputs="float z, float o, float w"), "has 3 outputs, not 2: one for each"),
        (SCAN.format(inputs="", outputs="float z, float o"), "has 1 input, not 2: 1 state, and a slice of each of 1"),
        (SCAN.replace("inputs = 1", "inputs = 3").format(inputs="", outputs=""), WALK + ": has 2 inputs, and its attr"),
        (SCAN.replace("y, r = Scan(s,", "y = Scan(s, s,").format(inputs="", outputs=""), "has 1 output, and 2 states"),
        (MAP.format(inputs="float[N] a", outputs="float[N] z, float[N] w"), EACH + "2 outputs, not 1"),
        (MAP.format(inputs="float[N] a, float[N] e", outputs="float[N] z"), EACH + "2 inputs, not 1: one for"),
        (FLEX.format(inputs="float[B,C,D,E] a", outputs="float[B,C,D,E] z, float[B,C,D,E] w"), ATTEND),
        (FLEX.format(inputs="float[B,C,D,E] a, float e", outputs="float[B,C,D,E] z"), ATTEND),
    ],
)  # fmt: skip
def test_a_body_that_does_not_fit(text: str, problem: str) -> None:
    with pytest.raises(ModelError, match=re.escape(problem)):
        import_model(made(text))


def test_a_branch_that_never_runs_is_held_against_its_node_too() -> None:
    known = if_(other="float[4] b, float[4] b2").replace(
        "[choose]", "k = Constant<value_int = 1>() t = Cast<to = 9>(k) [choose]"
    )
    with pytest.raises(ModelError, match="'else_branch', the graph 'e', has 2 outputs"):
        import_model(made(known.replace("If(c)", "If(t)")))


def test_bodies_within_bodies_and_in_functions() -> None:
    inner = "[choose] z = If(c) <then_branch = t () => () { }, else_branch = e () => (float[4] b) { b = Neg(x) }>"
    text = loop(LATE, "bool d, float[4] z").replace("z = Neg(x)", inner)
    with pytest.raises(
        ModelError, match=re.escape("node 'choose' (If): its 'then_branch', the graph 't', has 0 outputs")
    ):
        import_model(made(text))
    m = made("g (bool c, float[4] x) => (float[4] y) { y = my.F(c, x) }")
    m.opset_import.add(domain="my", version=1)
    f = onnx.helper.make_function("my", "F", ["c", "x"], ["y"], made(if_(then="")).graph.node, m.opset_import[:1])
    m.functions.append(f)
    with pytest.raises(
        ModelError, match=re.escape("node 'choose' (If): its 'then_branch', the graph 't', has 0 outputs")
    ):
        import_model(m)


def test_the_first_scan_has_lengths_before_its_states() -> None:
    m = made(SCAN.format(inputs=", float p", outputs="float z, float o"))
    m.opset_import[0].version = 8
    m.graph.node[0].input.insert(0, "")
    import_model(m)


def test_the_condition_that_a_body_gives_is_one_truth() -> None:
    number = loop(LATE, "float d, float[4] z").replace("d = Identity(c)", "d = Constant<value_float = 1.0>()")
    with pytest.raises(
        ModelError, match=r"Loop 'turn' .*: output 0 of its 'body', the condition, is float, and must be"
    ):
        sx.lower(made(number), to="graph")
    four = loop(LATE, "bool[4] d, float[4] z").replace("d = Identity(c)", "d = IsNaN(x)")
    with pytest.raises(ModelError, match=r"Loop 'turn' .*the condition, is one truth: 4 == 1 cannot hold"):
        sx.lower(made(four), to="graph")
    program = sx.compile(made(four.replace("[4]", "[N]")))
    with pytest.raises(InputError, match=r"the condition, is one truth.*: N == 1 does not hold: 4 and 1"):
        program({"n": 2, "x": [1.0] * 4})


OLD = """g (int64 n, float[4] x, bool b) => (float[4] z) {
    [turn] y = Loop(n, , x) <body = l (int64 i, bool c, float[4] a, float w, float[4] v) => (bool d, float[4] o)
        <float w = {2.0}, float[4] v = {1.0, 2.0, 3.0, 4.0}> { d = Identity(c) m = Mul(a, w) o = Add(m, v) }>
    [choose] z = If(b) <
        then_branch = t (float p) => (float[4] q) <float p = {0.5}> { q = Mul(y, p) },
        else_branch = e () => (float[4] r) { r = Neg(y) }> }"""


def test_initializers_that_old_bodies_list() -> None:
    """Before IR version 4 they are inputs of the graph that has them, which nothing feeds."""
    model = made(OLD)
    model.ir_version, model.opset_import[0].version = 3, 8
    onnx.checker.check_model(model)
    program = sx.compile(model, cache=False)
    x, rest = np.arange(4, dtype=np.float32), np.arange(1, 5, dtype=np.float32)
    y = 2 * (2 * x + rest) + rest
    assert program(np.array(2), x, np.array(True))["z"].tolist() == (y / 2).tolist()
    assert program(np.array(2), x, np.array(False))["z"].tolist() == (-y).tolist()
    assert export_model(*import_model(model)) == model
    model.ir_version = 4
    with pytest.raises(ModelError, match="has 5 inputs, not 3"):
        import_model(model)
