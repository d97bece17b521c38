"""Whatever a model says that its operators do not allow is a clear error.

The examples are the standard's own, of every operator, with one thing about each changed (`mutations.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from onnx import ModelProto
from sardonyx.runtime.errors import CompilerBug, Error

import sardonyx as sx

from .mutations import examples, mutations

SHARDS = 40
SAMPLE = 16
"""Each so manieth mutation is also tried by the fast suite, down to the graph."""


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
    except Exception as other:  # what is found here fails the test
        return f"{type(other).__name__}: {other}"
    return None


def test_a_sample_of_wrong_models_gives_clear_errors() -> None:
    found = {f"{name}: {label}": lowered(model) for name, label, model in chosen(0, SAMPLE)}
    assert len(found) > 1000
    assert {key: text for key, text in found.items() if text} == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SHARDS))
def test_wrong_models_give_clear_errors(part: int) -> None:
    found = {f"{name}: {label}": lowered(model) for name, label, model in chosen(part, SHARDS)}
    assert {key: text for key, text in found.items() if text} == {}


@pytest.mark.slow
def test_the_examples_themselves_are_right() -> None:
    for model in examples().values():
        assert lowered(model) is None
