"""Tensors the product of whose sizes would be an expression of thousands of terms."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.runtime.errors import InputError

import sardonyx as sx

AXES = 8
SIZES = "ABCDEFGH"
RESULT = "KLMNOPQR"


def pad(mode: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 19]> g (float[{", ".join(SIZES)}] x, int64[{2 * AXES}] pads)
        => (float[{", ".join(RESULT)}] y) {{ p = Pad <mode = "{mode}"> (x, pads) y = Exp (p) }}"""
    )


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads_of_many_axes_are_native(mode: str) -> None:
    """Sizes that only the length of their product makes symbols are computed in front of the operator."""
    program = sx.compile(pad(mode))
    assert program.explain().to_dict()["hosted"] == []
    x = np.random.default_rng(0).random((2, 3, 2, 1, 2, 2, 3, 2), dtype=np.float32)
    for amounts in ([1, 2, 1, 0, 1, 0, 2, 1], [0] * 8, [0, 0, 1, 0, 0, 1, 0, 0]):
        pads = np.array([*amounts, *reversed(amounts)])
        pads = np.minimum(pads, np.tile(np.array(x.shape) - 1, 2)) if mode == "reflect" else pads
        expected = np.exp(np.pad(x, list(zip(pads[:AXES], pads[AXES:])), mode=mode))
        np.testing.assert_allclose(program(x=x, pads=pads)["y"], expected, rtol=1e-6)


def test_a_size_below_0_is_an_error() -> None:
    program = sx.compile(pad("constant"))
    x = np.ones([2] * AXES, np.float32)
    with pytest.raises(InputError):
        program(x=x, pads=np.array([0] * 15 + [-3]))


def test_tiles_of_many_axes_are_native() -> None:
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 19]>
        g (float[{", ".join(SIZES)}] x, int64[{2 * AXES}] pads, int64[{AXES}] r)
        => (float[{", ".join(RESULT)}] y) {{ p = Pad (x, pads) t = Tile (p, r) y = Neg (t) }}"""
    )
    program = sx.compile(made)
    assert program.explain().to_dict()["hosted"] == []
    x = np.random.default_rng(0).random([1, 2, 1, 2, 1, 2, 1, 2], dtype=np.float32)
    pads, repeats = np.arange(16) % 3 // 2, np.array([1, 2, 1, 1, 2, 1, 2, 1])
    expected = -np.tile(np.pad(x, list(zip(pads[:AXES], pads[AXES:]))), repeats)
    np.testing.assert_array_equal(program(x=x, pads=pads, r=repeats)["y"], expected)


@pytest.mark.parametrize("step", [2, -3])
@pytest.mark.parametrize("axes", [2, 4, 5])
def test_slices_at_positions_far_outside(axes: int, step: int) -> None:
    """No intermediate of a product of sizes is too large to be counted where the product is not."""
    sizes, listed = ", ".join(SIZES[:axes]), ", ".join(map(str, range(axes)))
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[{sizes}] x, int64[{axes}] s, int64[{axes}] e) => (float[{", ".join(RESULT[:axes])}] y)
        <int64[{axes}] axes = {{{listed}}}, int64[{axes}] steps = {{{", ".join([str(step)] * axes)}}}> {{
            y = Slice (x, s, e, axes, steps) }}"""
    )
    program = sx.compile(made)
    assert program.explain().to_dict()["hosted"] == []
    x = np.random.default_rng(0).random([5, 4, 3, 2, 4][:axes], dtype=np.float32)
    pairs = ((2**62, -(2**62)), (2**63 - 1, -(2**63)), (2**31, -(2**31)), (3, -9), (2**62 + 3, 1), (1, 2**40))
    for first, last in pairs:
        s, e = (first, last) if step < 0 else (last, first)
        expected = x[(slice(s, e, step),) * axes]
        np.testing.assert_array_equal(program(x=x, s=np.array([s] * axes), e=np.array([e] * axes))["y"], expected)
