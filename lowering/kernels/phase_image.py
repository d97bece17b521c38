"""Writes an image's channels, padded and split into phases, into scratch (see `window`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from .emit import Emitter, Ix
from .register_tile import Products
from .rows import MOST_UNROLLED, Row, Rows
from .window import Axis, Windows

MOST_PHASES = 4
"""Phases of a row that are written out one by one."""
SPLIT = (2, 4)
"""Strides whose phases are made together, of whole vectors."""


@dataclass(frozen=True)
class RowPhase:
    """A phase of a row: elements u of it are x[u * stride + residue], from place `start` on, up to place `length`."""

    place: Ix
    start: Ix
    residue: Ix
    length: Ix


class PhaseImage:
    """Copies channels.  Every store is inside of the channel's own part, so that channels can be copied at once."""

    def __init__(self, e: Emitter, products: Products, windows: Windows) -> None:
        self.e, self.products, self.windows = e, products, windows
        self.padding = True
        """Whether the padding is written too."""

    @property
    def lanes(self) -> int:
        return self.e.target.lanes(self.products.bytes)

    # What is copied

    def filler(self) -> SSAValue:
        """A vector of what is in the padding."""
        return self.e.constant(0, self.products.sums, self.lanes)

    def contiguous(self, row: Row, column: Ix, count: Ix | None) -> SSAValue:
        """A vector of neighbouring elements; from the `count`-th on, which need not be there, it is the filler."""
        return row.vector(column, 1, count)

    def strided(self, row: Row, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        """As `contiguous`, of every stride-th element."""
        return row.vector(column, stride, count)

    # Rows

    def write_padding(self, image: SSAValue, at: Ix) -> None:
        """Fills a channel's place, so that `copy_inside` may follow."""
        self._fill(image, at, self.e.dim(self.windows.channel))

    def copy_inside(self, source: Rows, channel: Ix, image: SSAValue, at: Ix) -> None:
        """As `copy_channel` where the padding is there already."""
        self.padding = False
        self.copy_channel(source, channel, image, at)
        self.padding = True

    def copy_channel(self, source: Rows, channel: Ix, image: SSAValue, at: Ix) -> None:
        """One channel, counted through all images, to image[at..]."""
        e, axes = self.e, self.windows.axes
        if len(axes) == 1:
            self._copy_row(source.row(channel, []), image, at)
            return
        outer, rows = axes[:-2], axes[-2]
        extents: list[Ix] = []
        for axis, extent in zip(outer, self.windows.extents):
            extents += [e.ix(axis.phases), e.dim(extent)]

        def copy(indices: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            inside: SSAValue | None = None
            phase, place, index = e.ix(0), at, list[Ix]()
            for axis, pitch, p, t in zip(outer, self.windows.pitches, indices[::2], indices[1::2]):
                y = t * axis.stride + p - e.dim(axis.before)
                # one unsigned comparison tells both ends
                valid = y.compare("ult", e.dim(axis.size))
                inside = valid if inside is None else e.both(inside, valid)
                phase = phase * axis.phases + p
                place = place + t * e.dim(pitch)
                index.append(y)
            with e.loop(0, rows.phases) as phases:
                number = phase * rows.phases + phases.index
                start = number * (axes[-1].phases * e.dim(self.windows.phase)) + place

                def row(y: Ix) -> Row:
                    return source.row(channel, [*index, y])

                self._copy_plane(row, image, start, phases.index, inside)
            return []

        e.nest(extents, [], copy)

    def _copy_plane(
        self, row: Callable[[Ix], Row], image: SSAValue, at: Ix, phase: Ix, inside: SSAValue | None
    ) -> None:
        """All rows of a phase of the rows' axis: those of the padding, and those of the input's plane between."""
        e, rows = self.e, self.windows.axes[-2]
        extent, pitch = e.dim(self.windows.extents[-2]), e.dim(self.windows.pitches[-2])
        first, end = self._inside(rows, phase, extent)
        if inside is not None:
            first, end = e.select_index(inside, first, extent), e.select_index(inside, end, extent)
        for lower, upper in ((e.ix(0), first), (end, extent)) if self.padding else ():
            if lower.known is None or lower.known != upper.known:
                with e.loop(lower, upper) as loop:
                    self._fill_row(image, loop.index * pitch + at)
        with e.loop(first, end) as loop:
            y = loop.index * rows.stride + (phase - e.dim(rows.before))
            self._copy_row(row(y), image, loop.index * pitch + at)

    def _inside(self, axis: Axis, phase: Ix, extent: Ix) -> tuple[Ix, Ix]:
        """Which indices of a phase are of the input."""
        before, size, stride = self.e.dim(axis.before), self.e.dim(axis.size), axis.stride
        first = (before - phase + (stride - 1)) // stride
        end = (before - phase + size + (stride - 1)) // stride
        return first.min(extent), end.min(extent)

    def _row_phase(self, place: Ix, phase: Ix | int) -> RowPhase:
        e, last = self.e, self.windows.axes[-1]
        p, length, before = e.ix(phase), e.dim(self.windows.row_elements), e.dim(last.before)
        start = (before - p + (last.stride - 1)).max(0) // last.stride
        at = place + p * e.dim(self.windows.phase)
        return RowPhase(at, start.min(length), start * last.stride + p - before, length)

    def _each_phase(self, place: Ix, do: Callable[[RowPhase], None]) -> None:
        """Every phase of a row: few of them one by one, many in a loop."""
        phases = self.windows.axes[-1].phases
        if phases <= MOST_PHASES:
            for p in range(phases):
                do(self._row_phase(place, p))
            return
        with self.e.loop(0, phases, nonempty=True) as loop:
            do(self._row_phase(place, loop.index))

    def write_behind(self, image: SSAValue, at: Ix, count: int) -> None:
        """Fills what is behind the last channel: vectors of a channel's end read on there, and what they read is no
        result's.  Without it they would read what another kernel left."""
        self._fill(image, at, self.e.ix(count))

    def _fill_row(self, image: SSAValue, place: Ix) -> None:
        """A row of padding only."""
        self._each_phase(place, lambda phase: self._fill(image, phase.place, phase.length))

    def _fill(self, image: SSAValue, at: Ix, count: Ix) -> None:
        e, lanes = self.e, self.lanes
        filler = self.filler()

        def write(start: Ix, whole: bool) -> None:
            e.store_vector(filler, image, at + start, None if whole else e.mask(count - start, lanes))

        self._vectors(count // lanes if count.known is not None else e.ix(0), count, write)

    def _vectors(self, whole: Ix, count: Ix, write: Callable[[Ix, bool], None], unrolled: int = MOST_UNROLLED) -> None:
        """Calls `write(start, whole)` for vectors up to `count`: the first `whole` ones, and those of which a part is
        there.  Up to `unrolled` of them are written out."""
        e, lanes = self.e, self.lanes
        number = count.ceildiv(lanes)
        if number.known is not None and number.known <= unrolled and whole.known is not None:
            for v in range(number.known):
                write(e.ix(v * lanes), v < whole.known)
            return
        if whole.known != 0:
            with e.loop(0, whole * lanes, lanes) as loop:
                write(loop.index, True)
        with e.loop(whole * lanes, count, lanes) as loop:
            write(loop.index, False)

    def _copy_row(self, row: Row, image: SSAValue, place: Ix) -> None:
        """A row of the input."""
        last = self.windows.axes[-1]

        def fill(phase: RowPhase) -> None:
            if self.padding and phase.start.known != 0:
                self._fill(image, phase.place, phase.start)

        def copy(phase: RowPhase) -> None:
            fill(phase)
            self._copy_phase(row, image, phase)

        if last.stride in SPLIT:
            phases = [self._row_phase(place, p) for p in range(last.phases)]
            if all(p.residue.known is not None for p in phases):
                for phase in phases:
                    fill(phase)
                self._split(row, image, phases)
                return
        self._each_phase(place, copy)

    def _copy_phase(self, row: Row, image: SSAValue, phase: RowPhase) -> None:
        e, lanes, last = self.e, self.lanes, self.windows.axes[-1]
        elements = (e.dim(last.size) - phase.residue + (last.stride - 1)).max(0) // last.stride
        room = phase.length - phase.start
        if not self.padding:
            room = room.min(elements)

        def write(start: Ix, whole: bool) -> None:
            left = None if whole else elements - start
            if last.stride == 1:
                values = self.contiguous(row, start, left)
            else:
                values = self.strided(row, start * last.stride + phase.residue, last.stride, left)
            mask = None if whole else e.mask(room - start, lanes)
            e.store_vector(values, image, start + (phase.place + phase.start), mask)

        self._vectors(elements.min(room) // lanes, room, write, row.unrolled)

    def _split(self, row: Row, image: SSAValue, phases: list[RowPhase]) -> None:
        """All phases of a row from its vectors, each of which is read once."""
        e, lanes = self.e, self.lanes
        last = self.windows.axes[-1]
        size, stride = e.dim(last.size), last.stride
        rooms = [p.length - p.start for p in phases]
        if not self.padding:
            rooms = [room.min((size - p.residue + (stride - 1)) // stride) for room, p in zip(rooms, phases)]

        def write(start: Ix, whole: bool) -> None:
            left = None if whole else size - start * stride
            vectors = [
                self.contiguous(row, start * stride + v * lanes, None if left is None else left - v * lanes)
                for v in range(stride)
            ]
            residues = self._residues(vectors)
            for phase, room in zip(phases, rooms):
                residue = phase.residue.known
                assert residue is not None
                mask = None if whole else e.mask(room - start, lanes)
                e.store_vector(residues[residue], image, start + (phase.place + phase.start), mask)

        # whole vectors are whole in all that is read and written
        fewest = size // stride
        most = rooms[0]
        for room in rooms:
            fewest, most = fewest.min(room), most.max(room)
        self._vectors(fewest // lanes, most, write, row.unrolled)

    def _residues(self, vectors: list[SSAValue]) -> list[SSAValue]:
        """The elements of neighbouring vectors by their place modulo the number of vectors, a power of two."""
        if len(vectors) == 1:
            return vectors
        e, lanes = self.e, self.lanes
        pairs = list(zip(vectors[::2], vectors[1::2]))
        halves = [
            self._residues([e.shuffle(low, high, range(odd, 2 * lanes, 2)) for low, high in pairs]) for odd in range(2)
        ]
        return [value for both in zip(*halves) for value in both]

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
