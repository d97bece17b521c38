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
