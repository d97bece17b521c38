"""What templates read from their op: element types, flags, numbers, lists of sizes."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, ShapeAttr, as_dim


def element_type(tensor: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    assert isinstance(tensor.type, TensorType)
    return tensor.type.element_type


def stored_type(op: kernel.TemplateOp, result: int = 0) -> Attribute:
    """The type of a result that `TemplateContext.store` takes: the epilogue's argument, or the result's own."""
    if op.epilogue is not None:
        return op.epilogue.block.args[result].type
    return element_type(op.results_[result])


def number(op: kernel.TemplateOp, name: str) -> int | None:
    """An integer of the op's config, None where it is absent."""
    value = op.config.data.get(name)
    return value.value.data if isinstance(value, IntegerAttr) else None


def flag(op: kernel.TemplateOp, name: str) -> bool:
    """A bool of the op's config; absent is false."""
    return bool(number(op, name))


def text(op: kernel.TemplateOp, name: str, default: str) -> str:
    """A string of the op's config."""
    value = op.config.data.get(name)
    return value.data if isinstance(value, StringAttr) else default


CONFIG = "precision"
"""In a config: the precision mode that the template multiplies in."""


def in_bf16(op: kernel.TemplateOp) -> bool:
    """Whether a template of f32 multiplies bf16."""
    return text(op, CONFIG, "") == "bf16"


def dims_list(op: kernel.TemplateOp, name: str) -> tuple[Dim, ...]:
    """A list of sizes: `#dims.shape<"...">`, `array<i64: ...>` or an array of integers; absent is empty."""
    value = op.config.data.get(name)
    if value is None:
        return ()
    if isinstance(value, ShapeAttr):
        return value.data
    if isinstance(value, DenseArrayBase):
        return tuple(as_dim(int(v)) for v in value.iter_values())
    assert isinstance(value, ArrayAttr), value
    return tuple(as_dim(v.value.data) for v in value if isinstance(v, IntegerAttr))


def integers(op: kernel.TemplateOp, name: str) -> list[int]:
    """A list of numbers; absent is empty."""
    return [d.value for d in dims_list(op, name)]
