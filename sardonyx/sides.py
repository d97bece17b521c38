"""The sides of a comparison: each runs a model by other means, and shows every named value as it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnx as onnx_package
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from .build import KernelObject
from .compiler import (
    copy_of,
    host_target,
    kernel_objects,
    level_of,
    lower,
    lower_with,
    operators_of,
    pool_object,
    run,
    state_of,
    target_of,
    weights_of,
)
from .dialects import kernel, onnx
from .frontend.schema_functions import load
from .lowering.schedule import ALIGNMENT, aligned
from .options import Options
from .pipeline import State
from .program import Model, Program, compile
from .rewrites.driver import Pattern
from .rewrites.upgrade import upgrade_opset
from .runtime.cache import open_cache
from .runtime.errors import InputError, UnsupportedError
from .runtime.host import thread_count
from .runtime.single import SingleKernel
from .semantics.custom import CustomOperator
from .semantics.interpreter import run_graph
from .semantics.reference import Array
from .tools.compare import Observed

Feeds: TypeAlias = Mapping[str, Any]
Observer: TypeAlias = Callable[[Observed], None]

NUMPY_LEVELS = ("graph", "kernels", "tensor")
"""The levels that numpy runs; the ones below run as native code."""
SIDES = ("model", *NUMPY_LEVELS, "native", "unfused", "plain", "onnxruntime")
"""What a model can be compared with; `model` is the file's own nodes, before any rewrite."""


class Side(Protocol):
    """One way to run a model."""

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """The model's outputs by name."""
        ...

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        """Runs the model and shows every named value of `main` and its regions (of `names` only, where given)."""
        ...


@dataclass
class NumpySide:
    """A module at a level that numpy runs."""

    module: ModuleOp

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        return run_graph(self.module, weights_of(self.module), feeds, operators=operators_of(self.module))

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        def see(value: SSAValue, array: Any) -> None:
            show(value, array, observer, names)

        run_graph(self.module, weights_of(self.module), feeds, see, operators_of(self.module))


@dataclass
class ModelSide:
    """The file's own nodes, by the reference functions: no rewrite but to the newest opset."""

    model: Model
    ops: Sequence[CustomOperator] = ()

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        state = self.state
        return run_graph(state.module, state.weights, feeds, operators=state.operators)

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        def see(value: SSAValue, array: Any) -> None:
            show(value, array, observer, names)

        state = self.state
        run_graph(state.module, state.weights, feeds, see, state.operators)

    @cached_property
    def state(self) -> State:
        """The model, imported."""
        state = state_of(self.model, ops=self.ops)
        upgrade_opset(state.module, state.weights)
        return state


@dataclass
class NativeSide:
    """A module below the tensor level, whose kernels run as native code.

    To observe, `main` is interpreted, and its kernels are those compiled.  So the kernels and their fusion are the
    program's; what the schedule does (memory that values share) is not.
    """

    module: ModuleOp
    threads: int | None = None

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        return run(self.module, feeds, threads=self.threads)

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        def see(value: SSAValue, array: Any) -> None:
            show(value, array, observer, names)

        module = copy_of(self.module)
        weights, operators = weights_of(module), operators_of(module)
        state = State(module, weights, target_of(module), Options(), operators=operators)
        store = open_cache()
        objects = kernel_objects(state, {}, lambda phase, done, total: None, store)
        runner = Kernels(objects, pool_object(host_target(), store), thread_count(self.threads))
        run_graph(module, weights, feeds, see, operators, runner)


@dataclass
class ProgramSide:
    """A compiled program."""

    program: Program

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        return self.program(feeds)

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        NativeSide(module_of(self.program), self.program.threads).observe(feeds, observer, names)


