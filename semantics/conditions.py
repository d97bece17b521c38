"""Conditions on dimensions as text: what `dims.assume` states, and users assume."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal, TypeAlias, TypeVar

from ..dialects.dims.expression import ZERO, Dim, DimError, as_dim
from ..dialects.dims.text import brief

T = TypeVar("T")

Relation: TypeAlias = Literal["==", "<="]

_CONDITION = re.compile(r"^(?P<left>[^=<>!]+?)\s*(?P<op>==|<=|>=|<|>)\s*(?P<right>[^=<>!]+)$")


@dataclass(frozen=True)
class Condition:
    """`left == right` or `left <= right`, with both sides in normal form."""

    left: Dim
    op: Relation
    right: Dim

    @staticmethod
    def parse(text: str) -> Condition:
        """Reads `expr op expr` with op one of `== <= >= < >`.  Raises DimError."""
        if (written := _written.get(text)) is not None:
            return written
        match = _CONDITION.match(text.strip())
        if match is None:
            raise DimError(f"not a condition on dimensions: {text[:100]!r}")
        left, right = as_dim(match["left"]), as_dim(match["right"])
        match match["op"]:
            case "==":
                return Condition(left, "==", right)
            case "<=":
                return Condition(left, "<=", right)
            case ">=":
                return Condition(right, "<=", left)
            case "<":
                return Condition(left + 1, "<=", right)
            case _:
                return Condition(right + 1, "<=", left)

    def holds(self, binding: Mapping[str, int]) -> bool:
        """Whether it holds for these values.  Raises as `Dim.evaluate` does."""
        left, right = self.left.evaluate(binding), self.right.evaluate(binding)
        return left == right if self.op == "==" else left <= right

    @property
    def multiple(self) -> tuple[Dim, Dim] | None:
        """Where it says no more than that the one is a multiple of the other: these two."""
        atom = self.left.atom
        if self.op != "==" or self.right is not ZERO or atom is None or atom.args is None or atom.kind != "mod":
            return None
        a, b = atom.args
        return a, b

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


_written: dict[str, Condition] = {}
_written_pairs: dict[str, tuple[Dim, Dim]] = {}
"""Conditions whose text was written of late: they are asked about soon, and reading a long one is slow."""

_MOST_WRITTEN = 1 << 10


def _keep(table: dict[str, T], text: str, meaning: T) -> None:
    if len(table) >= _MOST_WRITTEN:
        table.clear()
    table[text] = meaning


def _write(condition: Condition) -> str:
    text = str(condition)
    _keep(_written, text, condition)
    return text


def equality(a: Dim, b: Dim) -> str:
    """`a == b` without factors that both sides have, a number on the right."""
    a, b = reduced(a, b)
    return _write(Condition(b, "==", a) if a.is_const and not b.is_const else Condition(a, "==", b))


def at_most(a: Dim, b: Dim) -> str:
    """`a <= b` without factors that both sides have."""
    a, b = reduced(a, b)
    return _write(Condition(a, "<=", b))


def reduced(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Both sides of a relation, divided by the greatest number that divides every term."""
    g = gcd(*(c for d in (a, b) for c, _ in d.terms))
    if g < 2:
        return a, b
    left, right = (Dim.of_terms([(c // g, m) for c, m in d.terms]) for d in (a, b))
    return left, right


def broadcast_condition(a: Dim, b: Dim) -> str:
    """The condition that two sizes broadcast: the least of |a - b|, |a - 1| and |b - 1| is 0."""
    text = _broadcast_text(str(a), str(b))
    _keep(_written_pairs, text, (a, b))
    return text


def _broadcast_text(a: str, b: str) -> str:
    return f"min(max({a}, {b}) - min({a}, {b}), max({a} - 1, 1 - ({a})), max({b} - 1, 1 - ({b}))) == 0"


@lru_cache(maxsize=1 << 10)
def broadcast_pair(text: str) -> tuple[Dim, Dim] | None:
    """The two sizes of a condition that `broadcast_condition` made; None for other conditions."""
    if (written := _written_pairs.get(text)) is not None:
        return written
    sides = _arguments(text, "min(max(")
    if sides is None or text != _broadcast_text(*sides):
        return None
    return as_dim(sides[0]), as_dim(sides[1])


def difference_condition(a: Dim, b: Dim) -> str:
    """The condition that two expressions differ."""
    return _difference_text(str(a), str(b))


def _difference_text(a: str, b: str) -> str:
    return f"1 <= max({a} - ({b}), {b} - ({a}))"


@lru_cache(maxsize=1 << 10)
def difference_pair(text: str) -> tuple[Dim, Dim] | None:
    """The two expressions of a condition that `difference_condition` made; None for other conditions."""
    sides = _arguments(text, "1 <= max(")
    if sides is None:
        return None
    for minus in re.finditer(re.escape(" - ("), sides[0]):
        a, b = sides[0][: minus.start()], sides[0][minus.end() : -1]
        if text == _difference_text(a, b):
            return as_dim(a), as_dim(b)
    return None


def _arguments(text: str, start: str) -> tuple[str, str] | None:
    """The two arguments of the call that a text starts with."""
    if not text.startswith(start):
        return None
    depth, comma = 0, 0
    for at in range(len(start), len(text)):
        match text[at]:
            case "(":
                depth += 1
            case ")" if depth == 0:
                return (text[len(start) : comma], text[comma + len(", ") : at]) if comma else None
            case ")":
                depth -= 1
            case "," if depth == 0:
                if comma:
                    return None
                comma = at
            case _:
                pass
    return None


def brief_condition(text: str) -> str:
    """A condition for messages: what it says of two sizes, and of a long expression the beginning."""
    pair = broadcast_pair(text)
    if pair is not None:
        return f"{brief(pair[0])} and {brief(pair[1])} broadcast"
    pair = difference_pair(text)
    if pair is not None:
        return f"{brief(pair[0])} and {brief(pair[1])} differ"
    condition = Condition.parse(text)
    return f"{brief(condition.left)} {condition.op} {brief(condition.right)}"


def substituted(text: str, binding: Mapping[str, Dim]) -> str:
    """The condition with these symbols replaced, in the same form."""
    for pair, made in (
        (broadcast_pair(text), broadcast_condition),
        (difference_pair(text), difference_condition),
    ):
        if pair is not None:
            return made(pair[0].subs(binding), pair[1].subs(binding))
    condition = Condition.parse(text)
    return str(Condition(condition.left.subs(binding), condition.op, condition.right.subs(binding)))


def condition_symbols(text: str) -> frozenset[str]:
    """The symbols in a condition; for those of two sizes without building the expression that states them."""
    pair = broadcast_pair(text) or difference_pair(text)
    if pair is None:
        condition = Condition.parse(text)
        pair = condition.left, condition.right
    return pair[0].symbols | pair[1].symbols
