"""Kernel templates with their epilogues, and what becomes of the operators around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import kernel as kernel_dialect
from sardonyx.dialects import onnx
from xdsl.dialects import func

from .tensor_cases import FLOATS, Kernel, random


def templates(function: func.FuncOp) -> list[kernel_dialect.TemplateOp]:
    return [op for op in function.walk() if isinstance(op, kernel_dialect.TemplateOp)]


def generics(function: func.FuncOp) -> int:
    return sum(op.name == "linalg.generic" for op in function.walk())


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 2))],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: Any) -> None:
    kernel = Kernel()
    kernel.run(kernel.op(onnx.MatMulOp, kernel.input(random(a, dtype)), kernel.input(random(b, dtype))))


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_with_bias_and_relu_is_one_template(dtype: Any) -> None:
    kernel = Kernel(d0=3)
    x, w = kernel.input(random((3, 4), dtype), "d0, 4"), kernel.input(random((4, 5), dtype))
    bias, residual = kernel.input(random((5,), dtype)), kernel.input(random((3, 5), dtype), "d0, 5")
    y = kernel.op(onnx.MatMulOp, x, w, dims="d0, 5")
    y = kernel.op(onnx.AddOp, y, bias, dims="d0, 5")
    y = kernel.op(onnx.AddOp, kernel.op(onnx.ReluOp, y, dims="d0, 5"), residual, dims="d0, 5")
    lowered = kernel.run(y)
    [template] = templates(lowered)
    assert template.epilogue is not None and generics(lowered) == 0


def test_two_results_of_one_product() -> None:
    kernel = Kernel()
    y = kernel.op(onnx.MatMulOp, kernel.input(random((3, 4))), kernel.input(random((4, 5))))
    lowered = kernel.run(y, kernel.op(onnx.ExpOp, y))
    assert len(templates(lowered)) == 1


def test_an_operand_of_the_epilogue_that_is_computed_first() -> None:
    kernel = Kernel()
    y = kernel.op(onnx.MatMulOp, kernel.input(random((3, 4))), kernel.input(random((4, 5))))
    mean = kernel.op(onnx.ReduceMeanOp, kernel.input(random((3, 7))), kernel.constant([1], np.int64))
    kernel.run(kernel.op(onnx.AddOp, y, mean))


def test_computed_operands_are_written_first() -> None:
    kernel = Kernel(d0=3)
    x = kernel.op(onnx.NegOp, kernel.input(random((3, 4)), "d0, 4"), dims="d0, 4")
    flat = kernel.op(onnx.ReshapeOp, kernel.input(random((2, 2, 5))), kernel.constant([4, 5], np.int64))
    lowered = kernel.run(kernel.op(onnx.MatMulOp, x, flat, dims="d0, 5"))
    assert generics(lowered) == 1  # the reshape is a view


def test_a_product_with_softmax_behind() -> None:
    kernel = Kernel(d0=3)
    a, b = kernel.input(random((2, 3, 4)), "2, d0, 4"), kernel.input(random((2, 3, 4), seed=1), "2, d0, 4")
    turned = kernel.op(onnx.TransposeOp, b, perm=[0, 2, 1], dims="2, 4, d0")
    scores = kernel.op(onnx.MatMulOp, a, turned, dims="2, d0, d0")
    scale = kernel.constant(0.5, np.float32)
    scores = kernel.op(onnx.MulOp, scores, scale, dims="2, d0, d0")
    lowered = kernel.run(kernel.op(onnx.SoftmaxOp, scores, dims="2, d0, d0"))
    [template] = templates(lowered)
    assert "trans_b" in template.config.data


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_gemm(trans_a: int, trans_b: int, dtype: Any) -> None:
    kernel = Kernel()
    a, b = (
        kernel.input(random((3, 4)[:: -1 if trans_a else 1], dtype)),
        kernel.input(random((4, 5)[:: -1 if trans_b else 1], dtype)),
    )
    c = kernel.input(random((5,), dtype))
    kernel.run(
        kernel.op(onnx.GemmOp, a, b, c, transA=trans_a, transB=trans_b, alpha=0.5, beta=1.5),
        kernel.op(onnx.GemmOp, a, b, transA=trans_a, transB=trans_b),
    )


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((7, 6), (4, 3, 3, 3), {}),
    ((7, 6), (4, 3, 3, 2), {"pads": [1, 0, 1, 1], "strides": [2, 1]}),
    ((7, 6), (6, 1, 2, 2), {"group": 3, "dilations": [2, 1]}),
    ((7, 6), (4, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((7, 6), (4, 3, 2, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    ((9,), (4, 3, 3), {"pads": [2, 0]}),
]


@pytest.mark.parametrize(("spatial", "weight", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolution(spatial: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any], dtype: Any) -> None:
    kernel = Kernel()
    x, w = kernel.input(random((2, 3, *spatial), dtype)), kernel.input(random(weight, dtype, 1))
    bias = kernel.input(random(weight[:1], dtype, 2))
    y = kernel.op(onnx.ReluOp, kernel.op(onnx.ConvOp, x, w, bias, **attributes))
    lowered = kernel.run(y, kernel.op(onnx.ConvOp, x, w, **attributes))
    assert generics(lowered) == 0


def test_convolution_of_an_unknown_size() -> None:
    kernel = Kernel(d0=7)
    x, w = kernel.input(random((1, 3, 7)), "1, 3, d0"), kernel.input(random((4, 3, 3)))
    y = kernel.op(onnx.ConvOp, x, w, auto_pad="SAME_UPPER", strides=[2], dims="1, 4, (d0 + 1)//2")
    kernel.run(y)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 0, 1]},
        {"strides": [2, 2], "output_padding": [1, 0]},
        {"strides": [2, 2], "output_shape": [10, 9]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"dilations": [2, 1], "group": 3},
    ],
)
def test_transposed_convolution(attributes: dict[str, Any]) -> None:
    kernel = Kernel()
    weight = (3, 2, 3, 3)
    x, w = kernel.input(random((2, 3, 5, 4))), kernel.input(random(weight, seed=1))
    bias = kernel.input(random((2 * attributes.get("group", 1),), seed=2))
    kernel.run(kernel.op(onnx.ReluOp, kernel.op(onnx.ConvTransposeOp, x, w, bias, **attributes)))


def test_operators_that_are_templates_of_their_own() -> None:
    kernel = Kernel()
    x, k = kernel.input(random((3, 5))), kernel.constant([2], np.int64)
    values, indices = kernel.op(onnx.TopKOp, x, k, outputs=2)
    a, b = kernel.input(random((3, 4), np.uint8)), kernel.input(random((4, 2), np.int8))
    zero = kernel.input(np.array(3, np.uint8))
    data, places, updates = (
        kernel.input(random((4, 2))),
        kernel.input(np.array([[1], [3]])),
        kernel.input(random((2, 2))),
    )
    kernel.run(
        values,
        indices,
        kernel.op(onnx.MatMulIntegerOp, a, b, zero),
        kernel.op(onnx.CumSumOp, x, kernel.input(np.array(1)), reverse=1),
        kernel.op(onnx.EinsumOp, x, x, equation="ij,kj->ik"),
        kernel.op(onnx.ScatterNDOp, data, places, updates, reduction="add"),
        kernel.op(onnx.ReluOp, values),
    )


def test_absent_operands_and_results_of_a_recurrence() -> None:
    kernel = Kernel()
    x, w, r = kernel.input(random((4, 2, 3))), kernel.input(random((1, 20, 3))), kernel.input(random((1, 20, 5)))
    state = kernel.input(random((1, 2, 5)))
    results = kernel.op(onnx.LSTMOp, x, w, r, None, None, state, outputs=3, hidden_size=5)
    lowered = kernel.run(*results)
    [template] = templates(lowered)
    assert template.config.data["operands"] == onnx.ints_attr((0, 1, 2, 5))


def test_transposes_between_product_and_result_are_written_once() -> None:
    kernel = Kernel(d0=2, d1=3)
    x, w = kernel.input(random((2, 3, 4)), "d0, d1, 4"), kernel.input(random((4, 6)))
    y = kernel.op(onnx.MatMulOp, x, w, dims="d0, d1, 6")
    heads = kernel.op(onnx.ReshapeOp, y, kernel.sizes("d0, d1, 2, 3"), dims="d0, d1, 2, 3")
    lowered = kernel.run(kernel.op(onnx.TransposeOp, heads, perm=[0, 2, 1, 3], dims="d0, 2, d1, 3"))
    assert generics(lowered) == 1
