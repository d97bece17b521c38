"""The graph level's executor: runs `@main` by the reference functions, whatever passes have made of it so far.

Runs a module as imported and upgraded, with or without inference, and at the kernels level (`kernel.call`,
`kernel.view`, `dims.*`).  Symbols are bound to the sizes of the inputs and of computed values, and what the types and
`dims.assume` say of them is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.hints import isa

from ..dialects import dims, kernel, onnx
from ..dialects.dims import Dim
from ..dialects.dims.expression import DimError
from ..dialects.dims.text import told_size
from ..dialects.onnx import model as names
from ..runtime.errors import Error, InputError, ModelError, UnsupportedError
from .conditions import Condition, brief_condition
from .custom import NO_OPERATORS, CustomOperator, Evaluator, Operators, evaluator_of
from .known import dense_of
from .reference import Array, Value, as_value
from .reference.indexing import OutOfRange
from .tensor_eval import evaluate as evaluate_tensors
from .weights import WeightStore

Observer = Callable[[SSAValue, Value], None]
"""Told every value as it is computed, those of bodies and kernels each time anew."""

KernelRunner = Callable[[kernel.CallOp, Sequence[int], Sequence[Array], Sequence[Array]], None]
"""Runs a kernel in the interpreter's place: the call, its sizes, its inputs, and the arrays to write (contiguous all).

Of a call with `dims.binds` the results have room for the most, and behind them are the sizes found, as int64.
"""


def run_graph(
    module: ModuleOp,
    weights: WeightStore,
    inputs: Mapping[str, Value],
    observe: Observer | None = None,
    operators: Operators = NO_OPERATORS,
    kernels: KernelRunner | None = None,
) -> dict[str, Value]:
    """The outputs of `@main` by name for the inputs by name; `operators` are the users' own.

    An input may also replace an initializer that is `overridable`.  `kernels` runs each `kernel.call`, whose inside is
    then not observed.  Raises InputError for inputs that are missing, of another type, or of sizes that the model does
    not admit, and where a node meets values that it does not allow; UnsupportedError for an operator without reference
    function.
    """
    return Interpreter(module, weights, observe, operators, kernels).run(inputs)


@dataclass
class Frame:
    """What is known while a function or a body runs.  A body sees the frame around it, a function does not."""

    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    """Of a local function: its caller's attributes, and the defaults of others."""
    outer: Frame | None = None

    def get(self, value: SSAValue) -> Value:
        frame: Frame | None = self
        while frame is not None:
            if value in frame.values:
                return frame.values[value]
            frame = frame.outer
        raise KeyError(value)

    def find(self, symbol: str) -> int | None:
        frame: Frame | None = self
        while frame is not None:
            if symbol in frame.symbols:
                return frame.symbols[symbol]
            frame = frame.outer
        return None

    def evaluate(self, dim: Dim) -> int | None:
        """The value of an expression; None where a symbol has none yet."""
        if dim.is_const:
            return dim.value
        bound = {s: self.find(s) for s in dim.symbols}
        known = {s: n for s, n in bound.items() if n is not None}
        return dim.evaluate(known) if len(known) == len(bound) else None

    def need(self, dim: Dim) -> int:
        value = self.evaluate(dim)
        if value is None:
            raise ModelError(f"nothing binds the symbols of {dim}")
        return value

    def unify(self, type_: Attribute, value: Value, what: str) -> None:
        """Binds the symbols that stand alone in a tensor type to the value's sizes, and checks the other sizes."""
        if not isinstance(type_, TensorType) or not isinstance(value, np.ndarray):
            return
        sizes = _sizes(cast("TensorType[Attribute]", type_))
        if len(sizes) != value.ndim:
            raise InputError(f"{what} has the shape {list(value.shape)}, not {len(sizes)} axes")
        for axis, (dim, actual) in enumerate(zip(sizes, value.shape, strict=True)):
            if dim is None:
                continue
            expected = self.evaluate(dim)
            if expected is None and dim.symbols == frozenset((str(dim),)):
                self.symbols[str(dim)] = expected = actual
            if expected is not None and expected != actual:
                shown = f"{dim} = {expected}" if dim.symbols else str(expected)
                raise InputError(f"{what} has size {actual} on axis {axis}, not {shown}")


