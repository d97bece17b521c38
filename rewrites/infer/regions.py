"""Operations with bodies: branches are merged, loops run to a fixpoint with sizes that change widened to symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float64Type, IntegerType, TensorType, UnrankedTensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, as_dim, dims_of
from ...dialects.dims.expression import ONE, ZERO, DimError, parse_dim
from ...dialects.onnx.declared import declared_types
from ...dialects.onnx.types import ELEMENT_NAMES, ELEMENT_TYPES, OptionalType, SequenceType, UnknownType, type_string
from ...semantics.facts import Contradiction, Facts, simplified
from ...semantics.shapes import Context, Names, Scope, ShapeError, elements_of
from ...semantics.shapes.containers import ANY, container_dims, length_of, merged
from ...semantics.shapes.context import static_shape
from ...semantics.shapes.elements import Elements, Truth, as_integers, filled
from ...semantics.shapes.selection import chosen, filled_choice, is_total, truth_of
from .growth import Change, Courses
from .trips import elements_after, state_steps, trip_count

if TYPE_CHECKING:
    from .walk import Inference

BOOL = IntegerType(1)
_ROUNDS = 16
_MAX_COUNTED = 16  # iterations of a known number that sizes are followed through one by one, and terms of such a size


def _set(value: SSAValue, type_: Attribute) -> None:
    from .walk import set_type

    set_type(value, type_)


def yields(block: Block) -> Sequence[SSAValue]:
    """The values that a body gives."""
    last = block.last_op
    return last.operands if isinstance(last, onnx.YieldOp) else ()


def visible(dim: Dim, names: Names, regions: Sequence[Region]) -> bool:
    """Whether none of the symbols is bound inside these regions."""
    return all(not _is_inside(names.owners.get(name), regions) for name in dim.symbols)


def _is_inside(value: SSAValue | None, regions: Sequence[Region]) -> bool:
    if value is None:
        return False
    owner = value.owner
    region = owner.parent_region() if isinstance(owner, Operation) else owner.parent
    while region is not None:
        if region in regions:
            return True
        parent = region.parent
        region = parent.parent_region() if parent is not None else None
    return False


# --- If ---------------------------------------------------------------------------------------------------------------


def if_(inference: Inference, c: Context) -> list[Attribute | None]:
    """The branch that runs where the condition is known; else what both agree on.

    A branch in which nothing can be valid does not count.  Where the branches give other ranks and sizes decide the
    condition, it is among the context's `decisions`.
    """
    op = c.op
    assert isinstance(op, onnx.IfOp)
    branches = {True: op.then_branch, False: op.else_branch}
    truth = condition_of(c.need(0), c.scope)
    known = inference.decided.get(op) if isinstance(truth, Truth) or truth is None else truth
    if known is not None:
        inference.decided[op] = known
        branches = {known: branches[known]}
    failures = [_branch(inference, c, region, truth, value) for value, region in branches.items()]
    valid = [region for region, failure in zip(branches.values(), failures) if failure is None]
    if not valid:
        raise ShapeError(f"no branch can run: {failures[0]}")
    outputs = [yields(region.block) for region in valid]
    types: list[Attribute | None] = []
    for at, result in enumerate(c.results):
        assert result is not None
        given = [values[at] for values in outputs]
        by = truth if isinstance(truth, Truth) and len(valid) == 2 else None
        types.append(_merged_results(c, at, [v.type for v in given], valid, by))
        _merge_values(c, result, given, valid, by)
        ranks = {_rank(v.type) for v in given}
        if isinstance(truth, Truth) and known is None and len(ranks) > 1:
            c.decisions.append(truth)
    return types


def _branch(inference: Inference, c: Context, region: Region, truth: bool | Truth | None, value: bool) -> str | None:
    """Infers a branch, in which the condition is known; what fails where it can never run."""
    inner = c.scope.inner()
    if isinstance(truth, Truth) and not truth.limits:
        try:
            inner.facts.assume(truth.condition(value))
        except Contradiction as error:
            inference.failed[region] = str(error)
            return str(error)
    return inference.region(region, inner)


def _rank(type_: Attribute) -> int | None:
    return len(dims_of(type_)) if isinstance(type_, TensorType) else None


def condition_of(value: SSAValue, scope: Scope, *, limited: bool = False) -> bool | Truth | None:
    """A condition's value where it is known, or what sizes decide it; `limited` admits one that rests on limits."""
    elements = elements_of(value, scope)
    if elements is None or elements.size != 1:
        return None
    found = elements.reshape(-1)[0]
    if isinstance(found, Truth):
        return found if limited or not found.limits else None
    if not isinstance(found, Dim):
        return None
    return bool(found.value) if found.is_const else truth_of(found)


