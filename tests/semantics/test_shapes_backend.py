"""Every operator's rule against ONNX's own node tests, with all input sizes as symbols: a sample always."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from sardonyx.dialects import onnx as dialect
from sardonyx.dialects.dims.expression import parse_dim
from sardonyx.rewrites.infer.regions import HANDLERS
from sardonyx.semantics.shapes import RULES

from sardonyx.infer import infer_shapes


def cases() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for case in found:
        if case.data_sets is None:
            continue
        sampled = hashlib.sha256(case.name.encode()).digest()[1] % 24 == 0
        yield pytest.param(case, id=case.name, marks=[] if sampled else [pytest.mark.slow])


def test_every_operator_has_a_rule() -> None:
    missing = [op.__name__ for op in dialect.OPS if op not in RULES and op not in HANDLERS]
    assert not missing


def symbolic(model: ModelProto) -> ModelProto:
    """A copy with a symbol for every axis of every input, and nothing declared of the outputs' sizes."""
    copy = ModelProto.FromString(model.SerializeToString())
    count = 0
    for info in copy.graph.input:
        if info.type.HasField("tensor_type"):
            for d in info.type.tensor_type.shape.dim:
                d.ClearField("dim_value")
                d.dim_param = f"S{count}"
                count += 1
    for info in copy.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return copy


def arrays(values: Any) -> list[Any]:
    plain = [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]
    return [np.asarray(v) if isinstance(v, np.generic) else v for v in plain]


@pytest.mark.parametrize("case", list(cases()))
@pytest.mark.parametrize("sizes", ["numbers", "symbols"])
def test_sizes_are_those_of_the_expected_outputs(case: Any, sizes: str) -> None:
    model = symbolic(case.model) if sizes == "symbols" else case.model
    inferred = infer_shapes(model)
    for inputs, outputs in case.data_sets:
        binding: dict[str, int] = {}
        for info, array in zip(model.graph.input, arrays(inputs)):
            if isinstance(array, np.ndarray) and info.type.HasField("tensor_type"):
                for d, size in zip(info.type.tensor_type.shape.dim, array.shape):
                    if d.dim_param:
                        binding[d.dim_param] = size
        for info, array in zip(inferred.graph.output, arrays(outputs)):
            if isinstance(array, np.ndarray) and info.type.HasField("tensor_type"):
                check(info.type.tensor_type, array, binding)


def check(found: Any, array: np.ndarray[Any, Any], binding: dict[str, int]) -> None:
    if array.dtype.kind not in "UO":
        assert helper.tensor_dtype_to_np_dtype(found.elem_type) == array.dtype
    if not found.HasField("shape"):
        return  # a rank that data decides
    assert len(found.shape.dim) == array.ndim
    for d, size in zip(found.shape.dim, array.shape):
        if d.HasField("dim_value"):
            assert d.dim_value == size
            continue
        dim = parse_dim(d.dim_param)
        if dim.symbols <= set(binding):
            assert dim.evaluate(binding) == size, f"{dim} at {binding}"
