"""Whether an operation keeps to what the standard says of attributes and ranks; types are checked by `signature.py`.

Names and kinds of attributes and how many operands there are is a matter of the file, and checked where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from .allowed import ATTRIBUTES, ONE_OF, RANKS
from .attributes import plain
from .base import OnnxOp
from .limits import Place
from .types import RefAttr, WeightAttr


def value_problem(op: OnnxOp) -> str | None:
    """What is wrong with the attributes, whatever the operands are."""
    properties = op.properties
    for group in ONE_OF.get(type(op), ()):
        found = [name for name in group if name in properties]
        if len(found) != 1:
            has = " and ".join(map(repr, found)) if found else "none"
            return f"it must have one of the attributes {', '.join(map(repr, group))}, and has {has}"
    for name, limit in ATTRIBUTES.get(type(op), ()):
        value = properties.get(name)
        if value is None or isinstance(value, RefAttr | WeightAttr):
            continue
        problem = limit.of_value(plain(value))
        if problem is not None:
            return f"its attribute '{name}' {problem}"
    return None


def rank_problem(op: OnnxOp, operands: Sequence[SSAValue | None]) -> str | None:
    """What does not fit the ranks of the operands: these themselves, or attributes that count or name axes."""
    cls = type(op)
    if cls not in RANKS and not _placed(cls):
        return None
    for index, least, most in RANKS.get(cls, ()):
        rank = _rank_of(operands, index)
        if rank is not None and (rank < least or (most is not None and rank > most)):
            name = cls.SCHEMA.inputs[index].name
            return f"input {index} ('{name}') has rank {rank}, and must have {_ranks(least, most)}"
    for name, limit in _placed(cls):
        value = op.properties.get(name)
        rank = _rank_of(operands, limit.operand) if value is not None else None
        if value is None or rank is None or isinstance(value, RefAttr | WeightAttr):
            continue
        problem = limit.of_rank(plain(value), rank)
        if problem is not None:
            return f"its attribute '{name}' {problem}"
    return None


@cache
def _placed(cls: type[OnnxOp]) -> tuple[tuple[str, Place], ...]:
    return tuple((name, limit) for name, limit in ATTRIBUTES.get(cls, ()) if isinstance(limit, Place))


def _rank_of(operands: Sequence[SSAValue | None], index: int) -> int | None:
    value = operands[index] if index < len(operands) else None
    return len(value.type.get_shape()) if value is not None and isinstance(value.type, TensorType) else None


def _ranks(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return str(least) if least == most else f"{least} or {most}"
