"""Constant operands of templates in the layout that the template reads, packed once at compile time.

A decision stands on the kernel as the attribute `kernel.packed`: argument number -> layout.  `pack` makes the array, in
numpy; `apply_packing` turns the kernel's argument flat and tells the template.  The caller's constant is replaced by
the packed one, so a kernel whose operand is not constant at one of its calls stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, TensorType, f32, f64, i8, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument
from xdsl.rewriter import Rewriter

from ..dialects import kernel
from ..dialects.dims import Dim, ShapeAttr, as_dim, tensor_type
from ..dialects.target import Target
from .choices import Given, parts_of, schedule_of
from .kernels import conv_transpose, depthwise, integer_conv, strassen, winograd_plan
from .kernels.byte_panels import DotProducts
from .kernels.conv_plan import CHANNELS, choose, choose_for_bytes, cycles_of
from .kernels.matmul_plan import panel_columns
from .kernels.operands import CONFIG, element_type, flag, in_bf16
from .kernels.operator import formal_kind, known_number
from .kernels.packing import (
    pack_columns,
    pack_conv,
    pack_conv_transpose,
    pack_gates,
    pack_pair_columns,
    pack_pair_conv,
    pack_quad_columns,
    pack_quad_conv,
    pack_recurrence,
    pack_strassen,
    pack_winograd,
    pack_winograd_columns,
)
from .kernels.pair_conv import of_pairs
from .kernels.pair_products import PairProducts, products_of
from .kernels.recurrent import gate_blocks
from .kernels.register_tile import Products, RegisterTile
from .kernels.window import Convolution, read_convolution
from .kernels.winograd_forms import FORMS
from .loops.generics import shapes_of

PACKED = "kernel.packed"
Array: TypeAlias = "np.ndarray[Any, Any]"
Dims: TypeAlias = tuple[Dim, ...]
Layout: TypeAlias = "tuple[str, tuple[int, ...]]"
"""A layout's name and its numbers."""


def yes(number: int) -> bool:
    return True


def choose_packing(
    function: FuncOp, constant: Iterable[int], target: Target, exact: bool = False, finite: Callable[[int], bool] = yes
) -> dict[int, Layout]:
    """The layouts for a tensor-level kernel's arguments that are constants at every call (by tensor argument number).

    With `exact` none is chosen that stands for another algorithm; `finite` says whether an argument's values all are.
    """
    candidates = set(constant)
    found: dict[int, Layout] = {}
    shapes = shapes_of(function).dims
    arguments = tensor_arguments(function.body.block)
    schedule, parts = schedule_of(function), parts_of(function.body.block)
    for op in function.body.block.ops:
        if not isinstance(op, kernel.TemplateOp):
            continue
        given = schedule.get(parts[op], {})
        for place, choice in CHOOSE.get(op.template.data, {}).items():
            weight = op.inputs[place]
            if not isinstance(weight, BlockArgument) or weight.uses.get_length() != 1:
                continue
            number = arguments.index(weight)
            if number not in candidates or element_type(weight) not in (f32, f64, i8):
                continue
            dims = (shapes[op.inputs[0]], shapes[weight], shapes[op.results_[0]])
            layout = choice(op, *dims, Request(target, exact, given, partial(finite, number)))
            if layout is not None:
                found[number] = layout
    return found


@dataclass(frozen=True)
class Request:
    """What a layout is chosen for: the target, whether algorithms that round differently are out, given choices, and
    whether all the constant's values are finite."""

    target: Target
    exact: bool
    given: Given
    finite: Callable[[], bool]


def choose_matmul(op: kernel.TemplateOp, a: Dims, b: Dims, c: Dims, request: Request) -> Layout | None:
    """(panel, whether b is stored transposed): b's columns in panels; or (K block, panel, transposed): sums of them."""
    if len(b) != 2 or element_type(op.inputs[1]) == i8:
        return None
    columns = b[0] if flag(op, "trans_b") else b[1]
    if not columns.is_const or columns.value < 2:
        return None
    products, transposed = products_of(op), flag(op, "trans_b")
    if in_bf16(op):
        return "pair_columns", (panel_columns(products, columns, request.target, request.given), int(transposed))
    if not request.exact and not flag(op, "trans_a"):
        depth = b[1] if transposed else b[0]
        fast = strassen.choose(products, a[:-1], columns, depth, request.target, request.given)
        if fast is not None and request.finite():
            return strassen.STRASSEN, (fast.depth_block, fast.panel, int(transposed))
    return "matmul", (panel_columns(products, columns, request.target, request.given), int(transposed))


