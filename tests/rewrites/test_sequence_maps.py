"""SequenceMap, and items of sequences taken at places that a loop counts, as native code."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects import onnx as dialect
from sardonyx.semantics.interpreter import run_graph

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
MAPS = {
    "one sequence and a tensor": """s = SplitToSequence <axis = 0> (x, two)
      m = SequenceMap (s, w) <body = b (float[A, B] p, float[B] t) => (float[C, D] q) { q = Add (p, t) }>
      y = ConcatFromSequence <axis = 0> (m)""",
    "two sequences, and captured values that have no declared type": """s = SplitToSequence <axis = 0> (x, two)
      n = Neg (x) r = SplitToSequence <axis = 0> (n, two) e = Exp (w)
      m = SequenceMap (s, r) <body = b (float[A, B] p, float[A, B] t) => (float[C, D] q) {
        u = Add (p, t) q = Mul (u, e) }>
      y = ConcatFromSequence <axis = 0> (m)""",
    "inside of a loop": """c = Constant <value = bool {1}> () k = Constant <value = int64 {2}> ()
      y = Loop (k, c, x) <body = o (int64 i, bool ci, float[A, B] h) => (bool co, float[A, B] ho) {
        co = Identity (ci) s = SplitToSequence <axis = 0> (h, two)
        m = SequenceMap (s) <body = b (float[C, D] p) => (float[E, F] q) { q = Add (p, w) }>
        ho = ConcatFromSequence <axis = 0> (m) }>""",
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_maps(name: str, rows: int) -> None:
    text = f"(float[N, 3] x, float[3] w) => (float[M, 3] y) <int64 two = {{2}}> {{ {MAPS[name]} }}"
    model = onnx.parser.parse_model(HEAD + text)
    feeds = {"x": np.arange(3 * rows, dtype=np.float32).reshape(rows, 3), "w": np.array([1, 0.5, -1], np.float32)}
    module = sx.lower(model, to="graph")
    assert not [op for op in module.walk() if isinstance(op, dialect.SequenceMapOp)]
    from sardonyx.frontend.importer import import_model
    from sardonyx.rewrites.upgrade import upgrade_opset

    from sardonyx.compiler import weights_of

    plain, weights = import_model(model)
    upgrade_opset(plain, weights)
    want = run_graph(plain, weights, feeds)["y"]
    np.testing.assert_allclose(run_graph(module, weights_of(module), feeds)["y"], want, rtol=1e-6)
    np.testing.assert_allclose(sx.compile(model, cache=False)(feeds)["y"], want, rtol=1e-6)


def test_an_item_at_a_place_that_is_made_behind_the_split() -> None:
    """The Gather that takes the place of both stands where the item was taken."""
    text = """(float[N, 3] x, int64 n) =>
    (float[3] y, float[K, 3] z) <int64 one = {1}, bool c = {1}, float[3] w = {0, 0, 0}>
    {
      s = SplitToSequence <axis = 0, keepdims = 0> (x) i = Sub (n, one) y = SequenceAt (s, i)
      r = SplitToSequence <axis = 0, keepdims = 0> (x)
      f, z = Loop (n, c, w) <body = b (int64 at, bool ci, float[3] h) => (bool co, float[3] g, float[3] o) {
        co = Identity (ci) g = SequenceAt (r, at) o = Add (g, h) }> }"""
    program = sx.compile(onnx.parser.parse_model(HEAD + text), cache=False)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = program(x=x, n=np.array(3))
    np.testing.assert_array_equal(found["y"], x[2])
    np.testing.assert_array_equal(found["z"], x[:3] + np.concatenate([np.zeros((1, 3), np.float32), x[:2]]))
