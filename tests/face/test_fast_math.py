"""Fast math: fewer roundings where fusion has put operators together, on request only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sardonyx as sx
from sardonyx.cli import cli

Maker = Callable[..., onnx.ModelProto]
AXPY = "g (float[N] a, float[N] b, float[N] c) => (float[N] y) { p = Mul(a, b) y = Add(p, c) }"


def operands(count: int = 1000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(count, np.float32) for name in "abc"}


def rounded_once(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c by way of f64, in which the product of f32 is exact (and the sum nearly always as good)."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("y = Add(p, c)", lambda a, b, c: rounded_once(a, b, c)),
        ("y = Add(c, p)", lambda a, b, c: rounded_once(a, b, c)),
        ("y = Sub(p, c)", lambda a, b, c: rounded_once(a, b, -c)),
        ("y = Sub(c, p)", lambda a, b, c: rounded_once(-a, b, c)),
    ],
)
def test_a_product_and_a_sum_round_once(model: Maker, tail: str, expected: Callable[..., np.ndarray]) -> None:
    proto = model(AXPY.replace("y = Add(p, c)", tail))
    feeds = operands()
    fast = sx.compile(proto, fast_math=True, cache=False)(feeds)["y"]
    plain = sx.compile(proto, cache=False)(feeds)["y"]
    np.testing.assert_array_equal(fast, expected(**feeds))
    assert (fast != plain).sum() > 50


def test_a_product_that_is_read_twice_stays(model: Maker) -> None:
    text = AXPY.replace("(float[N] y)", "(float[N] y, float[N] p)")
    feeds = operands()
    fast, plain = (sx.compile(model(text), fast_math=f, cache=False)(feeds) for f in (True, False))
    assert all(fast[name].tobytes() == plain[name].tobytes() for name in ("y", "p"))


def test_a_quotient_by_a_constant_is_a_product(model: Maker) -> None:
    text = "g (float[N] a) => (float[N] y) { c = Constant<value_float = 3.0>() y = Div(a, c) }"
    a = operands()["a"]
    fast = sx.compile(model(text), fast_math=True, cache=False)(a)["y"]
    np.testing.assert_array_equal(fast, a * np.float32(1 / 3))
    assert sx.compile(model(text), cache=False)(a)["y"].tobytes() == (a / np.float32(3)).tobytes()


def test_epilogues_too_and_sums_over_an_axis_stay(model: Maker) -> None:
    text = """g (float[9, 40] x, float[40, 24] w, float[24] s, float[24] t) => (float[9, 24] y, float[9] z)
    { m = MatMul(x, w) p = Mul(m, s) y = Add(p, t) axes = Constant<value_ints = [1]>() q = Mul(x, x)
    z = ReduceSum<keepdims = 0>(q, axes) }"""
    rng = np.random.default_rng(1)
    feeds = {k: rng.standard_normal(v, np.float32) for k, v in (("x", (9, 40)), ("w", (40, 24)), ("s", 24), ("t", 24))}
    fast, plain = (sx.compile(model(text), fast_math=f, cache=False)(feeds) for f in (True, False))
    product = sx.compile(model("g (float[9, 40] x, float[40, 24] w) => (float[9, 24] m) { m = MatMul(x, w) }"))
    m = product(x=feeds["x"], w=feeds["w"])["m"]
    np.testing.assert_array_equal(fast["y"], rounded_once(m, feeds["s"], feeds["t"]))
    assert fast["y"].tobytes() != plain["y"].tobytes() and fast["z"].tobytes() == plain["z"].tobytes()


def test_both_keys_tell_the_programs_apart(model: Maker) -> None:
    feeds = operands()
    results = [sx.compile(model(AXPY), fast_math=f)(feeds)["y"].tobytes() for f in (True, False, True, False)]
    assert results[0] == results[2] != results[1] == results[3]


def test_it_does_not_depend_on_batch_and_threads(model: Maker) -> None:
    feeds = operands(100_000)
    program = sx.compile(model(AXPY), fast_math=True, cache=False)
    whole = program(feeds)["y"]
    assert program({k: v[:77] for k, v in feeds.items()})["y"].tobytes() == whole[:77].tobytes()
    assert sx.compile(model(AXPY), fast_math=True, threads=1)(feeds)["y"].tobytes() == whole.tobytes()


def test_what_is_said_of_it(digits: Path) -> None:
    with pytest.raises(sx.InputError, match="only one of them"):
        sx.compile(digits, exact=True, fast_math=True)
    assert sx.compile(digits, fast_math=True).explain().to_dict()["options"]["fast_math"] is True
    assert "fast math: a product and a sum" in CliRunner().invoke(cli, ["explain", str(digits), "--fast-math"]).stdout
    assert "fast math" not in CliRunner().invoke(cli, ["explain", str(digits)]).stdout
