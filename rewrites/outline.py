"""Kernels level: each group becomes a private function, and a `kernel.call` in its place; equal kernels are one.

A kernel's symbols are d0, d1, ... by position; its key is its body with these names, without origins and value names,
so two layers of one shape share a function.  Views at a group's border stay in the caller as `kernel.view`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from ..dialects import dims, kernel, onnx
from ..dialects.dims import Dim, ShapeAttr, dims_of
from ..semantics.facts import Contradiction, Facts
from ..semantics.kinds import Kind, kind_of
from .dependences import Dependences
from .driver import ORIGIN, PATTERN, origins_of, set_origins
from .fills import find_fills
from .found_sizes import FOUND, bound_by_execution, most_of
from .group import Grouping, with_assumptions
from .groups import WITH_EPILOGUE, Group
from .pass_views import pass_products, pass_views
from .reasons import Decision
from .sink import sink_index_maps
from .uses import bound_symbols, inputs_of, symbols_of
from .versions import version_pairs
from .views import is_stretch, is_whole, offsets_of, small_constant

KEPT = (ORIGIN, PATTERN, FOUND, onnx.PROBLEM, onnx.EMPTY_ROWS, onnx.SHARED_KEY)
"""Attributes that an op takes with it into its kernel."""

PATTERNS = "kernel.patterns"
"""The attribute of a kernel that names the rewrite patterns that made operators of it."""


def native_everywhere(op: Operation) -> str | None:
    """The default for the pass alone: every operator with a kind is taken to be lowered."""
    return None if kind_of(op) not in (Kind.OTHER, Kind.CONTROL) else "not a kernel operator"


@dataclass(frozen=True)
class OutlineKernels(ModulePass):
    """Groups the operators of `main` and its regions, and moves each group into a function of its own."""

    name: ClassVar[str] = "sx-outline-kernels"
    fuse: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outline(op, native_everywhere, fuse=self.fuse)


def outline(
    module: ModuleOp,
    native: Callable[[Operation], str | None],
    *,
    fuse: bool = True,
    facts: Facts | None = None,
) -> None:
    """Runs the grouping over `main` and all its regions and outlines the groups.

    `native` says of an op why the lowering does not take it, or None where it does: what it refuses stays in `main` as
    a hosted op.  `fuse=False` gives every op a kernel of its own.
    """
    main = next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    state = Outliner(module, native, facts or Facts(), fuse, grantable_symbols(main.body.block))
    state.run_block(main.body.block, with_guards_of(main.body.block, state.facts), versions=fuse)
    main.attributes["kernel.refused"] = ArrayAttr([refusal(d) for d in state.refused])
    for function in state.functions.values():
        module.body.block.add_op(function)


def refusal(decision: Decision) -> DictionaryAttr:
    """A refused fusion as an attribute: node ids of both ops, the reason, and the missing fact if there is one."""
    return DictionaryAttr(
        {
            "producer": decision.producer.attributes.get(ORIGIN, StringAttr("")),
            "consumer": decision.consumer.attributes.get(ORIGIN, StringAttr("")),
            **reason_of(decision),
        }
    )


def reason_of(decision: Decision) -> dict[str, Attribute]:
    """The reason and the missing fact as attributes."""
    entries: dict[str, Attribute] = {"reason": StringAttr(decision.reason.name.lower())}
    if decision.missing:
        entries["missing"] = StringAttr(decision.missing)
    return entries


def apart_of(decisions: Iterable[tuple[int, Decision]]) -> ArrayAttr[DictionaryAttr]:
    """Why a kernel is apart from each of those that it reads, by their numbers: the decision that a fact would turn."""
    found: dict[int, Decision] = {}
    for number, decision in decisions:
        if number not in found or (decision.missing and not found[number].missing):
            found[number] = decision
    return ArrayAttr([DictionaryAttr({"from": IntegerAttr(n, i64), **reason_of(d)}) for n, d in found.items()])


def grantable_symbols(block: Block) -> frozenset[str]:
    """The symbols that are known in `main` itself, so that a caller's assumption on them can be checked."""
    found = {s for op in block.ops for s in bound_symbols(op)}
    for argument in block.args:
        if isinstance(argument.type, TensorType):
            found.update(s for d in dims_of(argument) for s in d.symbols)
    return frozenset(found)


