"""Rows of the kernel benchmark that memory or elementary functions bound: normalizations, softmax, pointwise chains.

The bound of a row is the larger of two times of the same run: a copy that reads and writes the same bytes once, by the
same kind of loads and stores, and the row's calls of elementary functions at the rate that they have in the first
cache.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx.parser
from kernels_harness import Array, Kernel, arena, finished, host_target
from sardonyx.lowering import policy
from sardonyx.lowering.loop_builder import INDEX, LoopBuilder, ScratchSpace, flat
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation

import sardonyx as sx

F32 = Float32Type()
MOST_TIMES = 1.25
"""A row may take so many times its bound."""

_SAMPLE = 2048
"""Elements that elementary functions are measured on: 8 KB to read and 8 KB to write."""
_REPEATS = 50


@dataclass(frozen=True)
class MemoryRow:
    """A model that is ready to be called, the copy of its bytes, and how often it calls which elementary function."""

    name: str
    call: Callable[[], object]
    copy: Callable[[], object]
    functions: Mapping[type[Operation], int]


def copy_call(reads: Sequence[Array], writes: Sequence[Array]) -> Callable[[], object]:
    """Reads all of some arrays and writes all of others, in vectors; one array each, or several read into one."""
    [target] = writes
    lanes = host_target().lanes(4)
    block = Block(arg_types=[INDEX, *[flat(F32)] * (len(reads) + 1)])
    count, *sources, result = block.args
    b = LoopBuilder(block, host_target())
    step = 4 * lanes
    with b.loop(0, count, step) as loop:
        for at in range(0, step, lanes):
            vectors = [b.load_vector(s, b.add(loop.index, at), lanes) for s in sources]
            total = vectors[0]
            for other in vectors[1:]:
                total = b.insert(arith.AddfOp(total, other)).result
            b.store_vector(total, result, b.add(loop.index, at))
    b.insert(ReturnOp())
    return Kernel(finished(block, ScratchSpace())).bind([target.size, *reads, target])


@cache
def function_call(function: type[Operation]) -> Callable[[], object]:
    """Evaluates an elementary function of `_SAMPLE` numbers, `_REPEATS` times, in the first cache.

    Of one vector after the other and several in step, what is faster.
    """
    calls = [_function_call(function, host_target().lanes(4) * times) for times in (1, policy.SIDE_BY_SIDE)]
    return min(calls, key=lambda call: min(timeit.repeat(call, number=5, repeat=20)))


def _function_call(function: type[Operation], lanes: int) -> Callable[[], object]:
    block = Block(arg_types=[INDEX, INDEX, flat(F32), flat(F32)])
    repeats, count, source, result = block.args
    b = LoopBuilder(block, host_target())
    with b.loop(0, repeats), b.loop(0, count, 2 * lanes) as loop:
        for at in (0, lanes):
            value = b.load_vector(source, b.add(loop.index, at), lanes)
            b.store_vector(b.pure(function, (value,), value.type), result, b.add(loop.index, at))
    b.insert(ReturnOp())
    data = arena(4 * _SAMPLE).view(np.float32)
    data[:] = np.random.default_rng(0).standard_normal(_SAMPLE)
    return Kernel(finished(block, ScratchSpace())).bind([_REPEATS, _SAMPLE, data, arena(4 * _SAMPLE).view(np.float32)])


def function_seconds(call_seconds: float) -> float:
    """Seconds an element, from what a call of `function_call` took."""
    return call_seconds / (_SAMPLE * _REPEATS)


def model_row(
    name: str, shape: tuple[int, int], signature: str, body: str, functions: dict[type[Operation], int]
) -> MemoryRow:
    """A model whose inputs are named by `signature`: x and others; those of the result's shape are streams."""
    rng = np.random.default_rng(0)
    size = f"{shape[0]},{shape[1]}"
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({signature.format(size=size, width=shape[1])}) => (float[{size}] y) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = arena(4 * int(np.prod(sizes))).view(np.float32).reshape(sizes)
        array[...] = rng.standard_normal(sizes)
        feeds[value.name] = array
    output = arena(4 * shape[0] * shape[1]).view(np.float32).reshape(shape)
    output[...] = 0
    call = sx.compile(model, threads=1, cache=False).bind(feeds, {"y": output})
    streams = [a.reshape(-1) for a in feeds.values() if a.shape == shape]
    points = shape[0] * shape[1]
    return MemoryRow(
        name, call, copy_call(streams, [output.reshape(-1)]), {f: n * points for f, n in functions.items()}
    )


_GELU = """h = Add(x, b)  d = Div(h, r2)  e = Erf(d)  o = Add(e, one)  m = Mul(h, o)  g = Mul(m, half)  y = Add(g, z)"""
_CHAIN = """
    t1 = Mul(x, s1)  t2 = Add(t1, z)  t3 = Relu(t2)  t4 = Sub(t3, s2)  t5 = Abs(t4)
    t6 = Add(t5, s1)  t7 = Sqrt(t6)  t8 = Mul(t7, z)  t9 = Max(t8, s3)  y = Add(t9, x)"""
_NUMBERS = "".join(
    f"{name} = Constant <value_float = {value}> () "
    for name, value in (("one", 1.0), ("half", 0.5), ("r2", 1.4142135), ("s1", 1.5), ("s2", 0.25), ("s3", -1.0))
)
X, XZ = "float[{size}] x", "float[{size}] x, float[{size}] z"

MEMORY: dict[str, Callable[[str], MemoryRow]] = {
    "layernorm 4096x768": lambda n: model_row(
        n, (4096, 768), X + ", float[{width}] g, float[{width}] b", "y = LayerNormalization (x, g, b)", {}
    ),
    "softmax 4096x1024": lambda n: model_row(n, (4096, 1024), X, "y = Softmax (x)", {math.ExpOp: 1}),
    "bias+gelu+residual 512x3072": lambda n: model_row(
        n, (512, 3072), XZ + ", float[{width}] b", _NUMBERS + _GELU, {math.ErfOp: 1}
    ),
    "chain of 10 512x3072": lambda n: model_row(n, (512, 3072), XZ, _NUMBERS + _CHAIN, {}),
}
