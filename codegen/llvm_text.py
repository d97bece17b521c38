"""The llvm and llvmx dialects as LLVM IR text.

`emit(module)` prints every function, in reverse postorder of its blocks, with block arguments as phis.  Nothing is
dropped in silence: an op, type or attribute that is not in the tables below is a `CompilerBug`-worthy
`NotImplementedError` with the op's name.  Names are made here (`%v0`, `b0`); symbols must be plain identifiers, so no
text of a model can get into the module.

The module's attribute `sx.target` (`#target.cpu<...>`) gives CPU and features of all functions.  A function's argument
attributes (`llvm.noalias`, `llvm.align`, ...) and its `llvmx.attrs` are printed; other discardable attributes that the
compiler keeps for people (`origin`, ...) are known by name and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import llvmx
from ..dialects.target import Target, TargetAttr
from .instructions import INSTRUCTIONS, FunctionText, ModuleText, alignment_text
from .literals import EmitError, constant_text, symbol_text, type_text

IGNORED_ATTRIBUTES = frozenset({"origin", "llvmx.attrs", llvmx.WEIGHTS})
"""Discardable attributes that say nothing to LLVM, or that are printed elsewhere."""

ARGUMENT_FLAGS = {
    "llvm.noalias": "noalias",
    "llvm.nonnull": "nonnull",
    "llvm.noundef": "noundef",
    "llvm.readonly": "readonly",
    "llvm.writeonly": "writeonly",
    "llvm.nocapture": "captures(none)",
    "llvm.nofree": "nofree",
}
ARGUMENT_NUMBERS = {"llvm.align": "align {}", "llvm.dereferenceable": "dereferenceable({})"}

LINKAGES = {"external": "", "internal": "internal ", "private": "private "}


def emit(module: ModuleOp) -> str:
    """LLVM IR text of a module of `llvm.func` and `llvm.mlir.global`; raises `EmitError` on anything unknown."""
    return _Module(module).text()


# --- modules ---


class _Module:
    """Prints a module; collects what functions need outside of themselves."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.target = _target(module)
        self.content = ModuleText()
        self.lines = self.content.lines
        self.groups: dict[str, int] = {}

    def text(self) -> str:
        if self.target is not None:
            self.lines.append(f'target triple = "{self.target.triple}"')
        for op in self.module.body.block.ops:
            if isinstance(op, llvm.FuncOp):
                self._function(op)
            elif isinstance(op, llvm.GlobalOp):
                self._global(op)
            else:
                raise EmitError(f"{op.name} in a module")
        self.lines.extend(self.content.declarations.values())
        self.lines.extend(f"attributes #{number} = {{ {text} }}" for text, number in self.groups.items())
        self.lines.extend(f"{name} = {content}" for content, name in self.content.metadata.items())
        self.lines.append("")
        return "\n".join(self.lines)

    def _target_attributes(self) -> list[str]:
        target = self.target
        if target is None:
            return []
        texts = [f'"target-cpu"="{target.cpu}"', f'"target-features"="{target.features}"']
        texts.append('"stackrealign"')
        if target.vector_bytes == 64:
            texts.append('"prefer-vector-width"="512"')
        return texts

    def _group(self, op: llvm.FuncOp) -> str:
        attrs = op.attributes.get("llvmx.attrs")
        names = sorted(_texts(attrs)) if attrs is not None else []
        for name in names:
            if name not in llvmx.FUNCTION_ATTRIBUTES:
                raise EmitError(f"unknown function attribute {name!r}")
        text = " ".join([*names, *(self._target_attributes() if op.body.blocks else [])])
        if not text:
            return ""
        return f" #{self.groups.setdefault(text, len(self.groups))}"

    def _function(self, op: llvm.FuncOp) -> None:
        unknown = set(op.attributes) - IGNORED_ATTRIBUTES
        if unknown or op.CConv.convention.data != "ccc" or op.function_type.is_variadic or op.res_attrs:
            raise EmitError(f"llvm.func with {sorted(unknown) or 'an unknown convention'}")
        function = FunctionText(self.content)
        result = type_text(op.function_type.output)
        name = symbol_text(op.sym_name)
        if not op.body.blocks:
            args = ", ".join(type_text(t) + self._argument(op, i) for i, t in enumerate(op.function_type.inputs))
            self.lines.append(f"declare {result} @{name}({args}){self._group(op)}")
            return
        linkage = LINKAGES.get(op.linkage.linkage.data)
        if linkage is None:
            raise EmitError(f"linkage {op.linkage.linkage.data}")
        args = ", ".join(
            f"{type_text(arg.type)}{self._argument(op, i)} {function.names[arg]}"
            for i, arg in enumerate(op.body.blocks[0].args)
        )
        self.lines.append(f"define {linkage}{result} @{name}({args}){self._group(op)} {{")
        _body(function, op)
        self.lines.append("}")

    def _argument(self, op: llvm.FuncOp, index: int) -> str:
        if op.arg_attrs is None:
            return ""
        return "".join(f" {text}" for text in _argument_texts(op.arg_attrs.data[index]))

    def _global(self, op: llvm.GlobalOp) -> None:
        if op.thread_local_ or op.section or op.body.blocks or op.addr_space.value.data or op.attributes:
            raise EmitError("llvm.mlir.global with more than a value")
        linkage = LINKAGES.get(op.linkage.linkage.data)
        if linkage is None:
            raise EmitError(f"linkage {op.linkage.linkage.data}")
        kind = "constant" if op.constant is not None else "global"
        value = "zeroinitializer" if op.value is None else constant_text(op.value, op.global_type)
        self.lines.append(
            f"@{symbol_text(op.sym_name)} = {linkage}{kind} {type_text(op.global_type)} {value}{alignment_text(op)}"
        )


