"""Elementary functions: errors on a grid of all bit patterns, special values, and the same bits in every form.

The bounds are the largest errors over all 2^32 inputs, found by benchmarks/ulp.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from harness import TARGETS, Compiled
from sardonyx.dialects.target import AVX2, Target
from test_operations import mapping

INF, NAN = math.inf, math.nan

# op of the math dialect -> (largest error in ulp, special inputs and their exact results)
FUNCTIONS: dict[str, tuple[float, list[tuple[float, float]]]] = {
    "exp": (0.9, [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (89.0, INF), (-104.0, 0.0), (1e30, INF)]),
    "exp2": (
        0.9,
        [(INF, INF), (-INF, 0.0), (128.0, INF), (-150.0, 0.0), (-149.0, 2.0**-149), (3.0, 8.0), (127.0, 2.0**127)],
    ),
    "expm1": (1.6, [(INF, INF), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (-200.0, -1.0), (89.0, INF)]),
    "log": (0.94, [(INF, INF), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)]),
    "log2": (1.17, [(INF, INF), (0.0, -INF), (-1.0, NAN), (1.0, 0.0), (2.0**-149, -149.0), (2.0**100, 100.0)]),
    "log10": (1.1, [(INF, INF), (0.0, -INF), (-1.0, NAN), (1.0, 0.0)]),
    "log1p": (
        1.6,
        [(INF, INF), (-1.0, -INF), (-2.0, NAN), (-0.0, -0.0), (1e-40, 1e-40), (3e38, math.log(3e38))],
    ),
    "tanh": (0.97, [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (100.0, 1.0)]),
    "sinh": (1.65, [(INF, INF), (-INF, -INF), (-0.0, -0.0), (1e-40, 1e-40), (90.0, INF)]),
    "cosh": (1.4, [(INF, INF), (-INF, INF), (-0.0, 1.0), (90.0, INF)]),
    "erf": (0.97, [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (10.0, 1.0)]),
    "sin": (1.3, [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40)]),
    "cos": (1.3, [(INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0)]),
    "tan": (0.51, [(INF, NAN), (-INF, NAN), (-0.0, -0.0), (1e-40, 1e-40)]),
    "asin": (1.7, [(1.5, NAN), (-1.5, NAN), (-0.0, -0.0), (INF, NAN), (1.0, 1.5707964), (1e-40, 1e-40)]),
    "acos": (1.2, [(1.5, NAN), (-1.5, NAN), (1.0, 0.0), (INF, NAN), (-1.0, 3.1415927)]),
    "atan": (1.4, [(INF, 1.5707964), (-INF, -1.5707964), (-0.0, -0.0), (1e-40, 1e-40)]),
    "asinh": (0.51, [(INF, INF), (-INF, -INF), (-0.0, -0.0), (1e-40, 1e-40)]),
    "acosh": (0.51, [(INF, INF), (0.5, NAN), (1.0, 0.0), (-INF, NAN)]),
    "atanh": (0.51, [(1.0, INF), (-1.0, -INF), (2.0, NAN), (-0.0, -0.0), (1e-40, 1e-40)]),
    "rsqrt": (1.5, [(INF, 0.0), (0.0, INF), (-1.0, NAN), (4.0, 0.5)]),
}

GRID = np.arange(0, 1 << 32, 65537 * 2 + 1, dtype=np.uint64).astype(np.uint32)[: (1 << 15)].view(np.float32)


def apply(target: Target, op: str, inputs: list[np.ndarray], element: str, lanes: int | None) -> np.ndarray:
    type_ = element if lanes is None else f"vector<{lanes}x{element}>"
    args = ", ".join(f"%a{i}" for i in range(len(inputs)))
    text = mapping([element] * len(inputs), element, f"%r = math.{op} {args} : {type_}", lanes)
    result = np.empty_like(inputs[0])
    Compiled(text, target, check_ir=lanes == 16)(len(result), *inputs, result)
    return result


def reference(op: str, x: np.ndarray) -> np.ndarray:
    """The function of f64 by the C library, for f32 inputs."""
    with np.errstate(invalid="ignore"):
        return apply(AVX2, op, [x.astype(np.float64)], "f64", None)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        place = np.ldexp(1.0, np.maximum(np.frexp(exact)[1], -125) - 24)
        limit = 2.0**128
        error = np.abs(np.clip(got.astype(np.float64), -limit, limit) - np.clip(exact, -limit, limit)) / place
    both = np.isnan(got) & np.isnan(exact)
    return np.where(both | (np.isinf(exact) & (got == exact)), 0, np.where(np.isnan(error), INF, error))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_errors_and_special_values(op: str) -> None:
    bound, special = FUNCTIONS[op]
    x = np.resize(np.array([v for v, _ in special], np.float32), 32)
    exact = reference(op, GRID)
    results: list[bytes] = []
    for target in TARGETS:
        for lanes in (None, 16, 32) if target is TARGETS[-1] else (8,):
            got = apply(target, op, [GRID], "f32", lanes)
            results.append(np.nan_to_num(got, nan=12345.0).tobytes())
            assert ulps(got, exact).max() <= bound, (lanes, target.cpu)
            at_special = apply(target, op, [x], "f32", lanes)
            for (value, expected), result in zip(special, at_special):
                wanted = np.float32(expected)
                assert np.array_equal(result, wanted, equal_nan=True), (value, result)
                assert np.isnan(wanted) or np.signbit(result) == np.signbit(wanted), (value, result)
    assert len(set(results)) == 1, "scalars, vectors and targets differ"


def test_large_angles() -> None:
    """Up to the largest f32, where only all the bits of pi help."""
    x = np.concatenate([np.ldexp(np.linspace(1, 2, 15, endpoint=False), e) for e in range(10, 128)])
    x = np.resize(np.concatenate([x, -x]), 3552).astype(np.float32)
    for op in ("sin", "cos", "tan"):
        assert ulps(apply(TARGETS[-1], op, [x], "f32", 16), reference(op, x)).max() <= 1.5


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_power(target: Target) -> None:
    special = np.array(
        [0.0, -0.0, 1, -1, INF, -INF, NAN, 2, -2, 0.5, -0.5, 3, -3, 1e-45, -1e-45, 3e38, 1e10, 16777215, 33554432, 2.5]
        + [-16777215, 8388607, 0.1, 0.999999, 1.0000001],
        np.float32,
    )
    rng = np.random.default_rng(0)
    pairs = [v.ravel() for v in np.meshgrid(special, special)]
    x = np.concatenate(
        [pairs[0], np.exp(rng.uniform(-9, 9, 4000)).astype(np.float32), -rng.uniform(0, 9, 999).astype(np.float32)]
    )
    y = np.concatenate(
        [pairs[1], rng.uniform(-9, 9, 4000).astype(np.float32), rng.integers(-20, 20, 999).astype(np.float32)]
    )
    x, y = x[: len(x) // 8 * 8].copy(), y[: len(y) // 8 * 8].copy()
    with np.errstate(all="ignore"):
        exact = apply(target, "powf", [x.astype(np.float64), y.astype(np.float64)], "f64", None)
    got = apply(target, "powf", [x, y], "f32", 8)
    assert ulps(got, exact).max() <= 0.51
    signs = np.isnan(exact) | (np.signbit(got) == np.signbit(exact))
    assert signs.all()


@pytest.mark.parametrize("lanes", [None, 4])
@pytest.mark.parametrize("op", ["exp", "log", "tanh", "erf", "sin", "acosh", "expm1", "log2"])
def test_f64_is_the_c_library(op: str, lanes: int | None) -> None:
    x = np.linspace(1, 5, 16)
    exact = [getattr(math, op)(v) for v in x]
    np.testing.assert_allclose(apply(TARGETS[-1], op, [x], "f64", lanes), exact, rtol=3e-16)