SHARE_OF_PAIRS = 0.92
"""Of the work of a direct convolution in bf16, what Winograd's algorithm in f32 may take in its place."""


def choose_conv(op: kernel.TemplateOp, x: Dims, w: Dims, y: Dims, request: Request) -> Layout | None:
    """The tile that the plan has chosen; depthwise weights stay as they are."""
    convolution = read_convolution(op, x, w, y)
    products, target, given = Products(element_type(op.inputs[0])), request.target, request.given
    if depthwise.is_chosen(convolution, given):
        return None
    most = SHARE_OF_PAIRS * cycles_of(of_pairs(convolution), PairProducts(), target) if in_bf16(op) else None
    plan = None if request.exact else winograd_plan.choose(convolution, products, target, given, most)
    if plan is not None:
        form = next(number for number, form in enumerate(FORMS) if form.name == plan.form)
        tile, positions = winograd_plan.small_maps(convolution, plan, products, target) or (RegisterTile(0, 0, 0), 0)
        small = (tile.rows, tile.vectors, positions)
        return "winograd", (form, plan.rows, plan.vectors, int(plan.vectors_over == CHANNELS), plan.lanes, *small)
    if in_bf16(op):
        return "pair_conv", tile_numbers(of_pairs(convolution), PairProducts(), request)
    return "conv", tile_numbers(convolution, products, request)


def choose_conv_transpose(op: kernel.TemplateOp, x: Dims, w: Dims, y: Dims, request: Request) -> Layout | None:
    convolution = conv_transpose.read(op, x, w, y)[0]
    return "conv_transpose", tile_numbers(convolution, Products(element_type(op.inputs[0])), request)


def tile_numbers(convolution: Convolution, products: Products, request: Request) -> tuple[int, ...]:
    """(rows, vectors, pixels, lanes, groups)"""
    plan = choose(convolution, products, request.target, request.given)
    lanes = request.target.lanes(products.bytes)
    return plan.tile.rows, plan.tile.vectors, int(plan.pixels), lanes, convolution.groups


Choice: TypeAlias = Callable[[kernel.TemplateOp, Dims, Dims, Dims, Request], "Layout | None"]


def choose_gates(op: kernel.TemplateOp, x: Dims, w: Dims, y: Dims, request: Request) -> Layout | None:
    """(panel): the weights of a recurrence's product with its input."""
    return "gates", (panel_columns(Products(element_type(op.inputs[1])), w[1], request.target),)


def choose_recurrence(op: kernel.TemplateOp, x: Dims, r: Dims, y: Dims, request: Request) -> Layout | None:
    """(lanes, then first gate, gates and vectors of units of each block)"""
    blocks = gate_blocks(op.template.data, flag(op, "linear_before_reset"))
    numbers = [n for b in blocks for n in (b.gates[0], len(b.gates), b.units)]
    return "recurrence", (request.target.lanes(Products(element_type(op.inputs[2])).bytes), *numbers)


def choose_quad_columns(op: kernel.TemplateOp, a: Dims, b: Dims, c: Dims, request: Request) -> Layout | None:
    """(panel): the columns of an integer product."""
    if len(b) != 2 or not b[1].is_const or b[1].value < 2:
        return None
    return "quad_columns", (panel_columns(DotProducts(), b[1], request.target, request.given),)


def choose_quad_conv(weight: int, zero: int) -> Choice:
    """The choice for an integer convolution; `weight` and `zero` are the formal operands of w and its zero point."""

    def choice(op: kernel.TemplateOp, x: Dims, w: Dims, y: Dims, request: Request) -> Layout | None:
        """(rows, vectors, pixels, lanes, groups)"""
        convolution = integer_conv.read_convolution(op, x, w, y)
        extra = integer_conv.may_have_zero(formal_kind(op, weight), known_number(op, zero))
        products = DotProducts(rows_signed=True)
        tile, pixels = choose_for_bytes(convolution, products, request.target, extra, request.given)
        lanes = request.target.lanes(products.bytes)
        return "quad_conv", (tile.rows - extra, tile.vectors, int(pixels), lanes, convolution.groups)

    return choice


RECURRENT: dict[int, Choice] = {1: choose_gates, 2: choose_recurrence}

