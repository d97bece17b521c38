"""Runs small models by onnxruntime at many sizes and holds inference to what comes out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper
from sardonyx.dialects import dims
from sardonyx.dialects.dims import Dim, dims_of
from sardonyx.dialects.onnx.base import value_name
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import Error, ModelError
from sardonyx.semantics.facts import Condition
from sardonyx.semantics.interpreter import run_graph
from xdsl.dialects.builtin import TensorType

sys.path.insert(0, str(Path(__file__).parent))
ort.set_default_logger_severity(4)

Array = np.ndarray[Any, Any]
Feed = Mapping[str, Array]


def make(nodes: Iterable[Any], inputs: Mapping[str, tuple[int, list[Any]]], outputs: Iterable[str], inits: Mapping[str, Array] = {}, opset: int = 20) -> ModelProto:  # fmt: skip  # noqa: E501
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [onnx.numpy_helper.from_array(v, n) for n, v in inits.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@dataclass
class Inferred:
    """The types that inference gives the values of the main graph, with guards and the symbols of elements."""

    types: dict[str, tuple[Dim, ...]]
    guards: list[Condition]
    elements: dict[str, list[str]]  # the names of the symbols for a value's elements
    text: str


def infer(model: ModelProto) -> Inferred:
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    infer_shapes(module, weights, compile_mode=True)
    module.verify()
    main = main_of(module)
    found: dict[str, tuple[Dim, ...]] = {}
    guards: list[Condition] = []
    elements: dict[str, list[str]] = {}
    for op in main.body.block.ops:
        if isinstance(op, dims.AssumeOp):
            guards.append(Condition.parse(op.condition.data))
        if isinstance(op, dims.BindOp) and (name := value_name(op.source)):
            elements[name] = [s.data for s in op.symbols]
        for value in op.results:
            if isinstance(value.type, TensorType) and (name := value_name(value)):
                found[name] = dims_of(value.type)
    return Inferred(found, guards, elements, str(module))


def exposed(model: ModelProto) -> ModelProto:
    """The model with every value of its main graph as an output."""
    copy = ModelProto.FromString(model.SerializeToString())
    have = {o.name for o in copy.graph.output}
    for node in copy.graph.node:
        for name in node.output:
            if name and name not in have:
                copy.graph.output.add().name = name
                have.add(name)
    return copy


def run(model: ModelProto) -> Callable[[Feed], dict[str, Array] | None]:
    """A call that gives every value, or None where onnxruntime refuses the sizes."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]

    def call(feed: Feed) -> dict[str, Array] | None:
        try:
            return dict(zip(names, session.run(None, dict(feed))))
        except Exception:  # onnxruntime has no common class of errors
            return None

    return call


def reference(model: ModelProto) -> Callable[[Feed], dict[str, Array] | None]:
    """As `run`, by the reference functions: for what onnxruntime has not, or ends the process for."""
    module, weights = import_model(model)
    upgrade_opset(module, weights)

    def call(feed: Feed) -> dict[str, Array] | None:
        try:
            return run_graph(module, weights, dict(feed))
        except (Error, ValueError, IndexError, ArithmeticError):  # sizes that the operator does not admit
            return None

    return call


DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.BOOL: np.bool_,
}


@dataclass
class Outcome:
    """How often a model ran, was refused by us though it ran, and how many sizes were compared."""

    ran: int = 0
    refused: list[Mapping[str, int]] = field(default_factory=list)
    compared: int = 0
    fresh: int = 0
    scalars: int = 0


def check(
    model: ModelProto,
    bindings: Iterable[Mapping[str, int]],
    feeds: Mapping[str, Callable[[Mapping[str, int]], Any]] = {},
    call: Callable[[Feed], dict[str, Array] | None] | None = None,
) -> Outcome:
    """Compares all inferred sizes with those of an execution, at each binding of the inputs' symbols that runs.

    `call` executes the model with all its values as outputs; onnxruntime, where it is not given.
    """
    call = call or run(exposed(model))
    out = Outcome()
    try:
        inferred = infer(model)
    except ModelError as error:  # no sizes are valid
        inferred = Inferred({}, [Condition.parse("1 <= 0")], {}, str(error))
    for binding in bindings:
        feed: dict[str, Array] = {}
        for i in model.graph.input:
            tensor = i.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else binding[d.dim_param] for d in tensor.shape.dim]
            dtype = DTYPES[tensor.elem_type]
            feed[i.name] = np.asarray(feeds[i.name](binding), dtype) if i.name in feeds else np.ones(shape, dtype)
        got = call(feed)
        if got is None:
            continue
        out.ran += 1
        values = dict(binding)
        for name, symbols in inferred.elements.items():
            source = feed[name] if name in feed else got[name]
            values |= dict(zip(symbols, map(int, source.ravel())))
        if not all(_holds(g, values) for g in inferred.guards):
            out.refused.append(values)
            continue
        for name, array in got.items():
            expected = inferred.types.get(name)
            if expected is None:
                continue
            assert len(expected) == array.ndim, f"{name}: {expected} at {values}: {array.shape}\n{inferred.text}"
            out.scalars += not expected
            for d, size in zip(expected, array.shape):
                if d.symbols <= set(values):
                    assert d.evaluate(values) == size, f"{name}: {d} at {values} is {size}\n{inferred.text}"
                    out.compared += 1
                else:
                    out.fresh += 1
    return out


def _holds(guard: Condition, values: Mapping[str, int]) -> bool:
    if not (guard.left.symbols | guard.right.symbols) <= set(values):
        return True
    return guard.holds(values)


@dataclass(frozen=True)
class Oracle:
    """What tests of shapes need; a fixture, since tests are no modules to import from."""

    make: Callable[..., ModelProto] = make
    check: Callable[..., Outcome] = check
    infer: Callable[[ModelProto], Inferred] = infer
    run: Callable[[ModelProto], Callable[[Feed], dict[str, Array] | None]] = run
    reference: Callable[[ModelProto], Callable[[Feed], dict[str, Array] | None]] = reference
    exposed: Callable[[ModelProto], ModelProto] = exposed
    holds: Callable[[Condition, Mapping[str, int]], bool] = _holds


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()
