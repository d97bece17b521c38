"""What the entry is built with: the state of the translation of one `main`, and the code that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import dims, kernel, onnx
from ..dialects.dims import Dim, ShapeAttr
from ..dialects.dims.division import solved_for
from ..dialects.dims.interval import SIZE_LIMIT
from ..dialects.dims.reserved import THREADS
from ..dialects.dims.text import brief
from ..dialects.onnx import text_of
from ..dialects.onnx.nodes import NodeInfo
from ..dialects.target import Target
from ..runtime.abi import (
    ENTRY_SYMBOL,
    LARGEST,
    NOTE_WORDS,
    POLL_TICKS,
    WORD,
    ErrorCode,
    ErrorWord,
    Slot,
    TimeWord,
)
from ..runtime.errors import UnsupportedError
from ..runtime.manifest import Check, Host
from ..semantics.facts import Condition
from .build import declare, module_of
from .dims import floordiv_nonzero
from .entry_sizes import MAGNITUDE_LIMIT, Sizes, bare_symbol
from .entry_values import (
    Entry,
    EntryError,
    KernelInfo,
    Place,
    byte_size,
    element_bytes,
    escaped,
    is_object,
    name_of,
    node_of,
    overridable_inputs,
    tensor_dims,
)
from .llvm_types import F64, I1, I32, I64, PTR
from .scalar import ScalarBuilder

POLL_SYMBOL = "sx_poll_point"
TIME_SYMBOL = "sx_note_time"
GUARD_VALUES = 6
"""A guard's message has at most so many numbers."""


# --- the builder ---

Handler = Callable[["EntryBuilder", Operation], None]


MAX_CONDITION = 60
"""A guard's condition that is longer is left out of its message, which then has the values of its symbols."""


def of_node(message: str, table: Sequence[NodeInfo], node: int) -> str:
    """`TensorScatter of GroupQueryAttention: ...` where the file's node is of another operator than a check's."""
    name, colon, rest = message.partition(": ")
    if not colon or not name.isidentifier() or node >= len(table) or table[node].op_type == name:
        return message
    return f"{name} of {escaped(table[node].op_type)}: {rest}"


@dataclass
class Tables:
    """What the entry refers to by number."""

    checks: list[Check] = field(default_factory=list[Check])
    bases: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    rooms: dict[str, int] = field(default_factory=dict[str, int])
    hosts: list[Host] = field(default_factory=list[Host])
    hosted: list[Operation] = field(default_factory=list[Operation])
    weights: dict[Attribute, int] = field(default_factory=dict[Attribute, int])

    def site(self, code: str, message: str) -> int:
        """A new site; braces in the message are places for values."""
        self.checks.append({"code": code, "message": message})
        return len(self.checks) - 1

    def room(self, what: str) -> int:
        """The site of memory that is asked for: it says for what. All requests for the same share theirs."""
        if what not in self.rooms:
            self.rooms[what] = self.site("memory", what)
        return self.rooms[what]

    def base(self, op: kernel.CallOp, info: KernelInfo) -> int:
        """The first site of a call's checks; calls for which all of them say the same share theirs."""
        name = op.callee.string_value()
        listed = op.attributes.get(kernel.NODES)
        nodes = [int(i) for i in listed.get_values()] if isinstance(listed, DenseArrayBase) else []
        checks: list[Check] = []
        for code, marked in info.checks:
            which, message = kernel.about_which(marked)
            checks.append({"code": code, "message": message, "kernel": name})
            if which is not None and which < len(nodes) and nodes[which] >= 0:
                checks[-1]["node"] = nodes[which]
                checks[-1]["message"] = of_node(message, onnx.node_table(op), nodes[which])
        key = (name, *(check.get("node") for check in checks))
        if key not in self.bases:
            self.bases[key] = len(self.checks)
            self.checks += checks
        return self.bases[key]

    def weight(self, op: Operation) -> int:
        """The index of a constant in the weights table: equal values have one."""
        value = op.properties["value"]
        return self.weights.setdefault(value, len(self.weights))


