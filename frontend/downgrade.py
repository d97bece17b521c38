"""How operations that a rewrite made are written in a model of an older opset: the mirror of the upgrade rules.

An operation needs a rule where the model's opset has another form of it.  Without one, or where a rule declines, export
says so: it never writes a node that reads otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import defs
from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims.interval import is_at_least
from ..dialects.onnx.attributes import int_attr, ints_attr, string_attr
from ..dialects.onnx.base import attr, describe
from ..runtime.errors import UnsupportedError
from .expressible import trimmed

Array = np.ndarray[Any, Any]


@dataclass
class Downgrade:
    """One op being written: names of what it reads and makes ("" for absent ones), and how to write nodes."""

    op: onnx.OnnxOp
    version: int
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute]
    write: Callable[[str, Sequence[str], Sequence[str], Mapping[str, Attribute]], None]
    fresh: Callable[[], str]
    constant: Callable[[Array], str]
    value_of: Callable[[SSAValue], Array | None]

    def known(self, index: int) -> Array | None:
        """The constant value of an input; None where it is absent. Raises UnsupportedError where it is computed."""
        operand = self.op.operand_at(index)
        if operand is None:
            return None
        value = self.value_of(operand)
        if value is None:
            name = self.op.SCHEMA.inputs[index].name
            raise self.declined(f"its input '{name}' is computed, and was an attribute then")
        return value

    def ints(self, index: int) -> list[int] | None:
        """The constant integers of an input; None where it is absent."""
        value = self.known(index)
        return None if value is None else [int(v) for v in value.ravel()]

    def node(self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, Attribute]) -> None:
        """Writes the node that makes the op's outputs."""
        self.write(op_type, inputs, self.outputs, attributes)

    def declined(self, reason: str) -> UnsupportedError:
        """The error that says why the op cannot be written."""
        return UnsupportedError(f"{describe(self.op)} cannot be written in opset {self.version}: {reason}")


Rule = Callable[[Downgrade], None]


def of_one_shape(d: Downgrade) -> None:
    """Sum(a, b, ...)  ->  the same, where nothing broadcasts."""
    if len({dims.dims_of(v) if isinstance(v.type, TensorType) else v for v in d.op.operands}) > 1:
        raise d.declined("its operands have different shapes, and did not broadcast then")
    d.node(d.op.SCHEMA.op_type, d.inputs, d.attributes)


def axes_as_attribute(d: Downgrade) -> None:
    """Squeeze(x, axes)  ->  Squeeze(x) {axes}, and so for Unsqueeze and the reductions."""
    axes = d.ints(1)
    attributes = dict(d.attributes)
    keeps = attributes.pop("noop_with_empty_axes", None) == int_attr(1)
    if not axes and keeps:
        return d.node("Identity", d.inputs[:1], {})
    if axes:
        attributes["axes"] = ints_attr(tuple(axes))
    return d.node(d.op.SCHEMA.op_type, d.inputs[:1], attributes)


def clip(d: Downgrade) -> None:
    """Clip(x, min, max)  ->  Clip(x) {min, max}."""
    attributes: dict[str, Attribute] = {}
    for index, name in ((1, "min"), (2, "max")):
        bound = d.known(index)
        if bound is not None:
            attributes[name] = onnx.float_attr(float(bound))
    d.node("Clip", d.inputs[:1], attributes)


def dropout(d: Downgrade) -> None:
    """Dropout(x, ratio)  ->  Dropout(x) {ratio}, where it does not train."""
    training, ratio = d.known(2), d.known(1)
    if training is not None and bool(training):
        raise d.declined("it trains")
    attributes: dict[str, Attribute] = {} if ratio is None else {"ratio": onnx.float_attr(float(ratio))}
    if d.version < 7:
        attributes["is_test"] = int_attr(1)
    d.node("Dropout", d.inputs[:1], attributes)