def _merged_results(
    c: Context, at: int, types: Sequence[Attribute], regions: Sequence[Region], truth: Truth | None
) -> Attribute:
    """The type of a result of several branches; `truth` tells which of two it is."""
    known = [t for t in types if not isinstance(t, UnknownType)]
    if not known:
        return types[0]
    out = known[0]
    for other in known[1:]:
        out = _merge_types(c, at, out, other, regions, truth)
    return escaping(c, at, out, regions)


def _merge_types(
    c: Context, at: int, a: Attribute, b: Attribute, regions: Sequence[Region], truth: Truth | None
) -> Attribute:
    """The type of a result that is one of two."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType) and len(dims_of(a)) == len(dims_of(b)):
        if a.element_type != b.element_type:
            raise ShapeError(f"output {at} is {a} in one branch and {b} in the other")
        pairs = zip(dims_of(a), dims_of(b))
        found = [_either(c, x, y, regions, truth) or c.fresh(at, i) for i, (x, y) in enumerate(pairs)]
        return dims.tensor_type(a.element_type, found)
    return merged(a, b)


def _either(c: Context, x: Dim, y: Dim, regions: Sequence[Region], truth: Truth | None) -> Dim | None:
    """The size that is x where the condition holds, else y."""
    if x is y or c.scope.facts.prove_eq(x, y):
        return x
    if truth is None or not all(visible(d, c.scope.names, regions) for d in (x, y)):
        return None
    if all(map(is_total, (x, y))):
        return chosen(c.scope.facts, truth, x, y)
    return filled_choice(c.scope.facts, truth, x, y)


def escaping(c: Context, at: int, type_: Attribute, regions: Sequence[Region]) -> Attribute:
    """A type that leaves a region: sizes that are bound inside become the result's own symbols."""
    match type_:
        case TensorType():
            found = [d if visible(d, c.scope.names, regions) else c.fresh(at, i) for i, d in enumerate(dims_of(type_))]
            return dims.tensor_type(type_.element_type, found)
        case SequenceType():
            return SequenceType(_loose(c, type_.element, regions))
        case OptionalType():
            return OptionalType(_loose(c, type_.element, regions))
        case _:
            return type_


def _loose(c: Context, type_: Attribute, regions: Sequence[Region]) -> Attribute:
    """The type of an element in a container that leaves a region."""
    if isinstance(type_, TensorType):
        found = [d if visible(d, c.scope.names, regions) else ANY for d in container_dims(type_)]
        return dims.tensor_type(type_.element_type, found)
    return escaping(c, 0, type_, regions)


def _merge_values(
    c: Context, result: SSAValue, given: Sequence[SSAValue], regions: Sequence[Region], truth: Truth | None
) -> None:
    """Keeps elements on which the branches agree, or of which sizes tell which it is."""
    c.scope.values.pop(result, None)
    found = [elements_of(v, c.scope) for v in given]
    first = found[0]
    if first is None or any(e is None or e.shape != first.shape for e in found):
        return
    rows = zip(*(e.reshape(-1) for e in found if e is not None), strict=True)
    merged = [_one_of(c, row, regions, truth) for row in rows]
    if all(d is not None for d in merged):
        c.scope.values[result] = filled(first.shape, [*merged])


def _one_of(c: Context, row: Sequence[object], regions: Sequence[Region], truth: Truth | None) -> Dim | None:
    """The element that is one of these, of two by the truth of the condition."""
    dims = [d for d in row if isinstance(d, Dim) and visible(d, c.scope.names, regions)]
    if len(dims) < len(row):
        return None
    first, *others = dims
    if all(d is first for d in others):
        return first
    return _either(c, first, others[0], regions, truth) if len(others) == 1 else None