def where(op: Operation) -> str:
    """A line that names the operation's node, where it has a name."""
    info = onnx.info_of(op)
    return f"\n  --> node {info.name!r}" if info is not None and info.name else ""


def _sizes(type_: TensorType[Attribute]) -> tuple[Dim | None, ...]:
    """The dims of a tensor type; None for one that has no expression (before inference)."""
    if isinstance(type_.encoding, dims.ShapeAttr):
        return type_.encoding.data
    return tuple(None if n < 0 else dims.as_dim(n) for n in type_.get_shape())


@dataclass(frozen=True)
class Plan:
    """What a node needs each time it runs: its function, operands and attributes."""

    function: Evaluator
    operands: tuple[SSAValue | None, ...]
    results: tuple[SSAValue | None, ...]
    attributes: dict[str, object]
    references: dict[str, onnx.RefAttr]
    """Attributes that are the local function's."""
    graphs: dict[str, Region]


@dataclass
class Interpreter:
    """Runs one module; what is prepared for a node is kept from one run to the next."""

    module: ModuleOp
    weights: WeightStore
    observe: Observer | None = None
    operators: Operators = field(default_factory=dict[tuple[str, str], CustomOperator])
    kernels: KernelRunner | None = None
    _plans: dict[Operation, Plan] = field(default_factory=dict[Operation, Plan])
    _deaths: dict[Block, dict[Operation, list[SSAValue]]] = field(
        default_factory=dict[Block, dict[Operation, list[SSAValue]]]
    )
    _functions: dict[str, func.FuncOp] = field(default_factory=dict[str, func.FuncOp])
    _given: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def __post_init__(self) -> None:
        self._functions = {f.sym_name.data: f for f in self.module.ops if isinstance(f, func.FuncOp)}

    # Functions and bodies

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of `@main` by name; see `run_graph`."""
        main = names.main_of(self.module)
        arguments = main.body.block.args
        listed = names.names_of(main, names.INPUTS) or [f"arg{i}" for i in range(len(arguments))]
        missing = [name for name in listed if name not in inputs]
        if missing:
            raise InputError(f"the input {missing[0]!r} is missing")
        self._given = {name: as_value(value) for name, value in inputs.items()}
        self._check_names(main, listed)
        frame = Frame()
        for name, argument in zip(listed, arguments, strict=True):
            value = self._given[name]
            _check_type(argument.type, value, f"input {name!r}")
            frame.unify(argument.type, value, f"input {name!r}")
            self._define(frame, argument, value)
        results = self._run_block(main.body.block, frame)
        outputs = names.names_of(main, names.OUTPUTS) or [f"out{i}" for i in range(len(results))]
        return {name: _own(value) for name, value in zip(outputs, results, strict=True)}

    def _check_names(self, main: func.FuncOp, listed: Sequence[str]) -> None:
        defaults = {
            onnx.text_of(op.sym)
            for op in main.body.block.ops
            if isinstance(op, onnx.InitializerOp) and op.overridable is not None
        }
        unknown = [name for name in self._given if name not in listed and name not in defaults]
        if unknown:
            raise InputError(f"there is no input {unknown[0]!r}; the inputs are {', '.join(map(repr, listed))}")

    def call(
        self, function: func.FuncOp, operands: Sequence[Value], attributes: Mapping[str, Attribute] | None = None
    ) -> tuple[Value, ...]:
        """The results of a local function or kernel for its operands, None for absent ones."""
        frame = Frame(attributes=attributes or {})
        arguments = function.body.block.args
        for argument, value in zip_longest(arguments, operands):
            frame.unify(argument.type, value, f"an argument of @{function.sym_name.data}")
            frame.values[argument] = value
        return self._run_block(function.body.block, frame)

    def body(self, region: Region, outer: Frame) -> Callable[..., tuple[Value, ...]]:
        """A region as a function from its arguments to what it yields."""
        block = region.block

        def run(*arguments: Value) -> tuple[Value, ...]:
            frame = Frame(outer=outer, attributes=outer.attributes)
            for argument, value in zip(block.args, arguments, strict=True):
                frame.unify(argument.type, value, "an argument of a body")
                self._define(frame, argument, value)
            return self._run_block(block, frame)

        return run

    def _run_block(self, block: Block, frame: Frame) -> tuple[Value, ...]:
        deaths = self._deaths.get(block)
        if deaths is None:
            deaths = self._deaths[block] = _last_uses(block)
        for op in block.ops:
            if isinstance(op, func.ReturnOp | onnx.YieldOp):
                return tuple(frame.get(v) for v in op.operands)
            self._run_op(op, frame)
            for value in deaths.get(op, ()):
                frame.values.pop(value, None)
        raise ModelError("a body without a terminator")

    # Operations

    def _run_op(self, op: Operation, frame: Frame) -> None:
        handler = HANDLERS.get(type(op))
        results = handler(self, op, frame) if handler is not None else self._run_node(op, frame)
        binds = "dims.binds" in op.attributes
        for result, value in zip(op.results, results, strict=True):
            if binds:
                frame.unify(result.type, value, f"a result of {onnx.describe(op)}")
            self._define(frame, result, value)

    def _define(self, frame: Frame, result: SSAValue, value: Value) -> None:
        frame.values[result] = value
        if self.observe is not None:
            self.observe(result, value)

    def _run_node(self, op: Operation, frame: Frame) -> Sequence[Value]:
        plan = self._plan(op)
        operands = [None if v is None else frame.get(v) for v in plan.operands]
        results = self._evaluate(op, plan, operands, frame)
        return [v for r, v in zip(plan.results, results) if r is not None]

    def evaluate(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """The results of one node by formal position, for its operands by formal position.

        For constant folding and hosted operators: a node with bodies must not use values from around it.
        """
        plan = self._plan(op)
        return self._evaluate(op, plan, operands, Frame())[: len(plan.results)]

    def _evaluate(self, op: Operation, plan: Plan, operands: Sequence[Value], frame: Frame) -> tuple[Value, ...]:
        attributes = plan.attributes
        if plan.references or plan.graphs:
            attributes = dict(attributes)
            for name, reference in plan.references.items():
                attributes[name] = self._referenced(reference, frame)
            for name, region in plan.graphs.items():
                attributes[name] = self.body(region, frame)
        try:
            results = plan.function(operands, attributes, len(plan.results))
        except Error:
            raise
        except NotImplementedError as error:
            raise UnsupportedError(f"{onnx.describe(op)}: {error}") from error
        except OutOfRange as error:
            told = op.attributes.get(onnx.PROBLEM)
            if isinstance(told, StringAttr):
                raise InputError(told.data.replace("{0}", str(error.index)) + where(op)) from error
            raise InputError(f"{onnx.describe(op)}: {error}") from error
        except (ValueError, IndexError, MemoryError) as error:
            raise InputError(f"{onnx.describe(op)}: {error}") from error
        if isinstance(op, onnx.LoopOp | onnx.ScanOp):
            rows: list[int] = list(cast("Sequence[int] | None", attributes.get("scan_output_axes")) or ())
            axes = [0] * (len(results) - len(rows)) + rows
            results = tuple(_typed_if_empty(v, r, frame, a) for v, r, a in zip(results, plan.results, axes))
        return results

    def _plan(self, op: Operation) -> Plan:
        plan = self._plans.get(op)
        if plan is None:
            plan = self._plans[op] = self._planned(op)
        return plan

    def _planned(self, op: Operation) -> Plan:
        if isinstance(op, onnx.VersionedOp):
            raise UnsupportedError(f"{onnx.describe(op)} is of an older opset: upgrade the module first")
        if isinstance(op, onnx.OnnxOp):
            schema = op.SCHEMA
            domain, operator = schema.domain, schema.op_type
            given = {name: op.properties[name] for name in schema.attributes if name in op.properties}
            if onnx.EMPTY_ROWS in op.attributes:
                given["empty_rows"] = op.attributes[onnx.EMPTY_ROWS]
            if onnx.SHARED_KEY in op.attributes:
                given["shared_key"] = onnx.int_attr(1)
            kinds = {name: spec.kind for name, spec in schema.attributes.items()}
            graphs = [name for name, spec in schema.attributes.items() if spec.kind == "GRAPH"]
            regions = dict(zip(graphs, op.formal_regions()))
        elif isinstance(op, onnx.CustomOp):
            domain, operator = onnx.text_of(op.domain), onnx.text_of(op.op_type)
            given = dict(op.attributes_.data)
            kinds = dict[str, str]()
            regions: dict[str, Region | None] = {}
        else:
            raise UnsupportedError(f"the graph's executor does not know {op.name}")
        function = evaluator_of(domain, operator, self.operators)
        if function is None:
            raise UnsupportedError(f"{onnx.describe(op)}: {domain or 'ai.onnx'}.{operator} has no reference function")
        return Plan(
            function,
            tuple(op.formal_operands()),
            tuple(op.formal_results()),
            {
                name: self._plain(value, kinds.get(name, "TENSOR"))
                for name, value in given.items()
                if not isinstance(value, onnx.RefAttr)
            },
            {name: value for name, value in given.items() if isinstance(value, onnx.RefAttr)},
            {name: region for name, region in regions.items() if region is not None},
        )

    # Attributes and constants

    def _plain(self, value: Attribute, kind: str = "TENSOR") -> object:
        """An attribute of AttributeProto's kind as the reference functions take it."""
        if isinstance(value, onnx.WeightAttr):
            array = self.weights.get(value)
            return array if kind == "TENSOR" else array.tolist()  # a long list of numbers or strings
        if isinstance(value, onnx.SparseAttr):
            return dense_of(value, self.weights)
        return onnx.plain(value)

    def _referenced(self, reference: onnx.RefAttr, frame: Frame) -> object:
        """A local function's attribute as its caller gave it; None where it has none and no default."""
        value = frame.attributes.get(onnx.text_of(reference.attribute))
        return None if value is None or isinstance(value, UnitAttr) else self._plain(value)

    def run_initializer(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, onnx.InitializerOp)
        given = self._given.get(onnx.text_of(op.sym)) if op.overridable is not None else None
        if given is not None:
            _check_type(op.result.type, given, f"input {onnx.text_of(op.sym)!r}")
            return [given]
        return [as_value(self._plain(op.value))]

    # Calls, kernels and dimensions

    def run_call(self, op: Operation, frame: Frame) -> Sequence[Value]:
        """A call of a local function, or of a typed instance of one."""
        assert isinstance(op, onnx.CallOp)
        function = self._function(op.callee.string_value())
        operands = [None if v is None else frame.get(v) for v in op.formal_operands()]
        parameters = function.attributes.get(names.PARAMETERS)
        attributes = dict(parameters.data) if isinstance(parameters, DictionaryAttr) else {}
        for name, value in op.attributes_.data.items():
            if isinstance(value, onnx.RefAttr):  # the caller is a local function itself, and passes its own on
                passed = frame.attributes.get(onnx.text_of(value.attribute))
                if passed is not None and not isinstance(passed, UnitAttr):
                    attributes[name] = passed
            else:
                attributes[name] = value
        results = self.call(function, operands, attributes)
        return [v for r, v in zip(op.formal_results(), results) if r is not None]

    def run_func_call(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, func.CallOp)
        return self.call(self._function(op.callee.string_value()), [frame.get(v) for v in op.arguments])

    def run_kernel(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, kernel.CallOp)
        sizes = [frame.need(dim) for dim in op.dims.data]
        if self.kernels is not None:
            inputs = [np.asarray(cast("Array", frame.get(v)), order="C") for v in op.inputs]
            outputs = _room_for(op, frame)
            self.kernels(op, sizes, inputs, outputs)
            binds = op.attributes.get("dims.binds")
            return _of_found_sizes(op, outputs, binds, frame) if isinstance(binds, ArrayAttr) else outputs
        function = self._function(op.callee.string_value())
        if "kernel.arg_dims" in function.attributes:  # at the tensor level, whose elements have no sign
            inputs = [_without_sign(cast("Array", frame.get(v))) for v in op.inputs]
            found = evaluate_tensors(function, sizes, inputs)
            if isinstance(binds := op.attributes.get("dims.binds"), ArrayAttr):
                found = _of_found_sizes(op, found, binds, frame)
            return [a.view(_dtype_of(r)) for a, r in zip(found, op.outputs, strict=True)]
        inner = Frame(symbols={f"d{i}": n for i, n in enumerate(sizes)})
        operands: list[Value] = [np.array(n, np.int64) for n in sizes]
        operands += [frame.get(v) for v in op.inputs]
        for argument, value in zip(function.body.block.args, operands, strict=True):
            if not isinstance(argument.type, IndexType):
                inner.unify(argument.type, value, f"an argument of @{function.sym_name.data}")
            self._define(inner, argument, value)
        return self._run_block(function.body.block, inner)

    def run_view(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, kernel.ViewOp)
        source = cast("Array", frame.get(op.source))
        sizes = [frame.need(dim) for dim in dims.dims_of(op.result)]
        if op.offset is not None:
            offset = frame.need(op.offset.data[0])
            source = source.reshape(-1)[offset : offset + math.prod(sizes)]
        return [source.reshape(sizes)]

    def run_fill(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, kernel.FillOp)
        sizes = [frame.need(dim) for dim in dims.dims_of(op.result)]
        return [np.full(sizes, onnx.dense_array(op.value))]

    def run_dims(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, dims.TensorOp)
        type_ = op.result.type
        values = [frame.need(dim) for dim in op.exprs.data]
        return [np.array(values, onnx.numpy_dtype(type_.element_type)).reshape(type_.get_shape())]

    def run_bind(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, dims.BindOp)
        values = cast("Array", frame.get(op.source)).reshape(-1)
        for symbol, value in zip(op.symbols, values, strict=True):
            if not np.isfinite(value):
                told, name = op.attributes.get(dims.TOLD_BY), onnx.value_name(op.source)
                by = told_size([text.data for text in told]) if isa(told, ArrayAttr[StringAttr]) else "a size"
                raise InputError(f"{by if name is None else repr(name)} is {value}{where(op)}")
            frame.symbols[symbol.data] = int(value)
        return []

    def run_assume(self, op: Operation, frame: Frame) -> Sequence[Value]:
        assert isinstance(op, dims.AssumeOp)
        if not holds(op.condition.data, frame):
            why = f" ({op.why.data})" if isinstance(op.why, StringAttr) and op.why.data else ""
            raise InputError(f"{brief_condition(op.condition.data)} does not hold{why}")
        return []

    def _function(self, name: str) -> func.FuncOp:
        if name not in self._functions:
            raise ModelError(f"there is no function @{name}")
        return self._functions[name]


