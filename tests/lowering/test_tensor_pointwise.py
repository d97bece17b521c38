"""Every pointwise operator, in every element type that it takes, against its reference function."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.lowering.tensor import lower_to_tensor
from sardonyx.semantics.reference import NUMBERS
from sardonyx.semantics.tensor_eval import evaluate

from .tensor_cases import FLOATS, INTS, Kernel, random

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    3.0,
    -3.0,
    1e-30,
    -1e-30,
    30.0,
    -30.0,
]


def with_special(dtype: Any, seed: int = 0) -> np.ndarray:
    """Random values and the special ones: 4 rows of 9."""
    values = random((4, 9), dtype, seed)
    if np.dtype(dtype) in map(np.dtype, FLOATS):
        values.reshape(-1)[: len(SPECIAL)] = np.array(SPECIAL).astype(dtype)
    return values


UNARY_FLOAT: dict[type[onnx.OnnxOp], dict[str, Any]] = {
    onnx.AbsOp: {}, onnx.AcosOp: {}, onnx.AcoshOp: {}, onnx.AsinOp: {}, onnx.AsinhOp: {}, onnx.AtanOp: {},
    onnx.AtanhOp: {}, onnx.CeilOp: {}, onnx.CeluOp: {"alpha": 1.5}, onnx.CosOp: {}, onnx.CoshOp: {}, onnx.EluOp: {},
    onnx.ErfOp: {}, onnx.ExpOp: {}, onnx.FloorOp: {}, onnx.GeluOp: {}, onnx.HardSigmoidOp: {}, onnx.HardSwishOp: {},
    onnx.IdentityOp: {}, onnx.IsInfOp: {}, onnx.IsNaNOp: {}, onnx.LeakyReluOp: {}, onnx.LogOp: {}, onnx.MishOp: {},
    onnx.NegOp: {}, onnx.ReciprocalOp: {}, onnx.ReluOp: {}, onnx.RoundOp: {}, onnx.SeluOp: {},
    onnx.ShrinkOp: {"bias": 0.25}, onnx.SigmoidOp: {}, onnx.SignOp: {}, onnx.SinOp: {}, onnx.SinhOp: {},
    onnx.SoftplusOp: {}, onnx.SoftsignOp: {}, onnx.SqrtOp: {}, onnx.SwishOp: {"alpha": 1.25}, onnx.TanOp: {},
    onnx.TanhOp: {}, onnx.ThresholdedReluOp: {"alpha": 0.75},
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY_FLOAT)
def test_unary_of_floats(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(with_special(dtype), "d0, 9")
    kernel.run(kernel.op(op, x, dims="d0, 9", **UNARY_FLOAT[op]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("attributes", [{}, {"approximate": "tanh"}])
def test_gelu_keeps_its_digits_in_the_tail(attributes: dict[str, str], dtype: Any) -> None:
    kernel = Kernel()
    x = kernel.input(np.linspace(-12, 12, 500).astype(dtype))
    lowered = kernel.function(kernel.op(onnx.GeluOp, x, **attributes))
    [got] = evaluate(lower_to_tensor(lowered), [], kernel.inputs)
    # the tanh form's argument is in two parts, which needs products and sums in one rounding: numpy has none
    digits = (3e-13 if attributes else 1e-13) if dtype is np.float64 else 2e-5 if attributes else 1e-6
    np.testing.assert_allclose(got, kernel.expected[0], rtol=digits, atol=1e-37 if dtype is np.float32 else 0)


def test_square_roots_of_edge_cases_are_powers() -> None:
    kernel = Kernel()
    x = kernel.input(np.array([-0.0, -np.inf], np.float32))
    lowered = lower_to_tensor(kernel.function(kernel.op(onnx.PowOp, x, kernel.constant(0.5, np.float32))))
    [got] = evaluate(lowered, [], kernel.inputs)
    np.testing.assert_array_equal(got, np.array([0.0, np.inf], np.float32))


@pytest.mark.parametrize("attributes", [{"detect_negative": 0}, {"detect_positive": 0}])
def test_infinities_of_one_sign(attributes: dict[str, int]) -> None:
    kernel = Kernel()
    x = kernel.input(with_special(np.float32))
    kernel.run(kernel.op(onnx.IsInfOp, x, **attributes))


UNARY_INT = [onnx.AbsOp, onnx.NegOp, onnx.SignOp, onnx.BitwiseNotOp, onnx.ReluOp, onnx.ShrinkOp, onnx.IdentityOp]


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", UNARY_INT)
def test_unary_of_integers(op: type[onnx.OnnxOp], dtype: Any) -> None:
    if np.dtype(dtype).kind == "u" and op in (onnx.NegOp, onnx.ReluOp):
        return  # not in the standard
    kernel = Kernel()
    kernel.run(kernel.op(op, kernel.input(random((3, 5), dtype))))


BINARY = [onnx.AddOp, onnx.SubOp, onnx.MulOp, onnx.DivOp, onnx.MaxOp, onnx.MinOp]
COMPARE = [onnx.EqualOp, onnx.GreaterOp, onnx.GreaterOrEqualOp, onnx.LessOp, onnx.LessOrEqualOp]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("op", [*BINARY, *COMPARE])
def test_binary_with_broadcasting(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel(d0=4)
    a = kernel.input(with_special(dtype), "d0, 9")
    b = kernel.input(with_special(dtype, seed=1)[::-1], "d0, 9")
    row = kernel.input(random((9,), dtype, seed=2))
    column = kernel.input(random((4, 1), dtype, seed=3), "d0, 1")
    kernel.run(*(kernel.op(op, x, y, dims="d0, 9") for x, y in ((a, b), (a, row), (column, b), (column, row))))


@pytest.mark.parametrize("dtype", INTS)
def test_division_of_integers_never_traps(dtype: Any) -> None:
    info = np.iinfo(dtype)
    a = np.array([info.min, info.min, info.max, 7, -7 if info.min else 9, 0], dtype)
    b = np.array([-1 if info.min else 3, 0, 2, -2 if info.min else 2, 2, 0], dtype)
    kernel = Kernel()
    x, y = kernel.input(a), kernel.input(b)
    constant = kernel.constant(np.array(3, dtype))
    kernel.run(
        kernel.op(onnx.DivOp, x, y),
        kernel.op(onnx.DivOp, x, constant),
        kernel.op(onnx.ModOp, x, y),
        kernel.op(onnx.ModOp, x, y, fmod=1),
        kernel.op(onnx.ModOp, x, constant),
    )


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_of_floats_are_exact(dtype: Any, fmod: int) -> None:
    big = {2: 6e4, 4: 3e38, 8: 1.5e308}[np.dtype(dtype).itemsize]
    small = {2: 6e-8, 4: 1e-45, 8: 5e-324}[np.dtype(dtype).itemsize]
    a = np.array([5.3, -5.3, 5.3, -5.3, big, big, 1.0, 0.0, np.inf, np.nan, 1.0, -1.0, 3.0, -0.0, big], dtype)
    b = np.array([3.0, 3.0, -3.0, -3.0, 3.0, small, 0.0, 2.0, 2.0, 1.0, np.inf, np.inf, 1.5, 2.0, 0.7], dtype)
    kernel = Kernel()
    kernel.run(kernel.op(onnx.ModOp, kernel.input(a), kernel.input(b), fmod=fmod), tolerance=1e-30)


@pytest.mark.parametrize("base", [np.float32, np.float64, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [np.float32, np.int64, np.int32, np.float64, np.uint8])
def test_power(base: Any, exponent: Any) -> None:
    kernel = Kernel()
    x = random((6, 1), np.float32) * 3
    x = x.astype(base)
    if np.dtype(base).kind == "f":
        x = np.abs(x)
    y = np.array([0, 1, 2, 3, 7] + ([-1, -2] if np.dtype(exponent).kind != "u" else []), exponent)
    kernel.run(kernel.op(onnx.PowOp, kernel.input(x), kernel.input(y)))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 4.0, 2.5])
def test_constant_power(exponent: float) -> None:
    kernel = Kernel()
    x = np.array([0.0, 4.0, 0.3, np.inf, np.nan, 1e-20, -2.0 if exponent.is_integer() else 2.0], np.float32)
    n = kernel.constant(exponent, np.float32)
    kernel.run(kernel.op(onnx.PowOp, kernel.input(x), n))


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 63, -1, -2])
def test_constant_power_of_integers(exponent: int) -> None:
    kernel = Kernel()
    x = kernel.input(np.array([0, 1, -1, 2, -3, 1000], np.int64))
    kernel.run(kernel.op(onnx.PowOp, x, kernel.constant(exponent, np.int64)))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_shifts_by_the_width_or_more(dtype: Any, direction: str) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    kernel = Kernel()
    x = kernel.input(np.array([1, 3, 200, 255, 7], dtype))
    y = kernel.input(np.array([0, 1, bits - 1, bits, bits + 5], dtype))
    kernel.run(kernel.op(onnx.BitShiftOp, x, y, direction=direction))


def test_logic_and_choice() -> None:
    kernel = Kernel(d0=3)
    a, b = kernel.input(random((3, 4), bool), "d0, 4"), kernel.input(random((4,), bool, 1))
    x, y = kernel.input(random((3, 4)), "d0, 4"), kernel.input(random((3, 1)), "d0, 1")
    results = [kernel.op(op, a, b, dims="d0, 4") for op in (onnx.AndOp, onnx.OrOp, onnx.XorOp)]
    results.append(kernel.op(onnx.NotOp, results[0], dims="d0, 4"))
    results.append(kernel.op(onnx.WhereOp, results[1], x, y, dims="d0, 4"))
    kernel.run(*results)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, bool])
def test_choice_of_narrow_values(dtype: Any) -> None:
    kernel = Kernel()
    c, x, y = kernel.input(random((3, 4), bool)), kernel.input(random((3, 4), dtype)), kernel.input(random((4,), dtype))
    kernel.run(kernel.op(onnx.WhereOp, c, x, y))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_bits(dtype: Any) -> None:
    kernel = Kernel()
    a, b = kernel.input(random((3, 4), dtype)), kernel.input(random((4,), dtype, 1))
    kernel.run(*(kernel.op(op, a, b) for op in (onnx.BitwiseAndOp, onnx.BitwiseOrOp, onnx.BitwiseXorOp)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", [onnx.SumOp, onnx.MeanOp, onnx.MaxOp, onnx.MinOp])
def test_variadic(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel()
    values = [kernel.input(random(s, dtype, k)) for k, s in enumerate([(2, 3), (3,), (2, 1), ()])]
    kernel.run(kernel.op(op, *values), kernel.op(op, values[0]), kernel.op(op, *values[:2]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.int64])
def test_clip(dtype: Any) -> None:
    kernel = Kernel()
    x = kernel.input(with_special(dtype))
    low, high = kernel.input(np.array(1, dtype)), kernel.constant(np.array(2, dtype))
    bounds = [(None, None), (low, None), (None, high), (low, high), (high, low)]
    kernel.run(*(kernel.op(onnx.ClipOp, x, *b) for b in bounds))


def test_activations_of_several_operands() -> None:
    kernel = Kernel()
    x, slope = kernel.input(with_special(np.float32)), kernel.input(random((9,)))
    a, b = kernel.input(random((2, 3))), kernel.input(random((2, 3), seed=1))
    whole = kernel.op(onnx.PReluOp, kernel.input(random((4, 9), np.int32)), kernel.input(random((9,), np.int32)))
    kernel.run(kernel.op(onnx.PReluOp, x, slope), kernel.op(onnx.SwiGLUOp, a, b), whole)


def test_dropout_is_the_identity() -> None:
    kernel = Kernel()
    kernel.run(*kernel.op(onnx.DropoutOp, kernel.input(random((2, 3))), outputs=2))


ALL = [*FLOATS, *INTS, bool]


@pytest.mark.parametrize("source", ALL)
def test_cast(source: Any) -> None:
    kernel = Kernel()
    values = with_special(source)
    if source in (np.float32, np.float64):
        values.reshape(-1)[-4:] = [1e20, -1e20, 300.7, -300.7]
    x = kernel.input(values)
    kernel.run(*(kernel.op(onnx.CastOp, x, to=NUMBERS[np.dtype(to)]) for to in ALL), tolerance=1e-30)


SMALL = [
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn,
    ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2,
]  # fmt: skip
BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}


@pytest.mark.parametrize("small", SMALL)
def test_every_code_of_a_small_type(small: Any) -> None:
    kernel = Kernel()
    codes = np.arange(1 << BITS.get(np.dtype(small).name, 8), dtype=np.uint8)
    x = kernel.input(codes.view(small))
    kernel.run(kernel.op(onnx.CastOp, x, to=1), kernel.op(onnx.CastOp, x, to=10), tolerance=1e-30)


def values_around(small: Any) -> np.ndarray:
    """Every value of a small float, the middle between neighbours, and what is just beside that."""
    codes = np.arange(1 << BITS.get(np.dtype(small).name, 8), dtype=np.uint8)
    exact = codes.view(small).astype(np.float64)
    exact = np.unique(exact[np.isfinite(exact)])
    middle = (exact[1:] + exact[:-1]) / 2
    far = [np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, -1e-40, 0.0, -0.0, 2.0**127, 3e38]
    near = [np.nextafter(middle.astype(np.float32), np.float32(d)) for d in (-np.inf, np.inf)]
    with np.errstate(over="ignore"):
        return np.concatenate([exact, middle, *near, exact * 1.9, far]).astype(np.float32)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("small", SMALL)
def test_rounding_to_a_small_type(small: Any, saturate: int) -> None:
    kernel = Kernel()
    x, number = kernel.input(values_around(small)), NUMBERS[np.dtype(small)]
    whole = kernel.input(random((40,), np.int32))
    kernel.run(*(kernel.op(onnx.CastOp, v, to=number, saturate=saturate) for v in (x, whole)))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_rounding_to_powers_of_two(mode: str) -> None:
    kernel = Kernel()
    x = kernel.input(np.concatenate([values_around(ml_dtypes.float8_e8m0fnu), [1.4, 1.5, 1.6]]).astype(np.float32))
    kernel.run(*(kernel.op(onnx.CastOp, x, to=24, saturate=k, round_mode=mode) for k in (0, 1)))


def test_small_types_are_moved_as_they_are() -> None:
    kernel = Kernel()
    for k, small in enumerate((ml_dtypes.float8_e4m3fn, ml_dtypes.int4)):
        x = kernel.input(random((2, 3), np.float32, k).astype(small))
        y = kernel.op(onnx.TransposeOp, x)
        results = [y, kernel.op(onnx.ReshapeOp, x, kernel.constant([6], np.int64))]
    kernel.run(*results)


@pytest.mark.parametrize("small", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4])
def test_quantization_to_small_types(small: Any) -> None:
    kernel = Kernel()
    x, scale = kernel.input(random((3, 4)) * 20), kernel.input(np.array([0.5, 1.0, 2.0], np.float32))
    zero = kernel.input(np.zeros(3, small))
    y = kernel.op(onnx.QuantizeLinearOp, x, scale, zero, axis=0)
    kernel.run(y, kernel.op(onnx.DequantizeLinearOp, y, scale, zero, axis=0))


def test_cast_like() -> None:
    kernel = Kernel()
    kernel.run(kernel.op(onnx.CastLikeOp, kernel.input(random((2, 3))), kernel.input(random((1,), np.int32))))


@pytest.mark.parametrize("to", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_quantize_and_dequantize(dtype: Any, to: Any) -> None:
    kernel = Kernel()
    x = kernel.input((random((2, 3, 4)) * 20).astype(dtype))
    scale, zero = kernel.input(np.array(0.25, dtype)), kernel.input(np.array(3, to))
    scales, zeros = kernel.input(np.array([0.1, 0.2, 5.0], dtype)), kernel.input(np.array([1, 2, 0], to))
    blocks = kernel.input(np.array([[[0.5, 2.0]] * 3] * 2, dtype))
    results = [
        kernel.op(onnx.QuantizeLinearOp, x, scale, zero),
        kernel.op(onnx.QuantizeLinearOp, x, scales, zeros, axis=1),
        kernel.op(onnx.QuantizeLinearOp, x, blocks, axis=2, block_size=2, output_dtype=NUMBERS[np.dtype(to)]),
    ]
    back = [
        kernel.op(onnx.DequantizeLinearOp, results[0], scale, zero),
        kernel.op(onnx.DequantizeLinearOp, results[1], scales, zeros, axis=1),
        kernel.op(onnx.DequantizeLinearOp, results[2], blocks, axis=2, block_size=2),
    ]
    kernel.run(*results, *back)


def test_dequantize_of_32_bits() -> None:
    kernel = Kernel()
    x = kernel.input(np.array([1 << 30, -(1 << 31), 16777217, 5], np.int32))
    kernel.run(kernel.op(onnx.DequantizeLinearOp, x, kernel.input(np.array(0.5, np.float32))))


@pytest.mark.parametrize("values", [[1.0, -2.0, 3.5], [0.0, 0.0], [5.0, 7.0], [-3.0, -1.0]])
def test_dynamic_quantize(values: list[float]) -> None:
    kernel = Kernel()
    kernel.run(*kernel.op(onnx.DynamicQuantizeLinearOp, kernel.input(np.array(values, np.float32)), outputs=3))


def test_rounding_after_each_operator() -> None:
    kernel = Kernel()
    x = kernel.input(random((50,), np.float16) * 100)
    y = x
    for _ in range(6):
        y = kernel.op(onnx.AddOp, kernel.op(onnx.MulOp, y, x), x)
    lowered = kernel.run(y, tolerance=1e-30)
    assert sum(op.name == "linalg.generic" for op in lowered.walk()) == 1


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_single_rows(rows: int) -> None:
    kernel = Kernel(d0=rows)
    x = kernel.input(random((rows, 3)), "d0, 3")
    kernel.run(kernel.op(onnx.ExpOp, kernel.op(onnx.AddOp, x, x, dims="d0, 3"), dims="d0, 3"))


@pytest.mark.parametrize(("n", "m"), [(1, 5), (5, 1), (5, 5), (1, 1)])
def test_sizes_that_broadcast_at_run_time(n: int, m: int) -> None:
    kernel = Kernel(d0=n, d1=m)
    a, b = kernel.input(random((2, n)), "2, d0"), kernel.input(random((m,)), "d1")
    kernel.run(kernel.op(onnx.AddOp, a, b, dims="2, broadcast(d0, d1)"))


def test_deep_chains_do_not_recurse() -> None:
    kernel = Kernel()
    y = x = kernel.input(random((4,)))
    for _ in range(1500):
        y = kernel.op(onnx.AddOp, y, x)
    kernel.run(y)
