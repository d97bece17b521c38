"""Everything that a user can get wrong gives one clear error of the right class, at once, and harms nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sardonyx as sx

Make = Callable[..., onnx.ModelProto]
ADD = "g (float[N, 4] x, float[N, 4] y) => (float[N, 4] z) { z = Add(x, y) }"


@pytest.fixture(autouse=True)
def within_two_seconds() -> Iterator[None]:
    sx.compile  # noqa: B018  (imported before the clock starts)
    began = time.perf_counter()
    yield
    assert time.perf_counter() - began < 2


@pytest.fixture(scope="module")
def add() -> sx.Program:
    graph = onnx.parser.parse_graph(ADD)
    return sx.compile(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)]))


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": zeros(2, 4), "w": zeros(2, 4)}, "no input named 'w'; the inputs are 'x', 'y'"),
        ({"x": zeros(2, 4)}, "input 'y' is missing; the inputs are 'x', 'y'"),
        ({"x": zeros(2, 4), "y": zeros(2, 4).astype(np.float64)}, "input 'y' is float64, expected float32"),
        ({"x": zeros(2, 4), "y": zeros(2, 4, 1)}, "input 'y' has 3 axes (2, 4, 1), expected 2 axes"),
        ({"x": zeros(2, 5), "y": zeros(2, 4)}, "input 'x' axis 1 has size 5, expected 4"),
        (
            {"x": zeros(2, 4), "y": zeros(3, 4)},
            "input 'y' axis 0 has size 3, expected N = 2 (N is the size of 'x' axis 0)",
        ),
    ],
)
def test_inputs_that_do_not_fit(add: sx.Program, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(sx.InputError) as caught:
        add(feeds)
    assert str(caught.value) == message
    assert add(x=zeros(2, 4) + 1, y=zeros(2, 4))["z"].sum() == 8


def test_gather_out_of_range_at_run_time(model: Make) -> None:
    program = sx.compile(model("g (float[N, 4] x, int64[K] i) => (float[K, 4] z) { z = Gather <axis=0> (x, i) }"))
    with pytest.raises(sx.InputError, match=r"onnx.Gather: index out of range \(7, 3\)\n  --> node 'node_0'"):
        program(zeros(3, 4), np.array([0, 7]))
    assert program(zeros(3, 4), np.array([0, -3]))["z"].shape == (2, 4)


def test_reshape_that_does_not_fit_at_run_time(model: Make) -> None:
    program = sx.compile(model("g (float[N, 4] x, int64[2] s) => (float[A, B] z) { z = Reshape(x, s) }"))
    for shape, count in (([5, 3], 15), ([5, -1], 10)):
        with pytest.raises(sx.InputError, match=f"Reshape keeps the number of elements .*: 12 and {count} "):
            program(zeros(3, 4), np.array(shape))
    assert program(zeros(3, 4), np.array([6, -1]))["z"].shape == (6, 2)


def test_unknown_operators_are_named_together_when_compiling(model: Make) -> None:
    text = "g (float[N] x) => (float[N] z) { a = com.acme.Fancy(x) b = Relu(a) c = com.acme.Odd(b) z = org.o.Third(c) }"
    with pytest.raises(sx.UnsupportedError) as caught:
        sx.compile(model(text, "com.acme", "org.o"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 operators are not known"
    for line, operator, node in zip(lines[1:], ("com.acme::Fancy", "com.acme::Odd", "org.o::Third"), (0, 2, 3)):
        assert line.startswith(f"  --> {operator}: ") and line.endswith(f"; 'node_{node}'")


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -1])
def test_truncated_files(kept: float, digits: Path, tmp_path: Path) -> None:
    data = digits.read_bytes()
    end = int(len(data) * kept) if isinstance(kept, float) else kept
    (tmp_path / "cut.onnx").write_bytes(data[:end])
    with pytest.raises(sx.ModelError, match=r"the file is (empty|no ONNX model, or damaged)"):
        sx.compile(tmp_path / "cut.onnx")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(sx.ModelError, match=r"none.onnx: cannot be read: No such file"):
        sx.compile(tmp_path / "none.onnx")
    with pytest.raises(sx.ModelError, match="is not a regular file"):
        sx.compile(tmp_path)
    with pytest.raises(sx.ModelError, match="no ONNX model"):
        sx.compile(b"some text")


def test_assumptions(model: Make) -> None:
    with pytest.raises(sx.InputError, match="not a condition on dimensions: 'N =='"):
        sx.compile(model(ADD), assume=["N =="])
    with pytest.raises(sx.InputError, match="assume='Q == 3': the model has no symbol 'Q', but N"):
        sx.compile(model(ADD), assume=["Q == 3"])
    program = sx.compile(model(ADD), assume=["N == 2"])
    with pytest.raises(sx.InputError, match=r"N == 2 does not hold: 3 and 2 \(N is the size of 'x' axis 0\)"):
        program(zeros(3, 4), zeros(3, 4))


def test_levels(model: Make) -> None:
    with pytest.raises(ValueError, match="no level 'nope'; there are graph, kernels, tensor, loops, schedule, llvm"):
        sx.lower(model(ADD), to="nope")
    with pytest.raises(ValueError, match="the module is at level 'loops', past 'graph'"):
        sx.lower(sx.lower(model(ADD), to="loops"), to="graph")
