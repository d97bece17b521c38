"""Inference over modules: what it writes into the IR, bodies of control flow, diagnostics, errors, speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import process_time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx import TensorProto as T
from sardonyx.dialects import dims
from sardonyx.dialects import onnx as dialect
from sardonyx.dialects.dims import dims_of
from sardonyx.dialects.onnx.base import value_name
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import DIAGNOSTICS, infer_shapes
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import ModelError, UnsupportedError
from sardonyx.semantics.facts import Facts
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, UnrankedTensorType

from sardonyx.infer import infer_shapes as infer_model

N = helper.make_node


def model(
    nodes: Iterable[Any],
    inputs: Mapping[str, tuple[int, Any]],
    outputs: Iterable[str],
    inits: Mapping[str, Any] = {},
    opset: int = 20,
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in inits.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def module_of(proto: ModelProto, **options: Any) -> ModuleOp:
    module, weights = import_model(proto)
    upgrade_opset(module, weights)
    infer_shapes(module, weights, compile_mode=True, **options)
    module.verify()
    return module


def shape(module: ModuleOp, name: str) -> str:
    for op in module.walk():
        for value in op.results:
            if value_name(value) == name:
                return ", ".join(map(str, dims_of(value)))
    raise KeyError(name)


def output_shapes(proto: ModelProto) -> list[list[int | str]]:
    out = infer_model(proto)
    return [
        [d.dim_value if d.HasField("dim_value") else d.dim_param for d in o.type.tensor_type.shape.dim]
        for o in out.graph.output
    ]


def operations(module: ModuleOp, kind: type[Any]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind)]


def conditions(module: ModuleOp) -> list[str]:
    return [op.condition.data for op in operations(module, dims.AssumeOp)]


# --- what is written --------------------------------------------------------------------------------------------------


def test_known_integers_become_dims_tensors_and_constants() -> None:
    proto = model(
        [
            N("Shape", ["x"], ["s"]),
            N("Size", ["s"], ["n"]),
            N("Reshape", ["y", "s"], ["z"]),
            N("Identity", ["n"], ["k"]),
        ],
        {"x": (T.FLOAT, ["A", 3]), "y": (T.FLOAT, ["A", 3])},
        ["z", "k"],
    )
    module = module_of(proto)
    (tensor,) = operations(module, dims.TensorOp)
    assert str(tensor.exprs.data) == "(Dim('A'), Dim('3'))"
    (reshape,) = operations(module, dialect.ReshapeOp)
    assert reshape.operands[1].owner is tensor
    assert any(c.properties["value"] for c in operations(module, dialect.ConstantOp))
    assert shape(module, "z") == "A, 3"


def test_elements_of_a_run_time_shape_are_bound() -> None:
    proto = model(
        [N("Add", ["n", "one"], ["m"]), N("ConstantOfShape", ["m"], ["z"]), N("Relu", ["z"], ["r"])],
        {"n": (T.INT64, [2])},
        ["r"],
        {"one": np.array([1, 1], np.int64)},
    )
    module = module_of(proto)
    (bind,) = operations(module, dims.BindOp)
    assert value_name(bind.source) == "n" and [s.data for s in bind.symbols] == ["v0", "v1"]
    (tensor,) = operations(module, dims.TensorOp)
    assert list(map(str, tensor.exprs.data)) == ["v0 + 1", "v1 + 1"]
    assert shape(module, "r") == "v0 + 1, v1 + 1"
    assert conditions(module) == ["0 <= v0 + 1", "0 <= v1 + 1"]
    block = main_of(module).body.block
    order = list(block.ops)
    assert order.index(bind) < min(order.index(a) for a in operations(module, dims.AssumeOp))


def test_sizes_that_execution_decides_are_bound_by_their_operation() -> None:
    module = module_of(
        model([N("NonZero", ["x"], ["y"]), N("Cast", ["y"], ["z"], to=T.FLOAT)], {"x": (T.FLOAT, ["A"])}, ["z"])
    )
    (op,) = operations(module, dialect.NonZeroOp)
    assert op.attributes["dims.binds"] == ArrayAttr([dialect.string_attr("u0")])
    assert shape(module, "z") == "1, u0"


def test_guards_stand_first_and_are_facts() -> None:
    facts = Facts()
    nodes = [N("Relu", ["x"], ["r"]), N("Concat", ["r", "y"], ["z"], axis=1), N("MatMul", ["z", "w"], ["m"])]
    inputs = {"x": (T.FLOAT, ["A", "B"]), "y": (T.FLOAT, ["C", "D"]), "w": (T.FLOAT, ["E", 5])}
    module = module_of(model(nodes, inputs, ["m"]), facts=facts)
    first = list(main_of(module).body.block.ops)[:2]
    assert all(isinstance(op, dims.AssumeOp) for op in first)
    assert conditions(module) == ["A == C", "B + D == E"]
    assert all("origin" in op.attributes for op in first)
    assert "axis 0 of Concat" in first[0].why.data
    assert facts.prove_eq("A*E", "C*(B + D)")


def test_what_guards_promise_is_written_alike() -> None:
    """The sum's sizes are known to agree by a later product, so that no broadcast is left."""
    nodes = [N("Add", ["x", "y"], ["s"]), N("MatMul", ["x", "w"], ["a"]), N("MatMul", ["y", "w"], ["b"])]
    inputs = {"x": (T.FLOAT, [4, "A"]), "y": (T.FLOAT, [4, "B"]), "w": (T.FLOAT, ["K", 2])}
    module = module_of(model(nodes, inputs, ["s", "a", "b"]))
    assert shape(module, "s") == "4, A"


