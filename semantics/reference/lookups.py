"""Operators of the compiler's own, of the domain "sardonyx", that look things up in tables."""

from __future__ import annotations

import numpy as np

from .dtypes import Array
from .mathematics import Function
from .ml_linear import couple


def lookup(x: Array, keys: Array, values: Array, /) -> Array:
    """The value of each element's key; the last value where no key is equal.  Keys rise, NaN is behind numbers."""
    place = np.minimum(np.searchsorted(keys, x), max(len(keys) - 1, 0))
    if not len(keys):
        return np.broadcast_to(values[-1], x.shape).copy()
    near = keys[place]
    found = (near == x) | ((near != near) & (x != x))
    return np.where(found, values[place], values[-1])


def n_grams(
    x: Array, pool: Array, lengths: Array, /, *, columns: int, shortest: int, longest: int, skips: int
) -> Array:
    """How often each n-gram of the pool occurs in each row, [.., columns] f32.

    A row of the pool has an n-gram and, last, its column; those of a length n begin at row `lengths[n]`.
    """
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    counts = np.zeros((len(rows), columns), np.float32)
    for length in range(shortest, longest + 1):
        grams = pool[lengths[length] : lengths[length + 1]]
        columns_of = {tuple(g[:length].tolist()): int(g[-1]) for g in grams}
        for skip in range(skips + 1 if length > 1 else 1):
            for r, row in enumerate(rows.tolist()):
                for first in range(len(row) - (length - 1) * (skip + 1)):
                    gram = tuple(row[first + i * (skip + 1)] for i in range(length))
                    if (column := columns_of.get(gram)) is not None:
                        counts[r, column] += 1
    return counts.reshape(*x.shape[:-1], columns)


LOOKUPS: dict[str, Function] = {"Couple": couple, "Lookup": lookup, "NGrams": n_grams}