def pad(d: Downgrade) -> None:
    """Pad(x, pads, value)  ->  Pad(x) {pads, value}."""
    if d.op.operand_at(3) is not None:
        raise d.declined("its axes are given")
    attributes = dict(d.attributes)
    attributes["pads" if d.version >= 2 else "paddings"] = ints_attr(tuple(d.ints(1) or ()))
    value = d.known(2)
    if value is not None:
        attributes["value"] = onnx.float_attr(float(value))
    d.node("Pad", d.inputs[:1], attributes)


def reshape(d: Downgrade) -> None:
    """Reshape(x, shape)  ->  Reshape(x) {shape}."""
    shape = d.ints(1) or []
    if attr(d.op, "allowzero") and 0 in shape:
        raise d.declined("a size of 0 would copy one")
    d.node("Reshape", d.inputs[:1], {"shape": ints_attr(tuple(shape))})


EXPAND_SINCE = 8
"""The opset from which on there is Expand."""


def reshape_to_sizes(d: Downgrade) -> None:
    """Reshape(x, sizes of a value) {allowzero}  ->  Reshape(x, sizes), where 0 copies a size.

    Where a size may be 0, it copies one of an x that has nothing but zeros then: its elements in a row, expanded to the
    sizes' count of axes, of which each is as long as one of the elements, or 0 where there is none.
    """
    owner = d.op.operands[1].owner
    if isinstance(owner, dims.TensorOp):
        sizes = owner.exprs.data
    elif isinstance(owner, onnx.ShapeOp) and owner.start is None and owner.end is None:
        of = owner.operands[0].type
        sizes = dims.dims_of(of) if isinstance(of, TensorType) else None
    else:
        raise d.declined("it had no attribute 'allowzero'")
    if sizes is not None and all(is_at_least(size, 1) for size in sizes):
        return d.node("Reshape", d.inputs, {})
    if d.version < EXPAND_SINCE:
        raise d.declined("it had no attribute 'allowzero', and a size may be 0")

    def value(op_type: str, *inputs: str, **attributes: Attribute) -> str:
        name = d.fresh()
        d.write(op_type, inputs, [name], attributes)
        return name

    row = value("Reshape", d.inputs[0], d.constant(np.array([-1], np.int64)))
    is_there = value("Cast", value("Shape", row), to=int_attr(onnx.ELEMENT_CODES[i1]))
    axis = value("Cast", is_there, to=int_attr(onnx.ELEMENT_CODES[i64]))
    axes = value("Expand", axis, value("Shape", d.inputs[1]))
    return d.node("Reshape", [value("Expand", row, axes), d.inputs[1]], {})


def slice_(d: Downgrade) -> None:
    """Slice(x, starts, ends, axes)  ->  Slice(x) {starts, ends, axes}."""
    steps = d.ints(4)
    if steps is not None and any(step != 1 for step in steps):
        raise d.declined("its steps are not 1")
    attributes: dict[str, Attribute] = {}
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        values = d.ints(index)
        if values is not None:
            attributes[name] = ints_attr(tuple(values))
    d.node("Slice", d.inputs[:1], attributes)


def split(d: Downgrade) -> None:
    """Split(x, sizes)  ->  Split(x) {split} before opset 13; Split {num_outputs}  ->  Split into equal parts."""
    attributes = dict(d.attributes)
    parts = attributes.pop("num_outputs", None)
    if parts is not None and len({r.type for r in d.op.results}) > 1:
        raise d.declined("its parts are not equal")
    sizes = d.ints(1) if d.version < 13 else None
    if sizes is not None:
        attributes["split"] = ints_attr(tuple(sizes))
    d.node("Split", d.inputs[: 1 if d.version < 13 else 2], attributes)


def top_k(d: Downgrade) -> None:
    """TopK(x, k)  ->  TopK(x) {k}."""
    count = d.ints(1) or [0]
    d.node("TopK", d.inputs[:1], {**d.attributes, "k": int_attr(count[0])})


