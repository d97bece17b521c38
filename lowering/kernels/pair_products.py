"""Products of f32 in the precision mode `bf16`: factors are rounded to bf16, two steps of the depth to a 32-bit word.

A word has the even step in its lower half.  A depth that is odd is filled up with 0 on both sides, which adds nothing.
"""

from __future__ import annotations

from xdsl.dialects import vector
from xdsl.dialects.builtin import bf16, f32, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel, vectorx
from ..loop_builder import vector_of
from .emit import Emitter, Ix, lanes_of
from .operands import element_type, in_bf16
from .register_tile import Products


def products_of(op: kernel.TemplateOp, operand: int = 0) -> Products:
    """How a template multiplies: in its mode, or in the type of an operand."""
    return PairProducts() if in_bf16(op) else Products(element_type(op.inputs[operand]))


class PairProducts(Products):
    """Two products of bf16 to each f32, whose sums are f32."""

    def __init__(self) -> None:
        super().__init__(f32)

    @property
    def packed(self) -> Attribute:
        return i32

    @property
    def per_step(self) -> int:
        return 2

    @property
    def in_flight(self) -> int:
        return 12

    def widen(self, e: Emitter, value: SSAValue) -> SSAValue:
        return value  # words stay words

    def multiply_add(self, e: Emitter, row: SSAValue, column: SSAValue, total: SSAValue) -> SSAValue:
        return e.dot("bf16", total, as_halves(e, row), as_halves(e, column))

    def load_along(self, e: Emitter, buffer: SSAValue, at: Ix, left: Ix, lanes: int) -> SSAValue:
        low, high = (e.load_vector(buffer, at + n, lanes, e.mask(left - n, lanes)) for n in (0, lanes))
        return as_words(e, rounded(e, low, high))

    def load_spread(self, e: Emitter, buffer: SSAValue, at: Ix, stride: Ix, left: Ix, lanes: int) -> SSAValue:
        parts = [super(PairProducts, self).load_spread(e, buffer, at + stride * n, stride, left - n, lanes)
                 for n in (0, lanes)]  # fmt: skip
        return as_words(e, rounded(e, *parts))

    def load_across(
        self, e: Emitter, buffer: SSAValue, at: Ix, pitch: Ix, left: Ix, lanes: int, mask: SSAValue | None
    ) -> SSAValue:
        low = e.load_vector(buffer, at, lanes, mask)
        there = e.splat(left.compare("sgt", 1), lanes)
        high = e.load_vector(buffer, at + pitch, lanes, there if mask is None else e.both(there, mask))
        return paired(e, low, high)


def paired(e: Emitter, low: SSAValue, high: SSAValue) -> SSAValue:
    """Words of each lane of two vectors of f32."""
    halves = rounded(e, low, high)
    lanes = e.target.lanes(4)
    order = [i + lanes * half for i in range(lanes) for half in range(2)]
    return as_words(e, e.shuffle(halves, halves, order))


def rounded(e: Emitter, low: SSAValue, high: SSAValue) -> SSAValue:
    """The lanes of two vectors of f32 as one vector of bf16."""
    lanes = lanes_of(low)
    assert lanes is not None
    return e.b.insert(vectorx.HalvesOp(low, high, vector_of(bf16, 2 * lanes))).result


def as_halves(e: Emitter, words: SSAValue) -> SSAValue:
    """A vector of words as the bf16 in them."""
    lanes = lanes_of(words)
    assert lanes is not None
    return e.b.hoisted(vector.BitcastOp(words, vector_of(bf16, 2 * lanes))).result


def as_words(e: Emitter, halves: SSAValue) -> SSAValue:
    """A vector of bf16 as words of two."""
    lanes = lanes_of(halves)
    assert lanes is not None
    return e.b.hoisted(vector.BitcastOp(halves, vector_of(i32, lanes // 2))).result
