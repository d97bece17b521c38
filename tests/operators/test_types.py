"""Element types that few models have: each is computed, natively where it is of numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import sardonyx as sx

from .cases import check, model_of

F8, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
SMALL = (F8, E8M0, *(np.dtype(getattr(ml_dtypes, n)) for n in ("float4_e2m1fn", "int4", "uint4", "int2", "uint2")))
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp", "Erf"])
def test_functions_that_only_older_versions_had_of_integers(op: str, dtype: str) -> None:
    x = RNG.integers(0, 20, (3, 4)).astype(dtype)
    check(op, [x] if op == "Erf" else [x, np.array([1])], constants=(1,))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_tensors_of_one_small_number(dtype: np.dtype) -> None:
    value = np.array([2.0 if dtype == E8M0 else 1], np.float32).astype(dtype)
    sizes, attributes = np.array([2, 3]), {"value": numpy_helper.from_array(value)}
    program = sx.compile(model_of("ConstantOfShape", [sizes], attributes, [value]))
    assert program.explain().to_dict()["hosted"] == []
    got = program(sizes)["y0"]
    assert got.dtype == dtype and got.astype(np.float32).tolist() == [[float(value[0])] * 3] * 2


@pytest.mark.parametrize("types", [(F8, np.int8, np.int8), (np.uint8, F8, np.uint8), (np.int8, np.int8, F8)], ids=str)
def test_products_of_integers_and_small_floats(types: tuple[Any, Any, Any]) -> None:
    a, b = (RNG.integers(0, 7, s).astype(t) for s, t in zip(((3, 4), (4, 5)), types))
    scales = [np.array(s, np.float32) for s in (0.5, 0.25, 0.7)]
    zeros = [np.array(0, np.float32).astype(t) for t in types]
    check("QLinearMatMul", [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]])


def test_quotients_by_powers_of_two_keep_their_fraction() -> None:
    x, scale = np.array([96, 3, -5.5], np.float32), np.array([2], np.float32).astype(E8M0)
    check("QuantizeLinear", [x, scale, np.zeros(1, F8)])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_both_parts_of_complex_images_are_sampled(mode: str) -> None:
    x = (RNG.standard_normal((1, 2, 4, 4)) + 1j * RNG.standard_normal((1, 2, 4, 4))).astype(np.complex64)
    grid = RNG.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
    model = model_of("GridSample", [x, grid], {"mode": mode}, [x], opset=22)
    [want] = ReferenceEvaluator(model).run(None, {"x0": x, "x1": grid})
    np.testing.assert_allclose(sx.compile(model)(x0=x, x1=grid)["y0"], want, rtol=1e-5, atol=1e-6)


TARGETS = {10: np.dtype(np.float16), 16: np.dtype(ml_dtypes.bfloat16)}


def nearest_even(value: float | int, kind: np.dtype) -> float:
    """The nearest number of 16 bits by comparing neighbours exactly."""
    start = int(np.float32(value).astype(kind).view(np.uint16))
    near = [np.array(bits, np.uint16).view(kind)[()] for bits in range(max(start - 1, 0), start + 2)]
    finite = [v for v in near if np.isfinite(np.float64(v))]
    return float(min(finite, key=lambda v: (abs(Fraction(float(v)) - Fraction(value)), int(v.view(np.uint16)) & 1)))


@pytest.mark.parametrize("to", [10, 16])
@pytest.mark.parametrize("source", [np.float64, np.int64, np.uint64, np.int32])
def test_casts_round_once(source: type[np.generic], to: int) -> None:
    """By way of f32 a number next to the middle between two would become the middle."""
    kind = TARGETS[to]
    powers, tiny = RNG.integers(0, 15, 300), RNG.integers(-1, 2, 300)
    steps = RNG.integers(0, 2**13, 300)
    if source is np.float64:
        x = (1 + steps / 2**13 + tiny * 2.0**-45) * np.exp2(powers)
    else:
        bits = 30 if source is np.int32 or to == 10 else 62
        x = ((1 << powers) * (2**13 + steps) << (bits - 28)) + tiny
        x = np.append(x >> 14 if to == 10 else x, 2**30 + 2**22 + 1 if bits == 30 else 2**60 + 2**52 + 1)
        x = x[x < 65000] if to == 10 else x
    x = x.astype(source)
    [found] = check("Cast", [x], {"to": to}, levels=("graph", "tensor"))
    assert found.astype(np.float64).tolist() == [nearest_even(v, kind) for v in x.tolist()]