HANDLERS: dict[type[Operation], Callable[[Interpreter, Operation, Frame], Sequence[Value]]] = {
    dims.AssumeOp: Interpreter.run_assume,
    dims.BindOp: Interpreter.run_bind,
    dims.TensorOp: Interpreter.run_dims,
    func.CallOp: Interpreter.run_func_call,
    kernel.CallOp: Interpreter.run_kernel,
    kernel.FillOp: Interpreter.run_fill,
    kernel.ViewOp: Interpreter.run_view,
    onnx.CallOp: Interpreter.run_call,
    onnx.InitializerOp: Interpreter.run_initializer,
}


def holds(text: str, frame: Frame) -> bool:
    """Whether the condition of a `dims.assume` is true of the frame's symbols."""
    condition = Condition.parse(text)
    left, right = frame.need(condition.left), frame.need(condition.right)
    return left == right if condition.op == "==" else left <= right


def _without_sign(array: Array) -> Array:
    return array.view(array.dtype.name.removeprefix("u")) if array.dtype.kind == "u" else array


def _room_for(op: kernel.CallOp, frame: Frame) -> list[Array]:
    """Arrays for a call's results, at their most, and for the sizes that it finds."""
    binds, upper = op.attributes.get("dims.binds"), op.attributes.get("dims.upper")
    most: dict[str, Dim] = {}
    if isinstance(binds, ArrayAttr) and isinstance(upper, dims.ShapeAttr):
        most = {onnx.text_of(symbol): size for symbol, size in zip(binds, upper.data, strict=True)}
    room = [
        np.empty([frame.need(dim.subs(most)) for dim in dims.dims_of(result)], _dtype_of(result))
        for result in op.outputs
    ]
    return [*room, np.empty(len(most), np.int64)] if most else room


