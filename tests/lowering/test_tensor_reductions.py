"""Reductions, softmax and normalizations against their reference functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.dialects.dims import parse_dims
from sardonyx.semantics.chosen_axes import reduced_to_one, without_one
from xdsl.dialects import func

from .tensor_cases import DIGITS, FLOATS, INTS, Kernel, random

REDUCE = [
    onnx.ReduceSumOp, onnx.ReduceMeanOp, onnx.ReduceMaxOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceL1Op,
    onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceSumSquareOp,
]  # fmt: skip

STASHED = {**DIGITS, "float64": 1e-6}
"""The first stage of these operators is in float32, also for float64."""


def generics(function: func.FuncOp) -> int:
    return sum(op.name == "linalg.generic" for op in function.walk())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", REDUCE)
def test_reductions_of_floats(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel(d0=3)
    values = random((3, 4, 5), dtype)
    x = kernel.input(np.abs(values) if op is onnx.ReduceLogSumOp else values, "d0, 4, 5")
    results = [
        kernel.op(op, x, kernel.constant([-1], np.int64), dims="d0, 4, 1"),
        kernel.op(op, x, kernel.constant([0, 2], np.int64), dims="4", keepdims=0),
        kernel.op(op, x, dims="", keepdims=0),
        kernel.op(op, x, noop_with_empty_axes=1, dims="d0, 4, 5"),
        kernel.op(op, x, kernel.constant([1], np.int64), dims="d0, 5", keepdims=0),
    ]
    kernel.run(*results)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("op", REDUCE)
def test_reductions_of_integers(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel()
    x = kernel.input(np.abs(random((3, 4), dtype)) % 5 + 1)
    kernel.run(kernel.op(op, x, kernel.constant([0], np.int64)), kernel.op(op, x, keepdims=0))


@pytest.mark.parametrize("op", [onnx.ReduceMaxOp, onnx.ReduceMinOp])
@pytest.mark.parametrize("dtype", [*INTS, bool])
def test_extrema_of_all_types(op: type[onnx.OnnxOp], dtype: Any) -> None:
    kernel = Kernel(d0=0)
    x = kernel.input(random((3, 4), dtype))
    kernel.run(kernel.op(op, x, kernel.constant([1], np.int64)))


@pytest.mark.parametrize("op", REDUCE)
def test_reductions_of_nothing(op: type[onnx.OnnxOp]) -> None:
    kernel = Kernel(d0=0)
    x = kernel.input(random((2, 0)), "2, d0")
    kernel.run(kernel.op(op, x, kernel.constant([1], np.int64), dims="2, 1"))


@pytest.mark.parametrize("axis", range(-3, 3))
@pytest.mark.parametrize("op", [onnx.ReduceSumOp, onnx.ReduceMeanOp, onnx.ReduceMaxOp, onnx.ReduceLogSumExpOp])
def test_axes_known_at_run_time(op: type[onnx.OnnxOp], axis: int) -> None:
    kernel = Kernel(d0=3, d1=axis, d2=(axis + 1) % 3 - 3)
    dims = parse_dims("d0, 4, 5")
    x, one, two = kernel.input(random((3, 4, 5)), "d0, 4, 5"), kernel.sizes("d1"), kernel.sizes("d1, d2")
    axes = parse_dims("d1, d2")
    kernel.run(
        kernel.op(op, x, one, dims=", ".join(map(str, reduced_to_one(dims, axes[:1])))),
        kernel.op(op, x, two, dims=", ".join(map(str, reduced_to_one(dims, axes)))),
        kernel.op(op, x, one, dims=", ".join(map(str, without_one(dims, axes[0]))), keepdims=0),
    )


def test_log_sum_exp_of_infinities() -> None:
    kernel = Kernel()
    x = kernel.input(np.array([[np.inf, 1], [-np.inf, -np.inf], [1000, 1000], [np.nan, 1]], np.float32))
    kernel.run(kernel.op(onnx.ReduceLogSumExpOp, x, kernel.constant([1], np.int64)))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", [onnx.ArgMaxOp, onnx.ArgMinOp])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.int64])
def test_index_of_the_extremum(op: type[onnx.OnnxOp], last: int, dtype: Any) -> None:
    kernel = Kernel(d0=3)
    values = (random((3, 6, 4), dtype).astype(np.int64) % 3).astype(dtype)  # with ties
    x = kernel.input(values, "d0, 6, 4")
    kernel.run(
        kernel.op(op, x, axis=1, select_last_index=last, dims="d0, 1, 4"),
        kernel.op(op, x, axis=-1, keepdims=0, select_last_index=last, dims="d0, 6"),
        kernel.op(op, x, axis=0, keepdims=0, select_last_index=last, dims="6, 4"),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", [onnx.SoftmaxOp, onnx.LogSoftmaxOp, onnx.HardmaxOp])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(op: type[onnx.OnnxOp], axis: int, dtype: Any) -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(random((4, 3, 5), dtype) * 4, "d0, 3, 5")
    kernel.run(kernel.op(op, x, axis=axis, dims="d0, 3, 5"))


def test_softmax_keeps_its_exponential_and_divides_once_a_row() -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(random((4, 7)), "d0, 7")
    bias = kernel.input(random((7,)))
    y = kernel.op(onnx.SoftmaxOp, kernel.op(onnx.AddOp, x, bias, dims="d0, 7"), dims="d0, 7")
    lowered = kernel.run(y)
    assert generics(lowered) == 4  # the maxima, the exponentials and their sums, 1 / each sum, the products
    assert sum(op.name == "math.exp" for op in lowered.walk()) == 1
    divisions = [op for op in lowered.walk() if op.name == "arith.divf"]
    assert [len(op.parent_op().iterator_types) for op in divisions] == [1]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("op", [onnx.SoftmaxOp, onnx.LogSoftmaxOp])
def test_softmax_of_empty_rows(op: type[onnx.OnnxOp], rows: int) -> None:
    kernel = Kernel(d0=rows)
    x = kernel.input(random((rows, 3)), "d0, 3")
    empty = kernel.input(random((2, 0)))
    kernel.run(kernel.op(op, x, dims="d0, 3"), kernel.op(op, empty))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [1, -1])
def test_layer_normalization(axis: int, dtype: Any) -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 4, 6), dtype), "d0, 4, 6")
    shape = (4, 6) if axis == 1 else (6,)
    scale, bias = kernel.input(random(shape, dtype, 1)), kernel.input(random(shape, dtype, 2))
    rest = "1, 1" if axis == 1 else "4, 1"
    dims = ["d0, 4, 6", f"d0, {rest}", f"d0, {rest}"]
    results = kernel.op(onnx.LayerNormalizationOp, x, scale, bias, axis=axis, outputs=3, dims=dims)
    without = kernel.op(onnx.LayerNormalizationOp, x, scale, axis=axis, epsilon=0.1, dims="d0, 4, 6")
    kernel.run(*results, without, tolerance=STASHED)


def test_layer_normalization_is_five_loops() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 6)), "d0, 6")
    scale, bias = kernel.input(random((6,))), kernel.input(random((6,)))
    lowered = kernel.run(kernel.op(onnx.LayerNormalizationOp, x, scale, bias, dims="d0, 6"))
    assert generics(lowered) == 5  # sum, mean, sum of squares, 1 / deviation, result


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_normalization(dtype: Any) -> None:
    kernel = Kernel(d0=3)
    x, scale = kernel.input(random((3, 4, 6), dtype), "d0, 4, 6"), kernel.input(random((6,), dtype, 1))
    kernel.run(kernel.op(onnx.RMSNormalizationOp, x, scale, dims="d0, 4, 6"), tolerance=STASHED)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normalizations_by_channel(dtype: Any) -> None:
    kernel = Kernel(d0=2, d1=5)
    x = kernel.input(random((2, 6, 5, 3), dtype), "d0, 6, d1, 3")
    scale, bias, mean = (kernel.input(random((6,), dtype, k)) for k in (1, 2, 3))
    variance = kernel.input(np.abs(random((6,), dtype, 4)) + dtype(1))
    dims = "d0, 6, d1, 3"
    kernel.run(
        kernel.op(onnx.InstanceNormalizationOp, x, scale, bias, dims=dims),
        kernel.op(onnx.GroupNormalizationOp, x, scale, bias, num_groups=3, dims=dims),
        kernel.op(onnx.BatchNormalizationOp, x, scale, bias, mean, variance, dims=dims),
        kernel.op(onnx.MeanVarianceNormalizationOp, x, dims=dims),
        tolerance=STASHED,
    )


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int) -> None:
    kernel = Kernel()
    values = random((3, 4))
    values[1] = 0
    x = kernel.input(values)
    kernel.run(kernel.op(onnx.LpNormalizationOp, x, axis=1, p=p), kernel.op(onnx.LpNormalizationOp, x, axis=0, p=p))


@pytest.mark.parametrize("dtype", FLOATS)
def test_global_pools(dtype: Any) -> None:
    kernel = Kernel(d0=2, d1=5)
    x = kernel.input(random((2, 3, 5, 4), dtype), "d0, 3, d1, 4")
    kernel.run(
        kernel.op(onnx.GlobalAveragePoolOp, x, dims="d0, 3, 1, 1"),
        kernel.op(onnx.GlobalMaxPoolOp, x, dims="d0, 3, 1, 1"),
        *(kernel.op(onnx.GlobalLpPoolOp, x, p=p, dims="d0, 3, 1, 1") for p in (1, 2, 3)),
    )


def test_reductions_over_one_space_share_a_loop() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 5)), "d0, 5")
    axes = kernel.constant([1], np.int64)
    results = [kernel.op(op, x, axes, dims="d0, 1") for op in (onnx.ReduceMaxOp, onnx.ReduceMinOp, onnx.ReduceSumOp)]
    assert generics(kernel.run(*results)) == 1


def test_a_transpose_in_front_of_a_reduction_is_an_indexing_map() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 5, 2)), "d0, 5, 2")
    y = kernel.op(onnx.TransposeOp, x, perm=[2, 0, 1], dims="2, d0, 5")
    lowered = kernel.run(kernel.op(onnx.ReduceSumOp, y, kernel.constant([2], np.int64), dims="2, d0, 1"))
    assert generics(lowered) == 1
    assert not any(op.name == "tensor.extract" for op in lowered.walk())


def test_a_reduction_over_a_sum_of_broadcasts_has_all_its_loops() -> None:
    kernel = Kernel(d0=3)
    axes = kernel.constant([0, 1], np.int64)
    x = kernel.op(onnx.ExpandOp, kernel.input(random((1, 4))), kernel.sizes("d0, 4"), dims="d0, 4")
    kernel.run(kernel.op(onnx.ReduceSumOp, x, axes, dims="1, 1"))
