"""QLinearMatMul of 8-bit floats against the reference function."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from sardonyx.semantics.reference import REFERENCE

import sardonyx as sx

NAMES = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
@pytest.mark.parametrize("each", [False, True])
def test_like_the_reference(dtype: str, each: bool) -> None:
    small, rng = np.dtype(getattr(ml_dtypes, dtype)), np.random.default_rng(0)
    rows, columns = ([3], [5]) if each else ([1], [])
    shapes = ([2, 3, 4], rows, rows, [4, 5], columns, columns, rows, rows)
    feeds = {
        name: (rng.random(shape) + 0.25 if "scale" in name else rng.integers(-2, 3, shape)).astype(
            np.float32 if "scale" in name else small
        )
        for name, shape in zip(NAMES, shapes, strict=True)
    }
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), [f"{n}{i}" for i in range(v.ndim)])
        for n, v in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(small), None)
    graph = helper.make_graph([helper.make_node("QLinearMatMul", NAMES, ["y"])], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    program = sx.compile(model)
    assert not program.explain().to_dict()["hosted"]
    (want,) = REFERENCE["", "QLinearMatMul"](list(feeds.values()), {}, 1)
    assert TensorProto.DataType.Name(output.type.tensor_type.elem_type).startswith("FLOAT8")
    np.testing.assert_array_equal(program(feeds)["y"].astype("f4"), np.asarray(want).astype("f4"))
