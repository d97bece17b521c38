"""Pairs that lack a likely fact run in two versions, chosen as the model runs; both give the same bits."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.tools.explain import explain

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
BIAS = """(float[S, 16] x, float[16, 8] w, float[T, 8] b) => (float[P, 8] y) {
  m = MatMul (x, w) a = Add (m, b) y = Tanh (a) }"""
BATCH = """(float[B, T, 8] x) => (float[T, B, 8] y) {
  zero = Constant <value_int = 0> () two = Constant <value_int = 2> ()
  m = Softmax (x) t = Transpose <perm = [1, 0, 2]> (m) a = CumSum (t, zero) b = CumSum (t, two) y = Add (a, b) }"""
READ_TWICE = """(float[B, T, 8] x, float[8, 8] w) => (float[B, T, 8] m, float[T, B, 8] y) {
  m = MatMul (x, w) y = Transpose <perm = [1, 0, 2]> (m) }"""


def program_of(text: str, **options: bool) -> sx.Program:
    return sx.compile(onnx.parser.parse_model(HEAD + text), cache=False, **options)


def names(kernels: list[dict[str, object]]) -> list[object]:
    return [k["name"] for k in kernels]


def feeds_of(program: sx.Program, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        spec.name: rng.standard_normal([sizes.get(str(d), d) for d in spec.shape]).astype(np.float32)
        for spec in program.inputs
    }


@pytest.mark.parametrize(
    ("text", "condition", "holds", "otherwise", "bindings"),
    [
        (
            BIAS,
            "broadcast(S, T) == S",
            ["matmul_add_tanh_0"],
            ["matmul_0", "add_tanh_0"],
            [{"S": 5, "T": 5}, {"S": 5, "T": 1}, {"S": 1, "T": 3}, {"S": 0, "T": 1}],
        ),
        (
            BATCH,
            "B == 1",
            ["softmax_0"],
            ["softmax_0", "transpose_0"],
            [{"B": 1, "T": 7}, {"B": 3, "T": 7}, {"B": 1, "T": 0}, {"B": 0, "T": 2}],
        ),
    ],
)
def test_two_versions_give_the_same_bits(
    text: str, condition: str, holds: list[str], otherwise: list[str], bindings: list[dict[str, int]]
) -> None:
    program, unfused = program_of(text), program_of(text, fuse=False)
    (version,) = program.explain().to_dict()["versions"]
    assert version["condition"] == condition
    assert names(version["holds"]) == holds and names(version["otherwise"]) == otherwise
    assert f"where {condition}: {', '.join(holds)}; else {', '.join(otherwise)}" in str(program.explain())
    assert not unfused.explain().to_dict()["versions"]
    for sizes in bindings:
        feeds = feeds_of(program, sizes)
        found, want = program(feeds)["y"], unfused(feeds)["y"]
        assert found.shape == want.shape and found.tobytes() == want.tobytes()
        module = sx.lower(onnx.parser.parse_model(HEAD + text), to="kernels")
        np.testing.assert_allclose(sx.run(module, feeds)["y"], want, rtol=1e-5, atol=1e-5)


def test_kernels_are_listed_once() -> None:
    report = program_of(BIAS).explain().to_dict()
    assert names(report["kernels"]) == ["matmul_0", "add_tanh_0"]
    assert [p["missing"] for p in report["pairs"]] == ["broadcast(S, T) == S"]


def test_a_value_that_others_read_has_no_versions() -> None:
    report = explain(sx.lower(onnx.parser.parse_model(HEAD + READ_TWICE), to="kernels"))
    assert report["versions"] == [] and len(report["kernels"]) == 2


def test_an_assumption_leaves_one_version() -> None:
    model = onnx.parser.parse_model(HEAD + BATCH)
    report = explain(sx.lower(model, to="kernels", assume=["B == 1"]))
    assert report["versions"] == [] and names(report["kernels"]) == ["softmax_0", "cumsum_0", "cumsum_1", "add_0"]
