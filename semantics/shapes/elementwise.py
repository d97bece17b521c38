"""Shape rules of operators that work element by element, with broadcasting where ONNX has it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim
from ...dialects.onnx.types import ELEMENT_TYPES, numpy_dtype
from ..reference.casting import bit_width
from .context import Context, ResultElements, Rules, ShapeError, Types

BOOL = IntegerType(1)
FLOAT = ELEMENT_TYPES[1]
UINT8 = ELEMENT_TYPES[2]


def same(c: Context) -> Types:
    """The type of the first operand."""
    return [c.type_of(0)]


def reverse_sequence(c: Context) -> Types:
    """Operands: sequences, and a length for each of the batch."""
    x, batch = c.dims(0), c.attr("batch_axis")
    for axis in (batch, c.attr("time_axis")):
        c.axis(axis, len(x))
    c.equal(c.dims_of_rank(1, 1)[0], x[batch], "the batch of 'sequence_lens'")
    return [c.type_of(0)]


def mean_variance_normalization(c: Context) -> Types:
    """The type of the operand, which has the axes; the default ones are those of images."""
    for axis in c.attr("axes"):
        c.axis(axis, c.rank(0))
    return [c.type_of(0)]


def same_dims_bool(c: Context) -> Types:
    return [c.tensor(BOOL, c.dims(0))]


def broadcast(c: Context) -> Types:
    """All operands broadcast; the element type of the first."""
    return [c.tensor(c.element(0), _result_dims(c))]


def compare(c: Context) -> Types:
    return [c.tensor(BOOL, _result_dims(c))]


def _result_dims(c: Context) -> tuple[Dim, ...]:
    """The dims that the operands broadcast to, by the rules of the node's own opset."""
    shapes = [c.dims(i) for i in range(len(c.operands))]
    first, limit = shapes[0], limit_of(c)
    if limit is None:
        return c.broadcast(*shapes)
    if limit == "first":
        for dims in shapes[1:]:
            one_way(c, first, dims)
        return first
    never = isinstance(c.op, onnx.MaxOp | onnx.MeanOp | onnx.MinOp | onnx.SumOp)
    since = "before opset 8" if never else "without broadcast=1"
    for dims in shapes[1:]:
        first = same_shape(c, first, dims, f"its operands have one shape, since {since} they do not broadcast")
    return first


def limit_of(c: Context) -> str | None:
    """How an operator of an older opset broadcasts: `none` or `first`; None where it is as today."""
    limit = c.op.attributes.get(onnx.LIMITED)
    return onnx.text_of(limit) if limit is not None else None


def same_shape(c: Context, a: Sequence[Dim], b: Sequence[Dim], why: str) -> tuple[Dim, ...]:
    """States that two shapes agree in all sizes, and gives the one to write. Raises ShapeError for other ranks."""
    if len(a) != len(b):
        raise ShapeError(f"{why}: ranks {len(a)} and {len(b)}")
    return tuple(c.equal(m, n, why) for m, n in zip(a, b))


def where(c: Context) -> Types:
    return [c.tensor(c.element(1), c.broadcast(c.dims(0), c.dims(1), c.dims(2)))]


def prelu(c: Context) -> Types:
    """The slope broadcasts to x, one way."""
    x = c.dims(0)
    one_way(c, x, c.dims(1))
    return [c.type_of(0)]


def one_way(c: Context, to: Sequence[Dim], dims: Sequence[Dim]) -> None:
    """States that `dims` broadcast to `to` without widening it."""
    if len(dims) > len(to):
        raise ShapeError(f"rank {len(dims)} does not broadcast to rank {len(to)}")
    for a, b in zip(reversed(to), reversed(dims)):
        if b is ONE or a is b:
            continue
        wide = c.broadcast_dim(a, b)
        if wide is not a:
            c.equal(wide, a, "broadcasting to the first operand")


