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


@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_deformable_convolution(groups: tuple[int, int], masked: bool) -> None:
    kernel = Kernel(d0=2)
    group, offset_group = groups
    x, w = kernel.input(random((2, 4, 6, 5)), "d0, 4, 6, 5"), kernel.input(random((6, 4 // group, 3, 2)))
    offset = kernel.input(random((2, offset_group * 12, 3, 5)), f"d0, {offset_group * 12}, 3, 5")
    mask = kernel.input(random((2, offset_group * 6, 3, 5)), f"d0, {offset_group * 6}, 3, 5") if masked else None
    names: dict[str, Any] = {"group": group, "offset_group": offset_group, "pads": [1, 0, 1, 1], "strides": [2, 1]}
    bias = kernel.input(random((6,)))
    y = kernel.op(onnx.DeformConvOp, x, w, offset, bias, mask, dims="d0, 6, 3, 5", **names)
    kernel.run(y, tolerance=1e-4)


@pytest.mark.parametrize(
    ("image", "block", "names"),
    [
        ((5, 5), (2, 2), {"strides": [2, 1]}),
        ((5, 4), (2, 3), {"pads": [0, 1, 1, 1]}),
        ((6,), (2,), {"dilations": [3], "strides": [2]}),
        ((4, 3, 5), (1, 2, 2), {}),
    ],
)
def test_columns_to_image(image: tuple[int, ...], block: tuple[int, ...], names: dict[str, Any]) -> None:
    rank = len(image)
    strides, dilations = names.get("strides", [1] * rank), names.get("dilations", [1] * rank)
    pads = names.get("pads", [0] * (2 * rank))
    counts = [
        (image[k] + pads[k] + pads[rank + k] - (block[k] - 1) * dilations[k] - 1) // strides[k] + 1 for k in range(rank)
    ]
    kernel = Kernel(d0=2, d1=block[0])
    x = kernel.input(random((2, 3 * int(np.prod(block)), int(np.prod(counts)))))
    size = kernel.constant(image, np.int64)
    known = kernel.op(onnx.Col2ImOp, x, size, kernel.constant(block, np.int64), **names)
    at_run_time = kernel.sizes(", ".join(["d1", *map(str, block[1:])]))
    kernel.run(known, kernel.op(onnx.Col2ImOp, x, size, at_run_time, **names))


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_causal_convolution(activation: str, full: bool, dtype: Any) -> None:
    kernel = Kernel(d0=2, d1=4)
    x, w = kernel.input(random((2, 3, 4), dtype), "d0, 3, d1"), kernel.input(random((3, 1, 4), dtype))
    bias = kernel.input(random((3,), dtype)) if full else None
    state = kernel.input(random((2, 3, 3), dtype, 5), "d0, 3, 3") if full else None
    dims = ["d0, 3, d1", "d0, 3, 3"]
    results = kernel.op(
        onnx.CausalConvWithStateOp, x, w, bias, state, outputs=2, activation=activation, dims=dims
    )  # fmt: skip
    kernel.run(*results)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [-2, 1])
def test_updates_of_a_cache(mode: str, axis: int) -> None:
    kernel = Kernel(d0=2)
    past, update = kernel.input(random((2, 5, 5, 3)), "d0, 5, 5, 3"), random((2, 2, 5, 3), seed=1)
    new = kernel.input(update if axis == 1 else update.transpose(0, 2, 1, 3))
    first = kernel.input(np.array([0, 3] if mode == "linear" else [4, 3]))
    kernel.run(
        kernel.op(onnx.TensorScatterOp, past, new, first, axis=axis, mode=mode, dims="d0, 5, 5, 3"),
        kernel.op(onnx.TensorScatterOp, past, new, axis=axis, mode=mode, dims="d0, 5, 5, 3"),
    )


def test_an_update_that_does_not_fit_is_an_error() -> None:
    kernel = Kernel()
    past, new, first = kernel.input(random((1, 4, 2))), kernel.input(random((1, 2, 2))), kernel.input(np.array([1]))
    lowered = lower_to_tensor(kernel.function(kernel.op(onnx.TensorScatterOp, past, new, first)))
    with pytest.raises(CheckFailed):
        evaluate(lowered, [], [*kernel.inputs[:2], np.array([3])])


# Losses and optimizers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batch_statistics(dtype: Any) -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 4, 2, 5), dtype), "d0, 4, 2, 5")
    others = [kernel.input(np.abs(random((4,), dtype, k)) + dtype(0.5)) for k in range(1, 5)]
    op, dims = onnx.BatchNormalizationOp, ["d0, 4, 2, 5", "4", "4"]
    kernel.run(*kernel.op(op, x, *others, training_mode=1, momentum=0.7, outputs=3, dims=dims), tolerance=1e-5)


OPTIMIZERS: list[tuple[type[onnx.OnnxOp], int, dict[str, Any]]] = [
    (onnx.TrainingAdagradOp, 2, {"norm_coefficient": 0.1, "decay_factor": 0.2}),
    (onnx.TrainingAdamOp, 3, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.05}),
    (onnx.TrainingMomentumOp, 2, {"alpha": 0.9, "beta": 0.7, "mode": "standard", "norm_coefficient": 0.1}),
    (onnx.TrainingMomentumOp, 2, {"alpha": 0.9, "beta": 0.7, "mode": "nesterov", "norm_coefficient": 0.0}),
]


@pytest.mark.parametrize(("op", "kinds", "names"), OPTIMIZERS)
@pytest.mark.parametrize("count", [0, 3])
def test_optimizers(op: type[onnx.OnnxOp], kinds: int, names: dict[str, Any], count: int) -> None:
    kernel = Kernel()
    rate, updates = kernel.input(np.array(0.1, np.float32)), kernel.input(np.array([count]).reshape(()))
    shapes = [(2, 3), (4,)]
    tensors = [
        kernel.input(np.abs(random(shape, np.float32, 3 * kind)) + 0.1) for kind in range(kinds + 1) for shape in shapes
    ]
    results = kernel.op(op, rate, updates, *tensors, outputs=2 * kinds, **names)
    kernel.run(*results, tolerance=2e-5)


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


def test_labels() -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(np.array([1.0, np.nan, 3.0, 7.0], np.float32), "d0")
    n = kernel.input(np.array([1, 2, 1, 9]), "d0")
    nan = float("nan")
    kernel.run(
        kernel.op(onnx.MlLabelEncoderOp, x, keys_floats=[1.0, nan, 1.0], values_int64s=[5, 6, 7], dims="d0"),
        kernel.op(onnx.MlLabelEncoderOp, n, keys_int64s=[1, 2], values_floats=[0.5, 1.5], default_float=9.0, dims="d0"),
        kernel.op(
            onnx.MlLabelEncoderOp, n, keys_tensor=np.array([2, 9]), values_tensor=np.array([3, 4], np.int16),
            default_tensor=np.array([8], np.int16), dims="d0",
        ),
    )  # fmt: skip


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
