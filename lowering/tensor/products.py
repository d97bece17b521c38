"""Products that are made of the templates matmul and conv: convolutions of quantized numbers, and einsum.

Bytes are widened to i32 less their zero points, multiplied and summed in i32, which wraps as the standard's does.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import math
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE, ZERO
from ...semantics.reference.linear import einsum_terms
from .casts import convert, converted
from .element_kinds import F64, I32, Element
from .graph import Combine, Dims, Node, View, pointwise, widened
from .index_space import Index, IndexSpace, product
from .movement import reshaped, transposed
from .operators import Operands, Rule, reduced
from .scalars import Scalars
from .templates import accumulated, channel_bias, in_compute_type, matrix_product, window_config

# Quantized numbers


def less_zero_point(x: Node, zero_point: Node | None) -> Node:
    """x - zero point as i32."""
    if zero_point is None:
        return converted(x, I32)
    source = x.element
    return pointwise(
        lambda s, v, z: s.sub(convert(s, v, source, I32), convert(s, z, zero_point.element, I32), I32),
        (x, zero_point),
        x.dims,
        I32,
        2,
    )


def conv_integer(o: Operands) -> list[Node]:
    """Padding counts as the zero point: as 0 of what is multiplied."""
    x, w, zero = o[0], o[1], o.get(3)
    whole = less_zero_point(x, None if (z := o.get(2)) is None else reshaped(z, ()))
    weights = less_zero_point(w, None if zero is None else _by_feature(zero, w))
    return [_convolution(o, x, w, whole, weights)]


def _by_feature(parameter: Node, w: Node) -> Node:
    if all(d is ONE for d in parameter.dims):
        return reshaped(parameter, ())
    return reshaped(parameter, (parameter.dims[0], *([ONE] * (len(w.dims) - 1))))


def _convolution(o: Operands, x: Node, w: Node, whole: Node, weights: Node) -> Node:
    config = window_config(o, x, w.dims[2:])
    config["group"] = IntegerAttr(o.attr("group"), i64)
    return accumulated("conv", (whole, weights), config, o.dims(), I32)


def requantized(total: Node, scales: Sequence[Node], y_scale: Node, zero_point: Node, to: Element) -> Node:
    """saturate(round(total * scale * scale / y_scale) + zero point); in f64, so that ties are what they are exactly."""
    t = F64

    def function(s: Scalars, value: SSAValue, by: SSAValue, zero: SSAValue, *factors: SSAValue) -> SSAValue:
        scale = convert(s, factors[0], scales[0].element, t)
        for factor, node in zip(factors[1:], scales[1:]):
            scale = s.mul(scale, convert(s, factor, node.element, t), t)
        real = s.mul(s.convert("sitofp", value, t), scale, t)
        whole = s.unary(math.RoundEvenOp, s.divf(real, convert(s, by, y_scale.element, t)))
        moved = s.add(whole, convert(s, zero, zero_point.element, t), t)
        bounded = s.clamp(moved, to.lowest, to.highest, t)
        return s.convert("fptosi" if to.kind == "i" else "fptoui", bounded, to)

    return pointwise(function, (total, y_scale, zero_point, *scales), total.dims, to, 15)


def q_linear_conv(o: Operands) -> list[Node]:
    x, w = o[0], o[3]
    rank = len(x.dims)
    whole = less_zero_point(x, reshaped(o[2], ()))
    weights = less_zero_point(w, _by_feature(o[5], w))
    total = _convolution(o, x, w, whole, weights)
    if (bias := channel_bias(o.get(8), rank)) is not None:
        total = pointwise(lambda s, a, b: s.add(a, b, I32), (total, bias), total.dims, I32)
    w_scale = o[4] if not all(d is ONE for d in o[4].dims) else reshaped(o[4], ())
    by_channel = channel_bias(w_scale, rank) if w_scale.dims else w_scale
    assert by_channel is not None
    scales = (reshaped(o[1], ()), by_channel)
    return [requantized(total, scales, reshaped(o[6], ()), reshaped(o[7], ()), o.element())]


# Einsum


class Labelled:
    """A lazy tensor whose axes have labels, each once."""

    def __init__(self, node: Node, labels: Sequence[int]) -> None:
        self.node = node
        self.labels = tuple(labels)

    def size(self, label: int) -> Dim:
        return self.node.dims[self.labels.index(label)]

    def to(self, labels: Sequence[int]) -> Labelled:
        """With the axes in another order."""
        if tuple(labels) == self.labels:
            return self
        return Labelled(transposed(self.node, [self.labels.index(n) for n in labels]), labels)

    def summed(self, kept: set[int]) -> Labelled:
        """Without the labels that are not kept."""
        gone = [k for k, n in enumerate(self.labels) if n not in kept]
        if not gone:
            return self
        return Labelled(reduced(Combine.ADD, widened(self.node), gone), [n for n in self.labels if n in kept])


def einsum(o: Operands) -> list[Node]:
    """By pairs from left to right: labels in both and not needed later are a matmul's depth, the others its sides."""
    operands = o.all()
    terms, result = einsum_terms(o.attr("equation"), [len(x.dims) for x in operands])
    total = _labelled(operands[0], terms[0])
    for at, (operand, term) in enumerate(zip(operands[1:], terms[1:]), 2):
        needed = {n for later in terms[at:] for n in later} | set(result)
        total = _contracted(total, _labelled(operand, term), needed)
    total = _with_all(total.summed(set(result)), result).to(result)
    return [converted(total.node, o.element())]


