"""scf to blocks with arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import llvm, scf
from xdsl.dialects.builtin import IntegerAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from .scope import Scope, Translation, translate_block

SUM_TURNS = 1000


def _bind(scope: Scope, sources: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    scope.values.update(zip(sources, values))


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, llvm.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _turns(carried: Sequence[SSAValue]) -> tuple[int, int] | None:
    """How often a loop is gone through again for each time that it ends: a sum in a register has many terms.

    Else all loops would seem to turn alike to LLVM, so that the constants of an epilogue in three loops would take the
    registers of the sums in two.
    """
    return (SUM_TURNS, 1) if any(isinstance(value.type, VectorType) for value in carried) else None


def _for(scope: Scope, op: Operation) -> None:
    """Tested at the bottom, with one test before: the body is one block where it has no control flow of its own."""
    assert isinstance(op, scf.ForOp)
    f = scope.f
    lower, upper, step = scope.values[op.lb], scope.values[op.ub], scope.values[op.step]
    inits = [scope.values[arg] for arg in op.iter_args]
    body = f.new_block(lower.type, *_types(inits))
    after = f.new_block(*_types(inits))
    low, high = _constant(lower), _constant(upper)
    if low is not None and high is not None and low < high:
        f.br(body, (lower, *inits))
    else:
        f.cond_br(f.icmp("slt", lower, upper), body, (lower, *inits), after, inits)
    counter, *carried = f.at(body)
    source = op.body.blocks[0]
    _bind(scope, source.args, (counter, *carried))
    yielded = translate_block(scope, source)
    following = f.add(counter, step, nsw=True)
    f.cond_br(f.icmp("slt", following, upper), body, (following, *yielded), after, yielded, _turns(carried))
    _bind(scope, op.results, f.at(after))


def _if(scope: Scope, op: Operation) -> None:
    assert isinstance(op, scf.IfOp)
    f = scope.f
    after = f.new_block(*(scope.type(result.type) for result in op.results))
    then = f.new_block()
    has_else = bool(op.false_region.blocks)
    otherwise = f.new_block() if has_else else after
    f.cond_br(scope.values[op.cond], then, (), otherwise, ())
    _branch(scope, then, op.true_region.blocks[0], after)
    if has_else:
        _branch(scope, otherwise, op.false_region.blocks[0], after)
    _bind(scope, op.results, f.at(after))


def _branch(scope: Scope, target: Block, source: Block, after: Block) -> None:
    scope.f.at(target)
    yielded = translate_block(scope, source)
    scope.f.br(after, yielded)


def _while(scope: Scope, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    f = scope.f
    inits = [scope.values[arg] for arg in op.arguments]
    test_source, body_source = op.before_region.blocks[0], op.after_region.blocks[0]
    test = f.new_block(*_types(inits))
    body = f.new_block(*(scope.type(arg.type) for arg in body_source.args))
    after = f.new_block(*(scope.type(result.type) for result in op.results))
    f.br(test, inits)
    _bind(scope, test_source.args, f.at(test))
    condition, *passed = translate_block(scope, test_source)
    f.cond_br(condition, body, passed, after, passed)
    _bind(scope, body_source.args, f.at(body))
    f.br(test, translate_block(scope, body_source))
    _bind(scope, op.results, f.at(after))


CONTROL: Mapping[type[Operation], Translation] = {scf.ForOp: _for, scf.IfOp: _if, scf.WhileOp: _while}
