"""Each upgrade rule, by running old nodes on numbers; and that there is one for every version that reads otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from onnx import ModelProto, NodeProto, TensorProto, defs, helper, parser
from sardonyx.dialects import onnx
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.rewrites.upgrade_rules import RULES
from sardonyx.runtime.errors import InputError, ModelError, UnsupportedError
from sardonyx.semantics.interpreter import run_graph

import sardonyx as sx

Array = np.ndarray
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


X2, X3, X4 = floats(3, 4), floats(2, 3, 4), floats(2, 3, 4, 5)


def model_of(
    nodes: Sequence[NodeProto], opset: int, inputs: Mapping[str, Array], outputs: Sequence[str], ranked: bool = True
) -> ModelProto:
    """A model of an older opset. Without `ranked` its inputs have no declared rank."""
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype) if value.dtype != object else TensorProto.STRING,
            [None] * value.ndim if ranked else None,
        )
        for name, value in inputs.items()
    ]
    graph = helper.make_graph(list(nodes), "g", infos, [helper.make_empty_tensor_value_info(name) for name in outputs])
    domains = {n.domain for n in nodes}
    imports = [helper.make_opsetid(domain, opset if domain == max(domains) else 6) for domain in {"", *domains}]
    return helper.make_model(graph, opset_imports=imports, ir_version=6 if opset >= 6 else 3)


def run(m: ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs after upgrading. Before, the model is written as it came, and after, while untouched, too."""
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    module.verify()
    assert not any(isinstance(op, onnx.VersionedOp) for op in module.walk())
    assert all(onnx.origin_of(op) for op in main_of(module).body.block.ops if isinstance(op, onnx.OnnxOp))
    assert export_model(module, weights) == m
    found = run_graph(module, weights, dict(inputs))
    return [found[info.name] for info in m.graph.output]


def softmax(x: Array, axis: int) -> Array:
    """Over all axes from `axis` on."""
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
    e = np.exp(flat - flat.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).reshape(x.shape)


def normalized(x: Array, scale: Array, bias: Array, mean: Array, var: Array, eps: float = 1e-5) -> Array:
    shape = (1, -1, *[1] * (x.ndim - 2))
    s, b, m, v = (a.reshape(shape) for a in (scale, bias, mean, var))
    return s * (x - m) / np.sqrt(v + eps) + b


def hard(x: Array, axis: int) -> Array:
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return np.eye(flat.shape[1], dtype=np.float32)[flat.argmax(1)].reshape(x.shape)


C3 = {key: np.abs(floats(3)) for key in ("scale", "b", "mean", "var")}
BN = ["x", "scale", "b", "mean", "var"]

Case = tuple[str, int, dict[str, Array], dict[str, Any], list[Array]]


def case(
    op: str, opset: int, inputs: dict[str, Array] | Array, expected: Array | list[Array], **attributes: Any
) -> Case:
    named = {"x": inputs} if isinstance(inputs, np.ndarray) else inputs
    return op, opset, named, attributes, expected if isinstance(expected, list) else [expected]


A, B = floats(2, 3, 4), floats(3)
P, Q = X2 > 0, floats(3, 4) > 0

ATTENDED = {key: floats(1, 1, n, 4) for key, n in (("x", 3), ("k", 5), ("v", 5), ("m", 3))}
ATTENDED["m"] = ATTENDED["m"][..., :1]  # of one key: the same is added to all scores of a row

