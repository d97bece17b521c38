"""Corners of the operators that the standard's own tests leave out, worked out by hand from its text."""

import math

import ml_dtypes
import numpy as np
import pytest
from sardonyx.semantics.reference import DTYPES, NUMBERS, REFERENCE
from sardonyx.semantics.reference.casting import convert
from sardonyx.semantics.reference.linear import einsum_terms
from sardonyx.semantics.reference.special import erf, erfc, normal_quantile

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ = (DTYPES[n] for n in (17, 18, 19, 20))
E8M0, INT4, UINT4, INT2 = DTYPES[24], DTYPES[22], DTYPES[21], DTYPES[26]


def run(name, *inputs, outputs=1, domain="", **attributes):
    results = REFERENCE[domain, name](inputs, attributes, outputs)
    return results[0] if outputs == 1 else results


def f32(*values):
    return np.array(values, np.float32)


# Integers: nothing traps, nothing warns


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_signed_division_truncates_and_never_traps(dtype):
    least = np.iinfo(dtype).min
    a = np.array([7, -7, 7, -7, 5, least, least], dtype)
    b = np.array([2, 2, -2, -2, 0, -1, 1], dtype)
    assert run("Div", a, b).tolist() == [3, -3, -3, 3, 0, least, least]
    assert run("Mod", a, b).tolist() == [1, 1, -1, -1, 0, 0, 0]
    assert run("Mod", a, b, fmod=1).tolist() == [1, -1, 1, -1, 0, 0, 0]


@pytest.mark.filterwarnings("error")
def test_arithmetic_wraps():
    big = np.array(127, np.int8)
    assert run("Add", big, big).item() == -2
    assert run("Mul", big, big).item() == 1
    assert run("Neg", np.array(-128, np.int8)).item() == -128
    assert run("Abs", np.array(-128, np.int8)).item() == -128
    assert run("Sub", np.array(0, np.uint8), np.array(1, np.uint8)).item() == 255


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_shifts_by_the_width_and_more(dtype):
    bits = np.dtype(dtype).itemsize * 8
    x = np.array([1, 5, np.iinfo(dtype).max], dtype)
    for amount in (bits, bits + 1, np.iinfo(dtype).max):
        y = np.array(amount, dtype)
        assert run("BitShift", x, y, direction="LEFT").tolist() == [0, 0, 0]
        assert run("BitShift", x, y, direction="RIGHT").tolist() == [0, 0, 0]
    assert run("BitShift", np.array([3], dtype), np.array([bits - 1], dtype), direction="LEFT") == np.array(
        [1 << (bits - 1)]
    ).astype(dtype)


def test_right_shift_of_negatives_is_arithmetic():
    x = np.array([-8, -1, -128, -8, -8], np.int8)
    y = np.array([1, 7, 8, -1, 100], np.int8)
    assert run("BitShift", x, y, direction="RIGHT").tolist() == [-4, -1, -1, -1, -1]
    assert run("BitShift", x, y, direction="LEFT").tolist() == [-16, -128, 0, 0, 0]


def test_integer_powers():
    x = np.array([2, -2, 0, 1, -1, -1, 3, 0], np.int64)
    y = np.array([10, 3, 0, -5, -3, -4, -1, -2], np.int64)
    assert run("Pow", x, y).tolist() == [1024, -8, 1, 1, -1, 1, 0, 0]
    assert run("Pow", np.array([2, 9], np.int32), f32(0.5, 0.5)).tolist() == [1, 3]
    assert run("Pow", f32(2, 2), np.array([-1, 3], np.int64)).tolist() == [0.5, 8]


# Casts


