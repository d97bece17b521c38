"""Quantization by constant scales: the bytes of the division, and DequantizeLinear's floats, to the bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from sardonyx.lowering.quotients import reciprocal

import sardonyx as sx

f4 = np.float32
SCALES = (0.03, 0.5, 1.0, 0.1, 7.3, 1 / 255)
TYPES = {"uint8": np.uint8, "int8": np.int8}


def program(text: str, *, fuse: bool = True) -> sx.Program:
    graph = onnx.parser.parse_graph("g " + text)
    opsets = [onnx.helper.make_opsetid("", 21)]
    return sx.compile(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), fuse=fuse, cache=False)


def numbers(scale: np.float32) -> np.ndarray:
    """Those around the middles between bytes, and those that are no ordinary numbers."""
    middles = ((np.arange(-400, 400) + 0.5) * scale).astype(f4)
    near = [np.nextafter(middles, f4(end)) for end in (-np.inf, np.inf)]
    others = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-40, -1e-40], f4)
    return np.concatenate([middles, *near, others, np.random.default_rng(0).normal(0, 40, 3000).astype(f4)])


def quantized(x: np.ndarray, scale: np.float32, zero: int, name: str) -> np.ndarray:
    info = np.iinfo(TYPES[name])
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.rint(x / scale) + f4(zero)
    return np.clip(np.nan_to_num(whole, nan=0.0, posinf=1e9, neginf=-1e9), info.min, info.max).astype(TYPES[name])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("name", "zero"), [("uint8", 0), ("uint8", 128), ("int8", 0), ("int8", -128), ("int8", 5)])
def test_bytes_are_those_of_the_division(name: str, zero: int, scale: float) -> None:
    s = f4(scale)
    text = (
        f"(float[N] x) => ({name}[N] q, float[N] y) <float s = {{{s!s}}}, {name} z = {{{zero}}}, float t = {{0.25}},"
        f"{name} u = {{1}}> {{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, u) }}"
    )
    x = numbers(s)
    expected = quantized(x, s, zero, name)
    floats = (expected.astype(np.int32) - 1).astype(f4) * f4(0.25)
    for fuse in (True, False):
        found = program(text, fuse=fuse)(x)
        np.testing.assert_array_equal(found["q"], expected)
        assert found["y"].tobytes() == floats.tobytes()


@pytest.mark.parametrize(("name", "zero"), [("uint8", 0), ("uint8", 3), ("int8", -128), ("int8", 0)])
def test_what_is_below_the_least_byte(name: str, zero: int) -> None:
    """Relu in front of the quantization, and DequantizeLinear whose byte nothing reads."""
    text = (
        f"(float[N] x) => (float[N] y) <float s = {{0.1}}, {name} z = {{{zero}}}>"
        "{ r = Relu(x) q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z) }"
    )
    x = numbers(f4(0.1))
    bytes_ = quantized(np.maximum(x, f4(0)), f4(0.1), zero, name)
    expected = (bytes_.astype(np.int32) - zero).astype(f4) * f4(0.1)
    for fuse in (True, False):
        assert program(text, fuse=fuse)(x)["y"].tobytes() == expected.tobytes()


def test_reciprocals_are_rounded_down() -> None:
    """So that what is left is not negative, and infinity times it no other sign."""
    for scale in np.exp(np.random.default_rng(1).uniform(-12, 4, 200)).astype(f4):
        pair = reciprocal(float(scale))
        assert pair is not None
        z, r = pair
        assert z * float(scale) <= 1 and 0 <= r <= z * 2.0**-22


@pytest.mark.parametrize("scale", [0.0, -0.5, float("inf"), float("nan"), 1e-30, 1e30])
def test_scales_that_are_divided_by(scale: float) -> None:
    assert reciprocal(scale) is None
