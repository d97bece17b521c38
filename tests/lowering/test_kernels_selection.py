"""Running sums, selection and scattering against the reference functions."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects.target import Target

from .kernel_cases import Tensor, targets
from .operator_cases import build, reference, run

TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
BF16 = ml_dtypes.bfloat16


def random(shape: tuple[int, ...], dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@TARGETS
@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
def test_scans(name: str, target: Target) -> None:
    for shape, axis, exclusive, reverse in (
        ((7,), 0, 0, 0), ((3, 5), 1, 1, 0), ((3, 5), -2, 0, 1), ((2, 4, 37), 1, 1, 1), ((4, 0, 3), 1, 0, 0),
    ):  # fmt: skip
        given = [random(shape), np.array(axis, np.int64)]
        run(name, {"exclusive": exclusive, "reverse": reverse}, given, (0,), target, 3, 8.0)


@pytest.mark.parametrize("dtype", ["f8", "f2", BF16, "i4", "u8", "i8"], ids=str)
def test_scans_of_other_types(dtype: object) -> None:
    run("CumSum", {}, [random((5, 20), dtype), np.array([0], np.int32)], tolerance=8.0)


@pytest.mark.parametrize(("largest", "axis"), [(1, -1), (0, 1), (1, 0)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", BF16, "i8", "u8", "i4", "u1", "i1"], ids=str)
def test_topk(dtype: object, largest: int, axis: int) -> None:
    x = random((5, 9, 6), dtype)
    if x.dtype.kind in "iu":
        x[0, 0, 0], x[1, 1, 1] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    x[0, :4] = x[0, 4]  # equal elements
    for k in (0, 1, 4, x.shape[axis]):
        run("TopK", {"axis": axis, "largest": largest}, [x, np.array([k])], (0, 1), threads=3)


def test_topk_of_special_values_and_symbolic_sizes() -> None:
    x = np.array([[np.nan, 1, -0.0, 0.0, -np.inf, np.inf, np.nan, -1]], np.float32)
    for largest in (0, 1):
        run("TopK", {"largest": largest}, [x, np.array([8])], (0, 1))
    specs = [Tensor.of(np.float32, "d0", "d1"), Tensor.of(np.int64, 1)]
    kernel = build("TopK", {}, specs, [None, Tensor.of(np.int64, "d0", "d2")], 3)
    for rows, n, k in itertools.product((0, 1, 3), (1, 100), (0, 1)):
        x = random((rows, n))
        found = np.empty((rows, k), np.int64)
        kernel.run([rows, n, k], x, np.array([k]), found)
        np.testing.assert_array_equal(found, reference("TopK", {}, [x, np.array([k])], 2)[1])


@pytest.mark.parametrize("dtype", ["f4", "f2", "u1", "i8"])
def test_topk_of_long_lines(dtype: str) -> None:
    """Most of a line is passed over, but for NaN and equal elements."""
    x = random((3, 700), dtype)
    if x.dtype.kind == "f":
        x[1, 650], x[2, 3], x[2, 600] = np.nan, np.nan, -np.inf
    x[0, 100:300] = x[0].max()
    for largest in (0, 1):
        run("TopK", {"largest": largest}, [x, np.array([5])], (0, 1))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1", "?"], ids=str)
def test_scatter_elements(dtype: object, reduction: str) -> None:
    if dtype == "?" and reduction in ("max", "min"):
        reduction = "none"
    data = random((4, 6, 5), np.int32).astype(dtype)
    for axis in (0, 1, -1):
        indices = np.random.default_rng(1).integers(-data.shape[axis], data.shape[axis], (3, 6, 2))
        if reduction == "none":  # which of several updates of one element wins is not defined
            indices = np.argsort(indices, axis=axis) % data.shape[axis]
        updates = random(indices.shape, np.int32, 2).astype(dtype)
        run("ScatterElements", {"axis": axis, "reduction": reduction}, [data, indices, updates], threads=3)


@TARGETS
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd(reduction: str, target: Target) -> None:
    for shape, indices in (
        ((7,), [[1], [3], [-1]]), ((4, 5, 20), [[0, 1], [3, 2], [0, -1]]), ((4, 3), [[[0]], [[2]]]),
        ((2, 3), [[0, 0], [1, 2], [0, 0]] if reduction != "none" else [[0, 0], [1, 2]]),
    ):  # fmt: skip
        places = np.array(indices)
        data = random(shape)
        updates = random((*places.shape[:-1], *shape[places.shape[-1] :]), seed=3)
        run("ScatterND", {"reduction": reduction}, [data, places, updates], target=target)


def test_an_index_out_of_range_is_reported_and_not_followed() -> None:
    data, updates = random((4, 3)), random((2, 3))
    specs = [Tensor.of(np.float32, 4, 3), Tensor.of(np.int64, 2, 3), Tensor.of(np.float32, 2, 3)]
    kernel = build("ScatterElements", {}, specs, [Tensor.of(np.float32, 4, 3)])
    indices = np.array([[0, 1, 4], [0, -5, 1 << 40]])
    kernel.run([], data, indices, updates, np.empty((4, 3), np.float32))
    assert [values for _, values in kernel.reports] == [[4, 4], [-5, 4], [1 << 40, 4]]
