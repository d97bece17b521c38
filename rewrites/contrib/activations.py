"""Activations: of one tensor, and those that products and convolutions have as an attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule


def gelu(b: Expansion) -> Results:
    """Gelu by the error function."""
    b.known()
    return [b.value(onnx.GeluOp, b.x())]


def fast_gelu(b: Expansion) -> Results:
    """Gelu(x + bias) by tanh."""
    b.known()
    return [b.value(onnx.GeluOp, b.biased(b.x(), b.at(1)), attributes={"approximate": "tanh"})]


def bias_gelu(b: Expansion) -> Results:
    """Gelu(a + b)"""
    b.known()
    return [b.value(onnx.GeluOp, b.add(b.x(0), b.x(1)))]


def quick_gelu(b: Expansion) -> Results:
    """x sigmoid(alpha x)"""
    b.known("alpha")
    return [b.value(onnx.SwishOp, b.x(), attributes={"alpha": b.attr("alpha", 1.702)})]


def bias_split_gelu(b: Expansion) -> Results:
    """The first half of x + bias times the Gelu of the second."""
    b.known()
    left, right = b.split(b.add(b.x(0), b.x(1)), -1, 2)
    return [b.mul(left, b.value(onnx.GeluOp, right))]


def bias_add(b: Expansion) -> Results:
    """x + bias + skip"""
    b.known()
    return [b.add(b.add(b.x(0), b.x(1)), b.x(2))]


def scaled_silu(b: Expansion) -> Results:
    """z sigmoid(z), where z is x times a scale."""
    b.known("alpha")
    x, scale = b.x(0), b.at(1)
    if scale is None:
        z = b.scaled(x, b.attr("alpha", 1.0))
    else:
        z = b.mul(x, b.value(onnx.CastLikeOp, b.scalar(scale), x))
    return [b.mul(z, b.value(onnx.SigmoidOp, z))]


def gated_add(b: Expansion) -> Results:
    """x + y gate"""
    b.known()
    b.absent(gate_weight=3)
    return [b.add(b.x(0), b.mul(b.x(1), b.x(2)))]


def swiglu(b: Expansion) -> Results:
    """g sigmoid(alpha g) (l + beta), where g and l are the gate and the rest, clamped to a limit."""
    b.known("activation_alpha", "activation_beta", "limit", "round_activation")
    gate, up, limit = b.x(0), b.at(1), b.attr("limit", 0.0)
    if up is None:
        gate, up = b.split(gate, -1, 2)
    alpha, beta = b.attr("activation_alpha", 1.0), b.attr("activation_beta", 0.0)
    return [swiglu_of(b, gate, up, alpha, beta, limit if limit > 0 else None)]


def swiglu_of(b: Expansion, gate: SSAValue, up: SSAValue, alpha: float, beta: float, limit: float | None) -> SSAValue:
    """gate sigmoid(alpha gate) (up + beta), both clamped in front: the gate from above."""
    if limit is not None:
        high, low = b.number(limit, gate), b.number(-limit, gate)
        gate, up = b.value(onnx.ClipOp, gate, None, high), b.value(onnx.ClipOp, up, low, high)
    activated = b.value(onnx.SwishOp, gate, attributes={"alpha": alpha})
    return b.mul(activated, b.add(up, b.number(beta, up)) if beta else up)


# As an attribute

_PLAIN: Mapping[str, type[onnx.OnnxOp]] = {
    "Relu": onnx.ReluOp,
    "Sigmoid": onnx.SigmoidOp,
    "Tanh": onnx.TanhOp,
    "HardSwish": onnx.HardSwishOp,
    "Softplus": onnx.SoftplusOp,
    "Softsign": onnx.SoftsignOp,
}
_WITH_PARAMETERS: Mapping[str, tuple[type[onnx.OnnxOp], Mapping[str, float]]] = {
    "Elu": (onnx.EluOp, {"alpha": 1.0}),
    "LeakyRelu": (onnx.LeakyReluOp, {"alpha": 0.01}),
    "HardSigmoid": (onnx.HardSigmoidOp, {"alpha": 0.2, "beta": 0.5}),
    "ThresholdedRelu": (onnx.ThresholdedReluOp, {"alpha": 1.0}),
}


def activated(b: Expansion, x: SSAValue, name: str | None, parameters: Sequence[float | None]) -> SSAValue:
    """The activation of that name, with its parameters in order; None for one that the node does not give."""
    if not name:
        return x
    if name in _PLAIN:
        return b.value(_PLAIN[name], x)
    if name in _WITH_PARAMETERS:
        cls, defaults = _WITH_PARAMETERS[name]
        given = [*parameters, *[None] * len(defaults)]
        values = {key: other if mine is None else mine for (key, other), mine in zip(defaults.items(), given)}
        return b.value(cls, x, attributes=values)
    if name == "Affine":
        alpha, beta = parameters
        return b.add(b.scaled(x, alpha or 0.0), b.number(beta or 0.0, x))
    if name == "ScaledTanh":
        alpha, beta = parameters
        return b.scaled(b.value(onnx.TanhOp, b.scaled(x, beta or 0.0)), alpha or 0.0)
    if name == "Clip" and len(parameters) == 2:
        bounds = [None if v is None else b.number(v, x) for v in parameters]
        return b.value(onnx.ClipOp, x, *bounds)
    raise b.unsupported(f"its activation '{name}' is not supported")


ACTIVATIONS: Mapping[str, Rule] = {
    "BiasAdd": bias_add,
    "BiasGelu": bias_gelu,
    "BiasSplitGelu": bias_split_gelu,
    "FastGelu": fast_gelu,
    "GatedAdd": gated_add,
    "Gelu": gelu,
    "QuickGelu": quick_gelu,
    "ScaledSiLU": scaled_silu,
    "SwiGLU": swiglu,
}
