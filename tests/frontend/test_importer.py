"""What a module says of the model that it was read from."""

from __future__ import annotations

import numpy as np
import pytest
from models import (
    control_flow,
    custom_attributes,
    every_element_type,
    functions,
    info,
    model,
    node,
    not_sorted,
    opsets_twice,
    overridable,
    simple,
    types_of_all_kinds,
)
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects import onnx
from sardonyx.dialects.dims import dims_of
from sardonyx.dialects.onnx.declared import Declared, declared_types
from sardonyx.dialects.onnx.model import INPUTS, OUTPUTS, identity_of, is_local_function, main_of, names_of, opsets_of
from sardonyx.frontend.importer import import_model
from sardonyx.frontend.unsupported import unsupported
from sardonyx.semantics.known import constant_value, known_dims
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType, f32


def ops_of(m: object) -> list[object]:
    module, _ = import_model(m)
    return list(main_of(module).body.block.ops)


def test_a_simple_model() -> None:
    module, weights = import_model(simple())
    main = main_of(module)
    assert names_of(main, INPUTS) == ["x"]
    assert names_of(main, OUTPUTS) == ["y"]
    assert opsets_of(module) == {"": 21}
    (argument,) = main.body.block.args
    assert [str(d) for d in dims_of(argument)] == ["N", "3"]
    assert onnx.value_name(argument) == "x"
    relu, end = main.body.block.ops
    assert isinstance(relu, onnx.ReluOp)
    assert relu.X is argument
    assert onnx.value_name(relu.Y) == "y"
    assert onnx.origin_of(relu) == (0,)
    assert onnx.info_of(relu) == onnx.NodeInfo("relu", "Relu")
    assert end.operands[0] is relu.Y
    assert declared_types(main) == {"x": Declared("tensor(float)", ("N", 3)), "y": Declared("tensor(float)", ("N", 3))}
    assert len(weights) == 0


def test_sizes_that_are_no_symbols_are_fresh_for_each_axis() -> None:
    main = main_of(import_model(types_of_all_kinds())[0])
    types = dict(zip(names_of(main, INPUTS), main.body.block.arg_types))
    sizes = [str(d) for d in dims_of(types["odd"])]
    assert sizes == ["odd_0", "p2o_Dim_0", "odd_2", "odd_3", "0", "2*N", "N", "max(N, 3)", "odd_8"]
    assert declared_types(main)["odd"].sizes == ("?", "p2o.Dim.0", None, -1, 0, "2*N", "N", "max(N, 3)", None)
    assert types["any"] == UnrankedTensorType(f32)
    assert types["scalar"] == TensorType(f32, [])
    assert types["seq"] == onnx.SequenceType(TensorType(f32, [DYNAMIC_INDEX] * 2))
    assert [str(d) for d in dims_of(types["opt"].element)] == ["2", "K"]
    assert types["map"] == onnx.MapType(onnx.ELEMENT_TYPES[7], TensorType(f32, [DYNAMIC_INDEX] * 2))


def test_a_fresh_symbol_is_not_one_that_the_file_uses() -> None:
    m = model([node("Add", ["x", "y"], ["z"])], [info("x", [None]), info("y", ["x_0"])], [info("z")])
    first, second = main_of(import_model(m)[0]).body.block.args
    assert [str(d) for d in (*dims_of(first), *dims_of(second))] == ["x_0_", "x_0"]


def test_the_last_of_two_opset_imports_counts() -> None:
    module, _ = import_model(opsets_twice())
    assert opsets_of(module) == {"": 21, "ai.onnx.ml": 3, "com.acme": 1}


def test_small_constants_are_dense_and_large_ones_weights() -> None:
    small, large = np.arange(64, dtype=np.int64), np.arange(65, dtype=np.int64)
    tensors = [numpy_helper.from_array(small, "small"), numpy_helper.from_array(large, "large")]
    nodes = [
        node("Constant", [], ["c"], value=numpy_helper.from_array(large)),
        node("Constant", [], ["s"], value_ints=[1, 2]),
    ]
    module, weights = import_model(model(nodes, [], [], initializer=tensors))
    first, second, third, fourth, _ = main_of(module).body.block.ops
    assert np.array_equal(constant_value(first.results[0]), small)
    assert constant_value(second.results[0]) is None
    assert np.array_equal(constant_value(second.results[0], weights), large)
    assert np.array_equal(constant_value(third.results[0], weights), large)
    assert [d.value for d in known_dims(fourth.results[0])] == [1, 2]
    assert third.results[0].type == second.results[0].type == TensorType(onnx.ELEMENT_TYPES[7], [65])
    assert len(weights) == 2


