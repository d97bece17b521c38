"""The normal quantile, by the rational functions of Wichura's algorithm AS241 (1988), in float64.

Applied Statistics 37 (3), 477-484: an error of about 1e-16, relative.  One function is for the middle, two are for the
tails, of the square root of -log of the probability beyond.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from .casts import convert
from .element_kinds import F64, Element
from .scalars import Scalars

Coefficients = tuple[float, ...]

MIDDLE: tuple[Coefficients, Coefficients] = (
    (2.50908092873012267e3, 3.34305755835881281e4, 6.72657709270087009e4, 4.59219539315498715e4,
     1.37316937655094611e4, 1.97159095030655144e3, 1.33141667891784377e2, 3.38713287279636661),
    (5.22649527885285456e3, 2.87290857357219427e4, 3.93078958000927106e4, 2.12137943015865959e4,
     5.39419602142475111e3, 6.87187007492057908e2, 4.23133307016009113e1, 1.0),
)  # fmt: skip
TAIL: tuple[Coefficients, Coefficients] = (
    (7.74545014278341408e-4, 2.27238449892691846e-2, 2.41780725177450612e-1, 1.27045825245236838,
     3.64784832476320461, 5.76949722146069141, 4.63033784615654530, 1.42343711074968358),
    (1.05075007164441684e-9, 5.47593808499534495e-4, 1.51986665636164572e-2, 1.48103976427480075e-1,
     6.89767334985100005e-1, 1.67638483018380385, 2.05319162663775882, 1.0),
)  # fmt: skip
FAR_TAIL: tuple[Coefficients, Coefficients] = (
    (2.01033439929228813e-7, 2.71155556874348758e-5, 1.24266094738807844e-3, 2.65321895265761231e-2,
     2.96560571828504891e-1, 1.78482653991729133, 5.46378491116411437, 6.65790464350110378),
    (2.04426310338993979e-15, 1.42151175831644589e-7, 1.84631831751005468e-5, 7.86869131145613259e-4,
     1.48753612908506149e-2, 1.36929880922735805e-1, 5.99832206555887938e-1, 1.0),
)  # fmt: skip
COST = 80
"""Cycles of an element, about."""


def quantile(s: Scalars, p: SSAValue, t: Element) -> SSAValue:
    """The value below which a standard normal variable lies with probability `p`; infinite at 0 and 1, else NaN."""
    p = convert(s, p, t, F64)

    def number(value: float) -> SSAValue:
        return s.constant(value, F64)

    def ratio(parts: tuple[Coefficients, Coefficients], x: SSAValue) -> SSAValue:
        return s.divf(*(s.polynomial(x, coefficients, F64) for coefficients in parts))

    q = s.sub(p, number(0.5), F64)
    middle = s.mul(q, ratio(MIDDLE, s.sub(number(0.180625), s.mul(q, q, F64), F64)), F64)
    beyond = s.select(s.compare("le", q, number(0.0), F64), p, s.sub(number(1.0), p, F64))
    r = s.unary(math.SqrtOp, s.neg(s.unary(math.LogOp, beyond), F64))
    is_far = s.compare("gt", r, number(5.0), F64)
    near, far = ratio(TAIL, s.sub(r, number(1.6), F64)), ratio(FAR_TAIL, s.sub(r, number(5.0), F64))
    end = s.select(s.compare("eq", beyond, number(0.0), F64), number(float("inf")), s.select(is_far, far, near))
    tail = s.copysign(end, q)
    in_middle = s.compare("le", s.abs(q, F64), number(0.425), F64)
    return convert(s, s.select(in_middle, middle, tail), F64, t)
