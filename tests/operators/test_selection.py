"""Operators that pick elements: suppression of boxes, unique values, unpooling, pools over regions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import sardonyx as sx

from .cases import check, model_of

RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16
LEVELS = ("graph", "kernels", "tensor")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(("batches", "classes", "count"), [(2, 3, 40), (1, 1, 1), (1, 2, 0), (3, 1, 9)])
def test_suppression(batches: int, classes: int, count: int, center: int) -> None:
    boxes = RNG.random((batches, count, 4)).astype(np.float32)
    scores = RNG.integers(0, 12, (batches, classes, count)).astype(np.float32) / 8  # with ties
    limit, overlap, least = ints(7), np.array([0.3], np.float32), np.array([0.4], np.float32)
    attributes = {"center_point_box": center}
    check("NonMaxSuppression", [boxes, scores, limit, overlap, least], attributes)
    check("NonMaxSuppression", [boxes, scores, limit, overlap, least], attributes, constants=[2, 3, 4], levels=LEVELS)


def test_suppression_with_what_is_left_out() -> None:
    boxes, scores = RNG.random((1, 9, 4)).astype(np.float32), RNG.random((1, 2, 9)).astype(np.float32)
    check("NonMaxSuppression", [boxes, scores])  # no limit is a limit of 0
    check("NonMaxSuppression", [boxes, scores, ints(100)])
    scores[0, 0, 3] = np.nan
    check("NonMaxSuppression", [boxes, scores, np.array(100), np.array(0.9, np.float32)])


@pytest.mark.parametrize("overlap", [1.5, -0.1, np.nan])
def test_a_share_of_overlap_out_of_range(overlap: float) -> None:
    operands = [
        np.ones((1, 2, 4), np.float32),
        np.ones((1, 1, 2), np.float32),
        ints(7),
        np.array([overlap], np.float32),
    ]
    made = model_of("NonMaxSuppression", operands, {}, [ints(0)])
    for run in (lambda f: sx.compile(made)(f), lambda f: sx.run(sx.lower(made, to="graph"), f)):
        with pytest.raises(sx.InputError, match="iou_threshold"):
            run({f"x{at}": x for at, x in enumerate(operands)})


@pytest.mark.parametrize("sorted_", [0, 1])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, BF16, np.float64, np.int8, np.uint8, np.int64, np.uint64, bool]
)
def test_unique(dtype: type, sorted_: int) -> None:
    attributes = {"sorted": sorted_}
    for shape in ((7, 5), (1,), (0, 3)):
        x = RNG.integers(0, 6, shape).astype(dtype)
        check("Unique", [x], attributes, results=4)
    x = RNG.integers(0, 2, (3, 6, 2)).astype(dtype)
    check("Unique", [x], attributes | {"axis": 1}, results=4, levels=LEVELS if dtype is np.float32 else ())
    check("Unique", [x], attributes | {"axis": -1}, results=2)


def test_unique_of_special_numbers() -> None:
    x = np.array([[np.nan, 0.0], [-0.0, np.nan], [-np.inf, 2.0], [-0.0, np.nan]], np.float32)
    check("Unique", [x], results=4)
    check("Unique", [x], {"axis": 0}, results=4)
    check("Unique", [np.array([2**63, 1, 2**63, 0], np.uint64)], results=4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_max_unpool(dtype: type) -> None:
    x = RNG.standard_normal((2, 1, 3, 2)).astype(dtype)
    inside = RNG.permutation(2 * 6 * 4)[:12].reshape(x.shape)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check("MaxUnpool", [x, inside], attributes, levels=LEVELS)
    check("MaxUnpool", [x, inside, ints(2, 1, 7, 5)], attributes)
    wide = RNG.permutation(2 * 7 * 5)[:12].reshape(x.shape)
    wide[0, 0, 0, 0] = 2 * 7 * 5 - 1
    check("MaxUnpool", [x, wide, ints(2, 1, 7, 5)], attributes)
    check("MaxUnpool", [x[:, :, :, 0], inside[:, :, :, 0] % 6], {"kernel_shape": [2], "pads": [1, 0], "strides": [2]})


def test_an_index_outside_of_the_map_is_an_error() -> None:
    x, indices = np.ones((1, 1, 2), np.float32), np.array([[[0, 4]]])
    program = sx.compile(model_of("MaxUnpool", [x, indices], {"kernel_shape": [2], "strides": [2]}, [x]))
    with pytest.raises(sx.InputError, match="node"):
        program(x, indices)


def test_unpooling_keeps_batch_and_channels() -> None:
    x, indices = np.ones((1, 1, 2), np.float32), np.array([[[0, 1]]])
    attributes = {"kernel_shape": [2], "strides": [2]}
    for constants, error in (([2], sx.ModelError), ([], sx.InputError)):
        operands = [x, indices, ints(2, 1, 4)]
        model = model_of("MaxUnpool", operands, attributes, [x], constants=constants)
        with pytest.raises(error, match="output_shape has the batch and channels of the data"):
            sx.compile(model)(*operands[: 3 - len(constants)])
    with pytest.raises(sx.ModelError, match="its output_shape has 2 sizes, for data of rank 3"):
        sx.compile(model_of("MaxUnpool", [x, indices, ints(1, 4)], attributes, [x], constants=[2]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_max_roi_pool(dtype: type) -> None:
    x = RNG.standard_normal((2, 3, 8, 9)).astype(dtype)
    rois = np.array([[0, 1, 1, 6, 7], [1, 3, 2, 3, 2], [1, -4, 0, 20, 5], [0, 12, 12, 14, 14]], dtype)
    check("MaxRoiPool", [x, rois], {"pooled_shape": [3, 2], "spatial_scale": 0.75})
    check("MaxRoiPool", [x, rois[:0]], {"pooled_shape": [1, 1]})


def test_a_deformable_window_of_symbolic_size() -> None:
    shapes = ((2, 4, 5, 6), (6, 2, 3, 2), (2, 24, 3, 5), (6,), (2, 12, 3, 5))
    operands = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    check("DeformConv", operands, {"group": 2, "offset_group": 2}, tolerance=64)


def test_conditions_past_the_end() -> None:
    x = RNG.standard_normal((3, 2)).astype(np.float32)
    behind = np.array([True, False, True, False, False])
    check("Compress", [x, behind], {"axis": 0}, levels=LEVELS)
    check("Compress", [x, behind[:2]], {"axis": 0}, levels=LEVELS)
    behind[4] = True
    made = model_of("Compress", [x, behind], {"axis": 0}, [x], dynamic=True)
    with pytest.raises(sx.InputError, match="Compress: 'condition' is true at 4, of 3 elements"):
        sx.compile(made)(x, behind)
    with pytest.raises(sx.ModelError, match="true at 4, of 3 elements"):
        sx.compile(model_of("Compress", [x, behind], {"axis": 0}, [x], constants=[1]))
