"""What is known of the elements of small tensors, as expressions: runs the value rules and keeps what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.dims.expression import Dim, DimError
from ...dialects.dims.interval import SIZE_LIMIT, interval
from ...dialects.onnx.types import ELEMENT_NAMES, ELEMENT_TYPES
from . import value_arithmetic, value_movement
from .computed import Array, computed_results
from .context import Context, Guard, RankUnknown, static_shape, symbols_for
from .elements import MAX_ELEMENTS, Element, Elements, elements_of_array, filled, integer_range, is_integer, row_major
from .limits import is_data
from .value_rule import Known

_LEAST_SIZE = 2**10  # a guard that takes sizes below it only is too much to ask
_SLACK = 2**20  # sums of sizes this much above the limit of 32 bits are no worry

RULES: Mapping[type[Operation], Callable[[Context], Known]] = {**value_movement.RULES, **value_arithmetic.RULES}


OPAQUE = "dims.opaque"
"""On an operation whose results' elements are symbols of their own: expressions of them would be of no use."""


def set_values(c: Context) -> None:
    """Runs the value rule of an operation whose results have their types, and keeps what it finds."""
    rule = None if OPAQUE in c.op.attributes else RULES.get(type(c.op))
    try:
        found = None if rule is None else rule(c)
    except (RankUnknown, DimError):  # an expression of that many terms is no help
        found = None
    if found is None and all(v is None or _is_small(v) for v in c.results):
        arrays = computed_results(c)
        found = None if arrays is None else [elements_of_array(a) for a in _by_position(c, arrays)]
    for at, value in enumerate(c.results):
        if value is None:
            continue
        elements = found[at] if found is not None and at < len(found) else None
        if elements is not None and elements.size <= MAX_ELEMENTS:
            elements = _completed(c, value, elements)
        else:
            elements = symbols_for(value, c.scope) if OPAQUE in c.op.attributes else None
        if elements is None:
            c.scope.values.pop(value, None)
        else:
            c.scope.values[value] = elements


def _is_short(e: Element) -> bool:
    """Whether an expression is worth following: a longer one costs more than a symbol bound at run time."""
    return not isinstance(e, Dim) or (
        len(e.terms) <= MAX_TERMS and e.choices <= MAX_CHOICES and len(str(e)) <= MAX_TEXT
    )


MAX_TERMS, MAX_TEXT, MAX_CHOICES = 32, 800, 6


def _is_small(value: SSAValue) -> bool:
    shape = static_shape(value)
    return shape is not None and prod(shape) <= MAX_ELEMENTS


def _by_position(c: Context, arrays: Sequence[Array]) -> list[Array]:
    """The arrays of the results that are there, with an empty one for each that is left out."""
    present = iter(arrays)
    return [np.empty(0) if value is None else next(present) for value in c.results]


def _completed(c: Context, value: Any, elements: Elements) -> Elements | None:
    """The elements with a symbol for each integer that is not known or may leave its type."""
    element = value.type.element_type
    if not is_integer(element) or element == IntegerType(1):
        return elements
    known = [e if e is None or (_is_short(e) and _fits(c, e, element)) else None for e in row_major(elements)]
    if all(e is not None for e in known):
        return filled(elements.shape, known)
    symbols = symbols_for(value, c.scope)
    if symbols is None:
        return filled(elements.shape, known)
    for e, kept, symbol in zip(row_major(elements), known, row_major(symbols), strict=True):
        if kept is None and isinstance(e, Dim) and isinstance(symbol, Dim):
            _keep_range(c, e, symbol, integer_range(element))
    return filled(elements.shape, [s if e is None else e for e, s in zip(known, row_major(symbols))])


def _keep_range(c: Context, e: Dim, symbol: Dim, all_of_type: tuple[int, int]) -> None:
    """A symbol in the place of an expression that is too long has its range, if it cannot have left its type."""
    low, high = interval(c.scope.facts.known(e), c.scope.facts.symbol_range)
    if all_of_type[0] <= low and high <= all_of_type[1]:
        for condition in (f"{low} <= {symbol}", f"{symbol} <= {high}"):
            if not c.scope.facts.prove(condition):
                c.scope.facts.assume(condition)


def _wraps(e: Dim) -> bool:
    """Whether a factor or summand takes even one size beyond int64, where arithmetic at run time wraps.

    Products of several sizes count as one: no model means them to.
    """
    most = sum(abs(coefficient) * (SIZE_LIMIT if monomial else 1) for coefficient, monomial in e.terms)
    return most >= 2**63


def _fits(c: Context, e: Element, element: Attribute) -> bool:
    """Whether an integer stays in its type; sizes are held to it by a guard, data is not.

    A guard that a factor makes one of small sizes would be too much to ask: what wraps is then a size of its own.
    """
    if not isinstance(e, Dim):
        return True
    low, high = integer_range(element)
    if e.is_const:
        return low <= e.value <= high
    facts = c.scope.facts
    if element == ELEMENT_TYPES[7]:
        return not _wraps(e) or bool(facts.prove_le(low, e) and facts.prove_le(e, high))
    if facts.prove_le(low, e) and facts.prove_le(e, high + (_SLACK if high == SIZE_LIMIT - 1 else 0)):
        return True
    is_small = all(abs(factor) <= high // _LEAST_SIZE for factor, monomial in e.terms if monomial)
    if not is_small or is_data(c, e) or high < SIZE_LIMIT - 1:
        return False
    for condition in (f"{low} <= {e}", f"{e} <= {high}"):
        if facts.prove(condition).answer is False:
            return False
        if facts.prove(condition).answer is None:
            c.guards.append(Guard(condition, f"a size as {ELEMENT_NAMES[element]} stays in the range of that type"))
    return True
