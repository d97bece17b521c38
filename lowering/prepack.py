"""Constant operands of templates in the layout that the template reads, packed once at compile time.

A decision stands on the kernel as the attribute `kernel.packed`: argument number -> layout.  `pack` makes the array, in
numpy; `apply_packing` turns the kernel's argument flat and tells the template.  The caller's constant is replaced by
the packed one, so a kernel whose operand is not constant at one of its calls stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, TensorType, f32, f64, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument
from xdsl.rewriter import Rewriter

from ..dialects import kernel
from ..dialects.dims import Dim, ShapeAttr, as_dim, tensor_type
from ..dialects.target import Target
from .kernels import depthwise
from .kernels.conv_plan import choose
from .kernels.matmul import panel_columns
from .kernels.operands import element_type, flag
from .kernels.packing import pack_columns, pack_conv
from .kernels.register_tile import Products
from .kernels.window import read_convolution
from .loops.generics import shapes_of

PACKED = "kernel.packed"
Array: TypeAlias = "np.ndarray[Any, Any]"
Dims: TypeAlias = tuple[Dim, ...]
Layout: TypeAlias = "tuple[str, tuple[int, ...]]"
"""The template's name and the numbers of its layout."""


def choose_packing(function: FuncOp, constant: Iterable[int], target: Target) -> dict[int, Layout]:
    """The layouts for those of a tensor-level kernel's arguments (by number) that are constants at every call."""
    candidates = set(constant)
    found: dict[int, Layout] = {}
    shapes = shapes_of(function).dims
    for op in function.body.block.ops:
        if not isinstance(op, kernel.TemplateOp) or op.template.data not in CHOOSE or len(op.inputs) < 2:
            continue
        weight = op.inputs[1]
        if not isinstance(weight, BlockArgument) or weight.uses.get_length() != 1:
            continue
        number = tensor_arguments(function.body.block).index(weight)
        if number not in candidates:
            continue
        dims = (shapes[op.inputs[0]], shapes[weight], shapes[op.results_[0]])
        layout = CHOOSE[op.template.data](op, *dims, target)
        if layout is not None:
            found[number] = (op.template.data, layout)
    return found


def choose_matmul(op: kernel.TemplateOp, a: Dims, b: Dims, c: Dims, target: Target) -> tuple[int, ...] | None:
    """(panel, whether b is stored transposed): b's columns in panels."""
    if len(b) != 2 or element_type(op.inputs[1]) not in (f32, f64):
        return None
    columns = b[0] if flag(op, "trans_b") else b[1]
    if not columns.is_const or columns.value < 2:
        return None
    panel = panel_columns(Products(element_type(op.inputs[0])), columns, target)
    return panel, int(flag(op, "trans_b"))


def choose_conv(op: kernel.TemplateOp, x: Dims, w: Dims, y: Dims, target: Target) -> tuple[int, ...] | None:
    """(rows, vectors, pixels, lanes, groups): the tile that the plan has chosen; depthwise weights stay as they are."""
    if element_type(op.inputs[1]) not in (f32, f64):
        return None
    convolution = read_convolution(op, x, w, y)
    if depthwise.applies(convolution):
        return None
    products = Products(element_type(op.inputs[0]))
    plan = choose(convolution, products, target)
    lanes = target.lanes(products.bytes)
    return plan.tile.rows, plan.tile.vectors, int(plan.pixels), lanes, convolution.groups


CHOOSE: dict[str, Callable[[kernel.TemplateOp, Dims, Dims, Dims, Target], tuple[int, ...] | None]] = {
    "matmul": choose_matmul,
    "conv": choose_conv,
}


def pack(layout: Layout, array: Array) -> Array:
    """The constant in a layout, flat."""
    template, numbers = layout
    if template == "matmul":
        panel, transposed = numbers
        return pack_columns(array.T if transposed else array, panel)
    rows, vectors, pixels, lanes, groups = numbers
    return pack_conv(array, groups, rows, vectors * lanes, bool(pixels))


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
        if name == "matmul":
            panel, transposed = numbers
            config["panel"] = IntegerAttr(panel, i64)
            config.pop("trans_b", None)
            depth, columns = reversed(shape) if transposed else shape
            size = -(-columns // panel) * panel * depth
        else:
            rows, vectors, pixels, lanes, groups = numbers
            config["packed"] = ArrayAttr([IntegerAttr(n, i64) for n in (rows, vectors, pixels)])
            config.setdefault("kernel_shape", ShapeAttr(tuple(map(as_dim, shape[2:]))))
            height = vectors * lanes if pixels else rows
            depth = int(np.prod(shape[1:], dtype=np.int64))
            size = groups * -(-(shape[0] // groups) // height) * height * depth
        op.properties["config"] = DictionaryAttr(config)
        flat = tensor_type(argument.type.element_type, [size])
        Rewriter.replace_value_with_new_type(argument, flat)
        dims[number] = ShapeAttr((as_dim(size),))
    function.attributes["kernel.arg_dims"] = ArrayAttr(dims)
    function.update_function_type()
