"""Sizes in random bodies of If, Loop, Scan and SequenceMap, held against an execution of the file's own nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import random_bodies
from onnx import ModelProto
from sardonyx.dialects import dims, onnx
from sardonyx.dialects.dims import Dim, dims_of
from sardonyx.dialects.dims.expression import DimError
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.infer.walk import collect_names
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import Error, InputError, ModelError
from sardonyx.semantics.interpreter import Interpreter, run_graph
from sardonyx.semantics.shapes import Names
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

import sardonyx as sx
from sardonyx.simplifier import simplify_model

onnxruntime.set_default_logger_severity(4)

MOST = 100_000
"""Elements of a tensor: what a loop lets grow beyond is of no interest."""


class Plain:
    """A model as the file has it, run by the reference functions."""

    def __init__(self, model: Any) -> None:
        module, weights = import_model(model)
        upgrade_opset(module, weights)
        self.run = Interpreter(module, weights, self.observe).run
        self.is_open = False

    def observe(self, value: SSAValue, array: Any) -> None:
        """Rows of no iteration have no shape where there are no types: what follows tells nothing."""
        if isinstance(array, np.ndarray):
            rows = isinstance(value.owner, onnx.LoopOp | onnx.ScanOp) and array.shape == (0,)
            self.is_open = self.is_open or rows
            if array.size > MOST:
                raise ValueError("too many elements")

    def __call__(self, feed: dict[str, Any]) -> dict[str, Any] | None:
        """The outputs; None where the model does not admit the sizes, or does not tell a shape."""
        self.is_open = False
        try:
            found = self.run(feed)
        except (Error, ValueError, IndexError, ArithmeticError):
            return None
        return None if self.is_open else found


class Sizes:
    """Holds every value, those of bodies in each iteration, to the type that inference gave it."""

    def __init__(self, module: ModuleOp) -> None:
        names = Names()
        collect_names(module, names)
        self.owners = names.owners
        self.elements = {op.source: [s.data for s in op.symbols] for op in module.walk() if isinstance(op, dims.BindOp)}
        self.values: dict[str, int] = {}
        self.compared = 0

    def __call__(self, value: SSAValue, array: Any) -> None:
        if not isinstance(array, np.ndarray):
            return
        self.values |= zip(self.elements.get(value, ()), map(int, array.ravel()) if value in self.elements else ())
        if not isinstance(value.type, TensorType):
            return
        found = dims_of(value.type)
        assert len(found) == array.ndim, value
        is_input = isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)
        for d, size in zip(found, array.shape, strict=True):
            if self.owners.get(str(d)) is value or (is_input and d.symbols == {str(d)}):
                self.values[str(d)] = size
            assert self.evaluate(d, array) == size, f"{value}: {d} is {size} at {self.values}"
            self.compared += 1

    def evaluate(self, d: Dim, array: Any) -> int | None:
        try:
            return d.evaluate(self.values)
        except DimError:  # of rows that were never made
            return 0 if array.size == 0 else None


def is_about_copies(error: InputError) -> bool:
    """A 0 in the shape of Reshape copies a size, so an entry that may be 0 is held to be none."""
    return "would copy a size" in str(error)


@pytest.mark.parametrize("part", range(8))
def test_sizes_in_random_bodies(part: int) -> None:
    ran = compared = 0
    for seed in range(40 * part, 40 * part + 40):
        model = random_bodies.random_model(seed)
        plain = Plain(model)
        module, weights = import_model(model)
        upgrade_opset(module, weights)
        try:
            infer_shapes(module, weights, compile_mode=True)
        except ModelError as error:
            assert "can never run" in str(error), seed
            continue
        module.verify()
        for a, b in random_bodies.SIZES:
            feed = random_bodies.feeds(seed, a, b)
            want = plain(feed)
            if want is None:
                continue
            sizes = Sizes(module)
            try:
                found = run_graph(module, weights, feed, sizes)
            except InputError as error:
                assert is_about_copies(error), f"seed {seed}, sizes {a} and {b}: {error}"
                continue
            ran, compared = ran + 1, compared + sizes.compared
            for name, array in want.items():
                np.testing.assert_array_equal(found[name], array, err_msg=f"seed {seed}, sizes {a} and {b}: {name}")
    assert ran > 100 and compared > 2000


@pytest.mark.parametrize("part", range(4))
def test_others_take_what_is_written(part: int) -> None:
    """Sizes in bodies, and simplified bodies: onnxruntime loads them where it loads the model."""
    count = 0
    for seed in range(10 * part, 10 * part + 10):
        model = random_bodies.random_model(seed)
        if not loads(model) or not model.graph.output:
            continue
        try:
            written = sx.infer_shapes(model), simplify_model(model).model
        except ModelError as error:
            assert "can never run" in str(error)
            continue
        assert all(map(loads, written)), seed
        count += 1
    assert count > 3


def loads(model: ModelProto) -> bool:
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except (onnxruntime.capi.onnxruntime_pybind11_state.Fail, onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_bodies_as_native_code(seed: int) -> None:
    model = random_bodies.random_model(seed)
    plain = Plain(model)
    try:
        program = sx.compile(model, cache=False, threads=1)
    except sx.UnsupportedError:  # ranks, and sizes of rows along another axis, that only a body tells
        return
    except ModelError as error:
        assert "can never run" in str(error)
        return
    for a, b in random_bodies.SIZES:
        feed = random_bodies.feeds(seed, a, b)
        want = plain(feed)
        if want is None:
            continue
        try:
            found = program(feed)
        except sx.InputError as error:
            assert is_about_copies(error), f"sizes {a} and {b}: {error}"
            continue
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=f"sizes {a} and {b}: {name}")
