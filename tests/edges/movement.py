"""Operators that move elements or make them: negative and huge indices, empty results, every type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from .case import Case
from .values import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    NUMBERS,
    SMALL,
    Array,
    Rng,
    edges,
    hostile,
    ints,
    tame,
)  # fmt: skip

ANY = (*NUMBERS, BOOL)
LEAST, MOST = -(2**63), 2**63 - 1


def some(rng: Rng, dtypes: tuple[np.dtype, ...] = ANY) -> np.dtype:
    return dtypes[rng.integers(len(dtypes))]


def cases(rng: Rng) -> Iterator[Case]:
    yield from slices(rng)
    yield from shapes(rng)
    yield from gathers(rng)
    yield from scatters(rng)
    yield from pads(rng)
    yield from makers(rng)


def either(op: str, operands: tuple[Array | None, ...], lists: tuple[int, ...], **kwargs: object) -> Iterator[Case]:
    """The case with its lists of integers constant, and as inputs."""
    yield Case(op, operands, constants=lists, **kwargs)  # type: ignore[arg-type]
    yield Case(op, operands, **kwargs)  # type: ignore[arg-type]


def slices(rng: Rng) -> Iterator[Case]:
    for starts, ends, axes, steps in (
        ((1,), (3,), (0,), (1,)), ((-1,), (-100,), (1,), (-1,)), ((MOST,), (LEAST,), (0,), (-1,)), ((0,), (MOST,),
        (1,), (2,)),
        ((3, -1), (0, 0), (0, 1), (-2, -3)), ((5,), (2,), (0,), (1,)), ((-3,), (-1,), (-1,), (1,)), ((2,), (2,),
        (0,), (1,)),
        ((100,), (-100,), (1,), (-4,)), ((LEAST,), (MOST,), (0,), (3,)), ((-100,), (100,), (0,), (100,)), ((0,),
        (LEAST,), (0,), (-1,)),
        ((1, 0), (-1, MOST), (-1, -2), (1, 2)), ((LEAST + 1,), (MOST - 1,), (1,), (MOST,)), ((MOST,), (LEAST,),
        (1,), (LEAST + 1,)),
    ):  # fmt: skip
        x = hostile(rng, (5, 6), some(rng))
        yield from either("Slice", (x, ints(*starts), ints(*ends), ints(*axes), ints(*steps)), (1, 2, 3, 4))
    yield from either("Slice", (tame(rng, (4, 5), F32), ints(1, 2), ints(3, 5)), (1, 2))
    yield from either(
        "Slice", (tame(rng, (4, 5), F32), np.array([1], I32), np.array([-1], I32), np.array([1], I32)), (1, 2, 3)
    )
    for dtype in ANY:
        yield from either(
            "Slice", (hostile(rng, (0, 3), dtype), ints(-1), ints(LEAST), ints(1), ints(-1)), (1, 2, 3, 4)
        )
        yield Case("Split", (hostile(rng, (7, 2), dtype),), {"num_outputs": 3}, results=3)
        yield Case("Split", (hostile(rng, (3, 5), dtype), ints(0, 4, 1)), {"axis": -1}, results=3, constants=(1,))
        yield Case(
            "Concat",
            (hostile(rng, (2, 0), dtype), hostile(rng, (2, 3), dtype), hostile(rng, (2, 1), dtype)),
            {"axis": -1},
        )
        yield Case("Transpose", (hostile(rng, (2, 3, 4), dtype),), {"perm": [int(k) for k in rng.permutation(3)]})
        yield from either("Tile", (hostile(rng, (2, 3), dtype), ints(int(rng.integers(0, 3)), 2)), (1,))
        yield from either("Expand", (hostile(rng, (3, 1), dtype), ints(2, 1, int(rng.integers(0, 5)))), (1,))
    yield Case("Concat", (tame(rng, (3,), F32),), {"axis": 0})
    yield Case("Split", (tame(rng, (0, 2), F32),), {"num_outputs": 2, "axis": 1}, results=2)
    yield Case("Transpose", (tame(rng, (), F32),))
    yield Case("Transpose", (tame(rng, (2, 0, 3), F32),))
    for shape, target in (((), (1,)), ((), (2, 3)), ((1,), (0,)), ((3, 1), (1,)), ((1, 0), (4, 1, 0)), ((2, 3), ())):
        yield from either("Expand", (tame(rng, shape, F32), ints(*target)), (1,))


def shapes(rng: Rng) -> Iterator[Case]:
    for dtype in (*ANY, *SMALL):
        yield Case(
            "Shape", (tame(rng, (2, 0, 3), dtype),), {"start": int(rng.integers(-4, 4)), "end": int(rng.integers(0, 4))}
        )
        yield Case("Size", (tame(rng, ((), (0, 2), (3, 2))[rng.integers(3)], dtype),))
        yield Case("Flatten", (tame(rng, (2, 3, 4), dtype),), {"axis": int(rng.integers(-3, 4))})
    for shape, target, zero in (
        ((2, 3), (3, 2), 0), ((2, 3), (0, -1), 0), ((2, 3), (-1,), 0), ((), (1, 1), 0), ((1,), (), 0), ((0, 3),
        (3, 0), 1), ((0, 3), (0, 5), 1),
        ((2, 3, 4), (0, 0, 2, 2), 0), ((4,), (2, -1), 0),
    ):  # fmt: skip
        yield Case("Reshape", (hostile(rng, shape, some(rng)), ints(*target)), {"allowzero": zero}, constants=(1,))
        yield Case("Reshape", (hostile(rng, shape, some(rng)), ints(*target)), {"allowzero": zero})
    for shape, axes in (((1, 3, 1), None), ((1, 3, 1), (0,)), ((1, 3, 1), (-1, 0)), ((1,), (0,)), ((1, 0), (0,))):
        yield Case("Squeeze", (tame(rng, shape, some(rng)), *([] if axes is None else [ints(*axes)])), constants=(1,))
    for shape, axes in (((), (0,)), ((3,), (0, -1)), ((2, 0), (1,)), ((2,), (2, 0))):
        yield Case("Unsqueeze", (tame(rng, shape, some(rng)), ints(*axes)), constants=(1,))
    for dtype in ANY:
        yield Case(
            "DepthToSpace",
            (hostile(rng, (1, 8, 2, 3), dtype),),
            {"blocksize": 2, "mode": ("DCR", "CRD")[rng.integers(2)]},
        )
        yield Case("SpaceToDepth", (hostile(rng, (1, 2, 4, 6), dtype),), {"blocksize": 2})
        yield Case(
            "ReverseSequence", (hostile(rng, (4, 3, 2), dtype), ints(1, 4, 2)), {"time_axis": 0, "batch_axis": 1}
        )
        yield Case(
            "Trilu", (hostile(rng, (2, 3, 4), dtype), np.array(rng.integers(-5, 6))), {"upper": int(rng.integers(2))}
        )
        yield Case(
            "CenterCropPad",
            (hostile(rng, (5, 4, 3), dtype), ints(int(rng.integers(1, 8)), 3)),
            {"axes": [0, -1]},
            constants=(1,),
        )
    yield Case("ReverseSequence", (tame(rng, (3, 4), F32), ints(0, 1, 4)), {"time_axis": 1, "batch_axis": 0})
    yield Case("Trilu", (tame(rng, (0, 3), F32),))
    yield Case("Trilu", (tame(rng, (3, 3), F32), np.array(MOST)))
    yield Case("Trilu", (tame(rng, (3, 3), F32), np.array(LEAST)), {"upper": 0})


def gathers(rng: Rng) -> Iterator[Case]:
    for dtype in ANY:
        x = hostile(rng, (4, 5), dtype)
        kind = (I32, I64)[rng.integers(2)]
        yield Case("Gather", (x, rng.integers(-4, 4, (2, 3)).astype(kind)), {"axis": 0})
        yield Case("Gather", (x, rng.integers(-5, 5, ()).astype(kind)), {"axis": 1})
        yield Case("GatherElements", (x, rng.integers(-5, 5, (3, 2)).astype(kind)), {"axis": -1})
        yield Case("GatherND", (x, rng.integers(-4, 4, (3, 2)).astype(I64)), constants=(1,))
        yield Case(
            "GatherND",
            (hostile(rng, (2, 4, 5), dtype), rng.integers(-4, 4, (2, 3, 1)).astype(I64)),
            {"batch_dims": 1},
            constants=(1,),
        )
        yield Case("Compress", (x, tame(rng, (3,), BOOL)), {"axis": int(rng.integers(-2, 2))})
        yield Case("Compress", (x, tame(rng, (20,), BOOL)))
        yield Case(
            "OneHot",
            (ints(0, -1, 9, -10, 3), np.array(4, I64), np.stack([edges(dtype)[0], edges(dtype)[1]])),
            {"axis": int(rng.integers(-2, 2))},
            constants=(1,),
            signs=False,
        )
    yield Case("Gather", (tame(rng, (0, 3), F32), np.zeros((0,), I64)))
    yield Case("Gather", (tame(rng, (3, 0), F32), ints(2, -3)))
    yield Case("Gather", (tame(rng, (3,), F32), np.zeros((2, 0), I64)))
    yield Case("GatherElements", (tame(rng, (3, 2), F32), np.zeros((0, 2), I64)))
    yield Case("GatherND", (tame(rng, (3, 2), F32), np.zeros((0, 1), I64)), constants=(1,))
    yield Case("GatherND", (tame(rng, (3, 2), F32), ints(-1, 0)), constants=(1,))
    yield Case("Compress", (tame(rng, (0, 3), F32), np.zeros(0, bool)), {"axis": 0})
    for indices in (np.array(3), np.array([[1, 0]])):
        yield Case("OneHot", (indices, np.array(4, I64), np.array([0, 1], F32)), constants=(1,))
        yield Case(
            "OneHot", (indices.astype(F32), np.array([4.0], F32), np.array([5, -1], I32)), {"axis": 0}, constants=(1,)
        )


def scatters(rng: Rng) -> Iterator[Case]:
    for dtype in ANY:
        x = hostile(rng, (4, 5), dtype)
        unique = np.stack([rng.permutation(5)[:2] for _ in range(3)]) - 5 * rng.integers(0, 2, (3, 2))
        yield Case("ScatterElements", (x, unique.astype(I64), hostile(rng, (3, 2), dtype)), {"axis": 1})
        yield Case("ScatterND", (x, (rng.permutation(4)[:2] - 4)[:, None].astype(I64), hostile(rng, (2, 5), dtype)))
        reductions = ("max", "min") if dtype == BOOL else ("add", "mul", "max", "min")
        for reduction in reductions:
            values = tame(rng, (4, 5), dtype)
            if reduction in ("max", "min") and dtype != BOOL:
                values = hostile(rng, (4, 5), dtype)
            index = rng.integers(-4, 4, (3, 5)).astype((I32, I64)[rng.integers(2)])
            yield Case(
                "ScatterElements",
                (values, index, tame(rng, (3, 5), dtype)),
                {"axis": 0, "reduction": reduction},
                tolerance=16,
            )
            yield Case(
                "ScatterND",
                (values, rng.integers(-4, 4, (3, 1)), tame(rng, (3, 5), dtype)),
                {"reduction": reduction},
                tolerance=16,
            )
    yield Case("ScatterElements", (tame(rng, (3, 2), F32), np.zeros((0, 2), I64), np.zeros((0, 2), F32)))
    yield Case("ScatterND", (tame(rng, (3, 2), F32), np.zeros((0, 1), I64), np.zeros((0, 2), F32)))
    yield Case("ScatterND", (tame(rng, (3, 2), F32), np.array([[2, 1], [0, 0]]), np.array([7, 8], F32)))
    yield Case("TensorScatter", (tame(rng, (2, 4, 3), F32), tame(rng, (2, 2, 3), F32), ints(1, 2)), {"axis": 1})
    yield Case(
        "TensorScatter",
        (tame(rng, (2, 4, 3), F32), tame(rng, (2, 2, 3), F32), ints(3, 2)),
        {"axis": 1, "mode": "circular"},
    )


def pads(rng: Rng) -> Iterator[Case]:
    for dtype in ANY:
        x = hostile(rng, (3, 4), dtype)
        value = edges(dtype)[rng.integers(len(edges(dtype)))]
        yield from either("Pad", (x, ints(1, -1, 0, 2), value), (1,), attributes={"mode": "constant"})
        for mode in ("reflect", "edge", "wrap"):
            yield Case("Pad", (x, ints(*map(int, rng.integers(0, 3, 4)))), {"mode": mode}, constants=(1,))
    x = tame(rng, (3, 4), F32)
    for amounts in ((-1, 0, -1, 0), (0, -4, 0, 0), (-2, 1, -1, 1), (0, 0, 0, 0)):
        yield from either("Pad", (x, ints(*amounts)), (1,))
    yield from either("Pad", (x, ints(2, 1), None, ints(-1)), (1, 3))
    yield from either("Pad", (x, ints(2, 1), np.array(5, F32), np.array([0], I32)), (1, 3))
    yield Case("Pad", (x, ints(0, 3, 0, 3)), {"mode": "reflect"}, constants=(1,))
    yield Case("Pad", (x, ints(5, 9, 7, 6)), {"mode": "wrap"}, constants=(1,))
    yield Case("Pad", (x, ints(-1, 2, 1, -1)), {"mode": "edge"}, constants=(1,))
    yield Case("Pad", (tame(rng, (0, 2), F32), ints(1, 0, 2, 0), np.array(3, F32)), constants=(1,))
    yield Case("Pad", (tame(rng, (2,), F32), np.zeros(0, I64), None, np.zeros(0, I64)), constants=(1, 3))


def makers(rng: Rng) -> Iterator[Case]:
    for dtype in (F32, F64, I32, I64):
        for start, limit, delta in ((0, 5, 1), (5, 0, -2), (3, 3, 1), (0, -5, 1), (1, 7, 3), (-3, 4, 2)):
            operands = tuple(np.array(v, dtype) for v in (start, limit, delta))
            yield from either("Range", operands, (0, 1, 2))
    yield from either("Range", tuple(np.array(v, F32) for v in (0.1, 1.0, 0.3)), (0, 1, 2))
    yield from either("Range", tuple(np.array(v, F32) for v in (1.0, 0.0, -0.25)), (0, 1, 2))
    for dtype in ANY:
        yield Case("EyeLike", (tame(rng, (3, 4), dtype),), {"k": int(rng.integers(-4, 5))})
        value = onnx.numpy_helper.from_array(edges(dtype)[:1], "value")
        for shape in ((2, 3), (), (0, 2)):
            yield Case("ConstantOfShape", (ints(*shape),), {"value": value}, constants=(0,))
        yield Case("ConstantOfShape", (ints(2, 3),), {"value": value})
    yield Case("EyeLike", (tame(rng, (0, 4), F32),), {"dtype": onnx.TensorProto.FLOAT16})
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for size in (5, 7, 12):
            yield Case(
                op,
                (np.array(size, I32),),
                {"periodic": int(rng.integers(2))},
                constants=(0,),
                tolerance=64,
                scaled=True,
            )
            yield Case(op, (np.array(size, I64),), {"output_datatype": 11}, tolerance=64, scaled=True)
    yield Case("Dropout", (tame(rng, (3, 4), F16), np.array(0.5, F32)), results=2)
