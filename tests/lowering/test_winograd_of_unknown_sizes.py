"""Winograd's algorithm on images whose sizes only a call tells: one form for all of them."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from sardonyx.dialects.dims import as_dim
from sardonyx.dialects.target import AVX512
from sardonyx.lowering.kernels import winograd_plan
from sardonyx.lowering.kernels.register_tile import Products
from sardonyx.lowering.kernels.window import Axis, Convolution, Windows
from xdsl.dialects.builtin import Float32Type

import sardonyx as sx

SIZES = [(1, 1, 1), (1, 3, 3), (2, 7, 9), (1, 10, 33), (3, 5, 64), (1, 28, 28)]


def program(stride: int, threads: int = 1, channels: int = 64, pads: str = "1,1,1,1", **options: bool) -> sx.Program:
    w = np.random.default_rng(0).standard_normal((channels, channels, 3, 3)).astype(np.float32) / 24
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[B,{channels},H,W] x) => (float[B,{channels},P,Q] y)
        {{ c = Conv <kernel_shape=[3,3], pads=[{pads}], strides=[{stride},{stride}]> (x, w)
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


def test_maps_are_small_where_weights_are_large() -> None:
    def most(channels: int, size: str | int) -> int | None:
        axis = Axis(as_dim(size), as_dim(size), as_dim(3), 1, 1, as_dim(1))
        c = Convolution(as_dim(1), 1, as_dim(channels), as_dim(channels), Windows((axis, axis)))
        plan = winograd_plan.choose(c, products, AVX512)
        assert plan is not None
        small = winograd_plan.small_maps(c, plan, products, AVX512)
        return None if small is None else small[1]

    products = Products(Float32Type())
    assert most(256, "d0") in range(5, 40)
    assert most(48, "d0") is None
    assert most(256, 28) is None


SMALL = [(1, 1, 1), (2, 2, 2), (1, 1, 9), (1, 5, 1), (3, 3, 3), (2, 3, 4), (1, 5, 5), (1, 12, 7)]


@pytest.mark.parametrize(("stride", "pads"), [(1, "1,1,1,1"), (2, "1,1,1,1"), (1, "0,2,1,2"), (2, "0,0,2,2")])
def test_small_maps_of_many_channels(stride: int, pads: str) -> None:
    """They are computed directly, from weights of their own, and the same way on any number of threads and fused."""
    ours, exact = (program(stride, channels=160, pads=pads, exact=exact) for exact in (False, True))
    others = program(stride, 2, 160, pads), program(stride, 1, 160, pads, fuse=False)
    random = np.random.default_rng(2)
    for batch, height, width in SMALL:
        x = random.standard_normal((batch, 160, height, width)).astype(np.float32)
        if (height + int(pads[0]) + int(pads[4])) < 3:
            continue
        y = ours(x=x)["y"]
        np.testing.assert_allclose(y, exact(x=x)["y"], atol=1e-4)
        for other in others:
            np.testing.assert_array_equal(other(x=x)["y"], y)
        np.testing.assert_array_equal(ours(x=x[-1:])["y"], y[-1:])
