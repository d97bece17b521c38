"""From a model to a program: the pipeline, the caches, and what is handed to the runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from .build import KernelObject, build_kernels
from .codegen.entry import Entry, KernelInfo, entry_needs, host_value, main_to_llvm, overridable_inputs, tensor_dims
from .codegen.llvm_text import emit
from .codegen.objects import assembly, compile_object
from .codegen.pool import POOL_NEEDS, pool_module
from .dialects import onnx
from .dialects.target import Target
from .frontend.importer import import_model
from .lowering.schedule import schedule
from .pipeline import LEVELS, Options, State
from .pipeline import run as run_steps
from .rewrites.driver import Pattern
from .runtime import abi
from .runtime.errors import CompilerBug, UnsupportedError
from .runtime.host import default_threads, detect
from .runtime.hosting import HostFunction
from .runtime.manifest import FORMAT, Manifest, TensorSpec
from .runtime.program import LoadedProgram
from .semantics.evaluate import reference_of
from .semantics.weights import WeightStore
from .tools.explain import explain, main_of, operator_name, render

Progress: TypeAlias = Callable[[str, int, int], None]
Model: TypeAlias = "str | Path | bytes | Any"
Array: TypeAlias = "np.ndarray[Any, Any]"

EMITTABLE = (*LEVELS, "ll", "asm")
"""What `--emit` takes: the levels, and LLVM IR and assembly, which are for reading only."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: name, numpy dtype (a string for strings and objects), and sizes, symbols as text."""

    name: str
    dtype: Any
    shape: tuple[int | str, ...]


@dataclass
class Explanation:
    """The compiler's decisions: `str()` for people, `to_dict()` for programs."""

    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `kernels`, `functions`, `refused`, `hosted`, `guards`, `memory`."""
        return self.report

    def __str__(self) -> str:
        return render(self.report)


@dataclass
class Program:
    """A compiled model. Call it with arrays by position, by name, or as one mapping; it gives a dict of arrays."""

    loaded: LoadedProgram
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """What each step of the compilation took; empty where the program came from the cache."""

    def __call__(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Runs the model. Raises InputError for inputs that do not fit."""
        return self.loaded(*args, **kwargs)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[Any]:
        """onnxruntime's shape of call: the outputs named, or all of them, as a list."""
        return self.loaded.run(names, feeds)

    def run_into(self, outputs: Mapping[str, Array], feeds: Mapping[str, object]) -> None:
        """Runs the model and writes these outputs into the arrays given."""
        self.loaded.run_into(outputs, feeds)

    def bind(self, feeds: Mapping[str, object], outputs: Mapping[str, Array] | None = None) -> Callable[[], Any]:
        """A call with its arrays fixed, for the least overhead."""
        return self.loaded.bind(feeds, outputs)

    @property
    def threads(self) -> int:
        """How many threads a call uses at most, the caller included."""
        return self.loaded.threads

    @property
    def inputs(self) -> list[TensorInfo]:
        """What the program takes."""
        return [tensor_info(spec) for spec in self.loaded.manifest["inputs"]]

    @property
    def outputs(self) -> list[TensorInfo]:
        """What the program gives."""
        return [tensor_info(spec) for spec in self.loaded.manifest["outputs"]]

    def explain(self) -> Explanation:
        """Kernels, fusions taken and refused with reasons, memory, guards, hosted operators."""
        return Explanation(self.loaded.manifest["explain"])


def tensor_info(spec: TensorSpec) -> TensorInfo:
    """The manifest's entry as users see it."""
    dtype: Any = spec["dtype"]
    if dtype not in ("string", "object"):
        from .runtime.arrays import dtype_of

        dtype = dtype_of(dtype)
    return TensorInfo(spec["name"], dtype, tuple(spec["dims"]))


@cache
def host_target() -> Target:
    """The machine that we run on."""
    return Target(**asdict(detect()))


@cache
def pool_object(target: Target) -> bytes:
    """The thread pool's machine code."""
    return compile_object(emit(pool_module(target)), target, POOL_NEEDS)


