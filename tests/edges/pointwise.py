"""Operators on each element alone: every type that the schema allows, on the values at its edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from .case import LOOSE, Case
from .values import (
    BF16,
    BOOL,
    F4,
    F16,
    F32,
    F64,
    FLOAT8,
    FLOATS,
    I4,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    SIGNED,
    SMALL,
    U4,
    U8,
    U16,
    UNSIGNED,
    Rng,
    edges,
    finite,
    hostile,
    is_float,
    tame,
)  # fmt: skip

SHAPES = ((), (0,), (1,), (40,), (3, 0, 2), (2, 1, 5))
PAIRS = (
    ((40,), (40,)),
    ((), ()),
    ((), (7,)),
    ((3, 1), (1, 5)),
    ((0, 3), (1,)),
    ((2, 1, 4), (3, 1)),
    ((1, 0), (5, 1)),
    ((2, 3, 9), (9,)),
)

UNARY_FLOAT = (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Reciprocal", "Round", "Selu", "Sigmoid", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
ROUGH = frozenset(
    (
        "Cosh",
        "Sinh",
        "Gelu",
        "Mish",
        "Swish",
        "Celu",
        "Selu",
        "Elu",
        "Softplus",
        "Erf",
        "Acosh",
        "Asinh",
        "Atanh",
        "Tan",
        "Sin",
        "Cos",
    )
)
UNARY = {
    "Abs": NUMBERS,
    "Neg": (*FLOATS, *SIGNED),
    "Sign": NUMBERS,
    "Relu": (*FLOATS, *SIGNED),
    "IsNaN": FLOATS,
    "IsInf": FLOATS,
    "BitwiseNot": INTEGERS,
    "Not": (BOOL,),
    "Identity": (*NUMBERS, BOOL),
    "Shrink": (F16, F32, F64, *INTEGERS),
}
BINARY = {
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), NUMBERS
    ),
    "Mod": INTEGERS,
    "Pow": (*FLOATS, I32, I64),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), INTEGERS),
    **dict.fromkeys(("And", "Or", "Xor"), (BOOL,)),
    "PRelu": (*FLOATS, I32, I64),
    "BitShift": UNSIGNED,
}


def cases(rng: Rng) -> Iterator[Case]:
    yield from unary(rng)
    yield from binary(rng)
    yield from several(rng)
    yield from conversions(rng)
    yield from quantization(rng)


def unary(rng: Rng) -> Iterator[Case]:
    for op in UNARY_FLOAT:
        for dtype in FLOATS:
            if dtype == BF16 and op in ("Gelu", "Mish", "Swish"):
                continue  # their reference rounds between
            tolerance = LOOSE if dtype == F64 and op in ("Gelu", "Erf", "HardSwish") else 64 if op in ROUGH else 8
            yield Case(
                op, (hostile(rng, (40,), dtype),), tolerance=tolerance, scaled=tolerance == LOOSE, signs=op != "Celu"
            )
        yield Case(op, (finite(rng, SHAPES[rng.integers(5)], F32),), tolerance=64)
    for op, dtypes in UNARY.items():
        attributes = {"lambd": 1.5, "bias": 0.5} if op == "Shrink" else {}
        for dtype in dtypes:
            fill = tame if op == "Shrink" and not is_float(dtype) else hostile
            for shape in ((40,), SHAPES[rng.integers(6)]):
                yield Case(op, (fill(rng, shape, dtype),), attributes, signs=op != "Relu")
    for attributes in ({"detect_negative": 0}, {"detect_positive": 0}, {"detect_positive": 0, "detect_negative": 0}):
        yield Case("IsInf", (edges(F32),), attributes)
    for op, attributes in (
        ("LeakyRelu", {"alpha": -0.5}), ("Elu", {"alpha": -2.0}), ("Celu", {"alpha": 0.25}),
        ("Selu", {"alpha": 2.0, "gamma": -1.0}),
        ("HardSigmoid", {"alpha": -0.5, "beta": 2.0}), ("ThresholdedRelu", {"alpha": -1.0}),
        ("Gelu", {"approximate": "tanh"}),
        ("Swish", {"alpha": 2.0}), ("Shrink", {"lambd": 0.0, "bias": 1.0}),
    ):  # fmt: skip
        yield Case(op, (edges(F32),), attributes, tolerance=1024, signs=False)


def binary(rng: Rng) -> Iterator[Case]:
    for op, dtypes in BINARY.items():
        for dtype in dtypes:
            pairs = [PAIRS[0], PAIRS[rng.integers(1, len(PAIRS))]]
            for a, b in pairs:
                attributes = {"direction": ("LEFT", "RIGHT")[rng.integers(2)]} if op == "BitShift" else {}
                if op == "PRelu":
                    b = b if len(b) <= len(a) and np.broadcast_shapes(a, b) == a else ()
                y = (tame if op == "PRelu" else hostile)(rng, b, dtype)
                x = hostile(rng, a, dtype)
                if op == "BitShift":
                    y = np.asarray(y % (dtype.itemsize * 8)).astype(dtype)
                if op in ("Div", "Mod") and not is_float(dtype):
                    y = np.where(y == 0, np.ones((), dtype), y)
                    y = (
                        np.where(y == np.asarray(-1).astype(dtype), np.full((), 2, dtype), y)
                        if dtype.kind == "i"
                        else y
                    )
                if op == "Pow" and not is_float(dtype):
                    x, y = tame(rng, a, dtype), np.abs(tame(rng, b, dtype))
                exact = op in ("Add", "Sub", "Mul", "Div")
                yield Case(op, (x, y), attributes, tolerance=0 if exact else 8, signs=op not in ("Max", "Min", "PRelu"))
    for dtype in FLOATS:
        yield Case("Mod", (hostile(rng, (40,), dtype), hostile(rng, (40,), dtype)), {"fmod": 1})
    for dtype in SIGNED:
        yield Case(
            "Mod", (tame(rng, (40,), dtype), np.where(tame(rng, (40,), dtype) == 0, 3, -2).astype(dtype)), {"fmod": 1}
        )
    for base in (F32, F64, F16, I32, I64):
        for exponent in (F32, F64, I32, I64, U8, I16):
            yield Case("Pow", (np.abs(tame(rng, (12,), base)), np.abs(tame(rng, (12,), exponent))), tolerance=8)


def several(rng: Rng) -> Iterator[Case]:
    for op in ("Max", "Min", "Sum", "Mean"):
        for dtype in FLOATS if op in ("Sum", "Mean") else NUMBERS:
            yield Case(op, (hostile(rng, (40,), dtype),), signs=False)
            if op in ("Max", "Min") or dtype != BF16:
                parts = tuple(
                    hostile(rng, s, dtype) if op in ("Max", "Min") else tame(rng, s, dtype)
                    for s in ((3, 1), (), (1, 4))
                )
                yield Case(op, parts, tolerance=16, signs=False)
    for dtype in NUMBERS:
        low, high = sorted((tame(rng, (), dtype), tame(rng, (), dtype)), key=float)
        x = hostile(rng, (40,), dtype)
        for bounds in ((low, high), (high, low), (None, high), (low, None), (None, None)):
            yield Case("Clip", (x, *bounds))
    for bound in (np.nan, np.inf, -np.inf, -0.0, 0.0):
        yield Case("Clip", (edges(F32), np.array(bound, F32), None))
        yield Case("Clip", (edges(F32), None, np.array(bound, F32)))
    for dtype in (*NUMBERS, BOOL):
        yield Case("Where", (tame(rng, (3, 1), BOOL), hostile(rng, (), dtype), hostile(rng, (1, 5), dtype)))
    yield Case("Where", (np.array(True), hostile(rng, (0, 3), F32), hostile(rng, (1,), F32)))


def conversions(rng: Rng) -> Iterator[Case]:
    wide = (*NUMBERS, BOOL)
    code = onnx.helper.np_dtype_to_tensor_dtype
    moderate = np.array([0, -0.0, 0.4, 0.5, 1, 1.5, 2.5, -1, -1.5, -0.5, 3, 7, 100, 127, -128, -3.7], F32)
    for source in wide:
        for to in wide:
            if source == to:
                continue
            if is_float(source) and not is_float(to):
                x = moderate[moderate >= 0] if to.kind == "u" else moderate
                yield Case("Cast", (x.astype(source),), {"to": code(to)})
            else:
                yield Case("Cast", (hostile(rng, (40,), source),), {"to": code(to)}, tolerance=0)
    for to in (*FLOAT8, F4):
        for source in FLOATS:
            for saturate in (0, 1):
                if to is F4 and not saturate:
                    continue
                attributes = {"to": code(to)} | ({} if to is F4 else {"saturate": saturate})
                yield Case("Cast", (hostile(rng, (40,), source),), attributes, tolerance=0)
        for target in FLOATS:
            every = np.arange(16 if to is F4 else 256).astype(U8).astype(U4 if to is F4 else U8).view(U8).view(to)
            yield Case("Cast", (every,), {"to": code(target)}, tolerance=0)
    for small in SMALL:
        for source in (F32, F16, I8, U8, I32):
            yield Case("Cast", (tame(rng, (21,), source),), {"to": code(small)})
        for target in (F32, F16, I8, U8, I32, I64):
            yield Case("Cast", (edges(small),), {"to": code(target)})
    for shape in ((), (0,), (2, 0)):
        yield Case("Cast", (hostile(rng, shape, F32),), {"to": code(I32)})
        yield Case("CastLike", (hostile(rng, shape, F32), tame(rng, (1,), F16)))
    for a, b in ((F32, I32), (U8, I8), (F16, U16), (F64, I64), (BF16, I16)):
        yield Case("BitCast", (hostile(rng, (40,), a),), {"to": code(b)}, opset=26)


def quantization(rng: Rng) -> Iterator[Case]:
    code = onnx.helper.np_dtype_to_tensor_dtype
    # the reference wraps what is out of int32's range
    x = np.concatenate([edges(F32)[:18], np.array([1e6, -1e6, 300, -300], F32)])
    grid = (rng.integers(-40, 40, (3, 4, 6)) / 4).astype(F32)
    for to in (U8, I8, U16, I16, U4, I4, *SMALL[2:]):
        for scale in (0.5, 1.0, 3.0):
            yield Case("QuantizeLinear", (x, np.array(scale, F32), np.array(1).astype(to)))
        axis = int(rng.integers(-3, 3))
        size = grid.shape[axis]
        scales, zeros = np.abs(tame(rng, (size,), F32)) + F32.type(0.25), tame(rng, (size,), to)
        yield Case("QuantizeLinear", (grid, scales, zeros), {"axis": axis})
        quantized = tame(rng, grid.shape, to)
        yield Case("DequantizeLinear", (quantized, scales, zeros), {"axis": axis})
        yield Case("DequantizeLinear", (quantized, np.array(0.5, F32), None))
        blocks = np.abs(tame(rng, (3, 2, 6), F32)) + F32.type(0.5)
        yield Case("QuantizeLinear", (grid, blocks, tame(rng, (3, 2, 6), to)), {"axis": 1, "block_size": 2})
        yield Case("DequantizeLinear", (quantized, blocks, tame(rng, (3, 2, 6), to)), {"axis": 1, "block_size": 2})
        yield Case("DequantizeLinear", (edges(to), np.array(2, F16), np.array(1).astype(to)))
    for to in FLOAT8:
        for saturate in (0, 1):
            yield Case("QuantizeLinear", (x, np.array(2.0, F32), np.array(0, to)), {"saturate": saturate}, tolerance=0)
        every = np.arange(256).astype(U8).view(to)
        yield Case("DequantizeLinear", (every, np.array(0.5, F32), np.array(0, to)))
    yield Case("DequantizeLinear", (tame(rng, (5,), I32), np.array(0.25, F32)))
    yield Case("QuantizeLinear", (x, np.array(1, F32)), {"output_dtype": code(I16)})
    yield Case("QuantizeLinear", (np.clip(x, -6e4, 6e4).astype(F16), np.array(1, F16), np.array(3, I8)))
    yield Case("QuantizeLinear", (tame(rng, (7,), I32), np.array(0.5, F32), np.array(3, U8)))
    for array in (edges(F32)[:18], np.array([1, 2, 3], F32), np.array([-1, -2], F32), np.array(5, F32)):
        yield Case("DynamicQuantizeLinear", (array,), results=3)
