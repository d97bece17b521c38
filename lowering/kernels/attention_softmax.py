"""The softmax of a tile's rows over a block of keys: what is done to the scores between the two products.

A row alone would wait for its maximum and then for its sum: each is a chain through all lanes.  So rows leave vectors
of partial maxima and sums, and these are reduced for as many rows at once as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from .activations import like
from .attention_scores import ScoreFormula
from .attention_steps import divisor_of, weights_in_steps
from .emit import Emitter, Ix, lanes_of
from .panels import reduced_across

if TYPE_CHECKING:
    from .attention_tile import QueryTile


class BlockSoftmax:
    """Makes the scores of all rows and some keys into exponentials, with the rows' maxima and sums so far."""

    def __init__(self, tile: QueryTile, first: Ix, count: Ix) -> None:
        self.tile, self.a, self.e, self.s = tile, tile.a, tile.e, tile.s
        self.first, self.count = first, count
        self.whole = count // self.a.wide * self.a.wide
        """The keys that fill vectors that are computed in step."""

    def build(self) -> None:
        a, e = self.a, self.e
        with e.loop(0, self.tile.count, nonempty=True) as rows:
            self.find_maximum(rows.index)
        for first in self.groups():
            self.reduce_maxima(first)
        with e.loop(0, self.tile.count, nonempty=True) as rows:
            if a.in_steps:
                shift = e.b.broadcast(e.load(self.s.bases, rows.index), a.wide)
                at = rows.index * e.dim(a.pitch)
                weights_in_steps(e, self.s.scores, at, self.count, shift, a.lanes, a.empty_is_nan)
            else:
                self.exponentiate(rows.index)
        for first in self.groups():
            self.reduce_sums(first)

    def groups(self) -> range:
        """The rows that are reduced together begin here."""
        return range(0, self.tile.height, self.a.lanes)

    # Row by row

    def find_maximum(self, row: Ix) -> None:
        """The formula of a row's scores, and their maximum in each lane."""
        a, e = self.a, self.e
        formula = ScoreFormula(self.tile, row)
        at = row * e.dim(a.pitch)

        def greatest(lower: Ix, upper: Ix, lanes: int, start: SSAValue) -> SSAValue:
            with e.loop(lower, upper, lanes, carried=[start]) as loop:
                products = e.load_vector(self.s.scores, loop.index + at, lanes)
                left = None if lanes == a.wide else self.count - loop.index
                scores = formula.apply(products, self.first + loop.index, left)
                if scores is not products:
                    e.store_vector(scores, self.s.scores, loop.index + at)
                self.tile.keep(scores, row, self.first + loop.index, left)
                loop.carry([greater(e, scores, loop.carried[0])])
            return loop.results[0]

        free = self.visible_to_all()
        in_step = greatest(e.ix(0), free, a.wide, e.constant(-inf, a.sums, a.wide))
        first, *others = self.parts(in_step)
        for other in others:
            first = greater(e, first, other)
        if free.known is None or free.known != self.count.known:
            first = greatest(free, self.count, a.lanes, first)
        e.store_vector(first, self.s.partial, row * a.wide)

    def visible_to_all(self) -> Ix:
        """As `whole`, of the keys that limits hide from no row."""
        a = self.a
        if not a.limited:
            return self.whole
        if a.o.attr("left_window_size", -1) >= 0:
            return self.e.ix(0)
        seen = (self.tile.seen_by_all - self.first).max(0).min(self.count)
        return seen // a.wide * a.wide

    def exponentiate(self, row: Ix) -> None:
        """A row's exponentials, and their sums in each lane of `wide`."""
        a, e, s = self.a, self.e, self.s
        at, sums_at = row * e.dim(a.pitch), row * a.wide
        base = e.load(s.bases, row)

        def exponentials(key: Ix, lanes: int) -> SSAValue:
            shift = e.b.broadcast(base, lanes)
            weights = e.math("exp", e.sub(e.load_vector(s.scores, key + at, lanes), shift))
            e.store_vector(weights, s.scores, key + at)
            return weights

        with e.loop(0, self.whole, a.wide, carried=[e.constant(0, a.sums, a.wide)]) as loop:
            loop.carry([e.add(loop.carried[0], exponentials(loop.index, a.wide))])
        e.store_vector(loop.results[0], s.partial, sums_at)
        if self.whole.known is not None and self.whole.known == self.count.known:
            return
        with e.loop(self.whole, self.count, a.lanes) as loop:
            weights = exponentials(loop.index, a.lanes)
            place = sums_at + (loop.index - self.whole)
            e.store_vector(e.add(e.load_vector(s.partial, place, a.lanes), weights), s.partial, place)

    def parts(self, wide: SSAValue) -> list[SSAValue]:
        """The vectors that are computed in step."""
        lanes, count = self.a.lanes, lanes_of(wide) or 1
        if lanes == count:
            return [wide]
        return [self.e.shuffle(wide, wide, range(k, k + lanes)) for k in range(0, count, lanes)]

    # For many rows at once

    def reduce_maxima(self, first: int) -> None:
        """The maxima so far, what is subtracted from scores, and what is to be multiplied with sums of before."""
        a, e, s = self.a, self.e, self.s
        rows = [e.load_vector(s.partial, row * a.wide, a.lanes) for row in self.rows(first)]
        maximum = self.across("maximumf", lambda x, y: greater(e, x, y), rows)
        before = None
        if not a.one_block:
            before = e.load_vector(s.maxima, first, a.lanes)
            maximum = greater(e, maximum, before)
        e.store_vector(maximum, s.maxima, first)
        # exp(-inf - -inf) is no number: without any key so far everything is 0
        none = e.compare("oeq", maximum, like(e, -inf, maximum))
        base = e.select(none, like(e, 0.0, maximum), maximum)
        e.store_vector(base, s.bases, first)
        if before is not None:
            e.store_vector(e.math("exp", e.sub(before, base)), s.scales, first)

    def reduce_sums(self, first: int) -> None:
        """The sums of exponentials so far; of the last block, what divides the sums of values."""
        a, e, s = self.a, self.e, self.s
        if a.in_steps:
            total = e.constant(1, a.sums, a.lanes)
        else:
            parts = [[e.load_vector(s.partial, row * a.wide + k, a.lanes) for k in range(0, a.wide, a.lanes)]
                     for row in self.rows(first)]  # fmt: skip
            total = self.across("add", e.add, [halved(e, row) for row in parts])
        if a.one_block:
            e.store_vector(inverse(self.tile, total), s.scales, first)
            return
        scaled = e.mul(e.load_vector(s.totals, first, a.lanes), e.load_vector(s.scales, first, a.lanes))
        e.store_vector(e.add(scaled, total), s.totals, first)

    def rows(self, first: int) -> list[int]:
        """As many rows as a vector has lanes; the last one stands for those that are not there."""
        return [min(row, self.tile.height - 1) for row in range(first, first + self.a.lanes)]

    def across(self, kind: str, combine: Callable[[SSAValue, SSAValue], SSAValue], rows: list[SSAValue]) -> SSAValue:
        """Lane r of the result is all lanes of rows[r]."""
        if self.tile.height == 1:
            return self.e.b.broadcast(self.e.reduce(kind, rows[0]), self.a.lanes)
        return reduced_across(self.e, combine, rows)


def greater(e: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    """Lane by lane; a NaN of `a` is passed over, and comes through the exponential."""
    return e.select(e.compare("ogt", a, b), a, b)


def halved(e: Emitter, vectors: list[SSAValue]) -> SSAValue:
    """The sum, in the order of `Emitter.reduce` of all of them as one vector."""
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [e.add(x, y) for x, y in zip(vectors[:half], vectors[half:])]
    return vectors[0]


def inverse(tile: QueryTile, totals: SSAValue) -> SSAValue:
    """1 / the sum of exponentials."""
    a, e = tile.a, tile.e
    return e.div(like(e, 1.0, totals), divisor_of(e, totals, a.empty_is_nan, e.dim(a.keys)))
