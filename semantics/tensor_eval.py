"""Runs tensor-level kernels in numpy: the second of the three executors, which shares no code with the others.

A body is evaluated once for its whole iteration space: every scalar is an array that broadcasts to the loops' extents.
Both sides of an `scf.if` are evaluated, each under its mask.  It is strict: a read outside of a tensor, a division
that would trap and a failed `kernel.check` raise, where compiled code would misbehave or report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from ..dialects import kernel
from ..dialects.dims import ShapeAttr
from ..dialects.structured import GenericOp
from .scalar_rules import BINARY, COMBINATIONS, SCALAR_RULES, Array, StrayAccess, check_division, numpy_type
from .tensor_templates import run_template

Env = dict[SSAValue, Array]

CHUNK = 1 << 22
"""Points of an iteration space that are evaluated at once."""


class CheckFailed(Exception):
    """A `kernel.check` found a lane where its condition does not hold: its code, message, and that lane's values."""

    def __init__(self, code: str, message: str, values: tuple[int, ...]) -> None:
        super().__init__(f"{message} {values}")
        self.code, self.message, self.values = code, message, values


def evaluate(function: func.FuncOp, dims: Sequence[int], inputs: Sequence[Array]) -> list[Array]:
    """The results of a tensor-level kernel for its dims d0, d1, ... and its tensors.

    Unsigned inputs may be given as such; integer results are signed (view them).  Raises CheckFailed, StrayAccess.
    """
    env: Env = {}
    binding = {f"d{k}": int(d) for k, d in enumerate(dims)}
    sizes, arrays = iter(dims), iter(inputs)
    for argument in function.body.block.args:
        if isinstance(argument.type, TensorType):
            array = np.asarray(next(arrays), order="C")
            env[argument] = array.view(numpy_type(argument.type.element_type)).reshape(array.shape)
        else:
            env[argument] = np.asarray(next(sizes), np.int64)
    with np.errstate(all="ignore"):
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                return [env[v] for v in op.operands]
            _TENSOR_RULES[type(op)](op, env, binding)
    raise ValueError("a function without a return")


# Ops on whole tensors

TensorRule = Callable[[Any, Env, Mapping[str, int]], None]


def _sizes(type_: Attribute, dynamic: Sequence[SSAValue], env: Env) -> tuple[int, ...]:
    assert isinstance(type_, TensorType)
    rest = iter(dynamic)
    return tuple(int(env[next(rest)]) if n == DYNAMIC_INDEX else n for n in type_.get_shape())


def _empty(op: tensor.EmptyOp, env: Env, binding: Mapping[str, int]) -> None:
    shape = _sizes(op.tensor.type, op.dynamic_sizes, env)
    env[op.tensor] = np.full(shape, 77, numpy_type(op.tensor.type.element_type))  # not 0: nothing may rely on it


def _splat(op: tensor.SplatOp, env: Env, binding: Mapping[str, int]) -> None:
    shape = _sizes(op.result.type, op.dynamicSizes, env)
    env[op.result] = np.broadcast_to(env[op.input], shape)


def _dim(op: kernel.DimOp, env: Env, binding: Mapping[str, int]) -> None:
    env[op.result] = np.asarray(op.expr.data[0].evaluate(binding), np.int64)


def _view(op: kernel.ViewOp, env: Env, binding: Mapping[str, int]) -> None:
    dims = op.attributes["dims"]
    assert isinstance(dims, ShapeAttr)
    env[op.result] = env[op.source].reshape([d.evaluate(binding) for d in dims.data])


