"""The matmul template against float64, over dtypes, shapes, batches and targets; and its bits, over everything else."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import as_dim
from sardonyx.dialects.target import Target
from sardonyx.lowering.kernels import matmul
from sardonyx.lowering.kernels.emit import Ix
from sardonyx.lowering.kernels.matmul_plan import numbers_of_tiles, tall_tiles
from sardonyx.lowering.kernels.packing import pack_columns
from sardonyx.lowering.kernels.register_tile import Products
from sardonyx.lowering.loop_builder import LoopBuilder
from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, FloatAttr, IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Block, Region

from .kernel_cases import Kernel, Tensor, compiled, host_target, targets

BF16 = ml_dtypes.bfloat16
TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)


def config(**values: int) -> dict[str, Attribute]:
    return {name: IntegerAttr(value, 64) for name, value in values.items()}


def random(rng: np.random.Generator, dtype: object, *shape: int) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Integers exactly (they wrap); floats within what a sum in any order may be off, and one rounding."""
    if c.dtype.kind in "iu":
        np.testing.assert_array_equal(c, np.matmul(a, b))
        return
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    size = np.matmul(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    sums = np.finfo(np.float64 if c.dtype == np.float64 else np.float32).eps
    bound = sums * (4 + np.sqrt(a.shape[-1])) * size + np.abs(exact) * float(ml_dtypes.finfo(c.dtype).eps)
    assert np.all(np.abs(c.astype(np.float64) - exact) <= bound)


def run(
    a: np.ndarray,
    b: np.ndarray,
    target: Target | None = None,
    threads: int = 1,
    trans_a: bool = False,
    trans_b: bool = False,
    panel: int = 0,
) -> np.ndarray:
    """The product by a kernel made for just these sizes."""
    left = a.swapaxes(-1, -2) if trans_a else a
    right = b.swapaxes(-1, -2) if trans_b else b
    shape = np.matmul(np.zeros(left.shape, np.bool_), np.zeros(right.shape, np.bool_)).shape
    options = config(trans_a=trans_a, trans_b=trans_b, **({"panel": panel} if panel else {}))
    given = pack_columns(right, panel) if panel else b
    inputs = [Tensor.of(a.dtype, *a.shape), Tensor.of(b.dtype, *given.shape)]
    built = compiled("matmul", options, inputs, [Tensor.of(a.dtype, *shape)], 0, target, threads)
    c = np.empty(shape, a.dtype)
    built.run([], a, given, c)
    return c


SIZES = [(1, 1, 1), (1, 17, 5), (5, 1, 33), (13, 31, 64), (29, 100, 7), (40, 5, 1100)]


@TARGETS
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, int, int], target: Target) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(m * n * k)
    for trans_a, trans_b in itertools.product((False, True), repeat=2):
        a = random(rng, np.float32, *((k, m) if trans_a else (m, k)))
        b = random(rng, np.float32, *((n, k) if trans_b else (k, n)))
        c = run(a, b, target, trans_a=trans_a, trans_b=trans_b)
        check(a.T if trans_a else a, b.T if trans_b else b, c)


@TARGETS
@pytest.mark.parametrize("dtype", ["f8", "f2", BF16, "i4", "u4", "i8", "u8"], ids=str)
def test_dtypes(dtype: object, target: Target) -> None:
    rng = np.random.default_rng(1)
    for m, n, k, trans in ((1, 40, 70, False), (30, 45, 600, False), (17, 45, 20, True), (30, 1, 20, False)):
        a = random(rng, dtype, *((k, m) if trans else (m, k)))
        b = random(rng, dtype, *((n, k) if trans else (k, n)))
        c = run(a, b, target, trans_a=trans, trans_b=trans)
        check(a.T if trans else a, b.T if trans else b, c)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", BF16, "i4"], ids=str)
def test_packed_columns(dtype: object) -> None:
    rng = np.random.default_rng(2)
    products = Products(Tensor.of(dtype, 1).type.element_type)
    for m, n, k in ((1, 300, 40), (3, 70, 500), (30, 33, 9), (20, 7, 12)):
        a, b = random(rng, dtype, m, k), random(rng, dtype, k, n)
        check(a, b, run(a, b, panel=matmul.panel_columns(products, as_dim(n), host_target())))


