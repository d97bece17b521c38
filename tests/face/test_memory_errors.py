"""A call that needs more memory than there is says so before it takes it, with the value and the node."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from numpy.testing import assert_array_equal

import sardonyx as sx

FREE = 100 << 20


def program(graph: str) -> sx.Program:
    return sx.compile(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>' + graph))


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.runtime.available.available_memory", lambda: FREE)


DOUBLING = """g (float[N] x, int64 n) => (float[M] y) {
    [all] y = Loop (n, , x) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] t) {
        d = Identity (c)
        [grow] t = Concat <axis = 0> (s, s)
    }>
}"""


def test_a_state_that_doubles() -> None:
    loop = program(DOUBLING)
    x = np.arange(1000, dtype=np.float32)
    assert_array_equal(loop(x, np.array(3))["y"], np.tile(x, 8))
    with pytest.raises(sx.ResourceError, match=r"'t' needs 262144000 bytes of memory .*\n  --> node 'grow'"):
        loop(x, np.array(40))
    assert_array_equal(loop(x, np.array(1))["y"], np.tile(x, 2))


def test_two_states_that_double_and_change_places() -> None:
    loop = program("""g (float[N] x, float[M] y, int64 n) => (float[P] u, float[Q] v) {
        u, v = Loop (n, , x, y) <body = b (int64 i, bool c, float[K] s, float[L] t)
        => (bool d, float[A] o, float[B] r) {
            d = Identity (c)
            o = Concat <axis = 0> (t, t)
            r = Identity (s)
        }>
    }""")  # fmt: skip
    x, y = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)
    u, v = loop(x, y, np.array(3)).values()
    assert_array_equal(u, np.tile(y, 4))
    assert_array_equal(v, np.tile(x, 2))


def test_a_state_that_shrinks_to_a_part_of_itself() -> None:
    loop = program("""g (float[N] x, int64 n) => (float[M] y) <int64[1] one = {1}, int64[1] end = {99999}> {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] t) {
            d = Identity (c)
            t = Slice (s, one, end)
        }>
    }""")
    x = np.arange(9000, dtype=np.float32)
    for trips in (0, 1, 7, 9001):
        assert_array_equal(loop(x, np.array(trips))["y"], x[trips:])


def test_an_output_of_sizes_that_data_tell() -> None:
    expand = program("g (float[1] x, int64[1] n) => (float[M] y) { [wide] y = Expand (x, n) }")
    with pytest.raises(sx.ResourceError, match=r"'y' needs 400000000 bytes of memory .*\n  --> node 'wide'"):
        expand(np.ones(1, np.float32), np.array([100_000_000]))


def test_an_output_of_the_inputs_sizes() -> None:
    outer = program("g (float[N, 1] x, float[M] y) => (float[N, M] z) { [outer] z = Mul (x, y) }")
    with pytest.raises(sx.ResourceError, match=r"output 'z' with the sizes \(20000, 20000\) does not fit into memory"):
        outer(np.ones((20000, 1), np.float32), np.ones(20000, np.float32))


def test_the_memory_of_all_intermediate_values() -> None:
    outer = program("""g (float[N, 1] x, float[1, M] y, float[M, 1] z) => (float[N, 1] w) {
        p = Mul (x, y) q = Softmax <axis = 0> (p) w = MatMul (q, z)
    }""")
    ones = np.ones((6000, 1), np.float32)
    with pytest.raises(sx.ResourceError, match=r"the model needs \d+ bytes of memory for inputs .*; \d+ are"):
        outer(ones, ones.T, ones)


def test_texts_of_sizes_that_data_tell() -> None:
    expand = program("g (string[1] x, int64[1] n) => (string[M] y) { [wide] y = Expand (x, n) }")
    assert expand(np.array(["a"], object), np.array([3]))["y"].tolist() == ["a"] * 3
    with pytest.raises(sx.ResourceError, match=r"Expand: a result needs 800000000 bytes.*\n  --> node 'wide'"):
        expand(np.array(["a"], object), np.array([100_000_000]))
