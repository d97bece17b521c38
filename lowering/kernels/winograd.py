"""Convolution with 3x3 windows and stride 1 by Winograd's F(2x2, 3x3): 16 products for 4 results where there are 36.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).  A tile of 2x2 results takes a 4x4 patch d
of the input: V = B^T d B, M = sum over channels of U V elementwise, Y = A^T M A, with U = G w G^T made from constant
weights in f64 (`packing.pack_winograd`).  Results are closer to the exact sums than the direct form's.

The padded image is laid out in 2x2 phases (see `window`), so that element (i, j) of the patches of neighbouring tiles
is a vector.  For a block of tiles: V of all channels into scratch, then for some output channels 16 register tiles over
the channels, and their 16 sums turned into rows of results where they are stored.  Config `winograd` = [rows, vectors,
channels]: the register tile, for which the weights are packed, and whether vectors run over channels instead (see
`winograd_channels`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..template import TemplateContext
from .emit import Emitter, Ix, plain
from .epilogues import flat_epilogue
from .operands import stored_type
from .phase_image import PhaseImage
from .register_tile import Factors, Products, RegisterTile
from .rows import input_rows
from .window import Convolution
from .winograd_plan import PATCH, WinogradPlan, tile_windows


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
    ) -> None:
        self.e, self.context, self.op, self.c, self.products = e, context, op, c, products
        self.tile, self.steps_ahead = RegisterTile(plan.rows, plan.vectors, plan.lanes), plan.steps_ahead
        self.windows = tile_windows(c)
        self.image = PhaseImage(e, products, self.windows)
        self.weights = context.buffer(op.inputs[1])
        self.input_rows = input_rows(e, context, op, products)
        self.flat = flat_epilogue(context, op, len(self.windows.axes))

    def build(self) -> None:
        e = self.e
        self.take_sizes()
        self.row_tiles = self.rows.ceildiv(self.tile.rows)
        self.positions = e.dim(self.windows.positions)
        image = self.whole_image()
        with e.loop(0, e.dim(self.c.images)) as images:
            self.copy_image(image, images.index)
            self.blocks(image, images.index)

    def take_sizes(self) -> None:
        e, c = self.e, self.c
        self.depth, self.rows, self.channel = e.dim(c.depth), e.dim(c.rows), e.dim(self.windows.channel)

    def image_size(self, channels: Dim) -> Dim:
        """Elements of so many channels; vectors of the last tile may reach behind the last one."""
        return self.windows.channel * channels + 2 * self.tile.columns

    def whole_image(self) -> SSAValue:
        return self.context.scratch(self.products.sums, self.image_size(self.c.depth))

    def copy_image(self, image: SSAValue, number: Ix) -> None:
        """All channels of an image."""
        e = self.e
        grain = e.ix(2 * e.grain_cycles) // (self.channel // self.tile.lanes + 1) + 1
        with (
            e.parallel(self.depth, grain) as (lower, upper, _),
            e.loop(lower, upper, nonempty=True) as loop,
        ):
            source = number * self.depth + loop.index
            self.image.copy_channel(self.input_rows, source, image, loop.index * self.channel)

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
        with e.loop(0, self.depth) as channels, e.loop(0, tile.columns, tile.lanes) as vectors:
            start = channels.index * self.channel + (position + vectors.index)
            at = channels.index * tile.columns + vectors.index
            for element, value in enumerate(self.transformed(image, start)):
                e.store_vector(value, patches, at + e.dim(self.element_size) * element)

    def transformed(self, image: SSAValue, start: Ix) -> list[SSAValue]:
        """The elements of B^T d B for a vector of patches, of which the first one's place is `start`."""
        e, pitch, phase = self.e, self.windows.pitches[0], self.windows.phase
        offsets = [[phase * (i % 2 * 2 + j % 2) + pitch * (i // 2) + j // 2 for j in range(4)] for i in range(4)]
        patch = [[e.load_vector(image, start + e.dim(o), self.tile.lanes) for o in line] for line in offsets]
        by_rows = transposed([input_points(e, column) for column in transposed(patch)])
        return [value for row in by_rows for value in input_points(e, row)]

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
                e.load_vector(products, at + element * tile.rows * tile.columns, tile.lanes) for element in range(PATCH)
            ]
            for i, (left, right) in enumerate(self.results_of(sums)):
                place = vectors.index * 2 + i * 2 * tile.columns
                e.store_vector(e.shuffle(left, right, order[: tile.lanes]), results, place)
                e.store_vector(e.shuffle(left, right, order[tile.lanes :]), results, place + tile.lanes)

    def results_of(self, sums: Sequence[SSAValue]) -> list[list[SSAValue]]:
        """A^T M A of the sums of all elements."""
        square = [sums[i : i + 4] for i in range(0, PATCH, 4)]
        by_rows = transposed([output_points(self.e, column) for column in transposed(square)])
        return [output_points(self.e, line) for line in by_rows]

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
