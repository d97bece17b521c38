"""One node that is expanded: its operands with their types, and short names for the operations that rules build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, TensorType, UnrankedTensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import onnx
from ...dialects.dims import tensor_type
from ...dialects.onnx.base import describe
from ...dialects.onnx.types import ELEMENT_CODES, UNKNOWN
from ...runtime.errors import UnsupportedError
from ...semantics.custom import OWN_DOMAIN, TEMPLATE
from ...semantics.known import constant_value
from ...semantics.shapes import RankUnknown
from ..constants import make_constant
from ..node_builder import NodeBuilder, Results

Array: TypeAlias = "np.ndarray[Any, Any]"
Rule: TypeAlias = "Callable[[Expansion], Results]"


class _Invalid(Exception):
    """No sizes make what the rule has built valid."""


class Expansion(NodeBuilder):
    """One node.  Raises UnsupportedError, naming the node, for a form that a rule does not have."""

    op: onnx.CustomOp
    _infer: Callable[[Sequence[Operation]], str | None]
    types_only = False
    """Whether what is built only tells the types of the results."""

    def unsupported(self, reason: str) -> UnsupportedError:
        """The error that says why there is no expansion."""
        domain, name = onnx.text_of(self.op.domain), onnx.text_of(self.op.op_type)
        title = f"{domain}::{name}" if domain else name
        return UnsupportedError(f"{describe(self.op).replace(self.op.name, title, 1)}: {reason}")

    def expand(self, rule: Rule, infer: Callable[[Sequence[Operation]], str | None]) -> Results | str:
        """The results of what the rule builds, or what `infer`, which sets types as the rule goes on, says is wrong."""
        self._infer = infer
        try:
            return rule(self)
        except _Invalid as invalid:
            return str(invalid)

    def insert(self, made: Operation) -> None:
        """Puts an op before the node, and gives its results their types."""
        super().insert(made)
        failure = self._infer([made])
        if failure is not None:
            raise _Invalid(failure)

    # What the node has

    def known(self, *names: str) -> None:
        """Says which attributes the rule knows; any other is an error."""
        for name in self.op.attributes_.data:
            if name not in names:
                raise self.unsupported(f"its attribute '{name}' is not supported")

    def only(self, name: str, value: object) -> None:
        """An attribute that may have only its default value."""
        if (found := self.attr(name, value)) != value:
            raise self.unsupported(f"its attribute '{name}' is {found!r}, and only {value!r} is supported")

    def at(self, index: int) -> SSAValue | None:
        """An input; None where it is absent."""
        return self.op.operand_at(index)

    def absent(self, **inputs: int) -> None:
        """Inputs, by name, that must not be there."""
        for name, index in inputs.items():
            if self.at(index) is not None:
                raise self.unsupported(f"its input '{name}' is not supported")

    def no_result(self, **results: int) -> None:
        """Results, by name, that nothing may read."""
        for name, index in results.items():
            if self.used(index):
                raise self.unsupported(f"its output '{name}' is not supported")

    def rank(self, value: SSAValue) -> int:
        """The rank of a value. Raises RankUnknown."""
        if not isinstance(value.type, TensorType):
            raise RankUnknown
        return len(value.type.get_shape())

    def ranked(self) -> None:
        """Says that the rank of every input must be known."""
        for value in self.inputs():
            if value is not None:
                self.rank(value)

    def element(self, value: SSAValue) -> Attribute:
        """The element type of a value. Raises RankUnknown for the result of what has no rank yet."""
        if not isinstance(value.type, TensorType | UnrankedTensorType):
            raise RankUnknown
        return value.type.element_type

    def array(self, value: SSAValue | None) -> Array | None:
        """The value of a constant; None for what is none."""
        return None if value is None else constant_value(value, self._weights)

    def size(self, value: SSAValue, axis: int) -> int | None:
        """A size where it is a number."""
        if not isinstance(value.type, TensorType):
            return None
        found = value.type.get_shape()[axis]
        return found if found >= 0 else None

    # What rules build

    def large_constant(self, array: Array) -> SSAValue:
        """A constant of any size and element type; its value is in the store of weights where it is large."""
        if self._weights is None:
            raise self.unsupported("the weights are not at hand")
        made = make_constant(array, tensor_type(onnx.element_of_dtype(array.dtype), array.shape), self._weights)
        self.insert(made)
        return made.results[0]

    def computed(self, shape: tuple[int, ...], dtype: Any, compute: Callable[[], Array]) -> SSAValue:
        """A constant of that shape and type, which is computed where its value matters."""
        if self.types_only:
            return self.large_constant(np.broadcast_to(np.zeros((), dtype), shape))
        return self.large_constant(compute())

    def own(
        self, name: str, operands: Sequence[SSAValue], attributes: Mapping[str, int], domain: str = OWN_DOMAIN
    ) -> SSAValue:
        """The one result of an operator of the compiler's own, or of the node's domain, a kernel template."""
        properties: dict[str, Attribute] = {
            "domain": onnx.string_attr(domain),
            "op_type": onnx.string_attr(name),
            "attributes": DictionaryAttr({k: IntegerAttr(v, i64) for k, v in attributes.items()}),
            "kind": StringAttr(TEMPLATE),
        }
        made = onnx.CustomOp.build_at(properties, list(operands), [UNKNOWN])
        self.insert(made)
        return made.results[0]

    def number(self, value: float, like: SSAValue) -> SSAValue:
        """A scalar constant of another value's element type."""
        return self.like(value, like)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(onnx.AddOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(onnx.SubOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(onnx.MulOp, a, b)

    def scaled(self, x: SSAValue, factor: float) -> SSAValue:
        """factor * x"""
        return x if factor == 1 else self.mul(x, self.number(factor, x))

    def biased(self, x: SSAValue, bias: SSAValue | None) -> SSAValue:
        """x + bias, where there is one."""
        return x if bias is None else self.add(x, bias)

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        """As another element type."""
        return self.value(onnx.CastOp, x, attributes={"to": ELEMENT_CODES[element]})

    def transposed(self, x: SSAValue, perm: Sequence[int]) -> SSAValue:
        """With its axes in another order."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.value(onnx.TransposeOp, x, attributes={"perm": list(perm)})

    def reshaped(self, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
        """Reshape, with 0 for a size that stays and -1 for the one that the others give."""
        return self.value(onnx.ReshapeOp, x, self.ints(sizes))

    def scalar(self, x: SSAValue) -> SSAValue:
        """A tensor of one element as one of rank 0."""
        return x if isinstance(x.type, TensorType) and not x.type.get_shape() else self.reshaped(x, [])

    def unsqueezed(self, x: SSAValue, *axes: int) -> SSAValue:
        """With axes of size 1."""
        return self.value(onnx.UnsqueezeOp, x, self.ints(axes))

    def squeezed(self, x: SSAValue, *axes: int) -> SSAValue:
        """Without axes of size 1."""
        return self.value(onnx.SqueezeOp, x, self.ints(axes))

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        return self.make(onnx.ConcatOp, values, {"axis": axis}).results[0]

    def sliced(self, x: SSAValue, axis: int, start: int, stop: int, step: int = 1) -> SSAValue:
        """Elements start, start + step, ... of an axis."""
        parts = [self.ints([n]) for n in (start, stop, axis, step)]
        return self.value(onnx.SliceOp, x, *parts)

    def size_of(self, x: SSAValue, axis: int) -> SSAValue:
        """A size, a vector of one int64."""
        return self.make(onnx.ShapeOp, [x], {"start": axis, "end": axis + 1 or None}).results[0]

    def split(self, x: SSAValue, axis: int, parts: int | SSAValue) -> list[SSAValue]:
        """In equal parts, or of given sizes."""
        count = parts if isinstance(parts, int) else self.size(parts, 0)
        assert count is not None
        sizes = None if isinstance(parts, int) else parts
        attributes: dict[str, object] = {"axis": axis, "num_outputs": None if sizes is not None else count}
        return list(self.make(onnx.SplitOp, [x, sizes], attributes, [UNKNOWN] * count).results)

    def several(
        self,
        cls: type[onnx.OnnxOp],
        operands: Sequence[SSAValue | None],
        results: Sequence[bool],
        attributes: Mapping[str, object] = {},
        regions: Sequence[Region] = (),
    ) -> Results:
        """An op with those of its results that are wanted, by formal position."""
        made = self.make(cls, operands, attributes, [UNKNOWN if there else None for there in results], regions)
        return list(made.formal_results())


class Body(Expansion):
    """The body of an op that the rule of `outer` makes; its ops have their types once that op is inferred."""

    def __init__(self, outer: Expansion, arguments: int) -> None:
        super().__init__(outer.op, outer._weights)
        self._block = Block(arg_types=[UNKNOWN] * arguments)

    @property
    def arguments(self) -> Sequence[SSAValue]:
        """What the body is given."""
        return self._block.args

    def insert(self, made: Operation) -> None:
        """Appends an op to the body, with the node's origin."""
        if "origin" in self.op.attributes:
            made.attributes.setdefault("origin", self.op.attributes["origin"])
        self._block.add_op(made)

    def finish(self, results: Sequence[SSAValue]) -> Region:
        """The body, which gives these values."""
        self._block.add_op(onnx.YieldOp.make(results))
        return Region(self._block)
