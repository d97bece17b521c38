"""What is read is written again byte for byte: at once, after upgrading, and by way of the module's text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx as onnx_package
import pytest
from models import ODD_MODELS, backend_models, simple
from onnx import ModelProto
from sardonyx.dialects import dims, onnx
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import ModelError
from sardonyx.semantics.weights import WeightStore
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser


def bytes_of(model: ModelProto | str) -> bytes:
    proto = onnx_package.load(model, load_external_data=False) if isinstance(model, str) else model
    return proto.SerializeToString(deterministic=True)


def assert_round_trips(source: ModelProto | str, folder: Path) -> None:
    wanted = bytes_of(source)
    module, weights = import_model(source)
    module.verify()
    assert export_model(module, weights).SerializeToString(deterministic=True) == wanted
    again, loaded = through_text(module, weights, folder / "plain")
    assert export_model(again, loaded).SerializeToString(deterministic=True) == wanted
    upgrade_opset(module, weights)
    assert not any(isinstance(op, onnx.VersionedOp) for op in onnx_main(module).walk())
    assert export_model(module, weights).SerializeToString(deterministic=True) == wanted
    again, loaded = through_text(module, weights, folder / "upgraded")
    assert export_model(again, loaded).SerializeToString(deterministic=True) == wanted


def onnx_main(module: object) -> object:
    from sardonyx.dialects.onnx.model import main_of

    return main_of(module)


def through_text(module: object, weights: WeightStore, folder: Path) -> tuple[object, WeightStore]:
    """The module and its weights as another process would find them."""
    folder.mkdir()
    context = Context()
    for dialect in (Builtin, Func, onnx.Onnx, dims.Dims):
        context.load_dialect(dialect)
    weights.attach(module, folder / "model.weights")
    again = Parser(context, str(module)).parse_module()
    assert module.is_structurally_equivalent(again)
    loaded = WeightStore.from_module(again, folder)
    for handle in weights:
        before, after = weights.get(handle), loaded.get(handle)
        assert before.dtype == after.dtype
        assert before.shape == after.shape
        if before.dtype == object:
            assert before.tolist() == after.tolist()
        else:
            assert before.tobytes() == after.tobytes()
    return again, loaded


@pytest.mark.parametrize("make", ODD_MODELS, ids=lambda make: make.__name__)
def test_odd_models(make: Callable[[], ModelProto], tmp_path: Path) -> None:
    assert_round_trips(make(), tmp_path)


@cache
def all_backend_models() -> tuple[tuple[str, str, ModelProto | str], ...]:
    return tuple(backend_models())


PARTS = 40


@pytest.mark.parametrize("part", [0, *(pytest.param(p, marks=pytest.mark.slow) for p in range(1, PARTS))])
def test_backend_models(part: int, tmp_path: Path) -> None:
    chosen = all_backend_models()[part::PARTS]
    assert len(chosen) > 40
    for kind, name, source in chosen:
        assert_round_trips(source, make_folder(tmp_path / f"{kind}.{name}"))


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_path_and_its_bytes_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes_of(simple()))
    texts = {str(import_model(source)[0]) for source in (path, str(path), path.read_bytes(), simple())}
    assert len(texts) == 1


def test_weights_are_no_copies() -> None:
    from models import info, model, node
    from onnx import numpy_helper

    weight = numpy_helper.from_array(np.arange(10_000, dtype=np.float32), "w")
    data = bytes_of(model([node("Add", ["x", "w"], ["y"])], [info("x", [10_000])], [info("y")], initializer=[weight]))
    module, weights = import_model(data)
    (handle,) = weights
    array = weights.get(handle)
    start = np.frombuffer(data, np.uint8).ctypes.data
    assert start < array.ctypes.data < start + len(data)
    assert not array.flags.writeable
    assert len(str(module)) < 2000


def test_unknown_fields_are_refused_and_not_lost() -> None:
    data = bytes_of(simple()) + b"\xc2\x3e\x03abc"  # field 1000
    module, weights = import_model(data)
    with pytest.raises(ModelError, match="would lose"):
        export_model(module, weights)


def test_text_says_which_weights_have_changed(tmp_path: Path) -> None:
    from models import info, overridable
    from onnx import numpy_helper

    big = overridable()
    next(i for i in big.graph.input if i.name == "w").CopyFrom(info("w", [100, 100]))
    big.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((100, 100), np.float32), "w"))
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes_of(big))
    module, weights = import_model(path)
    weights.attach(module, tmp_path / "m.weights")
    assert not (tmp_path / "m.weights").exists()  # all of them are in the model's file
    data = bytearray(path.read_bytes())
    data[data.index(np.float32(1).tobytes() * 20) + 400] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match="has changed"):
        WeightStore.from_module(module, tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match=r"m\.onnx: cannot be read"):
        WeightStore.from_module(module, tmp_path)
