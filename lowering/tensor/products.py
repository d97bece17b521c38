"""Einsum: pairs of operands as matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import onnx
from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE, ZERO, dim_broadcast
from ...semantics.reference.linear import einsum_terms
from .casts import converted
from .graph import Combine, Dims, Node, Use, View, pointwise, widened
from .index_space import Index, IndexSpace, broadcast_stride, product
from .movement import reshaped, transposed
from .operators import Operands, Rule, reduced
from .templates import in_compute_type, matrix_product, template

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


def einsum(o: Operands) -> Sequence[Node | None]:
    """By pairs from left to right: labels in both and not needed later are a matmul's depth, the others its sides.

    Where two operands have one axis each of rows, columns and depth, the template of the operator's own name multiplies
    them where they are, whatever the order of their axes.
    """
    operands = o.all()
    terms, result = einsum_terms(o.attr("equation"), [len(x.dims) for x in operands])
    sizes = _sizes(operands, terms)
    if _is_plain_product(operands, terms, result, sizes):
        return template(o)
    total = _labelled(operands[0], terms[0], sizes)
    for at, (operand, term) in enumerate(zip(operands[1:], terms[1:]), 2):
        needed = {n for later in terms[at:] for n in later} | set(result)
        total = _contracted(total, _labelled(operand, term, sizes), needed)
    total = _with_all(total.summed(set(result)), result).to(result)
    return [converted(total.node, o.element())]


def _sizes(operands: Sequence[Node], terms: Sequence[Sequence[int]]) -> dict[int, Dim]:
    """What the sizes of each label's axes broadcast to."""
    found: dict[int, Dim] = {}
    for x, term in zip(operands, terms):
        for label, size in zip(term, x.dims):
            known = found.get(label, ONE)
            found[label] = known if size is ONE else size if known is ONE else dim_broadcast(known, size)
    return found


def _is_plain_product(
    operands: Sequence[Node], terms: Sequence[Sequence[int]], result: Sequence[int], sizes: dict[int, Dim]
) -> bool:
    """Two operands, no label twice in one, no axis that broadcasts, one label summed, at most one of each other."""
    if len(terms) != 2 or any(len(set(term)) < len(term) for term in terms):
        return False
    if any(d is ONE or d is not sizes[n] for x, term in zip(operands, terms) for d, n in zip(x.dims, term)):
        return False
    left, right = map(set, terms)
    summed = (left | right) - set(result)
    return len(summed) == 1 and summed <= left & right and len(left - right) <= 1 and len(right - left) == 1


def _labelled(x: Node, term: Sequence[int], sizes: dict[int, Dim]) -> Labelled:
    """One axis for each label: a diagonal where a label is repeated; axes of size 1 are dropped, they broadcast.

    An axis that may turn out to be of size 1 is broadcast here.
    """
    labels = [n for n in dict.fromkeys(term) if any(m == n and d is not ONE for m, d in zip(term, x.dims))]
    dims = tuple(sizes[n] for n in labels)
    if labels == list(term) and dims == x.dims:
        return Labelled(x, labels)
    places = [labels.index(n) if n in labels else None for n in term]
    strides = [broadcast_stride(size, sizes[n]) for n, size in zip(term, x.dims)]

    def diagonal(space: IndexSpace, index: Index) -> Index:
        return tuple(ZERO if p is None else index[p] * stride for p, stride in zip(places, strides))

    use = Use.ONCE if all(s is ONE for s in strides) else Use.MANY
    return Labelled(View(dims, x.element, x, diagonal, use), labels)


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
    onnx.EinsumOp: einsum,
}
