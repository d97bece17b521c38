"""Signal processing that is a formula of an index: the mel filter bank.  Transforms are templates."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims.expression import ZERO
from .body import Body
from .casts import converted
from .element_kinds import F64, I64
from .graph import Computed, Node, Use, View, pointwise
from .index_space import Index
from .operators import Operands, Rule
from .scalars import Scalars

SCALE, CORNER = 2595.0, 700.0
"""mel = SCALE * log10(1 + hertz / CORNER)"""


def mel_weight_matrix(o: Operands) -> list[Node]:
    """Triangles between spectrum bins equally spaced on the mel scale, in f64."""
    dims = o.dims()
    length, rate, low, high = (scalar(converted(o[k], F64)) for k in (1, 2, 3, 4))
    bins = dims[1]

    def mel(s: Scalars, hertz: SSAValue) -> SSAValue:
        ratio = s.add(s.constant(1.0, F64), s.divf(hertz, s.constant(CORNER, F64)), F64)
        return s.mul(s.constant(SCALE, F64), s.unary(math.Log10Op, ratio), F64)

    low, high = (pointwise(mel, (edge,), (), F64, 20) for edge in (low, high))

    def edge(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        first, last, count, hertz = (body.read(n, ()) for n in (low, high, length, rate))
        number = s.convert("sitofp", s.convert("index_cast", body.index(index[0]), I64), F64)
        steps = s.convert("sitofp", s.convert("index_cast", body.index(bins + 2), I64), F64)
        at = s.add(first, s.mul(number, s.divf(s.sub(last, first, F64), steps), F64), F64)
        power = s.float_binary(math.PowFOp, s.constant(10.0, F64), s.divf(at, s.constant(SCALE, F64)))
        back = s.mul(s.constant(CORNER, F64), s.sub(power, s.constant(1.0, F64), F64), F64)
        place = s.divf(s.mul(s.add(count, s.constant(1.0, F64), F64), back, F64), hertz)
        return s.convert("fptosi", s.unary(math.FloorOp, place), I64)

    edges = Computed((bins + 2,), I64, tuple((n, Use.MANY) for n in (low, high, length, rate)), edge, cost=60)

    def weight(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        first, peak, last = (body.read(edges, (index[1] + k,)) for k in range(3))
        place = s.convert("index_cast", body.index(index[0]), I64)
        zero, one = s.constant(0.0, F64), s.constant(1.0, F64)

        def share(a: SSAValue, b: SSAValue) -> SSAValue:
            """a / b, which is not used where b is 0."""
            return s.divf(s.convert("sitofp", a, F64), s.convert("sitofp", b, F64))

        def within(lower: SSAValue, upper: SSAValue, predicate: str) -> SSAValue:
            return s.both(s.compare("ge", place, lower, I64), s.compare(predicate, place, upper, I64))

        rising = share(s.sub(place, first, I64), s.sub(peak, first, I64))
        rising = s.select(s.compare("eq", peak, first, I64), one, rising)
        falling = share(s.sub(last, place, I64), s.sub(last, peak, I64))
        value = s.select(within(first, peak, "le"), rising, zero)
        return s.select(within(peak, last, "lt"), falling, value)

    return [converted(Computed(dims, F64, ((edges, Use.MANY),), weight, cost=12), o.element())]


def scalar(x: Node) -> Node:
    """The one element of a node as a node of rank 0."""
    return View((), x.element, x, lambda space, index: tuple(ZERO for _ in x.dims), Use.MANY)


SIGNAL: dict[type[onnx.OnnxOp], Rule] = {onnx.MelWeightMatrixOp: mel_weight_matrix}
