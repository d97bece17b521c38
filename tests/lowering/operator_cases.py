"""Runs a template that is an operator against the operator's reference function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from sardonyx.dialects.target import Target
from sardonyx.semantics.reference import REFERENCE
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, IntegerType, Signedness, StringAttr, f32
from xdsl.ir import Attribute

from .kernel_cases import ELEMENTS, Kernel, Tensor, compiled
from .test_kernels_conv import array


def element(dtype: np.dtype) -> Attribute:
    """The element type with its signedness, as the graph level has it."""
    if dtype.kind == "u":
        return IntegerType(8 * dtype.itemsize, Signedness.UNSIGNED)
    return ELEMENTS[dtype]


def attribute(value: object) -> Attribute:
    """An ONNX attribute."""
    if isinstance(value, bool | int):
        return IntegerAttr(int(value), 64)
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, str):
        return StringAttr(value)
    assert isinstance(value, Sequence)
    if value and isinstance(value[0], int):
        return array(value)
    return ArrayAttr([attribute(v) for v in value])


def build(
    name: str,
    attributes: dict[str, Any],
    operands: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
    dims: int = 0,
    target: Target | None = None,
    threads: int = 1,
) -> Kernel:
    """The operator's kernel; None stands for an operand or result that is not there."""
    present = [t for t in operands if t is not None]
    wanted = [t for t in results if t is not None]
    config = {k: attribute(v) for k, v in attributes.items()} | {
        "operands": array([i for i, t in enumerate(operands) if t is not None]),
        "results": array([i for i, t in enumerate(results) if t is not None]),
        "operand_types": ArrayAttr([element(t.dtype) for t in present]),
        "result_types": ArrayAttr([element(t.dtype) for t in wanted]),
    }
    return compiled(name.lower(), config, present, wanted, dims, target, threads)


def reference(
    name: str, attributes: dict[str, Any], operands: Sequence[np.ndarray | None], results: int
) -> list[np.ndarray]:
    return [np.asarray(r) for r in REFERENCE["", name](list(operands), attributes, results)]


def run(
    name: str,
    attributes: dict[str, Any],
    operands: Sequence[np.ndarray | None],
    results: Sequence[int] = (0,),
    target: Target | None = None,
    threads: int = 1,
    tolerance: float = 0.0,
) -> list[np.ndarray]:
    """The wanted results by the template, checked against the reference."""
    expected = reference(name, attributes, operands, max(results) + 1)
    shapes = [Tensor.of(e.dtype, *e.shape) if i in results else None for i, e in enumerate(expected)]
    specs = [None if a is None else Tensor.of(a.dtype, *a.shape) for a in operands]
    kernel = build(name, attributes, specs, shapes, 0, target, threads)
    found = [np.empty(expected[i].shape, expected[i].dtype) for i in sorted(results)]
    kernel.run([], *(a for a in operands if a is not None), *found)
    assert not kernel.reports
    for i, got in zip(sorted(results), found):
        compare(got, expected[i], tolerance)
    return found


def compare(got: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    if tolerance == 0 or got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
        return
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=tolerance * eps, atol=tolerance * eps * max(1.0, largest))
