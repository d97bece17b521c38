"""Template "conv": convolution of any number of spatial axes, channels first.

Inputs x [N, C, ...], w [M, C / group, ...]; result [N, M, ...].  Config: `pads` (those before, then those after; the
latter follow from the result's sizes), `strides`, `dilations`, `group`, `kernel_shape`; with `tile_rows`, w was a
constant and is `packing.pack_rows(w.reshape(group, M / group, -1), tile_rows)`, one axis.

A tile is some output channels by some vectors of output positions; a step of its inner loop is one input channel and
tap.  Positions are numbered through the padded image, so that a vector runs over the ends of rows (see `window`), and
the sum of an element goes over channels, then taps, in one chain, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import tensor
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from ..loop_builder import INDEX
from ..policy import GRAIN_CYCLES
from ..template import TemplateContext
from .emit import Emitter, Ix, plain
from .matmul import element_type, number
from .panels import pack_across, slack
from .phase_image import phase_image
from .register_tile import Factors, Products, RegisterTile, largest_rows
from .window import ONE, ZERO, Convolution, product, read_convolution

OWN_IMAGE_GROUPS = 4
"""From so many groups on, a unit of work is one group of one image, and copies its channels itself."""
TYPICAL_POSITIONS = 784
"""Output positions that a tile is chosen for where they are not known."""


def choose_tile(products: Products, rows: Dim, positions: Dim, target: Target) -> RegisterTile:
    """The tile with the least work: whole tiles, counted in the instructions that limit a step."""
    lanes = target.lanes(products.bytes)
    registers = target.vector_registers - (0 if products.fused else 1)
    height = rows.value if rows.is_const else largest_rows(registers, 2)
    width = positions.value if positions.is_const else TYPICAL_POSITIONS
    best: tuple[float, RegisterTile] | None = None
    for vectors in range(1, 9):
        for tile_rows in range(1, min(height, largest_rows(registers, vectors)) + 1):
            tiles = -(-height // tile_rows) * -(-width // (vectors * lanes))
            # two sums a cycle, unless fewer than 8 are in flight; two loads a cycle, vectors across lines count twice
            sums = max(tile_rows * vectors, 8)
            cycles = max(sums, tile_rows + 2 * vectors) / 2 + 0.5
            if best is None or tiles * cycles < best[0]:
                best = (tiles * cycles, RegisterTile(tile_rows, vectors, lanes))
    assert best is not None
    return best[1]


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the convolution."""
    x, w = op.inputs[0], op.inputs[1]
    packed_rows = number(op, "tile_rows")
    convolution = read_convolution(
        op, context.dims(x), None if packed_rows else context.dims(w), context.dims(op.results_[0])
    )
    products = Products(element_type(x))
    tile = choose_tile(products, convolution.rows, convolution.windows.positions, context.target)
    if packed_rows not in (None, tile.rows):
        raise ValueError(f"weights packed for {packed_rows} rows, but the tile has {tile.rows}")
    ConvBuilder(Emitter(context.builder), context, op, convolution, products, tile, packed_rows is not None).build()


@dataclass(frozen=True)
class ImageView:
    """Where a group's channels are: position q of channel c and a tap is at `start + c * channel + table[tap] + q`."""

    buffer: SSAValue
    start: Ix
    channel: Ix


