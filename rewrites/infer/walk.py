"""The walk over operations in order: runs the rules, follows regions, and records what each operation asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr, UnrankedTensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, ShapeAttr, dims_of
from ...dialects.onnx.types import OptionalType, SequenceType, UnknownType
from ...runtime.errors import ModelError
from ...semantics.facts import Contradiction, Facts
from ...semantics.shapes import RULES, Context, Guard, Names, Scope, ShapeError, result_types
from ...semantics.shapes.values import set_values
from ...semantics.weights import WeightStore
from . import regions

BINDS = "dims.binds"
RANK_FROM_DATA = "dims.rank_from_data"


@dataclass
class Demands:
    """What an operation asks for: guards, and known values in the place of integer operands."""

    guards: list[Guard] = field(default_factory=list[Guard])
    shape_operands: dict[int, tuple[Dim, ...]] = field(default_factory=dict[int, tuple[Dim, ...]])


class Inference:
    """One run over a module."""

    def __init__(self, module: ModuleOp, weights: WeightStore | None, facts: Facts, compile_mode: bool) -> None:
        self.compile_mode = compile_mode
        self.names = Names()
        self.scope = Scope(self.names, facts, weights)
        self.demands: dict[Operation, Demands] = {}
        self.unsupported: list[str] = []
        self.in_branch = 0
        collect_names(module, self.names)

    def function(self, function: FuncOp) -> None:
        """Infers a function from its arguments' types."""
        unranked = [
            i for i, a in enumerate(function.body.block.args) if isinstance(a.type, UnrankedTensorType | UnknownType)
        ]
        if unranked:
            function.attributes[RANK_FROM_DATA] = UnitAttr()
        self.block(function.body.block, self.scope)

    def block(self, block: Block, scope: Scope) -> None:
        for op in block.ops:
            self.op(op, scope)

    def op(self, op: Operation, scope: Scope) -> None:
        """Sets the result types of one operation and keeps what is known of its results' elements."""
        match op:
            case ReturnOp() | onnx.YieldOp() | dims.BindOp():
                return
            case dims.AssumeOp():
                self._assume(op, scope)
                return
            case onnx.CustomOp() | onnx.CallOp() | onnx.VersionedOp():
                self._unknown(op)
                return
            case _:
                pass
        handler = regions.HANDLERS.get(type(op))
        if handler is None and type(op) not in RULES:
            self._unknown(op)
            return
        c = Context(op, scope)
        try:
            types = handler(self, c) if handler is not None else result_types(c)
            self._set_types(c, types)
            if handler is None:
                set_values(c)
        except ShapeError as error:
            self._failed(c, str(error))
        except Contradiction as error:
            self._failed(c, f"it contradicts what is known of sizes: {error}")
        self._record(c)

    def _set_types(self, c: Context, types: list[Attribute | None]) -> None:
        for at, value in enumerate(c.results):
            if value is None:
                continue
            found = types[at] if at < len(types) else None
            if found is None:
                raise ShapeError(f"it has no output {at}")
            set_type(value, found)
        set_binds(c)

    def _record(self, c: Context) -> None:
        """Keeps the operation's guards, and counts on them from here on."""
        demands = Demands(shape_operands=c.shape_operands)
        for guard in c.guards:
            if c.scope.facts.prove(guard.condition).answer is True:
                continue
            demands.guards.append(guard)
            try:
                c.scope.facts.assume(guard.condition)
            except Contradiction as error:
                self._failed(c, f"{guard.why}: {error}")
        self.demands[c.op] = demands

    def _failed(self, c: Context, message: str) -> None:
        """No sizes make the operation valid: an error, or in a branch that may never run a guard that always fails."""
        if not self.in_branch:
            raise ModelError(f"{onnx.describe(c.op)}: {message}") from None
        c.guards = [Guard("1 <= 0", message)]
        self.demands[c.op] = Demands(list(c.guards))
        for value in c.results:
            if value is not None:
                set_type(value, fallback_type(value, c))

    def _assume(self, op: dims.AssumeOp, scope: Scope) -> None:
        try:
            scope.facts.assume(op.condition.data)
        except Contradiction as error:
            if not self.in_branch:
                raise ModelError(f"an assumption cannot hold: {error}") from None

    def _unknown(self, op: Operation) -> None:
        """An operator without a rule keeps the types that its results have; without any it is not supported."""
        c = Context(op, self.scope)
        for at, value in enumerate(c.results):
            if value is not None and isinstance(value.type, UnknownType):
                declared = regions.declared_type(value, c, at)
                if declared is None:
                    self.unsupported.append(f"{onnx.describe(op)}: its output's type is neither known nor declared")
                    return
                set_type(value, declared)
        set_binds(c)


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Changes a value's type in place."""
    value._type = type_  # pyright: ignore[reportPrivateUsage]


