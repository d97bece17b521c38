"""From a model to a program: the pipeline, the caches, and what is handed to the runtime."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from .build import KernelObject, build_kernels, kernels_in, name_of, prepack
from .codegen.entry import KernelInfo, entry_needs, main_to_llvm
from .codegen.entry_values import EntryError
from .codegen.llvm_text import emit
from .codegen.objects import assembly, compile_object
from .codegen.pool import POOL_NEEDS, pool_module
from .collection import without_collection
from .dialects import onnx
from .dialects.onnx.model import fix_defaults
from .dialects.target import Target, TargetAttr
from .frontend.exporter import export_model
from .frontend.importer import import_model
from .frontend.schema_functions import import_composed
from .lowering.choices import SCHEDULE, Schedule, schedule_attribute
from .lowering.schedule import schedule
from .manifests import host_functions, manifest_of, open_manifest, spec_of
from .ops import operator_table
from .options import Options, compiler_digest, conditions, tuned_file
from .pipeline import LEVEL, LEVELS, State, bug
from .pipeline import run as run_steps
from .precision import check_precision
from .program import Model, Progress, TensorInfo, tensor_info
from .rewrites.driver import Pattern, apply_patterns
from .rewrites.infer import infer_shapes as infer_module
from .rewrites.upgrade import upgrade_opset
from .runtime.cache import Cache, Weight
from .runtime.errors import InputError, OpenRankError, UnsupportedError, UsageError
from .runtime.host import default_threads, detect, thread_count
from .runtime.hosting import HostFunction
from .runtime.manifest import Manifest
from .runtime.program import LoadedProgram
from .runtime.tuned import load_tuned
from .runtime.usage import checked, listed
from .schedules import Given as Schedules
from .schedules import schedule_text
from .semantics.custom import NO_OPERATORS, CustomOperator, Operators
from .semantics.evaluate import reference_of
from .semantics.interpreter import run_graph
from .semantics.weights import WeightStore
from .tools.explain import NOT_HOSTED, main_of

Array: TypeAlias = "np.ndarray[Any, Any]"

EMITTABLE = (*LEVELS, "ll", "asm")
"""What `--emit` takes: the levels, and LLVM IR and assembly, which are for reading only."""


@cache
def host_target() -> Target:
    """The machine that we run on."""
    return Target(**asdict(detect()))


@cache
def pool_object(target: Target, store: Cache | None) -> bytes:
    """The thread pool's machine code, from the object cache where it is there."""
    key = hashlib.sha256(f"pool {target} {compiler_digest()}".encode()).hexdigest()
    if store is not None and (stored := store.load_object(key)) is not None:
        return stored
    image = compile_object(emit(pool_module(target)), target, POOL_NEEDS)
    if store is not None:
        store.store_object(key, image)
    return image


@without_collection()
def compile_fresh(
    model: Model,
    options: Options,
    patterns: Sequence[Pattern],
    target: Target | None,
    report: Progress,
    store: Cache | None,
    operators: Operators = NO_OPERATORS,
) -> tuple[Built, dict[str, float]]:
    """Compiles a model; also gives the seconds that each step took."""
    report("read", 0, 1)
    began = time.perf_counter()
    module, weights = import_composed(model)
    overridable = fix_defaults(module, options.overridden)
    from .folding import compute  # which compiles what it computes

    state = State(module, weights, target or host_target(), options, patterns, operators, compute=compute)
    state.tuned = tuned_schedules(state.target) if options.tuned and store is not None else {}
    seconds: dict[str, float] = {"import": time.perf_counter() - began}
    try:
        for done in run_steps(state, to="kernels"):
            report(done.step, 0, 1)
            seconds[done.step] = done.seconds
    except OpenRankError as error:
        error.manifest = open_manifest(state, error, overridable)
        error.externals = state.weights.external_names()
        raise
    built = build(state, seconds, report, store)
    built.manifest["explain"]["overridable"] = overridable
    return built, seconds


def tuned_schedules(target: Target) -> dict[str, Schedule]:
    """What the tuner found for a target, by the kernel's key."""
    return {key: entry["schedule"] for key, entry in load_tuned(tuned_file(target)).items()}


