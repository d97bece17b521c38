"""Constants as `value`, those that rewrites make and others: dense in the IR where they are small, else a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ..dialects import onnx
from ..dialects.onnx.model import main_of
from ..dialects.onnx.types import SparseAttr
from ..runtime.errors import ModelError
from ..semantics.known import constant_value, dense_of
from ..semantics.weights import WeightStore

DENSE_ELEMENTS = 64
"""A constant of more elements is a weight: its value stays out of the IR's text."""


def make_constant(array: np.ndarray[Any, Any], type_: Attribute, weights: WeightStore) -> onnx.ConstantOp:
    """An `onnx.Constant` of that type with that value."""
    return onnx.ConstantOp.make([], {"value": value_attribute(array, weights)}, [type_])


def value_attribute(array: np.ndarray[Any, Any], weights: WeightStore) -> Attribute:
    """The attribute with that value: dense, or the handle of a weight."""
    if array.size <= DENSE_ELEMENTS:
        try:
            return onnx.tensor_attr(np.asarray(array, order="C"))
        except TypeError:
            pass  # element types that dense attributes do not have
    return weights.add(array)


SHORT_FORMS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
"""The attributes with which `Constant` writes numbers without a tensor, and the element types of the results."""


def normalize_constants(module: ModuleOp, weights: WeightStore) -> None:
    """Gives every constant of numbers in `main` its value as a dense `value`: what a program's entry reads.

    Strings stay as they are, since no entry reads them.  Not for modules that are exported: they keep the file's form.
    Raises ModelError naming the node of a sparse constant whose indices do not fit.
    """
    for op in main_of(module).walk():
        if isinstance(op, onnx.InitializerOp):
            form = "value" if isinstance(op.value, SparseAttr) else None
        elif isinstance(op, onnx.ConstantOp):
            form = next((name for name in (*SHORT_FORMS, "sparse_value") if name in op.properties), None)
        else:
            continue
        if form is not None:
            _normalize(op, form, weights)


def _normalize(op: onnx.ConstantOp | onnx.InitializerOp, form: str, weights: WeightStore) -> None:
    given = op.properties[form]
    try:
        array = dense_of(given, weights) if isinstance(given, SparseAttr) else constant_value(op.results[0], weights)
    except ValueError as problem:
        raise ModelError(f"{onnx.describe(op)}: {problem}") from problem
    assert array is not None, form
    if array.dtype != object:
        del op.properties[form]
        op.properties["value"] = value_attribute(np.asarray(array, SHORT_FORMS.get(form)), weights)


def attributes_of(op: onnx.OnnxOp) -> dict[str, Attribute]:
    """The op's attributes as they are, to make another op of its class."""
    return {name: value for name, value in op.properties.items() if name in op.SCHEMA.attributes}
