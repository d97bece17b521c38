"""Operators whose computation is a kernel template: `kernel.template` with resolved attributes and an epilogue.

`matmul` (inputs a, b as numpy's matmul; with `trans_a`, `trans_b` their last two axes are swapped first) and `conv`,
`conv_transpose` (inputs x, w; `pads`, `strides`, `dilations`, `group`) accumulate: what follows runs where they store.
All others have the operator's name in small letters, its attributes, and:

* `operands`, `results`: the formal positions of the inputs and results that are there;
* `operand_types`, `result_types`: their element types with signedness;
* `place`: which of the kernel's operators it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, ShapeAttr, as_dim
from ...dialects.dims.expression import ONE, ZERO, dim_max
from .casts import convert
from .element_kinds import F64, I64, Element, element_of
from .graph import Dims, Node, Template, TemplateResult, View, pointwise
from .index_space import IndexSpace
from .movement import reshaped
from .operators import Operands, Rule
from .scalars import Scalars


def integers(values: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i64, list(values))


def accumulated(name: str, inputs: Sequence[Node], config: dict[str, Attribute], dims: Dims, element: Element) -> Node:
    """The one result of a template with an epilogue."""
    template = Template(dims, element, name, tuple(inputs), config, True)
    result = TemplateResult(dims, element, template)
    template.results.append(result)
    return result


def in_compute_type(result: Node, element: Element) -> Node:
    """The template's sum before it is rounded to the op's element."""
    assert isinstance(result, TemplateResult)
    result.element = element.compute
    result.template.element = element.compute
    return result


# Products of matrices


def _is_swap(node: Node) -> Node | None:
    """The source of a transpose of the last two axes."""
    if not isinstance(node, View) or len(node.dims) < 2 or len(node.source.dims) != len(node.dims):
        return None
    names = [Dim.symbol(f"i{k}") for k in range(len(node.dims))]
    space = IndexSpace({f"i{k}": d for k, d in enumerate(node.dims)})
    swapped = (*names[:-2], names[-1], names[-2])
    return node.source if node.index_map(space, tuple(names)) == swapped else None


def matrix_product(a: Node, b: Node, trans_a: int, trans_b: int, dims: Dims, element: Element) -> Node:
    """The matmul template; transposes of the last two axes in front of it become flags."""
    if (source := _is_swap(a)) is not None:
        a, trans_a = source, 1 - trans_a
    if (source := _is_swap(b)) is not None:
        b, trans_b = source, 1 - trans_b
    config: dict[str, Attribute] = {}
    if trans_a:
        config["trans_a"] = IntegerAttr(1, i64)
    if trans_b:
        config["trans_b"] = IntegerAttr(1, i64)
    return accumulated("matmul", (a, b), config, dims, element)


def matmul(o: Operands) -> list[Node]:
    return [matrix_product(o[0], o[1], 0, 0, o.dims(), o.element())]


def gemm(o: Operands) -> list[Node]:
    """alpha * (a @ b) + beta * c, in the compute type, rounded once"""
    element = o.element()
    total = matrix_product(o[0], o[1], o.attr("transA"), o.attr("transB"), o.dims(), element)
    return [with_bias(total, o.get(2), o.attr("alpha"), o.attr("beta"), element)]


def with_bias(total: Node, bias: Node | None, alpha: float, beta: float, element: Element) -> Node:
    """alpha * total + beta * bias after the sum, rounded once; `total` as it was made by `accumulated`.

    Of integers, where a factor has a fraction, computed in f64 and truncated.
    """
    t = element.compute
    if alpha == 1.0 and bias is None:
        return total
    within = t if t.is_float or (alpha.is_integer() and beta.is_integer()) else F64

    def times(s: Scalars, v: SSAValue, factor: float) -> SSAValue:
        v = convert(s, v, t, within)
        return v if factor == 1.0 else s.mul(v, s.constant(factor, within), within)

    def function(s: Scalars, v: SSAValue, *c: SSAValue) -> SSAValue:
        v = times(s, v, alpha)
        return convert(s, s.add(v, times(s, c[0], beta), within) if c else v, within, t)

    inputs = [in_compute_type(total, element)]
    if bias is not None:
        inputs.append(bias)
    return pointwise(function, inputs, total.dims, element, 2)


# Convolution


def resolved_pads(
    auto_pad: str,
    pads: Sequence[int] | None,
    dims: Dims,
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[Dim]:
    """The pads (all begins, then all ends) that `auto_pad` or the attribute give, in the kernel's symbols."""
    rank = len(kernel)
    if auto_pad in ("", "NOTSET"):
        return [as_dim(p) for p in (pads or [0] * (2 * rank))]
    if auto_pad == "VALID":
        return [as_dim(0)] * (2 * rank)
    begins: list[Dim] = []
    ends: list[Dim] = []
    for size, k, stride, dilation in zip(dims[2:], kernel, strides, dilations):
        out = (size + (stride - 1)) // stride
        total = dim_max((out - 1) * stride + (k - 1) * dilation + 1 - size, ZERO)
        half = total // 2
        small, large = half, total - half
        begins.append(small if auto_pad == "SAME_UPPER" else large)
        ends.append(large if auto_pad == "SAME_UPPER" else small)
    return begins + ends


