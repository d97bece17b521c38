"""The planned arena is what a call touches: nothing beyond it, and its last bytes too."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from arena import ALIGNMENT, planned, touched
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects.dims import parse_dim
from sardonyx.lowering.schedule import THREADS
from sardonyx.runtime.errors import InputError, ResourceError

import sardonyx as sx

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits.onnx"


def chain() -> bytes:
    """Products in a row, whose values live and die by turns."""
    rng = np.random.default_rng(0)
    sizes = [24, 40, 17, 64, 8]
    weights = [
        numpy_helper.from_array(rng.standard_normal(pair).astype(np.float32), f"w{i}")
        for i, pair in enumerate(itertools.pairwise(sizes))
    ]
    nodes = []
    at = "x"
    for i in range(len(weights)):
        nodes.append(helper.make_node("MatMul", [at, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Softmax", [f"m{i}"], [f"s{i}"], axis=-1))
        at = f"s{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "chain",
        [value("x", TensorProto.FLOAT, ["N", 24])],
        [value(at, TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_a_chain_touches_what_is_planned(rows: int) -> None:
    program = sx.compile(chain(), threads=1)
    used = touched(program, {"x": np.random.default_rng(rows).random((rows, 24), dtype=np.float32)})
    peak = planned(program, N=rows)
    assert peak - ALIGNMENT < used <= peak


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_digits_model_stays_inside_its_arena(batch: int) -> None:
    program = sx.compile(DIGITS)
    x = np.random.default_rng(0).random((batch, 1, 8, 8), dtype=np.float32)
    assert touched(program, {"image": x}) <= planned(program, batch=batch)


HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
SMALL = {
    "rows": "(float[N, M] x) => (float[N, M] y) { e = Exp (x) s = Softmax <axis = -1> (e) t = Transpose (s)"
    " u = Softmax <axis = -1> (t) y = Transpose (u) }",
    "products": "(float[N, M] x, float[M, 24] w) => (float[N, N] y) { a = MatMul (x, w) t = Transpose (a)"
    " p = MatMul (a, t) q = Softmax <axis = 0> (p) y = MatMul (p, q) }",
    "images": "(float[N, 3, M, M] x, float[8, 3, 3, 3] w, float[4, 8, 1, 1] v) => (float[N, 4, A, B] y) {"
    " c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu (c) m = MaxPool <kernel_shape = [2, 2]> (r) y = Conv (m, v) }",
}
BRANCHES = """(float[N, M] x, bool c) => (float[N, M] y) { e = Exp (x) y = If (c) <
  then_branch = a () => (float[N, M] p) { s = Softmax <axis = 1> (e) t = Transpose (s) u = Softmax <axis = 1> (t)
    p = Transpose (u) },
  else_branch = b () => (float[N, M] q) { q = Neg (e) }> }"""


@pytest.mark.parametrize("name", SMALL)
def test_the_peak_is_what_is_touched_at_every_size(name: str) -> None:
    program = sx.compile(onnx.parser.parse_model(HEAD + SMALL[name]), threads=1, cache=False)
    rng = np.random.default_rng(0)
    for n, m in ((1, 5), (7, 6), (33, 18)):
        sizes = {"N": n, "M": m}
        feeds = {
            spec.name: rng.standard_normal([sizes.get(str(d), d) for d in spec.shape]).astype(np.float32)
            for spec in program.inputs
        }
        analysis = program.memory_analysis(sizes)
        # a kernel aligns the parts of its scratch, and the plan the whole of it
        assert analysis.peak - 2 * ALIGNMENT < touched(program, feeds) <= analysis.peak
        assert analysis.peak == parse_dim(analysis.formula).evaluate({**sizes, THREADS: 1})
        assert analysis.peak >= analysis.live_bytes > 0


def test_of_branches_the_costliest_reaches_the_peak() -> None:
    program = sx.compile(onnx.parser.parse_model(HEAD + BRANCHES), threads=1, cache=False)
    x = np.random.default_rng(0).random((9, 31), dtype=np.float32)
    peak = program.memory_analysis(N=9, M=31).peak
    used = [touched(program, {"x": x, "c": np.array(c)}) for c in (False, True)]
    assert peak - ALIGNMENT < max(used) <= peak


def test_the_analysis_names_what_is_live() -> None:
    program = sx.compile(chain(), threads=1, cache=False)
    analysis = program.memory_analysis({"N": 100})
    names = {b.name for b in analysis.live if b.kind == "tensor"}
    assert names and names <= {f"{kind}{i}" for kind in "ms" for i in range(4)}
    assert all(b.made_by in {k["name"] for k in program.explain().to_dict()["kernels"]} for b in analysis.live)
    assert analysis.to_dict()["live_bytes"] == analysis.live_bytes
    assert "formula: " in str(analysis) and analysis.step in str(analysis)


def test_the_analysis_needs_the_models_sizes() -> None:
    program = sx.compile(chain(), threads=1, cache=False)
    with pytest.raises(InputError, match="give a size"):
        program.memory_analysis()
    with pytest.raises(InputError, match="no symbol 'Q'"):
        program.memory_analysis(N=1, Q=2)
    with pytest.raises(InputError, match="N=-1: a size, a whole number from 0 up"):
        program.memory_analysis(N=-1)


def test_from_the_second_call_on_only_outputs_are_new() -> None:
    program = sx.compile(DIGITS)
    x = np.random.default_rng(0).random((8, 1, 8, 8), dtype=np.float32)
    program(x)
    (context,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    before = (context.arena.address, context.arena.size)
    for _ in range(5):
        program(x)
    (again,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    assert again is context and (again.arena.address, again.arena.size) == before


def test_a_branch_that_is_not_taken_needs_no_memory() -> None:
    """What it would take is asked for when it is entered, also in a branch; other calls go on as before."""
    program = sx.compile(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 18]> g (float[N] x, bool c, bool d) => (float[M] y)
            <int64[2] column = {-1, 1}, int64[1] last = {1}> {
                y = If (c) <then_branch = t () => (float[P] a) {
                    a = If (d) <then_branch = u () => (float[P] b) {
                        turned = Reshape (x, column)
                        sums = Add (x, turned)
                        e = Exp (sums)
                        product = MatMul (e, e)
                        b = ReduceSum <keepdims = 0> (product, last)
                    }, else_branch = v () => (float[P] b2) { b2 = Exp (x) }>
                }, else_branch = e () => (float[Q] f) { f = Neg (x) }>
            }"""
        )
    )
    large, small = np.ones(1 << 21, np.float32), np.zeros(3, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(program(x=large, c=np.array(False), d=np.array(True))["y"], -large)
        assert program(x=large, c=np.array(True), d=np.array(False))["y"][0] > 2
        with pytest.raises(ResourceError, match="bytes of memory"):
            program(x=large, c=np.array(True), d=np.array(True))
        np.testing.assert_array_equal(program(x=small, c=np.array(True), d=np.array(True))["y"], [9, 9, 9])


def test_a_symbol_that_inputs_have_only_in_an_expression_is_given_by_its_name() -> None:
    header = '<ir_version: 9, opset_import: ["" : 20]> '
    for dim, size in (("4*C", 4 * 5), ("3*C + 2", 3 * 5 + 2)):
        text = header + "g (float[B, K] x, float[K, 7] w) => (float[B, 7] y) { a = Softmax(x) y = MatMul(a, w) }"
        model = onnx.parser.parse_model(text)
        shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
        shapes[0][1].dim_param = shapes[1][0].dim_param = dim
        program = sx.compile(model, threads=1, cache=False)
        fixed = sx.compile(onnx.parser.parse_model(text.replace("K", str(size))), threads=1, cache=False)
        assert program.memory_analysis(B=3, C=5).live_bytes == fixed.memory_analysis(B=3).live_bytes
        with pytest.raises(InputError, match="depends on C: give a size"):
            program.memory_analysis(B=3)
