"""Random kernels of many operators: fused they give what the operators give one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import onnx
from sardonyx.dialects.dims import Dim, Dims, as_dim, dims_of
from sardonyx.dialects.kernel import Kernel as KernelDialect
from sardonyx.dialects.structured import Linalg
from sardonyx.dialects.vectorx import VectorX
from sardonyx.lowering.tensor import lower_to_tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, scf, tensor
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from .tensor_cases import Kernel, random

POINTWISE = [onnx.AbsOp, onnx.NegOp, onnx.ReluOp, onnx.TanhOp, onnx.SigmoidOp, onnx.GeluOp, onnx.FloorOp]
BINARY = [onnx.AddOp, onnx.SubOp, onnx.MulOp, onnx.MaxOp, onnx.MinOp]


class Generator:
    """Adds random operators to a kernel. The shapes are [d0, d1, 4, 6] and what movement makes of it."""

    def __init__(self, seed: int, dtype: Any, sizes: tuple[int, int], exact: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.exact = exact
        self.kernel = Kernel(d0=sizes[0], d1=sizes[1])
        self.values: list[SSAValue] = []
        for k, dims in enumerate(("d0, d1, 4, 6", "d0, d1, 4, 6", "d1, 1, 6", "4, 1", "d0, 1, 1, 1")):
            self.values.append(self.input(dims, k))

    def input(self, dims: str, seed: int) -> SSAValue:
        shape = [d.evaluate(self.kernel.symbols) for d in map(as_dim, dims.split(", "))]
        return self.kernel.input(random(shape, self.dtype, seed), dims)

    def pick(self) -> SSAValue:
        """Later values more often."""
        at = int(len(self.values) * self.rng.random() ** 0.5)
        return self.values[min(at, len(self.values) - 1)]

    def choice(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def add(self, op: type[onnx.OnnxOp], *operands: SSAValue | None, dims: tuple[Dim, ...], **attributes: Any) -> None:
        text = ", ".join(map(str, dims))
        self.values.append(self.kernel.op(op, *operands, dims=text, **attributes))

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            self.unary, self.binary, self.binary, self.transpose, self.merge, self.split, self.slice, self.pad,
            self.concat, self.where, self.gather, self.expand,
        ]  # fmt: skip
        if not self.exact:
            steps += [self.reduce, self.softmax, self.normalize, self.matmul]
        self.choice(steps)()

    def unary(self) -> None:
        x = self.pick()
        self.add(self.choice(POINTWISE), x, dims=dims_of(x))

    def binary(self) -> None:
        a = self.pick()
        for _ in range(20):
            b = self.pick()
            if (dims := broadcast(dims_of(a), dims_of(b))) is not None:
                return self.add(self.choice(BINARY), a, b, dims=dims)
        return None

    def where(self) -> None:
        a = self.pick()
        shape = dims_of(a)
        zero = self.kernel.constant(np.zeros((), self.dtype))
        condition = self.kernel.op(onnx.GreaterOp, a, zero, dims=", ".join(map(str, shape)))
        other = self.kernel.constant(np.full((), 0.5, self.dtype))
        self.add(onnx.WhereOp, condition, a, other, dims=shape)

    def transpose(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        perm = [int(p) for p in self.rng.permutation(len(shape))]
        self.add(onnx.TransposeOp, x, dims=tuple(shape[p] for p in perm), perm=perm)

    def reshape_to(self, x: SSAValue, dims: tuple[Dim, ...]) -> None:
        self.add(onnx.ReshapeOp, x, self.kernel.sizes(", ".join(map(str, dims))), dims=dims, allowzero=1)

    def merge(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if len(shape) > 1:
            at = int(self.rng.integers(len(shape) - 1))
            self.reshape_to(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))

    def split(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        for at, size in enumerate(shape):
            for part in (as_dim(2), as_dim("d1"), as_dim(3), as_dim(4)):
                rest = size.divide_exactly(part)
                if rest is not None and len(shape) < 6 and size is not part and self.rng.random() < 0.5:
                    return self.reshape_to(x, (*shape[:at], rest, part, *shape[at + 1 :]))
        return None

    def slice(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        for at, size in enumerate(shape):
            if size.is_const and size.value >= 2:
                start, step = self.choice([(0, 2), (1, 1), (-1, -1), (0, 1)])
                count = len(range(size.value)[start::step])
                values = [
                    self.kernel.constant([v], np.int64) for v in (start, 2**31 * (1 if step > 0 else -1), at, step)
                ]
                return self.add(onnx.SliceOp, x, *values, dims=(*shape[:at], as_dim(count), *shape[at + 1 :]))
        return None

    def pad(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if shape:
            axis = int(self.rng.integers(len(shape)))
            pads = [0] * (2 * len(shape))
            pads[axis], pads[len(shape) + axis] = 1, 2
            grown = tuple(d + 3 if k == axis else d for k, d in enumerate(shape))
            self.add(onnx.PadOp, x, self.kernel.constant(pads, np.int64), dims=grown)

    def concat(self) -> None:
        x, y = self.pick(), self.pick()
        a, b = dims_of(x), dims_of(y)
        if a and len(a) == len(b):
            for axis in range(len(a)):
                if (*a[:axis], *a[axis + 1 :]) == (*b[:axis], *b[axis + 1 :]):
                    dims = (*a[:axis], a[axis] + b[axis] + a[axis], *a[axis + 1 :])
                    return self.add(onnx.ConcatOp, x, y, x, dims=dims, axis=axis)
        return None

    def gather(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        for at, size in enumerate(shape):
            if size.is_const and size.value >= 3:
                indices = self.kernel.constant([2, 0, -1], np.int64) if self.rng.random() < 0.5 else None
                indices = indices or self.kernel.input(np.array([-2, 1, 0]))
                return self.add(onnx.GatherOp, x, indices, dims=(*shape[:at], as_dim(3), *shape[at + 1 :]), axis=at)
        return None

    def expand(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if len(shape) < 5:
            dims = (as_dim("d1"), *shape)
            self.add(onnx.ExpandOp, x, self.kernel.sizes(", ".join(map(str, dims))), dims=dims)

    def reduce(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if shape:
            axis, keep = int(self.rng.integers(len(shape))), int(self.rng.integers(2))
            kept = tuple(as_dim(1) if k == axis else d for k, d in enumerate(shape) if keep or k != axis)
            op = self.choice([onnx.ReduceMaxOp, onnx.ReduceMeanOp, onnx.ReduceL2Op, onnx.ReduceSumOp])
            self.add(op, x, self.kernel.constant([axis], np.int64), dims=kept, keepdims=keep)

    def softmax(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if shape:
            self.add(onnx.SoftmaxOp, x, dims=shape, axis=int(self.rng.integers(len(shape))))

    def normalize(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if shape and shape[-1].is_const:
            scale = self.kernel.input(random((shape[-1].value,), self.dtype, 9))
            self.add(onnx.LayerNormalizationOp, x, scale, dims=shape)

    def matmul(self) -> None:
        x = self.pick()
        shape = dims_of(x)
        if len(shape) > 1 and shape[-1].is_const:
            weight = self.kernel.input(random((shape[-1].value, 5), self.dtype, 8))
            self.add(onnx.MatMulOp, x, weight, dims=(*shape[:-1], as_dim(5)))


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The dims of both broadcast, where they are the same or 1."""
    one = as_dim(1)
    rank = max(len(a), len(b))
    left, right = (one,) * (rank - len(a)) + a, (one,) * (rank - len(b)) + b
    dims: list[Dim] = []
    for x, y in zip(left, right):
        if x is not y and x is not one and y is not one:
            return None
        dims.append(y if x is one else x)
    return tuple(dims)


