"""What an attribute may say beyond its kind. The standard has it in prose; `allowed.py` lists it by operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .types import ELEMENT_NAMES, ELEMENT_TYPES


class Limit:
    """A limit on an attribute's plain value."""

    def of_value(self, value: Any) -> str | None:
        """What is wrong with a value, as the rest of a sentence; None where nothing is."""
        return None


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def _or(values: Iterable[object]) -> str:
    *most, last = map(repr, values)
    return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True)
class OneOf(Limit):
    """One of these texts or numbers, or a list of such; `silent` ones are taken, and not named in messages."""

    values: tuple[object, ...]
    silent: tuple[object, ...] = ()

    def of_value(self, value: Any) -> str | None:
        for item in _each(value):
            if item not in self.values and item not in self.silent:
                return f"is {item!r}, and must be {_or(self.values)}"
        return None


@dataclass(frozen=True)
class Activation(Limit):
    """Names of functions, in any case."""

    values: tuple[str, ...]

    def of_value(self, value: Any) -> str | None:
        known = {v.lower() for v in self.values}
        wrong = next((item for item in _each(value) if item.lower() not in known), None)
        return None if wrong is None else f"has {wrong!r}, and must have {_or(self.values)}"


@dataclass(frozen=True)
class Within(Limit):
    """A number, or each of a list, in a range; `length` numbers, where that is given."""

    least: float
    most: float | None = None
    length: int | None = None

    def of_value(self, value: Any) -> str | None:
        if self.length is not None and len(value) != self.length:
            return f"has {len(value)} numbers, and must have {self.length}"
        for item in _each(value):
            if not self.least <= item or (self.most is not None and item > self.most):
                range_ = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
                return f"is {value}, and must be {range_}"
        return None


@dataclass(frozen=True)
class Element(Limit):
    """The number of an element type; 0 too, where `none` says that it stands for nothing."""

    none: bool = False

    def of_value(self, value: Any) -> str | None:
        if value in ELEMENT_TYPES or (self.none and value == 0):
            return None
        known = ", ".join(f"{code} ({ELEMENT_NAMES[type_]})" for code, type_ in sorted(ELEMENT_TYPES.items()))
        return f"is {value}, which is no element type; there are {known}"


@dataclass(frozen=True)
class Place(Limit):
    """A limit that the rank of an operand, by formal position, takes part in."""

    operand: int = 0

    def of_rank(self, value: Any, rank: int) -> str | None:
        """What is wrong with a value for that rank."""
        raise NotImplementedError


@dataclass(frozen=True)
class Axis(Place):
    """An axis, or a list of different ones, counted from the end where negative; up to `beyond` behind the last."""

    beyond: int = 0

    def of_rank(self, value: Any, rank: int) -> str | None:
        end = max(rank, 1) + self.beyond
        low = -max(rank, 1) - (self.beyond if self.beyond and rank else 0)
        for axis in _each(value):
            if not low <= axis < end:
                return f"is {value}, out of range for rank {rank}: {low} to {end - 1}"
        if isinstance(value, list) and len({a % end for a in value}) < len(value):
            return f"is {value}, with one axis twice"
        return None


@dataclass(frozen=True)
class Permutation(Place):
    """The axes in some order."""

    def of_rank(self, value: Any, rank: int) -> str | None:
        if sorted(value) == list(range(rank)):
            return None
        return f"is {value}, and must list {f'each of the axes 0 to {rank - 1} once' if rank else 'no axes'}"


@dataclass(frozen=True)
class Spatial(Place):
    """`each` numbers for each axis of the operand behind batch and channels, none of them below `least`."""

    least: int = 1
    each: int = 1

    def of_value(self, value: Any) -> str | None:
        return f"is {value}, and must be at least {self.least}" if any(v < self.least for v in value) else None

    def of_rank(self, value: Any, rank: int) -> str | None:
        wanted = self.each * (rank - 2)
        return f"has {len(value)} numbers, and must have {wanted} for rank {rank}" if len(value) != wanted else None
