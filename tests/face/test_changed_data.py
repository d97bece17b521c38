"""Models whose weights are in files of their own: what a changed, cut off or missing file means for the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import sardonyx as sx

ONES = np.ones(4, np.float32)
GRAPHS = {
    "as it is": "y = Add (x, w)",
    "folded": "v = Add (w, w) y = Add (x, v)",
    "packed": "t = Reshape (w, two) y = MatMul (x, t)",
    "small": "v = Sqrt (w) y = Mul (x, v)",
}


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "cache"))


def saved(path: Path, body: str, value: float, data: str, size: int = 4) -> Path:
    graph = parser.parse_graph(f"g (float[N, {size}] x) => (float[N, M] y) {{ {body} }}")
    weight = np.full(size, value, np.float32)
    graph.initializer.append(numpy_helper.from_array(weight, "w"))
    graph.initializer.append(numpy_helper.from_array(np.array([size, 1]), "two"))
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / data).parent.mkdir(exist_ok=True)
    (path.parent / data).unlink(missing_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save_model(model, path, save_as_external_data=True, location=data, size_threshold=9)
    return path


def run(path: Path | str, size: int = 4, **options: Any) -> list[float]:
    return sx.compile(path, **options)(np.ones((1, size), np.float32))["y"].ravel().tolist()


@pytest.mark.parametrize("data", ["m.data", "sub/m.data"])
@pytest.mark.parametrize("size", [4, 100])
@pytest.mark.parametrize("body", GRAPHS.values(), ids=GRAPHS.keys())
def test_changed_data_is_another_program(tmp_path: Path, body: str, size: int, data: str) -> None:
    path = tmp_path / "m.onnx"
    results = []
    for value in (1, 7):
        saved(path, body, value, data, size)
        results.append(run(path, size))
        assert run(path, size) == results[-1] == run(path, size, cache=False)
    assert results[0] != results[1]


def test_a_model_that_is_copied_with_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = saved(tmp_path / "a" / "m.onnx", GRAPHS["as it is"], 1, "m.data")
    second = saved(tmp_path / "b" / "m.onnx", GRAPHS["as it is"], 7, "m.data")
    assert first.read_bytes() == second.read_bytes()
    for _ in range(2):
        assert (run(first), run(second)) == ([2] * 4, [8] * 4)
    monkeypatch.chdir(tmp_path)
    assert (run("a/m.onnx"), run("b/m.onnx")) == ([2] * 4, [8] * 4)


@pytest.mark.parametrize("size", [4, 100])
def test_data_that_is_gone(tmp_path: Path, size: int) -> None:
    path = saved(tmp_path / "m.onnx", GRAPHS["folded"], 1, "m.data", size)
    assert run(path, size) == [3] * size
    data = tmp_path / "m.data"
    content = data.read_bytes()
    data.write_bytes(content[:-4])
    with pytest.raises(sx.ModelError, match=r"m\.data"):
        run(path, size)
    data.unlink()
    with pytest.raises(sx.ModelError, match=r"m\.data"):
        run(path, size)
    data.write_bytes(content)
    assert run(path, size) == [3] * size
