"""Products of matrices and tensors: MatMul, Gemm, their integer forms, Einsum and Det.

Floats are accumulated in float64 and rounded once.  Integers wrap in the result's type; products of bytes go through
float64, which holds them and their sums exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .casting import convert
from .dtypes import Array, double, is_float, narrow
from .mathematics import Function

# 2**53 / (255 * 255), below which a sum of products of bytes is exact in float64
_EXACT_DEPTH = 1 << 37


def mat_mul(a: Array, b: Array, /) -> Array:
    if is_float(a.dtype):
        return narrow(np.matmul(double(a), double(b)), a.dtype)
    return np.asarray(np.matmul(a, b))


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """alpha * A' @ B' + beta * C.  Of integers truncated, where a factor has a fraction."""
    left, right = a.T if transA else a, b.T if transB else b
    if is_float(a.dtype):
        product = alpha * np.matmul(double(left), double(right))
        return narrow(product if c is None else product + beta * double(c), a.dtype)
    product = np.matmul(left, right)
    if float(alpha).is_integer() and float(beta).is_integer():
        scaled = product * np.array(int(alpha)).astype(a.dtype)
        return scaled if c is None else np.asarray(scaled + c * np.array(int(beta)).astype(a.dtype))
    total = alpha * double(product)
    return convert(total if c is None else total + beta * double(c), a.dtype)


def integer_product(a: Array, b: Array) -> Array:
    """a @ b of integers of at most 9 bits (bytes less a zero point), as int32 with wrap-around."""
    if a.shape[-1] > _EXACT_DEPTH:
        raise ValueError("a sum of this many products of bytes is not exact")
    return np.matmul(double(a), double(b)).astype(np.int64).astype(np.int32)


def mat_mul_integer(
    a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None, /
) -> Array:
    return integer_product(less_zero_point(a, a_zero_point, rows=True), less_zero_point(b, b_zero_point, rows=False))


def less_zero_point(x: Array, zero_point: Array | None, rows: bool) -> Array:
    """x - zero_point as int32; a vector of zero points has one for each row (or column) of the matrix."""
    wide = x.astype(np.int32)
    return wide if zero_point is None else wide - per_row_or_column(zero_point, rows).astype(np.int32)


def per_row_or_column(parameter: Array, rows: bool) -> Array:
    """A scale or zero point so that it broadcasts against its matrix."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if rows and parameter.ndim == 1 else parameter


def det(x: Array, /) -> Array:
    return narrow(np.linalg.det(double(x)), x.dtype)


_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


def einsum_terms(equation: str, ranks: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """The equation as numbered axes: one list for each operand, and the result's.

    Axes of an ellipsis are aligned at the right and may be broadcast.  Raises ValueError for a malformed equation, or
    one that does not fit the operands' ranks.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not all(_TERM.fullmatch(t) for t in [*terms, right]):
        raise ValueError(f"Einsum equation {equation!r} for {len(ranks)} operands")
    spans = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    if any(n < 0 or (n > 0 and "..." not in t) for n, t in zip(spans, terms, strict=True)):
        raise ValueError(f"Einsum equation {equation!r} for operands of ranks {list(ranks)}")
    width = max([n for n, t in zip(spans, terms, strict=True) if "..." in t], default=0)
    letters = sorted(set(left) - set(",."))
    if not arrow:
        once = Counter(left)
        right = ("..." if "..." in left else "") + "".join(c for c in letters if once[c] == 1)
    elif len(set(right) - {"."}) != len(right.replace("...", "")) or not set(right) <= set(left):
        raise ValueError(f"Einsum equation {equation!r}: bad result term")
    number = {c: width + i for i, c in enumerate(letters)}

    def numbered(term: str, span: int) -> list[int]:
        head, dots, tail = term.partition("...")
        middle = list(range(width - span, width)) if dots else []
        return [number[c] for c in head] + middle + [number[c] for c in tail]

    return [numbered(t, n) for t, n in zip(terms, spans, strict=True)], numbered(right, width)


def einsum(*operands: Array, equation: str) -> Array:
    """Any equation, by pairwise products from left to right."""
    dtype = operands[0].dtype
    terms, result = einsum_terms(equation, [x.ndim for x in operands])
    values = [double(x) if is_float(dtype) else x for x in operands]
    extent: dict[int, int] = {}
    for x, axes in zip(values, terms, strict=True):
        for n, axis in zip(x.shape, axes, strict=True):
            if extent.setdefault(axis, n) == 1:
                extent[axis] = n
            elif n not in (1, extent[axis]):
                raise ValueError(f"Einsum equation {equation!r} for shapes {[list(o.shape) for o in operands]}")
    # np.einsum allows 52 axis numbers, and sizes of 1 only where all operands agree
    prepared = [_broadcast_axes(x, axes, extent) for x, axes in zip(values, terms, strict=True)]
    arguments: list[object] = []
    for x, axes in zip(prepared, terms, strict=True):
        arguments += [x, axes]
    summed = np.einsum(*arguments, result, optimize=len(operands) > 1)  # pyright: ignore[reportArgumentType,reportCallIssue]
    return narrow(summed, dtype) if is_float(dtype) else np.asarray(summed).astype(dtype)


def _broadcast_axes(x: Array, axes: list[int], extent: dict[int, int]) -> Array:
    return np.broadcast_to(x, [extent[a] for a in axes])


LINEAR: dict[str, Function] = {
    "Det": det,
    "Einsum": einsum,
    "Gemm": gemm,
    "MatMul": mat_mul,
    "MatMulInteger": mat_mul_integer,
}
