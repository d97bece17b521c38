"""What is known of indices: bounds of loops, sums, products, and comparisons that they decide."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects.target import AVX512
from sardonyx.lowering.loop_builder import INDEX, LoopBuilder, flat
from sardonyx.lowering.places import Lanes
from sardonyx.lowering.ranges import difference_range, range_of
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Block

import sardonyx as sx

WINDOWS = [(3, 2, (1, 1)), (2, 2, (0, 0)), (3, 3, (2, 2)), (5, 1, (4, 0)), (4, 4, (0, 3)), (3, 1, (1, 1))]


def test_ranges_of_loop_indices_and_what_is_computed_of_them() -> None:
    block = Block(arg_types=[INDEX, flat(Float32Type())])
    b = LoopBuilder(block, AVX512)
    with b.loop(3, 20, 4) as loop:
        assert range_of(loop.index) == (3, 19)
        assert range_of(b.sub(b.mul(loop.index, 2), 7)) == (-1, 31)
        assert range_of(b.mul(loop.index, -1)) == (-19, -3)
        assert range_of(b.add(loop.index, block.args[0])) is None
        assert difference_range(Lanes(loop.index, 2), Lanes(5), 4) == (-2, 20)
        assert difference_range(Lanes(0, -1), Lanes(loop.index), 4) == (-22, -3)
    with b.loop(0, block.args[0]) as unknown:
        assert range_of(unknown.index) is None
    assert range_of(7) == (7, 7)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 15, 16, 17, 18, 31, 32, 33, 47, 48, 49, 64, 65, 112])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [(3, 2, (1, 1)), (2, 2, (0, 0)), (3, 3, (2, 2)), (5, 1, (4, 0)), (4, 4, (0, 3)), (3, 1, (1, 1))],
)
def test_windows_at_both_edges(width: int, kernel: int, stride: int, pads: tuple[int, int]) -> None:
    width = max(width, kernel - sum(pads))
    result = (width + sum(pads) - kernel) // stride + 1
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g (float[1,2,{width}] x) => (float[1,2,{result}] y)
    {{ y = MaxPool <kernel_shape=[{kernel}], strides=[{stride}], pads=[{pads[0]},{pads[1]}]> (x) }}"""
    x = np.random.default_rng(width).standard_normal((1, 2, width)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), pads), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=2)[:, :, ::stride]
    y = sx.compile(onnx.parser.parse_model(text), threads=1)(x)["y"]
    np.testing.assert_array_equal(y, windows.max(-1))
