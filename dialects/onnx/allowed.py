"""What attributes may say and which ranks operands may have, by operator: what the standard states in prose."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from . import ops_gen as onnx
from .base import OnnxOp
from .limits import Activation, Axis, Element, Limit, OneOf, Permutation, Spatial, Within

Limits = Mapping[str, Limit]

_FLAG = OneOf((0, 1))
_COUNT = Within(1)
_NONE = "NONE"
_POST = OneOf((_NONE, "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"))
_REDUCTION = OneOf(("none", "add", "mul", "max", "min"))
_LOSS = OneOf(("none", "mean", "sum"))
_COMPUTED_IN = OneOf((1, 10, 11, 16))
_AXIS: Limits = {"axis": Axis()}

_WINDOW: Limits = {
    "auto_pad": OneOf(("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), silent=("",)),  # which stands for NOTSET
    "strides": Spatial(),
    "dilations": Spatial(),
    "kernel_shape": Spatial(),
    "pads": Spatial(least=0, each=2),
}
_CONV: Limits = {**_WINDOW, "group": _COUNT}
_POOL: Limits = {**_WINDOW, "ceil_mode": _FLAG}
_REDUCE: Limits = {"keepdims": _FLAG, "noop_with_empty_axes": _FLAG}
_ARG_REDUCE: Limits = {"keepdims": _FLAG, "select_last_index": _FLAG, **_AXIS}
_RECURRENT: Limits = {
    "direction": OneOf(("forward", "reverse", "bidirectional")),
    "activations": Activation(
        (
            "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
            "Softsign", "Softplus",
        )
    ),
    "layout": _FLAG,
    "hidden_size": _COUNT,
}  # fmt: skip
_DRAW: Limits = {"dtype": Element()}
_FROM_NOTHING: Limits = {"periodic": _FLAG, "output_datatype": Element()}
_NORMAL: Limits = {"stash_type": _COMPUTED_IN, **_AXIS}
_SVM: Limits = {"kernel_type": OneOf(("LINEAR", "POLY", "RBF", "SIGMOID")), "post_transform": _POST}
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")
_TREES: Limits = {"nodes_modes": OneOf(_MODES), "post_transform": _POST}

_BY_OPERATOR: dict[type[OnnxOp], Limits] = {
    onnx.AffineGridOp: {"align_corners": _FLAG},
    onnx.ArgMaxOp: _ARG_REDUCE,
    onnx.ArgMinOp: _ARG_REDUCE,
    onnx.AttentionOp: {
        "is_causal": _FLAG,
        "kv_num_heads": _COUNT,
        "q_num_heads": _COUNT,
        "qk_matmul_output_mode": Within(0, 3),
        "softmax_precision": OneOf((1, 10, 11, 16)),
        "left_window_size": Within(-1),
        "right_window_size": Within(-1),
    },
    onnx.AveragePoolOp: {**_POOL, "count_include_pad": _FLAG},
    onnx.BatchNormalizationOp: {"training_mode": _FLAG},
    onnx.BernoulliOp: _DRAW,
    onnx.BitCastOp: {"to": Element()},
    onnx.BitShiftOp: {"direction": OneOf(("LEFT", "RIGHT"))},
    onnx.BlackmanWindowOp: _FROM_NOTHING,
    onnx.CastOp: {"to": Element(), "saturate": _FLAG, "round_mode": OneOf(("up", "down", "nearest"))},
    onnx.CastLikeOp: {"saturate": _FLAG, "round_mode": OneOf(("up", "down", "nearest"))},
    onnx.CausalConvWithStateOp: {"activation": OneOf(("none", "silu", "swish"))},
    onnx.CenterCropPadOp: {"axes": Axis()},
    onnx.Col2ImOp: {"strides": Within(1), "dilations": Within(1), "pads": Within(0)},
    onnx.CompressOp: _AXIS,
    onnx.ConcatOp: _AXIS,
    onnx.ConcatFromSequenceOp: {"new_axis": _FLAG},
    onnx.ConvOp: _CONV,
    onnx.ConvIntegerOp: _CONV,
    onnx.ConvTransposeOp: {**_CONV, "output_padding": Spatial(least=0)},
    onnx.CumProdOp: {"exclusive": _FLAG, "reverse": _FLAG},
    onnx.CumSumOp: {"exclusive": _FLAG, "reverse": _FLAG},
    onnx.DFTOp: {"inverse": _FLAG, "onesided": _FLAG},
    onnx.DeformConvOp: {**_CONV, "offset_group": _COUNT},
    onnx.DepthToSpaceOp: {"mode": OneOf(("DCR", "CRD")), "blocksize": _COUNT},
    onnx.DequantizeLinearOp: {"block_size": Within(0), "output_dtype": Element(none=True)},
    onnx.EyeLikeOp: {"dtype": Element()},
    onnx.FlattenOp: {"axis": Axis(beyond=1)},
    onnx.GRUOp: {**_RECURRENT, "linear_before_reset": _FLAG},
    onnx.GatherOp: _AXIS,
    onnx.GatherElementsOp: _AXIS,
    onnx.GatherNDOp: {"batch_dims": Within(0)},
    onnx.GeluOp: {"approximate": OneOf(("none", "tanh"))},
    onnx.GemmOp: {"transA": _FLAG, "transB": _FLAG},
    onnx.GlobalLpPoolOp: {"p": _COUNT},
    onnx.GridSampleOp: {
        "align_corners": _FLAG,
        "mode": OneOf(("linear", "nearest", "cubic")),
        "padding_mode": OneOf(("zeros", "border", "reflection")),
    },
    onnx.GroupNormalizationOp: {"num_groups": _COUNT, "stash_type": _COMPUTED_IN},
    onnx.HammingWindowOp: _FROM_NOTHING,
    onnx.HannWindowOp: _FROM_NOTHING,
    onnx.HardmaxOp: _AXIS,
    onnx.ImageDecoderOp: {"pixel_format": OneOf(("RGB", "BGR", "Grayscale"))},
    onnx.IsInfOp: {"detect_negative": _FLAG, "detect_positive": _FLAG},
    onnx.LRNOp: {"size": _COUNT},
    onnx.LSTMOp: {**_RECURRENT, "input_forget": _FLAG},
    onnx.LayerNormalizationOp: _NORMAL,
    onnx.LinearAttentionOp: {
        "kv_num_heads": _COUNT,
        "q_num_heads": _COUNT,
        "update_rule": OneOf(("linear", "gated", "delta", "gated_delta")),
    },
    onnx.LogSoftmaxOp: _AXIS,
    onnx.LpNormalizationOp: {"p": Within(1, 2), **_AXIS},
    onnx.LpPoolOp: {**_POOL, "p": _COUNT},
    onnx.MaxPoolOp: {**_POOL, "storage_order": _FLAG},
    onnx.MaxRoiPoolOp: {"pooled_shape": Within(1, length=2)},
    onnx.MaxUnpoolOp: _WINDOW,
    onnx.MeanVarianceNormalizationOp: {"axes": Axis()},
    onnx.MelWeightMatrixOp: _FROM_NOTHING,
    onnx.ModOp: {"fmod": _FLAG},
    onnx.MultinomialOp: {**_DRAW, "sample_size": _COUNT},
    onnx.NegativeLogLikelihoodLossOp: {"reduction": _LOSS},
    onnx.NonMaxSuppressionOp: {"center_point_box": _FLAG},
    onnx.OneHotOp: {"axis": Axis(beyond=1)},
    onnx.PadOp: {"mode": OneOf(("constant", "reflect", "edge", "wrap"))},
    onnx.QLinearConvOp: _CONV,
    onnx.QuantizeLinearOp: {
        "block_size": Within(0),
        "output_dtype": Element(none=True),
        "precision": OneOf((0, 1, 10, 11, 16)),
        "saturate": _FLAG,
    },
    onnx.RMSNormalizationOp: _NORMAL,
    onnx.RNNOp: _RECURRENT,
    onnx.RandomNormalOp: {**_DRAW, "shape": Within(0)},
    onnx.RandomNormalLikeOp: _DRAW,
    onnx.RandomUniformOp: {**_DRAW, "shape": Within(0)},
    onnx.RandomUniformLikeOp: _DRAW,
    onnx.RangeOp: {"stash_type": _COMPUTED_IN},
    **dict.fromkeys(
        (
            onnx.ReduceL1Op, onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceMaxOp,
            onnx.ReduceMeanOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceSumOp, onnx.ReduceSumSquareOp,
        ),
        _REDUCE,
    ),
    onnx.ReshapeOp: {"allowzero": _FLAG},
    onnx.ResizeOp: {
        "axes": Axis(),
        "antialias": _FLAG,
        "exclude_outside": _FLAG,
        "coordinate_transformation_mode": OneOf(
            (
                "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize", "tf_half_pixel",
            )
        ),
        "keep_aspect_ratio_policy": OneOf(("stretch", "not_larger", "not_smaller")),
        "mode": OneOf(("nearest", "linear", "cubic")),
        "nearest_mode": OneOf(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"), silent=("simple", "")),
    },
    onnx.ReverseSequenceOp: {"batch_axis": _FLAG, "time_axis": _FLAG},
    onnx.RoiAlignOp: {
        "mode": OneOf(("avg", "max")),
        "coordinate_transformation_mode": OneOf(("half_pixel", "output_half_pixel")),
        "output_height": _COUNT,
        "output_width": _COUNT,
        "sampling_ratio": Within(0),
    },
    onnx.RotaryEmbeddingOp: {"interleaved": _FLAG, "num_heads": Within(0), "rotary_embedding_dim": Within(0)},
    onnx.STFTOp: {"onesided": _FLAG},
    onnx.ScanOp: {
        "num_scan_inputs": _COUNT,
        "scan_input_directions": _FLAG,
        "scan_output_directions": _FLAG,
    },
    onnx.ScatterElementsOp: {"reduction": _REDUCTION, **_AXIS},
    onnx.ScatterNDOp: {"reduction": _REDUCTION},
    onnx.SequenceEmptyOp: _DRAW,
    onnx.SoftmaxOp: _AXIS,
    onnx.SoftmaxCrossEntropyLossOp: {"reduction": _LOSS},
    onnx.SpaceToDepthOp: {"mode": OneOf(("DCR", "CRD")), "blocksize": _COUNT},
    onnx.SplitOp: {"num_outputs": _COUNT, **_AXIS},
    onnx.SplitToSequenceOp: {"keepdims": _FLAG, **_AXIS},
    onnx.StringNormalizerOp: {"case_change_action": OneOf((_NONE, "LOWER", "UPPER")), "is_case_sensitive": _FLAG},
    onnx.TensorScatterOp: {"mode": OneOf(("linear", "circular")), **_AXIS},
    onnx.TfIdfVectorizerOp: {
        "mode": OneOf(("TF", "IDF", "TFIDF")),
        "min_gram_length": _COUNT,
        "max_gram_length": _COUNT,
        "max_skip_count": Within(0),
        "ngram_counts": Within(0),
        "ngram_indexes": Within(0),
    },
    onnx.TopKOp: {"largest": _FLAG, "sorted": _FLAG, **_AXIS},
    onnx.TransposeOp: {"perm": Permutation()},
    onnx.TriluOp: {"upper": _FLAG},
    onnx.UniqueOp: {"sorted": _FLAG, **_AXIS},
    onnx.MlCastMapOp: {
        "cast_to": OneOf(("TO_FLOAT", "TO_STRING", "TO_INT64")),
        "map_form": OneOf(("DENSE", "SPARSE")),
        "max_map": _COUNT,
    },
    onnx.MlLinearClassifierOp: {"post_transform": _POST, "multi_class": _FLAG},
    onnx.MlLinearRegressorOp: {"post_transform": _POST, "targets": _COUNT},
    onnx.MlNormalizerOp: {"norm": OneOf(("MAX", "L1", "L2"))},
    onnx.MlOneHotEncoderOp: {"zeros": _FLAG},
    onnx.MlSVMClassifierOp: _SVM,
    onnx.MlSVMRegressorOp: {**_SVM, "one_class": _FLAG, "n_supports": Within(0)},
    onnx.MlTreeEnsembleOp: {
        "aggregate_function": Within(0, 3),
        "post_transform": Within(0, 4),
        "n_targets": _COUNT,
        "nodes_trueleafs": _FLAG,
        "nodes_falseleafs": _FLAG,
    },
    onnx.MlTreeEnsembleClassifierOp: _TREES,
    onnx.MlTreeEnsembleRegressorOp: {
        **_TREES,
        "aggregate_function": OneOf(("AVERAGE", "SUM", "MIN", "MAX")),
        "n_targets": _COUNT,
    },
    onnx.PreviewFlexAttentionOp: {"softmax_precision": OneOf((1, 10, 11, 16))},
    onnx.TrainingMomentumOp: {"mode": OneOf(("standard", "nesterov"))},
}  # fmt: skip

ATTRIBUTES = {
    op: tuple((name, limit) for name, limit in limits.items() if name in op.SCHEMA.attributes)
    for op, limits in _BY_OPERATOR.items()
}
"""The limits on each operator's attributes, by the attribute's name."""

_LABELS = ("classlabels_ints", "classlabels_strings")
_LABELS_64 = ("classlabels_int64s", "classlabels_strings")
_CATEGORIES = ("cats_int64s", "cats_strings")

ONE_OF: dict[type[OnnxOp], tuple[tuple[str, ...], ...]] = {
    onnx.ConstantOp: (tuple(onnx.ConstantOp.SCHEMA.attributes),),
    onnx.TfIdfVectorizerOp: (("pool_int64s", "pool_strings"),),
    onnx.MlDictVectorizerOp: (("int64_vocabulary", "string_vocabulary"),),
    onnx.MlImputerOp: (("imputed_value_floats", "imputed_value_int64s"),),
    onnx.MlLabelEncoderOp: (
        ("keys_floats", "keys_int64s", "keys_strings", "keys_tensor"),
        ("values_floats", "values_int64s", "values_strings", "values_tensor"),
    ),
    onnx.MlOneHotEncoderOp: (_CATEGORIES,),
    onnx.MlSVMClassifierOp: (_LABELS,),
    onnx.MlTreeEnsembleClassifierOp: (_LABELS_64,),
    onnx.MlZipMapOp: (_LABELS_64,),
}
"""Attributes of which a node has exactly one."""

_VECTOR, _NUMBER, _SOME = (1, 1), (0, 1), (1, None)
_IMAGE = (2, None)

RANKS: dict[type[OnnxOp], tuple[tuple[int, int, int | None], ...]] = {
    op: tuple((index, least, most) for index, (least, most) in found.items())
    for op, found in {
        onnx.Col2ImOp: {1: _VECTOR, 2: _VECTOR},
        onnx.CompressOp: {0: _SOME, 1: _VECTOR},
        onnx.ConcatOp: {0: _SOME},
        onnx.ConstantOfShapeOp: {0: _VECTOR},
        onnx.DFTOp: {0: (2, None)},
        onnx.ExpandOp: {1: _VECTOR},
        onnx.GatherOp: {0: _SOME},
        onnx.GatherElementsOp: {0: _SOME},
        onnx.GatherNDOp: {0: _SOME, 1: _SOME},
        onnx.GlobalAveragePoolOp: {0: _IMAGE},
        onnx.GlobalLpPoolOp: {0: _IMAGE},
        onnx.GlobalMaxPoolOp: {0: _IMAGE},
        onnx.HardmaxOp: {0: _SOME},
        onnx.OneHotOp: {1: _NUMBER, 2: _VECTOR},
        onnx.PadOp: {1: _VECTOR},
        onnx.RangeOp: {0: _NUMBER, 1: _NUMBER, 2: _NUMBER},
        onnx.ReshapeOp: {1: _VECTOR},
        onnx.ResizeOp: {1: _VECTOR, 2: _VECTOR, 3: _VECTOR},
        onnx.ReverseSequenceOp: {0: (2, None), 1: _VECTOR},
        onnx.ScatterElementsOp: {0: _SOME},
        onnx.ScatterNDOp: {0: _SOME, 1: _SOME},
        onnx.SliceOp: {0: _SOME, 1: _VECTOR, 2: _VECTOR, 3: _VECTOR, 4: _VECTOR},
        onnx.SplitOp: {0: _SOME, 1: _VECTOR},
        onnx.SqueezeOp: {1: _NUMBER},
        onnx.TileOp: {1: _VECTOR},
        onnx.TopKOp: {0: _SOME, 1: _NUMBER},
        onnx.TriluOp: {0: _IMAGE, 1: _NUMBER},
        onnx.UnsqueezeOp: {1: _NUMBER},
        onnx.UpsampleOp: {1: _VECTOR},
        onnx.MlArrayFeatureExtractorOp: {0: _SOME},
        onnx.MlNormalizerOp: {0: _SOME},
    }.items()
}
"""The ranks, least and most, that operands by formal position may have, where not every rank will do."""

SINGLE: dict[type[Operation], tuple[int, ...]] = {
    onnx.BlackmanWindowOp: (0,),
    onnx.ClipOp: (1, 2),
    onnx.ConvIntegerOp: (2,),
    onnx.CumProdOp: (1,),
    onnx.CumSumOp: (1,),
    onnx.DFTOp: (1, 2),
    onnx.DropoutOp: (1, 2),
    onnx.HammingWindowOp: (0,),
    onnx.HannWindowOp: (0,),
    onnx.IfOp: (0,),
    onnx.LoopOp: (0, 1),
    onnx.MelWeightMatrixOp: (0, 1, 2, 3, 4),
    onnx.NonMaxSuppressionOp: (2, 3, 4),
    onnx.OneHotOp: (1,),
    onnx.PadOp: (2,),
    onnx.QLinearConvOp: (1, 2, 6, 7),
    onnx.RangeOp: (0, 1, 2),
    onnx.STFTOp: (1, 3),
    onnx.SequenceAtOp: (1,),
    onnx.SequenceEraseOp: (1,),
    onnx.SequenceInsertOp: (2,),
    onnx.TopKOp: (1,),
    onnx.TrainingAdagradOp: (0, 1),
    onnx.TrainingAdamOp: (0, 1),
    onnx.TrainingMomentumOp: (0, 1),
    onnx.TriluOp: (1,),
}
"""The operands by formal position that hold one number, as a scalar or as a vector of it."""
