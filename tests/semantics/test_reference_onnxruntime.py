"""The reference functions against onnxruntime, where it follows the standard.

Left out are cases in which onnxruntime departs from the text: SAME padding with dilation, `align_corners` with
fractional scales, scales with `tf_crop_and_resize`, the clip of LSTM's last activation, and the scores of some
classifiers.
"""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from sardonyx.semantics.reference import NUMBERS, REFERENCE

RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


def numbers(*shape):
    return [float(v) for v in f32(*shape).reshape(-1)]


class Case:
    """One node: operator, operands, attributes; `opset` is what onnxruntime is given."""

    def __init__(self, op, inputs, outputs=1, domain="", opset=22, atol=1e-5, **attributes):
        self.op, self.inputs, self.outputs, self.domain = op, inputs, outputs, domain
        self.opset, self.atol, self.attributes = opset, atol, attributes

    def peer(self):
        names = [f"i{k}" if v is not None else "" for k, v in enumerate(self.inputs)]
        present = [(n, v) for n, v in zip(names, self.inputs, strict=True) if v is not None]
        outs = [f"o{k}" for k in range(self.outputs)]
        node = helper.make_node(self.op, names, outs, domain=self.domain, **self.attributes)
        infos = [
            helper.make_tensor_value_info(n, 8 if v.dtype.kind in "UO" else NUMBERS[v.dtype], v.shape)
            for n, v in present
        ]
        graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in outs])
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, dict(present))

    def check(self):
        got = REFERENCE[self.domain, self.op](self.inputs, self.attributes, self.outputs)
        for mine, theirs in zip(got, self.peer()):
            if isinstance(theirs, list):
                assert mine == theirs
                continue
            assert mine.shape == theirs.shape
            if theirs.dtype == object:
                assert mine.tolist() == theirs.tolist()
                continue
            assert mine.dtype == theirs.dtype
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=self.atol)
            else:
                np.testing.assert_array_equal(mine, theirs)


def grid(**choices):
    """All combinations, as dictionaries without None."""
    for values in itertools.product(*choices.values()):
        yield {k: v for k, v in zip(choices, values, strict=True) if v is not None}


def recurrent():
    steps, batch, size, hidden = 5, 2, 3, 4
    own = {
        "RNN": (1, [{}, {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}]),
        "GRU": (3, [{}, {"linear_before_reset": 1}, {"activations": ["HardSigmoid", "ScaledTanh"],
                    "activation_alpha": [0.25, 1.5], "activation_beta": [0.4, 0.7]}]),
        "LSTM": (4, [{}, {"input_forget": 1}, {"activations": ["HardSigmoid", "Affine", "Softsign"],
                     "activation_alpha": [0.25, 1.5], "activation_beta": [0.4, 0.2]}]),
    }  # fmt: skip
    for op, (gates, variants) in own.items():
        clips = [None] if op == "LSTM" else [None, 0.3]
        for variant, options in itertools.product(
            variants, grid(direction=["forward", "reverse", "bidirectional"], clip=clips)
        ):
            many = 2 if options["direction"] == "bidirectional" else 1
            repeated = {k: v * many if isinstance(v, list) else v for k, v in variant.items()}
            for lengths in (None, np.array([5, 3], np.int32)):
                inputs = [f32(steps, batch, size), f32(many, gates * hidden, size), f32(many, gates * hidden, hidden),
                          f32(many, 2 * gates * hidden), lengths, f32(many, batch, hidden)]  # fmt: skip
                if op == "LSTM":
                    inputs += [f32(many, batch, hidden), f32(many, 3 * hidden)]
                yield Case(op, inputs, 3 if op == "LSTM" else 2, hidden_size=hidden, **options, **repeated)


