"""Sizes that are computed from numbers given at run time, near the ends of int64 too: right, or one clear error."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import sardonyx as sx

MOST, LEAST = 2**63 - 1, -(2**63)
Array = np.ndarray[Any, Any]


def model(text: str) -> onnx.ModelProto:
    made = helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=[helper.make_opsetid("", 22)])
    for node in made.graph.node:
        node.name = "last"
    return made


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def exact_range(start: int, limit: int, delta: int, dtype: str = "int64") -> Array:
    return np.array(list(range(start, limit, delta)), dtype)


RANGES = {
    "int64": [
        (0, 5, 1), (5, 0, -2), (0, -5, 1), (3, 3, 1), (0, 5, 2**31), (0, 5, 2**32), (0, 5, 2**62), (0, 5, MOST),
        *((2**k, 2**k + 3, 1) for k in (31, 61, 62)), *((-(2**k) + 3, -(2**k), -1) for k in (31, 61, 62, 63)),
        (MOST - 3, MOST, 1), (LEAST, LEAST + 3, 1), (LEAST, MOST, 2**62), (MOST, LEAST, -(2**62)), (MOST, LEAST, LEAST),
        (LEAST, MOST, MOST), (-1, MOST, 2**62), (0, -1, LEAST), (MOST, 0, LEAST), (LEAST, MOST, -1), (MOST, LEAST, 1),
    ],
    "int32": [(0, 5, 1), (5, 0, -2), (0, 5, 2**31 - 1), (-(2**31), 2**31 - 1, 2**30), (2**31 - 1, -(2**31), -(2**31))],
    "int16": [(0, 5, 1), (5, 0, -2), (0, 5, 2**15 - 1), (-(2**15), 2**15 - 1, 2**14), (2**15 - 1, -(2**15), -(2**15))],
}  # fmt: skip


@pytest.mark.parametrize("dtype", RANGES)
def test_ranges(dtype: str) -> None:
    made = model(f"({dtype} a, {dtype} b, {dtype} d) => ({dtype}[K] y) {{ y = Range(a, b, d) }}")
    program, graph = sx.compile(made), sx.lower(made, to="graph")
    assert not program.explain().to_dict()["hosted"]
    for case in RANGES[dtype]:
        feeds = dict(zip("abd", (np.array(n, dtype) for n in case)))
        for found in program(feeds), sx.run(graph, feeds):
            np.testing.assert_array_equal(found["y"], exact_range(*case, dtype))
    feeds["d"] = np.array(0, dtype)
    for run in (program, lambda f: sx.run(graph, f)):
        with pytest.raises(sx.InputError, match="'d' is 0, and the delta must not be 0\n  --> node 'last'"):
            run(feeds)


def test_ranges_from_and_to_a_number() -> None:
    """The usual ones keep an expression as their length."""
    up = sx.compile(model("(int64 b) => (int64[K] y) { a = Constant <value_int = 0> () "
                          "d = Constant <value_int = 1> () y = Range(a, b, d) }"))  # fmt: skip
    for n in (3, 0, -1, LEAST):
        np.testing.assert_array_equal(up(np.array(n))["y"], exact_range(0, n, 1))
    with pytest.raises(sx.InputError, match=f"v0 = {MOST} .element 0 of 'b'.\n  --> node 'last'"):
        up(np.array(MOST))
    window = sx.compile(model("(int64 a, float[N] x) => (int64[N] y) { n = Size(x) d = Constant <value_int = 1> () "
                              "b = Add(a, n) y = Range(a, b, d) }"))  # fmt: skip
    for n in (3, MOST - 5, LEAST):
        np.testing.assert_array_equal(window(np.array(n), np.ones(4, np.float32))["y"], exact_range(n, n + 4, 1))


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_ranges_of_floats(dtype: str) -> None:
    made = model(f"({dtype} a, {dtype} b, {dtype} d) => ({dtype}[K] y) {{ y = Range(a, b, d) }}")
    program, graph = sx.compile(made), sx.lower(made, to="graph")
    big, kind = (3e38, np.float32) if dtype == "float" else (1e308, np.float64)
    for case, count in (((0, big, big / 8), 8), ((-big / 2, big / 2, big / 4), 4), ((0, 1, big), 1), ((0, -1, big), 0)):
        feeds = dict(zip("abd", map(kind, case)))
        for found in program(feeds), sx.run(graph, feeds):
            assert found["y"].shape == (count,)
    wide = {"a": kind(-big), "b": kind(big), "d": kind(big / 2)}
    wrong = [(0, np.inf, 1), (0, np.nan, 1), (0, 1, 0), (0, 0, 0), (0, 1e12, 1), (-big, np.inf, big)]
    if dtype == "float":  # counted in f64, where the difference has a value
        assert program(wide)["y"].shape == sx.run(graph, wide)["y"].shape == (4,)
    else:
        wrong.append((-big, big, big / 2))
    for case in wrong:
        for run in (program, lambda f: sx.run(graph, f)):
            with pytest.raises(sx.InputError, match="'last'"), np.errstate(all="ignore"):
                run(dict(zip("abd", map(kind, case))))
    nan = np.nan
    for case, said in (((0, 5, 0), "'d' is 0"), ((nan, 5, 1), "'a' is NaN"), ((0, nan, 1), "'b' is NaN"),
                       ((0, 5, nan), "'d' is NaN")):  # fmt: skip
        for run in (program, lambda f: sx.run(graph, f)):
            with pytest.raises(sx.InputError, match=rf"Range: {said}.*\n  --> node 'last'"):
                run(dict(zip("abd", map(kind, case))))
    for run, said in ((program, "has a value that is no int64"), (lambda f: sx.run(graph, f), "is inf")):
        with pytest.raises(sx.InputError, match=f"'a', 'b' and 'd' give {said}"):
            run(dict(zip("abd", map(kind, (0, np.inf, 1)))))


def test_sizes_out_of_range_name_what_gives_them() -> None:
    made = model("(int64 a, int64 b, int64 d) => (int64[K] y) { y = Range(a, b, d) }")
    program = sx.compile(made)
    for case, said in (((0, 2**62, 1), f"the value {2**62}"), ((LEAST, -2, 1), f"the value {MOST - 1}"),
                       ((LEAST, MOST, 1), "a value that is no int64")):  # fmt: skip
        with pytest.raises(
            sx.InputError, match=f"a size that 'a', 'b' and 'd' give has {said}, out .*\n  --> node 'last'"
        ):
            program(*map(np.int64, case))
    program = sx.compile(model("(float[N, 3] x, int64[K] s) => (y) { y = Reshape(x, s) }"))
    with pytest.raises(
        sx.InputError, match="N is the size of 'x' axis 0, u0 is a size that 's' gives, u1 is a size that 's'"
    ):
        program(np.zeros((5, 3), np.float32), ints(5, 1, 2))
    text = "(int64[2] i, float d, float[2] v) => (float[2, K] y) { y = OneHot(i, d, v) }"
    for depth in (np.nan, np.inf, -np.inf, 1e30):
        with pytest.raises(sx.InputError, match="'d' has a value that is no int64"):
            sx.compile(model(text))(ints(0, 1), np.float32(depth), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, MOST), (LEAST, MOST), (MOST, LEAST), (LEAST, LEAST), (MOST, MOST), (-(2**62), 2**62), (-2, MOST), (1, -1)],
)
def test_slices_by_data(start: int, end: int) -> None:
    """To the greatest int64 is the usual way to write "all that follow"."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    wanted = x[max(start, -3) : end] if end >= 0 else x[max(start, -3) : max(end, -4)]
    for text in (
        "(float[N, 4] x, int64[1] s, int64[1] e) => (float[K, 4] y) { y = Slice(x, s, e) }",
        "(float[N, 4] x, int64[1] s, int64[1] e) => (float[K, 4] y) { a = Constant <value_ints = [0]> () "
        "t = Constant <value_ints = [1]> () y = Slice(x, s, e, a, t) }",
        "(float[N, 4] x, int64[1] s, int64[1] e, int64[1] t) => (float[K, 4] y) { a = Constant <value_ints = [0]> () "
        "y = Slice(x, s, e, a, t) }",
    ):
        feeds = {"x": x, "s": ints(start), "e": ints(end)} | ({"t": ints(1)} if "int64[1] t" in text else {})
        np.testing.assert_array_equal(sx.compile(model(text))(feeds)["y"], wanted)