# --- loops ------------------------------------------------------------------------------------------------------------


def loop(inference: Inference, c: Context) -> list[Attribute | None]:
    """Operands: count, condition, states.  The body: (iteration, condition, states) -> (condition, states, rows)."""
    op = c.op
    assert isinstance(op, onnx.LoopOp)
    block = op.body.block
    _set(block.args[0], dims.tensor_type(i64, ()))
    _set(block.args[1], dims.tensor_type(BOOL, ()))
    initial = [c.need(i) for i in range(2, len(c.operands))]
    if len(block.args) != len(initial) + 2:
        raise ShapeError(f"the body has {len(block.args)} inputs for {len(initial)} states")
    states = list(block.args[2:])
    iteration = _count_iterations(block, c.scope)
    carried = _Carried(block, states, initial)
    inner = _fixpoint(inference, c, carried, iteration)
    given = list(yields(block))
    _require_condition(inference, op, block, inner)
    trips = trip_count(c, block, given[0], inner, iteration, op.body)
    sizes = _sizes_behind(c, carried, trips, iteration, inner.facts)
    types: list[Attribute | None] = [escaping(c, at, _grown(s.type, sizes), [op.body]) for at, s in enumerate(states)]
    for at in range(len(states), len(c.results)):
        row = given[1 + at].type
        types.append(_stacked(c, at, row, trips, 0, op.body, inner.facts))
    for at, (arg, first, after) in enumerate(zip(states, initial, carried.given())):
        if (result := c.results[at]) is not None:
            c.scope.forget(result)
            if (length := _length_at_end(c, arg, first, after, trips)) is not None:
                c.scope.lengths[result] = length
            step = inference.loops[op].steps.get(arg)
            elements = _elements_at_end(c, first, after, step, trips, inner, op.body)
            if elements is not None and types[at] == first.type:
                c.scope.values[result] = elements
    return types


def _elements_at_end(
    c: Context, first: SSAValue, after: SSAValue, step: int | None, trips: Dim | None, inner: Scope, body: Region
) -> Elements | None:
    """The elements of a state of int64 behind the loop: those at first, with steps, or those of every iteration."""
    if not isinstance(first.type, TensorType) or first.type.element_type != i64:
        return None
    if step == 0 or (step is not None and trips is not None):
        return elements_after(first, step, ZERO if trips is None else trips, c.scope)
    last = elements_of(after, inner)
    found = None if last is None else as_integers(last)
    if last is None or found is None or not all(visible(d, c.scope.names, [body]) for d in found):
        return None
    if trips is not None and c.scope.facts.prove_le(1, trips):
        return last
    before = elements_of(first, c.scope)
    same = before is not None and before.shape == last.shape and as_integers(before) == found
    return last if same else None


def _length_at_end(c: Context, arg: SSAValue, first: SSAValue, after: SSAValue, trips: Dim | None) -> Dim | None:
    """How many items a sequence has behind the loop, where each iteration puts in, or takes out, the same number."""
    start = c.scope.lengths.get(first)
    if start is None or not isinstance(arg.type, SequenceType):
        return None
    gain = 0
    while after is not arg:
        owner = after.owner
        if not isinstance(owner, onnx.SequenceInsertOp | onnx.SequenceEraseOp | onnx.IdentityOp):
            return None
        gain += isinstance(owner, onnx.SequenceInsertOp) - isinstance(owner, onnx.SequenceEraseOp)
        after = owner.operands[0]
    if not gain:
        return start
    return None if trips is None else start + gain * trips


