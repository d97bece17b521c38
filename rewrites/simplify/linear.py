"""Products: with the bias that follows them, with the padding in front of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.facts import Facts
from ...semantics.known import constant_value, known_dims
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import FLOATS, Rule, element_of, only_producer, producer, scalar_of

HALVES = (f16, bf16)


@dataclass(frozen=True)
class FuseMatMulAdd(Rule):
    """Add(MatMul(a, b), c)  ->  Gemm(a, b, c), of matrices

    The bias is added to the sum, so nothing changes but in halves, which MatMul rounds before (declined with `exact`).
    Declines when something else reads the product, and where c would widen it.
    """

    exact: bool

    root = onnx.AddOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for value, bias in (op.operands[:2], op.operands[1::-1]):
            product = only_producer(value, onnx.MatMulOp)
            if product is None or value.type != op.results[0].type or element_of(value) not in FLOATS:
                continue
            if self.exact and element_of(value) in HALVES:
                continue
            a, b = product.operands
            if len(dims_of(a)) != 2 or len(dims_of(b)) != 2 or len(dims_of(bias)) > 2:
                continue
            if not spreads(bias, value) or (rewriter.opsets is not None and rewriter.opsets.get("", 7) < 7):
                continue
            rewriter.replace(op, onnx.GemmOp.make([a, b, bias], {}, [op.results[0].type]))
            rewriter.erase(product)
            return


def spreads(value: SSAValue, over: SSAValue) -> bool:
    """Whether a tensor broadcasts to another's shape whatever the sizes are."""
    shape, wanted = dims_of(value), dims_of(over)
    tail = wanted[len(wanted) - len(shape) :]
    return all(s is w or (s.is_const and s.value == 1) for s, w in zip(shape, tail, strict=True))


@dataclass(frozen=True)
class FoldTransposeIntoGemm(Rule):
    """Gemm(Transpose(a), b, c)  ->  Gemm {transA} (a, b, c), and so for b

    A transpose that nothing else reads.
    """

    root = onnx.GemmOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        gemm = cast(onnx.GemmOp, op)
        for at, name in ((0, "transA"), (1, "transB")):
            inner = only_producer(op.operands[at], onnx.TransposeOp)
            if inner is None:
                continue
            operands = gemm.formal_operands()
            operands[at] = inner.operands[0]
            flipped = {**attributes_of(gemm), name: 1 - onnx.attr(op, name)}
            rewriter.replace(op, onnx.GemmOp.make(operands, flipped, [op.results[0].type]))
            rewriter.erase(inner)
            return


@dataclass(frozen=True)
class FoldPad(Rule):
    """Conv(Pad(x))  ->  Conv {pads} (x), where zeros pad; AveragePool that counts its padding

    MaxPool where -inf pads, or 0 and x is the result of an operator that gives nothing below 0.  Declines when
    something else reads the padded tensor, when batch or channels are padded, when padding is negative, where
    `auto_pad` or `ceil_mode` has the operator find its own, and for pools that would have windows of padding alone.
    """

    weights: WeightStore
    facts: Facts

    root = (onnx.ConvOp, onnx.AveragePoolOp, onnx.MaxPoolOp, onnx.ConvIntegerOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        pad = only_producer(op.operands[0], onnx.PadOp)
        if pad is None or onnx.attr(pad, "mode") != "constant" or not self.pads_alike(op, pad):
            return
        if onnx.attr(op, "auto_pad") not in ("NOTSET", "VALID"):
            return
        if not isinstance(op, onnx.ConvOp | onnx.ConvIntegerOp) and (onnx.attr(op, "ceil_mode") or any(op.results[1:])):
            return
        added = pads_by_axis(pad)
        if added is None or any(added[axis] != (0, 0) for axis in (0, 1)) or any(n < 0 for p in added for n in p):
            return
        spatial = len(added) - 2
        own = onnx.attr(op, "pads") if onnx.attr(op, "auto_pad") == "NOTSET" else None
        own = list(own) if own else [0] * (2 * spatial)
        if isinstance(op, onnx.AveragePoolOp) and any(own) and not onnx.attr(op, "count_include_pad"):
            return
        pads = [own[i] + added[2 + i % spatial][i // spatial] for i in range(2 * spatial)]
        if isinstance(op, onnx.AveragePoolOp | onnx.MaxPoolOp):
            kernel, dilations = onnx.attr(op, "kernel_shape"), onnx.attr(op, "dilations") or ()
            if any(p >= kernel[i % spatial] for i, p in enumerate(pads)) or any(d != 1 for d in dilations):
                return
            if any(self.facts.prove_le(1, size).answer is not True for size in dims_of(pad.operands[0])[2:]):
                return
        attributes = {k: v for k, v in attributes_of(cast(onnx.OnnxOp, op)).items() if k != "auto_pad"}
        attributes["pads"] = onnx.ints_attr(tuple(pads))
        if isinstance(op, onnx.AveragePoolOp):
            attributes["count_include_pad"] = onnx.int_attr(1)
        operands = [pad.operands[0], *cast(onnx.OnnxOp, op).formal_operands()[1:]]
        types = [None if r is None else r.type for r in cast(onnx.OnnxOp, op).formal_results()]
        rewriter.replace(op, type(op).make(operands, attributes, types))  # pyright: ignore
        rewriter.erase(pad)

    def pads_alike(self, op: Operation, pad: onnx.PadOp) -> bool:
        """Whether Pad fills in what the operator would."""
        fill = pad.operand_at(2)
        number = 0.0 if fill is None else scalar_of(fill, self.weights)
        if isinstance(op, onnx.MaxPoolOp):
            if number is None or element_of(op.operands[0]) not in FLOATS:
                return False
            return number == -np.inf or (number == 0 and producer(pad.operands[0], *NOT_NEGATIVE) is not None)
        if isinstance(op, onnx.ConvIntegerOp):
            zero = op.operand_at(2)
            return number == (0.0 if zero is None else scalar_of(zero, self.weights))
        return number == 0


NOT_NEGATIVE: tuple[type[onnx.OnnxOp], ...] = (onnx.ReluOp, onnx.SigmoidOp, onnx.AbsOp, onnx.ExpOp, onnx.SoftmaxOp)


def pads_by_axis(pad: onnx.PadOp) -> list[tuple[int, int]] | None:
    """How many elements Pad puts before and after each axis; None where that is not known."""
    rank = len(dims_of(pad.operands[0]))
    known = known_dims(pad.operands[1])
    if known is None or not all(k.is_const for k in known):
        return None
    numbers = [k.value for k in known]
    axes: list[int] = list(range(rank))
    operand = pad.operand_at(3)
    if operand is not None:
        found = constant_value(operand)
        if found is None:
            return None
        axes = [int(a) % rank for a in found.ravel()]
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[axis] = (numbers[i], numbers[i + len(axes)])
    return pads if rank > 2 else None
