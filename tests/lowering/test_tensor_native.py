"""Random kernels compiled: fused they give the same bits as one kernel for each operator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import dims, onnx
from sardonyx.lowering.loops import lower_to_loops
from sardonyx.lowering.tensor import lower_to_tensor
from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from .kernel_cases import Kernel as CompiledKernel
from .kernel_cases import host_target
from .tensor_cases import Array, Kernel, assert_close
from .test_tensor_fusion import generate

_numbers = itertools.count()


def run_native(
    function: func.FuncOp, symbols: Sequence[int], inputs: Sequence[Array], like: Sequence[Array]
) -> list[Array]:
    """The results of a kernel of onnx ops, compiled, in arrays of the shapes and types of `like`."""
    loops = lower_to_loops(lower_to_tensor(function), host_target())
    loops.properties["sym_name"] = StringAttr(f"native{next(_numbers)}")
    outputs = [np.full(e.shape, 1, e.dtype) for e in like]
    arrays = [np.array(i, order="C") for i in inputs]
    CompiledKernel(loops, host_target(), threads=2).run(symbols, *arrays, *outputs)
    return outputs


def one_by_one(kernel: Kernel, results: Sequence[SSAValue]) -> list[Array]:
    """The same values by one kernel an operator."""
    arguments = list(kernel.block.args)[len(kernel.symbols) :]
    values: dict[SSAValue, Array] = dict(zip(arguments, kernel.inputs))
    for op in list(kernel.block.ops):
        if isinstance(op, onnx.ConstantOp | dims.TensorOp):
            continue
        single = Kernel(**kernel.symbols)
        mapped: dict[SSAValue, SSAValue] = {}
        for operand in op.operands:
            if isinstance(operand.owner, onnx.ConstantOp | dims.TensorOp):
                constant = operand.owner.clone()
                single.block.add_op(constant)
                mapped[operand] = constant.results[0]
            elif operand not in mapped:
                mapped[operand] = single.block.insert_arg(operand.type, len(single.block.args))
                single.inputs.append(values[operand])
        new = op.clone(mapped)
        single.block.add_op(new)
        like = [kernel.values[r] for r in op.results]
        single.values.update(zip(new.results, like))
        function = single.function(*new.results)
        values.update(zip(op.results, run_native(function, list(kernel.symbols.values()), single.inputs, like)))
    return [values[r] for r in results]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("seed", range(5))
def test_fusion_does_not_change_a_bit(seed: int, dtype: Any) -> None:
    kernel, results = generate(4000 + seed, dtype, (3, 5), exact=False, length=7)
    separate = one_by_one(kernel, results)
    like = [kernel.values[r] for r in results]
    fused = run_native(kernel.function(*results), list(kernel.symbols.values()), kernel.inputs, like)
    for a, b in zip(fused, separate, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(15))
def test_compiled_kernels_agree_with_the_reference(seed: int) -> None:
    sizes = [(2, 3), (1, 2), (3, 1), (0, 2)][seed % 4]
    kernel, results = generate(5000 + seed, np.float32, sizes, exact=seed % 3 == 0, length=12)
    like = [kernel.values[r] for r in results]
    got = run_native(kernel.function(*results), list(kernel.symbols.values()), kernel.inputs, like)
    for value, expected in zip(got, like, strict=True):
        assert_close(value, expected, 1e-3)