X = "float[N, 4] x"
TOO_LARGE: dict[str, tuple[str, list[Array]]] = {
    "ConstantOfShape": ("(int64[2] s) => (float[A, B] y) { y = ConstantOfShape(s) }",
                        [ints(2**40, 2**40), ints(2**62, 4), ints(2**32, 2**32)]),
    "Tile": (f"({X}, int64[2] s) => (float[A, B] y) {{ y = Tile(x, s) }}",
             [ints(MOST, 1), ints(2**62, 1), ints(2**40, 2**40)]),
    "Expand": ("(float[N, 1] x, int64[2] s) => (float[A, B] y) { y = Expand(x, s) }",
               [ints(3, MOST), ints(3, 2**62), ints(3, 2**45)]),
    "Resize": ('(float[N, 4] x, int64[2] s) => (float[A, B] y) { y = Resize <mode = "nearest"> (x, , , s) }',
               [ints(MOST, 1), ints(2**40, 2**40)]),
    "Pad": (f"({X}, int64[4] s) => (float[A, B] y) {{ y = Pad(x, s) }}",
            [ints(MOST, 0, 0, 0), ints(MOST, 0, MOST, 0), ints(LEAST, 0, 0, 0), ints(0, 2**40, 2**40, 0)]),
    "OneHot": ("(float[2] x, int64 s) => (float[A, B] y) { i = Cast <to = 7> (x) y = OneHot(i, s, x) }",
               [np.array(MOST), np.array(2**62), np.array(2**45), np.array(LEAST)]),
    "TopK": (f"({X}, int64[1] s) => (float[N, K] y) {{ y, i = TopK(x, s) }}",
             [ints(MOST), ints(2**32 + 2), ints(LEAST)]),
    "Split": (f"({X}, int64[2] s) => (float[A, 4] y) {{ y, z = Split <axis = 0> (x, s) }}",
              [ints(2**62, 2**62), ints(MOST, MOST), ints(2**62 + 3, -(2**62))]),
    "HannWindow": ("(int64 s) => (float[K] y) { y = HannWindow(s) }", [np.array(MOST), np.array(2**45)]),
    "Reshape": (f"({X}, int64[2] s) => (float[A, B] y) {{ y = Reshape(x, s) }}",
                [ints(2**40, 2**40), ints(MOST, MOST), ints(-1, MOST), ints(2**32, 2**32), ints(2**62, -1)]),
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 2, -1])
def test_slices_of_many_axes_by_data(step: int) -> None:
    """Whichever end of each axis the positions count from, there is one program, and it does not take long to make."""
    made = model(
        "(float[A, B, C, D, E] x, int64[5] s, int64[5] e) => (float[F, G, H, I, J] y)"
        f"<int64[5] axes = {{0, 1, 2, 3, 4}}, int64[5] steps = {{{', '.join([str(step)] * 5)}}}>"
        "{ y = Slice(x, s, e, axes, steps) }"
    )
    began = time.process_time()
    program = sx.compile(made, cache=False)
    assert time.process_time() - began < 15
    assert not program.explain().to_dict()["hosted"] or step == 2  # its sizes have too many terms to be multiplied
    rng = np.random.default_rng(0)
    positions = [LEAST, LEAST + 1, -7, -4, -1, 0, 1, 2, 3, 4, 9, 2**62, MOST]
    for _ in range(100):
        x = rng.standard_normal(rng.integers(0, 5, 5)).astype(np.float32)
        s, e = (rng.choice(positions, 5) for _ in range(2))
        taken = [counted(*ends, size, step) for *ends, size in zip(s, e, x.shape, strict=True)]
        np.testing.assert_array_equal(program({"x": x, "s": s, "e": e})["y"], x[np.ix_(*taken)])