def element_of_code(code: object) -> Attribute:
    found = ELEMENT_TYPES.get(code) if isinstance(code, int) else None
    if found is None:
        raise ShapeError(f"no element type has the number {code}")
    return found


def cast(c: Context) -> Types:
    return [c.tensor(element_of_code(c.attr("to")), c.dims(0))]


def bit_cast(c: Context) -> Types:
    source, to = numpy_dtype(c.element(0)), numpy_dtype(element_of_code(c.attr("to")))
    if bit_width(source) != bit_width(to):
        raise ShapeError(f"{source} has {bit_width(source)} bits, and {to} {bit_width(to)}")
    return [c.tensor(element_of_code(c.attr("to")), c.dims(0))]


def cast_like(c: Context) -> Types:
    return [c.tensor(c.element(1), c.dims(0))]


def dropout(c: Context) -> Types:
    ratio, training = c.constant(1), c.constant(2)
    trains = training is not None and training.size == 1 and bool(training.reshape(()))
    if trains and ratio is not None and ratio.size == 1 and not 0 <= float(ratio.reshape(())) < 1:
        raise ShapeError(f"its ratio is {float(ratio.reshape(())):g}, and must be in [0, 1)")
    return [c.type_of(0), c.tensor(BOOL, c.dims(0))]


def quantize_linear(c: Context) -> Types:
    """The element type is the attribute's, else the zero point's, else uint8."""
    code = c.attr("output_dtype")
    if code:
        element = element_of_code(code)
    elif c.has(2):
        element = c.element(2)
    else:
        element = UINT8
    _quantization_parameters(c)
    return [c.tensor(element, c.dims(0))]


