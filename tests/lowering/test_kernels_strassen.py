"""Products by Strassen's algorithm: errors, bits over everything else, the policy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects.dims import as_dim
from sardonyx.dialects.target import AVX2, Target
from sardonyx.lowering.kernels import strassen
from sardonyx.lowering.kernels.packing import pack_strassen
from sardonyx.lowering.kernels.register_tile import Products
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerAttr

import sardonyx as sx

from .kernel_cases import Tensor, compiled, host_target

PRODUCTS = Products(Float32Type())


def plan_for(shape: tuple[int, ...], columns: int, target: Target) -> strassen.StrassenPlan | None:
    *rows, depth = map(as_dim, shape)
    return strassen.choose(PRODUCTS, tuple(rows), as_dim(columns), as_dim(depth), target)


def run(a: np.ndarray, b: np.ndarray, target: Target | None = None, threads: int = 1) -> np.ndarray:
    """The product by a kernel made for just these sizes."""
    columns = b.shape[1]
    plan = plan_for(a.shape, columns, target or host_target())
    assert plan is not None
    packed = pack_strassen(b, plan.depth_block, plan.panel)
    config = {"panel": IntegerAttr(plan.panel, 64), "strassen": IntegerAttr(1, 64)}
    shape = (*a.shape[:-1], columns)
    inputs = [Tensor.of(np.float32, *a.shape), Tensor.of(np.float32, *packed.shape)]
    built = compiled("matmul", config, inputs, [Tensor.of(np.float32, *shape)], 0, target, threads)
    c = np.full(shape, np.nan, np.float32)
    built.run([], a, packed, c)
    return c


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", [None, AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [((1, 64), 256, 256), ((2, 67), 512, 320), ((1, 2, 250), 1024, 256), ((99,), 256, 256), ((67, 1), 512, 256)],
    ids=str,
)
def test_sums(rows: tuple[int, ...], depth: int, columns: int, target: Target | None) -> None:
    a, b = normal(1, *rows, depth), normal(2, depth, columns)
    c = run(a, b, target)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    # a sum of magnitude sqrt(depth); the halves' products are twice as large, and a result has four of them
    assert np.abs(c - exact).max() <= 4e-7 * depth**0.5 * 12
    errors = [np.sqrt(np.mean((x.astype(np.float64) - exact) ** 2)) for x in (c, in_blocks(a, b))]
    assert errors[0] <= 3 * errors[1]


def in_blocks(a: np.ndarray, b: np.ndarray, block: int = 128) -> np.ndarray:
    """The product in f32, by chains of `block` terms."""
    total = np.zeros((*a.shape[:-1], b.shape[1]), np.float32)
    for start in range(0, a.shape[-1], block):
        chain = np.zeros_like(total)
        for k in range(start, min(start + block, a.shape[-1])):
            chain += a[..., k, None] * b[k]
        total += chain
    return total


def test_a_sample_has_the_same_bits_in_every_batch_and_on_all_threads() -> None:
    a, b = normal(3, 3, 67, 256), normal(4, 256, 256)
    expected = run(a, b)
    np.testing.assert_array_equal(run(a[1:2].copy(), b, threads=3), expected[1:2])


def test_bits_stay_the_same_when_rows_are_scaled() -> None:
    a, b = normal(16, 1, 64, 256), normal(17, 256, 256)
    powers = np.ldexp(np.float32(1), np.arange(64) % 23 * 5 - 50)[:, None]
    np.testing.assert_array_equal(run(a * powers, b), run(a, b) * powers)


SMALLEST = 2.0**-149


def largest(array: np.ndarray, axis: int) -> np.ndarray:
    """Of each row or column in f64; 1 where all are zeros."""
    found = np.abs(array.astype(np.float64)).max(axis, keepdims=True)
    return np.where(found == 0, 1, found)


def assert_as_direct(a: np.ndarray, b: np.ndarray, c: np.ndarray, skipped: tuple[int, ...] = ()) -> None:
    """The errors of each row and of each column, as shares of its row's and column's largest factors, are near those of
    the direct form: the largest of a row, the rms of both. A few units of underflow are allowed."""
    rows = [r for r in range(a.shape[1]) if r not in skipped]
    a, c = a[0, rows], c[0, rows]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    underflow = SMALLEST * a.shape[1] * np.maximum(1, largest(b, 0))
    ours, direct = (
        np.maximum(np.abs(found - exact) - underflow, 0) / largest(b, 0) / largest(a, 1)
        for found in (c, in_blocks(a, b, 384))
    )
    np.testing.assert_array_less(ours.max(1), 4 * direct.max(1) + 1e-300)
    for axis in range(2):
        np.testing.assert_array_less((ours**2).mean(axis), 4**2 * (direct**2).mean(axis) + 1e-300)


@pytest.mark.parametrize("target", [None, AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e3, 1e6, 1e30])
def test_a_large_or_small_row_costs_its_neighbour_nothing(scale: float, target: Target | None) -> None:
    a, b = normal(8, 1, 67, 512), normal(9, 512, 256)
    a[0, 3] *= np.float32(scale)
    a[0, 66] *= np.float32(scale)
    a[0, 6, 256:] *= np.float32(scale)
    a[0, 8] = 0
    c = run(a, b, target)
    assert_as_direct(a, b, c)
    assert not c[0, 8].any()


@pytest.mark.parametrize("scale", [0, 1e-30, 1e-6, 1e6, 1e30])
def test_columns_of_all_magnitudes(scale: float) -> None:
    a, b = normal(10, 1, 64, 256), normal(11, 256, 256)
    b[:, 5] *= np.float32(scale)
    b[:, 5 + strassen.VECTORS * host_target().lanes(4) * 3] *= np.float32(scale)
    assert_as_direct(a, b, run(a, b))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32(3.4e38)])
def test_what_is_not_finite_stays_in_its_row(value: float) -> None:
    a, b = normal(12, 1, 67, 512), normal(13, 512, 256)
    rows = (2, 5, 66)
    for row, step in zip(rows, (0, 255, 511)):
        a[0, row, step] = value
    c = run(a, b)
    assert_as_direct(a, b, c, rows)
    if not np.isfinite(value):
        assert np.isnan(c[0, rows]).all()


def test_rows_at_the_end_of_the_range() -> None:
    """Rows of 2^126 and of numbers below the least normal one, by weights that keep the results in the range."""
    a, b = normal(14, 1, 64, 256), normal(15, 256, 256) * np.float32(0.01)
    a[0, 4] *= np.float32(2.0**125)
    a[0, 7] *= np.float32(2.0**-140)
    assert_as_direct(a, b, run(a, b))


def test_which_products_are_computed_so() -> None:
    target = host_target()
    assert plan_for((1, 128, 768), 768, target) is not None
    assert plan_for((128, 768), 768, target) is not None
    assert plan_for((128, 1, 768), 768, target) is not None
    assert plan_for((128, 2, 768), 768, target) is None
    assert plan_for((0, 128, 768), 768, target) is not None
    assert plan_for((1, 63, 768), 768, target) is None
    assert plan_for((1, 128, 128), 768, target) is None
    assert plan_for((1, 128, 768), 770, target) is None
    assert plan_for((1, 128, 997), 768, target) is None, "no K blocks of equal halves"
    sizes = as_dim(768), as_dim(768)
    assert strassen.choose(PRODUCTS, (as_dim("N"), as_dim(128)), *sizes, target) is not None
    assert strassen.choose(PRODUCTS, (as_dim(1), as_dim("S")), *sizes, target) is None
    for rows in ((as_dim("N"),), (as_dim("N"), as_dim(1)), ()):
        assert strassen.choose(PRODUCTS, rows, *sizes, target) is None, "rows may be samples"
    assert strassen.choose(Products(Float64Type()), (as_dim(1), as_dim(128)), *sizes, target) is None


def model(batch: int | str, rows: int, first: float = 1) -> onnx.ModelProto:
    """gelu(x w + b) + x, where w begins with that number"""
    matrix = normal(5, 256, 256)
    matrix[0, 0] = first
    weights = [numpy_helper.from_array(matrix, "w"), numpy_helper.from_array(normal(6, 256), "b")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Gelu", ["s"], ["g"]),
        helper.make_node("Add", ["g", "x"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, rows, 256]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_in_a_program() -> None:
    """Batches that are known when it runs, unfused, on other tiles: the same bits; with `exact` another algorithm."""
    x = normal(7, 3, 65, 256)
    program = sx.compile(model("N", 65), cache=False)
    [function] = program.explain().to_dict()["functions"].values()
    assert function["schedule"]["matmul"]["algorithm"] == "strassen"
    expected = program.run(None, {"x": x})[0]
    alone = sx.compile(model(1, 65), cache=False)
    for sample in range(3):
        given = {"x": x[sample : sample + 1].copy()}
        for other in (program, alone):
            np.testing.assert_array_equal(other.run(None, given)[0], expected[sample : sample + 1])
    choices = {"rows": 5, "row_block": 10, "groups_ahead": 0}
    other = sx.compile(model(3, 65), cache=False, schedule={"*": {"matmul": choices}})
    np.testing.assert_array_equal(other.run(None, {"x": x})[0], expected)
    np.testing.assert_array_equal(sx.compile(model(3, 65), cache=False, fuse=False).run(None, {"x": x})[0], expected)
    exact = sx.compile(model("N", 65), cache=False, exact=True)
    [function] = exact.explain().to_dict()["functions"].values()
    assert "algorithm" not in function["schedule"]["matmul"]
    np.testing.assert_allclose(exact.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("first", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_have_the_direct_form(first: float) -> None:
    program = sx.compile(model(1, 64, first), cache=False)
    [function] = program.explain().to_dict()["functions"].values()
    assert "algorithm" not in function["schedule"]["matmul"]
    y = program.run(None, {"x": np.ones((1, 64, 256), np.float32)})[0]
    assert np.isfinite(y[..., 1:]).all()


@pytest.mark.parametrize("shape", [(65, 256), (65, 1, 256), (0, 65, 256)], ids=str)
def test_rows_of_a_fixed_number(shape: tuple[int, ...]) -> None:
    """Flattened rows and those of a sequence first: right, and the same bits however it is computed."""
    matrix = normal(5, 256, 256)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "x"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(matrix, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    given = normal(8, *shape)
    program = sx.compile(made, cache=False)
    [function] = program.explain().to_dict()["functions"].values()
    assert function["schedule"]["matmul"]["algorithm"] == "strassen"
    got = program.run(None, {"x": given})[0]
    for options in ({"fuse": False}, {"threads": 2}, {"schedule": {"*": {"matmul": {"rows": 5}}}}):
        np.testing.assert_array_equal(sx.compile(made, cache=False, **options).run(None, {"x": given})[0], got)
    exact = given.astype(np.float64) @ matrix + given
    assert np.abs(got - exact).max(initial=0) <= 4e-7 * 16 * 12
