"""Pointwise operators behind a view of a template's result move in front of the view, so that its epilogue takes them.

Relu(Squeeze(Conv(x)) + b)  ->  Squeeze(Relu(Conv(x) + Unsqueeze(b))): the same elements in the same order, and one
kernel instead of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, dims_of
from ..semantics.kinds import Kind, is_view, kind_of
from .driver import origins_of, set_origins
from .views import mapped_dims

AXIS_DEPENDENT: frozenset[type[Operation]] = frozenset(
    (onnx.BatchNormalizationOp, onnx.QuantizeLinearOp, onnx.DequantizeLinearOp, onnx.CustomOp, onnx.SwiGLUOp)
)
"""Pointwise operators to which an axis means something of its own."""


def pass_views(block: Block, templates: frozenset[type[Operation]]) -> None:
    """Moves views behind what follows them, for each template of these classes whose result a view shows."""
    for op in list(block.ops):
        if type(op) in templates:
            value = op.results[0]
            while (view := reader_of(value, block)) is not None:
                if kind_of(view) is Kind.POINTWISE and dims_of(view.results[0]) == dims_of(value):
                    value = view.results[0]  # in the epilogue anyway
                elif is_view(view):
                    value = skip_views(view, block)
                    Passing(block, dims_of(op.results[0]), value, root_of(value)).run()
                    break
                else:
                    break


def pass_products(block: Block) -> None:
    """MatMul(Reshape(Transpose(x)), w)  ->  Reshape(MatMul(Transpose(x), w))

    Where the transpose swaps the last two axes and the reshape only merges those in front of the last, the product can
    read x itself; each of its rows is the same sum of the same products.
    """
    for op in list(block.ops):
        if not isinstance(op, onnx.MatMulOp) or len(dims_of(op.operands[1])) != 2:
            continue
        [rows, columns] = op.operands
        view = rows.owner
        if not (
            isinstance(view, Operation) and is_view(view) and view.parent is block and reader_of(rows, block) is op
        ):
            continue
        source = root_of(rows)
        inner = dims_of(source)
        turned = isinstance(source.owner, onnx.TransposeOp) and source.owner.parent is block and is_swap(source.owner)
        if not turned or len(inner) < 3 or inner[-1] is not dims_of(rows)[-1] or len(dims_of(rows)) < 2:
            continue
        [result] = op.results
        assert isinstance(result.type, TensorType)
        sizes = (*inner[:-1], dims_of(result)[-1])
        product = onnx.MatMulOp.create(
            operands=[source, columns],
            result_types=[dims.tensor_type(result.type.element_type, sizes)],
            attributes=dict(op.attributes),
        )
        block.insert_op_before(product, op)
        result.replace_all_uses_with(reshape(product.results[0], result.type, op, block))
        op.detach()
        op.erase()
        drop_dead_views(rows, source)


def is_swap(op: onnx.TransposeOp) -> bool:
    """Whether a transpose swaps the last two axes and keeps the others."""
    rank = len(dims_of(op.operands[0]))
    given = onnx.attr(op, "perm")
    perm = list(given) if given is not None else list(reversed(range(rank)))
    return rank >= 2 and perm == [*range(rank - 2), rank - 1, rank - 2]


def drop_dead_views(view: SSAValue, root: SSAValue) -> None:
    """Erases a chain of views that nothing reads any more."""
    while view is not root and not list(view.uses):
        op = view.owner
        assert isinstance(op, Operation)
        view = op.operands[0]
        op.detach()
        op.erase()


def reshape(value: SSAValue, type_: Attribute, user: Operation, block: Block) -> SSAValue:
    """The value with the dims of a type, as an op in front of `user`, whose origin it has."""
    sizes = dims_of(type_)
    shape = dims.TensorOp(sizes, TensorType(i64, [len(sizes)]))
    view = onnx.ReshapeOp.create(operands=[value, shape.result], result_types=[type_])
    for op in (shape, view):
        set_origins(op, origins_of(user))
        block.insert_op_before(op, user)
    view.results[0].name_hint = value.name_hint
    return view.results[0]


def reader_of(value: SSAValue, block: Block) -> Operation | None:
    """The one op of the block that reads a value, if it has one result."""
    readers = {use.operation for use in value.uses}
    reader = next(iter(readers)) if len(readers) == 1 else None
    return reader if reader is not None and reader.parent is block and len(reader.results) == 1 else None


def skip_views(view: Operation, block: Block) -> SSAValue:
    """The last of a chain of views."""
    while (following := reader_of(view.results[0], block)) is not None and is_view(following):
        view = following
    return view.results[0]


def root_of(value: SSAValue) -> SSAValue:
    """What a chain of views shows."""
    while isinstance(value.owner, Operation) and is_view(value.owner):
        value = value.owner.operands[0]
    return value


@dataclass
class Passing:
    """The pointwise operators over the dims that a view shows, each with what it reads in the dims that are stored."""

    block: Block
    stored: tuple[Dim, ...]
    view: SSAValue
    root: SSAValue
    inside: list[Operation] = field(default_factory=list[Operation])

    def run(self) -> None:
        """Moves as many as have, together, one result that is read elsewhere."""
        if dims_of(self.root) != self.stored or not isinstance(self.view.type, TensorType):
            return
        shown = dims_of(self.view)
        values = {self.view}
        taken = 0
        for op in self.readers(self.view):
            if not self.may_move(op, values, shown):
                continue
            self.inside.append(op)
            values.add(op.results[0])
            if self.live(values) == [op.results[0]]:
                taken = len(self.inside)
        self.move(self.inside[:taken], shown)

    def readers(self, value: SSAValue) -> list[Operation]:
        """The ops of the block behind the view, in order, as far as they read what was moved; few are looked at."""
        found: list[Operation] = []
        reached = {value}
        owner = value.owner
        assert isinstance(owner, Operation)
        at = owner.next_op
        waiting = {u.operation for u in value.uses}
        while at is not None and waiting:
            if at in waiting:
                waiting.discard(at)
                found.append(at)
                if kind_of(at) is Kind.POINTWISE and len(at.results) == 1 and len(found) < MOST:
                    reached.add(at.results[0])
                    waiting |= {u.operation for u in at.results[0].uses}
            at = at.next_op
        return found

    def may_move(self, op: Operation, values: set[SSAValue], shown: tuple[Dim, ...]) -> bool:
        return (
            kind_of(op) is Kind.POINTWISE
            and type(op) not in AXIS_DEPENDENT
            and len(op.results) == 1
            and not op.regions
            and dims_of(op.results[0]) == shown
            and any(v in values for v in op.operands)
            and all(v in values or self.may_read(v, shown) for v in op.operands)
        )

    def may_read(self, value: SSAValue, shown: tuple[Dim, ...]) -> bool:
        """Whether a value can be had in the dims stored; a view of what loops compute would part it from them."""
        sizes = mapped_dims(dims_of(value), shown, self.stored)
        if sizes is None:
            return False
        owner = root_of(value).owner
        return sizes == dims_of(value) or not isinstance(owner, Operation) or kind_of(owner) in NO_LOOPS

    def live(self, values: set[SSAValue]) -> list[SSAValue]:
        """The values that ops outside read."""
        inside = set(self.inside)
        return [v for v in values if any(use.operation not in inside for use in v.uses)]

    def move(self, ops: list[Operation], shown: tuple[Dim, ...]) -> None:
        if not ops:
            return
        moved = {self.view: self.root}
        for op in ops:
            [result] = op.results
            assert isinstance(result.type, TensorType)
            operands = [moved[v] if v in moved else self.reshaped(v, shown, op) for v in op.operands]
            new = type(op).create(
                operands=operands,
                result_types=[dims.tensor_type(result.type.element_type, self.stored)],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
            )
            self.block.insert_op_before(new, op)
            new.results[0].name_hint = result.name_hint
            moved[result] = new.results[0]
        last = ops[-1]
        [result] = last.results
        seen = reshape(moved[result], result.type, last, self.block)
        result.replace_all_uses_with(seen)
        for op in reversed(ops):
            op.detach()
            op.erase()
        drop_dead_views(self.view, self.root)

    def reshaped(self, value: SSAValue, shown: tuple[Dim, ...], user: Operation) -> SSAValue:
        """A value that is broadcast to the dims shown, so that it is to those stored."""
        sizes = mapped_dims(dims_of(value), shown, self.stored)
        assert sizes is not None and isinstance(value.type, TensorType)
        if sizes == dims_of(value):
            return value
        return reshape(value, dims.tensor_type(value.type.element_type, sizes), user, self.block)


NO_LOOPS = (Kind.TEMPLATE, Kind.CONTROL, Kind.OTHER)
"""Kinds whose results are in memory in any case."""
MOST = 32
"""So many operators are looked at behind a view."""
