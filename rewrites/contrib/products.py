"""Products of matrices and convolutions with what runtimes fuse into them."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .activations import activated
from .expansion import Expansion, Rule

TRANSPOSES = ("transA", "transB", "transBatchA", "transBatchB", "alpha")
ACTIVATION = ("activation", "activation_alpha", "activation_beta", "activation_gamma")
WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def fused_matmul(b: Expansion) -> Results:
    """alpha a b, with axes of the operands exchanged."""
    b.known(*TRANSPOSES)
    return [_fused_matmul(b)]


def fused_matmul_activation(b: Expansion) -> Results:
    """activation(alpha a b), with axes of the operands exchanged."""
    b.known(*TRANSPOSES, *ACTIVATION)
    return [_with_activation(b, _fused_matmul(b))]


def _fused_matmul(b: Expansion) -> SSAValue:
    operands = [
        exchanged(b, b.x(k), bool(b.attr(f"trans{side}", 0)), bool(b.attr(f"transBatch{side}", 0)))
        for k, side in enumerate("AB")
    ]
    return b.scaled(b.value(onnx.MatMulOp, *operands), b.attr("alpha", 1.0))


def exchanged(b: Expansion, x: SSAValue, last: bool, batch: bool) -> SSAValue:
    """With the first axis behind the batch (`batch`), and with the last two exchanged (`last`)."""
    rank = b.rank(x)
    axes = list(range(rank))
    if rank < 2:
        return x
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if last:
        axes[-2:] = axes[-1], axes[-2]
    return b.transposed(x, axes)


def _with_activation(b: Expansion, y: SSAValue) -> SSAValue:
    parameters = [b.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(b, y, b.attr("activation"), parameters[:2])


def fused_gemm(b: Expansion) -> Results:
    """Gemm with an activation."""
    own = ("alpha", "beta", "transA", "transB")
    b.known(*own, *ACTIVATION)
    attributes = {name: b.attr(name) for name in own}
    return [_with_activation(b, b.value(onnx.GemmOp, b.x(0), b.x(1), b.at(2), attributes=attributes))]


def gemm_fast_gelu(b: Expansion) -> Results:
    """FastGelu(x w + bias)"""
    b.known()
    y = b.biased(b.value(onnx.MatMulOp, b.x(0), b.x(1)), b.at(2))
    return [b.value(onnx.GeluOp, y, attributes={"approximate": "tanh"})]


def fused_conv(b: Expansion) -> Results:
    """activation(Conv(x, w, b) + z)"""
    return [_fused_conv(b, b.x(0), b.at(3))]


def nhwc_fused_conv(b: Expansion) -> Results:
    """activation(Conv(x, w, b) + z), with the channels of x and z last."""
    rank = b.rank(b.x(0))
    x, z = b.x(0), b.at(3)
    y = _fused_conv(b, channels_second(b, x), None if z is None else channels_second(b, z))
    return [b.transposed(y, last_axes(rank))]


def channels_second(b: Expansion, x: SSAValue) -> SSAValue:
    """[N, rest, C] as [N, C, rest]."""
    rank = b.rank(x)
    return b.transposed(x, [0, rank - 1, *range(1, rank - 1)])


def last_axes(rank: int) -> list[int]:
    """The order that puts the second axis last."""
    return [0, *range(2, rank), 1]


def _fused_conv(b: Expansion, x: SSAValue, z: SSAValue | None) -> SSAValue:
    b.known(*WINDOW, "activation", "activation_params")
    attributes = {name: b.attr(name) for name in WINDOW}
    y = b.biased(b.value(onnx.ConvOp, x, b.x(1), b.at(2), attributes=attributes), z)
    return activated(b, y, b.attr("activation"), b.attr("activation_params", []))


def cdist(b: Expansion) -> Results:
    """The distances between the rows of a and those of b."""
    b.known("metric")
    difference = b.sub(b.unsqueezed(b.x(0), 1), b.unsqueezed(b.x(1), 0))
    axes, keep = b.ints([2]), {"keepdims": 0}
    match b.attr("metric", "sqeuclidean"):
        case "sqeuclidean":
            return [b.value(onnx.ReduceSumSquareOp, difference, axes, attributes=keep)]
        case "euclidean":
            return [b.value(onnx.ReduceL2Op, difference, axes, attributes=keep)]
        case "cityblock":
            return [b.value(onnx.ReduceL1Op, difference, axes, attributes=keep)]
        case "chebyshev":
            return [b.value(onnx.ReduceMaxOp, b.value(onnx.AbsOp, difference), axes, attributes=keep)]
        case other:
            raise b.unsupported(f"its metric '{other}' is not supported")


def inverse(b: Expansion) -> Results:
    """The inverses of square matrices; one that has none is an error."""
    b.known()
    return [b.own("Inverse", [b.x()], {}, onnx.text_of(b.op.domain))]


PRODUCTS: Mapping[str, Rule] = {
    "CDist": cdist,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "FusedMatMulActivation": fused_matmul_activation,
    "GemmFastGelu": gemm_fast_gelu,
    "Inverse": inverse,
    "NhwcConv": nhwc_fused_conv,
    "NhwcFusedConv": nhwc_fused_conv,
    "TransposeMatMul": fused_matmul,
}
