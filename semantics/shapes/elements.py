"""Known elements of small tensors: arrays of expressions, as rules pass them on.

An array holds `Dim` for integers and booleans (0 and 1), `Ratio` for floats, `Truth` for a boolean that sizes decide,
and None for an element that is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, Signedness
from xdsl.ir import Attribute

from ...dialects.dims.expression import Dim, as_dim
from ..facts import difference_condition

MAX_ELEMENTS = 64
"""Tensors with more elements are not followed."""

Elements: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# float type -> integers up to two to this power are exact
MANTISSA: dict[type[Attribute], int] = {Float64Type: 53, Float32Type: 24, Float16Type: 11, BFloat16Type: 8}


class Limit(NamedTuple):
    """The absolute value of an expression is at most a number; `meant` where beyond it a model is not what it means."""

    expression: Dim
    most: int
    meant: bool = False


@dataclass(frozen=True)
class Ratio:
    """A float that is the rounding of `numerator / denominator`, denominator > 0; exactly that where `exact`.

    An inexact one comes from one division of integers that the type holds exactly, so its floor and ceiling are those
    of the quotient; more is not known of it.  `limits` says on what all that rests.  It is `shifted` where a number has
    been added to such a quotient.
    """

    numerator: Dim
    denominator: int = 1
    exact: bool = True
    limits: tuple[Limit, ...] = ()
    shifted: bool = False

    @property
    def constant(self) -> Fraction | None:
        return Fraction(self.numerator.value, self.denominator) if self.numerator.is_const else None


@dataclass(frozen=True)
class Truth:
    """Whether `left op right` holds (or does not, where `negated`), with op `==` or `<=`.

    `limits` are those of the floats that were compared.
    """

    left: Dim
    op: str
    right: Dim
    negated: bool = False
    limits: tuple[Limit, ...] = ()

    def inverse(self) -> Truth:
        """The opposite."""
        return Truth(self.left, self.op, self.right, not self.negated, self.limits)

    def condition(self, value: bool) -> str:
        """The condition under which it has this value."""
        if value != self.negated:
            return f"{self.left} {self.op} {self.right}"
        if self.op == "<=":
            return f"{self.right + 1} <= {self.left}"
        return difference_condition(self.left, self.right)


Element: TypeAlias = "Dim | Ratio | Truth | None"


def is_integer(element: Attribute) -> bool:
    """An integer type or bool."""
    return isinstance(element, IntegerType)


def integer_range(element: Attribute) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    assert isinstance(element, IntegerType)
    width = element.width.data
    if width == 1 or element.signedness.data is Signedness.UNSIGNED:
        return 0, 2**width - 1
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1


def elements_of_array(array: np.ndarray[Any, Any]) -> Elements | None:
    """The elements of a constant; None for strings, complex numbers and large arrays."""
    if array.size > MAX_ELEMENTS:
        return None
    kind = array.dtype.kind
    out = np.empty(array.shape, object)
    flat = out.reshape(-1)
    if kind in "biu" or array.dtype.name in ("int4", "uint4", "int2", "uint2"):
        for at, value in enumerate(array.ravel().tolist()):
            flat[at] = as_dim(int(value))
    elif kind == "f" or array.dtype.name == "bfloat16":
        for at, value in enumerate(array.astype(np.float64).ravel().tolist()):
            flat[at] = ratio_of_float(value)
    else:
        return None
    return out


def ratio_of_float(value: float) -> Ratio | None:
    """A finite float, exactly."""
    if value != value or abs(value) == inf or (value == 0 and str(value)[0] == "-"):
        return None
    numerator, denominator = value.as_integer_ratio()
    return Ratio(as_dim(numerator), denominator)


def filled(shape: tuple[int, ...], values: list[Element]) -> Elements:
    """An array of elements from a row-major list."""
    out = np.empty(len(values), object)
    for at, value in enumerate(values):
        out[at] = value
    return out.reshape(shape)


def row_major(elements: Elements) -> list[Element]:
    return list(elements.reshape(-1))


def as_integers(elements: Elements) -> list[Dim] | None:
    """The elements, row-major, where each is a known integer."""
    values = [e for e in elements.reshape(-1) if isinstance(e, Dim)]
    return values if len(values) == elements.size else None
