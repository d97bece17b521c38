"""Expressions as text that Python and `parse_dim` read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .expression import Dim, Kind, Monomial, Terms


_FEW = 16


def call_text(kind: Kind, args: tuple[Dim, ...]) -> str:
    if kind in ("floordiv", "mod"):
        operator = "//" if kind == "floordiv" else "%"
        return f"{_operand_text(args[0])}{operator}{_operand_text(args[1])}"
    if kind == "broadcast" and len(args) > 2:  # written with two arguments, as readers know it
        half = 1 if len(args) <= _FEW else len(args) // 2  # Python reads no more than 200 calls in one another
        left = str(args[0]) if half == 1 else call_text(kind, args[:half])
        return f"broadcast({left}, {call_text(kind, args[half:])})"
    return f"{kind}({', '.join(map(str, args))})"


def _operand_text(dim: Dim) -> str:
    """As an operand of `//` or `%`, or as a factor of a product."""
    if dim.is_const and dim.value >= 0:
        return str(dim.value)
    atom = dim.atom
    if atom is not None and (atom.args is None or atom.kind not in ("floordiv", "mod")):
        return str(dim)
    return f"({dim})"


def _term_text(coefficient: int, monomial: Monomial) -> str:
    """For a coefficient above zero."""
    if not monomial:
        return str(coefficient)
    if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return monomial[0][0].key[1]
    factors = [] if coefficient == 1 else [str(coefficient)]
    for atom, power in monomial:
        text = atom.key[1]
        if atom.args is not None and atom.kind in ("floordiv", "mod"):
            text = f"({text})"
        factors += [text] * power
    return "*".join(factors)


def terms_text(terms: Terms) -> str:
    positive = [_term_text(c, m) for c, m in terms if c > 0]
    negative = [_negative_text(-c, m) for c, m in terms if c < 0]
    if not terms:
        return "0"
    if not positive:
        return "-" + " - ".join(negative)
    return " - ".join([" + ".join(positive), *negative])


def _negative_text(coefficient: int, monomial: Monomial) -> str:
    text = _term_text(coefficient, monomial)
    if coefficient == 1 and len(monomial) == 1:
        atom, power = monomial[0]
        if power == 1 and atom.args is not None and atom.kind in ("floordiv", "mod"):
            return f"({text})"
    return text


BRIEF = 60
"""Characters of an expression that a sentence can take."""


def brief(dim: Dim) -> str:
    """An expression for messages: the beginning of a long one, and how long it is."""
    text = str(dim)
    if len(text) <= BRIEF:
        return text
    end = max(text.rfind(" ", 0, BRIEF), BRIEF // 2)
    return f"{text[:end]} ... ({len(text)} characters)"


def told_size(names: Sequence[str]) -> str:
    """A size that these values give."""
    *others, last = (f"'{name}'" for name in names)
    return f"a size that {', '.join(others)} and {last} give" if others else f"a size that {last} gives"