BATCHES = [
    ((7,), (7,)), ((7,), (7, 5)), ((6, 7), (7,)), ((3, 6, 7), (7,)), ((7,), (3, 7, 5)),
    ((2, 3, 6, 7), (7, 5)), ((2, 3, 6, 7), (3, 7, 5)), ((2, 1, 6, 7), (3, 7, 5)), ((6, 7), (2, 3, 7, 5)),
    ((3, 6, 7), (1, 7, 5)), ((3, 1, 7), (3, 7, 1)), ((2, 20, 7), (2, 7, 1)), ((0, 6, 7), (7, 5)), ((2, 6, 0), (0, 5)),
    ((6, 0), (0,)), ((2, 0, 7), (7, 5)), ((2, 40, 300), (300, 50)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
def test_numpys_rules(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(3)
    a, b = (random(rng, np.float32, *shape) for shape in shapes)
    check(a, b, run(a, b))


@TARGETS
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, True)])
def test_symbolic_sizes(target: Target, trans_a: bool, trans_b: bool) -> None:
    built = symbolic(np.float32, target, 1, trans_a, trans_b)
    rng = np.random.default_rng(4)
    for m, n, k in itertools.product((0, 1, 19, 60), (0, 1, 33), (0, 1, 50)):
        a = random(rng, np.float32, *((k, m) if trans_a else (m, k)))
        b = random(rng, np.float32, *((n, k) if trans_b else (k, n)))
        c = np.full((m, n), np.nan, np.float32)
        built.run([m, n, k], a, b, c)
        check(a.T if trans_a else a, b.T if trans_b else b, c)
    a, b, c = random(rng, np.float32, 300, 700), random(rng, np.float32, 700, 70), np.empty((300, 70), np.float32)
    built.run([300, 70, 700], *(x.T.copy() if t else x for x, t in ((a, trans_a), (b, trans_b))), c)
    check(a, b, c)


def symbolic(
    dtype: object, target: Target | None = None, threads: int = 1, trans_a: bool = False, trans_b: bool = False
) -> Kernel:
    """[d0, d2] x [d2, d1]"""
    a = Tensor.of(dtype, "d2", "d0") if trans_a else Tensor.of(dtype, "d0", "d2")
    b = Tensor.of(dtype, "d1", "d2") if trans_b else Tensor.of(dtype, "d2", "d1")
    options = config(trans_a=trans_a, trans_b=trans_b)
    return compiled("matmul", options, [a, b], [Tensor.of(dtype, "d0", "d1")], 3, target, threads)


def test_symbolic_batch_broadcasts() -> None:
    inputs = [Tensor.of(np.float32, "d0", 3, 5), Tensor.of(np.float32, "d1", 5, 4)]
    built = compiled("matmul", {}, inputs, [Tensor.of(np.float32, "broadcast(d0, d1)", 3, 4)], 2)
    rng = np.random.default_rng(5)
    for left, right in ((1, 1), (4, 1), (1, 4), (4, 4)):
        a, b = random(rng, np.float32, left, 3, 5), random(rng, np.float32, right, 5, 4)
        c = np.empty((max(left, right), 3, 4), np.float32)
        built.run([left, right], a, b, c)
        check(a, b, c)


@TARGETS
def test_a_row_has_the_same_bits_in_every_product(target: Target) -> None:
    """Whatever the number of rows and columns, the packing, the batch and the threads: one order of additions."""
    rng = np.random.default_rng(6)
    k, n = 1100, 50
    a, b = random(rng, np.float32, 40, k), random(rng, np.float32, k, n)
    expected = run(a, b, target)
    for m in (1, 2, 5, 17, 29):
        np.testing.assert_array_equal(run(a[:m].copy(), b, target, threads=3), expected[:m])
    for columns in (1, 2, 16):
        np.testing.assert_array_equal(run(a, b[:, :columns].copy(), target), expected[:, :columns])
    panel = 2 * target.lanes(4)
    for m in (1, 40):
        np.testing.assert_array_equal(run(a[:m].copy(), b, target, panel=panel), expected[:m])
    np.testing.assert_array_equal(run(a, b.T.copy(), target, trans_b=True), expected)
    np.testing.assert_array_equal(run(a.T.copy(), b, target, trans_a=True), expected)
    np.testing.assert_array_equal(run(a, b[:, 3].copy(), target), expected[:, 3])
    np.testing.assert_array_equal(run(a[3].copy(), b, target), expected[3])
    np.testing.assert_array_equal(run(a.reshape(4, 10, k), b, target), expected.reshape(4, 10, n))
    built = symbolic(np.float32, target, threads=2)
    for m in (*range(1, 21), 40):
        c = np.empty((m, n), np.float32)
        built.run([m, n, k], a[:m].copy(), b, c)
        np.testing.assert_array_equal(c, expected[:m])


