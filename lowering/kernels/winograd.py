"""Convolution with 3x3 windows by Winograd's algorithm: F(2x2, 3x3) has 16 products for 4 results instead of 36.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).  A tile of results takes a patch d of the
input: V = B^T d B, M = sum over channels of U V elementwise, Y = A^T M A, with U = G w G^T made from constant weights
in f64 (`packing.pack_winograd`).  `winograd_forms` has the forms.  With 2x2 results of stride 1, and of stride 2, they
are closer to the exact sums than the direct form's.

The padded image is laid out in phases (see `window`), as far apart as tiles are, so that element (i, j) of the patches
of neighbouring tiles is a vector.  For a block of tiles: V of all channels into scratch, then for some output channels
register tiles over the channels, one for each element, and these sums turned into rows of results where they are
stored.  Config `winograd` = [form, rows, vectors, channels]: the number of the form, the register tile, for which the
weights are packed, and whether vectors run over channels instead (see `winograd_channels`).
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..template import TemplateContext
from .emit import Emitter, Ix, plain
from .epilogues import flat_epilogue
from .operands import stored_type
from .phase_image import PhaseImage, RowRange
from .register_tile import Factors, Products, RegisterTile
from .rows import input_rows
from .window import Convolution
from .winograd_forms import Form, Group
from .winograd_plan import WinogradPlan, tile_windows


class WinogradBuilder:
    """Emits one such convolution; the methods are the loops, from outside in."""

    def __init__(
        self,
        e: Emitter,
        context: TemplateContext,
        op: kernel.TemplateOp,
        c: Convolution,
        products: Products,
        plan: WinogradPlan,
        form: Form,
    ) -> None:
        self.e, self.context, self.op, self.c, self.products = e, context, op, c, products
        self.tile, self.steps_ahead = RegisterTile(plan.rows, plan.vectors, plan.lanes), plan.steps_ahead
        self.form = form
        self.windows = tile_windows(c, form)
        self.image = PhaseImage(e, products, self.windows)
        self.weights = context.buffer(op.inputs[1])
        self.input_rows = input_rows(e, context, op, products)
        self.flat = flat_epilogue(context, op, len(self.windows.axes))

    def build(self) -> None:
        e = self.e
        self.take_sizes()
        self.row_tiles = self.rows.ceildiv(self.tile.rows)
        self.positions = e.dim(self.windows.positions)
        with e.loop(0, e.dim(self.c.images)) as images:
            self.blocks(images.index)

    def take_sizes(self) -> None:
        e, c = self.e, self.c
        self.depth, self.rows, self.channel = e.dim(c.depth), e.dim(c.rows), e.dim(self.windows.channel)

    def image_size(self, channels: Dim) -> Dim:
        """Elements of so many channels; vectors of the last tile may reach behind the last one."""
        return self.windows.channel * channels + 2 * self.tile.columns

    def copy_rows(self, image: SSAValue, number: Ix, part: RowRange) -> None:
        """Some rows of all channels of an image."""
        with self.e.loop(0, self.depth) as loop:
            source = number * self.depth + loop.index
            self.image.copy_channel(self.input_rows, source, image, loop.index * self.channel, part)

    def blocks(self, number: Ix) -> None:
        """All blocks of tiles by all tiles of output channels, in parallel.

        Each thread copies the rows that its blocks read: what another core has written is slow to read.
        """
        e, tile, context, sums = self.e, self.tile, self.context, self.products.sums
        extent = self.positions.ceildiv(tile.columns) * self.row_tiles
        slots, elements = len(self.form.slots), len(self.form.elements)
        grain = e.ix(e.grain_cycles) // (self.depth * (slots * tile.rows * tile.vectors // 2)).max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, thread):
            image = context.scratch(sums, self.image_size(self.c.depth), thread)
            first, end = lower // self.row_tiles, (upper - 1) // self.row_tiles + 1
            last_position = (end * tile.columns).min(self.positions)
            rows = self.image.rows_of(first * tile.columns, last_position, e.dim(self.windows.pitches[0]))
            self.copy_rows(image, number, rows)
            patches = context.scratch(sums, self.slot_place(slots, elements), thread)
            products = context.scratch(sums, as_dim(elements * tile.rows * tile.columns), thread)
            results = context.scratch(sums, as_dim(tile.rows * self.channel_results + tile.lanes), thread)
            # the last stores of a channel read a vector more
            e.store_vector(e.constant(0, sums, tile.lanes), results, e.ix(tile.rows * self.channel_results))
            with e.loop(first, end, nonempty=True) as loop:
                start, position = loop.index * self.row_tiles, loop.index * tile.columns
                self.transform_input(image, patches, position)
                with e.loop((lower - start).max(0), (upper - start).min(self.row_tiles)) as tiles:
                    self.multiply(patches, products, tiles.index)
                    channel = tiles.index * tile.rows
                    count = (self.rows - channel).min(tile.rows)
                    with e.loop(0, count, nonempty=True) as channels:
                        self.transform_output(products, results, channels.index)
                    self.store(number, channel, count, position, results)

    @property
    def channel_results(self) -> int:
        """Results of a channel in a block."""
        return self.form.results * self.tile.columns

    def slot_place(self, slot: int, element: int) -> Dim:
        """Where a term of an element begins in the patches: elements are not a multiple of 4 KB apart, which would
        share lines of L1."""
        return self.c.depth * (slot * self.tile.columns) + element * self.tile.lanes

    def transform_input(self, image: SSAValue, patches: SSAValue, position: Ix) -> None:
        """patches[term, channel, tile of the block] = B^T d B, the terms of an element one behind the other."""
        e, tile = self.e, self.tile
        with e.loop(0, self.depth) as channels, e.loop(0, tile.columns, tile.lanes) as vectors:
            start = channels.index * self.channel + (position + vectors.index)
            at = channels.index * tile.columns + vectors.index
            for slot, (value, element) in enumerate(zip(self.transformed(image, start), self.form.slot_elements)):
                e.store_vector(value, patches, at + e.dim(self.slot_place(slot, element)))

    def transformed(self, image: SSAValue, start: Ix) -> list[SSAValue]:
        """The terms of a vector of patches, of which the first one's place is `start`."""
        e, pitch, phase = self.e, self.windows.pitches[0], self.windows.phase
        rows, columns = self.form.lines

        def offset(i: int, j: int) -> Dim:
            number = i % rows.step * columns.step + j % columns.step
            return phase * number + pitch * (i // rows.step) + j // columns.step

        patch = [
            [e.load_vector(image, start + e.dim(offset(i, j)), self.tile.lanes) for j in range(columns.patch)]
            for i in range(rows.patch)
        ]
        return self.form.transformed(e, patch)

    def multiply(self, patches: SSAValue, products: SSAValue, row_tile: Ix) -> None:
        """products[element, channel of the tile, tile of the block]: products of terms, summed over channels."""
        for group in self.form.groups:
            with self.e.loop(0, group.count) as elements:
                self.multiply_element(patches, products, row_tile, group, elements.index)

    def multiply_element(self, patches: SSAValue, products: SSAValue, row_tile: Ix, group: Group, number: Ix) -> None:
        e, tile = self.e, self.tile
        depth = self.depth * group.terms
        weights_at = (number * self.row_tiles + row_tile) * (depth * tile.rows)
        weights_at = weights_at + self.row_tiles * self.depth * (group.slot * tile.rows)
        start, pitch = (self.slot_place(group.slot, group.first), self.slot_place(group.terms, 1))
        patches_at = number * e.dim(pitch) + e.dim(start)

        def factors(indices: list[Ix]) -> Factors:
            [k] = indices
            at, weight = k * tile.columns + patches_at, k * tile.rows + weights_at
            if self.steps_ahead:
                e.prefetch(self.weights, weight + self.steps_ahead * tile.rows)
            vectors = [e.load_vector(patches, at + v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
            return vectors, lambda r: self.products.load(e, self.weights, weight + r)

        place = (number + group.first) * (tile.rows * tile.columns)
        for i, total in enumerate(tile.accumulate(e, self.products, [depth], factors)):
            e.store_vector(total, products, place + i * tile.lanes)

    def transform_output(self, products: SSAValue, results: SSAValue, row: Ix) -> None:
        """results[channel, row of the tiles, twice the columns] = A^T M A, with the columns of a tile side by side."""
        e, tile, width = self.e, self.tile, self.form.columns.outputs
        assert width == 2
        order = [i + tile.lanes * half for i in range(tile.lanes) for half in range(2)]
        with e.loop(0, tile.columns, tile.lanes) as vectors:
            at = row * tile.columns + vectors.index
            sums = [
                e.load_vector(products, at + element * tile.rows * tile.columns, tile.lanes)
                for element in range(len(self.form.elements))
            ]
            for i, (left, right) in enumerate(self.form.results_of(e, sums)):
                place = row * self.channel_results + vectors.index * width + i * width * tile.columns
                e.store_vector(e.shuffle(left, right, order[: tile.lanes]), results, place)
                e.store_vector(e.shuffle(left, right, order[tile.lanes :]), results, place + tile.lanes)

    def store(self, number: Ix, channel: Ix, count: Ix, position: Ix, results: SSAValue) -> None:
        """The epilogue and the stores of so many channels' results in a block."""
        e, tile = self.e, self.tile
        down, wide = (line.outputs for line in self.form.lines)
        height, width = (e.dim(a.out) for a in self.c.windows.axes)
        pitch = e.dim(self.windows.extents[-1])
        columns = e.dim(self.windows.axes[-1].out)
        end = (position + tile.columns).min(self.positions)
        with e.loop(position // pitch, (end - 1) // pitch + 1, nonempty=True) as rows:
            start = rows.index * pitch
            first = (position - start).max(0) * wide
            stop = ((end - start).min(columns) * wide).min(width)
            for i in range(down):
                y = rows.index * down + i
                last = e.select_index(y.compare("slt", height), stop, 0)
                with e.loop(first, last, tile.lanes) as across:
                    mask = e.mask(last - across.index, tile.lanes)
                    from_ = across.index + (start - position) * wide + i * wide * tile.columns
                    with e.loop(0, count, nonempty=True) as channels:
                        value = e.load_vector(results, channels.index * self.channel_results + from_, tile.lanes)
                        value = self.products.narrow(e, value, stored_type(self.op))
                        place = [plain(n) for n in (number, channel + channels.index, y, across.index)]
                        self.context.store(self.op, [value], place, mask)
