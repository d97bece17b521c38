"""Sizes that an operator would find from numbers given at run time are computed before it, so that it need not.

Range(start, limit, delta) binds u0   ->   n = Max(Ceil((limit - start) / delta), 0); dims.bind n ["u0"]; Range
OneHot(indices, depth, values) binds u0   ->   dims.bind depth ["u0"]; OneHot
Reshape(x, shape) binds u0, u1   ->   the sizes that the shape's entries stand for are bound; Reshape
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16, f32, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, ShapeAttr, as_dim, dims_of, tensor_type
from ..dialects.dims.interval import SIZE_LIMIT
from ..semantics.weights import WeightStore
from .constants import make_constant
from .driver import Firing, origins_of
from .found_sizes import bound_by_execution
from .simplify.redundancy import functions_of


def compute_sizes(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Binds the sizes in front of the operators that are listed in `RULES`."""
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            rule, symbols = RULES.get(type(op)), bound_by_execution(op)
            if rule is None or not symbols:
                continue
            assert isinstance(op, onnx.OnnxOp)
            insert(op, dims.BindOp(rule(op, symbols, weights), symbols, *(least_and_most(len(symbols)))))
            if isinstance(op, onnx.ReshapeOp):
                condition = f"{elements(op.operands[0])} == {elements(op.results[0])}"
                insert(op, dims.AssumeOp(condition, "Reshape keeps the number of elements"))
            del op.attributes["dims.binds"]
            fired.append(Firing("ComputeSize", op.name, origins_of(op)))
    return fired


def least_and_most(count: int) -> tuple[ShapeAttr, ShapeAttr]:
    """The ranges of sizes."""
    return ShapeAttr((as_dim(0),) * count), ShapeAttr((as_dim(SIZE_LIMIT - 1),) * count)


def elements(tensor: SSAValue) -> Dim:
    """The number of a tensor's elements."""
    total = as_dim(1)
    for size in dims_of(tensor):
        total = total * size
    return total


def insert(op: onnx.OnnxOp, new: Operation) -> Operation:
    """Puts a new op in front of another, whose origin it takes."""
    block = op.parent
    assert block is not None
    if "origin" in op.attributes:
        new.attributes["origin"] = op.attributes["origin"]
    block.insert_op_before(new, op)
    return new


def value(op: onnx.OnnxOp, index: int) -> SSAValue:
    found = op.operand_at(index)
    assert found is not None
    return found


def depth(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """OneHot's number of classes, of any type."""
    return value(op, 1)


def length(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """The number of a Range's elements, a float; of halves computed in f32."""
    start, limit, delta = (as_single(op, value(op, i)) for i in range(3))
    type_ = start.type
    assert isinstance(type_, TensorType)
    dtype = onnx.numpy_dtype(type_.element_type)
    zero = insert(op, make_constant(np.zeros([d.value for d in dims_of(start)], dtype), type_, weights)).results[0]
    result = apply(op, onnx.SubOp, [limit, start], type_)
    for cls, operands in ((onnx.DivOp, [delta]), (onnx.CeilOp, []), (onnx.MaxOp, [zero])):
        result = apply(op, cls, [result, *operands], type_)
    return result


def apply(op: onnx.OnnxOp, cls: type[onnx.OnnxOp], operands: list[SSAValue], type_: Attribute) -> SSAValue:
    return insert(op, cls.make(operands, {}, [type_])).results[0]


def as_single(op: onnx.OnnxOp, number: SSAValue) -> SSAValue:
    """A half as f32."""
    type_ = number.type
    assert isinstance(type_, TensorType)
    if type_.element_type not in (f16, bf16):
        return number
    wide = tensor_type(f32, dims_of(number))
    return insert(op, onnx.CastOp.make([number], {"to": onnx.ELEMENT_CODES[f32]}, [wide])).results[0]


def entries(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """The sizes that a Reshape's entries stand for, of the axes that have these symbols: 0 copies, -1 is the rest."""
    given, source, target = value(op, 1), op.operands[0], dims_of(op.results[0])
    vector, flags = tensor_type(i64, [len(target)]), tensor_type(i1, [len(target)])
    one = tensor_type(i64, [1])

    def number(n: int) -> SSAValue:
        return insert(op, make_constant(np.array([n], np.int64), one, weights)).results[0]

    def is_equal(x: SSAValue, n: int) -> SSAValue:
        return apply(op, onnx.EqualOp, [x, number(n)], flags)

    if not onnx.attr(op, "allowzero"):
        sizes = [*dims_of(source), *[as_dim(0)] * len(target)][: len(target)]
        own = insert(op, dims.TensorOp(sizes, vector)).results[0]
        given = apply(op, onnx.WhereOp, [is_equal(given, 0), own, given], vector)
    missing = is_equal(given, -1)
    known = apply(op, onnx.WhereOp, [missing, number(1), given], vector)
    product = apply(op, onnx.MaxOp, [apply(op, onnx.ReduceProdOp, [known], one), number(1)], one)
    total = insert(op, dims.TensorOp([elements(source)], one)).results[0]
    rest = apply(op, onnx.DivOp, [total, product], one)
    every = apply(op, onnx.WhereOp, [missing, rest, known], vector)
    axes = np.array([[str(d) for d in target].index(s) for s in symbols], np.int64)
    picked = tensor_type(i64, [len(axes)])
    return apply(op, onnx.GatherOp, [every, insert(op, make_constant(axes, picked, weights)).results[0]], picked)


RULES: dict[type[Operation], Callable[[onnx.OnnxOp, Sequence[str], WeightStore], SSAValue]] = {
    onnx.OneHotOp: depth,
    onnx.RangeOp: length,
    onnx.ReshapeOp: entries,
}
"""The tensor that has the sizes for these symbols, by operator."""
