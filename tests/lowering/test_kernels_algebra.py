"""Einsum, determinants and rotary embeddings against the reference functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects.target import Target

from .kernel_cases import Tensor, targets
from .operator_cases import build, compare, reference, run

TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)


def random(shape: tuple[int, ...], dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


EQUATIONS = [
    ("ij,jk->ik", (5, 7), (7, 20)), ("ij,kj->ik", (5, 7), (20, 7)), ("bhqd,bhkd->bhqk", (2, 3, 5, 8), (2, 3, 9, 8)),
    ("bqhd,bkhd->bhqk", (2, 5, 3, 8), (2, 9, 3, 8)), ("bhqk,bkhd->bqhd", (2, 3, 5, 9), (2, 9, 3, 20)),
    ("ij,jk->ki", (5, 7), (7, 20)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("...i,...i->...", (4, 6), (1, 6)),
    ("i,j->ij", (5,), (20,)), ("ij->ji", (5, 18)), ("ii->i", (6, 6)), ("ii", (6, 6)), ("ij,ij->", (4, 5), (4, 5)),
    ("ijk->j", (3, 20, 4)), ("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)), ("i->", (0,)),
    ("bij,bjk->bik", (0, 2, 3), (0, 3, 4)), ("ab,cd->abcd", (2, 3), (4, 5)),
    ("bn,anm->bam", (2, 5), (3, 5, 4)), ("ij,j->i", (6, 40), (40,)),
]  # fmt: skip


@TARGETS
@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case: tuple[Any, ...], target: Target) -> None:
    equation, *shapes = case
    run("Einsum", {"equation": equation}, [random(s, seed=i) for i, s in enumerate(shapes)], (0,), target, 3, 40.0)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "i8"])
def test_einsum_of_other_types(dtype: str) -> None:
    for equation in ("ij,jk->ik", "ij,ik->jik"):
        given = [random((5, 6), dtype), random((6, 20) if equation == "ij,jk->ik" else (5, 20), dtype, 1)]
        run("Einsum", {"equation": equation}, given, tolerance=40.0)


def test_einsum_of_symbolic_sizes() -> None:
    specs = [Tensor.of(np.float32, "d0", "d1", 3), Tensor.of(np.float32, "d2", 3, "d1")]
    kernel = build(
        "Einsum", {"equation": "aij,ajk->aik"}, specs, [Tensor.of(np.float32, "broadcast(d0, d2)", "d1", "d1")], 3
    )
    for left, n, right in ((2, 4, 2), (1, 20, 3), (2, 5, 1), (2, 0, 2)):
        given = [random((left, n, 3)), random((right, 3, n), seed=1)]
        found = np.empty((max(left, right), n, n), np.float32)
        kernel.run([left, n, right], *given, found)
        compare(found, reference("Einsum", {"equation": "aij,ajk->aik"}, given, 1)[0], 40.0)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_det(dtype: str) -> None:
    run("Det", {}, [random((3, 2, 9, 9), dtype)], (0,), None, 3, 20.0)
    run("Det", {}, [np.array([[0, 1], [1, 0]], dtype)])
    run("Det", {}, [np.zeros((2, 3, 3), dtype)])
    run("Det", {}, [random((2, 0, 0), dtype)])


@TARGETS
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_rotary_embedding(dtype: str, interleaved: int, target: Target) -> None:
    x = random((2, 3, 5, 44), dtype)
    cosines, sines = random((2, 5, 22), dtype, 1), random((2, 5, 22), dtype, 2)
    run("RotaryEmbedding", {"interleaved": interleaved}, [x, cosines, sines], (0,), target, 3, 4.0)
    joined = x.transpose(0, 2, 1, 3).reshape(2, 5, -1).copy()
    caches = [random((30, 10), dtype, 1), random((30, 10), dtype, 2)]
    positions = np.random.default_rng(3).integers(0, 30, (2, 5))
    attributes = {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 20}
    run("RotaryEmbedding", attributes, [joined, *caches, positions], (0,), target, tolerance=4.0)


def test_a_position_outside_of_the_cache_is_reported() -> None:
    specs = [Tensor.of(np.float32, 1, 1, 2, 4), *[Tensor.of(np.float32, 5, 2)] * 2, Tensor.of(np.int64, 1, 2)]
    kernel = build("RotaryEmbedding", {}, specs, [Tensor.of(np.float32, 1, 1, 2, 4)])
    x, cache = random((1, 1, 2, 4)), random((5, 2))
    kernel.run([], x, cache, cache, np.array([[4, 5]]), np.empty_like(x))
    assert [values for _, values in kernel.reports] == [[5, 5]]