def test_running_it_again_changes_nothing() -> None:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("ReduceMax", ["n"], ["k"], keepdims=0),
        N("Range", ["zero", "k", "one"], ["r"]),
        N("NonZero", ["x"], ["z"]),
        N("Expand", ["x", "s"], ["e"]),
        N("Add", ["e", "y"], ["a"]),
    ]
    inputs = {"x": (T.FLOAT, ["A"]), "y": (T.FLOAT, ["B"]), "n": (T.INT64, ["C"])}
    inits = {"zero": np.int64(0), "one": np.int64(1)}
    module = module_of(model(nodes, inputs, ["a", "r", "z"], inits))
    text = str(module)
    infer_shapes(module, compile_mode=True)
    assert str(module) == text


def test_the_same_model_gives_the_same_text() -> None:
    proto = model(
        [N("NonZero", ["x"], ["y"]), N("Add", ["x", "w"], ["z"])],
        {"x": (T.FLOAT, ["A"]), "w": (T.FLOAT, ["u0"])},
        ["y", "z"],
    )
    first, second = (str(module_of(proto)) for _ in range(2))
    assert first == second and "u1" in first  # the model's own name is not taken


# --- control flow -----------------------------------------------------------------------------------------------------


def body(nodes: Iterable[Any], inputs: Mapping[str, Any], outputs: Iterable[str], inits: Mapping[str, Any] = {}) -> Any:
    return helper.make_graph(
        list(nodes),
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in inits.items()],
    )


def test_if_keeps_what_branches_agree_on() -> None:
    then = body([N("Relu", ["x"], ["t"])], {}, ["t"])
    other = body([N("Concat", ["x", "x"], ["e"], axis=1)], {}, ["e"])
    node = N("If", ["c"], ["y"], then_branch=then, else_branch=other)
    module = module_of(model([node], {"x": (T.FLOAT, ["A", "B"]), "c": (T.BOOL, [])}, ["y"]))
    assert shape(module, "y") == "A, u0"
    (op,) = operations(module, dialect.IfOp)
    assert str(op.attributes["dims.binds"]) == '["u0"]'