@dataclass
class Record:
    """A group's number, unique in the module, and the decisions on it: fusions taken, and why neighbours are apart."""

    number: int
    taken: list[Decision] = field(default_factory=list[Decision])
    apart: list[tuple[int, Decision]] = field(default_factory=list[tuple[int, Decision]])


@dataclass
class Outliner:
    """State of one run: the functions made so far, by key."""

    module: ModuleOp
    native: Callable[[Operation], str | None]
    facts: Facts
    fuse: bool
    grantable: frozenset[str]
    functions: dict[str, FuncOp] = field(default_factory=dict[str, FuncOp])
    names: dict[str, int] = field(default_factory=dict[str, int])
    refused: list[Decision] = field(default_factory=list[Decision])
    calls: int = 0

    def run_block(self, block: Block, facts: Facts, *, versions: bool = False) -> None:
        if self.fuse:
            find_fills(block, facts)
        for op in block.ops:
            if isinstance(op, onnx.CustomOp):
                continue  # its region is a body of scalars
            for region in op.regions:
                for inner in region.blocks:
                    self.run_block(inner, with_guards_of(inner, facts))
        if self.fuse:
            sink_index_maps(block)
            pass_products(block)
            pass_views(block, WITH_EPILOGUE)
        grouping = self.grouped(block, facts)
        if versions and (made := version_pairs(grouping, block.args)):
            for choice, condition in made:
                self.run_block(choice.regions[ELSE].block, facts)
                self.run_block(choice.regions[THEN].block, with_assumptions(facts, [condition]))
            into_order(block, Dependences(block).in_order({}))
            grouping = self.grouped(block, facts)
        order = grouping.dependences.in_order(grouping.group_of)
        self.refused.extend(grouping.refused.values())
        records = {id(unit): Record(self.calls + at) for at, unit in enumerate(order) if isinstance(unit, Group)}
        self.calls += len(order)
        for decision in grouping.taken:
            if (group := grouping.group_of.get(decision.consumer)) is not None:  # else it became a view
                records[id(group)].taken.append(decision)
        for decision in grouping.refused.values():
            number = records[id(grouping.group_of[decision.producer])].number
            records[id(grouping.group_of[decision.consumer])].apart.append((number, decision))
        into_order(block, order)
        for unit in order:
            if isinstance(unit, Group):
                self.outline_group(unit, records[id(unit)], facts)
            elif unit in grouping.views:
                self.show(unit, facts)
        drop_dead_constants(block)

    def grouped(self, block: Block, facts: Facts) -> Grouping:
        grouping = Grouping(block, self.native, facts, self.fuse, grantable=self.grantable)
        grouping.run()
        return grouping

    def outline_group(self, group: Group, record: Record, facts: Facts) -> None:
        """Peels the views at the border into `kernel.view`s; what is left becomes a call."""
        ops = list(group.ops)
        while (op := self.next_at_border(ops, facts)) is not None:
            inside = op.operands[0].owner in ops
            ops.remove(op)
            self.show(op, facts, behind=ops[-1] if inside else None)  # the kernel's call comes behind its last op
        if ops:
            self.call(ops, record)

    def next_at_border(self, ops: list[Operation], facts: Facts) -> Operation | None:
        """An op of the group that stays in the caller as a view: the first in front of all others, or behind them."""
        members = set(ops)
        for op in ops:
            if not op.operands or not is_stretch(op, facts) or small_constant(source := op.operands[0]) is not None:
                continue
            if source.owner not in members:
                if is_whole(op, facts) or reads_alone(op, members):
                    return op
            elif is_whole(op, facts) and all(use.operation not in members for use in op.results[0].uses):
                return op
        return None

    def show(self, op: Operation, facts: Facts, behind: Operation | None = None) -> None:
        """Puts a `kernel.view` in place of each result of an op that moves no element."""
        offsets = offsets_of(op, facts)
        block = op.parent
        assert offsets is not None and block is not None
        whole = is_whole(op, facts)
        source = op.operands[0]
        for result, offset in zip(op.results, offsets, strict=True):
            if not list(result.uses):
                continue
            view = kernel.ViewOp(source, result.type, None if whole else offset)
            set_origins(view, origins_of(op))
            if (name := onnx.value_name(result)) is not None:
                view.attributes["onnx.names"] = ArrayAttr([StringAttr(name)])
            if behind is None:
                block.insert_op_before(view, op)
            else:
                block.insert_op_after(view, behind)
            view.result.name_hint = result.name_hint
            result.replace_all_uses_with(view.result)
        op.detach()
        op.erase()

    def call(self, ops: list[Operation], record: Record) -> None:
        members = set(ops)
        inputs: list[SSAValue] = []
        constants: dict[SSAValue, Operation] = {}
        for value in inputs_of(ops):
            constant = small_constant(value)
            if constant is None:
                inputs.append(value)
            else:
                constants[value] = constant
        results: list[SSAValue] = [
            r for op in ops for r in op.results if any(root_op(u.operation, op.parent) not in members for u in r.uses)
        ]
        results += bearers(ops, results)
        symbols = ordered_symbols([v.type for v in inputs], [*constants.values(), *ops])
        rename = {s: Dim.symbol(f"d{i}") for i, s in enumerate(symbols)}
        most = {s: d for op in ops for s, d in (most_of(op) or {}).items()}
        function = build_function(ops, inputs, constants, results, rename, most)
        key = key_of(function)
        patterns = {p.data for op in ops if isinstance(p := op.attributes.get(PATTERN), StringAttr)}
        if key in self.functions:
            name = self.functions[key].sym_name.data
            merge_origins(self.functions[key], function)
            patterns |= patterns_of(self.functions[key])
        else:
            name = self.fresh_name(ops)
            function.sym_name = StringAttr(name)
            function.attributes["kernel.key"] = StringAttr(key)
            function.attributes["kernel.fused"] = ArrayAttr(
                [DictionaryAttr({"producer": StringAttr(label(d.producer)), "consumer": StringAttr(label(d.consumer)),
                                 "reason": StringAttr(d.reason.name.lower())}) for d in record.taken]
            )  # fmt: skip
            function.attributes["kernel.ops"] = ArrayAttr([StringAttr(label(op)) for op in ops])
            self.functions[key] = function
        if patterns:
            self.functions[key].attributes[PATTERNS] = ArrayAttr(map(StringAttr, sorted(patterns)))
        call = kernel.CallOp(name, [Dim.symbol(s) for s in symbols], inputs, [r.type for r in results])
        if most:
            call.attributes["dims.binds"] = ArrayAttr([StringAttr(s) for s in most])
            call.attributes["dims.upper"] = ShapeAttr(tuple(most.values()))
        call.attributes["kernel.number"] = IntegerAttr(record.number, i64)
        call.attributes["kernel.apart"] = apart_of(record.apart)
        set_origins(call, {i for op in ops for i in origins_of(op)})
        nodes = [min(origins_of(op), default=-1) for op in kernel.operators_of(function.body.block)]
        call.attributes[kernel.NODES] = DenseArrayBase.from_list(i64, nodes)
        block = ops[-1].parent
        assert block is not None
        block.insert_op_after(call, ops[-1])
        names: list[Attribute] = []
        for old, new in zip(results, call.results, strict=True):
            new.name_hint = old.name_hint
            names.append(StringAttr(onnx.value_name(old) or ""))
            old.replace_all_uses_with(new)
        call.attributes["onnx.names"] = ArrayAttr(names)
        for op in reversed(ops):
            op.detach()
            op.erase(safe_erase=False)

    def fresh_name(self, ops: list[Operation]) -> str:
        """A readable name: up to three of the group's operators, heaviest first kept in order, and a number."""
        words: list[str] = []
        for op in ops:
            word = word_of(op)
            if word not in words:
                words.append(word)
        if len(words) > 3:
            heavy = [word_of(w) for w in ops if kind_of(w) in (Kind.TEMPLATE, Kind.REDUCTION)]
            words = list(dict.fromkeys([*heavy[:2], *words[:1], words[-1]]))[:3]
        stem = "_".join(words)
        number = self.names.get(stem, 0)
        self.names[stem] = number + 1
        return f"{stem}_{number}"


