"""Operators whose indices are data: gathers, one-hot. Every index is checked, and made safe for what runs meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from ...dialects import kernel, onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ZERO
from .body import Body
from .element_kinds import I64, U64, Element
from .graph import Computed, Literal, Node, Use
from .index_space import Index
from .operators import Operands, Rule, axis_of
from .scalars import INDEX


def out_of_range(o: Operands, indices: int, axis: str, *, signed: bool = True) -> str:
    """The message for an index that is not there: values are the index and the axis' size."""
    told = o.op.attributes.get(onnx.PROBLEM)
    if isinstance(told, StringAttr):
        return kernel.about(o.place, told.data)
    return o.problem(kernel.within(f"'{o.name_of(indices)}'", axis, signed=signed))


def checked_index(body: Body, value: SSAValue, element: Element, size: Dim, message: str) -> Dim:
    """An index from data as an index expression: negative ones count from the end, others outside are an error."""
    s = body.scalars
    at, limit = body.index_of(value, element), body.index(size)
    if element.kind != "u":
        negative = s.compare("lt", at, s.constant(0, INDEX), I64)
        at = s.select(negative, s.add(at, limit, I64), at)
    inside = s.compare("lt", at, limit, U64)
    told = [body.index_of(value, element), limit] if "{0}" in message else []
    s.check(inside, "index", message, told)
    return body.variable(s.select(inside, at, s.constant(0, INDEX)), size)


def index_from(body: Body, indices: Node, index: Index, size: Dim, message: str) -> Dim:
    """The index expression that an element of `indices` gives; constants inside the range are not checked."""
    node, at = body.resolve(indices, index)
    if isinstance(node, Literal) and size.is_const:
        array = node.array.astype(np.int64)
        if ((array >= -size.value) & (array < size.value)).all():
            array = np.where(array < 0, array + size.value, array)
            if all(a.is_const for a in at):
                return as_dim(int(array[tuple(a.value for a in at)]))
            safe = Literal(node.dims, I64, array)
            return body.variable(body.index_of(body.read(safe, at), I64), size)
    return checked_index(body, body.read(indices, index), indices.element, size, message)


def guarded_read(body: Body, data: Node, index: Index, sizes: Sequence[Dim]) -> SSAValue:
    """A read that is skipped where one of these sizes, which may be 0, leaves no element to stand in."""
    s = body.scalars
    conditions = [
        s.compare("gt", body.index(size), s.constant(0, INDEX), I64)
        for size in sizes
        if not body.space.is_negative_free(size - 1)
    ]
    element = data.element

    def nothing() -> SSAValue:
        return s.narrow(s.constant(0, element.compute), element)

    return body.guarded(conditions, lambda: body.read(data, index), nothing)


def gathered(data: Node, indices: Node, axis: int, message: str) -> Node:
    """data[..., indices, ...] along an axis; `message` is for an index that is not there."""
    rank, size = len(indices.dims), data.dims[axis]
    dims = (*data.dims[:axis], *indices.dims, *data.dims[axis + 1 :])

    def formula(body: Body, index: Index) -> SSAValue:
        at = index_from(body, indices, index[axis : axis + rank], size, message)
        return guarded_read(body, data, (*index[:axis], at, *index[axis + rank :]), [size])

    return Computed(dims, data.element, ((data, Use.MANY), (indices, Use.MANY)), formula, cost=6)


def gather(o: Operands) -> list[Node]:
    data = o[0]
    axis = axis_of(o.attr("axis"), len(data.dims))
    return [gathered(data, o[1], axis, out_of_range(o, 1, f"axis {axis} of 'data'"))]


def gather_elements(o: Operands) -> list[Node]:
    """out[i][j] = data[indices[i][j]][j] along axis 0, and so on"""
    data, indices = o[0], o[1]
    axis = axis_of(o.attr("axis"), len(data.dims))
    size, message = data.dims[axis], out_of_range(o, 1, f"axis {axis} of 'data'")

    def formula(body: Body, index: Index) -> SSAValue:
        at = index_from(body, indices, index, size, message)
        return guarded_read(body, data, (*index[:axis], at, *index[axis + 1 :]), [size])

    return [Computed(o.dims(), data.element, ((data, Use.MANY), (indices, Use.ALIGNED)), formula, cost=6)]


