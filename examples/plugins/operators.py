"""Two operators of one's own: one that is fused into native kernels, and one that runs in numpy in the middle of them.

Used as `sx.compile("model.onnx", ops=[SQUAREPLUS, ranks])`.
"""

from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.ir import SSAValue

import sardonyx as sx


def squareplus(x: Any, *, b: float = 4.0) -> Any:
    """(x + sqrt(x*x + b)) / 2, a smooth relu (https://arxiv.org/abs/2112.11687)."""
    wide = x.astype(np.float64)
    return ((wide + np.sqrt(wide * wide + b)) / 2).astype(x.dtype)


def squareplus_body(s: Any, x: SSAValue, t: Any, *, b: float = 4.0) -> SSAValue:
    """The same for one element."""
    root = s.unary(math.SqrtOp, s.add(s.mul(x, x, t), s.constant(b, t), t))
    return s.mul(s.constant(0.5, t), s.add(x, root, t), t)


SQUAREPLUS = sx.pointwise("com.example::Squareplus", reference=squareplus, body=squareplus_body)


@sx.op("com.example::Ranks")
def ranks(x: Any) -> Any:
    """The place of each element in its sorted row."""
    return np.argsort(np.argsort(x, axis=-1), axis=-1).astype(x.dtype)