def _texts(attrs: Attribute) -> list[str]:
    if not isa(attrs, ArrayAttr[StringAttr]):
        raise EmitError(f"llvmx.attrs is {attrs}")
    return [text.data for text in attrs]


def _argument_texts(attrs: DictionaryAttr) -> Iterator[str]:
    for name, value in attrs.data.items():
        if name in ARGUMENT_FLAGS and isinstance(value, UnitAttr):
            yield ARGUMENT_FLAGS[name]
        elif name in ARGUMENT_NUMBERS and isinstance(value, IntegerAttr):
            yield ARGUMENT_NUMBERS[name].format(value.value.data)
        else:
            raise EmitError(f"unknown argument attribute {name} = {value}")


def _target(module: ModuleOp) -> Target | None:
    attribute = module.attributes.get("sx.target")
    if attribute is None:
        return None
    if not isinstance(attribute, TargetAttr):
        raise EmitError(f"sx.target is {attribute}")
    target = attribute.data
    for text in (target.cpu, target.features, target.triple):
        if not re.fullmatch(r"[A-Za-z0-9_.,+-]*", text):
            raise EmitError(f"not the name of a CPU or of features: {text!r}")
    return target


# --- functions ---


def _body(f: FunctionText, op: llvm.FuncOp) -> None:
    blocks = reverse_postorder(op.body.blocks[0])
    f.labels = {block: f"b{i}" for i, block in enumerate(blocks)}
    incoming = _incoming(f, blocks)
    if incoming.get(blocks[0]):
        raise EmitError("a jump to a function's first block")
    lines = f.lines
    for block in blocks:
        lines.append(f.labels[block] + ":")
        if block is not blocks[0]:
            _phis(f, block, incoming[block])
        for inner in block.ops:
            if inner.attributes and not IGNORED_ATTRIBUTES.issuperset(inner.attributes):
                raise EmitError(f"unknown attributes {sorted(inner.attributes)} on {inner.name}")
            instruction = INSTRUCTIONS.get(type(inner))
            if instruction is None:
                raise EmitError(f"{inner.name} has no LLVM text")
            instruction(f, inner)


def _incoming(f: FunctionText, blocks: Sequence[Block]) -> dict[Block, list[tuple[str, Sequence[SSAValue]]]]:
    """The edges into each block as (label that they come from, values); double edges get a label of their own."""
    edges: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
    for block in blocks:
        terminator = block.last_op
        assert terminator is not None
        label = f.labels[block]
        seen: set[Block] = set()
        for i, (target, values) in enumerate(successors(terminator)):
            origin = f.split_label(label, i) if target in seen and target.args else label
            if target not in seen or target.args:
                edges.setdefault(target, []).append((origin, values))
            seen.add(target)
    return edges


def _phis(f: FunctionText, block: Block, edges: list[tuple[str, Sequence[SSAValue]]]) -> None:
    names = f.names
    for i, arg in enumerate(block.args):
        choices = ", ".join(f"[ {names[values[i]]}, %{label} ]" for label, values in edges)
        f.lines.append(f"  {names[arg]} = phi {f.type(arg)} {choices}")


# --- blocks ---


def successors(op: Operation) -> Iterator[tuple[Block, Sequence[SSAValue]]]:
    """The edges that leave a terminator, with the values that they carry."""
    if isinstance(op, llvm.BrOp):
        yield op.successor, op.operands
    elif isinstance(op, llvm.CondBrOp):
        yield op.then_block, op.then_arguments
        yield op.else_block, op.else_arguments
    elif isinstance(op, llvmx.SwitchOp):
        for block in op.successors:
            yield block, ()
    elif not isinstance(op, llvm.ReturnOp | llvm.UnreachableOp):
        raise EmitError(f"{op.name} ends no block")


def reverse_postorder(entry: Block) -> list[Block]:
    """The reachable blocks, each (but for back edges) after its predecessors."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, _next_blocks(entry))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, _next_blocks(successor)))
                break
        else:
            stack.pop()
            order.append(block)
    order.reverse()
    return order


def _next_blocks(block: Block) -> Iterator[Block]:
    terminator = block.last_op
    if terminator is None:
        raise EmitError("an empty block")
    # the last successor is visited first and so comes last: a loop's body before its exit
    return iter([target for target, _ in successors(terminator)][::-1])