def _constant(op: arith.ConstantOp, env: Env, binding: Mapping[str, int] | None = None) -> None:
    value = op.value
    if isinstance(value, DenseIntOrFPElementsAttr):
        shape = tuple(value.type.get_shape())
        flat = np.frombuffer(value.data.data, numpy_type(value.type.element_type))
        env[op.result] = flat.reshape(shape) if flat.size == np.prod(shape) else np.broadcast_to(flat, shape)
    elif isinstance(value, IntegerAttr):
        number = value.value.data
        if (
            isinstance(value.type, IntegerType)
            and value.type.width.data > 1
            and number >= 1 << value.type.width.data - 1
        ):
            number -= 1 << value.type.width.data
        if (kind := numpy_type(op.result.type)).kind == "c":
            env[op.result] = np.frombuffer(number.to_bytes(kind.itemsize, "little", signed=True), kind).reshape(())
        else:
            env[op.result] = np.asarray(number, kind)
    else:
        assert isinstance(value, FloatAttr)
        env[op.result] = np.asarray(value.value.data, numpy_type(op.result.type))


def _template(op: kernel.TemplateOp, env: Env, binding: Mapping[str, int]) -> None:
    outputs = [env[o] for o in op.outputs]
    region = op.epilogue
    types = [o.dtype for o in outputs]
    if region is not None:
        kinds = [a.type for a in region.block.args if not isinstance(a.type, IndexType)]
        types = [numpy_type(k) for k in kinds]
    values = run_template(op, [env[i] for i in op.inputs], outputs, types, binding)
    if region is not None:
        grid = Grid(outputs[0].shape, env, binding)
        inner: Env = {}
        inner.update(zip(region.block.args, [*values, *map(grid.index, range(len(grid.extents)))]))
        values = [np.broadcast_to(v, outputs[0].shape) for v in grid.run(region.block, inner)]
    for result, output, value in zip(op.results_, outputs, values, strict=True):
        if value.shape != output.shape:
            raise StrayAccess(f"{op.template.data} gives {value.shape} for {output.shape}")
        env[result] = np.asarray(value).astype(output.dtype)


def _generic(op: linalg.GenericOp, env: Env, binding: Mapping[str, int]) -> None:
    maps = [m.data for m in op.indexing_maps]
    reduced = [t.data is IteratorType.REDUCTION for t in op.iterator_types]
    tensors = [env[v] for v in (*op.inputs, *op.outputs)]
    extents = _extents(len(reduced), tensors, maps)
    results = [np.array(env[o]) for o in op.outputs]
    for lower, upper in _chunks(extents, reduced):
        _generic_part(op, env, binding, extents, reduced, results, lower, upper)
    for result, value in zip(op.res, results):
        env[result] = value


def _extents(rank: int, tensors: Sequence[Array], maps: Sequence[AffineMap]) -> tuple[int, ...]:
    extents: dict[int, int] = {}
    for array, map_ in zip(tensors, maps, strict=True):
        if array.ndim != len(map_.results):
            raise StrayAccess("an indexing map of another rank")
        for size, result in zip(array.shape, map_.results):
            if isinstance(result, AffineDimExpr) and extents.setdefault(result.position, size) != size:
                raise StrayAccess(f"loop {result.position} over {extents[result.position]} and {size}")
    return tuple(extents[k] for k in range(rank))


