"""The planned arena is what a call touches: nothing beyond it, and its last bytes too."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects.dims import parse_dim
from sardonyx.lowering.schedule import THREADS

import sardonyx as sx
from sardonyx.program import Program

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits.onnx"
PATTERN = 0xA5
ALIGNMENT = 64


def chain() -> bytes:
    """Products in a row, whose values live and die by turns."""
    rng = np.random.default_rng(0)
    sizes = [24, 40, 17, 64, 8]
    weights = [
        numpy_helper.from_array(rng.standard_normal(pair).astype(np.float32), f"w{i}")
        for i, pair in enumerate(itertools.pairwise(sizes))
    ]
    nodes = []
    at = "x"
    for i in range(len(weights)):
        nodes.append(helper.make_node("MatMul", [at, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Softmax", [f"m{i}"], [f"s{i}"], axis=-1))
        at = f"s{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "chain",
        [value("x", TensorProto.FLOAT, ["N", 24])],
        [value(at, TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


def touched(program: Program, feeds: dict[str, Any]) -> int:
    """The number of bytes up to the highest that a call writes."""
    program(feeds)  # reserves the arena
    (context,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    address, size = context.arena.address, context.arena.size
    ctypes.memset(address, PATTERN, size)
    program(feeds)
    content = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    changed = np.flatnonzero(content != PATTERN)
    return int(changed[-1]) + 1 if changed.size else 0


def planned(program: Program, **symbols: int) -> int:
    """The arena's size by its formula."""
    formula = program.explain().to_dict()["memory"]["arena"]
    return parse_dim(formula).evaluate({**symbols, THREADS: program.threads})


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_a_chain_touches_what_is_planned(rows: int) -> None:
    program = sx.compile(chain(), threads=1)
    used = touched(program, {"x": np.random.default_rng(rows).random((rows, 24), dtype=np.float32)})
    peak = planned(program, N=rows)
    assert peak - ALIGNMENT < used <= peak


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_digits_model_stays_inside_its_arena(batch: int) -> None:
    program = sx.compile(DIGITS)
    x = np.random.default_rng(0).random((batch, 1, 8, 8), dtype=np.float32)
    assert touched(program, {"image": x}) <= planned(program, batch=batch)


def test_from_the_second_call_on_only_outputs_are_new() -> None:
    program = sx.compile(DIGITS)
    x = np.random.default_rng(0).random((8, 1, 8, 8), dtype=np.float32)
    program(x)
    (context,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    before = (context.arena.address, context.arena.size)
    for _ in range(5):
        program(x)
    (again,) = program.loaded._free  # pyright: ignore[reportPrivateUsage]
    assert again is context and (again.arena.address, again.arena.size) == before
