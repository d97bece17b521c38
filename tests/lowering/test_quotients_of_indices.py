"""Indices are divided by constants with a product and a shift, where their range is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser
from sardonyx.lowering.tensor.body import factor_and_shift

import sardonyx as sx

MODEL = """<ir_version: 10, opset_import: ["" : 20]> g (float[{rows}, 70] x) => (float[{out}, 140] y)
<int64[2] s = {{-1, 140}}> {{
  t = Transpose<perm=[1, 0]>(x)
  r = Reshape(t, s)
  y = Neg(r)
}}"""


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 20), st.data())
def test_a_product_and_a_shift_divide(most: int, divisor: int, data: st.DataObject) -> None:
    """At the ends of the range, and around multiples, which a wrong factor misses first."""
    if (found := factor_and_shift(most, divisor)) is None:
        return
    factor, shift = found
    multiple = data.draw(st.integers(0, most // divisor)) * divisor
    for n in (0, most, most // divisor * divisor - 1, multiple - 1, multiple, multiple + 1):
        if 0 <= n <= most:
            assert n * factor < 1 << 63
            assert (n * factor) >> shift == n // divisor


@pytest.mark.parametrize("divisor", [3, 6, 7, 70, 1000, 4093, 65537])
def test_usual_indices_have_a_factor(divisor: int) -> None:
    assert factor_and_shift((1 << 31) - 1, divisor) is not None
    assert factor_and_shift(None, divisor) is None


@pytest.mark.parametrize("rows", [100, "N"])
def test_no_division_is_left_where_sizes_are_known(rows: int | str) -> None:
    model = parser.parse_model(MODEL.format(rows=rows, out=50 if rows == 100 else "M"))
    program = sx.compile(model)
    [built] = program.kernels.values()
    assert ("arith.divui" in built.ir("tensor")) == (rows == "N")
    x = np.arange(7000, dtype=np.float32).reshape(100, 70)
    np.testing.assert_array_equal(program(x=x)["y"], -x.T.reshape(-1, 140))