@dataclass(frozen=True)
class Built:
    """All that the runtime needs."""

    manifest: Manifest
    objects: list[bytes]
    weights: list[Weight]
    host_functions: list[HostFunction]
    externals: list[str]
    """The model's external data files, relative to its folder."""

    @property
    def storable(self) -> bool:
        """Whether the manifest alone tells how to run the hosted operators."""
        return all("payload" in host for host in self.manifest["hosts"])


def build(state: State, seconds: dict[str, float], report: Progress, store: Cache | None) -> Built:
    """From the kernels level to objects and a manifest."""
    objects = kernel_objects(state, seconds, report, store)
    began = time.perf_counter()
    schedule(state.module, {name: k.scratch for name, k in objects.items()})
    seconds["schedule"] = time.perf_counter() - began
    began = time.perf_counter()
    report("entry", 0, 1)
    infos = {name: KernelInfo(k.symbol, k.checks) for name, k in objects.items()}
    main = main_of(state.module)
    try:
        entry = main_to_llvm(main, infos, state.target, state.options.timed)
    except EntryError as e:
        raise bug(state.module, "entry", e) from e
    image = compile_object(emit(entry.module), state.target, entry_needs(infos))
    seconds["entry"] = time.perf_counter() - began
    images = {k.symbol: k.image for k in objects.values()}
    weights = [weight_of(value, state.weights) for value in entry.weights]
    return Built(
        manifest_of(state, main, entry),
        [*images.values(), pool_object(state.target, store), image],
        weights,
        host_functions(entry, state.weights, state.operators),
        state.weights.external_names(),
    )


def kernel_objects(
    state: State, seconds: dict[str, float], report: Progress, store: Cache | None
) -> dict[str, KernelObject]:
    """The kernels of a module at the kernels level or below as machine code, by name; packs constant operands first."""
    began = time.perf_counter()
    if level_of(state.module) in ("kernels", "tensor"):
        prepack(state.module, state.weights, state.target, state.options.exact)
    seconds["prepack"] = time.perf_counter() - began
    began = time.perf_counter()
    refuse_unrunnable(state)
    kernels = kernels_in(state.module)
    objects: dict[str, KernelObject] = {}
    report("kernels", 0, len(kernels))
    load = store.load_object if store is not None else no_object
    keep = store.store_object if store is not None else drop_object
    for function, built in build_kernels(kernels, state.target, load, keep, default_threads()):
        objects[name_of(function)] = built
        report("kernels", len(objects), len(kernels))
        for name, value in built.seconds.items():
            seconds[f"kernels: {name}"] = seconds.get(f"kernels: {name}", 0.0) + value
    for function in kernels:
        function.attributes[SCHEDULE] = schedule_attribute(objects[name_of(function)].schedule)
    seconds["kernels (wall)"] = time.perf_counter() - began
    return objects


def refuse_unrunnable(state: State) -> None:
    """Raises UnsupportedError naming the hosted operators that no callback can run, for a body or for no function."""
    missing: list[str] = []
    for op in main_of(state.module).walk():
        if not isinstance(op, (*NOT_HOSTED, onnx.ConstantOp)) and not reference_of(op, state.weights, state.operators):
            info = onnx.info_of(op)
            missing.append(f"{onnx.operator_name(op)} (node {info})" if info else onnx.operator_name(op))
    if missing:
        raise UnsupportedError(f"not supported: {', '.join(missing)}")


def no_object(key: str) -> bytes | None:
    """The object cache that has nothing."""
    return None


def drop_object(key: str, data: bytes) -> None:
    """The object cache that keeps nothing."""


def weight_of(value: Attribute, weights: WeightStore) -> Weight:
    """The array that a constant's attribute stands for, and where it is in a file."""
    if isinstance(value, onnx.WeightAttr):
        place = weights.file_of(value)
        return Weight(weights.get(value)) if place is None else Weight(weights.get(value), place[0], place[1])
    if isinstance(value, DenseIntOrFPElementsAttr):
        return Weight(onnx.dense_array(value))
    plain = onnx.plain(value)
    return Weight(np.asarray(plain, np.float32 if isinstance(plain, float) else None))


def state_of(
    model: Model,
    options: Options | None = None,
    *,
    target: Target | None = None,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
) -> State:
    """A fresh compilation of a model, just imported."""
    module, weights = import_composed(model)
    options, machine = options or Options(), target or host_target()
    check_precision(options.precision, machine.cpu, machine.features)
    fix_defaults(module, options.overridden)
    return State(module, weights, machine, options, patterns, operator_table(ops))


