"""What kind of computation each operator is, for fusion and lowering: one table keyed by op class."""

from __future__ import annotations

from enum import Enum

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..dialects import dims, onnx
from .known import known_dims


class Kind(Enum):
    """How the elements of an operator's results depend on those of its operands."""

    POINTWISE = "pointwise"  # the element at the same place, with broadcasting
    MOVEMENT = "movement"  # one element at a place computed from the index
    REDUCTION = "reduction"  # many elements, combined along axes
    WINDOW = "window"  # many elements in a window of each place (pools, interpolation)
    TEMPLATE = "template"  # a kernel template: contractions, recurrences, data-dependent sizes
    SOURCE = "source"  # no operands but constants and dims
    CONTROL = "control"  # regions
    OTHER = "other"  # hosted


POINTWISE: tuple[type[Operation], ...] = (
    onnx.AbsOp, onnx.AcosOp, onnx.AcoshOp, onnx.AddOp, onnx.AndOp, onnx.AsinOp, onnx.AsinhOp, onnx.AtanOp,
    onnx.AtanhOp, onnx.BitShiftOp, onnx.BitwiseAndOp, onnx.BitwiseNotOp, onnx.BitwiseOrOp, onnx.BitwiseXorOp,
    onnx.CastOp, onnx.CastLikeOp, onnx.CeilOp, onnx.CeluOp, onnx.ClipOp, onnx.CosOp, onnx.CoshOp,
    onnx.DequantizeLinearOp, onnx.DivOp, onnx.EluOp, onnx.EqualOp, onnx.ErfOp, onnx.ExpOp, onnx.FloorOp, onnx.GeluOp,
    onnx.GreaterOp, onnx.GreaterOrEqualOp, onnx.HardSigmoidOp, onnx.HardSwishOp, onnx.IdentityOp, onnx.IsInfOp,
    onnx.IsNaNOp, onnx.LeakyReluOp, onnx.LessOp, onnx.LessOrEqualOp, onnx.LogOp, onnx.MaxOp, onnx.MeanOp, onnx.MinOp,
    onnx.MishOp, onnx.ModOp, onnx.MulOp, onnx.NegOp, onnx.NotOp, onnx.OrOp, onnx.PReluOp, onnx.PowOp,
    onnx.QuantizeLinearOp, onnx.ReciprocalOp, onnx.ReluOp, onnx.RoundOp, onnx.SeluOp, onnx.ShrinkOp, onnx.SigmoidOp,
    onnx.SignOp, onnx.SinOp, onnx.SinhOp, onnx.SoftplusOp, onnx.SoftsignOp, onnx.SqrtOp, onnx.SubOp, onnx.SumOp,
    onnx.SwiGLUOp, onnx.SwishOp, onnx.TanOp, onnx.TanhOp, onnx.ThresholdedReluOp, onnx.WhereOp, onnx.XorOp,
    onnx.BitCastOp, onnx.BatchNormalizationOp, onnx.DropoutOp, onnx.BernoulliOp, onnx.RandomNormalLikeOp,
    onnx.RandomUniformLikeOp,
)  # fmt: skip

MOVEMENT: tuple[type[Operation], ...] = (
    onnx.ConcatOp, onnx.DepthToSpaceOp, onnx.ExpandOp, onnx.FlattenOp, onnx.GatherOp, onnx.GatherElementsOp,
    onnx.GatherNDOp, onnx.PadOp, onnx.ReshapeOp, onnx.SliceOp, onnx.SpaceToDepthOp, onnx.SplitOp, onnx.SqueezeOp,
    onnx.TileOp, onnx.TransposeOp, onnx.TriluOp, onnx.UnsqueezeOp, onnx.OneHotOp, onnx.ReverseSequenceOp,
    onnx.CenterCropPadOp,
)  # fmt: skip

