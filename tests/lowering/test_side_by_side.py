"""What runs side by side changes no bit: vectors in step, and reductions of several types in one loop."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects.dims import as_dim, parse_dim
from sardonyx.lowering import policy
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Block

import sardonyx as sx

BODY = "a = Add (x, b)  e = Erf (a)  t = Tanh (e)  y = Mul (t, x)"


def program(sizes: str) -> sx.Program:
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    g (float[{sizes}] x, float[{sizes.split(",")[-1]}] b) => (float[{sizes}] y) {{ {BODY} }}"""
    return sx.compile(onnx.parser.parse_model(text), threads=1)


def test_results_do_not_depend_on_the_number_in_step() -> None:
    random = np.random.default_rng(0)
    x, b = random.standard_normal((3, 2048)).astype(np.float32), random.standard_normal(2048).astype(np.float32)
    symbolic = program("N,W")
    expected = symbolic(x, b)["y"]
    for width in (2048, 1984, 1030, 1024, 100, 64, 17):
        part, bias = np.ascontiguousarray(x[:, :width]), b[:width]
        assert program(f"3,{width}")(part, bias)["y"].tobytes() == np.ascontiguousarray(expected[:, :width]).tobytes()


def test_only_long_chains_of_functions_that_take_any_width() -> None:
    block = Block(arg_types=[f32])
    erf, exp, tangent = (kind(block.args[0]) for kind in (math.ErfOp, math.ExpOp, math.TanOp))
    adds = [arith.AddfOp(block.args[0], block.args[0]) for _ in range(8)]
    many = policy.SIDE_BY_SIDE
    assert policy.side_by_side([erf, *adds], as_dim(64 * many), 16) == many
    assert policy.side_by_side([erf, *adds], parse_dim("128*N"), 16) == many
    assert policy.side_by_side([erf, *adds], parse_dim("N"), 16) == 1
    assert policy.side_by_side([erf, *adds], as_dim(65), 16) == 1
    assert policy.side_by_side([exp, *adds], as_dim(64 * many), 16) == 1
    assert policy.side_by_side([erf, tangent, *adds], as_dim(64 * many), 16) == 1


NEIGHBOURS = {
    "int64[N]": "ArgMax<axis=1, keepdims=0>(z)",
    "double[N]": "ReduceSum<keepdims=0>(d, one)",
    "float16[N]": "ReduceSum<keepdims=0>(h, one)",
    "bool[N]": "ReduceMax<keepdims=0>(b, one)",
}
SUMS = {
    "Softmax": "Softmax(z)",
    "LogSoftmax": "LogSoftmax(z)",
    "ReduceLogSumExp": "ReduceLogSumExp(z, one)",
    "LayerNormalization": "LayerNormalization(z, scale)",
    "ReduceSum": "ReduceSum(z, one)",
}
OTHERS = "z = Relu(x)  d = Cast<to=11>(z)  h = Cast<to=10>(z)  b = Cast<to=9>(z)"


@pytest.mark.parametrize("operator", SUMS)
def test_sums_do_not_depend_on_reductions_of_other_types(operator: str) -> None:
    columns, random = 100, np.random.default_rng(0)
    x, scale = (random.standard_normal(s).astype(np.float32) for s in ((50, columns), (columns,)))
    width = 1 if operator.startswith("Reduce") else columns
    results = [f"float[N,{width}] y", *(f"{type_} k{i}" for i, type_ in enumerate(NEIGHBOURS))]
    nodes = [f"y = {SUMS[operator]}", *(f"k{i} = {text}" for i, text in enumerate(NEIGHBOURS.values()))]
    alone = run(results[:1], nodes[:1], x, scale, fuse=False)
    for chosen in ((0, 1), (1, 0), (2, 0), (0, 1, 2, 3, 4), (4, 3, 2, 1, 0)):
        picked = [[texts[i] for i in chosen] for texts in (results, nodes)]
        fused, apart = (run(*picked, x, scale, fuse=fuse) for fuse in (True, False))
        assert fused["y"].tobytes() == alone["y"].tobytes(), picked
        assert all(fused[name].tobytes() == apart[name].tobytes() for name in apart), picked


def run(results: list[str], nodes: list[str], x: np.ndarray, scale: np.ndarray, *, fuse: bool) -> dict[str, np.ndarray]:
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    g (float[N,{x.shape[1]}] x, float[{x.shape[1]}] scale) => ({", ".join(results)}) <int64[1] one = {{1}}> {{
        {OTHERS} {" ".join(nodes)} }}"""
    return sx.compile(onnx.parser.parse_model(text), fuse=fuse, threads=1)({"x": x, "scale": scale})
