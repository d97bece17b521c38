"""Sequences and optionals as inputs: what a call does with them, and how little Python it runs for that."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx as sx

TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 3])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)


def identity(kind: onnx.TypeProto) -> onnx.ModelProto:
    ends = [helper.make_value_info(name, kind) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"], name="same")], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


def python_calls(program: Any, value: object) -> int:
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        program.run(None, {"x": value})
    finally:
        sys.setprofile(None)
    return count


def test_a_tensor_of_a_sequence_costs_one_call_of_python() -> None:
    program = sx.compile(identity(SEQUENCE))
    few, many = ([np.ones((2, 3), np.float32)] * count for count in (1, 11))
    program.run(None, {"x": few})
    assert python_calls(program, many) - python_calls(program, few) <= 10


def test_one_sequence_after_another_of_other_sizes() -> None:
    program = sx.compile(identity(SEQUENCE))
    for sizes in [(2, 5), (), (0,), (2, 5), (7, 7, 1)]:
        given = [np.full((size, 3), size, np.float32) for size in sizes]
        (got,) = program.run(None, {"x": given})
        assert len(got) == len(given)
        for mine, wanted in zip(got, given, strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([np.ones((2, 3), np.float32), np.ones(3, np.float32)], r"input 'x\[1\]' has 1 axis \(3,\), expected 2 axes"),
        ([np.ones((2, 3))], r"input 'x\[0\]' is float64, expected float32"),
        (np.ones((2, 3), np.float32), "input 'x' is a ndarray, expected a list"),
    ],
)
def test_a_sequence_that_does_not_fit(value: object, text: str) -> None:
    program = sx.compile(identity(SEQUENCE))
    with pytest.raises(sx.InputError, match=text):
        program.run(None, {"x": value})


def test_what_an_optional_holds() -> None:
    program = sx.compile(identity(helper.make_optional_type_proto(SEQUENCE)))
    assert program.run(None, {"x": None}) == [None]
    column_major = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    ((got,),) = program.run(None, {"x": [column_major]})
    np.testing.assert_array_equal(got, column_major)
