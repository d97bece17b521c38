"""Permutations of the lanes of several vectors, as networks of two-operand shuffles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, VectorType, i1, i8, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import vectorx
from .loop_builder import LoopBuilder, vector_of

ANY = -1
"""A lane of which the value does not matter."""

Network: TypeAlias = Callable[[LoopBuilder, Sequence[SSAValue]], list[SSAValue]]

_EXTEND: Mapping[str, Attribute] = {"kind": StringAttr("extui")}
_TRUNCATE: Mapping[str, Attribute] = {"kind": StringAttr("trunci")}


@cache
def _mask(lanes: tuple[int, ...]) -> Mapping[str, Attribute]:
    return {"mask": DenseArrayBase.from_list(i64, lanes)}


def _shuffled_as_bytes(network: Callable[[LoopBuilder, Sequence[SSAValue]], list[SSAValue]]) -> Network:
    """The network for bools too: their vectors are masks, which have no lanes to shuffle, so they go as bytes."""

    def run(builder: LoopBuilder, vectors: Sequence[SSAValue]) -> list[SSAValue]:
        kind = vectors[0].type
        if not isinstance(kind, VectorType) or kind.element_type != i1:
            return network(builder, vectors)
        wide = vector_of(i8, kind.get_shape()[0])
        shuffled = network(builder, [builder.pure(vectorx.ConvertOp, (v,), wide, _EXTEND) for v in vectors])
        return [builder.pure(vectorx.ConvertOp, (v,), kind, _TRUNCATE) for v in shuffled]

    return run


def shuffle(builder: LoopBuilder, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """Lane i is lane `lanes[i]` of a and b together, which have as many lanes each as the result."""
    return builder.pure(vector.ShuffleOp, (a, b), a.type, _mask(tuple(lanes)))


def join(builder: LoopBuilder, vectors: Sequence[SSAValue]) -> SSAValue:
    """All lanes of vectors of one type in one vector; their number is a power of 2."""
    while len(vectors) > 1:
        lanes = 2 * _lanes_of(vectors[0])
        vectors = [_resized(builder, a, b, range(lanes)) for a, b in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


def split(builder: LoopBuilder, joined: SSAValue, count: int) -> list[SSAValue]:
    """The vectors of which `join` made one."""
    lanes = _lanes_of(joined) // count
    return [_resized(builder, joined, joined, range(i * lanes, (i + 1) * lanes)) for i in range(count)]


def _lanes_of(value: SSAValue) -> int:
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()[0]


def _resized(builder: LoopBuilder, a: SSAValue, b: SSAValue, lanes: range) -> SSAValue:
    assert isinstance(a.type, VectorType)
    kind = vector_of(a.type.element_type, len(lanes))
    return builder.pure(vector.ShuffleOp, (a, b), kind, _mask(tuple(lanes)))


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


def _lanes(vectors: Sequence[SSAValue]) -> int:
    assert isinstance(vectors[0].type, VectorType)
    return vectors[0].type.get_shape()[0]


@_shuffled_as_bytes
def interleave(builder: LoopBuilder, vectors: Sequence[SSAValue]) -> list[SSAValue]:
    """k vectors as k vectors of their elements in turn: a0 b0 c0 a1 b1 c1 ..."""
    k, lanes = len(vectors), _lanes(vectors)
    return [
        pick(builder, vectors, [(at % k) * lanes + at // k for at in range(t * lanes, (t + 1) * lanes)])
        for t in range(k)
    ]


@_shuffled_as_bytes
def deinterleave(builder: LoopBuilder, vectors: Sequence[SSAValue]) -> list[SSAValue]:
    """The inverse of `interleave`."""
    k, lanes = len(vectors), _lanes(vectors)
    return [pick(builder, vectors, [lane * k + u for lane in range(lanes)]) for u in range(k)]


@_shuffled_as_bytes
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
