"""Schedule level: where each value of `main` lives, as attributes on the calls.

A value is written straight into an output buffer where it is one, into the arena at a planned offset where its size
is known at entry, and into memory allocated at run time where only data decides the size.  Offsets and the arena's
total are expressions in the model's symbols: for a pair that lives at the same time, one ends before the other begins
at *every* size, by a proof or by a `max` over what it conflicts with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ..dialects import kernel, onnx
from ..dialects.dims import Dim, ShapeAttr, as_dim, dim_max, dims_of
from ..semantics.facts import Facts

ALIGNMENT = 64
NOMINAL = 64
"""The size that a symbol is taken to have when a choice must be made for all sizes."""
THREADS = "threads"


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


@dataclass(eq=False)
class Buffer:
    """A stretch of the arena, live from the op at `first` to the one at `last` in program order."""

    what: str
    size: Dim
    first: int
    last: int
    offset: Dim = field(default_factory=lambda: as_dim(0))

    @property
    def end(self) -> Dim:
        return self.offset + self.size

    def meets(self, other: Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan_offsets(buffers: list[Buffer], facts: Facts) -> Dim:
    """Sets every buffer's offset; returns the arena's size: at each binding the highest byte of any buffer.

    Largest first at nominal sizes.  A buffer goes to the lowest place (0 or another's end) that provably overlaps
    nothing live at the same time; where nothing is proved, behind the largest end of all that it meets.
    """
    nominal: dict[Dim, int] = {}

    def at(d: Dim) -> int:
        if d not in nominal:
            nominal[d] = d.evaluate({s: 2 if s == THREADS else NOMINAL for s in d.symbols})
        return nominal[d]

    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-at(b.size), b.first)):
        conflicts = [p for p in placed if p.meets(buffer)]
        candidates = sorted({as_dim(0), *(c.end for c in conflicts)}, key=lambda d: (at(d), str(d)))
        for candidate in candidates:
            end = candidate + buffer.size
            if at(end) > 1 and any(at(candidate) < at(c.end) and at(c.offset) < at(end) for c in conflicts):
                continue
            if all(precedes(c.end, candidate, facts) or precedes(end, c.offset, facts) for c in conflicts):
                buffer.offset = candidate
                break
        else:
            buffer.offset = largest([c.end for c in conflicts], facts)
        placed.append(buffer)
    return largest([b.end for b in placed], facts)


def precedes(a: Dim, b: Dim, facts: Facts) -> bool:
    """Whether a <= b at every binding."""
    if a is b:
        return True
    if a.is_const and b.is_const:
        return a.value <= b.value
    return facts.prove_le(a, b).answer is True


def largest(ends: list[Dim], facts: Facts) -> Dim:
    """The maximum of all, without those that are provably below another."""
    kept: list[Dim] = []
    for end in dict.fromkeys(ends):
        if any(precedes(end, k, facts) for k in kept):
            continue
        kept = [k for k in kept if not precedes(k, end, facts)] + [end]
    total = kept[0] if kept else as_dim(0)
    for k in kept[1:]:
        total = dim_max(total, k)
    return total


@dataclass(frozen=True)
class ScratchNeed:
    """A kernel's scratch in bytes, in its own symbols: once, and for each thread."""

    shared: Dim
    per_thread: Dim


class Scheduler:
    """Plans one module's `main`."""

    def __init__(self, module: ModuleOp, scratch: dict[str, ScratchNeed], facts: Facts) -> None:
        self.module = module
        self.scratch = scratch
        self.facts = facts
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

    def run(self) -> Dim:
        """Sets `kernel.outputs` and `kernel.scratch` on every op that makes values, and `kernel.arena` on `main`."""
        block = self.main.body.block
        outputs = self.output_homes(block)
        places: list[tuple[Operation, list[Buffer | str]]] = []
        scratches: list[tuple[Operation, Buffer]] = []
        for op in self.makers(block):
            homes: list[Buffer | str] = [
                f"output:{outputs[r]}" if r in outputs else self.home(r, op) for r in op.results
            ]
            places.append((op, homes))
            if isinstance(op, kernel.CallOp) and (need := self.scratch_of(op)) is not None:
                buffer = Buffer("scratch", need, self.at[op], self.at[op])
                self.buffers.append(buffer)
                scratches.append((op, buffer))
            if isinstance(op, (onnx.LoopOp, onnx.ScanOp)):
                self.plan_carried(op, places)
        total = plan_offsets(self.buffers, self.facts)
        for op, homes in places:
            attribute = ArrayAttr([StringAttr(h) if isinstance(h, str) else ShapeAttr((h.offset,)) for h in homes])
            name = "kernel.carried" if "kernel.outputs" in op.attributes else "kernel.outputs"
            op.attributes[name] = attribute
        for op, buffer in scratches:
            op.attributes["kernel.scratch"] = ShapeAttr((buffer.offset,))
        self.main.attributes["kernel.arena"] = ShapeAttr((total,))
        return total

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
            buffer = Buffer("carried", aligned(byte_size(argument.type)), self.at[op], self.last_inside(op))
            self.buffers.append(buffer)
            homes.append(buffer)
        places.append((op, homes))

    def home(self, value: SSAValue, op: Operation) -> Buffer | str:
        if not isinstance(value.type, TensorType) or not self.known_at_entry(value.type):
            return "dynamic"
        size = aligned(byte_size(value.type))
        # results of control flow are written by the branches, so they live from its start
        first = self.at[op]
        buffer = Buffer(value.name_hint or op.name, size, first, self.last_use(value, op))
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
            while isinstance(value.owner, kernel.ViewOp):
                value = value.owner.source
            owner = value.owner
            if isinstance(owner, kernel.CallOp) and value not in homes and self.known_at_entry(value.type):
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


def schedule(module: ModuleOp, scratch: dict[str, ScratchNeed], facts: Facts | None = None) -> Dim:
    """Plans the memory of `main`; returns the arena's size in bytes as an expression."""
    return Scheduler(module, scratch, facts or Facts()).run()