@pytest.mark.filterwarnings("error")
def test_float_to_integer_saturates():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 3e9])
    assert convert(x, np.dtype(np.int32)).tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2, 2**31 - 1]
    assert convert(x, np.dtype(np.int64)).tolist() == [
        0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2, -2, 3000000000,
    ]  # fmt: skip
    assert convert(x, np.dtype(np.uint64)).tolist() == [0, 2**64 - 1, 0, 2**64 - 1, 0, 2, 0, 3000000000]
    assert convert(f32(300, -1, 1e30, -129), np.dtype(np.int8)).tolist() == [44, -1, -1, 127]
    assert convert(f32(-9, 16, 7), INT4).astype(int).tolist() == [7, 0, 7]


def test_integer_to_integer_drops_high_bits():
    assert convert(np.array([200, -1, 256], np.int16), np.dtype(np.int8)).tolist() == [-56, -1, 0]
    assert convert(np.array([7, 8, -9], np.int64), INT4).astype(int).tolist() == [7, -8, 7]
    assert convert(np.array([-1, 17]), UINT4).astype(int).tolist() == [15, 1]
    assert convert(np.array([2, -3]), INT2).astype(int).tolist() == [-2, 1]


@pytest.mark.parametrize(
    ("dtype", "saturated", "not_saturated"),
    [
        (E4M3FN, [448, -448, 448, -448, math.nan], [math.nan] * 5),
        (E4M3FNUZ, [240, -240, 240, -240, math.nan], [math.nan] * 5),
        (E5M2, [57344, -57344, 57344, -57344, math.nan], [math.inf, -math.inf, math.inf, -math.inf, math.nan]),
        (E5M2FNUZ, [57344, -57344, 57344, -57344, math.nan], [math.nan] * 5),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_the_tables_of_float8(dtype, saturated, not_saturated):
    x = f32(math.inf, -math.inf, 1e6, -1e6, math.nan)
    np.testing.assert_array_equal(convert(x, dtype, True).astype(np.float32), saturated)
    np.testing.assert_array_equal(convert(x, dtype, False).astype(np.float32), not_saturated)


def test_float8_rounds_before_it_saturates():
    # halfway between 448 and the next step 480 rounds to the even 448; beyond, out of range
    assert convert(f32(463.9, 464.0), E4M3FN).astype(np.float32).tolist() == [448, 448]
    assert np.isnan(convert(f32(465.0), E4M3FN, False).astype(np.float32)).all()
    assert convert(f32(-0.0), E4M3FNUZ).view(np.uint8).tolist() == [0]


@pytest.mark.parametrize(
    ("mode", "expected"), [("up", [2, 4, 4, 8]), ("down", [2, 2, 2, 4]), ("nearest", [2, 2, 4, 4])]
)
def test_float8e8m0_rounding(mode, expected):
    assert convert(f32(2, 2.5, 3, 5), E8M0, True, mode).astype(np.float32).tolist() == expected


def test_float8e8m0_out_of_range():
    x = np.array([0.0, math.inf, 1e-60, 1e60, math.nan])
    assert convert(x, E8M0, True, "up").view(np.uint8).tolist() == [0, 254, 0, 254, 255]
    assert convert(x, E8M0, False, "nearest").view(np.uint8).tolist() == [255] * 5


def test_text_casts():
    words = np.array(["1.5", " -INF", "+inf", "NaN", "1e-5", "7"])
    y = run("Cast", words, to=1)
    np.testing.assert_array_equal(y, f32(1.5, -math.inf, math.inf, math.nan, 1e-5, 7))
    assert run("Cast", np.array(["9223372036854775807", "-3"]), to=7).tolist() == [2**63 - 1, -3]
    assert run("Cast", f32(314.15926, math.nan, -math.inf), to=8).tolist() == ["314.15927", "NaN", "-INF"]
    with pytest.raises(ValueError, match="cannot cast the string 'x'"):
        run("Cast", np.array(["x"]), to=1)


@pytest.mark.parametrize("source", [d for d in DTYPES.values() if d.kind != "O"], ids=lambda d: d.name)
def test_bit_cast_there_and_back(source):
    x = np.array([0, 1, 1, 0]).astype(source)
    same_width = [d for d in DTYPES.values() if d.kind not in "Oc" and d.itemsize == source.itemsize]
    for target in same_width:
        try:
            there = run("BitCast", x, to=NUMBERS[target])
        except ValueError as error:
            assert "bits" in str(error)
            continue
        assert there.dtype == target
        if target.kind != "b":
            assert run("BitCast", there, to=NUMBERS[source]).tobytes() == x.tobytes()


# Floats


@pytest.mark.parametrize("name", ["Max", "Min", "Clip", "Relu"])
def test_nan_goes_through(name):
    x = f32(math.nan, 1)
    inputs = [x] if name == "Relu" else [x, np.array(0, np.float32)]
    assert math.isnan(run(name, *inputs)[0])


def test_clip_with_crossed_bounds_gives_the_upper():
    assert run("Clip", f32(-5, 0, 5), np.array(3, np.float32), np.array(1, np.float32)).tolist() == [1, 1, 1]


def test_where_keeps_negative_zero():
    assert math.copysign(1, run("Where", np.array(True), f32(-0.0), f32(0.0))[0]) == -1


def test_floating_modulo():
    x = np.array([0.0, -0.0, math.inf, 1, -1, 1, -1, math.nan])
    y = np.array([-2.0, 2.0, 1, 0.0, math.inf, math.inf, -math.inf, 1])
    z = run("Mod", x, y)
    np.testing.assert_array_equal(z, [-0.0, 0.0, math.nan, math.nan, math.inf, 1, -1, math.nan])
    assert math.copysign(1, z[0]) == -1
    assert math.copysign(1, z[1]) == 1
    np.testing.assert_array_equal(run("Mod", x[2:], y[2:], fmod=1), [math.nan, math.nan, -1, 1, -1, math.nan])


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=["f16", "bf16"])
def test_16_bit_arithmetic_is_rounded_once(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(500).astype(dtype) for _ in range(2))
    for name, function in (("Add", np.add), ("Mul", np.multiply), ("Div", np.divide), ("Sub", np.subtract)):
        exact = function(a.astype(np.float64), b.astype(np.float64))
        y = run(name, a, b)
        assert y.dtype == dtype
        # no neighbour is nearer to the exact result
        error = np.abs(y.astype(np.float64) - exact)
        for step in (-1, 1):
            neighbour = (y.view(np.int16) + np.int16(step)).view(dtype).astype(np.float64)
            assert (error <= np.abs(neighbour - exact))[y != 0].all()


def test_erf_to_the_last_digits():
    x = np.linspace(-7, 30, 4001)
    assert np.max(np.abs(erf(x) - [math.erf(v) for v in x])) < 3e-16
    exact = np.array([math.erfc(v) for v in x])
    normal = exact > 1e-300
    assert np.max(np.abs(erfc(x)[normal] / exact[normal] - 1)) < 2e-15
    assert np.isnan(erf(np.array([math.nan]))).all()
    assert run("Erf", np.array([math.inf, -math.inf])).tolist() == [1, -1]


def test_tails_without_cancellation():
    assert run("Gelu", f32(-8)).item() == pytest.approx(-8 * 0.5 * math.erfc(8 / math.sqrt(2)), rel=1e-6)
    assert run("Sigmoid", f32(-80)).item() == pytest.approx(math.exp(-80), rel=1e-6)
    assert run("LogSoftmax", f32(0, 1000)).tolist() == [-1000, 0]
    assert run("Softplus", f32(-90)).item() == pytest.approx(math.exp(-90), rel=1e-6)


def test_normal_quantile():
    p = np.array([0.0, 0.5, 0.975, 1.0, 1.5])
    np.testing.assert_allclose(normal_quantile(p), [-math.inf, 0, 1.959963985, math.inf, math.nan], atol=1e-9)


# Shapes and indices


def test_non_zero_of_a_scalar():
    assert run("NonZero", np.array(3.0)).shape == (0, 1)
    assert run("NonZero", np.array(0.0)).shape == (0, 0)
    assert run("NonZero", np.array(["", "a"])).tolist() == [[1]]


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 2**63 - 1, 1, [0, 1, 2, 3]),
        (-1, -(2**63), -1, [3, 2, 1, 0]),
        (10, -10, -2, [3, 1]),
        (3, 1, 1, []),
        (-100, 2, 1, [0, 1]),
        (2, -1, -1, []),
    ],
)
def test_slice_clamps(start, end, step, expected):
    ints = [np.array([v], np.int64) for v in (start, end, 0, step)]
    assert run("Slice", np.arange(4), *ints).tolist() == expected
    assert run("Slice", np.zeros(0, np.int64), *ints).tolist() == []


