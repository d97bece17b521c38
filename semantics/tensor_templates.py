"""What the kernel templates compute, by the reference functions: for the tensor level's evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase
from xdsl.ir import Attribute

from ..dialects import kernel, onnx
from ..dialects.dims import ShapeAttr
from ..dialects.onnx import numpy_dtype, plain
from .reference import REFERENCE

Array = np.ndarray[Any, Any]
Binding = Mapping[str, int]

_OWN = frozenset(("operands", "results", "operand_types", "result_types", "place"))
_BY_NAME = {name.lower(): (domain, name) for domain, name in REFERENCE}


def run_template(
    op: kernel.TemplateOp,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    types: Sequence[np.dtype[Any]],
    binding: Binding,
) -> list[Array]:
    """The template's own results, in the given types; of an accumulating template the sums before its epilogue."""
    name, config = op.template.data, dict(op.config.data)
    if (accumulate := _ACCUMULATING.get(name)) is not None:
        # sums in the type in which they reach the epilogue
        wide = [i.astype(types[0]) if i.dtype.kind not in "iub" else i for i in inputs]
        if "precision" in config:
            wide = [as_bf16(i) for i in wide]
        return [np.asarray(accumulate(wide, config, binding, outputs[0])).astype(types[0], copy=False)]
    if name == "entropy":
        return [np.random.default_rng().integers(-(1 << 63), (1 << 63) - 1, (), np.int64, endpoint=True)]
    return _by_reference(name, config, inputs, outputs, types)


def as_bf16(values: Array) -> Array:
    """f32 rounded to bf16, as f32: what the precision mode multiplies. Denormals are zeros."""
    normal = np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)
    return normal.astype(ml_dtypes.bfloat16).astype(np.float32)


def _integers(config: Mapping[str, Attribute], name: str, binding: Binding) -> list[int]:
    value = config[name]
    if isinstance(value, ShapeAttr):
        return [d.evaluate(binding) for d in value.data]
    assert isinstance(value, DenseArrayBase)
    return [int(v) for v in value.get_values()]


Accumulate = Callable[[Sequence[Array], Mapping[str, Attribute], Binding, Array], Array]


def _matmul(inputs: Sequence[Array], config: Mapping[str, Attribute], binding: Binding, output: Array) -> Array:
    a, b = inputs
    if "trans_a" in config:
        a = np.swapaxes(a, -1, -2)
    if "trans_b" in config:
        b = np.swapaxes(b, -1, -2)
    [y] = REFERENCE["", "MatMul"]([a, b])
    return np.asarray(y)


def _conv(inputs: Sequence[Array], config: Mapping[str, Attribute], binding: Binding, output: Array) -> Array:
    [y] = REFERENCE["", "Conv"](list(inputs), _geometry(config, binding))
    return np.asarray(y)


def _geometry(config: Mapping[str, Attribute], binding: Binding) -> dict[str, Any]:
    lists = ("pads", "strides", "dilations", "output_padding")
    return {"group": plain(config["group"])} | {k: _integers(config, k, binding) for k in lists if k in config}


def _conv_transpose(inputs: Sequence[Array], config: Mapping[str, Attribute], binding: Binding, output: Array) -> Array:
    """The result's sizes say how far it goes: `output_padding` is what they are more than the input reaches."""
    x, w = inputs
    attributes = _geometry(config, binding)
    rank = x.ndim - 2
    pads, strides, dilations = attributes["pads"], attributes["strides"], attributes["dilations"]
    reach = [
        (x.shape[2 + k] - 1) * strides[k] + (w.shape[2 + k] - 1) * dilations[k] + 1 - pads[k] - pads[rank + k]
        for k in range(rank)
    ]
    attributes["output_padding"] = [n - r for n, r in zip(output.shape[2:], reach)]
    [y] = REFERENCE["", "ConvTranspose"]([x, w], attributes)
    return np.asarray(y)


_ACCUMULATING: dict[str, Accumulate] = {"matmul": _matmul, "conv": _conv, "conv_transpose": _conv_transpose}


def _by_reference(
    name: str,
    config: Mapping[str, Attribute],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    types: Sequence[np.dtype[Any]],
) -> list[Array]:
    """A template that is an operator of the standard under its own name."""
    present = _integers(config, "operands", {})
    wanted = _integers(config, "results", {})
    kinds = config["operand_types"]
    assert isinstance(kinds, ArrayAttr)
    operands: list[Array | None] = [None] * (max(present) + 1)
    for at, array, kind in zip(present, inputs, kinds, strict=True):
        operands[at] = (
            array.view(numpy_dtype(kind)) if array.ndim else array.reshape(1).view(numpy_dtype(kind))[0:1].reshape(())
        )
    attributes = {key: plain(value) for key, value in config.items() if key not in _OWN}
    found_size = SIZE_FOUND.get(name)
    if found_size is not None and wanted[-1] == len(onnx.OP_BY_NAME[_BY_NAME[name]].SCHEMA.outputs):
        *wanted, _ = wanted  # the last result, behind the operator's own, is the size that is found
        found = REFERENCE[_BY_NAME[name]](operands, attributes, max(wanted) + 1)
        size = np.array([found_size(np.asarray(found[0]), attributes.get("axis"))], np.int64)
        made = [*(np.asarray(found[k]) for k in wanted), size]
        return [_with_room(a, t, o) for a, t, o in zip(made, types, outputs, strict=True)]
    found = REFERENCE[_BY_NAME[name]](operands, attributes, max(wanted) + 1)
    return [np.asarray(found[k]).view(t).reshape(o.shape) for k, t, o in zip(wanted, types, outputs, strict=True)]


def _picked(y: Array, axis: int | None) -> int:
    return y.size if axis is None else y.shape[axis]


SIZE_FOUND: dict[str, Callable[[Array, int | None], int]] = {
    "compress": _picked,
    "nonmaxsuppression": lambda y, axis: y.shape[0],
    "nonzero": lambda y, axis: y.shape[1],
    "unique": _picked,
}
"""The size that a template finds, from its first result and its axis."""


def _with_room(found: Array, type_: np.dtype[Any], output: Array) -> Array:
    """The elements found, contiguous, at the beginning of the room that there is for the most of them."""
    room = np.zeros(output.size, type_)
    room[: found.size] = found.reshape(-1).view(type_)
    return room.reshape(output.shape)
