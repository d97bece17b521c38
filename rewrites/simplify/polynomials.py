"""Pointwise arithmetic read back as mathematics: products of factors, and polynomials in one value.

Exporters write one formula in many ways (`x / 1.41` or `x * 0.707`, `x * x * x` or `x ** 3`, factors in any order);
rules that recognize a formula compare what it is, not how it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from .rule import producer, scalar_of

Polynomial = dict[int, float]
"""Coefficients by degree."""

MAX_DEGREE = 4
MAX_DEPTH = 8


@dataclass(frozen=True)
class Product:
    """A number times values, each as often as it is a factor."""

    number: float
    factors: tuple[SSAValue, ...]


def product_of(value: SSAValue, depth: int = MAX_DEPTH) -> Product:
    """A value as a product, taken apart through Mul, Div by a number, and Neg."""
    if depth > 0:
        multiplied = producer(value, onnx.MulOp)
        if multiplied is not None:
            parts = [
                Product(n, ()) if (n := number(o)) is not None else product_of(o, depth - 1)
                for o in multiplied.operands
            ]
            return Product(parts[0].number * parts[1].number, (*parts[0].factors, *parts[1].factors))
        divided = producer(value, onnx.DivOp)
        divisor = number(divided.operands[1]) if divided is not None else None
        if divided is not None and divisor:
            inner = product_of(divided.operands[0], depth - 1)
            return Product(inner.number / divisor, inner.factors)
        negated = producer(value, onnx.NegOp)
        if negated is not None:
            inner = product_of(negated.operands[0], depth - 1)
            return Product(-inner.number, inner.factors)
    return Product(1.0, (value,))


def number(value: SSAValue) -> float | None:
    """The number that a constant of one element is."""
    return scalar_of(value) if all(d.is_const and d.value == 1 for d in dims_of(value)) else None


def polynomial_of(value: SSAValue, x: SSAValue, depth: int = MAX_DEPTH) -> Polynomial | None:
    """A value as a polynomial in another; None where it is none, or of a higher degree than `MAX_DEGREE`."""
    if value is x:
        return {1: 1.0}
    constant = number(value)
    if constant is not None:
        return {0: constant}
    op = producer(value, onnx.AddOp, onnx.SubOp, onnx.MulOp, onnx.DivOp, onnx.NegOp, onnx.PowOp)
    if op is None or depth == 0:
        return None
    left = polynomial_of(op.operands[0], x, depth - 1)
    if left is None:
        return None
    if isinstance(op, onnx.NegOp):
        return {degree: -c for degree, c in left.items()}
    right = polynomial_of(op.operands[1], x, depth - 1)
    if right is None:
        return None
    if isinstance(op, onnx.AddOp | onnx.SubOp):
        sign = 1.0 if isinstance(op, onnx.AddOp) else -1.0
        return {d: left.get(d, 0.0) + sign * right.get(d, 0.0) for d in {*left, *right}}
    if isinstance(op, onnx.MulOp):
        return times(left, right)
    if set(right) != {0}:
        return None
    if isinstance(op, onnx.DivOp):
        return {d: c / right[0] for d, c in left.items()} if right[0] else None
    power = right[0]
    if power not in (1.0, 2.0, 3.0, 4.0):
        return None
    result: Polynomial | None = {0: 1.0}
    for _ in range(int(power)):
        result = times(result, left) if result is not None else None
    return result


def times(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The product; None beyond `MAX_DEGREE`."""
    found: Polynomial = {}
    for i, p in a.items():
        for j, q in b.items():
            found[i + j] = found.get(i + j, 0.0) + p * q
    return found if max(found, default=0) <= MAX_DEGREE else None


def is_polynomial(value: SSAValue, x: SSAValue, wanted: Mapping[int, float], tolerance: float = 1e-3) -> bool:
    """Whether a value is this polynomial, as far as the digits that exporters write tell."""
    found = polynomial_of(value, x)
    if found is None:
        return False
    degrees = {*wanted, *(d for d, c in found.items() if c != 0)}
    return all(
        abs(found.get(d, 0.0) - wanted.get(d, 0.0)) <= tolerance * max(abs(wanted.get(d, 0.0)), 1e-6) for d in degrees
    )
