"""Reductions over leading axes: threads share out columns, and each column adds its elements in order all the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
import pytest
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import Dim, as_dim
from sardonyx.dialects.target import AVX512
from sardonyx.lowering import policy
from xdsl.dialects import arith

import sardonyx as sx
from sardonyx.compiler import lower_with
from sardonyx.options import Options

SUM = "y = ReduceSum <keepdims = 0> (x, axes)"
BODIES = {
    "sum": SUM,
    "largest": "y = ReduceMax <keepdims = 0> (x, axes)",
    "two stages": "m = ReduceMean (x, axes)  d = Sub (x, m)  q = Mul (d, d)  y = ReduceMean <keepdims = 0> (q, axes)",
    "an operand of the last axis": "p = Mul (x, g)  y = ReduceSum <keepdims = 0> (p, axes)",
    "softmax": "s = Softmax <axis = {axis}> (x)  y = ReduceMax <keepdims = 0> (s, axes)",
}
ALL_THREADS = {"serial_cycles": 0, "grain_cycles": 1}


def model(body: str, sizes: Sequence[int | str], axes: Sequence[int]) -> onnx.ModelProto:
    text, count = ",".join(map(str, sizes)), len(axes)
    result = ",".join(str(n) for axis, n in enumerate(sizes) if axis not in axes)
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
    g (float[{text}] x, float[{sizes[-1]}] g) => (float[{result}] y)
    <int64[{count}] axes = {{ {", ".join(map(str, axes))} }}> {{ {body.format(axis=axes[0])} }}""")


def program(body: str, sizes: Sequence[int | str], axes: Sequence[int], threads: int) -> sx.Program:
    """One in which all threads get something to do."""
    built = model(body, sizes, axes)
    schedule = {name: {"loops": ALL_THREADS} for name in sx.compile(built).kernels}
    return sx.compile(built, threads=threads, schedule=schedule)


SHAPES = [((7, 5, 37), [0]), ((3, 19, 70), [1]), ((41, 515), [0]), ((5, 3, 4, 24), [0, 2]), ((9, 3), [0])]


@pytest.mark.parametrize(
    ("name", "shape", "axes"), [(name, *case) for name in BODIES for case in SHAPES[: None if name == "sum" else 2]]
)
def test_bits_are_the_same_on_any_number_of_threads(name: str, shape: tuple[int, ...], axes: Sequence[int]) -> None:
    body = BODIES[name]
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(size).astype(np.float32) for size in (shape, shape[-1]))
    expected = program(body, shape, axes, 1)(x, g)["y"]
    assert program(body, shape, axes, 3)(x, g)["y"].tobytes() == expected.tobytes()
    assert program(body, "ABCD"[: len(shape)], axes, 2)(x, g)["y"].tobytes() == expected.tobytes()
    if body is SUM:
        rows = np.moveaxis(x, axes, range(len(axes)))
        rows = rows.reshape(-1, *rows.shape[len(axes) :])
        assert sum(rows[1:], rows[0]).tobytes() == expected.tobytes()


def shared_out(body: str, sizes: Sequence[int | str], axes: Sequence[int]) -> set[Dim]:
    """What the parallel loops of the last kernel go over."""
    module = lower_with(model(body, sizes, axes), Options(), to="loops", target=AVX512)
    regions = [op for op in module.walk() if isinstance(op, kernel.ParallelOp)]
    extents = [op.extent.owner for op in regions]
    assert all(isinstance(e, arith.ConstantOp | kernel.DimOp) for e in extents)
    return {e.expr.data[0] if isinstance(e, kernel.DimOp) else as_dim(e.value.value.data) for e in extents}


def test_threads_share_out_vectors_of_columns() -> None:
    assert shared_out(SUM, (128, 512, 128), [0]) == {as_dim(512 * 128 // 16)}
    assert shared_out(SUM, (100_000, 40), [0]) == {as_dim(3)}
    assert shared_out(BODIES["an operand of the last axis"], (128, 512, 128), [0]) == {as_dim(128 // 16)}
    assert shared_out(BODIES["softmax"], (128, 512, 128), [0]) == {as_dim(512 * 128 // 16)}
    assert shared_out(SUM, (512, 128, 128), [1]) == {as_dim(512)}  # rows are enough


def test_tiles_of_one_row_are_wide() -> None:
    assert policy.column_tile(as_dim(1000), 16, 1024, wide=True) == 1008
    assert policy.column_tile(as_dim(1 << 20), 16, 1024, wide=True) == 1024
    assert policy.column_tile(as_dim(1000), 16, 1024) == 256
