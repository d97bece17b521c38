"""Weights in files beside the model: mapped where they are in its folder, refused everywhere else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from models import info, model, node
from onnx import ModelProto, TensorProto, load
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.runtime.errors import ModelError
from sardonyx.semantics.weights import WeightStore

VALUES = np.arange(1000, dtype=np.float32)


def external(location: str, **entries: object) -> ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1000], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": 0, "length": 4000, **entries}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return model([node("Add", ["x", "w"], ["y"])], [info("x", [1000])], [info("y")], initializer=[tensor])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "w.bin").write_bytes(VALUES.tobytes())
    (folder / "data" / "w.bin").write_bytes(b"\0" * 8 + VALUES.tobytes())
    (tmp_path / "outside.bin").write_bytes(VALUES.tobytes())
    return folder


def save(folder: Path, m: ModelProto) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(m.SerializeToString())
    return path


@pytest.mark.parametrize("entries", [{}, {"offset": None}, {"length": None}, {"checksum": "abc"}])
def test_data_in_the_folder_is_mapped(folder: Path, entries: dict[str, object]) -> None:
    path = save(folder, external("w.bin", **entries))
    module, weights = import_model(path)
    (handle,) = weights
    assert np.array_equal(weights.get(handle), VALUES)
    assert weights.file_of(handle) == (folder / "w.bin", 0, 4000)
    assert export_model(module, weights) == load(path, load_external_data=False)


def test_data_in_a_folder_inside(folder: Path) -> None:
    _, weights = import_model(save(folder, external("data/w.bin", offset=8)))
    (handle,) = weights
    assert np.array_equal(weights.get(handle), VALUES)


def test_text_finds_external_data_again(folder: Path) -> None:
    module, weights = import_model(save(folder, external("w.bin")))
    weights.attach(module, folder / "out.weights")
    loaded = WeightStore.from_module(module, folder)
    assert export_model(module, loaded) == export_model(module, weights)
    (folder / "w.bin").write_bytes((VALUES + 1).tobytes())
    changed = WeightStore.from_module(module, folder)
    with pytest.raises(ModelError, match="not those that were compiled"):
        changed.get(next(iter(changed)))
    (folder / "w.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="goes beyond its end"):
        WeightStore.from_module(module, folder)


def test_embedding(folder: Path) -> None:
    module, weights = import_model(save(folder, external("w.bin")))
    embedded = export_model(module, weights, embed_external=True)
    _, alone = import_model(embedded)
    assert np.array_equal(alone.get(next(iter(alone))), VALUES)


def test_bytes_need_a_folder(folder: Path) -> None:
    m = external("w.bin")
    with pytest.raises(ModelError, match=r"tensor 'w' is in the file 'w\.bin' beside the model"):
        import_model(m)
    module, weights = import_model(m, folder=folder)
    assert np.array_equal(weights.get(next(iter(weights))), VALUES)
    assert export_model(module, weights) == m


@pytest.mark.parametrize(
    "location", ["../outside.bin", "data/../../outside.bin", "/etc/passwd", "", "w.bin\0x", "data/../w.bin"]
)
def test_paths_out_of_the_folder_are_refused(folder: Path, location: str) -> None:
    with pytest.raises(ModelError, match="no path inside the model's folder"):
        import_model(save(folder, external(location)))


def test_links_out_of_the_folder_are_refused(folder: Path) -> None:
    (folder / "soft").symlink_to(folder.parent / "outside.bin")
    (folder / "dir").symlink_to(folder.parent)
    os.link(folder.parent / "outside.bin", folder / "hard")
    with pytest.raises(ModelError, match="a link out of the model's folder"):
        import_model(save(folder, external("soft")))
    with pytest.raises(ModelError, match="a link out of the model's folder"):
        import_model(save(folder, external("dir/outside.bin")))
    with pytest.raises(ModelError, match="has a second name"):
        import_model(save(folder, external("hard")))
    os.mkfifo(folder / "pipe")
    with pytest.raises(ModelError, match="not a regular file"):
        import_model(save(folder, external("pipe")))


def test_links_inside_the_folder_are_followed(folder: Path) -> None:
    (folder / "soft").symlink_to(folder / "w.bin")
    _, weights = import_model(save(folder, external("soft")))
    assert np.array_equal(weights.get(next(iter(weights))), VALUES)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": 4}, "goes beyond the end"),
        ({"offset": 10**17}, "goes beyond the end"),
        ({"length": 3999}, "so 4000 bytes; its length is 3999"),
        ({"offset": -4}, "no number of bytes"),
        ({"offset": "1e3"}, "no number of bytes"),
        ({"length": "9" * 30}, "no number of bytes"),
        ({"location": "absent"}, "cannot be read: No such file"),
    ],
)
def test_wrong_places_in_the_file(folder: Path, entries: dict[str, object], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        import_model(save(folder, external(str(entries.pop("location", "w.bin")), **entries)))