def compile(
    model: Model,
    *,
    dims: Mapping[str, tuple[int, int]] | None = None,
    assume: Iterable[str] = (),
    threads: int | None = None,
    exact: bool = False,
    fast_math: bool = False,
    precision: str = "f32",
    fuse: bool = True,
    cache: bool = True,
    patterns: Sequence[Pattern] = (),
    target: Target | None = None,
    progress: Progress | None = None,
) -> Program:
    """Compiles a model (a path, bytes, or a ModelProto) for this machine, or loads it from the cache.

    `dims` gives ranges of symbols, `assume` facts on them; both become guards.  `exact` leaves out every rewrite that
    changes rounding.  `threads` counts the caller; the default is one for each core.  Raises ModelError for a model
    that is wrong, UnsupportedError naming every operator that we lack.
    """
    options = Options(
        dims=tuple((name, low, high) for name, (low, high) in sorted((dims or {}).items())),
        assume=tuple(assume),
        fuse=fuse,
        exact=exact,
        fast_math=fast_math,
        precision=precision,
    )
    target = target or host_target()
    report = progress or (lambda phase, done, total: None)
    report("read", 0, 1)
    began = time.perf_counter()
    module, weights = import_model(model)
    state = State(module, weights, target, options, patterns)
    seconds: dict[str, float] = {"import": time.perf_counter() - began}
    for done in run_steps(state, to="kernels"):
        report(done.step, 0, 1)
        seconds[done.step] = done.seconds
    built = build(state, seconds, report, cache)
    loaded = LoadedProgram(
        built.manifest, built.objects, built.weights, built.host_functions, threads=threads or default_threads()
    )
    return Program(loaded, seconds)


@dataclass(frozen=True)
class Built:
    """All that the runtime needs."""

    manifest: Manifest
    objects: list[bytes]
    weights: list[Array]
    host_functions: list[HostFunction]


def build(state: State, seconds: dict[str, float], report: Progress, use_cache: bool) -> Built:
    """From the kernels level to objects and a manifest."""
    began = time.perf_counter()
    kernels = state.kernels()
    objects: dict[str, KernelObject] = {}
    report("kernels", 0, len(kernels))
    for kernel, built in build_kernels(kernels, state.target, no_object, drop_object, default_threads()):
        objects[kernel.sym_name.data] = built
        report("kernels", len(objects), len(kernels))
        for name, value in built.seconds.items():
            seconds[f"kernels: {name}"] = seconds.get(f"kernels: {name}", 0.0) + value
    seconds["kernels (wall)"] = time.perf_counter() - began
    began = time.perf_counter()
    schedule(state.module, {name: k.scratch for name, k in objects.items()})
    seconds["schedule"] = time.perf_counter() - began
    began = time.perf_counter()
    report("entry", 0, 1)
    infos = {name: KernelInfo(k.symbol, k.checks) for name, k in objects.items()}
    main = main_of(state.module)
    entry = main_to_llvm(main, infos, state.target)
    image = compile_object(emit(entry.module), state.target, entry_needs(infos))
    seconds["entry"] = time.perf_counter() - began
    images = {k.symbol: k.image for k in objects.values()}
    return Built(
        manifest_of(state, main, entry),
        [*images.values(), pool_object(state.target), image],
        [weight_array(value, state.weights) for value in entry.weights],
        host_functions(entry, state.weights),
    )


def no_object(key: str) -> bytes | None:
    """The object cache that has nothing."""
    return None


def drop_object(key: str, data: bytes) -> None:
    """The object cache that keeps nothing."""


def weight_array(value: Attribute, weights: WeightStore) -> Array:
    """The array that a constant's attribute stands for."""
    if isinstance(value, onnx.WeightAttr):
        return weights.get(value)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return onnx.dense_array(value)
    plain = onnx.plain(value)
    return np.asarray(plain, np.float32 if isinstance(plain, float) else None)