CASES: list[Case] = [
    # masks
    case(
        "Attention",
        23,
        ATTENDED,
        softmax(ATTENDED["x"] @ ATTENDED["k"].swapaxes(2, 3) / 2, 3) @ ATTENDED["v"],
    ),
    # attributes that became inputs
    case("Squeeze", 1, X3[:1], X3[0], axes=[0]),
    case("Squeeze", 11, X3[:, :1], X3[:, 0], axes=[-2]),
    case("Squeeze", 11, X3[:1, :, :1], X3[0, :, 0]),
    case("Unsqueeze", 1, X2, X2[None, :, None], axes=[0, 2]),
    case("Unsqueeze", 11, X2, X2[..., None], axes=[-1]),
    case("ReduceSum", 1, X3, X3.sum((0, 2), keepdims=True), axes=[0, 2]),
    case("ReduceSum", 11, X3, X3.sum(1), axes=[-2], keepdims=0),
    case("ReduceMean", 13, X3, X3.mean(keepdims=True)),
    case("ReduceMax", 12, X3, X3.max(2), axes=[2], keepdims=0),
    case("ReduceMin", 13, X3, X3.min(0), axes=[0], keepdims=0),
    case("ReduceProd", 1, X3, X3.prod(1), axes=[1], keepdims=0),
    case("ReduceL1", 13, X3, np.abs(X3).sum(1), axes=[1], keepdims=0),
    case("ReduceL2", 11, X3, np.sqrt((X3**2).sum(1)), axes=[1], keepdims=0),
    case("ReduceLogSum", 13, np.abs(X3), np.log(np.abs(X3).sum(1)), axes=[1], keepdims=0),
    case("ReduceLogSumExp", 1, X3, np.log(np.exp(X3).sum(1)), axes=[1], keepdims=0),
    case("ReduceSumSquare", 11, X3, (X3**2).sum((1, 2)), axes=[1, 2], keepdims=0),
    case("Clip", 1, X2, np.minimum(X2, 0.5), max=0.5),
    case("Clip", 6, X2, np.clip(X2, -0.25, 0.5), min=-0.25, max=0.5),
    case("Clip", 6, np.array([np.inf, -np.inf, 1], np.float32), np.array([3.4028235e38, 0, 1], np.float32), min=0.0),
    case("Clip", 6, X2.astype(np.float16), np.clip(X2.astype(np.float16), 0, None), min=0.0),
    case("Pad", 1, X2, np.pad(X2, ((1, 0), (0, 2))), paddings=[1, 0, 0, 2]),
    case("Pad", 2, X2, np.pad(X2, ((1, 0), (0, 2)), constant_values=1.5), pads=[1, 0, 0, 2], value=1.5),
    case("Pad", 2, X2, np.pad(X2, ((1, 1), (0, 0)), "reflect"), pads=[1, 0, 1, 0], mode="reflect"),
    case("Reshape", 1, X2, X2.reshape(3, 2, 2), shape=[0, -1, 2]),
    case("Slice", 1, X3, X3[:, 1:, :-1], axes=[1, 2], starts=[1, 0], ends=[2**31 - 1, -1]),
    case("Slice", 1, X3, X3[1:], starts=[1], ends=[5]),
    case("Split", 1, X2, [X2[:, :1], X2[:, 1:]], axis=1, split=[1, 3]),
    case("Split", 1, {"x": X2, "s": np.array([1, 3], np.float32)}, [X2[:, :1], X2[:, 1:]], axis=1),
    case("Split", 2, X2, [X2[:, :2], X2[:, 2:]], axis=1),
    case("Split", 11, X2, [X2[:2], X2[2:]], split=[2, 1]),
    case("Split", 13, {"x": X2, "s": np.array([1, 2])}, [X2[:1], X2[1:]]),
    case("Split", 13, X2, [X2[:, :2], X2[:, 2:]], axis=-1),
    case("TopK", 1, X2, [-np.sort(-X2)[:, :2], np.argsort(-X2)[:, :2]], k=2),
    case("DFT", 17, floats(1, 4, 1), [], axis=1),
    # attributes that are gone
    *(
        case(op, 1, np.abs(X2) + 0.5, function(np.abs(X2) + 0.5), consumed_inputs=[0])
        for op, function in {
            "Abs": np.abs,
            "Ceil": np.ceil,
            "Exp": np.exp,
            "Floor": np.floor,
            "Log": np.log,
            "Neg": np.negative,
            "Reciprocal": np.reciprocal,
            "Relu": lambda x: np.maximum(x, 0),
            "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
            "Sqrt": np.sqrt,
            "Tanh": np.tanh,
        }.items()
    ),
    case("Elu", 1, X2, np.where(X2 < 0, 2 * np.expm1(X2), X2), alpha=2.0),
    case("HardSigmoid", 1, X2, np.clip(0.2 * X2 + 0.5, 0, 1), consumed_inputs=[0]),
    case("LeakyRelu", 1, X2, np.where(X2 < 0, 0.01 * X2, X2)),
    case("Selu", 1, X2, 1.0507 * np.where(X2 < 0, 1.6732 * np.expm1(X2), X2)),
    case("Max", 1, {"x": X2, "y": -X2}, np.abs(X2), consumed_inputs=[0, 0]),
    case("Min", 1, {"x": X2, "y": -X2}, -np.abs(X2)),
    case("Mean", 1, {"x": X2, "y": 3 * X2}, 2 * X2),
    case("Sum", 1, {"x": X2, "y": X2, "z": X2}, 3 * X2),
    case(
        "Gemm",
        6,
        {"x": X2, "y": floats(4, 5) * 0 + 1, "z": floats(5) * 0 + 2},
        X2.sum(1, keepdims=True) + np.full(5, 2),
        broadcast=1,
    ),
    case("Dropout", 1, X2, X2, is_test=1, consumed_inputs=[0]),
    case("Dropout", 6, X2, [X2, np.ones_like(X2)], is_test=1),
    case("Dropout", 7, X2, [X2, np.ones_like(X2)], ratio=0.9),
    case("Dropout", 10, X2, [X2, np.ones(X2.shape, bool)]),
    # broadcasting
    case("Add", 1, {"x": A, "y": A}, A + A),
    case("Add", 6, {"x": A, "y": B}, A + B[:, None], axis=1, broadcast=1),
    case("Sub", 6, {"x": A, "y": A[0, 0]}, A - A[0, 0], broadcast=1),
    case("Mul", 6, {"x": A, "y": A[:, :, 0]}, A * A[:, :, :1], broadcast=1, axis=0),
    case("Div", 1, {"x": A, "y": B}, A / B[:, None], axis=1, broadcast=1, consumed_inputs=[0, 0]),
    case("Pow", 1, {"x": np.abs(A), "y": B}, np.abs(A) ** B[:, None], axis=1, broadcast=1),
    case("And", 1, {"x": P, "y": Q}, P & Q),
    case("Or", 1, {"x": P, "y": Q[:, 0]}, P | Q[:, :1], axis=0, broadcast=1),
    case("Xor", 1, {"x": P, "y": Q}, P ^ Q),
    case("Less", 1, {"x": A, "y": B}, B[:, None] > A, axis=1, broadcast=1),
    case("Greater", 1, {"x": A, "y": B}, B[:, None] < A, axis=1, broadcast=1),
    case("Equal", 1, {"x": P, "y": Q}, P == Q),
    case("PRelu", 1, {"x": X4, "y": B}, np.where(X4 < 0, X4 * B[:, None, None], X4)),
    case("PRelu", 6, {"x": X4, "y": B}, np.where(X4 < 0, X4 * B[:, None, None], X4)),
    case("PRelu", 6, {"x": X2, "y": B[:1]}, np.where(X2 < 0, X2 * B[0], X2)),
    # axes
    *(case("Softmax", v, X3, softmax(X3, 1)) for v in (1, 11)),
    case("Softmax", 11, X3, softmax(X3, 2), axis=-1),
    case("Softmax", 1, X3, softmax(X3, 2), axis=2),
    case("Softmax", 1, X2, softmax(X2, 1)),
    case("LogSoftmax", 11, X3, np.log(softmax(X3, 0)), axis=0),
    case("Hardmax", 1, X3, hard(X3, 1)),
    case("Concat", 1, {"x": X2, "y": X2}, np.concatenate([X2, X2], 1)),
    case("Tile", 1, {"x": X3, "y": np.array(2, np.float32), "z": np.array(1, np.float32)}, np.tile(X3, (1, 2, 1))),
    # values
    case("Cast", 1, X2, X2.astype(np.int32), to="INT32"),
    case("Cast", 1, X2, X2 != 0, to="BOOL"),
    case("GlobalLpPool", 1, X4, np.sqrt((X4**2).sum((2, 3), keepdims=True))),
    case(
        "LpPool",
        1,
        X4[..., :4],
        np.sqrt((X4[..., :4] ** 2).reshape(2, 3, 2, 2, 2, 2).sum((3, 5))),
        kernel_shape=[2, 2],
        strides=[2, 2],
        p=2.0,
    ),
    case("Upsample", 1, X4, X4.repeat(2, 2).repeat(3, 3), height_scale=2.0, width_scale=3.0),
    case("Upsample", 7, X4, X4.repeat(2, 2), scales=[1.0, 1.0, 2.0, 1.0]),
    case("Upsample", 9, {"x": X4, "s": np.array([1, 2, 1, 1], np.float32)}, X4.repeat(2, 1)),
    case("Resize", 10, {"x": X4, "s": np.array([1, 1, 2, 2], np.float32)}, X4.repeat(2, 2).repeat(2, 3)),
    case(
        "Resize",
        11,
        {"x": X4, "r": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 2], np.float32)},
        X4.repeat(2, 2).repeat(2, 3),
    ),
    case(
        "Resize",
        11,
        {"x": X4, "r": np.zeros(0, np.float32), "s": np.zeros(0, np.float32), "z": np.array([2, 3, 8, 5])},
        X4.repeat(2, 2),
    ),
    case(
        "Resize",
        11,
        {"x": X4, "r": np.zeros(0, np.float32), "s": np.array([1, 1, 1, 2], np.float32)},
        X4.repeat(2, 3),
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="floor",
    ),
    *(
        case(  # (i + 1/2) / 2 is 1/4, 3/4, 5/4, ...
            "Resize",
            11,
            {"x": X4, "r": np.zeros(0, np.float32), "s": np.array([1, 1, 1, 2], np.float32)},
            X4[..., np.minimum(places, X4.shape[3] - 1)],
            coordinate_transformation_mode="tf_half_pixel_for_nn",
            **nearest,
        )
        for nearest, places in (
            ({}, (np.arange(2 * X4.shape[3]) + 1) // 2),
            ({"nearest_mode": "ceil"}, np.arange(2 * X4.shape[3]) // 2 + 1),
        )
    ),
    case(
        "Resize",
        11,
        {"x": X4, "r": np.zeros(0, np.float32), "s": np.array([1, 1, 1, 0.5], np.float32)},
        X4[..., 1::2][..., : X4.shape[3] // 2],  # at 1, 3, ...
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        mode="linear",
    ),
    # normalizations
    *(case("BatchNormalization", v, {"x": X4, **C3}, normalized(X4, *C3.values())) for v in (7, 9)),
    case("BatchNormalization", 9, {"x": X4, **C3}, normalized(X4, *C3.values(), eps=0.5), epsilon=0.5, momentum=0.1),
    case("BatchNormalization", 1, {"x": X4, **C3}, normalized(X4, *C3.values()), is_test=1, consumed_inputs=[0] * 5),
    case("BatchNormalization", 6, {"x": X4, **C3}, normalized(X4, *C3.values()), is_test=1, spatial=1),
    case(
        "InstanceNormalization",
        1,
        {"x": X4, "s": B, "b": B},
        normalized(
            (X4 - X4.mean((2, 3), keepdims=True)) / np.sqrt(X4.var((2, 3), keepdims=True) + 1e-5),
            B,
            B,
            B * 0,
            B * 0 + 1,
            0,
        ),
    ),
    # the rest
    case(
        "Scatter",
        9,
        {"x": X2, "i": np.array([[1, 0, 2, 1]]), "u": np.ones((1, 4), np.float32)},
        np.where(np.arange(3)[:, None] == [1, 0, 2, 1], 1, X2),
    ),
    *(
        case(
            op,
            v,
            {"x": floats(2, 1, 3), "w": floats(1, 2 * gates, 3), "r": floats(1, 2 * gates, 2)},
            [],
            hidden_size=2,
            output_sequence=1,
        )
        for op, v, gates in (("RNN", 1, 1), ("GRU", 3, 3), ("LSTM", 1, 4))
    ),
    case(
        "GRU",
        1,
        {"x": floats(2, 1, 3), "w": floats(1, 6, 3), "r": floats(1, 6, 2)},
        [],
        hidden_size=2,
        direction="foward",
    ),
]


@pytest.mark.parametrize("ranked", [True, False], ids=["ranked", "unranked"])
@pytest.mark.parametrize("at", range(len(CASES)), ids=[f"{c[0]}-{c[1]}-{i}" for i, c in enumerate(CASES)])
def test_old_nodes_compute_what_they_did(at: int, ranked: bool) -> None:
    op, opset, inputs, attributes, expected = CASES[at]
    outputs = [f"out{i}" for i in range(max(len(expected), 2 if op in ("RNN", "GRU", "LSTM") else 1))]
    nodes = [helper.make_node(op, list(inputs), outputs, **attributes)]
    found = run(model_of(nodes, opset, inputs, outputs, ranked), inputs)
    for got, want in zip(found, expected):
        assert got.shape == want.shape
        assert got.dtype == want.dtype or want.dtype == np.float64
        assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-3 if got.dtype == np.float16 else 2e-5)


def test_a_dft_along_an_axis() -> None:
    x = floats(2, 3, 4, 1)
    (found,) = run(model_of([helper.make_node("DFT", ["x"], ["y"], axis=2)], 17, {"x": x}, ["y"]), {"x": x})
    wanted = np.fft.fft(x[..., 0], axis=2)
    assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, atol=1e-5)


