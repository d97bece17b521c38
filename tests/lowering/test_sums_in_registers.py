"""Sums of a register tile stay in registers, whatever the kernel does around them."""

from __future__ import annotations

import re

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from sardonyx.dialects.target import AVX2, AVX512, Target

from sardonyx.compiler import emitted


def assembly(target: Target, stride: int) -> str:
    """Of a convolution of any size with an epilogue of a dozen constants, in loops over rows, columns and channels."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[1,16,H,W] x) => (float[1,32,P,Q] y)
        {{ c = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[{stride},{stride}]> (x, w)
           s = Sigmoid (c)
           y = Mul (c, s) }}"""
    )
    w = np.random.default_rng(0).standard_normal((32, 16, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return emitted(model, "asm", target=target, kernel="conv_swish_0")[0]


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_no_sum_goes_to_the_stack_in_its_loop(target: Target) -> None:
    """Without knowing which loops turn often, LLVM keeps the epilogue's constants, and moves the sums."""
    blocks = re.split(r"^\.L\w+:", assembly(target, 2), flags=re.MULTILINE)
    sums = [b for b in blocks if b.count("vfmadd231ps") >= 8 and "vdivps" not in b]
    assert sums
    for block in sums:
        moved = [line for line in block.splitlines() if re.search(r"vmov[au]ps.*[xyz]mm.*\(%rsp\)", line)]
        assert len(moved) <= 1, block
