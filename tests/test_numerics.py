"""The same input gives the same bits: fused or not, on any number of threads, whatever runs beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx as sx

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits.onnx"


def images(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random((count, 1, 8, 8), dtype=np.float32)


def block(seed: int) -> bytes:
    """A residual block of products, normalizations and activations, with a branch, on symbolic rows and columns."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([5, 16, 33]))
    weights = [
        numpy_helper.from_array(rng.standard_normal((width, width)).astype(np.float32) / width**0.5, f"w{i}")
        for i in range(2)
    ]
    scale = numpy_helper.from_array(rng.random(width).astype(np.float32), "scale")
    axes = numpy_helper.from_array(np.array([-1]), "axes")
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["silu"]),
        helper.make_node("Add", ["silu", "x"], ["r"]),
        helper.make_node("ReduceMean", ["r", "axes"], ["mean"], keepdims=1),
        helper.make_node("Sub", ["r", "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "centred"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "axes"], ["variance"], keepdims=1),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Add", ["deviation", "scale"], ["above"]),
        helper.make_node("Div", ["centred", "above"], ["normal"]),
        helper.make_node("Transpose", ["normal"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["normal", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "normal"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "w1"], ["out"]),
        helper.make_node("Tanh", ["out"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "block",
        [value("x", TensorProto.FLOAT, ["B", "T", width])],
        [value("y", TensorProto.FLOAT, None), value("mixed", TensorProto.FLOAT, None)],
        [*weights, scale, axes],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


def width_of(model: bytes) -> int:
    import onnx

    return onnx.ModelProto.FromString(model).graph.input[0].type.tensor_type.shape.dim[2].dim_value


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(np.array_equal(a[name].view(np.uint8), b[name].view(np.uint8)) for name in a)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_quotients_of_integers_that_have_no_value(dtype: str) -> None:
    """By zero they are 0, and so is the rest; the least integer by -1 is itself, with the rest 0.  Nothing traps."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    pairs = [(n, 0) for n in (0, 1, 7, most, least)] + ([(least, -1)] if least else [])
    a, b = (np.array(column, dtype) for column in zip(*pairs))
    want = np.array([0] * 5 + [least] * (least < 0), dtype)
    value = helper.make_tensor_value_info
    for by_number in (False, True):
        for at in range(len(pairs)) if by_number else [slice(None)]:
            x, y = a[at].reshape(-1), b[at].reshape(-1)
            nodes = [helper.make_node("Div", ["a", "b"], ["q"]), helper.make_node("Mod", ["a", "b"], ["r"])]
            nodes.append(helper.make_node("Mod", ["a", "b"], ["f"], fmod=1))
            numbers = [numpy_helper.from_array(y, "b")] if by_number else []
            inputs = [value(n, code, ["N"]) for n in ("a",) + (() if by_number else ("b",))]
            graph = helper.make_graph(nodes, "g", inputs, [value(n, code, None) for n in "qrf"], numbers)
            made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
            feeds = {"a": x} | ({} if by_number else {"b": y})
            for found in sx.compile(made)(feeds), sx.run(sx.lower(made, to="graph"), feeds):
                np.testing.assert_array_equal(found["q"], want[at].reshape(-1))
                np.testing.assert_array_equal(found["r"], 0)
                np.testing.assert_array_equal(found["f"], 0)


def test_fused_and_unfused_are_equal_bit_by_bit() -> None:
    fused, unfused = sx.compile(DIGITS), sx.compile(DIGITS, fuse=False)
    assert len(fused.explain().to_dict()["kernels"]) < len(unfused.explain().to_dict()["kernels"])
    for count in (1, 2, 7, 33):
        assert same(fused(images(count)), unfused(images(count)))


@pytest.mark.parametrize("seed", range(3))
def test_blocks_fused_and_unfused_are_equal(seed: int) -> None:
    model = block(seed)
    fused, unfused = sx.compile(model), sx.compile(model, fuse=False)
    rng = np.random.default_rng(seed)
    for batch, rows in ((1, 1), (2, 3), (1, 40), (3, 17), (0, 4), (2, 0)):
        x = rng.standard_normal((batch, rows, width_of(model))).astype(np.float32)
        assert same(fused(x), unfused(x))


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_right(seed: int) -> None:
    import onnxruntime

    model = block(seed)
    program = sx.compile(model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    for batch, rows in ((1, 1), (2, 3), (1, 40), (3, 17)):
        x = rng.standard_normal((batch, rows, width_of(model))).astype(np.float32)
        for got, want in zip(program.run(None, {"x": x}), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = images(64)
    results = [sx.compile(DIGITS, threads=threads)(x) for threads in (1, 2, 3)]
    assert same(results[0], results[1]) and same(results[0], results[2])


def test_a_row_does_not_depend_on_its_batch() -> None:
    program = sx.compile(DIGITS)
    x = images(33)
    whole = program(x)["probabilities"]
    alone = np.concatenate([program(row[None])["probabilities"] for row in x])
    assert np.array_equal(whole, alone)


def test_concurrent_calls_give_the_same_bits() -> None:
    program = sx.compile(DIGITS)
    x = images(16)
    want = program(x)
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            if not same(program(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
