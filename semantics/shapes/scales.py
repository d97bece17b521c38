"""Sizes times float32 scales: runtimes round these products, where a size in a graph is a quotient of integers."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, reduce
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ...dialects.dims import Dim, as_dim
from ...dialects.dims.interval import SIZE_LIMIT
from .context import Context, ShapeError

_SIZES = 2**16
"""Every size up to this has the product that float32 gives."""

_LONGEST = 2**21
_PRODUCTS = 2**23
"""Longer axes to be resized, and longer ones that come of it, are not looked at."""

_FLOAT32_EXACT = 2**24
"""float32 has every integer up to this."""


def scaled_by(c: Context, size: Dim, *scales: Fraction) -> Dim | None:
    """The size times each of the scales in turn, in float32, rounded down; None where no quotient of integers is it.

    States that the size is below where the quotient is first another one, if that is within the lengths of axes.
    Raises ShapeError for a number that is no size.
    """
    if size.is_const:
        product = float(_products(np.array([size.value]), scales)[0])
        if product > SIZE_LIMIT:
            raise ShapeError(f"a size of {product:g}, which is too large")
        return as_dim(int(product))
    fraction = fraction_of(scales)
    if fraction is None:
        return None
    most = _most(scales, fraction)
    if most is not None:
        c.at_most(size, most, "a size times a scale is exact in float32")
    return size * fraction.numerator // fraction.denominator


def _products(sizes: NDArray[np.int64], scales: tuple[Fraction, ...]) -> NDArray[np.float64]:
    singles = [np.float32(float(scale)) for scale in scales]
    with np.errstate(over="ignore"):
        return np.floor(reduce(np.multiply, singles, sizes.astype(np.float32))).astype(np.float64)


@lru_cache(maxsize=1 << 10)
def fraction_of(scales: tuple[Fraction, ...]) -> Fraction | None:
    """The fraction by which sizes up to 2^16 have the products that float32 gives.

    The simplest one where rounding the scale explains it: for 0.83, which is 0.829999983 in float32, 83/100.  Else the
    scale itself, if it is one, and None where there is none: for 1.3, where 10 gives 13 and 90 gives 116.
    """
    exact = _product(scales)
    if exact <= 0:
        return exact
    sizes = _up_to(_SIZES, exact)
    products = _products(sizes, scales)
    low, high = int(np.argmax(products / sizes)), int(np.argmin((products + 1) / sizes))
    least, end = Fraction(int(products[low]), low + 1), Fraction(int(products[high]) + 1, high + 1)
    if least >= end:
        return None
    simple = _simplest(least, end - _NOTHING) if least else exact
    is_near = abs(simple - exact) <= exact * len(scales) / 2**24
    found = exact if least <= exact < end and not is_near else simple
    return found if found.numerator <= SIZE_LIMIT else None


@lru_cache(maxsize=1 << 10)
def _most(scales: tuple[Fraction, ...], fraction: Fraction) -> int | None:
    """The size below the first that has another product in float32 than by the fraction; None for none that counts."""
    if fraction <= 0 or (fraction == _product(scales) and fraction.numerator * _LONGEST <= _FLOAT32_EXACT):
        return None
    sizes = _up_to(_LONGEST, fraction)
    differ = _products(sizes, scales) != _quotients(sizes, fraction)
    return int(sizes[int(np.argmax(differ))]) - 1 if differ.any() else None


def _up_to(most: int, scale: Fraction) -> NDArray[np.int64]:
    return np.arange(1, min(most, max(floor(_PRODUCTS / scale), 1)) + 1)


def _product(scales: tuple[Fraction, ...]) -> Fraction:
    return reduce(Fraction.__mul__, scales)


def _quotients(sizes: NDArray[np.int64], fraction: Fraction) -> NDArray[np.float64]:
    return (sizes * fraction.numerator // fraction.denominator).astype(np.float64)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator from low to high."""
    if (whole := ceil(low)) <= high:
        return Fraction(whole)
    below = floor(low)
    return below + 1 / _simplest(1 / (high - below), 1 / (low - below))


_NOTHING = Fraction(1, 1 << 60)
"""Less than what is between any two fractions of sizes."""