def _sizes_after(
    c: Context, changes: Sequence[Change], trips: Dim, iteration: Dim | None, body: Region, facts: Facts
) -> dict[str, Dim]:
    """The sizes that states have after a number of iterations, which are followed one by one."""
    names = c.scope.names
    if trips.value > _MAX_COUNTED:
        return {}
    sizes = {str(change.size): change.start for change in changes}
    ends = {str(change.size): _outside(c, change.end, body, facts) for change in changes}
    counter = set[str]() if iteration is None else iteration.symbols
    for turn in range(trips.value):
        known: dict[str, Dim | int] = {**sizes, **dict.fromkeys(counter, turn)}
        bound = {name: end for name, end in ends.items() if name in sizes}
        sizes = {
            name: end.subs(known)
            for name, end in bound.items()
            if all(symbol in known or visible(Dim.symbol(symbol), names, [body]) for symbol in end.symbols)
        }
        sizes = {name: size for name, size in sizes.items() if len(size.terms) <= _MAX_COUNTED and size.choices <= 4}
    return sizes


def _require_condition(inference: Inference, op: Operation, block: Block, inner: Scope) -> None:
    """States that what a body gives as its condition is one truth. Raises ModelError where it is of another type."""
    end = block.last_op
    assert isinstance(end, onnx.YieldOp)
    type_ = end.operands[0].type
    element = type_.element_type if isinstance(type_, TensorType | UnrankedTensorType) else type_
    if element != BOOL and not isinstance(element, UnknownType):
        kind = (type_string(type_) or str(type_)).removeprefix("tensor(").removesuffix(")")
        inference.refuse(op, f"output 0 of its 'body', the condition, is {kind}, and must be bool")
    if isinstance(type_, TensorType):
        c = Context(end, inner)
        for size in dims_of(type_):
            c.equal(size, ONE, "output 0 of the body, the condition, is one truth")
        inference.state(end, inner, c.guards)


@dataclass(frozen=True)
class _Carried:
    """A loop's body, the states that it takes, and their values before the first iteration."""

    block: Block
    states: Sequence[SSAValue]
    initial: Sequence[SSAValue]

    def given(self) -> list[SSAValue]:
        """What an iteration makes of the states."""
        return list(yields(self.block))[1 : 1 + len(self.states)]


@dataclass
class Settled:
    """What is known of a loop's states since it was looked at before, as part of an outer loop that takes rounds.

    The next fixpoint begins with it: a loop in a loop in a loop would else take rounds of rounds of rounds.
    """

    types: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    steps: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])


def _fixpoint(inference: Inference, c: Context, carried: _Carried, iteration: Dim | None) -> Scope:
    """Infers a body until its states' types hold for the first iteration and for what an iteration makes of them."""
    block, states = carried.block, carried.states
    settled = inference.loops.setdefault(c.op, Settled())
    for arg, value in zip(states, carried.initial):
        _set(arg, _as_settled(arg, value.type, settled.types.get(arg), c.scope.names))
    _start_with_nothing(inference, c, carried, settled)
    trust = True
    for _ in range(_ROUNDS):
        inner = c.scope.inner()
        for arg in block.args:
            inner.forget(arg)
        if iteration is not None:
            inner.values.update(_elements_in(carried, settled.steps, iteration, inner))
            inner.facts.assume(f"0 <= {iteration}")
            count = c.ints(0) if c.has(0) else None
            if count and not count[0].is_const:
                inner.facts = _with_fact(inner.facts, f"{iteration + 1} <= {count[0]}")
        run(inference, block, inner)
        changed = False
        for arg, value in zip(states, carried.given()):
            wide = _widened(arg, value.type, c.scope.names, inner.facts)
            if wide != arg.type:
                _set(arg, wide)
                changed = True
            settled.types[arg] = wide
        if changed:
            continue
        steps = state_steps(inner, states, carried.given()) if iteration is not None else {}
        if all(steps.get(arg) == step for arg, step in settled.steps.items()):  # what was counted on holds
            if not _elements_in(carried, {arg: steps[arg] for arg in steps if arg not in settled.steps}, ZERO, inner):
                return inner
            settled.steps = steps
        else:  # it was of other states
            settled.steps, iteration = {}, iteration if trust else None
            trust = False
    raise ShapeError("the types of its states do not settle")


