"""Instantiates local functions where they are called, with attribute references resolved and absent inputs absent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects import onnx
from ..dialects.onnx.attributes import int_attr, ints_attr, key_of, strings_attr, text_of
from ..dialects.onnx.base import describe, info_of, origin_of, set_value_name, value_name
from ..dialects.onnx.groups import PART, mark_group, part_of
from ..dialects.onnx.model import PARAMETERS, is_local_function
from ..dialects.onnx.schema import SEGMENTS, Arity, add_segments
from ..dialects.onnx.types import RefAttr
from ..runtime.errors import ModelError, UnsupportedError

DEPTH = 200  # calls; what is nested more deeply is refused
SHOWN = 6  # lines of a refusal
LIMIT = 200_000  # ops; a model whose functions expand to more is refused before anything is made


class InlineFunctions(ModulePass):
    """Replaces each call of a local function by the function's body. The functions stay, for export."""

    name = "sx-inline-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for call in inline_functions(op):
            call.mark()


@dataclass(frozen=True)
class Inlined:
    """What a call became. `mark` makes it a group, once nothing in it will be replaced any more.

    `anchor` stands behind the instance and uses the call's inputs and results, so that it knows what replaces them.
    """

    node: int
    anchor: Operation
    inputs: tuple[bool, ...]
    results: tuple[bool, ...]

    def mark(self) -> None:
        """Marks the instance's ops, as they are now, as the node that was the call."""
        values = iter(list(self.anchor.operands))
        inputs = [next(values) if there else None for there in self.inputs]
        results = [next(values) if there else None for there in self.results]
        members: list[Operation] = []
        op = self.anchor.prev_op
        while op is not None and part_of(op) == self.node:
            members.append(op)
            op = op.prev_op
        self.anchor.detach()
        self.anchor.erase()
        mark_group(self.node, members[::-1], inputs, results)


def inline_functions(module: ModuleOp) -> list[Inlined]:
    """Instantiates every call outside of local functions, and the calls that those make.

    Raises ModelError for functions that call themselves, UnsupportedError where more than LIMIT ops would be made.
    """
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp) and is_local_function(f)}
    if not functions:
        return []
    calls = [
        op
        for func in module.ops
        if not (isinstance(func, FuncOp) and is_local_function(func))
        for op in func.walk()
        if isinstance(op, onnx.CallOp)
    ]
    sizes = _Sizes(functions)
    total = sum(sizes.of(callee_of(call), call) for call in calls)
    if total > LIMIT:
        raise UnsupportedError(sizes.refusal(total, calls))
    return [_inline(call, functions) for call in calls]


def callee_of(call: onnx.CallOp) -> str:
    """The symbol of the function that is called."""
    return call.callee.string_value()


class _Sizes:
    """How many ops an instance of each function has, with the functions that it calls."""

    def __init__(self, functions: Mapping[str, FuncOp]) -> None:
        self._functions = functions
        self._known: dict[str, int] = {}
        self._open: list[str] = []

    def of(self, symbol: str, call: Operation) -> int:
        """The size of one instance.

        Raises ModelError for a function that calls itself or is not there, and for a call that does not fit it.
        """
        if symbol in self._functions and isinstance(call, onnx.CallOp):
            _check_call(call, self._functions[symbol])
        if symbol in self._known:
            return self._known[symbol]
        if symbol in self._open:
            circle = [*self._open[self._open.index(symbol) :], symbol]
            raise ModelError(f"local functions call each other in a circle: {' -> '.join(map(plain_name, circle))}")
        func = self._functions.get(symbol)
        if func is None:
            raise ModelError(f"{describe(call)} calls @{symbol}, which is no local function")
        if len(self._open) >= DEPTH:
            raise UnsupportedError(f"local functions call each other more than {DEPTH} deep")
        self._open.append(symbol)
        ops = (op for op in func.body.walk() if not isinstance(op, ReturnOp | onnx.YieldOp))
        size = sum(self.of(callee_of(op), op) if isinstance(op, onnx.CallOp) else 1 for op in ops)
        self._open.pop()
        self._known[symbol] = size
        return size

    def refusal(self, total: int, calls: Sequence[onnx.CallOp]) -> str:
        """What to tell of a model that is too large: the call with the most nodes, and who multiplies them below it."""
        call = max(calls, key=lambda c: self._known[callee_of(c)])
        lines = [f"the model's functions stand for {total:,} nodes, of which at most {LIMIT:,} are compiled"]
        lines.append(f"  --> {described(call)}: {self._known[callee_of(call)]:,} nodes")
        symbol = callee_of(call)
        while len(lines) < SHOWN:
            inner = Counter(callee_of(op) for op in self._functions[symbol].body.walk() if isinstance(op, onnx.CallOp))
            if not inner:
                break
            lower = max(inner, key=lambda s: inner[s] * self._known[s])
            times, nodes = inner[lower], self._known[lower]
            lines.append(f"   | {plain_name(symbol)} calls {plain_name(lower)} {times} times, of {nodes:,} nodes each")
            symbol = lower
        lines.append("   = help: each call is compiled for its own types and fused with what is around it")
        return "\n".join(lines)


