"""Expansions of com.microsoft's operators, against onnxruntime; what they refuse; what tools on models make of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose
from onnx import ModelProto, helper, parser
from sardonyx.dialects import onnx
from sardonyx.rewrites.contrib import EXPANSIONS
from sardonyx.runtime.errors import UnsupportedError

import sardonyx as sx

from .contrib_cases import Array, Case, cases, f, i32, one, s8, u8

CASES = cases()


def by_onnxruntime(model: ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """One thread: the quantized LSTM quantizes the states of each thread's samples apart."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def compare(case: Case, found: dict[str, Array], wanted: list[Array]) -> None:
    for name, value in zip([o for o in case.outputs if o], wanted, strict=True):
        mine = found[name]
        assert mine.dtype == value.dtype
        if case.kept is not None:
            mine, value = case.kept(mine), case.kept(value)
        assert mine.shape == value.shape
        assert_allclose(mine.astype(np.float64), value.astype(np.float64), rtol=case.bound, atol=case.bound)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_expanded(case: Case) -> None:
    """The operators of ONNX that a node becomes compute what it means."""
    model = case.model()
    graph = sx.lower(model, to="graph")
    assert not any(isinstance(op, onnx.CustomOp) and op.kind is None for op in graph.walk())
    compare(case, sx.run(graph, case.feeds()), by_onnxruntime(model, case.feeds()))


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"scale": 2.0}], ids=str)
def test_angles_that_tell_the_number_of_heads(attributes: dict[str, float]) -> None:
    places = np.array([[0, 1, 2], [2, 1, 0]], np.int64)
    inputs = [f(2, 3, 12), places, f(5, 2), f(5, 2)]
    for symbolic in (False, True):
        case = Case("RotaryEmbedding", inputs, attributes, symbolic=symbolic)
        compare(case, sx.compile(case.model())(case.feeds()), by_onnxruntime(case.model(), case.feeds()))


KNOWN_SIZES = ("ExpandDims", "Range", "GatherND", "EmbedLayerNormalization", "QEmbedLayerNormalization")
"""What onnxruntime wants numbers for."""
SYMBOLIC = [c for c in CASES if c.op not in KNOWN_SIZES and c.domain]


@pytest.mark.parametrize("case", SYMBOLIC[::3], ids=str)
def test_of_any_sizes(case: Case) -> None:
    """Each size of each input is a symbol of its own."""
    case = replace(case, symbolic=True)
    compare(case, sx.run(sx.lower(case.model(), to="graph"), case.feeds()), by_onnxruntime(case.model(), case.feeds()))


@pytest.mark.parametrize("queries", [1, 3])
def test_unidirectional_over_other_keys(queries: int) -> None:
    """The last query sees all keys, whichever it is when the model runs."""
    inputs = [f(2, queries, 8), f(2, 5, 8), f(2, 5, 8), None, i32(np.array([[1, 1, 1, 1, 0], [1, 0, 1, 1, 1]]))]
    for given in (inputs[:3], inputs):
        case = Case("MultiHeadAttention", given, {"num_heads": 2, "unidirectional": 1}, symbolic=True)
        compare(
            case, sx.run(sx.lower(case.model(), to="graph"), case.feeds()), by_onnxruntime(case.model(), case.feeds())
        )


NATIVE = (
    "SkipSimplifiedLayerNormalization", "QLinearAdd", "GroupQueryAttention", "DynamicQuantizeLSTM", "QAttention", "MoE",
    "QMoE",
)  # fmt: skip


@pytest.mark.parametrize("op", NATIVE)
def test_native(op: str) -> None:
    """Nothing is called back, and machine code gives what onnxruntime does."""
    case = next(c for c in CASES if c.op == op)
    program = sx.compile(case.model())
    assert program.explain().to_dict()["hosted"] == []
    compare(case, program(**case.feeds()), by_onnxruntime(case.model(), case.feeds()))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 3), (5, 4)])