def last_axis(d: Downgrade) -> None:
    """Softmax {axis}, of the last axis, reads the same in all opsets."""
    axis, source = attr(d.op, "axis"), d.op.operands[0]
    rank = len(source.type.get_shape()) if isinstance(source.type, TensorType) else None
    if isinstance(source.owner, onnx.FlattenOp):
        rank = 2
    if axis != -1 and (rank is None or axis % rank != rank - 1):
        raise d.declined("its axis is not known to be the last, and all axes from there on were meant")
    if d.version < 11:
        if rank is None:
            raise d.declined("its rank is not known, and the axis could not count from the end")
        axis = rank - 1
    d.node(d.op.SCHEMA.op_type, d.inputs, {"axis": int_attr(axis)})


def resize(d: Downgrade) -> None:
    """Resize with the empty tensors that opset 11 wanted; before, only asymmetric and rounded down."""
    x, roi, scales, sizes = (*d.inputs, *[""] * (4 - len(d.inputs)))
    if d.version >= 11:
        empty = d.constant(np.zeros(0, np.float32))
        inputs = [x, roi or empty, scales or empty, *([sizes] if sizes else [])]
        return d.node("Resize", inputs, d.attributes)
    mode = attr(d.op, "mode")
    simple = attr(d.op, "coordinate_transformation_mode") == "asymmetric" and mode in ("nearest", "linear")
    if not simple or not scales or (mode == "nearest" and attr(d.op, "nearest_mode") != "floor"):
        raise d.declined("there were only asymmetric coordinates, rounded down, and scales")
    kept = {"mode": string_attr(mode)}
    if d.version >= 9:
        return d.node("Resize" if d.version >= 10 else "Upsample", [x, scales], kept)
    factors = d.known(2)
    assert factors is not None
    return d.node("Upsample", [x], {**kept, "scales": onnx.floats_attr(factors.tolist())})


def batch_normalization(d: Downgrade) -> None:
    """BatchNormalization in test mode, which the attribute `is_test` said before opset 7."""
    if attr(d.op, "training_mode") or len(d.outputs) > 1:
        raise d.declined("it trains")
    attributes = {key: value for key, value in d.attributes.items() if key != "training_mode"}
    if d.version < 7:
        attributes["is_test"] = int_attr(1)
    d.node("BatchNormalization", d.inputs, attributes)


def roi_align(d: Downgrade) -> None:
    """RoiAlign {coordinate_transformation_mode = "output_half_pixel"}  ->  RoiAlign."""
    if attr(d.op, "coordinate_transformation_mode") != "output_half_pixel":
        raise d.declined("coordinates were never shifted by half a pixel")
    d.node("RoiAlign", d.inputs, {k: v for k, v in d.attributes.items() if k != "coordinate_transformation_mode"})


def grid_sample(d: Downgrade) -> None:
    """GridSample {mode = "linear"}  ->  GridSample {mode = "bilinear"}."""
    mode: str = attr(d.op, "mode")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    d.node("GridSample", d.inputs, {**d.attributes, "mode": string_attr(mode)})


def dft(d: Downgrade) -> None:
    """DFT(x, length, axis)  ->  DFT(x, length) {axis}."""
    axis = d.ints(2) or [-2]
    if axis[0] < 0:
        source = d.op.operands[0].type
        if not isinstance(source, TensorType):
            raise d.declined("its axis counts from the end of a rank that is not known")
        axis[0] += len(source.get_shape())
    d.node("DFT", d.inputs[:2], {**d.attributes, "axis": int_attr(axis[0])})


def elementwise(d: Downgrade) -> None:
    """Add(a, b)  ->  Add(a, b) {broadcast}, where b's sizes are the last ones of a's."""
    left, right = (v.type for v in d.op.operands)
    if left == right:
        return d.node(d.op.SCHEMA.op_type, d.inputs, {})
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        raise d.declined("its shapes are not known")
    sizes, tail = dims.dims_of(left), dims.dims_of(right)
    if tail and sizes[len(sizes) - len(tail) :] != tail:
        raise d.declined("only a second operand with the first one's last sizes could be broadcast")
    return d.node(d.op.SCHEMA.op_type, d.inputs, {"broadcast": int_attr(1)})


