"""Powers of two by which the rows of a product are scaled while they are packed, and their inverses.

Algorithms that add rows have errors that are small against the largest of them.  Where all rows are of one magnitude
each row's errors are small against that row, as in the direct form, and scaling by powers of two has no errors itself.
(G. Ballard, A. R. Benson, A. Druinsky, B. Lipshitz, O. Schwartz, Improving the numerical stability of fast matrix
multiplication, 2016: "outside scaling".)

The inverse of a row of zeros is 0, so its results are.  A row that has a NaN or an infinity is packed as zeros, and its
inverse is NaN: its results are NaN, and no other row sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ..template import TemplateContext
from .emit import Emitter, Ix

MANTISSA_BITS = 23
EXPONENT_OF_ONE = 127
MAGNITUDE = 0x7FFFFFFF
INFINITY = 0x7F800000
NAN = 0x7FC00000
SIGN = -(1 << 31)
LEAST_EXPONENT, MOST_EXPONENT = 1, 2 * EXPONENT_OF_ONE - 1
"""Of a row: the factors and inverses of these are normal numbers."""
INVERSES = 2
"""The table behind those of the factors."""


@dataclass(frozen=True)
class RowScales:
    """Of `rows` pairs of f32 rows, for one K block, in scratch: tables by [odd] and [odd, sign of the inverse]."""

    e: Emitter
    rows: int
    scales: SSAValue
    """Factors (2 tables), then inverses (4), as f32."""
    kept: SSAValue
    """All bits for finite rows, else none (2 tables), as i32."""

    @staticmethod
    def take(e: Emitter, context: TemplateContext, rows: int, thread: SSAValue) -> RowScales:
        scales = context.scratch(f32, (INVERSES + 4) * rows, thread)
        return RowScales(e, rows, scales, context.scratch(i32, 2 * rows, thread))

    def inverse_at(self, odd: int, sign: int) -> int:
        """Where the table of the even or odd rows' inverses begins, times 1 or -1."""
        return (INVERSES + 2 * odd + (sign < 0)) * self.rows

    def inverse(self, at: Ix, lanes: int) -> SSAValue:
        """One of them in all lanes."""
        return self.e.splat(self.e.load(self.scales, at), lanes)

    def scaled(self, row: Ix, odd: int, value: SSAValue) -> SSAValue:
        """A vector of a row as it is packed."""
        e, lanes = self.e, self.e.target.lanes(4)
        at = row + odd * self.rows
        bits = e.bits("and", e.convert("bitcast", value, i32), e.splat(e.load(self.kept, at), lanes))
        return e.mul(e.convert("bitcast", bits, f32), e.splat(e.load(self.scales, at), lanes))

    def measure(self, row: Ix, source: SSAValue, starts: tuple[Ix, Ix], depth: int) -> None:
        """Finds the scales of a pair of rows, which begin at these places, from `depth` elements, halves of vectors."""
        e, lanes = self.e, self.e.target.lanes(4)
        half = depth // 2
        places = [start + part for start in starts for part in (0, half)]
        zero, magnitude = e.constant(0, i32, lanes), e.constant(MAGNITUDE, i32, lanes)
        with e.loop(0, half, lanes, carried=[zero] * len(places), nonempty=True) as loop:
            values = (e.load_vector(source, loop.index + place, lanes) for place in places)
            found = (e.bits("and", e.convert("bitcast", v, i32), magnitude) for v in values)
            loop.carry([e.extremum("maxsi", m, v) for m, v in zip(loop.carried, found)])
        for odd in range(2):
            left, right = loop.results[2 * odd : 2 * odd + 2]
            self.keep(row, odd, e.reduce("maxsi", e.extremum("maxsi", left, right)))

    def keep(self, row: Ix, odd: int, largest: SSAValue) -> None:
        """Stores the scales of a row with that largest magnitude, as bits."""
        e = self.e

        def number(value: int) -> SSAValue:
            return e.constant(value, i32)

        def power(exponent: SSAValue) -> SSAValue:
            return e.bits("shl", exponent, number(MANTISSA_BITS))

        def store(bits: SSAValue, table: int) -> None:
            e.store(e.convert("bitcast", bits, f32), self.scales, row + table)

        exponent = e.bits("shrui", largest, number(MANTISSA_BITS))
        exponent = e.extremum("minsi", e.extremum("maxsi", exponent, number(LEAST_EXPONENT)), number(MOST_EXPONENT))
        finite = e.compare("slt", largest, number(INFINITY))
        some = e.compare("ne", largest, number(0))
        inverse = e.select(finite, e.select(some, power(exponent), number(0)), number(NAN))
        e.store(e.select(finite, number(-1), number(0)), self.kept, row + odd * self.rows)
        store(power(e.sub(number(2 * EXPONENT_OF_ONE), exponent)), odd * self.rows)
        store(inverse, self.inverse_at(odd, 1))
        store(e.bits("or", inverse, number(SIGN)), self.inverse_at(odd, -1))
