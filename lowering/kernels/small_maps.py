"""The direct form for maps of a few positions, in a kernel that is by Winograd's algorithm for larger ones.

Weights of many channels come from behind the second cache, and the algorithm has up to three times as many of them: on
a map of 2x2 that is all the time there is.  So behind its weights lie those of the direct form with vectors over
output channels, and a call that has few positions takes these.  Taps that only padding is under are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, dim_max, dim_min
from ..loop_builder import INDEX
from ..template import TemplateContext
from .conv_plan import plan_of
from .direct_conv import ConvBuilder, ImageView
from .emit import Emitter, Ix
from .operands import integers
from .register_tile import Products, RegisterTile
from .window import Axis, Convolution
from .winograd import WinogradBuilder


@dataclass(frozen=True)
class SmallMaps:
    """Config `small`: the register tile, where its weights begin, and the most positions that it is for."""

    tile: RegisterTile
    start: int
    most: int

    @staticmethod
    def read(op: kernel.TemplateOp, lanes: int) -> SmallMaps | None:
        """None where there is one form for all sizes."""
        if not (numbers := integers(op, "small")):
            return None
        rows, vectors, start, most = numbers
        return SmallMaps(RegisterTile(rows, vectors, lanes), start, most)


class SmallMapBuilder(ConvBuilder):
    """Emits the direct form for a map of at most so many positions."""

    def __init__(
        self,
        e: Emitter,
        context: TemplateContext,
        op: kernel.TemplateOp,
        convolution: Convolution,
        products: Products,
        maps: SmallMaps,
    ) -> None:
        plan = plan_of(convolution, products, context.target, maps.tile, True)
        super().__init__(e, context, op, convolution, products, plan, packed=True)
        self.most, self.weights_start = maps.most, maps.start

    def image_scratch(self, size: Dim, thread: SSAValue | None) -> SSAValue:
        """No more than the images of so few positions take, whose rows are at most two elements longer."""
        phase = 4 * self.most + 2 * self.tile.lanes
        channels = self.convolution.depth * self.convolution.groups
        return super().image_scratch(dim_min(size, channels * (phase * self.windows.phases) + self.width), thread)

    def write_tables(self) -> None:
        """What each tap that meets elements adds to a position, and behind these its number."""
        e, taps = self.e, self.windows.taps
        self.table = table = self.context.scratch(INDEX, taps * 2)
        rows, columns = self.windows.axes
        (top, bottom), (left, right) = self.taps_inside(rows), self.taps_inside(columns)
        self.taps_there = (bottom - top) * (right - left)

        def write(indices: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            y, x = indices[0] + top, indices[1] + left
            number = indices[0] * (right - left) + indices[1]
            e.store(self.image.tap_place([y, x]).ssa, table, number)
            e.store((y * e.dim(columns.kernel) + x).ssa, table, number + e.dim(taps))
            return []

        e.nest([bottom - top, right - left], [], write)

    def taps_inside(self, axis: Axis) -> tuple[Ix, Ix]:
        """From which tap on, and up to which one, windows meet elements."""
        e, before = self.e, self.e.dim(axis.before)
        first = (before - (e.dim(axis.out) - 1) * axis.stride).max(0)
        return first, (before + e.dim(axis.size)).min(e.dim(axis.kernel)).max(first)

    def steps_nest(self, view: ImageView) -> list[Ix]:
        return [self.e.dim(self.convolution.depth), self.taps_there]

    def tap_offset(self, view: ImageView, position: Ix, indices: list[Ix]) -> tuple[Ix, Ix]:
        e, (channel, tap) = self.e, indices
        assert self.table is not None
        at = e.load_index(self.table, tap) + (channel * view.channel + view.start)
        number = e.load_index(self.table, tap + e.dim(self.windows.taps))
        return at + position, channel * e.dim(self.windows.taps) + number


def build_by_positions(context: TemplateContext, small: SmallMapBuilder, general: WinogradBuilder) -> None:
    """One of both, by the number of positions at a call; they use the same scratch."""
    e, space = small.e, context.space
    shared, per_thread = space.shared, space.per_thread
    few = e.dim(small.windows.positions).compare("sle", small.most)
    with e.when(few):
        small.build()
    shared, space.shared = space.shared, shared
    per_thread, space.per_thread = space.per_thread, per_thread
    with e.when(e.flip(few)):
        general.build()
    space.shared, space.per_thread = dim_max(space.shared, shared), dim_max(space.per_thread, per_thread)
