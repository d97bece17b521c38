"""Whatever a model says that its operators do not allow is a clear error, and what is odd but allowed comes out right.

The examples are the standard's own, of every operator, with one thing about each changed (`mutations.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from sardonyx.runtime.errors import CompilerBug, Error
from standard_cases import CHANCE

import sardonyx as sx

from .mutations import examples, mutations

SHARDS = 40
SAMPLE = 16
"""Each so manieth mutation is also tried by the fast suite, down to the graph."""
UNCERTAIN = ("nan", "1e+30")


def chosen(part: int, of: int) -> Iterator[tuple[str, str, ModelProto]]:
    """The name of the example, what is changed, and the model; one part of all of them."""
    for name, model in sorted(examples().items()):
        for label, changed in mutations(model):
            if zlib.crc32(f"{name} {label}".encode()) % of == part:
                yield name, label, changed


def lowered(model: ModelProto) -> str | None:
    """What goes wrong where neither a graph nor a clear error comes of a model."""
    try:
        sx.lower(model, to="graph")
    except CompilerBug as bug:
        return str(bug)
    except Error as error:
        return None if str(error) and not str(error).startswith("bug") else f"unclear: {error}"
    except Exception as other:
        return f"{type(other).__name__}: {other}"
    return None


def run(model: ModelProto) -> str | None:
    """What goes wrong where neither the reference's result nor a clear error comes of a model's first call."""
    try:
        program = sx.compile(model, cache=False)
        feeds = {spec.name: some(spec) for spec in program.inputs}
        if not all(isinstance(value, np.ndarray) for value in feeds.values()):
            return None
        want = sx.run(sx.lower(model, to="graph"), feeds)
        got = program(feeds)
    except CompilerBug as bug:
        return str(bug)
    except Error:
        return None
    except Exception as other:
        return f"{type(other).__name__}: {other}"
    return next((f"{key} differs" for key in want if not alike(got[key], want[key])), None)


def some(spec: Any) -> object:
    """A value for an input: small numbers, of which most are valid as an index, a size or an axis."""
    if "..." in spec.shape or spec.dtype == "object":
        return None
    shape = [3 if isinstance(size, str) else size for size in spec.shape]
    if np.prod(shape, dtype=float) > 1e6:
        return None
    values = np.random.default_rng(0).integers(0, 2, shape)
    return values.astype(spec.dtype) if spec.dtype in np.sctypeDict else None


def alike(got: Any, want: Any) -> bool:
    if not isinstance(want, np.ndarray) or want.dtype == object:
        return True
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return bool(np.allclose(got.astype(wide), want.astype(wide), 1e-2, 1e-2, equal_nan=True))


def test_a_sample_of_wrong_models_gives_clear_errors() -> None:
    found = {f"{name}: {label}": lowered(model) for name, label, model in chosen(0, SAMPLE)}
    assert len(found) > 1000
    assert {key: text for key, text in found.items() if text} == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SHARDS))
def test_wrong_models_give_clear_errors(part: int) -> None:
    found = {f"{name}: {label}": lowered(model) for name, label, model in chosen(part, SHARDS)}
    assert {key: text for key, text in found.items() if text} == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(SHARDS))
def test_odd_models_that_are_allowed_compute_what_the_reference_computes(part: int) -> None:
    found = {
        f"{name}: {label}": run(model)
        for name, label, model in chosen(part, SHARDS)
        if not name.startswith(CHANCE) and not label.endswith(UNCERTAIN)
    }
    assert {key: text for key, text in found.items() if text} == {}


@pytest.mark.slow
def test_the_examples_themselves_are_right() -> None:
    for model in examples().values():
        assert lowered(model) is None
