"""What one scalar operation computes, over numpy arrays: `arith`, `math` and `vectorx` as the executors of structured
kernels take them.

Integers are signless: an operation that takes them as unsigned looks at the same bits so.  What a CPU would trap on
(a division by zero, a shift by the width or more) raises `StrayAccess`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import erfc, inf, isfinite
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from ..dialects import vectorx
from .reference.special import erf

Array = np.ndarray[Any, Any]


class StrayAccess(Exception):
    """The kernel reads outside of a tensor, or divides so that a CPU would trap: a bug of the lowering."""


_FLOATS: dict[type[Attribute], np.dtype[Any]] = {
    Float16Type: np.dtype(np.float16),
    BFloat16Type: np.dtype(ml_dtypes.bfloat16),
    Float32Type: np.dtype(np.float32),
    Float64Type: np.dtype(np.float64),
}


def numpy_type(element: Attribute) -> np.dtype[Any]:
    """The dtype of a signless element type: integers are signed ones, i1 is bool, index is int64.

    Numbers of 128 bits, which are only moved, are complex ones.
    """
    if isinstance(element, IntegerType):
        if element.width.data == 128:
            return np.dtype(np.complex128)
        return np.dtype(bool) if element.width.data == 1 else np.dtype(f"i{element.width.data // 8}")
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    return _FLOATS[type(element)]


def check_division(op: Operation, operands: Sequence[Array]) -> None:
    """Lanes that do not count divide too: a vector has no mask for that."""
    above, below = operands
    if (below == 0).any():
        raise StrayAccess(f"{op.name} by zero")
    if isinstance(op, arith.DivSIOp | arith.RemSIOp) and ((below == -1) & (above == np.iinfo(above.dtype).min)).any():
        raise StrayAccess(f"{op.name} overflows")


def _unsigned(x: Array) -> Array:
    return x if x.dtype.kind != "i" else x.view(f"u{x.dtype.itemsize}")


def _as_unsigned(function: Callable[..., Any]) -> Callable[..., Array]:
    """An op that takes its integers as unsigned; the bits of the result are signless again."""

    def apply(op: Operation, *operands: Array) -> Array:
        result = np.asarray(function(*(_unsigned(np.asarray(o)) for o in operands)))
        return result.view(f"i{result.dtype.itemsize}") if result.dtype.kind == "u" else result

    return apply


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, *operands: function(*operands)


def _truncated(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0)))


_SIGNED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def _compare_integers(op: arith.CmpiOp, a: Array, b: Array) -> Array:
    predicate = op.predicate.value.data
    if predicate < 6:
        return _SIGNED[predicate](a, b)
    return _SIGNED[predicate - 4](_unsigned(np.asarray(a)), _unsigned(np.asarray(b)))


def _compare_floats(op: arith.CmpfOp, a: Array, b: Array) -> Array:
    """Predicates as bits: 1 equal, 2 greater, 4 less, 8 unordered; MLIR has `ord` and `uno` last in their halves."""
    number = op.predicate.value.data
    predicate = number if number < 8 else 8 if number == 14 else 15 if number == 15 else number + 1
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    for bit, holds in ((1, a == b), (2, a > b), (4, a < b), (8, np.isnan(a) | np.isnan(b))):
        if predicate & bit:
            total = total | holds
    return total


def _fma(op: Operation, a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once, for f32 up to double rounding; in f64 where it matters by exact fractions."""
    plain = a.astype(np.float64) * b + c
    if a.dtype != np.float64:
        return plain.astype(a.dtype)
    operands = [np.ravel(v) for v in np.broadcast_arrays(a, b, c)]
    fused = [_exact_fma(*map(float, at)) for at in zip(*operands)]
    return np.array(fused, np.float64).reshape(plain.shape)


def _exact_fma(a: float, b: float, c: float) -> float:
    product = a * b
    if not (isfinite(a) and isfinite(b) and isfinite(c)) or not (product or a == 0 or b == 0):
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else product + c
    except OverflowError:
        return inf if exact > 0 else -inf


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(a: Array, b: Array) -> Array:
        if (_unsigned(np.asarray(b)) >= 8 * a.dtype.itemsize).any():
            raise StrayAccess("a shift by the width or more")
        return function(a, b)

    return apply


