"""A pile: each block of the arena lies on those that live when it does and are lower in one order of all blocks.

The order comes of a plan in numbers, at likely values of the symbols.  Whatever the order is, and whatever the sizes,
no two blocks that live at one time overlap: the upper one begins at the greatest end of those below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..dialects.dims import Dim, as_dim, dim_max
from .buffers import covers, unit_of, value_at

MAX_BLOCKS = 64
"""Piles of more blocks than so many are not tried: the time that they take grows with the square."""
MAX_WAYS = 6
"""An offset is the maximum over at most so many sums; more would cost more at entry than they save."""
SPREAD = (4, 256, 32, 1)
"""Values of symbols beside the likely one: each symbol has another of them, in turn."""


class Block(Protocol):
    """What has one place for all of its time."""

    @property
    def size(self) -> Dim: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


def likely_sizes(symbols: set[str]) -> list[dict[str, int]]:
    """Values of the symbols at which plans are compared: all alike, and four that differ."""
    names = sorted(symbols)
    return [{}, *({n: SPREAD[(i + turn) % len(SPREAD)] for i, n in enumerate(names)} for turn in range(len(SPREAD)))]


def most_alive(blocks: Sequence[Block], lengths: Sequence[int]) -> int:
    """The bytes of the blocks that live at one time, at most: no plan has a lower peak."""
    return max(
        (sum(n for b, n in zip(blocks, lengths, strict=True) if b.first <= at <= b.last)
         for at in {b.first for b in blocks}), default=0,
    )  # fmt: skip


@dataclass(frozen=True)
class Pile:
    """Blocks, the lower ones first."""

    blocks: tuple[Block, ...]
    below: list[list[int]] = field(default_factory=list[list[int]])
    """Of each block the numbers of those that it lies on: not those on which one of these lies."""

    def __post_init__(self) -> None:
        lower: list[set[int]] = []
        for number, block in enumerate(self.blocks):
            met = {
                n for n in range(number) if self.blocks[n].first <= block.last and block.first <= self.blocks[n].last
            }
            lower.append(met)
            self.below.append([n for n in sorted(met) if not any(n in lower[between] for between in met)])

    def height(self, lengths: dict[int, int]) -> int:
        """The pile's size where the blocks, by identity, have these lengths."""
        ends: list[int] = []
        for block, below in zip(self.blocks, self.below, strict=True):
            ends.append(max((ends[n] for n in below), default=0) + lengths[id(block)])
        return max(ends, default=0)

    def offsets(self) -> tuple[list[Dim], Dim] | None:
        """The blocks' offsets and the pile's size; None where one of them would be a maximum over too much."""
        units = {unit_of(b.size) for b in self.blocks}
        places: list[Dim] = []
        ways: list[list[Dim]] = []  # of each block, the sums of sizes that it can end at
        for block, below in zip(self.blocks, self.below, strict=True):
            sums = greatest([way for n in below for way in ways[n]] or [as_dim(0)], units)
            if len(sums) > MAX_WAYS:
                return None
            places.append(dim_max(*sums))
            ways.append([way + block.size for way in sums])
        tops = greatest([way for sums in ways for way in sums], units)
        return (places, dim_max(*tops)) if len(tops) <= MAX_WAYS else None


def greatest(sums: Sequence[Dim], units: set[Dim]) -> list[Dim]:
    """The sums without those that another of them is at least as large as, by the signs of what they differ in."""
    kept: list[Dim] = []
    for way in dict.fromkeys(sums):
        if not any(is_more(other, way, units) for other in kept):
            kept = [other for other in kept if not is_more(way, other, units)]
            kept.append(way)
    return kept


def is_more(a: Dim, b: Dim, units: set[Dim]) -> bool:
    """Whether a >= b at every binding: they differ in a multiple of what some block's size is one of, or of symbols."""
    return covers(a, b) or unit_of(a - b) in units


def piles_at(blocks: Sequence[Block], lengths: dict[int, int]) -> list[Pile]:
    """The piles that come of plans in numbers: best fit, with the largest blocks placed first, or those of most
    bytes over time."""
    found: list[Pile] = []
    for weight in (lambda b: lengths[id(b)], lambda b: lengths[id(b)] * (b.last - b.first + 1)):
        places = best_fit(sorted(blocks, key=lambda b: (-weight(b), b.first)), lengths)
        found.append(Pile(tuple(sorted(blocks, key=lambda b: places[id(b)]))))
    return found


def best_fit(blocks: Sequence[Block], lengths: dict[int, int]) -> dict[int, int]:
    """Each block, in this order, in the smallest gap that holds it between those it meets, else on top."""
    offsets: dict[int, int] = {}
    placed: list[Block] = []
    for block in blocks:
        need = lengths[id(block)]
        meets = (p for p in placed if p.first <= block.last and block.first <= p.last)
        at, best, top = None, None, 0
        for low, high in sorted((offsets[id(p)], offsets[id(p)] + lengths[id(p)]) for p in meets):
            if low - top >= need and (best is None or low - top < best):
                at, best = top, low - top
            top = max(top, high)
        offsets[id(block)] = top if at is None else at
        placed.append(block)
    return offsets


def lowest_piles(blocks: Sequence[Block], sizes: Sequence[dict[str, int]]) -> list[tuple[list[int], Pile]]:
    """Piles, each with its heights at the given values of symbols."""
    lengths = [{id(b): value_at(b.size, at) for b in blocks} for at in sizes]
    piles = {pile.blocks: pile for each in lengths for pile in piles_at(blocks, each)}
    return [([pile.height(each) for each in lengths], pile) for pile in piles.values()]
