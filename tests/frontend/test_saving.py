"""Models written as files: data that takes its place beside them, and nothing left of what is not kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import info, model, node
from onnx import ModelProto, TensorProto, helper, load, numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnxruntime import InferenceSession
from sardonyx.frontend.importer import import_model
from sardonyx.frontend.saving import drafted
from sardonyx.runtime.errors import InputError

WEIGHTS = {"w": np.arange(2000, dtype=np.float32), "v": np.arange(2000, dtype=np.float32) + 0.5}


def apart(location: str, *, in_body: bool = False) -> ModelProto:
    """A model whose two weights are one after the other in a file; a third tensor is the first again."""
    tensors = []
    for name, offset in (("w", 8), ("v", 8008), ("u", 8)):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2000], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, "offset": offset, "length": 8000}.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    nodes = [node("Mul", ["x", "w"], ["a"]), node("Mul", ["a", "u"], ["b"]), node("Add", ["b", "v"], ["y"])]
    if not in_body:
        return model(nodes, [info("x", [2000])], [info("y", [2000])], initializer=tensors)
    body = helper.make_graph(nodes, "b", [], [info("y", [2000])], tensors)
    other = helper.make_graph([node("Neg", ["x"], ["z"])], "e", [], [info("z", [2000])])
    chosen = node("If", ["c"], ["r"], then_branch=body, else_branch=other)
    return model([chosen], [info("x", [2000]), info("c", [], TensorProto.BOOL)], [info("r", [2000])])


def written(path: Path, m: ModelProto, location: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    data = path.parent / location
    data.parent.mkdir(exist_ok=True)
    data.write_bytes(b"\1" * 8 + WEIGHTS["w"].tobytes() + WEIGHTS["v"].tobytes())
    path.write_bytes(m.SerializeToString())
    return path


def result(path: Path, **feeds: np.ndarray) -> np.ndarray:
    feeds["x"] = np.linspace(-1, 1, 2000, dtype=np.float32)
    return InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def save(m: ModelProto, output: Path, folder: Path | None, **options: int) -> list[str]:
    """Keeps the model, and tells what is in the output's folder."""
    with drafted(m, output, folder, **options) as draft:
        draft.keep()
    return sorted(p.name for p in output.parent.iterdir())


@pytest.mark.parametrize("in_body", [False, True])
def test_data_goes_along_to_another_folder(tmp_path: Path, in_body: bool) -> None:
    source = written(tmp_path / "in" / "m.onnx", apart("w.bin", in_body=in_body), "w.bin")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "w.bin").write_bytes(b"somebody else's")
    output = tmp_path / "out" / "s.onnx"
    assert save(load(source, load_external_data=False), output, source.parent) == ["s.onnx", "s.onnx.data", "w.bin"]
    feeds = {"c": np.array(True)} if in_body else {}
    wanted = result(source, **feeds)
    assert np.array_equal(result(output, **feeds), wanted)
    (tmp_path / "in" / "w.bin").unlink()
    assert np.array_equal(result(output, **feeds), wanted)
    assert (tmp_path / "out" / "w.bin").read_bytes() == b"somebody else's"
    assert (tmp_path / "out" / "s.onnx.data").stat().st_size < 3 * 8000  # what is there twice is written once
    import_model(output)


def test_data_stays_where_it_is_in_the_same_folder(tmp_path: Path) -> None:
    source = written(tmp_path / "in" / "m.onnx", apart("w.bin"), "w.bin")
    m = load(source, load_external_data=False)
    again = tmp_path / "in" / ".." / "in" / "s.onnx"
    assert save(m, again, source.parent) == ["m.onnx", "s.onnx", "w.bin"]
    assert load(again, load_external_data=False) == load(source, load_external_data=False)
    assert save(m, source, source.parent) == ["m.onnx", "s.onnx", "w.bin"]  # over itself
    assert np.array_equal(result(source), result(again))


def test_the_data_of_the_source_is_never_written_over(tmp_path: Path) -> None:
    source = written(tmp_path / "in" / "m.onnx", apart("sub/s.onnx.data"), "sub/s.onnx.data")
    output = tmp_path / "in" / "sub" / "s.onnx"
    wanted = result(source)
    m = load(source, load_external_data=False)
    assert save(m, output, source.parent) == ["s.onnx", "s.onnx.1.data", "s.onnx.data"]
    assert np.array_equal(result(source), wanted) and np.array_equal(result(output), wanted)
    with pytest.raises(InputError, match="the model's own data is there"):
        save(load(source, load_external_data=False), tmp_path / "in" / "sub" / "s.onnx.data", source.parent)
    assert np.array_equal(result(source), wanted)


@pytest.mark.parametrize("kind", ["raw", "listed", "a constant", "in a body"])
def test_what_a_file_cannot_hold_is_data_beside_it(tmp_path: Path, kind: str) -> None:
    m = apart("w.bin", in_body=kind == "in a body")
    folder = written(tmp_path / "m.onnx", m, "w.bin").parent
    load_external_data_for_model(m, str(folder))
    if kind == "listed":
        for tensor in m.graph.initializer:
            tensor.float_data.extend(numpy_helper.to_array(tensor).tolist())
            tensor.ClearField("raw_data")
    if kind == "a constant":
        for tensor in m.graph.initializer:
            m.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
        m.graph.ClearField("initializer")
    (folder / "m.onnx").unlink()
    output = folder / "s.onnx"
    assert save(m, output, None, most_bytes=1 << 20) == ["s.onnx", "w.bin"]
    feeds = {"c": np.array(True)} if kind == "in a body" else {}
    wanted = result(output, **feeds)
    assert save(m, output, None, most_bytes=10_000) == ["s.onnx", "s.onnx.data", "w.bin"]
    assert output.stat().st_size < 2000
    assert np.array_equal(result(output, **feeds), wanted)


def test_nothing_is_left_of_what_is_not_kept(tmp_path: Path) -> None:
    source = written(tmp_path / "in" / "m.onnx", apart("w.bin"), "w.bin")
    (tmp_path / "out").mkdir()
    with drafted(load(source, load_external_data=False), tmp_path / "out" / "s.onnx", source.parent) as draft:
        assert np.array_equal(result(draft.path), result(source))
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(ZeroDivisionError), drafted(apart("w.bin"), tmp_path / "out" / "s.onnx", source.parent):
        raise ZeroDivisionError
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(InputError, match=r"s\.onnx': cannot be written: No such file or directory"):
        save(apart("w.bin"), tmp_path / "absent" / "s.onnx", source.parent)