def generate(
    seed: int, dtype: Any, sizes: tuple[int, int], exact: bool, length: int = 10
) -> tuple[Kernel, list[SSAValue]]:
    generator = Generator(seed, dtype, sizes, exact)
    first = len(generator.values)
    while len(generator.values) < first + length:
        generator.step()
        if generator.kernel.values[generator.values[-1]].size > 20000:
            generator.values.pop()
    made = generator.values[first:]
    results = [made[-1]]
    if generator.rng.random() < 0.5:
        results.append(made[int(generator.rng.integers(len(made)))])
    return generator.kernel, results


SIZES = [(2, 3), (1, 2), (3, 1), (0, 2)]


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_of_exact_operators(seed: int) -> None:
    kernel, results = generate(seed, np.float32, SIZES[seed % 4], exact=True)
    kernel.run(*results, tolerance=2e-5)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_with_reductions(seed: int) -> None:
    kernel, results = generate(1000 + seed, np.float64, SIZES[seed % 4], exact=False)
    kernel.run(*results, tolerance=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_narrow_floats_are_rounded_after_each_operator(seed: int) -> None:
    """The reference rounds after each operator; only operators whose every result is correctly rounded take part."""
    kernel, results = generate(2000 + seed, np.float16, SIZES[seed % 4], exact=True)
    kernel.run(*results, tolerance=4e-3)


@pytest.mark.parametrize("seed", range(20))
def test_text_is_read_back_as_it_was(seed: int) -> None:
    kernel, results = generate(3000 + seed, np.float32, SIZES[seed % 4], exact=seed % 2 == 0)
    text = str(lower_to_tensor(kernel.function(*results)))
    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math.Math, scf.Scf, tensor.Tensor):
        context.load_dialect(dialect)
    for dialect in (Linalg, KernelDialect, Dims, VectorX):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    [function] = module.ops
    assert str(function) == text
