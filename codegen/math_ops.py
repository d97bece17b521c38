"""math to llvm: intrinsics where the processor has the operation, else expansions by element type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation

from . import math_f32, math_wide
from .lanes import Lanes
from .llvm_types import I1, element_of
from .mathematics import Mathematics
from .scope import Scope, TranslateError, Translation, operands

Unary = Callable[[Mathematics, Lanes], Lanes]
Binary = Callable[[Mathematics, Lanes, Lanes], Lanes]


def _only(function: Callable[[Lanes], Lanes]) -> Unary:
    return lambda m, x: function(x)


def _tan(m: Mathematics, x: Lanes) -> Lanes:
    return m.with_slow_path(x, math_wide.tan(x), math_wide.LARGE_ANGLE, "tan", math_wide.tan_of_any)


F32_FUNCTIONS: Mapping[type[Operation], Unary] = {
    math.ExpOp: math_f32.exp,
    math.Exp2Op: math_f32.exp2,
    math.ExpM1Op: math_f32.expm1,
    math.LogOp: math_f32.log,
    math.Log2Op: math_f32.log2,
    math.Log10Op: math_f32.log10,
    math.Log1pOp: math_f32.log1p,
    math.TanhOp: math_f32.tanh,
    math.SinhOp: math_f32.sinh,
    math.CoshOp: math_f32.cosh,
    math.ErfOp: math_f32.erf,
    math.SinOp: math_f32.sin,
    math.CosOp: math_f32.cos,
    math.AsinOp: math_f32.asin,
    math.AcosOp: math_f32.acos,
    math.AtanOp: math_f32.atan,
    math.RsqrtOp: math_f32.rsqrt,
    math.TanOp: _tan,
    math.AsinhOp: _only(math_wide.asinh),
    math.AcoshOp: _only(math_wide.acosh),
    math.AtanhOp: _only(math_wide.atanh),
}

LIBM: Mapping[type[Operation], str] = {
    math.ExpOp: "exp",
    math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1",
    math.LogOp: "log",
    math.Log2Op: "log2",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.TanhOp: "tanh",
    math.SinhOp: "sinh",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.SinOp: "sin",
    math.CosOp: "cos",
    math.AsinOp: "asin",
    math.AcosOp: "acos",
    math.AtanOp: "atan",
    math.TanOp: "tan",
    math.AsinhOp: "asinh",
    math.AcoshOp: "acosh",
    math.AtanhOp: "atanh",
    math.PowFOp: "pow",
}


def _function(scope: Scope, op: Operation) -> None:
    """An elementary function: written out for f32, the C library's for f64."""
    values = [Lanes(scope.f, value) for value in operands(scope, op)]
    scope.values[op.results[0]] = expand(Mathematics(scope.module), type(op), values).value


def expand(m: Mathematics, kind: type[Operation], values: list[Lanes]) -> Lanes:
    """The value of an operation of the math dialect, by its class."""
    element = element_of(values[0].type)
    if isinstance(element, Float64Type):
        return math_f32.rsqrt(m, *values) if kind is math.RsqrtOp else m.libm(LIBM[kind], *values)
    if not isinstance(element, Float32Type):
        raise TranslateError(f"{kind.name} of {values[0].type}: widen to f32 first")
    if kind is math.PowFOp:
        return math_wide.power(*values)
    return F32_FUNCTIONS[kind](m, *values)


def _intrinsic(name: str, *flags: int) -> Translation:
    """One LLVM intrinsic of the operands' type; `flags` are i1 arguments behind them."""

    def translation(scope: Scope, op: Operation) -> None:
        f = scope.f
        values = operands(scope, op)
        arguments = [*values, *(f.const(flag, I1) for flag in flags)]
        scope.values[op.results[0]] = f.intrinsic(name, arguments, values[0].type)

    return translation


MATH: Mapping[type[Operation], Translation] = {
    **dict.fromkeys((*F32_FUNCTIONS, math.PowFOp), _function),
    math.SqrtOp: _intrinsic("llvm.sqrt"),
    math.AbsFOp: _intrinsic("llvm.fabs"),
    math.CeilOp: _intrinsic("llvm.ceil"),
    math.FloorOp: _intrinsic("llvm.floor"),
    math.TruncOp: _intrinsic("llvm.trunc"),
    math.RoundOp: _intrinsic("llvm.round"),
    math.RoundEvenOp: _intrinsic("llvm.roundeven"),
    math.CopySignOp: _intrinsic("llvm.copysign"),
    math.FmaOp: _intrinsic("llvm.fma"),
    math.AbsIOp: _intrinsic("llvm.abs", 0),
    math.CountLeadingZerosOp: _intrinsic("llvm.ctlz", 0),
    math.CountTrailingZerosOp: _intrinsic("llvm.cttz", 0),
    math.CtPopOp: _intrinsic("llvm.ctpop"),
}
