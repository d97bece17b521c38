"""Pointwise operators of users: their bodies become a region of the op, and the region part of a kernel.

From then on the IR says all that there is: it prints, parses, and is the kernel's key, without the user's Python code.
"""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import onnx
from ...runtime.errors import InputError, UnsupportedError
from ...semantics.custom import (
    OWN_DOMAIN,
    POINTWISE,
    QUANTILE,
    TEMPLATE,
    CustomOperator,
    Operators,
    custom_operator,
    has_epilogue,
    identity_of,
)
from .element_kinds import Element, NotLowered, element_of
from .graph import Node, Template, TemplateResult, pointwise
from .operators import Operands, Rule
from .quantile import COST, quantile
from .scalars import Scalars


def attach_bodies(module: ModuleOp, operators: Operators, translated: Container[type[Operation]]) -> None:
    """Gives each pointwise operator of users its body for the element types that it has, where those are lowered.

    `translated` are the classes of ops that machine code is made from.  Raises InputError for a body that fails or
    gives another type than the result's, UnsupportedError for one with an op that does not take its operands' types.
    """
    for op in list(module.walk()):
        found = custom_operator(op, operators)
        if found is None or found.body is None or op.regions or len(op.results) != 1:
            continue
        assert isinstance(op, onnx.CustomOp)
        elements = [compute_element(v.type) for v in (*op.operands, op.results[0])]
        known = [e for e in elements if e is not None]
        if len(known) == len(elements):
            op.add_region(build_body(op, found, known[:-1], known[-1], translated))
            op.properties["kind"] = onnx.string_attr(POINTWISE)


def compute_element(type_: Attribute) -> Element | None:
    """The type that arithmetic on a tensor's elements is done in; None where no kernel takes such elements."""
    if not isinstance(type_, TensorType):
        return None
    try:
        return element_of(type_.element_type).compute
    except NotLowered:
        return None


def build_body(
    op: onnx.CustomOp,
    operator: CustomOperator,
    inputs: list[Element],
    result: Element,
    translated: Container[type[Operation]],
) -> Region:
    """The body as a region: a block of scalars."""
    assert operator.body is not None
    attributes = {name: onnx.plain(value) for name, value in op.attributes_.data.items()}
    block = Block(arg_types=[e.ir for e in inputs])
    scalars = Scalars(block)
    try:
        value = operator.body(scalars, *block.args, result, **attributes)
    except Exception as e:
        raise InputError(f"{onnx.describe(op)}: the body of {operator.title} raised {type(e).__name__}: {e}") from e
    if not isinstance(value, SSAValue) or value.type != result.ir:
        given = value.type if isinstance(value, SSAValue) else type(value).__name__
        raise InputError(
            f"{onnx.describe(op)}: the body of {operator.title} gave {given}, expected a value of type {result.ir}"
        )
    scalars.finish()
    for inner in block.ops:
        if (problem := _problem(inner, translated)) is not None:
            has = f"{inner.name} of {', '.join(str(v.type) for v in inner.operands)}"
            raise UnsupportedError(f"{onnx.describe(op)}: the body of {operator.title} has {has}, {problem}")
    block.add_op(onnx.YieldOp.make([value]))
    return Region(block)


def _problem(op: Operation, translated: Container[type[Operation]]) -> str | None:
    """Why a body cannot have an op."""
    if op.dialect_name() in ("arith", "math") and type(op) not in translated:
        return "which has no machine code"
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as e:
        return f"which is wrong: {' '.join(str(e).split())} (a body is used for each element type; see t.is_float)"
    return None


def custom(o: Operands) -> list[Node]:
    """The op's region, inlined where its value is needed; a template of the compiler's own."""
    if isinstance(o.op, onnx.CustomOp) and o.op.kind is not None and o.op.kind.data == TEMPLATE:
        return [own_template(o, o.op)]
    if isinstance(o.op, onnx.CustomOp) and identity_of(o.op) == (OWN_DOMAIN, QUANTILE):
        return [pointwise(lambda s, v: quantile(s, v, o.element()), o.all(), o.dims(), o.element(), COST)]
    if not isinstance(o.op, onnx.CustomOp) or o.op.kind is None or not o.op.regions:
        raise o.refuse("it has no body")
    body = o.op.regions[0].block
    cost = max(1, sum(1 for inner in body.ops if not isinstance(inner, arith.ConstantOp)))

    def function(s: Scalars, *values: SSAValue) -> SSAValue:
        mapped: dict[SSAValue, SSAValue] = dict(zip(body.args, values, strict=True))
        for inner in body.ops:
            if isinstance(inner, onnx.YieldOp):
                return mapped[inner.values[0]]
            s.append(inner.clone(mapped))
        raise o.refuse("its body has no end")

    return [pointwise(function, o.all(), o.dims(), o.element(), cost)]


def own_template(o: Operands, op: onnx.CustomOp) -> Node:
    """The `kernel.template` of an operator of the compiler's own, with its attributes and one result."""
    operands = {k: v for k, v in enumerate(op.formal_operands()) if v is not None}
    config: dict[str, Attribute] = {
        **op.attributes_.data,
        "place": IntegerAttr(o.place, i64),
        "operands": onnx.ints_attr(tuple(operands)),
        "results": onnx.ints_attr((0,)),
        "operand_types": ArrayAttr([tensor_element(v) for v in operands.values()]),
        "result_types": ArrayAttr([tensor_element(op.results[0])]),
    }
    name = onnx.text_of(op.op_type).lower()
    template = Template(o.dims(), o.element(), name, tuple(o[k] for k in operands), config, has_epilogue(op))
    result = TemplateResult(o.dims(), o.element(), template)
    template.results.append(result)
    return result


def tensor_element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.element_type


CUSTOM: dict[type[onnx.CustomOp], Rule] = {onnx.CustomOp: custom}
