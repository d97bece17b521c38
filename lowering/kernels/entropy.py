"""Template "entropy": one number, i64, that no draw of random numbers has had as its key before."""

from __future__ import annotations

from ...dialects import kernel
from ..template import TemplateContext


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    builder = context.builder
    builder.store(builder.insert(kernel.EntropyOp()).result, context.buffer(op.results_[0]), 0)