def test_recurrent_nodes_of_opset_1_read_as_today() -> None:
    x, w, r = floats(3, 2, 4), floats(1, 5, 4), floats(1, 5, 5)
    nodes = [helper.make_node("RNN", ["x", "w", "r"], ["y", "h"], hidden_size=5)]
    _, state = run(model_of(nodes, 1, {"x": x, "w": w, "r": r}, ["y", "h"]), {"x": x, "w": w, "r": r})
    h = np.zeros((2, 5))
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T)
    assert_allclose(state[0], h, rtol=1e-5)


def test_batch_normalization_of_every_element() -> None:
    inputs = {"x": X4, **{key: np.abs(floats(3, 4, 5)) for key in ("scale", "b", "mean", "var")}}
    nodes = [helper.make_node("BatchNormalization", list(inputs), ["y"], spatial=0)]
    (found,) = run(model_of(nodes, 7, inputs, ["y"]), inputs)
    wanted = inputs["scale"] * (X4 - inputs["mean"]) / np.sqrt(inputs["var"] + 1e-5) + inputs["b"]
    assert_allclose(found, wanted, rtol=1e-4)


def test_batch_normalization_that_trains() -> None:
    inputs = {"x": X4, **C3}
    nodes = [helper.make_node("BatchNormalization", BN, ["y", "m", "v"], momentum=0.25)]
    y, mean, var = run(model_of(nodes, 9, inputs, ["y", "m", "v"]), inputs)
    now = X4.mean((0, 2, 3)), X4.var((0, 2, 3))
    assert_allclose(y, normalized(X4, C3["scale"], C3["b"], *now), rtol=1e-4)
    assert_allclose(mean, 0.25 * C3["mean"] + 0.75 * now[0], rtol=1e-4)
    assert_allclose(var, 0.25 * C3["var"] + 0.75 * now[1], rtol=1e-4)