def test_windows_beyond_the_padding_are_counted_as_in_the_mean_of_floats(kernel: int, stride: int) -> None:
    """What a last window of `ceil_mode` has beyond the padding is no padding, and is not counted.

    So has onnxruntime's AveragePool it; its QLinearAveragePool divides by the whole window.
    """
    window = {"kernel_shape": [kernel], "strides": [stride], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1}
    x, scale, zero = u8(1, 2, 10), one(0.1), one(100, np.uint8)
    case = Case("QLinearAveragePool", [x, scale, zero, one(0.05), one(110, np.uint8)], window)
    floats = Case("AveragePool", [(x.astype(np.float32) - 100) * np.float32(0.1)], window, domain="")
    [mean] = by_onnxruntime(floats.model(), floats.feeds())
    found = sx.run(sx.lower(case.model(), to="graph"), case.feeds())["y"]
    assert_allclose(found.astype(np.int32), np.clip(np.rint(mean / np.float32(0.05)) + 110, 0, 255), atol=1)


# What onnxruntime has no kernel for on the CPU


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.array([math.erf(v) for v in (x / math.sqrt(2)).ravel()]).reshape(x.shape))


def by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def normalized_groups(x: Array, groups: int, scale: Array, bias: Array) -> Array:
    """With the channels last, and an epsilon of 1e-5."""
    wide = x.astype(np.float64).reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, var = wide.mean((1, 3), keepdims=True), wide.var((1, 3), keepdims=True)
    return ((wide - mean) / np.sqrt(var + 1e-5)).reshape(x.shape) * scale + bias


def convolved(x: Array, w: Array) -> Array:
    """1 x 1, with the channels last."""
    return x @ w[:, :, 0, 0].T