def host_functions(entry: Entry, weights: WeightStore) -> list[HostFunction]:
    """The reference functions of the hosted operators. Raises UnsupportedError naming all that have none."""
    found: list[HostFunction] = []
    missing: list[str] = []
    for op in entry.hosted:
        function = reference_of(op, weights)
        if function is None:
            info = onnx.info_of(op)
            missing.append(f"{operator_name(op)} (node {info})" if info else operator_name(op))
            continue
        single = len(op.results) == 1
        found.append((lambda *v, f=function: f(*v)[0]) if single else function)
    if missing:
        raise UnsupportedError(f"not supported: {', '.join(missing)}")
    return found


def manifest_of(state: State, main: FuncOp, entry: Entry) -> Manifest:
    """The description that travels with the objects."""
    nodes = [str(info) for info in onnx.node_table(main)]
    ret = main.body.block.last_op
    assert isinstance(ret, ReturnOp)
    inputs: list[TensorSpec] = [spec_of(a, f"input_{i}") for i, a in enumerate(main.body.block.args)]
    for op in overridable_inputs(main):
        spec = spec_of(op.result, op.sym.data)
        spec["default"] = entry.weights.index(op.value)
        inputs.append(spec)
    names = output_names(main)
    outputs = [spec_of(v, name) for v, name in zip(ret.operands, names, strict=True)]
    for spec, name in zip(outputs, names, strict=True):
        spec["name"] = name
    return {
        "format": FORMAT,
        "abi": abi.VERSION,
        "inputs": inputs,
        "outputs": outputs,
        "checks": {str(site): check for site, check in enumerate(entry.checks)},
        "nodes": nodes,
        "hosts": list(entry.hosts),
        "explain": explain(state.module),
    }


def spec_of(value: SSAValue, fallback: str) -> TensorSpec:
    """A value as the manifest has it."""
    described = host_value(value.type)
    return {
        "name": onnx.value_name(value) or fallback,
        "dtype": described["dtype"],
        "dims": [d.value if d.is_const else str(d) for d in tensor_dims(value.type)],
    }


def output_names(main: FuncOp) -> list[str]:
    """The names of the model's outputs."""
    names: Any = main.attributes.get("onnx.outputs")
    if names is None:
        raise CompilerBug("bug: main has no output names")
    return [str(onnx.plain(n)) for n in names]


def state_of(
    model: Model, *, assume: Iterable[str] = (), fuse: bool = True, exact: bool = False, target: Target | None = None
) -> State:
    """A fresh compilation of a model, just imported."""
    module, weights = import_model(model)
    return State(module, weights, target or host_target(), Options(assume=tuple(assume), fuse=fuse, exact=exact))


def lower(model: Model, *, to: str, fuse: bool = True, exact: bool = False) -> ModuleOp:
    """The model's module at a level: one of `graph`, `kernels`, `tensor`, `loops`, `schedule`, `llvm`."""
    state = state_of(model, fuse=fuse, exact=exact)
    for _ in run_steps(state, to=to):
        pass
    return state.module


def emitted(
    model: Model,
    level: str,
    *,
    kernel: str | None = None,
    assume: Iterable[str] = (),
    fuse: bool = True,
    exact: bool = False,
) -> tuple[str, dict[str, float]]:
    """The text of a level and what each step took; `kernel` picks one kernel's part."""
    state = state_of(model, assume=assume, fuse=fuse, exact=exact)
    seconds = {d.step: d.seconds for d in run_steps(state, to="llvm" if level in ("ll", "asm") else level)}
    parts = [op for op in state.module.body.block.ops if kernel is None or symbol_name(op) == kernel]
    if kernel is not None and not parts:
        raise UnsupportedError(f"there is no kernel {kernel!r} at this level")
    if level in ("ll", "asm"):
        texts = [emit(op) for op in parts if isinstance(op, ModuleOp)]
        if level == "asm":
            texts = [assembly(t, state.target) for t in texts]
        return "\n".join(texts), seconds
    return (str(state.module) if kernel is None else "\n".join(map(str, parts))), seconds


def symbol_name(op: Any) -> str | None:
    """The name of a function or a kernel's module."""
    name = getattr(op, "sym_name", None)
    return None if name is None else name.data
