"""Corners of operators' meanings, compiled: the smallest cases that once were wrong."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from onnx import ModelProto, TensorProto, helper, parser

import sardonyx as sx


def model(text: str, opset: int = 24) -> ModelProto:
    return helper.make_model(parser.parse_graph(text), opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def test_concat_of_nothing() -> None:
    program = sx.compile(model("g (float[0, 3] x, float[0, 3] y) => (float[0, 3] z) { z = Concat <axis = 0> (x, y) }"))
    empty = np.zeros((0, 3), np.float32)
    assert program(empty, empty)["z"].shape == (0, 3)


def test_results_of_a_hosted_operator_that_are_left_out() -> None:
    graph = "g (float[N] x) => (float[M] y, int64[M] c) { y, , , c = Unique <sorted = 0> (x) }"
    found = sx.compile(model(graph))(np.array([3, 1, 3, 2], np.float32))
    assert_array_equal(found["y"], [3, 1, 2])
    assert_array_equal(found["c"], [2, 1, 1])


@pytest.mark.parametrize("opset, last, seen", [(23, 1, 5), (23, 5, 5), (24, 1, 1), (24, 3, 3), (24, 5, 5)])
def test_the_last_axis_of_a_mask(opset: int, last: int, seen: int) -> None:
    """A shorter one leaves out the rest, but before opset 24 a single one serves all keys; the run tells which."""
    graph = """g (float[1, 1, 2, 4] q, float[1, 1, 5, 4] k, float[1, 1, 5, 4] v, bool[2, M] m)
        => (float[1, 1, 2, 4] y) {
        y = Attention(q, k, v, m)
    }"""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 1, n, 4)).astype(np.float32) for n in (2, 5, 5))
    found = sx.compile(model(graph, opset))(q=q, k=k, v=v, m=np.ones((2, last), np.bool_))["y"]
    scores = np.exp(q[0, 0] @ k[0, 0, :seen].T / 2)
    wanted = scores / scores.sum(1, keepdims=True) @ v[0, 0, :seen]
    np.testing.assert_allclose(found[0, 0], wanted, rtol=1e-5, atol=1e-6)


def test_a_mask_that_does_not_fit() -> None:
    graph = """g (float[B, 1, 2, 4] q, float[B, 1, 5, 4] k, float[B, 1, 5, 4] v, bool[M, 1, 1, 5] m)
        => (float[B, 1, 2, 4] y) {
        y = Attention(q, k, v, m)
    }"""
    ones = {n: np.ones((2, 1, length, 4), np.float32) for n, length in (("q", 2), ("k", 5), ("v", 5))}
    with pytest.raises(sx.InputError, match="M"):
        sx.compile(model(graph))(**ones, m=np.ones((4, 1, 1, 5), np.bool_))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("columns", [1, 2])
def test_zero_points_whose_number_is_known_at_run_time(rows: int, columns: int) -> None:
    graph = """g (uint8[M, K] a, int8[K, N] b, uint8[P] p, int8[Q] q) => (int32[M, N] y) {
        y = MatMulInteger(a, b, p, q)
    }"""
    random = np.random.default_rng(0)
    a, b = random.integers(0, 256, (3, 70), np.uint8), random.integers(-128, 128, (70, 2), np.int8)
    p, q = random.integers(0, 256, rows, np.uint8), random.integers(-128, 128, columns, np.int8)
    found = sx.compile(model(graph))(a=a, b=b, p=p, q=q)["y"]
    assert_array_equal(found, (a.astype(int) - p[:, None]) @ (b.astype(int) - q))


@pytest.mark.parametrize("count", [1, 5])
def test_scales_whose_number_is_known_at_run_time(count: int) -> None:
    graph = """g (float[N, C] x, float[S] s, uint8[S] z) => (uint8[N, C] y, float[N, C] d) {
        y = QuantizeLinear(x, s, z)
        d = DequantizeLinear(y, s, z)
    }"""
    x, scale = np.linspace(-3, 9, 10, dtype=np.float32).reshape(2, 5), np.arange(1, count + 1, dtype=np.float32) / 8
    zero = np.arange(count, dtype=np.uint8) * 9
    found = sx.compile(model(graph))(x=x, s=scale, z=zero)
    wanted = np.clip(np.round(x / scale) + zero, 0, 255).astype(np.uint8)
    assert_array_equal(found["y"], wanted)
    assert_array_equal(found["d"], (wanted.astype(np.float32) - zero) * scale)
    with pytest.raises(sx.InputError, match="S"):
        sx.compile(model(graph))(x=x, s=scale.repeat(2), z=zero.repeat(2))


def test_the_number_of_parts_of_a_size_that_is_known_at_run_time() -> None:
    graph = """g (float[N, M] x) => (int64 n) {
        three = Constant<value_int = 3>()
        parts = SplitToSequence<axis = 1>(x, three)
        n = SequenceLength(parts)
    }"""
    program = sx.compile(model(graph))
    assert [int(program(np.ones((2, m), np.float32))["n"]) for m in (1, 3, 7)] == [1, 1, 3]
    assert not program.explain().to_dict()["hosted"]


@pytest.mark.parametrize("mode", ["wrap", "reflect", "edge"])
def test_negative_pads_cut_first(mode: str) -> None:
    """What is cut off is not seen by the other end, whether the pads are constants or come with the call."""
    given = sx.compile(model(f'g (float[N] x, int64[2] p) => (float[M] y) {{ y = Pad <mode = "{mode}"> (x, p) }}'))
    x = np.arange(4, dtype=np.float32)
    for before, after in ((-1, 2), (2, -1), (-2, 4), (-3, 1), (-1, -1), (-4, 0)):
        left = x[max(-before, 0) : 4 - max(-after, 0)]
        widths = (max(before, 0), max(after, 0))
        wanted = np.pad(left, widths, mode) if any(widths) else left  # pyright: ignore[reportArgumentType]
        assert_array_equal(given(x, np.array([before, after]))["y"], wanted)
        graph = f"""g (float[N] x) => (float[M] y) {{
            p = Constant <value_ints = [{before}, {after}]> ()
            y = Pad <mode = "{mode}"> (x, p)
        }}"""
        assert_array_equal(sx.compile(model(graph))(x)["y"], wanted)
    for pads in [-4, 1], [-5, 3]:
        with pytest.raises(sx.InputError, match="axis 0 of 'data' has elements to pad with"):
            given(x, np.array(pads))
    with pytest.raises(sx.InputError, match="axis 0 of 'data' has elements to pad with"):
        given(x[:0], np.array([1, 0]))


def test_the_clip_of_an_lstm_is_in_front_of_each_activation() -> None:
    graph = """g (float[6, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] r) => (float[6, 1, 1, 1] y, float[1, 1, 1] c) {
        y, , c = LSTM <hidden_size = 1, clip = 0.5> (x, w, r)
    }"""
    ones = np.ones((1, 4, 1), np.float32)
    found = sx.compile(model(graph, 22))(x=np.full((6, 1, 1), 5, np.float32), w=ones, r=ones)
    gate, cell = 1 / (1 + np.exp(-0.5)), 0.0
    for _ in range(6):
        cell = gate * cell + gate * np.tanh(0.5)
    assert cell > 0.5
    np.testing.assert_allclose(found["c"].item(), cell, rtol=1e-6)
    np.testing.assert_allclose(found["y"][-1].item(), gate * np.tanh(0.5), rtol=1e-6)


def test_sizes_whose_product_is_no_64_bit_number_are_too_many_elements() -> None:
    graph = f"""g (float[N] x) => (float[A, B] z) <int64[2] sizes = {{{2**40}, {2**40}}}> {{
        z = ConstantOfShape (sizes)
    }}"""
    with pytest.raises(sx.InputError, match=r"'z' with the sizes .* does not fit into memory"):
        sx.compile(model(graph, 22))(x=np.zeros(1, np.float32))


def test_a_single_element_of_pytorch_half_pixel_is_read_at_0() -> None:
    """As the standard's text says and onnxruntime does; the reference evaluator takes -0.5."""
    for axes in ("1, 1, 5", "A, B, C"):
        graph = f"""g (float[{axes}] x) => (float[1, 1, 1] z) <int64[3] sizes = {{1, 1, 1}}> {{
            z = Resize <mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , sizes)
        }}"""
        x = np.array([[[3, 9, -4, 7, 1]]], np.float32)
        assert_array_equal(sx.compile(model(graph, 22))(x)["z"], x[:, :, :1])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_an_index_modulo_a_size_that_is_a_difference(size: int) -> None:
    """Of [4, 4 - N], repeated: what stands below is a size, whichever sign its terms have."""
    graph = """g (float[4, N] x) => (float[n, m] y)
        <int64 i = {1}, int64 four = {4}, int64[1] z = {0}, int64[2] r = {2, 3}, float one = {1}> {
        s = Shape(x) n = Gather<axis = 0>(s, i) d = Sub(four, n) e = Unsqueeze(d, z) f = Unsqueeze(four, z)
        t = Concat<axis = 0>(f, e) k = Expand(one, t) o = CumSum(k, i) y = Tile(o, r)
    }"""
    found = sx.compile(model(graph))(np.zeros((4, size), np.float32))["y"]
    assert_array_equal(found, np.tile(np.arange(1, 5 - size, dtype=np.float32), (8, 3)))


