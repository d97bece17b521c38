"""Integers where a step within an operator has more digits, or a fraction, than its operands."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from .cases import check

LEVELS = ("graph", "tensor")
TYPES = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_mean_does_not_wrap(dtype: type[np.integer]) -> None:
    info = np.iinfo(dtype)
    rows = [[info.max] * 3, [info.min] * 3, [info.max, info.min, info.min + 1], [7, info.max, info.max - 2], [1, 0, 1]]
    [means] = check("ReduceMean", [np.array(rows, dtype), np.array([1])], {"keepdims": 0}, constants=[1], levels=LEVELS)
    assert means.tolist() == [int(Fraction(sum(map(int, row)), 3)) for row in rows]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_root_and_a_logarithm_of_a_sum_that_wraps(dtype: type[np.integer]) -> None:
    root = isqrt(np.iinfo(dtype).max) + 1  # its square is beyond the type
    [norm] = check("ReduceL2", [np.array([root, 0], dtype)], {"keepdims": 0}, levels=LEVELS)
    assert int(norm) == root
    most = int(np.iinfo(dtype).max)
    [log] = check("ReduceLogSum", [np.array([most, most, most], dtype)], {"keepdims": 0}, levels=LEVELS)
    assert int(log) == int(np.log(3.0 * most))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("alpha", "beta", "expected"), [(0.5, 0.5, 3), (1.0, 0.5, 4), (0.3, 1.0, 3), (2.0, 3.0, 15)])
def test_the_terms_of_gemm_are_added_before_they_are_truncated(
    dtype: type[np.integer], alpha: float, beta: float, expected: int
) -> None:
    three, one = np.array([[3]], dtype), np.array([[1]], dtype)
    [y] = check("Gemm", [three, one, three], {"alpha": alpha, "beta": beta}, levels=LEVELS)
    assert y.tolist() == [[expected]]


def test_whole_factors_of_gemm_are_exact() -> None:
    [y] = check("Gemm", [np.array([[2**53 + 1]]), np.array([[1]]), np.array([[1]])], {"alpha": 2.0, "beta": -1.0})
    assert y.tolist() == [[2**54 + 1]]
