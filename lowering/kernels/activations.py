"""The activation functions of recurrent operators, on vectors of f32 or f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from .emit import Emitter, lanes_of, scalar_type

Function = Callable[[Emitter, SSAValue], SSAValue]
Formula = Callable[[Emitter, SSAValue, float, float], SSAValue]


def like(e: Emitter, value: float, x: SSAValue) -> SSAValue:
    """The constant in x's type."""
    return e.constant(value, scalar_type(x), lanes_of(x))


def sigmoid(e: Emitter, x: SSAValue) -> SSAValue:
    """1 / (1 + exp(-x))"""
    one = like(e, 1.0, x)
    return e.div(one, e.add(one, e.math("exp", e.sub(like(e, -0.0, x), x))))


def _affine(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    """a * x + b, rounded once: next to its zero nothing is left of a rounded product."""
    return e.fma(x, like(e, a, x), like(e, b, x))


def _elu(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    negative = e.compare("olt", x, like(e, 0.0, x))
    return e.select(negative, e.mul(like(e, a, x), e.math("expm1", x)), x)


def _leaky(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    return e.select(e.compare("olt", x, like(e, 0.0, x)), e.mul(like(e, a, x), x), x)


def _hard_sigmoid(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    y = _affine(e, x, a, b)
    return e.extremum("minimumf", e.extremum("maximumf", y, like(e, 0.0, x)), like(e, 1.0, x))


def _scaled_tanh(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    return e.mul(like(e, a, x), e.math("tanh", e.mul(like(e, b, x), x)))


def _softplus(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    """max(x, 0) + log1p(exp(-|x|))"""
    tail = e.math("log1p", e.math("exp", e.sub(like(e, -0.0, x), e.math("absf", x))))
    return e.add(e.extremum("maximumf", x, like(e, 0.0, x)), tail)


def _softsign(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    return e.div(x, e.add(like(e, 1.0, x), e.math("absf", x)))


def _thresholded(e: Emitter, x: SSAValue, a: float, b: float) -> SSAValue:
    return e.select(e.compare("oge", x, like(e, a, x)), x, like(e, 0.0, x))


FORMULAS: dict[str, tuple[Formula, float | None, float | None]] = {
    "affine": (_affine, 1.0, 0.0),
    "elu": (_elu, 1.0, None),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": (_leaky, 0.01, None),
    "relu": (lambda e, x, a, b: e.extremum("maximumf", x, like(e, 0.0, x)), None, None),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
    "sigmoid": (lambda e, x, a, b: sigmoid(e, x), None, None),
    "softplus": (_softplus, None, None),
    "softsign": (_softsign, None, None),
    "tanh": (lambda e, x, a, b: e.math("tanh", x), None, None),
    "thresholdedrelu": (_thresholded, 1.0, None),
}
"""By name in small letters: the formula, and the defaults of alpha and beta (None: it has no such parameter)."""


def functions(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clip: float | None
) -> list[Function]:
    """The named functions, what they are given clipped; alphas and betas go in order to those that have one."""
    next_alpha, next_beta = iter(alphas), iter(betas)

    def bound(name: str) -> Function:
        formula, alpha, beta = FORMULAS[name.lower()]
        a = 0.0 if alpha is None else next(next_alpha, alpha)
        b = 0.0 if beta is None else next(next_beta, beta)

        def function(e: Emitter, x: SSAValue) -> SSAValue:
            if clip is not None:
                x = e.extremum("maximumf", e.extremum("minimumf", x, like(e, clip, x)), like(e, -clip, x))
            return formula(e, x, a, b)

        return function

    return [bound(name) for name in names]
