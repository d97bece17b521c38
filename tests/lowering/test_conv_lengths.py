"""Convolutions along one axis whose length only a call tells: few positions and many by the same code."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import sardonyx as sx

CASES = [
    # in, out, window, stride, pads, group
    (1, 258, 256, 128, (0, 0), 1),
    (129, 128, 3, 1, (1, 1), 1),
    (64, 24, 1, 1, (0, 0), 1),
    (6, 40, 5, 2, (2, 0), 2),
    (5, 1, 2, 1, (0, 0), 1),
]


@pytest.mark.parametrize(("inputs", "outputs", "window", "stride", "pads", "group"), CASES)
def test_lengths(inputs: int, outputs: int, window: int, stride: int, pads: tuple[int, int], group: int) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g (float[B,{inputs},N] x) => (float[B,{outputs},M] y)
    {{ c = Conv <kernel_shape=[{window}], strides=[{stride}], pads=[{pads[0]},{pads[1]}], group={group}> (x, w)
       y = Relu (c) }}"""
    random = np.random.default_rng(0)
    w = random.standard_normal((outputs, inputs // group, window)).astype(np.float32)
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    program = sx.compile(model, threads=1)
    for positions in (1, 2, 3, 4, 7, 8, 13, 14, 15, 16, 17, 31, 33, 100):
        length = (positions - 1) * stride + window - sum(pads)
        x = random.standard_normal((2, inputs, length)).astype(np.float32)
        padded = np.pad(x, ((0, 0), (0, 0), pads)).astype(np.float64)
        views = np.lib.stride_tricks.sliding_window_view(padded, window, axis=2)[:, :, ::stride]
        views = views.reshape(2, group, inputs // group, positions, window)
        weights = w.astype(np.float64).reshape(group, outputs // group, inputs // group, window)
        expected = np.einsum("bgcpk,gock->bgop", views, weights).reshape(2, outputs, positions)
        scale = np.sqrt(inputs // group * window)
        np.testing.assert_allclose(program(x)["y"], np.maximum(expected, 0), atol=2e-6 * scale, rtol=1e-5)


def test_an_axis_of_size_one_is_no_second_axis() -> None:
    """A convolution along one axis that is written with two: by the same code, and so the same bits."""
    random = np.random.default_rng(0)
    w = random.standard_normal((48, 32, 5)).astype(np.float32)
    programs: list[sx.Program] = []
    for sizes, shape, attributes in (
        ("N", w.shape, "kernel_shape=[5], pads=[2,2]"),
        ("1,N", (48, 32, 1, 5), "kernel_shape=[1,5], pads=[0,2,0,2]"),
    ):
        model = onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : 20]> g (float[B,32,{sizes}] x) => (float[B,48,{sizes}] y)
            {{ y = Conv <{attributes}> (x, w) }}"""
        )
        model.graph.initializer.append(numpy_helper.from_array(w.reshape(shape), "w"))
        programs.append(sx.compile(model, threads=1))
    one, two = programs
    plans = [p.explain().to_dict()["functions"]["conv_0"]["schedule"]["conv"] for p in programs]
    assert plans[0] == plans[1]
    for length in (1, 12, 100):
        x = random.standard_normal((2, 32, length)).astype(np.float32)
        np.testing.assert_array_equal(one(x=x)["y"], two(x=x[:, :, None])["y"][:, :, 0])