def _labelled(x: Node, term: Sequence[int]) -> Labelled:
    """One axis for each label: a diagonal where a label is repeated; axes of size 1 are dropped, they broadcast."""
    labels = [n for k, n in enumerate(term) if n not in term[:k] and x.dims[k] is not ONE]
    if len(labels) == len(term):
        return Labelled(x, labels)
    places = [labels.index(n) if n in labels and x.dims[k] is not ONE else None for k, n in enumerate(term)]
    dims = tuple(x.dims[list(term).index(n)] for n in labels)

    def diagonal(space: IndexSpace, index: Index) -> Index:
        return tuple(ZERO if p is None else index[p] for p in places)

    return Labelled(View(dims, x.element, x, diagonal), labels)


def _with_all(x: Labelled, labels: Sequence[int]) -> Labelled:
    """With an axis of size 1 for each label that it lacks."""
    missing = [n for n in labels if n not in x.labels]
    if not missing:
        return x
    return Labelled(reshaped(x.node, (*x.node.dims, *([ONE] * len(missing)))), (*x.labels, *missing))


def _contracted(a: Labelled, b: Labelled, needed: set[int]) -> Labelled:
    a, b = a.summed(needed | set(b.labels)), b.summed(needed | set(a.labels))
    shared = [n for n in a.labels if n in b.labels]
    depth = [n for n in shared if n not in needed]
    batch = [n for n in shared if n in needed]
    rows, columns = [n for n in a.labels if n not in shared], [n for n in b.labels if n not in shared]
    labels = [*batch, *rows, *columns]
    dims = tuple((a if n in a.labels else b).size(n) for n in labels)
    if not depth:
        return Labelled(_outer(a, b, labels, dims), labels)
    left, right = a.to([*batch, *rows, *depth]).node, b.to([*batch, *depth, *columns]).node
    outer = tuple(a.size(n) for n in batch)
    m, k, n = (product([x.size(label) for label in side]) for x, side in ((a, rows), (a, depth), (b, columns)))
    left, right = reshaped(left, (*outer, m, k)), reshaped(right, (*outer, k, n))
    if left.element is not right.element:  # one is a sum already, in the compute type
        left, right = widened(left), widened(right)
    element = left.element
    total = in_compute_type(matrix_product(left, right, 0, 0, (*outer, m, n), element), element)
    return Labelled(reshaped(total, dims), labels)


def _outer(a: Labelled, b: Labelled, labels: Sequence[int], dims: Dims) -> Node:
    """The product without a sum."""
    left, right = (widened(_spread(x, labels, dims)) for x in (a, b))
    t = left.element
    return pointwise(lambda s, v, w: s.mul(v, w, t), (left, right), dims, t)


def _spread(x: Labelled, labels: Sequence[int], dims: Dims) -> Node:
    """With axes for all labels, of size 1 where it has none."""
    own = x.to([n for n in labels if n in x.labels])
    return reshaped(own.node, tuple(d if n in x.labels else ONE for n, d in zip(labels, dims)))


PRODUCTS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.ConvIntegerOp: conv_integer,
    onnx.EinsumOp: einsum,
    onnx.QLinearConvOp: q_linear_conv,
}