def pooling():
    x = f32(2, 3, 9, 10)
    for options in grid(
        auto_pad=["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"], ceil_mode=[0, 1], strides=[[1, 1], [2, 3]],
        pads=[None, [1, 1, 1, 1], [0, 1, 2, 1]], dilations=[None, [2, 1]],
    ):  # fmt: skip
        padded = options["auto_pad"] != "NOTSET"
        if (padded and "pads" in options) or ("SAME" in options["auto_pad"] and "dilations" in options):
            continue
        for op in ("MaxPool", "AveragePool", "LpPool"):
            yield Case(op, [x], 2 if op == "MaxPool" else 1, kernel_shape=[3, 2], **options)
        yield Case("AveragePool", [x], kernel_shape=[3, 2], count_include_pad=1, **options)
    yield Case("MaxPool", [x], 2, kernel_shape=[3, 3], storage_order=1, pads=[1, 1, 1, 1])
    yield Case("AveragePool", [f32(1, 2, 5, 6, 7)], kernel_shape=[3, 2, 2], pads=[1, 0, 1, 1, 1, 0])


def convolution():
    for group, strides, dilations in itertools.product((1, 2), ([1, 1], [2, 1]), ([1, 1], [2, 1])):
        options = {"group": group, "strides": strides, "dilations": dilations}
        x, w, b = f32(2, 4, 7, 8), f32(6, 4 // group, 3, 2), f32(6)
        yield Case("Conv", [x, w, b], pads=[1, 0, 2, 1], **options)
        if dilations == [1, 1]:
            yield Case("Conv", [x, w, b], auto_pad="SAME_LOWER", **options)
        x, w, b = f32(2, 4, 7, 8), f32(4, 3, 3, 2), f32(3 * group)
        yield Case("ConvTranspose", [x, w, b], pads=[1, 0, 2, 1], output_padding=[strides[0] - 1, 0], **options)
        for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Case("ConvTranspose", [x, w, b], auto_pad=auto_pad, **options)
    x, w = f32(1, 2, 5, 5), f32(2, 3, 3, 3)
    for auto_pad in ("NOTSET", "SAME_UPPER"):
        yield Case("ConvTranspose", [x, w], strides=[2, 2], output_shape=[10, 11], auto_pad=auto_pad)
    image = RNG.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8)
    weights = RNG.integers(-128, 127, (3, 2, 2, 2)).astype(np.int8)
    yield Case("ConvInteger", [image, weights, scalar(3, np.uint8)], pads=[1, 1, 1, 1])
    yield Case("Col2Im", [f32(1, 12, 12), i64(5, 5), i64(2, 3)], opset=18)
    yield Case("Col2Im", [f32(1, 8, 9), i64(5, 5), i64(2, 2)], opset=18, dilations=[2, 2])


