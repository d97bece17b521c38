"""The form of loops-level kernels: what is fused, hoisted, parallel; and the shuffle networks, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sardonyx.dialects.dims import Dim, as_dim
from sardonyx.dialects.target import AVX2, AVX512
from sardonyx.lowering import policy
from sardonyx.lowering.loop_builder import LoopBuilder, vector_of
from sardonyx.lowering.loops import lower_to_loops
from sardonyx.lowering.loops.generics import LoweringError
from sardonyx.lowering.shuffles import deinterleave, interleave, pick, transpose
from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from .loops_cases import F32, I8, Out, Size, TensorKernel


def lowered(case: TensorKernel, *results: SSAValue) -> FuncOp:
    function = lower_to_loops(case.finish(*results), AVX512)
    function.verify()
    return function


def count(function: FuncOp, name: str) -> int:
    return sum(op.name == name for op in function.walk())


def innermost(function: FuncOp) -> list[Operation]:
    """The ops inside of loops that contain no further loop."""
    loops = [op for op in function.walk() if isinstance(op, scf.ForOp)]
    inner = [loop for loop in loops if not any(isinstance(o, scf.ForOp) for o in loop.body.walk())]
    return [op for loop in inner for op in loop.body.block.ops]


def softmax(case: TensorKernel, x: SSAValue, rows: Size, width: Size) -> SSAValue:
    loops = (rows, width)
    most = case.generic(loops, [(x, (0, 1))], [Out((0,), F32, arith.MaximumfOp, -3e38)], lambda ops, x: x)
    e = case.generic(
        loops, [(x, (0, 1)), (most, (0,))], [Out((0, 1))], lambda ops, x, m: ops(math.ExpOp, ops(arith.SubfOp, x, m))
    )
    total = case.generic(loops, [(e, (0, 1))], [Out((0,), F32, arith.AddfOp)], lambda ops, x: x)
    return case.generic(loops, [(e, (0, 1)), (total, (0,))], [Out((0, 1))], lambda ops, e, t: ops(arith.DivfOp, e, t))


def test_a_contiguous_kernel_is_one_loop() -> None:
    """[a, b, c, d] + [a, b, c, d] is flat, whatever the sizes."""
    case = TensorKernel(4)
    sizes = ("d0", "d1", "d2", "d3")
    x, y = case.input(*sizes), case.input(*sizes)
    z = case.generic(
        sizes, [(x, (0, 1, 2, 3)), (y, (0, 1, 2, 3))], [Out((0, 1, 2, 3))], lambda ops, x, y: ops(arith.AddfOp, x, y)
    )
    function = lowered(case, z)
    assert count(function, "kernel.parallel") == 1
    assert count(function, "scf.for") == 3  # the pieces, their whole vectors, the last one
    assert count(function, "arith.remui") == 0


def test_broadcast_operands_are_read_outside_of_the_inner_loop() -> None:
    case = TensorKernel(3)
    x, bias = case.input("d0", "d1", "d2"), case.input("d1")
    y = case.generic(
        ("d0", "d1", "d2"),
        [(x, (0, 1, 2)), (bias, (1,))],
        [Out((0, 1, 2))],
        lambda ops, x, b: ops(arith.AddfOp, x, ops(arith.MulfOp, b, b)),
    )
    names = {op.name for op in innermost(lowered(case, y))}
    assert "vector.load" in names
    assert not names & {"memref.load", "vector.broadcast", "arith.mulf", "arith.divui", "arith.remui", "arith.constant"}


@pytest.mark.parametrize(("rows", "parallel"), [(8, 0), (4096, 1)])
def test_small_kernels_are_serial(rows: int, parallel: int) -> None:
    case = TensorKernel()
    x = case.input(rows, 64)
    assert count(lowered(case, softmax(case, x, rows, 64)), "kernel.parallel") == parallel


def test_a_softmax_is_one_row_nest() -> None:
    """The exponentials and their sum are one loop; they lie in the output, so that only sums need scratch."""
    case = TensorKernel(1)
    x = case.input("d0", 1024)
    function = lowered(case, softmax(case, x, "d0", 1024))
    assert count(function, "kernel.parallel") == 1
    # rows; the maximum, exponentials and their sum, and quotients of three rows; each of them alone
    assert count(function, "scf.for") == 5
    assert str(function.attributes["kernel.scratch"]) == '#dims.shape<"0">'
    assert str(function.attributes["kernel.thread_scratch"]) == '#dims.shape<"128">'


def test_maps_of_one_point_need_no_memory() -> None:
    case = TensorKernel(1)
    x = case.input("d0")
    y = case.map(case.map(x, lambda ops, x: ops(arith.MulfOp, x, x)), lambda ops, x: ops(arith.AddfOp, x, x))
    function = lowered(case, y)
    assert count(function, "kernel.scratch") == 0
    assert count(function, "vector.store") == 1


def test_a_transpose_is_turned_in_registers() -> None:
    case = TensorKernel()
    x = case.input(512, 256)
    y = case.generic((256, 512), [(x, (1, 0))], [Out((0, 1))], lambda ops, x: x)
    function = lowered(case, y)
    assert count(function, "vectorx.gather") == 0
    assert count(function, "vector.shuffle") == 64  # 4 steps of 16


def test_every_op_has_an_origin() -> None:
    case = TensorKernel(1)
    x = case.input("d0", 100)
    y = softmax(case, x, "d0", 100)
    generics = [op for op in case.block.ops if isinstance(op, linalg.GenericOp)]
    for number, op in enumerate(generics):
        op.attributes["origin"] = DenseArrayBase.from_list(i64, [number])
    function = lowered(case, y)
    assert all("origin" in op.attributes for op in function.body.block.walk() if not isinstance(op, FuncOp))
    divide = next(op for op in function.walk() if isinstance(op, arith.DivfOp))
    assert divide.attributes["origin"] == DenseArrayBase.from_list(i64, [3])


def test_reductions_that_are_no_single_op_are_refused() -> None:
    case = TensorKernel(2)
    x = case.input("d0", "d1")
    y = case.generic(("d0", "d1"), [(x, (0, 1))], [Out((0,), F32, arith.SubfOp)], lambda ops, x: x)
    with pytest.raises(LoweringError, match="one arith op"):
        lower_to_loops(case.finish(y), AVX512)


# Policies


def test_policies_depend_on_sizes_and_target() -> None:
    assert policy.reduction_lanes(F32, AVX512) == 2 * policy.reduction_lanes(F32, AVX2) == 16
    assert policy.reduction_lanes(I8, AVX512) == 16
    sizes: list[Dim] = [as_dim(n) for n in (2, 16, 100, 1000)]
    assert policy.flattened_rows(sizes, 64) == 3
    assert policy.flattened_rows([as_dim("d0"), *sizes[2:]], 64) == 2
    assert policy.flattened_rows([as_dim("d0")], 64) == 1
    for width in (1, 16, 100, 5000, 100_000):
        tile = policy.column_tile(as_dim(width), 16, 1024)
        assert tile % 16 == 0 and min(width, 256) <= tile <= max(1024, width)
    assert policy.parallel_grain(1e9) == 1


# Shuffles


def run_network(builder: LoopBuilder, block: Block, results: Sequence[SSAValue], lanes: int) -> list[list[int]]:
    """The results' lanes, where lane i of argument a holds a * lanes + i."""
    values: dict[SSAValue, list[int]] = {a: [n * lanes + i for i in range(lanes)] for n, a in enumerate(block.args)}
    for op in block.ops:
        assert isinstance(op, vector.ShuffleOp)
        both = values[op.v1] + values[op.v2]
        values[op.result] = [both[lane] if lane >= 0 else -1 for lane in op.mask.iter_values()]
    return [values[r] for r in results]


