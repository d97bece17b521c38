"""Products made of the matmul and conv templates: quantized ones, einsum; rotary embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import kernel as kernel_dialect
from sardonyx.dialects import onnx

from .tensor_cases import Kernel, random

EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("bqhd,bkhd->bhqk", ((2, 4, 3, 5), (2, 6, 3, 5))),
    ("ij,ij->", ((2, 3), (2, 3))),
    ("ij->ji", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
    ("bij,bjk->bki", ((2, 3, 4), (2, 4, 5))),
    ("ab,cd->bd", ((2, 3), (4, 5))),
    ("iji,jk->ik", ((3, 4, 3), (4, 2))),
    ("ij,j->i", ((2, 3), (3,))),
    ("ijk,k->ij", ((2, 1, 4), (4,))),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...], dtype: Any) -> None:
    kernel = Kernel()
    operands = [kernel.input(random(s, dtype, k)) for k, s in enumerate(shapes)]
    kernel.run(kernel.op(onnx.EinsumOp, *operands, equation=equation))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_einsum_of_unknown_sizes(n: int) -> None:
    kernel = Kernel(d0=n, d1=4)
    q, k = kernel.input(random((2, n, 5)), "2, d0, 5"), kernel.input(random((2, 4, 5)), "2, d1, 5")
    lowered = kernel.run(kernel.op(onnx.EinsumOp, q, k, equation="hqd,hkd->hqk", dims="2, d0, d1"))
    [template] = [op for op in lowered.walk() if isinstance(op, kernel_dialect.TemplateOp)]
    assert template.operands[0].owner is lowered.body.block, "the operand is read where it is"


def quantized(kernel: Kernel, shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    return kernel.input(random(shape, dtype, seed))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("by_axis", [False, True])
def test_quantized_matmul(kind: Any, by_axis: bool) -> None:
    kernel = Kernel(d0=3)
    a, b = kernel.input(random((3, 4), np.uint8), "d0, 4"), quantized(kernel, (4, 5), kind, 1)
    a_zero = kernel.input(np.array(3, np.uint8))
    b_zero = kernel.input(np.arange(5).astype(kind) if by_axis else np.array(2, kind))
    b_scale = kernel.input(np.linspace(0.1, 0.2, 5).astype(np.float32) if by_axis else np.array([0.2], np.float32))
    a_scale, y_scale = kernel.input(np.array(0.02, np.float32)), kernel.input(np.array(0.3, np.float32))
    y_zero = kernel.input(np.array(100, np.uint8))
    lowered = kernel.run(
        kernel.op(onnx.QLinearMatMulOp, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, dims="d0, 5"),
        kernel.op(onnx.MatMulIntegerOp, a, b, a_zero, b_zero, dims="d0, 5"),
        kernel.op(onnx.MatMulIntegerOp, a, b, dims="d0, 5"),
    )
    assert len([op for op in lowered.walk() if isinstance(op, kernel_dialect.TemplateOp)]) == 3


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_quantized_convolution(by_channel: bool, group: int) -> None:
    kernel = Kernel()
    x, w = kernel.input(random((2, 4, 6, 5), np.uint8)), kernel.input(random((6, 4 // group, 3, 3), np.int8, 1))
    x_zero, y_zero = kernel.input(np.array(7, np.uint8)), kernel.input(np.array(9, np.uint8))
    w_zero = kernel.input(np.arange(6).astype(np.int8) if by_channel else np.array(1, np.int8))
    w_scale = kernel.input(np.linspace(0.1, 0.2, 6).astype(np.float32) if by_channel else np.array(0.1, np.float32))
    scale, bias = kernel.input(np.array(0.05, np.float32)), kernel.input(random((6,), np.int32))
    y_scale = kernel.input(np.array(4.0, np.float32))
    names = {"group": group, "pads": [1, 1, 1, 0], "strides": [2, 1]}
    kernel.run(
        kernel.op(onnx.QLinearConvOp, x, scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias, **names),
        kernel.op(onnx.QLinearConvOp, x, scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, **names),
        kernel.op(onnx.ConvIntegerOp, x, w, x_zero, w_zero, **names),
        kernel.op(onnx.ConvIntegerOp, x, w, **names),
    )


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotary_embedding(interleaved: int, width: int, dtype: Any) -> None:
    kernel = Kernel(d0=3)
    half = (width or 8) // 2
    x = kernel.input(random((2, 5, 3, 8), dtype), "2, 5, d0, 8")
    flat = kernel.input(random((2, 3, 40), dtype), "2, d0, 40")
    cosines, sines = (kernel.input(random((9, half), dtype, k)) for k in (1, 2))
    positions = kernel.input(np.array([[0, 8, 2], [1, 1, 5]]), "2, d0")
    by_row = [kernel.input(random((2, 3, half), dtype, k), f"2, d0, {half}") for k in (3, 4)]
    names = {"interleaved": interleaved, "rotary_embedding_dim": width}
    op = onnx.RotaryEmbeddingOp
    lowered = kernel.run(
        kernel.op(op, x, cosines, sines, positions, dims="2, 5, d0, 8", **names),
        kernel.op(op, flat, *by_row, num_heads=5, dims="2, d0, 40", **names),
    )
    assert not any(op.name in ("arith.divui", "arith.remui") for op in lowered.walk())
