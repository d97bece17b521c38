"""ONNX's backend tests on other inputs than the stored ones, against the reference functions.

The elements of each tensor of floats are put in another order: they stay in their domain, and no answer is the stored
one.  Integers stay, as they may be sizes, axes or indices, unless there is nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from sardonyx.runtime.errors import Error

import sardonyx as sx

from .test_onnx_backend import CHANCE, SHARDS, cases, data_of, difference, listed, shard


def shuffled(values: list[Any], seed: int) -> list[Any] | None:
    """The inputs with elements in another order; None where there is nothing to change."""
    rng = np.random.default_rng(seed)
    arrays = [v for v in values if isinstance(v, np.ndarray) and v.size > 1]
    chosen = [v for v in arrays if v.dtype.kind not in "iubOUS"] or [v for v in arrays if v.ndim > 1]
    chosen = [v for v in chosen if v.dtype.kind not in "OUS"]
    if not chosen:
        return None
    ids = set(map(id, chosen))
    return [rng.permutation(v.reshape(-1)).reshape(v.shape) if id(v) in ids else v for v in values]


def disagreement(model: onnx.ModelProto, values: list[Any], case: Any) -> str | None:
    """What the program gives other than the reference; None where that refuses these inputs."""
    initialized = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in initialized]
    feeds = {name: value for name, value in zip(names, values) if value is not None}
    try:
        want = sx.run(sx.lower(model, to="graph"), feeds)
    except Error:
        return None
    got = sx.compile(model)(feeds)
    found = (difference(got[o.name], want[o.name], case) for o in model.graph.output)
    return next((f for f in found if f), None)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", range(SHARDS))
def test_other_inputs(number: int) -> None:
    wrong: dict[str, str] = {}
    for name in shard(number):
        if listed().get(name) != "native" or name.startswith(CHANCE):
            continue
        model, sets = data_of(cases()[name])
        values = shuffled(sets[0][0], number) if sets else None
        if values is not None and (found := disagreement(model, values, cases()[name])) is not None:
            wrong[name] = found
    assert not wrong