def network(count: int, lanes: int) -> tuple[LoopBuilder, Block]:
    block = Block(arg_types=[vector_of(F32, lanes)] * count)
    return LoopBuilder(block, AVX512), block


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
def test_transpose_network(lanes: int) -> None:
    builder, block = network(lanes, lanes)
    got = run_network(builder, block, transpose(builder, block.args), lanes)
    assert got == [[row * lanes + column for row in range(lanes)] for column in range(lanes)]


@pytest.mark.parametrize("lanes", [4, 8, 16, 64])
@pytest.mark.parametrize("count", range(2, 9))
def test_interleave_networks(count: int, lanes: int) -> None:
    builder, block = network(count, lanes)
    together = run_network(builder, block, interleave(builder, block.args), lanes)
    flat = [v for part in together for v in part]
    assert flat == [(at % count) * lanes + at // count for at in range(count * lanes)]
    builder, block = network(count, lanes)
    apart = run_network(builder, block, deinterleave(builder, block.args), lanes)
    assert apart == [[lane * count + number for lane in range(lanes)] for number in range(count)]


def test_pick_takes_a_vector_as_it_is() -> None:
    builder, block = network(2, 4)
    assert pick(builder, block.args, [4, 5, 6, 7]) is block.args[1]
    assert run_network(builder, block, [pick(builder, block.args, [3, 2, 1, 0])], 4) == [[3, 2, 1, 0]]
