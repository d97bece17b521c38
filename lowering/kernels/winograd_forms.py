"""Winograd's algorithms for windows of 3: for each axis a bilinear form, two of them for an image.

Along an axis, y[i] = sum over k of d[stride * i + k] w[k], for `outputs` neighbouring i, is y = A (G w * B d): as many
products as G and B have rows, which are *terms*.  Products that only ever occur in a sum of theirs are one *element*:
they are added up with those of all channels.  G is applied to constant weights in f64, at compile time
(`packing.winograd_terms`); B and A are applied to vectors of neighbouring tiles.

With stride 1 this is Toom and Cook's interpolation (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2016).  With stride 2 it is the two-tap form of the even samples (3 products for 4) beside the odd samples'
own products, which are of elements that are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from xdsl.ir import SSAValue

from .emit import Emitter, lanes_of, scalar_type

Transform: TypeAlias = Callable[[Emitter, Sequence[SSAValue]], list[SSAValue]]
Place: TypeAlias = tuple[int, int]

TAPS = 3


@dataclass(frozen=True)
class Line:
    """The form of one axis.

    `weights` is G, `elements` the element of each term, `terms` applies B, `results` applies A.
    """

    outputs: int
    stride: int
    weights: tuple[tuple[float, ...], ...]
    elements: tuple[int, ...]
    terms: Transform
    results: Transform

    @property
    def step(self) -> int:
        """Samples from one tile to the next."""
        return self.outputs * self.stride

    @property
    def patch(self) -> int:
        """Samples that a tile reads."""
        return self.stride * (self.outputs - 1) + TAPS


def terms_of_two(e: Emitter, d: Sequence[SSAValue]) -> list[SSAValue]:
    return [e.sub(d[0], d[2]), e.add(d[1], d[2]), e.sub(d[2], d[1]), e.sub(d[1], d[3])]


def results_of_two(e: Emitter, m: Sequence[SSAValue]) -> list[SSAValue]:
    return [e.add(e.add(m[0], m[1]), m[2]), e.sub(e.sub(m[1], m[2]), m[3])]


TWO = Line(2, 1, ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)), (0, 1, 2, 3), terms_of_two, results_of_two)
"""F(2, 3), at the points 0, 1, -1 and infinity."""

NEAR, FAR = 0.75, 1.5
"""Points of F(4, 3).  Errors (rms) are half of those with 1 and 2, and all constants of A and B are exact."""


def terms_of_four(e: Emitter, d: Sequence[SSAValue]) -> list[SSAValue]:
    """Values of the patch's polynomial without its zeros at the other points."""

    def less(square: float, low: SSAValue, high: SSAValue) -> SSAValue:
        return e.fma(number(e, -square, low), low, high)

    near, far = NEAR * NEAR, FAR * FAR
    odd_near, even_near = less(far, d[1], d[3]), less(far, d[2], d[4])
    odd_far, even_far = less(near, d[1], d[3]), less(near, d[2], d[4])
    return [
        less(far, less(near, d[0], d[2]), even_far),
        e.fma(number(e, NEAR, odd_near), odd_near, even_near),
        e.fma(number(e, -NEAR, odd_near), odd_near, even_near),
        e.fma(number(e, FAR, odd_far), odd_far, even_far),
        e.fma(number(e, -FAR, odd_far), odd_far, even_far),
        less(far, odd_far, less(near, d[3], d[5])),
    ]


def results_of_four(e: Emitter, m: Sequence[SSAValue]) -> list[SSAValue]:
    even_near, even_far = e.add(m[1], m[2]), e.add(m[3], m[4])
    odd_near, odd_far = e.sub(m[1], m[2]), e.sub(m[3], m[4])

    def both(power: int, near: SSAValue, far: SSAValue) -> SSAValue:
        return e.fma(number(e, FAR**power, far), far, e.mul(number(e, NEAR**power, near), near))

    return [
        e.add(e.add(m[0], even_near), even_far),
        both(1, odd_near, odd_far),
        both(2, even_near, even_far),
        e.add(both(3, odd_near, odd_far), m[5]),
    ]


def number(e: Emitter, value: float, like: SSAValue) -> SSAValue:
    """A number in all lanes."""
    return e.constant(value, scalar_type(like), lanes_of(like))


