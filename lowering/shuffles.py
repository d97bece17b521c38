"""Permutations of the lanes of several vectors, as networks of two-operand shuffles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue

from .loop_builder import LoopBuilder

ANY = -1
"""A lane of which the value does not matter."""


@cache
def _mask(lanes: tuple[int, ...]) -> Mapping[str, Attribute]:
    return {"mask": DenseArrayBase.from_list(i64, lanes)}


def shuffle(builder: LoopBuilder, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """Lane i is lane `lanes[i]` of a and b together, which have as many lanes each as the result."""
    return builder.pure(vector.ShuffleOp, (a, b), a.type, _mask(tuple(lanes)))


def pick(builder: LoopBuilder, vectors: Sequence[SSAValue], lanes: Sequence[int]) -> SSAValue:
    """Lane i is lane `lanes[i]` of all the vectors together."""
    width = len(lanes)
    used = sorted({lane // width for lane in lanes if lane != ANY})
    if not used:
        return vectors[0]
    first, *rest = used
    if not rest:
        picked = [lane if lane == ANY else lane % width for lane in lanes]
        return (
            vectors[first] if picked == list(range(width)) else shuffle(builder, vectors[first], vectors[first], picked)
        )
    result, have = vectors[first], [lane % width if lane // width == first else ANY for lane in lanes]
    for source in rest:
        have = [width + lane % width if lane // width == source else h for lane, h in zip(lanes, have)]
        result = shuffle(builder, result, vectors[source], have)
        have = [ANY if h == ANY else i for i, h in enumerate(have)]
    return result


def interleave(builder: LoopBuilder, vectors: Sequence[SSAValue], lanes: int) -> list[SSAValue]:
    """k vectors as k vectors of their elements in turn: a0 b0 c0 a1 b1 c1 ..."""
    k = len(vectors)
    return [
        pick(builder, vectors, [(at % k) * lanes + at // k for at in range(t * lanes, (t + 1) * lanes)])
        for t in range(k)
    ]


def deinterleave(builder: LoopBuilder, vectors: Sequence[SSAValue], lanes: int) -> list[SSAValue]:
    """The inverse of `interleave`."""
    k = len(vectors)
    return [pick(builder, vectors, [lane * k + u for lane in range(lanes)]) for u in range(k)]


def transpose(builder: LoopBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """n vectors of n lanes, n a power of two: lane j of vector i becomes lane i of vector j (Eklundh)."""
    lanes = len(rows)
    vectors = list(rows)
    distance = lanes // 2
    while distance:
        upper = [lane if not lane & distance else lane - distance + lanes for lane in range(lanes)]
        lower = [lane + distance if not lane & distance else lane + lanes for lane in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                a, b = vectors[i], vectors[i + distance]
                vectors[i], vectors[i + distance] = shuffle(builder, a, b, upper), shuffle(builder, a, b, lower)
        distance //= 2
    return vectors