def _of_found_sizes(op: kernel.CallOp, found: Sequence[Array], binds: ArrayAttr, frame: Frame) -> list[Array]:
    """Binds the sizes that a kernel found, its last result, and cuts the others, which have room for the most."""
    *results, sizes = found
    for symbol, size in zip(binds, sizes.reshape(-1), strict=True):
        assert isinstance(symbol, StringAttr)
        frame.symbols[symbol.data] = int(size)
    cut: list[Array] = []
    for result, array in zip(op.outputs, results, strict=True):
        shape = [frame.need(dim) for dim in dims.dims_of(result)]
        cut.append(array.reshape(-1)[: math.prod(shape)].reshape(shape))
    return cut


def _dtype_of(value: SSAValue) -> np.dtype[np.generic]:
    assert isinstance(value.type, TensorType)
    return onnx.numpy_dtype(value.type.element_type)


def _check_type(type_: Attribute, value: Value, what: str) -> None:
    """Raises InputError where a value is not of the type's kind or element type."""
    if not isinstance(type_, TensorType):
        return
    if not isinstance(value, np.ndarray):
        raise InputError(f"{what} is no tensor")
    wanted = onnx.numpy_dtype(cast("TensorType[Attribute]", type_).element_type)
    if value.dtype != wanted:
        raise InputError(f"{what} has elements of {value.dtype}, not of {wanted}")