def test_a_loop_that_a_later_size_keeps_from_running() -> None:
    """The product demands the state's first size, so no trip is left: the body is inferred all the same."""
    program = sx.compile(
        model("""g (int64 n, float[4] x, float[4, 2] w) => (float[A] y) {
            s = Loop (n, , x) <body = b (int64 i, bool c, float[P] v) => (bool d, float[Q] u) {
                u = Concat <axis = 0> (v, x)
                d = Identity (c)
            }>
            y = MatMul (s, w)
        }""")
    )
    x, w = np.arange(4, dtype=np.float32), np.ones((4, 2), np.float32)
    assert_array_equal(program(np.array(0), x, w)["y"], x @ w)
    with pytest.raises(sx.InputError, match="inner sizes of MatMul"):
        program(np.array(1), x, w)


def test_windows_of_integers_have_their_middle() -> None:
    """As f32 it is 1; the sum of its terms in f64 is less."""
    graph = "g (int64 n) => (int8[N] y) { y = BlackmanWindow <output_datatype = 3> (n) }"
    assert sx.compile(model(graph))(np.array(10))["y"].tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_an_rms_of_halves_by_a_scale_of_floats_is_rounded_before() -> None:
    graph = "g (float16[2, 8] x, float[8] s) => (float[2, 8] y) { y = RMSNormalization (x, s) }"
    random = np.random.default_rng(0)
    x, s = random.standard_normal((2, 8)).astype(np.float16), random.standard_normal(8).astype(np.float32)
    wide = x.astype(np.float64)
    normal = (wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)).astype(np.float16)
    np.testing.assert_allclose(sx.compile(model(graph))(x, s)["y"], normal * s, rtol=2e-7)


