"""Winograd's algorithm (see `winograd`) with vectors over output channels, for small images.

There, whole vectors of tiles would be half empty.  A register tile is some tiles of the image by some vectors of
output channels: weights come in vectors, elements of the patches as scalars, from any place, so no tile is wasted.
The image is cut into blocks of rows of tiles.  For a block: V of all channels into scratch; then for some output
channels 16 products over all tiles of the block, with the weights read in order; then their sums as results in
scratch, pixels outside and channels inside, which are turned in squares of registers where they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects.dims import Dim, as_dim
from ..loop_builder import Scalar
from .emit import Ix, plain
from .operands import stored_type
from .panels import transpose
from .phase_image import RowRange
from .register_tile import Factors, RegisterTile
from .winograd import WinogradBuilder
from .winograd_forms import Group
from .winograd_plan import block_rows, heights

LINE = 64
"""Bytes of a cache line."""


class ChannelsBuilder(WinogradBuilder):
    """Emits one such convolution; the weights are packed by columns."""

    def build(self) -> None:
        e, c, tile = self.e, self.c, self.tile
        self.take_sizes()
        rows, columns = (a.out.value for a in self.windows.axes)
        self.block = block_rows(self.form, self.windows, c.depth.value, self.products.bytes, e.target.l2)
        self.columns, self.pitch = columns, self.windows.pitches[0].value
        self.tiles = self.block * columns
        self.column_tiles = self.rows.ceildiv(tile.columns)
        # positions of a block, of which those between two rows are not used
        self.places = (self.block - 1) * self.pitch + columns
        blocks = -(-rows // self.block)
        with e.loop(0, e.dim(c.images)) as images:
            if blocks == 1:
                self.shared_block(images.index)
            else:
                self.own_blocks(images.index, blocks, rows)

    def patches(self, thread: SSAValue | None) -> SSAValue:
        """V of a block."""
        size = self.slot_place(len(self.form.slots), len(self.form.elements))
        return self.context.scratch(self.products.sums, size, thread)

    def channel_image(self, thread: SSAValue) -> SSAValue:
        return self.context.scratch(self.products.sums, self.image_size(as_dim(1)), thread)

    @property
    def columns_grain(self) -> Ix:
        """How many tiles of output channels of a block are enough work for a thread."""
        work = self.depth * (len(self.form.slots) * self.tiles * self.tile.vectors // 2)
        return self.e.ix(self.e.grain_cycles) // work.max(1) + 1

    def shared_block(self, number: Ix) -> None:
        """An image of one block: V is made by all threads, then each has some output channels."""
        e, patches = self.e, self.patches(None)
        with e.parallel(self.depth, self.image.channels_grain()) as (lower, upper, thread):
            self.transform_block(number, e.ix(0), patches, self.channel_image(thread), lower, upper)
        with e.parallel(self.column_tiles, self.columns_grain) as (lower, upper, thread):
            self.multiply_block(number, e.ix(0), patches, lower, upper, thread)

    def own_blocks(self, number: Ix, blocks: int, rows: int) -> None:
        """An image of several blocks: each thread makes V of the blocks that it computes, some output channels of the
        first and the last one.  What another core has written is slow to read."""
        e, tiles = self.e, self.column_tiles
        with e.parallel(tiles * blocks, self.columns_grain) as (lower, upper, thread):
            patches, image = self.patches(thread), self.channel_image(thread)
            with e.loop(lower // tiles, (upper - 1) // tiles + 1, nonempty=True) as loop:
                # the last block may begin before the one before it ends
                first, start = (loop.index * self.block).min(rows - self.block), loop.index * tiles
                self.transform_block(number, first, patches, image, e.ix(0), self.depth)
                left, right = (lower - start).max(0), (upper - start).min(tiles)
                self.multiply_block(number, first, patches, left, right, thread)

    def slot_place(self, slot: int, element: int) -> Dim:
        return as_dim(slot * self.c.depth.value * self.places + element * self.tile.lanes)

    def transform_block(self, number: Ix, first: Ix, patches: SSAValue, image: SSAValue, lower: Ix, upper: Ix) -> None:
        """patches[term, channel, position of the block] = B^T d B, for some channels; their rows are copied first."""
        rows = self.windows.axes[0]
        part = RowRange(first, first + (self.block + (rows.kernel.value - 1) // rows.stride))
        with self.e.loop(lower, upper, nonempty=True) as loop:
            source = number * self.depth + loop.index
            self.image.copy_channel(self.input_rows, source, image, self.e.ix(0), part)
            self.transform_channel(image, first * self.pitch, patches, loop.index * self.places)

    def transform_channel(self, image: SSAValue, start: Ix, patches: SSAValue, at: Ix) -> None:
        e, lanes = self.e, self.tile.lanes
        for place in range(0, self.places, lanes):
            mask = e.mask(self.places - place, lanes) if place + lanes > self.places else None
            values = self.transformed(image, start + place)
            for slot, (value, element) in enumerate(zip(values, self.form.slot_elements)):
                e.store_vector(value, patches, at + e.dim(self.slot_place(slot, element)) + place, mask)

    def multiply_block(self, number: Ix, first: Ix, patches: SSAValue, lower: Ix, upper: Ix, thread: SSAValue) -> None:
        """Some tiles of output channels of a block."""
        e, tile, context, sums = self.e, self.tile, self.context, self.products.sums
        products = context.scratch(sums, as_dim(len(self.form.elements) * self.tiles * tile.columns), thread)
        pixels = self.form.results * self.tiles + tile.lanes
        results = context.scratch(sums, as_dim(tile.vectors * pixels * tile.lanes), thread)
        square = context.scratch(sums, as_dim(tile.lanes * tile.lanes), thread)
        with e.loop(lower, upper, nonempty=True) as loop:
            self.multiply_columns(patches, products, loop.index)
            self.transform_columns(products, results, pixels)
            for v in range(tile.vectors):
                channel = loop.index * tile.columns + v * tile.lanes
                self.store_pixels(number, channel, first, results, v * pixels, square)

    def multiply_columns(self, patches: SSAValue, products: SSAValue, column_tile: Ix) -> None:
        """products[element, tile of the block, channel]: products of terms, summed over channels."""
        for group in self.form.groups:
            with self.e.loop(0, group.count) as elements:
                self.multiply_group(patches, products, column_tile, group, elements.index)

    def multiply_group(self, patches: SSAValue, products: SSAValue, column_tile: Ix, group: Group, number: Ix) -> None:
        e, whole, depth = self.e, self.tile, self.c.depth.value
        parts = heights(self.tiles, whole.rows)
        share = -(-whole.columns // len(parts))
        slot = column_tile * len(self.form.slots) + number * group.terms + group.slot
        weights_at = slot * (depth * whole.columns)
        patches_at = number * e.dim(self.slot_place(group.terms, 1)) + e.dim(self.slot_place(group.slot, group.first))
        depth = depth * group.terms
        first = 0
        for part, height in enumerate(parts):
            tile = RegisterTile(height, whole.vectors, whole.lanes)
            places = [(p // self.columns) * self.pitch + p % self.columns for p in range(first, first + height)]
            # each register tile asks for its share of the next element's weights
            ahead = weights_at + depth * (whole.columns + part * share)

            def factors(indices: list[Ix], places: list[int] = places, ahead: Ix = ahead) -> Factors:
                [k] = indices
                at, weight = k * self.places + patches_at, k * whole.columns + weights_at
                for line in range(0, share if self.steps_ahead else 0, LINE // self.products.bytes):
                    e.prefetch(self.weights, k * share + ahead + line)
                vectors = [
                    e.load_vector(self.weights, weight + v * whole.lanes, whole.lanes) for v in range(whole.vectors)
                ]
                return vectors, lambda r: self.products.load(e, patches, at + places[r])

            totals = tile.accumulate(e, self.products, [depth], factors)
            for i, total in enumerate(totals):
                row = (number + group.first) * self.tiles + (first + i // tile.vectors)
                e.store_vector(total, products, row * whole.columns + i % tile.vectors * tile.lanes)
            first += height

    def transform_columns(self, products: SSAValue, results: SSAValue, pixels: int) -> None:
        """results[vector of channels, row and column of the block's results, channel] = A^T M A."""
        e, tile, lanes = self.e, self.tile, self.tile.lanes
        with e.loop(0, self.block) as rows, e.loop(0, self.columns) as columns:
            at = (rows.index * self.columns + columns.index) * tile.columns
            down, wide = (line.outputs for line in self.form.lines)
            to = rows.index * (down * wide * self.columns) + columns.index * wide
            for v in range(tile.vectors):
                sums = [
                    e.load_vector(products, at + (element * self.tiles * tile.columns + v * lanes), lanes)
                    for element in range(len(self.form.elements))
                ]
                for i, line in enumerate(self.form.results_of(e, sums)):
                    for j, value in enumerate(line):
                        place = to + (v * pixels + i * wide * self.columns + j)
                        e.store_vector(value, results, place * lanes)

    def store_pixels(self, number: Ix, channel: Ix, first: Ix, results: SSAValue, at: int, square: SSAValue) -> None:
        """The epilogue and the stores of a vector of channels: row by row, or all pixels as one row."""
        e, lanes = self.e, self.tile.lanes
        height, width = (a.out.value for a in self.c.windows.axes)
        down, wide = (line.outputs for line in self.form.lines)
        most = down * self.block
        count = (height - first * down).min(most) if height % down else e.ix(most)
        across = wide * self.columns
        if self.flat and across == width:
            with e.loop(0, count * width, lanes) as loop:
                index = [e.ix(0), first * (down * width) + loop.index]
                self.store_square(number, channel, index, results, loop.index + at, count * width - loop.index, square)
            return
        with e.loop(0, count) as lines, e.loop(0, width, lanes) as along:
            index = [first * down + lines.index, along.index]
            place = lines.index * across + along.index + at
            self.store_square(number, channel, index, results, place, width - along.index, square)

    def store_square(
        self, number: Ix, channel: Ix, index: Sequence[Ix], results: SSAValue, place: Ix, left: Ix, square: SSAValue
    ) -> None:
        """A vector of pixels of each channel of a vector; `left` pixels are there."""
        e, lanes = self.e, self.tile.lanes
        rows = [e.load_vector(results, (place + i) * lanes, lanes) for i in range(lanes)]
        for i, value in enumerate(transpose(e, rows)):
            e.store_vector(value, square, i * lanes)
        mask = e.mask(left, lanes)
        count = (self.rows - channel).min(lanes)
        together = self.context.points_in_step(self.op)

        def store(row: Ix, channels: int) -> None:
            points: list[list[SSAValue]] = []
            places: list[list[Scalar]] = []
            for r in range(channels):
                value = e.load_vector(square, (row + r) * lanes, lanes)
                points.append([self.products.narrow(e, value, stored_type(self.op))])
                places.append([plain(i) for i in (number, channel + row + r, *index)])
            self.context.store_in_step(self.op, points, places, mask)

        whole = count // together * together if together > 1 else e.ix(0)
        if together > 1:
            with e.loop(0, whole, together) as loop:
                store(loop.index, together)
        with e.loop(whole, count) as loop:
            store(loop.index, 1)
