"""The demo's model at each level: it prints and parses as the same text, and computes the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sardonyx.tools.opt import context_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import sardonyx as sx
from sardonyx.pipeline import LEVELS
from sardonyx.universe import UNIVERSE

Array = np.ndarray[Any, Any]
Make = Callable[..., onnx.ModelProto]


def parse(text: str) -> ModuleOp:
    return Parser(context_of(UNIVERSE), text).parse_module()


@pytest.mark.parametrize("level", [*LEVELS[:3], *(pytest.param(level, marks=pytest.mark.slow) for level in LEVELS[3:])])
def test_every_level_parses_back(level: str, digits: Path) -> None:
    text = str(sx.lower(digits, to=level))
    parsed = parse(text)
    parsed.verify()
    assert str(parsed) == text


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_runs_as_parsed(level: str, model: Make) -> None:
    text = "g (float[N, 6] x, float[6, 4] w) => (float[N, 4] y) { m = MatMul(x, w) r = Relu(m) y = Softmax(r) }"
    made = model(text)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((5, 6), dtype=np.float32), "w": rng.standard_normal((6, 4), dtype=np.float32)}
    want = sx.run(sx.lower(made, to="graph"), feeds)["y"]
    got = sx.run(parse(str(sx.lower(made, to=level))), feeds)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_the_demo_computes_the_same(level: str, digits: Path, images: Array) -> None:
    module = sx.lower(digits, to=level)
    want = sx.run(sx.lower(digits, to="graph"), {"image": images})["probabilities"]
    got = sx.run(module, {"image": images})["probabilities"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_module_goes_on_from_where_it_is(digits: Path, images: Array) -> None:
    module = sx.lower(digits, to="kernels")
    direct = sx.run(sx.lower(digits, to="llvm"), {"image": images})
    resumed = sx.run(sx.lower(sx.lower(module, to="loops"), to="llvm"), {"image": images})
    np.testing.assert_array_equal(resumed["probabilities"], direct["probabilities"])


def test_kernels_are_callable_and_show_themselves(digits: Path) -> None:
    program = sx.compile(digits)
    assert list(program.kernels) == list(program.explain().to_dict()["functions"])
    softmax = program.kernels["softmax_0"]
    x = np.random.default_rng(1).standard_normal((5, 10), dtype=np.float32)
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x), want / want.sum(1, keepdims=True), rtol=1e-5)
    assert "onnx.Softmax" in softmax.ir("kernels")
    assert "linalg.generic" in softmax.ir("tensor")
    assert "scf.for" in softmax.ir("loops")
    assert "ret" in softmax.asm
    with pytest.raises(KeyError, match="no kernel 'nope'; there are conv_relu_0"):
        program.kernels["nope"]


def test_outputs_in_every_shape_of_call(digits: Path, images: Array) -> None:
    program = sx.compile(digits)
    named = program(image=images)["probabilities"]
    for other in (program(images), program({"image": images})):
        np.testing.assert_array_equal(other["probabilities"], named)
    np.testing.assert_array_equal(program.run(None, {"image": images})[0], named)
    assert [(i.name, i.dtype, i.shape) for i in program.inputs] == [("image", np.dtype(np.float32), ("batch", 1, 8, 8))]
    assert program.outputs[0].shape == ("batch", 10)