def _elements_in(
    carried: _Carried, steps: Mapping[SSAValue, int], iteration: Dim, scope: Scope
) -> dict[SSAValue, Elements]:
    """The elements that states have in an iteration."""
    out: dict[SSAValue, Elements] = {}
    for arg, first in zip(carried.states, carried.initial):
        elements = elements_after(first, steps[arg], iteration, scope) if arg in steps else None
        if elements is not None and static_shape(arg) == elements.shape:
            out[arg] = elements
    return out


def _as_settled(arg: SSAValue, initial: Attribute, before: Attribute | None, names: Names) -> Attribute:
    """A state's first type, in which sizes are open that were found to change."""
    match initial, before:
        case TensorType(), TensorType() if initial.element_type == before.element_type:
            old, new = container_dims(before), container_dims(initial)
            if len(old) != len(new):
                return initial
            open_ = [x is ANY or x is names.sizes.get((arg, axis)) for axis, x in enumerate(old)]
            return dims.tensor_type(initial.element_type, [x if o else y for o, x, y in zip(open_, old, new)])
        case TensorType(), UnrankedTensorType() if initial.element_type == before.element_type:
            return before
        case (SequenceType(), SequenceType()) | (OptionalType(), OptionalType()):
            return type(initial)(_as_settled(arg, initial.element, before.element, names))
        case _:
            return initial


def _with_fact(facts: Facts, below: str) -> Facts:
    """That an iteration which runs is below the count; the facts as they are where they say that none runs."""
    found = facts.copy()
    try:
        found.assume(below)
    except Contradiction:
        return facts
    return found


def _start_with_nothing(inference: Inference, c: Context, carried: _Carried, settled: Settled) -> None:
    """A sequence that is empty at first has elements of the type that the first iteration puts into it."""
    block, states = carried.block, carried.states
    empty = [at for at, value in enumerate(carried.initial) if c.scope.sequences.get(value) == ()]
    for at in empty:
        _set(states[at], settled.types.get(states[at], states[at].type))
    if not empty or settled.types:
        return
    inner = c.scope.inner()
    inner.sequences.update({states[at]: () for at in empty})
    if inference.block(block, inner) is not None:
        return
    region = block.parent
    assert region is not None
    for at in empty:
        after = carried.given()[at].type
        if isinstance(after, SequenceType):
            _set(states[at], SequenceType(_loose(c, after.element, [region])))


def run(inference: Inference, block: Block, scope: Scope) -> None:
    """Infers a body that is taken to run. Raises ShapeError where it never can."""
    failure = inference.block(block, scope)
    if failure is not None:
        raise ShapeError(f"its body can never run: {failure}")


def _count_iterations(block: Block, scope: Scope) -> Dim | None:
    """The symbol for the iteration's number, which is a size: a guard says so where a body relies on it."""
    number = block.args[0]
    if number not in scope.names.bound:
        scope.names.keep_elements(number, [scope.names.new("i")])
    elements = elements_of(number, scope)
    found = as_integers(elements) if elements is not None else None
    return found[0] if found else None


def _widened(arg: SSAValue, after: Attribute, names: Names, facts: Facts) -> Attribute:
    """A state's type that also admits what an iteration gives: sizes that change become symbols of the argument."""
    before = arg.type
    if before == after or isinstance(after, UnknownType):
        return before
    if isinstance(before, UnrankedTensorType):
        return before
    if isinstance(before, TensorType) and isinstance(after, TensorType) and before.element_type == after.element_type:
        old, new = dims_of(before), dims_of(after)
        if len(old) == len(new):
            found = [_widened_dim(arg, i, x, y, names, facts) for i, (x, y) in enumerate(zip(old, new))]
            return dims.tensor_type(before.element_type, found)
        return UnrankedTensorType(before.element_type)
    return merged(before, after)


def _widened_dim(arg: SSAValue, axis: int, before: Dim, after: Dim, names: Names, facts: Facts) -> Dim:
    own = names.sizes.get((arg, axis))
    if before is after or before is own or facts.prove_eq(before, after):
        return before
    return names.size(arg, axis)


