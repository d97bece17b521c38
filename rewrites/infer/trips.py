"""How often a loop runs: counters, values that stay, and conditions on them, as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, Region, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim
from ...dialects.dims.expression import ZERO, dim_max, dim_min
from ...semantics.facts import Contradiction, Facts
from ...semantics.shapes import Context, Guard, Scope, elements_of
from ...semantics.shapes.elements import Truth, as_integers, filled
from ...semantics.shapes.selection import chosen

if TYPE_CHECKING:
    from ...semantics.shapes.elements import Elements


def passes_on(value: SSAValue, source: SSAValue) -> bool:
    """Whether a value is another one, perhaps through Identity."""
    while isinstance(value.owner, onnx.IdentityOp):
        value = value.owner.operands[0]
    return value is source


def state_steps(scope: Scope, states: Sequence[SSAValue], given: Sequence[SSAValue]) -> dict[SSAValue, int]:
    """The integer states to which an iteration adds a number, with it: 0 for what is passed on."""
    steps = {arg: 0 if passes_on(after, arg) else _step(arg, after, scope) for arg, after in zip(states, given)}
    return {arg: step for arg, step in steps.items() if step is not None}


def elements_after(first: SSAValue, step: int, iterations: Dim, scope: Scope) -> Elements | None:
    """The elements of a state after so many iterations of which each adds `step`."""
    before = elements_of(first, scope)
    if before is None or step == 0:
        return before
    start = as_integers(before)
    return None if start is None else filled(before.shape, [s + step * iterations for s in start])


def _step(arg: SSAValue, after: SSAValue, scope: Scope) -> int | None:
    """The number that an iteration adds to a state, or takes from it; None where it does something else."""
    while isinstance(after.owner, onnx.IdentityOp):
        after = after.owner.operands[0]
    if not isinstance(after.owner, onnx.AddOp | onnx.SubOp):
        return None
    a, b = after.owner.operands
    less = isinstance(after.owner, onnx.SubOp)
    other = b if a is arg else a if b is arg and not less else None
    elements = None if other is None else elements_of(other, scope)
    found = None if elements is None else as_integers(elements)
    if found is None or len(found) != 1 or not found[0].is_const:
        return None
    return -found[0].value if less else found[0].value


def trip_count(
    c: Context, block: Block, going: SSAValue, inner: Scope, iteration: Dim | None, body: Region
) -> Dim | None:
    """The number of iterations of a Loop; None where it cannot be told."""
    from .regions import condition_of, visible

    first = True if not c.has(1) else _plain(condition_of(c.need(1), c.scope, limited=True))
    if first is False:
        return ZERO
    count = c.ints(0) if c.has(0) else None
    most = None if count is None else dim_max(count[0], 0)
    again: bool | Truth | None
    if c.has(1):
        going = _without(going, block.args[1])
    if not c.has(1):
        again = True  # what the body yields is ignored
    elif passes_on(going, block.args[1]):
        again = first if isinstance(first, bool) else None
    else:
        again = _plain(condition_of(going, inner, limited=True))
    if again is True and first is True:
        return most
    if not isinstance(again, Truth) or first is None or iteration is None:
        return None
    last = _last_iteration(again, iteration)
    if last is None or not visible(last, c.scope.names, [body]):
        return None
    runs = _runs(c.scope.facts, first, last, again, iteration, most)
    if runs is None:
        return None
    limits = again.limits + (first.limits if isinstance(first, Truth) else ())
    for limit, bound, _ in dict.fromkeys(limits):
        if limit.symbols.isdisjoint(iteration.symbols):
            if not visible(limit, c.scope.names, [body]):
                return None
            c.guards.append(Guard(f"{limit} <= {bound}", "a loop's limit in floating point is exact"))
    return runs


def _plain(condition: bool | Truth | None) -> bool | Truth | None:
    """A condition on integers with `not a <= b` as `b + 1 <= a`."""
    if isinstance(condition, Truth) and condition.op == "<=" and condition.negated:
        return Truth(condition.right + 1, "<=", condition.left, False, condition.limits)
    return condition


def _without(going: SSAValue, held: SSAValue) -> SSAValue:
    """A condition without "and" what held before the iteration, since the iteration runs."""
    while isinstance(going.owner, onnx.AndOp | onnx.IdentityOp) and going is not held:
        sides = going.owner.operands
        if len(sides) == 1:
            going = sides[0]
        elif passes_on(sides[0], held) or passes_on(sides[1], held):
            going = sides[1] if passes_on(sides[0], held) else sides[0]
        else:
            break
    return going


def _last_iteration(again: Truth, iteration: Dim) -> Dim | None:
    """The greatest iteration after which the condition holds: `c*i + a <= b` is `i <= (b - a)//c`.

    Of `not i + a == b` the one after which it does not hold first, if there is one: b - a.
    """
    gap = again.right - again.left
    (name,) = iteration.symbols
    rest = gap.subs({name: 0})
    slope = rest - gap.subs({name: 1})
    if not slope.is_const or gap is not rest - iteration * slope:
        return None
    if again.op == "==":
        return rest * slope if again.negated and abs(slope.value) == 1 else None
    return rest // slope if slope.value > 0 else None


def _runs(facts: Facts, first: bool | Truth, last: Dim, again: Truth, iteration: Dim, most: Dim | None) -> Dim | None:
    """An iteration runs where the condition held after the one before; the first, where it holds before the loop."""
    (name,) = iteration.symbols
    before = (again.right - again.left).subs({name: -1})
    if isinstance(first, Truth) and first.op == again.op == "<=" and before is first.right - first.left:
        runs = dim_max(last + 2, 0)  # the same condition, one iteration earlier
        return runs if most is None else dim_min(runs, most)
    if isinstance(first, Truth):
        known = facts.copy()
        try:
            known.assume(first.condition(True))
        except Contradiction:
            return ZERO
        runs = _runs(known, True, last, again, iteration, most)
        return None if runs is None else chosen(facts, first, runs, ZERO)
    if again.op == "<=":
        runs = dim_max(last, -1) + 2
        return runs if most is None else dim_min(runs, most)
    if most is None:  # a loop that does not meet its end does not return
        return dim_max(last + 1, 0)
    return chosen(facts, Truth(ZERO, "<=", last), dim_min(last + 1, most), most)