def bearers(ops: Sequence[Operation], results: Sequence[SSAValue]) -> list[SSAValue]:
    """Values that nothing else reads, but whose sizes the ops find and others count on."""
    borne = {s for r in results for d in dims_of(r) for s in d.symbols}
    found: list[SSAValue] = []
    for op in ops:
        for symbol in most_of(op) or {}:
            bearer = next((r for r in op.results if any(str(d) == symbol for d in dims_of(r))), None)
            if symbol not in borne and bearer is not None:
                found.append(bearer)
                borne |= {s for d in dims_of(bearer) for s in d.symbols}
    return found


def label(op: Operation) -> str:
    """An op in reports: `onnx.Conv`, or domain and name of a user's operator."""
    if isinstance(op, onnx.CustomOp):
        return f"{onnx.text_of(op.domain)}::{onnx.text_of(op.op_type)}"
    return op.name


def word_of(op: Operation) -> str:
    """An op as a part of a kernel's name."""
    name = onnx.text_of(op.op_type) if isinstance(op, onnx.CustomOp) else op.name.split(".")[-1]
    return re.sub(r"\W", "_", name.lower(), flags=re.ASCII)


def patterns_of(function: FuncOp) -> set[str]:
    """The patterns that made a kernel's operators."""
    found = function.attributes.get(PATTERNS)
    return {p.data for p in found if isinstance(p, StringAttr)} if isinstance(found, ArrayAttr) else set()


