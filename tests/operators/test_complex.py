"""Complex numbers are moved by native code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .cases import check

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


MOVES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Transpose", [numbers(2, 3, 5)], {"perm": [2, 0, 1]}),
    ("Concat", [numbers(2, 3), numbers(2, 4)], {"axis": 1}),
    ("Slice", [numbers(7, 4), ints(5, 0), ints(0, 3), ints(0, 1), ints(-2, 1)], {}),
    ("Pad", [numbers(3, 4), ints(1, 0, 2, -1)], {}),
    ("Gather", [numbers(3, 5), ints(2, -1, 0)], {"axis": 1}),
    ("GatherND", [numbers(3, 5), np.array([[2, 1], [0, -1]])], {}),
    ("Tile", [numbers(2, 3), ints(2, 3)], {}),
    ("Expand", [numbers(3, 1), ints(2, 1, 4)], {}),
    ("Where", [RNG.integers(0, 2, (4, 3)).astype(bool), numbers(4, 3), numbers(3)], {}),
    ("Trilu", [numbers(4, 4)], {"upper": 0}),
    ("ScatterND", [numbers(5, 2), np.array([[1], [4]]), numbers(2, 2)], {}),
    ("DepthToSpace", [numbers(1, 8, 2, 3)], {"blocksize": 2}),
    ("ReverseSequence", [numbers(4, 3), ints(4, 1, 2)], {}),
]


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize(("name", "operands", "attributes"), MOVES, ids=lambda v: v if isinstance(v, str) else "")
def test_moves(name: str, operands: list[Any], attributes: dict[str, Any], kind: type[np.generic]) -> None:
    operands = [o.astype(kind) if o.dtype.kind == "c" else o for o in operands]
    fixed = [i for i, o in enumerate(operands) if o.dtype == np.int64 and name not in ("Gather", "ReverseSequence")]
    check(name, operands, attributes, constants=fixed, levels=("graph", "kernels", "tensor"))


def test_few_numbers_that_are_constants() -> None:
    """They stay out of kernels, which have no attribute that holds them."""
    for kind in (np.complex64, np.complex128):
        x, given = numbers(2, 3).astype(kind), numbers(2, 3).astype(kind)
        check("Concat", [x, given], {"axis": 0}, constants=[1], levels=("graph", "kernels", "tensor", "loops"))
        check("Where", [np.array([[True], [False]]), x, given[:1, :1]], constants=[2], levels=("tensor", "loops"))
