"""Convolution with 3x3 windows and stride 1 by Winograd's F(2x2, 3x3): 16 products for 4 results where there are 36.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).  A tile of 2x2 results takes a 4x4 patch d
of the input: V = B^T d B, M = sum over channels of U V elementwise, Y = A^T M A, with U = G w G^T made from constant
weights in f64 (`packing.pack_winograd`).  Results are closer to the exact sums than the direct form's.

The padded image is laid out in 2x2 phases (see `window`), so that element (i, j) of the patches of neighbouring tiles
is a vector.  For a block of tiles: V of all channels into scratch, then for some output channels 16 register tiles over
the channels, and their 16 sums turned into rows of results where they are stored.  Config `winograd` = [rows, vectors],
the register tile, for which the weights are packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, VECTOR_WIDTH, Choices, Given, given_number
from ..template import TemplateContext
from .conv_plan import NOTHING, WINOGRAD, cycles_of
from .emit import Emitter, Ix, plain
from .operands import stored_type
from .phase_image import PhaseImage
from .register_tile import Factors, Products, RegisterTile, largest_rows
from .rows import input_rows
from .window import ZERO, Axis, Convolution, Windows

PATCH = 16
"""Elements of a 4x4 patch."""
LEAST_CHANNELS = 16
INPUT_CYCLES, OUTPUT_CYCLES = 28, 40
"""For the transform of a vector of patches, and of a vector of sums with its stores, about."""


def applies(c: Convolution) -> bool:
    """Whether the convolution has the form: 3x3, stride 1, one group, no dilation, sizes known."""
    axes = c.windows.axes
    three = as_dim(3)
    return (
        len(axes) == 2
        and c.groups == 1
        and all(a.kernel is three and a.stride == 1 and a.dilation == 1 for a in axes)
        and all(d.is_const and d.value >= LEAST_CHANNELS for d in (c.depth, c.rows))
    )


def tile_windows(c: Convolution) -> Windows:
    """The patches: windows of 4 with stride 2, one for each tile of results."""
    four = as_dim(4)
    return Windows(tuple(Axis(a.size, (a.out + 1) // 2, four, 2, 1, a.before) for a in c.windows.axes))


@dataclass(frozen=True)
class WinogradPlan(Choices):
    """How one convolution is computed by this algorithm: `rows`, `vectors` are the register tile, and `steps_ahead`
    says how far ahead weights are asked for (0: not)."""

    rows: int
    vectors: int
    steps_ahead: int
    lanes: int
    algorithm: str = WINOGRAD

    FIXED = {"lanes": VECTOR_WIDTH, "algorithm": "another algorithm rounds differently (`exact` turns this one off)"}


def plan_of(tile: RegisterTile, given: Given) -> WinogradPlan:
    """The choices around a register tile."""
    ahead, grain = given_number(given, "steps_ahead", 32), given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
    return WinogradPlan(tile.rows, tile.vectors, ahead, tile.lanes, grain_cycles=grain)


def choose(c: Convolution, products: Products, target: Target, given: Given = NOTHING) -> RegisterTile | None:
    """The best register tile; None where the direct form is as fast, or the sizes are not known.

    Whether it is None does not depend on what is given, for it changes rounding.
    """
    windows = tile_windows(c)
    if target.plain or not applies(c) or not windows.positions.is_const:
        return None
    lanes = target.lanes(products.bytes)
    tiles = {
        RegisterTile(rows, vectors, lanes): 0.0
        for vectors in range(1, 5)
        for rows in range(1, largest_rows(target.vector_registers, vectors) + 1)
        if PATCH * c.depth.value * vectors * lanes * products.bytes <= target.l2 * 2 // 3
    }
    for tile in tiles:
        tiles[tile] = _cycles(c, windows, target, tile, products)
    if not tiles or min(tiles.values()) > 0.9 * cycles_of(c, products, target):
        return None
    wanted = [t for t in tiles if given.get("rows", t.rows) == t.rows and given.get("vectors", t.vectors) == t.vectors]
    return min(wanted or tiles, key=lambda t: tiles[t])


def _cycles(c: Convolution, windows: Windows, target: Target, tile: RegisterTile, products: Products) -> float:
    depth, height = c.depth.value, c.rows.value
    blocks = -(-windows.positions.value // tile.columns)
    step = max(tile.rows * tile.vectors, 8, tile.rows + tile.vectors) / 2 + 0.3
    # the weights of a row tile come from behind L2, where they do not fit there
    weights = PATCH * depth * tile.rows * products.bytes
    if PATCH * depth * height * products.bytes > target.l2 // 2:
        step = max(step, weights / (PATCH * depth) / 6)
    row_tile = PATCH * (depth * step + tile.rows * tile.vectors + 10) + tile.rows * tile.vectors * OUTPUT_CYCLES
    return blocks * (depth * tile.vectors * INPUT_CYCLES + -(-height // tile.rows) * row_tile)


def build(
    context: TemplateContext, op: kernel.TemplateOp, c: Convolution, products: Products, tile: RegisterTile
) -> None:
    """Emits the convolution; w is packed."""
    if any(d is ZERO for d in context.dims(op.results_[0])):
        return
    WinogradBuilder(Emitter(context.builder), context, op, c, products, tile).build()


class WinogradBuilder:
    """Emits one such convolution; the methods are the loops, from outside in."""

    def __init__(
        self,
        e: Emitter,
        context: TemplateContext,
        op: kernel.TemplateOp,
        c: Convolution,
        products: Products,
        tile: RegisterTile,
    ) -> None:
        self.e, self.context, self.op, self.c, self.products, self.tile = e, context, op, c, products, tile
        self.windows = tile_windows(c)
        self.image = PhaseImage(e, products, self.windows)
        self.weights = context.buffer(op.inputs[1])
        self.steps_ahead = plan_of(tile, context.part.given).steps_ahead

    def build(self) -> None:
        e, c, context = self.e, self.c, self.context
        self.depth, self.rows = e.dim(c.depth), e.dim(c.rows)
        self.row_tiles = self.rows.ceildiv(self.tile.rows)
        self.positions = e.dim(self.windows.positions)
        self.channel = e.dim(self.windows.channel)
        x = input_rows(e, context, self.op, self.products)
        # vectors of the last tile may reach behind the last channel
        image = context.scratch(self.products.sums, self.windows.channel * c.depth + 2 * self.tile.columns)
        grain = e.ix(2 * e.grain_cycles) // (self.channel // self.tile.lanes + 1) + 1
        with e.loop(0, e.dim(c.images)) as images:
            number = images.index
            with (
                e.parallel(self.depth, grain) as (lower, upper, _),
                e.loop(lower, upper, nonempty=True) as loop,
            ):
                source = number * self.depth + loop.index
                self.image.copy_channel(x, source, image, loop.index * self.channel)
            self.blocks(image, number)

    def blocks(self, image: SSAValue, number: Ix) -> None:
        """All blocks of tiles by all tiles of output channels, in parallel."""
        e, tile, context, sums = self.e, self.tile, self.context, self.products.sums
        extent = self.positions.ceildiv(tile.columns) * self.row_tiles
        grain = e.ix(e.grain_cycles) // (self.depth * (PATCH * tile.rows * tile.vectors // 2)).max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, thread):
            patches = context.scratch(sums, self.element_size * PATCH, thread)
            products = context.scratch(sums, as_dim(PATCH * tile.rows * tile.columns), thread)
            results = context.scratch(sums, as_dim(4 * tile.columns + tile.lanes), thread)
            with e.loop(lower // self.row_tiles, (upper - 1) // self.row_tiles + 1, nonempty=True) as loop:
                start, position = loop.index * self.row_tiles, loop.index * tile.columns
                self.transform_input(image, patches, position)
                with e.loop((lower - start).max(0), (upper - start).min(self.row_tiles)) as rows:
                    self.multiply(patches, products, rows.index)
                    first = rows.index * tile.rows
                    with e.loop(0, (self.rows - first).min(tile.rows), nonempty=True) as channels:
                        self.transform_output(products, results, channels.index)
                        self.store(number, first + channels.index, position, results)

    @property
    def element_size(self) -> Dim:
        """From one element of the patches to the next: not a multiple of 4 KB, which would share lines of L1."""
        return self.c.depth * self.tile.columns + self.tile.lanes

    def transform_input(self, image: SSAValue, patches: SSAValue, position: Ix) -> None:
        """patches[element, channel, tile of the block] = B^T d B."""
        e, tile = self.e, self.tile
        pitch, phase = self.windows.pitches[0], self.windows.phase
        with e.loop(0, self.depth) as channels, e.loop(0, tile.columns, tile.lanes) as vectors:
            start = channels.index * self.channel + (position + vectors.index)
            offsets = [[phase * (i % 2 * 2 + j % 2) + pitch * (i // 2) + j // 2 for j in range(4)] for i in range(4)]
            patch = [[e.load_vector(image, start + e.dim(o), tile.lanes) for o in line] for line in offsets]
            by_rows = transposed([input_points(e, column) for column in transposed(patch)])
            at = channels.index * tile.columns + vectors.index
            for i, row in enumerate(by_rows):
                for j, value in enumerate(input_points(e, row)):
                    e.store_vector(value, patches, at + e.dim(self.element_size) * (4 * i + j))

    def multiply(self, patches: SSAValue, products: SSAValue, row_tile: Ix) -> None:
        """products[element, channel of the tile, tile of the block]: elements of the patches, summed over channels."""
        e, tile = self.e, self.tile
        with e.loop(0, PATCH) as elements:
            weights_at = (elements.index * self.row_tiles + row_tile) * (self.depth * tile.rows)
            patches_at = elements.index * e.dim(self.element_size)

            def factors(indices: list[Ix]) -> Factors:
                [k] = indices
                at, weight = k * tile.columns + patches_at, k * tile.rows + weights_at
                if self.steps_ahead:
                    e.prefetch(self.weights, weight + self.steps_ahead * tile.rows)
                vectors = [e.load_vector(patches, at + v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
                return vectors, lambda r: self.products.load(e, self.weights, weight + r)

            for i, total in enumerate(tile.accumulate(e, self.products, [self.depth], factors)):
                e.store_vector(total, products, elements.index * (tile.rows * tile.columns) + i * tile.lanes)

    def transform_output(self, products: SSAValue, results: SSAValue, row: Ix) -> None:
        """results[row of the tiles, twice the columns] = A^T M A, with the columns of a tile side by side."""
        e, tile = self.e, self.tile
        order = [i + tile.lanes * half for i in range(tile.lanes) for half in range(2)]
        with e.loop(0, tile.columns, tile.lanes) as vectors:
            at = row * tile.columns + vectors.index
            sums = [
                [e.load_vector(products, at + (4 * i + j) * tile.rows * tile.columns, tile.lanes) for j in range(4)]
                for i in range(4)
            ]
            by_rows = transposed([output_points(e, column) for column in transposed(sums)])
            for i, line in enumerate(by_rows):
                left, right = output_points(e, line)
                place = vectors.index * 2 + i * 2 * tile.columns
                e.store_vector(e.shuffle(left, right, order[: tile.lanes]), results, place)
                e.store_vector(e.shuffle(left, right, order[tile.lanes :]), results, place + tile.lanes)

    def store(self, number: Ix, channel: Ix, position: Ix, results: SSAValue) -> None:
        """The epilogue and the stores of a channel's results in a block."""
        e, tile = self.e, self.tile
        height, width = (e.dim(a.out) for a in self.c.windows.axes)
        pitch = e.dim(self.windows.extents[-1])
        columns = e.dim(self.windows.axes[-1].out)
        end = (position + tile.columns).min(self.positions)
        with e.loop(position // pitch, (end - 1) // pitch + 1, nonempty=True) as rows:
            start = rows.index * pitch
            first = (position - start).max(0) * 2
            stop = ((end - start).min(columns) * 2).min(width)
            for i in range(2):
                y = rows.index * 2 + i
                last = e.select_index(y.compare("slt", height), stop, 0)
                with e.loop(first, last, tile.lanes) as across:
                    mask = e.mask(last - across.index, tile.lanes)
                    from_ = across.index + (start - position) * 2 + i * 2 * tile.columns
                    value = e.load_vector(results, from_, tile.lanes)
                    value = self.products.narrow(e, value, stored_type(self.op))
                    self.context.store(self.op, [value], [plain(n) for n in (number, channel, y, across.index)], mask)


def transposed(square: Sequence[Sequence[SSAValue]]) -> list[list[SSAValue]]:
    return [list(line) for line in zip(*square)]


def input_points(e: Emitter, d: Sequence[SSAValue]) -> list[SSAValue]:
    """B^T of four values."""
    return [e.sub(d[0], d[2]), e.add(d[1], d[2]), e.sub(d[2], d[1]), e.sub(d[1], d[3])]


def output_points(e: Emitter, m: Sequence[SSAValue]) -> list[SSAValue]:
    """A^T of four values."""
    return [e.add(e.add(m[0], m[1]), m[2]), e.sub(e.sub(m[1], m[2]), m[3])]