def window_config(o: Operands, x: Node, kernel: Sequence[Dim]) -> dict[str, Attribute]:
    """pads (expressions as a shape attribute where they are symbolic), strides, dilations of a convolution."""
    rank = len(kernel)
    strides = o.attr("strides") or [1] * rank
    dilations = o.attr("dilations") or [1] * rank
    pads = resolved_pads(o.attr("auto_pad"), o.attr("pads"), x.dims, kernel, strides, dilations)
    constant = all(p.is_const for p in pads)
    return {
        "pads": integers([p.value for p in pads]) if constant else ShapeAttr(tuple(pads)),
        "strides": integers(strides),
        "dilations": integers(dilations),
    }


def conv(o: Operands) -> list[Node]:
    x, w, element = o[0], o[1], o.element()
    config = window_config(o, x, w.dims[2:])
    config["group"] = IntegerAttr(o.attr("group"), i64)
    total = accumulated("conv", (x, w), config, o.dims(), element)
    return [with_bias(total, channel_bias(o.get(2), len(x.dims)), 1.0, 1.0, element)]


def channel_bias(bias: Node | None, rank: int) -> Node | None:
    """A bias by channel, along axis 1."""
    return None if bias is None else reshaped(bias, (bias.dims[0], *([ONE] * (rank - 2))))


def conv_transpose(o: Operands) -> list[Node]:
    """Pads are resolved as the standard says: from output_shape or auto_pad where given."""
    x, w, element = o[0], o[1], o.element()
    rank = len(w.dims) - 2
    strides = o.attr("strides") or [1] * rank
    dilations = o.attr("dilations") or [1] * rank
    extra = o.attr("output_padding") or [0] * rank
    pads = _transposed_pads(o, x, w, strides, dilations, extra)
    config: dict[str, Attribute] = {
        "pads": pads,
        "strides": integers(strides),
        "dilations": integers(dilations),
        "output_padding": integers(extra),
        "group": IntegerAttr(o.attr("group"), i64),
    }
    total = accumulated("conv_transpose", (x, w), config, o.dims(), element)
    return [with_bias(total, channel_bias(o.get(2), len(x.dims)), 1.0, 1.0, element)]