def test_reshape():
    x = np.zeros((0, 3), np.float32)
    assert run("Reshape", x, np.array([0, -1])).shape == (0, 3)
    assert run("Reshape", np.zeros((2, 3)), np.array([0, -1])).shape == (2, 3)
    assert run("Reshape", x, np.array([3, 0]), allowzero=1).shape == (3, 0)
    with pytest.raises(ValueError, match="does not determine -1"):
        run("Reshape", x, np.array([0, -1]), allowzero=1)
    with pytest.raises(ValueError, match="cannot reshape"):
        run("Reshape", np.zeros(6), np.array([4]))


@pytest.mark.parametrize("index", [3, -4])
def test_indices_out_of_range_are_errors(index):
    data, indices = np.zeros((3, 3), np.float32), np.array([[index]])
    for name in ("Gather", "GatherElements", "GatherND"):
        with pytest.raises(IndexError, match=f"index {index} is out of range for an axis of size 3"):
            run(name, data, indices)
    for name in ("ScatterElements", "ScatterND"):
        updates = np.zeros((1, 1) if name == "ScatterElements" else (1, 3), np.float32)
        with pytest.raises(IndexError, match="out of range"):
            run(name, data, indices, updates)


def test_scatter_with_equal_indices_combines_one_after_the_other():
    data, indices = f32(1, 2, 3), np.array([0, 0, 2])
    for reduction, expected in (("add", [6, 2, 7]), ("mul", [6, 2, 12]), ("max", [3, 2, 4]), ("min", [1, 2, 3])):
        assert run("ScatterElements", data, indices, f32(2, 3, 4), reduction=reduction).tolist() == expected
    flags = run("ScatterElements", np.array([True, False]), np.array([0, 1]), np.array([False, True]), reduction="mul")
    assert flags.tolist() == [False, False]