def t5_bucket(distance: int, buckets: int, furthest: int) -> int:
    """The bucket of a distance of key - query where both directions count."""
    start, n = (buckets // 2 if distance > 0 else 0), abs(distance)
    half = buckets // 2
    exact = half // 2
    if n < exact:
        return start + n
    large = exact + int(math.log(n / exact) / math.log(furthest / exact) * (half - exact))
    return start + min(large, half - 1)


def defined() -> Iterator[tuple[Case, Array]]:
    """Cases with what they mean."""
    x, image = f(2, 3, 8), f(1, 3, 8, 8)
    parameters = {"alpha": 1.5, "beta": 0.5}
    yield Case("Affine", [x], parameters, domain=""), 1.5 * x + 0.5
    yield Case("ScaledTanh", [x], parameters, domain=""), 1.5 * np.tanh(0.5 * x)
    yield Case("ParametricSoftplus", [x], parameters, domain=""), 1.5 * np.log1p(np.exp(0.5 * x))
    yield Case("Scale", [x], {"scale": 3.0}, domain=""), 3 * x
    biases = np.array([1, 2, 3], np.float32)
    scaler = {"scale": 1.5, "bias": biases.tolist()}
    yield Case("ImageScaler", [image], scaler, domain=""), 1.5 * image + biases[:, None, None]
    yield Case("Crop", [image], {"border": [1, 2, 3, 1]}, domain=""), image[:, :, 2:-1, 1:-3]
    yield Case("Crop", [image], {"border": [1, 2, 0, 0], "scale": [3, 4]}, domain=""), image[:, :, 2:5, 1:5]
    bias = f(8)
    yield Case("BiasAdd", [x, bias, x]), x + bias + x
    left, right = np.split(x + bias, 2, -1)
    yield Case("BiasSplitGelu", [x, bias]), left * gelu(right)
    w = f(8, 5)
    yield Case("GemmFastGelu", [x, w, bias[:5]]), by_tanh(x @ w + bias[:5])
    yield Case("FusedMatMulActivation", [x, w], {"activation": "Relu", "alpha": 2.0}), np.maximum(2 * (x @ w), 0)
    kernel = f(4, 8, 1, 1)
    pixels, rest = f(1, 2, 3, 8), f(1, 2, 3, 4)
    yield Case("NhwcConv", [pixels, kernel]), convolved(pixels, kernel)
    fused = Case("NhwcFusedConv", [pixels, kernel, None, rest], {"activation": "Relu"})
    yield fused, np.maximum(convolved(pixels, kernel) + rest, 0)
    y = normalized_groups(pixels, 4, bias, bias)
    yield Case("GroupNorm", [pixels, bias, bias], {"groups": 4, "activation": 1}), y * sigmoid(y)
    skip, more = f(1, 8), f(8)
    known = {"groups": 4, "activation": 0}
    y = normalized_groups(pixels + skip + more, 4, bias, bias)
    yield Case("SkipGroupNorm", [pixels, bias, bias, skip, more], known), y
    total = x + f(1)
    e = np.exp(total - total.max(-1, keepdims=True))
    yield Case("BiasSoftmax", [x, total - x], {"axis": 2, "is_inner_broadcast": 1}), e / e.sum(-1, keepdims=True)
    inner = f(2, 8)
    scores = f(2, 3, 4, 8)
    shifted = np.exp(scores + inner[:, None, None])
    softmax = shifted / shifted.sum(-1, keepdims=True)
    yield Case("BiasSoftmax", [scores, inner], {"axis": 3, "is_inner_broadcast": 1}), softmax
    spectrum = np.fft.rfft(x)
    pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    yield Case("Rfft", [x], {"signal_ndim": 1}), pairs
    yield Case("Irfft", [pairs], {"signal_ndim": 1}), x
    gate, up = np.minimum(x[..., :4], 1), np.clip(x[..., 4:], -1, 1)
    limited = {"limit": 1.0, "activation_alpha": 1.7, "activation_beta": 1.0}
    yield Case("SwiGLU", [x], limited), gate * sigmoid(np.float32(1.7) * gate) * (up + 1)
    yield Case("IsAllFinite", [x, np.array([np.nan], np.float32)], {"isinf_only": 1}), np.array(True)
    yield Case("IsAllFinite", [x, np.array([np.inf], np.float32)]), np.array(False)
    a, b = s8(3, 4), s8(4)
    yield Case("ReduceSumInteger", [a], {"axes": [1], "keepdims": 0}), a.astype(int).sum(1)
    integers = [a, one(3, np.int8), b, one(-2, np.int8)]
    yield Case("MulInteger", integers), (a.astype(int) - 3) * (b.astype(int) + 2)
    mean = [a, one(0.5), one(1, np.int8), one(0.25), one(0, np.int8)]
    wanted = np.clip(np.round((a.astype(float) - 1).mean(1) * 0.5 / 0.25), -128, 127)
    yield Case("QLinearReduceMean", mean, {"axes": [1], "keepdims": 0}), wanted
    table = f(8, 2)
    place = np.array([[t5_bucket(k - q, 8, 20) for k in range(6)] for q in range(5)])
    lengths = [one(5, np.int64), one(6, np.int64)]
    known = {"is_bidirectional": 1, "max_distance": 20}
    yield Case("RelativePositionBias", [table, *lengths], known), table[place].transpose(2, 0, 1)[None]


def network(x: Array, first: Array, second: Array, third: Array | None, fusion: int) -> Array:
    """An expert of SiLU, whose gate is the third layer, or in the first one: by turns (1), or first (2)."""
    gate, up = x @ first.T, None if third is None else x @ third.T
    if fusion:
        gate, up = (gate[:, ::2], gate[:, 1::2]) if fusion == 1 else np.split(gate, 2, 1)
    hidden = gate * sigmoid(gate)
    return (hidden if up is None else hidden * up) @ second.T


def mixed(x: Array, weights: Array, layers: list[Array | None], fusion: int = 0) -> Array:
    """All experts' results, by weights [rows, experts]."""
    parts = [network(x, *(None if w is None else w[e] for w in layers), fusion) for e in range(weights.shape[1])]
    return sum(part * weights[:, e, None] for e, part in enumerate(parts))


def by_top(scores: Array, k: int) -> Array:
    """Probabilities, of all but the best 0."""
    likely = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return np.where(likely >= np.sort(likely, 1)[:, -k, None], likely, 0)


def by_sparse_mixer(scores: Array) -> Array:
    weights = np.zeros(scores.shape)
    for row, own in enumerate(scores.astype(np.float64)):
        left = own.copy()
        for _ in range(2):
            best = left.argmax()
            near = (own[best] - own) / np.maximum(np.abs(own), own[best]) <= 0.02
            e = np.where(near, np.exp(left), 0)
            weights[row, best] = e[best] / e.sum()
            left[best] = -np.inf
    return weights


def mixtures() -> Iterator[tuple[Case, Array]]:
    """What onnxruntime has no kernel for on the CPU: gates in a layer of their own or behind one another, the sparse
    mixer, and weights that are not normalized where weights are quantized.
    """
    x, scores = f(6, 16), f(6, 5)
    first, second, third = f(5, 12, 16) * 0.3, f(5, 16, 12) * 0.3, f(5, 12, 16) * 0.3
    wide = f(5, 24, 16) * 0.3
    top = by_top(scores, 2)
    silu = {"k": 2, "activation_type": "silu"}
    yield Case("MoE", [x, scores, first, None, second, None, third], silu), mixed(x, top, [first, second, third])
    for fusion, layers in ((0, [first, second, third]), (2, [wide, second, None])):
        inputs = [x, scores, layers[0], None, second, None, *([] if fusion else [third])]
        known = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": fusion}
        yield Case("MoE", inputs, known), mixed(x, top, layers, fusion)
    near = scores.copy()
    near[:, :3] = 2 + scores[:, :3] * 0.01
    for given in (scores, near):
        known = {**silu, "use_sparse_mixer": 1}
        yield (
            Case("MoE", [x, given, first, None, second], known),
            mixed(x, by_sparse_mixer(given), [first, second, None]),
        )
    packed, scale = [u8(5, 16, 8), u8(5, 16, 8)], one(0.05) * np.ones((5, 16), np.float32)
    weights = [(np.stack([p & 15, p >> 4], -1).reshape(5, 16, 16) - 8.0) * 0.05 for p in packed]
    known = {**silu, "expert_weight_bits": 4}
    inputs = [x, scores, packed[0], scale, None, packed[1], scale]
    yield Case("QMoE", inputs, known, constant=frozenset({2, 3, 5, 6})), mixed(x, top, [*weights, None])


DEFINED = [*defined(), *mixtures()]


@pytest.mark.parametrize("case, wanted", DEFINED, ids=[str(c) for c, _ in DEFINED])
def test_by_definition(case: Case, wanted: Array) -> None:
    found = sx.run(sx.lower(case.model(), to="graph"), case.feeds())["y"]
    assert found.shape == wanted.shape
    assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 2, 17, 17), (0, 4, 4), (2, 0, 0), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("symbolic", [False, True])
