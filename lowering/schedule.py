"""Schedule level: where each value of `main` lives, as attributes on the calls.

A value is written straight into an output buffer where it is one, into the arena at a planned offset where its size
is known at entry, and into memory allocated at run time where only data decides the size.  Offsets and the arena's
total are expressions in the model's symbols: of two values that live at the same time, one ends before the other
begins at *every* size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ..dialects import kernel, onnx
from ..dialects.dims import Dim, ShapeAttr, as_dim, dims_of
from ..dialects.dims.expression import dim_max
from ..dialects.dims.reserved import THREADS
from .arena import plan_offsets
from .buffers import Buffer

ALIGNMENT = 64


def element_bytes(element: Attribute) -> int:
    """The size in memory of one element: bool and integers below a byte take one byte."""
    return max(1, onnx.element_bits(element) // 8)


def byte_size(type_: Attribute) -> Dim:
    """The bytes of a tensor, without padding."""
    assert isinstance(type_, TensorType)
    total = as_dim(element_bytes(type_.element_type))
    for d in dims_of(type_):
        total = total * d
    return total


def aligned(size: Dim) -> Dim:
    """The size rounded up to the alignment."""
    if size.is_const:
        return as_dim(-(-size.value // ALIGNMENT) * ALIGNMENT)
    if (size % ALIGNMENT) is as_dim(0):
        return size
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True)
class ScratchNeed:
    """A kernel's scratch in bytes, in its own symbols: once, and for each thread."""

    shared: Dim
    per_thread: Dim


def behind_whole_views(value: SSAValue) -> SSAValue:
    """What a value shows all elements of."""
    while isinstance(value.owner, kernel.ViewOp) and value.owner.offset is None:
        value = value.owner.source
    return value


def only_begins_loops(fill: kernel.FillOp) -> bool:
    """Whether loops alone read it, as states that change: each fills its own memory for the state."""
    for use in fill.result.uses:
        op = use.operation
        if isinstance(op, onnx.LoopOp):
            at, first = use.index - (len(op.operands) - len(op.v_initial)), 2
        elif isinstance(op, onnx.ScanOp):
            at, first = use.index, 0
        else:
            return False
        block = op.regions[0].block
        end = block.last_op
        if not isinstance(end, onnx.YieldOp) or not 0 <= at < states_of(op):
            return False
        if end.operands[at + (1 if first else 0)] is block.args[at + first]:
            return False
    return True


def states_of(op: onnx.LoopOp | onnx.ScanOp) -> int:
    """The number of values that a loop carries."""
    if isinstance(op, onnx.LoopOp):
        return len(op.v_initial)
    return len(op.operands) - onnx.attr(op, "num_scan_inputs")


def same_bytes(a: SSAValue, b: SSAValue) -> bool:
    """Whether two tensors have, at all sizes, as many bytes."""
    return isinstance(a.type, TensorType) and isinstance(b.type, TensorType) and byte_size(a.type) is byte_size(b.type)


def described(buffer: Buffer) -> DictionaryAttr:
    """A buffer of the plan as an attribute: what is in it, its bytes and place, and from which op to which it lives."""
    return DictionaryAttr(
        {
            "name": StringAttr(buffer.what),
            "kind": StringAttr(buffer.kind),
            "bytes": ShapeAttr((buffer.size,)),
            "offset": ShapeAttr((buffer.offset,)),
            "first": IntegerAttr(buffer.first, i64),
            "last": IntegerAttr(buffer.last, i64),
        }
    )


def branch_of(op: Operation) -> Region | None:
    """The innermost branch of an If that an op is in."""
    at: Operation | None = op
    while at is not None:
        region = at.parent_region()
        at = at.parent_op()
        if isinstance(at, onnx.IfOp):
            return region
    return None


def step_name(op: Operation) -> str:
    """What runs at an op of `main`: a kernel, or an operator."""
    return op.callee.string_value() if isinstance(op, kernel.CallOp) else op.name


