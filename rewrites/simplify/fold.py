"""Constant folding: an op whose operands are all known is computed once.

By the numpy reference functions, or, where much is to be computed, by what the caller gives for that: compiled kernels.
What cannot be computed stays as it is, with a line in the log that says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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

FREE_BYTES = 1 << 18
"""A result of at most so many bytes may be any number of times larger than its operands."""

GROWTH_IN_FILES, GROWTH_IN_PROGRAMS = 2, 8
"""How much larger than its operands another result may be: weights of 8 bits stay so in a file."""

LARGE_ELEMENTS = 1 << 20
"""With more elements in operands and results than this, and with sums to make, a compiled kernel is faster."""

Array = np.ndarray[Any, Any]
Compute = Callable[[Operation, Sequence[Array | None]], list[Array] | None]
"""The results of an op for its operands' values by formal position; None where it has none for this op."""

Declines = dict[Declined, None]


def fold_constants(
    module: ModuleOp,
    weights: WeightStore,
    *,
    compute: Compute | None = None,
    declined: Declines | None = None,
    growth: int = GROWTH_IN_PROGRAMS,
) -> list[Firing]:
    """Replaces every foldable op by a constant, in program order so that chains fold in one sweep.

    What could not be computed is put into `declined`.  `growth` is how many times larger than its operands a result may
    be.
    """
    folder = Folder(weights, compute, declined if declined is not None else {}, growth)
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            if op.parent is not None and folder.fold(op):
                fired.append(Firing("FoldConstant", op.name, origins_of(op)))
    return fired


@dataclass(frozen=True)
class Folder:
    """One sweep: what it computes with, what it may make, and where it says what it could not do."""

    weights: WeightStore
    compute: Compute | None
    declined: Declines
    growth: int

    def fold(self, op: Operation) -> bool:
        """Folds one op; False where an operand is not known, the result is large, or it cannot be computed."""
        if not isinstance(op, onnx.OnnxOp) or not can_fold(op):
            return False
        values = [None if o is None else constant_value(o, self.weights) for o in op.formal_operands()]
        if any(v is None and o is not None for v, o in zip(values, op.formal_operands(), strict=True)):
            return False
        if not self.has_room(op, values):
            return False
        results = self.results(op, values)
        if results is None:
            return False
        self.replace(op, results)
        return True

    def has_room(self, op: onnx.OnnxOp, values: Sequence[Array | None]) -> bool:
        """Whether the results are small enough to be kept instead of the op."""
        room = max(FREE_BYTES, self.growth * sum(v.nbytes for v in values if v is not None))
        return sum(map(bytes_of, op.results)) <= room

    def results(self, op: onnx.OnnxOp, values: Sequence[Array | None]) -> Sequence[Array] | None:
        """The results; None, with a line in the log, where they cannot be computed."""
        size = sum(v.size for v in values if v is not None) + sum(map(elements_of, op.results))
        problem = "its reference function gives nothing"
        try:
            if self.compute is not None and size > LARGE_ELEMENTS and kind_of(op) is Kind.TEMPLATE:
                found = self.compute(op, values)
                if found is not None:
                    return found
            found = evaluate(op, values, self.weights)
            if found is not None:
                return found
        except Exception as e:  # whatever it is: what cannot be folded is computed, or refused, at run time
            problem = f"{type(e).__name__}: {e}"
        self.declined[Declined("FoldConstant", op.name, origins_of(op), problem)] = None
        return None

    def replace(self, op: onnx.OnnxOp, results: Sequence[Array]) -> None:
        """Puts constants in the op's place, under its names."""
        constants: list[Operation] = []
        for old, value in zip(op.results, results, strict=True):
            constant = make_constant(np.asarray(value), old.type, self.weights)
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


def can_fold(op: onnx.OnnxOp) -> bool:
    """Whether an op is a function of constants, with results of known size below the limit."""
    if op.regions or not op.results or type(op) in IMPURE or isinstance(op, onnx.ConstantOp) or not op.operands:
        return False
    return all(constant_attribute(o) is not None for o in op.operands) and all(map(is_small, op.results))


def is_small(value: SSAValue) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    return all(d.is_const for d in dims_of(value)) and elements_of(value) <= MAX_ELEMENTS


def elements_of(value: SSAValue) -> int:
    return math.prod(d.value for d in dims_of(value))


def bytes_of(value: SSAValue) -> int:
    """The bytes of a tensor; strings count as one each."""
    assert isinstance(value.type, TensorType)
    element = value.type.element_type
    return elements_of(value) * (1 if element == onnx.STRING else -(-onnx.element_bits(element) // 8))
