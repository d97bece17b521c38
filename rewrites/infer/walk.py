"""The walk over operations in order: runs the rules, follows regions, and records what each operation asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr, UnrankedTensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, ShapeAttr, dims_of
from ...dialects.dims.expression import ONE
from ...dialects.dims.interval import is_signed
from ...dialects.dims.text import brief
from ...dialects.onnx.allowed import SINGLE
from ...dialects.onnx.legality import rank_problem, value_problem
from ...dialects.onnx.model import opsets_of
from ...dialects.onnx.signature import has_own_results, type_problem
from ...dialects.onnx.types import OptionalType, SequenceType, UnknownType
from ...runtime.errors import ModelError, UnsupportedError
from ...semantics.conditions import condition_symbols, substituted
from ...semantics.custom import NO_OPERATORS, Operators
from ...semantics.facts import Contradiction, Facts
from ...semantics.shapes import Context, Guard, Names, RankUnknown, Scope, ShapeError, result_types, rule_of
from ...semantics.shapes.agreement import require_agreement
from ...semantics.shapes.elements import Truth
from ...semantics.shapes.values import set_values
from ...semantics.weights import WeightStore
from ..contrib import Expansion, Rule, expansion_of
from ..node_builder import hand_over
from . import regions

BINDS = "dims.binds"
RANK_FROM_DATA = "dims.rank_from_data"
"""On an op whose result's rank is not known: the conditions on sizes that tell it, or a unit where data does."""

MAX_TRIALS = 4
"""How deep branches of different rank are tried out one inside the other."""


@dataclass
class Demands:
    """What an operation asks for: guards, and known values in the place of integer operands."""

    guards: list[Guard] = field(default_factory=list[Guard])
    shape_operands: dict[int, tuple[Dim, ...]] = field(default_factory=dict[int, tuple[Dim, ...]])