def set_binds(c: Context) -> None:
    """The attributes that say what only the operation's own execution decides: sizes, and ranks."""
    used = {name for value in c.results if value is not None for d in ranked_dims(value.type) for name in d.symbols}
    binds = [name for name in c.binds if name in used]
    c.op.attributes.pop(BINDS, None)
    if binds:
        c.op.attributes[BINDS] = ArrayAttr([StringAttr(name) for name in binds])
    ranked = all(not isinstance(v.type, UnrankedTensorType) for v in c.op.operands)
    c.op.attributes.pop(RANK_FROM_DATA, None)
    if ranked and any(isinstance(v.type, UnrankedTensorType) for v in c.op.results):
        c.op.attributes[RANK_FROM_DATA] = UnitAttr()


def ranked_dims(type_: Attribute) -> tuple[Dim, ...]:
    """The dims of a ranked tensor; none for other types."""
    return dims_of(type_) if isinstance(type_, TensorType) else ()


def fallback_type(value: SSAValue, c: Context) -> Attribute:
    """Something to go on with where an operation can never run."""
    type_ = value.type
    if not isinstance(type_, UnknownType):
        return type_
    for operand in c.operands:
        if operand is not None and isinstance(operand.type, TensorType | UnrankedTensorType):
            return UnrankedTensorType(operand.type.element_type)
    return type_


# --- names ------------------------------------------------------------------------------------------------------------


def collect_names(module: ModuleOp, names: Names) -> None:
    """The symbols that the module has, and what those stand for that an earlier run made."""
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, ShapeAttr):
                _take(names, attribute.data)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _take(names, symbols_dims(argument.type))
        for value in op.results:
            _take(names, symbols_dims(value.type))
        if isinstance(op, dims.BindOp):
            symbols = [Dim.symbol(s.data) for s in op.symbols]
            names.keep_elements(op.source, symbols)
            names.taken.update(map(str, symbols))
        _collect_sizes(op, names)


def _collect_sizes(op: Operation, names: Names) -> None:
    """Symbols that an operation or a region's argument binds keep their names when inference runs again."""
    binds = op.attributes.get(BINDS)
    if isinstance(binds, ArrayAttr):
        listed = {s.data for s in binds if isinstance(s, StringAttr)}
        for value in op.results:
            for axis, d in enumerate(ranked_dims(value.type)):
                if str(d) in listed:
                    names.keep_size(value, axis, d)


def _take(names: Names, found: tuple[Dim, ...]) -> None:
    for d in found:
        names.taken |= d.symbols


def symbols_dims(type_: Attribute) -> tuple[Dim, ...]:
    """All dims in a type, also inside containers."""
    match type_:
        case TensorType():
            encoding: Attribute = type_.encoding
            return encoding.data if isinstance(encoding, ShapeAttr) else ()
        case SequenceType() | OptionalType():
            return symbols_dims(type_.element)
        case _:
            return ()


Handler = Callable[[Inference, Context], list[Attribute | None]]