_stores: WeakKeyDictionary[ModuleOp, tuple[WeightStore, Operators]] = WeakKeyDictionary()
"""The weights and the users' operators of modules that `lower` gave out."""


@checked
def lower(
    model: Model | ModuleOp,
    *,
    to: str,
    assume: str | Iterable[str] = (),
    fuse: bool = True,
    exact: bool = False,
    precision: str = "f32",
    plain: bool = False,
    schedule: Schedules | None = None,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
) -> ModuleOp:
    """The model's module at a level: one of `graph`, `kernels`, `tensor`, `loops`, `schedule`, `llvm`.

    A module that `lower` gave out before is taken further down, from where it is, as edited.  `plain` is the setting
    without fusion, vectors and tiles, to check the ordinary one by.  Raises UsageError for a level that there is not,
    or that the module has passed, and for options that a module has settled.
    """
    if isinstance(model, ModuleOp):
        settled = {
            "assume": tuple(assume),
            "fuse": not fuse,
            "exact": exact,
            "precision": precision != "f32",
            "schedule": schedule,
            "patterns": tuple(patterns),
        }
        if given := [name for name, value in settled.items() if value]:
            raise UsageError(
                f"{given[0]} is for a model: a module goes on as it was lowered, with `plain` and `ops` alone"
            )
        target = replace(target_of(model), plain=True) if plain else target_of(model)
        state = State(model, weights_of(model), target, Options(fuse=not plain), operators=operators_of(model, ops))
        start = level_of(model)
        if to in LEVELS and LEVELS.index(to) < LEVELS.index(start):
            raise UsageError(f"the module is at level {start!r}, past {to!r}")
        return lowered(state, to, start)
    options = Options(
        assume=conditions(assume),
        fuse=fuse and not plain,
        exact=exact,
        precision=precision,
        schedule=schedule_text(schedule),
    )
    target = replace(host_target(), plain=plain)
    return lower_with(model, options, to=to, target=target, patterns=patterns, ops=ops)


def lower_with(
    model: Model,
    options: Options,
    *,
    to: str,
    target: Target | None = None,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
) -> ModuleOp:
    """`lower` of a model, with its options as one value."""
    return lowered(state_of(model, options, target=target, patterns=patterns, ops=ops), to, None)


def lowered(state: State, to: str, start: str | None) -> ModuleOp:
    """The state's module, taken from the level `start` to another. Raises UsageError for a level that there is not."""
    if to not in LEVELS:
        raise UsageError(f"no level {to!r}; there are {', '.join(LEVELS)}")
    for _ in run_steps(state, to=to, start=start):
        pass
    _stores[state.module] = state.weights, state.operators
    return state.module


@checked
def read(path: str | Path) -> ModuleOp:
    """A module from the text of a level, as `sardonyx compile MODEL --emit LEVEL -o FILE` writes it.

    Its weights are found by its own table, relative to the text's folder.  Raises InputError for text that does not
    parse or verify, ModelError for a file of weights that is missing or has changed.
    """
    from .tools.opt import context_of, read_module
    from .universe import UNIVERSE

    path = Path(path)
    module = read_module(path, context_of(UNIVERSE))
    _stores[module] = WeightStore.from_module(module, path.parent), {}
    return module


def inputs_of(module: ModuleOp) -> list[TensorInfo]:
    """What a module takes."""
    main = main_of(module)
    listed = [spec_of(a, f"input_{i}") for i, a in enumerate(main.body.block.args)]
    return [tensor_info(spec) for spec in listed]


def copy_of(module: ModuleOp) -> ModuleOp:
    """A copy of a module, with the same weights and operators at hand."""
    copy = module.clone()
    _stores[copy] = weights_of(module), operators_of(module)
    return copy


def target_of(module: ModuleOp) -> Target:
    """The machine that a module was lowered for, by its own attribute; without one, this."""
    found = module.attributes.get("sx.target")
    return found.data if isinstance(found, TargetAttr) else host_target()


