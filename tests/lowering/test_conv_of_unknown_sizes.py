"""The plan of a direct convolution of images whose sizes only a call tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from sardonyx.dialects.dims import as_dim
from sardonyx.dialects.target import AVX2, AVX512, Target
from sardonyx.lowering.kernels import conv_plan
from sardonyx.lowering.kernels.register_tile import Products
from sardonyx.lowering.kernels.window import Axis, Convolution, Windows
from xdsl.dialects.builtin import Float32Type

import sardonyx as sx

F32 = Products(Float32Type())


def convolution(inputs: int, outputs: int, size: int, stride: int, image: int | str) -> Convolution:
    side = as_dim(image)
    axis = Axis(side, (side + stride - 1) // stride, as_dim(size), stride, 1, as_dim(size // 2))
    return Convolution(as_dim(1), 1, as_dim(inputs), as_dim(outputs), Windows((axis, replace(axis))))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 32), (64, 64), (256, 64), (128, 256), (3, 24)])
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (3, 2), (5, 1)])
def test_the_plan_suits_all_sizes(inputs: int, outputs: int, size: int, stride: int, target: Target) -> None:
    """By its own estimate it is near the best plan with vectors over positions of every size."""
    plan = conv_plan.choose(convolution(inputs, outputs, size, stride, "N"), F32, target)
    over = {"vectors_over": conv_plan.POSITIONS}
    for result in (14, 20, 28, 40, 56, 112):
        known = convolution(inputs, outputs, size, stride, result * stride)
        best = conv_plan.choose(known, F32, target, over)
        assert conv_plan.cycles_by(plan, known, F32, target) < 1.4 * conv_plan.cycles_by(best, known, F32, target)


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 2), (5, 1)])
def test_all_sizes_are_right_and_have_the_same_bits(size: int, stride: int) -> None:
    """On two threads, unfused, and with another tile."""
    w = np.random.default_rng(0).standard_normal((40, 24, size, size)).astype(np.float32) / 24
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[B,24,H,W] x) => (float[B,40,P,Q] y)
        {{ c = Conv <pads=[{", ".join([str(size // 2)] * 4)}], strides=[{stride},{stride}]> (x, w)
           s = Sigmoid (c)
           y = Mul (c, s) }}"""
    )
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    ours = sx.compile(model, threads=1, exact=True)
    tile = {"conv_sigmoid_mul_0": {"conv": {"rows": 3, "vectors": 2, "vectors_over": "positions"}}}
    others = [
        sx.compile(model, threads=2, exact=True),
        sx.compile(model, threads=1, exact=True, fuse=False),
        sx.compile(model, threads=1, exact=True, schedule=tile),
    ]
    for shape in [(1, 24, 1, 1), (2, 24, 3, 5), (1, 24, 7, 16), (1, 24, 4, 17), (3, 24, 9, 33), (1, 24, 31, 64)]:
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        y = ours(x=x)["y"]
        for other in others:
            np.testing.assert_array_equal(other(x=x)["y"], y)
        fixed = sx.compile(_fixed(model, shape), threads=1, exact=True)
        np.testing.assert_array_equal(fixed(x=x)["y"], y)


def _fixed(model: onnx.ModelProto, shape: tuple[int, ...]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for axis, size in zip(copy.graph.input[0].type.tensor_type.shape.dim, shape):
        axis.dim_value = size
    del copy.graph.output[0].type.tensor_type.shape.dim[:]
    copy.graph.output[0].type.tensor_type.ClearField("shape")
    return copy
