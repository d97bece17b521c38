"""Writes an image's channels, padded and split into phases, into scratch (see `window`)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects.dims import Dim
from .emit import Emitter, Ix
from .register_tile import Products
from .window import Windows


class PhaseImage:
    """Copies channels.  Every store is inside of the channel's own part, so that channels can be copied at once."""

    def __init__(self, e: Emitter, products: Products, windows: Windows) -> None:
        self.e, self.products, self.windows = e, products, windows

    @property
    def lanes(self) -> int:
        return self.e.target.lanes(self.products.bytes)

    @property
    def row_buffer(self) -> Dim | None:
        """Elements of scratch that copying one channel needs: a padded row before it is split."""
        last = self.windows.axes[-1]
        return None if last.stride == 1 else self._row_length() + 2 * self.lanes

    def _row_length(self) -> Dim:
        last = self.windows.axes[-1]
        return last.padded if last.stride == 1 else last.extent * last.stride

    def copy_channel(self, source: SSAValue, source_at: Ix, image: SSAValue, at: Ix, row: SSAValue | None) -> None:
        """One channel from source[source_at..] to image[at..]; `row` is scratch of `row_buffer` elements."""
        e, axes = self.e, self.windows.axes
        extents: list[Ix] = []
        for axis, extent in zip(axes[:-1], self.windows.extents):
            extents += [e.ix(axis.phases), e.dim(extent)]

        def copy(indices: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            pairs = list(zip(indices[::2], indices[1::2]))
            self._copy_row(source, source_at, image, at, row, pairs)
            return []

        e.nest(extents, [], copy)

    def _copy_row(
        self, source: SSAValue, source_at: Ix, image: SSAValue, at: Ix, row: SSAValue | None, outer: list[tuple[Ix, Ix]]
    ) -> None:
        """The row at a (phase, index) on each outer axis."""
        e, axes = self.e, self.windows.axes
        last = axes[-1]
        inside: SSAValue | None = None
        phase, place, from_row = e.ix(0), at, e.ix(0)
        for axis, pitch, (p, t) in zip(axes[:-1], self.windows.pitches, outer):
            y = t * axis.stride + p - e.dim(axis.before)
            # one unsigned comparison tells both ends
            valid = y.compare("ult", e.dim(axis.size))
            inside = valid if inside is None else e.both(inside, valid)
            phase = phase * axis.phases + p
            place = place + t * e.dim(pitch)
            from_row = from_row * e.dim(axis.size) + y
        place = place + phase * last.phases * e.dim(self.windows.phase)
        before, length = e.dim(last.before), e.dim(self._row_length())
        count = e.dim(last.size).min(length - before)
        if inside is not None:
            count = e.select_index(inside, count, 0)
        origin = from_row * e.dim(last.size) + source_at
        if row is None:
            self._write_row(source, origin, image, place, before, count, length)
            return
        self._write_row(source, origin, row, e.ix(0), before, count, length)
        self._split_row(row, image, place)

    def _write_row(
        self, source: SSAValue, origin: Ix, row: SSAValue, at: Ix, before: Ix, count: Ix, length: Ix
    ) -> None:
        """row[at..] = `before` zeros, `count` elements, zeros up to `length`."""
        e, lanes = self.e, self.lanes
        self._zeros(row, at, before)
        with e.loop(0, count, lanes) as loop:
            mask = e.mask(count - loop.index, lanes)
            values = self.products.load_vector(e, source, loop.index + origin, lanes, mask)
            e.store_vector(values, row, loop.index + at + before, mask)
        self._zeros(row, at + before + count, length - before - count)

    def _zeros(self, row: SSAValue, at: Ix, count: Ix) -> None:
        if count.known == 0:
            return
        e, lanes = self.e, self.lanes
        zero = e.constant(0, self.products.sums, lanes)
        with e.loop(0, count, lanes) as loop:
            e.store_vector(zero, row, loop.index + at, e.mask(count - loop.index, lanes))

    def _split_row(self, row: SSAValue, image: SSAValue, at: Ix) -> None:
        """Every stride-th element of the row, for each phase."""
        e, lanes, last = self.e, self.lanes, self.windows.axes[-1]
        extent = e.dim(last.extent)
        with e.loop(0, extent, lanes) as loop:
            mask = e.mask(extent - loop.index, lanes)
            for phase in range(last.phases):
                if last.stride == 2:
                    low = e.load_vector(row, loop.index * 2, lanes)
                    high = e.load_vector(row, loop.index * 2 + lanes, lanes)
                    values = e.shuffle(low, high, range(phase, 2 * lanes, 2))
                else:
                    offsets = e.ramp(loop.index * last.stride + phase, last.stride, lanes)
                    values = e.gather(row, offsets, mask)
                e.store_vector(values, image, loop.index + at + e.dim(self.windows.phase) * phase, mask)

    def write_table(self, table: SSAValue) -> None:
        """table[tap] = what the tap adds to q, taps in row-major order."""
        e, windows = self.e, self.windows

        def write(indices: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            number, phase, shift = e.ix(0), e.ix(0), e.ix(0)
            for axis, pitch, k in zip(windows.axes, windows.pitches, indices):
                number = number * e.dim(axis.kernel) + k
                phase = phase * axis.phases + (k * axis.dilation) % axis.stride
                shift = shift + (k * axis.dilation) // axis.stride * e.dim(pitch)
            e.store((phase * e.dim(windows.phase) + shift).ssa, table, number)
            return []

        e.nest([e.dim(a.kernel) for a in windows.axes], [], write)