def test_special_values_stay_in_their_row() -> None:
    rng = np.random.default_rng(7)
    a, b = random(rng, np.float32, 15, 20), random(rng, np.float32, 20, 37)
    a[3, 4], a[14, 0], a[7, 1] = np.nan, np.inf, -np.inf
    c = run(a, b)
    with np.errstate(invalid="ignore"):
        expected = a @ b
    assert np.all(np.isnan(c) == np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(c[finite], expected[finite], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(c[np.isinf(expected)], expected[np.isinf(expected)])


def test_the_epilogue_sees_sums_and_indices() -> None:
    """relu(x) + 100 * row + column, on several K blocks and a folded batch."""
    block = Block(arg_types=[Float32Type(), IndexType(), IndexType(), IndexType()])
    x, _, row, column = block.args
    zero = arith.ConstantOp(FloatAttr(0.0, Float32Type()))
    relu = arith.MaximumfOp(x, zero.result)
    hundred = arith.ConstantOp(IntegerAttr(100, IndexType()))
    rows = arith.MuliOp(row, hundred.result)
    number = arith.AddiOp(rows.result, column)
    cast = arith.IndexCastOp(number.result, i64)
    real = arith.SIToFPOp(cast.result, Float32Type())
    total = arith.AddfOp(relu.result, real.result)
    block.add_ops([zero, relu, hundred, rows, number, cast, real, total, kernel.YieldOp([total.result])])
    rng = np.random.default_rng(8)
    a, b = random(rng, np.float32, 3, 21, 900), random(rng, np.float32, 900, 37)
    out = Tensor.of(np.float32, 3, 21, 37)
    inputs = [Tensor.of(np.float32, *a.shape), Tensor.of(np.float32, *b.shape)]
    built = compiled("matmul", {}, inputs, [out], epilogue=Region(block))
    c = np.empty((3, 21, 37), np.float32)
    built.run([], a, b, c)
    index = 100 * np.arange(21)[:, None] + np.arange(37)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0) + index, rtol=1e-5, atol=1e-3)


def test_tiles_fit_the_registers() -> None:
    for target, dtype, rows in itertools.product(targets(), ("f4", "f8", "i4"), (1, 2, 3, 4, 5, 14, 15, 128, "d0")):
        products = Products(Tensor.of(dtype, 1).type.element_type)
        for columns in (1, 16, 1000, "d1"):
            plan = matmul.choose(products, as_dim(rows), as_dim(columns), target)
            assert plan.tile.registers + (not products.fused) <= target.vector_registers


def test_tiles_of_a_known_number_of_rows_are_equal_but_for_one_row() -> None:
    products = Products(Float32Type())
    for rows in (14, 15, 27, 29, 40, 128, 197, 266):
        plan = matmul.choose(products, as_dim(rows), as_dim(768), host_target())
        tall = tall_tiles(Ix(LoopBuilder(Block(), host_target()), rows), plan.rows, plan.tail_rows).known
        assert tall is not None
        assert plan.tail_rows in (0, plan.rows - 1)
        low = -(-(rows - tall * plan.rows) // plan.tail_rows) if plan.tail_rows else 0
        assert tall * plan.rows + low * plan.tail_rows == rows


@TARGETS
def test_few_rows_of_tiles_are_empty_whatever_their_number(target: Target) -> None:
    plan = matmul.choose(Products(Float32Type()), as_dim("d0"), as_dim(768), target)
    assert plan.heights == sorted(plan.heights, reverse=True)
    for rows in range(1, 200):
        numbers = numbers_of_tiles(Ix(LoopBuilder(Block(), target), rows), plan.heights)
        computed = sum(n.known * height for n, height in zip(numbers, plan.heights) if n.known is not None)
        assert rows <= computed < rows + plan.heights[-1]


def test_no_step_of_a_sum_divides() -> None:
    """Addresses step by quotients of sizes, which LLVM would compute anew in each turn of a loop."""
    inputs = [Tensor.of(np.float32, "d0", 700), Tensor.of(np.float32, 96 * 700)]
    built = compiled("matmul", config(panel=32), inputs, [Tensor.of(np.float32, "d0", 96)], 1)
    lines = built.assembly.splitlines()
    labels = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    jumps = [(labels[to], n) for n, line in enumerate(lines) if line and (to := line.split()[-1]) in labels]
    loops = [(start, end) for start, end in jumps if start < end]
    innermost = [loop for loop in loops if not any(loop[0] <= s and e <= loop[1] and (s, e) != loop for s, e in loops)]
    sums = [body for s, e in innermost if "vfmadd" in (body := "\n".join(lines[s : e + 1]))]
    assert sums
    assert not any("div" in body for body in sums)


@pytest.mark.parametrize("rows", [29, 300])
def test_low_tiles_in_several_blocks(rows: int) -> None:
    rng = np.random.default_rng(9)
    a, b = random(rng, np.float32, rows, 400), random(rng, np.float32, 400, 70)
    check(a, b, run(a, b, panel=32, threads=2))


def test_code_has_no_spills() -> None:
    built = compiled(
        "matmul", {}, [Tensor.of(np.float32, 128, 512), Tensor.of(np.float32, 512, 512)],
        [Tensor.of(np.float32, 128, 512)],
    )  # fmt: skip
    lines = built.assembly.splitlines()
    assert not [line for line in lines if "(%rsp)" in line and "zmm" in line and "vmov" in line]
