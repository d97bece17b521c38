"""Kernel templates: from a `kernel.template` op and the target's numbers to loops-level IR, one file each."""

from __future__ import annotations

from collections.abc import Callable

from ...dialects import kernel
from ..template import TemplateContext
from . import (
    attention,
    block_matmul,
    conv_transpose,
    determinant,
    einsum,
    entropy,
    found_sizes,
    fourier,
    integer_conv,
    integer_product,
    inverse,
    linear_attention,
    lookups,
    matmul,
    pair_conv,
    recurrent,
    roi_align,
    rotary,
    scan,
    scatter,
    suppression,
    topk,
    trees,
    unique,
    unpool,
)

TEMPLATES: dict[str, Callable[[TemplateContext, kernel.TemplateOp], None]] = {
    "attention": attention.build,
    "blockmatmul": block_matmul.build,
    "compress": found_sizes.compress,
    "conv": pair_conv.build,
    "conv_transpose": conv_transpose.build,
    "convinteger": integer_conv.conv_integer,
    "couple": lookups.couple,
    "cumprod": scan.cumprod,
    "cumsum": scan.cumsum,
    "det": determinant.build,
    "dft": fourier.dft,
    "einsum": einsum.build,
    "entropy": entropy.build,
    "gru": recurrent.gru,
    "inverse": inverse.build,
    "linearattention": linear_attention.build,
    "lookup": lookups.lookup,
    "lstm": recurrent.lstm,
    "matmul": matmul.build,
    "matmulinteger": integer_product.matmul_integer,
    "maxroipool": unpool.max_roi_pool,
    "maxunpool": unpool.max_unpool,
    "ngrams": lookups.n_grams,
    "nonmaxsuppression": suppression.build,
    "nonzero": found_sizes.nonzero,
    "qlinearconv": integer_conv.qlinear_conv,
    "qlinearmatmul": integer_product.qlinear_matmul,
    "rnn": recurrent.rnn,
    "roialign": roi_align.build,
    "rotaryembedding": rotary.build,
    "scatterelements": scatter.scatter_elements,
    "scatternd": scatter.scatter_nd,
    "stft": fourier.stft,
    "topk": topk.build,
    "trees": trees.build,
    "unique": unique.build,
}
"""By the op's `template`. Each is `build(context, op)`; see its module for inputs, config and results."""

__all__ = ["TEMPLATES"]
