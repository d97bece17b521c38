"""Sizes that an operator would find from numbers given at run time are computed before it, so that it need not.

Range(start, limit, delta) binds u0   ->   n = Max(Ceil((limit - start) / delta), 0); dims.bind n ["u0"]; Range
OneHot(indices, depth, values) binds u0   ->   dims.bind depth ["u0"]; OneHot
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import ShapeAttr, as_dim, dims_of, tensor_type
from ..dialects.dims.interval import SIZE_LIMIT
from ..semantics.weights import WeightStore
from .constants import make_constant
from .driver import Firing, origins_of
from .found_sizes import bound_by_execution
from .simplify.redundancy import functions_of

LOWEST, HIGHEST = (ShapeAttr((as_dim(n),)) for n in (0, SIZE_LIMIT - 1))


def compute_sizes(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Binds the sizes in front of the operators that are listed in `SIZE`."""
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            rule, symbols = SIZE.get(type(op)), bound_by_execution(op)
            if rule is None or len(symbols) != 1:
                continue
            assert isinstance(op, onnx.OnnxOp)
            insert(op, dims.BindOp(rule(op, weights), symbols, LOWEST, HIGHEST))
            del op.attributes["dims.binds"]
            fired.append(Firing("ComputeSize", op.name, origins_of(op)))
    return fired


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


def depth(op: onnx.OnnxOp, weights: WeightStore) -> SSAValue:
    """OneHot's number of classes, of any type."""
    return value(op, 1)


def length(op: onnx.OnnxOp, weights: WeightStore) -> SSAValue:
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


SIZE: dict[type[Operation], Callable[[onnx.OnnxOp, WeightStore], SSAValue]] = {
    onnx.OneHotOp: depth,
    onnx.RangeOp: length,
}
"""The value that the one size is, by operator."""
