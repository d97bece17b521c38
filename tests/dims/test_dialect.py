"""Dims in the IR: types, attributes and ops print and parse back to the same."""

from __future__ import annotations

import pytest
from sardonyx.dialects.dims import Dims, ShapeAttr, dims_of, parse_dims, tensor_type
from sardonyx.dialects.dims.expression import DimError, parse_dim
from sardonyx.dialects.onnx import Onnx
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import infer_shapes
from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, Builtin, TensorType, f32, i64
from xdsl.dialects.func import Func
from xdsl.dialects.test import TestOp
from xdsl.parser import Parser


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Dims, Onnx):
        ctx.load_dialect(dialect)
    return ctx


def test_equal_dims_are_equal_types() -> None:
    assert tensor_type(f32, ["N + 1", 4]) is tensor_type(f32, [parse_dim("1 + N"), "4"])
    assert tensor_type(f32, [3, 4]) == TensorType(f32, [3, 4])
    assert dims_of(tensor_type(f32, ["N", 4]))[1].value == 4
    assert dims_of(TensorType(f32, [3]))[0].value == 3
    with pytest.raises(TypeError):
        dims_of(TensorType(f32, [DYNAMIC_INDEX]))
    with pytest.raises(TypeError):
        dims_of(i64)


@pytest.mark.parametrize("text", ["N, 2*B, 4", "max(N, 2) - 1, broadcast(A, broadcast(B, C))", "", "(N + 1)//2, N%3"])
def test_types_read_back(text: str) -> None:
    type_ = tensor_type(f32, parse_dims(text))
    assert Parser(context(), str(type_)).parse_type() == type_
    attribute = ShapeAttr(parse_dims(text))
    assert Parser(context(), str(attribute)).parse_attribute() == attribute


@pytest.mark.parametrize(
    "op",
    [
        '%0 = dims.tensor <"N, 2*B"> : tensor<2xi64>',
        '%0 = "test.op"() : () -> tensor<2xi64>\ndims.bind %0 ["v0", "v1"] : tensor<2xi64>',
        '%0 = "test.op"() : () -> tensor<1xi64>\ndims.bind %0 ["v0"] lower <"0"> upper <"2*N"> : tensor<1xi64>',
        '"dims.assume"() <{condition = "N <= 2*M", why = "a reason"}> : () -> ()',
    ],
)
def test_ops_read_back(op: str) -> None:
    ctx = context()
    ctx.load_op(TestOp)
    module = Parser(ctx, op).parse_module()
    module.verify()
    assert str(Parser(ctx, str(module)).parse_module()) == str(module)


def test_text_that_is_no_dims_is_refused() -> None:
    with pytest.raises(DimError):
        parse_dims("N, ?")


def test_an_inferred_module_reads_back() -> None:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [
            helper.make_node("NonZero", ["x"], ["i"]),
            helper.make_node("Add", ["x", "y"], ["s"]),
            helper.make_node("ConstantOfShape", ["n"], ["z"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["A", "B"]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["C"]),
            helper.make_tensor_value_info("n", TensorProto.INT64, [1]),
        ],
        [helper.make_empty_tensor_value_info(o) for o in ("i", "s", "z")],
    )
    module, weights = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))
    infer_shapes(module, weights, compile_mode=True)
    again = Parser(context(), str(module)).parse_module()
    again.verify()
    assert str(again) == str(module)
    for one, two in zip(module.walk(), again.walk()):
        for a, b in zip(one.results, two.results):
            assert a.type == b.type
            assert not isinstance(a.type, TensorType) or dims_of(a) == dims_of(b)