ELSE, THEN = 0, 1
"""The regions of an If, in the order of its class."""


def into_order(block: Block, order: Iterable[Group | Operation]) -> None:
    """Everything moves to the block's end in its new order."""
    for unit in order:
        for op in unit.ops if isinstance(unit, Group) else [unit]:
            op.detach()
            block.add_op(op)


def with_guards_of(block: Block, facts: Facts) -> Facts:
    """The facts, and those that the block's guards check before anything that relies on them runs."""
    inner = facts.copy()
    for guard in block.ops:
        if isinstance(guard, dims.AssumeOp):
            try:
                if not inner.prove(guard.condition.data):
                    inner.assume(guard.condition.data)
            except Contradiction:
                return facts  # the branch cannot run
    return inner


def reads_alone(op: Operation, members: set[Operation]) -> bool:
    """Whether no other op of the group reads what the op is a part of."""
    return all(use.operation is op or use.operation not in members for use in op.operands[0].uses)


def root_op(op: Operation, block: Block | None) -> Operation:
    """The op of `block` that holds `op`, in whatever depth of regions."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at if at is not None else op


def copy_names(old: Operation, new: Operation) -> None:
    """The new op's results carry the model's names of the old one's."""
    if (names := old.attributes.get("onnx.names")) is not None:
        new.attributes["onnx.names"] = names


def ordered_symbols(types: list[Attribute], ops: list[Operation]) -> list[str]:
    """All symbols of the types and then of the ops, in order of first appearance."""
    found: dict[str, None] = {}
    for type_ in types:
        if isinstance(type_, TensorType):
            for d in dims_of(type_):
                for s in sorted(d.symbols):
                    found.setdefault(s)
    for op in ops:
        for s in sorted(symbols_of(op)):
            found.setdefault(s)
    return list(found)


def renamed_type(type_: Attribute, rename: dict[str, Dim]) -> Attribute:
    """The type in the kernel's symbols."""
    if isinstance(type_, TensorType) and isinstance(type_.encoding, ShapeAttr):
        return dims.tensor_type(type_.element_type, [d.subs(rename) for d in type_.encoding.data])
    return type_


