"""Builds the tensor-level function of a kernel from its plan: one `linalg.generic` or `kernel.template` a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from ...dialects import kernel
from ...dialects.dims import Dim, ShapeAttr
from ...dialects.dims.expression import ONE, ZERO
from ...dialects.onnx import dense_attr
from ...dialects.structured import GenericOp
from .body import Body, origin_attribute
from .element_kinds import Element
from .graph import Combine, Leaf, Literal, Node, Reduce, Template, TemplateResult, View
from .index_space import Index, IndexSpace
from .plan import Group, Plan, is_reinterpreted
from .scalars import INDEX, Scalars, constant_attribute

_PARALLEL, _REDUCTION = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()

MANY_INDICES = 32
"""A value needed at more indices than this in one body becomes a tensor of its own."""


@cache
def tensor_of(element: Attribute, dims: tuple[Dim, ...]) -> TensorType[Attribute]:
    """The type without an encoding: what is below the graph level."""
    return TensorType(element, [d.value if d.is_const else DYNAMIC_INDEX for d in dims])


@cache
def _map_attribute(map_: AffineMap) -> AffineMapAttr:
    return AffineMapAttr(map_)


@cache
def _segments(*sizes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


class TooManyIndices(Exception):
    """A node was emitted at many indices of one body: to be tried again with it as a root."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


@dataclass
class Emitter:
    """The function being built. `site`'s methods give whole tensors to bodies."""

    block: Block
    leaves: dict[Node, Leaf] = field(default_factory=dict[Node, Leaf])
    origin: Attribute | None = None
    _dims: dict[Dim, SSAValue] = field(default_factory=dict[Dim, SSAValue])
    _views: dict[tuple[SSAValue, tuple[Dim, ...]], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, tuple[Dim, ...]], SSAValue]
    )
    _dense: dict[Literal, SSAValue] = field(default_factory=dict[Literal, SSAValue])

    def add(self, op: Operation) -> SSAValue:
        if self.origin is not None:
            op.attributes["origin"] = self.origin
        self.block.add_op(op)
        return op.results[0]

    # Whole tensors

    def dim(self, size: Dim) -> SSAValue:
        """A size as an index value of the function."""
        if (found := self._dims.get(size)) is None:
            properties: dict[str, Attribute] = {"expr": ShapeAttr((size,))}
            found = self._dims[size] = self.add(kernel.DimOp.create(result_types=[INDEX], properties=properties))
        return found

    def empty(self, element: Attribute, dims: tuple[Dim, ...]) -> SSAValue:
        sizes = [self.dim(d) for d in dims if not d.is_const]
        return self.add(tensor.EmptyOp.create(operands=sizes, result_types=[tensor_of(element, dims)]))

    def splat(self, value: float, element: Element, dims: tuple[Dim, ...]) -> SSAValue:
        """A tensor with one value everywhere: what a reduction starts from."""
        properties = {"value": constant_attribute(value, element.ir)}
        scalar = self.add(arith.ConstantOp.create(result_types=[element.ir], properties=properties))
        sizes = [self.dim(d) for d in dims if not d.is_const]
        return self.add(tensor.SplatOp.create(operands=[scalar, *sizes], result_types=[tensor_of(element.ir, dims)]))

    def dense(self, literal: Literal) -> SSAValue:
        """The tensor value of a constant."""
        if (found := self._dense.get(literal)) is None:
            type_ = tensor_of(literal.element.ir, literal.dims)
            attribute = dense_attr(type_, literal.array.tobytes())
            op = arith.ConstantOp.create(result_types=[type_], properties={"value": attribute})
            if self.origin is not None:
                op.attributes["origin"] = self.origin
            first = self.block.first_op
            self.block.add_op(op) if first is None else self.block.insert_op_before(op, first)
            found = self._dense[literal] = op.results[0]
        return found

    def view(self, value: SSAValue, dims: tuple[Dim, ...]) -> SSAValue:
        """The same elements under other dims."""
        assert isinstance(value.type, TensorType)
        type_ = tensor_of(value.type.element_type, dims)
        if (found := self._views.get((value, dims))) is None:
            attributes: dict[str, Attribute] = {"dims": ShapeAttr(dims)}
            op = kernel.ViewOp.create(operands=[value], result_types=[type_], attributes=attributes)
            found = self._views[value, dims] = self.add(op)
        return found

    def tensor(self, node: Node) -> SSAValue:
        """The tensor value of a node that is in memory, perhaps under other dims."""
        if (leaf := self.leaves.get(node)) is not None:
            node = leaf
        if isinstance(node, Leaf):
            return node.value
        if isinstance(node, Literal):
            return self.dense(node)
        assert isinstance(node, View) and is_reinterpreted(node), "a template's operand that is not in memory"
        return self.view(self.tensor(node.source), node.dims)

    # Groups

    def group(self, group: Group) -> None:
        """Builds one group; its roots are leaves from then on."""
        if group.template is not None:
            TemplateBuilder(self, group, group.template).build()
        else:
            GenericBuilder(self, group).build()

    def keep(self, node: Node, value: SSAValue, dims: tuple[Dim, ...]) -> None:
        """Makes a root's tensor, which may have its axes split, the place of its elements."""
        value.name_hint = node.hint
        if dims != node.dims:
            value = self.view(value, node.dims)
        self.leaves[node] = Leaf(node.dims, node.element, value)