def _chunks(extents: tuple[int, ...], reduced: Sequence[bool]) -> list[tuple[int, int]]:
    """Ranges of the outermost loop, where that is a map's and the space is large."""
    total = int(np.prod(extents, dtype=np.int64))
    if not extents or reduced[0] or total <= CHUNK:
        return [(0, extents[0] if extents else 1)]
    step = max(1, CHUNK * extents[0] // total)
    return [(at, min(at + step, extents[0])) for at in range(0, extents[0], step)]


def _generic_part(
    op: linalg.GenericOp,
    env: Env,
    binding: Mapping[str, int],
    extents: tuple[int, ...],
    reduced: Sequence[bool],
    results: Sequence[Array],
    lower: int,
    upper: int,
) -> None:
    shape = (upper - lower, *extents[1:]) if extents else ()
    grid = Grid(shape, env, binding, lower)
    block = op.body.block
    maps = [m.data for m in op.indexing_maps]
    inner: Env = {}
    for argument, value, map_ in zip(block.args, op.inputs, maps):
        inner[argument] = grid.spread(env[value], map_)
    accumulators = block.args[len(op.inputs) :]
    terminator = block.last_op
    assert terminator is not None
    combines: list[Operation | None] = []
    wanted: list[SSAValue] = []
    for yielded, argument in zip(terminator.operands, accumulators, strict=True):
        owner = yielded.owner
        combine = owner if isinstance(owner, Operation) and argument in owner.operands else None
        combines.append(combine)
        wanted.append(yielded if combine is None else next(o for o in combine.operands if o is not argument))
    skipped = {c for c in combines if c is not None}
    values = grid.run(block, inner, wanted, skipped)
    for result, value, combine, map_ in zip(results, values, combines, maps[len(op.inputs) :]):
        _store(result, np.broadcast_to(value, shape), combine, map_, reduced, slice(lower, upper))


def _store(
    result: Array, value: Array, combine: Operation | None, map_: AffineMap, reduced: Sequence[bool], rows: slice
) -> None:
    """Writes a part's values: mapped to the result's axes, and combined along the loops that it has not."""
    loops = [r.position for r in map_.results if isinstance(r, AffineDimExpr)]
    gone = tuple(k for k in range(value.ndim) if k not in loops)
    if gone:
        if combine is None:
            raise StrayAccess("a reduced loop without a combination")
        value = COMBINATIONS[type(combine)](value, gone)
    left = [k for k in range(len(reduced)) if k in loops]
    value = np.transpose(value, [left.index(k) for k in loops])
    place = result[(*(_output_index(r, rows) for r in map_.results), ...)]
    if combine is None:
        place[...] = value
    else:
        place[...] = BINARY[type(combine)](place, value).astype(place.dtype, copy=False)


def _output_index(expr: object, rows: slice) -> slice | int:
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    assert isinstance(expr, AffineDimExpr)
    return rows if expr.position == 0 else slice(None)


# Bodies


@dataclass(frozen=True)
class Grid:
    """An iteration space: scalars are arrays that broadcast to its extents. `first` is where loop 0 begins."""

    extents: tuple[int, ...]
    tensors: Env
    binding: Mapping[str, int]
    first: int = 0
    mask: Array | None = None
    """Where evaluation counts: lanes outside must not read, nor fail."""

    def index(self, loop: int) -> Array:
        start = self.first if loop == 0 else 0
        shape = [1] * len(self.extents)
        shape[loop] = self.extents[loop]
        return np.arange(start, start + self.extents[loop], dtype=np.int64).reshape(shape)

    def spread(self, array: Array, map_: AffineMap) -> Array:
        """A tensor's elements along the loops that its map names."""
        if array.size == 0 and all(self.extents):
            raise StrayAccess(f"a read from a tensor of shape {array.shape}")
        if array.size == 0:
            return np.zeros(self.extents, array.dtype)
        selected = array[tuple(r.value if isinstance(r, AffineConstantExpr) else slice(None) for r in map_.results)]
        loops = [r.position for r in map_.results if isinstance(r, AffineDimExpr)]
        order = sorted(range(len(loops)), key=loops.__getitem__)
        moved = np.transpose(selected, order)
        if loops and min(loops) == 0:
            moved = moved[self.first : self.first + self.extents[0]]
        shape = [1] * len(self.extents)
        for loop, size in zip(sorted(loops), moved.shape):
            shape[loop] = size
        return moved.reshape(shape)

    def run(
        self,
        block: Block,
        env: Env,
        wanted: Sequence[SSAValue] | None = None,
        skipped: set[Operation] | frozenset[Operation] = frozenset(),
    ) -> list[Array]:
        """The values that the block yields (or those that are wanted)."""
        for op in block.ops:
            if op.next_op is None:
                return [self.value(v, env) for v in (op.operands if wanted is None else wanted)]
            if op not in skipped:
                self.step(op, env)
        raise ValueError("a body without a terminator")

    def value(self, operand: SSAValue, env: Env) -> Array:
        found = env.get(operand)
        return self.tensors[operand] if found is None else found

    def step(self, op: Operation, env: Env) -> None:
        if (special := _SPECIAL.get(type(op))) is not None:
            special(self, op, env)
            return
        operands = [self.value(v, env) for v in op.operands]
        result = op.results[0]
        if isinstance(op, arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp):
            check_division(op, operands)
        env[result] = np.asarray(SCALAR_RULES[type(op)](op, *operands)).astype(numpy_type(result.type), copy=False)

    def within(self, condition: Array) -> Grid:
        mask = condition if self.mask is None else self.mask & condition
        return replace(self, mask=mask)

    def extract(self, array: Array, indices: Sequence[Array]) -> Array:
        """Elements at index arrays; every lane that counts must be inside."""
        inside = np.asarray(True)
        for index, size in zip(indices, array.shape, strict=True):
            inside = inside & (index >= 0) & (index < size)
        counted = inside if self.mask is None else inside | ~self.mask
        if not counted.all() and all(self.extents):
            raise StrayAccess(f"a read outside of a tensor of shape {array.shape}")
        shape = np.broadcast_shapes(inside.shape, *(i.shape for i in indices))
        if array.size == 0:
            return np.zeros(shape, array.dtype)
        safe = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape))
        return np.asarray(array[safe]) if safe else array


