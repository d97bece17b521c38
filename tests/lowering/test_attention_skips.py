"""Attention leaves out blocks of keys that a mask gives no weight, and nothing of the result shows it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import sardonyx as sx

KEYS, QUERIES, SIZE = 530, 530, 8


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    kind = "bool" if mask.dtype == np.bool_ else "float"
    model = onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
    g (float[1,2,{QUERIES},{SIZE}] q, float[1,2,{KEYS},{SIZE}] k, float[1,2,{KEYS},{SIZE}] v,
       {kind}[{QUERIES},{KEYS}] m) => (float[1,2,{QUERIES},{SIZE}] y) {{ y = Attention (q, k, v, m) }}""")
    return np.asarray(sx.compile(model, threads=1)(q, k, v, mask)["y"])


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = (q @ k.swapaxes(-1, -2) / np.sqrt(SIZE)).astype(np.float32)
    scores = np.where(mask, scores, np.float32(-np.inf)) if mask.dtype == np.bool_ else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True)).astype(np.float32)
        return (weights / weights.sum(-1, keepdims=True)) @ v


def operands(scale: float = 1.0) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(1, 2, QUERIES, SIZE), (1, 2, KEYS, SIZE), (1, 2, KEYS, SIZE)]
    q, k, v = (random.standard_normal(s).astype(np.float32) for s in shapes)
    return [q * np.float32(scale), k, v]


def causal(low: float) -> np.ndarray:
    return np.triu(np.full((QUERIES, KEYS), low, np.float32), 1)


@pytest.mark.parametrize("mask", [causal(-1e9), causal(-110.0), causal(-20.0), causal(-1e9) == 0, causal(-np.inf)])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_masks(mask: np.ndarray, scale: float) -> None:
    given = operands(scale)
    np.testing.assert_allclose(attention(*given, mask), expected(*given, mask), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("operand", [1, 2])
def test_no_block_with_values_that_are_not_finite_is_left_out(operand: int) -> None:
    given, mask = operands(), causal(-1e9)
    given[operand][0, 1, 500, 3] = np.inf
    got, wanted = attention(*given, mask), expected(*given, mask)
    assert np.isnan(wanted[0, 1, :100]).any()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
