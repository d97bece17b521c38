"""Every operator's shape rule with attributes drawn: axes, windows, modes, optional operands; at sizes 0, 1 and more.

A table draws nodes by operator.  What an execution by onnxruntime gives, or by the reference functions where it has no
such operator or ends the process, has the sizes that were inferred.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import defs, helper
from sardonyx.dialects import onnx as dialect
from sardonyx.rewrites.infer.regions import HANDLERS
from sardonyx.semantics.shapes import RULES
from shape_draws import (
    UNDRAWN,
    Case,
    Draw,
    affine_grid,
    arg_reduction,
    attention,
    batch_normalization,
    binary,
    cast,
    cast_like,
    center_crop_pad,
    clip,
    col2im,
    compress,
    concat,
    constant_of_shape,
    conv,
    conv_by_sizes,
    conv_integer,
    conv_transpose,
    cumulative,
    depth_to_space,
    dequantize,
    det,
    dft,
    drawn,
    drawn_like,
    dropout,
    dynamic_quantize,
    einsum,
    expand,
    eye_like,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    gemm,
    global_pool,
    grid_sample,
    grouped,
    instance,
    loss,
    lrn,
    matmul,
    matmul_integer,
    mean_variance,
    multinomial,
    non_zero,
    normalization,
    of_axis,
    of_type,
    one_hot,
    pad,
    pool,
    power_pool,
    prelu,
    quantize,
    quantize_blocks,
    recurrent,
    reduction,
    resize,
    reverse_sequence,
    rms,
    roi_align,
    scatter_elements,
    scatter_nd,
    shape_of,
    slice_axes,
    space_to_depth,
    split,
    squeeze,
    stft,
    suppression,
    tile,
    top_k,
    transpose,
    trilu,
    unary,
    unique,
    unsqueeze,
    variadic,
    where,
    window,
    with_more,
)

SIZES = ((0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (3, 3), (2, 7), (7, 2), (4, 3), (6, 4))
BINDINGS = [{"A": a, "B": b} for a, b in SIZES]


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
POINTWISE = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp",
    "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Softplus",
    "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
FLOATS, INTEGERS = (T.FLOAT, T.DOUBLE), (T.INT64, T.INT32)

DRAWS: dict[str, Callable[[Draw], Case]] = {
    **dict.fromkeys(POINTWISE, unary),
    **{f"Reduce{name}": reduction for name in REDUCTIONS},
    **dict.fromkeys(("Add", "Sub", "Mul", "Pow", "Div"), binary(*FLOATS)),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), binary(*FLOATS, *INTEGERS)),
    **dict.fromkeys(("And", "Or", "Xor"), binary(T.BOOL)),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), binary(*INTEGERS)),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), variadic),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), of_axis),
    **dict.fromkeys(("CumSum", "CumProd"), cumulative),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), global_pool),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), window),
    **dict.fromkeys(("Bernoulli", "RandomNormalLike", "RandomUniformLike"), drawn_like),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), drawn),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_reduction),
    "DynamicQuantizeLinear": dynamic_quantize,
    "NonZero": non_zero,
    "MeanVarianceNormalization": mean_variance,
    "Mod": binary(T.FLOAT, fmod=[1]),
    "BitShift": binary(T.UINT8, direction=["LEFT", "RIGHT"]),
    "Not": of_type(T.BOOL),
    "BitwiseNot": of_type(*INTEGERS),
    "Where": where,
    "Trilu": trilu,
    "LayerNormalization": normalization,
    "RMSNormalization": rms,
    "BatchNormalization": batch_normalization,
    "GroupNormalization": grouped,
    "InstanceNormalization": instance,
    "LRN": lrn,
    "ReverseSequence": reverse_sequence,
    "Dropout": dropout,
    "PRelu": prelu,
    "Cast": cast,
    "CastLike": cast_like,
    "Clip": clip,
    "QuantizeLinear": lambda d: quantize(d) if d.pick(True, False) else quantize_blocks(d),
    "DequantizeLinear": dequantize,
    "Shape": shape_of,
    "EyeLike": eye_like,
    "ConstantOfShape": constant_of_shape,
    "Multinomial": multinomial,
    "DFT": dft,
    "STFT": stft,
    "CenterCropPad": center_crop_pad,
    "Compress": compress,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "OneHot": one_hot,
    "Pad": pad,
    "Split": split,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Tile": tile,
    "Transpose": transpose,
    "Slice": slice_axes,
    "TopK": top_k,
    "Unique": unique,
    "NonMaxSuppression": suppression,
    "Conv": lambda d: conv(d) if d.pick(True, True, False) else conv_by_sizes(d),
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "MaxPool": pool(False),
    "AveragePool": pool(True),
    "LpPool": power_pool,
    "Resize": resize,
    "RoiAlign": roi_align,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "Gemm": gemm,
    "Einsum": einsum,
    "Det": det,
    "Attention": attention,
    "NegativeLogLikelihoodLoss": loss(1),
    "SoftmaxCrossEntropyLoss": loss(2),
    "LSTM": recurrent(4),
    "GRU": recurrent(3),
    "RNN": recurrent(1),
}

ELSEWHERE = {
    "Range": "test_shapes_fuzz.py", "Reshape": "test_shapes_fuzz.py", "Constant": "its attribute is its value",
    "Scatter": "an older name", "Upsample": "an older name",
}  # fmt: skip
"""Operators drawn in another file, or without a choice."""

BY_CASES = (
    "BitCast", "CausalConvWithState", "ConcatFromSequence", "DeformConv", "ImageDecoder", "LinearAttention",
    "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "Optional", "OptionalGetElement", "OptionalHasElement",
    "QLinearConv", "QLinearMatMul", "RegexFullMatch", "RotaryEmbedding", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence", "StringConcat",
    "StringNormalizer", "StringSplit", "SwiGLU", "TensorScatter", "TfIdfVectorizer",
)  # fmt: skip
"""Operators with the attributes of ONNX's own node tests, whose sizes are changed: test_shapes_perturbed.py."""

