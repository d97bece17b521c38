"""The inner loop of every product: a block of accumulators in registers, updated once for each step of the depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, SSAValue

from ..element_types import byte_width
from .emit import F32, Emitter, IndexLike, Ix, is_float


@dataclass(frozen=True)
class Products:
    """How an element type is multiplied and summed.

    f16 and bf16 are widened on load, summed in f32 and rounded once; the others are summed in themselves, integers
    wrapping.
    """

    element: Attribute

    @property
    def sums(self) -> Attribute:
        """The type of products and sums."""
        return F32 if isinstance(self.element, Float16Type | BFloat16Type) else self.element

    @property
    def packed(self) -> Attribute:
        """The type of factors that are packed."""
        return self.sums

    @property
    def per_step(self) -> int:
        """Elements of the depth in a packed factor, which are multiplied in one step."""
        return 1

    @property
    def bytes(self) -> int:
        """Of a packed factor, and of a sum."""
        return byte_width(self.sums)

    @property
    def fused(self) -> bool:
        """Whether a product and its addition are one instruction."""
        return is_float(self.sums)

    @property
    def in_flight(self) -> int:
        """Independent sums that keep both of a core's units busy: twice the cycles of one addition."""
        return 8

    def widen(self, e: Emitter, value: SSAValue) -> SSAValue:
        """A value as in memory, or widened already, as a factor."""
        return e.convert("extf", value, self.sums)

    def multiply_add(self, e: Emitter, row: SSAValue, column: SSAValue, total: SSAValue) -> SSAValue:
        """total + row * column, lane by lane."""
        return e.fma(row, column, total)

    def load(self, e: Emitter, buffer: SSAValue, at: IndexLike) -> SSAValue:
        """A factor from memory."""
        return self.widen(e, e.load(buffer, at))

    def load_vector(
        self, e: Emitter, buffer: SSAValue, at: IndexLike, lanes: int, mask: SSAValue | None = None
    ) -> SSAValue:
        """Neighbouring factors; 0 outside of the mask."""
        return self.widen(e, e.load_vector(buffer, at, lanes, mask))

    def load_along(self, e: Emitter, buffer: SSAValue, at: Ix, left: Ix, lanes: int) -> SSAValue:
        """The factors of `lanes` steps, packed, of a depth that is contiguous: from `at` on, of `left` elements."""
        return self.load_vector(e, buffer, at, lanes, e.mask(left, lanes))

    def load_spread(self, e: Emitter, buffer: SSAValue, at: Ix, stride: Ix, left: Ix, lanes: int) -> SSAValue:
        """As `load_along`, of a depth whose elements are `stride` apart."""
        return self.widen(e, e.gather(buffer, e.ramp(at, stride, lanes), e.mask(left, lanes)))

    def load_across(
        self, e: Emitter, buffer: SSAValue, at: Ix, pitch: Ix, left: Ix, lanes: int, mask: SSAValue | None
    ) -> SSAValue:
        """Neighbouring factors of one step, packed: elements of the depth are `pitch` apart, `left` of them there."""
        return self.load_vector(e, buffer, at, lanes, mask)

    def narrow(self, e: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
        """A sum as an element of that type."""
        assert element in (self.element, self.sums), f"a sum of {self.sums} does not become {element}"
        return e.convert("truncf", value, element)


Factors: TypeAlias = tuple[list[SSAValue], Callable[[int], SSAValue]]
"""The vectors of one step, and a function that loads the scalar of a row."""


@dataclass(frozen=True)
class RegisterTile:
    """c[rows, columns] = sum over the depth of p[depth, rows] * q[depth, columns], with all of c in registers.

    A step loads `vectors` vectors of q and `rows` scalars of p, each put into all lanes of one register, so the tile
    takes rows * vectors + vectors + 1 registers: 14 x 2 is 31 of AVX-512's 32, 6 x 2 is 15 of AVX2's 16.
    """

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def registers(self) -> int:
        return self.rows * self.vectors + self.vectors + 1

    def accumulate(
        self, e: Emitter, products: Products, extents: Sequence[IndexLike], factors: Callable[[list[Ix]], Factors]
    ) -> list[SSAValue]:
        """The accumulators, row by row, after the loops over `extents`, outermost first, in order.

        `factors` loads a step's factors, widened; each sum starts at 0 and is one chain.
        """
        zero = e.constant(0, products.sums, self.lanes)

        def step(indices: list[Ix], sums: tuple[SSAValue, ...]) -> list[SSAValue]:
            vectors, scalar = factors(indices)
            updated: list[SSAValue] = []
            for row in range(self.rows):
                factor = e.splat(scalar(row), self.lanes)
                for v, column in enumerate(vectors):
                    updated.append(products.multiply_add(e, factor, column, sums[row * self.vectors + v]))
            return updated

        return list(e.nest(extents, [zero] * (self.rows * self.vectors), step))


def largest_rows(registers: int, vectors: int) -> int:
    """The most rows that a tile of so many vectors can have."""
    return (registers - vectors - 1) // vectors