def test_bits_of_another_number() -> None:
    graph = "g (float16[N] x) => (int32[N] y) { y = BitCast <to = 6> (x) }"
    with pytest.raises(sx.ModelError, match=r"BitCast.*float16 has 16 bits, and int32 32"):
        sx.compile(model(graph, 26))


@pytest.mark.parametrize("condition, runs", [("", 4), ("c", 2)])
@pytest.mark.parametrize("optimized", [True, False])
def test_what_the_body_of_a_loop_without_a_condition_yields(condition: str, runs: int, optimized: bool) -> None:
    """It is ignored, by the table in the operator's text; onnxruntime ends the loop by it."""
    graph = f"""g (int64 n, bool c, int64 k, float[N] x) => (float[M] y, float[R, M] rows) {{
        y, rows = Loop (n, {condition}, x) <body = b (int64 i, bool go, float[M] s)
            => (bool on, float[M] t, float[M] r) {{
            on = Less (i, k)
            t = Add (s, x)
            r = Identity (t)
        }}>
    }}"""
    program = sx.compile(model(graph), fuse=optimized)
    given = {"c": np.array(True), "k": np.array(1), "x": np.ones(3, np.float32)}
    found = program(n=np.array(4), **given)
    assert_array_equal(found["y"], np.full(3, 1 + runs, np.float32))
    assert_array_equal(found["rows"][:, 0], 2 + np.arange(runs, dtype=np.float32))
    assert program(n=np.array(0), **given)["rows"].shape == (0, 3)
    known = model(graph.replace("Less (i, k)", "Constant <value = bool {0}> ()").replace(", int64 k", ""))
    del given["k"]
    assert_array_equal(
        sx.compile(known, fuse=optimized)(n=np.array(3), **given)["y"], np.full(3, 4 if not condition else 2)
    )


