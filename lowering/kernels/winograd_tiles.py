"""Winograd's algorithm (see `winograd`) for images whose sizes only a call tells.

As in `winograd_channels`, vectors run over output channels, so that an image of any size wastes no lane.  A block is
some rows of tiles, or a part of a long one, with at most a fixed number of tiles, so that V stays in L2.  Tiles of a
block stand one behind the other: register tiles run over the ends of rows, and the last one has one of a few heights.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects.dims import Dim, as_dim, dim_min
from .emit import Ix
from .register_tile import Factors, RegisterTile
from .winograd_channels import ChannelsBuilder
from .winograd_plan import last_heights, tiles_at_once


@dataclass(frozen=True)
class TileBlock:
    """Tiles of an image: so many rows and columns of them, from (`row`, `column`) on.

    Its results are rows of `width` pixels, of which `lines` times `across` are of the image; those of rows that are in
    one block as a whole are one row of the image.
    """

    row: Ix
    column: Ix
    rows: Ix
    columns: Ix
    width: Ix
    lines: Ix
    across: Ix

    @property
    def tiles(self) -> Ix:
        return self.rows * self.columns


class TilesBuilder(ChannelsBuilder):
    """Emits one such convolution; the weights are packed by columns."""

    def build(self) -> None:
        e, c, tile = self.e, self.c, self.tile
        self.take_sizes()
        self.column_tiles = self.rows.ceildiv(tile.columns)
        self.height, self.width = (e.dim(a.out) for a in self.windows.axes)
        self.row_pitch = e.dim(self.windows.pitches[0])
        most = tiles_at_once(self.form, c.depth.value, tile, self.products.bytes, e.target)
        rows = (e.ix(most) // self.width.max(1)).min(self.height).max(1)
        columns = self.width.min(most).max(1)
        self.room = rows * columns
        """Tiles in a block, from one channel of V to the next."""
        tiles = self.windows.axes[0].out * self.windows.axes[1].out
        self.most_tiles = dim_min(as_dim(most), tiles)
        self.image_buffer = self.context.scratch(self.products.sums, self.image_size(c.depth))
        slots, elements = len(self.form.slots), len(self.form.elements)
        size = self.most_tiles * (slots * c.depth.value) + (elements * tile.lanes + tile.rows)
        patches = self.context.scratch(self.products.sums, size)
        with (
            e.loop(0, e.dim(c.images)) as images,
            e.loop(0, self.height, rows) as down,
            e.loop(0, self.width, columns) as wide,
        ):
            block = self.block_at(down.index, wide.index, rows, columns)
            self.transform_tiles(images.index, block, patches)
            self.multiply_tiles(images.index, block, patches)

    def block_at(self, row: Ix, column: Ix, rows: Ix, columns: Ix) -> TileBlock:
        e, (down, across) = self.e, (line.outputs for line in self.form.lines)
        rows, columns = (self.height - row).min(rows), (self.width - column).min(columns)
        height, width = (e.dim(a.out) for a in self.c.windows.axes)
        whole = columns.compare("eq", self.width)
        pitch = e.select_index(whole, width, columns * across)
        lines = (height - row * down).min(rows * down)
        left = (width - column * across).min(pitch)
        if self.flat:
            left = e.select_index(whole, lines * width, left)
            lines = e.select_index(whole, 1, lines)
        return TileBlock(row, column, rows, columns, pitch, lines, left)

    def slot_at(self, slot: int, element: int) -> Ix:
        """As `slot_place`."""
        return self.room * (slot * self.c.depth.value) + element * self.tile.lanes

    def transform_tiles(self, number: Ix, block: TileBlock, patches: SSAValue) -> None:
        """patches[term, channel, tile of the block] = B^T d B; a channel is copied for its first block."""
        e, lanes, image = self.e, self.tile.lanes, self.image_buffer
        is_first = (block.row + block.column).compare("eq", 0)
        with (
            e.parallel(self.depth, self.image.channels_grain()) as (lower, upper, _),
            e.loop(lower, upper, nonempty=True) as loop,
        ):
            start = loop.index * self.channel
            with e.when(is_first):
                self.image.copy_channel(self.input_rows, number * self.depth + loop.index, image, start)
            with e.loop(0, block.rows) as rows, e.loop(0, block.columns, lanes) as columns:
                place = (rows.index + block.row) * self.row_pitch + (columns.index + block.column) + start
                at = loop.index * self.room + rows.index * block.columns + columns.index
                mask = e.mask(block.columns - columns.index, lanes)
                for slot, (value, element) in enumerate(zip(self.transformed(image, place), self.form.slot_elements)):
                    e.store_vector(value, patches, at + self.slot_at(slot, element), mask)

    def multiply_tiles(self, number: Ix, block: TileBlock, patches: SSAValue) -> None:
        """All tiles of output channels of a block, in parallel."""
        e, tile, context, sums = self.e, self.tile, self.context, self.products.sums
        work = self.depth * block.tiles * max(1, len(self.form.slots) * tile.vectors // 2)
        with e.parallel(self.column_tiles, e.ix(e.grain_cycles) // work.max(1) + 1) as (lower, upper, thread):
            tiles = self.most_tiles + tile.rows
            products = context.scratch(sums, tiles * (len(self.form.elements) * tile.columns), thread)
            # behind the pixels is a place for what is behind the end of a row, and what whole vectors may read
            pixels = self.most_tiles * self.form.results + (1 + tile.lanes)
            results = context.scratch(sums, pixels * tile.columns, thread)
            square = context.scratch(sums, as_dim(tile.lanes * tile.lanes), thread)
            with e.loop(lower, upper, nonempty=True) as loop:
                self.multiply_elements(block, patches, products, loop.index)
                self.transform_results(block, products, results, pixels)
                # one code for all vectors of channels: a long epilogue is most of it
                with e.loop(0, tile.vectors, nonempty=True) as vectors:
                    channel = loop.index * tile.columns + vectors.index * tile.lanes
                    self.store_block(number, channel, block, results, vectors.index * e.dim(pixels), square)

    def multiply_elements(self, block: TileBlock, patches: SSAValue, products: SSAValue, column_tile: Ix) -> None:
        """products[element, tile of the block, channel]: products of terms, summed over channels."""
        e, whole = self.e, self.tile
        tiles = block.tiles
        pitch = tiles + whole.rows

        with e.loop(0, len(self.form.elements), nonempty=True) as elements:
            slot, terms = self.terms_of(elements.index)

            def multiply(tile: RegisterTile, first: Ix) -> None:
                row = elements.index * pitch + first
                self.multiply_tile(tile, patches, products, column_tile, elements.index, slot, terms, first, row)

            lower = last_heights(whole.rows)
            # what is left takes one more tile, of a lower height where that is enough
            most = lower[-1] if lower else 0
            end = (tiles + (whole.rows - most - 1)) // whole.rows * whole.rows
            with e.loop(0, end, whole.rows) as loop:
                multiply(whole, loop.index)
            before, left = 0, tiles - end
            for height in lower:
                fits = e.both(left.compare("sgt", before), left.compare("sle", height))
                with e.when(fits):
                    multiply(RegisterTile(height, whole.vectors, whole.lanes), end)
                before = height

    def terms_of(self, element: Ix) -> tuple[Ix, Ix]:
        """The first term of an element, and how many it has: one code for all groups of them."""
        e, (first, *others) = self.e, self.form.groups
        slot, terms = element * first.terms, e.ix(first.terms)
        for group in others:
            is_in = element.compare("sge", group.first)
            slot = e.select_index(is_in, (element - group.first) * group.terms + group.slot, slot)
            terms = e.select_index(is_in, group.terms, terms)
        return slot, terms

    def multiply_tile(
        self,
        tile: RegisterTile,
        patches: SSAValue,
        products: SSAValue,
        column_tile: Ix,
        element: Ix,
        slot: Ix,
        terms: Ix,
        first: Ix,
        row: Ix,
    ) -> None:
        """A register tile of an element: the block's tiles from `first` on, to the products' rows from `row` on."""
        e, depth, width = self.e, self.c.depth.value, self.tile.columns
        weights_at = (column_tile * len(self.form.slots) + slot) * (depth * width)
        patches_at = self.room * (slot * depth) + element * self.tile.lanes + first

        def factors(indices: list[Ix]) -> Factors:
            [k] = indices
            at, weight = k * self.room + patches_at, k * width + weights_at
            vectors: list[SSAValue] = []
            for v in range(tile.vectors):
                if self.steps_ahead:
                    e.prefetch(self.weights, weight + (self.steps_ahead * width + v * tile.lanes))
                vectors.append(e.load_vector(self.weights, weight + v * tile.lanes, tile.lanes))
            return vectors, lambda r: self.products.load(e, patches, at + r)

        for i, total in enumerate(tile.accumulate(e, self.products, [terms * depth], factors)):
            place = row * width + (i // tile.vectors * width + i % tile.vectors * tile.lanes)
            e.store_vector(total, products, place)

    def transform_results(self, block: TileBlock, products: SSAValue, results: SSAValue, pixels: Dim) -> None:
        """results[vector of channels, pixel of the block, channel] = A^T M A."""
        e, tile, lanes = self.e, self.tile, self.tile.lanes
        down, wide = (line.outputs for line in self.form.lines)
        pitch = (block.tiles + tile.rows) * tile.columns
        behind = e.dim(pixels) - (1 + lanes)
        with e.loop(0, block.rows) as rows, e.loop(0, block.columns) as columns:
            at = (rows.index * block.columns + columns.index) * tile.columns
            x = columns.index * wide
            inside = [(x + j).compare("slt", block.width) for j in range(wide)]
            with e.loop(0, tile.vectors, nonempty=True) as vectors:
                lane = vectors.index * lanes + at
                sums = [
                    e.load_vector(products, pitch * element + lane, lanes) for element in range(len(self.form.elements))
                ]
                to = vectors.index * e.dim(pixels)
                for i, line in enumerate(self.form.results_of(e, sums)):
                    start = (rows.index * down + i) * block.width + x
                    for j, value in enumerate(line):
                        place = e.select_index(inside[j], start + j, behind) if j else start
                        e.store_vector(value, results, (place + to) * lanes)

    def store_block(
        self, number: Ix, channel: Ix, block: TileBlock, results: SSAValue, at: Ix, square: SSAValue
    ) -> None:
        """The epilogue and the stores of a vector of channels: row by row, or all pixels as one row."""
        e, lanes = self.e, self.tile.lanes
        down, wide = (line.outputs for line in self.form.lines)
        with e.loop(0, block.lines) as lines, e.loop(0, block.across, lanes) as along:
            y, x = block.row * down + lines.index, block.column * wide + along.index
            index = [e.ix(0), y * e.dim(self.c.windows.axes[1].out) + x] if self.flat else [y, x]
            place = lines.index * block.width + along.index + at
            self.store_square(number, channel, index, results, place, block.across - along.index, square)
