"""The conv template against float64, over ranks, windows, groups, dtypes and targets; and its bits."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects import kernel, vectorx
from sardonyx.dialects.dims import ShapeAttr, as_dim
from sardonyx.dialects.target import AVX2, Target
from sardonyx.lowering.choices import Given
from sardonyx.lowering.kernels import conv_plan, winograd_plan
from sardonyx.lowering.kernels.depthwise import DepthwiseBuilder
from sardonyx.lowering.kernels.packing import pack_conv, pack_winograd, pack_winograd_columns
from sardonyx.lowering.kernels.register_tile import Products, RegisterTile
from sardonyx.lowering.kernels.window import Axis, Convolution, Windows
from sardonyx.lowering.kernels.winograd_forms import FORMS
from sardonyx.lowering.kernels.winograd_plan import WinogradPlan
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Block, Region

from .kernel_cases import ELEMENTS, Tensor, compiled, host_target, targets

TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)


def array(values: object) -> Attribute:
    return DenseArrayBase.from_list(i64, list(values))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Case:
    x: tuple[int, ...]
    w: tuple[int, ...]
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def all_pads(self) -> tuple[int, ...]:
        return self.pads or (0,) * (2 * self.rank)

    @property
    def all_strides(self) -> tuple[int, ...]:
        return self.strides or (1,) * self.rank

    @property
    def all_dilations(self) -> tuple[int, ...]:
        return self.dilations or (1,) * self.rank

    @property
    def result(self) -> tuple[int, ...]:
        r, pads = self.rank, self.all_pads
        spatial = [
            (self.x[2 + i] + pads[i] + pads[r + i] - (self.w[2 + i] - 1) * self.all_dilations[i] - 1)
            // self.all_strides[i]
            + 1
            for i in range(r)
        ]
        return (self.x[0], self.w[0], *spatial)

    def config(self) -> dict[str, Attribute]:
        return {
            "pads": array(self.all_pads),
            "strides": array(self.all_strides),
            "dilations": array(self.all_dilations),
            "kernel_shape": array(self.w[2:]),
            "group": IntegerAttr(self.group, 64),
        }

    def convolution(self) -> Convolution:
        axes = tuple(
            Axis(*map(as_dim, (self.x[2 + i], self.result[2 + i], self.w[2 + i])), self.all_strides[i],
                 self.all_dilations[i], as_dim(self.all_pads[i]))
            for i in range(self.rank)
        )  # fmt: skip
        rows = as_dim(self.w[0] // self.group)
        return Convolution(as_dim(self.x[0]), self.group, as_dim(self.w[1]), rows, Windows(axes))


def reference(x: np.ndarray, w: np.ndarray, case: Case) -> np.ndarray:
    """In float64, one tap at a time."""
    r, pads = case.rank, case.all_pads
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((pads[i], pads[r + i]) for i in range(r))])
    w = w.astype(np.float64)
    n, out = x.shape[0], case.result[2:]
    depth, rows = case.w[1], case.w[0] // case.group
    y = np.zeros((n, case.group, rows, prod(out)))
    for tap in itertools.product(*map(range, case.w[2:])):
        index = tuple(
            slice(k * d, k * d + (o - 1) * s + 1, s)
            for k, d, s, o in zip(tap, case.all_dilations, case.all_strides, out)
        )
        part = padded[(slice(None), slice(None), *index)].reshape(n, case.group, depth, prod(out))
        y += w[(slice(None), slice(None), *tap)].reshape(case.group, rows, depth) @ part
    return y.reshape(case.result)


def data(case: Case, dtype: object = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(prod(case.x) + prod(case.w))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 9, case.x).astype(dtype), rng.integers(0, 9, case.w).astype(dtype)
    return rng.standard_normal(case.x).astype(dtype), rng.standard_normal(case.w).astype(dtype)


def check(case: Case, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    exact = reference(x, w, case)
    size = reference(np.abs(x), np.abs(w), case)
    sums = np.finfo(np.float64 if y.dtype == np.float64 else np.float32).eps
    rounding = 0 if y.dtype.kind in "iu" else float(ml_dtypes.finfo(y.dtype).eps)
    bound = sums * (4 + prod(case.w[1:]) ** 0.5) * size + np.abs(exact) * rounding
    assert np.all(np.abs(y.astype(np.float64) - exact) <= bound)


def run(case: Case, dtype: object = np.float32, target: Target | None = None, threads: int = 1) -> np.ndarray:
    x, w = data(case, dtype)
    inputs = [Tensor.of(dtype, *case.x), Tensor.of(dtype, *case.w)]
    built = compiled("conv", case.config(), inputs, [Tensor.of(dtype, *case.result)], 0, target, threads)
    y = np.empty(case.result, dtype)
    built.run([], x, w, y)
    check(case, x, w, y)
    return y


CASES = {
    "1d": Case((2, 5, 50), (7, 5, 3), (1, 1)),
    "1d strided": Case((1, 3, 41), (4, 3, 5), (2, 0), (3,), (2,)),
    "1x1": Case((2, 8, 9, 11), (16, 8, 1, 1)),
    "depthwise wide": Case((1, 3, 20, 70), (6, 1, 3, 3), (1,) * 4, group=3),
    "depthwise wide strided": Case((2, 3, 37, 75), (3, 1, 5, 5), (2, 1, 2, 3), (2, 2), group=3),
    "depthwise tiny": Case((1, 4, 2, 3), (4, 1, 5, 5), (2,) * 4, group=4),
    "1x1 strided": Case((2, 8, 9, 11), (16, 8, 1, 1), (), (2, 2)),
    "3x3": Case((1, 3, 12, 20), (9, 3, 3, 3), (1, 1, 1, 1)),
    "3x3 no padding": Case((1, 3, 12, 20), (9, 3, 3, 3)),
    "3x3 strided": Case((2, 4, 13, 17), (6, 4, 3, 3), (1, 1, 1, 1), (2, 2)),
    "7x7 strided": Case((1, 3, 33, 31), (10, 3, 7, 7), (3, 3, 3, 3), (2, 2)),
    "uneven": Case((1, 2, 9, 14), (3, 2, 4, 2), (2, 0, 1, 3), (1, 2), (1, 3)),
    "dilated": Case((1, 2, 15, 18), (3, 2, 3, 3), (2, 2, 2, 2), (1, 1), (2, 2)),
    "strides 3, 1": Case((1, 2, 16, 18), (3, 2, 3, 3), (0, 1, 0, 1), (3, 1)),
    "strides 1, 4": Case((1, 2, 16, 18), (3, 2, 3, 2), (1, 1, 1, 0), (1, 4)),
    "unread end": Case((1, 2, 12, 12), (3, 2, 3, 3), (), (2, 2)),
    "small image": Case((1, 40, 7, 7), (70, 40, 3, 3), (1, 1, 1, 1)),
    "14 rows": Case((1, 40, 14, 14), (50, 40, 1, 1)),
    "big padding": Case((1, 2, 2, 3), (5, 2, 3, 3), (4, 5, 4, 20)),
    "groups": Case((2, 12, 9, 10), (18, 4, 3, 3), (1, 1, 1, 1), (), (), 3),
    "many groups": Case((2, 16, 9, 10), (24, 2, 3, 3), (1, 1, 1, 1), (), (), 8),
    "1x1 groups": Case((1, 12, 5, 6), (18, 2, 1, 1), (), (), (), 6),
    "depthwise": Case((2, 6, 21, 37), (6, 1, 3, 3), (1, 1, 1, 1), (), (), 6),
    "depthwise strided": Case((2, 6, 21, 37), (6, 1, 3, 3), (1, 1, 1, 1), (2, 2), (), 6),
    "depthwise 5x5": Case((1, 3, 14, 14), (3, 1, 5, 5), (2, 2, 2, 2), (1, 1), (), 3),
    "depthwise multiplied": Case((1, 3, 10, 11), (6, 1, 3, 2), (1, 0, 1, 1), (1, 1), (2, 3), 3),
    "depthwise 1d": Case((2, 4, 50), (4, 1, 4), (3, 0), (), (), 4),
    "depthwise 3d": Case((1, 3, 5, 6, 7), (3, 1, 3, 3, 3), (1,) * 6, (), (), 3),
    "3d": Case((1, 3, 6, 7, 9), (5, 3, 3, 2, 3), (1, 1, 1, 1, 0, 1), (2, 1, 1)),
    "3d 1x1": Case((1, 3, 4, 5, 6), (20, 3, 1, 1, 1)),
    "one element": Case((1, 1, 1, 1), (1, 1, 1, 1)),
    "no images": Case((0, 3, 8, 8), (4, 3, 3, 3)),
    "no channels": Case((1, 0, 8, 8), (4, 0, 3, 3)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_windows(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("name", ["1x1", "3x3", "uneven", "strides 1, 4", "14 rows", "groups", "depthwise strided"])
def test_windows_with_narrow_vectors(name: str) -> None:
    run(CASES[name], target=AVX2)


@TARGETS
@pytest.mark.parametrize("dtype", ["f8", "f2", ml_dtypes.bfloat16], ids=str)
def test_dtypes(dtype: object, target: Target) -> None:
    for name in ("1x1", "3x3 strided", "depthwise"):
        run(CASES[name], dtype, target)


@pytest.mark.parametrize("name", ["1x1", "3x3", "small image", "14 rows", "groups", "many groups", "3d"])
def test_packed_weights(name: str) -> None:
    case = CASES[name]
    x, w = data(case)
    plan = conv_plan.choose(case.convolution(), Products(Float32Type()), host_target())
    packed = pack_conv(w, case.group, plan.tile.rows, plan.tile.columns, plan.pixels)
    config = case.config() | {"packed": array([plan.tile.rows, plan.tile.vectors, int(plan.pixels)])}
    inputs = [Tensor.of(x.dtype, *x.shape), Tensor.of(w.dtype, packed.size)]
    built = compiled("conv", config, inputs, [Tensor.of(x.dtype, *case.result)])
    y = np.empty(case.result, np.float32)
    built.run([], x, packed, y)
    check(case, x, w, y)
    np.testing.assert_array_equal(y, run(case))


@pytest.mark.parametrize("group", [1, 4], ids=["dense", "depthwise"])
@pytest.mark.parametrize("stride", [1, 2])
def test_symbolic_sizes(group: int, stride: int) -> None:
    depth = 4 // group
    x = Tensor.of(np.float32, "d0", 4, "d1", "d2")
    w = Tensor.of(np.float32, 8, depth, 3, 3)
    sizes = [f"(d{i} - 1)//{stride} + 1" if stride > 1 else f"d{i}" for i in (1, 2)]
    config = {"pads": array([1] * 4), "strides": array([stride] * 2), "group": IntegerAttr(group, 64)}
    built = compiled("conv", config, [x, w], [Tensor.of(np.float32, "d0", 8, *sizes)], 3)
    for n, height, width in ((1, 1, 1), (2, 5, 40), (0, 3, 3), (1, 17, 16)):
        case = Case((n, 4, height, width), (8, depth, 3, 3), (1,) * 4, (stride,) * 2, (), group)
        a, b = data(case)
        y = np.full(case.result, np.nan, np.float32)
        built.run([n, height, width], a, b, y)
        check(case, a, b, y)


def test_symbolic_pads() -> None:
    """SAME padding of a strided window is an expression of the size."""
    before = "max((d0 - 1)//2*2 + 3 - d0, 0)//2"
    config = {"pads": ShapeAttr((as_dim(before), as_dim(1))), "strides": array([2])}
    inputs = [Tensor.of(np.float32, 1, 2, "d0"), Tensor.of(np.float32, 3, 2, 3)]
    built = compiled("conv", config, inputs, [Tensor.of(np.float32, 1, 3, "(d0 + 1)//2")], 1)
    for size in (1, 8, 9, 30):
        out = (size + 1) // 2
        total = max((out - 1) * 2 + 3 - size, 0)
        case = Case((1, 2, size), (3, 2, 3), (total // 2, total - total // 2), (2,))
        x, w = data(case)
        y = np.empty(case.result, np.float32)
        built.run([size], x, w, y)
        check(case, x, w, y)


@pytest.mark.parametrize("name", ["1x1", "3x3 strided", "small image", "groups", "many groups", "depthwise", "3d"])
def test_bits_do_not_depend_on_threads_or_images(name: str) -> None:
    case = CASES[name]
    y = run(case)
    np.testing.assert_array_equal(run(case, threads=3), y)
    x, w = data(case)
    one = Case((1, *case.x[1:]), case.w, case.pads, case.strides, case.dilations, case.group)
    inputs = [Tensor.of(np.float32, *one.x), Tensor.of(np.float32, *one.w)]
    built = compiled("conv", one.config(), inputs, [Tensor.of(np.float32, *one.result)])
    single = np.empty(one.result, np.float32)
    built.run([], x[-1:].copy(), w, single)
    np.testing.assert_array_equal(single, y[-1:])


def test_bits_do_not_depend_on_the_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((1, 20, 9, 9), (40, 20, 3, 3), (1, 1, 1, 1))
    results: list[np.ndarray] = []
    tiles = (8, 3, False), (13, 2, False), (14, 2, True), (5, 1, True), (9, 2, True), (3, 1, True)
    for rows, vectors, pixels in tiles:

        def choose(c: Convolution, p: Products, t: Target, given: Given) -> conv_plan.ConvPlan:
            tile = RegisterTile(rows, vectors, t.lanes(4))  # noqa: B023
            return conv_plan.plan_of(c, p, t, tile, pixels, given)  # noqa: B023

        monkeypatch.setattr("sardonyx.lowering.kernels.direct_conv.choose", choose)
        results.append(run(case))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def with_tile(monkeypatch: pytest.MonkeyPatch, rows: int, vectors: int, pixels: bool) -> None:
    """Has convolutions take this register tile."""

    def choose(c: Convolution, p: Products, t: Target, given: Given) -> conv_plan.ConvPlan:
        return conv_plan.plan_of(c, p, t, RegisterTile(rows, vectors, t.lanes(4)), pixels, given)

    monkeypatch.setattr("sardonyx.lowering.kernels.direct_conv.choose", choose)


@pytest.mark.parametrize("width", [24, 33, 48, 49, 64, 65, 100])
def test_bits_do_not_depend_on_the_last_tile(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles with and without one of their own for the last positions, stored from registers or by memory."""
    case = Case((2, 20, width), (24, 20, 1))
    results: list[np.ndarray] = []
    for rows, vectors, pixels, few in ((8, 3, False, 160), (8, 3, False, 0), (7, 4, False, 160), (13, 2, True, 160)):
        with_tile(monkeypatch, rows, vectors, pixels)
        monkeypatch.setattr("sardonyx.lowering.kernels.conv_plan.FEW_STEPS", few)
        results.append(run(case))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("name", ["1x1", "3x3", "depthwise", "14 rows"])
