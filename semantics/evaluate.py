"""One op of the onnx dialect computed by its reference function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from ..dialects import onnx
from .custom import NO_OPERATORS, Operators, evaluator_of
from .known import constant_value
from .reference import Value
from .weights import WeightStore


def plain_attributes(op: onnx.OnnxOp, weights: WeightStore) -> dict[str, Any]:
    """The op's attributes as plain Python values, weights as arrays; those that are absent are left out."""
    found: dict[str, Any] = {}
    for name, spec in op.SCHEMA.attributes.items():
        value: Attribute | None = op.properties.get(name)
        if value is None:
            continue
        if not isinstance(value, onnx.WeightAttr):
            found[name] = onnx.plain(value)
            continue
        array = weights.get(value)  # a long list is kept as a weight, too
        found[name] = array.tolist() if spec.kind in ("INTS", "FLOATS", "STRINGS") else array
    return found


def operator_and_attributes(op: Operation, weights: WeightStore) -> tuple[str, str, dict[str, Any]]:
    """Domain, operator and plain attributes of an op; empty text for what is no operator."""
    if isinstance(op, onnx.CustomOp):
        found = {
            name: weights.get(value) if isinstance(value, onnx.WeightAttr) else onnx.plain(value)
            for name, value in op.attributes_.data.items()
        }
        return str(onnx.plain(op.domain)), str(onnx.plain(op.op_type)), found
    if isinstance(op, onnx.OnnxOp):
        return op.SCHEMA.domain, op.SCHEMA.op_type, plain_attributes(op, weights)
    if isinstance(op, onnx.InitializerOp):
        return "", "Constant", constant_attributes(op, weights)
    return "", "", {}


def constant_attributes(op: onnx.InitializerOp, weights: WeightStore) -> dict[str, Any]:
    """The attributes of the `Constant` that gives an initializer's value; lists of strings in a form that JSON has."""
    value = constant_value(op.result, weights)
    assert value is not None
    if value.dtype == object and value.ndim == 1 and all(isinstance(text, str) for text in value):
        return {"value_strings": value.tolist()}
    return {"value": value}


def reference_of(
    op: Operation, weights: WeightStore, operators: Operators = NO_OPERATORS
) -> Callable[..., tuple[Value, ...]] | None:
    """A function of the operands by formal position; None where the op has no reference function or has regions."""
    if op.regions:
        return None
    domain, name, attributes = operator_and_attributes(op, weights)
    reference = evaluator_of(domain, name, operators)
    if reference is None:
        return None
    places = result_places(op)

    def run(*operands: Value) -> tuple[Value, ...]:
        results = reference(list(operands), attributes, places[-1] + 1 if places else 0)
        return tuple(results[place] for place in places)

    return run


def result_places(op: Operation) -> list[int]:
    """The formal positions of the results that are there."""
    formal = op.formal_results() if isinstance(op, onnx.OnnxOp | onnx.PositionedOp) else list(op.results)
    return [at for at, result in enumerate(formal) if result is not None]


def evaluate(op: Operation, values: Sequence[Value], weights: WeightStore) -> list[np.ndarray[Any, Any]] | None:
    """The results as arrays of the result types' element types; None where that cannot be."""
    function = reference_of(op, weights)
    if function is None:
        return None
    results: list[np.ndarray[Any, Any]] = []
    for value, result in zip(function(*values), op.results, strict=True):
        if not isinstance(value, np.ndarray) or not isinstance(result.type, TensorType):
            return None
        results.append(value)
    return results
