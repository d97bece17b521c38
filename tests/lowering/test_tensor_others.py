"""Sampling of images, losses, windows of signals, bits, and the operators of ai.onnx.ml, against their references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.lowering.tensor import NotLowered, lower_to_tensor
from sardonyx.semantics.reference import NUMBERS
from sardonyx.semantics.tensor_eval import CheckFailed, evaluate

from .tensor_cases import Kernel, random

# Images


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_grid_sample(mode: str, padding_mode: str, align_corners: int) -> None:
    kernel = Kernel(d0=2, d1=5)
    x, grid = kernel.input(random((2, 3, 5, 4)), "d0, 3, d1, 4"), kernel.input(random((2, 3, 6, 2)), "d0, 3, 6, 2")
    names = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    kernel.run(kernel.op(onnx.GridSampleOp, x, grid, dims="d0, 3, 3, 6", **names), tolerance=1e-4)


def test_grid_sample_of_volumes() -> None:
    kernel = Kernel()
    x, grid = kernel.input(random((1, 2, 3, 4, 5))), kernel.input(random((1, 2, 3, 2, 3)))
    kernel.run(kernel.op(onnx.GridSampleOp, x, grid), tolerance=1e-4)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 1), (2, 3, 2, 4, 5)])
def test_affine_grid(size: tuple[int, ...], align_corners: int) -> None:
    kernel = Kernel()
    rank = len(size) - 2
    theta, target = kernel.input(random((2, rank, rank + 1))), kernel.constant(size, np.int64)
    kernel.run(kernel.op(onnx.AffineGridOp, theta, target, align_corners=align_corners))


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(mode: str, coordinates: str) -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((2, 2, 8, 7)))
    rois = np.array([[0, 0, 9, 9], [2.5, 1, 3, 20], [-4, -3, 1, 2]], np.float32)
    batches = kernel.input(np.array([1, 0, 1]), "d0")
    y = kernel.op(
        onnx.RoiAlignOp, x, kernel.input(rois, "d0, 4"), batches, mode=mode, output_height=2, output_width=3,
        sampling_ratio=2, spatial_scale=0.8, coordinate_transformation_mode=coordinates, dims="d0, 2, 2, 3",
    )  # fmt: skip
    kernel.run(y, tolerance=1e-5)


# Losses


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [None, 1, -100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("op", [onnx.NegativeLogLikelihoodLossOp, onnx.SoftmaxCrossEntropyLossOp])
def test_losses(op: type[onnx.OnnxOp], reduction: str, ignored: int | None, weighted: bool) -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 5, 2)), "d0, 5, 2")
    target = kernel.input(np.array([[0, 4], [1, 2], [-100 if ignored == -100 else 3, 1]]), "d0, 2")
    weight = kernel.input(np.abs(random((5,)))) if weighted else None
    dims = "d0, 2" if reduction == "none" else ""
    names = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    if op is onnx.SoftmaxCrossEntropyLossOp:
        kernel.run(*kernel.op(op, x, target, weight, outputs=2, dims=[dims, "d0, 5, 2"], **names))
    else:
        kernel.run(kernel.op(op, x, target, weight, dims=dims, **names))


def test_a_target_that_is_no_class_is_an_error() -> None:
    kernel = Kernel()
    x, target = kernel.input(random((2, 3))), kernel.input(np.array([0, 2]))
    lowered = lower_to_tensor(kernel.function(kernel.op(onnx.NegativeLogLikelihoodLossOp, x, target)))
    with pytest.raises(CheckFailed):
        evaluate(lowered, [], [kernel.inputs[0], np.array([0, 3])])


# Signals and bits


@pytest.mark.parametrize("op", [onnx.HannWindowOp, onnx.HammingWindowOp, onnx.BlackmanWindowOp])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_windows(op: type[onnx.OnnxOp], periodic: int, n: int) -> None:
    kernel = Kernel(d0=n)
    size = kernel.constant(n, np.int64)
    kernel.run(*(kernel.op(op, size, periodic=periodic, output_datatype=t, dims="d0") for t in (1, 10, 11)))


@pytest.mark.parametrize("to", [np.int32, np.uint32, np.float32])
def test_bits_as_another_type(to: Any) -> None:
    kernel = Kernel()
    x, y = kernel.input(random((2, 3))), kernel.input(random((2, 3), np.int32))
    kernel.run(*(kernel.op(onnx.BitCastOp, v, to=NUMBERS[np.dtype(to)]) for v in (x, y)))


# ai.onnx.ml


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_features(dtype: Any) -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(random((4, 3), dtype), "d0, 3")
    dims = "d0, 3"
    results = [
        kernel.op(onnx.MlScalerOp, x, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 1.0], dims=dims),
        kernel.op(onnx.MlScalerOp, x, offset=[1.5], scale=[0.25], dims=dims),
        kernel.op(onnx.MlBinarizerOp, x, threshold=0.5, dims=dims),
        *(kernel.op(onnx.MlNormalizerOp, x, norm=n, dims=dims) for n in ("MAX", "L1", "L2")),
    ]
    kernel.run(*results)


def test_missing_values_are_replaced() -> None:
    kernel = Kernel()
    x = kernel.input(np.array([[1, np.nan, 3], [np.nan, 2, 2]], np.float32))
    whole = kernel.input(np.array([[1, -1, 3]]))
    kernel.run(
        kernel.op(onnx.MlImputerOp, x, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan")),
        kernel.op(onnx.MlImputerOp, x, imputed_value_floats=[7.0], replaced_value_float=2.0),
        kernel.op(onnx.MlImputerOp, whole, imputed_value_int64s=[5], replaced_value_int64=-1),
    )


def test_columns_are_chosen_and_joined() -> None:
    kernel = Kernel(d0=2)
    x, y = kernel.input(random((2, 3)), "d0, 3"), kernel.input(random((2, 2), np.int64), "d0, 2")
    kernel.run(
        kernel.op(onnx.MlFeatureVectorizerOp, x, y, inputdimensions=[2, 4], dims="d0, 6"),
        kernel.op(onnx.MlFeatureVectorizerOp, x, y, inputdimensions=[3, 2], dims="d0, 5"),
        kernel.op(onnx.MlArrayFeatureExtractorOp, x, kernel.input(np.array([[2, 0]])), dims="d0, 2"),
        kernel.op(onnx.MlOneHotEncoderOp, y, cats_int64s=[1, 5, -7], dims="d0, 2, 3"),
    )


def test_a_value_that_is_no_category_is_an_error() -> None:
    kernel = Kernel()
    y = kernel.op(onnx.MlOneHotEncoderOp, kernel.input(np.array([1, 5])), cats_int64s=[1, 5], zeros=0)
    lowered = lower_to_tensor(kernel.function(y))
    evaluate(lowered, [], kernel.inputs)
    with pytest.raises(CheckFailed):
        evaluate(lowered, [], [np.array([1, 4])])


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_linear_models(transform: str, dtype: Any) -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(random((4, 3), dtype), "d0, 3")
    weights = [float(w) for w in random((6,))]
    names: dict[str, Any] = {"coefficients": weights, "intercepts": [0.5, -0.5], "post_transform": transform}
    one = {**names, "coefficients": weights[:3], "intercepts": [0.25]}
    many = kernel.op(onnx.MlLinearClassifierOp, x, classlabels_ints=[7, 3], outputs=2, dims=["d0", "d0, 2"], **names)
    two = kernel.op(onnx.MlLinearClassifierOp, x, classlabels_ints=[7, 3], outputs=2, dims=["d0", "d0, 2"], **one)
    kernel.run(kernel.op(onnx.MlLinearRegressorOp, x, targets=2, dims="d0, 2", **names), *many, *two, tolerance=1e-5)


def test_large_tables_are_refused() -> None:
    kernel = Kernel()
    y = kernel.op(onnx.MlScalerOp, kernel.input(random((2, 300))), offset=[0.0] * 300, scale=[1.0] * 300)
    with pytest.raises(NotLowered):
        lower_to_tensor(kernel.function(y))
