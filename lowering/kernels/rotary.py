"""Template "rotaryembedding": pairs of elements of each head turned by the angles of their position.

Operands x [B, heads, S, size] or [B, S, heads * size], cosines and sines [positions, width / 2] with position numbers
[B, S], or [B, S, width / 2] without.  The first `width` elements of a head are turned: element i with i + width / 2, or
with `interleaved` 2 i with 2 i + 1.  Computed in f32 (f64 for f64), rounded once.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from .attention_plan import Heads
from .emit import Emitter, Ix
from .operator import Operator
from .register_tile import Products

X, COSINES, SINES, POSITIONS = range(4)


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator, one row of one head after the other."""
    o = Operator(context, op)
    e, dims = o.e, o.dims(X)
    joined = len(dims) == 3
    heads = e.ix(o.attr("num_heads", 0)) if joined else e.dim(dims[1])
    rows = e.dim(dims[1] if joined else dims[2])
    size = e.dim(dims[2]) // heads if joined else e.dim(dims[3])
    width = e.ix(o.attr("rotary_embedding_dim", 0) or size)
    source = Heads.whole(o.buffer(X), heads, rows, size, joined)
    result = o.result_buffer(0)
    grain = e.ix(e.grain_cycles) // (size // 2 + 8) + 1
    extent = e.dim(whole(*dims)) // size.max(1)
    with e.parallel(extent, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
        # heads innermost: the angles of a row serve all of them
        head, row = loop.index % heads, loop.index // heads
        at = source.at(row // rows, head, row % rows)
        angles = angle_row(o, row) * (width // 2)
        turn_row(o, source.buffer, result, at, angles, width)
        e.copy(source.buffer, at + width, result, at + width, size - width)


def angle_row(o: Operator, row: Ix) -> Ix:
    """The row of the caches for a (sample, position); one that is not there is reported, and 0."""
    e = o.e
    if not o.has(POSITIONS):
        return row
    position = e.load_index(o.buffer(POSITIONS), row)
    count = e.dim(o.dims(COSINES)[0])
    inside = position.compare("ult", count)
    message = o.problem("RotaryEmbedding: 'position_ids' has {0}; axis 0 of the caches has size {1}")
    e.check(inside, "index", message, [position.ssa, count.ssa])
    return e.select_index(inside, position, 0)


def turn_row(o: Operator, x: SSAValue, y: SSAValue, at: Ix, angles: Ix, width: Ix) -> None:
    """real = cos a - sin b, imaginary = sin a + cos b, for each pair (a, b)."""
    e, products = o.e, Products(o.kind(X).ir)
    lanes = e.target.lanes(products.bytes)
    half = width // 2
    cosines, sines = o.buffer(COSINES), o.buffer(SINES)
    angle_products = Products(o.kind(COSINES).ir)
    with e.loop(0, half, lanes) as loop:
        i = loop.index
        mask = e.mask(half - i, lanes)
        c = angle_products.load_vector(e, cosines, angles + i, lanes, mask)
        s = angle_products.load_vector(e, sines, angles + i, lanes, mask)
        if o.attr("interleaved", 0):
            turn_neighbours(e, products, x, y, at + i * 2, c, s, width - i * 2)
        else:
            a = products.load_vector(e, x, at + i, lanes, mask)
            b = products.load_vector(e, x, at + half + i, lanes, mask)
            for value, offset in zip(turned(e, a, b, c, s), (at, at + half)):
                e.store_vector(products.narrow(e, value, products.element), y, offset + i, mask)


def turn_neighbours(
    e: Emitter, products: Products, x: SSAValue, y: SSAValue, at: Ix, c: SSAValue, s: SSAValue, left: Ix
) -> None:
    """Two vectors of neighbouring pairs, of which `left` elements are there."""
    lanes = e.target.lanes(products.bytes)
    masks = [e.mask(left - k * lanes, lanes) for k in range(2)]
    loaded = [products.load_vector(e, x, at + k * lanes, lanes, mask) for k, mask in enumerate(masks)]
    a, b = (e.shuffle(loaded[0], loaded[1], range(k, 2 * lanes, 2)) for k in range(2))
    real, imaginary = turned(e, a, b, c, s)
    order = [k + lanes * part for k in range(lanes) for part in range(2)]
    for k, mask in enumerate(masks):
        value = e.shuffle(real, imaginary, order[k * lanes : (k + 1) * lanes])
        e.store_vector(products.narrow(e, value, products.element), y, at + k * lanes, mask)


def turned(e: Emitter, a: SSAValue, b: SSAValue, c: SSAValue, s: SSAValue) -> tuple[SSAValue, SSAValue]:
    return e.sub(e.mul(c, a), e.mul(s, b)), e.add(e.mul(s, a), e.mul(c, b))
