"""What bodies compute with: indices that are linear in the lane, and the places of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from ..dialects import kernel
from ..dialects.dims.interval import is_at_least
from .loop_builder import LoopBuilder, Scalar, element_of


@dataclass(frozen=True)
class Lanes:
    """An index: lane l has `base + stride * l`."""

    base: Scalar
    stride: Scalar = 0


Value: TypeAlias = Lanes | SSAValue


@dataclass(frozen=True)
class Buffer:
    """Where a tensor is: element [i, j, ...] is `base[offset + i * strides[0] + j * strides[1] + ...]`.

    Axes that the buffer does not have (a row's scratch holds one row only) have stride 0.  `depth` is the loop level
    from which on the contents are complete; no load is placed outside of it.
    """

    base: SSAValue
    strides: tuple[Scalar, ...]
    offset: Scalar = 0
    depth: int = 0
    nontemporal: bool = False
    """Whether whole vectors are written to it round the caches: it and its rows are aligned to cache lines."""

    @property
    def element(self) -> Attribute:
        return element_of(self.base)


@dataclass(frozen=True)
class Splat:
    """A tensor that is the same constant everywhere."""

    value: IntegerAttr | FloatAttr


Storage: TypeAlias = Buffer | Splat | SSAValue
"""A tensor's place: memory, or a register that holds its only element (or its element for each lane)."""


def is_flag(stride: Scalar) -> bool:
    """Whether a stride is 0 or 1: `min(d, 2) - 1` for the index along an axis of size d that may be broadcast."""
    if isinstance(stride, int) or not isinstance(stride.owner, kernel.DimOp):
        return False
    return is_at_least(1 - stride.owner.expr.data[0], 0)


def row_major(builder: LoopBuilder, sizes: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The strides, in elements, of a contiguous tensor."""
    strides: list[Scalar] = [1] if sizes else []
    for size in reversed(sizes[1:]):
        strides.append(builder.mul(strides[-1], size))
    return tuple(reversed(strides))