def gemm(d: Downgrade) -> None:
    """Gemm(a, b)  ->  Gemm(a, b, 0) before opset 11; Gemm(a, b, c)  ->  Gemm(a, b, c) {broadcast} before 7."""
    inputs = list(d.inputs)
    if len(inputs) < 3 or not inputs[2]:
        source = d.op.operands[0].type
        assert isinstance(source, TensorType)
        inputs = [*inputs[:2], d.constant(np.zeros(1, onnx.numpy_dtype(source.element_type)))]
    attributes = {**d.attributes, "broadcast": int_attr(1)} if d.version < 7 else d.attributes
    d.node("Gemm", inputs, attributes)


def scatter(d: Downgrade) -> None:
    """ScatterElements  ->  Scatter, where nothing is reduced."""
    if attr(d.op, "reduction") != "none":
        raise d.declined("it reduces")
    d.node("Scatter", d.inputs, {k: v for k, v in d.attributes.items() if k != "reduction"})


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
_ELEMENTWISE = ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"]


def attention(d: Downgrade) -> None:
    """Attention-23, whose mask has one key, which serves all, or as many as there are."""
    mask = d.op.operand_at(3)
    if mask is not None and onnx.SHARED_KEY not in d.op.attributes:
        keys, past = d.op.operands[1], d.op.operand_at(4)
        sizes = [dims.dims_of(v)[-2] for v in (keys, past) if v is not None and isinstance(v.type, TensorType)]
        same = isinstance(mask.type, TensorType) and sizes and dims.dims_of(mask)[-1] is sum(sizes[1:], sizes[0])
        if not same:
            raise d.declined("a mask had to name every key")
    d.node("Attention", d.inputs, d.attributes)


RULES: dict[tuple[str, str], Rule] = {
    **{("", f"Reduce{name}"): axes_as_attribute for name in _REDUCTIONS},
    **{("", name): elementwise for name in _ELEMENTWISE},
    ("", "Attention"): attention,
    ("", "BatchNormalization"): batch_normalization,
    ("", "Clip"): clip,
    ("", "DFT"): dft,
    ("", "Dropout"): dropout,
    ("", "Gemm"): gemm,
    ("", "GridSample"): grid_sample,
    ("", "Hardmax"): last_axis,
    ("", "LogSoftmax"): last_axis,
    ("", "Max"): of_one_shape,
    ("", "Mean"): of_one_shape,
    ("", "Min"): of_one_shape,
    ("", "Pad"): pad,
    ("", "Reshape"): reshape,
    ("", "Resize"): resize,
    ("", "RoiAlign"): roi_align,
    ("", "ScatterElements"): scatter,
    ("", "Slice"): slice_,
    ("", "Softmax"): last_axis,
    ("", "Split"): split,
    ("", "Squeeze"): axes_as_attribute,
    ("", "Sum"): of_one_shape,
    ("", "TopK"): top_k,
    ("", "Unsqueeze"): axes_as_attribute,
}

NEW_ATTRIBUTES: dict[tuple[str, str], tuple[str, Rule]] = {("", "Reshape"): ("allowzero", reshape_to_sizes)}
"""Attributes that an operator got while all else read on as it did: how a node that has it is written without it."""


def rule_of(
    op: onnx.OnnxOp, then: defs.OpSchema | None, inputs: Sequence[str], attributes: Mapping[str, Attribute]
) -> Rule | None:
    """How an op is written where its operator had the schema `then` (None: there was none); None: as it is."""
    schema = op.SCHEMA
    key = (schema.domain, schema.op_type)
    if then is None:
        return RULES.get(key, _new)
    if then.since_version < schema.compatible:
        return RULES.get(key, _unlike)
    name, without = NEW_ATTRIBUTES.get(key, ("", None))
    if name in attributes and name not in then.attributes:
        return without
    # what may be left out now had to be there
    return RULES.get(key) if len(trimmed(inputs)) < then.min_input else None


def _new(d: Downgrade) -> None:
    raise d.declined(f"it is new in opset {d.op.SCHEMA.first}")


def _unlike(d: Downgrade) -> None:
    raise d.declined("no rule gives its older form")