class Inference:
    """One run over a module."""

    def __init__(
        self,
        module: ModuleOp,
        weights: WeightStore | None,
        facts: Facts,
        operators: Operators = NO_OPERATORS,
        expand: bool = False,
        checks: bool = True,
    ) -> None:
        """`checks` says whether operations are held against their schemas."""
        self.names = Names()
        self.opsets = opsets_of(module)
        self.checks = checks
        self.expand = expand
        self.scope = Scope(self.names, facts, weights, operators)
        self.demands: dict[Operation, Demands] = {}
        self.unsupported: dict[Operation, str] = {}
        self.decided: dict[Operation, bool] = {}
        self.failed: dict[Region, str] = {}
        self.loops: dict[Operation, regions.Settled] = {}
        self._trials = 0
        collect_names(module, self.names)

    def function(self, function: FuncOp) -> None:
        """Infers a function from its arguments' types. Raises ModelError."""
        arguments = function.body.block.args
        function.attributes.pop(RANK_FROM_DATA, None)
        if any(isinstance(a.type, UnrankedTensorType | UnknownType) for a in arguments):
            function.attributes[RANK_FROM_DATA] = UnitAttr()
        for symbol in sorted({s for a in arguments for d in ranked_dims(a.type) for s in d.symbols if is_signed(s)}):
            self.scope.facts.assume(f"0 <= {symbol}")  # a size, though its name could be of data
        failure = self.block(function.body.block, self.scope)
        if failure is not None:
            raise ModelError(failure)

    def block(self, block: Block, scope: Scope) -> str | None:
        """Infers the operations of a block; gives a message where no sizes make one of them valid."""
        return self._ops(list(block.ops), scope)

    def region(self, region: Region, scope: Scope) -> str | None:
        """Infers a body, and remembers that it can never run where that is so."""
        failure = self.block(region.block, scope)
        self.failed.pop(region, None)
        if failure is not None:
            self.failed[region] = failure
        return failure

    def dead_regions(self) -> set[Region]:
        """The branches that never run, whose values have no types to rely on."""
        dead = set(self.failed)
        for op, value in self.decided.items():
            if isinstance(op, onnx.IfOp) and op.parent is not None:
                dead.add(op.else_branch if value else op.then_branch)
        return dead

    def _ops(self, ops: Sequence[Operation], scope: Scope) -> str | None:
        for at, op in enumerate(ops):
            if (rule := expansion_of(op, scope.operators)) is not None:
                assert isinstance(op, onnx.CustomOp)
                failure = self._expanded(Expansion(op, scope.weights), rule, scope)
                if failure is not None:
                    return failure
                continue
            c, failure = self._op(op, scope)
            if failure is not None:
                return failure
            if c is not None and c.decisions and (failure := self._decide(c, ops[at + 1 :])) is not None:
                return failure
        return None

    def _expanded(self, b: Expansion, rule: Rule, scope: Scope) -> str | None:
        """Infers what a node stands for, which takes its place; while trying, or without `expand`, the node stays."""
        b.types_only = not self.expand or self._trials > 0
        try:
            results = b.expand(rule, lambda made: self._ops(made, scope))
        except (RankUnknown, UnsupportedError) as error:
            if isinstance(error, RankUnknown) or not all(isinstance(v.type, TensorType) for v in b.op.operands):
                for made in b.made:  # the node waits for a rank
                    self.demands.pop(made, None)
                b.drop()
                self._unknown(Context(b.op, scope), waits=True)
                return None
            if self.expand:
                raise
            b.drop()
            self._unknown(Context(b.op, scope))
            return None
        if isinstance(results, str):
            return results
        if not b.types_only:
            hand_over(b, results)
            return None
        for old, new in zip(b.op.formal_results(), results):
            if old is not None and new is not None:
                set_type(old, self._owned_by(old, new.type, b.made))
        c = Context(b.op, scope)
        c.binds = [str(d) for v in b.op.results for d in ranked_dims(v.type) if self.names.owners.get(str(d)) is v]
        set_binds(c)
        for made in b.made:
            self.demands.pop(made, None)
        b.drop()
        return None

    def _owned_by(self, value: SSAValue, type_: Attribute, made: Sequence[Operation]) -> Attribute:
        """A type in which sizes that one of these ops decides are the value's own."""
        if not isinstance(type_, TensorType):
            return type_
        found = list(dims_of(type_))
        for axis, d in enumerate(found):
            owners = [self.names.owners.get(name) for name in d.symbols]
            if any(owner is not None and owner.owner in made for owner in owners):
                found[axis] = self.names.size(value, axis)
        return dims.tensor_type(type_.element_type, found)

    def _decide(self, c: Context, rest: Sequence[Operation]) -> str | None:
        """Branches that give other ranks: where what follows is valid for only one, the condition becomes a guard."""
        truth = c.decisions[0]
        if self._trials >= MAX_TRIALS:
            return None
        self._trials += 1
        failures = {value: self._try(c.op, c.scope, truth, value, rest) for value in (True, False)}
        self._trials -= 1
        valid = [value for value, failure in failures.items() if failure is None]
        if not valid:
            return failures[True]
        if len(valid) == 2:  # both ranks are possible
            del self.decided[c.op]
            self._op(c.op, c.scope)
            return None
        self.decided[c.op] = valid[0]
        self._op(c.op, c.scope)
        why = f"only one branch of {onnx.describe(c.op)} gives what follows a rank that it can take"
        return self.state(c.op, c.scope, [Guard(truth.condition(valid[0]), why)])

    def _try(self, op: Operation, scope: Scope, truth: Truth, value: bool, rest: Sequence[Operation]) -> str | None:
        """What fails when the condition has this value."""
        trial = scope.inner()
        self.decided[op] = value
        try:
            trial.facts.assume(truth.condition(value))
        except Contradiction as error:
            return str(error)
        loops, self.loops = self.loops, {}  # types of a branch that may not run say nothing of others
        _, failure = self._op(op, trial)
        failure = failure if failure is not None else self._ops(rest, trial)
        self.loops = loops
        return failure

    def _op(self, op: Operation, scope: Scope) -> tuple[Context | None, str | None]:
        """Sets the result types of one operation and keeps what is known of its results' elements."""
        match op:
            case ReturnOp() | onnx.YieldOp() | dims.BindOp():
                self.demands.pop(op, None)
                return None, None
            case dims.AssumeOp():
                return None, self._assume(op, scope)
            case _:
                pass
        c = Context(op, scope)
        if self.checks and isinstance(op, onnx.OnnxOp):
            self.refuse(op, type_problem(op.SCHEMA, c.operands) or value_problem(op))
            if (problem := rank_problem(op, c.operands)) is not None:
                return c, self._title(op, problem)
        handler = regions.HANDLERS.get(type(op))
        if handler is None and rule_of(op, scope.operators) is None:
            self._unknown(c)
            return c, None
        try:
            require_numbers(c)
            require_agreement(c)
            set_types(c, handler(self, c) if handler is not None else result_types(c))
            if handler is None:
                set_values(c)
            if self.checks and isinstance(op, onnx.OnnxOp) and has_own_results(op.SCHEMA):
                self.refuse(op, type_problem(op.SCHEMA, c.operands, c.results))
        except RankUnknown:  # of what a body takes apart
            self._unknown(c, waits=True)
            return c, None
        except ShapeError as error:
            return c, self._title(op, str(error))
        self.demands[op] = Demands(shape_operands=c.shape_operands)
        return c, self.state(op, scope, c.guards)

    def refuse(self, op: Operation, problem: str | None) -> None:
        """Raises ModelError for what is wrong whatever sizes and branches are."""
        if problem is not None and not (isinstance(op, onnx.OnnxOp) and _is_ours(op)):
            raise ModelError(self._title(op, problem))

    def _title(self, op: Operation, problem: str) -> str:
        """A problem with the node that has it, the model's opset, and the values that it reads and gives."""
        opset = self.opsets.get(op.SCHEMA.domain) if isinstance(op, onnx.OnnxOp) else None
        more = f" (opset {opset})" if opset is not None else ""
        return f"{onnx.describe(op)}{more}: {problem}{named_values(op)}"

    def state(self, op: Operation, scope: Scope, guards: Sequence[Guard]) -> str | None:
        """Keeps an operation's guards, and counts on them from here on."""
        demands = self.demands.setdefault(op, Demands())
        for guard in guards:
            proof = scope.facts.prove(guard.condition)
            if proof.answer is True:
                continue
            demands.guards.append(guard)
            try:
                scope.facts.assume(guard.condition)
            except Contradiction as error:
                return f"{onnx.describe(op)}: {guard.why}: {error}"
        return None

    def _assume(self, op: dims.AssumeOp, scope: Scope) -> str | None:
        try:
            scope.facts.assume(current_condition(op, self.names))
        except Contradiction as error:
            return f"an assumption cannot hold: {error}"
        return None

    def _unknown(self, c: Context, *, waits: bool = False) -> None:
        """An operator without a rule keeps the types that its results have; without any it is not supported.

        One that `waits` for a rank has no types until that is known, nor has what reads it.
        """
        waits = waits or any(isinstance(v.type, UnknownType) for v in c.op.operands)
        for at, value in enumerate(c.results):
            if value is not None and isinstance(value.type, UnknownType):
                declared = regions.declared_type(value, c, at)
                if declared is None and waits:
                    continue
                if declared is None:
                    text = f"{onnx.describe(c.op)}: its output's type is neither known nor declared"
                    self.unsupported.setdefault(c.op, text)
                    return
                set_type(value, declared)
        if c.binds:
            set_binds(c)


