"""Masks of Attention with fewer keys than there are hide the others since opset 24; before, one key serves all."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import sardonyx as sx

KEYS = 5


def model_of(opset: int, kind: str, shape: str, keys: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : {opset}]>
    g (float[1,2,3,4] q, float[1,2,{keys},4] k, float[1,2,{keys},4] v, {kind}[{shape}] m) => (float[1,2,3,4] y)
    {{ y = Attention (q, k, v, m) }}""")


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray, opset: int) -> np.ndarray:
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask.astype(np.float64)
    if opset >= 24:
        bias = np.pad(bias, [(0, 0)] * 3 + [(0, KEYS - bias.shape[-1])], constant_values=-np.inf)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 2 + bias
    top = scores.max(-1, keepdims=True)
    weights = np.where(np.isneginf(top), 0.0, np.exp(scores - np.where(np.isneginf(top), 0.0, top)))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1.0, total) @ v


def operands() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((1, 2, n, 4)).astype(np.float32) for n in (3, KEYS, KEYS)]


def masks(width: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    added = random.standard_normal((1, 1, 3, width)).astype(np.float32)
    return [added, added > 0, added[:, :, :1]]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("opset", "width"), [(23, 1), (24, 1), (25, 1), (24, 3), (25, 0), (23, KEYS), (25, KEYS)])
def test_short_masks(opset: int, width: int, symbolic: bool) -> None:
    for mask in masks(width):
        shape = "A,B,C,D" if symbolic else ",".join(map(str, mask.shape))
        model = model_of(opset, "bool" if mask.dtype == np.bool_ else "float", shape, "S" if symbolic else str(KEYS))
        program, given = sx.compile(model, threads=1), [*operands(), mask]
        assert program.explain().to_dict()["hosted"] == []
        feeds = dict(zip("qkvm", given, strict=True))
        wanted = expected(*given, opset)
        np.testing.assert_allclose(program(feeds)["y"], wanted, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(sx.run(sx.lower(model, to="graph"), feeds)["y"], wanted, rtol=2e-5, atol=2e-6)