def counted(start: int, end: int, size: int, step: int) -> Array:
    """The positions that Slice takes of an axis, by the text of the standard."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (int(np.clip(int(p) + size * (p < 0), low, high)) for p in (start, end))
    return np.arange(max(first, 0), max(last, -1), step) if size else ints()


@pytest.mark.parametrize("operator", TOO_LARGE)
def test_what_is_too_large_is_an_error_that_names_node_and_tensor(operator: str) -> None:
    text, wrong = TOO_LARGE[operator]
    program = sx.compile(model(text))
    columns = {"Expand": 1, "OneHot": 0}.get(operator, 4)
    x = np.ones((3, columns) if columns else (2,), np.float32)
    for given in wrong:
        with pytest.raises(sx.InputError, match="'last'") as caught:
            program({"s": given} | ({"x": x} if "float" in text.partition("=>")[0] else {}))
        assert "'s'" in str(caught.value) or "bytes of memory" in str(caught.value), str(caught.value)


def test_reshape_speaks_of_the_numbers_of_elements() -> None:
    program = sx.compile(model("(float[8] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }"))
    message = f"Reshape keeps the number of elements .*the sizes do not fit: v0 = {2**40} .element 0 of 's'."
    with pytest.raises(sx.InputError, match=message):
        program(np.ones(8, np.float32), ints(2**40, 2**40))
    assert program(np.ones(8, np.float32), ints(-1, 2))["y"].shape == (4, 2)


@pytest.mark.parametrize("upper", [0, 1])
def test_diagonals_far_away(upper: int) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = sx.compile(model(f"({X}, int64 k) => (float[N, 4] y) {{ y = Trilu <upper = {upper}> (x, k) }}"))
    for k in (MOST, LEAST, 2**62, -(2**62), 2**31, -(2**31)):
        kept = (k < 0) == bool(upper)
        np.testing.assert_array_equal(program(x, np.array(k))["y"], x if kept else 0 * x)


def test_sizes_that_are_no_number() -> None:
    for text, given in (
        ("(double s, float[2] x) => (float[A, B] y) { i = Cast <to = 7> (x) y = OneHot(i, s, x) }", np.array(np.nan)),
        ('(float[2] s, float[2, 2] x) => (float[A, B] y) { y = Resize <mode = "nearest"> (x, , s) }',
         np.array([1, np.nan], np.float32)),
    ):  # fmt: skip
        x = np.ones((2, 2) if "Resize" in text else 2, np.float32)
        with pytest.raises(sx.InputError, match="'last'"):
            sx.compile(model(text))(given, x)


@pytest.mark.parametrize("delta", [MOST, 2**62, 2**31, -(2**31), -(2**62), LEAST + 1, LEAST])
def test_a_range_whose_known_delta_is_large(delta: int) -> None:
    """No sum with it may leave int64, whatever start and limit are, and whichever of them are known."""
    made = f"c = Constant <value_int = {delta}> () y = Range (a, b, c) }}"
    size = "i = Constant <value_int = 0> () s = Shape (x) b = Gather (s, i)"
    both = sx.compile(model(f"(int64 a, int64 b) => (int64[K] y) {{ {made}"))
    to_limit = sx.compile(model(f"(int64 b) => (int64[K] y) {{ a = Constant <value_int = 0> () {made}"))
    to_size = sx.compile(model(f"(float[N] x) => (int64[K] y) {{ a = Constant <value_int = 0> () {size} {made}"))
    pairs = [(0, 5), (5, -5), (LEAST, MOST), (MOST, LEAST), (0, MOST), (0, LEAST), (-1, MOST), (3, 3)]
    for start, limit in pairs:
        if abs(limit - start) < 20 * abs(delta):
            wanted = exact_range(start, limit, delta)
            np.testing.assert_array_equal(both(np.array(start), np.array(limit))["y"], wanted)
            if start == 0:
                np.testing.assert_array_equal(to_limit(np.array(limit))["y"], wanted)
    for count in (0, 4):
        np.testing.assert_array_equal(to_size(np.zeros(count, np.float32))["y"], exact_range(0, count, delta))


def test_a_number_has_no_pads() -> None:
    for mode in ("constant", "edge"):
        program = sx.compile(model(f'(float x, int64[P] p) => (float y) {{ y = Pad <mode = "{mode}"> (x, p) }}'))
        assert program.explain().to_dict()["hosted"] == []
        assert program(np.array(3, np.float32), np.zeros(0, np.int64))["y"] == 3
        with pytest.raises(sx.InputError):
            program(np.array(3, np.float32), np.zeros(2, np.int64))


def test_sizes_of_one_resize_behind_another() -> None:
    """Quotients of quotients, whose numerators are far larger than they are."""
    made = model('(float[1, 1, H, W] x) => (float[A, B, C, D] y) { '
                 's = Constant <value_floats = [1.0, 1.0, 0.37, 0.61]> () '
                 't = Constant <value_floats = [1.0, 1.0, 2.7, 3.3]> () a = Resize(x, "", s) b = Resize(a, "", t) '
                 'c = Resize(b, "", s) y = Resize(c, "", t) }')  # fmt: skip
    assert sx.compile(made)(np.zeros((1, 1, 100, 100), np.float32))["y"].shape == (1, 1, 97, 402)
    cropped = model('(float[1, 1, H, W] x) => (float[A, B, C, D] y) { '
                    's = Constant <value_floats = [1.0, 1.0, 0.6, 1.7]> () '
                    'r = Constant <value_floats = [0.0, 0.0, 0.1, -0.2, 1.0, 1.0, 0.8, 1.3]> () '
                    'y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, r, s) }')  # fmt: skip
    assert sx.compile(cropped)(np.zeros((1, 1, 5, 6), np.float32))["y"].shape == (1, 1, 2, 15)


@pytest.mark.parametrize("factor", [2**62, 2**63 - 1, 3037000500**2 // 2])
def test_products_of_sizes_wrap_where_a_factor_is_too_large(factor: int) -> None:
    made = model("(float[N] x) => (int64[1] y, int64[1] z) { s = Shape(x) "
                 f"k = Constant <value_ints = [{factor}]> () "
                 "q = Constant <value_ints = [7]> () "
                 "a = Mul(s, k) b = Add(a, q) y = Mod(b, q) z = Div(a, k) }")  # fmt: skip
    program, graph = sx.compile(made), sx.lower(made, to="graph")
    for size in (0, 1, 2, 3, 5):
        product = (size * factor + 2**63) % 2**64 - 2**63
        past = (product + 7 + 2**63) % 2**64 - 2**63
        for found in (program(np.zeros(size, np.float32)), sx.run(graph, {"x": np.zeros(size, np.float32)})):
            assert found["y"].tolist() == [past % 7]
            assert found["z"].tolist() == [abs(product) // factor * (1 if product >= 0 else -1)]


@pytest.mark.parametrize("scale", [0.37, 0.83, 1.3, 1.31, 0.333333, 2.6, 0.47123])
def test_resize_has_the_sizes_of_float32_products(scale: float) -> None:
    """1.3 takes 10 to 13 and 90 to 116: there is no quotient of integers that does."""
    text = f"(float[1, 1, N] x) => (float[A, B, C] y) {{ s = Constant <value_floats = [1.0, 1.0, {scale}]> () "
    program = sx.compile(model(text + 'y = Resize(x, "", s) }'))
    twice = sx.compile(model(text + 'a = Resize(x, "", s) b = Resize(a, "", s) y = Concat <axis = 2> (b, a, a) }'))
    for size in (1, 2, 10, 25, 50, 90, 100, 213, 300, 1000, 8551, 65536):
        once = int(np.floor(np.float32(scale) * np.float32(size)))
        again = int(np.floor(np.float32(scale) * np.float32(once)))
        assert program(np.zeros((1, 1, size), np.float32))["y"].shape == (1, 1, once)
        assert twice(np.zeros((1, 1, size), np.float32))["y"].shape == (1, 1, again + 2 * once)


def test_sizes_beyond_exact_products_with_a_scale_are_errors() -> None:
    """In float32 315853 times 0.83 is rounded up to a whole number, which no shorter axis is."""
    program = sx.compile(model("(float[N] x) => (float[A] y) { s = Constant <value_floats = [0.83]> () "
                               'y = Resize(x, "", s) }'))  # fmt: skip
    assert program(np.zeros(315852, np.float32))["y"].shape == (int(np.float32(0.83) * np.float32(315852)),)
    with pytest.raises(sx.InputError, match=r"exact in float32 .onnx.Resize 'last'.: N <= 315852 does not hold"):
        program(np.zeros(315853, np.float32))


@pytest.mark.parametrize(("size", "error"), [("100", sx.ModelError), ("N", sx.InputError)])
def test_products_with_a_scale_beyond_sizes_are_errors(size: str, error: type[sx.Error]) -> None:
    made = model(f"(float[{size}] x) => (float[A] y) {{ s = Constant <value_floats = [3e38]> () "
                 'y = Resize(x, "", s) }')  # fmt: skip
    with pytest.raises(error, match="last"):
        sx.compile(made)(np.zeros(100, np.float32))


def test_small_dyadic_scales_refuse_no_size() -> None:
    for scale in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 8.0):
        text = f"(float[N] x) => (float[A] y) {{ s = Constant <value_floats = [{scale}]> () "
        assert "dims.assume" not in str(sx.lower(model(text + 'y = Resize(x, "", s) }'), to="graph"))