def test_the_epilogue_reads_a_residual_and_a_bias(name: str) -> None:
    """y + bias[channel] + residual[all four indices]"""
    case = CASES[name]
    f32, index = Float32Type(), IndexType()
    block = Block(arg_types=[f32, index, index, index, index])
    value, *at = block.args
    bias = Block(arg_types=[Tensor.of(np.float32, case.w[0]).type])
    residual = Block(arg_types=[Tensor.of(np.float32, *case.result).type])
    first = tensor.ExtractOp(bias.args[0], [at[1]], f32)
    second = tensor.ExtractOp(residual.args[0], at, f32)
    total = arith.AddfOp(value, first.result)
    final = arith.AddfOp(total.result, second.result)
    block.add_ops([first, second, total, final, kernel.YieldOp([final.result])])
    x, w = data(case)
    rng = np.random.default_rng(9)
    b, r = rng.standard_normal(case.w[0]).astype(np.float32), rng.standard_normal(case.result).astype(np.float32)
    inputs = [Tensor.of(np.float32, *s) for s in (case.x, case.w)]
    extra = {bias.args[0]: Tensor.of(np.float32, case.w[0]), residual.args[0]: Tensor.of(np.float32, *case.result)}
    built = compiled(
        "conv", case.config(), inputs, [Tensor.of(np.float32, *case.result)], epilogue=Region(block), extra=extra
    )
    y = np.empty(case.result, np.float32)
    built.run([], x, w, b, r, y)
    np.testing.assert_allclose(y, reference(x, w, case) + b[:, None, None] + r, rtol=1e-4, atol=1e-4)


