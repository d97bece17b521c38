"""Template "conv": convolution of any number of spatial axes, channels first.

Inputs x [N, C, ...], w [M, C / group, ...]; result [N, M, ...].  Config: `pads` (those before, then those after; the
latter follow from the result's sizes), `strides`, `dilations`, `group`, `kernel_shape`; with `packed` = [rows, vectors,
pixels], w was a constant and is `packing.pack_conv(w, group, rows, vectors * lanes, pixels)`, one axis.

Which form it takes is decided here: Winograd's where the weights are packed for it, one that goes by columns where each
group has one channel, else the direct one (`direct_conv`).
"""

from __future__ import annotations

from ...dialects import kernel
from ..template import TemplateContext
from . import depthwise, winograd_plan
from .direct_conv import ConvBuilder, adopted_plan
from .emit import Emitter
from .operands import element_type, integers
from .register_tile import Products, RegisterTile
from .small_maps import SmallMapBuilder, SmallMaps, build_by_positions
from .window import ZERO, read_convolution
from .winograd import WinogradBuilder
from .winograd_channels import ChannelsBuilder
from .winograd_forms import FORMS
from .winograd_tiles import TilesBuilder


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the convolution."""
    x, w = op.inputs[0], op.inputs[1]
    packed = integers(op, "packed")
    is_flat = packed or integers(op, "winograd")
    convolution = read_convolution(
        op, context.dims(x), None if is_flat else context.dims(w), context.dims(op.results_[0])
    )
    products = Products(element_type(x))
    part = context.part
    if packed_winograd := integers(op, "winograd"):
        number, rows, vectors, channels = packed_winograd
        form = FORMS[number]
        tile = RegisterTile(rows, vectors, context.target.lanes(products.bytes))
        fast = winograd_plan.plan_of(form, tile, bool(channels), part.given)
        part.adopt(fast)
        if not any(d == ZERO for d in context.dims(op.results_[0])):
            builder = WinogradBuilder
            if channels:
                builder = ChannelsBuilder if convolution.windows.positions.is_const else TilesBuilder
            e = Emitter(context.builder)
            general = builder(e, context, op, convolution, products, fast, form)
            if (maps := SmallMaps.read(op, tile.lanes)) is None:
                general.build()
            else:
                small = SmallMapBuilder(e, context, op, convolution, products, maps)
                build_by_positions(context, small, general)
        return
    if not packed and depthwise.is_chosen(convolution, part.given):
        depthwise.build(context, op, convolution, products)
        return
    plan = adopted_plan(context, convolution, products, packed)
    ConvBuilder(Emitter(context.builder), context, op, convolution, products, plan, bool(packed)).build()
