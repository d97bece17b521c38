"""Strided reads of which only some lanes are there: masked vectors and shuffles, for sizes that only a call tells."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import sardonyx as sx

SIZES = [(1, 1), (2, 3), (3, 16), (5, 31), (4, 32), (3, 33), (7, 70), (2, 129)]


def model(graph: str, **weights: object) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items())
    return made


@pytest.mark.parametrize("dtype", ["float", "double", "int8"])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_pools_of_any_size(stride: int, dtype: str) -> None:
    graph = f"""g ({dtype}[1,2,H,W] x) => ({dtype}[1,2,P,Q] y)
        {{ y = MaxPool <kernel_shape=[3,3], strides=[{stride},{stride}], pads=[1,1,1,1]> (x) }}"""
    program = sx.compile(model(graph))
    assert "gather" not in program.kernels["maxpool_0"].ir("loops")
    random = np.random.default_rng(0)
    for height, width in SIZES:
        x = (50 * random.standard_normal((1, 2, height, width))).astype(program.inputs[0].dtype)
        lowest = np.iinfo(x.dtype).min if x.dtype == np.int8 else -np.inf
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=lowest)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        np.testing.assert_array_equal(program(x=x)["y"], windows[:, :, ::stride, ::stride].max(axis=(4, 5)))


@pytest.mark.parametrize("step", [-1, 2, 3])
def test_slices_of_padded_rows(step: int) -> None:
    graph = "g (float[M,N] x) => (float[M,K] y) { p = Pad (x, pads)  y = Slice (p, first, last, axis, step) }"
    first, last = (0, 1 << 40) if step > 0 else (-1, -(1 << 40))
    numbers = {"pads": [0, 3, 0, 2], "first": [first], "last": [last], "axis": [1], "step": [step]}
    program = sx.compile(model(graph, **{n: np.array(v, np.int64) for n, v in numbers.items()}))
    [kernel] = program.kernels.values()
    assert "gather" not in kernel.ir("loops")
    for height, width in SIZES:
        x = np.random.default_rng(0).standard_normal((height, width)).astype(np.float32)
        np.testing.assert_array_equal(program(x=x)["y"], np.pad(x, ((0, 0), (3, 2)))[:, ::step])
