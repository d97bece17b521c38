"""Products of bytes against the reference functions: exact."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sardonyx.dialects.target import AVX2, Target
from sardonyx.lowering.kernels.packing import pack_quad_columns, pack_quad_conv

from .kernel_cases import Tensor, host_target
from .operator_cases import build, reference, run

TARGETS = pytest.mark.parametrize("target", [AVX2, host_target()], ids=["avx2", "host"])


def bytes_(shape: tuple[int, ...], dtype: object, seed: int = 0) -> np.ndarray:
    info = np.iinfo(np.dtype(dtype))
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


@TARGETS
@pytest.mark.parametrize(("left", "right"), list(itertools.product(("u1", "i1"), repeat=2)))
def test_matmul_integer(left: str, right: str, target: Target) -> None:
    for m, n, k in ((3, 40, 70), (30, 33, 130)):
        a, b = bytes_((m, k), left), bytes_((k, n), right, 1)
        zeros = [np.array(100, left), np.array(7, right)]
        run("MatMulInteger", {}, [a, b, *zeros], target=target, threads=3)


def test_matmul_integer_without_zero_points() -> None:
    for left, right in (("u1", "i1"), ("i1", "u1")):
        run("MatMulInteger", {}, [bytes_((5, 19), left), bytes_((19, 20), right, 1)])


def test_matmul_integer_of_many_shapes() -> None:
    for x, y in (
        ((40, 9), (9, 1)),
        ((9,), (9, 5)),
        ((4, 9), (9,)),
        ((2, 3, 4, 9), (9, 20)),
        ((2, 4, 9), (2, 9, 5)),
        ((6, 0), (0, 4)),
    ):
        a, b = bytes_(x, "u1"), bytes_(y, "i1", 1)
        run("MatMulInteger", {}, [a, b, np.array(3, "u1"), np.array(-5, "i1")])
    a, b = bytes_((12, 7000), "u1"), bytes_((7000, 40), "i1")  # several K blocks
    rows, columns = bytes_((12,), "u1", 2), bytes_((40,), "i1", 3)
    run("MatMulInteger", {}, [a, b, rows, columns])


@TARGETS
def test_matmul_integer_of_symbolic_rows_and_few_columns(target: Target) -> None:
    specs = [Tensor.of(np.uint8, "d0", 67), Tensor.of(np.int8, 67, 5), Tensor.of(np.uint8), None]
    kernel = build("MatMulInteger", {}, specs, [Tensor.of(np.int32, "d0", 5)], 1, target)
    for rows in (1, 16, 17, 30, 61):
        a, b, zero = bytes_((rows, 67), "u1"), bytes_((67, 5), "i1", 1), np.array(9, "u1")
        found = np.empty((rows, 5), np.int32)
        kernel.run([rows], a, b, zero, found)
        np.testing.assert_array_equal(found, reference("MatMulInteger", {}, [a, b, zero], 1)[0])


def test_matmul_integer_of_symbolic_sizes() -> None:
    specs = [Tensor.of(np.uint8, "d0", "d2"), Tensor.of(np.uint8, "d2", "d1"), Tensor.of(np.uint8, "d0"), None]
    kernel = build("MatMulInteger", {}, specs, [Tensor.of(np.int32, "d0", "d1")], 3)
    for m, n, k in itertools.product((0, 1, 20), (1, 35), (0, 1, 67)):
        a, b, zero = bytes_((m, k), "u1"), bytes_((k, n), "u1", 1), bytes_((m,), "u1", 2)
        found = np.empty((m, n), np.int32)
        kernel.run([m, n, k], a, b, zero, found)
        np.testing.assert_array_equal(found, reference("MatMulInteger", {}, [a, b, zero], 1)[0])


@pytest.mark.parametrize(("left", "right"), [("u1", "i1"), ("i1", "i1"), ("u1", "u1")])
def test_qlinear_matmul(left: str, right: str) -> None:
    f4 = np.float32
    a, b = bytes_((7, 50), left), bytes_((50, 20), right, 1)
    scales = [np.array(0.02, f4), np.array(0.1, f4), np.array(1.7, f4)]
    zeros = [np.array(11, left), np.array(3, right), np.array(50, left)]
    run("QLinearMatMul", {}, [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]])
    by_column = np.linspace(0.01, 0.2, 20, dtype=f4)
    zero = bytes_((20,), right, 4)
    run("QLinearMatMul", {}, [a, scales[0], zeros[0], b, by_column, zero, scales[2], zeros[2]])


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 9, 20), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 8, 6, 7), (9, 8, 1, 1), {}),
    ((1, 6, 11, 12), (8, 3, 3, 2), {"group": 2, "strides": [2, 2], "pads": [0, 1, 1, 0]}),
    ((1, 8, 7, 7), (8, 1, 3, 3), {"group": 8, "auto_pad": "SAME_UPPER"}),
    ((2, 9, 7, 7), (40, 9, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 4, 28, 28), (33, 4, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((2, 5, 40), (4, 5, 4), {"strides": [3], "dilations": [2], "pads": [3, 3]}),
]


@TARGETS
@pytest.mark.parametrize(("x", "w", "attributes"), CONVOLUTIONS, ids=str)
def test_conv_integer(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], target: Target) -> None:
    for kinds in (("u1", "i1"), ("i1", "u1")):
        a, b = bytes_(x, kinds[0]), bytes_(w, kinds[1], 1)
        run("ConvInteger", attributes, [a, b], target=target)
        run("ConvInteger", attributes, [a, b, np.array(90, kinds[0]), bytes_(w[:1], kinds[1], 2)], (0,), target, 3)


@pytest.mark.parametrize(("x", "w", "attributes"), CONVOLUTIONS[:3], ids=str)
def test_qlinear_conv(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    f4 = np.float32
    a, b = bytes_(x, "u1"), bytes_(w, "i1", 1)
    one = [a, np.array(0.02, f4), np.array(120, "u1"), b]
    by_channel = [np.linspace(0.01, 0.05, w[0], dtype=f4), np.zeros(w[0], "i1")]
    rest = [np.array(0.3, f4), np.array(7, "u1"), np.arange(w[0], dtype=np.int32) * 100 - 300]
    run("QLinearConv", attributes, [*one, *by_channel, *rest])
    run("QLinearConv", attributes, [*one, np.array(0.03, f4), np.array(-3, "i1"), *rest[:2]])


@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_packed_columns(kind: str) -> None:
    for m, n, k in ((1, 150, 70), (20, 33, 1700)):
        a, b, zero = bytes_((m, k), "u1"), bytes_((k, n), kind, 1), np.array(9, "u1")
        packed = pack_quad_columns(b, 32)
        specs = [Tensor.of(np.uint8, m, k), Tensor.of(b.dtype, packed.size), Tensor.of(np.uint8)]
        kernel = build("MatMulInteger", {"panel": 32}, specs, [Tensor.of(np.int32, m, n)])
        found = np.empty((m, n), np.int32)
        kernel.run([], a, packed, zero, found)
        np.testing.assert_array_equal(found, reference("MatMulInteger", {}, [a, b, zero], 1)[0])


@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_packed_columns_have_parameters_of_their_own(kind: str) -> None:
    """And rows too: the packed operand has one axis, but stands for a matrix."""
    a, b = bytes_((20, 70), "u1"), bytes_((70, 9), kind, 1)
    rows, columns = bytes_((20,), "u1", 2), bytes_((9,), kind, 3)
    packed = pack_quad_columns(b, 32)
    given, of_packed = {"panel": 32}, Tensor.of(b.dtype, packed.size)
    specs = [Tensor.of(np.uint8, 20, 70), of_packed, Tensor.of(np.uint8, 20), Tensor.of(b.dtype, 9)]
    kernel = build("MatMulInteger", given, specs, [Tensor.of(np.int32, 20, 9)])
    found = np.empty((20, 9), np.int32)
    kernel.run([], a, packed, rows, columns, found)
    np.testing.assert_array_equal(found, reference("MatMulInteger", {}, [a, b, rows, columns], 1)[0])

    f4 = np.float32
    others = [np.linspace(0.01, 0.2, 9, dtype=f4), columns, np.linspace(1, 9, 20, dtype=f4), rows]
    row_scales = np.linspace(0.02, 0.03, 20, dtype=f4)
    specs = [Tensor.of(v.dtype, *v.shape) for v in (a, row_scales, rows, packed, *others)]
    kernel = build("QLinearMatMul", given, specs, [Tensor.of(np.uint8, 20, 9)])
    rounded = np.empty((20, 9), np.uint8)
    kernel.run([], a, row_scales, rows, packed, *others, rounded)
    np.testing.assert_array_equal(rounded, reference("QLinearMatMul", {}, [a, row_scales, rows, b, *others], 1)[0])


@pytest.mark.parametrize(("kind", "pixels"), [("i1", 0), ("i1", 1), ("u1", 0)])
def test_packed_conv_weights(kind: str, pixels: int) -> None:
    x, w = bytes_((1, 6, 9, 20), "u1"), bytes_((7, 6, 3, 3), kind, 1)
    given = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    packed = pack_quad_conv(w, 1, host_target().lanes(4) if pixels else 4)
    specs = [Tensor.of(np.uint8, *x.shape), Tensor.of(w.dtype, packed.size)]
    tile = [4, 1 if pixels else 3, pixels]
    kernel = build("ConvInteger", {**given, "packed": tile}, specs, [Tensor.of(np.int32, 1, 7, 9, 20)])
    found = np.empty((1, 7, 9, 20), np.int32)
    kernel.run([], x, packed, found)
    np.testing.assert_array_equal(found, reference("ConvInteger", given, [x, w], 1)[0])
