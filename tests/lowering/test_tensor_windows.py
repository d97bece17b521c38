"""Pools, local response normalization and resizing against their reference functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.semantics.reference import sampling

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
    ((9, 8), {"kernel_shape": [5, 6], "pads": [2, 1, 2, 3]}),  # too many elements for one expression
]


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


COORDINATES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
]  # fmt: skip


def sizes(kernel: Kernel, *values: int) -> Any:
    return kernel.constant(values, np.int64)


@pytest.mark.parametrize("scale", [0.6, 1.0, 1.7, 2.0, 3.0])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_by_scales(mode: str, coordinates: str, scale: float) -> None:
    kernel = Kernel()
    x = kernel.input(random((1, 2, 5, 4)))
    roi = kernel.constant([0, 0, 0.2, -0.1, 1, 1, 0.7, 1.2], np.float32)
    scales = kernel.constant([1, 1, scale, 1.5], np.float32)
    names = {"coordinate_transformation_mode": coordinates, "extrapolation_value": 9.0}
    region = roi if coordinates == "tf_crop_and_resize" else None
    kernel.run(kernel.op(onnx.ResizeOp, x, region, scales, mode=mode, **names), tolerance=2e-5)


def test_nearest_counts_in_float32_with_the_scale_that_is_given() -> None:
    """6.5 / 1.3 is 5, and 19.5 / 1.3 above 15, as 1.3 is 1.29999995; by 31 / 24 the first were above 5 as well."""
    x = np.arange(24, dtype=np.float32)
    scales = np.array([1.3], np.float32)
    places = sampling.resize(x, None, scales)
    assert places[[5, 6, 7, 18, 19, 20]].tolist() == [4, 4, 5, 14, 15, 15]
    kernel = Kernel()
    kernel.run(kernel.op(onnx.ResizeOp, kernel.input(x), None, kernel.constant(scales, np.float32)))


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES[:5])
@pytest.mark.parametrize("n", [1, 4])
def test_resize_to_sizes(n: int, coordinates: str, nearest: str) -> None:
    kernel = Kernel(d0=n, d1=7)
    x = kernel.input(random((1, 2, n, 3)), "1, 2, d0, 3")
    target = kernel.sizes("1, 2, 2*d0, d1")
    y = kernel.op(
        onnx.ResizeOp, x, None, None, target, coordinate_transformation_mode=coordinates, nearest_mode=nearest,
        dims="1, 2, 2*d0, d1",
    )  # fmt: skip
    z = kernel.op(
        onnx.ResizeOp, x, None, None, target, coordinate_transformation_mode=coordinates, mode="linear",
        dims="1, 2, 2*d0, d1",
    )  # fmt: skip
    kernel.run(y, z, tolerance=1e-5)


def test_doubling_is_a_split_of_the_loops() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((1, 2, 3, 4)), "1, 2, d0, 4")
    scales = kernel.constant([1, 1, 2, 2], np.float32)
    lowered = kernel.run(kernel.op(onnx.ResizeOp, x, None, scales, dims="1, 2, 2*d0, 8"))
    assert not any(op.name in ("tensor.extract", "arith.divui") for op in lowered.walk())


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_resize_without_aliasing(mode: str, exclude: int) -> None:
    kernel = Kernel(d0=9)
    x = kernel.input(random((9, 8)), "d0, 8")
    by_scale = kernel.op(
        onnx.ResizeOp, x, None, kernel.constant([1, 0.4], np.float32), mode=mode, antialias=1, exclude_outside=exclude,
        dims="d0, 3",
    )  # fmt: skip
    by_size = kernel.op(
        onnx.ResizeOp, x, None, None, kernel.sizes("d0 - 4, 3"), mode=mode, antialias=1, exclude_outside=exclude,
        dims="d0 - 4, 3",
    )  # fmt: skip
    plain = kernel.op(onnx.ResizeOp, x, None, None, sizes(kernel, 12, 5), mode=mode, exclude_outside=exclude)
    kernel.run(by_scale, by_size, plain, tolerance=1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio(policy: str) -> None:
    kernel = Kernel()
    x = kernel.input(random((2, 4, 6)))
    y = kernel.op(
        onnx.ResizeOp, x, None, None, sizes(kernel, 7, 8), axes=[1, 2], keep_aspect_ratio_policy=policy, mode="linear"
    )
    kernel.run(y)


@pytest.mark.parametrize("dtype", [*FLOATS, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_types(mode: str, dtype: Any) -> None:
    kernel = Kernel()
    x = kernel.input(random((1, 5, 4), dtype))
    kernel.run(kernel.op(onnx.ResizeOp, x, None, kernel.constant([1, 1.6, 2], np.float32), mode=mode))
