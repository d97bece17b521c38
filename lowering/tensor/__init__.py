"""Kernels of onnx ops -> the tensor level: `linalg.generic` on tensors and `kernel.template`.

A kernel's ops become lazy tensors (`graph`, by the rules of the op tables), a plan says which of them exist in memory
and which share a loop nest (`plan`), and each group is built as one op with everything else inlined (`emit`, `body`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import dims, kernel, onnx
from ...dialects.dims import ShapeAttr, dims_of
from ...dialects.kernel import operators_of
from ...semantics.known import constant_value
from ..choices import SCHEDULE
from ..fast_math import FAST_MATH, use_fast_math
from ..kernels.precision import PRECISION, use_precision
from ..quotients import use_exact_products
from .arithmetic import ARITHMETIC
from .casts import CASTS
from .custom import CUSTOM, attach_bodies
from .element_kinds import BITS, NotLowered, element_of_value
from .elementary import ELEMENTARY
from .emit import Emitter, TooManyIndices, emit_function, tensor_of
from .gathers import GATHERS
from .graph import Leaf, Literal, Node, Sizes
from .images import IMAGES
from .learning import LEARNING
from .losses import LOSSES
from .movement import MOVEMENT, expanded
from .operators import Operands, Rule
from .optimizers import OPTIMIZERS
from .plan import Plan
from .products import PRODUCTS
from .randomness import RANDOMNESS
from .reductions import REDUCTIONS
from .resize import RESIZE
from .rotary import ROTARY
from .signal import SIGNAL
from .sources import SOURCES
from .templates import FOUND, TEMPLATES
from .windows import WINDOWS

RULES: dict[type[onnx.OnnxOp | onnx.CustomOp], Rule] = {
    **ARITHMETIC,
    **CASTS,
    **CUSTOM,
    **ELEMENTARY,
    **GATHERS,
    **IMAGES,
    **LEARNING,
    **LOSSES,
    **MOVEMENT,
    **OPTIMIZERS,
    **PRODUCTS,
    **RANDOMNESS,
    **REDUCTIONS,
    **RESIZE,
    **ROTARY,
    **SIGNAL,
    **SOURCES,
    **TEMPLATES,
    **WINDOWS,
}
"""How each operator becomes lazy tensors."""


def lower_to_tensor(kernel: func.FuncOp) -> func.FuncOp:
    """The tensor-level form of a kernel function that holds onnx ops; the kernel itself stays as it is.

    The result has the same name, dims arguments and tensors, with types without encodings and signless elements; the
    attribute `kernel.arg_dims` has the dims of each tensor argument.  Raises NotLowered (a NotImplementedError) for an
    op, or a form of one, that has no lowering.
    """
    reader = Reader(kernel)
    extra: list[Node] = []
    while True:
        try:
            return _build(kernel, reader, extra)
        except TooManyIndices as found:
            if found.node in extra:
                raise NotLowered(f"{kernel.sym_name.data}: a value at too many indices") from None
            extra.append(found.node)


class Reader:
    """The lazy tensors of a kernel's values."""

    def __init__(self, kernel: func.FuncOp) -> None:
        self._nodes: dict[SSAValue, Node] = {}
        self._marked: set[Node] = set()
        self.arguments: list[Leaf | None] = []
        for argument in kernel.body.block.args:
            leaf = None
            if isinstance(argument.type, TensorType):
                leaf = Leaf(dims_of(argument), element_of_value(argument), argument)
                self._nodes[argument] = leaf
                self._marked.add(leaf)
            self.arguments.append(leaf)
        self.results: list[Node] = []
        self._found: list[Node] = []
        self._places = {op: place for place, op in enumerate(operators_of(kernel.body.block))}
        for op in kernel.body.block.ops:
            if isinstance(op, func.ReturnOp):
                self.results = [*(self.node(v) for v in op.operands), *self._found]
            else:
                self._read(op)

    def node(self, value: SSAValue) -> Node:
        return self._nodes[value]

    def _read(self, op: Operation) -> None:
        if isinstance(op, dims.TensorOp):
            self._nodes[op.result] = Sizes(dims_of(op.result), element_of_value(op.result), op.exprs.data)
        elif isinstance(op, kernel.FillOp):
            literal = Literal((), element_of_value(op.result), onnx.dense_array(op.value))
            self._nodes[op.result] = expanded(literal, dims_of(op.result))
        elif isinstance(op, onnx.ConstantOp | onnx.InitializerOp):
            self._read_constant(op)
        elif isinstance(op, onnx.OnnxOp | onnx.CustomOp) and (rule := RULES.get(type(op))) is not None:
            nodes = rule(Operands(op, self.node, self._places[op]))
            self._mark([n for n in nodes if n is not None], onnx.origin_of(op))
            if FOUND in op.attributes:
                *nodes, found = nodes
                assert found is not None
                self._found.append(found)
            for at, node in enumerate(nodes):
                if node is not None and (result := op.result_at(at)) is not None:
                    self._nodes[result] = node
                    node.hint = node.hint or result.name_hint
        else:
            raise NotLowered(f"{onnx.describe(op)} has no tensor-level lowering")

    def _mark(self, nodes: Sequence[Node], origin: tuple[int, ...]) -> None:
        """Gives the op's origin to the nodes that its rule made: those that were not there before."""
        stack = [n for n in nodes if n not in self._marked]
        while stack:
            node = stack.pop()
            if node not in self._marked:
                self._marked.add(node)
                node.origin = origin
                stack.extend(source for source, _ in node.reads() if source not in self._marked)

    def _read_constant(self, op: Operation) -> None:
        [result] = op.results
        array = constant_value(result)
        if array is None:
            raise NotLowered(f"{onnx.describe(op)}: a constant of a kernel must be small")
        element = element_of_value(result)
        if element.kind == "c":
            array = np.ascontiguousarray(array).view(BITS[element])
        self._nodes[result] = Literal(dims_of(result), element, array)


def is_lowered(op: Operation) -> bool:
    """Whether the op's class has a lowering, in some form."""
    return type(op) in RULES


def _build(kernel: func.FuncOp, reader: Reader, extra: Sequence[Node]) -> func.FuncOp:
    types: list[Attribute] = []
    for argument, leaf in zip(kernel.body.block.args, reader.arguments):
        types.append(argument.type if leaf is None else tensor_of(leaf.element.ir, leaf.dims))
    block = Block(arg_types=types)
    leaves: list[Leaf] = []
    for value, argument, leaf in zip(block.args, kernel.body.block.args, reader.arguments):
        value.name_hint = argument.name_hint
        if leaf is not None:
            leaf.value = value
            leaves.append(leaf)
    origin = onnx.origin_union(kernel.body.block.ops)
    emitter = Emitter(block, origin=origin if len(origin) else None)
    result = emit_function(kernel.sym_name.data, types, Plan(reader.results, extra), emitter)
    result.attributes["kernel.arg_dims"] = ArrayAttr([ShapeAttr(leaf.dims) for leaf in leaves])
    if (given := kernel.attributes.get(SCHEDULE)) is not None:
        result.attributes[SCHEDULE] = given
    use_exact_products(result.body.block)
    if FAST_MATH in kernel.attributes:
        result.attributes[FAST_MATH] = kernel.attributes[FAST_MATH]
        use_fast_math(result.body.block)
    if isinstance(mode := kernel.attributes.get(PRECISION), StringAttr):
        result.attributes[PRECISION] = mode
        use_precision(result.body.block, mode.data)
    return result


__all__ = ["RULES", "NotLowered", "attach_bodies", "is_lowered", "lower_to_tensor"]