def test_top_k_prefers_the_lower_index():
    x = f32(1, 3, 3, 2, 3)
    values, indices = run("TopK", x, np.array([3]), outputs=2)
    assert (values.tolist(), indices.tolist()) == ([3, 3, 3], [1, 2, 4])
    _, indices = run("TopK", f32(2, 1, 1), np.array([2]), outputs=2, largest=0)
    assert indices.tolist() == [1, 2]
    with pytest.raises(ValueError, match="k = 6 for an axis of size 5"):
        run("TopK", x, np.array([6]), outputs=2)


def test_unique_of_slices_and_nans():
    x = f32(2, math.nan, 1, math.nan, 2)
    y, first, inverse, counts = run("Unique", x, outputs=4)
    np.testing.assert_array_equal(y, f32(1, 2, math.nan))
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([2, 0, 1], [1, 2, 0, 2, 1], [1, 2, 2])
    y, first, inverse, _ = run("Unique", np.array(["b", "a", "b"]), outputs=4, sorted=0)
    assert (y.tolist(), first.tolist(), inverse.tolist()) == (["b", "a"], [0, 1], [0, 1, 0])


def test_max_pool_counts_minus_infinity():
    x = np.full((1, 1, 2, 2), -math.inf, np.float32)
    y, index = run("MaxPool", x, outputs=2, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    assert np.isneginf(y).all()
    assert index.reshape(-1).tolist() == [0, 0, 0, 0]


def test_pooling_does_not_start_windows_in_the_padding_behind():
    x = np.zeros((1, 1, 6), np.float32)
    assert run("MaxPool", x, kernel_shape=[2], strides=[3], pads=[0, 1], ceil_mode=1).shape == (1, 1, 2)
    assert run("AveragePool", x, kernel_shape=[3], strides=[2], ceil_mode=1).shape == (1, 1, 3)


def test_zero_sizes():
    empty = np.zeros((0, 3, 4), np.float32)
    assert run("MatMul", empty, np.zeros((4, 2), np.float32)).shape == (0, 3, 2)
    assert run("MatMul", np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)).tolist() == [[0] * 3] * 2
    assert run("Softmax", empty).shape == (0, 3, 4)
    assert run("Conv", np.zeros((0, 2, 5), np.float32), np.zeros((3, 2, 2), np.float32)).shape == (0, 3, 4)
    assert run("ReduceMax", empty, np.array([0])).tolist() == np.full((1, 3, 4), -math.inf).tolist()
    assert run("ReduceMin", np.zeros((0, 2), np.int32), np.array([0]), keepdims=0).tolist() == [2**31 - 1] * 2
    assert run("ReduceProd", empty, np.array([0]), keepdims=0).tolist() == np.ones((3, 4)).tolist()
    assert np.isneginf(run("ReduceLogSumExp", empty, np.array([0]))).all()
    assert run("Concat", empty, empty, axis=1).shape == (0, 6, 4)