def gather_nd(o: Operands) -> list[Node]:
    """Slices of data at index tuples, which are the last axis of `indices`"""
    data, indices, batch = o[0], o[1], o.attr("batch_dims")
    count = indices.dims[-1]
    if not count.is_const:
        raise o.refuse("the number of indices is known at run time only")
    lead = len(indices.dims) - 1
    sizes = data.dims[batch : batch + count.value]
    messages = [out_of_range(o, 1, f"axis {batch + k} of 'data'") for k in range(len(sizes))]

    def formula(body: Body, index: Index) -> SSAValue:
        tuples = [
            index_from(body, indices, (*index[:lead], ZERO + k), size, message)
            for k, (size, message) in enumerate(zip(sizes, messages))
        ]
        return guarded_read(body, data, (*index[:batch], *tuples, *index[lead:]), sizes)

    return [Computed(o.dims(), data.element, ((data, Use.MANY), (indices, Use.MANY)), formula, cost=8)]


def one_hot(o: Operands) -> list[Node]:
    """The second of `values` where an index is the place along the axis, else the first; outside, nowhere."""
    indices, depth, values = o[0], o[1], o[2]
    axis = axis_of(o.attr("axis"), len(indices.dims) + 1)
    dims = o.dims()
    del depth  # the result's size along the axis
    t = indices.element

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        raw = body.wide(indices, (*index[:axis], *index[axis + 1 :]))
        if t.is_float:
            raw = s.convert("fptosi", raw, I64)
            at = s.convert("index_cast", raw, INDEX)
        else:
            at = body.index_of(raw, t)
        negative = s.compare("lt", at, s.constant(0, INDEX), I64)
        at = s.select(negative, s.add(at, body.index(dims[axis]), I64), at)
        here = s.compare("eq", at, body.index(index[axis]), I64)
        off, on = (body.wide(values, (ZERO + k,)) for k in (0, 1))
        return s.narrow(s.select(here, on, off), values.element)

    return [Computed(dims, values.element, ((indices, Use.MANY), (values, Use.MANY)), formula, cost=4)]


def tensor_scatter(o: Operands) -> list[Node]:
    """A cache with `update` written from each sample's index on: read from where an element was written last."""
    past, update, first = o[0], o[1], o.get(2)
    axis, circular = axis_of(o.attr("axis"), len(past.dims)), o.attr("mode") == "circular"
    extent, count = past.dims[axis], update.dims[axis]
    too_far = o.problem(
        f"'write_indices' has the index {{0}}: from there on, axis {axis} of 'past_cache' (size {{1}}) has no room for"
        " the update (size {2})"
    )

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        start = s.constant(0, INDEX)
        if first is not None:
            start = body.index_of(body.read(first, index[:1]), first.element)
        if not circular:
            zero, last = s.constant(0, INDEX), body.index(extent - count)
            valid = s.both(s.compare("ge", start, zero, I64), s.compare("le", start, last, I64))
            s.check(valid, "index", too_far, [start, body.index(extent), body.index(count)])
        distance = s.sub(body.index(index[axis]), start, I64)
        if circular:
            distance = body.wrapped(distance, extent)
        written = s.compare("lt", distance, body.index(count), U64)
        place = body.variable(distance, count)
        return body.branch(
            written,
            lambda: body.read(update, (*index[:axis], place, *index[axis + 1 :])),
            lambda: body.read(past, index),
        )

    sources = [(past, Use.ALIGNED), (update, Use.ONCE)]
    if first is not None:
        sources.append((first, Use.MANY))
    return [Computed(o.dims(), past.element, tuple(sources), formula, cost=5)]


GATHERS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.GatherElementsOp: gather_elements,
    onnx.GatherNDOp: gather_nd,
    onnx.GatherOp: gather,
    onnx.OneHotOp: one_hot,
    onnx.TensorScatterOp: tensor_scatter,
}
