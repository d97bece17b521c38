"""Resize of integers: truncated, with antialias rounded, as runtimes do."""

from __future__ import annotations

import numpy as np
import pytest

from .cases import check


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_antialias_rounds(dtype: type[np.integer], factor: float, mode: str) -> None:
    x = np.array([0, 1, 5, 7, 100, 25, 3, 9], dtype).reshape(1, 1, 8, 1)
    scales = np.array([1, 1, factor, 1], np.float32)
    operands = [x, None, scales]
    [rounded] = check("Resize", operands, {"mode": mode, "antialias": 1}, constants=[2], levels=("tensor",))
    [exact] = check("Resize", [x.astype(np.float64), *operands[1:]], {"mode": mode, "antialias": 1}, constants=[2],
                    tolerance=16)  # fmt: skip
    info = np.iinfo(dtype)
    np.testing.assert_array_equal(rounded, np.clip(np.rint(exact), info.min, info.max))
    [cut] = check("Resize", operands, {"mode": mode}, constants=[2])
    if factor == 2:
        np.testing.assert_array_equal(cut, np.clip(np.trunc(exact), info.min, info.max))
