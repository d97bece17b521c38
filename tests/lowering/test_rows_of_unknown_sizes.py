"""What a kernel keeps of a result, a row or all of it, where only a call tells how long rows are."""

from __future__ import annotations

import re

import numpy as np
import onnx.parser
import pytest

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def bias_of_positions(batch: object, length: object) -> str:
    """A row of positions is made once, and read for each head."""
    return f"""{HEAD} g (float[{batch},{length}] x) => (float[{batch},P,{length}] y)
        <float[4,1] slopes = {{1.0, 0.5, 0.25, 0.125}}, int64[1] one = {{1}}> {{
            e = Exp (x)
            n = Mul (e, x)
            u = Unsqueeze (n, one)
            y = Mul (slopes, u) }}"""


def windows(batch: object, length: object) -> str:
    """Windows of a padded row, by indices that are computed of its length."""
    return f"""{HEAD} g (float[{batch},{length}] x) => (float[{batch},3,Q] y)
        <int64[4] pads = {{0, 1, 0, 1}}, int64 zero = {{0}}, int64 two = {{2}}, int64[3,1] taps = {{0, 1, 2}},
         int64 axis = {{1}}> {{
            p = Pad (x, pads)
            shape = Shape (x)
            length = Gather (shape, axis)
            starts = Range (zero, length, two)
            at = Add (taps, starts)
            y = Gather <axis = 1> (p, at) }}"""


LIMIT = 1 << 20
"""More elements than any target's rows may have that cost a row loop."""


@pytest.mark.parametrize("make", [bias_of_positions, windows])
def test_symbolic_sizes_need_the_memory_of_fixed_ones(make) -> None:  # pyright: ignore
    """Rows of every length: short ones are kept by themselves, and long ones as part of the whole."""
    symbolic = sx.compile(onnx.parser.parse_model(make("B", "T")), threads=2)
    for batch, length in ((24, 56), (300, 40), (3, LIMIT)):
        fixed = sx.compile(onnx.parser.parse_model(make(batch, length)), threads=2).memory_analysis().peak
        tables = 64 + 8 * 4 * (length + 16)  # indices that are known where sizes are
        assert symbolic.memory_analysis(B=batch, T=length).peak <= 1.05 * fixed + tables


@pytest.mark.parametrize("make", [bias_of_positions, windows])
@pytest.mark.parametrize(("batch", "length"), [(0, 3), (1, 1), (1, 56), (7, 129), (2, LIMIT), (5, 0)])
def test_rows_of_every_length_are_right(make, batch: int, length: int) -> None:  # pyright: ignore
    model = onnx.parser.parse_model(make("B", "T"))
    x = np.random.default_rng(0).standard_normal((batch, length)).astype(np.float32)
    results = [sx.compile(model, threads=threads)(x=x)["y"] for threads in (1, 2)]
    fixed = sx.compile(onnx.parser.parse_model(make(batch, length)))(x=x)["y"]
    assert all(np.array_equal(r, fixed) for r in results)
    reference = sx.run(sx.lower(model, to="graph"), {"x": x})["y"]
    np.testing.assert_allclose(fixed, reference, rtol=1e-5, atol=1e-6)


def test_sizes_decide_at_run_time() -> None:
    """One kernel has both, and memory for the one that is used."""
    program = sx.compile(onnx.parser.parse_model(bias_of_positions("B", "T")))
    formula = str(program.memory_analysis(B=2, T=3).formula)
    assert re.search(r"sx_threads\*\(\(T \+ 15\)//16\)", formula)
    assert "min(max(T, " in formula
