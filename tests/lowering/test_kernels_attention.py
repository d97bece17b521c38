"""The attention template against the reference function."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sardonyx.dialects.target import Target

from .kernel_cases import Tensor, targets
from .operator_cases import build, compare, reference, run

TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)


def random(shape: tuple[int, ...], dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(
    batch: int, heads: int, queries: int, keys: int, size: int, kv_heads: int = 0, value_size: int = 0,
    dtype: object = np.float32, joined: bool = False,
) -> list[np.ndarray]:  # fmt: skip
    kv, width = kv_heads or heads, value_size or size
    shapes = [(batch, heads, queries, size), (batch, kv, keys, size), (batch, kv, keys, width)]
    arrays = [random(s, dtype, i) for i, s in enumerate(shapes)]
    if joined:
        arrays = [a.transpose(0, 2, 1, 3).reshape(a.shape[0], a.shape[2], -1).copy() for a in arrays]
    return arrays


@TARGETS
def test_shapes(target: Target) -> None:
    for sizes in ((1, 2, 1, 1, 3), (2, 3, 17, 30, 20), (1, 1, 5, 600, 32), (1, 4, 20, 33, 16, 2, 40)):
        run("Attention", {}, qkv(*sizes), (0,), target, 3, 60.0)


def test_joined_heads() -> None:
    attributes = {"q_num_heads": 4, "kv_num_heads": 2}
    run("Attention", attributes, qkv(2, 4, 9, 20, 8, 2, joined=True), (0,), tolerance=60.0)


@pytest.mark.parametrize("dtype", ["f8", "f2", ml_dtypes.bfloat16], ids=str)
def test_other_types(dtype: object) -> None:
    run("Attention", {"is_causal": 1}, qkv(1, 2, 6, 20, 8, dtype=dtype), (0,), tolerance=60.0 if dtype == "f8" else 4.0)


@pytest.mark.parametrize(("query", "value"), [("f4", "f8"), ("f8", "f4"), ("f2", "f8"), ("f4", ml_dtypes.bfloat16)])
def test_values_of_another_type_than_the_queries(query: object, value: object) -> None:
    q, k, v = qkv(1, 2, 6, 300, 8, dtype=query)
    mask = random((6, 300), query, 9)
    run("Attention", {}, [q, k, v.astype(value), mask], (0,), tolerance=60.0)


STEPS: list[dict[str, Any]] = [{}, {"is_causal": 1}, {"softcap": 2.0, "scale": 0.7}, {"qk_matmul_output_mode": 3}]


@pytest.mark.parametrize("attributes", STEPS, ids=str)
def test_bf16_rounds_at_each_step_of_the_function_body(attributes: dict[str, Any]) -> None:
    outputs = (0, 3) if "qk_matmul_output_mode" in attributes else (0,)
    for sizes in ((1, 2, 3, 6, 8), (2, 2, 9, 37, 8, 1), (1, 1, 2, 600, 4)):
        run("Attention", attributes, qkv(*sizes, dtype=ml_dtypes.bfloat16), outputs, tolerance=1.0)


MASKS = [
    ((7, 40), np.float32), ((2, 1, 7, 40), np.float32), ((1, 3, 1, 40), np.float32), ((2, 3, 7, 40), np.bool_),
    ((7, 40), np.bool_), ((2, 1, 1, 40), np.bool_), ((7, 1), np.float32), ((7, 25), np.bool_),
    ((2, 3, 7, 30), np.float32),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dtype"), MASKS, ids=str)
def test_masks(shape: tuple[int, ...], dtype: type) -> None:
    mask = random(shape, seed=5) > -0.5 if dtype is np.bool_ else random(shape, seed=5)
    if dtype is np.bool_:
        mask[..., 0, :] = False  # a row that attends to nothing
    run("Attention", {}, [*qkv(2, 3, 7, 40, 16), mask], (0,), tolerance=60.0)


OPTIONS: list[dict[str, Any]] = [
    {"is_causal": 1}, {"scale": 0.3}, {"softcap": 2.0}, {"is_causal": 1, "left_window_size": 5},
    {"left_window_size": 3, "right_window_size": 4},
]  # fmt: skip


@pytest.mark.parametrize("attributes", OPTIONS, ids=str)
def test_options(attributes: dict[str, Any]) -> None:
    run("Attention", attributes, qkv(1, 2, 20, 20, 16), (0,), tolerance=60.0)
    run("Attention", attributes, qkv(1, 2, 3, 300, 16), (0,), tolerance=60.0)
    run("Attention", attributes, qkv(1, 2, 197, 197, 40, 1), (0,), tolerance=60.0)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores_are_delivered(mode: int) -> None:
    attributes = {"qk_matmul_output_mode": mode, "softcap": 3.0, "is_causal": 1}
    mask = random((6, 300), seed=7)
    run("Attention", attributes, [*qkv(1, 2, 6, 300, 8), mask], (0, 3), tolerance=60.0)


def test_past_and_present() -> None:
    for joined in (False, True):
        past = [random((2, 2, 13, 8), seed=8), random((2, 2, 13, 10), seed=9)]
        given = [*qkv(2, 4, 3, 3, 8, 2, 10, joined=joined), None, *past]
        heads = {"q_num_heads": 4, "kv_num_heads": 2} if joined else {}
        run("Attention", {"is_causal": 1, **heads}, given, (0, 1, 2), tolerance=60.0)
        run("Attention", heads, given, (0,), tolerance=60.0)


def test_valid_lengths() -> None:
    given = [*qkv(3, 2, 2, 30, 8), None, None, None, np.array([30, 2, 17])]
    run("Attention", {"is_causal": 1}, given, (0,), tolerance=60.0)
    run("Attention", {}, given, (0,), tolerance=60.0)


@TARGETS
def test_symbolic_sizes(target: Target) -> None:
    f4 = np.float32
    specs: list[Tensor | None] = [
        Tensor.of(f4, "d0", 2, "d1", 16), Tensor.of(f4, "d0", 2, "d2", 16), Tensor.of(f4, "d0", 2, "d2", 16),
        Tensor.of(f4, "d3", 1, "d1", "d2"),
    ]  # fmt: skip
    kernel = build("Attention", {}, specs, [Tensor.of(f4, "d0", 2, "d1", 16)], 4, target)
    for batch, queries, keys, masks in ((1, 1, 1, 1), (2, 20, 40, 1), (2, 3, 300, 2), (0, 2, 2, 1), (1, 0, 3, 1)):
        given = [*qkv(batch, 2, queries, keys, 16), random((masks, 1, queries, keys), seed=3)]
        found = np.empty((batch, 2, queries, 16), f4)
        kernel.run([batch, queries, keys, masks], *given, found)
        compare(found, reference("Attention", {}, given, 1)[0], 60.0)


def test_a_row_has_the_same_bits_among_others() -> None:
    q, k, v = qkv(2, 2, 30, 400, 24)
    y = run("Attention", {}, [q, k, v], (0,), tolerance=60.0)[0]
    np.testing.assert_array_equal(run("Attention", {}, [q, k, v], (0,), None, 3, 60.0)[0], y)
    for rows in (1, 2, 17):
        part = run("Attention", {}, [q[1:, :, :rows].copy(), k[1:], v[1:]], (0,), tolerance=60.0)[0]
        np.testing.assert_array_equal(part, y[1:, :, :rows])
