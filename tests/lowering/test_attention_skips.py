"""Attention leaves out blocks of keys that a mask gives no weight, and nothing of the result shows it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import sardonyx as sx

SIZE = 8
KEYS = pytest.mark.parametrize("keys", [530, 131], ids=["several blocks", "one block"])


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    kind = "bool" if mask.dtype == np.bool_ else "float"
    shape = ",".join(map(str, mask.shape))
    model = onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
    g (float[1,2,{q.shape[2]},{SIZE}] q, float[1,2,{k.shape[2]},{SIZE}] k, float[1,2,{k.shape[2]},{SIZE}] v,
       {kind}[{shape}] m) => (float[1,2,{q.shape[2]},{SIZE}] y) {{ y = Attention (q, k, v, m) }}""")
    return np.asarray(sx.compile(model, threads=1)(q, k, v, mask)["y"])


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = (q @ k.swapaxes(-1, -2) / np.sqrt(SIZE)).astype(np.float32)
    scores = np.where(mask, scores, np.float32(-np.inf)) if mask.dtype == np.bool_ else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True)).astype(np.float32)
        return (weights / weights.sum(-1, keepdims=True)) @ v


def operands(keys: int, scale: float = 1.0) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, keys, SIZE)).astype(np.float32) for _ in range(3))
    return [q * np.float32(scale), k, v]


def causal(keys: int, low: float) -> np.ndarray:
    return np.triu(np.full((keys, keys), low, np.float32), 1)


@KEYS
@pytest.mark.parametrize("low", [-1e9, -110.0, -20.0, -np.inf])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_masks(keys: int, low: float, scale: float) -> None:
    given = operands(keys, scale)
    for mask in (causal(keys, low), causal(keys, low) == 0):
        np.testing.assert_allclose(attention(*given, mask), expected(*given, mask), rtol=2e-4, atol=2e-5)


@KEYS
def test_masks_of_heads_and_of_all_rows(keys: int) -> None:
    given = operands(keys)
    heads = np.stack([causal(keys, -1e9), causal(keys, -20.0).T])[None]
    padding = np.where(np.arange(keys) < keys // 2, np.float32(0), np.float32(-1e9))[None]
    for mask in (heads, heads[:, :1], padding, padding.reshape(1, 1, 1, keys)):
        np.testing.assert_allclose(attention(*given, mask), expected(*given, mask), rtol=2e-4, atol=2e-5)


@KEYS
def test_rows_that_a_mask_leaves_no_keys(keys: int) -> None:
    given, mask = operands(keys), causal(keys, -np.inf)
    mask[40:60] = -np.inf
    got, wanted = attention(*given, mask), expected(*given, np.where(np.isinf(mask), np.float32(-1e30), mask))
    np.testing.assert_array_equal(got[:, :, 40:60], 0)
    np.testing.assert_allclose(got[:, :, :40], wanted[:, :, :40], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(got[:, :, 60:], wanted[:, :, 60:], rtol=2e-4, atol=2e-5)


@KEYS
@pytest.mark.parametrize("operand", [1, 2])
def test_nothing_with_values_that_are_not_finite_is_left_out(keys: int, operand: int) -> None:
    given, mask = operands(keys), causal(keys, -1e9)
    given[operand][0, 1, keys - 30, 3] = np.inf
    got, wanted = attention(*given, mask), expected(*given, mask)
    assert np.isnan(wanted[0, 1, :100]).any()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))


@KEYS
def test_a_mask_that_is_no_number_shows(keys: int) -> None:
    given, mask = operands(keys), causal(keys, -1e9)
    mask[7, keys - 3] = np.nan
    got = attention(*given, mask)
    assert np.isnan(got[:, :, 7]).all()
    assert np.isfinite(got[:, :, :7]).all() and np.isfinite(got[:, :, 8:]).all()