# Statistics


def test_stage_one_of_layer_normalization_is_rounded_to_the_type_of_x():
    rng = np.random.default_rng(1)
    x, scale, bias = (rng.standard_normal(s).astype(np.float16) for s in ((4, 8), 8, 8))
    y, mean, inverse = run("LayerNormalization", x, scale, bias, outputs=3)
    assert (mean.dtype, inverse.dtype) == (np.float32, np.float32)
    wide = x.astype(np.float64)
    score = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    staged = score.astype(np.float32).astype(np.float16)
    product = (staged.astype(np.float32) * scale).astype(np.float16)
    np.testing.assert_array_equal(y, (product.astype(np.float32) + bias).astype(np.float16))


def test_lp_normalization_of_zeros_is_zero():
    assert run("LpNormalization", np.zeros((2, 3), np.float32), p=1).tolist() == [[0] * 3] * 2
    assert run("LpNormalization", f32(3, -1), p=1).tolist() == [0.75, -0.25]


def test_attention_row_without_keys_is_zero():
    q = k = v = np.ones((1, 1, 2, 4), np.float32)
    mask = np.array([[True, False], [False, False]])
    y, _, _, weights = run("Attention", q, k, v, mask, outputs=4, qk_matmul_output_mode=3)
    assert y[0, 0].tolist() == [[1] * 4, [0] * 4]
    assert weights[0, 0].tolist() == [[1, 0], [0, 0]]


# Recurrence


def test_reverse_lstm_starts_at_each_sample_s_end():
    rng = np.random.default_rng(2)
    x, w, r = (rng.standard_normal(s).astype(np.float32) for s in ((5, 2, 3), (1, 16, 3), (1, 16, 4)))
    lengths = np.array([5, 2], np.int32)
    y, h, c = run("LSTM", x, w, r, None, lengths, outputs=3, hidden_size=4, direction="reverse")
    alone = run("LSTM", x[:2, 1:], w, r, outputs=3, hidden_size=4, direction="reverse")
    np.testing.assert_allclose(y[:2, :, 1:], alone[0], atol=1e-6)
    np.testing.assert_allclose(h[:, 1:], alone[1], atol=1e-6)
    np.testing.assert_allclose(c[:, 1:], alone[2], atol=1e-6)
    assert not y[2:, :, 1].any()


