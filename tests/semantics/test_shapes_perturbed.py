"""Shape rules of all operators at other sizes than those of ONNX's own tests: 0, 1, odd, equal and unequal.

Each test's model has a symbol for each size of each input; its data are repeated or cut to the new sizes.  Whatever
onnxruntime makes of them, where our guards hold, has the sizes that were inferred.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some of its cases overflow while they are made
    from onnx.backend.test.loader import load_model_tests

    CASES = [c for c in load_model_tests(kind="node") if c.model is not None and "_expanded" not in c.name]

SIZES = (0, 1, 2, 3, 4, 5, 6, 8, 12)
TRIALS = 5
NO_EMPTY = ("Attention", "Einsum", "MelWeightMatrix", "StringSplit")
"""onnxruntime gives other sizes for empty operands of the first, and ends the process for those of the others: the
reference functions run these.
"""
BY_ZERO = ("Div", "Mod")
"""onnxruntime ends the process where these divide by 0: the reference functions do it."""
FAMILIES = 24


def arrays_of(case: Any) -> list[np.ndarray[Any, Any]] | None:
    """The inputs of a case; None where some are no tensors."""
    found: list[np.ndarray[Any, Any]] = []
    for value in case.data_sets[0][0] if case.data_sets else ():
        array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        if not isinstance(array, np.ndarray):
            return None
        found.append(array)
    return found or None


def symbolic(model: ModelProto, arrays: list[np.ndarray[Any, Any]]) -> ModelProto:
    """The model with a symbol for each size; short vectors of integers stay, since their length may be a rank."""
    copy = ModelProto.FromString(model.SerializeToString())
    count = 0
    for info, array in zip(copy.graph.input, arrays):
        dims = info.type.tensor_type.shape.dim
        if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and array.size <= 16:
            continue
        for d in dims:
            d.dim_param = f"s{count}"
            count += 1
    for info in copy.graph.output:
        info.ClearField("type")
    del copy.graph.value_info[:]
    return copy


def feeds(
    model: ModelProto, arrays: list[np.ndarray[Any, Any]], seed: str
) -> Iterator[tuple[Mapping[str, np.ndarray[Any, Any]], dict[str, int]]]:
    """Inputs of other sizes, and the sizes by symbol; equal sizes mostly stay equal."""
    draw = random.Random(zlib.crc32(seed.encode()))
    old = sorted({size for array in arrays for size in array.shape})
    for trial in range(TRIALS):
        kept = 0 if trial < 3 else 0.6
        renamed = {size: size if draw.random() < kept else draw.choice((*SIZES, 2 * size)) for size in old}
        feed: dict[str, np.ndarray[Any, Any]] = {}
        binding: dict[str, int] = {}
        for info, array in zip(model.graph.input, arrays):
            dims = info.type.tensor_type.shape.dim
            shape = [renamed[size] if d.dim_param else size for d, size in zip(dims, array.shape)]
            if trial == TRIALS - 1:
                shape = [
                    draw.choice((size, size, 1, size + 1)) if d.dim_param else size for d, size in zip(dims, shape)
                ]
            binding |= {d.dim_param: size for d, size in zip(dims, shape) if d.dim_param}
            feed[info.name] = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
        yield feed, binding


def is_safe(op_type: str, feed: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    if op_type in NO_EMPTY:
        return all(array.size for array in feed.values())
    return op_type not in BY_ZERO or all(array.all() for array in feed.values() if array.dtype.kind in "iu")


def compared(oracle: Any, case: Any) -> int:
    """How many sizes of a case were compared with those of executions."""
    arrays = arrays_of(case)
    if arrays is None or len(arrays) != len(case.model.graph.input):
        return 0
    model = symbolic(case.model, arrays)
    exposed = oracle.exposed(model)
    try:
        call = oracle.run(exposed)
    except Exception:
        return 0  # onnxruntime does not have the operator, or not for these types
    inferred = oracle.infer(model)
    other = oracle.reference(model)
    count = 0
    for feed, binding in feeds(model, arrays, case.name):
        known = dict(binding)
        for name, symbols in inferred.elements.items():
            if name in feed:
                known |= dict(zip(symbols, map(int, feed[name].ravel())))
        if not all(oracle.holds(g, known) for g in inferred.guards):
            continue
        got = call(feed) if is_safe(case.model.graph.node[0].op_type, feed) else other(feed)
        for name, array in (got or {}).items():
            dims = inferred.types.get(name)
            if dims is None or not isinstance(array, np.ndarray):
                continue
            assert len(dims) == array.ndim, f"{case.name}: {name} is {array.shape}, inferred {dims}"
            for d, size in zip(dims, array.shape):
                if d.symbols <= known.keys():
                    count += 1
                    assert d.evaluate(known) == size, f"{case.name}: {name} has {size} for {d} at {known}"
    return count


@pytest.mark.parametrize("family", range(FAMILIES))
def test_sizes_hold_wherever_the_guards_do(oracle: Any, family: int) -> None:
    cases = [case for at, case in enumerate(CASES) if at % FAMILIES == family]
    total = sum(compared(oracle, case) for case in cases)
    assert total >= len(cases)
