"""The loop over vectors: whole vectors in groups, whole vectors one by one, the last one under a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from ..loop_builder import LoopBuilder, Scalar

Carried: TypeAlias = tuple[SSAValue, ...]


@dataclass(frozen=True)
class Point:
    """One vector of results: `at` is the index of its first lane; lanes outside of the mask are not there."""

    at: Scalar
    mask: SSAValue | None = None
    count: Scalar | None = None
    """How many lanes are in the mask, where those are the first ones."""


Body: TypeAlias = Callable[[Sequence[Point], Carried], Carried]
"""Emits some points, given the carried values; gives the next ones."""


@dataclass(frozen=True)
class VectorLoop:
    """Walks through [lower, lower + count) in vectors of `lanes`, `group` of them in one iteration where that fits.

    With `turns`, an iteration still has one vector, but only multiples of `turns` of them go to the grouped body, so
    that it may use that many accumulators in turn.
    """

    builder: LoopBuilder
    lower: Scalar
    count: Scalar
    lanes: int
    group: int = 1
    turns: int = 1
    edges: bool = False
    """Whether the first and the last whole vector stand alone: what is known of the others need not hold there."""

    def run(self, grouped: Body, single: Body, carried: Carried = ()) -> Carried:
        """Emits the loops: `grouped` for groups, `single` for the whole vectors and the part of one after them."""
        builder, lanes, count = self.builder, self.lanes, self.count
        block = lanes * max(self.group, self.turns)
        whole = builder.mul(builder.div(count, block), block)
        if self.edges and block == lanes and isinstance(whole, int) and isinstance(count, int):
            carried = self._with_edges(whole, count, grouped, carried)
        else:
            carried = self._span(0, whole, self.group, grouped, carried)
        if block == 1:
            return carried
        vectors = builder.mul(builder.div(count, lanes), lanes)
        if block > lanes:
            carried = self._span(whole, builder.sub(vectors, whole), 1, single, carried)
        return carried if lanes == 1 else self._tail(vectors, builder.sub(count, vectors), single, carried)

    def _with_edges(self, whole: int, count: int, body: Body, carried: Carried) -> Carried:
        """The whole vectors: the first, those between, and the last where no part of one follows."""
        first = min(self.lanes, whole)
        last = self.lanes if whole == count and whole > first else 0
        carried = self._span(0, first, 1, body, carried)
        carried = self._span(first, whole - first - last, 1, body, carried)
        return self._span(whole - last, last, 1, body, carried)

    def _span(self, start: Scalar, count: Scalar, group: int, body: Body, carried: Carried) -> Carried:
        """`count` elements from `start` on, a multiple of the group's."""
        builder, step = self.builder, group * self.lanes
        lower = builder.add(self.lower, start)

        def points(base: Scalar) -> list[Point]:
            return [Point(builder.add(base, i * self.lanes)) for i in range(group)]

        if count == 0:
            return carried
        if count == step:
            return body(points(lower), carried)
        with builder.loop(lower, builder.add(lower, count), step, carried, nonempty=isinstance(count, int)) as loop:
            loop.carry(body(points(loop.index), loop.carried))
        return loop.results

    def _tail(self, start: Scalar, count: Scalar, body: Body, carried: Carried) -> Carried:
        """The last vector, of `count` lanes; where that is not known now, a loop of no or one iteration."""
        builder = self.builder
        at = builder.add(self.lower, start)
        if count == 0:
            return carried
        if isinstance(count, int):
            return body([Point(at, builder.mask(count, self.lanes), count)], carried)
        with builder.loop(0, count, self.lanes, carried) as loop:
            point = Point(builder.add(at, loop.index), builder.mask(count, self.lanes), count)
            loop.carry(body([point], loop.carried))
        return loop.results