class ConvBuilder:
    """Emits one convolution; the methods are the loops, from outside in."""

    def __init__(
        self,
        e: Emitter,
        context: TemplateContext,
        op: kernel.TemplateOp,
        convolution: Convolution,
        products: Products,
        tile: RegisterTile,
        packed: bool,
    ) -> None:
        self.e, self.context, self.op = e, context, op
        self.convolution, self.products, self.tile, self.packed = convolution, products, tile, packed
        self.windows = convolution.windows
        self.x = context.buffer(op.inputs[0])
        self.flat = self.windows.is_flat and flat_epilogue(context, op, len(self.windows.axes))

    def build(self) -> None:
        e, c = self.e, self.convolution
        result = self.context.dims(self.op.results_[0])
        if any(d == ZERO for d in result):
            return
        self.rows, self.steps = e.dim(c.rows), e.dim(c.steps)
        self.row_tiles = self.rows.ceildiv(self.tile.rows)
        self.positions = e.dim(self.windows.positions)
        self.position_tiles = self.positions.ceildiv(self.tile.columns)
        self.weights = self.context.buffer(self.op.inputs[1]) if self.packed else self.pack_weights()
        self.image, self.table = phase_image(self.context, e, self.products, self.windows)
        if self.windows.is_plain:
            self.all_images(self.x, e.ix(0), e.dim(c.images))
        elif c.groups >= OWN_IMAGE_GROUPS:
            self.own_images()
        else:
            self.shared_images()

    def pack_weights(self) -> SSAValue:
        """[group, tile, step, row of the tile]; below the last row it is repeated, and what that gives is not stored."""
        e, c, tile = self.e, self.convolution, self.tile
        tiles = (c.rows + (tile.rows - 1)) // tile.rows
        size = tiles * c.groups * c.steps * tile.rows + slack(tile.lanes, tile.rows)
        packed = self.context.scratch(self.products.sums, size)
        source = self.context.buffer(self.op.inputs[1])
        # whole tiles overlap at their ends, so they are packed in order, by one thread
        with e.loop(0, c.groups) as groups, e.loop(0, self.row_tiles) as tiles_loop:
            first, group_row = tiles_loop.index * tile.rows, groups.index * self.rows

            def row_at(r: int) -> Ix:
                return ((first + r).min(self.rows - 1) + group_row) * self.steps

            at = (groups.index * self.row_tiles + tiles_loop.index) * (self.steps * tile.rows)
            pack_across(e, self.products, source, row_at, tile.rows, self.steps, packed, at, tile.rows)
        return packed

    # The three ways in which images come to the tiles

    def all_images(self, buffer: SSAValue, first: Ix, count: Ix) -> None:
        """Tiles of images in a buffer of all their channels, in parallel."""
        e, c = self.e, self.convolution
        channel = e.dim(product([a.size for a in self.windows.axes]) if self.windows.is_plain else self.windows.channel)
        extent = count * c.groups * self.position_tiles * self.row_tiles
        work = self.steps * (self.tile.rows * self.tile.vectors // 2 + 1)
        grain = e.ix(GRAIN_CYCLES) // work.max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, thread):
            sums = self.take_sums(thread)
            with e.loop(lower // self.row_tiles, (upper - 1) // self.row_tiles + 1, nonempty=True) as items:
                start = items.index * self.row_tiles
                position = items.index % self.position_tiles * self.tile.columns
                group = items.index // self.position_tiles % c.groups
                number = items.index // (self.position_tiles * c.groups)
                channels = (number * c.groups + group) * e.dim(c.depth)
                view = ImageView(buffer, channels * channel, channel)
                rows = (lower - start).max(0), (upper - start).min(self.row_tiles)
                self.tiles(view, first + number, group, position, rows, sums)

    def shared_images(self) -> None:
        """Some images are copied, then their tiles computed."""
        e, c = self.e, self.convolution
        channels = c.depth * c.groups
        chunk = self.images_at_once()
        # vectors of the last position and tap may reach behind the last channel
        size = self.windows.channel * channels * chunk + self.tile.columns
        buffer = self.context.scratch(self.products.sums, size)
        plane, channel = e.dim(product([a.size for a in self.windows.axes])), e.dim(self.windows.channel)
        images = e.dim(c.images)
        with e.loop(0, images, chunk) as loop:
            count = (images - loop.index).min(chunk)
            first = loop.index * e.dim(channels)
            grain = e.ix(2 * GRAIN_CYCLES) // (channel // self.tile.lanes + 1) + 1
            with e.parallel(count * e.dim(channels), grain) as (lower, upper, thread):
                row = self.take_row(thread)
                with e.loop(lower, upper, nonempty=True) as copied:
                    source = (copied.index + first) * plane
                    self.image.copy_channel(self.x, source, buffer, copied.index * channel, row)
            self.all_images(buffer, loop.index, count)

    def images_at_once(self) -> int:
        """How many images fit into L2 together; one where that is not known."""
        c = self.convolution
        size = self.windows.channel * c.depth * c.groups * self.products.bytes
        if not size.is_const or size.value == 0:
            return 1
        most = self.context.target.l2 // size.value
        return max(1, min(most, c.images.value if c.images.is_const else most))

    def own_images(self) -> None:
        """Each group of each image copies its channels for itself."""
        e, c = self.e, self.convolution
        depth = e.dim(c.depth)
        plane, channel = e.dim(product([a.size for a in self.windows.axes])), e.dim(self.windows.channel)
        tiles = self.position_tiles * self.row_tiles
        work = tiles * self.steps * (self.tile.rows * self.tile.vectors // 2 + 1)
        grain = e.ix(GRAIN_CYCLES) // work.max(1) + 1
        with e.parallel(e.dim(c.images) * c.groups, grain) as (lower, upper, thread):
            sums, row = self.take_sums(thread), self.take_row(thread)
            size = self.windows.channel * c.depth + self.tile.columns
            buffer = self.context.scratch(self.products.sums, size, thread)
            with e.loop(lower, upper, nonempty=True) as units:
                number, group = units.index // c.groups, units.index % c.groups
                with e.loop(0, depth) as copied:
                    source = (units.index * depth + copied.index) * plane
                    self.image.copy_channel(self.x, source, buffer, copied.index * channel, row)
                view = ImageView(buffer, e.ix(0), channel)
                with e.loop(0, self.positions, self.tile.columns) as positions:
                    self.tiles(view, number, group, positions.index, (e.ix(0), self.row_tiles), sums)

    def take_sums(self, thread: SSAValue) -> SSAValue:
        """A tile's sums, and a vector more that the stores may read."""
        size = self.tile.rows * self.tile.columns + self.tile.lanes
        return self.context.scratch(self.products.sums, size, thread)

    def take_row(self, thread: SSAValue) -> SSAValue | None:
        size = self.image.row_buffer
        return None if size is None else self.context.scratch(self.products.sums, size, thread)

    # Tiles

    def tiles(
        self, view: ImageView, number: Ix, group: Ix, position: Ix, rows: tuple[Ix, Ix], sums: SSAValue
    ) -> None:
        """The tiles of all output channels of a group (of the row tiles from rows[0] to rows[1]) at some positions."""
        e, tile = self.e, self.tile
        with e.loop(*rows) as loop:
            first = loop.index * tile.rows
            weights_at = (group * self.row_tiles + loop.index) * (self.steps * tile.rows)
            for i, total in enumerate(self.accumulate(view, position, weights_at)):
                e.store_vector(total, sums, i * tile.lanes)
            count = (self.rows - first).min(tile.rows)
            self.store(number, group * self.rows + first, count, position, sums)

    def accumulate(self, view: ImageView, position: Ix, weights_at: Ix) -> list[SSAValue]:
        e, tile = self.e, self.tile
        masks: list[SSAValue] = []
        if self.windows.is_plain and not self.covers_whole_tiles():
            # the input ends where its last position does
            masks = [e.mask(self.positions - position - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
        taps = e.dim(self.windows.taps)
        table = self.table

        def factors(indices: list[Ix]) -> Factors:
            channel = indices[0]
            at, step = channel * view.channel + view.start, channel
            if table is not None:
                step = channel * taps + indices[1]
                at = e.load_index(table, indices[1]) + at
            at = at + position
            weight = step * tile.rows + weights_at
            vectors = [
                e.load_vector(view.buffer, at + v * tile.lanes, tile.lanes, masks[v] if masks else None)
                for v in range(tile.vectors)
            ]
            return vectors, lambda r: e.load(self.weights, weight + r)

        extents = [e.dim(self.convolution.depth)] + ([taps] if table is not None else [])
        return tile.accumulate(e, self.products, extents, factors)

    def covers_whole_tiles(self) -> bool:
        positions = self.windows.positions
        return positions.is_const and positions.value % self.tile.columns == 0

    # Stores

    def store(self, number: Ix, channel: Ix, count: Ix, position: Ix, sums: SSAValue) -> None:
        """The epilogue and the stores of a tile: of `count` channels, the positions that are output elements."""
        e, tile = self.e, self.tile
        axes = len(self.windows.axes)
        if self.flat:
            for v in range(tile.vectors):
                at = position + v * tile.lanes
                mask = None if self.covers_whole_tiles() else e.mask(self.positions - at, tile.lanes)
                indices = [*[e.ix(0)] * (axes - 1), at]
                self.store_channels(number, channel, count, e.ix(v * tile.lanes), indices, mask, sums)
            return
        last = self.windows.axes[-1]
        pitch, width = e.dim(self.windows.extents[-1]), e.dim(last.out)
        end = (position + tile.columns).min(self.positions)
        with e.loop(position // pitch, (end - 1) // pitch + 1, nonempty=True) as rows:
            start = rows.index * pitch
            first, stop = (position - start).max(0), (end - start).min(width)
            outer, inside = self.outer_index(rows.index)
            if inside is not None:
                stop = e.select_index(inside, stop, 0)
            with e.loop(first, stop, tile.lanes) as columns:
                mask = e.mask(stop - columns.index, tile.lanes)
                from_sum = columns.index + (start - position)
                self.store_channels(number, channel, count, from_sum, [*outer, columns.index], mask, sums)

    def outer_index(self, row: Ix) -> tuple[list[Ix], SSAValue | None]:
        """The index of a row on all axes but the last, and whether it is a row of the output."""
        e = self.e
        axes, extents = self.windows.axes[:-1], self.windows.extents[:-1]
        indices: list[Ix] = []
        inside: SSAValue | None = None
        for axis, extent in zip(reversed(axes[1:]), reversed(extents[1:])):
            size = e.dim(extent)
            indices.append(row % size)
            valid = indices[-1].compare("slt", e.dim(axis.out))
            inside = valid if inside is None else e.both(inside, valid)
            row = row // size
        return [row, *reversed(indices)], inside

    def store_channels(
        self,
        number: Ix,
        channel: Ix,
        count: Ix,
        from_sum: Ix,
        position: Sequence[Ix],
        mask: SSAValue | None,
        sums: SSAValue,
    ) -> None:
        """One vector of positions of each channel of a tile."""
        e, tile = self.e, self.tile
        kept = self.op.epilogue
        stored = kept.block.args[0].type if kept is not None else element_type(self.op.results_[0])
        with e.loop(0, count, nonempty=True) as loop:
            value = e.load_vector(sums, loop.index * tile.columns + from_sum, tile.lanes)
            value = self.products.narrow(e, value, stored)
            indices = [number, loop.index + channel, *position]
            self.context.store(self.op, [value], [plain(i) for i in indices], mask)


def flat_epilogue(context: TemplateContext, op: kernel.TemplateOp, axes: int) -> bool:
    """Whether the epilogue may be given (0, ..., 0, q) for the index of the q-th position.

    So it is where it uses the spatial indices together only, to read tensors that have the result's spatial sizes.
    """
    if op.epilogue is None:
        return True
    arguments = op.epilogue.block.args[-axes:]
    sizes = context.dims(op.results_[0])[-axes:]

    def reads_along(user: Operation) -> bool:
        return (
            isinstance(user, tensor.ExtractOp)
            and tuple(user.indices[-axes:]) == tuple(arguments)
            and context.dims(user.tensor)[-axes:] == sizes
            and not any(isinstance(i, BlockArgument) and i in arguments for i in user.indices[:-axes])
        )

    return all(reads_along(use.operation) for a in arguments for use in a.uses)


__all__ = ["INDEX", "ONE", "as_dim", "build", "choose_tile"]
