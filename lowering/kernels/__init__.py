"""Kernel templates: from a `kernel.template` op and the target's numbers to loops-level IR, one file each."""

from __future__ import annotations

from collections.abc import Callable

from ...dialects import kernel
from ..template import TemplateContext
from . import attention, conv, conv_transpose, integer_product, matmul, recurrent, scan, scatter, topk

TEMPLATES: dict[str, Callable[[TemplateContext, kernel.TemplateOp], None]] = {
    "attention": attention.build,
    "conv": conv.build,
    "conv_transpose": conv_transpose.build,
    "cumprod": scan.cumprod,
    "cumsum": scan.cumsum,
    "gru": recurrent.gru,
    "lstm": recurrent.lstm,
    "matmul": matmul.build,
    "matmulinteger": integer_product.matmul_integer,
    "qlinearmatmul": integer_product.qlinear_matmul,
    "rnn": recurrent.rnn,
    "scatterelements": scatter.scatter_elements,
    "scatternd": scatter.scatter_nd,
    "topk": topk.build,
}
"""By the op's `template`. Each is `build(context, op)`; see its module for inputs, config and results."""

__all__ = ["TEMPLATES"]
