"""No division of indices ends the process: a divisor is a number, or at least 1 whatever sizes are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

import sardonyx as sx

DIVISIONS = (arith.DivUIOp, arith.DivSIOp, arith.RemUIOp, arith.RemSIOp, arith.FloorDivSIOp, arith.CeilDivSIOp)
MODELS = {
    "a transpose that a reshape takes apart": """(float[N, C, D] x) => (float[A, B] y) {
        t = Transpose <perm = [2, 0, 1]> (x) s = Shape <start = 0, end = 1> (x) m = Constant <value_ints = [-1]> ()
        z = Concat <axis = 0> (s, m) r = Reshape (t, z) y = Softmax (r)
    }""",
    "groups": """(float[N, C, D] x, float[C] s) => (float[A, B, E] y) {
        y = GroupNormalization <num_groups = 4> (x, s, s)
    }""",
    "windows": """(float[N, C, L, M] x, float[K, J, 3, 3] w) => (float[A, B, D, E] y) {
        c = Conv <group = 2> (x, w) y = MaxPool <kernel_shape = [2, 2]> (c)
    }""",
    "padding": """(float[N, M] x, int64[4] p) => (float[A, B] y) { y = Pad <mode = "wrap"> (x, p) }""",
    "the greatest": """(float[N, M] x, int64[1] k) => (float[A, B] y, int64[A, B] i) {
        y, i = TopK <axis = 0> (x, k)
    }""",
}


def model(text: str) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 22)]
    return helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=imports, ir_version=10)


def never_zero(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return never_zero(owner.source)
    if isinstance(owner, arith.ConstantOp):
        return True
    return isinstance(owner, arith.MaxSIOp | arith.SelectOp)


def divides_indices(op: Operation) -> bool:
    type_ = op.results[0].type if op.results else None
    return isinstance(op, DIVISIONS) and isinstance(
        type_.element_type if isinstance(type_, VectorType) else type_, IndexType
    )


@pytest.mark.parametrize("case", MODELS)
def test_divisors_are_never_zero(case: str) -> None:
    loops = sx.lower(model(MODELS[case]), to="loops")
    found = [op for op in loops.walk() if divides_indices(op)]
    assert found or case == "the greatest"
    assert all(never_zero(op.operands[1]) for op in found)


def test_quotients_of_data_beyond_int64() -> None:
    text = """(float[N] x, int64[1] a, int64[1] b) => (float[A] y) { q = Div (a, b) y = Reshape (x, q) }"""
    program = sx.compile(model(text))
    assert program(np.ones(6, np.float32), np.array([18]), np.array([3]))["y"].shape == (6,)
    with pytest.raises(sx.InputError):
        program(np.ones(6, np.float32), np.array([-(2**63)]), np.array([-1]))