WAITING = {
    "7x7": Case((2, 19, 7, 7), (19, 1, 5, 5), (2,) * 4, group=19),
    "14x14": Case((1, 5, 14, 14), (5, 1, 5, 5), (2,) * 4, group=5),
    "strided": Case((1, 18, 21, 29), (18, 1, 3, 3), (1, 1, 1, 1), (2, 2), group=18),
    "multiplied": Case((2, 3, 9, 11), (6, 1, 3, 2), (1, 0, 1, 1), (1, 1), (2, 3), 3),
    "large": Case((1, 2, 66, 70), (2, 1, 5, 5), (2,) * 4, group=2),
    "copied": Case((1, 3, 40, 70), (3, 1, 3, 3), (1,) * 4, (1, 3), group=3),
    "one element": Case((3, 2, 1, 1), (2, 1, 1, 1), group=2),
}


def with_silu(case: Case, threads: int) -> np.ndarray:
    """silu(y + bias[channel]) of a convolution, checked."""
    f32, index = Float32Type(), IndexType()
    x, w = data(case)
    b = np.random.default_rng(9).standard_normal(case.w[0]).astype(np.float32)
    block = Block(arg_types=[f32, index, index, index, index])
    bias = Block(arg_types=[Tensor.of(np.float32, case.w[0]).type])
    first = tensor.ExtractOp(bias.args[0], [block.args[2]], f32)
    total = arith.AddfOp(block.args[0], first.result)
    final = vectorx.LogisticOp(total.result, total.result)
    block.add_ops([first, total, final, kernel.YieldOp([final.result])])
    inputs = [Tensor.of(np.float32, *s) for s in (case.x, case.w)]
    extra = {bias.args[0]: Tensor.of(np.float32, case.w[0])}
    results = [Tensor.of(np.float32, *case.result)]
    built = compiled("conv", case.config(), inputs, results, threads=threads, epilogue=Region(block), extra=extra)
    y = np.full(case.result, np.nan, np.float32)
    built.run([], x, w, b, y)
    expected = reference(x, w, case) + b[:, None, None]
    np.testing.assert_allclose(y, expected / (1 + np.exp(-expected)), rtol=1e-4, atol=1e-4)
    return y


