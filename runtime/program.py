"""A compiled program, loaded: numpy arrays in, one call of native code, numpy arrays out."""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from . import abi, elf
from .abi import ENTRY_SYMBOL, PARALLEL_FOR_SYMBOL, ErrorCode, ErrorWord
from .arguments import Arguments, count_text, quoted
from .arrays import C_ORDER_ALIGNED, Array, Spec, address_of, as_input, as_objects, dtype_of
from .available import available_memory, require
from .containers import reader_of
from .context import Context
from .errors import CompilerBug, InputError, ResourceError
from .host import default_threads
from .hosting import Hosted, HostFunction
from .linker import linker
from .manifest import FORMAT, OBJECT_TYPES, Manifest, Shape, shape_function
from .threads import ThreadPool, pool_of
from .usage import KINDS

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_REMEMBERED_SHAPES = 256
_LARGE = 1 << 28
"""Bytes of outputs from which on a call asks how much memory there is: writing them takes a hundred times as long."""
_EXPECTED_VERSIONS = (FORMAT, abi.VERSION)


class Plan:
    """What a call needs to know for one set of input shapes: all input sizes, and the outputs' shapes where known.

    `bytes` is what those outputs take.
    """

    __slots__ = ("bytes", "shapes", "sizes")

    def __init__(self, sizes: tuple[int, ...], shapes: Sequence[Shape | None], size: int) -> None:
        self.sizes = sizes
        self.shapes = shapes
        self.bytes = size


