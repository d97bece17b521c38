"""Template "linearattention": a state [d_k, d_v] of each head, updated token by token, and what queries read from it.

Columns of the state do not depend on one another: a few of them, side by side in a vector, go through all tokens at
once, so their state stays in the nearest cache.  Everything is computed in f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..policy import GRAIN_CYCLES
from ..template import TemplateContext
from .emit import F32, Emitter, Ix
from .operator import Operator
from .register_tile import Products

QUERY, KEY, VALUE, PAST, DECAY, BETA = range(6)


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    operator = Operator(context, op)
    e = operator.e
    heads = int(operator.attr("kv_num_heads"))
    lanes = e.target.lanes(4)
    batch, steps, packed = (e.dim(d) for d in operator.dims(VALUE))
    size, keys = packed // heads, e.dim(operator.dims(KEY)[2]) // heads
    chunks = size.ceildiv(lanes)
    grain = e.ix(GRAIN_CYCLES) // (steps * keys * 8).max(1) + 1
    with e.parallel(batch * heads * chunks, grain) as (lower, upper, thread):
        state = context.scratch(F32, operator.dims(KEY)[2] * lanes, thread)
        with e.loop(lower, upper, nonempty=True) as tasks:
            rest, chunk = tasks.index // chunks, tasks.index % chunks
            columns = Columns(operator, state, rest // heads, rest % heads, chunk * lanes, lanes, steps, keys, size)
            columns.run()


@dataclass(frozen=True)
class Columns:
    """Neighbouring columns of one head's state, from `first` on; `keys` and `size` are d_k and d_v."""

    operator: Operator
    state: SSAValue
    batch: Ix
    head: Ix
    first: Ix
    lanes: int
    steps: Ix
    keys: Ix
    size: Ix

    @property
    def e(self) -> Emitter:
        return self.operator.e

    @property
    def mask(self) -> SSAValue:
        return self.e.mask(self.size - self.first, self.lanes)

    @property
    def heads(self) -> int:
        return int(self.operator.attr("kv_num_heads"))

    def number(self, operand: int, at: Ix) -> SSAValue:
        """An element in all lanes."""
        products = Products(self.operator.kind(operand).ir)
        return self.e.splat(products.load(self.e, self.operator.buffer(operand), at), self.lanes)

    def row(self, i: Ix) -> SSAValue:
        return self.e.load_vector(self.state, i * self.lanes, self.lanes)

    def place(self, i: Ix) -> Ix:
        """Where a row of the state is in operand and result."""
        return ((self.batch * self.heads + self.head) * self.keys + i) * self.size + self.first

    def run(self) -> None:
        e = self.e
        with e.loop(0, self.keys) as loop:
            value = e.constant(0.0, F32, self.lanes)
            if self.operator.has(PAST):
                products = Products(self.operator.kind(PAST).ir)
                at = self.place(loop.index)
                value = products.load_vector(e, self.operator.buffer(PAST), at, self.lanes, self.mask)
            e.store_vector(value, self.state, loop.index * self.lanes)
        with e.loop(0, self.steps) as token:
            at = self.batch * self.steps + token.index
            self.update(at)
            if self.operator.has_result(0):
                self.read(at)
        if self.operator.has_result(1):
            products = Products(self.operator.result_kind(1).ir)
            with e.loop(0, self.keys) as loop:
                value = products.narrow(e, self.row(loop.index), products.element)
                e.store_vector(value, self.operator.result_buffer(1), self.place(loop.index), self.mask)

    def update(self, token: Ix) -> None:
        """state = decay * state + key (value - what the state has for the key)"""
        e, rule = self.e, self.operator.attr("update_rule", "gated_delta")
        gated, delta = "gated" in rule, "delta" in rule
        key_at = (token * self.heads + self.head) * self.keys
        zero = e.constant(0.0, F32, self.lanes)
        known = zero
        if gated or delta:
            with e.loop(0, self.keys, carried=[zero]) as loop:
                row = self.row(loop.index)
                if gated:
                    row = e.mul(self.decay(token, loop.index), row)
                    e.store_vector(row, self.state, loop.index * self.lanes)
                loop.carry([e.fma(row, self.number(KEY, loop.index + key_at), loop.carried[0])])
            known = loop.results[0]
        products = Products(self.operator.kind(VALUE).ir)
        value_at = (token * self.heads + self.head) * self.size + self.first
        value = products.load_vector(e, self.operator.buffer(VALUE), value_at, self.lanes, self.mask)
        if delta:
            rates = e.dim(self.operator.dims(BETA)[2])
            rate = self.number(BETA, token * rates + self.head.min(rates - 1))
            value = e.mul(rate, e.sub(value, known))
        with e.loop(0, self.keys) as loop:
            row = e.fma(self.number(KEY, loop.index + key_at), value, self.row(loop.index))
            e.store_vector(row, self.state, loop.index * self.lanes)

    def decay(self, token: Ix, i: Ix) -> SSAValue:
        """One for each row of the state, or one for all."""
        e = self.e
        width = e.dim(self.operator.dims(DECAY)[2]) // self.heads
        at = (token * self.heads + self.head) * width + i.min(width - 1)
        products = Products(self.operator.kind(DECAY).ir)
        return e.splat(e.math("exp", products.load(e, self.operator.buffer(DECAY), at)), self.lanes)

    def read(self, token: Ix) -> None:
        """scale * query @ state, for each query head that shares this one."""
        e = self.e
        queries = int(self.operator.attr("q_num_heads"))
        shared = queries // self.heads
        scale = self.operator.attr("scale", 0.0)
        factor = e.constant(scale, F32) if scale else self.default_scale()
        products = Products(self.operator.result_kind(0).ir)
        zero = e.constant(0.0, F32, self.lanes)
        with e.loop(0, shared) as query:
            head = self.head * shared + query.index
            at = (token * queries + head) * self.keys
            with e.loop(0, self.keys, carried=[zero]) as loop:
                loop.carry([e.fma(self.number(QUERY, loop.index + at), self.row(loop.index), loop.carried[0])])
            value = e.mul(loop.results[0], e.splat(factor, self.lanes))
            place = (token * queries + head) * self.size + self.first
            e.store_vector(
                products.narrow(e, value, products.element), self.operator.result_buffer(0), place, self.mask
            )

    def default_scale(self) -> SSAValue:
        e = self.e
        if self.keys.known is not None:
            return e.constant(1 / sqrt(max(self.keys.known, 1)), F32)
        return e.div(e.constant(1.0, F32), e.math("sqrt", e.as_float(self.keys, F32)))
