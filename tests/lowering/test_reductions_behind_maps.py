"""A reduction without rows reads what a map beside it has stored, and computes nothing again."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import sardonyx as sx

MODEL = """<ir_version: 10, opset_import: ["" : 21]> g (float[N,1,64] a, float[1,N,64] b) => ({outputs})
{{ s = Add(a, b)
   t = Tanh(s)
   {last} }}"""


@pytest.mark.parametrize(
    ("outputs", "last"),
    [
        ("float[N,N,64] t, float m", "m = ReduceMax<keepdims=0>(t)"),
        ("float[N,N,64] t, float[N,64] m", "m = ReduceSum<keepdims=0>(t, axes)"),
        ("uint8[N,N,64] q, float m, uint8 z", "q, m, z = DynamicQuantizeLinear(t)"),
    ],
)
def test_nothing_is_gathered(outputs: str, last: str) -> None:
    body = f"axes = Constant<value_ints=[0]>()\n   {last}" if "axes" in last else last
    model = parser.parse_model(MODEL.format(outputs=outputs, last=body))
    fused, apart = sx.compile(model), sx.compile(model, fuse=False)
    loops = "".join(kernel.ir("loops") for kernel in fused.kernels.values())
    assert "vectorx.gather" not in loops
    random = np.random.default_rng(0)
    for n in (1, 5, 20):
        a, b = random.standard_normal((n, 1, 64)), random.standard_normal((1, n, 64))
        feeds = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
        found, expected = fused(**feeds), apart(**feeds)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