@pytest.mark.parametrize("case", WAITING.values(), ids=WAITING.keys())
def test_sums_that_wait_for_a_long_epilogue(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of depthwise convolutions, as from registers, with any number of threads."""
    y = with_silu(case, 1)
    np.testing.assert_array_equal(with_silu(case, 3), y)
    monkeypatch.setattr(DepthwiseBuilder, "how_many_wait", lambda _: None)
    np.testing.assert_array_equal(with_silu(case, 1), y)


def test_channels_of_a_tile_in_a_long_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of whole fours of channels and others, that all have their channels or not."""
    case = Case((1, 20, 9, 10), (28, 20, 1, 1))
    results: list[np.ndarray] = []
    for rows, vectors, pixels in ((4, 2, False), (7, 2, False), (8, 2, False), (5, 1, True)):
        with_tile(monkeypatch, rows, vectors, pixels)
        results.append(with_silu(case, 1))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


WINOGRAD = [
    Case((1, 16, 9, 11), (20, 16, 3, 3), (1, 1, 1, 1)),
    Case((2, 17, 14, 14), (33, 17, 3, 3), (1, 0, 1, 2)),
    Case((1, 16, 3, 40), (16, 16, 3, 3)),
    Case((1, 18, 21, 22), (20, 18, 3, 3), (1, 1, 1, 1), (2, 2)),
    Case((2, 16, 28, 35), (33, 16, 3, 3), (0, 1, 1, 0), (2, 2)),
    Case((1, 16, 70, 73), (16, 16, 3, 3), (1, 1, 1, 1), (2, 2)),
]
FORMS_OF = [
    (number, case)
    for case in WINOGRAD
    for number, form in enumerate(FORMS)
    if form in winograd_plan.forms(case.convolution())
]


def run_winograd(
    case: Case, number: int, tile: tuple[int, int], target: Target, threads: int = 1, channels: bool = False
) -> np.ndarray:
    x, w = data(case)
    columns, form = tile[1] * target.lanes(4), FORMS[number]
    packed = pack_winograd_columns(w, form, columns) if channels else pack_winograd(w, form, tile[0])
    config = case.config() | {"winograd": array([number, *tile, int(channels)])}
    inputs = [Tensor.of(x.dtype, *x.shape), Tensor.of(w.dtype, packed.size)]
    built = compiled("conv", config, inputs, [Tensor.of(x.dtype, *case.result)], 0, target, threads)
    y = np.full(case.result, np.nan, np.float32)
    built.run([], x, packed, y)
    check(case, x, w, y)
    return y


@pytest.mark.parametrize(("form", "case"), FORMS_OF, ids=str)
def test_winograd(form: int, case: Case) -> None:
    """Within the bound of the direct form, and the same bits for any tile and any threads."""
    y = run_winograd(case, form, (8, 3), host_target())
    np.testing.assert_array_equal(run_winograd(case, form, (5, 1), host_target(), 3), y)
    run_winograd(case, form, (4, 2), AVX2)
    for tile, threads in (((14, 2), 1), ((5, 1), 3), ((8, 3), 1)):
        np.testing.assert_array_equal(run_winograd(case, form, tile, host_target(), threads, channels=True), y)
    run_winograd(case, form, (6, 2), AVX2, channels=True)


LARGE = {
    "3x3": Case((1, 48, 37, 41), (40, 48, 3, 3), (1,) * 4),
    "3x3 strided": Case((2, 48, 50, 47), (40, 48, 3, 3), (1, 0, 0, 1), (2, 2)),
    "5x5 of some images": Case((5, 16, 23, 19), (24, 16, 5, 5), (2,) * 4),
    "7x7 strided": Case((1, 3, 90, 90), (32, 3, 7, 7), (3,) * 4, (2, 2)),
    "dilated": Case((1, 24, 40, 33), (24, 24, 3, 3), (2,) * 4, (), (2, 2)),
}
"""Large enough to be shared out, with rows that no number of threads divides."""


@pytest.mark.parametrize("name", LARGE)
def test_rows_of_each_thread(name: str) -> None:
    """Where each thread copies the rows that it reads, their number does not matter."""
    case = LARGE[name]
    y = run(case)
    for threads in (2, 5, 16):
        np.testing.assert_array_equal(run(case, threads=threads), y)
    for number, form in enumerate(FORMS):
        if form in winograd_plan.forms(case.convolution()):
            for channels in (False, True):
                y = run_winograd(case, number, (8, 2), host_target(), 1, channels)
                for threads in (2, 5, 16):
                    same = run_winograd(case, number, (8, 2), host_target(), threads, channels)
                    np.testing.assert_array_equal(same, y)


@pytest.mark.parametrize("number", [0, 1])
def test_winograd_of_symbolic_sizes(number: int) -> None:
    weights = data(Case((1, 16, 5, 5), (18, 16, 3, 3)))[1]
    packed = pack_winograd(weights, FORMS[number], 6)
    inputs = [Tensor.of(np.float32, "d0", 16, "d1", "d2"), Tensor.of(np.float32, packed.size)]
    config = {"pads": array([1] * 4), "kernel_shape": array([3, 3]), "winograd": array([number, 6, 2, 0])}
    built = compiled("conv", config, inputs, [Tensor.of(np.float32, "d0", 18, "d1", "d2")], 3)
    for n, height, width in ((1, 1, 1), (2, 7, 40), (0, 4, 4)):
        case = Case((n, 16, height, width), (18, 16, 3, 3), (1,) * 4)
        x = np.random.default_rng(0).standard_normal(case.x).astype(np.float32)
        y = np.empty(case.result, np.float32)
        built.run([n, height, width], x, packed, y)
        check(case, x, weights, y)


ODD_SIZES = [*((n, n) for n in range(1, 18)), (1, 17), (17, 1), (9, 2), (5, 300), (40, 41)]


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
@pytest.mark.parametrize("number", range(len(FORMS)))
def test_winograd_of_any_size(number: int, target: Target) -> None:
    """One kernel over all sizes: correct, with the bits of the forms of known sizes for any tile and any threads."""
    stride = FORMS[number].rows.stride
    for tile, threads in (((14, 2), 1), ((5, 1), 3)):
        if tile[0] * tile[1] + tile[1] >= target.vector_registers:
            tile = (6, 2)
        columns = tile[1] * target.lanes(4)
        size = len(FORMS[number].slots) * -(-18 // columns) * columns * 16
        inputs = [Tensor.of(np.float32, "d0", 16, "d1", "d2"), Tensor.of(np.float32, size)]
        config = {
            "pads": array([1] * 4),
            "strides": array([stride] * 2),
            "kernel_shape": array([3, 3]),
            "winograd": array([number, *tile, 1]),
        }
        sizes = [f"(d{i} - 1)//{stride} + 1" if stride > 1 else f"d{i}" for i in (1, 2)]
        result = Tensor.of(np.float32, "d0", 18, *sizes)
        built = compiled("conv", config, inputs, [result], 3, target, threads)
        for height, width in ODD_SIZES:
            for n in (0, 1, 3) if height == 5 else (1,):
                case = Case((n, 16, height, width), (18, 16, 3, 3), (1,) * 4, (stride,) * 2)
                x, weights = data(case)
                packed = pack_winograd_columns(weights, FORMS[number], columns)
                y = np.full(case.result, np.nan, np.float32)
                built.run([n, height, width], x, packed, y)
                check(case, x, weights, y)
                if (height, width) in ((7, 7), (40, 41)) and threads == 1:
                    np.testing.assert_array_equal(run_winograd(case, number, (6, 1), target), y)


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_winograd_is_as_close_as_the_direct_form(number: int) -> None:
    case = Case((1, 64, 20, 20), (32, 64, 3, 3), (1, 1, 1, 1), (FORMS[number].rows.stride,) * 2)
    exact = reference(*data(case), case)
    direct, fast = run(case), run_winograd(case, number, (8, 3), host_target())
    assert np.abs(fast - exact).max() < np.abs(direct - exact).max() * 1.5


def test_winograd_is_chosen_where_it_pays() -> None:
    products = Products(Float32Type())

    def plan(size: int, channels: int, stride: int = 1) -> WinogradPlan | None:
        case = Case((1, channels, size, size), (channels, channels, 3, 3), (1,) * 4, (stride,) * 2)
        return winograd_plan.choose(case.convolution(), products, host_target())

    assert plan(56, 64) and plan(28, 128)
    assert plan(56, 8) is None  # the transforms would cost more than they save
    small = plan(7, 512)
    assert small and small.vectors_over == conv_plan.CHANNELS  # too few positions for whole vectors
    strided = plan(56, 128, stride=2)
    assert strided and strided.form == "2x2 of stride 2"
    assert plan(56, 64, stride=3) is None


@pytest.mark.parametrize(("size", "depth", "channels"), [(112, 16, 96), (56, 24, 144), (14, 64, 384), (14, 96, 576)])
def test_tiles_of_short_sums_are_whole(size: int, depth: int, channels: int) -> None:
    """So that results are stored from registers."""
    case = Case((1, depth, size, size), (channels, depth, 1, 1))
    plan = conv_plan.choose(case.convolution(), Products(Float32Type()), host_target())
    assert plan.pixels or channels % plan.rows == 0


def test_tiles_fit_the_registers() -> None:
    for target, (name, case) in itertools.product(targets(), CASES.items()):
        for element in (ELEMENTS[np.dtype(d)] for d in ("f4", "f8", "i4")):
            products = Products(element)
            plan = conv_plan.choose(case.convolution(), products, target)
            assert plan.tile.registers + (not products.fused) <= target.vector_registers, name