class LoadedProgram(Arguments):
    """Calls a program. Any number of threads may call it at the same time, each with a context of its own.

    `objects` are the kernels', the entry's and the pool's, in any order; `weights` the table that the entry indexes;
    `host_functions` serve the manifest's `hosts`, in its order.  `threads` counts the caller; None: one for each core.
    Raises CompilerBug for objects or a manifest that do not fit together.
    """

    def __init__(
        self,
        manifest: Manifest,
        objects: Sequence[bytes],
        weights: Sequence[Array] = (),
        host_functions: Sequence[HostFunction] = (),
        *,
        threads: int | None = None,
    ) -> None:
        if (manifest["format"], manifest["abi"]) != _EXPECTED_VERSIONS:
            raise CompilerBug("the program was made by another version")
        if len(host_functions) != len(manifest["hosts"]):
            raise CompilerBug(f"{len(manifest['hosts'])} host operators, {len(host_functions)} functions")
        self.manifest = manifest
        self.threads = default_threads() if threads is None else max(1, min(threads, abi.MAX_THREADS))
        self.specs = [Spec(spec) for spec in manifest["inputs"]]
        self._readers = [None if spec.holds is None else reader_of(spec.holds) for spec in self.specs]
        self.input_names = [spec.name for spec in self.specs]
        self.output_names = [spec["name"] for spec in manifest["outputs"]]
        self._output_types = [dtype_of(spec["dtype"]) for spec in manifest["outputs"]]
        self._output_ranks = [len(spec["dims"]) for spec in manifest["outputs"]]
        self._object_outputs = [spec["dtype"] in OBJECT_TYPES for spec in manifest["outputs"]]
        self._has_objects = any(self._object_outputs) or any(spec.is_object for spec in self.specs)
        nodes = dict(enumerate(manifest["nodes"]))
        hosts = zip(manifest["hosts"], host_functions)
        self._host = [Hosted(host, function, nodes.get(host["node"], "")) for host, function in hosts]
        self._shapes = shape_function(manifest)
        self._plans: dict[tuple[Shape, ...], Plan] = {}
        self._link(objects)
        self._weights = [
            np.asarray(weight, order="C") for weight in weights
        ]  # keeps rank 0, as ascontiguousarray does not
        self._table = (ctypes.c_int64 * max(1, len(weights)))(*map(address_of, self._weights))
        sizes, outputs = sum(spec.rank for spec in self.specs), len(self.output_names)
        self._given = struct.Struct(f"{len(self.specs) + sizes + outputs}q")
        self._argument_words = len(self.specs) + sizes + outputs + sum(self._output_ranks)
        self._first_output = len(self.specs) + sizes
        self._free: list[Context] = []
        self._times = 0
        self.otherwise: Callable[[Sequence[object]], LoadedProgram | None] | None = None
        """The program for inputs of which a guard refuses the sizes here, if there is one."""

    def _default(self, index: int) -> Array:
        return self._weights[index]

    def _link(self, objects: Sequence[bytes]) -> None:
        entries = [data for data in objects if _defines(data, ENTRY_SYMBOL)]
        libraries = [linker().link(data) for data in objects if not _defines(data, ENTRY_SYMBOL)]
        pools = [library for library in libraries if PARALLEL_FOR_SYMBOL in library.addresses]
        if len(entries) != 1 or len(pools) != 1:
            raise CompilerBug(f"a program has one entry and one pool, this one {len(entries)} and {len(pools)}")
        self._library = linker().link(entries[0], libraries)
        self._entry = _ENTRY(self._library.addresses[ENTRY_SYMBOL])
        self._pool_library = pools[0]
        self._pool: ThreadPool = pool_of(pools[0])

    def explained(self) -> Any:
        """The compiler's report."""
        return self.manifest["explain"]

    # --- calls ---

    def __call__(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Runs the program: arrays in the order of the inputs, by name, or one mapping. Gives the outputs by name.

        Raises InputError for arguments that do not fit; then no output was written.
        """
        return dict(zip(self.output_names, self._call(self._in_order(args, kwargs)), strict=True))

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[Any]:
        """Runs the program; the outputs named, or all of them (None), as a list."""
        results = self._call(self._named(feeds))
        if names is None:
            return results
        KINDS["names"].check("names", names)
        unknown = [name for name in names if name not in self.output_names]
        if unknown:
            raise InputError(f"no output named {quoted(unknown)}; the outputs are {quoted(self.output_names)}")
        return [results[self.output_names.index(name)] for name in names]

    def run_in_order(self, values: Sequence[object]) -> list[Any]:
        """All outputs, of all inputs in their order: the call with the least overhead."""
        if len(values) != len(self.specs):
            raise InputError(f"{len(values)} arguments, the model has {count_text(len(self.specs), 'input')}")
        return self._call(list(values))

    def run_into(self, outputs: Mapping[str, Array], feeds: Mapping[str, object]) -> None:
        """Runs the program and writes the named outputs into these arrays."""
        self.bind(feeds, outputs)()

    def bind(self, feeds: Mapping[str, object], outputs: Mapping[str, Array] | None = None) -> BoundCall:
        """A call with its arrays fixed, for the least overhead: it reads and writes the same memory each time.

        Outputs that are not given get an array here where their shape is known, else a new one at each call.
        """
        KINDS["outputs"].check("outputs", outputs)
        if self.otherwise is not None and (other := self.otherwise(self._named(feeds))) is not None:
            return other.bind(feeds, outputs)
        return BoundCall(self, self._named(feeds), dict(outputs or {}))

    def _call(self, values: list[object]) -> list[Any]:
        if self.otherwise is None:
            return self._called(values)
        try:
            return self._called(values)
        except InputError:
            other = self.otherwise(values)
            if other is None:
                raise
            return other.run_in_order(values)

    def _called(self, values: list[object]) -> list[Any]:
        if self._has_objects:
            return self._call_with_objects(values)
        shapes: list[Shape] = []
        words: list[int] = []
        for index, spec in enumerate(self.specs):
            value = values[index]
            if (
                type(value) is not np.ndarray
                or value.dtype is not spec.dtype
                or value.ndim != spec.rank
                or value.flags.num & C_ORDER_ALIGNED != C_ORDER_ALIGNED
            ):
                value = values[index] = as_input(value, spec)
            shapes.append(value.shape)
            words.append(address_of(value))
        plan = self._plans.get(tuple(shapes)) or self._plan(tuple(shapes))
        outputs = self._empty(plan)
        words += plan.sizes
        words += [0 if output is None else address_of(output) for output in outputs]
        context = self._lease()
        try:
            self._given.pack_into(context.words, context.args_offset, *words)
            if self._entry(context.address, context.args):
                self._fail(context)
            if context.dirty:
                self._collect(context, outputs)
        finally:
            self._give_back(context)
        return outputs

    def _call_with_objects(self, values: list[object]) -> list[Any]:
        context = self._lease()
        context.dirty = True
        try:
            words = self._object_arguments(context, values)
            shapes = tuple(getattr(v, "shape", ()) if s.rank else () for v, s in zip(values, self.specs))
            plan = self._plans.get(shapes) or self._plan(shapes)
            outputs = self._empty(plan)
            words += plan.sizes
            words += [0 if output is None else address_of(output) for output in outputs]
            self._given.pack_into(context.words, context.args_offset, *words)
            if self._entry(context.address, context.args):
                self._fail(context)
            self._collect(context, outputs)
        finally:
            self._give_back(context)
        return outputs

    def _object_arguments(self, context: Context, values: list[object]) -> list[int]:
        """Pointers of tensors, numbers of objects; `values` are replaced by what was made of them."""
        words: list[int] = []
        for index, spec in enumerate(self.specs):
            if spec.is_object:
                given, read = values[index], self._readers[index]
                values[index] = as_objects(given, spec) if read is None else read(given, spec.name)
                words.append(context.keep(values[index]))
            else:
                array = values[index] = as_input(values[index], spec)
                words.append(address_of(array))
        return words

    def _plan(self, shapes: tuple[Shape, ...]) -> Plan:
        sizes = tuple(size for shape in shapes for size in shape)
        try:
            found = self._shapes(sizes)
        except ZeroDivisionError:
            found = [None] * len(self.output_names)
        # a guard refuses sizes that are out of range; here they are only no reason to allocate
        known = [None if shape is None or any(d < 0 for d in shape) else shape for shape in found]
        size = sum(prod(s) * t.itemsize for s, t in zip(known, self._output_types) if s is not None)
        plan = Plan(sizes, known, size)
        if len(self._plans) >= _REMEMBERED_SHAPES:
            self._plans.clear()
        self._plans[shapes] = plan
        return plan

    def _empty(self, plan: Plan) -> list[Any]:
        """New arrays for the outputs whose shape is known."""
        try:
            if plan.bytes > _LARGE:
                require(plan.bytes)
            return [
                None if shape is None else np.empty(shape, dtype)
                for shape, dtype in zip(plan.shapes, self._output_types)
            ]
        except (MemoryError, ValueError):
            return [None] * len(plan.shapes)  # the entry finds the same sizes and says what is wrong with them

    def _lease(self) -> Context:
        if self._pool.count < self.threads:
            self._pool.ensure(self.threads)
        try:
            return self._free.pop()
        except IndexError:
            return self.new_context()

    def _give_back(self, context: Context) -> None:
        if context.dirty:
            context.reset()
        if context.serves:
            self._free.append(context)

    def new_context(self) -> Context:
        """A context of this program's."""
        context = Context(
            self._pool_library,
            self._pool.address if self.threads > 1 else 0,
            ctypes.addressof(self._table),
            self.threads,
            self._argument_words,
            self,
        )
        context.words[abi.Slot.TIMES] = self._times
        return context

    def note_times(self, words: ctypes.Array[ctypes.c_int64] | None) -> None:
        """From now on calls note the times of their steps in these words (`abi.TimeWord`), if the entry is a timed one.

        Calls that run already and bound calls go on as before; calls that run at the same time must not be timed.
        """
        self._times = 0 if words is None else ctypes.addressof(words)
        self._free.clear()

    def _collect(self, context: Context, outputs: list[Any]) -> None:
        """Puts what native code or hosts have made of the outputs into the list."""
        for index, output in enumerate(outputs):
            if self._object_outputs[index]:
                word = context.words[context.args_offset // abi.WORD + self._first_output + index]
                outputs[index] = context.objects[word]
            elif output is None:
                outputs[index] = context.outputs[index]

    # --- what contexts ask ---

    def allocate_output(self, context: Context, output: int, dims: Shape) -> int:
        """A new array for an output whose sizes only the run told."""
        name = self.output_names[output]
        if dims and min(dims) < 0:
            raise InputError(f"output '{name}' would have the sizes {dims}")
        size = prod(dims) * self._output_types[output].itemsize
        try:
            if size > _LARGE:
                require(size)
            array = np.empty(dims, self._output_types[output])
        except (MemoryError, ValueError) as error:
            free = f"it has {size} bytes, {available_memory()} are available"
            raise ResourceError(f"output '{name}' with the sizes {dims} does not fit into memory: {free}") from error
        context.outputs[output] = array
        return address_of(array)

    def call_host(self, context: Context, host: int, args: int) -> None:
        """Runs a host operator."""
        self._host[host].call(context, args)

    # --- errors ---

    def _fail(self, context: Context) -> None:
        """Raises what the call died of."""
        context.dirty = True
        record = list(context.error)
        if isinstance(context.exception, ResourceError) and record[ErrorWord.CODE] == ErrorCode.MEMORY:
            raise ResourceError(f"{context.exception}{self._node_text(record[ErrorWord.NODE])}")
        if context.exception is not None:
            raise context.exception
        code, values = record[ErrorWord.CODE], record[ErrorWord.VALUES :][: record[ErrorWord.COUNT]]
        if code == ErrorCode.CHECK:
            raise InputError(self._check_text(record[ErrorWord.SITE], record[ErrorWord.NODE], values))
        if code == ErrorCode.MEMORY:
            raise ResourceError(
                self._memory_text(record[ErrorWord.SITE], values) + self._node_text(record[ErrorWord.NODE])
            )
        if code == ErrorCode.INTERRUPTED:
            raise InputError("the call was stopped")
        if code == ErrorCode.NONE and not context.serves:
            raise KeyboardInterrupt  # it came while an earlier exception was being noted, and ended the server
        raise CompilerBug(f"bug: the program failed with the error record {record[: ErrorWord.VALUES]}")

    def _memory_text(self, site: int, values: Sequence[int]) -> str:
        """What takes how much, and how much there is."""
        size, free = values
        what = "the model needs" if site < 0 else f"{self.manifest['checks'][str(site)]['message']} needs"
        counted = f"{size} bytes" if size >= 0 else "more bytes than can be counted"
        rest = f"; {free} are available" if free else ""
        return f"{what} {counted} of memory for inputs of these sizes{rest}"

    def _check_text(self, site: int, node: int, values: Sequence[int]) -> str:
        check = self.manifest["checks"].get(str(site))
        if check is None:
            raise CompilerBug(f"bug: the program failed at an unknown site, {site}")
        text = fill_in(check["message"], values)
        return text + self._node_text(check.get("node", node))

    def _node_text(self, node: int) -> str:
        """The line that names a node, where it has a name."""
        nodes = self.manifest["nodes"]
        return f"\n  --> node {nodes[node]}" if 0 <= node < len(nodes) and nodes[node] else ""


def _defines(data: bytes, symbol: str) -> bool:
    try:
        return symbol in elf.symbols(data).defined
    except elf.MalformedObjectError as error:
        raise CompilerBug(f"an object of the program is no object: {error}") from error


class BoundCall:
    """A call whose arrays are fixed. Calls of one bound call do not overlap; those of different ones may.

    `outputs` has the arrays by name; for outputs that only the run sizes, those of the last call.
    """

    def __init__(self, program: LoadedProgram, values: list[object], outputs: dict[str, Array]) -> None:
        self._program = program
        self._context = program.new_context()
        self._lock = threading.Lock()
        self._bind(values, outputs)

    def _bind(self, values: list[object], outputs: dict[str, Array]) -> None:
        program, context = self._program, self._context
        if program._has_objects:  # pyright: ignore[reportPrivateUsage]
            raise InputError("a model with strings or sequences cannot be bound")
        unknown = [name for name in outputs if name not in program.output_names]
        if unknown:
            raise InputError(f"no output named {quoted(unknown)}; the outputs are {quoted(program.output_names)}")
        arrays = [as_input(value, spec) for value, spec in zip(values, program.specs)]
        plan = program._plan(tuple(array.shape for array in arrays))  # pyright: ignore[reportPrivateUsage]
        made = program._empty(plan)  # pyright: ignore[reportPrivateUsage]
        for index, name in enumerate(program.output_names):
            if name in outputs:
                check_output(name, outputs[name], made[index], arrays)
                made[index] = outputs[name]
        self._inputs, self._made = arrays, made
        self.outputs: dict[str, Any] = dict(zip(program.output_names, made))
        words = [*map(address_of, arrays), *plan.sizes]
        words += [0 if output is None else address_of(output) for output in made]
        program._given.pack_into(context.words, context.args_offset, *words)  # pyright: ignore[reportPrivateUsage]
        self._entry = program._entry  # pyright: ignore[reportPrivateUsage]
        self._addresses = context.address, context.args
        self._sized = all(output is not None for output in made)
        if program.threads > 1:
            program._pool.ensure(program.threads)  # pyright: ignore[reportPrivateUsage]

    def __call__(self) -> dict[str, Any]:
        """Runs the program on the arrays as they are now."""
        with self._lock:
            failed = self._entry(*self._addresses)
            if failed or self._context.dirty:
                self._finish(failed)
        return self.outputs

    def _finish(self, failed: int) -> None:
        program, context = self._program, self._context
        try:
            if failed:
                program._fail(context)  # pyright: ignore[reportPrivateUsage]
            results = list(self._made)
            if not self._sized:
                program._collect(context, results)  # pyright: ignore[reportPrivateUsage]
            self.outputs = dict(zip(program.output_names, results))
        finally:
            context.reset()


def check_output(name: str, array: Array, expected: Array | None, inputs: Iterable[Array]) -> None:
    """Raises InputError for an array that the output cannot be written into."""
    if expected is None:
        raise InputError(f"output '{name}' has a size that only the run tells; it cannot be written into an array")
    if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"output '{name}' is written into an array, not into {type(array).__name__}")
    if array.dtype != expected.dtype or array.shape != expected.shape:
        raise InputError(
            f"output '{name}' is {expected.dtype.name} {expected.shape}, the array is {array.dtype.name} {array.shape}"
        )
    if array.flags.num & C_ORDER_ALIGNED != C_ORDER_ALIGNED or not array.flags.writeable:
        raise InputError(f"the array for output '{name}' must be contiguous, aligned and writable")
    if any(np.may_share_memory(array, given) for given in inputs):
        raise InputError(f"the array for output '{name}' overlaps an input")


_PLACE = re.compile(r"\{(\d+)\}")
_CHOICE = re.compile(r"\{(\d+)=0\|((?:[^{}|]|\{\d+\})*)\|((?:[^{}|]|\{\d+\})*)\}")


def fill_in(message: str, values: Sequence[int]) -> str:
    """The message with {0}, {1}, ... replaced by the values; values that it has no place for follow it.

    Of `{1=0|a|b}` the text has a where the second value is 0, else b.
    """
    chosen = _CHOICE.sub(lambda m: m[2] if int(m[1]) < len(values) and values[int(m[1])] == 0 else m[3], message)
    text = _PLACE.sub(lambda m: str(values[int(m[1])]) if int(m[1]) < len(values) else m[0], chosen)
    if values and not _PLACE.search(message):
        text += f" ({', '.join(map(str, values))})"
    return text
