"""Mixtures of experts: each row goes through the few networks that its router prefers, and their results are weighted.

Each expert is two products with an activation between, of those rows alone that have chosen it: how many there are is
known when the model runs.  What all experts give is added up row by row, in the order of the experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .activations import swiglu_of
from .expansion import Array, Expansion, Rule
from .packed_weights import BITS, LEAST_BLOCK, BlockWeights, unpack

Layer = Callable[[int, SSAValue], SSAValue]
"""The product of an expert's weights, by its number, and rows, with the bias."""

ATTRIBUTES = (
    "activation_alpha", "activation_beta", "activation_type", "k", "normalize_routing_weights", "swiglu_fusion",
    "swiglu_limit", "swiglu_limit_after_activation", "use_sparse_mixer",
)  # fmt: skip


def moe(b: Expansion) -> Results:
    """The results of each row's best experts, weighted by the softmax of the router's scores."""
    b.known(*ATTRIBUTES)
    layers = [dense_layer(b, weights, bias) for weights, bias in ((2, 3), (4, 5), (6, 7))]
    return [mixture(b, experts_of(b, 2), layers, None)]


def qmoe(b: Expansion) -> Results:
    """MoE with weights of 2, 4 or 8 bits, by blocks or by columns."""
    widths = ("fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits")
    b.known(
        *ATTRIBUTES, "accuracy_level", "block_size", "expert_weight_bits", "quant_type", "weights_prepacked", *widths
    )
    b.only("quant_type", "int")
    if b.attr("weights_prepacked", -1) == 1:
        raise b.unsupported("its weights are prepacked for an execution provider")
    if len(b.inputs()) > 15:
        b.absent(fc1_global_scale=15, fc2_global_scale=16)
    common = b.attr("expert_weight_bits", 4)
    layers = [packed_layer(b, 2 + 3 * k, 11 + k, b.attr(width, common)) for k, width in enumerate(widths)]
    return [mixture(b, experts_of(b, 2), layers, b.at(14))]


def experts_of(b: Expansion, weights: int) -> int:
    """How many experts there are."""
    count = b.size(b.x(weights), 0)
    if count is None:
        raise b.unsupported("the number of its experts is known at run time only")
    return count


def dense_layer(b: Expansion, weights: int, bias: int) -> Layer | None:
    """Of weights [experts, columns, depth]; None where they are absent."""
    if b.at(weights) is None:
        return None

    def product(expert: int, x: SSAValue) -> SSAValue:
        own = part(b, weights, expert)
        y = b.value(onnx.GemmOp, x, own, attributes={"transB": 1})
        return b.biased(y, None if b.at(bias) is None else part(b, bias, expert))

    return product


def part(b: Expansion, index: int, expert: int) -> SSAValue:
    """An expert's part of an input."""
    array = b.array(b.x(index))
    if array is not None:
        return b.large_constant(np.asarray(array[expert]))
    return b.value(onnx.GatherOp, b.x(index), b.ints(expert))


def packed_layer(b: Expansion, first: int, zeros: int, bits: int) -> Layer | None:
    """Of weights [experts, columns, depth * bits / 8] with scales and a bias behind them."""
    if b.at(first) is None:
        return None
    packed, scales, zero = (b.array(b.at(k)) for k in (first, first + 1, zeros))
    if packed is None or scales is None or (zero is None and b.at(zeros) is not None):
        raise b.unsupported("its quantized weights are computed")
    if bits not in BITS:
        raise b.unsupported(f"weights of {bits} bits are not supported")
    block = b.attr("block_size", 0)

    def product(expert: int, x: SSAValue) -> SSAValue:
        weights = block_weights(packed[expert], scales[expert], None if zero is None else zero[expert], bits, block)
        y = b.cast(weights.product(b, b.cast(x, f32), quantized=False), b.element(x))
        return b.biased(y, None if b.at(first + 2) is None else part(b, first + 2, expert))

    return product


