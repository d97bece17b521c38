"""Building the operations that stand for a node: what upgrades and expansions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue

from ..dialects import onnx
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.base import origin_of, set_value_name
from ..dialects.onnx.groups import PART, mark_group, part_of
from ..runtime.errors import UnsupportedError
from ..semantics.weights import WeightStore

Results = list[SSAValue | None]


class NodeBuilder:
    """One node being replaced.  Each op that is built stands before it, in `made`, with its origin."""

    def __init__(self, op: onnx.VersionedOp | onnx.CustomOp, weights: WeightStore | None = None) -> None:
        self.op = op
        self.made: list[Operation] = []
        self._weights = weights

    def x(self, index: int = 0) -> SSAValue:
        """An input that is there."""
        value = self.op.operand_at(index)
        if value is None:
            raise self.unsupported(f"its input {index} is absent")
        return value

    def inputs(self) -> list[SSAValue | None]:
        """All inputs by formal position."""
        return self.op.formal_operands()

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain value, `default` where the node does not have it."""
        value = self.op.attr(name, default)
        if isinstance(value, onnx.RefAttr):
            raise self.unsupported(f"its attribute '{name}' refers to one of a function")
        if isinstance(value, onnx.WeightAttr):
            if self._weights is None:
                raise self.unsupported(f"its attribute '{name}' is a weight, and the weights are not at hand")
            return self._weights.get(value).tolist()
        return value

    def used(self, index: int) -> bool:
        """Whether the node has a result there that anything reads."""
        value = self.op.result_at(index)
        return value is not None and value.first_use is not None

    def make(
        self,
        cls: type[onnx.OnnxOp],
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, object] = {},
        types: Sequence[Attribute | None] = (),
        regions: Sequence[Region] = (),
    ) -> onnx.OnnxOp:
        """Builds an op before the node."""
        made = cls.make(operands, attributes, types, like=self.op, regions=regions)
        self.insert(made)
        return made

    def insert(self, made: Operation) -> None:
        """Puts an op before the node, with the node's origin."""
        if "origin" in self.op.attributes:
            made.attributes.setdefault("origin", self.op.attributes["origin"])
        block = self.op.parent
        assert block is not None
        block.insert_op_before(made, self.op)
        self.made.append(made)

    def drop(self) -> None:
        """Takes back all that was built."""
        for made in reversed(self.made):
            made.detach()
            made.erase()
        self.made.clear()

    def value(
        self, cls: type[onnx.OnnxOp], *operands: SSAValue | None, attributes: Mapping[str, object] = {}
    ) -> SSAValue:
        """The one result of an op built before the node."""
        return self.make(cls, operands, attributes).results[0]

    def constant(self, array: np.ndarray[Any, Any]) -> SSAValue:
        """A constant."""
        tensor = onnx.tensor_attr(array)
        return self.make(onnx.ConstantOp, [], {"value": tensor}, [tensor.type]).results[0]

    def ints(self, values: Sequence[int] | int) -> SSAValue:
        """A constant of int64: a vector, or a scalar."""
        return self.constant(np.array(values, np.int64))

    def like(self, value: float, other: SSAValue) -> SSAValue:
        """A scalar constant of the element type of `other`."""
        return self.value(onnx.CastLikeOp, self.constant(np.array(value, np.float32)), other)

    def shape(self, value: SSAValue) -> SSAValue:
        """The sizes of a tensor, a vector of int64."""
        return self.value(onnx.ShapeOp, value)

    def unsupported(self, reason: str) -> UnsupportedError:
        """The error that says why the node cannot be replaced."""
        raise NotImplementedError


def hand_over(build: NodeBuilder, results: Results) -> None:
    """Puts the new ops in the old one's place: uses, names, origin, and the mark that they are that node."""
    op = build.op
    # a rule may leave out what nobody reads, though it has a name
    old = [
        None if new is None and before is not None and before.first_use is None else before
        for before, new in zip(op.formal_results(), results)
    ]
    results = [new if before is not None else None for before, new in zip(old, results)]
    outer = part_of(op)  # inside an instance of a function, the call is the node
    if outer is not None:
        for made in build.made:
            made.attributes[PART] = op.attributes[PART]
    else:
        node = origin_of(op)[0] if origin_of(op) else -1
        mark_group(node, build.made, op.formal_operands(), results)
    names = _names(op)
    for index, (before, new) in enumerate(zip(old, results)):
        if before is None:
            continue
        assert new is not None, f"a rule of {text_of(op.op_type)} forgot result {index}"
        if index < len(names) and new.owner in build.made and isinstance(new.owner, Operation):
            set_value_name(new, names[index])
        if before.name_hint:
            new.name_hint = before.name_hint
        before.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _names(op: Operation) -> list[str]:
    found = op.attributes.get("onnx.names")
    return [text_of(entry) for entry in found] if isinstance(found, ArrayAttr) else []