def level_of(module: ModuleOp) -> str:
    """The level that a module has reached, by its own attribute. Raises UsageError for what is no module."""
    if not isinstance(module, ModuleOp):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"a module is needed, as sx.lower and sx.read give one, and this is {type(module).__name__}")
    level = module.attributes.get(LEVEL)
    if not isinstance(level, StringAttr):
        raise UsageError("the module does not say which level it is at (attribute sx.level)")
    return level.data


def weights_of(module: ModuleOp, folder: Path | None = None) -> WeightStore:
    """The weights of a module that `lower` gave out, or of one parsed from text in `folder` by its own table."""
    known = _stores.get(module)
    return known[0] if known is not None else WeightStore.from_module(module, folder or Path())


def operators_of(module: ModuleOp, ops: Iterable[CustomOperator] = ()) -> Operators:
    """The users' operators of a module: those given, and those that it was lowered with."""
    known = _stores.get(module)
    return {**(known[1] if known is not None else {}), **operator_table(ops)}


@checked
def run(
    module: ModuleOp,
    inputs: Mapping[str, Any],
    *,
    threads: int | None = None,
    plain: bool = False,
    ops: Iterable[CustomOperator] = (),
) -> dict[str, Any]:
    """Runs a module at whatever level it is, edited by hand or not; gives the outputs by name.

    At the graph and kernels levels by the numpy reference functions, at the tensor level by the numpy evaluator of its
    ops, below as native code made from the module as it stands.  With `plain` as native code also above that: of a copy
    that is lowered without vectors and tiles, and without fusion where that is not settled yet.  Raises InputError for
    inputs that do not fit, UsageError where a module is past the level at which `plain` can be had.
    """
    level = level_of(module)
    weights = weights_of(module)
    if plain:
        if level not in ("graph", "kernels", "tensor"):
            raise UsageError(f"the module is at level {level!r}, where vectors and tiles are settled")
        return run(lower(copy_of(module), to="loops", plain=True, ops=ops), inputs, threads=threads, ops=ops)
    if level in ("graph", "kernels", "tensor"):
        return run_graph(module, weights, inputs, operators=operators_of(module, ops))
    copy = module.clone()
    state = State(copy, weights, target_of(module), Options(), operators=operators_of(module, ops))
    built = build(state, {}, lambda phase, done, total: None, None)
    arrays = [w.array for w in built.weights]
    loaded = LoadedProgram(built.manifest, built.objects, arrays, built.host_functions, threads=thread_count(threads))
    return loaded(dict(inputs))


@checked
def rewrite(model: Model, patterns: Sequence[Pattern]) -> Any:
    """The model with only these patterns applied, as a ModelProto; what they do not touch stays as it came."""
    patterns = listed("patterns", patterns, Pattern, "a rewrite pattern")
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    infer_module(module, weights)
    apply_patterns(module, patterns)
    return export_model(module, weights)


def imported_and_inferred(model: Model) -> tuple[ModuleOp, ModuleOp]:
    """The module as imported, and with every type known."""
    module, weights = import_model(model)
    imported = module.clone()
    upgrade_opset(module, weights)
    infer_module(module, weights, compile_mode=True)
    return imported, module


def emitted(
    model: Model,
    level: str,
    options: Options | None = None,
    *,
    kernel: str | None = None,
    target: Target | None = None,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
    weights: Path | None = None,
) -> tuple[str, dict[str, float]]:
    """The text of a level and what each step took; `kernel` picks one kernel's part.

    With `weights` the text has a table of its weights, and what is in no file yet is written there; without, text is
    for reading only.
    """
    if level not in EMITTABLE:
        raise InputError(f"no level {level!r}; there are {', '.join(EMITTABLE)}")
    state = state_of(model, options, target=target, patterns=patterns, ops=ops)
    seconds = {d.step: d.seconds for d in run_steps(state, to="llvm" if level in ("ll", "asm") else level)}
    parts = [op for op in state.module.body.block.ops if kernel is None or name_of(op) == kernel]
    if kernel is not None and not parts:
        raise InputError(f"there is no kernel {kernel!r} at this level")
    if level in ("ll", "asm"):
        texts = [emit(op) for op in parts if isinstance(op, ModuleOp)]
        if level == "asm":
            texts = [assembly(t, state.target) for t in texts]
        return "\n".join(texts), seconds
    if weights is not None and kernel is None:
        state.weights.attach(state.module, weights)
    return (str(state.module) if kernel is None else "\n".join(map(str, parts))), seconds