def renamed_property(value: Attribute, rename: dict[str, Dim]) -> Attribute:
    """A property in the kernel's symbols."""
    return ShapeAttr(tuple(d.subs(rename) for d in value.data)) if isinstance(value, ShapeAttr) else value


def build_function(
    ops: list[Operation],
    inputs: list[SSAValue],
    constants: dict[SSAValue, Operation],
    results: list[SSAValue],
    rename: dict[str, Dim],
    most: dict[str, Dim],
) -> FuncOp:
    """The kernel: its dims, then its inputs, as arguments; clones of the ops in its own symbols as the body.

    Results whose size the kernel finds have, inside, the most that it can be.
    """
    arg_types = [*[IndexType()] * len(rename), *(renamed_type(v.type, rename) for v in inputs)]
    block = Block(arg_types=arg_types)
    mapper: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args[len(rename) :], strict=True))
    for at, argument in enumerate(block.args[: len(rename)]):
        argument.name_hint = f"d{at}"
    rename = rename | {symbol: size.subs(rename) for symbol, size in most.items()}
    for op in [*constants.values(), *ops]:
        types = [renamed_type(r.type, rename) for r in op.results]
        if isinstance(op, onnx.InitializerOp):
            clone: Operation = onnx.ConstantOp.make([], {"value": op.value}, types)
        else:
            clone = type(op).create(
                operands=[mapper[o] for o in op.operands],
                result_types=types,
                properties={name: renamed_property(p, rename) for name, p in op.properties.items()},
                attributes={k: v for k, v in op.attributes.items() if k in KEPT},
                regions=[r.clone() for r in op.regions],
            )
        if (found := len(bound_by_execution(op))) > 0:
            clone.attributes[FOUND] = IntegerAttr(found, i64)
        for old, new in zip(op.results, clone.results, strict=True):
            new.name_hint = old.name_hint
            mapper[old] = new
        block.add_op(clone)
    block.add_op(ReturnOp(*[mapper[r] for r in results]))
    function_type = FunctionType.from_lists(arg_types, [renamed_type(r.type, rename) for r in results])
    return FuncOp("kernel", function_type, Region(block), visibility="private")


def key_of(function: FuncOp) -> str:
    """A digest of the kernel's text without names and origins: equal kernels have equal keys."""
    bare = function.clone()
    for op in bare.walk():
        op.attributes.pop(ORIGIN, None)
        op.attributes.pop(PATTERN, None)
        for result in op.results:
            result.name_hint = None
    for argument in bare.body.block.args:
        argument.name_hint = None
    stream = StringIO()
    Printer(stream).print_op(bare)
    return hashlib.sha256(stream.getvalue().encode()).hexdigest()[:24]


def merge_origins(kept: FuncOp, other: FuncOp) -> None:
    """A shared kernel's ops come from all its callers' nodes."""
    for a, b in zip(kept.body.block.ops, other.body.block.ops, strict=True):
        set_origins(a, {*origins_of(a), *origins_of(b)})


def drop_dead_constants(block: Block) -> None:
    """Constants that only kernels used have been copied into them."""
    for op in reversed(list(block.ops)):
        if isinstance(op, (onnx.ConstantOp, onnx.InitializerOp, dims.TensorOp, kernel.FillOp)) and not any(
            list(r.uses) for r in op.results
        ):
            op.detach()
            op.erase()


def single_op_kernels(function: FuncOp) -> Iterator[tuple[Operation, FuncOp]]:
    """For each op of a kernel but constants, a kernel of it alone, to see which of them is the trouble."""
    dims_count = sum(isinstance(a.type, IndexType) for a in function.body.block.args)
    rename = {f"d{i}": Dim.symbol(f"d{i}") for i in range(dims_count)}
    for op in function.body.block.ops:
        if isinstance(op, (onnx.ConstantOp, dims.TensorOp, kernel.FillOp, ReturnOp)):
            continue
        constants = {v: c for v in op.operands if (c := small_constant(v)) is not None}
        inputs = [v for v in dict.fromkeys(op.operands) if v not in constants]
        yield op, build_function([op], inputs, constants, list(op.results), rename, {})