def _check_counts(body: Body) -> None:
    for node, count in body.counts.items():
        if count > MANY_INDICES and node.reads() and not isinstance(node, Leaf):
            raise TooManyIndices(node)


@dataclass
class GenericBuilder:
    """One `linalg.generic`: roots over the same space, as maps or reductions."""

    emitter: Emitter
    group: Group
    splits: dict[int, list[Dim]] = field(default_factory=dict[int, list[Dim]])
    """For each axis of the space: the sizes of its inner parts, outermost first."""

    def build(self) -> None:
        while True:
            body = self._attempt()
            wanted = self._new_splits(body)
            if not wanted:
                break
            for axis, inner in wanted:
                self.splits.setdefault(axis, []).append(inner)
        _check_counts(body)

    # Loops

    def axis_dims(self, axis: int) -> tuple[Dim, ...]:
        """The extents of the loops that an axis of the space is split into."""
        extent = self.group.space[axis]
        inner = self.splits.get(axis, [])
        outer = extent
        for part in inner:
            divided = outer.divide_exactly(part)
            assert divided is not None
            outer = divided
        return (outer, *inner)

    def _reduced_axes(self) -> set[int]:
        """The axes of the space that some root reduces."""
        axes: set[int] = set()
        for root in self.group.roots:
            if isinstance(root, Reduce):
                axes |= {_space_axis(root.source.dims, a) for a in root.axes if root.source.dims[a] is not ONE}
        return axes

    def _new_splits(self, body: Body) -> list[tuple[int, Dim]]:
        """Axes to split, each into (outer, inner): for map axes that are not split yet."""
        reduced = self._reduced_axes()
        found: list[tuple[int, Dim]] = []
        for axis in range(len(self.group.space)):
            if axis in reduced or axis in self.splits:
                continue
            name, _ = body.loops[self._first_loop(axis)]
            if (inner := body.splits.get(name)) is not None:
                found.append((axis, inner))
        return found

    def _first_loop(self, axis: int) -> int:
        return sum(1 + len(self.splits.get(a, [])) for a in range(axis))

    def _attempt(self) -> Body:
        """Emits the body once and, where no split is asked for, the op."""
        extents = [d for axis in range(len(self.group.space)) for d in self.axis_dims(axis)]
        loops = [(f"i{k}", d) for k, d in enumerate(extents)]
        self.inputs: list[tuple[SSAValue, AffineMap]] = []
        self.arguments: dict[tuple[SSAValue, AffineMap], SSAValue] = {}
        block = Block()
        scalars = Scalars(block)
        scalars.origin = self.emitter.origin
        body = Body(
            scalars,
            IndexSpace(dict(loops)),
            loops,
            lambda k: _loop_index(scalars, k),
            self.emitter,
            self.emitter.leaves,
            self._operand,
        )
        self._block = block
        values = [self._value(root, body) for root in self.group.roots]
        if not self._new_splits(body):
            self._finish(body, values, tuple(extents))
        return body

    def _operand(self, value: SSAValue, map_: AffineMap) -> SSAValue:
        key = (value, map_)
        if (found := self.arguments.get(key)) is None:
            assert isinstance(value.type, TensorType)
            found = self._block.insert_arg(value.type.element_type, len(self.inputs))
            self.inputs.append(key)
            self.arguments[key] = found
        return found

    def _value(self, root: Node, body: Body) -> SSAValue:
        source = root.source if isinstance(root, Reduce) else root
        return body.read(source, self._index(source.dims, body))

    def _index(self, dims: Sequence[Dim], body: Body) -> Index:
        """The index at which the loops visit a tensor of these dims."""
        index: list[Dim] = []
        axis = 0
        for size in dims:
            if size is ONE:
                index.append(ZERO)
                continue
            at = ZERO
            first = self._first_loop(axis)
            for k, extent in enumerate(self.axis_dims(axis)):
                at = at * extent + Dim.symbol(body.loops[first + k][0])
            index.append(at)
            axis += 1
        return tuple(index)

    # The op

    def _finish(self, body: Body, values: Sequence[SSAValue], extents: tuple[Dim, ...]) -> None:
        emitter, block = self.emitter, self._block
        self._cover_loops(extents)
        outputs: list[SSAValue] = []
        shapes: list[tuple[Dim, ...]] = []
        maps = [m for _, m in self.inputs]
        yielded: list[SSAValue] = []
        for root, value in zip(self.group.roots, values):
            dims, map_ = self._output(root, len(extents))
            argument = block.insert_arg(root.element.ir, len(block.args))
            if isinstance(root, Reduce):
                outputs.append(emitter.splat(identity_of(root), root.element, dims))
                yielded.append(combined(body.scalars, root, argument, value))
            else:
                outputs.append(emitter.empty(root.element.ir, dims))
                yielded.append(value)
            shapes.append(dims)
            maps.append(map_)
        body.scalars.finish()
        body.scalars.append(linalg.YieldOp.create(operands=yielded))
        op = self._generic(outputs, maps, len(extents))
        emitter.add(op)
        for root, dims, result in zip(self.group.roots, shapes, op.results):
            emitter.keep(root, result, dims)

    def _generic(self, outputs: Sequence[SSAValue], maps: Sequence[AffineMap], rank: int) -> Operation:
        reduced = {self._first_loop(a) for a in self._reduced_axes()}
        kinds = [_REDUCTION if k in reduced else _PARALLEL for k in range(rank)]
        properties: dict[str, Attribute] = {
            "indexing_maps": ArrayAttr([_map_attribute(m) for m in maps]),
            "iterator_types": ArrayAttr(kinds),
            "operandSegmentSizes": _segments(len(self.inputs), len(outputs)),
        }
        return GenericOp.create(
            operands=[*(v for v, _ in self.inputs), *outputs],
            result_types=[o.type for o in outputs],
            properties=properties,
            regions=[Region(self._block)],
        )

    def _output(self, root: Node, rank: int) -> tuple[tuple[Dim, ...], AffineMap]:
        """The dims of a root's tensor, with split axes apart, and how the loops write it."""
        reduced = root.axes if isinstance(root, Reduce) else ()
        source = root.source.dims if isinstance(root, Reduce) else root.dims
        dims: list[Dim] = []
        results: list[AffineExpr] = []
        for axis, size in enumerate(source):
            if axis in reduced:
                continue
            if size is ONE:
                dims.append(ONE)
                results.append(AffineConstantExpr(0))
                continue
            space_axis = _space_axis(source, axis)
            first = self._first_loop(space_axis)
            for k, extent in enumerate(self.axis_dims(space_axis)):
                dims.append(extent)
                results.append(AffineDimExpr(first + k))
        return tuple(dims), AffineMap(rank, 0, tuple(results))

    def _cover_loops(self, extents: tuple[Dim, ...]) -> None:
        """Adds an operand that is not read for loops that no operand would give an extent."""
        covered: set[int] = set()
        for _, map_ in self.inputs:
            covered |= map_.used_dims()
        for root in self.group.roots:
            covered |= self._output(root, len(extents))[1].used_dims()
        left = [k for k in range(len(extents)) if k not in covered]
        if left:
            shape = self.emitter.empty(self.group.roots[0].element.ir, tuple(extents[k] for k in left))
            self._operand(shape, AffineMap(len(extents), 0, tuple(AffineDimExpr(k) for k in left)))


