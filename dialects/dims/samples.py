"""Values of expressions at a few bindings: what is less than a bound at one of them is proved by no rule.

A proof that fails costs more than one that succeeds, since everything is tried; and most questions are of the kind
whose answer is no.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from .expression import Atom, Dim, Kind

Values: TypeAlias = "tuple[int | None, ...]"
"""One of each binding; None where an expression has no value there."""

POINTS = 7
_LARGEST_SIZE, _LARGEST = 2**31 - 1, 2**63 - 1


@cache
def of_symbol(name: str, is_signed: bool) -> Values:
    """Values of a symbol: alike for all, small and different ones, and the ends of the range."""
    mark = crc32(name.encode())
    scattered = (mark * 2654435761) & 0xFFFFFFFF
    end = mark >> 7 & 1
    if is_signed:
        sign = 1 - (mark >> 9 & 2)
        ends = (_LARGEST, -_LARGEST - 1)
        return 1, -1, mark % 7 - 3, sign * (17 + scattered % 500), -sign * (scattered << 20 >> mark % 50), *(
            ends if end else ends[::-1]
        )  # fmt: skip
    ends = (0, _LARGEST_SIZE)
    return 1, 64, 2 + mark % 7, 17 + scattered % 500, scattered >> 1 + mark % 29, *(ends if end else ends[::-1])


def within(values: Values, low: float, high: float) -> Values:
    """The same without what lies outside of a range: those are the end that is nearer."""
    return tuple(None if v is None else int(min(max(v, low), high)) for v in values)


def of_call(kind: Kind, args: Sequence[Values]) -> Values:
    """Values of a call from those of its arguments."""
    function = _FUNCTIONS[kind]
    return tuple(None if None in at else function(at) for at in zip(*args, strict=True))  # pyright: ignore[reportArgumentType]


def _floordiv(args: tuple[int, ...]) -> int | None:
    return args[0] // args[1] if args[1] else None


def _mod(args: tuple[int, ...]) -> int | None:
    return args[0] % args[1] if args[1] else None


def _broadcast(args: tuple[int, ...]) -> int | None:
    wide = {v for v in args if v != 1}
    return None if len(wide) > 1 else wide.pop() if wide else 1


_FUNCTIONS: dict[Kind, Callable[[tuple[int, ...]], int | None]] = {
    "floordiv": _floordiv,
    "mod": _mod,
    "min": min,
    "max": max,
    "broadcast": _broadcast,
}


def of_dim(dim: Dim, values: Callable[[Atom], Values]) -> Values:
    """Values of an expression from those of its atoms."""
    terms = [(c, [(values(atom), power) for atom, power in m]) for c, m in dim.terms]
    return tuple(_sum_at(terms, at) for at in range(POINTS))


def _sum_at(terms: Sequence[tuple[int, Sequence[tuple[Values, int]]]], at: int) -> int | None:
    total = 0
    for product, factors in terms:
        for values, power in factors:
            value = values[at]
            if value is None:
                return None
            product *= value if power == 1 else value**power
        total += product
    return total


__all__ = ["POINTS", "Values", "of_call", "of_dim", "of_symbol", "within"]
