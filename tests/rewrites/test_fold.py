"""Constant folding: what is computed, by what, what stays, and what the log says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from sardonyx.dialects import onnx as dialect
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.driver import Declined
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.simplify.fold import GROWTH_IN_FILES, fold_constants
from sardonyx.semantics.known import constant_value
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from sardonyx.folding import compute

Arrays = dict[str, np.ndarray[Any, Any]]


def module_of(op_type: str, arrays: Arrays, **attributes: Any) -> tuple[ModuleOp, WeightStore]:
    """One node of initializers."""
    node = helper.make_node(op_type, list(arrays), ["y"], **attributes)
    tensors = [numpy_helper.from_array(a, name) for name, a in arrays.items()]
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], tensors)
    module, weights = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]))
    infer_shapes(module, weights)
    return module, weights


def result(module: ModuleOp, weights: WeightStore) -> np.ndarray[Any, Any] | None:
    last = main_of(module).body.block.last_op
    assert last is not None
    return constant_value(last.operands[0], weights)


@pytest.mark.parametrize("size", [2, 128])
def test_small_and_large_constants(size: int) -> None:
    a = np.random.default_rng(0).random((size, size), dtype=np.float32)
    module, weights = module_of("MatMul", {"a": a, "b": a})
    assert [f.pattern for f in fold_constants(module, weights)] == ["FoldConstant"]
    found = result(module, weights)
    assert found is not None
    np.testing.assert_allclose(found, a.astype(np.float64) @ a, rtol=1e-6)


def test_much_work_goes_to_compiled_kernels() -> None:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((1, 16, 160, 160), np.float32), "w": rng.random((32, 16, 3, 3), np.float32)}
    module, weights = module_of("Conv", arrays)
    asked: list[str] = []

    def given(op: Operation, values: Any) -> Any:
        asked.append(op.name)
        return compute(op, values)

    assert fold_constants(module, weights, compute=given) and asked == ["onnx.Conv"]
    found = result(module, weights)
    plain, store = module_of("Conv", arrays)
    fold_constants(plain, store)
    assert found is not None
    np.testing.assert_allclose(found, result(plain, store), rtol=1e-5)


def test_a_result_much_larger_than_its_operands_stays() -> None:
    arrays = {"q": np.zeros((512, 512), np.int8), "s": np.array(0.5, np.float32)}
    module, weights = module_of("DequantizeLinear", arrays)
    assert not fold_constants(module, weights, growth=GROWTH_IN_FILES)
    assert fold_constants(module, weights)
    module, weights = module_of("Expand", {"x": np.zeros(1, np.float32), "s": np.array([1 << 20])})
    assert not fold_constants(module, weights)


def test_what_fails_stays_and_the_log_says_why() -> None:
    module, weights = module_of("Gather", {"x": np.zeros(3, np.float32), "i": np.array([7])})
    declined: dict[Declined, None] = {}
    assert not fold_constants(module, weights, declined=declined)
    [entry] = declined
    assert entry.op == "onnx.Gather" and "7" in entry.reason
    assert any(isinstance(op, dialect.GatherOp) for op in module.walk())