class Scheduler:
    """Plans one module's `main`."""

    def __init__(self, module: ModuleOp, scratch: dict[str, ScratchNeed]) -> None:
        self.module = module
        self.scratch = scratch
        self.main = next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
        self.at: dict[Operation, int] = {op: i for i, op in enumerate(self.main.walk())}
        self.entry_symbols = {
            s
            for argument in self.main.body.block.args
            if isinstance(argument.type, TensorType)
            for d in dims_of(argument.type)
            for s in d.symbols
        }
        self.buffers: list[Buffer] = []
        self.given: dict[SSAValue, Buffer | str] = {}
        """The homes of values that a branch makes where its If's result is."""

    def run(self) -> Dim:
        """Sets `kernel.outputs` and `kernel.scratch` on every op that makes values, and `kernel.arena` on `main`."""
        block = self.main.body.block
        outputs = self.output_homes(block)
        places: list[tuple[Operation, list[Buffer | str]]] = []
        scratches: list[tuple[Operation, Buffer]] = []
        for op in self.makers(block):
            if isinstance(op, kernel.FillOp) and only_begins_loops(op):
                op.attributes["kernel.outputs"] = ArrayAttr([StringAttr("unmade")])
                continue
            homes: list[Buffer | str] = [
                self.given[r] if r in self.given else f"output:{outputs[r]}" if r in outputs else self.home(r, op)
                for r in op.results
            ]
            places.append((op, homes))
            if isinstance(op, onnx.IfOp):
                self.give_homes(op, homes)
            if isinstance(op, kernel.CallOp) and (need := self.scratch_of(op)) is not None:
                if need.symbols <= self.entry_symbols | {THREADS}:
                    buffer = Buffer(op.callee.string_value(), need, self.at[op], self.at[op], "scratch")
                    self.buffers.append(buffer)
                    scratches.append((op, buffer))
                else:  # allocated at run time, for the length of the call
                    op.attributes["kernel.scratch_bytes"] = ShapeAttr((need,))
            if isinstance(op, (onnx.LoopOp, onnx.ScanOp)):
                self.plan_carried(op, places)
        self.plan_branches()
        total = plan_offsets(self.buffers)
        for op, homes in places:
            attribute = ArrayAttr([StringAttr(h) if isinstance(h, str) else ShapeAttr((h.offset,)) for h in homes])
            name = "kernel.carried" if "kernel.outputs" in op.attributes else "kernel.outputs"
            op.attributes[name] = attribute
        for op, buffer in scratches:
            op.attributes["kernel.scratch"] = ShapeAttr((buffer.offset,))
        self.main.attributes["kernel.arena"] = ShapeAttr((total,))
        self.main.attributes["kernel.memory"] = ArrayAttr(map(described, self.buffers))
        self.main.attributes["kernel.steps"] = ArrayAttr(
            DictionaryAttr({"at": IntegerAttr(self.at[op], i64), "runs": StringAttr(step_name(op))}) for op, _ in places
        )
        return total

    def plan_branches(self) -> None:
        """What a call takes whatever branches it enters, and what each branch takes more, where sizes decide that."""
        ops = list(self.at)
        members: dict[Region | None, list[Buffer]] = {}
        for buffer in self.buffers:
            members.setdefault(branch_of(ops[buffer.first]), []).append(buffer)
        certain = members.pop(None, [])
        if all(b.size.is_const for branch in members.values() for b in branch):
            return
        self.main.attributes["kernel.arena_certain"] = ShapeAttr((dim_max(plan_offsets(certain), ALIGNMENT),))
        for op in dict.fromkeys(region.parent_op() for region in members if region is not None):
            assert op is not None
            needs = [plan_offsets(members.get(region, [])) for region in op.regions]
            op.attributes["kernel.branch_arenas"] = ShapeAttr(tuple(needs))

    def give_homes(self, op: onnx.IfOp, homes: list[Buffer | str]) -> None:
        """What a branch makes only to be a result of the If is made where that is, and not copied there."""
        for region in op.regions:
            end = region.block.last_op
            assert isinstance(end, onnx.YieldOp)
            for value, result, home in zip(end.operands, op.results, homes, strict=True):
                value = behind_whole_views(value)
                owner = value.owner
                if (
                    home != "dynamic"
                    and isinstance(owner, (kernel.CallOp, kernel.FillOp, onnx.IfOp))
                    and owner.parent is region.block
                    and same_bytes(value, result)
                    and [behind_whole_views(v) for v in end.operands].count(value) == 1
                ):
                    self.given[value] = home

    def makers(self, block: Block) -> Iterator[Operation]:
        """Every op, in whatever region, whose results need memory of their own."""
        for op in block.walk():
            if op.results and not isinstance(op, (onnx.InitializerOp, onnx.ConstantOp, kernel.ViewOp, FuncOp)):
                yield op

    def plan_carried(self, op: Operation, places: list[tuple[Operation, list[Buffer | str]]]) -> None:
        """A loop's state has a buffer for each carried value, besides the result's own: the body reads one of them."""
        body = op.regions[0].blocks[0]
        homes: list[Buffer | str] = []
        for argument in body.args:
            if not isinstance(argument.type, TensorType) or not self.known_at_entry(argument.type):
                homes.append("dynamic")
                continue
            what = argument.name_hint or op.name
            size = aligned(byte_size(argument.type))
            buffer = Buffer(what, size, self.at[op], self.last_inside(op), "carried")
            self.buffers.append(buffer)
            homes.append(buffer)
        places.append((op, homes))

    def home(self, value: SSAValue, op: Operation) -> Buffer | str:
        if not isinstance(value.type, TensorType) or not self.known_at_entry(value.type):
            return "dynamic"
        size = aligned(byte_size(value.type))
        # results of control flow are written by the branches, so they live from its start
        first = self.at[op]
        what = onnx.value_name(value) or value.name_hint or op.name
        buffer = Buffer(what, size, first, self.last_use(value, op))
        self.buffers.append(buffer)
        return buffer

    def known_at_entry(self, type_: Attribute) -> bool:
        assert isinstance(type_, TensorType)
        if type_.element_type == onnx.STRING:
            return False  # Python objects, that native code knows by number
        return all(d.symbols <= self.entry_symbols for d in dims_of(type_))

    def last_inside(self, op: Operation) -> int:
        return max((self.at[inner] for inner in op.walk()), default=self.at[op])

    def last_use(self, value: SSAValue, maker: Operation) -> int:
        """The last op, in program order, that reads the value or a view of it.

        A use inside a loop that the value was made outside of counts until the loop's end.
        """
        home_block = value.owner if isinstance(value, BlockArgument) else maker.parent
        last = self.last_inside(maker)
        stack = [value]
        while stack:
            at = stack.pop()
            for use in at.uses:
                user = use.operation
                if isinstance(user, kernel.ViewOp):
                    stack.append(user.result)
                last = max(last, self.at[user])
                outer: Operation | None = user
                while outer is not None and outer.parent is not home_block:
                    outer = outer.parent_op()
                    if isinstance(outer, (onnx.LoopOp, onnx.ScanOp)):
                        last = max(last, self.last_inside(outer))
                if isinstance(user, (onnx.LoopOp, onnx.ScanOp, onnx.IfOp)):
                    last = max(last, self.last_inside(user))
                if isinstance(user, onnx.YieldOp) and (parent := user.parent_op()) is not None:
                    last = max(last, self.last_inside(parent))
        return last

    def output_homes(self, block: Block) -> dict[SSAValue, int]:
        """Values that may be made in the output buffer itself: made by a kernel, and one output only."""
        ret = block.last_op
        assert isinstance(ret, ReturnOp)
        homes: dict[SSAValue, int] = {}
        for index, value in enumerate(ret.operands):
            if not isinstance(value.type, TensorType) or not self.known_at_entry(value.type):
                continue  # the output's own sizes must be known: a view may have others than what it views
            value = behind_whole_views(value)
            owner = value.owner
            made = isinstance(owner, (kernel.CallOp, kernel.FillOp, onnx.IfOp)) and owner.parent is block
            if made and value not in homes and self.known_at_entry(value.type):
                homes[value] = index
        return homes

    def scratch_of(self, call: kernel.CallOp) -> Dim | None:
        """The bytes of scratch of one call in the caller's symbols; None for no scratch."""
        need = self.scratch.get(call.callee.string_value())
        if need is None:
            return None
        rename = {f"d{i}": d for i, d in enumerate(call.dims.data)}
        size = aligned(need.shared.subs(rename)) + Dim.symbol(THREADS) * aligned(need.per_thread.subs(rename))
        return None if size is as_dim(0) else size


def schedule(module: ModuleOp, scratch: dict[str, ScratchNeed]) -> Dim:
    """Plans the memory of `main`; returns the arena's size in bytes as an expression."""
    return Scheduler(module, scratch).run()