def test_group_normalization_by_group() -> None:
    x, scale, bias = floats(2, 4, 3), np.array([2, 3], np.float32), np.array([1, -1], np.float32)
    inputs = {"x": x, "s": scale, "b": bias}
    nodes = [helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)]
    (found,) = run(model_of(nodes, 18, inputs, ["y"]), inputs)
    groups = x.reshape(2, 2, 6)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    assert_allclose(found, (normal * scale[:, None] + bias[:, None]).reshape(x.shape), rtol=1e-4, atol=1e-6)


def test_grid_sample_and_roi_align_keep_their_modes() -> None:
    nodes = [helper.make_node("GridSample", ["x", "g"], ["y"])]
    module, _ = import_model(model_of(nodes, 16, {"x": X4, "g": floats(2, 2, 2, 2)}, ["y"]))
    upgrade_opset(module)
    assert onnx.attr(main_of(module).body.block.first_op, "mode") == "linear"
    inputs = {"x": X4, "r": floats(1, 4), "b": np.zeros(1, np.int64)}
    module, _ = import_model(model_of([helper.make_node("RoiAlign", list(inputs), ["y"])], 10, inputs, ["y"]))
    upgrade_opset(module)
    assert onnx.attr(main_of(module).body.block.first_op, "coordinate_transformation_mode") == "output_half_pixel"


