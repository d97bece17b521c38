"""Operators and patterns from outside of the product: fused, hosted, seen at every level, and checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects import math

import sardonyx as sx
from sardonyx.pipeline import LEVELS

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "plugins"
sys.path.append(str(EXAMPLES))

from operators import SQUAREPLUS, ranks, squareplus  # noqa: E402
from patterns import FoldRootOfSquare  # noqa: E402

Make = Callable[..., onnx.ModelProto]
OPS, PATTERNS = (SQUAREPLUS, ranks), (FoldRootOfSquare(),)
TEXT = """g (float[N, 8] x, float[8, 4] w) => (float[N, 4] y, float[N, 4] r) {
    m = MatMul(x, w)
    s = Mul(m, m)
    a = Sqrt(s)
    y = com.example.Squareplus <b = 2.0> (a)
    r = com.example.Ranks(y)
}"""


def feeds() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((3, 8), dtype=np.float32), "w": rng.standard_normal((8, 4), dtype=np.float32)}


def expected() -> np.ndarray[Any, Any]:
    m = feeds()["x"] @ feeds()["w"]
    return squareplus(np.abs(m), b=2.0)


def test_the_examples_are_short() -> None:
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text().splitlines()) < 50


def test_a_users_operator_is_fused_and_a_users_pattern_is_named(model: Make) -> None:
    program = sx.compile(model(TEXT, "com.example"), ops=OPS, patterns=PATTERNS)
    report = program.explain().to_dict()
    [function] = report["functions"].values()
    assert function["ops"] == ["onnx.MatMul", "onnx.Abs", "com.example::Squareplus"]
    assert function["patterns"] == ["FoldRootOfSquare"]
    assert report["hosted"] == ["com.example::Ranks"]
    assert "rewritten by FoldRootOfSquare" in str(program.explain())
    outputs = program(feeds())
    np.testing.assert_allclose(outputs["y"], expected(), rtol=1e-5)
    np.testing.assert_array_equal(outputs["r"], ranks(outputs["y"]))
    [kernel] = program.kernels.values()
    assert "math.sqrt" in kernel.ir("tensor")
    np.testing.assert_array_equal(kernel(*feeds().values()), outputs["y"])


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_runs(level: str, model: Make) -> None:
    module = sx.lower(model(TEXT, "com.example"), to=level, ops=OPS)
    outputs = sx.run(module, feeds())
    np.testing.assert_allclose(outputs["y"], expected(), rtol=1e-5)
    np.testing.assert_array_equal(outputs["r"], ranks(outputs["y"]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "double"])
def test_bodies_are_built_for_each_type(dtype: str, model: Make) -> None:
    made = model(f"g ({dtype}[N] x) => ({dtype}[N] y) {{ y = com.example.Squareplus(x) }}", "com.example")
    program = sx.compile(made, ops=[SQUAREPLUS])
    assert program.explain().to_dict()["hosted"] == []
    x = np.linspace(-3, 3, 37).astype(program.inputs[0].dtype)
    got = program(x)["y"].astype(np.float64)
    np.testing.assert_allclose(got, squareplus(x).astype(np.float64), rtol=1e-2 if dtype != "double" else 1e-14)


def test_broadcasting(model: Make) -> None:
    hypot = sx.pointwise(
        "com.example::Hypot",
        reference=np.hypot,
        body=lambda s, a, b, t: s.unary(math.SqrtOp, s.add(s.mul(a, a, t), s.mul(b, b, t), t)),
    )
    made = model("g (float[N, 1] x, float[M] z) => (float[N, M] y) { y = com.example.Hypot(x, z) }", "com.example")
    program = sx.compile(made, ops=[hypot])
    x, z = np.ones((4, 1), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(program(x, z)["y"], np.hypot(x, z), rtol=1e-6)
    assert program.outputs[0].shape == ("N", "M")


def test_shape_rules(model: Make) -> None:
    @sx.op("com.example::Sums", shape=lambda c: [c.like(0, c.dims(0)[:-1])])
    def sums(x: np.ndarray[Any, Any]) -> Any:
        return x.sum(-1)

    program = sx.compile(
        model("g (float[N, 4] x) => (float[A] y) { a = com.example.Sums(x) y = Relu(a) }", "com.example"), ops=[sums]
    )
    assert program.outputs[0].shape == ("N",)
    np.testing.assert_array_equal(program(np.ones((2, 4), np.float32))["y"], [4, 4])


def test_two_bodies_of_one_name_are_two_kernels(model: Make) -> None:
    made = model("g (float[N] x) => (float[N] y) { y = com.example.Step(x) }", "com.example")
    x = np.ones(3, np.float32)
    for amount in (1.0, 2.0):
        step = sx.pointwise(
            "com.example::Step",
            reference=lambda x, amount=amount: x + np.float32(amount),
            body=lambda s, x, t, amount=amount: s.add(x, s.constant(amount, t), t),
        )
        np.testing.assert_array_equal(sx.compile(made, ops=[step])(x)["y"], x + amount)


def test_mistakes_are_named(model: Make) -> None:
    made = model("g (float[N] x) => (float[N] y) { y = com.example.Foo(x) }", "com.example")
    x = np.ones(3, np.float32)

    @sx.op("com.example::Foo")
    def wide(x: Any) -> Any:
        return x.astype(np.float64)

    with pytest.raises(sx.InputError, match=r"com.example::Foo gave float64 of rank 1, expected float32 of rank 1"):
        sx.compile(made, ops=[wide])(x)

    @sx.op("com.example::Foo")
    def short(x: Any) -> Any:
        return x[1:]

    with pytest.raises(sx.InputError, match=r"(?s)Foo gave the sizes \(2,\), its shape rule says \(3,\).*node"):
        sx.compile(made, ops=[short])(x)

    @sx.op("com.example::Foo")
    def fails(x: Any) -> Any:
        raise RuntimeError("on purpose")

    with pytest.raises(sx.InputError, match=r"function of com.example::Foo raised RuntimeError: on purpose"):
        sx.compile(made, ops=[fails])(x)
    body = sx.pointwise("com.example::Foo", reference=np.abs, body=lambda s, x, t: s.compare("gt", x, x, t))
    with pytest.raises(sx.InputError, match=r"the body of com.example::Foo gave i1, expected a value of type f32"):
        sx.compile(made, ops=[body])
    newer = sx.op("com.example::Foo", since=2)(np.abs)
    with pytest.raises(sx.UnsupportedError, match=r"com.example::Foo"):
        sx.compile(made, ops=[newer])
    with pytest.raises(sx.InputError, match="given twice"):
        sx.compile(made, ops=[wide, fails])
    with pytest.raises(sx.InputError, match="no operator name"):
        sx.op("Foo")
    with pytest.raises(sx.InputError, match="are not replaced"):
        sx.op("ai.onnx::Relu")


def test_operands_cannot_be_written_to(model: Make) -> None:
    @sx.op("com.example::Twice")
    def twice(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        x *= 2
        return x

    made = model("g (float[N] x) => (float[N] y) { y = com.example.Twice(x) }", "com.example")
    x = np.ones(3, np.float32)
    for run in (
        lambda: sx.compile(made, ops=[twice])(x),
        lambda: sx.run(sx.lower(made, to="graph", ops=[twice]), {"x": x}),
    ):
        with pytest.raises(sx.InputError, match="Twice raised ValueError: output array is read-only"):
            run()
    assert (x == 1).all()
