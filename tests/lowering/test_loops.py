"""Kernels of linalg.generic, lowered to loops, compiled and run on random arrays against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import kernel
from sardonyx.dialects.target import AVX2, AVX512, Target
from sardonyx.lowering.loops import lower_to_loops
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from .kernel_cases import Kernel, targets
from .loops_cases import BF16, DTYPES, F16, F32, F64, I1, I8, I32, I64, INDEX, Ops, Out, Size, TensorKernel

Array = np.ndarray[Any, Any]
TARGETS = targets()
_numbers = itertools.count()


def compiled(case: TensorKernel, *results: SSAValue, target: Target | None = None) -> Callable[..., Any]:
    """The kernel as a function of the symbols' values and the input arrays; gives one array or a list."""
    return compiled_function(case, lower_to_loops(case.finish(*results), target or TARGETS[-1]), target or TARGETS[-1])


def compiled_function(case: TensorKernel, function: FuncOp, target: Target) -> Callable[..., Any]:
    """A loops-level kernel as a function."""
    function.verify()
    function.properties["sym_name"] = StringAttr(f"loops{next(_numbers)}")
    loaded = Kernel(function, target, threads=2)

    def call(dims: Sequence[int], *inputs: Array) -> Any:
        binding = {f"d{i}": v for i, v in enumerate(dims)}
        outputs = [np.zeros([d.evaluate(binding) for d in shape], DTYPES[e]) for e, shape in case.results]
        for output in outputs:
            output.reshape(-1).view(np.uint8)[...] = 0x5A if output.dtype != np.bool_ else 1
        loaded.run(dims, *inputs, *outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    call.reports = loaded.reports  # type: ignore[attr-defined]
    return call


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def same(a: Array, b: Array) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@pytest.fixture(params=TARGETS, ids=lambda t: t.cpu)
def target(request: pytest.FixtureRequest) -> Target:
    return request.param


# Pointwise


@pytest.mark.parametrize("sizes", [(3, 5, 64), (1, 1, 1), (4, 3, 17), (2, 0, 5), (200, 3, 100)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_broadcasts(target: Target, sizes: tuple[int, ...], symbolic: bool) -> None:
    """[a, b, c] + [b, 1] * [c]: operands that do not have all loops."""
    a, b, c = ("d0", "d1", "d2") if symbolic else sizes
    case = TensorKernel(3 if symbolic else 0)
    x, bias, scale = case.input(a, b, c), case.input(b, 1), case.input(c)
    y = case.generic(
        (a, b, c),
        [(x, (0, 1, 2)), (bias, (1, None)), (scale, (2,))],
        [Out((0, 1, 2))],
        lambda ops, x, bias, scale: ops(arith.AddfOp, x, ops(arith.MulfOp, bias, scale)),
    )
    call = compiled(case, y, target=target)
    xs, bs, ss = normal(*sizes), normal(sizes[1], 1), normal(sizes[2])
    same(call(sizes if symbolic else (), xs, bs, ss), xs + bs * ss)


def test_rank_zero(target: Target) -> None:
    case = TensorKernel()
    y = case.map(case.input(), lambda ops, x: ops(arith.AddfOp, x, ops.const(2)))
    same(compiled(case, y, target=target)((), np.full((), 3, np.float32)), np.full((), 5, np.float32))


@pytest.mark.parametrize("element", list(DTYPES), ids=str)
@pytest.mark.parametrize("count", [1, 7, 64, 1000])
def test_copies_every_type(target: Target, element: Attribute, count: int) -> None:
    case = TensorKernel(1)
    x = case.input("d0", element=element)
    y = case.map(x, lambda ops, x: x)
    values = (normal(count) * 50).astype(DTYPES[element])
    same(compiled(case, y, target=target)([count], values), values)


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_narrow_floats_are_widened(target: Target, element: Attribute) -> None:
    case = TensorKernel(1)
    x = case.input("d0", element=element)
    y = case.map(x, lambda ops, x: ops(arith.TruncFOp, ops(arith.MulfOp, *[ops(arith.ExtFOp, x, F32)] * 2), element))
    values = normal(77).astype(DTYPES[element])
    wide = values.astype(np.float32)
    same(compiled(case, y, target=target)([77], values), (wide * wide).astype(values.dtype))


def test_compares_and_selects(target: Target) -> None:
    case = TensorKernel(1)
    x, y = case.input("d0"), case.input("d0", element=I64)
    below, chosen = case.generic(
        ("d0",),
        [(x, (0,)), (y, (0,))],
        [Out((0,), I1), Out((0,), I64)],
        lambda ops, x, y: (
            low := ops(arith.CmpfOp, x, ops.const(0), "olt"),
            ops(arith.SelectOp, low, y, ops.const(-1, I64)),
        ),
    )
    xs, ys = normal(100), np.arange(100)
    low, picked = compiled(case, below, chosen, target=target)([100], xs, ys)
    same(low, xs < 0)
    same(picked, np.where(xs < 0, ys, -1))


def test_conversions_saturate_in_all_lanes(target: Target) -> None:
    case = TensorKernel(1)
    x = case.input("d0")
    y = case.map(x, lambda ops, x: ops(arith.FPToSIOp, x, I32), I32)
    values = np.array([1.9, -1.9, 1e20, -1e20, np.nan] * 5, np.float32)
    info = np.iinfo(np.int32)
    expected = np.array([1, -1, info.max, info.min, 0] * 5, np.int32)
    same(compiled(case, y, target=target)([25], values), expected)


def test_index_values(target: Target) -> None:
    """i * 100 + j % 7 from linalg.index: varying and uniform index arithmetic."""
    case = TensorKernel(2)
    y = case.generic(
        ("d0", "d1"),
        [],
        [Out((0, 1), I64)],
        lambda ops: ops(
            arith.IndexCastOp,
            ops(
                arith.AddiOp,
                ops(arith.MuliOp, ops.index(0), ops.const(100, INDEX)),
                ops(arith.RemUIOp, ops.index(1), ops.const(7, INDEX)),
            ),
            I64,
        ),
    )
    expected = np.arange(5)[:, None] * 100 + np.arange(33)[None] % 7
    same(compiled(case, y, target=target)([5, 33]), expected)


def test_constants(target: Target) -> None:
    """Small dense tensors, splats, and symbols as values."""
    case = TensorKernel(1)
    table, ones = case.dense(np.arange(3.0)), case.dense(np.ones(3))
    x = case.input("d0", 3)
    y = case.generic(
        ("d0", 3),
        [(x, (0, 1)), (table, (1,)), (ones, (1,))],
        [Out((0, 1))],
        lambda ops, x, t, o: ops(arith.AddfOp, ops(arith.MulfOp, x, t), o),
    )
    xs = normal(10, 3)
    same(compiled(case, y, target=target)([10], xs), xs * np.arange(3, dtype=np.float32) + 1)


# Movement


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_transposes(target: Target, order: tuple[int, ...]) -> None:
    case = TensorKernel(3)
    sizes = ("d0", "d1", "d2")
    x = case.input(*sizes)
    inverse = tuple(order.index(i) for i in range(3))
    y = case.generic([sizes[i] for i in order], [(x, inverse)], [Out((0, 1, 2))], lambda ops, x: x)
    call = compiled(case, y, target=target)
    for shape in ((5, 37, 18), (16, 32, 48), (1, 1, 70), (3, 0, 2)):
        xs = normal(*shape)
        same(call(shape, xs), np.ascontiguousarray(xs.transpose(order)))


@pytest.mark.parametrize("element", [I1, I8, F16, F64, I64], ids=str)
def test_transposes_of_other_types(target: Target, element: Attribute) -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1", element=element)
    y = case.generic(("d1", "d0"), [(x, (1, 0))], [Out((0, 1), element)], lambda ops, x: x)
    xs = (normal(67, 50) * 90).astype(DTYPES[element])
    same(compiled(case, y, target=target)([67, 50], xs), np.ascontiguousarray(xs.T))


def test_transposed_operand_of_a_sum(target: Target) -> None:
    case = TensorKernel(2)
    x, y = case.input("d0", "d1"), case.input("d1", "d0")
    z = case.generic(("d0", "d1"), [(x, (0, 1)), (y, (1, 0))], [Out((0, 1))], lambda ops, x, y: ops(arith.AddfOp, x, y))
    xs, ys = normal(45, 77), normal(77, 45)
    same(compiled(case, z, target=target)([45, 77], xs, ys), xs + ys.T)


def test_strided_and_reversed_reads(target: Target) -> None:
    """x[i, 2 * j + 1] and x[i, n - 1 - j] by tensor.extract."""
    case = TensorKernel(2)
    x = case.input("d0", "d1")

    def body(ops: Ops) -> Sequence[SSAValue]:
        i, j = ops.index(0), ops.index(1)
        odd = ops(arith.AddiOp, ops(arith.MuliOp, j, ops.const(2, INDEX)), ops.const(1, INDEX))
        back = ops(arith.SubiOp, ops(arith.SubiOp, ops.dim("d1"), ops.const(1, INDEX)), j)
        return ops.extract(x, i, odd), ops.extract(x, i, back)

    a, b = case.generic(("d0", "d1//2"), [], [Out((0, 1)), Out((0, 1))], body)
    xs = normal(9, 70)
    odd, back = compiled(case, a, b, target=target)([9, 70], xs)
    same(odd, np.ascontiguousarray(xs[:, 1::2]))
    same(back, np.ascontiguousarray(xs[:, ::-1][:, :35]))


def _gather(case: TensorKernel, table: SSAValue, at: SSAValue, rows: Size, width: Size, limit: Size) -> SSAValue:
    def body(ops: Ops, at: SSAValue) -> SSAValue:
        index = ops(arith.IndexCastOp, at, INDEX)
        inside = ops(arith.CmpiOp, index, ops.dim(limit), "ult")
        ops(kernel.CheckOp, inside, "index", "index out of range", [index])
        safe = ops(arith.SelectOp, inside, index, ops.const(0, INDEX))
        return ops.extract(table, safe, ops.index(1))

    return case.generic((rows, width), [(at, (0,))], [Out((0, 1))], body)


@pytest.mark.parametrize("width", [1, 5, 64])
def test_gathers_and_checks(target: Target, width: int) -> None:
    case = TensorKernel(2)
    table, at = case.input("d1", width), case.input("d0", element=I64)
    call = compiled(case, _gather(case, table, at, "d0", width, "d1"), target=target)
    values, indices = normal(10, width), np.array([3, 9, 0, 3, 5])
    same(call([5, 10], values, indices), values[indices])
    assert call.reports == []
    call([5, 10], values, np.array([3, 9, 10, 3, 5]))
    assert {tuple(v) for _, v in call.reports} == {(10,)}


def test_checks_of_lanes(target: Target) -> None:
    """The check is varying, and lanes beyond the end do not fail."""
    case = TensorKernel(1)
    x = case.input("d0", element=I64)

    def body(ops: Ops, x: SSAValue) -> SSAValue:
        ops(kernel.CheckOp, ops(arith.CmpiOp, x, ops.const(0, I64), "ne"), "value", "zero", [x])
        return x

    call = compiled(case, case.map(x, body), target=target)
    call([21], np.arange(1, 22))
    assert call.reports == []
    call([21], np.arange(21))
    assert [v for _, v in call.reports] == [[0]]


def _if(ops: Ops, condition: SSAValue, then: Callable[[Ops], SSAValue], other: Callable[[Ops], SSAValue]) -> SSAValue:
    blocks = Block(), Block()
    values = [side(Ops(block)) for side, block in zip((then, other), blocks)]
    for block, value in zip(blocks, values):
        block.add_op(scf.YieldOp(value))
    return ops(scf.IfOp, condition, [values[0].type], Region(blocks[0]), Region(blocks[1]))


@pytest.mark.parametrize("uniform", [False, True])
def test_branches(target: Target, uniform: bool) -> None:
    """A padded read: x[i - 2] where 2 <= i < n + 2, else -1, the read in the branch; x is empty once."""
    case = TensorKernel(2)
    x = case.input("d0")
    loops = ("d0 + 4", "d1") if uniform else ("d1", "d0 + 4")
    loop = 0 if uniform else 1

    def body(ops: Ops) -> SSAValue:
        at = ops(arith.SubiOp, ops.index(loop), ops.const(2, INDEX))
        inside = ops(arith.CmpiOp, at, ops.dim("d0"), "ult")
        return _if(ops, inside, lambda then: then.extract(x, at), lambda other: other.const(-1))

    y = case.generic(loops, [], [Out((0, 1))], body)
    call = compiled(case, y, target=target)
    for n in (0, 1, 40):
        xs = normal(n)
        padded = np.pad(xs, 2, constant_values=-1)
        expected = np.repeat(padded[:, None], 3, 1) if uniform else np.repeat(padded[None], 3, 0)
        same(call([n, 3], xs), expected)


def test_inner_loops(target: Target) -> None:
    """A body with an scf.for: the sum of x[i, j : j + 3]."""
    case = TensorKernel(2)
    x = case.input("d0", "d1 + 2")

    def body(ops: Ops) -> SSAValue:
        block = Block(arg_types=[INDEX, F32])
        inner = Ops(block)
        k, total = block.args
        value = inner.extract(x, ops.index(0), inner(arith.AddiOp, ops.index(1), k))
        block.add_op(scf.YieldOp(inner(arith.AddfOp, total, value)))
        zero, one, three = (ops.const(n, INDEX) for n in (0, 1, 3))
        return ops(scf.ForOp, zero, three, one, [ops.const(0)], Region(block))

    y = case.generic(("d0", "d1"), [], [Out((0, 1))], body)
    xs = normal(4, 42)
    expected = xs[:, :-2] + xs[:, 1:-1] + xs[:, 2:]
    np.testing.assert_allclose(compiled(case, y, target=target)([4, 40], xs), expected, atol=1e-6)


# Reductions

SUMS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((7, 100), (1,)),
    ((7, 100), (0,)),
    ((7, 100), (0, 1)),
    ((3, 4, 50), (1,)),
    ((3, 4, 50), (0, 2)),
    ((3, 4, 50), (1, 2)),
    ((3, 17, 3), (1,)),
    ((3, 2, 5, 9), (0, 2)),
    ((3, 2, 5, 9), (0, 2, 3)),
    ((2, 1000), (1,)),
    ((1000, 40), (0,)),
    ((0, 5), (0,)),
    ((5, 0), (1,)),
    ((5, 0), (0,)),
    ((5, 0, 3), (0, 2)),
    ((1, 1), (1,)),
]


@pytest.mark.parametrize(("shape", "axes"), SUMS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_sums(target: Target, shape: tuple[int, ...], axes: tuple[int, ...], symbolic: bool) -> None:
    sizes = tuple(f"d{i}" for i in range(len(shape))) if symbolic else shape
    case = TensorKernel(len(shape) if symbolic else 0)
    x = case.input(*sizes, element=I32)
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    y = case.generic(sizes, [(x, tuple(range(len(shape))))], [Out(kept, I32, arith.AddiOp)], lambda ops, x: x)
    xs = np.random.default_rng(1).integers(-1000, 1000, shape, np.int32)
    same(compiled(case, y, target=target)(shape if symbolic else (), xs), xs.sum(axes, dtype=np.int32))


KINDS: list[tuple[type[Any], Attribute, float, Any]] = [
    (arith.MaximumfOp, F32, -np.inf, np.max),
    (arith.MinimumfOp, F64, np.inf, np.min),
    (arith.MulfOp, F32, 1, np.prod),
    (arith.MaxSIOp, I64, -(2**63), np.max),
    (arith.MinSIOp, I8, 127, np.min),
    (arith.OrIOp, I1, 0, np.any),
    (arith.AndIOp, I1, 1, np.all),
]


@pytest.mark.parametrize(("combine", "element", "initial", "reference"), KINDS, ids=lambda k: getattr(k, "name", None))
@pytest.mark.parametrize("axis", [0, 1])
def test_kinds(target: Target, combine: Any, element: Attribute, initial: float, reference: Any, axis: int) -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1", element=element)
    y = case.generic(("d0", "d1"), [(x, (0, 1))], [Out((1 - axis,), element, combine, initial)], lambda ops, x: x)
    xs = (normal(37, 75) * 1.5).astype(DTYPES[element])
    got = compiled(case, y, target=target)([37, 75], xs)
    np.testing.assert_allclose(got, reference(xs, axis), rtol=1e-4)


def test_nan_wins_a_maximum(target: Target) -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    y = case.generic(("d0", "d1"), [(x, (0, 1))], [Out((0,), F32, arith.MaximumfOp, -np.inf)], lambda ops, x: x)
    xs = normal(4, 70)
    xs[1, 69] = xs[2, 3] = np.nan
    same(compiled(case, y, target=target)([4, 70], xs), xs.max(1))


def test_sums_start_from_what_they_are_given(target: Target) -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    y = case.generic(("d0", "d1"), [(x, (0, 1))], [Out((0,), F32, arith.AddfOp, 100)], lambda ops, x: x)
    xs = normal(4, 6)
    np.testing.assert_allclose(compiled(case, y, target=target)([4, 6], xs), xs.sum(1) + 100, rtol=1e-6)


def _row_sum(rows: Size, width: Size, symbols: int, target: Target, extra: int = 0) -> Callable[..., Any]:
    """Sums of rows, with `extra` pointwise steps before and a scaling after."""
    case = TensorKernel(symbols)
    x = value = case.input(rows, width)
    assert x is not None
    for _ in range(extra):
        value = case.map(value, lambda ops, x: ops(arith.MulfOp, x, ops.const(1)))
    y = case.generic((rows, width), [(value, (0, 1))], [Out((0,), F32, arith.AddfOp)], lambda ops, x: x)
    return compiled(case, y, target=target)


@pytest.mark.parametrize("width", [1, 5, 16, 63, 64, 65, 200, 1000])
def test_sums_do_not_depend_on_rows_or_fusion(target: Target, width: int) -> None:
    xs = normal(40, width) * 1e3
    expected = _row_sum("d0", "d1", 2, target)([40, width], xs)
    same(_row_sum(40, width, 0, target)((), xs), expected)
    same(_row_sum("d0", width, 1, target)([7], xs[:7].copy()), expected[:7])
    same(_row_sum("d0", "d1", 2, target, extra=3)([40, width], xs), expected)
    np.testing.assert_allclose(expected, xs.astype(np.float64).sum(1), rtol=1e-3, atol=1)


def test_sums_over_two_axes_do_not_depend_on_fusion(target: Target) -> None:
    """The trailing axes count as one, also where a fused operand has only one of them."""
    xs, ones = normal(3, 5, 7, 9) * 1e3, np.ones(9, np.float32)
    case = TensorKernel(4)
    sizes = ("d0", "d1", "d2", "d3")
    x, scale = case.input(*sizes), case.input("d3")
    plain = case.generic(sizes, [(x, (0, 1, 2, 3))], [Out((1,), F32, arith.AddfOp)], lambda ops, x: x)
    fused = case.generic(
        sizes,
        [(x, (0, 1, 2, 3)), (scale, (3,))],
        [Out((1,), F32, arith.AddfOp)],
        lambda ops, x, s: ops(arith.MulfOp, x, s),
    )
    a, b = compiled(case, plain, fused, target=target)(xs.shape, xs, ones)
    same(a, b)
    np.testing.assert_allclose(a, xs.astype(np.float64).sum((0, 2, 3)), rtol=1e-3, atol=1)


# Rows


def _normalized(case: TensorKernel, x: SSAValue, rows: Sequence[Size], width: Size, count: float) -> SSAValue:
    """(x - mean) / max deviation, in six generics over the last axis."""
    loops, points = (*rows, width), tuple(range(len(rows) + 1))
    row = points[:-1]
    total = case.generic(loops, [(x, points)], [Out(row, F32, arith.AddfOp)], lambda ops, x: x)
    mean = case.map(total, lambda ops, t: ops(arith.MulfOp, t, ops.const(1 / count)))
    centred = case.generic(loops, [(x, points), (mean, row)], [Out(points)], lambda ops, x, m: ops(arith.SubfOp, x, m))
    widest = case.generic(loops, [(centred, points)], [Out(row, F32, arith.MaximumfOp, 1e-30)], lambda ops, x: x)
    return case.generic(
        loops, [(centred, points), (widest, row)], [Out(points)], lambda ops, x, m: ops(arith.DivfOp, x, m)
    )


@pytest.mark.parametrize("width", [1, 5, 64, 1000])
@pytest.mark.parametrize("symbolic", [False, True])
def test_row_kernels(target: Target, width: int, symbolic: bool) -> None:
    case = TensorKernel(3 if symbolic else 0)
    rows: tuple[Size, ...] = ("d0", "d1") if symbolic else (6, 5)
    last: Size = "d2" if symbolic else width
    x = case.input(*rows, last)
    call = compiled(case, _normalized(case, x, rows, last, width), target=target)
    xs = normal(6, 5, width)
    centred = xs - xs.sum(-1, keepdims=True) * np.float32(1 / width)
    expected = centred / np.maximum(centred.max(-1, keepdims=True), np.float32(1e-30))
    got = call((6, 5, width) if symbolic else (), xs)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_row_kernels_keep_one_row_per_thread() -> None:
    """Of a result that is wider than the output, which so cannot hold it."""
    case = TensorKernel(2)
    x = case.input("d0", 1000)
    y = case.map(_normalized(case, x, ("d0",), 1000, 1000), lambda ops, y: ops(arith.TruncFOp, y, F16), F16)
    function = lower_to_loops(case.finish(y), AVX512)
    assert str(function.attributes["kernel.scratch"]) == '#dims.shape<"0">'
    assert str(function.attributes["kernel.thread_scratch"]) == '#dims.shape<"4032">'


def test_intermediate_results_may_be_results(target: Target) -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    total = case.generic(("d0", "d1"), [(x, (0, 1))], [Out((0,), F32, arith.AddfOp)], lambda ops, x: x)
    share = case.generic(
        ("d0", "d1"), [(x, (0, 1)), (total, (0,))], [Out((0, 1))], lambda ops, x, t: ops(arith.DivfOp, x, t)
    )
    double = case.map(share, lambda ops, x: ops(arith.AddfOp, x, x))
    most = case.generic(("d0", "d1"), [(double, (0, 1))], [Out((0,), F32, arith.MaximumfOp)], lambda ops, x: x)
    call = compiled(case, share, most, total, x, share, target=target)
    xs = np.abs(normal(9, 50))
    got = call([9, 50], xs)
    same(got[0], xs / got[2][:, None])
    same(got[1], (got[0] * 2).max(1))
    same(got[3], xs)
    same(got[4], got[0])


def test_columns_share_their_tile(target: Target) -> None:
    """x / sum over the middle axis: rows and columns are shared, the middle axis is walked twice."""
    case = TensorKernel(3)
    sizes = ("d0", "d1", "d2")
    x = case.input(*sizes)
    square = case.map(x, lambda ops, x: ops(arith.MulfOp, x, x))
    total = case.generic(sizes, [(square, (0, 1, 2))], [Out((0, 2), F32, arith.AddfOp)], lambda ops, x: x)
    y = case.generic(
        sizes, [(square, (0, 1, 2)), (total, (0, 2))], [Out((0, 1, 2))], lambda ops, x, t: ops(arith.DivfOp, x, t)
    )
    call = compiled(case, y, target=target)
    for shape in ((3, 20, 200), (1, 4, 16), (2, 3, 5), (2, 0, 5)):
        xs = normal(*shape)
        np.testing.assert_allclose(call(shape, xs), xs**2 / (xs**2).sum(1, keepdims=True), rtol=1e-5)


def test_results_read_elsewhere_are_kept_whole(target: Target) -> None:
    """A transposed read of an earlier result: two nests."""
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    a = case.map(x, lambda ops, x: ops(arith.AddfOp, x, ops.const(1)))
    b = case.generic(("d1", "d0"), [(a, (1, 0))], [Out((0, 1))], lambda ops, x: ops(arith.MulfOp, x, x))
    xs = normal(20, 30)
    same(compiled(case, b, target=target)([20, 30], xs), np.ascontiguousarray(((xs + 1) ** 2).T))


def test_rotated_reads_of_a_row(target: Target) -> None:
    """y[i, j] + y[i, (j + 1) % n] where y is computed in the same kernel."""
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    y = case.map(x, lambda ops, x: ops(arith.MulfOp, x, x))

    def body(ops: Ops, here: SSAValue) -> SSAValue:
        after = ops(arith.RemUIOp, ops(arith.AddiOp, ops.index(1), ops.const(1, INDEX)), ops.dim("d1"))
        return ops(arith.AddfOp, here, ops.extract(y, ops.index(0), after))

    z = case.generic(("d0", "d1"), [(y, (0, 1))], [Out((0, 1))], body)
    xs = normal(6, 50)
    same(compiled(case, z, target=target)([6, 50], xs), xs * xs + np.roll(xs * xs, -1, 1))


def test_views(target: Target) -> None:
    """A result read under other dims: in the same row, and from elsewhere."""
    case = TensorKernel(2)
    x = case.input("d0", "2*d1")
    y = case.map(x, lambda ops, x: ops(arith.AddfOp, x, x))
    pairs = case.view(y, "d0", "d1", 2)
    sums = case.generic(("d0", "d1", 2), [(pairs, (0, 1, 2))], [Out((0, 1), F32, arith.AddfOp)], lambda ops, x: x)
    flat = case.view(sums, "d0*d1")
    z = case.map(flat, lambda ops, x: ops(arith.AddfOp, x, ops.const(1)))
    out = case.view(z, "d1*d0", 1)
    xs = normal(6, 10)
    same(compiled(case, out, target=target)([6, 5], xs), ((xs * 2).reshape(30, 2).sum(1) + 1).reshape(30, 1))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda t: t.cpu)
def test_same_input_gives_the_same_ir(target: Target) -> None:
    def text() -> str:
        case = TensorKernel(2)
        x = case.input("d0", "d1")
        return str(lower_to_loops(case.finish(_normalized(case, x, ("d0",), "d1", 10)), target))

    assert text() == text()


# Short loops and strides


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("element", [F32, I8, F16, I64, I1], ids=str)
@pytest.mark.parametrize("inward", [False, True])
def test_channels_move_in_and_out(target: Target, count: int, element: Attribute, inward: bool) -> None:
    """[n, channels, pixels] <-> [n, pixels, channels]."""
    case = TensorKernel(2)
    shape: tuple[Size, ...] = ("d0", count, "d1") if inward else ("d0", "d1", count)
    x = case.input(*shape, element=element)
    y = case.generic([shape[0], shape[2], shape[1]], [(x, (0, 2, 1))], [Out((0, 1, 2), element)], lambda ops, x: x)
    call = compiled(case, y, target=target)
    for pixels in (100, 16, 5, 1, 0):
        xs = (normal(3, count, pixels) * 90).astype(DTYPES[element])
        xs = xs if inward else np.ascontiguousarray(xs.transpose(0, 2, 1))
        same(call([3, pixels], xs), np.ascontiguousarray(xs.transpose(0, 2, 1)))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_short_rows_with_an_operand_of_their_own(target: Target, count: int) -> None:
    case = TensorKernel(1)
    x, scale = case.input("d0", count), case.input(count)
    y, z = case.generic(
        ("d0", count),
        [(x, (0, 1)), (scale, (1,))],
        [Out((0, 1)), Out((1, 0))],
        lambda ops, x, s: (v := ops(arith.MulfOp, x, s), ops(arith.AddfOp, v, v)),
    )
    call = compiled(case, y, z, target=target)
    for rows in (100, 7, 0):
        xs, ss = normal(rows, count), normal(count)
        got = call([rows], xs, ss)
        same(got[0], xs * ss)
        same(got[1], np.ascontiguousarray((xs * ss * 2).T))


@pytest.mark.parametrize("stride", [-2, -1, 2, 3, 4, 5])
@pytest.mark.parametrize("element", [F32, I8, I1], ids=str)
def test_strides(target: Target, stride: int, element: Attribute) -> None:
    """The last element that is read is the last one of its memory."""
    case = TensorKernel(1)
    x = case.input(f"{abs(stride)}*d0 - {abs(stride) - 1}", element=element)

    def body(ops: Ops) -> SSAValue:
        at = ops(arith.MuliOp, ops.index(0), ops.const(stride, INDEX))
        start = ops.dim("0" if stride > 0 else f"{-stride}*d0 - {-stride}")
        return ops.extract(x, ops(arith.AddiOp, at, start))

    call = compiled(case, case.generic(("d0",), [], [Out((0,), element)], body), target=target)
    for count in (1, 70, 128):
        xs = (normal((count - 1) * abs(stride) + 1) * 90).astype(DTYPES[element])
        same(call([count], xs), np.ascontiguousarray(xs[::stride]))


@pytest.mark.parametrize("seed", range(30))
def test_random_pointwise_kernels(seed: int) -> None:
    """Sums of operands with permuted and left out axes, extents around the lanes, some symbolic."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    extents = [int(rng.choice([1, 2, 3, 5, 8, 16, 17, 33])) for _ in range(rank)]
    symbolic = [bool(rng.random() < 0.4) for _ in range(rank)]
    sizes: list[Size] = [f"d{i}" if s else e for i, (e, s) in enumerate(zip(extents, symbolic))]
    case = TensorKernel(rank)
    operands: list[tuple[SSAValue, tuple[int, ...]]] = []
    arrays: list[Array] = []
    expected = np.zeros(extents, np.float32)
    for _ in range(int(rng.integers(1, 4))):
        axes = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)])
        operands.append((case.input(*(sizes[a] for a in axes)), axes))
        arrays.append(normal(*(extents[a] for a in axes)))
        order = np.argsort(axes)
        spread = arrays[-1].transpose(order).reshape([e if a in axes else 1 for a, e in enumerate(extents)])
        expected = expected + spread
    written = tuple(int(a) for a in rng.permutation(rank))

    def body(ops: Ops, *values: SSAValue) -> SSAValue:
        total = ops.const(0)
        for value in values:
            total = ops(arith.AddfOp, total, value)
        return total

    y = case.generic(sizes, operands, [Out(written)], body)
    same(compiled(case, y)(extents, *arrays), np.ascontiguousarray(expected.transpose(written)))


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("also", ["", "read after", "read beside", "result"])
def test_an_output_holds_what_it_replaces(target: Target, axis: int, also: str) -> None:
    """(x + x) / sum(x + x); the doubles may lie in the output, unless something else needs one of the two."""
    case = TensorKernel(3)
    sizes, points = ("d0", "d1", "d2"), (0, 1, 2)
    row = tuple(i for i in points if i != axis)
    x = case.input(*sizes)
    double = case.map(x, lambda ops, x: ops(arith.AddfOp, x, x))
    total = case.generic(sizes, [(double, points)], [Out(row, F32, arith.AddfOp)], lambda ops, x: x)
    share = case.generic(
        sizes, [(double, points), (total, row)], [Out(points)], lambda ops, x, t: ops(arith.DivfOp, x, t)
    )
    results = [share]
    if also == "read after":
        results.append(case.generic(sizes, [(share, points)], [Out(row, F32, arith.AddfOp)], lambda ops, x: x))
    if also == "read beside":
        results.append(
            case.generic(
                sizes, [(double, points), (total, row)], [Out(points)], lambda ops, x, t: ops(arith.SubfOp, x, t)
            )
        )
    if also == "result":
        results.append(double)
    call = compiled(case, *results, target=target)
    for shape in ((3, 5, 100), (2, 16, 16), (1, 3, 5)):
        xs = np.abs(normal(*shape)) + 1
        doubles = xs + xs
        sums = doubles.astype(np.float64).sum(axis, keepdims=True)
        got = call(shape, xs)
        np.testing.assert_allclose(got if len(results) == 1 else got[0], doubles / sums, rtol=1e-5)
        if also == "read after":
            np.testing.assert_allclose(got[1], np.ones(sums.shape).squeeze(axis), rtol=1e-4)
        if also == "read beside":
            np.testing.assert_allclose(got[1], doubles - sums, rtol=1e-5)
        if also == "result":
            same(got[1], doubles)


def test_axes_that_may_be_broadcast(target: Target) -> None:
    """An index times min(d, 2) - 1 is 0 along an axis of size 1; which it is, the call tells."""
    case = TensorKernel(3)
    x, y = case.input("d0", "d1"), case.input("d0", "d2")

    def body(ops: Ops) -> SSAValue:
        i, j = ops.index(0), ops.index(1)
        reads = [
            ops.extract(v, i, ops(arith.MuliOp, j, ops.dim(f"min({d}, 2) - 1"))) for v, d in ((x, "d1"), (y, "d2"))
        ]
        return ops(arith.AddfOp, *reads)

    z = case.generic(("d0", "broadcast(d1, d2)"), [], [Out((0, 1))], body)
    function = lower_to_loops(case.finish(z), target)
    assert not any(op.name == "vectorx.gather" for op in function.walk())
    call = compiled_function(case, function, target)
    for a, b in ((1, 70), (70, 1), (5, 5), (1, 1), (1, 0)):
        xs, ys = normal(3, a), normal(3, b)
        same(call([3, a, b], xs, ys), xs + ys)