@pytest.mark.parametrize("texts", [True, False])
def test_label_encoder_of_version_1(texts: bool) -> None:
    x = np.array(["b", "?", "a"], object) if texts else np.array([1, 7, 0])
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b"])
    (found,) = run(model_of([node], 1, {"x": x}, ["y"]), {"x": x})
    assert found.tolist() == ([1, -1, 0] if texts else ["b", "_Unused", "a"])


def test_scan_over_a_batch() -> None:
    add = helper.make_node("Add", ["state", "item"], ["next"])
    copy = helper.make_node("Identity", ["next"], ["out"])
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("state", "item", "next", "out")]
    body = helper.make_graph([add, copy], "body", infos[:2], infos[2:])
    inputs = {"s": floats(3, 2), "x": floats(3, 4, 2)}
    scan = helper.make_node("Scan", ["", "s", "x"], ["final", "all"], body=body, num_scan_inputs=1)
    final, steps = run(model_of([scan], 8, inputs, ["final", "all"]), inputs)
    sums = inputs["s"][:, None] + inputs["x"].cumsum(1)
    assert_allclose(steps, sums, rtol=1e-5)
    assert_allclose(final, sums[:, -1], rtol=1e-5)


@pytest.mark.parametrize("directions", [[0, 0], [1, 1], [0, 1]], ids=str)
def test_scan_over_sequences_of_different_lengths(directions: list[int]) -> None:
    add, multiply = helper.make_node("Add", ["state", "a"], ["sum"]), helper.make_node("Mul", ["sum", "b"], ["next"])
    copy = helper.make_node("Identity", ["next"], ["out"])
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("state", "a", "b", "next", "out")]
    body = helper.make_graph([add, multiply, copy], "body", infos[:3], infos[3:])
    lengths = np.array([2, 4, 0])
    inputs = {"lengths": lengths, "s": floats(3, 2), "x": floats(3, 4, 2), "y": floats(3, 4, 2)}
    names = ["lengths", "s", "x", "y"]
    scan = helper.make_node("Scan", names, ["final", "all"], body=body, num_scan_inputs=2, directions=directions)
    found = sx.compile(model_of([scan], 8, inputs, ["final", "all"]))(inputs)
    for row, length in enumerate(lengths):
        sequences = [inputs[n][row, :length][:: -1 if back else 1] for n, back in zip("xy", directions)]
        state, steps = inputs["s"][row], np.zeros((4, 2), np.float32)
        for step, (a, b) in enumerate(zip(*sequences)):
            state = steps[step] = (state + a) * b
        assert_allclose(found["final"][row], state, rtol=1e-6)
        assert_allclose(found["all"][row], steps, rtol=1e-6)
    for wrong in (5, -1):
        with pytest.raises(sx.InputError, match="a length that the sequences do not have"):
            sx.compile(model_of([scan], 8, inputs, ["final", "all"]))(inputs | {"lengths": np.array([2, wrong, 0])})