CHOOSE: dict[str, dict[int, Choice]] = {
    "matmul": {1: choose_matmul},
    "conv": {1: choose_conv},
    "conv_transpose": {1: choose_conv_transpose},
    "lstm": RECURRENT,
    "gru": RECURRENT,
    "rnn": RECURRENT,
    "matmulinteger": {1: choose_quad_columns},
    "qlinearmatmul": {3: choose_quad_columns},
    "convinteger": {1: choose_quad_conv(1, 3)},
    "qlinearconv": {3: choose_quad_conv(3, 5)},
}
"""By template and the place of an operand."""


def pack(layout: Layout, array: Array) -> Array:
    """The constant in a layout, flat."""
    name, numbers = layout
    if name == "matmul":
        panel, transposed = numbers
        return pack_columns(array.T if transposed else array, panel)
    if name == "pair_columns":
        panel, transposed = numbers
        return pack_pair_columns(array.T if transposed else array, panel)
    if name == strassen.STRASSEN:
        block, panel, transposed = numbers
        return pack_strassen(array.T if transposed else array, block, panel)
    if name == "winograd":
        form, rows, vectors, channels, lanes, small_rows, small_vectors, _ = numbers
        if not channels:
            return pack_winograd(array, FORMS[form], rows)
        packed = pack_winograd_columns(array, FORMS[form], vectors * lanes)
        if not small_vectors:
            return packed
        return np.concatenate([packed, pack_conv(array, 1, small_rows, small_vectors * lanes, pixels=True)])
    if name == "gates":
        return pack_gates(array, numbers[0])
    if name == "quad_columns":
        return pack_quad_columns(array, numbers[0])
    if name == "quad_conv":
        rows, vectors, pixels, lanes, groups = numbers
        return pack_quad_conv(array, groups, vectors * lanes if pixels else rows)
    if name == "recurrence":
        return pack_recurrence(array, blocks_of(numbers), numbers[0])
    rows, vectors, pixels, lanes, groups = numbers
    return CONVOLUTIONS[name](array, groups, rows, vectors * lanes, bool(pixels))


CONVOLUTIONS = {"conv": pack_conv, "conv_transpose": pack_conv_transpose, "pair_conv": pack_pair_conv}


