"""Sizes in the shape of Reshape that are 0 in a call and so copy the operand's: such calls have their own program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import sardonyx as sx

REST = """g (float[N, M] x, float[K] k) => (float[P, Q] y) <int64[1] m = {-1}> {
    s = Shape<start=0, end=1>(x) t = Shape(k) d = Sub(s, t) shape = Concat<axis=0>(d, m) r = Reshape(x, shape)
    y = Neg(r) }"""
TWICE = """g (float[N, M] x, float[K] k, float[L] l) => (float[P, Q] y) {
    s = Shape<start=0, end=1>(x) u = Shape<start=1, end=2>(x) t = Shape(k) v = Shape(l) d = Sub(s, t) e = Sub(u, v)
    shape = Concat<axis=0>(d, e) r = Reshape(x, shape) y = Neg(r) }"""


def made(text: str) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(text)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)


def ramp(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_size_is_computed_and_copied_where_it_is_zero() -> None:
    program = sx.compile(made(REST), cache=False)
    for rows, columns, less in ((4, 3, 2), (3, 2, 3), (2, 5, 2), (3, 0, 3), (0, 2, 0), (6, 2, 3), (5, 1, 5)):
        x, k = ramp(rows, columns), ramp(less)
        want = -x.reshape(rows - less or rows, -1 if rows else columns)
        for got in (
            program(x, k)["y"], program.run(["y"], {"x": x, "k": k})[0], program.bind({"x": x, "k": k})()["y"],
        ):  # fmt: skip
            assert got.shape == want.shape and np.array_equal(got, want)
        out = np.empty_like(want)
        program.run_into({"y": out}, {"x": x, "k": k})
        assert np.array_equal(out, want)
    assert program.explain().to_dict()["hosted"] == []
    with pytest.raises(sx.InputError, match="at most one -1 in a shape"):
        program(ramp(2, 3), ramp(4))


def test_several_sizes_may_be_zero() -> None:
    program = sx.compile(made(TWICE), cache=False)
    for rows, columns in ((4, 3), (1, 5), (3, 3)):
        x = ramp(rows, columns)
        for k in (0, rows):
            for n in (0, columns):
                assert np.array_equal(program(x, ramp(k), ramp(n))["y"], -x)
    with pytest.raises(sx.InputError, match="keeps the number of elements"):
        program(ramp(4, 3), ramp(2), ramp(0))


def test_programs_from_the_cache_have_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path))
    file = tmp_path / "model.onnx"
    onnx.save(made(REST), file)
    x = ramp(3, 2)
    assert np.array_equal(sx.compile(file)(x, ramp(3))["y"], -x)
    again = sx.compile(file)
    assert again.seconds == {} and np.array_equal(again(x, ramp(3))["y"], -x)