def _space_axis(dims: Sequence[Dim], axis: int) -> int:
    """The axis among those that are not of size 1."""
    return sum(d is not ONE for d in dims[:axis])


def _loop_index(scalars: Scalars, loop: int) -> SSAValue:
    key = (f"i{loop}", INDEX)
    if (found := scalars.find_constant(key)) is not None:
        return found
    properties: dict[str, Attribute] = {"dim": IntegerAttr(loop, i64)}
    return scalars.first(key, linalg.IndexOp.create(result_types=[INDEX], properties=properties))


def identity_of(root: Reduce) -> float:
    """What combines with any value to that value; for a sum of floats -0.0 would, the standard's 0 is for no values."""
    match root.combine:
        case Combine.ADD:
            return 0
        case Combine.MUL:
            return 1
        case Combine.MAX | Combine.MAX_OF_NUMBERS:
            return root.element.lowest
        case Combine.MIN:
            return root.element.highest if root.element.kind != "b" else 1


def combined(scalars: Scalars, root: Reduce, total: SSAValue, value: SSAValue) -> SSAValue:
    """The accumulator with one more value."""
    t = root.element
    match root.combine:
        case Combine.ADD:
            return scalars.add(total, value, t)
        case Combine.MUL:
            return scalars.mul(total, value, t)
        case Combine.MAX:
            return scalars.max(total, value, t)
        case Combine.MAX_OF_NUMBERS:
            return scalars.max_of_numbers(total, value, t)
        case Combine.MIN:
            return scalars.min(total, value, t)


