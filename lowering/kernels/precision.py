"""The precision mode `bf16`: templates whose products are of factors rounded to bf16, summed in f32.

The mark `kernel.precision` on a kernel comes from the caller's mode and is part of the key of the kernel's object.  At
the tensor level it goes onto the templates that it is for, as `precision` in their config; everything else of the
kernel stays f32.  Whether a template is in the mode depends on its operands' types and on the depth of its sums alone.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, DictionaryAttr, StringAttr, TensorType, f32
from xdsl.ir import Block

from ...dialects import kernel
from .operands import CONFIG, element_type, flag

PRECISION = "kernel.precision"
"""On a kernel: the mode that its templates multiply in. Absent: in the type of their operands."""

TEMPLATES = frozenset(("conv", "matmul"))
"""The templates that have the mode."""


def use_precision(block: Block, mode: str) -> int:
    """Marks a tensor-level kernel's templates that have the mode; how many there are."""
    found = [op for op in block.ops if isinstance(op, kernel.TemplateOp) and has_mode(op)]
    for op in found:
        op.properties["config"] = DictionaryAttr({**op.config.data, CONFIG: StringAttr(mode)})
    return len(found)


def has_mode(op: kernel.TemplateOp) -> bool:
    """Whether a template multiplies f32 and can multiply bf16. What makes no pairs stays f32."""
    return op.template.data in TEMPLATES and all(element_type(i) == f32 for i in op.inputs) and depth_of(op) != 1


def depth_of(op: kernel.TemplateOp) -> int | None:
    """The number of terms of each sum, or of a convolution's channels in a group, where it is known."""
    x, w = (i.type for i in op.inputs)
    assert isinstance(x, TensorType) and isinstance(w, TensorType)
    *_, rows, depth = (0, *x.get_shape())
    if op.template.data == "conv":
        depth = w.get_shape()[1]
    elif flag(op, "trans_a"):
        depth = rows
    return None if depth == DYNAMIC_INDEX else depth