def _quantization_parameters(c: Context) -> None:
    """States that scale and zero point are of the tensor, of each index of an axis, or of blocks along it."""
    x, axis, block = c.dims(0), c.attr("axis"), c.attr("block_size")
    for index in (1, 2):
        dims = c.dims(index) if c.has(index) else ()
        if block and len(dims) == len(x):
            along = c.axis(axis, len(x))
            for k, (size, extent) in enumerate(zip(dims, x)):
                c.equal(size, (extent + (block - 1)) // block if k == along else extent, "one parameter for each block")
        elif len(dims) == 1 and -len(x) <= axis < len(x):
            one_way(c, x[axis : axis + 1 or None], dims)
        else:
            for size in dims:
                c.equal(size, ONE, "a scale or zero point of one number")


def dequantize_linear(c: Context) -> Types:
    _quantization_parameters(c)
    code = c.attr("output_dtype")
    return [c.tensor(element_of_code(code) if code else c.element(1), c.dims(0))]


def dynamic_quantize_linear(c: Context) -> Types:
    return [c.tensor(UINT8, c.dims(0)), c.tensor(FLOAT, ()), c.tensor(UINT8, ())]


def batch_normalization(c: Context) -> Types:
    x = c.dims(0)
    channel = x[1] if len(x) > 1 else ONE
    for i in range(1, 5):
        (n,) = c.dims_of_rank(i, 1)
        c.equal(n, channel, "the channels of BatchNormalization")
    return [c.type_of(0), c.type_of(3), c.type_of(4)]


def normalization(c: Context) -> Types:
    """LayerNormalization: mean and deviation keep the dims before the axis."""
    x = c.dims(0)
    axis = c.axis(c.attr("axis"), len(x))
    for i in (1, 2):
        if c.has(i):
            one_way(c, x, c.dims(i))
    stash = element_of_code(c.attr("stash_type"))
    reduced = c.tensor(stash, [*x[:axis], *(ONE for _ in x[axis:])])
    return [c.type_of(0), reduced, reduced]


def group_normalization(c: Context) -> Types:
    c.divides(c.attr("num_groups"), c.dims(0)[1], "num_groups divides the channels")
    return [c.type_of(0)]


def rms_normalization(c: Context) -> Types:
    one_way(c, c.dims(0), c.dims(1))
    return [c.tensor(c.element(1), c.dims(0))]


def equal_operands(c: Context) -> Types:
    """Both operands have the same dims."""
    a, b = c.dims(0), c.dims_of_rank(1, c.rank(0))
    return [c.tensor(c.element(0), [c.equal(m, n, "equal shapes") for m, n in zip(a, b)])]


_SAME = (
    onnx.AbsOp, onnx.AcosOp, onnx.AcoshOp, onnx.AsinOp, onnx.AsinhOp, onnx.AtanOp, onnx.AtanhOp, onnx.BitwiseNotOp,
    onnx.CeilOp, onnx.CeluOp, onnx.ClipOp, onnx.CosOp, onnx.CoshOp, onnx.CumSumOp, onnx.CumProdOp, onnx.EluOp,
    onnx.ErfOp, onnx.ExpOp, onnx.FloorOp, onnx.GeluOp, onnx.HardSigmoidOp, onnx.HardSwishOp,
    onnx.HardmaxOp, onnx.IdentityOp, onnx.InstanceNormalizationOp, onnx.LRNOp, onnx.LeakyReluOp,
    onnx.LogOp, onnx.LogSoftmaxOp, onnx.LpNormalizationOp, onnx.MishOp, onnx.NegOp,
    onnx.NotOp, onnx.ReciprocalOp, onnx.ReluOp, onnx.RoundOp, onnx.SeluOp, onnx.ShrinkOp, onnx.SigmoidOp, onnx.SignOp,
    onnx.SinOp, onnx.SinhOp, onnx.SoftmaxOp, onnx.SoftplusOp, onnx.SoftsignOp, onnx.SqrtOp, onnx.SwishOp, onnx.TanOp,
    onnx.TanhOp, onnx.ThresholdedReluOp, onnx.TriluOp,
)  # fmt: skip

_BROADCAST = (
    onnx.AddOp, onnx.SubOp, onnx.MulOp, onnx.DivOp, onnx.ModOp, onnx.PowOp, onnx.BitShiftOp, onnx.BitwiseAndOp,
    onnx.BitwiseOrOp, onnx.BitwiseXorOp, onnx.AndOp, onnx.OrOp, onnx.XorOp, onnx.MaxOp, onnx.MinOp, onnx.MeanOp,
    onnx.SumOp,
)  # fmt: skip

_COMPARE = (onnx.EqualOp, onnx.GreaterOp, onnx.GreaterOrEqualOp, onnx.LessOp, onnx.LessOrEqualOp)

RULES: Rules = {
    onnx.MeanVarianceNormalizationOp: mean_variance_normalization,
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(_BROADCAST, broadcast),
    **dict.fromkeys(_COMPARE, compare),
    onnx.ReverseSequenceOp: reverse_sequence,
    onnx.IsInfOp: same_dims_bool,
    onnx.IsNaNOp: same_dims_bool,
    onnx.WhereOp: where,
    onnx.PReluOp: prelu,
    onnx.CastOp: cast,
    onnx.BitCastOp: bit_cast,
    onnx.CastLikeOp: cast_like,
    onnx.DropoutOp: dropout,
    onnx.QuantizeLinearOp: quantize_linear,
    onnx.DequantizeLinearOp: dequantize_linear,
    onnx.DynamicQuantizeLinearOp: dynamic_quantize_linear,
    onnx.BatchNormalizationOp: batch_normalization,
    onnx.GroupNormalizationOp: group_normalization,
    onnx.LayerNormalizationOp: normalization,
    onnx.RMSNormalizationOp: rms_normalization,
    onnx.SwiGLUOp: equal_operands,
}

ELEMENTS: ResultElements = {
    onnx.DequantizeLinearOp: lambda c: [c.element(1)],
    onnx.LayerNormalizationOp: lambda c: [c.element(0), *[element_of_code(c.attr("stash_type"))] * 2],
}
