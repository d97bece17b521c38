"""Half-precision islands computed in f32, rounded where they end: fewer roundings, and fewer conversions."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of, tensor_type
from ...semantics.kinds import MOVEMENT, POINTWISE, REDUCTION
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of, make_constant
from ..driver import ORIGIN, Firing, origins_of
from .redundancy import functions_of

HALVES = (f16,)
"""Not bf16: what a rounding to 8 bits takes is more than anybody calls rounding, so leaving one out changes results
(and the standard's tests hold each step of a function body to it)."""

KEPT: frozenset[type[Operation]] = frozenset(
    (onnx.CastOp, onnx.CastLikeOp, onnx.QuantizeLinearOp, onnx.DequantizeLinearOp, onnx.DynamicQuantizeLinearOp)
)
"""What converts on the model's own word: it rounds where the model says so."""

STEPS: frozenset[type[Operation]] = frozenset((
    onnx.EqualOp, onnx.GreaterOp, onnx.GreaterOrEqualOp, onnx.LessOp, onnx.LessOrEqualOp, onnx.IsInfOp, onnx.IsNaNOp,
    onnx.FloorOp, onnx.CeilOp, onnx.RoundOp, onnx.SignOp, onnx.ModOp, onnx.ShrinkOp, onnx.ThresholdedReluOp,
    onnx.ArgMaxOp, onnx.ArgMinOp, onnx.HardmaxOp, onnx.MaxPoolOp, onnx.BernoulliOp, onnx.BitCastOp, onnx.OneHotOp,
))  # fmt: skip
"""What jumps: a rounding left out in front would be no small difference behind.  They read what is rounded."""

WIDENED: frozenset[type[Operation]] = (
    (
        frozenset((*POINTWISE, *MOVEMENT, *REDUCTION, onnx.MatMulOp, onnx.GemmOp, onnx.ConvOp, onnx.ConvTransposeOp))
        | frozenset((onnx.MaxPoolOp, onnx.AveragePoolOp))
    )
    - KEPT
    - STEPS
)
"""Operators whose float operands and results may all be f32 instead."""


def widen_half(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Op(x: f16) -> y: f16   ->   Cast(Op(Cast(x)))), with f32 handed on directly between two such ops.

    An operator alone computes the same as before: in f32, rounded once.  Between two of them a rounding is left out,
    but not in front of a comparison, or another operator that jumps.
    """
    fired: list[Firing] = []
    wide: dict[SSAValue, SSAValue] = {}
    for function in functions_of(module):
        for op in list(function.walk()):
            if isinstance(op, onnx.OnnxOp) and type(op) in WIDENED and not op.regions and is_half(op):
                widen(op, wide, weights)
                fired.append(Firing("WidenHalf", op.name, origins_of(op)))
    return fired


def is_half(op: onnx.OnnxOp) -> bool:
    """Whether some operand is a half and every float result is one."""
    floats = [r for r in op.results if element(r) in (*HALVES, f32)]
    return any(element(v) in HALVES for v in op.operands) and all(element(r) in HALVES for r in floats)


def element(value: SSAValue) -> Attribute | None:
    return value.type.element_type if isinstance(value.type, TensorType) else None


def widen(op: onnx.OnnxOp, wide: dict[SSAValue, SSAValue], weights: WeightStore) -> None:
    """Puts the f32 op, and a Cast of each half result for whoever still reads it, in an op's place."""
    block = op.parent
    assert block is not None
    operands = [
        v if v is None or element(v) not in HALVES else widened(v, op, wide, weights) for v in op.formal_operands()
    ]
    types = [None if r is None else f32_type(r) for r in op.formal_results()]
    new = type(op).make(operands, attributes_of(op), types, like=op)
    block.insert_op_before(new, op)
    for old, result in zip(op.results, new.results, strict=True):
        result.name_hint = old.name_hint
        if element(old) not in HALVES:
            old.replace_all_uses_with(result)
            continue
        code = onnx.ELEMENT_CODES[element(old)]  # pyright: ignore[reportArgumentType]
        narrow = onnx.CastOp.make([result], {"to": code}, [old.type], like=op)
        block.insert_op_before(narrow, op)
        old.replace_all_uses_with(narrow.results[0])
        wide[narrow.results[0]] = result
    for name in ("onnx.names", "dims.binds"):
        if (kept := op.attributes.get(name)) is not None:
            new.attributes[name] = kept
    op.detach()
    op.erase()


def f32_type(value: SSAValue) -> Attribute:
    return tensor_type(f32, dims_of(value)) if element(value) in HALVES else value.type


def widened(value: SSAValue, at: Operation, wide: dict[SSAValue, SSAValue], weights: WeightStore) -> SSAValue:
    """The f32 value that a half was rounded from, else a Cast of it; a constant is converted once."""
    found = wide.get(value)
    if found is not None:
        return found
    owner = value.owner
    array = constant_value(value, weights)
    if isinstance(owner, Operation):
        block, first = owner.parent, owner
    else:
        block, first = owner, None
    assert block is not None
    if array is not None:
        cast: Operation = make_constant(array.astype("float32"), f32_type(value), weights)
        if isinstance(owner, Operation) and ORIGIN in owner.attributes:
            cast.attributes[ORIGIN] = owner.attributes[ORIGIN]
    else:
        cast = onnx.CastOp.make([value], {"to": onnx.ELEMENT_CODES[f32]}, [f32_type(value)], like=at)
    if first is not None:
        block.insert_op_after(cast, first)
    elif block.first_op is not None:
        block.insert_op_before(cast, block.first_op)
    wide[value] = cast.results[0]
    return cast.results[0]
