"""What is known of an index while code is built: the least and greatest number that it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from .loop_builder import Scalar
from .places import Lanes

Range: TypeAlias = tuple[int, int]

_DEPTH = 8
"""Ops that are looked through."""


def _sum(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _product(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


_COMBINED: Mapping[type[Operation], Callable[[Range, Range], Range]] = {
    arith.AddiOp: _sum,
    arith.SubiOp: _difference,
    arith.MuliOp: _product,
}


def range_of(value: Scalar, depth: int = _DEPTH) -> Range | None:
    """The range of a number, of a loop's index between known bounds, and of sums and products of such."""
    if isinstance(value, int):
        return value, value
    owner = value.owner
    if isinstance(owner, Block):
        return _loop_range(owner, value)
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data, owner.value.value.data
    combine = _COMBINED.get(type(owner))
    if combine is None or depth == 0:
        return None
    a, b = (range_of(operand, depth - 1) for operand in owner.operands)
    return None if a is None or b is None else combine(a, b)


def _loop_range(block: Block, value: SSAValue) -> Range | None:
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp) or value is not block.args[0]:
        return None
    bounds = [range_of(bound, 0) for bound in (loop.lb, loop.ub, loop.step)]
    if any(b is None or b[0] != b[1] for b in bounds):
        return None
    lower, upper, step = (b[0] for b in bounds if b is not None)
    return (lower, lower + (upper - 1 - lower) // step * step) if lower < upper else None


def difference_range(a: Lanes, b: Lanes, lanes: int) -> Range | None:
    """The range of a - b over some lanes."""
    strides = (a.stride, b.stride)
    bases = range_of(a.base), range_of(b.base)
    if not all(isinstance(s, int) for s in strides) or bases[0] is None or bases[1] is None:
        return None
    low, high = _difference(bases[0], bases[1])
    last = (int(a.stride) - int(b.stride)) * (lanes - 1)  # pyright: ignore[reportArgumentType]
    return low + min(last, 0), high + max(last, 0)