@dataclass
class TemplateBuilder:
    """A `kernel.template` with the roots that are computed where it stores."""

    emitter: Emitter
    group: Group
    template: Template

    def build(self) -> None:
        emitter, template = self.emitter, self.template
        inputs = [emitter.tensor(i) for i in template.inputs]
        stored: list[Node] = [r for r in self.group.roots if r is not template]
        if not stored:
            stored = list(template.results)
        epilogue = self._epilogue(stored)
        outputs = [emitter.empty(r.element.ir, r.dims) for r in stored]
        op = kernel.TemplateOp.create(
            operands=[*inputs, *outputs],
            result_types=[o.type for o in outputs],
            properties={
                "template": StringAttr(template.name),
                "config": DictionaryAttr(template.config),
                "operandSegmentSizes": _segments(len(inputs), len(outputs)),
            },
            regions=[] if epilogue is None else [epilogue],
        )
        emitter.add(op)
        for root, result in zip(stored, op.results):
            emitter.keep(root, result, root.dims)

    def _epilogue(self, stored: Sequence[Node]) -> Region | None:
        """The region from the template's own scalars to what is stored; None where that is the same."""
        template = self.template
        if not template.accumulates:
            return None
        if all(isinstance(r, TemplateResult) and r.element.compute is r.element for r in stored):
            return None
        [result] = template.results
        block = Block(arg_types=[result.element.compute.ir, *(INDEX for _ in result.dims)])
        scalars = Scalars(block)
        scalars.origin = self.emitter.origin
        loops = [(f"i{k}", d) for k, d in enumerate(result.dims)]
        body = Body(
            scalars, IndexSpace({n: d for n, d in loops if d is not ONE}), loops, lambda k: block.args[1 + k],
            self.emitter, self.emitter.leaves,
        )  # fmt: skip
        index = tuple(Dim.symbol(n) if d is not ONE else ZERO for n, d in loops)
        body.preset(result, index, scalars.narrow(block.args[0], result.element))
        values = [body.read(r, index) for r in stored]
        _check_counts(body)
        scalars.finish()
        scalars.append(kernel.YieldOp.create(operands=values))
        return Region(block)


def emit_function(name: str, arguments: Sequence[Attribute], plan: Plan, emitter: Emitter) -> func.FuncOp:
    """The tensor-level function whose body the emitter holds. `emitter.origin` is the whole kernel's."""
    origin = emitter.origin
    for group in plan.groups:
        emitter.origin = origin_attribute(plan.origin_of(group)) or origin
        emitter.group(group)
    emitter.origin = origin
    values = [emitter.tensor(r) for r in plan.results]
    end = func.ReturnOp.create(operands=values)
    if origin is not None:
        end.attributes["origin"] = origin
    emitter.block.add_op(end)
    return func.FuncOp(name, (list(arguments), [v.type for v in values]), Region(emitter.block), visibility="private")
