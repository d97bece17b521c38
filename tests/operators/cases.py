"""One operator as a model, compiled for known and for symbolic sizes, against its reference function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from sardonyx.semantics.reference import REFERENCE

import sardonyx as sx

OPSETS = {"": 27, "ai.onnx.ml": 5}
Operand = np.ndarray | None


def model_of(
    name: str,
    operands: Sequence[Operand],
    attributes: Mapping[str, Any],
    expected: Sequence[np.ndarray],
    *,
    domain: str = "",
    constants: Collection[int] = (),
    dynamic: bool = False,
    opset: int | None = None,
) -> onnx.ModelProto:
    """A model of one node; operands are inputs but those in `constants`; with `dynamic` sizes are symbols."""
    inputs: list[onnx.ValueInfoProto] = []
    initializers: list[onnx.TensorProto] = []
    for at, array in enumerate(operands):
        if array is None:
            continue
        type_ = helper.np_dtype_to_tensor_dtype(array.dtype)
        if at in constants:
            initializers.append(onnx.numpy_helper.from_array(array, f"x{at}"))
        else:
            # how many integers a list has may decide a rank
            symbolic = dynamic and not (array.ndim == 1 and array.dtype.kind == "i")
            shape = [f"s{at}_{axis}" for axis in range(array.ndim)] if symbolic else array.shape
            inputs.append(helper.make_tensor_value_info(f"x{at}", type_, shape))
    outputs = [
        helper.make_tensor_value_info(f"y{at}", helper.np_dtype_to_tensor_dtype(e.dtype), None)
        for at, e in enumerate(expected)
    ]
    names = ["" if a is None else f"x{at}" for at, a in enumerate(operands)]
    node = helper.make_node(name, names, [o.name for o in outputs], name="node", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", inputs, outputs, initializers)
    version = OPSETS[domain] if opset is None else opset
    imports = {"": OPSETS[""]} | {domain: version}
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()], ir_version=11
    )


def check(
    name: str,
    operands: Sequence[Operand],
    attributes: Mapping[str, Any] = {},
    *,
    results: int = 1,
    domain: str = "",
    constants: Collection[int] = (),
    tolerance: float = 0.0,
    forms: Sequence[bool] = (False, True),
    levels: Sequence[str] = (),
) -> list[np.ndarray]:
    """Compares the native results, which must be native, with the reference's; gives those.

    `tolerance` is in units of the last place of the result's type, of floats; `levels` are executed too.
    """
    expected = [np.asarray(e) for e in REFERENCE[domain, name](list(operands), dict(attributes), results)[:results]]
    feeds = {f"x{at}": a for at, a in enumerate(operands) if a is not None and at not in constants}
    for dynamic in forms:
        model = model_of(name, operands, attributes, expected, domain=domain, constants=constants, dynamic=dynamic)
        program = sx.compile(model)
        assert program.explain().to_dict()["hosted"] == [], f"{name} is hosted, {dynamic=}"
        runs = [program(feeds), *(sx.run(sx.lower(model, to=level), feeds) for level in levels)]
        for outputs in runs:
            for at, want in enumerate(expected):
                compare(outputs[f"y{at}"], want, tolerance)
    return expected


def compare(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if tolerance == 0 or want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    a, b = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (got, want))
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=tolerance * eps, atol=tolerance * eps * max(1.0, largest))