def _index(grid: Grid, op: linalg.IndexOp, env: Env) -> None:
    env[op.result] = grid.index(op.dim.value.data)


def _body_dim(grid: Grid, op: kernel.DimOp, env: Env) -> None:
    _dim(op, env, grid.binding)


def _body_constant(grid: Grid, op: arith.ConstantOp, env: Env) -> None:
    _constant(op, env)


def _extract(grid: Grid, op: tensor.ExtractOp, env: Env) -> None:
    env[op.result] = grid.extract(grid.tensors[op.tensor], [grid.value(i, env) for i in op.indices])


def _check(grid: Grid, op: kernel.CheckOp, env: Env) -> None:
    condition = grid.value(op.condition, env)
    failed = ~condition if grid.mask is None else ~condition & grid.mask
    values = [grid.value(v, env) for v in op.values]
    failed, *values = np.broadcast_arrays(np.broadcast_to(failed, grid.extents), *values)
    if failed.any():
        at = tuple(axis[0] for axis in np.nonzero(failed)) if failed.ndim else ()
        raise CheckFailed(op.code.data, op.message.data, tuple(int(v[at]) for v in values))


def _if(grid: Grid, op: scf.IfOp, env: Env) -> None:
    condition = grid.value(op.cond, env)
    taken = grid.within(condition).run(op.true_region.block, dict(env))
    other = grid.within(~condition).run(op.false_region.block, dict(env)) if op.false_region.blocks else []
    for result, a, b in zip(op.output, taken, other, strict=True):
        env[result] = np.where(condition, a, b)


def _for(grid: Grid, op: scf.ForOp, env: Env) -> None:
    lower, upper, step = (int(grid.value(v, env)) for v in (op.lb, op.ub, op.step))
    carried = [grid.value(v, env) for v in op.iter_args]
    block = op.body.block
    for at in range(lower, upper, step):
        inner = dict(env)
        inner.update(zip(block.args, [np.asarray(at, np.int64), *carried]))
        carried = grid.run(block, inner)
    env.update(zip(op.results, carried))


_SPECIAL: dict[type[Operation], Callable[[Grid, Any, Env], None]] = {
    arith.ConstantOp: _body_constant,
    kernel.CheckOp: _check,
    kernel.DimOp: _body_dim,
    linalg.IndexOp: _index,
    scf.ForOp: _for,
    scf.IfOp: _if,
    tensor.ExtractOp: _extract,
}


_TENSOR_RULES: dict[type[Operation], TensorRule] = {
    arith.ConstantOp: _constant,
    kernel.DimOp: _dim,
    kernel.TemplateOp: _template,
    kernel.ViewOp: _view,
    GenericOp: _generic,
    linalg.GenericOp: _generic,
    tensor.EmptyOp: _empty,
    tensor.SplatOp: _splat,
}
