"""Templates "lstm", "gru" and "rnn", with all attributes of the operators.

The input's part of the gates, for all steps at once, is one matrix product into scratch.  Then, step by step, each
tile computes some samples' gates for a block of hidden units: the recurrence weights are packed so that the gates of
the same units are neighbouring vectors, and the cell's formula runs on them where they are stored.  A sum over the
hidden units is one chain, so that a sample's bits do not depend on the batch.  States are kept in f32 (f64 for f64).

Config as the operators' attributes; with `w_panel`, W was a constant and is `packing.pack_gates(W, w_panel)`, with
`r_packed`, R was one and is `packing.pack_recurrence(R, gate_blocks(..), lanes)`, each with one axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..loop_builder import Scalar
from ..template import TemplateContext
from .activations import Function, functions, like
from .emit import Ix
from .matmul import MatmulBuilder, choose
from .matmul_problem import Factor, Problem
from .operands import flag, number
from .operator import Operator
from .panels import pack_across, slack
from .register_tile import Factors, Products, RegisterTile, largest_rows

StateAction = Callable[[Ix, Ix, SSAValue], None]
X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES = range(8)
Y, Y_H, Y_C = range(3)
PASS = 2
"""Vectors of gates that are packed, and for more than a few samples computed, together."""
FEW_SAMPLES = 4
PREFETCH_STEPS = 24
"""How far ahead recurrence weights are asked for, in hidden units."""


@dataclass(frozen=True)
class GateBlock:
    """Some of the gates, of `units` vectors of hidden units: what one tile computes, in whole passes."""

    gates: tuple[int, ...]
    units: int

    @property
    def vectors(self) -> int:
        return len(self.gates) * self.units


def gate_blocks(template: str, linear_before_reset: bool = False) -> list[GateBlock]:
    """What the tiles of one step compute."""
    if template == "lstm":
        return [GateBlock((0, 1, 2, 3), 1)]
    if template == "rnn":
        return [GateBlock((0,), 2)]
    if linear_before_reset:
        return [GateBlock((0, 1, 2), 2)]
    return [GateBlock((0, 1), 1), GateBlock((2,), 2)]


class Recurrent(ABC):
    """One operator. `GATES` is the number of gates in W, `DEFAULT` one direction's activations."""

    GATES: ClassVar[int]
    DEFAULT: ClassVar[tuple[str, ...]]

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.context, self.op = context, op
        self.operator = Operator(context, op)
        self.e = self.operator.e
        self.layout = self.operator.attr("layout", 0)
        x = self.operator.dims(X)
        self.w_panel, self.r_packed = number(op, "w_panel"), flag(op, "r_packed")
        self.steps_dim, self.batch_dim = (x[1], x[0]) if self.layout else (x[0], x[1])
        result = next(i for i in range(3) if self.operator.has_result(i))
        self.depth_dim, self.hidden_dim = x[2], self.operator.result_dims(result)[-1]
        self.directions = 2 if self.operator.attr("direction", "forward") == "bidirectional" else 1
        self.products = Products(self.operator.kind(X).ir)
        self.lanes = self.e.target.lanes(self.products.bytes)
        e = self.e
        self.steps, self.batch, self.hidden = e.dim(self.steps_dim), e.dim(self.batch_dim), e.dim(self.hidden_dim)
        self.state_size = self.batch * self.hidden
        # packing writes whole chunks
        self.panel_steps = (self.hidden_dim + (self.lanes - 1)) // self.lanes * self.lanes
        names = self.operator.attr("activations") or list(self.DEFAULT) * self.directions
        alphas, betas = self.operator.attr("activation_alpha", []), self.operator.attr("activation_beta", [])
        per = len(self.DEFAULT)
        all_functions = functions(names, alphas, betas, self.operator.attr("clip"))
        self.functions = [all_functions[d * per : (d + 1) * per] for d in range(self.directions)]

    # What an operator adds

    def blocks(self) -> list[GateBlock]:
        """The tiles of one step, in order; a later one needs the earlier ones of all units."""
        return gate_blocks(self.op.template.data, bool(self.operator.attr("linear_before_reset", 0)))

    @abstractmethod
    def cell(self, place: Place, block: int, gates: list[SSAValue]) -> None:
        """What becomes of the gates of a vector of units of one sample: from the recurrence alone."""

    def joins_biases(self, gate: int) -> bool:
        """Whether the recurrence's bias may be added to the input's part."""
        return True

    # All directions

    def build(self) -> None:
        """Emits the operator."""
        if self.operator.has(LENGTHS):
            self.check_lengths()
        directions = [Direction(self, number) for number in range(self.directions)]
        for direction in directions:
            direction.prepare()
        for tiling in self.tilings():
            with nullcontext() if tiling.condition is None else self.e.when(tiling.condition):
                self.run(directions, tiling)
        for direction in directions:
            direction.finish()

    def tilings(self) -> list[Tiling]:
        """How a step is tiled: a few samples take all gates of some units at once, more of them two vectors."""
        blocks, registers = self.blocks(), self.e.target.vector_registers
        few = min(FEW_SAMPLES, *(largest_rows(registers, block.vectors) for block in blocks))
        most = 1 if self.e.target.plain else largest_rows(registers, PASS)

        def tiles(rows: int, passes: int | None) -> list[RegisterTile]:
            return [RegisterTile(rows, passes or block.vectors, self.lanes) for block in blocks]

        if not self.batch_dim.is_const:
            return [
                Tiling(tiles(few, None), 1, self.batch.compare("sle", few)),
                Tiling(tiles(most, PASS), None, self.batch.compare("sgt", few)),
            ]
        batch = max(1, self.batch_dim.value)
        if batch <= few:
            return [Tiling(tiles(batch, None), 1)]
        rows = -(-batch // -(-batch // most))
        return [Tiling(tiles(rows, PASS), -(-batch // rows))]

    def run(self, directions: Sequence[Direction], tiling: Tiling) -> None:
        """All steps.  Both directions run at once where one step's tiles are too little work for several threads."""
        e = self.e
        if len(directions) == 1 or (cycles := self.cycles_of_undivided_step(tiling)) is None:
            for direction in directions:
                direction.run(tiling)
            return
        grain = e.ix(e.grain_cycles) // (self.steps * cycles).max(1) + 1
        with e.parallel(len(directions), grain) as (lower, upper, thread):
            for direction in directions:
                mine = e.both(lower.compare("sle", direction.number), upper.compare("sgt", direction.number))
                with e.when(mine):
                    direction.run(tiling, thread)

    def cycles_of_undivided_step(self, tiling: Tiling) -> int | None:
        """About how long one direction's step takes on one thread; None where its tiles may run on several."""
        if tiling.row_tiles is None or not self.hidden_dim.is_const:
            return None
        hidden, total = max(1, self.hidden_dim.value), 0
        for block, tile in zip(self.blocks(), tiling.tiles):
            each = hidden * (tile.rows * block.vectors)
            count = tiling.row_tiles * -(-hidden // (block.units * self.lanes))
            if count >= 2 * (2 * self.e.grain_cycles // each + 1):
                return None
            total += count * each // 2
        return total

    def check_lengths(self) -> None:
        """Each sample's length is at most the number of steps."""
        e, buffer = self.e, self.operator.buffer(LENGTHS)
        title = f"{self.op.template.data.upper()}: 'sequence_lens'"
        message = self.operator.problem(f"{title} has at index {{0}} the length {{1}}, and must be in [0, {{2}}]")
        with e.loop(0, self.batch) as loop:
            length = e.load_index(buffer, loop.index)
            e.check(length.compare("ule", self.steps), "value", message, [loop.index.ssa, length.ssa, self.steps.ssa])


@dataclass(frozen=True)
class Tiling:
    """How the tiles of a step are, those of one block each, where a condition (None: always) holds.

    `row_tiles` is how many tiles of samples there are, None where that is not known.
    """

    tiles: Sequence[RegisterTile]
    row_tiles: int | None
    condition: SSAValue | None = None


@dataclass(frozen=True)
class Place:
    """A vector of hidden units of one sample at one step, for the cell's formula."""

    direction: Direction
    sample: Ix
    unit: Ix
    mask: SSAValue
    input_row: Ix
    old: Ix
    new: Ix
    alive: SSAValue | None

    @property
    def at(self) -> Ix:
        """The offset in a state."""
        return self.sample * self.direction.r.hidden + self.unit

    def from_input(self, gate: int) -> SSAValue:
        """The input's part of a gate."""
        d = self.direction
        row = self.input_row * (d.r.hidden * d.r.GATES)
        return d.e.load_vector(d.projected, row + d.r.hidden * gate + self.unit, d.r.lanes, self.mask)

    def load(self, buffer: SSAValue, offset: Ix | int = 0) -> SSAValue:
        d = self.direction
        return d.e.load_vector(buffer, self.at + offset, d.r.lanes, self.mask)

    def store(self, value: SSAValue, buffer: SSAValue, offset: Ix | int = 0) -> None:
        d = self.direction
        d.e.store_vector(value, buffer, self.at + offset, self.mask)

    def parameter(self, operand: int, offset: Ix) -> SSAValue:
        """A vector of a parameter by unit (a bias, a peephole)."""
        d = self.direction
        operator = d.r.operator
        return d.r.products.load_vector(d.e, operator.buffer(operand), offset + self.unit, d.r.lanes, self.mask)

    @property
    def h(self) -> SSAValue:
        """The state before the step."""
        return self.load(self.direction.h, self.old)

    def keep(self, new: SSAValue, old: SSAValue) -> SSAValue:
        """The new state where the step is within the sample's length."""
        return new if self.alive is None else self.direction.e.select(self.alive, new, old)

    def finish(self, h: SSAValue) -> None:
        """Stores the new state, and delivers it."""
        d = self.direction
        self.store(self.keep(h, self.h), d.h, self.new)
        if not d.r.operator.has_result(Y):
            return
        shown = h if self.alive is None else d.e.select(self.alive, h, like(d.e, 0.0, h))
        value = d.r.products.narrow(d.e, shown, d.r.products.element)
        d.e.store_vector(value, d.r.operator.result_buffer(Y), d.output_at(self.input_step, self.sample) + self.unit,
                         self.mask)  # fmt: skip

    @property
    def input_step(self) -> Ix:
        return self.direction.step


@dataclass(frozen=True)
class Panels:
    """Packed recurrence weights of a block: from an offset of a buffer on."""

    buffer: SSAValue
    at: Ix


class Direction:
    """One direction of an operator."""

    def __init__(self, recurrent: Recurrent, number_: int) -> None:
        self.r, self.number, self.e = recurrent, number_, recurrent.e
        kind = recurrent.operator.attr("direction", "forward")
        self.backwards = kind == "reverse" or number_ == 1
        self.functions: list[Function] = recurrent.functions[number_]
        self.tile_blocks = recurrent.blocks()

    def prepare(self) -> None:
        """What comes before the first step: the input's part of the gates, states, packed weights."""
        r, context = self.r, self.r.context
        sums = r.products.sums
        self.project()
        self.h = context.scratch(sums, r.batch_dim * r.hidden_dim * 2)
        self.c = context.scratch(sums, r.batch_dim * r.hidden_dim)
        self.extra = context.scratch(sums, r.batch_dim * r.hidden_dim)
        self.start(self.h, INITIAL_H)
        self.start(self.c, INITIAL_C)
        self.packed = [self.panels(number) for number in range(len(self.tile_blocks))]

    def run(self, tiling: Tiling, thread: SSAValue | None = None) -> None:
        """All steps; on one thread where its number is given."""
        r, e = self.r, self.e
        with e.loop(0, r.steps) as loop:
            self.step = r.steps - 1 - loop.index if self.backwards else loop.index
            self.old = loop.index % 2 * r.state_size
            self.new = (loop.index + 1) % 2 * r.state_size
            for block, (panels, tile) in enumerate(zip(self.packed, tiling.tiles)):
                self.all_tiles(block, panels, tile, thread)

    def finish(self) -> None:
        """Delivers the last states."""
        r, e = self.r, self.e
        self.deliver(Y_H, self.h, r.steps % 2 * r.state_size)
        self.deliver(Y_C, self.c, e.ix(0))

    def project(self) -> None:
        """projected[step, sample, gate, unit] (step and sample as in X) = X W^T and the biases."""
        r, e, context = self.r, self.e, self.r.context
        rows, columns = r.steps_dim * r.batch_dim, r.hidden_dim * r.GATES
        depth, width = e.dim(r.depth_dim), e.dim(columns)
        self.projected = context.scratch(r.products.sums, rows * columns)
        bias = self.bias()
        one = e.ix(1)
        row_factor = Factor(r.operator.buffer(X), depth, one)
        panel = r.w_panel
        if panel is None:
            column_factor = Factor(r.operator.buffer(W), depth, one, offset=depth * width * self.number)
        else:
            each = e.dim((columns + (panel - 1)) // panel * panel * r.depth_dim)
            column_factor = Factor(r.operator.buffer(W), one, one, (), panel, each * self.number)
        problem = Problem((), rows, columns, r.depth_dim, row_factor, column_factor, (0,), (rows,), 1, 2)

        def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
            column = e.ix(indices[1])
            if bias is not None:
                value = e.add(value, e.load_vector(bias, column, r.lanes, mask))
            e.store_vector(value, self.projected, e.ix(indices[0]) * width + column, mask)

        plan = choose(r.products, rows, columns, context.target, panel)
        MatmulBuilder(e, context, problem, r.products, plan, sink).build()

    def bias(self) -> SSAValue | None:
        """The input's bias of each gate and unit, with the recurrence's where they may be added at once."""
        r, e = self.r, self.e
        if not r.operator.has(B):
            return None
        source, sums = r.operator.buffer(B), r.products.sums
        size = r.hidden_dim * r.GATES
        joined = r.context.scratch(sums, size)
        for gate in range(r.GATES):
            with e.loop(0, r.hidden, r.lanes) as loop:
                mask = e.mask(r.hidden - loop.index, r.lanes)
                at = loop.index + r.hidden * gate
                start = e.dim(size) * (2 * self.number)
                value = r.products.load_vector(e, source, at + start, r.lanes, mask)
                if r.joins_biases(gate):
                    other = r.products.load_vector(e, source, at + start + e.dim(size), r.lanes, mask)
                    value = e.add(value, other)
                e.store_vector(value, joined, at, mask)
        return joined

    def recurrence_bias_at(self, gate: int) -> Ix:
        """Where the recurrence's bias of a gate is in B."""
        r = self.r
        return r.hidden * (r.GATES * (2 * self.number + 1) + gate)

    def state_at(self, sample: Ix) -> Ix:
        """Where a sample's state of this direction is in an operand or result of states."""
        r = self.r
        if r.layout:
            return (sample * r.directions + self.number) * r.hidden
        return (r.batch * self.number + sample) * r.hidden

    def output_at(self, step: Ix, sample: Ix) -> Ix:
        """Where a sample's output of a step is in Y."""
        r = self.r
        if r.layout:
            return ((sample * r.steps + step) * r.directions + self.number) * r.hidden
        return ((step * r.directions + self.number) * r.batch + sample) * r.hidden

    def start(self, state: SSAValue, operand: int) -> None:
        """The initial state: an operand, or zeros."""
        self.each_state(lambda sample, unit, mask: self.initial(state, operand, sample, unit, mask))

    def initial(self, state: SSAValue, operand: int, sample: Ix, unit: Ix, mask: SSAValue) -> None:
        r, e = self.r, self.e
        value = e.constant(0.0, r.products.sums, r.lanes)
        if r.operator.has(operand):
            source = r.operator.buffer(operand)
            value = r.products.load_vector(e, source, self.state_at(sample) + unit, r.lanes, mask)
        e.store_vector(value, state, sample * r.hidden + unit, mask)

    def deliver(self, result: int, state: SSAValue, offset: Ix) -> None:
        r, e = self.r, self.e
        if not r.operator.has_result(result):
            return
        y = r.operator.result_buffer(result)

        def copy(sample: Ix, unit: Ix, mask: SSAValue) -> None:
            value = e.load_vector(state, sample * r.hidden + unit + offset, r.lanes, mask)
            value = r.products.narrow(e, value, r.products.element)
            e.store_vector(value, y, self.state_at(sample) + unit, mask)

        self.each_state(copy)

    def each_state(self, act: StateAction) -> None:
        r, e = self.r, self.e
        with e.loop(0, r.batch) as samples, e.loop(0, r.hidden, r.lanes) as units:
            act(samples.index, units.index, e.mask(r.hidden - units.index, r.lanes))

    # The recurrence

    def block_size(self, block: GateBlock) -> Dim:
        """Elements of a block's panels."""
        r = self.r
        width = block.units * r.lanes
        return (r.hidden_dim + (width - 1)) // width * r.panel_steps * (block.vectors * r.lanes)

    def panels(self, number: int) -> Panels:
        """The recurrence weights of a block: packed as a constant, or now."""
        r, e = self.r, self.e
        if not r.r_packed:
            return Panels(self.pack(self.tile_blocks[number]), e.ix(0))
        sizes = [self.block_size(block) for block in self.tile_blocks]
        before = as_dim(0)
        for size in (*sizes * self.number, *sizes[:number]):
            before = before + size
        return Panels(r.operator.buffer(R), e.dim(before))

    def pack(self, block: GateBlock) -> SSAValue:
        """[block of units, pass, hidden unit, vector of the pass, lane] from R [gate, unit, hidden unit]."""
        r, e = self.r, self.e
        width, pitch = block.units * r.lanes, PASS * r.lanes
        count = r.hidden.ceildiv(width)
        packed = r.context.scratch(r.products.sums, self.block_size(block))
        steps = e.dim(r.panel_steps)
        source = r.operator.buffer(R)
        grain = e.ix(e.grain_cycles) // (r.hidden * 4).max(1) + 1
        with e.parallel(count * block.vectors, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            vector = loop.index % block.vectors
            unit = loop.index // block.vectors * width + vector % block.units * r.lanes
            gate = self.gate_number(block, vector // block.units)
            row = (gate + r.GATES * self.number) * r.hidden

            def row_at(i: int) -> Ix:
                return (row + (unit + i).min(r.hidden - 1)) * r.hidden

            at = loop.index // PASS * (steps * pitch) + vector % PASS * r.lanes
            pack_across(e, r.products, source, row_at, r.lanes, r.hidden, packed, at, pitch)
        return packed

    def gate_number(self, block: GateBlock, index: Ix) -> Ix:
        """The gate at a place of a block: they are consecutive."""
        return index + block.gates[0]

    def all_tiles(self, number: int, panels: Panels, tile: RegisterTile, thread: SSAValue | None) -> None:
        """The tiles, those of the same units one after the other: on the thread of that number, else in parallel."""
        r, e = self.r, self.e
        block = self.tile_blocks[number]
        width = block.units * r.lanes
        row_tiles, unit_tiles = r.batch.ceildiv(tile.rows), r.hidden.ceildiv(width)
        states = self.pack_state(number, tile) if tile.vectors < block.vectors else None
        size = tile.rows * block.vectors * r.lanes
        grain = e.ix(2 * e.grain_cycles) // (r.hidden * (tile.rows * block.vectors)).max(1) + 1

        def accumulate(index: Ix, sums: SSAValue, at: Ix) -> None:
            sample, unit_tile = index % row_tiles * tile.rows, index // row_tiles
            for first in range(0, block.vectors, tile.vectors):
                totals = self.accumulate(number, tile, panels, states, sample, unit_tile, first)
                for i, total in enumerate(totals):
                    row, v = divmod(i, tile.vectors)
                    e.store_vector(total, sums, at + (row * block.vectors + first + v) * r.lanes)

        def finish(index: Ix, sums: SSAValue, at: Ix) -> None:
            sample, unit = index % row_tiles * tile.rows, index // row_tiles * width
            self.finish_tile(number, tile, sample, unit, sums, at)

        tiles = (r.batch_dim + (tile.rows - 1)) // tile.rows * ((r.hidden_dim + (width - 1)) // width)

        def run(lower: Ix, upper: Ix, thread: SSAValue) -> None:
            if tile.rows <= FEW_SAMPLES:
                sums = r.context.scratch(r.products.sums, as_dim(size), thread)
                with e.loop(lower, upper, nonempty=True) as loop:
                    accumulate(loop.index, sums, e.ix(0))
                    finish(loop.index, sums, e.ix(0))
                return
            # in loops of their own, or the formula's constants would stay in registers that the sums need
            sums = r.context.scratch(r.products.sums, tiles * size)
            for phase in (accumulate, finish):
                with e.loop(lower, upper, nonempty=True) as loop:
                    phase(loop.index, sums, loop.index * size)

        if thread is not None:
            run(e.ix(0), row_tiles * unit_tiles, thread)
            return
        with e.parallel(row_tiles * unit_tiles, grain) as (lower, upper, own):
            run(lower, upper, own)

    def pack_state(self, number: int, tile: RegisterTile) -> SSAValue:
        """The states of a tile's samples side by side: [tile, hidden unit, sample of the tile]."""
        r, e = self.r, self.e
        state, offset = self.recurred(number)
        tiles = (r.batch_dim + (tile.rows - 1)) // tile.rows
        size = tiles * r.hidden_dim * tile.rows + slack(r.lanes, tile.rows)
        packed = r.context.scratch(r.products.sums, size)
        last = r.batch - 1
        with e.loop(0, e.dim(tiles)) as loop:

            def row_at(i: int) -> Ix:
                return (loop.index * tile.rows + i).min(last) * r.hidden + offset

            at = loop.index * (r.hidden * tile.rows)
            pack_across(e, Products(r.products.sums), state, row_at, tile.rows, r.hidden, packed, at, tile.rows)
        return packed

    def accumulate(
        self,
        number: int,
        tile: RegisterTile,
        panels: Panels,
        states: SSAValue | None,
        sample: Ix,
        unit_tile: Ix,
        first: int,
    ) -> list[SSAValue]:
        """The sums of a tile for the block's vectors from `first` on."""
        r, e = self.r, self.e
        block = self.tile_blocks[number]
        state, offset = self.recurred(number)
        last = r.batch - 1
        rows = [((sample + i).min(last)) * r.hidden + offset for i in range(tile.rows)]
        pitch = PASS * r.lanes
        size = e.dim(r.panel_steps) * pitch
        start = unit_tile * (size * (block.vectors // PASS)) + panels.at

        def scalar(k: Ix, i: int) -> SSAValue:
            if states is None:
                return e.load(state, k + rows[i])
            return e.load(states, k * tile.rows + sample * r.hidden + i)

        def factors(indices: list[Ix]) -> Factors:
            [k] = indices
            vectors: list[SSAValue] = []
            for v in range(first, first + tile.vectors):
                at = k * pitch + (start + size * (v // PASS)) + v % PASS * r.lanes
                if states is not None:
                    e.prefetch(panels.buffer, at + PREFETCH_STEPS * pitch)
                vectors.append(r.products.load_vector(e, panels.buffer, at, r.lanes))
            return vectors, lambda i: scalar(k, i)

        return tile.accumulate(e, r.products, [r.hidden], factors)

    def recurred(self, number: int) -> tuple[SSAValue, Ix]:
        """The state that a block's sums are over: the old one, or what the block before prepared."""
        return (self.h, self.old) if number == 0 else (self.extra, self.e.ix(0))

    def finish_tile(self, number: int, tile: RegisterTile, sample: Ix, unit: Ix, sums: SSAValue, start: Ix) -> None:
        """The cell's formula, for each sample and vector of units of a tile."""
        r, e = self.r, self.e
        block = self.tile_blocks[number]
        lengths = r.operator.buffer(LENGTHS) if r.operator.has(LENGTHS) else None
        with e.loop(0, (r.batch - sample).min(tile.rows), nonempty=True) as loop:
            row = loop.index + sample
            alive = None
            if lengths is not None:
                alive = self.step.compare("slt", e.load_index(lengths, row))
            input_row = row * r.steps + self.step if r.layout else self.step * r.batch + row
            with e.loop(0, block.units) as units:
                at = units.index * r.lanes + unit
                mask = e.mask(r.hidden - at, r.lanes)
                place = Place(self, row, at, mask, input_row, self.old, self.new, alive)
                gates = [
                    e.load_vector(
                        sums, start + (loop.index * block.vectors + units.index + g * block.units) * r.lanes, r.lanes
                    )
                    for g in range(len(block.gates))
                ]
                r.cell(place, number, gates)


class Rnn(Recurrent):
    """h = f(X W^T + h R^T + biases)"""

    GATES, DEFAULT = 1, ("Tanh",)

    def cell(self, place: Place, block: int, gates: list[SSAValue]) -> None:
        e = self.e
        [f] = place.direction.functions
        place.finish(f(e, e.add(place.from_input(0), gates[0])))


class Gru(Recurrent):
    """h = (1 - z) g(..) + z h, with the reset gate before or after the recurrence of the candidate."""

    GATES, DEFAULT = 3, ("Sigmoid", "Tanh")

    @property
    def linear(self) -> bool:
        return bool(self.operator.attr("linear_before_reset", 0))

    def joins_biases(self, gate: int) -> bool:
        return gate < 2 or not self.linear

    def cell(self, place: Place, block: int, gates: list[SSAValue]) -> None:
        e, d = self.e, place.direction
        f, g = d.functions
        if block == 0:
            update = f(e, e.add(place.from_input(0), gates[0]))
            reset = f(e, e.add(place.from_input(1), gates[1]))
            if self.linear:
                inner = gates[2]
                if self.operator.has(B):
                    inner = e.add(inner, place.parameter(B, d.recurrence_bias_at(2)))
                self.blend(place, update, g(e, e.add(place.from_input(2), e.mul(reset, inner))))
                return
            place.store(update, d.c)
            place.store(e.mul(reset, place.h), d.extra)
            return
        self.blend(place, place.load(d.c), g(e, e.add(place.from_input(2), gates[0])))

    def blend(self, place: Place, update: SSAValue, candidate: SSAValue) -> None:
        e = self.e
        fresh = e.mul(e.sub(like(e, 1.0, update), update), candidate)
        place.finish(e.add(fresh, e.mul(update, place.h)))


class Lstm(Recurrent):
    """Gates i, o, f, c; c' = f c + i g(..), h = o h(c')."""

    GATES, DEFAULT = 4, ("Sigmoid", "Tanh", "Tanh")

    def cell(self, place: Place, block: int, gates: list[SSAValue]) -> None:
        e, d = self.e, place.direction
        f, g, final = d.functions
        enter, output, forget, candidate = (e.add(place.from_input(i), gate) for i, gate in enumerate(gates))
        old = place.load(d.c)
        enter = f(e, self.peep(place, enter, 0, old))
        if self.operator.attr("input_forget", 0):
            forget = e.sub(like(e, 1.0, enter), enter)
        else:
            forget = f(e, self.peep(place, forget, 2, old))
        cell = e.add(e.mul(forget, old), e.mul(enter, g(e, candidate)))
        output = f(e, self.peep(place, output, 1, cell))
        place.store(place.keep(cell, old), d.c)
        place.finish(e.mul(output, final(e, cell)))

    def peep(self, place: Place, gate: SSAValue, number: int, cell: SSAValue) -> SSAValue:
        """The gate with its peephole on the cell."""
        if not self.operator.has(PEEPHOLES):
            return gate
        weights = place.parameter(PEEPHOLES, self.hidden * (3 * place.direction.number + number))
        return self.e.add(gate, self.e.mul(weights, cell))


def rnn(context: TemplateContext, op: kernel.TemplateOp) -> None:
    Rnn(context, op).build()


def gru(context: TemplateContext, op: kernel.TemplateOp) -> None:
    Gru(context, op).build()


def lstm(context: TemplateContext, op: kernel.TemplateOp) -> None:
    Lstm(context, op).build()
