"""The standard onnx.backend interface."""

import numpy as np
import onnx.parser
import pytest
from onnx import helper
from sardonyx.runtime.errors import InputError, UnsupportedError

from sardonyx import backend


def test_a_node_at_an_opset():
    node = helper.make_node("Gemm", ["a", "b", ""], ["y"], alpha=0.5)
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    (y,) = backend.run_node(node, [a, b])
    assert y.tolist() == [[1.5] * 4] * 2
    old = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    assert backend.run_node(old, [np.zeros((1, 2), np.float32)], opset_version=11)[0].shape == (2,)


def test_a_model():
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 25]> g (float[N] x) => (y) { y = Relu (x) }')
    assert backend.is_compatible(model)
    prepared = backend.prepare(model)
    assert prepared.hosted == []
    x = np.array([-1, 2], np.float32)
    for inputs in (x, [x], {"x": x}):
        assert prepared.run(inputs)[0].tolist() == [0, 2]
    with pytest.raises(InputError, match="2 inputs for a model of 1"):
        prepared.run([x, x])


def test_devices():
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:0")
    with pytest.raises(UnsupportedError, match="no device 'CUDA'"):
        backend.prepare(onnx.ModelProto(), "CUDA")
