"""Programs: compiled models as users hold them, fresh from the compiler or loaded from the cache without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .options import Options, conditions, program_key
from .precision import check_precision
from .runtime.arrays import dtype_of
from .runtime.cache import open_cache
from .runtime.errors import CompilerBug, InputError, ModelError, OpenRankError, UsageError
from .runtime.host import detect, thread_count
from .runtime.hosting import HostFunction
from .runtime.manifest import OBJECT_TYPES, Host, Manifest, TensorSpec
from .runtime.open_ranks import OpenRanks, Zero
from .runtime.program import LoadedProgram
from .runtime.usage import KINDS, SIZE, THREADS, checked, listed, ranges, shown

if TYPE_CHECKING:
    from .dialects.target import Target
    from .kernels import KernelCallable
    from .rewrites.driver import Pattern
    from .semantics.custom import CustomOperator
    from .tools.memory import MemoryAnalysis

Array: TypeAlias = "np.ndarray[Any, Any]"
Model: TypeAlias = "str | Path | bytes | Any"
"""A path, a model's bytes, or a ModelProto."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Told of each phase: its name, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: name, numpy dtype (text for strings and objects), and sizes, symbols as text."""

    name: str
    dtype: Any
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        """`image: float32[batch, 1, 8, 8]`"""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass
class Explanation:
    """The compiler's decisions: `str()` for people, `to_dict()` for programs."""

    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `kernels` (one entry a call, in order), `functions`, `refused`, `hosted`, `guards`, `memory`."""
        return self.report

    def __str__(self) -> str:
        from .tools.report import render

        return render(self.report)


@dataclass(frozen=True)
class Origin:
    """What a program was compiled from."""

    model: Model
    options: Options
    patterns: tuple[Pattern, ...] = ()
    ops: tuple[CustomOperator, ...] = ()
    target: Target | None = None


@dataclass
class Program:
    """A compiled model. Call it with arrays by position, by name, or as one mapping; it gives a dict of arrays."""

    loaded: LoadedProgram | OpenRanks
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """What each step of the compilation took; empty where the program came from the cache."""
    origin: Origin | None = None
    """What it was compiled from, for the levels that `kernels` shows and for variants."""
    _variants: dict[tuple[str, ...], Program] = field(default_factory=dict[tuple[str, ...], "Program"])

    def __repr__(self) -> str:
        """`<Program digits: (image: float32[batch, 1, 8, 8]) -> (probabilities: float32[batch, 10]), 9 kernels>`"""
        inputs, outputs = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        kernels = len(self.loaded.manifest["explain"]["kernels"])
        model = self.origin.model if self.origin is not None else None
        name = f" {Path(model).stem}" if isinstance(model, str | Path) else ""
        return f"<Program{name}: ({inputs}) -> ({outputs}), {kernels} kernels>"

    def __call__(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Runs the model. Raises InputError for inputs that do not fit."""
        if self.overridable and (given := self._overridden(args, kwargs)):
            return self._variant(given)(*args, **kwargs)
        return self.loaded(*args, **kwargs)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[Any]:
        """onnxruntime's shape of call: the outputs named, or all of them, as a list."""
        if self.overridable and (given := self._overridden((feeds,), {})):
            return self._variant(given).run(names, feeds)
        return self.loaded.run(names, feeds)

    @property
    def overridable(self) -> list[str]:
        """Initializers that a call may give another value, by name; the first such call compiles a variant."""
        return self.loaded.manifest["explain"].get("overridable", [])

    def _overridden(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[str, ...]:
        """The initializers that a call gives values for, in the model's order."""
        named = set(kwargs)
        for argument in args:
            if isinstance(argument, Mapping):
                named.update(cast("Mapping[str, object]", argument))
        return tuple(n for n in self.overridable if n in named and n not in self.loaded.input_names)

    def _variant(self, overridden: tuple[str, ...]) -> Program:
        """The program in which these initializers are inputs."""
        if overridden not in self._variants:
            assert self.origin is not None
            origin = self.origin
            self._variants[overridden] = compile_with(
                origin.model,
                replace(origin.options, overridden=overridden),
                threads=self.threads,
                patterns=origin.patterns,
                ops=origin.ops,
                target=origin.target,
            )
        return self._variants[overridden]

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
        return Explanation(self.loaded.explained())

    def memory_analysis(
        self, sizes: Mapping[str, int] | None = None, /, *, threads: int | None = None, **symbols: int
    ) -> MemoryAnalysis:
        """The arena at these sizes of the model's symbols: `program.memory_analysis(B=8, T=128)`.

        Gives the peak in bytes, what is live there, and the formula.  Sizes may also come as a mapping, for symbols
        that are no words of Python's.  The symbol of an input's dim `4*C` is C.  Raises InputError for sizes that
        lack a symbol, or have one too many.
        """
        from .tools.feeds import ANY_RANK, symbols_in
        from .tools.memory import analyze

        if sizes is not None and not isinstance(sizes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"sizes={shown(sizes)}: a mapping from symbols to sizes")
        THREADS.check("threads", threads)
        given = {**(sizes or {}), **symbols}
        for name, size in given.items():
            SIZE.check(name, size)
        known = symbols_in(d for spec in self.inputs for d in spec.shape if d != ANY_RANK)
        if unknown := sorted(name for name in given if name not in known):
            raise InputError(f"the model has no symbol {unknown[0]!r}, but {', '.join(sorted(known)) or 'none'}")
        if (memory := self.loaded.manifest["explain"].get("memory")) is None:
            raise InputError("memory is known for the program of one rank only, and the inputs decide it")
        return analyze(memory, given, threads or self.threads)

    @property
    def kernels(self) -> Mapping[str, KernelCallable]:
        """Each fused kernel by name, as a callable of its own; `.ir(level)` and `.asm` show it. Needs the compiler."""
        from .kernels import kernels_of

        return kernels_of(self)


def tensor_info(spec: TensorSpec) -> TensorInfo:
    """The manifest's entry as users see it."""
    dtype: Any = spec["dtype"] if spec["dtype"] in OBJECT_TYPES else dtype_of(spec["dtype"])
    return TensorInfo(spec["name"], dtype, tuple(spec["dims"]))


@checked
def compile(
    model: Model,
    *,
    dims: Mapping[str, tuple[int, int]] | None = None,
    assume: str | Iterable[str] = (),
    threads: int | None = None,
    exact: bool = False,
    fast_math: bool = False,
    precision: str = "f32",
    fuse: bool = True,
    schedule: Mapping[str, Any] | str | Path | None = None,
    tuned: bool = True,
    timed: bool = False,
    cache: bool = True,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
    target: Target | None = None,
    progress: Progress | None = None,
) -> Program:
    """Compiles a model (a path, bytes, or a ModelProto) for this machine, or loads it from the cache.

    `dims` gives ranges of symbols, `assume` facts on them (`"S == T"`, one or several); both become
    guards.  `exact` leaves out every rewrite that
    changes rounding; `fast_math` joins products and sums of different operators (see docs/numerics.md).  `precision` is
    one of `sardonyx.precision.NEEDS`.  `schedule` gives choices of kernels (a mapping `{kernel: {part: {choice:
    number}}}`, or a JSON file of it) in place of the cost model's; `tuned` takes those that `sardonyx tune` found on
    this machine.  Neither changes a result.  `timed` makes a program that can note the time of each call of a kernel,
    which `sardonyx profile` shows.  `patterns` are rewrites to run after ours, and `ops` the user's own operators
    (`sx.op`, `sx.pointwise`); with either, only single kernels are cached.  `threads` counts the caller; the default is
    one for each core.  Raises ModelError for a model that is wrong, UnsupportedError naming every operator that we
    lack.
    """
    if exact and fast_math:
        raise InputError("exact keeps every rounding and fast_math drops some: only one of them can be")
    options = Options(
        dims=ranges("dims", dims or {}),
        assume=conditions(assume),
        fuse=fuse,
        exact=exact,
        fast_math=fast_math,
        precision=precision,
        schedule=normal_schedule(schedule),
        tuned=tuned,
        timed=timed,
    )
    return compile_with(
        model, options, threads=threads, cache=cache, patterns=patterns, ops=ops, target=target, progress=progress
    )


def normal_schedule(schedule: Mapping[str, Any] | str | Path | None) -> str:
    """The schedule as options hold it. Raises InputError for what is none."""
    if schedule is None:
        return ""
    from .schedules import schedule_text

    return schedule_text(schedule)


def compile_with(
    model: Model,
    options: Options,
    *,
    threads: int | None = None,
    cache: bool = True,
    patterns: Sequence[Pattern] = (),
    ops: Iterable[CustomOperator] = (),
    target: Target | None = None,
    progress: Progress | None = None,
) -> Program:
    """`compile`, with its options as one value."""
    report = progress or (lambda phase, done, total: None)
    KINDS["target"].check("target", target)
    machine = target or detect()
    check_precision(options.precision, machine.cpu, machine.features)
    source = model_source(model)
    origin = Origin(model, options, listed("patterns", patterns), listed("ops", ops), target)
    store = open_cache() if cache and not origin.patterns and not origin.ops else None  # users' code has no key
    key = program_key(options, target)
    count = thread_count(threads)
    if store is not None:
        stored = store.load_program(source, key)
        if stored is not None and "question" in stored.manifest:
            return open_program(stored.manifest, origin, count, cache)
        if stored is not None:
            functions = [host_function(host) for host in stored.manifest["hosts"]]
            loaded = LoadedProgram(stored.manifest, stored.objects, stored.weights, functions, threads=count)
            loaded.otherwise = programs_otherwise(stored.manifest, origin, count, cache)
            return Program(loaded, origin=origin)
    from .compiler import compile_fresh
    from .ops import operator_table

    objects = open_cache() if cache else None
    try:
        built, seconds = compile_fresh(
            model, options, origin.patterns, target, report, objects, operator_table(origin.ops)
        )
    except OpenRankError as error:
        if store is not None:
            store.store_program(source, key, error.manifest, [], [], error.externals)
        return open_program(error.manifest, origin, count, cache)
    loaded = LoadedProgram(
        built.manifest, built.objects, [w.array for w in built.weights], built.host_functions, threads=count
    )
    loaded.otherwise = programs_otherwise(built.manifest, origin, count, cache)
    if store is not None and built.storable:
        store.store_program(source, key, built.manifest, built.objects, built.weights, built.externals)
    return Program(loaded, seconds, origin)


def open_program(manifest: Manifest, origin: Origin, threads: int, cache: bool) -> Program:
    """A program whose ranks the inputs of a call decide; the first call with an answer compiles the code for it."""

    def variant(assumption: str) -> LoadedProgram | OpenRanks:
        found = program_under(assumption, origin, threads, cache)
        if found.manifest.get("question") == manifest.get("question"):
            raise CompilerBug(f"bug: {assumption} is no answer: {manifest['explain']['open_rank']}")
        return found

    return Program(OpenRanks(manifest, variant, threads), origin=origin)


def program_under(assumption: str, origin: Origin, threads: int, cache: bool) -> LoadedProgram | OpenRanks:
    """The program under one more assumption. Raises InputError where the model is not valid with it."""
    options = replace(origin.options, answers=(*origin.options.answers, assumption))
    try:
        return compile_with(
            origin.model,
            options,
            threads=threads,
            cache=cache,
            patterns=origin.patterns,
            ops=origin.ops,
            target=origin.target,
        ).loaded
    except ModelError as error:
        raise InputError(f"inputs for which {assumption}: {error}") from error


def programs_otherwise(
    manifest: Manifest, origin: Origin, threads: int, cache: bool
) -> Callable[[Sequence[object]], LoadedProgram | None] | None:
    """What finds the program for inputs of which a guard refuses the sizes; None where there is none of any."""
    if "otherwise" not in manifest:
        return None
    zeros = [Zero(question) for question in manifest["otherwise"]]
    made: dict[str, LoadedProgram | None] = {}

    def found(values: Sequence[object]) -> LoadedProgram | None:
        for zero in zeros:
            if not zero.holds(values):
                continue
            if zero.assumption not in made:
                other = program_under(zero.assumption, origin, threads, cache)
                made[zero.assumption] = other if isinstance(other, LoadedProgram) else None
            return made[zero.assumption]
        return None

    return found


def model_source(model: Model) -> Path | bytes:
    """A path, or the model's bytes. Raises InputError for what is no model."""
    check_model(model)
    if isinstance(model, str | Path):
        return Path(model)
    if isinstance(model, bytes):
        return model
    return bytes(model.SerializeToString())


def check_model(model: object) -> None:
    """Raises InputError for what is no model."""
    if not isinstance(model, str | Path | bytes) and not hasattr(model, "SerializeToString"):  # onnx is not imported
        raise InputError(f"a model is a path, bytes, or a ModelProto, not {type(model).__name__}")


def host_function(host: Host) -> HostFunction:
    """The reference function of a hosted operator, from what the manifest says of it."""
    from .semantics.reference import REFERENCE

    payload: dict[str, Any] = host.get("payload") or {}
    reference = REFERENCE[payload["domain"], payload["operator"]]
    attributes, places = payload["attributes"], payload["results"]
    if len(places) == 1:
        return lambda *operands: reference(list(operands), attributes, places[0] + 1)[places[0]]

    def run(*operands: Any) -> tuple[Any, ...]:
        results = reference(list(operands), attributes, places[-1] + 1)
        return tuple(results[place] for place in places)

    return run