@dataclass
class Kernels:
    """Runs the calls of a module by its compiled kernels."""

    objects: Mapping[str, KernelObject]
    pool: bytes
    threads: int
    linked: dict[str, SingleKernel] = field(default_factory=dict[str, SingleKernel])

    def __call__(
        self, op: kernel.CallOp, sizes: Sequence[int], inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        name = op.callee.string_value()
        built = self.objects[name]
        if name not in self.linked:
            checks = [(code, kernel.about_which(message)[1]) for code, message in built.checks]
            self.linked[name] = SingleKernel(built.image, built.symbol, checks, self.pool, self.threads)
        bound = {f"d{i}": size for i, size in enumerate(sizes)}
        need = built.scratch
        scratch = need.shared.evaluate(bound) + self.threads * aligned(need.per_thread).evaluate(bound)
        try:
            self.linked[name](sizes, inputs, outputs, scratch + ALIGNMENT)
        except InputError as e:
            raise InputError(f"{e}\n  --> {', '.join(node_names(op))}") from e


@dataclass
class OnnxRuntimeSide:
    """onnxruntime without its own rewrites; values inside of bodies and functions it does not show."""

    model: Model

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        session = self._session(self._proto())
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(None, dict(feeds)), strict=True))

    def observe(self, feeds: Feeds, observer: Observer, names: Collection[str] | None = None) -> None:
        proto = self._proto()
        have = {o.name for o in proto.graph.output}
        made = [n for node in proto.graph.node for n in node.output if n and (names is None or n in names)]
        proto.graph.output.extend(onnx_package.ValueInfoProto(name=n) for n in made if n not in have)
        session = self._session(proto)
        for name, array in zip(made, session.run(made, dict(feeds)) if made else ()):
            observer(Observed(name, array))

    def _proto(self) -> onnx_package.ModelProto:
        copy = onnx_package.ModelProto()
        copy.CopyFrom(load(self.model))
        return copy

    def _session(self, proto: onnx_package.ModelProto) -> Any:
        try:
            import onnxruntime
        except ImportError as e:
            raise UnsupportedError("onnxruntime is not installed") from e
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        if isinstance(self.model, str | Path):
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(Path(self.model).resolve().parent)
            )
        try:
            return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as e:  # its errors have no common class
            raise UnsupportedError(f"onnxruntime refuses the model: {e}") from e


def side_of(
    model: Model | Program | ModuleOp,
    which: str = "native",
    *,
    threads: int | None = None,
    patterns: Sequence[Pattern] = (),
    ops: Sequence[CustomOperator] = (),
    assume: str | Sequence[str] = (),
    exact: bool = False,
) -> Side:
    """The model run in one of the ways of `SIDES`; a program or a module runs as it is, whatever `which` says.

    Raises UnsupportedError for a way that there is not.
    """
    if isinstance(model, Program):
        return ProgramSide(model)
    if isinstance(model, ModuleOp):
        return NumpySide(model) if level_of(model) in NUMPY_LEVELS else NativeSide(model, threads)
    if which == "model":
        return ModelSide(model, ops)
    if which == "onnxruntime":
        return OnnxRuntimeSide(model)
    if which in NUMPY_LEVELS:
        return NumpySide(lower(model, to=which, assume=assume, exact=exact, patterns=patterns, ops=ops))
    if which in ("native", "unfused", "plain"):
        target = replace(host_target(), plain=True) if which == "plain" else None
        program = compile(
            model, threads=threads, assume=assume, exact=exact, patterns=patterns, ops=ops,
            fuse=which == "native", target=target,
        )  # fmt: skip
        return ProgramSide(program)
    raise UnsupportedError(f"nothing to compare with called {which!r}; there are {', '.join(SIDES)}")


def module_of(program: Program) -> ModuleOp:
    """A program's module at the kernels level, lowered anew as the program was."""
    origin = program.origin
    if origin is None:
        raise UnsupportedError("the program does not know the model that it was compiled from")
    return lower_with(
        origin.model, origin.options, to="kernels", target=origin.target, patterns=origin.patterns, ops=origin.ops
    )


def show(value: SSAValue, array: Any, observer: Observer, names: Collection[str] | None) -> None:
    """Tells the observer of a value that an op of `main` or of its regions makes, if it has a name and is a tensor."""
    if not isinstance(value, OpResult) or not isinstance(array, np.ndarray) or isinstance(value.op, CONSTANTS):
        return
    name = onnx.value_name(value)
    if name and (names is None or name in names):
        observer(Observed(name, array, value.op))


CONSTANTS = (onnx.ConstantOp, onnx.InitializerOp)


def node_names(op: Operation) -> list[str]:
    """The file's nodes that an op comes from, as text."""
    table = onnx.node_table(op)
    return [str(table[i]) for i in onnx.origin_of(op) if 0 <= i < len(table)]