def test_dropout_of_version_1_trains_unless_told_otherwise() -> None:
    module, _ = import_model(model_of([helper.make_node("Dropout", ["x"], ["y"], ratio=0.25)], 1, {"x": X2}, ["y"]))
    upgrade_opset(module)
    dropout = next(op for op in module.walk() if isinstance(op, onnx.DropoutOp))
    assert dropout.training_mode is not None
    assert onnx.attr(dropout.ratio.owner, "value") == np.float32(0.25)


# What did not broadcast

SAME = "its operands have one shape, since without broadcast=1 they do not broadcast"
NEVER = "its operands have one shape, since before opset 8 they do not broadcast"
PRODUCT = "C has the shape of the product, since without broadcast=1 it does not broadcast"
FIRST = "broadcasting to the first operand"


def old_model(text: str, opset: int) -> ModelProto:
    made = helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=[helper.make_opsetid("", opset)])
    made.graph.node[0].name = "old"
    return made


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((f"(float[2, 3, 4] x, float[4] y) => (z) {{ z = {op}(x, y) }}", SAME) for op in ("Add", "Sub", "Mul", "Div")),
        ("(float[2, 3] x, float[2, 1] y) => (z) { z = Pow(x, y) }", f"{SAME}: 3 == 1 cannot hold"),
        ("(float[2, 3] x, float y) => (z) { z = Less(x, y) }", f"{SAME}: ranks 2 and 0"),
        ("(float[2, 3] x, float[3] y) => (z) { z = Greater(x, y) }", SAME),
        ("(int32[2, 3] x, int32[3] y) => (z) { z = Equal(x, y) }", SAME),
        *((f"(bool[2, 3] x, bool[3] y) => (z) {{ z = {op}(x, y) }}", SAME) for op in ("And", "Or", "Xor")),
        (
            "(float[3] x, float[2, 3] y) => (z) { z = Add <broadcast = 1> (x, y) }",
            "rank 2 does not broadcast to rank 1",
        ),
        ("(float[1, 3] x, float[2, 3] y) => (z) { z = Add <broadcast = 1> (x, y) }", f"{FIRST}: 2 == 1 cannot hold"),
        *((f"(float[2, 3] x, float[3] y) => (z) {{ z = {op}(x, y) }}", NEVER) for op in ("Sum", "Max", "Min", "Mean")),
        ("(float[2, 3] x, float[2, 3] y, float[2, 1] v) => (z) { z = Sum(x, y, v) }", f"{NEVER}: 3 == 1 cannot hold"),
        ("(float[2, 3] x, float[3, 4] y, float[4] v) => (z) { z = Gemm(x, y, v) }", f"{PRODUCT}: ranks 2 and 1"),
    ],
)
def test_old_operators_that_do_not_broadcast(text: str, why: str, opset: int) -> None:
    with pytest.raises(ModelError, match=re.escape(f" 'old' (opset {opset}): {why}")) as error:
        sx.lower(old_model(text, opset), to="graph")
    assert "'x' [" in str(error.value) and "'y' [" in str(error.value)


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        ("(float[N, 3] x, float[M, 3] y) => (z) { z = Add(x, y) }", (2, 2), (2, 1)),
        ("(float[N, 3] x, float[M, 3] y) => (z) { z = Greater(x, y) }", (2, 2), (2, 1)),
        ("(float[N, 3] x, float[M, 3] y) => (z) { z = Mean(x, y) }", (2, 2), (2, 1)),
        ("(float[N, 3] x, float[M, 3] y) => (z) { z = Sub <broadcast = 1> (x, y) }", (2, 1), (1, 2)),
        ("(float[N, 3] x, float[M, 3] y) => (z) { z = Gemm <transA = 1> (x, x, y) }", (2, 3), (2, 1)),
    ],
)
def test_symbolic_sizes_of_old_operators_are_guarded(text: str, same: tuple[int, ...], other: tuple[int, ...]) -> None:
    program = sx.compile(old_model(text, 6))
    program(*(floats(n, 3) for n in same))
    with pytest.raises(InputError, match="does not hold"):
        program(*(floats(n, 3) for n in other))


