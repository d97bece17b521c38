"""Functions through zero keep its sign, also where their results become zero."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import sardonyx as sx

PLAIN = (
    "Ceil", "Floor", "Round", "Sqrt", "Sin", "Tan", "Sinh", "Tanh", "Asin", "Atan", "Asinh", "Atanh", "Erf", "Gelu",
    "Mish", "Swish", "HardSwish", "Elu", "Selu", "Celu", "LeakyRelu", "Softsign",
)  # fmt: skip
FUNCTIONS: tuple[tuple[str, dict[str, float | str]], ...] = (
    *((op, {}) for op in PLAIN),
    ("Gelu", {"approximate": "tanh"}),
    ("Swish", {"alpha": 0.5}),
    ("Swish", {"alpha": -3.0}),
    ("Celu", {"alpha": 3.0}),
)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("op", "attributes"), FUNCTIONS)
def test_zeros_keep_their_sign(op: str, attributes: dict[str, float | str], dtype: type) -> None:
    """A zero of x gives one of the same sign, and denormal numbers one of theirs, if any."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.tile(np.array([0.0, -0.0, tiny, -tiny], dtype), 9)
    if op in ("Sqrt", "Ceil", "Floor"):  # of a denormal number these are something else
        x = np.where(np.abs(x) > 0, np.copysign(dtype(0), x), x)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = (helper.make_tensor_value_info(name, kind, [36]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [next(values)], [next(values)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    y = sx.compile(model)({"x": x})["y"]
    assert np.array_equal(np.signbit(y), np.signbit(x))
    assert np.all(y[x == 0] == 0)
