"""Values that the IR knows: constants, and shape-like operands as dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim
from ..dialects.onnx.types import WeightAttr
from .weights import WeightStore

Array = np.ndarray[Any, Any]


def constant_attribute(value: SSAValue) -> Attribute | None:
    """The attribute with the value of an `onnx.Constant` or `onnx.Initializer`; None where the value is no constant."""
    op = value.owner
    if isinstance(op, onnx.InitializerOp):
        return op.value
    if isinstance(op, onnx.ConstantOp):
        return next(iter(op.properties.values()), None)
    return None


def constant_value(value: SSAValue, weights: WeightStore | None = None) -> Array | None:
    """The value of a constant, read-only; None where it is no constant, or a weight and no store is given."""
    attribute = constant_attribute(value)
    match attribute:
        case DenseIntOrFPElementsAttr():
            return onnx.dense_array(attribute)
        case WeightAttr():
            return weights.get(attribute) if weights is not None else None
        case IntegerAttr():  # the short forms of Constant: value_int, value_float, value_ints, ...
            return np.array(attribute.value.data, np.int64)
        case FloatAttr():
            return np.array(attribute.value.data, np.float32)
        case None | onnx.SparseAttr():
            return None
        case _:
            return _array_of_list(onnx.plain(attribute))


def _array_of_list(values: Any) -> Array | None:
    if isinstance(values, str):
        return np.array(values, object)
    if not isinstance(values, list):
        return None
    if all(isinstance(v, int) for v in values):
        return np.array(values, np.int64)
    if all(isinstance(v, float) for v in values):
        return np.array(values, np.float32)
    return np.array(values, object)


def known_dims(value: SSAValue) -> tuple[Dim, ...] | None:
    """The elements of an integer tensor as dimensions, row-major; None where they are not known."""
    op = value.owner
    if isinstance(op, dims.TensorOp):
        return op.exprs.data
    array = constant_value(value)
    if array is None or array.dtype.kind not in "iu":
        return None
    return tuple(dims.as_dim(int(v)) for v in array.ravel())