def block_weights(packed: Array, scales: Array, zeros: Array | None, bits: int, block: int) -> BlockWeights:
    """An expert's weights; of a column as a whole in blocks that have the same scale."""
    columns, depth = len(packed), packed.shape[1] * 8 // bits
    size = max(block, LEAST_BLOCK)
    blocks = -(-depth // size)
    scales = scales.astype(np.float32)
    if block <= 0:
        scales = np.repeat(scales.reshape(columns, 1), blocks, 1)
        zeros = None if zeros is None else np.repeat(unpack(zeros, bits)[:columns].reshape(columns, 1), blocks, 1)
    elif zeros is not None:
        zeros = unpack(zeros, bits).reshape(columns, -1)[:, :blocks]

    def numbers() -> Array:
        return np.pad(unpack(packed, bits).reshape(columns, depth), ((0, 0), (0, blocks * size - depth)))

    return BlockWeights(depth, bits, size, numbers, scales, zeros)


@dataclass(frozen=True)
class Routes:
    """The experts that rows have chosen, and the weight of each, [rows, k]."""

    experts: SSAValue
    weights: SSAValue

    @staticmethod
    def of(b: Expansion, scores: SSAValue, given: SSAValue | None) -> Routes:
        """The best of the router's scores; `given` are other numbers to weight by.

        Weights are probabilities among all experts, or, normalized, among those that are chosen.  (onnxruntime's kernel
        of QMoE for CPUs normalizes them in any case, those of MoE and for GPUs do not.)
        """
        scores = b.cast(scores, f32)
        if b.attr("use_sparse_mixer", 0):
            return sparse_mixer(b, scores)
        last = b.ints([-1])
        likely = b.value(onnx.SoftmaxOp, scores)
        values, experts = b.several(onnx.TopKOp, [likely, b.ints([b.attr("k", 1)])], [True, True])
        assert values is not None and experts is not None
        if given is not None:
            values = b.value(onnx.GatherElementsOp, b.cast(given, f32), experts, attributes={"axis": -1})
        if b.attr("normalize_routing_weights", 0):
            total = b.value(onnx.ReduceSumOp, values, last)
            nothing = b.value(onnx.EqualOp, total, b.number(0, total))
            values = b.value(onnx.DivOp, values, b.value(onnx.WhereOp, nothing, b.number(1, total), total))
        return Routes(experts, values)

    def apart(self, b: Expansion, experts: int) -> list[tuple[SSAValue, SSAValue]]:
        """For each expert the rows that have chosen it, and their weights [rows, 1].

        What follows is the same for all, so that it is compiled once: an expert's number is in no kernel of its own.
        """
        numbers = b.constant(np.arange(experts, dtype=np.int64).reshape(-1, 1, 1))
        chosen = b.value(onnx.EqualOp, b.unsqueezed(self.experts, 0), numbers)
        return [self.of_chosen(b, part) for part in b.split(chosen, 0, experts)]

    def of_chosen(self, b: Expansion, chosen: SSAValue) -> tuple[SSAValue, SSAValue]:
        places = b.value(onnx.TransposeOp, b.value(onnx.NonZeroOp, b.squeezed(chosen, 0)))
        rows = b.sliced(places, 1, 0, 1)
        return b.reshaped(rows, [-1]), b.unsqueezed(b.value(onnx.GatherNDOp, self.weights, places), 1)


JITTER = 0.01
"""How far scores may be below the greatest one, relative and twice, to count beside it, in the sparse mixer."""


def sparse_mixer(b: Expansion, scores: SSAValue) -> Routes:
    """The two best experts, each with its probability among those that are nearly as good; of the second one without
    the first (Phi-3.5-MoE's router, as it infers).
    """
    if b.attr("k", 1) != 2:
        raise b.unsupported("the sparse mixer chooses two experts")
    last, least = b.ints([-1]), b.number(float("-inf"), scores)
    experts: list[SSAValue] = []
    weights: list[SSAValue] = []
    left = scores
    for _ in range(2):
        best = b.value(onnx.ReduceMaxOp, left, last)
        chosen = b.value(onnx.ArgMaxOp, left, attributes={"axis": -1})
        size = b.make(onnx.MaxOp, [b.value(onnx.AbsOp, scores), best]).results[0]
        apart = b.value(onnx.DivOp, b.sub(best, scores), size)
        worse = b.value(onnx.GreaterOp, apart, b.number(2 * JITTER, apart))
        likely = b.value(onnx.SoftmaxOp, b.value(onnx.WhereOp, worse, least, left))
        weights.append(b.value(onnx.GatherElementsOp, likely, chosen, attributes={"axis": -1}))
        experts.append(chosen)
        numbers = b.ints(list(range(experts_of(b, 2))))
        left = b.value(onnx.WhereOp, b.value(onnx.EqualOp, chosen, numbers), least, left)
    return Routes(b.concat(experts, -1), b.concat(weights, -1))


def mixture(b: Expansion, experts: int, layers: list[Layer | None], given: SSAValue | None) -> SSAValue:
    """The weighted results of all experts, in the input's shape."""
    x = b.x(0)
    rows = (
        b.reshaped(x, [-1, 0])
        if b.rank(x) == 2
        else b.value(onnx.ReshapeOp, x, b.concat([b.ints([-1]), b.size_of(x, -1)], 0))
    )
    routes = Routes.of(b, b.x(1), given)
    places: list[SSAValue] = []
    parts: list[SSAValue] = []
    for expert, (place, weight) in enumerate(routes.apart(b, experts)):
        y = network(b, layers, expert, b.value(onnx.GatherOp, rows, place))
        places.append(place)
        parts.append(b.mul(b.cast(y, f32), weight))
    start = b.value(onnx.ExpandOp, b.constant(np.zeros((), np.float32)), b.shape(rows))
    where = b.unsqueezed(b.concat(places, 0), 1)
    total = b.value(onnx.ScatterNDOp, start, where, b.concat(parts, 0), attributes={"reduction": "add"})
    shaped = b.value(onnx.ReshapeOp, total, b.shape(x), attributes={"allowzero": 1})
    return b.cast(shaped, b.element(x))


def network(b: Expansion, layers: list[Layer | None], expert: int, x: SSAValue) -> SSAValue:
    """One expert's network; a third layer is multiplied with the first one's activation."""
    first, second, third = layers
    assert first is not None and second is not None
    h = first(expert, x)
    name = b.attr("activation_type", "relu").lower()
    if name == "swiglu":
        return second(expert, gated(b, h, None if third is None else third(expert, x)))
    h = ACTIVATIONS[name](b, h) if name in ACTIVATIONS else unknown(b, name)
    return second(expert, h if third is None else b.mul(h, third(expert, x)))


def gated(b: Expansion, h: SSAValue, up: SSAValue | None) -> SSAValue:
    """SwiGLU of the gate and the rest: apart, by turns, or one after the other."""
    b.only("swiglu_limit_after_activation", 0)
    fusion = b.attr("swiglu_fusion", 0)
    gate = h
    if up is None:
        width = b.size(h, 1)
        if width is None or fusion not in (1, 2):
            raise b.unsupported("its first layer has no gate")
        if fusion == 1:
            gate, up = b.sliced(h, 1, 0, width, 2), b.sliced(h, 1, 1, width, 2)
        else:
            gate, up = b.split(h, 1, 2)
    alpha, beta = b.attr("activation_alpha", 1.0), b.attr("activation_beta", 0.0)
    return swiglu_of(b, gate, up, alpha, beta, b.attr("swiglu_limit"))


def unknown(b: Expansion, name: str) -> SSAValue:
    raise b.unsupported(f"its activation '{name}' is not supported")


ACTIVATIONS: Mapping[str, Callable[[Expansion, SSAValue], SSAValue]] = {
    "gelu": lambda b, x: b.value(onnx.GeluOp, x, attributes={"approximate": "tanh"}),
    "identity": lambda b, x: x,
    "relu": lambda b, x: b.value(onnx.ReluOp, x),
    "silu": lambda b, x: b.value(onnx.SwishOp, x),
}

EXPERTS: Mapping[str, Rule] = {"MoE": moe, "QMoE": qmoe}
