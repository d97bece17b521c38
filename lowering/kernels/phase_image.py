"""Writes an image's channels, padded and split into phases, into scratch (see `window`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
    """A phase of a row: elements u of it are x[u * stride + residue], from place `start` on, up to place `length`.

    `offset` is from the row's place to the phase's.
    """

    offset: Ix
    start: Ix
    residue: Ix
    length: Ix


EachRow: TypeAlias = Callable[[Callable[[Row, Ix], None]], None]
"""Does something with each row of the input and its place, in a loop or for the only one."""

VECTOR_CYCLES = 4
"""What a vector takes, about, to be copied."""


@dataclass(frozen=True)
class RowRange:
    """Rows of each phase's plane, from `lower` to `upper`."""

    lower: Ix
    upper: Ix


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

    def channels_grain(self) -> Ix:
        """How many channels' copies are enough work for a thread."""
        vectors = self.e.dim(self.windows.channel) // self.lanes + 1
        return self.e.ix(self.e.grain_cycles) // (vectors * VECTOR_CYCLES) + 1

    def rows_of(self, first: Ix, end: Ix, pitch: Ix) -> RowRange:
        """The rows that windows read at the positions from `first` to `end` of an image of two axes, `pitch` of them a
        row."""
        rows = self.windows.axes[-2]
        extent, reach = self.e.dim(self.windows.extents[-2]), self.e.dim(rows.reach // rows.stride)
        return RowRange(first // pitch, ((end - 1) // pitch + (reach + 1)).min(extent))

    def copy_channel(self, source: Rows, channel: Ix, image: SSAValue, at: Ix, part: RowRange | None = None) -> None:
        """One channel, counted through all images, to image[at..]; or some of its rows."""
        e, axes = self.e, self.windows.axes
        if len(axes) == 1:
            self._copy_rows(lambda do: do(source.row(channel, []), at), image, source.unrolled)
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

                self._copy_plane(row, image, start, phases.index, inside, source.unrolled, part)
            return []

        e.nest(extents, [], copy)

    def _copy_plane(
        self,
        row: Callable[[Ix], Row],
        image: SSAValue,
        at: Ix,
        phase: Ix,
        inside: SSAValue | None,
        unrolled: int,
        part: RowRange | None,
    ) -> None:
        """Rows of a phase of the rows' axis: those of the padding, and those of the input's plane between."""
        e, rows = self.e, self.windows.axes[-2]
        extent, pitch = e.dim(self.windows.extents[-2]), e.dim(self.windows.pitches[-2])
        first, end = self._inside(rows, phase, extent)
        if inside is not None:
            first, end = e.select_index(inside, first, extent), e.select_index(inside, end, extent)
        start = e.ix(0)
        if part is not None:
            start, extent = part.lower, part.upper
            first, end = (i.max(start).min(extent) for i in (first, end))
        for lower, upper in ((start, first), (end, extent)) if self.padding else ():
            if lower.known is None or lower.known != upper.known:
                self._fill_rows(image, at, lower, upper, pitch)

        def each(do: Callable[[Row, Ix], None]) -> None:
            with e.loop(first, end) as loop:
                y = loop.index * rows.stride + (phase - e.dim(rows.before))
                do(row(y), loop.index * pitch + at)

        self._copy_rows(each, image, unrolled)

    def _inside(self, axis: Axis, phase: Ix, extent: Ix) -> tuple[Ix, Ix]:
        """Which indices of a phase are of the input."""
        before, size, stride = self.e.dim(axis.before), self.e.dim(axis.size), axis.stride
        first = (before - phase + (stride - 1)) // stride
        end = (before - phase + size + (stride - 1)) // stride
        return first.min(extent), end.min(extent)

    def _row_phase(self, phase: Ix | int) -> RowPhase:
        e, last = self.e, self.windows.axes[-1]
        p, length, before = e.ix(phase), e.dim(self.windows.row_elements), e.dim(last.before)
        start = (before - p + (last.stride - 1)).max(0) // last.stride
        return RowPhase(p * e.dim(self.windows.phase), start.min(length), start * last.stride + p - before, length)

    def _each_phase(self, do: Callable[[RowPhase], None]) -> None:
        """Every phase of a row: few of them one by one, many in a loop."""
        phases = self.windows.axes[-1].phases
        if phases <= MOST_PHASES:
            for p in range(phases):
                do(self._row_phase(p))
            return
        with self.e.loop(0, phases, nonempty=True) as loop:
            do(self._row_phase(loop.index))

    def write_behind(self, image: SSAValue, at: Ix, count: int) -> None:
        """Fills what is behind the last channel: vectors of a channel's end read on there, and what they read is no
        result's.  Without it they would read what another kernel left."""
        self._fill(image, at, self.e.ix(count))

    def _fill_rows(self, image: SSAValue, at: Ix, lower: Ix, upper: Ix, pitch: Ix) -> None:
        """Rows of padding only."""
        e, lanes, filler = self.e, self.lanes, self.filler()

        def fill(phase: RowPhase) -> None:
            def write(start: Ix, whole: bool) -> None:
                mask = None if whole else e.mask(phase.length - start, lanes)
                with e.loop(lower, upper) as loop:
                    e.store_vector(filler, image, loop.index * pitch + (start + at + phase.offset), mask)

            length = phase.length
            self._vectors(length // lanes if length.known is not None else e.ix(0), length, write)

        self._each_phase(fill)

    def _fill(self, image: SSAValue, at: Ix, count: Ix) -> None:
        e, lanes = self.e, self.lanes
        filler = self.filler()

        def write(start: Ix, whole: bool) -> None:
            e.store_vector(filler, image, at + start, None if whole else e.mask(count - start, lanes))

        self._vectors(count // lanes if count.known is not None else e.ix(0), count, write)

    def _are_few(self, whole: Ix, count: Ix, unrolled: int = MOST_UNROLLED) -> bool:
        """Whether the vectors up to `count`, of which `whole` are whole, are few and known: so they are written out."""
        number = count.ceildiv(self.lanes)
        return number.known is not None and number.known <= unrolled and whole.known is not None

    def _vectors(self, whole: Ix, count: Ix, write: Callable[[Ix, bool], None]) -> None:
        """Calls `write(start, whole)` for vectors up to `count`: the first `whole` ones, and those of which a part is
        there.  A few known ones are written out."""
        e, lanes = self.e, self.lanes
        if self._are_few(whole, count):
            for v in range(count.ceildiv(lanes).known or 0):
                write(e.ix(v * lanes), v < (whole.known or 0))
            return
        if whole.known != 0:
            with e.loop(0, whole * lanes, lanes) as loop:
                write(loop.index, True)
        with e.loop(whole * lanes, count, lanes) as loop:
            write(loop.index, False)

    def _copy_rows(self, each: EachRow, image: SSAValue, unrolled: int) -> None:
        """Rows of the input.  Masks of vectors that are not whole are made once for all rows."""
        last = self.windows.axes[-1]
        if last.phases > MOST_PHASES:

            def all_phases(row: Row, place: Ix) -> None:
                self._each_phase(lambda phase: self._copy_phases(lambda do: do(row, place), image, [phase], unrolled))

            each(all_phases)
            return
        phases = [self._row_phase(p) for p in range(last.phases)]
        if last.stride in SPLIT and all(p.residue.known is not None for p in phases):
            self._copy_phases(each, image, phases, unrolled, split=True)
            return
        for phase in phases:
            self._copy_phases(each, image, [phase], unrolled)

    def _copy_phases(
        self, each: EachRow, image: SSAValue, phases: list[RowPhase], unrolled: int, split: bool = False
    ) -> None:
        """One phase of rows, or all of them from vectors that are read once."""
        e, lanes, last = self.e, self.lanes, self.windows.axes[-1]
        size, stride = e.dim(last.size), last.stride
        elements = [((size - p.residue + (stride - 1)).max(0)) // stride for p in phases]
        rooms = [p.length - p.start for p in phases]
        if not self.padding:
            rooms = [room.min(count) for room, count in zip(rooms, elements)]
        most, whole = rooms[0], size // stride if split else elements[0]
        for room in rooms:
            # whole vectors are whole in all that is read and written
            most, whole = most.max(room), whole.min(room)
        whole = whole // lanes

        def values_at(row: Row, start: Ix, is_whole: bool) -> list[SSAValue]:
            if split:
                left = None if is_whole else size - start * stride
                vectors = [
                    self.contiguous(row, start * stride + v * lanes, None if left is None else left - v * lanes)
                    for v in range(stride)
                ]
                residues = self._residues(vectors)
                return [residues[p.residue.known or 0] for p in phases]
            [phase], [count] = phases, elements
            left = None if is_whole else count - start
            if stride == 1:
                return [self.contiguous(row, start, left)]
            return [self.strided(row, start * stride + phase.residue, stride, left)]

        def write(row: Row, place: Ix, start: Ix, is_whole: bool) -> None:
            for phase, room, values in zip(phases, rooms, values_at(row, start, is_whole)):
                mask = None if is_whole else e.mask(room - start, lanes)
                e.store_vector(values, image, start + (place + phase.offset + phase.start), mask)

        def fill(place: Ix) -> None:
            for phase in phases:
                if self.padding and phase.start.known != 0:
                    self._fill(image, place + phase.offset, phase.start)

        if self._are_few(whole, most, unrolled):

            def all_vectors(row: Row, place: Ix) -> None:
                fill(place)
                for v in range(most.ceildiv(lanes).known or 0):
                    write(row, place, e.ix(v * lanes), v < (whole.known or 0))

            each(all_vectors)
            return

        def whole_vectors(row: Row, place: Ix) -> None:
            fill(place)
            with e.loop(0, whole * lanes, lanes) as loop:
                write(row, place, loop.index, True)

        each(whole_vectors)
        with e.loop(whole * lanes, most, lanes) as loop:
            each(lambda row, place: write(row, place, loop.index, False))

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
            number = e.ix(0)
            for axis, k in zip(windows.axes, indices):
                number = number * e.dim(axis.kernel) + k
            e.store(self.tap_place(indices).ssa, table, number)
            return []

        e.nest([e.dim(a.kernel) for a in windows.axes], [], write)

    def tap_place(self, tap: Sequence[Ix]) -> Ix:
        """What a tap adds to q."""
        e, windows = self.e, self.windows
        phase, shift = e.ix(0), e.ix(0)
        for axis, pitch, k in zip(windows.axes, windows.pitches, tap):
            phase = phase * axis.phases + (k * axis.dilation) % axis.stride
            shift = shift + (k * axis.dilation) // axis.stride * e.dim(pitch)
        return phase * e.dim(windows.phase) + shift
