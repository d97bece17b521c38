"""Small models that were wrong or refused once, each with known and with symbolic sizes, and what the standard says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import sardonyx as sx

from .case import Case, by_reference
from .values import Array


def outputs_of(case: Case, dynamic: bool) -> list[Array]:
    return sx.compile(case.model(dynamic)).run(None, case.feeds())


WORDS = np.array(["a", "Zz"], object)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("words", [WORDS, WORDS[:1].reshape(()), WORDS.reshape(2, 1)], ids=["list", "scalar", "column"])
def test_an_initializer_of_strings_is_read_where_nothing_folds_it(words: Array, dynamic: bool) -> None:
    for case in (
        Case("StringConcat", (WORDS, words), constants=[1]),
        Case("Equal", (words, WORDS), constants=[0]),
        Case("Identity", (words,), constants=[0]),
        Case("Where", (np.array([True, False]), words, WORDS), constants=[1]),
    ):
        (got,) = outputs_of(case, dynamic)
        want = by_reference(case)
        assert not isinstance(want, Exception)
        assert got.shape == want[0].shape and got.tolist() == want[0].tolist()


def test_an_initializer_of_strings_is_an_output_and_survives_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path))
    tensor = helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"a", b"Zz"])
    info = helper.make_tensor_value_info("words", onnx.TensorProto.STRING, [2])
    model = helper.make_model(helper.make_graph([], "g", [], [info], [tensor]), ir_version=10)
    for _ in range(2):
        assert sx.compile(model)()["words"].tolist() == ["a", "Zz"]


@pytest.mark.parametrize("dynamic", [False, True])
def test_columns_of_truths_make_a_true_place_where_any_is_true(dynamic: bool) -> None:
    columns = np.array([[[True, True], [True, False]]])
    case = Case("Col2Im", (columns, np.array([3]), np.array([2])), {"dilations": [1]}, constants=[1, 2])
    (got,) = outputs_of(case, dynamic)
    assert got.tolist() == [[[True, True, False]]]


def test_the_length_of_the_block_tells_the_rank_of_an_image() -> None:
    """Only the sizes of the image are known; those of the block are data."""
    case = Case("Col2Im", (np.ones((1, 2, 2), np.float32), np.array([3]), np.array([2])), constants=[1])
    model = case.model(dynamic=True)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "length"
    assert sx.compile(model)(case.feeds())["y0"].tolist() == [[[1.0, 2.0, 1.0]]]