def test_inverse(kind: type[np.generic], shape: tuple[int, ...], symbolic: bool) -> None:
    x = f(*shape).astype(kind)
    case = Case("Inverse", [x], symbolic=symbolic)
    program = sx.compile(case.model())
    assert program.explain().to_dict()["hosted"] == []
    found, wanted = program(**case.feeds())["y"], np.linalg.inv(x.astype(np.float64))
    assert found.dtype == x.dtype
    close = 8 * np.finfo(kind).eps if kind != np.float64 else 1e-9  # all are computed in f64
    assert_allclose(found, wanted.astype(kind), rtol=close, atol=1e-12)
    assert_allclose(sx.run(sx.lower(case.model(), to="tensor"), case.feeds())["y"], found, rtol=close)


def test_a_matrix_without_inverse() -> None:
    program = sx.compile(Case("Inverse", [f(2, 3, 3)]).model())
    with pytest.raises(sx.InputError, match=r"com\.microsoft::Inverse: a matrix has no inverse"):
        program(x0=np.ones((2, 3, 3), np.float32))
    assert np.isnan(program(x0=np.full((2, 3, 3), np.nan, np.float32))["y"]).all()


# What is refused


def test_unknown_attribute() -> None:
    with pytest.raises(UnsupportedError, match=r"com.microsoft::FastGelu 'node'.*attribute 'exact' is not supported"):
        sx.lower(Case("FastGelu", [f(3)], {"exact": 1}).model(), to="graph")


@pytest.mark.parametrize(
    "case, message",
    [
        (Case("Attention", [f(1, 2, 4), f(4, 12)], {"num_heads": 2, "do_rotary": 1}), "'do_rotary' is 1"),
        (Case("MatMulNBits", [f(2, 32), u8(4, 2, 8), f(4, 2)], {"K": 32, "N": 4, "bits": 4, "block_size": 8}),
         "'block_size' is 8"),
        (Case("FusedConv", [f(1, 2, 4, 4), f(3, 2, 1, 1)], {"activation": "Sine"}), "activation 'Sine'"),
    ],
)  # fmt: skip
def test_refused(case: Case, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        sx.lower(case.model(), to="graph")


# Tools that keep a model as it is


def test_types_of_a_node_that_stays() -> None:
    node = helper.make_node("SkipLayerNormalization", ["x", "x", "g"], ["y", "", "", "t"], domain="com.microsoft")
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", ["N", "S", 8]), ("g", [8]))]
    results = [helper.make_empty_tensor_value_info(n) for n in ("y", "t")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, results), opset_imports=imports)
    inferred = sx.infer_shapes(model)
    assert list(inferred.graph.node) == [node]
    for info in inferred.graph.output:
        assert [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] == ["N", "S", 8]