def _is_ours(op: onnx.OnnxOp) -> bool:
    """Whether an op is part of what a node of another domain stands for, which may have narrower types than ONNX's."""
    info = onnx.info_of(op)
    return info is not None and info.op_type not in _OPERATORS


_OPERATORS = {name for _, name in onnx.OP_BY_NAME}


def require_numbers(c: Context) -> None:
    """States that operands which hold one number as a vector have the length 1."""
    for index in SINGLE.get(type(c.op), ()):
        for size in ranked_dims(c.type_of(index)) if c.has(index) else ():
            c.equal(size, ONE, f"input {index} is one number")


def set_types(c: Context, types: list[Attribute | None]) -> None:
    """Sets the types of the results that are there, and the attributes that go with them."""
    for at, value in enumerate(c.results):
        if value is None:
            continue
        found = types[at] if at < len(types) else None
        if found is None:
            raise ShapeError(f"it has no output {at}")
        set_type(value, found)
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
    ranked = all(not isinstance(v.type, UnrankedTensorType | UnknownType) for v in c.op.operands)
    c.op.attributes.pop(RANK_FROM_DATA, None)
    if ranked and any(isinstance(v.type, UnrankedTensorType) for v in c.op.results):
        conditions = dict.fromkeys([*c.rank_conditions, *(t.condition(True) for t in c.decisions)])
        c.op.attributes[RANK_FROM_DATA] = ArrayAttr(map(StringAttr, conditions)) if conditions else UnitAttr()


def ranked_dims(type_: Attribute) -> tuple[Dim, ...]:
    """The dims of a ranked tensor; none for other types."""
    return dims_of(type_) if isinstance(type_, TensorType) else ()


def current_condition(op: dims.AssumeOp, names: Names) -> str:
    """What an op of an earlier run states, with symbols that no axis has any more replaced."""
    text = op.condition.data
    settled = names.settled(condition_symbols(text)) if names.axes else {}
    return substituted(text, settled) if settled else text


# --- names ------------------------------------------------------------------------------------------------------------


def named_values(op: Operation) -> str:
    """What the file calls an operation's operands, with their shapes, and its first result; empty where it does not."""
    inputs = [
        f"{name!r}" + (f" [{', '.join(map(brief, ranked_dims(v.type)))}]" if isinstance(v.type, TensorType) else "")
        for v in op.operands
        if (name := onnx.value_name(v))
    ]
    outputs = [repr(name) for v in op.results if (name := onnx.value_name(v))][:1]
    told = [f"{title} {', '.join(names)}" for title, names in (("inputs", inputs), ("output", outputs)) if names]
    return f" ({'; '.join(told)})" if told else ""


def collect_names(module: ModuleOp, names: Names) -> None:
    """The symbols that the module has, and what those stand for that an earlier run made."""
    arguments = [a for f in module.ops if isinstance(f, FuncOp) for a in f.body.block.args]
    inputs = {name for a in arguments for d in symbols_dims(a.type) for name in d.symbols}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, ShapeAttr):
                _take(names, attribute.data)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _take(names, symbols_dims(argument.type))
                    for axis, d in enumerate(ranked_dims(argument.type)):
                        if (name := str(d)) in names.taken and name not in inputs and name not in names.owners:
                            names.keep_size(argument, axis, d)
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