REDUCTION: tuple[type[Operation], ...] = (
    onnx.ReduceSumOp, onnx.ReduceMeanOp, onnx.ReduceMaxOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceL1Op,
    onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceSumSquareOp, onnx.ArgMaxOp,
    onnx.ArgMinOp, onnx.SoftmaxOp, onnx.LogSoftmaxOp, onnx.HardmaxOp, onnx.LayerNormalizationOp,
    onnx.RMSNormalizationOp, onnx.InstanceNormalizationOp, onnx.GroupNormalizationOp,
    onnx.MeanVarianceNormalizationOp, onnx.LpNormalizationOp, onnx.GlobalAveragePoolOp, onnx.GlobalMaxPoolOp,
    onnx.GlobalLpPoolOp, onnx.DynamicQuantizeLinearOp,
)  # fmt: skip

WINDOW: tuple[type[Operation], ...] = (
    onnx.AveragePoolOp, onnx.MaxPoolOp, onnx.LpPoolOp, onnx.ResizeOp, onnx.LRNOp, onnx.GridSampleOp, onnx.RoiAlignOp,
    onnx.AffineGridOp, onnx.Col2ImOp,
)  # fmt: skip

SOURCE: tuple[type[Operation], ...] = (
    onnx.RangeOp, onnx.ConstantOfShapeOp, onnx.EyeLikeOp, onnx.ShapeOp, onnx.SizeOp, dims.TensorOp,
    onnx.BlackmanWindowOp, onnx.HammingWindowOp, onnx.HannWindowOp, onnx.RandomNormalOp,
    onnx.RandomUniformOp, onnx.MelWeightMatrixOp,
)  # fmt: skip

TEMPLATE: tuple[type[Operation], ...] = (
    onnx.MatMulOp, onnx.GemmOp, onnx.ConvOp, onnx.ConvTransposeOp, onnx.MatMulIntegerOp, onnx.ConvIntegerOp,
    onnx.QLinearMatMulOp, onnx.QLinearConvOp, onnx.LSTMOp, onnx.GRUOp, onnx.RNNOp, onnx.TopKOp, onnx.NonZeroOp,
    onnx.CumSumOp, onnx.CumProdOp, onnx.ScatterElementsOp, onnx.ScatterNDOp, onnx.EinsumOp, onnx.DetOp,
    onnx.NonMaxSuppressionOp, onnx.UniqueOp, onnx.CompressOp, onnx.MlTreeEnsembleOp,
    onnx.MlTreeEnsembleClassifierOp, onnx.MlTreeEnsembleRegressorOp, onnx.MlLinearClassifierOp,
    onnx.MlLinearRegressorOp, onnx.MlScalerOp, onnx.MlNormalizerOp, onnx.MlBinarizerOp, onnx.MlImputerOp,
    onnx.MlSVMClassifierOp, onnx.MlSVMRegressorOp, onnx.MlFeatureVectorizerOp, onnx.MlArrayFeatureExtractorOp,
    onnx.CausalConvWithStateOp, onnx.DeformConvOp, onnx.MlLabelEncoderOp, onnx.TensorScatterOp, onnx.TrainingAdagradOp,
    onnx.TrainingAdamOp, onnx.TrainingMomentumOp, onnx.MlOneHotEncoderOp,
    onnx.NegativeLogLikelihoodLossOp, onnx.SoftmaxCrossEntropyLossOp,
    onnx.AttentionOp, onnx.RotaryEmbeddingOp, onnx.MultinomialOp, onnx.MaxRoiPoolOp, onnx.MaxUnpoolOp,
    onnx.DFTOp, onnx.STFTOp, onnx.LinearAttentionOp,
)  # fmt: skip

CONTROL: tuple[type[Operation], ...] = (onnx.IfOp, onnx.LoopOp, onnx.ScanOp)

KIND: dict[type[Operation], Kind] = {
    **dict.fromkeys(TEMPLATE, Kind.TEMPLATE),
    **dict.fromkeys(POINTWISE, Kind.POINTWISE),
    **dict.fromkeys(MOVEMENT, Kind.MOVEMENT),
    **dict.fromkeys(REDUCTION, Kind.REDUCTION),
    **dict.fromkeys(WINDOW, Kind.WINDOW),
    **dict.fromkeys(SOURCE, Kind.SOURCE),
    **dict.fromkeys(CONTROL, Kind.CONTROL),
}