def _typed_if_empty(value: Value, result: SSAValue | None, frame: Frame, axis: int) -> Value:
    """A scan output over no iterations, which only its type gives a shape: 0 along the axis of the iterations."""
    type_ = None if result is None else result.type
    if not isinstance(value, np.ndarray) or value.shape != (0,) or not isinstance(type_, TensorType):
        return value
    ranked = cast("TensorType[Attribute]", type_)
    sizes = [_size_if_any(dim, frame) for dim in _sizes(ranked)]
    sizes[axis] = 0
    return np.zeros([n or 0 for n in sizes], onnx.numpy_dtype(ranked.element_type))


def _size_if_any(dim: Dim | None, frame: Frame) -> int | None:
    """A size that may be of what never ran, so that it may have no value."""
    try:
        return None if dim is None else frame.evaluate(dim)
    except DimError:
        return None


def _own(value: Value) -> Value:
    """A copy of what must not be written to (weights and inputs are read-only or the caller's)."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    return [_own(v) for v in value] if isinstance(value, list) else value


def _last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """For each op of a block the values of the block that nobody needs after it."""
    order = {op: i for i, op in enumerate(block.ops)}
    result: dict[Operation, list[SSAValue]] = {}
    for op in order:
        for value in op.results:
            users = [_ancestor_in(block, use.operation) for use in value.uses]
            last = max((u for u in users if u is not None), key=order.__getitem__, default=op)
            result.setdefault(last, []).append(value)
    return result


def _ancestor_in(block: Block, op: Operation) -> Operation | None:
    current: Operation | None = op
    while current is not None and current.parent_block() is not block:
        current = current.parent_op()
    return current


def values_of(block: Block) -> Iterator[SSAValue]:
    """The values that a block defines, in order."""
    yield from block.args
    for op in block.ops:
        yield from op.results


__all__ = ["Frame", "Interpreter", "KernelRunner", "Observer", "run_graph", "values_of"]
