"""Movement operators, gathers and sources against their reference functions, and how little of them is left."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.lowering.tensor import lower_to_tensor
from sardonyx.semantics.tensor_eval import CheckFailed, evaluate
from xdsl.dialects import func

from .tensor_cases import Kernel, random


def ints(kernel: Kernel, *values: int) -> Any:
    return kernel.constant(list(values), np.int64)


def count(function: func.FuncOp, name: str) -> int:
    return sum(op.name == name for op in function.walk())


# Reshape and transpose


def test_heads_are_split_and_merged_without_divisions() -> None:
    kernel = Kernel(d0=2, d1=5)
    x = kernel.input(random((2, 5, 12)), "d0, d1, 12")
    heads = kernel.op(onnx.ReshapeOp, x, kernel.sizes("d0, d1, 3, 4"), dims="d0, d1, 3, 4")
    split = kernel.op(onnx.TransposeOp, heads, perm=[0, 2, 1, 3], dims="d0, 3, d1, 4")
    scaled = kernel.op(onnx.MulOp, split, split, dims="d0, 3, d1, 4")
    back = kernel.op(onnx.TransposeOp, scaled, perm=[0, 2, 1, 3], dims="d0, d1, 3, 4")
    merged = kernel.op(onnx.ReshapeOp, back, kernel.sizes("d0, d1, 12"), dims="d0, d1, 12")
    lowered = kernel.run(merged)
    assert count(lowered, "linalg.generic") == 1
    assert not any(count(lowered, n) for n in ("tensor.extract", "arith.divui", "arith.remui"))


def test_merged_axes_become_a_view_of_split_loops() -> None:
    kernel = Kernel(d0=2, d1=5)
    x = kernel.input(random((2, 3, 5, 4)), "d0, 3, d1, 4")
    back = kernel.op(onnx.TransposeOp, x, perm=[0, 2, 1, 3], dims="d0, d1, 3, 4")
    lowered = kernel.run(kernel.op(onnx.ReshapeOp, back, kernel.sizes("d0, d1, 12"), dims="d0, d1, 12"))
    assert count(lowered, "kernel.view") == 1
    assert not any(count(lowered, n) for n in ("tensor.extract", "arith.divui", "arith.remui"))


DIVISIONS = ("arith.divui", "arith.remui", "arith.divsi", "arith.remsi")


@pytest.mark.parametrize(("height", "width"), [(4, 6), (1, 1), (2, 5), (6, 1)])
def test_maps_one_behind_another_are_read_without_divisions(height: int, width: int) -> None:
    """The end of a detector: pixels of maps of several sizes in one row."""
    kernel = Kernel(d0=height, d1=width)
    wide = kernel.input(random((1, 3, 2 * height, 2 * width)), "1, 3, 2*d0, 2*d1")
    narrow = kernel.input(random((1, 3, height, width)), "1, 3, d0, d1")
    rows = [
        kernel.op(onnx.ReshapeOp, value, kernel.sizes(dims), dims=dims)
        for value, dims in ((wide, "1, 3, 4*d0*d1"), (narrow, "1, 3, d0*d1"))
    ]
    lowered = kernel.run(kernel.op(onnx.ConcatOp, *rows, axis=2, dims="1, 3, 5*d0*d1"))
    assert not any(count(lowered, name) for name in DIVISIONS)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_part_of_merged_axes_is_read_without_divisions(axis: int) -> None:
    kernel = Kernel(d0=3, d1=5, d2=7)
    x = kernel.input(random((2, 3, 5, 7)), "2, d0, d1, d2")
    dims = "2, d0, d1*d2" if axis == 2 else "2, d0*d1, d2" if axis == 1 else "2*d0, d1, d2"
    merged = kernel.op(onnx.ReshapeOp, x, kernel.sizes(dims), dims=dims)
    left = ", ".join(f"{size} - 2" if at == axis else size for at, size in enumerate(dims.split(", ")))
    part = kernel.op(onnx.SliceOp, merged, ints(kernel, 2), ints(kernel, 2**31), ints(kernel, axis), dims=left)
    lowered = kernel.run(part)
    assert not any(count(lowered, name) for name in DIVISIONS)


def test_a_reversed_row_of_merged_axes_is_read_without_divisions() -> None:
    kernel = Kernel(d0=3, d1=5)
    x = kernel.input(random((2, 3, 5)), "2, d0, d1")
    merged = kernel.op(onnx.ReshapeOp, x, kernel.sizes("2, d0*d1"), dims="2, d0*d1")
    steps = [ints(kernel, n) for n in (2**31, -(2**31), 1, -1)]
    lowered = kernel.run(kernel.op(onnx.SliceOp, merged, *steps, dims="2, d0*d1"))
    assert not any(count(lowered, name) for name in DIVISIONS)


def test_pixels_out_of_channels_keep_the_divisions_that_they_need() -> None:
    """A remainder that stands beside the quotient of something else is not joined with it."""
    kernel = Kernel(d0=3, d1=2)
    x = kernel.input(random((4, 3, 2)), "4, d0, d1")
    turned = kernel.op(onnx.TransposeOp, x, perm=[1, 2, 0], dims="d0, d1, 4")
    merged = kernel.op(onnx.ReshapeOp, turned, kernel.sizes("4*d0*d1"), dims="4*d0*d1")
    lowered = kernel.run(kernel.op(onnx.SliceOp, merged, ints(kernel, 1), ints(kernel, 2**31), dims="4*d0*d1 - 1"))
    assert sum(count(lowered, name) for name in DIVISIONS) > 0


def test_an_operand_of_more_axes_is_viewed() -> None:
    kernel = Kernel(d0=2, d1=5, d2=3)
    x = kernel.input(random((2, 5, 3)), "d0, d1, d2")
    y = kernel.input(random((2, 15)), "d0, d1*d2")
    flat = kernel.op(onnx.ReshapeOp, x, kernel.sizes("d0, d1*d2"), dims="d0, d1*d2")
    lowered = kernel.run(kernel.op(onnx.AddOp, flat, y, dims="d0, d1*d2"))
    assert count(lowered, "tensor.extract") == 0


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((6, 4), (8, 3)),
        ((2, 3, 4), (4, 6)),
        ((12,), (3, 1, 4)),
        ((2, 6), (2, 2, 3)),
        ((5, 1), (1, 5)),
        ((4, 0), (0, 7)),
    ],
)
def test_any_reshape(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    kernel = Kernel()
    x = kernel.input(random(source))
    y = kernel.op(onnx.ReshapeOp, kernel.op(onnx.AbsOp, x), kernel.constant(target, np.int64), allowzero=1)
    bias = kernel.input(random(target[-1:]))
    kernel.run(kernel.op(onnx.AddOp, y, bias))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_reshape_of_unknown_factors(n: int) -> None:
    kernel = Kernel(d0=n, d1=6)
    x = kernel.input(random((n, 6)), "d0, d1")
    y = kernel.op(onnx.ReshapeOp, x, kernel.sizes("d0*d1//3, 3"), dims="d0*d1//3, 3")
    kernel.run(kernel.op(onnx.NegOp, y, dims="d0*d1//3, 3"))


def test_shapes_by_other_names() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 1, 4)), "d0, 1, 4")
    squeezed = kernel.op(onnx.SqueezeOp, x, ints(kernel, 1), dims="d0, 4")
    wide = kernel.op(onnx.UnsqueezeOp, squeezed, ints(kernel, 0, 3), dims="1, d0, 4, 1")
    flat = kernel.op(onnx.FlattenOp, wide, axis=2, dims="d0, 4")
    lowered = kernel.run(kernel.op(onnx.AddOp, flat, squeezed, dims="d0, 4"))
    assert count(lowered, "tensor.extract") == 0


def test_pure_views_are_results_too() -> None:
    kernel = Kernel()
    x = kernel.input(random((3, 4)))
    kernel.run(kernel.op(onnx.ReshapeOp, x, ints(kernel, 12)), kernel.op(onnx.IdentityOp, x), x)


# Expand, Tile, Slice, Split


def test_expand_and_tile() -> None:
    kernel = Kernel(d0=3, d1=2)
    x = kernel.input(random((3, 1)), "d0, 1")
    kernel.run(
        kernel.op(onnx.ExpandOp, x, kernel.sizes("d1, d0, 4"), dims="d1, d0, 4"),
        kernel.op(onnx.TileOp, x, kernel.sizes("d1, 3"), dims="d0*d1, 3"),
    )


SLICES = [
    ([1], [3], [0], [1]), ([0], [100], [1], [2]), ([-1], [-100], [0], [-1]), ([4, 0], [0, 3], [0, 1], [-2, 1]),
    ([-3], [-1], [1], [1]), ([100], [-100], [1], [-2]), ([-100], [2], [0], [1]), ([2], [2], [0], [1]),
    ([2**31 - 1], [-(2**31)], [0], [-1]),
]  # fmt: skip


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    kernel = Kernel()
    x = kernel.input(random((5, 6)))
    y = kernel.op(onnx.SliceOp, x, *(ints(kernel, *v) for v in (starts, ends, axes, steps)))
    kernel.run(kernel.op(onnx.NegOp, y), y)


@pytest.mark.parametrize("start", [-9, -2, 0, 1, 4, 5, 9])
@pytest.mark.parametrize("step", [1, -1])
def test_slice_from_a_start_known_at_run_time(start: int, step: int) -> None:
    first = min(max(start + 5 if start < 0 else start, 0), 5 if step > 0 else 4)  # the standard's clamping
    size = 5 - first if step > 0 else first + 1
    kernel = Kernel(d0=5, d1=start, d2=size)
    x = kernel.input(random((5, 2)), "d0, 2")
    end = ints(kernel, 2**31 - 1 if step > 0 else -(2**31))
    y = kernel.op(onnx.SliceOp, x, kernel.sizes("d1"), end, ints(kernel, 0), ints(kernel, step), dims="d2, 2")
    kernel.run(y)


def test_split() -> None:
    kernel = Kernel(d0=6)
    x = kernel.input(random((6, 4)), "d0, 4")
    a, b = kernel.op(onnx.SplitOp, x, kernel.sizes("d0 - 2, 2"), outputs=2, dims=["d0 - 2, 4", "2, 4"])
    c, d = kernel.op(onnx.SplitOp, x, axis=1, num_outputs=2, outputs=2, dims="d0, 2")
    kernel.run(a, b, kernel.op(onnx.AddOp, c, d, dims="d0, 2"))


# Concat, Pad


@pytest.mark.parametrize("n", [0, 1, 3])
def test_concat(n: int) -> None:
    kernel = Kernel(d0=n)
    x, y, z = kernel.input(random((n, 4)), "d0, 4"), kernel.input(random((2, 4))), kernel.input(random((0, 4)))
    whole = kernel.op(onnx.ConcatOp, x, kernel.op(onnx.ExpOp, y), z, x, axis=0, dims="2*d0 + 2, 4")
    kernel.run(kernel.op(onnx.AddOp, whole, whole, dims="2*d0 + 2, 4"))


def test_rotary_embedding_by_concat() -> None:
    kernel = Kernel(d0=3)
    x = kernel.input(random((3, 8)), "d0, 8")
    low, high = kernel.op(onnx.SplitOp, x, axis=1, num_outputs=2, outputs=2, dims="d0, 4")
    turned = kernel.op(onnx.ConcatOp, kernel.op(onnx.NegOp, high, dims="d0, 4"), low, axis=1, dims="d0, 8")
    lowered = kernel.run(kernel.op(onnx.MulOp, turned, x, dims="d0, 8"))
    assert count(lowered, "linalg.generic") == 1


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    kernel = Kernel(d0=4)
    x = kernel.input(random((4, 5)), "d0, 5")
    narrow = kernel.input(random((3, 2), ml_dtypes.bfloat16))
    value = kernel.input(np.array(7, np.float32)) if mode == "constant" else None
    results = [
        kernel.op(onnx.PadOp, x, ints(kernel, 1, 2, 3, 0), value, mode=mode, dims="d0 + 4, 7"),
        kernel.op(onnx.PadOp, x, ints(kernel, 2, 1), None, ints(kernel, -1), mode=mode, dims="d0, 8"),
        kernel.op(onnx.PadOp, narrow, ints(kernel, 1, 0, 1, 1), mode=mode),
    ]
    if mode != "wrap":
        results.append(kernel.op(onnx.PadOp, x, ints(kernel, 0, -1, 0, -2), mode=mode, dims="d0, 2"))
    kernel.run(*results)


@pytest.mark.parametrize("mode", ["reflect", "wrap"])
def test_pads_longer_than_the_axis(mode: str) -> None:
    kernel = Kernel()
    x = kernel.input(random((3,)))
    kernel.run(kernel.op(onnx.PadOp, x, ints(kernel, 7, 8), mode=mode))


def test_pad_of_an_empty_tensor() -> None:
    kernel = Kernel(d0=0)
    kernel.run(kernel.op(onnx.PadOp, kernel.input(random((0,)), "d0"), ints(kernel, 1, 1), dims="d0 + 2"))


def test_center_crop_pad() -> None:
    kernel = Kernel()
    x = kernel.input(random((5, 4, 3)))
    kernel.run(
        kernel.op(onnx.CenterCropPadOp, x, ints(kernel, 2, 7, 3)),
        kernel.op(onnx.CenterCropPadOp, x, ints(kernel, 8, 1), axes=[-1, 0]),
    )


# Blocks, triangles, sequences


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str) -> None:
    kernel = Kernel(d0=2, d1=3)
    x = kernel.input(random((2, 8, 3, 2)), "d0, 8, d1, 2")
    y = kernel.op(onnx.DepthToSpaceOp, x, blocksize=2, mode=mode, dims="d0, 2, 2*d1, 4")
    lowered = kernel.run(y, kernel.op(onnx.SpaceToDepthOp, y, blocksize=2, dims="d0, 8, d1, 2"))
    assert not any(count(lowered, n) for n in ("tensor.extract", "arith.divui", "arith.remui"))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -2, 0, 1, 9])
def test_triangles(upper: int, k: int | None) -> None:
    kernel = Kernel()
    x = kernel.input(random((2, 4, 5)))
    kernel.run(kernel.op(onnx.TriluOp, x, None if k is None else kernel.input(np.array(k)), upper=upper))


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_reverse_sequence(batch_axis: int) -> None:
    kernel = Kernel()
    x, lengths = kernel.input(random((4, 4, 2))), kernel.input(np.array([1, 2, 4, 3]))
    kernel.run(kernel.op(onnx.ReverseSequenceOp, x, lengths, batch_axis=batch_axis, time_axis=1 - batch_axis))


# Gathers


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int, dtype: Any) -> None:
    kernel = Kernel(d0=5)
    x = kernel.input(random((5, 4, 3)), "d0, 4, 3")
    indices = kernel.input(np.array([[0, -1], [2, -3]], dtype))
    dims = {0: "2, 2, 4, 3", 1: "d0, 2, 2, 3", -1: "d0, 4, 2, 2"}[axis]
    kernel.run(kernel.op(onnx.GatherOp, x, indices, axis=axis, dims=dims))


def test_gather_by_constants_is_not_checked() -> None:
    kernel = Kernel()
    x = kernel.input(random((5, 4)))
    one = kernel.op(onnx.GatherOp, x, kernel.constant(-2, np.int64), axis=0)
    some = kernel.op(onnx.GatherOp, x, ints(kernel, 3, 0, -1), axis=1)
    lowered = kernel.run(one, some)
    assert count(lowered, "kernel.check") == 0


@pytest.mark.parametrize("bad", [5, -6, 2**40])
def test_an_index_outside_is_an_error(bad: int) -> None:
    kernel = Kernel()
    x, indices = kernel.input(random((5, 4))), kernel.input(np.array([0, 1]))
    lowered = lower_to_tensor(kernel.function(kernel.op(onnx.GatherOp, x, indices)))
    with pytest.raises(CheckFailed) as failure:
        evaluate(lowered, [], [kernel.inputs[0], np.array([0, bad])])
    assert failure.value.values == (bad, 5)


def test_gather_from_nothing() -> None:
    kernel = Kernel(d0=0)
    x, indices = kernel.input(random((0, 4)), "d0, 4"), kernel.input(np.zeros(0, np.int64))
    kernel.run(kernel.op(onnx.GatherOp, x, indices, dims="0, 4"))


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int) -> None:
    kernel = Kernel()
    x, indices = kernel.input(random((4, 4))), kernel.input(np.array([[0, 1, -1], [3, 2, -4]]))
    kernel.run(kernel.op(onnx.GatherElementsOp, x, indices, axis=axis))


@pytest.mark.parametrize(("shape", "batch"), [((2, 2), 0), ((2, 3), 0), ((2, 1), 0), ((2, 1), 1), ((2, 2, 1), 1)])
def test_gather_nd(shape: tuple[int, ...], batch: int) -> None:
    kernel = Kernel()
    x = kernel.input(random((2, 3, 4)))
    indices = np.random.default_rng(0).integers(-2, 2, shape)
    kernel.run(kernel.op(onnx.GatherNDOp, x, kernel.input(indices), batch_dims=batch))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
def test_one_hot(axis: int, dtype: Any) -> None:
    kernel = Kernel(d0=3)
    indices = kernel.input(np.array([[0, 2], [5, 1]], dtype) if dtype != np.int64 else np.array([[0, -1], [-4, 7]]))
    values = kernel.input(random((2,), np.float16))
    dims = {-1: "2, 2, d0", 0: "d0, 2, 2", 1: "2, d0, 2"}[axis]
    kernel.run(kernel.op(onnx.OneHotOp, indices, kernel.sizes("d0"), values, axis=axis, dims=dims))


# Sources


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.int16, np.float16])
def test_range(dtype: Any) -> None:
    kernel = Kernel()
    start, limit, delta = (kernel.input(np.array(v, dtype)) for v in (2, 11, 3))
    back = [kernel.input(np.array(v, dtype)) for v in (5, -5, -2)]
    kernel.run(kernel.op(onnx.RangeOp, start, limit, delta), kernel.op(onnx.RangeOp, *back))


def test_sizes_and_constants() -> None:
    kernel = Kernel(d0=3, d1=2)
    x = kernel.input(random((3, 2, 4)), "d0, d1, 4")
    shape = kernel.op(onnx.ShapeOp, x)
    target = kernel.sizes("d0, 2")
    kernel.run(
        shape,
        kernel.op(onnx.ShapeOp, x, start=-2),
        kernel.op(onnx.SizeOp, x),
        kernel.op(onnx.MulOp, shape, shape),
        kernel.op(onnx.ConstantOfShapeOp, target, dims="d0, 2"),
        kernel.op(onnx.ConstantOfShapeOp, target, value=np.array([3], np.int32), dims="d0, 2"),
        target,
    )


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_eye(k: int) -> None:
    kernel = Kernel()
    x = kernel.input(random((3, 4)))
    kernel.run(kernel.op(onnx.EyeLikeOp, x, k=k), kernel.op(onnx.EyeLikeOp, x, k=k, dtype=7))


def test_a_small_constant_is_read_from_memory() -> None:
    kernel = Kernel()
    x = kernel.input(random((2, 3)))
    kernel.run(kernel.op(onnx.MulOp, x, kernel.constant([1.0, 2.0, 3.0], np.float32)))
