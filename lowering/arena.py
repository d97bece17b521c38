"""The memory plan: where in the arena each value and each kernel's scratch lies, for every size at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..dialects.dims import Dim, as_dim, dim_max
from .buffers import Buffer, content, covers, nominal, unit_of, value_at
from .piles import MAX_BLOCKS, Pile, best_fit, likely_sizes, lowest_piles, most_alive


def plan_offsets(buffers: list[Buffer]) -> Dim:
    """Sets every buffer's offset; returns the arena's size: at each binding the highest byte of any buffer.

    Buffers whose sizes are multiples of one expression (numbers; multiples of N; of N*H*W; ...) are planned together,
    exactly, on their coefficients.  Each stretch of time of such a class is then one block, and blocks that do not
    live at the same time share a slot, as large as the largest of them.  Where a pile of the buffers, or of the
    blocks, is lower at likely sizes, it is taken.  No proof about sizes is needed for either, so the plan holds at
    every binding and takes time in the number of buffers only.
    """
    classes = by_unit(buffers)
    blocks = [block for members in classes.values() for block in plan_class(members)]
    total = place_in_slots(blocks)
    if len(classes) > 1 and (higher := pile_up(buffers, blocks, total)) is not None:
        return higher
    return total


def place_in_slots(blocks: list[Stretch]) -> Dim:
    """Sets the offsets of the blocks' buffers; returns the end of the last slot."""
    at = as_dim(0)
    for slot in fill_slots(blocks):
        for block in slot.blocks:
            block.place(at)
        at = at + slot.size
    return at


MIN_GAIN = 0.97
"""A pile whose height is more than so much of the slots' is not worth its longer formulas."""
MAX_TRIED = 4
"""The formulas of so many piles are written, the lowest first, until those of one are short enough."""


def pile_up(buffers: Sequence[Buffer], blocks: Sequence[Stretch], total: Dim) -> Dim | None:
    """Places the buffers in the lowest pile, if there is one that needs less than `total`; returns its size."""
    real = [b for b in buffers if b.size is not as_dim(0)]
    likely = likely_sizes({s for b in real for s in b.size.symbols})
    floors = [max(1, most_alive(real, [value_at(b.size, at) for b in real])) for at in likely]
    found: list[tuple[float, Pile]] = []
    for parts in (real, blocks):
        if len(parts) <= MAX_BLOCKS:
            found += [(excess(heights, floors), pile) for heights, pile in lowest_piles(parts, likely)]
    limit = MIN_GAIN * excess([value_at(total, at) for at in likely], floors)
    for waste, pile in sorted(found, key=lambda entry: entry[0])[:MAX_TRIED]:
        if waste < limit and (plan := pile.offsets()) is not None:
            for block, offset in zip(pile.blocks, plan[0], strict=True):
                if isinstance(block, Buffer):
                    block.offset = offset
                elif isinstance(block, Stretch):
                    block.place(offset)
            return plan[1]
    return None


def excess(peaks: Sequence[int], floors: Sequence[int]) -> float:
    """How much more than what lives at one time a plan needs, over all likely sizes."""
    return sum(peak / floor for peak, floor in zip(peaks, floors, strict=True))


def by_unit(buffers: list[Buffer]) -> dict[Dim, list[Buffer]]:
    """Buffers by what their sizes, multiples of the alignment, are multiples of."""
    classes: dict[Dim, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.size is as_dim(0):
            buffer.offset = as_dim(0)
            continue
        classes.setdefault(unit_of(buffer.size), []).append(buffer)
    return classes


@dataclass(eq=False)
class Stretch:
    """Buffers of one class over one stretch of time; offsets and `length` count units."""

    unit: Dim
    buffers: list[Buffer]
    offsets: list[int]
    length: int

    @property
    def size(self) -> Dim:
        return self.length * self.unit

    def place(self, at: Dim) -> None:
        """Sets the buffers' offsets, with the block's own at `at`."""
        for buffer, offset in zip(self.buffers, self.offsets, strict=True):
            buffer.offset = at + offset * self.unit

    @property
    def first(self) -> int:
        return min(b.first for b in self.buffers)

    @property
    def last(self) -> int:
        return max(b.last for b in self.buffers)


def plan_class(members: list[Buffer]) -> Iterator[Stretch]:
    """Cuts a class into stretches of time with nothing alive between, and packs each by best fit."""
    unit = unit_of(members[0].size)
    stretch: list[Buffer] = []
    end = -1
    for buffer in sorted(members, key=lambda b: (b.first, b.last)):
        if stretch and buffer.first > end:
            yield packed(unit, stretch)
            stretch = []
        stretch.append(buffer)
        end = max(end, buffer.last)
    yield packed(unit, stretch)


def packed(unit: Dim, members: list[Buffer]) -> Stretch:
    """Largest first, each in the smallest gap that holds it between those it meets, else on top."""
    lengths = {id(b): content(b.size) for b in members}
    offsets = best_fit(sorted(members, key=lambda b: (-lengths[id(b)], b.first)), lengths)
    return Stretch(unit, members, [offsets[id(b)] for b in members], max(offsets[i] + n for i, n in lengths.items()))


MAX_ALTERNATIVES = 6
"""A slot is the maximum of at most so many different sizes; more would cost more at entry than they save."""


@dataclass
class Slot:
    """Blocks that never live at the same time, one on the other; `size` is the largest of theirs."""

    blocks: list[Stretch]
    size: Dim
    alternatives: int = 1

    def takes(self, block: Stretch) -> bool:
        return all(block.first > b.last or b.first > block.last for b in self.blocks)


def fill_slots(blocks: list[Stretch]) -> list[Slot]:
    """Puts each block, largest first at likely sizes, into a slot that is free at its time, else into a new one."""
    slots: list[Slot] = []
    for block in sorted(blocks, key=lambda b: (-nominal(b.size), b.first)):
        free = [s for s in slots if s.takes(block)]
        covering = next((s for s in reversed(free) if covers(s.size, block.size)), None)
        if covering is not None:
            covering.blocks.append(block)
            continue
        open_slots = [s for s in free if s.alternatives < MAX_ALTERNATIVES]
        if not open_slots:
            slots.append(Slot([block], block.size))
            continue
        slot = min(open_slots, key=lambda s: nominal(s.size))
        slot.blocks.append(block)
        slot.size = block.size if covers(block.size, slot.size) else dim_max(slot.size, block.size)
        slot.alternatives += 1
    return slots
