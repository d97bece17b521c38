"""Kernel templates: from a `kernel.template` op and the target's numbers to loops-level IR, one file each."""

from __future__ import annotations

from collections.abc import Callable

from ...dialects import kernel
from ..template import TemplateContext
from . import (
    attention,
    conv,
    conv_transpose,
    determinant,
    einsum,
    found_sizes,
    integer_conv,
    integer_product,
    matmul,
    recurrent,
    rotary,
    scan,
    scatter,
    topk,
    trees,
)

TEMPLATES: dict[str, Callable[[TemplateContext, kernel.TemplateOp], None]] = {
    "attention": attention.build,
    "compress": found_sizes.compress,
    "conv": conv.build,
    "conv_transpose": conv_transpose.build,
    "convinteger": integer_conv.conv_integer,
    "cumprod": scan.cumprod,
    "cumsum": scan.cumsum,
    "det": determinant.build,
    "einsum": einsum.build,
    "gru": recurrent.gru,
    "lstm": recurrent.lstm,
    "matmul": matmul.build,
    "matmulinteger": integer_product.matmul_integer,
    "nonzero": found_sizes.nonzero,
    "qlinearconv": integer_conv.qlinear_conv,
    "qlinearmatmul": integer_product.qlinear_matmul,
    "rnn": recurrent.rnn,
    "rotaryembedding": rotary.build,
    "scatterelements": scatter.scatter_elements,
    "scatternd": scatter.scatter_nd,
    "topk": topk.build,
    "trees": trees.build,
}
"""By the op's `template`. Each is `build(context, op)`; see its module for inputs, config and results."""

__all__ = ["TEMPLATES"]