def test_old_operators_of_any_rank() -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g", infos[:2], infos[2:])
    program = sx.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)]))
    assert_allclose(program(X2, X2)["z"], X2 + X2)
    for y in (X2[0], X2[:1]):
        with pytest.raises(InputError, match="its operands have one shape"):
            program(X2, y)


# The rules as a whole


def test_every_version_that_reads_otherwise_has_a_rule() -> None:
    missing = {
        (s.domain, s.name, s.since_version)
        for s in defs.get_all_schemas_with_history()
        if s.since_version < onnx.OP_BY_NAME[s.domain, s.name].SCHEMA.compatible and (s.domain, s.name) not in RULES
    }
    assert missing == set()


def test_every_rule_is_run_here() -> None:
    ran = {c[0] for c in CASES} | {"GroupNormalization", "GridSample", "RoiAlign", "LabelEncoder", "Scan"}
    assert {name for _, name in RULES} <= ran


def test_nodes_that_read_as_today_stay_the_file_s() -> None:
    m = model_of([helper.make_node("Relu", ["x"], ["y"])], 6, {"x": X2}, ["y"])
    module, weights = import_model(m)
    before = str(module)
    upgrade_opset(module, weights)
    assert str(module) == before


def refused(node: NodeProto, opset: int, inputs: dict[str, Array]) -> str:
    module, weights = import_model(model_of([node], opset, inputs, [o for o in node.output if o]))
    with pytest.raises(UnsupportedError) as caught:
        upgrade_opset(module, weights)
    return str(caught.value)