def test_in_bodies_and_functions() -> None:
    imports = [helper.make_opsetid(domain, version) for domain, version in (("", 21), ("com.microsoft", 1), ("own", 1))]
    function = parser.parse_function(
        '<opset_import: ["": 21, "com.microsoft": 1], domain: "own"> F (x) => (y) { y = com.microsoft.Gelu(x) }'
    )
    graph = parser.parse_graph(
        """g (float[N] x, bool c) => (float[N] z) {
            y = If (c) <then_branch = t () => (a) { a = com.microsoft.QuickGelu <alpha = 1.0> (x) },
                        else_branch = e () => (b) { b = own.F(x) }>
            z = own.F(y)
        }"""
    )
    model = helper.make_model(graph, opset_imports=imports, functions=[function])
    lowered = sx.lower(model, to="graph")
    x = f(5)
    for chosen in (True, False):
        found = sx.run(lowered, {"x": x, "c": np.array(chosen)})["z"]
        wanted = by_onnxruntime(model, {"x": x, "c": np.array(chosen)})[0]
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_user_has_the_last_word() -> None:
    twice = sx.op("com.microsoft::Gelu")(lambda x: 2 * x)
    case = Case("Gelu", [f(4)])
    graph = sx.lower(case.model(), to="graph", ops=[twice])
    assert_allclose(sx.run(graph, case.feeds(), ops=[twice])["y"], 2 * case.feeds()["x0"])


ELSEWHERE = {"SparseAttention"}
"""Held against numpy in `test_sparse_attention`."""


def test_every_expansion_is_covered() -> None:
    covered = {c.op for c in CASES} | {c.op for c, _ in DEFINED} | ELSEWHERE
    assert {name for _, name in EXPANSIONS} == covered


OF_ANY_RANK = {c.op: c for c in reversed(CASES) if not c.symbolic and c.domain}


@pytest.mark.parametrize("op", sorted(OF_ANY_RANK))
def test_operands_of_no_declared_rank(op: str) -> None:
    """A call tells the ranks, and what reads the node has its types from then on."""
    case = OF_ANY_RANK[op]
    feeds = {
        n: v for k, (n, v) in enumerate(zip(case.names(), case.inputs)) if v is not None and k not in case.constant
    }
    wanted = sx.compile(case.model(), cache=False)(feeds)
    model = case.model()
    for info in model.graph.input:
        info.type.tensor_type.ClearField("shape")
    first = model.graph.output[0].name
    model.graph.node.append(helper.make_node("Cast", [first], ["wide"], to=11))
    model.graph.node.append(helper.make_node("Add", ["wide", "wide"], ["twice"]))
    model.graph.output.append(helper.make_empty_tensor_value_info("twice"))
    found = sx.compile(model, cache=False)(feeds)
    for name, want in wanted.items():
        assert found[name].shape == want.shape and found[name].dtype == want.dtype
        assert_allclose(found[name].astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["twice"], 2 * found[first].astype(np.float64))


OUTPUTS = {
    "SkipLayerNormalization": 4,
    "SkipSimplifiedLayerNormalization": 4,
    "EmbedLayerNormalization": 3,
    "MultiHeadAttention": 3,
    "GroupQueryAttention": 3,
    "Attention": 2,
    "QAttention": 2,
}


@pytest.mark.parametrize("op", OUTPUTS)
def test_outputs_that_nobody_reads(op: str) -> None:
    """Their names change nothing: exporters and optimizers name outputs that they have no use for."""
    case = next(c for c in CASES if c.op == op and not c.symbolic)
    feeds = {
        n: v for k, (n, v) in enumerate(zip(case.names(), case.inputs)) if v is not None and k not in case.constant
    }
    model = case.model()
    wanted = sx.compile(model, cache=False)(feeds)
    [node] = [n for n in model.graph.node if n.op_type == op]
    node.output.extend(f"unread{at}" for at in range(len(node.output), OUTPUTS[op]))
    found = sx.compile(model, cache=False)(feeds)
    for name, want in wanted.items():
        np.testing.assert_array_equal(found[name], want)
    read = model.graph.output[0].name
    for at, name in enumerate(node.output):
        node.output[at] = name if name == read else f"other{at}"
    del model.graph.output[1:]
    np.testing.assert_array_equal(sx.compile(model, cache=False)(feeds)[read], wanted[read])