def interpolation(points: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """G for these points and infinity."""
    rows: list[tuple[float, ...]] = []
    for p in points:
        scale = 1.0
        for q in points:
            scale *= p - q if q != p else 1.0
        rows.append(tuple(p**k / scale for k in range(TAPS)))
    return (*rows, (0.0, 0.0, 1.0))


FOUR = Line(4, 1, interpolation((0, NEAR, -NEAR, FAR, -FAR)), (0, 1, 2, 3, 4, 5), terms_of_four, results_of_four)
"""F(4, 3)."""


def terms_of_strided(e: Emitter, d: Sequence[SSAValue]) -> list[SSAValue]:
    return [e.sub(d[0], d[2]), d[1], d[2], e.sub(d[4], d[2]), d[3]]


def results_of_strided(e: Emitter, m: Sequence[SSAValue]) -> list[SSAValue]:
    return [e.add(m[0], m[1]), e.add(m[1], m[2])]


STRIDED = Line(
    2, 2, ((1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1), (0, 1, 0)), (0, 0, 1, 2, 2), terms_of_strided, results_of_strided
)
"""Two results of stride 2: 5 products for 6."""


@dataclass(frozen=True)
class Group:
    """Neighbouring elements of an image's form that are sums of as many terms: `terms` each.

    `first` is the number of the first element, `slot` that of its first term.
    """

    first: int
    count: int
    terms: int
    slot: int


@dataclass(frozen=True)
class Form:
    """The form of an image: `rows` along the rows' axis, `columns` along theirs."""

    name: str
    rows: Line
    columns: Line

    @property
    def lines(self) -> tuple[Line, Line]:
        return self.rows, self.columns

    @cached_property
    def elements(self) -> list[tuple[Place, list[Place]]]:
        """Each element's place among the elements of the two lines, and its terms'; those of most terms first."""
        terms: dict[Place, list[Place]] = {}
        for i, row in enumerate(self.rows.elements):
            for j, column in enumerate(self.columns.elements):
                terms.setdefault((row, column), []).append((i, j))
        return sorted(terms.items(), key=lambda item: -len(item[1]))

    @cached_property
    def slots(self) -> list[Place]:
        """All terms in the order of their elements."""
        return [term for _, terms in self.elements for term in terms]

    @cached_property
    def slot_elements(self) -> list[int]:
        """The element of each slot."""
        return [number for number, (_, terms) in enumerate(self.elements) for _ in terms]

    @cached_property
    def groups(self) -> list[Group]:
        found: list[Group] = []
        slot = 0
        for number, (_, terms) in enumerate(self.elements):
            if not found or found[-1].terms != len(terms):
                found.append(Group(number, 0, len(terms), slot))
            last = found[-1]
            found[-1] = Group(last.first, last.count + 1, last.terms, last.slot)
            slot += len(terms)
        return found

    @property
    def results(self) -> int:
        """Results of a tile."""
        return self.rows.outputs * self.columns.outputs

    def transformed(self, e: Emitter, patch: Sequence[Sequence[SSAValue]]) -> list[SSAValue]:
        """The terms of a patch, slot by slot."""
        by_rows = transposed([self.rows.terms(e, column) for column in transposed(patch)])
        terms = [self.columns.terms(e, row) for row in by_rows]
        return [terms[i][j] for i, j in self.slots]

    def results_of(self, e: Emitter, sums: Sequence[SSAValue]) -> list[list[SSAValue]]:
        """A tile's results of the sums of all elements."""
        height, width = (max(line.elements) + 1 for line in self.lines)
        places = {place: value for (place, _), value in zip(self.elements, sums)}
        square = [[places[i, j] for j in range(width)] for i in range(height)]
        by_rows = transposed([self.rows.results(e, column) for column in transposed(square)])
        return [self.columns.results(e, line) for line in by_rows]


def transposed(square: Sequence[Sequence[SSAValue]]) -> list[list[SSAValue]]:
    return [list(line) for line in zip(*square)]


FORMS = (Form("2x2", TWO, TWO), Form("4x2", FOUR, TWO), Form("2x2 of stride 2", STRIDED, STRIDED))
"""Errors (rms, N(0, 1), 256 channels) beside those of the direct form: 0.58, 1.01, 0.99; products 4/9, 1/3, 25/36."""