def test_a_decided_if_gives_way_to_its_branch() -> None:
    then = body([N("Squeeze", ["x", "ax"], ["t"])], {}, ["t"], {"ax": np.array([0], np.int64)})
    other = body([N("Identity", ["x"], ["e"])], {}, ["e"])
    nodes = [
        N("Shape", ["x"], ["s"], start=0, end=1),
        N("Squeeze", ["s"], ["n"]),
        N("Equal", ["n", "one"], ["c"]),
        N("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    module = module_of(model(nodes, {"x": (T.FLOAT, [1, "B"])}, ["y"], {"one": np.int64(1)}))
    assert not operations(module, dialect.IfOp) and shape(module, "t") == "B"


def test_branches_of_other_rank_are_told_apart_by_what_follows() -> None:
    """torch's squeeze of one axis: only with that size is the product with a matrix valid afterwards."""
    then = body([N("Squeeze", ["x", "ax"], ["t"])], {}, ["t"], {"ax": np.array([0], np.int64)})
    other = body([N("Identity", ["x"], ["e"])], {}, ["e"])
    nodes = [
        N("Shape", ["x"], ["s"], start=0, end=1),
        N("Squeeze", ["s"], ["n"]),
        N("Equal", ["n", "one"], ["c"]),
        N("If", ["c"], ["y"], then_branch=then, else_branch=other),
        N("Gemm", ["y", "w"], ["z"]),
    ]
    inputs = {"x": (T.FLOAT, ["A", "B", 4]), "w": (T.FLOAT, [4, 5])}
    module = module_of(model(nodes, inputs, ["z"], {"one": np.int64(1)}))
    assert conditions(module) == ["A == 1"]
    assert shape(module, "z") == "B, 5" and not operations(module, dialect.IfOp)


def test_a_rank_that_sizes_leave_open() -> None:
    module = module_of(model([N("Squeeze", ["x"], ["y"]), N("Relu", ["y"], ["z"])], {"x": (T.FLOAT, ["A", 1])}, ["z"]))
    squeeze, relu = operations(module, dialect.SqueezeOp)[0], operations(module, dialect.ReluOp)[0]
    assert isinstance(relu.results[0].type, UnrankedTensorType)
    assert str(squeeze.attributes["dims.rank_from_data"]) == '["A == 1"]'
    assert "dims.rank_from_data" not in relu.attributes


def test_a_branch_that_can_never_run_is_a_failing_guard() -> None:
    then = body([N("MatMul", ["x", "x"], ["t"])], {}, ["t"])
    other = body([N("Relu", ["x"], ["e"])], {}, ["e"])
    node = N("If", ["c"], ["y"], then_branch=then, else_branch=other)
    module = module_of(model([node], {"x": (T.FLOAT, [2, 3]), "c": (T.BOOL, [])}, ["y"]))
    assert shape(module, "y") == "2, 3"
    assert conditions(module) == ["1 <= 0"] and not operations(module, dialect.MatMulOp)


def loop(nodes: Iterable[Any], states: Mapping[str, Any], outputs: list[str], inits: Mapping[str, Any] = {}) -> Any:
    inputs = {"i": (T.INT64, []), "go": (T.BOOL, []), **states}
    return body(nodes, inputs, outputs, inits)


def test_loop_widens_sizes_that_change() -> None:
    inner = loop(
        [N("Concat", ["s", "x"], ["s2"], axis=0), N("Identity", ["go"], ["on"])],
        {"s": (T.FLOAT, None)},
        ["on", "s2", "s"],
    )
    node = N("Loop", ["n", "", "x"], ["f", "all"], body=inner)
    module = module_of(model([node], {"x": (T.FLOAT, ["A", 3]), "n": (T.INT64, [])}, ["f", "all"]))
    assert shape(module, "f") == "A*max(v0, 0) + A, 3"
    assert shape(module, "all") == "max(v0, 0), u1, 3"
    (op,) = operations(module, dialect.LoopOp)
    assert str(dims_of(op.body.block.args[2])[0]) == "u0"
    assert str(op.attributes["dims.binds"]) == '["u1"]'


def test_a_counted_loop_has_a_known_length() -> None:
    """As TensorFlow writes it: a counter, and a condition through floats."""
    inner = loop(
        [
            N("Add", ["k", "one"], ["k2"]),
            N("Cast", ["k2"], ["kf"], to=T.FLOAT),
            N("Cast", ["limit"], ["lf"], to=T.FLOAT),
            N("Less", ["kf", "lf"], ["on"]),
            N("Gather", ["x", "k"], ["row"]),
        ],
        {"k": (T.INT32, []), "limit": (T.INT32, [])},
        ["on", "k2", "limit", "row"],
    )
    nodes = [
        N("Shape", ["x"], ["s"], start=0, end=1),
        N("Squeeze", ["s"], ["n"]),
        N("Cast", ["n"], ["n32"], to=T.INT32),
        N("Less", ["zero64", "n"], ["c"]),
        N("Loop", ["n", "c", "zero", "n32"], ["a", "b", "y"], body=inner),
    ]
    inits = {"one": np.int32(1), "zero": np.int32(0), "zero64": np.int64(0)}
    module = module_of(model(nodes, {"x": (T.FLOAT, ["A", 3])}, ["y"], inits))
    assert shape(module, "y") == "A, 3"
    assert conditions(module) == ["A <= 16777216"]


def test_a_loop_that_never_runs_has_types() -> None:
    """Its number of iterations is an expression that is 0 at most."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [N("Identity", ["c"], ["d"]), N("Concat", ["h", "x"], ["g"], axis=0)],
        "body",
        [info("i", T.INT64, []), info("c", T.BOOL, []), info("h", T.FLOAT, None)],
        [info("d", T.BOOL, []), info("g", T.FLOAT, None)],
    )
    nodes = [N("Size", ["x"], ["n"]), N("Neg", ["n"], ["m"]), N("Loop", ["m", "", "x"], ["y"], body=body)]
    found = infer_model(model(nodes, {"x": (T.FLOAT, ["A"])}, ["y"]))
    assert [d.dim_param for d in found.graph.output[0].type.tensor_type.shape.dim] != [""]


def test_scan_goes_along_the_axis_and_keeps_its_states() -> None:
    inner = body(
        [N("Add", ["s", "x"], ["s2"]), N("Identity", ["s2"], ["o"])],
        {"s": (T.FLOAT, None), "x": (T.FLOAT, None)},
        ["s2", "o"],
    )
    node = N(
        "Scan", ["s0", "xs"], ["f", "all"], body=inner, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1]
    )
    module = module_of(model([node], {"s0": (T.FLOAT, ["B"]), "xs": (T.FLOAT, ["B", "L"])}, ["f", "all"]))
    assert shape(module, "f") == "B" and shape(module, "all") == "B, L"


def test_items_of_different_sizes() -> None:
    nodes = [
        N("SequenceConstruct", ["x", "y"], ["q"]),
        N("SequenceAt", ["q", "i"], ["e"]),
        N("ConcatFromSequence", ["q"], ["c"], axis=0),
        N("SequenceLength", ["q"], ["n"]),
    ]
    inputs = {"x": (T.FLOAT, ["A", 3]), "y": (T.FLOAT, ["B", 3]), "i": (T.INT64, [])}
    module = module_of(model(nodes, inputs, ["e", "c", "n"]))
    assert shape(module, "e") == "u0, 3" and shape(module, "c") == "A + B, 3"


def test_functions_are_inferred_where_they_are_called() -> None:
    double = helper.make_function(
        "f", "Double", ["a"], ["b"], [N("Concat", ["a", "a"], ["b"], axis=0)], [helper.make_opsetid("", 20)]
    )
    graph = helper.make_graph(
        [helper.make_node("Double", ["x"], ["y"], domain="f"), helper.make_node("Double", ["y"], ["z"], domain="f")],
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, ["A"])],
        [helper.make_empty_tensor_value_info("z")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    assert output_shapes(helper.make_model(graph, functions=[double], opset_imports=opsets, ir_version=9)) == [["4*A"]]


# --- evidence and errors ----------------------------------------------------------------------------------------------


def test_declared_types_that_are_wrong_are_reported_and_lose() -> None:
    proto = model([N("Relu", ["x"], ["y"]), N("Flatten", ["y"], ["z"])], {"x": (T.FLOAT, ["A", 3, 4])}, ["z"])
    proto.graph.value_info.append(helper.make_tensor_value_info("y", T.FLOAT, [7, 5, 4]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", T.INT64, ["A"]))
    module = module_of(proto)
    lines = [line.data for line in module.attributes[DIAGNOSTICS]]
    assert lines == [
        "'y' is declared [7, 5, 4], and its axis 1 is 3",
        "'z' is declared tensor(int64), and is tensor(float)",
    ]
    assert shape(module, "z") == "A, 12"


def test_sizes_that_can_never_be_right_are_the_models_fault() -> None:
    proto = model([N("Add", ["x", "y"], ["z"], name="plus")], {"x": (T.FLOAT, [2]), "y": (T.FLOAT, [3])}, ["z"])
    with pytest.raises(ModelError) as caught:
        module_of(proto)
    text = "onnx.Add 'plus' (opset 20): sizes 2 and 3 do not broadcast (inputs 'x' [2], 'y' [3]; output 'z')"
    assert text in str(caught.value)


def test_unknown_operators_are_reported_together() -> None:
    nodes = [
        helper.make_node("Fancy", ["x"], ["y"], domain="acme", name="a"),
        helper.make_node("Odd", ["x"], ["z"], domain="acme", name="b"),
    ]
    proto = model(nodes, {"x": (T.FLOAT, ["A"])}, ["y", "z"])
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(UnsupportedError, match=r"(?s)'a'.*'b'"):
        module_of(proto)


def test_an_unknown_operator_may_be_declared() -> None:
    proto = model(
        [helper.make_node("Fancy", ["x"], ["y"], domain="acme"), N("Relu", ["y"], ["z"])],
        {"x": (T.FLOAT, ["A"])},
        ["z"],
    )
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    proto.graph.value_info.append(helper.make_tensor_value_info("y", T.FLOAT, ["A", "whatever", 3]))
    assert output_shapes(proto) == [["A", "u0", 3]]


def test_names_of_inputs_that_are_no_symbols() -> None:
    proto = model([N("Flatten", ["x"], ["y"])], {"x": (T.FLOAT, ["N", "?", None, "p2o.Dim.0", "N*2"])}, ["y"])
    (sizes,) = output_shapes(proto)
    assert sizes[0] == "N" and str(sizes[1]) == "2*N*p2o_Dim_0*x_1*x_2"


def test_the_model_gets_all_types() -> None:
    proto = model([N("Relu", ["x"], ["y"]), N("Concat", ["y", "y"], ["z"], axis=0)], {"x": (T.FLOAT, ["A"])}, ["z"])
    out = infer_model(proto)
    assert [v.name for v in out.graph.value_info] == ["y"]
    assert out.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "2*A"
    assert out.graph.node == proto.graph.node
    onnx.checker.check_model(out)


# --- speed ------------------------------------------------------------------------------------------------------------


def test_five_thousand_nodes_in_seconds() -> None:
    nodes: list[Any] = []
    x = "x"
    for i in range(500):
        nodes += [
            N("Shape", [x], [f"s{i}"]),
            N("Gather", [f"s{i}", "i0"], [f"b{i}"], axis=0),
            N("Gather", [f"s{i}", "i1"], [f"q{i}"], axis=0),
            N("Concat", [f"b{i}", f"q{i}", "h", "d"], [f"t{i}"], axis=0),
            N("Reshape", [x, f"t{i}"], [f"h{i}"]),
            N("Transpose", [f"h{i}"], [f"p{i}"], perm=[0, 2, 1, 3]),
            N("Transpose", [f"p{i}"], [f"r{i}"], perm=[0, 2, 1, 3]),
            N("Concat", [f"b{i}", f"q{i}", "m1"], [f"u{i}"], axis=0),
            N("Reshape", [f"r{i}", f"u{i}"], [f"y{i}"]),
            N("Add", [f"y{i}", x], [f"x{i}"]),
        ]
        x = f"x{i}"
    inits = {k: np.array([v], np.int64) for k, v in {"i0": 0, "i1": 1, "h": 12, "d": 64, "m1": -1}.items()}
    proto = model(nodes, {"x": (T.FLOAT, ["B", "S", 768])}, [x], inits)
    module, weights = import_model(proto)
    upgrade_opset(module, weights)
    start = process_time()
    infer_shapes(module, weights)
    assert process_time() - start < 5
    assert [str(d) for d in dims_of(main_of(module).body.block.last_op.operands[0])] == ["B", "S", "768"]
