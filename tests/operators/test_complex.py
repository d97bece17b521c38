"""Complex numbers are moved by native code, and computed with where the standard has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from .cases import check, model_of

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


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


ZEROS = np.array([[0, 1], [1j, complex(-0.0, -0.0)], [np.nan, complex(0, np.nan)]])
"""Numbers of which some are zero."""

COMPUTED: list[tuple[str, list[Any], dict[str, Any], list[int], int]] = [
    ("NonZero", [ZEROS], {}, [], 1),
    ("Unique", [numbers(4)[RNG.integers(0, 4, 11)]], {}, [], 4),
    ("Unique", [numbers(3, 2)[RNG.integers(0, 3, 10)]], {"axis": 0, "sorted": 0}, [], 4),
    ("Unique", [RNG.integers(0, 2, 12) + 1j * RNG.integers(-1, 2, 12)], {}, [], 4),
    ("Resize", [numbers(1, 1, 3, 4), None, floats(1, 1, 2, 2)], {"mode": "nearest"}, [2], 1),
    ("Resize", [numbers(1, 1, 3, 4), None, floats(1, 1, 2, 2.5)], {"mode": "linear"}, [2], 1),
    ("Resize", [numbers(1, 1, 6, 4), None, floats(1, 1, 0.5, 2)], {"mode": "cubic", "antialias": 1}, [2], 1),
    ("Resize", [numbers(4, 4), floats(-0.5, 0, 1.5, 1), None, ints(5, 6)],
     {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear", "extrapolation_value": 7.0}, [1, 3], 1),
    ("GridSample", [numbers(1, 2, 3, 4), RNG.uniform(-1, 1, (1, 2, 3, 2)).astype(np.float32)], {}, [], 1),
    ("GridSample", [numbers(1, 2, 3, 4), RNG.uniform(-1, 1, (1, 2, 3, 2)).astype(np.float32)], {"mode": "nearest"}, [],
     1),
    ("Col2Im", [numbers(1, 4, 9), ints(4, 4), ints(2, 2)], {}, [1, 2], 1),
]  # fmt: skip


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("at", range(len(COMPUTED)), ids=lambda at: COMPUTED[at][0])
def test_computed(at: int, kind: type[np.generic]) -> None:
    name, operands, attributes, fixed, results = COMPUTED[at]
    operands = [o.astype(kind) if o is not None and o.dtype.kind == "c" else o for o in operands]
    levels = ("graph", "kernels", "tensor")
    made = check(name, operands, attributes, results=results, constants=fixed, tolerance=4, levels=levels)
    x = operands[0]
    if name == "NonZero":
        np.testing.assert_array_equal(made[0], np.nonzero(x))
    elif name == "Unique" and "axis" not in attributes:
        for got, want in zip(made, np.unique(x, return_index=True, return_inverse=True, return_counts=True)):
            np.testing.assert_array_equal(got, want)
    elif (
        kind is np.complex64 and name in ("Resize", "GridSample") and "coordinate_transformation_mode" not in attributes
    ):
        parts = [by_onnxruntime(name, [part, *operands[1:]], attributes) for part in (np.real(x), np.imag(x))]
        np.testing.assert_allclose(made[0], parts[0] + 1j * parts[1], rtol=1e-5, atol=1e-6)


def by_onnxruntime(name: str, operands: list[Any], attributes: dict[str, Any]) -> np.ndarray:
    model = model_of(name, operands, attributes, [operands[0]], opset=22)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{at}": np.ascontiguousarray(o) for at, o in enumerate(operands) if o is not None})[0]


@pytest.mark.parametrize("name", ["RandomNormalLike", "RandomUniformLike"])
def test_random_numbers_in_the_shape_of_complex_ones(name: str) -> None:
    for x in (numbers(2, 3), numbers(2, 3).astype(np.complex128)):
        check(name, [x], {"dtype": 1, "seed": 1.0}, tolerance=2)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_updates_combine(reduction: str, kind: type[np.generic]) -> None:
    x, updates = (np.round(numbers(n, 7)).astype(kind) for n in (5, 3))
    x[0, 0], x[1, 2], updates[1, 1] = complex(np.nan, 1), complex(1, np.nan), complex(0, np.nan)
    levels = ("graph", "tensor")
    check("ScatterND", [x, ints(1, 4, 1)[:, None], updates], {"reduction": reduction}, tolerance=4, levels=levels)
    places = RNG.integers(-5, 5, (3, 4))
    check("ScatterElements", [x, places, updates[:, :4]], {"reduction": reduction}, tolerance=4, levels=levels)


def test_bits_of_another_type() -> None:
    for kind, others in ((np.complex64, (11, 13, 7)), (np.complex128, (15,))):
        for other in others:
            check("BitCast", [numbers(3, 4).astype(kind)], {"to": other})
    for dtype in (np.float64, np.uint64, np.int64):
        check("BitCast", [RNG.integers(0, 2**60, (3, 4)).astype(dtype)], {"to": 14})
