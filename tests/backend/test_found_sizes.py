"""Operators that find the size of their results: native at every level, and what follows sees the size found."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
NONZERO = HEAD + "(float[N, M] x) => (int64[R, C] y, int64[C, R] z) { y = NonZero (x) z = Transpose (y) }"
COMPRESS = (
    HEAD + "(float16[N, M, K] x, bool[C] c) => (float16[A, B, D] y) { p = Compress <axis = 1> (x, c) y = Neg (p) }"
)
ELEMENTS = HEAD + "(int32[N, M] x, bool[C] c) => (int32[A] y) { y = Compress (x, c) }"


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (7, 64)])
def test_nonzero(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(-1, 2, shape).astype(np.float32)
    x[x < 0] = np.nan  # is not zero
    want = np.array(np.nonzero(x), np.int64)
    for outputs in everywhere(NONZERO, {"x": x}):
        np.testing.assert_array_equal(outputs["y"], want)
        np.testing.assert_array_equal(outputs["z"], want.T)


@pytest.mark.parametrize(("shape", "conditions"), [((2, 5, 3), 5), ((2, 5, 3), 2), ((1, 1, 1), 1), ((2, 4, 40), 4)])
def test_slices(shape: tuple[int, int, int], conditions: int) -> None:
    rng = np.random.default_rng(1)
    x, c = rng.standard_normal(shape).astype(np.float16), rng.integers(0, 2, conditions).astype(bool)
    for outputs in everywhere(COMPRESS, {"x": x, "c": c}):
        np.testing.assert_array_equal(outputs["y"], -np.compress(c, x, axis=1))


def test_elements() -> None:
    x, c = np.arange(12, dtype=np.int32).reshape(3, 4), np.array([0, 1, 1, 0, 0, 1], bool)
    for outputs in everywhere(ELEMENTS, {"x": x, "c": c}):
        assert outputs["y"].tolist() == [1, 2, 5]


@pytest.mark.parametrize(
    "nodes",
    [
        "p = Compress <axis = 0> (x, c) y = Size (p)",
        "p = NonZero (c) s = Shape (p) y = Gather (s, one)",
        "e = Where (c, x, zero) u = Unique (e) n = Neg (u) y = Size (n)",
    ],
)
def test_a_size_of_what_nothing_reads(nodes: str) -> None:
    text = f"(float[N] x, bool[N] c) => (int64 y) <int64 one = {{1}}, float zero = {{0}}> {{ {nodes} }}"
    for size in (0, 1, 9):
        x, c = np.arange(1, size + 1, dtype=np.float32), np.arange(size) % 3 == 0
        want = c.sum() + (bool(size > 1) if "Unique" in nodes else 0)
        for outputs in everywhere(HEAD + text, {"x": x, "c": c}):
            assert outputs["y"] == want


@pytest.mark.parametrize("axis", [0, 1])
def test_a_size_that_constants_tell(axis: int) -> None:
    """The result has its size before it is run: nothing is stored behind it."""
    text = f"(float[3, 3] x) => (float[A, B] y) <bool[3] c = {{1, 0, 1}}> {{ y = Compress <axis = {axis}> (x, c) }}"
    x = np.random.default_rng(2).standard_normal((3, 3)).astype(np.float32)
    for outputs in everywhere(HEAD + text, {"x": x}):
        np.testing.assert_array_equal(outputs["y"], x.take([0, 2], axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_over_a_length_that_is_found(axis: int, backwards: int) -> None:
    """What it stacks up has its place before the loop: the length is found by then."""
    body = "b (float[3] s, float[3] v) => (float[3] t, float[3] w) { t = Add (s, v) w = Mul (t, v) }"
    names = f"num_scan_inputs = 1, scan_output_directions = [{backwards}], scan_output_axes = [{axis}]"
    text = f"""(bool[N] c, float[N, 3] a) => (float[3] t, float[P, Q] y) <float[3] z = {{0, 0, 0}}> {{
        x = Compress <axis = 0> (a, c)
        t, y = Scan <{names}, body = {body}> (z, x)
    }}"""
    program = sx.compile(onnx.parser.parse_model(HEAD + text))
    for n in (0, 1, 7):
        a, c = np.arange(3 * n, dtype=np.float32).reshape(n, 3), np.arange(n) % 2 == 0
        want = np.cumsum(a[c], 0) * a[c]
        want = want[::-1] if backwards else want
        np.testing.assert_array_equal(program(c, a)["y"], want.T if axis else want)


def test_texts_that_a_loop_stacks_up() -> None:
    body = """b (int64 i, bool c, string[2] v) => (bool d, string[2] w, string[2] r) {
        d = Identity (c)
        w = Identity (v)
        r = Identity (v)
    }"""
    text = f"(int64 n, string[2] x) => (string[2] w, string[M, 2] y) {{ w, y = Loop (n, , x) <body = {body}> }}"
    program = sx.compile(onnx.parser.parse_model(HEAD + text))
    x = np.array(["u", "v"], object)
    for n in (0, 1, 3):
        found = program(np.array(n), x)
        assert found["w"].tolist() == x.tolist() and found["y"].shape == (n, 2)
        assert found["y"].tolist() == [x.tolist()] * n


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_texts_that_a_scan_goes_through(axis: int, backwards: int) -> None:
    names = "num_scan_inputs = 1, " + ", ".join(
        f"scan_{kind}_{what} = [{value}]"
        for kind in ("input", "output")
        for what, value in (("axes", axis), ("directions", backwards))
    )
    body = "b (string[2] a, string[2] v) => (string[2] d, string[2] e) { d = StringConcat (a, v) e = Identity (d) }"
    text = f"""(string[2] s, string[N, M] x) => (string[2] t, string[P, Q] y) {{
        t, y = Scan <{names}, body = {body}> (s, x)
    }}"""
    program = sx.compile(onnx.parser.parse_model(HEAD + text))
    rows = [["1", "2"], ["3", "4"], ["5", "6"]]
    states = [["a1", "b2"], ["a13", "b24"], ["a135", "b246"]]
    x, want = (np.array(v[::-1] if backwards else v, object) for v in (rows, states))
    found = program(np.array(["a", "b"], object), x.T if axis else x)
    assert found["t"].tolist() == states[-1]
    assert found["y"].tolist() == (want.T if axis else want).tolist()


def test_sizes_of_texts_that_execution_finds() -> None:
    text = """(string[2] s, bool c, int64 n) => (int64[R] a, int64[Q] b, int64[P] d) {
        p, q = StringSplit <delimiter = ","> (s)
        a = Shape (p)
        z = If (c) <then_branch = t () => (string[2] u) { u = Identity (s) },
                    else_branch = e () => (string[K] v) { v = Constant <value_strings = ["u", "v", "w"]> () }>
        b = Shape (z)
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, s) <body = l (int64 i, bool k, string[H] w) => (bool m, string[G] x) {
            m = Identity (k)
            x = Concat <axis = 0> (w, w)
        }>
        d = Shape (y)
    }"""
    program = sx.compile(onnx.parser.parse_model(HEAD + text))
    for taken in (True, False):
        found = program(np.array(["a,b", "c,d,e"], object), np.array(taken), np.array(3))
        assert [found[k].tolist() for k in "abd"] == [[2, 3], [2 if taken else 3], [16]]


def everywhere(text: str, feeds: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The outputs of the program, which must be native, and of the model's module at three levels."""
    model = onnx.parser.parse_model(text)
    program = sx.compile(model)
    assert program.explain().to_dict()["hosted"] == []
    return [program(feeds), *(sx.run(sx.lower(model, to=level), feeds) for level in ("graph", "kernels", "tensor"))]
