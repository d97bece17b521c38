"""Draws of random numbers: the same by every executor for a seed, others at each call without one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import sardonyx as sx

from .cases import check, model_of

BF16 = ml_dtypes.bfloat16
CODES = {np.float32: 1, np.float16: 10, np.float64: 11, BF16: 16}
LEVELS = ("graph", "kernels", "tensor")


@pytest.mark.parametrize("dtype", CODES, ids=lambda d: d.__name__)
def test_seeded_draws_are_the_reference_s(dtype: type) -> None:
    shape, code = [3, 0, 5], CODES[dtype]
    for shape in ([3, 1, 37], [0, 4], [1]):
        x = np.zeros(shape, np.float32)
        bounds = {"low": -3.0, "high": 5.0, "seed": 7.5, "dtype": code}
        moments = {"mean": 2.0, "scale": 0.5, "seed": -1.0, "dtype": code}
        check("RandomUniform", [], bounds | {"shape": shape}, forms=(False,), tolerance=4)
        check("RandomNormal", [], moments | {"shape": shape}, forms=(False,), tolerance=16)
        check("RandomUniformLike", [x], bounds, tolerance=4)
        check("RandomNormalLike", [x], moments, tolerance=16)


@pytest.mark.parametrize("dtype", CODES, ids=lambda d: d.__name__)
def test_bernoulli_multinomial_and_dropout(dtype: type) -> None:
    rng = np.random.default_rng(0)
    p = rng.random((5, 33)).astype(dtype)
    check("Bernoulli", [p], {"seed": 3.0}, levels=LEVELS)
    check("Bernoulli", [p], {"seed": 3.0, "dtype": 9})
    for rate, training in ((0.3, True), (0.0, True), (0.875, True), (0.5, False)):
        operands = [p, np.array(rate, np.float32), np.array(training)]
        check("Dropout", operands, {"seed": 11}, results=2, tolerance=1)
        check("Dropout", operands, {"seed": 11}, results=1, constants=[1, 2], tolerance=1)
    if dtype is not BF16:
        for classes in (1, 6):
            x = rng.standard_normal((4, classes)).astype(dtype)
            check("Multinomial", [x], {"seed": 5.0, "sample_size": 9, "dtype": 7}, levels=LEVELS)


@pytest.mark.parametrize("ratio", [1.5, 1.0, -0.25, np.nan])
def test_a_ratio_that_is_no_share(ratio: float) -> None:
    """Outside of training nothing is dropped, whatever the ratio is."""
    x, training, inference = np.ones(3, np.float32), np.array(True), np.array(False)
    operands = [x, np.array(ratio, np.float32), training]
    with pytest.raises(sx.ModelError, match=r"Dropout.*its ratio is (1.5|1|-0.25|nan), and must be in \[0, 1\)"):
        sx.compile(model_of("Dropout", operands, {}, [x], constants=[1, 2]))
    assert sx.compile(model_of("Dropout", [*operands[:2], inference], {}, [x], constants=[1, 2]))(x)["y0"].all()
    for constants in ([2], []):
        model = model_of("Dropout", operands, {}, [x], constants=constants)
        program = sx.compile(model)
        assert program.explain().to_dict()["hosted"] == []
        with pytest.raises(sx.InputError, match=r"(?s)Dropout: 'ratio' must be in \[0, 1\).*'node'"):
            program(*operands[: 3 - len(constants)])
        with pytest.raises(sx.InputError, match=r"the ratio is .*, and must be in"):
            feeds = {f"x{k}": v for k, v in enumerate(operands) if k not in constants}
            sx.run(sx.lower(model, to="graph"), feeds)
        if not constants:
            assert program(x, operands[1], inference)["y0"].all()


def test_draws_without_a_seed_differ() -> None:
    x = np.zeros((64,), np.float32)
    for name in ("RandomNormalLike", "RandomUniformLike"):
        model = model_of(name, [x], {}, [x])
        program = sx.compile(model)
        first, second = (program(x0=x)["y0"] for _ in range(2))
        assert len({*first.tolist(), *second.tolist()}) > 120
        runs = [sx.run(sx.lower(model, to=level), {"x0": x})["y0"] for level in ("graph", "tensor")]
        assert (runs[0] != runs[1]).mean() > 0.9


def test_two_nodes_without_a_seed_differ() -> None:
    x = np.zeros((64,), np.float32)
    model = model_of("RandomNormalLike", [x], {}, [x])
    second = type(model.graph.node[0]).FromString(model.graph.node[0].SerializeToString())
    second.name, second.output[0] = "second", "y1"
    model.graph.node.append(second)
    model.graph.output.append(type(model.graph.output[0]).FromString(model.graph.output[0].SerializeToString()))
    model.graph.output[1].name = "y1"
    outputs = sx.compile(model)(x0=x)
    assert (outputs["y0"] != outputs["y1"]).all()


def test_moments() -> None:
    x = np.zeros((1 << 16,), np.float32)
    draws = {
        name: sx.compile(model_of(name, [x], {}, [x]))(x0=x)["y0"] for name in ("RandomNormalLike", "RandomUniformLike")
    }
    normal, uniform = draws.values()
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02 and abs((normal**4).mean() - 3) < 0.2
    assert abs(uniform.mean() - 0.5) < 0.01 and uniform.min() >= 0 and uniform.max() < 1
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.02
