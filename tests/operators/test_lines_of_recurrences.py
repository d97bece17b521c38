"""Activations of recurrences that are lines: rounded once, as the operator of that name is."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx as sx

from .cases import model_of


@pytest.mark.parametrize("alpha", [0.2, 1 / 6, 0.7])
def test_a_step_by_hard_sigmoid_is_the_operators(alpha: float) -> None:
    """Next to the line's zero, where a rounded product would leave nothing."""
    zero = np.float32(-0.5 / alpha)
    x = (zero + np.arange(-64, 64, dtype=np.float32) * np.spacing(zero) * 3)[:, None, None].reshape(1, 128, 1)
    one, none = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    attributes = {"activations": ["HardSigmoid"], "activation_alpha": [alpha], "activation_beta": [0.5]}
    step = sx.compile(model_of("RNN", [x, one, none], attributes | {"hidden_size": 1}, [x[None]], constants=[1, 2]))
    alone = sx.compile(model_of("HardSigmoid", [x], {"alpha": alpha, "beta": 0.5}, [x]))
    want = alone(x)["y0"]
    assert np.unique(want).size > 8
    np.testing.assert_array_equal(step(x)["y0"].reshape(-1), want.reshape(-1))


def test_a_step_by_a_line_is_rounded_once() -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(1, 64, 1)
    one, none = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    attributes = {"activations": ["Affine"], "activation_alpha": [0.3], "activation_beta": [-0.1], "hidden_size": 1}
    step = sx.compile(model_of("RNN", [x, one, none], attributes, [x[None]], constants=[1, 2]))
    exact = x.astype(np.float64) * np.float32(0.3) + np.float64(np.float32(-0.1))
    np.testing.assert_array_equal(step(x)["y0"].reshape(-1), exact.astype(np.float32).reshape(-1))