class EntryBuilder:
    """Builds the entry of one `main`. `handlers` emit ops by class, `other` those of all other classes."""

    def __init__(
        self,
        main: func.FuncOp,
        kernels: Mapping[str, KernelInfo],
        target: Target,
        handlers: Mapping[type[Operation], Handler],
        other: Handler,
        timed: bool = False,
    ) -> None:
        self.handlers = handlers
        self.other = other
        self.main = main
        self.kernels = kernels
        self.target = target
        self.tables = Tables()
        self.b = ScalarBuilder(ENTRY_SYMBOL, [PTR, PTR], I32, linkage="external")
        self.context, self.args = self.b.args
        self.sizes = Sizes(self.b)
        self.places: dict[SSAValue, Place] = {}
        self.called: dict[str, None] = {}
        self.extra: dict[str, Operation] = {}
        """Further functions of the module, by symbol."""
        self.timed = timed
        self.steps: list[Operation] = []
        """The calls whose times are noted, in the order in which they stand."""
        self.pending: list[tuple[Operation, Condition, str]] = []
        """Assumptions whose symbols are not bound yet."""
        self.stored: dict[int, SSAValue] = {}
        """The argument words of the next kernel call that already hold a value."""
        self.current: Operation | None = None
        """The op that is being lowered."""
        self.trouble = "the sizes are beyond what can be counted"
        """What is wrong where a size cannot be computed."""
        self.calls = 0
        self.last_node: int | None = None
        self.last_base: int | None = None
        self.overridable = overridable_inputs(main)
        block = main.body.block
        self.inputs: list[SSAValue] = [*block.args, *(op.result for op in self.overridable)]
        last = block.last_op
        if not isinstance(last, func.ReturnOp):
            raise EntryError("main ends in no return")
        self.results = list(last.operands)
        self.first_output = len(self.inputs) + sum(len(tensor_dims(v.type)) for v in self.inputs)
        self.fail, self.guard_failed, self.no_memory, self.interrupted = self._exits()

    def build(self) -> Entry:
        """The whole entry."""
        b = self.b
        start = b.new_block()
        b.at(start)
        self.error = b.load_at(self.context, WORD * Slot.ERROR, PTR)
        b.store_at(b.int(ErrorCode.NONE), self.error, WORD * ErrorWord.CODE)
        self.began = b.cycles()
        b.store_at(self.began, self.context, WORD * Slot.LAST_POLL)
        calls = [len(op.dims.data) + len(op.operands) + len(op.results) + 2 for op in self.main.walk()
                 if isinstance(op, kernel.CallOp)]  # fmt: skip
        self.call_words = b.words(max(calls, default=1))
        self.sizes.bind(THREADS, b.load_at(self.context, WORD * Slot.THREADS))
        self._bind_inputs()
        ops = list(self.main.body.block.ops)
        guards = 0
        while isinstance(ops[guards], dims.AssumeOp):
            self.lower(ops[guards])
            guards += 1
        self._reserve_arena()
        self._fetch_outputs()
        for op in ops[guards:]:
            self.lower(op)
        if self.pending:
            raise EntryError(f"'{self.pending[0][1]}' has symbols that nothing binds")
        b.at(b.entry)
        b.br(start)
        functions = [*(declare(symbol, [PTR, PTR], I32) for symbol in self.called), *self.extra.values(), b.func]
        tables = self.tables
        return Entry(
            module_of(functions, self.target),
            tuple(tables.checks),
            tuple(tables.hosts),
            tuple(tables.hosted),
            tuple(tables.weights),
            tuple(self.steps),
        )

    def lower(self, op: Operation) -> None:
        """Emits one op of `main` or of a region in it."""
        around, self.current = self.current, op
        self.handlers.get(type(op), self.other)(self, op)
        self.current = around

    # --- exits ---

    def _exits(self) -> tuple[Block, Block, Block, Block]:
        b = self.b
        fail = b.new_block()
        guard_failed = b.new_block(*[I64] * (3 + GUARD_VALUES))
        no_memory = b.new_block(I64, I64, I64)
        interrupted = b.new_block()

        def record() -> SSAValue:
            return b.load_at(self.context, WORD * Slot.ERROR, PTR)

        site, node, count, *values = b.at(guard_failed)
        at = record()
        words = [b.int(ErrorCode.CHECK), node, site, count, *values]
        for word, value in enumerate(words):
            b.store_at(value, at, WORD * word)
        b.br(fail)

        size, site, node = b.at(no_memory)
        at = record()
        for value, word in ((node, ErrorWord.NODE), (site, ErrorWord.SITE), (size, ErrorWord.VALUES)):
            b.store_at(value, at, WORD * word)
        known, unknown = b.new_block(), b.new_block()
        code = b.load_at(at, WORD * ErrorWord.CODE)
        b.branch(b.icmp("eq", code, b.int(ErrorCode.NONE)), unknown, known)
        b.at(unknown)
        b.store_at(b.int(ErrorCode.MEMORY), at, WORD * ErrorWord.CODE)
        b.store_at(b.int(2), at, WORD * ErrorWord.COUNT)
        b.store_at(b.int(0), at, WORD * (ErrorWord.VALUES + 1))
        b.br(known)
        b.at(known)
        b.br(fail)

        b.at(interrupted)
        b.store_at(b.int(ErrorCode.INTERRUPTED), record(), WORD * ErrorWord.CODE)
        b.br(fail)

        b.at(fail)
        b.ret(b.int32(1))
        return fail, guard_failed, no_memory, interrupted

    def go_on_if(self, condition: SSAValue, otherwise: Block, values: Sequence[SSAValue] = ()) -> None:
        """Leaves by `otherwise` where the condition does not hold."""
        b = self.b
        on = b.new_block()
        b.cond_br(condition, on, [], otherwise, values)
        b.at(on)

    def size_of(self, value: SSAValue, axis: int) -> str:
        """What a symbol is that the size of a value binds, for messages."""
        return f"the size of axis {axis} of '{name_of(value, 'a value of a body')}'"

    def guard(self, condition: SSAValue, code: str, message: str, values: Sequence[SSAValue], node: int = -1) -> None:
        """Fails the call with this message where the condition does not hold."""
        b = self.b
        site = self.tables.site(code, message)
        padded = [*values, *[b.int(0)] * (GUARD_VALUES - len(values))]
        self.go_on_if(condition, self.guard_failed, [b.int(site), b.int(node), b.int(len(values)), *padded])

    # --- sizes ---

    def size(self, dim: Dim | int) -> SSAValue:
        """The value of an expression, an i64; the call fails where computing it would leave int64."""
        dim = dims.as_dim(dim)
        if unbound := self.sizes.unbound(dim):
            raise EntryError(f"'{dim}' has symbols that are not bound here: {', '.join(unbound)}")
        if self.sizes.needs_check(dim):
            self.hold_small(self.sizes.is_small(dim), dim.symbols)
        return self.sizes.value(dim)

    def hold_small(self, small: SSAValue, symbols: Iterable[str]) -> None:
        """Fails the call where a size that these symbols make is too large."""
        if self.current is None:  # the memory of all
            self.go_on_if(small, self.no_memory, [self.b.int(-1)] * 3)
            return
        listed, values = self.listed(symbols, 0)
        self.guard(small, "guard", f"{self.trouble}: {listed}", values, node_of(self.current))

    def listed(self, symbols: Iterable[str], first: int) -> tuple[str, list[SSAValue]]:
        """What symbols are and their values, as many as a guard's message has room for from its value `first` on."""
        texts: list[str] = []
        values: list[SSAValue] = []
        for symbol in sorted(symbols)[: GUARD_VALUES - first]:
            texts.append(f"{symbol} = {{{first + len(values)}}} ({escaped(self.bound_at.get(symbol, 'computed'))})")
            values.append(self.size(dims.as_dim(symbol)))
        return ", ".join(texts), values

    def node(self) -> SSAValue:
        """The node of the op that is being lowered, -1 for none."""
        return self.b.int(-1 if self.current is None else node_of(self.current))

    def bytes_of(self, value: SSAValue) -> SSAValue:
        """The size in bytes of a tensor."""
        return self.bytes_of_type(value.type)

    def bytes_of_type(self, type_: Attribute) -> SSAValue:
        """The size in bytes of a tensor of this type.

        Sums and sizes that conditions choose are multiplied here: their product has a term for each combination of
        terms, each of which could be too large to be counted where the product is not.
        """
        axes = tensor_dims(type_)
        if not isinstance(type_, TensorType) or sum(dim.choices > 0 or len(dim.terms) > 1 for dim in axes) < 2:
            return self.size(byte_size(type_))
        b, width = self.b, element_bytes(type_.element_type)
        total, nearly = b.int(width), b.const(float(width), F64)
        for size in [self.size(dim) for dim in axes]:
            total, nearly = b.mul(total, size), b.fmul(nearly, b.as_double(size))
        small = b.fcmp("olt", nearly, b.const(MAGNITUDE_LIMIT, F64))
        self.hold_small(small, {s for dim in axes for s in dim.symbols})
        return total

    def bind_symbol(self, symbol: str, value: SSAValue, what: str, limit: float = float(SIZE_LIMIT)) -> None:
        """Binds a symbol from here on, and checks the assumptions that waited for it; `what` says what it is."""
        self.sizes.bind(symbol, value, limit)
        self.bound_at[symbol] = what
        waiting, self.pending = self.pending, []
        for op, condition, why in waiting:
            self.assume(op, condition, why)

    def assume(self, op: Operation, condition: Condition, why: str) -> None:
        """A guard for the condition, now or when its symbols are bound."""
        if not (self.sizes.has(condition.left) and self.sizes.has(condition.right)):
            self.pending.append((op, condition, why))
            return
        usual, around = self.trouble, self.current
        self.trouble, self.current = f"{escaped(why)}: the sizes do not fit" if why else "the sizes do not fit", op
        left, right = self.size(condition.left), self.size(condition.right)
        self.trouble, self.current = usual, around
        holds = self.b.icmp("eq" if condition.op == "==" else "sle", left, right)
        reason = f"{why}: " if why else ""
        text, values = str(condition), [left, right]
        if len(text) <= MAX_CONDITION:
            where = f" ({self.where(condition)})" if self.where(condition) else ""
            said = f"{text} does not hold: {{0}} and {{1}}"
            if (multiple := condition.multiple) is not None:
                values = [self.size(d) for d in multiple]
                said = f"{multiple[0]} is no multiple of {multiple[1]}: {{0}} and {{1}}"
            said += escaped(where)
        else:
            if condition.right.is_const:  # a form made to be compared with it, which means nothing to people
                values = []
            sides = "{0} and {1}, where " if values else ""
            listed, more = self.listed(condition.left.symbols | condition.right.symbols, len(values))
            values += more
            said = f"the sizes do not fit: {sides}{listed}"
        self.guard(holds, "guard", f"{escaped(reason)}{said}", values, node_of(op))

    def where(self, condition: Condition) -> str:
        """What the condition's symbols are: sizes of inputs, or computed."""
        symbols = sorted(condition.left.symbols | condition.right.symbols)
        return ", ".join(f"{symbol} is {self.bound_at[symbol]}" for symbol in symbols if symbol in self.bound_at)

    # --- inputs, outputs, arena ---

    def _bind_inputs(self) -> None:
        """Binds each symbol where it first stands alone; checks all other sizes against their expressions."""
        b = self.b
        self.bound_at: dict[str, str] = {}
        axes: list[tuple[str, Dim, SSAValue]] = []
        at = len(self.inputs)
        for index, value in enumerate(self.inputs):
            type_ = I64 if is_object(value.type) else PTR
            pointer = b.load_at(self.args, WORD * index, type_)
            self.places[value] = Place(pointer, True, ("input", index))
            name = name_of(value, str(index))
            if isinstance(value.owner, onnx.InitializerOp):
                name = text_of(value.owner.sym)
                self.tables.weight(value.owner)  # its default
            for axis, dim in enumerate(tensor_dims(value.type)):
                place = f"'{name}' axis {axis}"
                size = b.load_at(self.args, WORD * at)
                axes.append((place, dim, size))
                at += 1
        rest: list[tuple[str, Dim, SSAValue]] = []
        for place, dim, size in axes:
            if THREADS in dim.symbols:  # no model's, for those have other names; of a module that somebody wrote
                raise EntryError(f"{place} is '{dim}', but '{THREADS}' is the number of threads")
            symbol = bare_symbol(dim)
            if symbol is None or symbol in self.bound_at:
                rest.append((place, dim, size))
                continue
            in_range = b.icmp("ult", size, b.int(SIZE_LIMIT))
            self.guard(in_range, "guard", f"input {escaped(place)} has size {{0}}, out of range", [size])
            self.bound_at[symbol] = f"the size of {place}"
            self.sizes.bind(symbol, size)
        self._solve_sizes(rest)
        for place, dim, size in rest:
            if unbound := self.sizes.unbound(dim):
                named = ", ".join(unbound)
                said = f"input {place} is '{brief(dim)}'"
                raise UnsupportedError(f"{said}, but no size of an input tells {named} by itself")
            expected = self.size(dim)
            symbolic = "" if dim.is_const else f"{brief(dim)} = "
            known = self.where(Condition(dim, "==", dim))
            where = f" ({known})" if known else ""
            message = f"input {escaped(place)} has size {{0}}, expected {escaped(symbolic)}{{1}}{escaped(where)}"
            self.guard(b.icmp("eq", size, expected), "guard", message, [size, expected])

    def _solve_sizes(self, axes: Sequence[tuple[str, Dim, SSAValue]]) -> None:
        """Binds symbols that stand alone nowhere by sizes that are linear in them: half of `2*s`; the check follows."""
        b = self.b
        waiting = [axis for axis in axes if self.sizes.unbound(axis[1])]
        while waiting:
            for place, dim, size in waiting:
                found = solved_for(dim, self.sizes.unbound(dim))
                if found is None:
                    continue
                symbol, factor, others = found
                value = floordiv_nonzero(b, b.sub(size, self.size(others)), b.int(factor))
                in_range = b.icmp("ult", value, b.int(SIZE_LIMIT))
                self.guard(in_range, "guard", f"input {escaped(place)} has size {{0}}, out of range", [size])
                self.bound_at[symbol] = f"the size that {brief(dim)}, {place}, tells"
                self.sizes.bind(symbol, value)
                break
            else:
                return
            waiting = [axis for axis in waiting if self.sizes.unbound(axis[1])]

    def _reserve_arena(self) -> None:
        b = self.b
        attribute = self.main.attributes.get("kernel.arena")
        if not isinstance(attribute, ShapeAttr):
            raise EntryError("main has no kernel.arena")
        total = self.size(attribute.data[0])
        self.go_on_if(b.icmp("ule", total, b.int(LARGEST)), self.no_memory, [total, b.int(-1), b.int(-1)])
        certain = self.main.attributes.get("kernel.arena_certain")
        if isinstance(certain, ShapeAttr):
            b.store_at(self.size(certain.data[0]), self.context, WORD * Slot.ARENA_CERTAIN)
            b.store_at(b.int(0), self.context, WORD * Slot.ARENA_OWED)
        enough, more = b.new_block(), b.new_block()
        there = b.load_at(self.context, WORD * Slot.ARENA_BYTES)
        b.branch(b.icmp("ule", total, there), enough, more)
        b.at(more)
        reserve = b.load_at(self.context, WORD * Slot.RESERVE, PTR)
        refused = b.value_of_pointer(reserve, [self.context, total], I32)
        b.cond_br(b.icmp("eq", refused, b.int32(0)), enough, [], self.no_memory, [total, b.int(-1), b.int(-1)])
        b.at(enough)
        self.arena = b.load_at(self.context, WORD * Slot.ARENA, PTR)
        self.weights = b.load_at(self.context, WORD * Slot.WEIGHTS, PTR)

    def reserve_branch(self, need: Dim, node: int) -> None:
        """Asks for a branch's own part of the arena, where not all of that was there at entry."""
        b = self.b
        total = self.size(need)  # sizes are known from here on: not in a block of its own, which the rest is not behind
        ask, enough = b.new_block(), b.new_block()
        b.branch(b.icmp("eq", b.load_at(self.context, WORD * Slot.ARENA_OWED), b.int(0)), enough, ask)
        b.at(ask)
        reserve = b.load_at(self.context, WORD * Slot.RESERVE, PTR)
        refused = b.value_of_pointer(reserve, [self.context, total], I32)
        failed = [total, b.int(-1), b.int(node)]
        b.cond_br(b.icmp("eq", refused, b.int32(0)), enough, [], self.no_memory, failed)
        b.at(enough)

    def _fetch_outputs(self) -> None:
        """The pointers of outputs that kernels write straight into; asks for those that the caller left open."""
        self.outputs: dict[int, SSAValue] = {}
        direct: set[int] = set()
        for op in self.main.walk():
            homes = op.attributes.get("kernel.outputs")
            if isinstance(homes, ArrayAttr):
                direct.update(
                    int(home.data.removeprefix("output:"))
                    for home in homes
                    if isinstance(home, StringAttr) and home.data.startswith("output:")
                )
        for index in sorted(direct):
            self.outputs[index] = self.output_pointer(index)

    def output_pointer(self, index: int) -> SSAValue:
        """Where an output goes: the caller's memory, or new one of its size; its sizes must be bound."""
        b = self.b
        dimensions = tensor_dims(self.results[index].type)
        sizes = [self.size(dim) for dim in dimensions]
        at = self.first_output + len(self.results)
        at += sum(len(tensor_dims(value.type)) for value in self.results[:index])
        for axis, size in enumerate(sizes):
            b.store_at(size, self.args, WORD * (at + axis))
        given = b.load_at(self.args, WORD * (self.first_output + index), PTR)
        ask, done = b.new_block(), b.new_block(PTR)
        b.cond_br(b.is_null(given), ask, [], done, [given])
        b.at(ask)
        allocate = b.load_at(self.context, WORD * Slot.ALLOC_OUTPUT, PTR)
        new = b.value_of_pointer(
            allocate, [self.context, b.int(index), b.int(len(sizes)), b.at_byte(self.args, WORD * at)], PTR
        )
        made_by = self.results[index].owner
        node = node_of(made_by) if isinstance(made_by, Operation) else -1
        self.go_on_if(b.icmp("ne", b.as_int(new), b.int(0)), self.no_memory, [b.int(-1), b.int(-1), b.int(node)])
        b.br(done, [new])
        return b.at(done)[0]

    # --- places ---

    def place(self, value: SSAValue) -> Place:
        """Where a value is."""
        found = self.places.get(value)
        if found is None:
            raise EntryError(f"a value of {value.owner} is used before it is made")
        return found

    def pointer(self, value: SSAValue) -> SSAValue:
        """A value's pointer, or number."""
        return self.place(value).pointer

    def once(self, what: str, key: object, make: Callable[[], SSAValue]) -> SSAValue:
        """A pointer that is computed once in a region."""
        found = self.sizes.pointers.get((what, key))
        if found is None:
            found = self.sizes.pointers[what, key] = make()
        return found

    def arena_pointer(self, offset: Dim) -> SSAValue:
        """A byte offset in the arena as a pointer."""
        return self.once("arena", offset, lambda: self.b.at_byte(self.arena, self.size(offset)))

    def allocate(self, size: SSAValue, what: str) -> SSAValue:
        """New bytes of the growing region; `what` says for what, for errors."""
        b = self.b
        allocate = b.load_at(self.context, WORD * Slot.ALLOC_DYNAMIC, PTR)
        pointer = b.value_of_pointer(allocate, [self.context, size], PTR)
        site = b.int(self.tables.room(what))
        self.go_on_if(b.icmp("ne", b.as_int(pointer), b.int(0)), self.no_memory, [size, site, self.node()])
        return pointer

    def room_of(self, value: SSAValue) -> SSAValue:
        """New bytes of the growing region, as many as the value has."""
        return self.allocate(self.bytes_of(value), self.called_of(value))

    def called_of(self, value: SSAValue) -> str:
        """What to call a value in an error."""
        name = onnx.value_name(value)
        return "an unnamed value" if name is None else f"'{escaped(name)}'"

    def home(self, home: Dim | str, value: SSAValue, most: Attribute | None = None) -> Place:
        """The memory that the scheduler gave a value; `most` is its type at its largest."""
        if isinstance(home, Dim):
            return Place(self.arena_pointer(home), False, ("arena", home))
        if home.startswith("output:"):
            return Place(self.outputs[int(home.removeprefix("output:"))], True, home)
        if home != "dynamic":
            raise EntryError(f"no home {home!r}")
        type_ = value.type if most is None else most
        total = self.bytes_of_type(type_)
        listed, values = self.listed({s for d in tensor_dims(type_) for s in d.symbols}, 1)
        if values and self.current is not None:
            message = f"{self.called_of(value)} would take {{0}} bytes: {listed}"
            self.guard(self.b.icmp("ule", total, self.b.int(LARGEST)), "guard", message, [total, *values],
                       node_of(self.current))  # fmt: skip
        return Place(self.allocate(total, self.called_of(value)), True)

    def copy(self, target: SSAValue, source: SSAValue, size: SSAValue) -> None:
        """Copies bytes; the same place twice is no harm."""
        b = self.b
        b.call_intrinsic("llvm.memmove.p0.p0.i64", [target, source, size, b.const(0, I1)])

    def constant(self, op: Operation) -> Place:
        """A constant of the weights table."""
        b = self.b
        index = self.tables.weight(op)
        pointer = self.once("weight", index, lambda: b.load_at(self.weights, WORD * index, PTR))
        return Place(pointer, True, ("weight", index))

    # --- calls ---

    def store_word(self, word: int, value: SSAValue) -> None:
        """Puts a value into an argument word of the next call, where it is not there already."""
        if self.stored.get(word) is not value:
            self.b.store_at(value, self.call_words, WORD * word)
            self.stored[word] = value

    def forget_stored(self) -> None:
        """At the border of a region: what the argument words and the context hold is not known any more."""
        self.stored.clear()
        self.last_node = self.last_base = None

    def note(self, node: int, base: int) -> None:
        """Tells the context which node, and whose checks, come now."""
        b = self.b
        if node != self.last_node:
            b.store_at(b.int(node), self.context, WORD * Slot.NODE)
            self.last_node = node
        if base != self.last_base:
            b.store_at(b.int(base), self.context, WORD * Slot.SITE_BASE)
            self.last_base = base

    def timed_call(self, op: Operation, call: Callable[[], SSAValue]) -> SSAValue:
        """Emits the call of a step; in a timed entry, with what notes how long it took."""
        if not self.timed:
            return call()
        began = self.b.cycles()
        status = call()
        self.note_time(len(self.steps), began)
        self.steps.append(op)
        return status

    def note_time(self, step: int, began: SSAValue) -> None:
        """Notes that a step took from then to now."""
        if not self.timed:
            return
        if TIME_SYMBOL not in self.extra:
            self.extra[TIME_SYMBOL] = time_noted()
        self.b.value_of(TIME_SYMBOL, [self.context, self.b.int(step), began], I32)

    def check_record(self) -> None:
        """Leaves where the error record says that something failed."""
        b = self.b
        code = b.load_at(self.error, WORD * ErrorWord.CODE)
        self.go_on_if(b.icmp("eq", code, b.int(ErrorCode.NONE)), self.fail)

    def poll(self) -> None:
        """Leaves where somebody wants the call to stop."""
        if POLL_SYMBOL not in self.extra:
            self.extra[POLL_SYMBOL] = poll_point()
        stop = self.b.value_of(POLL_SYMBOL, [self.context], I32)
        self.go_on_if(self.b.icmp("eq", stop, self.b.int32(0)), self.interrupted)


