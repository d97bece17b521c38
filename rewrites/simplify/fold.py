"""Constant folding: an op whose operands are all known is computed once, by the numpy reference functions."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.evaluate import evaluate
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import make_constant
from ..driver import ORIGIN, Firing, origins_of
from .redundancy import IMPURE, functions_of

MAX_ELEMENTS = 1 << 22
"""A result of more elements stays an op: the model file would grow without a gain."""


def fold_constants(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Replaces every foldable op by a constant, in program order so that chains fold in one sweep."""
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            if op.parent is not None and fold(op, weights):
                fired.append(Firing("FoldConstant", op.name, origins_of(op)))
    return fired


def fold(op: Operation, weights: WeightStore) -> bool:
    """Folds one op; False where an operand is not known, the result is large, or the reference declines it."""
    if not isinstance(op, onnx.OnnxOp) or op.regions or not op.results or type(op) in IMPURE:
        return False
    if isinstance(op, (onnx.ConstantOp, onnx.InitializerOp)) or not op.operands:
        return False
    for result in op.results:
        if not isinstance(result.type, TensorType):
            return False
        shape = dims_of(result)
        if not all(d.is_const for d in shape) or math.prod(d.value for d in shape) > MAX_ELEMENTS:
            return False
    values: list[np.ndarray | None] = []
    for operand in op.formal_operands():
        value = None if operand is None else constant_value(operand, weights)
        if operand is not None and value is None:
            return False
        values.append(value)
    try:
        results = evaluate(op, values, weights)
    except (ArithmeticError, ValueError, IndexError, NotImplementedError):
        return False  # what cannot be folded is computed, or refused, at run time
    if results is None:
        return False
    constants: list[Operation] = []
    for old, value in zip(op.results, results, strict=True):
        constant = make_constant(np.asarray(value), old.type, weights)
        if ORIGIN in op.attributes:
            constant.attributes[ORIGIN] = op.attributes[ORIGIN]
        if (names := op.attributes.get("onnx.names")) is not None and len(op.results) == 1:
            constant.attributes["onnx.names"] = names
        constants.append(constant)
    block = op.parent
    assert block is not None
    for old, constant in zip(op.results, constants, strict=True):
        block.insert_op_before(constant, op)
        constant.results[0].name_hint = old.name_hint
        old.replace_all_uses_with(constant.results[0])
    op.detach()
    op.erase()
    return True