REFERENCE = ("Attention", "CumProd", "Einsum", "GRU", "LSTM", "RMSNormalization", "RNN", "Swish", "Unique")
"""onnxruntime lacks these or some of their attributes, gives other sizes for empty operands, or ends the process."""

LAX = ("AveragePool", "LpPool", "MaxPool")
"""onnxruntime also runs windows that do not fit into their input."""


def test_every_rule_is_drawn() -> None:
    named = {op.SCHEMA.op_type for op in dialect.OPS if not op.SCHEMA.domain and (op in RULES or op in HANDLERS)}
    bodies = {op.SCHEMA.op_type for op in HANDLERS if hasattr(op, "SCHEMA")}
    assert named - {*DRAWS, *ELSEWHERE, *BY_CASES} - bodies == set()
    assert {*DRAWS, *BY_CASES} <= named


class Chance(Draw):
    """Draws by a seed, to see what can be drawn."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shape(self, low: int = 0, high: int = 3) -> list[Any]:
        return self.random.choices(["A", "B", 1, 3], k=self.random.randint(low, high))

    def axes(self, rank: int, low: int = 0) -> list[int]:
        found = self.random.sample(range(rank), self.random.randint(low, rank))
        return [a - rank if self.pick(True, False) else a for a in found]

    def permutation(self, size: int) -> list[int]:
        return self.random.sample(range(size), size)


@pytest.mark.parametrize("op_type", sorted(DRAWS))
def test_every_attribute_is_drawn(op_type: str) -> None:
    known = set(defs.get_schema(op_type).attributes)
    drawn: set[str] = set()
    for seed in range(200):
        draw = Chance(seed)
        drawn |= with_more(op_type, DRAWS[op_type](draw), draw).attributes.keys()
    assert drawn <= known and known - drawn == set(UNDRAWN.get(op_type, ()))


@pytest.mark.parametrize("op_type", sorted(DRAWS))
def test_sizes_are_those_of_an_execution(oracle: Any, op_type: str) -> None:
    compared = 0

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def run(data: Any) -> None:
        nonlocal compared
        draw = Draw(data)
        case = with_more(op_type, DRAWS[op_type](draw), draw)
        outputs = [f"y{i}" for i in range(case.outputs)]
        inputs = case.order.split(" ") if case.order else list(case.inputs)
        node = helper.make_node(op_type, inputs, outputs, **case.attributes)
        opset = 24 if op_type in ("Swish", "CumProd") else 23 if op_type in ("RMSNormalization",) else case.opset
        model = oracle.make([node], case.inputs, outputs, case.constants, opset=26 if op_type == "CumProd" else opset)
        call = oracle.reference(model) if op_type in REFERENCE else None
        bindings = [b for b in BINDINGS if case.empty or 0 not in b.values()]
        outcome = oracle.check(model, bindings, case.feeds, call)
        compared += outcome.compared + outcome.fresh + outcome.scalars
        assert op_type in LAX or not outcome.refused, f"{node}\n{outcome.refused}"

    run()
    assert compared, "nothing ran"
