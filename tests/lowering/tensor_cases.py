"""Builds kernels of onnx ops together with their values: each op is run by its reference function as it is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from sardonyx.dialects import dims as dims_dialect
from sardonyx.dialects import onnx
from sardonyx.dialects.dims import as_dim, parse_dims, tensor_type
from sardonyx.lowering.tensor import lower_to_tensor
from sardonyx.semantics.reference import REFERENCE
from sardonyx.semantics.tensor_eval import evaluate
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Region, SSAValue

Array = np.ndarray[Any, Any]

DIGITS = {"float64": 1e-12, "float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""Relative error allowed for each float type: a few units in the last place of what an operator computes."""


class Kernel:
    """A kernel function under construction. `symbols` gives d0, d1, ... their values."""

    def __init__(self, **symbols: int) -> None:
        self.symbols = symbols
        self.block = Block(arg_types=[IndexType()] * len(symbols))
        self.inputs: list[Array] = []
        self.values: dict[SSAValue, Array] = {}

    def input(self, array: Array, dims: str | None = None) -> SSAValue:
        """An argument with this value; `dims` in the kernel's symbols, the array's own shape without."""
        array = np.asarray(array)
        value = self.block.insert_arg(self._type(array, dims), len(self.block.args))
        self.inputs.append(array)
        self.values[value] = array
        return value

    def _type(self, array: Array, dims: str | None) -> Any:
        shape = tuple(map(as_dim, array.shape)) if dims is None else parse_dims(dims)
        sizes = tuple(d.evaluate(self.symbols) for d in shape)
        assert sizes == array.shape, f"dims {shape} are {sizes} for shape {array.shape}"
        return tensor_type(onnx.element_of_dtype(array.dtype), shape)

    def constant(self, array: Any, dtype: Any = None) -> SSAValue:
        array = np.asarray(array, dtype)
        op = onnx.ConstantOp.make([], {"value": array}, [self._type(array, None)])
        self.block.add_op(op)
        self.values[op.results[0]] = array
        return op.results[0]

    def sizes(self, text: str) -> SSAValue:
        """A 1-d int64 tensor of expressions."""
        exprs = parse_dims(text)
        op = dims_dialect.TensorOp(exprs, tensor_type(onnx.element_of_dtype(np.dtype(np.int64)), [len(exprs)]))
        self.block.add_op(op)
        self.values[op.result] = np.array([e.evaluate(self.symbols) for e in exprs], np.int64)
        return op.result

    def op(
        self,
        cls: type[onnx.OnnxOp],
        *operands: SSAValue | None,
        dims: str | Sequence[str] | None = None,
        outputs: int = 1,
        **attributes: Any,
    ) -> Any:
        """Adds an op and runs it; gives its result (a list for several)."""
        values = [None if v is None else self.values[v] for v in operands]
        schema = cls.SCHEMA
        found = REFERENCE[schema.domain, schema.op_type](values, attributes, outputs)[:outputs]
        shapes = [dims] * outputs if dims is None or isinstance(dims, str) else list(dims)
        types = [self._type(np.asarray(v), d) for v, d in zip(found, shapes, strict=True)]
        op = cls.make(operands, attributes, types)
        self.block.add_op(op)
        self.values.update(zip(op.results, map(np.asarray, found)))
        return op.results[0] if outputs == 1 else list(op.results)

    def function(self, *results: SSAValue) -> func.FuncOp:
        """The finished kernel."""
        self.expected = [self.values[r] for r in results]
        self.block.add_op(func.ReturnOp(*results))
        types = ([a.type for a in self.block.args], [r.type for r in results])
        return func.FuncOp("k", types, Region(self.block), visibility="private")

    def run(self, *results: SSAValue, tolerance: Mapping[str, float] | float | None = None) -> func.FuncOp:
        """Lowers the kernel, evaluates it and compares with the reference; gives the tensor-level function."""
        lowered = lower_to_tensor(self.function(*results))
        ModuleOp([lowered]).verify()
        got = evaluate(lowered, list(self.symbols.values()), self.inputs)
        for value, expected in zip(got, self.expected, strict=True):
            assert_close(value, expected, tolerance)
        return lowered


def assert_close(got: Array, expected: Array, tolerance: Mapping[str, float] | float | None = None) -> None:
    """Equal, or for floats within a few units in the last place of the greatest magnitude around."""
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    name = expected.dtype.name
    if name not in DIGITS:
        if (
            expected.dtype.itemsize == 1 and expected.dtype.kind not in "iub"
        ):  # less than a byte, or a float of a byte: compared by their bits
            got, expected = got.view(np.uint8), expected.view(np.uint8)
        np.testing.assert_array_equal(got.view(expected.dtype) if expected.dtype.kind == "u" else got, expected)
        return
    assert got.dtype == expected.dtype, f"{got.dtype}, expected {expected.dtype}"
    rtol = tolerance if isinstance(tolerance, float) else (tolerance or DIGITS)[name]
    wide = expected.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(got.astype(np.float64), wide, rtol=rtol, atol=rtol * min(scale, 1.0))


def random(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Values of moderate size; integers over their whole range, or [-100, 100) where that is less."""
    rng = np.random.default_rng([seed, *shape])
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(tuple(shape)) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -100), min(info.max, 100), tuple(shape), dtype, endpoint=True)
    return rng.normal(0, 1.5, tuple(shape)).astype(dtype)


FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
