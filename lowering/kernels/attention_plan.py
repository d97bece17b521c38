"""The operands of an attention by number, how rows lie in tensors of heads, and the sizes that it is computed in."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects.dims import Dim
from ...dialects.target import Target
from ..body import Buffer
from ..choices import GRAIN_CYCLES, ORDER, VECTOR_WIDTH, Choices, Given, given_number
from .emit import Emitter, Ix
from .register_tile import largest_rows

Q, K, V, MASK, PAST_K, PAST_V, LENGTHS = range(7)
Y, PRESENT_K, PRESENT_V, SCORES = range(4)
KEY_BLOCK = 256
"""Keys whose scores are kept at once."""
FEW_QUERIES = 4
"""The height of a tile for few rows, where their number is not known."""
WORTH_A_TAIL = 32
"""Of so many rows one that is empty is not worth tiles of another height, which are more code."""


@dataclass(frozen=True)
class AttentionPlan(Choices):
    """The sizes of one attention: `rows` query rows go through the keys together, by blocks of `key_block` keys.

    `tail_rows`: the height of the last tiles, where not all are whole (0: there is one kind of tile).
    """

    rows: int
    tail_rows: int
    key_block: int
    lanes: int

    FIXED = {"key_block": ORDER, "lanes": VECTOR_WIDTH}

    @staticmethod
    def choose(queries: Dim, target: Target, lanes: int, given: Given) -> AttentionPlan:
        """Equal tiles, as high as the registers allow; or as given."""
        tall = rows = 1 if target.plain else largest_rows(target.vector_registers, 2)
        tail = FEW_QUERIES
        if queries.is_const:
            tiles = -(-queries.value // tall)
            rows = -(-queries.value // tiles)
            empty = tiles * rows - queries.value
            tail = rows - 1 if empty * WORTH_A_TAIL > queries.value else 0
        wanted = given_number(given, "rows", rows, 1)
        rows = wanted if wanted <= tall else rows
        wanted = given_number(given, "tail_rows", tail, 1)
        tail = wanted if tail and wanted < rows else min(tail, rows - 1)
        grain = given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
        return AttentionPlan(rows, tail, KEY_BLOCK, lanes, grain_cycles=grain)

    def fits(self, queries: Dim) -> bool:
        """Whether every tile is full."""
        if not queries.is_const:
            return False
        tiles = -(-queries.value // self.rows)
        empty = tiles * self.rows - queries.value
        return empty == 0 or (self.tail_rows == self.rows - 1 and empty <= tiles)


@dataclass(frozen=True)
class Heads:
    """Rows of a tensor of heads: row s of head h of sample b is `size` elements at `at(b, h, s)`."""

    buffer: SSAValue
    heads: Ix
    rows: Ix
    size: Ix
    strides: tuple[Ix, Ix, Ix]
    """From one sample, head and row to the next."""
    offset: Ix | int = 0

    @staticmethod
    def whole(buffer: SSAValue, heads: Ix, rows: Ix, size: Ix, joined: bool) -> Heads:
        """A contiguous tensor: [B, S, heads * size] where the heads of a row are `joined`, else [B, heads, S, size]."""
        strides = (size, heads * size) if joined else (rows * size, size)
        return Heads(buffer, heads, rows, size, (heads * rows * size, *strides))

    @staticmethod
    def placed(e: Emitter, place: Buffer, heads: Ix, rows: Ix, size: Ix) -> Heads:
        """A tensor of three or four axes that may lie with any strides, but for the last."""
        sample, *others = (e.ix(stride) for stride in place.strides[:-1])
        head, row = others if len(others) == 2 else (size, *others)
        return Heads(place.base, heads, rows, size, (sample, head, row), e.ix(place.offset))

    @property
    def pitch(self) -> Ix:
        return self.strides[2]

    def at(self, sample: Ix, head: Ix, row: Ix | int = 0) -> Ix:
        return sample * self.strides[0] + head * self.strides[1] + self.offset + self.pitch * row