def resizing():
    x = f32(1, 2, 5, 7)
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    for place, scales in itertools.product(places, ([1, 1, 2, 2], [1, 1, 0.6, 0.7], [1, 1, 1.3, 2.1])):
        if place == "align_corners" and scales != [1, 1, 2, 2]:
            continue
        inputs = [x, None, np.array(scales, np.float32)]
        options = {"coordinate_transformation_mode": place}
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            # rounding decides half_pixel_symmetric at .6
            if not (place == "half_pixel_symmetric" and scales[2] == 0.6):
                yield Case("Resize", inputs, mode="nearest", nearest_mode=nearest, **options)
        yield Case("Resize", inputs, mode="linear", **options)
        yield Case("Resize", inputs, mode="cubic", **options)
        yield Case("Resize", inputs, mode="cubic", exclude_outside=1, **options)
    roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], np.float32)
    for mode in ("nearest", "linear", "cubic"):
        yield Case("Resize", [x, roi, None, i64(1, 2, 8, 4)], mode=mode, extrapolation_value=7.0,
                   coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    for mode, scales, exclude in itertools.product(("linear", "cubic"), ([1, 1, 0.6, 0.4], [1, 1, 2, 0.5]), (0, 1)):
        yield Case("Resize", [x, None, np.array(scales, np.float32)], mode=mode, antialias=1, exclude_outside=exclude)
    for policy in ("not_larger", "not_smaller"):
        yield Case("Resize", [x, None, None, i64(9, 4)], mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy)
    for options in grid(mode=["linear", "nearest", "cubic"], padding_mode=["zeros", "border", "reflection"],
                        align_corners=[0, 1]):  # fmt: skip
        places = (f32(2, 3, 6, 2) * 1.5).astype(np.float32)
        yield Case("GridSample", [f32(2, 2, 4, 5), places], opset=20, **options)
        if options["mode"] != "cubic":
            places = (f32(1, 3, 6, 2, 3) * 1.5).astype(np.float32)
            yield Case("GridSample", [f32(1, 2, 3, 4, 5), places], opset=20, **options)


def detection():
    rois = np.array([[0, 0, 9, 9], [-2, 1, 5, 14], [3, 3, 3.2, 3.1], [1, 2, 11, 8]], np.float32)
    for options in grid(coordinate_transformation_mode=["half_pixel", "output_half_pixel"], sampling_ratio=[0, 2, 3]):
        yield Case("RoiAlign", [f32(2, 3, 10, 12), rois, i64(0, 1, 0, 1)], opset=16, output_height=3, output_width=4,
                   spatial_scale=0.8, **options)  # fmt: skip
    yield Case("RoiAlign", [f32(2, 3, 10, 12), rois, i64(0, 1, 0, 1)], opset=16, mode="max", sampling_ratio=2,
               output_height=3, output_width=4, coordinate_transformation_mode="half_pixel")  # fmt: skip
    boxes, scores = RNG.random((2, 20, 4)).astype(np.float32), RNG.random((2, 3, 20)).astype(np.float32)
    for centred in (0, 1):
        limits = [i64(5), np.array([0.3], np.float32), np.array([0.2], np.float32)]
        yield Case("NonMaxSuppression", [boxes, scores, *limits], center_point_box=centred)


def quantization():
    x = f32(4, 6) * 3
    scales = np.array([0.05, 0.1, 0.02, 0.3], np.float32)
    for dtype in (np.uint8, np.int8, np.int16, np.uint16):
        zeros = np.array([7, 1, 2, 3], dtype)
        yield Case("QuantizeLinear", [x, scalar(0.05), scalar(7, dtype)], opset=21)
        yield Case("QuantizeLinear", [x, scales, zeros], opset=21, axis=0)
        yield Case("DequantizeLinear", [RNG.integers(0, 100, (4, 6)).astype(dtype), scales, zeros], opset=21, axis=0)
    blocks = np.abs(f32(4, 3))
    yield Case("QuantizeLinear", [x, blocks, RNG.integers(0, 9, (4, 3)).astype(np.uint8)], opset=21, block_size=2)
    yield Case("DynamicQuantizeLinear", [x], 3)
    yield Case("DynamicQuantizeLinear", [np.abs(x)], 3)
    a, b = (RNG.integers(0, 255, s).astype(np.uint8) for s in ((3, 4), (4, 5)))
    parameters = [a, scalar(0.02), scalar(100, np.uint8), b, scalar(0.03), scalar(120, np.uint8)]
    yield Case("QLinearMatMul", [*parameters, scalar(0.05), scalar(90, np.uint8)])
    yield Case("MatMulInteger", [a, b, scalar(3, np.uint8), np.array([4, 1, 2, 3, 9], np.uint8)])
    image, weights = RNG.integers(0, 255, (1, 2, 6, 6)).astype(np.uint8), RNG.integers(-99, 99, (3, 2, 3, 3))
    parameters = [image, scalar(0.02), scalar(100, np.uint8), weights.astype(np.int8),
                  np.array([0.03, 0.01, 0.02], np.float32), np.zeros(3, np.int8)]  # fmt: skip
    bias = RNG.integers(-99, 99, 3).astype(np.int32)
    yield Case("QLinearConv", [*parameters, scalar(0.2), scalar(90, np.uint8), bias], pads=[1, 1, 1, 1])


def tensors():
    for equation, *shapes in (
        ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk", (2, 3, 4), (2, 4, 5)), ("ii", (4, 4)), ("ii->i", (4, 4)),
        ("...ij,...jk->...ik", (2, 1, 3, 4), (1, 3, 4, 5)), ("i,j,k->kji", (2,), (3,), (4,)),
        ("i...->...", (3, 4, 5)), ("...i,i->...", (2, 3), (3,)), (" a b , b c -> a c", (2, 3), (3, 4)),
    ):  # fmt: skip
        yield Case("Einsum", [f32(*s) for s in shapes], opset=12, equation=equation)
    x = RNG.integers(0, 5, (4, 6)).astype(np.float32)
    for largest, axis in itertools.product((0, 1), (0, 1)):
        yield Case("TopK", [x, i64(3)], 2, axis=axis, largest=largest)
    for options in grid(sorted=[0, 1], axis=[None, 0, 1]):
        yield Case("Unique", [x], 4, **options)
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield Case("Pad", [f32(4, 5), i64(1, 2, 3, 2), scalar(3.0)], opset=19, mode=mode)
        yield Case("Pad", [f32(4, 5), i64(-1, 2, 1, -2)], opset=19, mode=mode)
    for options in grid(exclusive=[0, 1], reverse=[0, 1]):
        yield Case("CumSum", [f32(3, 4), scalar(1, np.int64)], **options)
    for reduction in ("add", "mul", "max", "min"):
        yield Case("ScatterElements", [f32(4, 5), np.array([[0, 1, 1], [2, 3, 3]]), f32(2, 3)], opset=18, axis=1,
                   reduction=reduction)  # fmt: skip
        yield Case("ScatterND", [f32(4, 5), np.array([[0, 1], [0, 1], [3, 2]]), f32(3)], opset=18, reduction=reduction)
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        yield Case(f"Reduce{name}", [np.abs(f32(3, 4, 5)), i64(0, 2)], opset=18, keepdims=0)
        yield Case(f"Reduce{name}", [np.abs(f32(3, 4, 5))], opset=18, noop_with_empty_axes=1)
    yield Case("ReverseSequence", [f32(4, 3, 2), i64(4, 2, 1)], time_axis=0, batch_axis=1)
    yield Case("CenterCropPad", [f32(5, 6), i64(3, 9)], opset=18)
    yield Case("Trilu", [f32(2, 4, 5), scalar(-1, np.int64)], upper=0)
    yield Case("OneHot", [i64(0, -1, 5, 2), scalar(4, np.int64), np.array([2, 7], np.float32)], axis=0)
    for dtype, fmod in itertools.product((np.int8, np.int32, np.int64, np.uint8), (0, 1)):
        low = 0 if dtype == np.uint8 else -100
        a, b = RNG.integers(low, 100, 30).astype(dtype), RNG.integers(1, 9, 30).astype(dtype)
        yield Case("Div", [a, b])
        yield Case("Mod", [a, b], fmod=fmod)


def statistics():
    yield Case("LRN", [f32(2, 7, 3, 3)], size=5)
    yield Case("MeanVarianceNormalization", [f32(2, 3, 4, 4)])
    yield Case("LayerNormalization", [f32(3, 4, 5), f32(4, 5), f32(4, 5)], 3, opset=17, axis=1)
    yield Case("GroupNormalization", [f32(2, 6, 4, 4), f32(6), f32(6)], opset=21, num_groups=3)
    yield Case("BatchNormalization", [f32(2, 3, 4), np.abs(f32(3)), f32(3), f32(3), np.abs(f32(3))])
    yield Case("Gemm", [f32(4, 3), f32(5, 4), f32(5)], transA=1, transB=1, alpha=0.5, beta=2.0)
    yield Case("Det", [f32(3, 4, 4)])
    for p in (1, 2):
        yield Case("LpNormalization", [f32(3, 4)], p=p, axis=0)
    for reduction in ("mean", "sum", "none"):
        inputs = [f32(4, 5, 3), RNG.integers(0, 5, (4, 3)), np.abs(f32(5))]
        yield Case("SoftmaxCrossEntropyLoss", inputs, 2, reduction=reduction, ignore_index=2)
        yield Case("NegativeLogLikelihoodLoss", inputs, reduction=reduction, ignore_index=2)
    for mode in ("TF", "IDF", "TFIDF"):
        yield Case("TfIdfVectorizer", [RNG.integers(0, 6, (3, 12))], mode=mode, min_gram_length=1, max_gram_length=3,
                   max_skip_count=2, ngram_counts=[0, 3, 9], ngram_indexes=[5, 0, 1, 2, 3, 4, 6],
                   pool_int64s=[0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1, 2], weights=[0.5, 1, 2, 3, 4, 5, 6])  # fmt: skip
    for name in ("Celu", "Elu", "Selu", "HardSigmoid", "HardSwish", "LeakyRelu", "Softplus", "Softsign", "Sigmoid",
                 "ThresholdedRelu", "Shrink", "Erf", "Softmax", "LogSoftmax"):  # fmt: skip
        yield Case(name, [f32(30) * 3], opset=16)
    for approximate in ("none", "tanh"):
        yield Case("Gelu", [f32(50) * 3], opset=20, approximate=approximate)
    yield Case("STFT", [f32(2, 40, 1), scalar(5, np.int64), f32(16)], opset=17, atol=1e-4)
    yield Case("DFT", [f32(2, 10, 2), scalar(16, np.int64)], opset=20, atol=1e-4)
    ends = [scalar(v, np.int64) for v in (8, 64, 16000)]
    yield Case("MelWeightMatrix", [*ends, scalar(10.0), scalar(7000.0)], opset=17)


def forest(modes, targets, weight, votes=1, trees=4, depth=3):
    """Random complete trees: nodes, and (tree, leaf, target, weight) of each vote."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}  # fmt: skip
    leaves = []
    for tree, node in itertools.product(range(trees), range(count)):
        branch = node < inner
        row = (tree, node, int(RNG.integers(4)) if branch else 0, modes[int(RNG.integers(len(modes)))] if branch
               else "LEAF", float(f32(1)[0]) if branch else 0.0, 2 * node + 1 if branch else 0,
               2 * node + 2 if branch else 0, int(RNG.integers(2)))  # fmt: skip
        for key, value in zip(nodes, row, strict=True):
            nodes[key].append(value)
        if not branch:
            leaves += [(tree, node, int(t), float(weight())) for t in RNG.permutation(targets)[:votes]]
    return {f"nodes_{k}": v for k, v in nodes.items()}, list(zip(*leaves, strict=True))


def classic():
    ml = {"domain": "ai.onnx.ml", "opset": 18}
    x = f32(7, 4)
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        yield Case("LinearRegressor", [x], coefficients=numbers(8), intercepts=[0.5, 0.1], targets=2,
                   post_transform=transform, **ml)  # fmt: skip
        yield Case("LinearClassifier", [x], 2, coefficients=numbers(12), intercepts=numbers(3),
                   classlabels_strings=["a", "b", "c"], post_transform=transform, **ml)  # fmt: skip
    for transform in ("NONE", "LOGISTIC"):
        yield Case("LinearClassifier", [x], 2, coefficients=numbers(4), intercepts=numbers(1), classlabels_ints=[5, 3],
                   post_transform=transform, **ml)  # fmt: skip
    for kernel, one_class in itertools.product(("LINEAR", "POLY", "RBF", "SIGMOID"), (0, 1)):
        machine = {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 2.0], **ml}
        yield Case("SVMRegressor", [x], support_vectors=numbers(20), coefficients=numbers(5), n_supports=5, rho=[0.4],
                   one_class=one_class, **machine)  # fmt: skip
        for classes, probability in itertools.product((2, 3, 4), (False, True)):
            counts, pairs = [2, 3, 2, 1][:classes], classes * (classes - 1) // 2
            extra = {"prob_a": [-abs(v) for v in numbers(pairs)], "prob_b": numbers(pairs)} if probability else {}
            yield Case("SVMClassifier", [x], 2, support_vectors=numbers(4 * sum(counts)), vectors_per_class=counts,
                       coefficients=numbers(sum(counts) * (classes - 1)), rho=numbers(pairs),
                       classlabels_ints=list(range(10, 10 + classes)), **extra, **machine)  # fmt: skip
    x = f32(9, 4)
    x[0, 1] = x[3] = np.nan
    branches = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    for modes, aggregate, targets in itertools.product((branches[:1], branches), ("SUM", "AVERAGE", "MIN", "MAX"),
                                                       (1, 3)):  # fmt: skip
        nodes, (trees, leaves, ids, weights) = forest(modes, targets, RNG.standard_normal, targets)
        yield Case("TreeEnsembleRegressor", [x], target_treeids=trees, target_nodeids=leaves, target_ids=ids,
                   target_weights=weights, n_targets=targets, aggregate_function=aggregate, **nodes, **ml)  # fmt: skip
    for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
        nodes, (trees, leaves, ids, weights) = forest(branches, 3, RNG.standard_normal, 3)
        yield Case(
            "TreeEnsembleClassifier",
            [x],
            2,
            class_treeids=trees,
            class_nodeids=leaves,
            class_ids=ids,
            class_weights=weights,
            classlabels_int64s=[7, 5, 6],
            post_transform=transform,
            **nodes,
            **ml,
        )
    for transform, weight in (("NONE", RNG.standard_normal), ("LOGISTIC", RNG.standard_normal),
                              ("NONE", lambda: RNG.random() / 4), ("LOGISTIC", lambda: RNG.random() / 4)):  # fmt: skip
        nodes, (trees, leaves, ids, weights) = forest(branches, 1, weight)
        yield Case(
            "TreeEnsembleClassifier",
            [x],
            2,
            class_treeids=trees,
            class_nodeids=leaves,
            class_ids=ids,
            class_weights=weights,
            classlabels_int64s=[7, 5],
            post_transform=transform,
            **nodes,
            **ml,
        )
    for norm in ("MAX", "L1", "L2"):
        yield Case("Normalizer", [np.abs(f32(7, 4))], norm=norm, **ml)
    yield Case("Scaler", [f32(7, 4)], offset=[0.1, 0.2, 0.3, 0.4], scale=[1.0, 2.0, 3.0, 4.0], **ml)
    yield Case("OneHotEncoder", [np.array([[1, 5], [3, 2]])], cats_int64s=[1, 2, 3], **ml)
    yield Case("FeatureVectorizer", [f32(7, 4), f32(7, 2)], inputdimensions=[4, 2], **ml)
    yield Case("ArrayFeatureExtractor", [f32(7, 4), i64(2, 0)], **ml)
    yield Case("CategoryMapper", [i64(1, 2, 9)], cats_int64s=[1, 2], cats_strings=["x", "y"], **ml)
    yield Case("ZipMap", [np.abs(f32(2, 3))], classlabels_int64s=[4, 5, 6], **ml)


FAMILIES = [recurrent, pooling, convolution, resizing, detection, quantization, tensors, statistics, classic]
CASES = [
    pytest.param(case, id=f"{family.__name__}-{number}-{case.op}")
    for family in FAMILIES
    for number, case in enumerate(family())
]


@pytest.mark.parametrize("case", CASES)
def test_against_onnxruntime(case):
    case.check()
