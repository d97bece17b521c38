"""Values that the IR knows: constants, and shape-like operands as dimensions."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim
from ..dialects.onnx.types import SparseAttr, TextAttr, WeightAttr
from .weights import WeightStore

Array = np.ndarray[Any, Any]


def constant_attribute(value: SSAValue) -> Attribute | None:
    """The attribute with the value of an `onnx.Constant` or `onnx.Initializer`; None where the value is no constant.

    An initializer that a caller may override is none.
    """
    op = value.owner
    if isinstance(op, onnx.InitializerOp):
        return op.value if op.overridable is None else None
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
        case StringAttr() | TextAttr():
            return np.array(attribute.data, object)
        case DenseArrayBase():
            array = cast("DenseArrayBase[Any]", attribute)
            return np.frombuffer(array.data.data, onnx.numpy_dtype(array.elt_type))
        case ArrayAttr():
            return np.array([onnx.text_of(text) for text in attribute], object)
        case _:
            return None


def dense_of(value: SparseAttr, weights: WeightStore) -> Array:
    """The dense tensor that a sparse constant stands for.

    `indices` are positions in row-major order, or a row of coordinates for each value.  Raises ValueError where they
    are not one for each value, or outside of the tensor.
    """
    values, indices, sizes = check_sparse(value, weights)
    result = np.full(sizes, "", object) if values.dtype == object else np.zeros(sizes, values.dtype)
    if indices.ndim == 2:
        result[tuple(indices.T)] = values
    else:
        result.reshape(-1)[indices] = values
    return result


def check_sparse(value: SparseAttr, weights: WeightStore) -> tuple[Array, Array, list[int]]:
    """The values, indices and sizes of a sparse constant. Raises ValueError where they do not fit each other."""

    def array_of(part: Attribute) -> Array:
        return weights.get(part) if isinstance(part, WeightAttr) else cast("Array", onnx.plain(part))

    values, indices = array_of(value.values), array_of(value.indices)
    sizes = cast("list[int]", onnx.plain(value.dims))
    if min(sizes, default=0) < 0:
        raise ValueError(f"the sizes are {sizes}")
    if indices.shape not in ((values.size,), (values.size, len(sizes))):
        raise ValueError(f"{values.size} values have indices of the shape {indices.shape}")
    limits = np.array(sizes if indices.ndim == 2 else [prod(sizes)], np.int64)
    if not np.all((indices >= 0) & (indices < limits)):
        raise ValueError(f"an index is outside of the tensor, whose sizes are {sizes}")
    return values, indices, sizes


def known_dims(value: SSAValue) -> tuple[Dim, ...] | None:
    """The elements of an integer tensor as dimensions, row-major; None where they are not known."""
    op = value.owner
    if isinstance(op, dims.TensorOp):
        return op.exprs.data
    array = constant_value(value)
    if array is None or array.dtype.kind not in "iu":
        return None
    return tuple(dims.as_dim(int(v)) for v in array.ravel())
