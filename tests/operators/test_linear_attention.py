"""LinearAttention by every rule, with shared heads and a state from before."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx.parser import parse_model

import sardonyx as sx

from .cases import check

RNG = np.random.default_rng(0)


def floats(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return (RNG.standard_normal(shape) / 2).astype(dtype)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_rules(rule: str, dtype: type) -> None:
    batch, steps, heads, queries, keys, values = 2, 5, 2, 4, 3, 19
    attributes = {"kv_num_heads": heads, "q_num_heads": queries, "update_rule": rule}
    q, k, v = (floats(batch, steps, n, dtype=dtype) for n in (queries * keys, heads * keys, heads * values))
    decay = -np.abs(floats(batch, steps, heads * keys, dtype=dtype)) if "gated" in rule else None
    beta = np.abs(floats(batch, steps, heads, dtype=dtype)) if "delta" in rule else None
    past = floats(batch, heads, keys, values)
    check("LinearAttention", [q, k, v, past, decay, beta], attributes, results=2, tolerance=8)
    if decay is not None:
        decay = decay[:, :, :heads]
    if beta is not None:
        beta = beta[:, :, :1]
    without = [q, k, v, None, decay, beta]
    check("LinearAttention", without, attributes | {"scale": 0.3}, results=2, tolerance=8, forms=(False,))
    check("LinearAttention", [a if a is None else a[:, :0] for a in without], attributes, results=2, forms=(False,))


def test_axes_that_are_not_there_are_named() -> None:
    head = '<ir_version: 10, opset_import: ["" : 21]> g '
    texts = {
        "axis 2 is out of range": "(float[2, 3] x) => (float[A, B] y) { [named] y = MeanVarianceNormalization (x) }",
        "no axes behind": "(float[2, 3] x, float[2, 0] g) => (float[A, B] y) { [named] y = GridSample (x, g) }",
    }
    for message, text in texts.items():
        with pytest.raises(sx.ModelError, match=rf"(?s)named.*{message}"):
            sx.compile(parse_model(head + text))
