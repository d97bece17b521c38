"""ONNX's own backend tests against a list of those that pass, checked both ways.

`passing.txt` has the name of each test that passes, and `native` or `hosted` for how its operators run.  What is not
listed must fail: so that the list tells the truth, and what has begun to pass gets a line.  The list is written by
`python tests/backend/test_onnx_backend.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import result_difference
from result_difference import Array, near
from sardonyx.runtime.errors import CompilerBug, Error
from standard_cases import CHANCE, cases, data_of

import sardonyx.backend

LIST = Path(__file__).with_name("passing.txt")
SHARDS = 100
SAMPLE = 150
"""Each so manieth listed test is also run by the fast suite."""


@cache
def listed() -> dict[str, str]:
    return dict(line.split() for line in LIST.read_text().splitlines())


def difference(got: Any, want: Any, case: Any) -> str | None:
    """What is wrong with a result; None where nothing is."""

    def alike(got: Array, want: Array) -> Any:
        if case.name.startswith(CHANCE):
            return True
        if want.dtype.kind in "biu":
            slack = 1 if "quant" in case.name and want.dtype != bool else 0
            return np.abs(got.astype(np.int64) - want.astype(np.int64)) <= slack
        return near(got, want, case.rtol, case.atol)

    return result_difference.difference(got, want, alike)


def symbolic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a symbol of its own for each size of an input, and outputs of any shape.

    Lists of integers keep their lengths, which may decide a rank.
    """
    found = onnx.ModelProto.FromString(model.SerializeToString())
    initialized = {i.name for i in found.graph.initializer}
    tensors = [i.type.tensor_type for i in found.graph.input if i.name not in initialized]
    count = 0
    for tensor in tensors:
        if len(tensor.shape.dim) == 1 and tensor.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
            continue
        for dim in tensor.shape.dim:
            dim.dim_param, count = f"d{count}", count + 1
    for info in found.graph.output:
        if info.type.WhichOneof("value") == "tensor_type":
            info.type.tensor_type.ClearField("shape")
    del found.graph.value_info[:]
    return found


def outcome(case: Any, dynamic: bool = False) -> str:
    """`native`, `hosted`, or what is wrong."""
    model, sets = data_of(case)
    model = symbolic(model) if dynamic else model
    try:
        rep = sardonyx.backend.prepare(model)
        for inputs, outputs in sets:
            for got, want in zip(rep.run(inputs), outputs):
                if (found := difference(got, want, case)) is not None:
                    return f"wrong: {found}"
    except CompilerBug as error:
        return f"bug: {error}"
    except (Error, NotImplementedError) as error:
        return f"refused: {error}"
    return "hosted" if rep.hosted else "native"


def shard(number: int) -> Iterator[str]:
    """The names of one part of the tests."""
    return (name for at, name in enumerate(sorted(cases())) if at % SHARDS == number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SHARDS))
def test_the_list_tells_what_passes_and_how(number: int) -> None:
    found = {name: outcome(cases()[name]) for name in shard(number)}
    passing = {name: text for name, text in found.items() if text in ("native", "hosted")}
    expected = {name: listed()[name] for name in found if name in listed()}
    assert passing == expected, {n: t for n, t in found.items() if passing.get(n) != expected.get(n)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", range(SHARDS))
def test_it_is_the_same_where_all_sizes_are_symbols(number: int) -> None:
    expected = listed()
    wrong = {name: t for name in shard(number) if (t := outcome(cases()[name], dynamic=True)) != expected.get(name, t)}
    assert not wrong


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_sample_passes(dynamic: bool) -> None:
    names = sorted(listed())[int(dynamic) :: SAMPLE]
    assert {name: outcome(cases()[name], dynamic) for name in names} == {name: listed()[name] for name in names}


def test_the_list_has_no_other_names() -> None:
    assert set(listed()) <= set(cases())


def test_nearly_all_pass() -> None:
    assert len(set(cases()) - set(listed())) < len(cases()) // 50


if __name__ == "__main__":
    lines: list[str] = []
    for test_name, test_case in sorted(cases().items()):
        text = outcome(test_case)
        if text in ("native", "hosted"):
            lines.append(f"{test_name} {text}\n")
        else:
            print(test_name, text.splitlines()[0], file=sys.stderr)
    LIST.write_text("".join(lines))
