"""Shapes whose axes are data: the expressions against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from sardonyx.dialects.dims import Dim, as_dim
from sardonyx.semantics.chosen_axes import reduced_to_one, with_one, without_one

SHAPES = [(3,), (2, 5), (4, 1, 6), (2, 3, 4, 5)]


def values(dims: tuple[Dim, ...], **symbols: int) -> tuple[int, ...]:
    return tuple(d.evaluate(symbols) for d in dims)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_axis(shape: tuple[int, ...]) -> None:
    dims, axis = tuple(map(as_dim, shape)), Dim.symbol("v0")
    for at in range(-len(shape), len(shape)):
        array = np.empty(shape)
        assert values(without_one(dims, axis), v0=at) == array.sum(axis=at).shape
        assert values(reduced_to_one(dims, [axis]), v0=at) == array.sum(axis=at, keepdims=True).shape
    for at in range(-len(shape) - 1, len(shape) + 1):
        assert values(with_one(dims, axis), v0=at) == np.expand_dims(np.empty(shape), at).shape


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_two_axes_that_stay(shape: tuple[int, ...]) -> None:
    dims, axes = tuple(map(as_dim, shape)), [Dim.symbol("v0"), Dim.symbol("v1")]
    for first in range(len(shape)):
        for second in range(-len(shape), 0):
            kept = values(reduced_to_one(dims, axes), v0=first, v1=second)
            chosen = tuple({first, second % len(shape)})
            assert kept == np.empty(shape).sum(axis=chosen, keepdims=True).shape