def _shift_of_words(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """A shift of 128 bits, which are held as a complex number of two words, by one of the words."""

    def apply(a: Array, b: Array) -> Array:
        if (np.ascontiguousarray(b).reshape(-1, 1).view(np.int64) != (64, 0)).any():
            raise StrayAccess("a shift of 128 bits by another number than 64")
        return function(a)

    return apply


def _wide(rule: Callable[..., Array], words: Callable[..., Array]) -> Callable[..., Array]:
    """The rule; on 128 bits, which are held as complex numbers, another one."""

    def apply(op: Operation, *operands: Array) -> Array:
        return words(*operands) if np.asarray(operands[0]).dtype.kind == "c" else rule(op, *operands)

    return apply


def _words(low: Array | float, high: Array | float) -> Array:
    """Numbers of 128 bits by their words, each held as a float64 of these bits."""
    made = np.zeros(np.broadcast_shapes(np.shape(low), np.shape(high)), np.complex128)
    made.real, made.imag = low, high
    return made


def _either_of_words(a: Array, b: Array) -> Array:
    a, b = (np.ascontiguousarray(v).reshape(*np.shape(v), 1).view(np.int64) for v in (a, b))
    return np.ascontiguousarray(a | b).view(np.complex128)[..., 0]


def _convert(op: vectorx.ConvertOp, x: Array) -> Array:
    to = numpy_type(op.result.type)
    x = np.asarray(x)
    if x.dtype.kind == "c":  # the low word
        return np.ascontiguousarray(x.real).view(to)
    if to.kind == "c":
        return _words(x.view(np.float64), 0.0)
    match op.kind.data:
        case "fptosi" | "fptoui":
            return _saturated(x, to, op.kind.data == "fptosi")
        case "sitofp":
            return x.astype(to)
        case "uitofp":
            return _unsigned(x).astype(to)
        case "extui":
            return _unsigned(x).astype(f"u{to.itemsize}").view(to) if x.dtype.kind == "i" else x.astype(to)
        case "bitcast":
            return x.view(to)
        case "truncf" if x.dtype == np.float64 and to.itemsize == 2:
            return x.astype(np.float32).astype(to)
        case "extsi" if x.dtype.kind == "b":
            return -x.astype(to)
        case "trunci" if to.kind == "b":
            return (x & 1).astype(bool)
        case _:
            return x.astype(to)


def _saturated(x: Array, to: np.dtype[Any], signed: bool) -> Array:
    bits = 8 * to.itemsize
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x.astype(np.float64)))
    inside = (whole > low - 1) & (whole < high)
    carrier = np.int64 if signed else np.uint64
    ends = np.where(whole < 0, np.array(int(low), carrier), np.array(int(high) - 1, carrier))
    kept = np.where(inside, np.where(inside, whole, 0.0).astype(carrier), ends)
    return kept.astype(f"i{to.itemsize}" if signed else f"u{to.itemsize}").view(to)


_MATH: dict[type[Operation], Callable[..., Any]] = {
    math.AbsFOp: np.abs,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.CeilOp: np.ceil,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: erf,
    math.ExpM1Op: np.expm1,
    math.ExpOp: np.exp,
    math.FloorOp: np.floor,
    math.Log1pOp: np.log1p,
    math.LogOp: np.log,
    math.PowFOp: np.power,
    math.RoundEvenOp: np.rint,
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
}


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function computed in float64 and rounded once."""
    return lambda op, *operands: function(*(o.astype(np.float64) for o in operands))


def _gelu(x: Array) -> Array:
    return x * 0.5 * _erfc(-x / np.sqrt(2.0))


_erfc = np.vectorize(erfc, otypes=[np.float64])


def _logistic(x: Array, y: Array, low: Array | float = 0.0) -> Array:
    return x / (1 + np.exp(-(y + low)))


BINARY: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.AddiOp: np.add,
    arith.AndIOp: np.bitwise_and,
    arith.DivfOp: np.divide,
    arith.MaxSIOp: np.maximum,
    arith.MaximumfOp: np.maximum,
    arith.MaxnumfOp: np.fmax,
    arith.MinSIOp: np.minimum,
    arith.MinimumfOp: np.minimum,
    arith.MulfOp: np.multiply,
    arith.MuliOp: np.multiply,
    arith.OrIOp: np.bitwise_or,
    arith.SubfOp: np.subtract,
    arith.SubiOp: np.subtract,
    arith.XOrIOp: np.bitwise_xor,
    arith.MaxUIOp: lambda a, b: np.maximum(_unsigned(a), _unsigned(b)).view(a.dtype),
    arith.MinUIOp: lambda a, b: np.minimum(_unsigned(a), _unsigned(b)).view(a.dtype),
}
"""numpy's function for each operation of two operands that needs nothing else."""