def test_every_element_type_has_its_values() -> None:
    m = every_element_type()
    module, weights = import_model(m)
    found = {onnx.text_of(op.sym): op for op in main_of(module).body.block.ops if isinstance(op, onnx.InitializerOp)}
    assert len(found) == len(m.graph.initializer)
    for tensor in m.graph.initializer:
        value = constant_value(found[tensor.name].result, weights)
        assert value is not None
        if tensor.data_type == TensorProto.STRING:
            texts = [t.decode("utf-8", "surrogateescape") for t in tensor.string_data]
            assert value.tolist() == texts
        else:
            wanted = numpy_helper.to_array(tensor)
            assert value.dtype == wanted.dtype
            assert value.tobytes() == wanted.tobytes(), tensor.name


def test_initializers_that_are_inputs() -> None:
    module, _ = import_model(overridable())
    main = main_of(module)
    assert names_of(main, INPUTS) == ["x"]
    marks = [op.overridable is not None for op in main.body.block.ops if isinstance(op, onnx.InitializerOp)]
    assert marks == [True, True]
    module, _ = import_model(overridable(3))  # there every initializer had to be listed
    assert [op.overridable for op in main_of(module).body.block.ops if isinstance(op, onnx.InitializerOp)] == [
        None,
        None,
    ]
    module, _ = import_model(overridable(), overrides=["w"])
    main = main_of(module)
    assert names_of(main, INPUTS) == ["w", "x"]
    assert [onnx.text_of(op.sym) for op in main.body.block.ops if isinstance(op, onnx.InitializerOp)] == ["unused"]


def test_nodes_that_are_not_sorted_run_in_an_order_that_works() -> None:
    ops = ops_of(not_sorted())
    assert [op.name for op in ops] == ["onnx.Relu", "onnx.If", "onnx.Add", "func.return"]
    assert [onnx.origin_of(op) for op in ops[:3]] == [(1,), (2,), (0,)]
    assert [onnx.info_of(op).name for op in ops[:3]] == ["first", "branch", "last"]
    inner = ops[1].else_branch.block.first_op
    assert onnx.info_of(inner).name == "inner_Abs"


def test_bodies_are_regions_that_capture() -> None:
    module, _ = import_model(control_flow())
    main = main_of(module)
    branch, loop, scan, _ = main.body.block.ops
    add = next(op for op in branch.then_branch.block.ops if isinstance(op, onnx.AddOp))
    assert add.A is main.body.block.args[0]
    assert isinstance(add.B.owner, onnx.InitializerOp)
    assert isinstance(branch.then_branch.block.last_op, onnx.YieldOp)
    assert [onnx.value_name(a) for a in loop.body.block.args] == ["i", "go", "v"]
    assert loop.v_initial == (branch.outputs[0],)
    passed = scan.body.block.last_op.operands[0]
    assert passed is scan.body.block.args[0]


def test_functions_stay_functions() -> None:
    module, _ = import_model(functions())
    local = [f for f in module.ops if is_local_function(f)]
    assert [identity_of(f) for f in local] == [("local", "Scaled", ""), ("local", "Twice", "v2")]
    assert opsets_of(local[0]) == {"": 18}
    first, second, third, _ = main_of(module).body.block.ops
    assert isinstance(first, onnx.CallOp)
    assert first.callee.string_value() == local[0].sym_name.data
    assert third.callee.string_value() == local[1].sym_name.data
    assert second.operand_at(1) is None
    assert second.operand_at(2) is main_of(module).body.block.args[0]
    assert onnx.plain(first.attributes_.data["alpha"]) == 2.0
    constant = local[0].body.block.first_op
    assert isinstance(constant.value_float, onnx.RefAttr)
    assert unsupported(module) == []