def test_what_has_no_equivalent_is_refused() -> None:
    make: Callable[..., NodeProto] = helper.make_node
    bn = {"x": X4, **C3}
    assert "its p is 1.5" in refused(make("GlobalLpPool", ["x"], ["y"], p=1.5), 1, {"x": X4})
    assert "statistics are read" in refused(make("BatchNormalization", BN, ["y", "", "", "m"]), 9, bn)
    assert "in test mode" in refused(make("BatchNormalization", BN, ["y", "m"], is_test=1), 6, bn)
    assert "no element type 'FANCY'" in refused(make("Cast", ["x"], ["y"], to="FANCY"), 1, {"x": X2})
    both = [make("Cast", ["x"], ["y"], to="FANCY", name="one"), make("GlobalLpPool", ["x"], ["z"], p=0.5, name="two")]
    module, _ = import_model(model_of(both, 1, {"x": X4}, ["y", "z"]))
    with pytest.raises(UnsupportedError, match=r"'one' is Cast-1(.|\n)*'two' is GlobalLpPool-1"):
        upgrade_opset(module)


def test_values_keep_their_names() -> None:
    module, weights = import_model(model_of([helper.make_node("Softmax", ["x"], ["y"])], 11, {"x": X3}, ["y"]))
    upgrade_opset(module, weights)
    returned = main_of(module).body.block.last_op.operands[0]
    assert isinstance(returned.owner, onnx.ReshapeOp)
    assert onnx.value_name(returned) == "y"
    assert returned.name_hint == "y"
