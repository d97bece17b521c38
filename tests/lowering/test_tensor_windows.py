"""Pools, local response normalization and resizing against their reference functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.semantics.reference import REFERENCE

from .tensor_cases import FLOATS, Kernel, random

POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((7, 6), {"kernel_shape": [2, 2]}),
    ((7, 6), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ((7, 6), {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    ((7, 6), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    ((7, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((7, 6), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((7, 6), {"kernel_shape": [2, 3], "strides": [3, 2], "auto_pad": "VALID"}),
    ((9,), {"kernel_shape": [3], "strides": [2], "pads": [2, 1], "dilations": [2], "ceil_mode": 1}),
    ((4, 5, 3), {"kernel_shape": [2, 2, 2], "pads": [0, 1, 0, 0, 1, 1]}),
]
SYMBOLIC = {"NOTSET": "(d1 - {k})//{s} + 1"}


@pytest.mark.parametrize(("spatial", "attributes"), POOLS)
@pytest.mark.parametrize("op", [onnx.MaxPoolOp, onnx.AveragePoolOp, onnx.LpPoolOp])
def test_pools(op: type[onnx.OnnxOp], spatial: tuple[int, ...], attributes: dict[str, Any]) -> None:
    kernel = Kernel()
    kernel.run(kernel.op(op, kernel.input(random((2, 3, *spatial))), **attributes))


@pytest.mark.parametrize(("spatial", "attributes"), POOLS)
def test_average_with_padding_counted(spatial: tuple[int, ...], attributes: dict[str, Any]) -> None:
    kernel = Kernel()
    kernel.run(kernel.op(onnx.AveragePoolOp, kernel.input(random((2, 3, *spatial))), count_include_pad=1, **attributes))


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize(("spatial", "attributes"), POOLS)
def test_index_of_the_greatest(spatial: tuple[int, ...], attributes: dict[str, Any], storage_order: int) -> None:
    kernel = Kernel()
    values = np.round(random((2, 3, *spatial)))
    values[0, 0] = -np.inf
    values[0, 1] = np.nan
    x = kernel.input(values)
    kernel.run(*kernel.op(onnx.MaxPoolOp, x, outputs=2, storage_order=storage_order, **attributes))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint8])
def test_max_pool_of_types(dtype: Any) -> None:
    if np.dtype(dtype).name == "bfloat16":
        return  # not in the reference's table of extrema for pools
    kernel = Kernel()
    x = kernel.input(random((1, 2, 6, 6), dtype))
    kernel.run(kernel.op(onnx.MaxPoolOp, x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))


@pytest.mark.parametrize("size", [2, 3, 8])
def test_pools_of_unknown_sizes(size: int) -> None:
    kernel = Kernel(d0=2, d1=size)
    x = kernel.input(random((2, 3, size, size)), "d0, 3, d1, d1")
    inside = "d0, 3, (d1 - 2)//2 + 1, (d1 - 2)//2 + 1"
    around = "d0, 3, (d1 - 1)//2 + 1, (d1 - 1)//2 + 1"
    pads = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    lowered = kernel.run(
        kernel.op(onnx.MaxPoolOp, x, kernel_shape=[2, 2], strides=[2, 2], dims=inside),
        kernel.op(onnx.AveragePoolOp, x, dims=around, **pads),
        kernel.op(onnx.MaxPoolOp, x, dims=around, **pads),
    )
    first = next(op for op in lowered.walk() if op.name == "linalg.generic")
    assert not any(op.name == "scf.if" for op in first.walk()), "a window that never hangs over needs no guard"


@pytest.mark.parametrize("size", [1, 2, 5])
def test_local_response_normalization(size: int) -> None:
    kernel = Kernel(d0=2)
    x = kernel.input(random((2, 4, 3, 3)), "d0, 4, 3, 3")
    kernel.run(kernel.op(onnx.LRNOp, x, size=size, alpha=0.1, beta=0.5, bias=2.0, dims="d0, 4, 3, 3"))


def test_a_pool_reads_costly_values_from_memory() -> None:
    kernel = Kernel()
    x = kernel.op(onnx.ExpOp, kernel.input(random((1, 2, 6, 6))))
    lowered = kernel.run(kernel.op(onnx.MaxPoolOp, x, kernel_shape=[3, 3]))
    assert sum(op.name == "linalg.generic" for op in lowered.walk()) == 2


assert REFERENCE