def _sizes_behind(
    c: Context, carried: _Carried, trips: Dim | None, iteration: Dim | None, facts: Facts
) -> dict[str, Dim]:
    """The sizes that states have behind the loop, by the symbols that they have in the body."""
    body = carried.block.parent
    if trips is None or body is None:
        return {}
    names, changes = c.scope.names, list[Change]()
    for arg, first, after in zip(carried.states, carried.initial, carried.given()):
        if all(isinstance(value.type, TensorType) for value in (arg, first, after)):
            sizes = zip(dims_of(arg), dims_of(first), dims_of(after), strict=True)
            own = [names.sizes.get((arg, axis)) for axis in range(len(dims_of(arg)))]
            changes += [Change(*size) for mine, size in zip(own, sizes) if size[0] is mine]
    found = Courses(changes, trips, iteration, lambda d: visible(d, names, [body]), facts).find()
    counted = _sizes_after(c, changes, trips, iteration, body, facts) if trips.is_const else {}
    return counted | {name: course.after for name, course in found.items()}


def _grown(state: Attribute, sizes: Mapping[str, Dim]) -> Attribute:
    """A state's type behind the loop."""
    if not isinstance(state, TensorType):
        return state
    return dims.tensor_type(state.element_type, [sizes.get(str(d), d) for d in dims_of(state)])


def _outside(c: Context, d: Dim, body: Region, facts: Facts) -> Dim:
    """A size of a body, without what the facts of an iteration make irrelevant where it is not known outside."""
    return d if visible(d, c.scope.names, [body]) else simplified(d, facts)


def _stacked(
    c: Context, at: int, row: Attribute, count: Dim | None, axis: int, body: Region, facts: Facts
) -> Attribute:
    """The rows of all iterations as one tensor, stacked along a new axis."""
    if not isinstance(row, TensorType):
        return row
    found = [_outside(c, d, body, facts) for d in dims_of(row)]
    if not -len(found) - 1 <= axis <= len(found):
        raise ShapeError(f"axis {axis} is out of range for rank {len(found) + 1}")
    axis = axis + len(found) + 1 if axis < 0 else axis
    found.insert(axis, ONE if count is None else count)
    names = c.scope.names
    out = [d if visible(d, names, [body]) else c.fresh(at, i) for i, d in enumerate(found)]
    if count is None:
        out[axis] = c.fresh(at, axis)
    return dims.tensor_type(row.element_type, out)


def scan(inference: Inference, c: Context) -> list[Attribute | None]:
    """Operands: states, then tensors to go through.  The body: (states, slices) -> (states, rows)."""
    op = c.op
    assert isinstance(op, onnx.ScanOp)
    block = op.body.block
    count = c.attr("num_scan_inputs")
    first = len(c.operands) - count
    if first < 0 or len(block.args) != len(c.operands):
        raise ShapeError(f"{len(c.operands)} inputs, {count} of them to scan, and a body of {len(block.args)}")
    rows = len(c.results) - first
    for kind, number in (("input", count), ("output", rows)):
        for name in (f"scan_{kind}_axes", f"scan_{kind}_directions"):
            given = c.attr(name)
            if given is not None and len(given) != number:
                raise ShapeError(f"its attribute '{name}' has {len(given)} numbers, and must have {number}")
    axes = c.attr("scan_input_axes") or [0] * count
    length: Dim | None = None
    for at, axis in enumerate(axes):
        found = list(c.dims(first + at))
        if not found:
            raise ShapeError(f"input {first + at} is a scalar, and has no axis to scan")
        size = found.pop(c.axis(axis, len(found)))
        length = size if length is None else c.equal(length, size, "the lengths of the scanned inputs")
        _set(block.args[first + at], c.like(first + at, found))
    states = list(block.args[:first])
    for at, arg in enumerate(states):
        _set(arg, c.type_of(at))
    inner = c.scope.inner()
    run(inference, block, inner)
    given = list(yields(block))
    _require_same(inference, block, states, given, inner)
    types: list[Attribute | None] = [escaping(c, at, arg.type, [op.body]) for at, arg in enumerate(states)]
    out_axes = c.attr("scan_output_axes") or [0] * rows
    for at, axis in zip(range(first, len(c.results)), out_axes):
        types.append(_stacked(c, at, given[at].type, length, axis, op.body, inner.facts))
    return types


