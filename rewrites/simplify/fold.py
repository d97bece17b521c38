"""Constant folding: an op whose operands are all known is computed once.

By the numpy reference functions, or, where much is to be computed, by what the caller gives for that: compiled kernels.
What cannot be computed stays as it is, with a line in the log that says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.evaluate import evaluate
from ...semantics.kinds import Kind, kind_of
from ...semantics.known import constant_attribute, constant_value
from ...semantics.weights import WeightStore
from ..constants import make_constant
from ..driver import ORIGIN, Declined, Firing, origins_of
from .redundancy import IMPURE, functions_of

MAX_ELEMENTS = 1 << 22
"""A result of more elements stays an op: the model file would grow without a gain."""

FREE_ELEMENTS = 1 << 16
"""A result of at most so many elements may be any number of times larger than its operands."""

MAX_GROWTH = 4

LARGE_ELEMENTS = 1 << 18
"""With more elements in operands and results than this, and with sums to make, a compiled kernel is faster."""

Compute = Callable[[Operation, Sequence[np.ndarray | None]], list[np.ndarray] | None]
"""The results of an op for its operands' values by formal position; None where it has none for this op."""

Declines = dict[Declined, None]


def fold_constants(
    module: ModuleOp,
    weights: WeightStore,
    *,
    compute: Compute | None = None,
    declined: Declines | None = None,
) -> list[Firing]:
    """Replaces every foldable op by a constant, in program order so that chains fold in one sweep.

    What could not be computed is put into `declined`.
    """
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            if op.parent is not None and fold(op, weights, compute, declined):
                fired.append(Firing("FoldConstant", op.name, origins_of(op)))
    return fired


def fold(op: Operation, weights: WeightStore, compute: Compute | None = None, declined: Declines | None = None) -> bool:
    """Folds one op; False where an operand is not known, the result is large, or it cannot be computed."""
    if not isinstance(op, onnx.OnnxOp) or op.regions or not op.results or type(op) in IMPURE:
        return False
    if isinstance(op, (onnx.ConstantOp, onnx.InitializerOp)) or not op.operands:
        return False
    if not all(is_constant(o) for o in op.operands):
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
    known = sum(v.size for v in values if v is not None)
    made = sum(math.prod(d.value for d in dims_of(r)) for r in op.results)
    if made > max(FREE_ELEMENTS, MAX_GROWTH * known):
        return False
    problem = "its reference function gives nothing"
    results: Sequence[np.ndarray] | None = None
    try:
        if compute is not None and known + made > LARGE_ELEMENTS and kind_of(op) is Kind.TEMPLATE:
            results = compute(op, values)
        results = results if results is not None else evaluate(op, values, weights)
    except Exception as e:  # whatever it is: what cannot be folded is computed, or refused, at run time
        problem = f"{type(e).__name__}: {e}"
    if results is None:
        if declined is not None:
            declined[Declined("FoldConstant", op.name, origins_of(op), problem)] = None
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


def is_constant(value: SSAValue) -> bool:
    return constant_attribute(value) is not None
