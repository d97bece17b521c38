"""RotaryEmbedding: pairs of a head's elements turned by an angle that depends on the position."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO
from .casts import converted
from .gathers import gathered, out_of_range
from .graph import Node, pointwise, widened
from .movement import concatenated, reshaped, sliced, transposed
from .operators import Operands, Rule
from .scalars import Scalars


def rotary_embedding(o: Operands) -> list[Node]:
    """Halves (or, interleaved, neighbours) a, b become cos * a - sin * b, sin * a + cos * b; the rest stays."""
    x = o[0]
    heads = x if len(x.dims) == 4 else _split(o, x)
    width = o.attr("rotary_embedding_dim")
    size = as_dim(width) if width else heads.dims[-1]
    half = size // as_dim(2)
    cosines, sines = (widened(_by_position(o, k)) for k in (1, 2))
    a, b = (widened(n) for n in _pairs(heads, half, bool(o.attr("interleaved"))))
    real, imaginary = _turned(a, b, cosines, sines, True), _turned(b, a, cosines, sines, False)
    axis = len(heads.dims) - 1
    dims = (*heads.dims[:-1], size)
    if o.attr("interleaved"):
        apart = [reshaped(n, (*n.dims, ONE)) for n in (real, imaginary)]
        turned = reshaped(concatenated(apart, axis + 1, (*real.dims, as_dim(2))), dims)
    else:
        turned = concatenated([real, imaginary], axis, dims)
    y = converted(turned, x.element)
    if size is not heads.dims[-1]:
        rest = sliced(heads, (*heads.dims[:-1], heads.dims[-1] - size), [ZERO] * axis + [size], [1] * len(dims))
        y = concatenated([y, rest], axis, heads.dims)
    return [y if len(x.dims) == 4 else reshaped(transposed(y, (0, 2, 1, 3)), x.dims)]


def _split(o: Operands, x: Node) -> Node:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    count = o.attr("num_heads")
    if not count:
        raise o.refuse("num_heads is not given")
    batch, length, total = x.dims
    heads = as_dim(count)
    return transposed(reshaped(x, (batch, length, heads, total // heads)), (0, 2, 1, 3))


def _by_position(o: Operands, operand: int) -> Node:
    """A cache as [batch, 1, length, half]."""
    cache, positions = o[operand], o.get(3)
    if positions is not None:
        cache = gathered(cache, positions, 0, out_of_range(o, 3, f"axis 0 of '{o.name_of(operand)}'"))
    batch, length, half = cache.dims
    return reshaped(cache, (batch, ONE, length, half))


def _pairs(heads: Node, half: Dim, interleaved: bool) -> Sequence[Node]:
    """The first and the second element of each pair."""
    dims, axis = (*heads.dims[:-1], half), len(heads.dims) - 1
    stride = [1] * axis + [2 if interleaved else 1]
    starts = (ZERO, ONE if interleaved else half)
    return [sliced(heads, dims, [ZERO] * axis + [start], stride) for start in starts]


def _turned(x: Node, other: Node, cosines: Node, sines: Node, minus: bool) -> Node:
    """cos * x -+ sin * other"""
    t = x.element

    def function(s: Scalars, v: SSAValue, w: SSAValue, cosine: SSAValue, sine: SSAValue) -> SSAValue:
        turned, across = s.mul(cosine, v, t), s.mul(sine, w, t)
        return s.sub(turned, across, t) if minus else s.add(turned, across, t)

    return pointwise(function, (x, other, cosines, sines), x.dims, t, 3)


ROTARY: dict[type[onnx.OnnxOp], Rule] = {onnx.RotaryEmbeddingOp: rotary_embedding}
