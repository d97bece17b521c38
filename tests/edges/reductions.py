"""Operators over an axis: reductions, sorting, scans, normalizations, and products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import LOOSE, Case
from .values import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    NUMBERS,
    U8,
    U16,
    U32,
    U64,
    Rng,
    finite,
    hostile,
    ints,
    tame,
)  # fmt: skip

ARITHMETIC = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
WIDE = (*FLOATS, I32, I64, U32, U64)


def cases(rng: Rng) -> Iterator[Case]:
    yield from reductions(rng)
    yield from choices(rng)
    yield from scans(rng)
    yield from normalizations(rng)
    yield from products(rng)


def reductions(rng: Rng) -> Iterator[Case]:
    for op in (*ARITHMETIC, "ReduceMax", "ReduceMin"):
        is_choice = op in ("ReduceMax", "ReduceMin")
        narrow = {*NUMBERS, BOOL} - {I16, U16}
        for dtype in (d for d in (*NUMBERS, BOOL) if d in narrow) if is_choice else WIDE:
            if dtype in (I32, I64, U32, U64) and op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
                continue  # what a fraction becomes there is left open
            if dtype == U32 and op == "ReduceSumSquare":
                continue  # the reference has another type
            x = hostile(rng, (4, 11), dtype) if is_choice else tame(rng, (4, 11), dtype)
            if op in ("ReduceLogSum", "ReduceProd"):
                x = np.abs(x) if op == "ReduceLogSum" else np.clip(x, -2, 2).astype(dtype)
            yield Case(
                op, (x, ints(1)), {"keepdims": int(rng.integers(2))}, constants=(1,), tolerance=64, scaled=not is_choice
            )
        for dtype in (F32, F64):
            yield Case(op, (hostile(rng, (40,), dtype),), tolerance=64)
        for shape, axes in (
            ((), None), ((3,), (0,)), ((0, 3), (0,)), ((0, 3), (1,)), ((2, 0, 3), (-1,)), ((2, 3, 4), (0, -1)),
            ((2, 3, 4), ()),
            ((2, 3, 4), None), ((1, 5), (0,)), ((0,), None), ((2, 1, 3), (1,)),
        ):  # fmt: skip
            attributes = {"keepdims": int(rng.integers(2)), "noop_with_empty_axes": int(rng.integers(2))}
            x = np.abs(tame(rng, shape, F32))
            operands = (x,) if axes is None else (x, ints(*axes))
            yield Case(op, operands, attributes, constants=(1,), tolerance=64)
            if axes:
                yield Case(op, operands, attributes, tolerance=64)  # axes that are data


def choices(rng: Rng) -> Iterator[Case]:
    for op in ("ArgMax", "ArgMin"):
        for dtype in (F16, BF16, F32, F64, I8, U8, I32, I64):
            for last in (0, 1):
                attributes = {
                    "axis": int(rng.integers(-2, 2)),
                    "keepdims": int(rng.integers(2)),
                    "select_last_index": last,
                }
                yield Case(op, (tame(rng, (5, 7), dtype),), attributes)
                yield Case(op, (hostile(rng, (3, 40), dtype),), {"axis": 1, "select_last_index": last})
        yield Case(op, (tame(rng, (1,), F32),))
        yield Case(op, (tame(rng, (3, 0, 2), F32),), {"axis": 2})
    for dtype in (d for d in NUMBERS if d != BF16):
        for largest in (0, 1):
            for x in (tame(rng, (3, 9), dtype), hostile(rng, (2, 40), dtype)):
                k = ints(int(rng.integers(0, x.shape[1] + 1)))
                yield Case("TopK", (x, k), {"largest": largest}, results=2, constants=(1,))
        yield Case("TopK", (tame(rng, (4, 3, 2), dtype), ints(2)), {"axis": int(rng.integers(-3, 2))}, results=2)
    yield Case("TopK", (tame(rng, (0, 3), F32), ints(2)), {}, results=2)
    for dtype in (*NUMBERS, BOOL):
        yield Case("Unique", (tame(rng, (9,), dtype),), {"sorted": int(rng.integers(2))}, results=4)
        yield Case("Unique", (tame(rng, (4, 2), dtype),), {"axis": int(rng.integers(-2, 2)), "sorted": 1}, results=4)
        yield Case("NonZero", (hostile(rng, (40,), dtype) if dtype != BOOL else tame(rng, (3, 4), BOOL),))
    for shape in ((0,), (1,), (2, 3)):
        yield Case("Unique", (tame(rng, shape, F32),), {}, results=4)
        yield Case("NonZero", (tame(rng, shape, I32),))
    yield Case("NonZero", (np.array(2.0, F32),))
    yield Case("NonZero", (np.array(0.0, F32),))
    for op in ("Hardmax", "Softmax", "LogSoftmax"):
        for dtype in FLOATS:
            for shape in ((5, 7), (1,), (0, 3), (2, 3, 1), (3, 0)):
                if dtype == BF16:
                    continue
                yield Case(
                    op, (tame(rng, shape, dtype),), {"axis": int(rng.integers(-len(shape), len(shape)))}, tolerance=64
                )
        yield Case(
            op,
            (np.array([[np.inf, 1, 2], [-np.inf, 1, np.inf], [np.nan, 0, 1], [3e38, 3e38, -3e38], [0, 0, 0]], F32),),
            tolerance=16,
        )
        yield Case(op, (np.array([[-np.inf, -np.inf]], F32),), tolerance=16)


def scans(rng: Rng) -> Iterator[Case]:
    for op, opset in (("CumSum", 25), ("CumProd", 26)):
        for dtype in (F16, F32, F64, I32, I64, U32, U64):
            for exclusive in (0, 1):
                attributes = {"exclusive": exclusive, "reverse": int(rng.integers(2))}
                x = tame(rng, (3, 5, 2), dtype)
                axis = np.array(rng.integers(-3, 3), (I32, I64)[rng.integers(2)])
                yield Case(
                    op,
                    (x, axis),
                    attributes,
                    opset=opset,
                    tolerance=64,
                    scaled=True,
                    constants=(1,) if exclusive else (),
                )
        yield Case(op, (tame(rng, (0, 2), F32), np.array(0, I32)), opset=opset)
        yield Case(op, (np.array([1, np.inf, 2, -np.inf, 3], F32), np.array(0, I32)), opset=opset)


def normalizations(rng: Rng) -> Iterator[Case]:
    for dtype in (F16, F32, F64):
        x = finite(rng, (2, 6, 3, 5), dtype)
        s = finite(rng, (6,), dtype)
        rough = LOOSE if dtype == F64 else 256.0
        yield Case("InstanceNormalization", (x, s, s), {"epsilon": 1e-2}, tolerance=256, scaled=True)
        yield Case("BatchNormalization", (x, s, s, s, np.abs(s)), {"epsilon": 1e-2}, tolerance=256, scaled=True)
        yield Case("GroupNormalization", (x, s, s), {"num_groups": 3, "epsilon": 1e-2}, tolerance=rough, scaled=True)
        if dtype == F32:
            yield Case(
                "LRN",
                (x,),
                {"size": int(rng.integers(4)) * 2 + 1, "alpha": 0.1, "beta": 0.5, "bias": 2.0},
                tolerance=256,
                scaled=True,
            )
        for axis in (-1, 1, 0, -2):
            w = finite(rng, x.shape[axis:], dtype)
            yield Case(
                "LayerNormalization",
                (x, w, w),
                {"axis": axis, "epsilon": 1e-2},
                results=3,
                tolerance=rough,
                scaled=True,
            )
            yield Case("RMSNormalization", (x, w), {"axis": axis, "epsilon": 1e-2}, tolerance=rough, scaled=True)
        for p in (1, 2):
            yield Case("LpNormalization", (x,), {"axis": int(rng.integers(-4, 4)), "p": p}, tolerance=256, scaled=True)
        yield Case("MeanVarianceNormalization", (x,), {"axes": [0, 2, 3]}, tolerance=1024, scaled=True)
        yield Case(
            "BatchNormalization",
            (x, s, s, s, np.abs(s)),
            {"training_mode": 1, "momentum": 0.5},
            results=3,
            tolerance=1024,
            scaled=True,
        )
    for shape in ((0, 6, 3), (2, 6, 1), (1, 6)):
        x, s = finite(rng, shape, F32), finite(rng, (6,), F32)
        yield Case("BatchNormalization", (x, s, s, s, np.abs(s)), tolerance=64, scaled=True)
    yield Case(
        "LayerNormalization", (np.full((2, 4), 3.0, F32), tame(rng, (4,), F32), tame(rng, (4,), F32)), tolerance=64
    )
    yield Case("LpNormalization", (np.array([[0, 0], [3, -4], [np.inf, 1]], F32),), {"p": 2, "axis": 1})


def products(rng: Rng) -> Iterator[Case]:
    shapes = (
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)),
        ((0, 4), (4, 3)),
        ((3, 0), (0, 2)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 0, 3), (3, 4)),
        ((7, 33), (33, 17)),
        ((1, 5), (5, 0)),
    )
    for dtype in (*FLOATS, I32, I64, U32, U64):
        for k in rng.permutation(len(shapes))[:4]:
            a, b = shapes[k]
            yield Case("MatMul", (tame(rng, a, dtype), tame(rng, b, dtype)), tolerance=16, scaled=True)
    for a, b in shapes:
        yield Case("MatMul", (finite(rng, a, F32), finite(rng, b, F32)), tolerance=64, scaled=True)
        yield Case("MatMulInteger", (hostile(rng, a, U8), hostile(rng, b, I8), np.array(3, U8), np.array(-2, I8)))
    for dtype in (*FLOATS, I32, I64, U32):
        for trans_a in (0, 1):
            trans_b = int(rng.integers(2))
            a = tame(rng, (4, 3) if trans_a else (3, 4), dtype)
            b = tame(rng, (5, 4) if trans_b else (4, 5), dtype)
            c = tame(rng, ((), (5,), (3, 1), (1, 5), (3, 5), (1,))[rng.integers(6)], dtype)
            yield Case(
                "Gemm",
                (a, b, c),
                {"transA": trans_a, "transB": trans_b, "alpha": 2.0, "beta": 3.0},
                tolerance=16,
                scaled=True,
            )
    yield Case("Gemm", (tame(rng, (3, 0), F32), tame(rng, (0, 4), F32), tame(rng, (4,), F32)), {"alpha": 2.0})
    yield Case("Gemm", (tame(rng, (3, 2), F32), tame(rng, (2, 4), F32), None))
    yield Case("Gemm", (np.array([[np.inf]], F32), np.array([[1.0]], F32), np.array([1], F32)), {"alpha": 0.0})
    yield Case("MatMul", (np.array([[np.nan, 0], [np.inf, 1]], F32), np.array([[0.0, 1], [1, 0]], F32)))
    for equation, sizes in (
        ("ij,jk->ik", ((3, 4), (4, 5))), ("ij->ji", ((3, 4),)), ("ii->i", ((3, 3),)), ("ii", ((3, 3),)),
        ("i,i", ((4,), (4,))),
        ("i,j->ij", ((3,), (0,))), ("bij,bjk", ((2, 3, 4), (2, 4, 5))), ("...ij,...jk->...ik", ((2, 1, 3, 4),
        (5, 4, 2))),
        ("ijk->", ((2, 3, 4),)), (",->", ((), ())), ("a,a,a->a", ((3,), (3,), (3,))), ("ab,bc,cd->ad", ((2, 3),
        (3, 4), (4, 5))),
        ("ij,ij->i", ((3, 1), (3, 4))), ("iij->j", ((2, 2, 3),)), ("b...->...b", ((2, 3, 4),)),
        (" i j , j k -> i k ", ((3, 4), (4, 5))),
    ):  # fmt: skip
        for dtype in (F32, I32, F64):
            yield Case(
                "Einsum", tuple(tame(rng, s, dtype) for s in sizes), {"equation": equation}, tolerance=16, scaled=True
            )
    for n in (1, 2, 3, 5):
        yield Case("Det", (finite(rng, (2, n, n), F32),), tolerance=256, scaled=True)
    yield Case("Det", (np.zeros((3, 3), F32),))
    yield Case("Det", (finite(rng, (0, 2, 2), F64),))
