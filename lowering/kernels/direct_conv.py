"""The direct form of a convolution: register tiles that run over images as they are.

A tile is some output channels by some vectors of output positions, or some positions by some vectors of channels; a
step of its inner loop is one input channel and tap.  Positions are numbered through the padded image, so that a tile
runs over the ends of rows (see `window`); where a tile of positions is a part of a row, or some rows, they are numbered
as the output is, and nothing is computed between the rows.  The sum of an element goes over channels, then taps, in one
chain, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim, dim_min
from ..loop_builder import INDEX, Scalar
from ..template import TemplateContext
from .conv_plan import ConvPlan, choose, in_order, narrow_vectors, plan_of, stores_at_once
from .emit import Emitter, Ix, plain
from .epilogues import flat_epilogue
from .operands import stored_type
from .panels import pack_across, slack, transpose
from .phase_image import PhaseImage, RowRange
from .register_tile import Factors, Products, RegisterTile
from .rows import Rows, StoredRows, flattened, input_rows
from .window import ONE, ZERO, Axis, Convolution, Windows, product

LINE_BYTES = 64
PANEL_SHARE = 2 / 3
"""Of the first cache, for what a tile of positions computes of its operand for itself."""
OWN_IMAGE_GROUPS = 4
"""From so many groups on, a unit of work is one group of one image, and copies its channels itself."""


def adopted_plan(
    context: TemplateContext, convolution: Convolution, products: Products, packed: Sequence[int]
) -> ConvPlan:
    """The plan, with the tile that the weights are packed for where they are."""
    part = context.part
    if packed:
        rows, vectors, pixels = packed
        tile = RegisterTile(rows, vectors, context.target.lanes(products.bytes))
        plan = plan_of(convolution, products, context.target, tile, bool(pixels), part.given)
    else:
        plan = choose(convolution, products, context.target, part.given)
    part.adopt(plan)
    return plan


@dataclass(frozen=True)
class ImageView:
    """Where a group's channels are: position q of channel c and a tap is at `start + c * channel + table[tap] + q`.

    `phase` says which of the interleaved parts of the output is computed (a transposed convolution has several).
    """

    buffer: SSAValue
    start: Ix
    channel: Ix
    phase: Ix


class ConvBuilder:
    """Emits one convolution; the methods are the loops, from outside in."""

    output_phases = 1
    weights_start = 0
    """Where the packed weights begin."""
    sums_are_results = True
    """Whether `finished` only narrows."""

    def __init__(
        self,
        e: Emitter,
        context: TemplateContext,
        op: kernel.TemplateOp,
        convolution: Convolution,
        products: Products,
        plan: ConvPlan,
        packed: bool,
    ) -> None:
        self.e, self.context, self.op = e, context, op
        self.convolution, self.products, self.plan, self.packed = convolution, products, plan, packed
        self.tile = plan.tile
        # a tile's channels and positions
        self.height, self.width = self.tile.rows, self.tile.columns
        if plan.pixels:
            self.height, self.width = self.width, self.height
        self.windows = convolution.windows
        self.input_rows = self.make_rows()
        # where positions are rows, the last tile reads on behind the input, unless it has a height of its own
        plain_input = self.windows.is_plain and (not plan.pixels or self.windows.positions.is_const)
        self.reads_input = plain_input and isinstance(self.input_rows, StoredRows)
        self.flat_rows = self.make_flat_rows() if self.windows.is_plain else None
        self.panels = self.flat_rows is not None and self.panel_fits()
        """Whether each tile of positions computes what it reads for itself."""
        self.in_order = plan.pixels and in_order(self.windows, self.tile.rows)
        """Whether positions are numbered as the output is."""
        self.sizes = tuple(a.out for a in self.windows.axes) if self.in_order else self.windows.extents
        self.count = product(self.sizes) if self.in_order else self.windows.positions
        """Positions that are computed, and their numbers on each axis."""
        in_a_row = self.in_order or self.windows.is_flat
        self.flat = in_a_row and flat_epilogue(context, op, len(self.windows.axes))

    def build(self) -> None:
        e, c = self.e, self.convolution
        result = self.context.dims(self.op.results_[0])
        if any(d == ZERO for d in result):
            return
        self.rows, self.steps = e.dim(c.rows), e.dim(c.steps)
        self.row_tiles = self.rows.ceildiv(self.height)
        self.positions = e.dim(self.count)
        self.position_tiles = self.positions.ceildiv(self.width)
        self.weights = self.packed_weights() if self.packed else self.pack_weights()
        self.image = self.make_image()
        self.write_tables()
        if self.reads_input and isinstance(self.input_rows, StoredRows):
            self.all_images(self.input_rows.buffer, e.ix(0), e.dim(c.images))
        elif self.panels:
            self.all_images(None, e.ix(0), e.dim(c.images))
        elif c.groups >= OWN_IMAGE_GROUPS:
            self.own_images()
        elif self.copies_rows:
            self.own_rows()
        else:
            self.shared_images()

    def make_rows(self) -> Rows:
        """The input's rows."""
        return input_rows(self.e, self.context, self.op, self.products)

    def make_flat_rows(self) -> Rows | None:
        """Its channels as rows, where they are copied in any case."""
        return flattened(self.input_rows)

    def panel_fits(self) -> bool:
        """Whether the positions of a tile of all channels of a group are little beside the first cache."""
        size = self.convolution.depth * self.width * self.products.bytes
        all_channels_in_turn = self.windows.taps == ONE and not self.plan.pixels and not self.plan.rows_outside
        return all_channels_in_turn and size.is_const and size.value <= self.context.target.l1 * PANEL_SHARE

    def packed_weights(self) -> SSAValue:
        """The operand that was packed as a constant."""
        return self.context.buffer(self.op.inputs[1])

    def make_image(self) -> PhaseImage:
        return PhaseImage(self.e, self.products, self.windows)

    def image_scratch(self, size: Dim, thread: SSAValue | None) -> SSAValue:
        """Memory for copied channels."""
        return self.context.scratch(self.products.packed, size, thread)

    def copied_image(self) -> tuple[PhaseImage, Rows]:
        """What is written when channels are copied, and from which rows."""
        if self.flat_rows is None:
            return self.image, self.input_rows
        # without padding a channel is one row, which is not cut into vectors anew in each of its rows
        size = product([a.size for a in self.windows.axes])
        whole = Windows((Axis(size, size, ONE, 1, 1, ZERO),))
        return PhaseImage(self.e, self.products, whole), self.flat_rows

    def copy(self, channel: Ix, first: Ix, buffer: SSAValue, part: RowRange | None = None) -> None:
        """Copies the input's channel `first + channel`, or some rows of it, as the buffer's channel `channel`."""
        image, rows = self.copied_image()
        image.copy_channel(rows, channel + first, buffer, channel * self.e.dim(self.windows.channel), part)

    def copy_panel(self, channels: Ix, position: Ix, panel: SSAValue) -> None:
        """panel[channel, :] = the group's channels, from the one numbered `channels` on, at a tile's positions."""
        e, rows, lanes = self.e, self.flat_rows, self.tile.lanes
        assert rows is not None
        with e.loop(0, e.dim(self.convolution.depth)) as loop:
            row = rows.row(loop.index + channels, [])
            for v in range(self.tile.vectors):
                at = position + v * lanes
                values = row.vector(at, 1, None if self.covers_whole_tiles() else self.positions - at)
                e.store_vector(values, panel, loop.index * self.width + v * lanes)

    def write_tables(self) -> None:
        """What taps add to a position; no table where there is one tap."""
        self.table: SSAValue | None = None
        if self.windows.taps != ONE:
            self.table = self.context.scratch(INDEX, self.windows.taps)
            self.image.write_table(self.table)

    def pack_weights(self) -> SSAValue:
        """[group, tile, step, channel of the tile]; behind the last channel is anything, which is not stored."""
        e, c, height = self.e, self.convolution, self.height
        tiles = (c.rows + (height - 1)) // height
        size = tiles * c.groups * c.steps * height + slack(self.tile.lanes, height)
        packed = self.context.scratch(self.products.sums, size)
        source = self.context.buffer(self.op.inputs[1])
        # whole vectors overlap the next tile, so tiles are packed in order, by one thread
        with e.loop(0, c.groups) as groups, e.loop(0, self.row_tiles) as tiles_loop:
            first, group_row = tiles_loop.index * height, groups.index * self.rows

            def row_at(r: int) -> Ix:
                return ((first + r).min(self.rows - 1) + group_row) * self.steps

            at = (groups.index * self.row_tiles + tiles_loop.index) * (self.steps * height)
            pack_across(e, self.products, source, row_at, height, self.steps, packed, at, height)
        return packed

    # The ways in which images come to the tiles

    def all_images(self, buffer: SSAValue | None, first: Ix, count: Ix) -> None:
        """Tiles of images in a buffer of all their channels, or of panels, in parallel."""
        with self.tiles_region(count) as (lower, upper, thread):
            sums = self.take_sums(thread)
            source = buffer or self.image_scratch(self.convolution.depth * self.width, thread)
            self.some_tiles(lower, upper, first, source, buffer is None, sums)

    def tiles_in_order(self) -> tuple[Ix, Ix]:
        """Numbers of tiles of positions and of output channels; the outer loop's first."""
        outer, inner = self.position_tiles, self.row_tiles
        return (inner, outer) if self.plan.rows_outside else (outer, inner)

    def tiles_region(self, images: Ix) -> AbstractContextManager[tuple[Ix, Ix, SSAValue]]:
        """The parallel region over all tiles of images."""
        e, parts = self.e, self.convolution.groups * self.output_phases
        work = self.steps * (self.tile.rows * self.tile.vectors // 2 + 1)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        return e.parallel(images * parts * self.position_tiles * self.row_tiles, grain)

    def some_tiles(self, lower: Ix, upper: Ix, first: Ix, source: SSAValue, panels: bool, sums: SSAValue) -> None:
        """The tiles numbered from `lower` to `upper` of the images from `first` on, which the source begins with."""
        e, c = self.e, self.convolution
        channel = e.dim(product([a.size for a in self.windows.axes]) if self.reads_input else self.windows.channel)
        parts = c.groups * self.output_phases
        outer, inner = self.tiles_in_order()
        with e.loop(lower // inner, (upper - 1) // inner + 1, nonempty=True) as items:
            start = items.index * inner
            part = items.index // outer % parts
            group, number = part // self.output_phases, items.index // (outer * parts)
            channels = (number * c.groups + group) * e.dim(c.depth)
            view = ImageView(source, channels * channel, channel, part % self.output_phases)
            if panels:
                position = items.index % outer * self.width
                self.copy_panel(channels, position, source)
                view = ImageView(source, e.ix(0) - position, e.ix(self.width), view.phase)
            with e.loop((lower - start).max(0), (upper - start).min(inner)) as tiles:
                row, position = tiles.index, items.index % outer
                if self.plan.rows_outside:
                    row, position = position, row
                self.position_tile(view, first + number, group, position * self.width, row, sums)

    def shared_images(self) -> None:
        """Some images are copied, then their tiles computed."""
        e, c = self.e, self.convolution
        channels = c.depth * c.groups
        chunk = self.images_at_once()
        # vectors of the last position and tap may reach behind the last channel
        size = self.windows.channel * channels * dim_min(as_dim(chunk), c.images) + self.width
        buffer = self.image_scratch(size, None)
        channel, images = e.dim(self.windows.channel), e.dim(c.images)
        with e.loop(0, images, chunk) as loop:
            count = (images - loop.index).min(chunk)
            first = loop.index * e.dim(channels)
            with (
                e.parallel(count * e.dim(channels), self.copied_image()[0].channels_grain()) as (lower, upper, _),
                e.loop(lower, upper, nonempty=True) as copied,
            ):
                self.copy(copied.index, first, buffer)
            self.image.write_behind(buffer, count * e.dim(channels) * channel, self.width)
            self.all_images(buffer, loop.index, count)

    @property
    def copies_rows(self) -> bool:
        """Whether each thread copies the rows that its own tiles read: what another core has written is slow to read.

        Its tiles must be some positions, and all channels of these.
        """
        one_part = self.convolution.groups * self.output_phases == 1
        return one_part and not self.plan.rows_outside and len(self.copied_image()[0].windows.axes) == 2

    def own_rows(self) -> None:
        """Each thread copies rows of some images, then computes their tiles."""
        e, c = self.e, self.convolution
        channels, chunk = e.dim(c.depth), self.images_at_once()
        size = self.windows.channel * c.depth * dim_min(as_dim(chunk), c.images) + self.width
        channel, images = e.dim(self.windows.channel), e.dim(c.images)
        pitch = e.dim(self.sizes[-1])
        with e.loop(0, images, chunk) as loop:
            count = (images - loop.index).min(chunk)
            with self.tiles_region(count) as (lower, upper, thread):
                sums, buffer = self.take_sums(thread), self.image_scratch(size, thread)
                a_image = self.position_tiles * self.row_tiles
                with e.loop(lower // a_image, (upper - 1) // a_image + 1, nonempty=True) as numbers:
                    start = numbers.index * a_image
                    position = (lower - start).max(0) // self.row_tiles * self.width
                    end = ((upper - start).min(a_image) - 1) // self.row_tiles * self.width + self.width
                    part = self.image.rows_of(position, end.min(self.positions), pitch)
                    with e.loop(0, channels) as copied:
                        self.copy(numbers.index * channels + copied.index, loop.index * channels, buffer, part)
                self.image.write_behind(buffer, count * channels * channel, self.width)
                self.some_tiles(lower, upper, loop.index, buffer, False, sums)

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
        depth, channel = e.dim(c.depth), e.dim(self.windows.channel)
        tiles = self.position_tiles * self.row_tiles
        work = tiles * self.steps * (self.tile.rows * self.tile.vectors // 2 + 1)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(e.dim(c.images) * c.groups, grain) as (lower, upper, thread):
            sums = self.take_sums(thread)
            size = self.windows.channel * c.depth + self.width
            buffer = self.image_scratch(size, thread)
            with e.loop(lower, upper, nonempty=True) as units:
                number, group = units.index // c.groups, units.index % c.groups
                with e.loop(0, depth) as copied:
                    self.copy(copied.index, units.index * depth, buffer)
                self.image.write_behind(buffer, depth * channel, self.width)
                with (
                    e.loop(0, self.output_phases) as phases,
                    e.loop(0, self.positions, self.width) as positions,
                    e.loop(0, self.row_tiles) as rows,
                ):
                    view = ImageView(buffer, e.ix(0), channel, phases.index)
                    self.position_tile(view, number, group, positions.index, rows.index, sums)

    def take_sums(self, thread: SSAValue) -> SSAValue:
        """A tile's sums (in whole squares where they are turned), and a vector more that the stores may read; all 0."""
        e, tile = self.e, self.tile
        size = (tile.lanes if self.plan.pixels else tile.rows) * tile.columns + tile.lanes
        sums = self.context.scratch(self.products.sums, size, thread)
        with e.loop(0, size, tile.lanes) as loop:
            e.store_vector(e.constant(0, self.products.sums, tile.lanes), sums, loop.index)
        return sums

    # Tiles

    def position_tile(self, view: ImageView, number: Ix, group: Ix, position: Ix, row_tile: Ix, sums: SSAValue) -> None:
        """The sums of some output channels of a group at some positions, and their stores."""
        e, end = self.e, position + self.width
        last = self.last_tile()
        if last is None:
            self.one_tile(self.tile, view, number, group, position, row_tile, sums)
            return
        with e.when(end.compare("sle", self.positions)):
            self.one_tile(self.tile, view, number, group, position, row_tile, sums, whole=True)
        with e.when(end.compare("sgt", self.positions)):
            self.one_tile(last, view, number, group, position, row_tile, sums)

    def last_tile(self) -> RegisterTile | None:
        """The tile for the last positions, where there are too few for a whole one; None: it is as the others.

        Where they are rows it must have its own height: scalars cannot be masked, and behind the last position the
        input may end.  Else it has as many vectors as it takes.
        """
        tile, positions = self.tile, self.count
        if not positions.is_const or (self.plan.pixels and not self.reads_input):
            return None
        left = positions.value % self.width
        if self.plan.pixels:
            return RegisterTile(left, tile.vectors, tile.lanes) if left else None
        vectors = -(-left // tile.lanes)
        return RegisterTile(tile.rows, vectors, tile.lanes) if 0 < vectors < tile.vectors else None

    def one_tile(
        self,
        tile: RegisterTile,
        view: ImageView,
        number: Ix,
        group: Ix,
        position: Ix,
        row_tile: Ix,
        sums: SSAValue,
        whole: bool = False,
    ) -> None:
        """`whole` says that all of the tile's positions are there."""
        e = self.e
        first = row_tile * self.height
        weights_at = (group * self.row_tiles + row_tile) * (self.steps * self.height) + self.weights_start
        rows = self.rows.known
        whole_rows = rows is not None and rows % self.height == 0
        count = e.ix(self.height) if whole_rows else (self.rows - first).min(self.height)
        if self.plan.pixels:
            self.keep_turned(self.accumulate_pixels(tile, view, position, weights_at), tile, sums)
        else:
            whole = whole or self.covers_whole_tiles()
            if not whole and not self.count.is_const and tile.vectors > 1:
                # few positions, or the last ones, take as many vectors as are enough
                left, before = self.positions - position, 0
                for vectors in (*narrow_vectors(tile.vectors), tile.vectors):
                    fits = left.compare("sgt", before)
                    if vectors < tile.vectors:
                        fits = e.both(fits, left.compare("sle", vectors * tile.lanes))
                    narrow = RegisterTile(tile.rows, vectors, tile.lanes)
                    with e.when(fits):
                        self.keep(self.accumulate(narrow, view, position, weights_at, whole), narrow, sums)
                    before = vectors * tile.lanes
            else:
                totals = self.accumulate(tile, view, position, weights_at, whole)
                if whole and self.stores_at_once():
                    self.store_totals(number, group * self.rows + first, position, totals)
                    return
                self.keep(totals, tile, sums)
        self.store(view.phase, number, group * self.rows + first, count, position, sums)

    def keep(self, totals: list[SSAValue], tile: RegisterTile, sums: SSAValue) -> None:
        """sums[channel, position], as far apart as in a whole tile."""
        for i, total in enumerate(totals):
            row, v = divmod(i, tile.vectors)
            self.e.store_vector(total, sums, (row * self.tile.vectors + v) * tile.lanes)

    def keep_turned(self, totals: list[SSAValue], tile: RegisterTile, sums: SSAValue) -> None:
        """sums[channel, position] from vectors of channels, one for each position."""
        e, lanes = self.e, tile.lanes
        zero = e.constant(0, self.products.sums, lanes)
        for v in range(tile.vectors):
            square = totals[v :: tile.vectors] + [zero] * (lanes - tile.rows)
            for i, vector in enumerate(transpose(e, square)):
                e.store_vector(vector, sums, (v * lanes + i) * lanes)

    def tap_offset(self, view: ImageView, position: Ix, indices: list[Ix]) -> tuple[Ix, Ix]:
        """For a (channel, tap): the place of a position in the image, and the number of the step."""
        channel = indices[0]
        at, step = channel * view.channel + view.start, channel
        if self.table is not None:
            step = channel * self.e.dim(self.windows.taps) + indices[1]
            at = self.e.load_index(self.table, indices[1]) + at
        return at + position, step

    def steps_nest(self, view: ImageView) -> list[Ix]:
        """The loops over channels and taps."""
        taps = [] if self.table is None else [self.e.dim(self.windows.taps)]
        return [self.e.dim(self.convolution.depth), *taps]

    def accumulate(
        self, tile: RegisterTile, view: ImageView, position: Ix, weights_at: Ix, whole: bool
    ) -> list[SSAValue]:
        """Rows are channels, vectors are positions."""
        e, plan = self.e, self.plan
        masks: list[SSAValue] = []
        if self.reads_input and not whole:
            # the input ends where its last position does
            masks = [e.mask(self.positions - position - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]

        def factors(indices: list[Ix]) -> Factors:
            at, step = self.tap_offset(view, position, indices)
            weight = step * self.height + weights_at
            places = [at + v * tile.lanes for v in range(tile.vectors)]
            for place in places if plan.channels_ahead and not self.panels else ():
                e.prefetch(view.buffer, place + view.channel * plan.channels_ahead)
            for place in places if plan.tiles_ahead and not self.panels else ():
                e.prefetch(view.buffer, place + plan.tiles_ahead * tile.columns, 2)
            if plan.steps_ahead:
                e.prefetch(self.weights, weight + plan.steps_ahead * self.height)
            vectors = [
                self.products.load_vector(e, view.buffer, place, tile.lanes, masks[v] if masks else None)
                for v, place in enumerate(places)
            ]
            return vectors, lambda r: self.weight_scalar(weight, r)

        return tile.accumulate(e, self.products, self.steps_nest(view), factors)

    def weight_scalar(self, weight: Ix, r: int) -> SSAValue:
        """The weight of a row of the tile, of those from `weight` on."""
        return self.products.load(self.e, self.weights, weight + r)

    def accumulate_pixels(self, tile: RegisterTile, view: ImageView, position: Ix, weights_at: Ix) -> list[SSAValue]:
        """Rows are positions, vectors are channels."""
        e, plan = self.e, self.plan
        share = self.share_of_next(position, weights_at)
        shifts = self.shifts(tile.rows)
        place = self.place(position)

        def factors(indices: list[Ix]) -> Factors:
            at, step = self.tap_offset(view, place, indices)
            weight = step * tile.columns + weights_at
            vectors: list[SSAValue] = []
            if share is not None:
                start, width = share
                for line in range(0, width, LINE_BYTES // self.products.bytes):
                    e.prefetch(self.weights, step * width + start + line)
            for v in range(tile.vectors):
                if plan.steps_ahead and share is None:
                    e.prefetch(self.weights, weight + (plan.steps_ahead * tile.columns + v * tile.lanes))
                vectors.append(self.products.load_vector(e, self.weights, weight + v * tile.lanes, tile.lanes))
            return vectors, lambda r: self.products.load(e, view.buffer, at + shifts[r])

        return tile.accumulate(e, self.products, self.steps_nest(view), factors)

    def place(self, position: Ix) -> Ix:
        """Where a position is in the padded image."""
        if not self.in_order:
            return position
        place = self.e.ix(0)
        for size, pitch in zip(reversed(self.sizes), reversed(self.windows.pitches)):
            place = position % self.e.dim(size) * self.e.dim(pitch) + place
            position = position // self.e.dim(size)
        return place

    def shifts(self, count: int) -> list[int]:
        """How far the positions of a tile are from its first one."""
        if not self.in_order or count <= (width := self.sizes[-1].value):
            return list(range(count))
        pitch = self.windows.pitches[-2].value
        return [r // width * pitch + r % width for r in range(count)]

    def share_of_next(self, position: Ix, weights_at: Ix) -> tuple[Ix, int] | None:
        """What a tile asks for of the next channels' weights: (start, elements a step).

        Each tile of positions asks for an equal share, so that memory is at work all the time, not only while the first
        tile meets weights that no cache has.
        """
        tiles = self.position_tiles.known
        if not (self.packed and self.plan.rows_outside and self.plan.steps_ahead) or tiles is None or tiles < 2:
            return None
        width = -(-self.height // tiles)
        return weights_at + self.steps * self.height + position // self.width * self.steps * width, width

    def covers_whole_tiles(self) -> bool:
        positions = self.count
        return positions.is_const and positions.value % self.width == 0

    # Stores

    def stores_at_once(self) -> bool:
        """Whether sums of a whole tile go from registers through the epilogue: short ones, with a short epilogue."""
        return (
            self.sums_are_results
            and self.flat
            and stores_at_once(self.convolution, self.height)
            and self.context.points_in_step(self.op) == 1
        )

    def store_totals(self, number: Ix, channel: Ix, position: Ix, totals: list[SSAValue]) -> None:
        """The epilogue and the stores of a whole tile, from registers."""
        e, tile = self.e, self.tile
        before = [e.ix(0)] * (len(self.windows.axes) - 1)
        for row in range(tile.rows):
            points: list[list[SSAValue]] = []
            places: list[list[Scalar]] = []
            for v in range(tile.vectors):
                total = totals[row * tile.vectors + v]
                points.append([self.products.narrow(e, total, stored_type(self.op))])
                places.append([plain(i) for i in (number, channel + row, *before, position + v * tile.lanes)])
            self.context.store_in_step(self.op, points, places)

    def store(self, phase: Ix, number: Ix, channel: Ix, count: Ix, position: Ix, sums: SSAValue) -> None:
        """The epilogue and the stores of a tile: of `count` channels, the positions that are output elements."""
        e, lanes = self.e, self.tile.lanes
        axes = len(self.windows.axes)
        end = (position + self.width).min(self.positions)
        if self.flat:
            for start in range(0, self.width, lanes):
                at = position + start
                whole = self.covers_whole_tiles() and start + lanes <= self.width
                mask = None if whole else e.mask(end - at, lanes)
                indices = [*[e.ix(0)] * (axes - 1), at]
                if start == 0 or self.count.is_const:
                    self.store_channels(number, channel, count, e.ix(start), indices, mask, sums)
                    continue
                with e.when(at.compare("slt", end)):
                    self.store_channels(number, channel, count, e.ix(start), indices, mask, sums)
            return
        pitch = e.dim(self.sizes[-1])
        widths = self.output_sizes(phase)
        with e.loop(position // pitch, (end - 1) // pitch + 1, nonempty=True) as rows:
            start = rows.index * pitch
            first, stop = (position - start).max(0), (end - start).min(widths[-1])
            outer, inside = self.outer_index(rows.index, widths)
            if inside is not None:
                stop = e.select_index(inside, stop, 0)
            with e.loop(first, stop, lanes) as columns:
                mask = e.mask(stop - columns.index, lanes)
                from_sum = columns.index + (start - position)
                index = self.output_index(phase, [*outer, columns.index])
                self.store_channels(number, channel, count, from_sum, index, mask, sums)

    def output_sizes(self, phase: Ix) -> list[Ix]:
        """The number of positions on each axis."""
        return [self.e.dim(a.out) for a in self.windows.axes]

    def output_index(self, phase: Ix, index: list[Ix]) -> list[Ix]:
        """The output element at a position."""
        return index

    def column_stride(self) -> int:
        """What one position is on the last axis of the output."""
        return 1

    def outer_index(self, row: Ix, widths: list[Ix]) -> tuple[list[Ix], SSAValue | None]:
        """The index of a row on all axes but the last, and whether it is a row of the output (None: it is)."""
        e = self.e
        axes, extents = self.windows.axes[:-1], self.sizes[:-1]
        indices: list[Ix] = []
        inside: SSAValue | None = None
        for number in reversed(range(len(axes))):
            index = row if number == 0 else row % e.dim(extents[number])
            row = row // e.dim(extents[number])
            indices.append(index)
            if number == 0 and self.output_phases == 1:
                continue
            valid = index.compare("slt", widths[number])
            inside = valid if inside is None else e.both(inside, valid)
        return indices[::-1], inside

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
        pitch = tile.lanes if self.plan.pixels else tile.columns
        together = self.context.points_in_step(self.op)

        def store(row: Ix, channels: int) -> None:
            points: list[list[SSAValue]] = []
            places: list[list[Scalar]] = []
            for r in range(channels):
                value = e.load_vector(sums, (row + r) * pitch + from_sum, tile.lanes)
                indices = [number, row + r + channel, *position]
                value = self.finished(value, row + r, row + r + channel, from_sum, sums, indices, mask)
                points.append([value])
                places.append([plain(i) for i in indices])
            self.context.store_in_step(self.op, points, places, mask, -1, self.column_stride())

        whole = count // together * together
        if together > 1:
            with e.loop(0, whole, together) as loop:
                store(loop.index, together)
        if together > 1 and count.known is not None:
            if count.known % together:
                store(whole, count.known % together)
            return
        with e.loop(whole if together > 1 else 0, count, nonempty=together == 1) as loop:
            store(loop.index, 1)

    def finished(
        self,
        value: SSAValue,
        row: Ix,
        channel: Ix,
        from_sum: Ix,
        sums: SSAValue,
        indices: list[Ix],
        mask: SSAValue | None,
    ) -> SSAValue:
        """What is stored for a vector of sums of one channel."""
        return self.products.narrow(self.e, value, stored_type(self.op))
