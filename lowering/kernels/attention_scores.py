"""What an attention does to the products of a row with keys: soft cap, mask, limits."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from ...dialects.dims import as_dim
from .activations import like
from .attention_plan import MASK, SCORES
from .emit import Ix, lanes_of
from .matmul_problem import batch_strides
from .register_tile import Products

if TYPE_CHECKING:
    from .attention import Attention
    from .attention_tile import QueryTile


class ScoreFormula:
    """What is done to the products of one row: soft cap, mask, limits."""

    def __init__(self, tile: QueryTile, row: Ix) -> None:
        self.tile, self.a, self.e, self.o, self.row = tile, tile.a, tile.e, tile.o, row
        e = self.e
        if self.a.limited:
            self.low, self.high = (e.load_index(tile.s.bounds, row * 2 + i) for i in range(2))
        self.mask_at = self._mask_row() if self.o.has(MASK) else None

    def _mask_row(self) -> Ix:
        """Where the row of the mask starts."""
        a, e, tile = self.a, self.e, self.tile
        dims = self.o.dims(MASK)
        space = (a.batch, a.q_heads, a.queries)
        strides = batch_strides(e, dims[:-1], space, e.dim(dims[-1]))
        index = (tile.sample, tile.head, tile.row + self.row)
        at = e.ix(0)
        for i, stride in zip(index, strides, strict=True):
            at = at + i * stride
        return at

    def apply(self, scores: SSAValue, key: Ix, left: Ix | None) -> SSAValue:
        """The scores of keys from `key` on; minus infinity for what is not attended to.

        Of the keys `left` are there; None: all, and no limits hide them.
        """
        a, e, o = self.a, self.e, self.o
        lanes = lanes_of(scores) or 1
        there = None if left is None else e.mask(left, lanes)
        scores = a.rounded(scores)
        mode = o.attr("qk_matmul_output_mode", 0) if o.has_result(SCORES) else None
        self._show(mode == 0, scores, key, there)
        cap = o.attr("softcap", 0.0)
        if cap:
            cap_lanes = like(e, float(cap), scores)
            bent = a.rounded(e.math("tanh", a.rounded(e.div(scores, cap_lanes))))
            scores = a.rounded(e.mul(bent, cap_lanes))
        self._show(mode == 1, scores, key, there)
        lowest = like(e, -inf, scores)
        if self.mask_at is not None:
            scores = self._masked(scores, key, there, lowest)
        if a.limited and left is not None:
            visible = e.mask(self.high - key, lanes)
            if o.attr("left_window_size", -1) >= 0:
                visible = e.both(visible, e.flip(e.mask(self.low - key, lanes)))
            scores = e.select(visible, scores, lowest)
        if there is not None and not (a.keys.is_const and a.keys.value % lanes == 0):
            scores = e.select(there, scores, lowest)
        self._show(mode == 2, scores, key, there)
        return scores

    def _show(self, wanted: bool, scores: SSAValue, key: Ix, there: SSAValue | None) -> None:
        if wanted:
            self.tile.store_scores(scores, self.row, key, there)

    def _masked(self, scores: SSAValue, key: Ix, there: SSAValue | None, lowest: SSAValue) -> SSAValue:
        """With the mask; keys behind a short mask are not attended to.

        With `shared_key` a mask of one key serves all keys.
        """
        a, e = self.a, self.e
        assert self.mask_at is not None
        lanes = lanes_of(scores) or 1
        last = self.o.dims(MASK)[-1]
        buffer = self.o.buffer(MASK)
        shared = bool(self.o.attr("shared_key", 0))
        if shared and last is as_dim(1) and a.keys is not as_dim(1):
            value = e.b.broadcast(e.load(buffer, self.mask_at), lanes)
        else:
            length = e.dim(last)
            inside = None if there is None and last is a.keys else e.mask(length - key, lanes)
            read = inside if there is None or inside is None else e.both(inside, there)
            value = e.load_vector(buffer, self.mask_at + key, lanes, read)
            if shared and not last.is_const and last is not a.keys:  # it may turn out to be 1, and then serves all keys
                single = length.compare("eq", 1)
                only = e.b.broadcast(e.load(buffer, self.mask_at), lanes)
                value = e.select(e.b.broadcast(single, lanes), only, value)
                inside = e.mask(e.select_index(single, e.dim(a.keys), length) - key, lanes)
            if inside is not None:
                scores = e.select(inside, scores, lowest)
        if self.o.kind(MASK).kind == "b":
            return e.select(value, scores, lowest)
        return a.rounded(e.add(scores, a.rounded(as_sum(a, value))))


def as_sum(a: Attention, value: SSAValue) -> SSAValue:
    """A mask to be added, in the type of the sums."""
    e, kind = a.e, a.o.kind(MASK)
    if kind.is_float:
        narrow = kind.bits > Products(a.sums).bytes * 8
        return e.convert("truncf" if narrow else "extf", value, a.sums)
    return e.convert("sitofp" if kind.kind == "i" else "uitofp", value, a.sums)


def added_by_mask(a: Attention, at: Ix, there: SSAValue) -> SSAValue:
    """What elements of the mask, from `at` on, add to scores."""
    e = a.e
    value = e.load_vector(a.o.buffer(MASK), at, a.lanes, there)
    if a.o.kind(MASK).kind == "b":
        zero = e.constant(0, a.sums, a.lanes)
        return e.select(value, zero, like(e, -inf, zero))
    return as_sum(a, value)