def blocks_of(numbers: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """The blocks in the numbers of a recurrence's layout."""
    return [(numbers[i], numbers[i + 1], numbers[i + 2]) for i in range(1, len(numbers), 3)]


def packed_attribute(layouts: dict[int, Layout]) -> Attribute:
    """The attribute `kernel.packed`."""
    rows = {
        str(number): ArrayAttr[Attribute]([StringAttr(name), *(IntegerAttr(n, i64) for n in numbers)])
        for number, (name, numbers) in layouts.items()
    }
    return DictionaryAttr(rows)


def packed_layouts(function: FuncOp) -> dict[int, Layout]:
    """What `kernel.packed` says; empty without it."""
    attribute = function.attributes.get(PACKED)
    found: dict[int, Layout] = {}
    if isinstance(attribute, DictionaryAttr):
        for number, row in attribute.data.items():
            assert isinstance(row, ArrayAttr)
            name, *numbers = row.data
            assert isinstance(name, StringAttr)
            found[int(number)] = (name.data, tuple(n.value.data for n in numbers if isinstance(n, IntegerAttr)))
    return found


def tensor_arguments(block: Block) -> list[BlockArgument]:
    """A kernel's arguments but for its dims."""
    return [a for a in block.args if isinstance(a.type, TensorType)]


def apply_packing(function: FuncOp, layouts: dict[int, Layout]) -> None:
    """Changes a tensor-level kernel so that its templates read packed arguments: flat, of the packed size."""
    if not layouts:
        return
    arguments = tensor_arguments(function.body.block)
    given = function.attributes["kernel.arg_dims"]
    assert isinstance(given, ArrayAttr)
    dims: list[Attribute] = list(given)
    for number, (name, numbers) in layouts.items():
        argument = arguments[number]
        (use,) = argument.uses
        op = use.operation
        assert isinstance(op, kernel.TemplateOp) and isinstance(argument.type, TensorType)
        shape = argument.type.get_shape()
        config = dict(op.config.data)
        size = TELL[name](config, shape, numbers)
        op.properties["config"] = DictionaryAttr(config)
        flat = tensor_type(packed_type(name, argument.type.element_type), [size])
        Rewriter.replace_value_with_new_type(argument, flat)
        dims[number] = ShapeAttr((as_dim(size),))
    function.attributes["kernel.arg_dims"] = ArrayAttr(dims)
    function.update_function_type()


def packed_type(layout: str, element: Attribute) -> Attribute:
    """The type of a packed constant's elements."""
    return i32 if layout.startswith("pair_") else element


def tell_matmul(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    """Puts the layout into a template's config; the packed size for weights of this shape."""
    panel, transposed = numbers
    config["panel"] = IntegerAttr(panel, i64)
    config.pop("trans_b", None)
    depth, columns = reversed(shape) if transposed else shape
    return -(-columns // panel) * panel * depth


def tell_pair_columns(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    depth, columns = reversed(shape) if numbers[1] else shape
    return tell_matmul(config, (-(-depth // 2), columns), (numbers[0], 0))


def tell_strassen(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    _, panel, transposed = numbers
    config["panel"], config[strassen.STRASSEN] = IntegerAttr(panel, i64), IntegerAttr(1, i64)
    config.pop("trans_b", None)
    return prod(shape) + (shape[0] if transposed else shape[1])


def tell_conv(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    groups = numbers[-1]
    return tell_tile(config, shape, numbers, shape[0] // groups, prod(shape[1:]))


def tell_pair_conv(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    return tell_conv(config, (shape[0], -(-shape[1] // 2), *shape[2:]), numbers)


def tell_conv_transpose(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    groups = numbers[-1]
    return tell_tile(config, shape, numbers, shape[1], shape[0] // groups * prod(shape[2:]))


def tell_tile(
    config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...], channels: int, steps: int
) -> int:
    """For so many output channels and products to a sum in each group."""
    rows, vectors, pixels, lanes, groups = numbers
    config["packed"] = ArrayAttr([IntegerAttr(n, i64) for n in (rows, vectors, pixels)])
    config.setdefault("kernel_shape", ShapeAttr(tuple(map(as_dim, shape[2:]))))
    height = vectors * lanes if pixels else rows
    return groups * -(-channels // height) * height * steps


def tell_winograd(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    form, rows, vectors, channels, lanes, small_rows, small_vectors, most = numbers
    config.pop(CONFIG, None)  # in f32
    config["winograd"] = ArrayAttr([IntegerAttr(n, i64) for n in (form, rows, vectors, channels)])
    config.setdefault("kernel_shape", ShapeAttr(tuple(map(as_dim, shape[2:]))))
    height = vectors * lanes if channels else rows
    size = len(FORMS[form].slots) * -(-shape[0] // height) * height * shape[1]
    if not most:
        return size
    config["small"] = ArrayAttr([IntegerAttr(n, i64) for n in (small_rows, small_vectors, size, most)])
    height = small_vectors * lanes
    return size + -(-shape[0] // height) * height * prod(shape[1:])


def tell_gates(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    [panel] = numbers
    config["w_panel"] = IntegerAttr(panel, i64)
    return shape[0] * -(-shape[1] // panel) * panel * shape[2]


def tell_recurrence(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    config["r_packed"] = IntegerAttr(1, i64)
    lanes, hidden = numbers[0], shape[2]
    steps = -(-hidden // lanes) * lanes
    return shape[0] * sum(
        -(-hidden // (units * lanes)) * steps * count * units * lanes for _, count, units in blocks_of(numbers)
    )


def tell_quad_columns(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    [panel] = numbers
    config["panel"] = IntegerAttr(panel, i64)
    columns = -(-shape[1] // panel) * panel
    return -(-shape[0] // 4) * 4 * columns + 4 * columns


def tell_quad_conv(config: dict[str, Attribute], shape: Sequence[int], numbers: tuple[int, ...]) -> int:
    groups = numbers[-1]
    quads = -(-shape[1] // 4) * prod(shape[2:])
    # four bytes of each quad, and of each sum
    return tell_tile(config, shape, numbers, shape[0] // groups, quads + 1) * 4


TELL: dict[str, Callable[[dict[str, Attribute], Sequence[int], tuple[int, ...]], int]] = {
    "matmul": tell_matmul,
    "pair_columns": tell_pair_columns,
    strassen.STRASSEN: tell_strassen,
    "conv": tell_conv,
    "pair_conv": tell_pair_conv,
    "conv_transpose": tell_conv_transpose,
    "winograd": tell_winograd,
    "gates": tell_gates,
    "quad_columns": tell_quad_columns,
    "quad_conv": tell_quad_conv,
    "recurrence": tell_recurrence,
}
