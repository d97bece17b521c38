"""Operators of users: what an operator of a domain that we do not know means, given from outside of the product.

A compilation carries a table of them by domain and name (`Operators`); nothing is registered anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation

from ..dialects import onnx
from ..dialects.onnx.model import opsets_of
from ..runtime.errors import Error, InputError
from .reference import REFERENCE, Reference, Value

if TYPE_CHECKING:
    from .shapes.context import Context, Types

POINTWISE = "pointwise"
"""The property `kind` of an `onnx.Custom` whose only region computes one element of its result from its operands'."""

TEMPLATE = "template"
"""The property `kind` of an `onnx.Custom` of the compiler's own, the kernel template of its name in small letters."""

QUANTILE = "Quantile"
"""The compiler's own pointwise operator: the normal quantile."""

OWN_DOMAIN = "sardonyx"
"""The domain of the compiler's own operators: no file has them."""


@dataclass(frozen=True)
class CustomOperator:
    """An operator `domain::name` from opset `since` of its domain on.

    `reference(*arrays, **attributes)` computes it in numpy.  `shape(context)` gives its results' types; without it a
    pointwise operator has its operands' broadcast dims, any other the type of its first operand.  `body(scalars,
    *values, element, **attributes)` builds one element of a pointwise operator's result in the compute type `element`,
    as a value of that type.
    """

    domain: str
    name: str
    reference: Callable[..., Any]
    since: int = 1
    shape: Callable[[Context], Types] | None = None
    body: Callable[..., Any] | None = None

    def __call__(self, *arrays: Any, **attributes: Any) -> Any:
        """The reference function."""
        return self.reference(*arrays, **attributes)

    @property
    def title(self) -> str:
        """As reports write it."""
        return f"{self.domain}::{self.name}"

    def result_types(self, c: Context) -> Types:
        """The types of its results. Raises InputError naming operator and node where the user's rule fails."""
        if self.shape is not None:
            try:
                types = list(self.shape(c))
            except (Error, *c.ANSWERS):
                raise
            except Exception as e:
                text = f"{onnx.describe(c.op)}: the shape rule of {self.title} raised {type(e).__name__}: {e}"
                raise InputError(text) from e
            for given in types:
                if not is_type(given):
                    found = f"a tensor of {given.element_type!r}" if isinstance(given, TensorType) else repr(given)
                    name = f"{onnx.describe(c.op)}: the shape rule of {self.title}"
                    raise InputError(f"{name} gave {found}, which is no type of a value")
            return types
        if self.body is None:
            return [c.type_of(0)]
        return [c.like(0, c.broadcast(*(c.dims(at) for at in range(len(c.operands)))))]

    def evaluate(
        self, inputs: Sequence[Value], attributes: Mapping[str, object] | None = None, outputs: int = 1
    ) -> tuple[Value, ...]:
        """Calls the reference function on arrays that it cannot write to; raises InputError naming the operator where
        that fails, or gives fewer results than the node has outputs.  A node may leave out the last ones."""
        try:
            values = Reference(self.reference)([read_only(v) for v in inputs], attributes, outputs)
        except Exception as e:
            raise InputError(f"the reference function of {self.title} raised {type(e).__name__}: {e}") from e
        if len(values) < outputs:
            counted = f"{len(values)} result{'s' * (len(values) != 1)} for {outputs} outputs"
            raise InputError(f"the reference function of {self.title} gave {counted}: several results are a tuple")
        return values


def is_type(given: object) -> bool:
    """Whether it is a type of a value, or stands for one that is not known."""
    if given is None or isinstance(given, onnx.UnknownType):
        return True
    if isinstance(given, TensorType | UnrankedTensorType) and isinstance(given.element_type, onnx.UnknownType):
        return True
    return isinstance(given, Attribute) and onnx.type_string(given) is not None


def read_only(value: Value) -> Value:
    """A tensor, or a sequence of them, that cannot be written to: its memory is the caller's, or others read it too."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    return [read_only(v) for v in value] if isinstance(value, list) else value


Operators: TypeAlias = Mapping[tuple[str, str], CustomOperator]
"""The users' operators of one compilation, by domain and name."""

Evaluator: TypeAlias = Callable[[Sequence[Value], "Mapping[str, object] | None", int], "tuple[Value, ...]"]

NO_OPERATORS: Operators = {}


OWN_WITH_EPILOGUE = frozenset(("BlockMatMul",))
"""The compiler's own templates that take pointwise operators into their store."""


def identity_of(op: onnx.CustomOp) -> tuple[str, str]:
    """Domain and name of an operator that the dialect does not know."""
    return onnx.text_of(op.domain), onnx.text_of(op.op_type)


def has_epilogue(op: onnx.CustomOp) -> bool:
    """Whether an op is one of the compiler's own templates that has an epilogue."""
    return op.kind is not None and op.kind.data == TEMPLATE and identity_of(op)[1] in OWN_WITH_EPILOGUE


def custom_operator(op: Operation, operators: Operators) -> CustomOperator | None:
    """The user's operator that an op stands for."""
    return operators.get(identity_of(op)) if isinstance(op, onnx.CustomOp) else None


def evaluator_of(domain: str, name: str, operators: Operators = NO_OPERATORS) -> Evaluator | None:
    """How an operator is computed in numpy: by the user's function, or by ours."""
    if (found := operators.get((domain, name))) is not None:
        return found.evaluate
    return REFERENCE.get((domain, name))


def meant_operators(module: ModuleOp, operators: Operators) -> Operators:
    """Those of the users' operators that the module means: not one that it imports in an older version than theirs."""
    versions = opsets_of(module)
    return {key: op for key, op in operators.items() if versions.get(op.domain, op.since) >= op.since}