SCALAR_RULES: dict[type[Operation], Callable[..., Any]] = {
    **{op: _plain(f) for op, f in BINARY.items()},
    **{op: _in_double(f) for op, f in _MATH.items()},
    arith.CmpfOp: _compare_floats,
    arith.CmpiOp: _compare_integers,
    arith.DivSIOp: _plain(_truncated),
    arith.DivUIOp: _as_unsigned(np.floor_divide),
    arith.FloorDivSIOp: _plain(np.floor_divide),
    arith.NegfOp: _plain(np.negative),
    arith.RemSIOp: _plain(np.fmod),
    arith.RemUIOp: _as_unsigned(np.remainder),
    arith.SelectOp: _plain(np.where),
    arith.OrIOp: _wide(_plain(np.bitwise_or), _either_of_words),
    arith.ShLIOp: _wide(_plain(_shift(np.left_shift)), _shift_of_words(lambda a: _words(0.0, a.real))),
    arith.ShRSIOp: _plain(_shift(np.right_shift)),
    arith.ShRUIOp: _wide(_as_unsigned(_shift(np.right_shift)), _shift_of_words(lambda a: _words(a.imag, 0.0))),
    math.CopySignOp: _plain(np.copysign),
    math.FmaOp: _fma,
    vectorx.ConvertOp: _convert,
    vectorx.LogisticOp: _in_double(_logistic),
    vectorx.GeluOp: _in_double(_gelu),
}
"""A rule for each scalar operation: (operation, operands) -> its result, before it takes the result's type."""


def _reduction(function: np.ufunc, unsigned: bool = False) -> Callable[[Array, tuple[int, ...]], Array]:
    def apply(value: Array, axes: tuple[int, ...]) -> Array:
        part = _unsigned(value) if unsigned else value
        if 0 in (value.shape[a] for a in axes):
            # nothing to combine: what the result starts from stays; an identity stands for the part
            return np.full([n for a, n in enumerate(value.shape) if a not in axes], _identity(function, part.dtype))
        reduced = function.reduce(part, axis=axes, dtype=part.dtype)
        return np.asarray(reduced).view(value.dtype) if unsigned else np.asarray(reduced)

    return apply


def _identity(function: np.ufunc, dtype: np.dtype[Any]) -> Any:
    if function.identity is not None:
        return np.asarray(function.identity).astype(dtype)
    least = function in (np.maximum, np.fmax)
    if dtype.kind == "b":
        return np.asarray(not least)
    if dtype.kind in "iu":
        return np.asarray(np.iinfo(dtype).min if least else np.iinfo(dtype).max, dtype)
    return np.asarray(-np.inf if least else np.inf, dtype)


COMBINATIONS: dict[type[Operation], Callable[[Array, tuple[int, ...]], Array]] = {
    arith.AddfOp: _reduction(np.add),
    arith.AddiOp: _reduction(np.add),
    arith.AndIOp: _reduction(np.bitwise_and),
    arith.MaxSIOp: _reduction(np.maximum),
    arith.MaxUIOp: _reduction(np.maximum, unsigned=True),
    arith.MaximumfOp: _reduction(np.maximum),
    arith.MaxnumfOp: _reduction(np.fmax),
    arith.MinSIOp: _reduction(np.minimum),
    arith.MinUIOp: _reduction(np.minimum, unsigned=True),
    arith.MinimumfOp: _reduction(np.minimum),
    arith.MulfOp: _reduction(np.multiply),
    arith.MuliOp: _reduction(np.multiply),
    arith.OrIOp: _reduction(np.bitwise_or),
    arith.XOrIOp: _reduction(np.bitwise_xor),
}
"""How a reduced loop combines: (values, axes) -> their reduction over the axes."""