def _require_same(
    inference: Inference, block: Block, states: Sequence[SSAValue], given: Sequence[SSAValue], inner: Scope
) -> None:
    """A Scan's states keep their shapes."""
    end = block.last_op
    assert end is not None
    c = Context(end, inner)
    for arg, value in zip(states, given):
        if isinstance(arg.type, TensorType) and isinstance(value.type, TensorType):
            before, after = dims_of(arg.type), dims_of(value.type)
            if len(before) != len(after) or arg.type.element_type != value.type.element_type:
                raise ShapeError(f"a state of type {arg.type} becomes {value.type}")
            for a, b in zip(before, after):
                c.equal(a, b, "a state of Scan keeps its shape")
    inference.state(end, inner, c.guards)


def sequence_map(inference: Inference, c: Context) -> list[Attribute | None]:
    """The body takes an element of each sequence, and other operands as they are; it gives elements of the results."""
    op = c.op
    assert isinstance(op, onnx.SequenceMapOp)
    block = op.body.block
    for at, arg in enumerate(block.args):
        type_ = c.type_of(at)
        _set(arg, _element_in_body(arg, type_.element, c.scope.names) if isinstance(type_, SequenceType) else type_)
    run(inference, block, c.scope.inner())
    for result in op.results:
        c.scope.forget(result)
        if (length := length_of(c)) is not None:
            c.scope.lengths[result] = length
    return [SequenceType(_loose(c, value.type, [op.body])) for value in yields(block)]


def _element_in_body(arg: SSAValue, element: Attribute, names: Names) -> Attribute:
    if not isinstance(element, TensorType):
        return element
    found = [names.size(arg, i) if d is ANY else d for i, d in enumerate(container_dims(element))]
    return dims.tensor_type(element.element_type, found)


def flex_attention(inference: Inference, c: Context) -> list[Attribute | None]:
    """The two bodies change scores and probabilities, [batch, heads, queries, keys], and keep their type."""
    q, k, v = (c.dims_of_rank(i, 4) for i in range(3))
    c.divides(k[1], q[1], "the heads of key and value divide those of the query")
    code = c.attr("softmax_precision")
    double = isinstance(c.element(0), Float64Type)
    element = ELEMENT_TYPES[code] if code else ELEMENT_TYPES[11 if double else 1]
    for region in c.op.regions:
        for arg in region.block.args[:1]:
            _set(arg, c.tensor(element, [q[0], q[1], q[2], k[2]]))
        run(inference, region.block, c.scope.inner())
    return [c.like(0, [q[0], q[1], q[2], v[3]])]


HANDLERS: Mapping[type[Operation], Callable[[Inference, Context], list[Attribute | None]]] = {
    onnx.IfOp: if_,
    onnx.LoopOp: loop,
    onnx.ScanOp: scan,
    onnx.SequenceMapOp: sequence_map,
    onnx.PreviewFlexAttentionOp: flex_attention,
}


# --- declared types ---------------------------------------------------------------------------------------------------


def declared_type(value: SSAValue, c: Context, result: int) -> Attribute | None:
    """The type that the file declares of the result of an unknown operator; its named sizes are believed."""
    name = onnx.value_name(value)
    owner = c.op.parent_op()
    found = None if name is None or owner is None else declared_types(owner).get(name)
    if found is None or not found.type.startswith("tensor(") or found.sizes is None:
        return None
    element = next((e for e, text in ELEMENT_NAMES.items() if found.type == f"tensor({text})"), None)
    if element is None:
        return None
    sizes: list[Dim] = []
    for axis, size in enumerate(found.sizes):
        sizes.append(_declared_size(c, result, axis, size))
    return dims.tensor_type(element, sizes)


def _declared_size(c: Context, result: int, axis: int, size: int | str | None) -> Dim:
    if isinstance(size, int) and size >= 0:
        return as_dim(size)
    if isinstance(size, str):
        try:
            dim = parse_dim(size)
        except DimError:
            return c.fresh(result, axis)
        if dim.symbols <= c.scope.names.taken:
            return dim
    return c.fresh(result, axis)
