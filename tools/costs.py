"""What a kernel call has to do at least: bytes of its operands and results, and floating-point operations.

Both are expressions in the model's symbols.  Operands count whole, also where a kernel reads a part of one.  Products
count two operations for each multiplication and addition, in their direct form (Winograd's does fewer); other operators
count one for each element that they compute, or that they reduce, whatever an element costs them; moving data counts
none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import kernel, onnx
from ..dialects.dims import Dim, as_dim, dims_of
from ..semantics.kinds import KIND, Kind


def elements(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a tensor with these dims."""
    total = as_dim(1)
    for dim in dims:
        total = total * dim
    return total


def bytes_of(type_: Attribute) -> Dim:
    """The bytes of a tensor that has elements of a fixed width, else 0."""
    if not isinstance(type_, TensorType):
        return as_dim(0)
    element = type_.element_type
    width = (element.bitwidth + 7) // 8 if isinstance(element, FixedBitwidthType) else 1
    return elements(dims_of(type_)) * width


def _shape(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(value) if isinstance(value.type, TensorType) else ()


def _product(op: Operation) -> Dim:
    """MatMul and its like: the last axis of the first operand is summed."""
    return elements(_shape(op.results[0])) * _shape(op.operands[0])[-1] * 2


def _gemm(op: Operation) -> Dim:
    depth = _shape(op.operands[0])[0 if onnx.attr(op, "transA") else 1]
    return elements(_shape(op.results[0])) * depth * 2


def _convolution(op: Operation) -> Dim:
    """The channels of a group by the window, for each element of the result."""
    x, w = _shape(op.operands[0]), _shape(op.operands[1])
    window = onnx.attr(op, "kernel_shape") or w[2:]
    return elements(_shape(op.results[0])) * (x[1] // (onnx.attr(op, "group") or 1)) * elements(map(as_dim, window)) * 2


def _transposed(op: Operation) -> Dim:
    """Each element of the operand goes to a window of each channel of the group."""
    x, y = _shape(op.operands[0]), _shape(op.results[0])
    window = onnx.attr(op, "kernel_shape") or _shape(op.operands[1])[2:]
    return elements(x) * (y[1] // (onnx.attr(op, "group") or 1)) * elements(map(as_dim, window)) * 2


def _recurrent(gates: int) -> Callable[[Operation], Dim]:
    def count(op: Operation) -> Dim:
        x, hidden = _shape(op.operands[0]), as_dim(onnx.attr(op, "hidden_size"))
        directions = 2 if onnx.attr(op, "direction") == "bidirectional" else 1
        return x[0] * x[1] * hidden * (x[2] + hidden) * (2 * gates * directions)

    return count


def _attention(op: Operation) -> Dim:
    """Both products, over all keys."""
    q, k, v = (_shape(o) for o in op.operands[:3])
    if len(q) == 4:
        return q[0] * q[1] * q[2] * k[2] * (q[3] + v[3]) * 2
    heads = onnx.attr(op, "kv_num_heads")
    width = v[2] // heads * onnx.attr(op, "q_num_heads")
    return q[0] * q[1] * k[1] * (q[2] + width) * 2


COUNTED: Mapping[type[Operation], Callable[[Operation], Dim]] = {
    onnx.MatMulOp: _product,
    onnx.MatMulIntegerOp: _product,
    onnx.QLinearMatMulOp: _product,
    onnx.GemmOp: _gemm,
    onnx.ConvOp: _convolution,
    onnx.ConvIntegerOp: _convolution,
    onnx.ConvTransposeOp: _transposed,
    onnx.LSTMOp: _recurrent(4),
    onnx.GRUOp: _recurrent(3),
    onnx.RNNOp: _recurrent(1),
    onnx.AttentionOp: _attention,
}


def operations_of(op: Operation) -> Dim:
    """The operations of one onnx op."""
    kind = KIND.get(type(op))
    if kind in (None, Kind.MOVEMENT, Kind.SOURCE) or not op.results:
        return as_dim(0)
    if (count := COUNTED.get(type(op))) is not None:
        return count(op)
    return elements(_shape(op.operands[0] if kind is Kind.REDUCTION else op.results[0]))


def costs_of(module: ModuleOp, call: kernel.CallOp) -> dict[str, str]:
    """`bytes` and `operations` of a call, as expressions in the symbols of `main`."""
    name = call.callee.string_value()
    function = next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == name)
    own = {f"d{k}": dim for k, dim in enumerate(call.dims.data)}
    total = as_dim(0)
    for op in function.body.block.ops:
        total = total + operations_of(op)
    moved = as_dim(0)
    for value in (*call.inputs, *call.outputs):
        moved = moved + bytes_of(value.type)
    return {"bytes": str(moved), "operations": str(total.subs(own))}