def _check_call(call: onnx.CallOp, func: FuncOp) -> None:
    """Raises ModelError for more inputs or outputs than the function has."""
    given, results = len(call.formal_operands()), len(call.formal_results())
    body = func.body.block
    gives = len(body.last_op.operands) if body.last_op is not None else 0
    for count, most, what in ((given, len(body.args), "input"), (results, gives, "output")):
        if count > most:
            plural = "" if count == 1 else "s"
            raise ModelError(f"{described(call)} with {count} {what}{plural}, and it has {most}")


def described(call: onnx.CallOp) -> str:
    """The node that a call is, and the function that it calls."""
    info = info_of(call)
    return f"node {info} calls {plain_name(callee_of(call))}" if info else f"a call of {plain_name(callee_of(call))}"


def plain_name(symbol: str) -> str:
    """A function as the file names it: `local.Scale` of the symbol `f0.local.Scale`."""
    return symbol.partition(".")[2] or symbol


def _inline(call: onnx.CallOp, functions: Mapping[str, FuncOp]) -> Inlined:
    block = call.parent
    assert block is not None
    ops, results = instantiate(call, functions)
    results = [_made_inside(value, ops, call) for value in results]
    node = origin_of(call)[0] if origin_of(call) else -1
    for op in ops:
        op.attributes[PART] = int_attr(node)
    block.insert_ops_before(ops, call)
    formal = call.formal_results()
    results = [new if before is not None else None for before, new in zip(formal, results)]
    inputs = call.formal_operands()
    anchor = onnx.YieldOp.make([v for v in (*inputs, *results) if v is not None])
    block.insert_op_before(anchor, call)
    for before, new in zip(formal, results):
        if before is not None and new is not None:
            name = value_name(before)
            if name and isinstance(new, OpResult) and new.op in ops:
                set_value_name(new, name)
                new.name_hint = before.name_hint
            before.replace_all_uses_with(new)
    call.detach()
    call.erase()
    return Inlined(node, anchor, tuple(v is not None for v in inputs), tuple(v is not None for v in results))


def _made_inside(value: SSAValue | None, ops: list[Operation], call: onnx.CallOp) -> SSAValue | None:
    """The value, or a copy where the function only passes on what it is given, so that the call stays a group."""
    if value is None or value.owner in ops:
        return value
    copy = onnx.IdentityOp.make([value], {}, [value.type], like=call)
    ops.append(copy)
    return copy.output


def instantiate(call: onnx.CallOp, functions: Mapping[str, FuncOp]) -> tuple[list[Operation], list[SSAValue | None]]:
    """A copy of the called function's body for this call, and its outputs by position; nothing is inserted.

    Inner calls are instantiated too.  References to attributes are replaced by the call's, or the function's default,
    or dropped.  Raises ModelError where an operator's needed input would be an absent one of the call.
    """
    instance = _Instance(functions, origin_of(call), name_of_call(call))
    results = instance.expand(functions[callee_of(call)], call.formal_operands(), call.attributes_.data)
    return instance.ops, results


def name_of_call(call: onnx.CallOp) -> str:
    """What the values of an instance are named after: the node, or what it gives."""
    info = info_of(call)
    if info is not None and info.name:
        return info.name
    return next((name for r in call.results if (name := value_name(r))), "")


