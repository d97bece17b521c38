"""Loops of elementary functions evaluate several vectors in step: the same bits, whatever the size."""

from __future__ import annotations

import numpy as np
import onnx.parser
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