def poll_point() -> Operation:
    """`int32 sx_poll_point(ctx)`: non-zero to stop. Asks the runtime now and then, by the time stamp counter."""
    b = ScalarBuilder(POLL_SYMBOL, [PTR], I32)
    (context,) = b.args
    stop, look, old, ask = b.new_block(), b.new_block(), b.new_block(), b.new_block()
    go_on = b.new_block()
    flag = b.load_at(b.load_at(context, WORD * Slot.POLL_FLAG, PTR), 0, I32)
    b.branch(b.icmp("ne", flag, b.int32(0)), stop, look)
    b.at(look)
    now = b.cycles()
    passed = b.sub(now, b.load_at(context, WORD * Slot.LAST_POLL))
    b.branch(b.icmp("ugt", passed, b.int(POLL_TICKS)), old, go_on)
    b.at(old)
    b.store_at(now, context, WORD * Slot.LAST_POLL)
    poll = b.load_at(context, WORD * Slot.POLL, PTR)
    b.branch(b.is_null(poll), go_on, ask)
    b.at(ask)
    b.ret(b.value_of_pointer(poll, [context], I32))
    b.at(stop)
    b.ret(b.int32(1))
    b.at(go_on)
    b.ret(b.int32(0))
    return b.func


def time_noted() -> Operation:
    """`int32 sx_note_time(ctx, step, began)`: appends a note of a step that ends now, if anybody wants to know."""
    b = ScalarBuilder(TIME_SYMBOL, [PTR, I64, I64], I32)
    context, step, began = b.args
    ended = b.cycles()
    wanted, room, done = b.new_block(), b.new_block(), b.new_block()
    times = b.load_at(context, WORD * Slot.TIMES, PTR)
    b.branch(b.is_null(times), done, wanted)
    b.at(wanted)
    count = b.load_at(times, WORD * TimeWord.COUNT)
    b.store_at(b.plus(count, b.int(1)), times, WORD * TimeWord.COUNT)
    b.branch(b.icmp("ult", count, b.load_at(times, WORD * TimeWord.ROOM)), room, done)
    b.at(room)
    at = b.plus(b.times(count, b.int(WORD * NOTE_WORDS)), b.int(WORD * TimeWord.NOTES))
    for number, value in enumerate((step, began, ended)):
        b.store_at(value, b.at_byte(times, at), WORD * number)
    b.br(done)
    b.at(done)
    b.ret(b.int32(0))
    return b.func