def test_unknown_operators_are_reported_together() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Fancy", ["a"], ["b"], domain="com.acme", name="one"),
        node("Fancy", ["b"], ["c"], domain="com.acme"),
        node("Gelu", ["c"], ["d"], name="new"),
        node("ATen", ["d"], ["e"]),
        node("Scaler", ["e"], ["f"], domain="ai.onnx.ml"),
    ]
    m = model(nodes, [info("x")], [info("f")], 17)
    m.opset_import.add(domain="com.acme", version=1)
    module, _ = import_model(m)
    module.verify()
    found = unsupported(module)
    assert [(u.domain, u.op_type, len(u.nodes)) for u in found] == [
        ("com.acme", "Fancy", 2),
        ("", "Gelu", 1),
        ("", "ATen", 1),
        ("ai.onnx.ml", "Scaler", 1),
    ]
    assert (
        str(found[0])
        == "com.acme::Fancy: the domain com.acme is not known, and the model has no function for it; 'one', Fancy"
    )
    assert found[1].reason == "it is new in opset 20, and the model imports 17"
    assert found[2].reason == "no opset of ai.onnx has it"
    assert found[3].reason == "the model imports no opset of ai.onnx.ml"


def test_attributes_of_all_kinds() -> None:
    module, weights = import_model(custom_attributes())
    custom = next(op for op in main_of(module).body.block.ops if isinstance(op, onnx.CustomOp))
    values = {key: onnx.plain(value) for key, value in custom.attributes_.data.items()}
    assert values["f"] == 1.5
    assert values["i"] == -3
    assert values["untyped"] == 4
    assert values["none"] == []
    assert values["s"].encode("utf-8", "surrogateescape") == b"\xff\x00"
    assert values["floats"] == [float("inf"), pytest.approx(0.1)]
    assert weights.get(values["ints"]).tolist() == list(range(1000))
    assert onnx.plain(custom.graphs) == ["g", "graphs[]", "graphs[]"]
    assert len(custom.regions) == 3


def test_where_nodes_come_from() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Abs", ["a"], ["b"], name="/enc/layer.0/Abs"), node("Neg", ["b"], ["y"])]
    frames = 'File "/home/me/run.py", line 3, in <module>', 'File "/home/me/net/model.py", line 41, in forward'
    trace = "\n  x = relu(x)\n".join(frames)
    nodes[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    nodes[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.attn', 'relu_1']")
    nodes[2].doc_string = "/home/me/old.py(12): forward\n/usr/lib/torch/nn/module.py(99): __call__\n"
    ops = ops_of(model(nodes, [info("x")], [info("y")]))
    found = [onnx.info_of(op) for op in ops[:3]]
    assert [(i.scope, i.line) for i in found] == [
        ("encoder.attn", "model.py:41"),
        ("enc/layer.0", ""),
        ("", "old.py:12"),
    ]
    assert str(found[0]) == "Relu (model.py:41 encoder.attn)"


def test_older_nodes_are_versioned_only_where_they_read_otherwise() -> None:
    m = model(
        [
            node("Relu", ["x"], ["a"]),
            node("Softmax", ["a"], ["b"]),
            node("Squeeze", ["b"], ["c"], axes=[0]),
            node("Conv", ["x", "w"], ["d"]),
        ],
        [info("x"), info("w")],
        [info("c"), info("d")],
        11,
    )
    relu, softmax, squeeze, conv, _ = ops_of(m)
    assert isinstance(relu, onnx.ReluOp)
    assert isinstance(conv, onnx.ConvOp)
    assert isinstance(softmax, onnx.VersionedOp)
    assert isinstance(squeeze, onnx.VersionedOp)
    assert onnx.plain(squeeze.since_version) == 11
    assert squeeze.attr("axes") == [0]


def test_files_without_imports_are_of_opset_1() -> None:
    m = model([node("Add", ["x", "x"], ["y"])], [info("x", [2])], [info("y")], ir_version=2)
    del m.opset_import[:]
    add, _ = ops_of(m)
    assert isinstance(add, onnx.VersionedOp)


def test_metadata_of_the_model() -> None:
    m = simple()
    m.producer_name = "torch"
    helper.set_model_props(m, {"a": "1", "größe": "2"})
    module, _ = import_model(m)
    assert onnx.plain(module.attributes["onnx.producer_name"]) == "torch"
    assert sorted(onnx.plain(module.attributes["onnx.metadata"])) == [["a", "1"], ["größe", "2"]]
