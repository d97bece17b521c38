"""Activations of f32 are as exact as docs/numerics.md says, in units of the last place of the exact result."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

import sardonyx as sx

Array = np.ndarray
ALPHA, GAMMA = (float(np.float32(v)) for v in (1.6732632423543772, 1.0507009873554805))
ALPHA_OF_HARD = float(np.float32(0.2))
LEAST, GREATEST = 1.2e-38, 3.4e38


def logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def normal(x: Array) -> Array:
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


def cubed(x: Array) -> Array:
    return x * logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


BOUNDS: dict[str, tuple[str, dict[str, object], Callable[[Array], Array], float]] = {
    "sigmoid": ("Sigmoid", {}, logistic, 1.5),
    "tanh": ("Tanh", {}, np.tanh, 1.5),
    "softplus": ("Softplus", {}, softplus, 2.0),
    "elu": ("Elu", {}, lambda x: np.where(x < 0, np.expm1(x), x), 2.0),
    "softsign": ("Softsign", {}, lambda x: x / (1 + np.abs(x)), 2.0),
    "swish": ("Swish", {}, lambda x: x * logistic(x), 2.0),
    "swish of 1.7 x": ("Swish", {"alpha": 1.7}, lambda x: x * logistic(np.float64(np.float32(1.7)) * x), 2.0),
    "swish of 1e-25 x": ("Swish", {"alpha": 1e-25}, lambda x: x * logistic(np.float64(np.float32(1e-25)) * x), 2.0),
    "swish of 1e25 x": ("Swish", {"alpha": 1e25}, lambda x: x * logistic(np.float64(np.float32(1e25)) * x), 2.0),
    "mish": ("Mish", {}, lambda x: x * np.tanh(softplus(x)), 2.0),
    "hard sigmoid": ("HardSigmoid", {}, lambda x: np.clip(ALPHA_OF_HARD * x + 0.5, 0, 1), 0.5),
    "hard swish": ("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 2.0),
    "celu": ("Celu", {"alpha": 1.5}, lambda x: np.maximum(x, 0) + np.minimum(1.5 * np.expm1(x / 1.5), 0), 2.0),
    "selu": ("Selu", {}, lambda x: GAMMA * np.where(x < 0, ALPHA * np.expm1(x), x), 2.0),
    "gelu by tanh": ("Gelu", {"approximate": "tanh"}, cubed, 2.0),
    "gelu": ("Gelu", {}, lambda x: x * normal(x), 2.0),
}


def samples() -> Array:
    """All magnitudes, the range where activations bend, and their tails."""
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (random.standard_normal(40000) * 3).astype(np.float32)
    tails = (random.random(20000) * 200 - 100).astype(np.float32)
    zeros = np.array([-3, -2.5], np.float32)[:, None] * (1 + random.standard_normal((2, 2000)) * 2.0**-20)
    found = np.concatenate([bits, near, tails, zeros.astype(np.float32).reshape(-1), [np.float32(-81.34645)]])
    return found[np.isfinite(found)]


@pytest.mark.parametrize("name", BOUNDS)
def test_errors(name: str) -> None:
    op, attributes, exact, bound = BOUNDS[name]
    x = samples()
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [info], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    found = sx.compile(model)(x)["y"].astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
        place = np.spacing(np.abs(wanted.astype(np.float32))).astype(np.float64)
    counts = (np.abs(wanted) > LEAST) & (np.abs(wanted) < GREATEST)
    assert np.max(np.abs(found - wanted)[counts] / place[counts]) <= bound


@pytest.mark.parametrize("name", BOUNDS)
def test_ends(name: str) -> None:
    """Infinities give the limits, and a NaN stays one."""
    op, attributes, _, _ = BOUNDS[name]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [info], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    x = np.array([np.nan, np.inf, -200, 200, 0], np.float32)
    y = sx.compile(model)(x)["y"]
    if attributes.get("alpha") in (1e-25, 1e25):
        return
    above = {"Sigmoid": 1, "Tanh": 1, "Softsign": 1, "HardSigmoid": 1}.get(op)
    below = {"Elu": -1, "Celu": -1.5, "Selu": -GAMMA * ALPHA, "Tanh": -1, "Softsign": -200 / 201}.get(op, 0)
    assert np.isnan(y[0])
    if op != "Softsign":  # inf / inf
        assert y[1] == (above if above is not None else np.inf)
    assert y[2] == pytest.approx(below, abs=1e-6)
    assert y[3] == pytest.approx(
        {"Selu": 200 * GAMMA, "Sigmoid": 1, "Tanh": 1, "Softsign": 200 / 201, "HardSigmoid": 1}.get(op, 200)
    )
    assert y[4] == pytest.approx({"Sigmoid": 0.5, "HardSigmoid": 0.5, "Softplus": math.log(2)}.get(op, 0), abs=1e-7)


def swish_of(x: Array) -> Array:
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph([helper.make_node("Swish", ["x"], ["y"])], "g", [info], [result])
    return sx.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]))(x)["y"]


def test_swish_where_its_errors_are_largest() -> None:
    bits = [np.array(ends, np.float32).view(np.uint32) for ends in ((0.28, 0.3), (4, 6))]
    x = -np.concatenate([np.arange(low, high, 5, np.uint32).view(np.float32) for low, high in bits])
    wanted = BOUNDS["swish"][2](x.astype(np.float64))
    place = np.spacing(np.abs(wanted.astype(np.float32)))
    assert np.max(np.abs(swish_of(x) - wanted) / place) <= BOUNDS["swish"][3]


def test_swish_of_zeros_and_infinities() -> None:
    y = swish_of(np.array([0.0, -0.0, 1e-45, -3e38, np.inf, -np.inf], np.float32))
    assert np.array_equal(y[:5], [0, 0, 0, 0, np.inf]) and np.isnan(y[5])
    assert list(np.signbit(y[:4])) == [False, True, False, True]
