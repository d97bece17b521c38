"""Builds tensor-level kernels for the tests of the loops level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import Dim, ShapeAttr, as_dim
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

Size = int | str | Dim
Body = Callable[..., "SSAValue | Sequence[SSAValue]"]

F16, BF16, F32, F64, INDEX = Float16Type(), BFloat16Type(), Float32Type(), Float64Type(), IndexType()
I1, I8, I32, I64 = (IntegerType(n) for n in (1, 8, 32, 64))

DTYPES: dict[Attribute, np.dtype[Any]] = {
    F16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    I1: np.dtype(np.bool_),
    I8: np.dtype(np.int8),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
}


@dataclass(frozen=True)
class Out:
    """A result: the loop along each axis (None: an axis of size 1); `combine` from `initial` where it is reduced."""

    axes: tuple[int | None, ...]
    element: Attribute = F32
    combine: type[Operation] | None = None
    initial: float = 0.0


class Ops:
    """Appends scalar ops to a body."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __call__(self, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        op = kind(*args)
        self.block.add_op(op)
        return op.results[0] if op.results else args[0]

    def const(self, value: float, element: Attribute = F32) -> SSAValue:
        attribute = (
            IntegerAttr(int(value), element)
            if isinstance(element, IntegerType | IndexType)
            else FloatAttr(value, element)
        )
        return self(arith.ConstantOp, attribute)

    def index(self, loop: int) -> SSAValue:
        return self(linalg.IndexOp, loop)

    def dim(self, size: Size) -> SSAValue:
        return self(kernel.DimOp, size)

    def extract(self, source: SSAValue, *indices: SSAValue) -> SSAValue:
        assert isinstance(source.type, TensorType)
        return self(tensor.ExtractOp, source, list(indices), source.type.element_type)


@dataclass
class TensorKernel:
    """A kernel under construction: `symbols` index arguments, then inputs, then generics, then `finish`."""

    symbols: int = 0
    arguments: list[tuple[Attribute, tuple[Dim, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.block = Block(arg_types=[INDEX] * self.symbols)
        self.dims: dict[SSAValue, tuple[Dim, ...]] = {}

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def input(self, *dims: Size, element: Attribute = F32) -> SSAValue:
        shape = tuple(map(as_dim, dims))
        value = self.block.insert_arg(tensor_of(element, shape), len(self.block.args))
        self.arguments.append((element, shape))
        self.dims[value] = shape
        return value

    def dense(self, array: np.ndarray, element: Attribute = F32) -> SSAValue:
        shape = tuple(map(as_dim, array.shape))
        kind = tensor_of(element, shape)
        value = self.add(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, array.ravel().tolist())))
        self.dims[value] = shape
        return value

    def view(self, source: SSAValue, *dims: Size) -> SSAValue:
        shape = tuple(map(as_dim, dims))
        assert isinstance(source.type, TensorType)
        op = kernel.ViewOp(source, tensor_of(source.type.element_type, shape))
        op.attributes["dims"] = ShapeAttr(shape)
        self.dims[op.result] = shape
        return self.add(op)

    def sizes(self, shape: Sequence[Dim]) -> list[SSAValue]:
        return [self.add(kernel.DimOp(d)) for d in shape if not d.is_const]

    def generic(
        self,
        extents: Sequence[Size],
        inputs: Sequence[tuple[SSAValue, Sequence[int | None]]],
        outputs: Sequence[Out],
        body: Body,
    ) -> Any:
        """Adds a generic; `body(ops, *scalars)` gives a value for each output. Returns one tensor, or a tuple."""
        loops = tuple(map(as_dim, extents))
        maps = [affine(len(loops), axes) for _, axes in inputs] + [affine(len(loops), o.axes) for o in outputs]
        kinds = [
            IteratorType.PARALLEL if all(i in o.axes or o.combine is None for o in outputs) else IteratorType.REDUCTION
            for i in range(len(loops))
        ]
        initial = [self._initial(o, tuple(as_dim(1) if a is None else loops[a] for a in o.axes)) for o in outputs]
        block = Block(arg_types=[*(element(v) for v, _ in inputs), *(o.element for o in outputs)])
        ops = Ops(block)
        values = body(ops, *block.args[: len(inputs)])
        values = [values] if isinstance(values, SSAValue) else list(values)
        yielded = [
            v if o.combine is None else ops(o.combine, argument, v)
            for v, o, argument in zip(values, outputs, block.args[len(inputs) :], strict=True)
        ]
        block.add_op(linalg.YieldOp(*yielded))
        op = linalg.GenericOp(
            [v for v, _ in inputs],
            initial,
            Region(block),
            maps,
            list(map(IteratorTypeAttr, kinds)),
            [i.type for i in initial],
        )
        self.add(op)
        for result, start in zip(op.res, initial):
            self.dims[result] = self.dims[start]
        return op.res[0] if len(op.res) == 1 else tuple(op.res)

    def _initial(self, out: Out, shape: tuple[Dim, ...]) -> SSAValue:
        kind = tensor_of(out.element, shape)
        if out.combine is None:
            value = self.add(tensor.EmptyOp(self.sizes(shape), kind))
        else:
            scalar = Ops(self.block).const(out.initial, out.element)
            value = self.add(tensor.SplatOp(scalar, self.sizes(shape), kind))
        self.dims[value] = shape
        return value

    def map(self, source: SSAValue, body: Body, element_type: Attribute | None = None) -> SSAValue:
        """A pointwise generic of one operand."""
        axes = tuple(range(len(self.dims[source])))
        return self.generic(self.dims[source], [(source, axes)], [Out(axes, element_type or element(source))], body)

    def finish(self, *results: SSAValue) -> FuncOp:
        self.block.add_op(ReturnOp(*results))
        self.results = [(element(r), self.dims[r]) for r in results]
        types = [a.type for a in self.block.args]
        function = FuncOp("k", (types, [r.type for r in results]), Region(self.block), visibility="private")
        function.attributes["kernel.arg_dims"] = ArrayAttr([ShapeAttr(d) for _, d in self.arguments])
        function.attributes["kernel.result_dims"] = ArrayAttr([ShapeAttr(d) for _, d in self.results])
        function.verify()
        return function


def tensor_of(kind: Attribute, shape: Sequence[Dim]) -> TensorType:
    return TensorType(kind, [d.value if d.is_const else DYNAMIC_INDEX for d in shape])


def element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.element_type


def affine(rank: int, axes: Sequence[int | None]) -> AffineMapAttr:
    results = tuple(AffineConstantExpr(0) if a is None else AffineDimExpr(a) for a in axes)
    return AffineMapAttr(AffineMap(rank, 0, results))
