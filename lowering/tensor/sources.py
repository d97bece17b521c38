"""Operators that make tensors from sizes and scalars."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims.expression import ZERO
from ...dialects.onnx import ELEMENT_TYPES
from .body import Body
from .casts import convert, converted
from .element_kinds import BOOL, I64, element_of
from .graph import Computed, Literal, Node, Sizes, Use
from .index_space import Index, product
from .movement import expanded
from .operators import Operands, Rule
from .scalars import INDEX


def constant_of_shape(o: Operands) -> list[Node]:
    value = o.attr("value")
    array = np.zeros((), np.float32) if value is None else np.asarray(value).reshape(())
    return [expanded(Literal((), o.element(), array), o.dims())]


def range_(o: Operands) -> list[Node]:
    """start + i * delta; of 16-bit floats in the precision `stash_type`"""
    start, delta, element = o[0], o[2], o.element()
    t = element if element.compute is element else element_of(ELEMENT_TYPES[o.attr("stash_type")])
    if t.compute is not t:
        raise o.refuse("a stash_type of 16 bits")
    first, step = converted(start, t), converted(delta, t)

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        at = convert(s, s.convert("index_cast", body.index(index[0]), I64), I64, t)
        origin, stride = (body.read(n, tuple(ZERO for _ in n.dims)) for n in (first, step))
        return s.add(origin, s.mul(at, stride, t), t)

    exact = Computed(o.dims(), t, ((first, Use.MANY), (step, Use.MANY)), formula, cost=4)
    return [converted(exact, element)]


def eye_like(o: Operands) -> list[Node]:
    """1 on a diagonal"""
    offset, element = o.attr("k"), o.element()

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        distance = s.sub(body.index(index[1]), body.index(index[0]), I64)
        return s.compare("eq", distance, s.constant(offset, INDEX), I64)

    return [converted(Computed(o.dims(), BOOL, (), formula, cost=3), element)]


def shape(o: Operands) -> list[Node]:
    """The sizes of the operand's axes from `start` to `end`, clamped."""
    dims = o[0].dims
    start, end = o.attr("start"), o.attr("end")
    chosen = dims[slice(start, end)]
    return [Sizes(o.dims(), I64, tuple(chosen))]


def size(o: Operands) -> list[Node]:
    return [Sizes((), I64, (product(o[0].dims),))]


SOURCES: dict[type[onnx.OnnxOp], Rule] = {
    onnx.ConstantOfShapeOp: constant_of_shape,
    onnx.EyeLikeOp: eye_like,
    onnx.RangeOp: range_,
    onnx.ShapeOp: shape,
    onnx.SizeOp: size,
}
