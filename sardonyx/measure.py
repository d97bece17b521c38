"""Measuring one kernel under several schedules: a job for a worker.

The kernel runs alone, as its program would run it: in a `main` that calls it with the sizes and constants of a call,
from the thread pool, on operands of the same types.  The schedules take turns, so that a drift of the clock hits all
alike, and each result is compared with the first schedule's, bit by bit.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.parser import Parser

from .build import name_of
from .compiler import build
from .dialects import kernel, onnx
from .dialects.dims import as_dim, dims_of, tensor_type
from .dialects.target import Target
from .lowering.choices import SCHEDULE, Schedule, schedule_attribute, schedule_of
from .options import Options
from .pipeline import LEVEL, State
from .runtime.arrays import dtype_of
from .runtime.errors import Error, InputError, UnsupportedError
from .runtime.host import detect
from .runtime.manifest import TensorSpec
from .runtime.program import LoadedProgram
from .semantics.weights import WeightStore
from .tools.opt import context_of

Array: TypeAlias = "np.ndarray[Any, Any]"
ROUNDS = 9
SAMPLE_SECONDS = 0.004
"""A sample is so many calls that they take about this long."""


@dataclass(frozen=True)
class Timing:
    """One schedule: the median of a call in seconds, or why there is none. `choices` are all that was chosen."""

    given: Schedule
    seconds: float | None
    choices: Schedule
    same_bits: bool
    error: str = ""


@dataclass(frozen=True)
class MeasureJob:
    """Times a kernel under some schedules; the first one is what the others are compared with.

    `text` is the kernel at the kernels level, `dims` the values of its symbols, `constants` the constant operands by
    number (an array, or None for random numbers of the type and size), `seconds` about how long to measure.
    """

    text: str
    dims: tuple[int, ...]
    constants: Mapping[int, Array | None]
    schedules: tuple[Schedule, ...]
    target: Target
    threads: int
    exact: bool = False
    seconds: float = 1.0

    def run(self) -> list[Timing]:
        """The timings, in the order of the schedules. Raises UnsupportedError where the kernel cannot run alone."""
        here = detect()
        if (here.cpu, here.features) != (self.target.cpu, self.target.features):
            raise UnsupportedError(f"code for {self.target.cpu} cannot be measured on this {here.cpu}")
        return measure(self)


@dataclass(frozen=True)
class MeasureJobs:
    """Several such jobs one after the other, in one worker: starting one takes longer than a short measurement."""

    jobs: tuple[MeasureJob, ...]

    def run(self) -> list[list[Timing] | Error]:
        """For each job its timings, or its error."""
        found: list[list[Timing] | Error] = []
        for job in self.jobs:
            try:
                found.append(job.run())
            except Error as e:
                found.append(e)
        return found


def measure(job: MeasureJob) -> list[Timing]:
    """What `MeasureJob.run` gives."""
    programs: list[LoadedProgram | str] = []
    chosen: list[Schedule] = []
    for schedule in job.schedules:
        try:
            program, choices = compiled(job, schedule)
            programs.append(program)
            chosen.append(choices)
        except InputError as e:
            programs.append(str(e))
            chosen.append({})
    first = programs[0]
    if isinstance(first, str):
        raise InputError(first)
    feeds, expected = working_feeds(first)
    calls: dict[int, Callable[[], Any]] = {}
    same: dict[int, bool] = {}
    for number, program in enumerate(programs):
        if not isinstance(program, str):
            same[number] = digest_of(program(feeds)) == expected
            calls[number] = program.bind(feeds)
    times = interleaved({n: c for n, c in calls.items() if same[n]}, job.seconds)
    return [
        Timing(schedule, times.get(n), chosen[n], same.get(n, True), program if isinstance(program, str) else "")
        for n, (schedule, program) in enumerate(zip(job.schedules, programs, strict=True))
    ]


def interleaved(calls: Mapping[int, Callable[[], Any]], seconds: float) -> dict[int, float]:
    """The median seconds of each call; samples of all of them take turns."""
    counts: dict[int, int] = {}
    for number, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        took = max(time.perf_counter() - began, 1e-7)
        counts[number] = max(1, min(10_000, round(SAMPLE_SECONDS / took)))
    samples: dict[int, list[float]] = {n: [] for n in calls}
    end = time.perf_counter() + seconds
    while any(len(s) < ROUNDS for s in samples.values()) or time.perf_counter() < end:
        for number, call in calls.items():
            count = counts[number]
            began = time.perf_counter()
            for _ in range(count):
                call()
            samples[number].append((time.perf_counter() - began) / count)
        if time.perf_counter() > end and all(len(s) >= 3 for s in samples.values()):
            break
    return {n: statistics.median(s) for n, s in samples.items()}


def compiled(job: MeasureJob, schedule: Schedule) -> tuple[LoadedProgram, Schedule]:
    """The kernel under a schedule as a program of its own, and all its choices."""
    from .universe import UNIVERSE

    module = Parser(context_of(UNIVERSE), job.text).parse_module()
    [function] = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    function.detach()
    if schedule:
        function.attributes[SCHEDULE] = schedule_attribute(schedule)
    weights = WeightStore()
    main = main_calling(function, job.dims, job.constants, weights)
    whole = ModuleOp([main, function], {LEVEL: StringAttr("kernels")})
    state = State(whole, weights, job.target, Options(exact=job.exact))
    built = build(state, {}, lambda phase, done, total: None, None)
    arrays = [w.array for w in built.weights]
    program = LoadedProgram(built.manifest, built.objects, arrays, built.host_functions, threads=job.threads)
    return program, schedule_of(function)


def main_calling(
    function: FuncOp, dims: tuple[int, ...], constants: Mapping[int, Array | None], weights: WeightStore
) -> FuncOp:
    """A `main` that calls a kernel with these sizes and constants; its other operands are the inputs, in order."""
    at = {f"d{i}": as_dim(size) for i, size in enumerate(dims)}

    def sized(kind: Attribute) -> TensorType:
        assert isinstance(kind, TensorType)
        return tensor_type(kind.element_type, [d.subs(at) for d in dims_of(kind)])

    tensors = [sized(a.type) for a in function.body.block.args if isinstance(a.type, TensorType)]
    inputs = [t for number, t in enumerate(tensors) if number not in constants]
    block = Block(arg_types=inputs)
    free = iter(block.args)
    operands: list[SSAValue] = []
    for number, kind in enumerate(tensors):
        if number not in constants:
            operands.append(next(free))
            continue
        array = constants[number]
        if array is None:
            array = random_array(onnx.numpy_dtype(kind.element_type), kind.get_shape(), number)
        constant = onnx.ConstantOp.make([], {"value": weights.add(array)}, [kind])
        block.add_op(constant)
        operands.append(constant.results[0])
    results = [sized(t) for t in function.function_type.outputs.data]
    call = kernel.CallOp(name_of(function), list(dims), operands, results)
    block.add_ops([call, ReturnOp(*call.outputs)])
    main = FuncOp("main", FunctionType.from_lists(inputs, results), Region(block))
    main.attributes["onnx.inputs"] = onnx.strings_attr([f"in{i}" for i in range(len(inputs))])
    main.attributes["onnx.outputs"] = onnx.strings_attr([f"out{i}" for i in range(len(results))])
    return main


def working_feeds(program: LoadedProgram) -> tuple[dict[str, Array], bytes]:
    """Operands that the kernel takes, and the digest of its results: random ones, or with integers 0 (they may be
    indices). Raises UnsupportedError where it takes neither."""
    reason: Error | None = None
    for zeros in (False, True):
        feeds = {s["name"]: operand(s, i, zeros) for i, s in enumerate(program.manifest["inputs"])}
        try:
            return feeds, digest_of(program(feeds))
        except InputError as e:
            reason = e
    raise UnsupportedError(f"the kernel does not run on made-up operands: {reason}")


def operand(spec: TensorSpec, seed: int, zeros: bool) -> Array:
    """One operand of a kernel."""
    shape, kind = tuple(int(d) for d in spec["dims"]), dtype_of(spec["dtype"])
    return np.zeros(shape, kind) if zeros and kind.kind in "iu" else random_array(kind, shape, seed)


def random_array(kind: np.dtype[Any], shape: tuple[int, ...], seed: int) -> Array:
    """Normal floats, bytes of the whole range, other integers 0 and 1, fair bools."""
    rng = np.random.default_rng(seed)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        limits = np.iinfo(kind) if kind.itemsize == 1 else None
        low, high = (limits.min, limits.max + 1) if limits else (0, 2)
        return rng.integers(low, high, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def digest_of(results: Mapping[str, Any]) -> bytes:
    """A digest of the results' bits."""
    found = hashlib.sha256()
    for value in results.values():
        found.update(np.ascontiguousarray(value).tobytes())
    return found.digest()
