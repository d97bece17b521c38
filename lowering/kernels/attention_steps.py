"""Attention of bf16 in the steps of the standard's function body, whose tensors are bf16 too.

Queries and keys are scaled by the root of the scale, and rounded; so are the products, what is added to them, the
exponentials, their sum, and the probabilities, which are summed up with the values in f32.  All scores of a row are so
needed before the first value.  The standard's tests hold every one of these roundings to the bit, and each addition of
the sum too: up to eight exponentials are added one by one in bf16, these sums in f32 (in bf16 a sum would stop growing
at 256 times its terms).  `softmax_precision` of f32 asks for the softmax that loses less, and is computed like f16.
"""

from __future__ import annotations

from math import nan

from xdsl.dialects.builtin import BFloat16Type, bf16
from xdsl.ir import Attribute, SSAValue

from ...dialects.onnx import ELEMENT_CODES
from .activations import like
from .emit import Emitter, Ix, lanes_of, scalar_type

RUN = 8
"""Exponentials that are added one by one in bf16, see `lowering/tensor/reductions.py`."""


def in_steps(element: Attribute, precision: int | None, scale: float | None) -> bool:
    """Whether an attention on `element` rounds at each step: one of bf16 with its softmax in bf16.

    A negative scale has no root, and goes without.
    """
    return isinstance(element, BFloat16Type) and precision in (None, ELEMENT_CODES[bf16]) and (scale or 0) >= 0


def rounded(e: Emitter, value: SSAValue) -> SSAValue:
    """Rounded to bf16, as f32."""
    return e.convert("extf", e.convert("truncf", value, bf16), scalar_type(value))


def scale_in_steps(e: Emitter, scale: SSAValue, buffer: SSAValue, at: Ix, count: Ix, lanes: int) -> None:
    """buffer[at + i] *= sqrt(scale), rounded; whole vectors are read and written."""
    root = e.b.broadcast(rounded(e, e.math("sqrt", scale)), lanes)
    with e.loop(0, count, lanes) as loop:
        place = loop.index + at
        e.store_vector(rounded(e, e.mul(e.load_vector(buffer, place, lanes), root)), buffer, place)


def divisor_of(e: Emitter, total: SSAValue, empty_is_nan: bool, keys: Ix) -> SSAValue:
    """What a row's exponentials are divided by, for their sum; of several rows lane by lane.

    Where all are 0 they stay so, or are NaN from then on; a row of no keys at all is 0 in both cases.
    """
    none = e.compare("oeq", total, like(e, 0.0, total))
    instead = e.constant(1, scalar_type(total))
    if empty_is_nan:
        instead = e.select(keys.compare("sgt", 0), e.constant(nan, scalar_type(total)), instead)
    lanes = lanes_of(total)
    return e.select(none, instead if lanes is None else e.b.broadcast(instead, lanes), total)


def weights_in_steps(
    e: Emitter, scores: SSAValue, at: Ix, count: Ix, shift: SSAValue, lanes: int, empty_is_nan: bool
) -> None:
    """scores[at + i] = softmax of the row of `count` scores, whose greatest is in the lanes of `shift`."""
    wide = lanes_of(shift) or 1
    with e.loop(0, count, wide) as loop:
        place = loop.index + at
        less = rounded(e, e.sub(e.load_vector(scores, place, wide), shift))
        e.store_vector(rounded(e, e.math("exp", less)), scores, place)
    total = rounded(e, sum_of_runs(e, scores, at, count, lanes))
    divisor = e.b.broadcast(divisor_of(e, total, empty_is_nan, count), wide)
    with e.loop(0, count, wide) as loop:
        place = loop.index + at
        e.store_vector(rounded(e, e.div(e.load_vector(scores, place, wide), divisor)), scores, place)


def sum_of_runs(e: Emitter, values: SSAValue, at: Ix, count: Ix, lanes: int) -> SSAValue:
    """The sum of `count` values; those of a run are as far apart as there are runs."""
    runs = count.ceildiv(RUN)
    zero = e.constant(0, scalar_type(e.load(values, at)), lanes)
    with e.loop(0, runs, lanes, carried=[zero]) as loop:
        run = loop.index

        def term(step: int) -> SSAValue:
            place = run + runs * step
            there = e.both(e.mask(runs - run, lanes), e.mask(count - place, lanes))
            return e.load_vector(values, place + at, lanes, there)

        total = term(0)
        for step in range(1, RUN):
            total = rounded(e, e.add(total, term(step)))
        loop.carry([e.add(loop.carried[0], total)])
    return e.reduce("add", loop.results[0])