@pytest.mark.parametrize("kind", ["float", "bfloat16", "float16"])
@pytest.mark.parametrize("hidden", ["Where (m, s, low)", "Add (s, bias)"])
@pytest.mark.parametrize("keys", [0, 1, 7, 300])
def test_a_row_of_a_softmax_that_attends_to_no_key(kind: str, hidden: str, keys: int) -> None:
    """It is NaN, as a softmax of -inf only is, also where attention is recognized; without any keys it is 0."""
    code = getattr(TensorProto, kind.upper())
    graph = f"""g ({kind}[B, 2, T, 8] q, {kind}[B, 2, S, 8] k, {kind}[B, 2, S, 8] v, bool[B, 1, T, S] m)
        => ({kind}[B, 2, T, 8] y) {{
        wide_low = Constant <value = float {{-inf}}> ()
        wide_zero = Constant <value = float {{0}}> ()
        low = Cast <to = {code}> (wide_low)
        zero = Cast <to = {code}> (wide_zero)
        bias = Where (m, zero, low)
        t = Transpose <perm = [0, 1, 3, 2]> (k)
        s = MatMul (q, t)
        hidden = {hidden}
        p = Softmax <axis = -1> (hidden)
        y = MatMul (p, v)
    }}"""
    program = sx.compile(model(graph))
    assert "attention" in str(program.explain())
    dtype = helper.tensor_dtype_to_np_dtype(code)
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 2, n, 8)).astype(dtype) for n in (3, keys, keys))
    mask = random.random((2, 1, 3, keys)) < 0.5
    mask[..., :1] = True
    mask[1, :, 1] = False
    found = program(q=q, k=k, v=v, m=mask)["y"].astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = np.where(mask, q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
        wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.isnan(found).any() == (keys > 0)
    tolerance = {"float": 1e-5, "bfloat16": 0.1, "float16": 1e-2}[kind]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "end",
    [
        "c = Greater (n, eight) e = Where (c, most, half)",
        "c = Greater (n, eight) e = Where (c, eight, most)",
        "p = Mod (n, two) c = Equal (p, zero) e = Where (c, most, minus)",
        "c = Less (n, eight) k = Cast <to = 7> (c) l = Sub (one, k) a = Mul (l, two) b = Mul (k, most) e = Add (a, b)",
    ],
)
def test_a_condition_on_sizes_chooses_the_end_of_a_slice(end: str) -> None:
    """Also where the other end is the largest number, and at lengths whose products with sizes are large."""
    graph = f"""g (float[N] x) => (float[M] y, int64[1] e) <
        int64[1] most = {{{2**63 - 1}}}, int64[1] eight = {{8}}, int64[1] two = {{2}}, int64[1] zero = {{0}},
        int64[1] minus = {{-1}}, int64[1] one = {{1}}
    > {{ n = Shape (x) half = Div (n, two) {end} y = Slice (x, zero, e, zero) }}"""
    program = sx.compile(model(graph, 18))
    for size in 0, 1, 5, 8, 9, 12, 2_000_001:
        x = np.arange(size, dtype=np.float32)
        found = program(x=x)
        np.testing.assert_array_equal(found["y"], x[: found["e"].item()])


def test_sizes_that_conditions_choose_are_counted_on_the_side_that_holds() -> None:
    graph = """g (float[N] x) => (float[M] y) <int64[1] zero = {0}, int64[1] rate = {160}, int64[1] most = {480000}> {
        n = Shape (x) m = Mod (n, rate) c = Equal (m, zero) q = Sub (rate, m) p = Where (c, zero, q)
        pads = Concat <axis = 0> (zero, p) w = Pad (x, pads) l = Shape (w) d = Greater (l, most)
        e = Where (d, most, l) y = Slice (w, zero, e, zero)
    }"""
    program = sx.compile(model(graph, 18))
    for size in 0, 1, 160, 161, 479_999, 480_001, 2_000_000:
        assert program(x=np.ones(size, np.float32))["y"].shape == (min(-(-size // 160) * 160, 480000),)