class _Instance:
    """One expansion; `ops` grows in order."""

    def __init__(self, functions: Mapping[str, FuncOp], origin: tuple[int, ...], prefix: str) -> None:
        self._functions = functions
        self._origin = origin
        self._prefix = prefix
        self.ops: list[Operation] = []

    def expand(
        self, func: FuncOp, operands: Sequence[SSAValue | None], given: Mapping[str, Attribute]
    ) -> list[SSAValue | None]:
        """Appends the body's ops; returns the function's outputs."""
        body = func.body.block
        absent = [None] * (len(body.args) - len(operands))
        values: dict[SSAValue, SSAValue | None] = dict(zip(body.args, [*operands, *absent]))
        attributes = _parameters(func, given)
        for op in body.ops:
            if isinstance(op, ReturnOp):
                return [values.get(v, v) for v in op.operands]
            self._copy(op, values, attributes, self.ops)
        raise ModelError(f"the function @{func.sym_name.data} has no end")

    def _copy(
        self,
        op: Operation,
        values: dict[SSAValue, SSAValue | None],
        attributes: Mapping[str, Attribute],
        into: list[Operation],
    ) -> None:
        """Appends a copy of the op, and enters its results in `values`."""
        if isinstance(op, onnx.CallOp):
            inner = _Instance(self._functions, self._merged(op), f"{self._prefix}/{name_of_call(op)}")
            operands = [v and values.get(v, v) for v in op.formal_operands()]
            given = _resolved(op.attributes_.data, attributes)
            results = inner.expand(self._functions[callee_of(op)], operands, given)
            into += inner.ops
            for before, new in zip(op.formal_results(), results):
                if before is not None:
                    values[before] = new
            return
        regions = [self._copy_region(r, values, attributes) for r in op.regions]
        made = _rebuilt(op, values, attributes, regions)
        for key, value in op.attributes.items():
            if key not in ("onnx.node", "onnx.names", "origin"):
                made.attributes[key] = value
        made.attributes["origin"] = ints_attr(self._merged(op))
        self._name(op, made)
        into.append(made)
        for before, new in zip(op.results, made.results):
            values[before] = new
            new.name_hint = before.name_hint

    def _copy_region(
        self, region: Region, values: dict[SSAValue, SSAValue | None], attributes: Mapping[str, Attribute]
    ) -> Region:
        block = Block(arg_types=region.block.arg_types)
        inner = dict(values)
        inner.update(zip(region.block.args, block.args))
        for argument, new in zip(region.block.args, block.args):
            new.name_hint = argument.name_hint
        ops: list[Operation] = []
        for op in region.block.ops:
            self._copy(op, inner, attributes, ops)
        block.add_ops(ops)
        return Region(block)

    def _merged(self, op: Operation) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self._origin, *origin_of(op))))

    def _name(self, op: Operation, made: Operation) -> None:
        found = op.attributes.get("onnx.names")
        if isinstance(found, ArrayAttr) and self._prefix:
            listed = (text_of(entry) for entry in found)
            made.attributes["onnx.names"] = strings_attr(f"{self._prefix}/{name}" if name else "" for name in listed)


def _parameters(func: FuncOp, given: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The function's attributes in this call: what the call gives, else the default where there is one."""
    found = func.attributes.get(PARAMETERS)
    declared = found.data if isinstance(found, DictionaryAttr) else {}
    defaults = {key: value for key, value in declared.items() if not isinstance(value, UnitAttr)}
    return {**defaults, **{key: value for key, value in given.items() if key in declared}}


def _resolved(found: Mapping[str, Attribute], given: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Attributes with each reference replaced; a reference to an absent attribute is absent."""
    resolved: dict[str, Attribute] = {}
    for key, value in found.items():
        target = given.get(key_of(text_of(value.attribute))) if isinstance(value, RefAttr) else value
        if target is not None:
            resolved[key] = target
    return resolved


def _rebuilt(
    op: Operation,
    values: Mapping[SSAValue, SSAValue | None],
    attributes: Mapping[str, Attribute],
    regions: Sequence[Region],
) -> Operation:
    """The op with other operands, references resolved, and other regions."""
    if isinstance(op, onnx.OnnxOp):
        operands = [v and values.get(v, v) for v in op.formal_operands()]
        _check_present(op, operands)
        properties = {k: v for k, v in _resolved(op.properties, attributes).items() if k not in SEGMENTS}
        types = [r and r.type for r in op.formal_results()]
        add_segments(properties, op.SCHEMA, operands, types, op.formal_regions())
        return type(op).create(
            operands=[v for v in operands if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            regions=regions,
        )
    if isinstance(op, onnx.PositionedOp):
        operands = [v and values.get(v, v) for v in op.formal_operands()]
        properties = {k: v for k, v in op.properties.items() if k not in ("inputs", "outputs")}
        found = properties.get("attributes")
        if isinstance(found, DictionaryAttr):
            properties["attributes"] = DictionaryAttr(_resolved(found.data, attributes))
        types = [r and r.type for r in op.formal_results()]
        return type(op).build_at(properties, operands, types, {}, regions)
    operands = [values.get(v, v) for v in op.operands]
    if None in operands:
        raise ModelError(f"{describe(op)} in a local function takes an input that the call leaves out")
    return type(op).create(
        operands=[v for v in operands if v is not None],
        result_types=op.result_types,
        properties=op.properties,
        regions=regions,
    )


def _check_present(op: onnx.OnnxOp, operands: Sequence[SSAValue | None]) -> None:
    for formal, before, after in zip(op.SCHEMA.inputs, op.formal_operands(), operands):
        if before is not None and after is None and formal.arity is not Arity.OPTIONAL:
            raise ModelError(f"{describe(op)} in a local function needs '{formal.name}', which the call leaves out")
