"""Integer tensors of any size that are made of a Range by shifts and factors: the position tells each element."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.dims.expression import ONE, ZERO
from .context import Context, Scope, elements_of, static_shape
from .elements import as_integers

_MAX_STEPS = 32
"""Operators that are followed up to a Range."""


@dataclass(frozen=True)
class Progression:
    """`start + i * step` for each position i below `count`, in row-major order."""

    start: Dim
    step: Dim
    count: Dim

    def at(self, c: Context, position: int) -> Dim:
        """The element at a position, counted from the end where negative; states that there is one."""
        c.at_most(position + 1 if position >= 0 else -position, self.count, "an index of Gather is in range")
        return self.start + self.step * (position if position >= 0 else self.count + position)

    def extreme(self, c: Context, greatest: bool) -> Dim | None:
        """The greatest or the least element; None where it is not known which that is, or whether there is one."""
        if not self.step.is_const or not c.scope.facts.prove_le(1, self.count):
            return None
        last = (self.step.value > 0) is greatest
        return self.start + self.step * (self.count - 1) if last else self.start


def progression_of(c: Context, index: int) -> Progression | None:
    """What an operand of int64 is, where it is a Range that is moved, scaled and given other axes."""
    value, scale, offset = c.need(index), ONE, ZERO
    for _ in range(_MAX_STEPS):
        match value.owner:
            case onnx.RangeOp() as op if isinstance(value.type, TensorType) and value.type.element_type == i64:
                start, delta = (number_of(op.operands[i], c.scope) for i in (0, 2))
                if start is None or delta is None:
                    return None
                (count,) = dims_of(value)
                return Progression(scale * start + offset, scale * delta, count)
            case onnx.IdentityOp() | onnx.ReshapeOp() | onnx.FlattenOp() | onnx.SqueezeOp() | onnx.UnsqueezeOp() as op:
                value = op.operands[0]
            case onnx.AddOp() | onnx.SubOp() | onnx.MulOp() as op:
                left, right = op.operands
                number = number_of(right, c.scope)
                inner, turned = (left, False) if number is not None else (right, True)
                number = number_of(left, c.scope) if turned else number
                if number is None or rank_of(value) != rank_of(inner):
                    return None
                value = inner
                if isinstance(op, onnx.MulOp):
                    scale = scale * number
                    continue
                minus = isinstance(op, onnx.SubOp)
                offset = offset - scale * number if minus and not turned else offset + scale * number
                scale = -scale if minus and turned else scale
            case _:
                return None
    return None


def rank_of(value: SSAValue) -> int | None:
    """The rank of a tensor; None where it is open."""
    return len(dims_of(value)) if isinstance(value.type, TensorType) else None


def number_of(value: SSAValue, scope: Scope) -> Dim | None:
    """The one element of an integer tensor that has only one."""
    shape = static_shape(value)
    elements = elements_of(value, scope) if shape is not None and prod(shape) == 1 else None
    found = None if elements is None else as_integers(elements)
    return None if found is None else found[0]


__all__ = ["Progression", "progression_of"]
