"""ONNX's own backend tests, which several of our tests run: models with inputs and outputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
CHANCE = ("test_bernoulli", "test_training_dropout")
"""The standard leaves these results to chance: shape and type are compared."""


@cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the standard's generators overflow and divide by zero on purpose
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def data_of(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """The model, and inputs and outputs of each run."""
    if case.model is not None:
        return case.model, [([plain(v) for v in ins], [plain(v) for v in outs]) for ins, outs in case.data_sets]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets: list[tuple[list[Any], list[Any]]] = []
    for data in sorted(folder.glob("test_data_set_*")):
        sets.append((stored(data, "input", model.graph.input), stored(data, "output", model.graph.output)))
    return model, sets


def stored(folder: Path, stem: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The values in files `stem_0.pb`, ..., whose types the graph gives."""
    protos = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    values: list[Any] = []
    for index in range(len(list(folder.glob(f"{stem}_*.pb")))):
        proto = protos[infos[index].type.WhichOneof("value")]
        values.append(plain(proto.FromString((folder / f"{stem}_{index}.pb").read_bytes())))
    return values


def plain(value: Any) -> Any:
    """A value of the test data as the backend takes it."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