def test_layouts_agree():
    rng = np.random.default_rng(3)
    x, w, r, h0 = (rng.standard_normal(s).astype(np.float32) for s in ((5, 2, 3), (2, 12, 3), (2, 12, 4), (2, 2, 4)))
    options = {"hidden_size": 4, "direction": "bidirectional", "outputs": 2}
    y, h = run("GRU", x, w, r, None, None, h0, **options)
    swapped = run("GRU", x.swapaxes(0, 1), w, r, None, None, h0.swapaxes(0, 1), layout=1, **options)
    np.testing.assert_array_equal(swapped[0], y.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(swapped[1], h.transpose(1, 0, 2))


def test_clip_and_activation_parameters_of_an_rnn():
    x, w, r = np.full((1, 1, 1), 10, np.float32), np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    y = run("RNN", x, w, r, hidden_size=1, clip=2.0, activations=["Affine"], activation_alpha=[3.0],
            activation_beta=[0.5])  # fmt: skip
    assert y.item() == 6.5


# Quantization


def test_quantization_by_block():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    scale = np.array([[1, 2], [4, 8]], np.float32)
    y = run("QuantizeLinear", x, scale, np.zeros((2, 2), np.int8), axis=1, block_size=2)
    assert y.tolist() == [[0, 1, 1, 2], [1, 1, 1, 1]]
    back = run("DequantizeLinear", y, scale, axis=1, block_size=2)
    assert back.tolist() == [[0, 1, 2, 4], [4, 4, 8, 8]]


def test_quantization_rounds_to_even_and_saturates():
    x = f32(0.5, 1.5, 2.5, -1000, 1000, math.nan)
    assert run("QuantizeLinear", x, np.array(1, np.float32)).tolist() == [0, 2, 2, 0, 255, 0]
    low_bits = run("QuantizeLinear", x, np.array(1, np.float32), np.array(0, INT4))
    assert low_bits.astype(int).tolist() == [0, 2, 2, -8, 7, 0]


def test_dynamic_quantization_of_zeros():
    y, scale, zero_point = run("DynamicQuantizeLinear", np.zeros(3, np.float32), outputs=3)
    assert (y.tolist(), scale.item(), zero_point.item()) == ([0, 0, 0], 0, 0)


# Einsum


@pytest.mark.parametrize(
    "equation", ["...i...->i", "%s%n->i", "ij->ik", "ij->ii", "i", "ijk->ij", "i,j->ij", "ij->i...j."]
)
def test_malformed_equations_end_in_an_error(equation):
    with pytest.raises(ValueError, match="Einsum equation"):
        einsum_terms(equation, [2])


def test_einsum_of_bytes_wraps_and_broadcasts():
    a = np.full((1, 3), 100, np.int8)
    b = np.full((2, 3), 3, np.int8)
    assert run("Einsum", a, b, equation="ab,ab->a").tolist() == [-124, -124]
    assert run("Einsum", np.ones((2, 1, 3)), np.ones((4, 3)), equation="...i,...i").shape == (2, 4)


# Text


@pytest.mark.parametrize("pattern", [r"(?=a)a", r"(a)\1", r"a++", r"(?<!b)a", "("])
def test_patterns_that_re2_does_not_have(pattern):
    with pytest.raises(ValueError, match="RegexFullMatch"):
        run("RegexFullMatch", np.array(["a"]), pattern=pattern)


def test_regex_matches_the_whole_string():
    words = np.array(["www.google.com", "xwww.google.com", "www.google.com\n", "wwwagoogle.com"])
    assert run("RegexFullMatch", words, pattern=r"www\.[\w.-]+\.\bcom\b").tolist() == [True, False, False, False]
    assert run("RegexFullMatch", np.array(["é", "٣"]), pattern=r"\d|\w").tolist() == [False, False]
    with pytest.raises(NotImplementedError, match="RE2 syntax"):
        run("RegexFullMatch", words, pattern=r"\pL")


def test_string_split_pads():
    y, z = run("StringSplit", np.array([" a  b ", "", "c"]), outputs=2)
    assert (y.tolist(), z.tolist()) == ([["a", "b"], ["", ""], ["c", ""]], [2, 0, 1])
    y, z = run("StringSplit", np.array(["a,,b", "a"]), outputs=2, delimiter=",", maxsplit=1)
    assert (y.tolist(), z.tolist()) == ([["a", ",b"], ["a", ""]], [2, 1])


# Randomness


def test_seeds_repeat_and_chance_does_not():
    for name, attributes in (("RandomUniform", {"shape": [50]}), ("RandomNormal", {"shape": [50]})):
        one, other = (run(name, seed=3.0, **attributes) for _ in range(2))
        np.testing.assert_array_equal(one, other)
        assert not np.array_equal(run(name, **attributes), run(name, **attributes))


def test_distributions():
    many = run("RandomNormal", shape=[20000], mean=2.0, scale=3.0, seed=1.0)
    assert many.mean() == pytest.approx(2, abs=0.1)
    assert many.std() == pytest.approx(3, abs=0.1)
    drawn = run("Multinomial", np.log(np.array([[0.1, 0.6, 0.3]], np.float32)), sample_size=20000, seed=1.0)
    assert np.bincount(drawn[0]) / 20000 == pytest.approx([0.1, 0.6, 0.3], abs=0.02)
    kept = run("Dropout", np.ones(20000, np.float32), np.array(0.3, np.float32), np.array(True), outputs=2, seed=1)
    assert kept[1].mean() == pytest.approx(0.7, abs=0.02)
    assert np.unique(kept[0]) == pytest.approx([0, 1 / 0.7])


# Control flow


def test_loop_without_condition_ignores_the_body_s():
    def body(i, going, total):
        return np.array(False), total + i, i * 2

    total, scanned = run("Loop", np.array(4), None, np.array(0), outputs=2, body=body)
    assert (total.item(), scanned.tolist()) == (6, [0, 2, 4, 6])


def test_loop_ends_with_its_condition():
    def body(i, going, total):
        return np.array(i < 2), total + 1

    assert run("Loop", None, np.array(True), np.array(0), body=body).item() == 3
    assert run("Loop", np.array(10), np.array(False), np.array(0), body=body).item() == 0


def test_scan_backward_and_prepending():
    def body(state, x):
        return state + x, state

    x = np.arange(4.0)
    last, scanned = run(
        "Scan", np.array(0.0), x, outputs=2, body=body, num_scan_inputs=1, scan_input_directions=[1],
        scan_output_directions=[1],
    )  # fmt: skip
    assert (last.item(), scanned.tolist()) == (6, [6, 5, 3, 0])


# ai.onnx.ml


def test_trees_send_nan_where_they_are_told():
    stump = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"], "nodes_values": [1.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": 1,
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [5.0, 7.0],
    }  # fmt: skip
    x = f32(0, 1, math.nan).reshape(3, 1)
    for tracks, expected in ((0, 7), (1, 5)):
        stump["nodes_missing_value_tracks_true"] = [tracks, 0, 0]
        y = run("TreeEnsembleRegressor", x, domain="ai.onnx.ml", **stump)
        assert y.tolist() == [[5], [7], [expected]]


def test_label_encoder_finds_nan_and_the_last_key():
    encode = {"keys_floats": [1.0, math.nan, 1.0], "values_strings": ["a", "n", "b"], "domain": "ai.onnx.ml"}
    assert run("LabelEncoder", f32(1, math.nan, 9), **encode).tolist() == ["b", "n", "_Unused"]


def test_maps():
    rows = run("ZipMap", np.array([[0.25, 0.75]], np.float32), domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    assert rows == [{"a": 0.25, "b": 0.75}]
    assert run("DictVectorizer", {"a": 4, "c": 8}, domain="ai.onnx.ml", string_vocabulary=list("acbz")).tolist() == [
        [4, 8, 0, 0]
    ]
    sparse = run("CastMap", {1: 5.0, 3: 7.0}, domain="ai.onnx.ml", map_form="SPARSE", max_map=4)
    assert sparse.tolist() == [[0, 5, 0, 7]]