def kind_of(op: Operation) -> Kind:
    """The kind of an op; what the table does not list is OTHER."""
    if isinstance(op, onnx.CustomOp):
        return Kind(op.kind.data) if op.kind is not None else Kind.OTHER
    if isinstance(op, onnx.RoiAlignOp) and onnx.attr(op, "sampling_ratio") <= 0:
        return Kind.TEMPLATE  # the regions decide how many samples there are
    return KIND.get(type(op), Kind.OTHER)


TRANSCENDENTAL: frozenset[type[Operation]] = frozenset((
    onnx.AcosOp, onnx.AcoshOp, onnx.AsinOp, onnx.AsinhOp, onnx.AtanOp, onnx.AtanhOp, onnx.CeluOp, onnx.CosOp,
    onnx.CoshOp, onnx.EluOp, onnx.ErfOp, onnx.ExpOp, onnx.GeluOp, onnx.LogOp, onnx.MishOp, onnx.PowOp, onnx.SeluOp,
    onnx.SigmoidOp, onnx.SinOp, onnx.SinhOp, onnx.SoftplusOp, onnx.SwishOp, onnx.TanOp, onnx.TanhOp, onnx.CustomOp,
))  # fmt: skip
"""Pointwise operators that cost more than a load and a store of the element."""


VIEWS: frozenset[type[Operation]] = frozenset(
    (onnx.ReshapeOp, onnx.SqueezeOp, onnx.UnsqueezeOp, onnx.FlattenOp, onnx.IdentityOp)
)


def is_view(op: Operation) -> bool:
    """Whether the result has its operand's elements in the same order and number: no element has to move."""
    if type(op) in VIEWS:
        return True
    if isinstance(op, onnx.TransposeOp):
        return _moves_only_ones(op)
    if isinstance(op, onnx.DropoutOp):
        return False
    return False


def _moves_only_ones(op: onnx.TransposeOp) -> bool:
    """A transpose that keeps the order of all axes whose size is not known to be 1."""
    source = op.operand_at(0)
    if source is None or not isinstance(source.type, TensorType):
        return False
    shape = dims.dims_of(source)
    perm = onnx.attr(op, "perm")
    order = list(perm) if perm is not None else list(reversed(range(len(shape))))
    large = [axis for axis in order if not (shape[axis].is_const and shape[axis].value == 1)]
    return large == sorted(large)


def reduced_axes(op: Operation) -> tuple[int, ...] | None:
    """The axes, non-negative and sorted, along which a REDUCTION op combines elements; None where not known."""
    source = op.operands[0]
    rank = len(dims.dims_of(source))
    if isinstance(op, (onnx.SoftmaxOp, onnx.LogSoftmaxOp, onnx.HardmaxOp, onnx.LpNormalizationOp)):
        return (onnx.attr(op, "axis") % rank,) if rank else ()
    if isinstance(op, (onnx.ArgMaxOp, onnx.ArgMinOp)):
        return (onnx.attr(op, "axis") % rank,) if rank else ()
    if isinstance(op, (onnx.LayerNormalizationOp, onnx.RMSNormalizationOp)):
        return tuple(range(onnx.attr(op, "axis") % rank, rank))
    if isinstance(
        op, (onnx.InstanceNormalizationOp, onnx.GlobalAveragePoolOp, onnx.GlobalMaxPoolOp, onnx.GlobalLpPoolOp)
    ):
        return tuple(range(2, rank))
    if isinstance(op, onnx.DynamicQuantizeLinearOp):
        return tuple(range(rank))
    if isinstance(op, onnx.MeanVarianceNormalizationOp):
        return tuple(sorted(a % rank for a in onnx.attr(op, "axes")))
    if isinstance(op, onnx.GroupNormalizationOp):
        return None
    axes: SSAValue | None = op.operand_at(1) if isinstance(op, onnx.OnnxOp) else None
    if axes is None:
        return () if onnx.attr(op, "noop_with_empty_axes") else tuple(range(rank))
    known = known_dims(axes)
    if known is None or not all(k.is_const for k in known):
        return None
    if not known:
        return () if onnx.attr(op, "noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted(k.value % rank for k in known))
