"""Windows that are much longer than the data: only what is inside is gone through."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import sardonyx as sx

Array = np.ndarray[Any, Any]
HUGE = 2**31


def model(text: str) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 22)]
    return helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("channels", ["3", "C"])
@pytest.mark.parametrize("size", [4, 7, 40, HUGE, 2**63 - 1])
def test_neighbouring_channels(channels: str, size: int) -> None:
    text = f"(float[N, {channels}, 5] x) => (float[A, B, C] y) {{ y = LRN <size = {size}, alpha = 8.0> (x) }}"
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    before, after = min((size - 1) // 2, 3), min(size // 2, 3)
    squares = np.stack([(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(3)], 1)
    wanted = x / (1 + 8 / size * squares) ** 0.75
    np.testing.assert_allclose(sx.compile(model(text))(x)["y"], wanted, rtol=1e-5)


def pooled(name: str, part: Array, count: int) -> Array:
    if name == "MaxPool":
        return part.max(-1)
    return part.sum(-1) / count if name == "AveragePool" else np.sqrt((part**2).sum(-1))


@pytest.mark.parametrize("length", ["6", "L"])
@pytest.mark.parametrize("kernel", [1500, HUGE])
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool", "LpPool"])
def test_pools(name: str, kernel: int, length: str) -> None:
    pads, stride = (kernel - 3, kernel - 2), kernel - 2
    text = f"""(float[N, 2, {length}] x) => (float[A, B, C] y) {{
        y = {name} <kernel_shape = [{kernel}], pads = [{pads[0]}, {pads[1]}], strides = [{stride}]> (x)
    }}"""
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 6)
    y = sx.compile(model(text))(x)["y"]
    parts = [x[..., :3], x[..., 1:]]
    np.testing.assert_allclose(y, np.stack([pooled(name, p, p.shape[-1]) for p in parts], -1), rtol=1e-6)


def test_places_of_the_greatest() -> None:
    text = f"""(float[N, 2, L] x) => (float[A, B, C] y, int64[A, B, C] i) {{
        y, i = MaxPool <kernel_shape = [{HUGE}], pads = [{HUGE - 3}, 0], strides = [{HUGE}]> (x)
    }}"""
    x = np.array([[[1, 5, 5, 9], [7, 0, 2, 9]]], np.float32)
    made = sx.compile(model(text))(x)
    assert made["y"].tolist() == [[[5], [7]]] and made["i"].tolist() == [[[1], [4]]]


@pytest.mark.parametrize("skips", [0, 1, 5, HUGE, 2**63 - 1])
def test_skips_between_tokens(skips: int) -> None:
    text = f"""(int64[N] x) => (float[A] y) {{
        y = TfIdfVectorizer <max_gram_length = 2, min_gram_length = 1, max_skip_count = {skips}, mode = "TF",
            ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_int64s = [2, 3, 1, 2]> (x)
    }}"""
    program = sx.compile(model(text))
    assert program(np.array([1, 2, 3, 2, 1, 2]))["y"].tolist() == [3, 1, 4 if skips > 3 else 3 if skips > 1 else 2]
    assert program(np.array([], np.int64))["y"].tolist() == [0, 0, 0]
