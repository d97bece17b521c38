"""Fast math: products and sums of different operators as one operation with one rounding, where a program asks for it.

By default every operator rounds its result, so that fusion changes no bit.  With the attribute `kernel.fast_math` on a
kernel, in the scalar code that fusion has put together

* x * y + z and x * y - z, where nothing else reads the product, are one fma;
* x / c is x * (1 / c) for a constant c.

Sums over an axis, and the formulas of elementary functions, stay as they are.
"""

from __future__ import annotations

from math import isfinite

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, SSAValue

from .scalar_bodies import bodies_of, insert, replace

FAST_MATH = "kernel.fast_math"
_PLAIN: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}


def use_fast_math(block: Block) -> int:
    """Rewrites the bodies and epilogues in a tensor-level kernel; gives the number of operations that are gone."""
    return sum(_in_body(body) for body in bodies_of(block))


def _in_body(body: Block) -> int:
    outer = body.parent_op()
    # a reduction adds to what its result was before, by one operation that whoever lowers it looks for
    before: set[SSAValue] = set(body.args[len(outer.inputs) :]) if isinstance(outer, linalg.GenericOp) else set()
    found = 0
    for op in list(body.ops):
        if isinstance(op, arith.AddfOp | arith.SubfOp) and before.isdisjoint(op.operands):
            found += _contract(op)
        elif isinstance(op, arith.DivfOp):
            found += _multiply(op)
    return found


def _contract(op: arith.AddfOp | arith.SubfOp) -> int:
    """One fma in place of a sum and the product in it."""
    for place in (0, 1):
        product, other = op.operands[place].owner, op.operands[1 - place]
        if not isinstance(product, arith.MulfOp) or not product.result.has_one_use() or product.parent is not op.parent:
            continue
        factors = list(product.operands)
        if isinstance(op, arith.SubfOp):
            negated = arith.NegfOp(other if place == 0 else factors[0])
            insert(negated, op)
            if place == 0:
                other = negated.result
            else:
                factors[0] = negated.result
        kind = op.results[0].type
        fused = math.FmaOp.create(operands=[*factors, other], result_types=[kind], properties=_PLAIN)
        replace(op, fused)
        product.detach()
        product.erase()
        return 1
    return 0


def _multiply(op: arith.DivfOp) -> int:
    """A product with the reciprocal in place of a quotient by a constant."""
    divisor = op.operands[1].owner
    if not isinstance(divisor, arith.ConstantOp) or not isinstance(divisor.value, FloatAttr):
        return 0
    number, kind = divisor.value.value.data, divisor.value.type
    if not isfinite(number) or not 1e-30 < abs(number) < 1e30:
        return 0
    reciprocal = arith.ConstantOp(FloatAttr(1 / number, kind))
    insert(reciprocal, op)
    operands = [op.operands[0], reciprocal.result]
    replace(op, arith.MulfOp.create(operands=operands, result_types=[op.results[0].type], properties=_PLAIN))
    return 1