def _transposed_pads(
    o: Operands, x: Node, w: Node, strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> Attribute:
    rank = len(strides)
    auto_pad, wanted = o.attr("auto_pad"), o.attr("output_shape")
    if not wanted and auto_pad in ("", "NOTSET", "VALID"):
        return integers(o.attr("pads") if o.attr("pads") and auto_pad != "VALID" else [0] * (2 * rank))
    begins: list[Dim] = []
    ends: list[Dim] = []
    for k in range(rank):
        full = (x.dims[2 + k] - 1) * strides[k] + extra[k] + (w.dims[2 + k] - 1) * dilations[k] + 1
        total = dim_max(full - o.dims()[2 + k], ZERO)
        half = total // 2
        upper = auto_pad == "SAME_UPPER"
        begins.append(half if upper else total - half)
        ends.append(total - half if upper else half)
    pads = begins + ends
    return integers([p.value for p in pads]) if all(p.is_const for p in pads) else ShapeAttr(tuple(pads))


# All others

FOUND = "kernel.found"
"""On an op that finds the size of its results: how many sizes. Its last node, behind the operator's own, has them."""


def template(o: Operands) -> list[Node | None]:
    """The operator as a template of its own name, with its attributes."""
    op = o.op
    operands = op.formal_operands()
    present = [k for k, v in enumerate(operands) if v is not None]
    results = [(k, r) for k, r in enumerate(op.formal_results()) if r is not None]
    config: dict[str, Attribute] = {
        name: value for name, value in op.properties.items() if not name.endswith("SegmentSizes")
    }
    if onnx.EMPTY_ROWS in op.attributes:
        config["empty_rows"] = op.attributes[onnx.EMPTY_ROWS]
    if onnx.SHARED_KEY in op.attributes:
        config["shared_key"] = IntegerAttr(1, i64)
    config["place"] = IntegerAttr(o.place, i64)
    config["operands"] = integers(present)
    config["results"] = integers([k for k, _ in results])
    config["operand_types"] = ArrayAttr([_element_type(operands[k]) for k in present])
    config["result_types"] = ArrayAttr([_element_type(r) for _, r in results])
    assert isinstance(op, onnx.OnnxOp)
    name = op.SCHEMA.op_type.lower()
    first = results[0][0]
    with_epilogue = type(op) in WITH_EPILOGUE
    node = Template(o.dims(first), o.element(first), name, tuple(o[k] for k in present), config, with_epilogue)
    nodes: list[Node | None] = [None] * (results[-1][0] + 1)
    for k, result in results:
        assert isinstance(result.type, TensorType)
        value = TemplateResult(o.dims(k), element_of(result.type.element_type), node)
        node.results.append(value)
        nodes[k] = value
    if isinstance(count := op.attributes.get(FOUND), IntegerAttr):
        # one more result, behind all that the operator can have: the sizes that it finds
        last = len(op.SCHEMA.outputs)
        config["results"] = integers([*(k for k, _ in results), last])
        config["result_types"] = ArrayAttr([*(_element_type(r) for _, r in results), i64])
        node.results.append(TemplateResult((as_dim(count.value.data),), I64, node))
        nodes += [*[None] * (last - len(nodes)), node.results[-1]]
    return nodes


WITH_EPILOGUE: frozenset[type[onnx.OnnxOp]] = frozenset(
    (onnx.ConvIntegerOp, onnx.MatMulIntegerOp, onnx.QLinearConvOp, onnx.QLinearMatMulOp)
)
"""Operators of their own name whose one result goes through an epilogue."""


def _element_type(value: SSAValue | None) -> Attribute:
    assert value is not None and isinstance(value.type, TensorType)
    return value.type.element_type


TEMPLATES: dict[type[onnx.OnnxOp], Rule] = {
    onnx.ConvOp: conv,
    onnx.ConvTransposeOp: conv_transpose,
    onnx.GemmOp: gemm,
    onnx.MatMulOp: matmul,
    **dict.fromkeys(
        (
            onnx.AttentionOp, onnx.CompressOp, onnx.ConvIntegerOp, onnx.CumProdOp, onnx.CumSumOp, onnx.DetOp,
            onnx.GRUOp, onnx.LSTMOp, onnx.MatMulIntegerOp, onnx.MlTreeEnsembleClassifierOp, onnx.MlTreeEnsembleOp,
            onnx.MlTreeEnsembleRegressorOp, onnx.NonMaxSuppressionOp, onnx.NonZeroOp, onnx.QLinearConvOp,
            onnx.QLinearMatMulOp, onnx.RNNOp, onnx.ScatterElementsOp, onnx.ScatterNDOp, onnx.TopKOp, onnx.UniqueOp,
            onnx.LinearAttentionOp, onnx.DFTOp, onnx.STFTOp, onnx.MaxRoiPoolOp, onnx.MaxUnpoolOp,
        ),
        template,
    ),
}  # fmt: skip
