"""Constants that rewrites make: dense in the IR where they are small, else a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Attribute

from ..dialects import onnx
from ..semantics.weights import WeightStore

DENSE_ELEMENTS = 64
"""A constant of more elements is a weight: its value stays out of the IR's text."""


def make_constant(array: np.ndarray[Any, Any], type_: Attribute, weights: WeightStore) -> onnx.ConstantOp:
    """An `onnx.Constant` of that type with that value."""
    if array.size <= DENSE_ELEMENTS:
        try:
            return onnx.ConstantOp.make([], {"value": onnx.tensor_attr(np.ascontiguousarray(array))}, [type_])
        except TypeError:
            pass  # element types that dense attributes do not have
    return onnx.ConstantOp.make([], {"value": weights.add(array)}, [type_])


def attributes_of(op: onnx.OnnxOp) -> dict[str, Attribute]:
    """The op's attributes as they are, to make another op of its class."""
    return {name: value for name, value in op.properties.items() if name in op.SCHEMA.attributes}
