"""Winograd's algorithm on images whose sizes only a call tells: one form for all of them."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import sardonyx as sx

SIZES = [(1, 1, 1), (1, 3, 3), (2, 7, 9), (1, 10, 33), (3, 5, 64), (1, 28, 28)]


def program(stride: int, threads: int = 1, **options: bool) -> sx.Program:
    w = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32) / 24
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[B,64,H,W] x) => (float[B,64,P,Q] y)
        {{ c = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[{stride},{stride}]> (x, w)
           y = Relu (c) }}"""
    )
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return sx.compile(model, threads=threads, **options)


@pytest.mark.parametrize("stride", [1, 2])
def test_all_sizes_are_right_and_have_the_same_bits(stride: int) -> None:
    """On any number of threads, fused or not, and in any batch."""
    ours, exact = program(stride), program(stride, exact=True)
    others = program(stride, threads=2), program(stride, fuse=False)
    algorithms = [
        p.explain().to_dict()["functions"]["conv_relu_0"]["schedule"]["conv"]["algorithm"] for p in (ours, exact)
    ]
    assert algorithms == ["winograd", "direct"]
    random = np.random.default_rng(1)
    for batch, height, width in SIZES:
        x = random.standard_normal((batch, 64, height, width)).astype(np.float32)
        y = ours(x=x)["y"]
        np.testing.assert_allclose(y, exact(x=x)["y"], atol=1e-5)
        for other in others:
            np.testing.assert_array_equal(other(x=x)["y"], y)
        np.testing.assert_array_equal(ours(x=x[-1:])["y"], y[-1:])
