"""The stages of Stockham's algorithm: butterflies of two, four, five, and of any odd factor by its definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from .emit import Emitter, Ix

if TYPE_CHECKING:
    from .fourier import Transform

FIFTHS = (2 * pi / 5, 4 * pi / 5)
Complex = tuple[SSAValue, SSAValue]


@dataclass(frozen=True)
class Stage:
    """A step by a factor R: with `parts` = what is left of the length, element p + parts * j of each of `stride` lines
    of lines goes to R * p + k.
    """

    owner: Transform
    parts: Ix
    stride: Ix
    present: Ix
    half: Ix

    @property
    def e(self) -> Emitter:
        return self.owner.e

    @property
    def inner(self) -> Ix:
        """Neighbouring elements that are treated alike."""
        return self.stride * self.present

    def read(self, at: Ix, mask: SSAValue) -> Complex:
        o = self.owner
        place = at + self.half * o.half
        real, imaginary = (self.e.load_vector(part, place, o.lanes, mask) for part in o.work)
        return real, imaginary

    def write(self, value: Complex, at: Ix, mask: SSAValue) -> None:
        o = self.owner
        place = at + (1 - self.half) * o.half
        for number, part in zip(value, o.work):
            self.e.store_vector(number, part, place, mask)

    def twiddle(self, turn: Ix) -> Complex:
        """exp(-2 pi i turn / size), in all lanes."""
        e, o = self.e, self.owner
        real, imaginary = (e.splat(e.load(table, turn), o.lanes) for table in o.twiddles)
        return real, imaginary

    def add(self, a: Complex, b: Complex) -> Complex:
        return self.e.add(a[0], b[0]), self.e.add(a[1], b[1])

    def sub(self, a: Complex, b: Complex) -> Complex:
        return self.e.sub(a[0], b[0]), self.e.sub(a[1], b[1])

    def two(self) -> None:
        self._butterflies(2, lambda a: [self.add(a[0], a[1]), self.sub(a[0], a[1])])

    def four(self) -> None:
        def butterfly(a: Sequence[Complex]) -> list[Complex]:
            even, odd = self.add(a[0], a[2]), self.add(a[1], a[3])
            low, high = self.sub(a[0], a[2]), self.sub(a[1], a[3])
            down = self.e.add(low[0], high[1]), self.e.sub(low[1], high[0])  # low - i high
            up = self.e.sub(low[0], high[1]), self.e.add(low[1], high[0])
            return [self.add(even, odd), down, self.sub(even, odd), up]

        self._butterflies(4, butterfly)

    def five(self) -> None:
        """By the symmetry of the fifth roots of one: what cancels in exact numbers cancels here too."""
        e, o = self.e, self.owner
        c1, c2, s1, s2 = (e.constant(v, o.t, o.lanes) for v in (*map(cos, FIFTHS), *map(sin, FIFTHS)))

        def butterfly(a: Sequence[Complex]) -> list[Complex]:
            outer, inner = self.add(a[1], a[4]), self.add(a[2], a[3])
            turn, twist = self.sub(a[1], a[4]), self.sub(a[2], a[3])

            def level(x: SSAValue, y: SSAValue) -> Complex:
                real, imaginary = (e.add(e.add(v, e.mul(x, p)), e.mul(y, q)) for v, p, q in zip(a[0], outer, inner))
                return real, imaginary

            def side(x: SSAValue, y: SSAValue, combine: Callable[[SSAValue, SSAValue], SSAValue]) -> Complex:
                """-i times the sum of sines"""
                real, imaginary = (combine(e.mul(x, p), e.mul(y, q)) for p, q in zip(turn, twist))
                return imaginary, e.sub(e.constant(0.0, o.t, o.lanes), real)

            near, far = level(c1, c2), level(c2, c1)
            down, up = side(s1, s2, e.add), side(s2, s1, e.sub)
            total = self.add(self.add(a[0], outer), inner)
            return [total, self.add(near, down), self.add(far, up), self.sub(far, up), self.sub(near, down)]

        self._butterflies(5, butterfly)

    def _butterflies(self, radix: int, butterfly: Callable[[Sequence[Complex]], list[Complex]]) -> None:
        e, o = self.e, self.owner
        with e.loop(0, self.parts) as p:
            factors = [self.twiddle(p.index * self.stride * k) for k in range(1, radix)]
            with e.loop(0, self.inner, o.lanes) as q:
                mask = e.mask(self.inner - q.index, o.lanes)
                places = [(p.index + self.parts * j) * self.inner for j in range(radix)]
                results = butterfly([self.read(q.index + place, mask) for place in places])
                for k, value in enumerate(results):
                    if k:
                        value = o.product(value, factors[k - 1])
                    self.write(value, q.index + (p.index * radix + k) * self.inner, mask)

    def odd(self, radix: Ix) -> None:
        """By the definition, for each of the R results."""
        e, o = self.e, self.owner
        zero = e.constant(0.0, o.t, o.lanes)
        turn = o.size // radix
        with e.loop(0, self.parts) as p, e.loop(0, radix) as k:
            factor = self.twiddle(p.index * self.stride * k.index)
            with e.loop(0, self.inner, o.lanes) as q:
                mask = e.mask(self.inner - q.index, o.lanes)
                with e.loop(0, radix, carried=[zero, zero]) as j:
                    weight = self.twiddle(j.index * k.index % radix * turn)
                    value = self.read(q.index + (p.index + self.parts * j.index) * self.inner, mask)
                    term = o.product(value, weight)
                    j.carry([e.add(a, b) for a, b in zip(j.carried, term)])
                total = o.product((j.results[0], j.results[1]), factor)
                self.write(total, q.index + (p.index * radix + k.index) * self.inner, mask)
