"""What a rewrite has changed: valid models at the file's own opset, everything else as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx as onnx_package
import pytest
from models import control_flow, info, model, node, notes_everywhere, overridable, simple
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions, set_default_logger_severity
from sardonyx.dialects import dims, onnx
from sardonyx.dialects.dims import tensor_type
from sardonyx.dialects.onnx.attributes import strings_attr
from sardonyx.dialects.onnx.model import OPSETS, main_of, opsets_attr
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import UnsupportedError
from sardonyx.semantics.interpreter import run_graph
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

from sardonyx.simplifier import simplify_model

set_default_logger_severity(4)


def run(m: ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """By onnxruntime, on one thread."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    return InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, dict(inputs))


def replace(op: Operation, *new: Operation) -> None:
    """Puts ops in an op's place; the last one's results are its."""
    block = op.parent
    assert block is not None
    block.insert_ops_before(list(new), op)
    for before, after in zip(op.results, new[-1].results):
        before.replace_all_uses_with(after)
    op.detach()
    op.erase()


def first(module: ModuleOp, cls: type[Any]) -> Any:
    return next(op for op in module.walk() if isinstance(op, cls))


def node_types(m: ModelProto) -> list[str]:
    return [n.op_type for n in m.graph.node]


# Changes in the middle of a file


def three_nodes() -> ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"], name="one", doc_string="kept"),
        node("Neg", ["a"], ["b"], name="two"),
        node("Abs", ["b"], ["y"], name="three"),
    ]
    m = model(nodes, [info("x", ["N"])], [info("y", ["N"])])
    m.graph.value_info.extend([info("a", ["N"]), info("b", ["N"])])
    return m


def test_one_op_replaced() -> None:
    m = three_nodes()
    module, weights = import_model(m)
    neg = first(module, onnx.NegOp)
    replace(neg, onnx.SqrtOp.make([neg.X], like=neg))
    found = export_model(module, weights)
    assert node_types(found) == ["Relu", "Sqrt", "Abs"]
    assert found.graph.node[0] == m.graph.node[0]
    assert found.graph.node[2].name == "three"
    assert found.graph.node[2].input[0] == found.graph.node[1].output[0]
    assert [i.name for i in found.graph.value_info] == ["a"]  # b is gone
    assert run(found, {"x": np.array([4.0], np.float32)})[0].tolist() == [2.0]


def test_the_last_op_replaced_keeps_the_output_s_name() -> None:
    module, weights = import_model(three_nodes())
    last = first(module, onnx.AbsOp)
    replace(last, onnx.SqrtOp.make([last.X]))
    found = export_model(module, weights)
    assert found.graph.node[-1].output[0] == "y"
    assert found.graph.output[0].name == "y"


def test_an_output_that_becomes_an_input_or_constant_is_copied() -> None:
    module, weights = import_model(three_nodes())
    block = main_of(module).body.block
    end = block.last_op
    assert end is not None
    constant = onnx.InitializerOp.make("w", onnx.tensor_attr(np.ones(1, np.float32)), TensorType(f32, [1]))
    block.insert_op_before(constant, end)
    for value in (block.args[0], constant.result):
        end.operands[0] = value
        found = export_model(module, weights)
        onnx_package.checker.check_model(found)
        assert found.graph.node[-1].op_type == "Identity"
        assert run(found, {"x": np.array([1.0], np.float32)})[0].tolist() == [1.0]


def test_a_changed_attribute_keeps_the_node_s_notes() -> None:
    m = model([node("Elu", ["x"], ["y"], name="elu", alpha=2.0, doc_string="note")], [info("x")], [info("y")])
    module, weights = import_model(m)
    first(module, onnx.EluOp).properties["alpha"] = onnx.float_attr(3.0)
    (written,) = export_model(module, weights).graph.node
    assert (written.name, written.doc_string) == ("elu", "note")
    assert helper.get_node_attr_value(written, "alpha") == 3.0


def test_copies_of_an_op_have_names_of_their_own() -> None:
    module, weights = import_model(three_nodes())
    relu = first(module, onnx.ReluOp)
    copy = relu.clone()
    block = relu.parent
    block.insert_op_after(copy, relu)
    first(module, onnx.NegOp).operands[0] = copy.Y
    found = export_model(module, weights)
    onnx_package.checker.check_model(found)
    names = [name for n in found.graph.node for name in n.output]
    assert len(names) == len(set(names)) == 4


def test_notes_of_the_model_survive_a_rewrite() -> None:
    m = notes_everywhere()
    module, weights = import_model(m)
    relu = first(module, onnx.ReluOp)
    replace(relu, onnx.AbsOp.make([relu.X]))
    found = export_model(module, weights)
    assert found.metadata_props == m.metadata_props
    assert found.graph.input == m.graph.input
    assert found.graph.output == m.graph.output
    assert found.graph.quantization_annotation == m.graph.quantization_annotation
    assert found.graph.value_info == m.graph.value_info


def test_edited_attributes_of_the_module() -> None:
    module, weights = import_model(simple(13))
    module.attributes[OPSETS] = opsets_attr([("", 17)])
    module.attributes["onnx.producer_name"] = onnx.string_attr("me")
    found = export_model(module, weights)
    assert found.opset_import[0].version == 17
    assert found.producer_name == "me"


def test_a_changed_initializer() -> None:
    module, weights = import_model(overridable())
    op = first(module, onnx.InitializerOp)
    op.properties["value"] = weights.add(np.full((3, 3), 2, np.float32))
    found = export_model(module, weights)
    onnx_package.checker.check_model(found)
    assert numpy_helper.to_array(found.graph.initializer[0]).tolist() == [[2.0] * 3] * 3
    assert {t.name for t in found.graph.initializer} == {"w", "unused"}


@pytest.mark.parametrize("ir_version", [3, 8])
def test_an_initializer_that_is_gone(ir_version: int) -> None:
    module, weights = import_model(overridable(ir_version))
    unused = [op for op in module.walk() if isinstance(op, onnx.InitializerOp)][1]
    unused.detach()
    unused.erase()
    found = export_model(module, weights)
    kept = ir_version >= 4  # a caller may still feed it
    assert [i.name for i in found.graph.input] == ["w", "x", *(["unused"] if kept else [])]
    assert [t.name for t in found.graph.initializer] == ["w", *(["unused"] if kept else [])]


def test_changes_inside_bodies() -> None:
    module, weights = import_model(control_flow())
    relu = first(module, onnx.ReluOp)
    replace(relu, onnx.AbsOp.make([relu.X]))
    main = main_of(module).body.block
    loop = first(module, onnx.LoopOp)
    mul = next(op for op in loop.body.block.ops if isinstance(op, onnx.MulOp))
    yielded = loop.body.block.last_op
    assert yielded is not None
    yielded.operands[2] = main.args[0]  # an output from outside of the body needs a copy
    replace(mul, onnx.AddOp.make([mul.A, mul.B]))
    found = export_model(module, weights)
    then = helper.get_node_attr_value(found.graph.node[0], "then_branch")
    assert [n.op_type for n in then.node] == ["Add", "Abs"]
    assert [t.name for t in then.initializer] == ["k"]
    body = helper.get_node_attr_value(found.graph.node[1], "body")
    assert [n.op_type for n in body.node] == ["Identity", "Add", "Identity", "Identity"]
    x = np.ones(2000, np.float32)
    results = run_graph(*import_model(found), {"x": x, "cond": np.array(True), "n": np.array(2)})
    assert results["same"].tolist() == (4 * x).tolist()
    assert results["scanned"].tolist() == [x.tolist()] * 2


# Modules that are from no file


def by_hand(*, opset: int | None = None, names: bool = False) -> ModuleOp:
    t = tensor_type(f32, ["N", 4])
    block = Block(arg_types=[t])
    relu = onnx.ReluOp.make([block.args[0]], {}, [t])
    block.add_ops([relu, ReturnOp(relu.Y)])
    func = FuncOp("main", ([t], [t]), Region(block))
    if names:
        func.attributes.update({"onnx.inputs": strings_attr(["in"]), "onnx.outputs": strings_attr(["out"])})
    return ModuleOp([func], attributes={} if opset is None else {OPSETS: opsets_attr([("", opset)])})


def test_a_module_made_by_hand() -> None:
    found = export_model(by_hand(names=True), WeightStore())
    assert [i.name for i in found.graph.input] == ["in"]
    assert [o.name for o in found.graph.output] == ["out"]
    shape = found.graph.input[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == ["N", 4]
    onnx_package.checker.check_model(found, full_check=True)
    assert len(export_model(by_hand(opset=15), WeightStore()).graph.node) == 1


def test_ops_below_the_graph_are_refused() -> None:
    from xdsl.dialects.arith import ConstantOp

    module = by_hand()
    block = main_of(module).body.block
    assert block.first_op is not None
    block.insert_op_before(ConstantOp.from_int_and_width(1, 64), block.first_op)
    with pytest.raises(UnsupportedError, match=r"arith\.constant is of no graph level"):
        export_model(module, WeightStore())


@pytest.mark.parametrize(
    "exprs",
    [
        ["N + 1", "2*M"],
        ["N // 2", "(N - 3) // 2", "M % 4"],
        ["max(N, M)", "min(N, 3)"],
        ["broadcast(N, K)"],
        ["7"],
        ["N*N*M - 1"],
    ],
)
@pytest.mark.parametrize("sizes", [{"N": 5, "M": 2, "K": 1}, {"N": 1, "M": 7, "K": 3}, {"N": 4, "M": 4, "K": 4}])
def test_symbolic_tensors_are_computed(exprs: Sequence[str], sizes: Mapping[str, int]) -> None:
    t = tensor_type(f32, ["N", "M", "K"])
    block = Block(arg_types=[t])
    out = TensorType(i64, [len(exprs)])
    tensor = dims.TensorOp(exprs, out)
    identity = onnx.IdentityOp.make([tensor.result], {}, [out])
    block.add_ops([tensor, identity, ReturnOp(identity.output)])
    module = ModuleOp([FuncOp("main", ([t], [out]), Region(block))], attributes={OPSETS: opsets_attr([("", 13)])})
    found = export_model(module, WeightStore())
    onnx_package.checker.check_model(found, full_check=True)
    x = np.zeros([sizes[k] for k in "NMK"], np.float32)
    wanted = [dims.parse_dim(e).evaluate(sizes) for e in exprs]
    assert run(found, {found.graph.input[0].name: x})[0].tolist() == wanted


def test_symbols_that_are_bound_to_values() -> None:
    t = TensorType(i64, [2])
    block = Block(arg_types=[t])
    tensor = dims.TensorOp(["a*b", "a"], t)
    identity = onnx.IdentityOp.make([tensor.result], {}, [t])
    block.add_ops([dims.BindOp(block.args[0], ["a", "b"]), tensor, identity, ReturnOp(identity.output)])
    module = ModuleOp([FuncOp("main", ([t], [t]), Region(block))], attributes={OPSETS: opsets_attr([("", 13)])})
    found = export_model(module, WeightStore())
    assert run(found, {found.graph.input[0].name: np.array([3, 5])})[0].tolist() == [15, 3]


@pytest.mark.parametrize("element", ["i64", "i32"])
@pytest.mark.parametrize(
    ("shape", "exprs", "out", "nodes"),
    [
        ([], ["a"], [], []),
        ([], ["a"], [1], ["Reshape"]),
        ([1], ["a"], [1], []),
        ([3], ["a", "b", "c"], [3], []),
        ([3], ["b", "c"], [2], ["Gather"]),
        ([2, 2], ["a", "b", "c", "d"], [4], ["Reshape"]),
        ([2, 2], ["a", "b", "c", "d", "2"], [5], ["Reshape", "Concat"]),
        ([3], ["a", "a", "b", "N"], [4], ["Gather", "Gather", "Shape", "Concat"]),
    ],
)
def test_elements_are_taken_together(
    element: str, shape: list[int], exprs: list[str], out: list[int], nodes: list[str]
) -> None:
    """Numbers that follow one another in a tensor are one node at most; the tensor itself is none."""
    source = TensorType({"i64": i64, "i32": i32}[element], shape)
    block = Block(arg_types=[source, tensor_type(f32, ["N"])])
    tensor = dims.TensorOp(exprs, TensorType(i64, out))
    symbols = [*"abcd"][: int(np.prod(shape))]
    block.add_ops([dims.BindOp(block.args[0], symbols), tensor, ReturnOp(tensor.result)])
    func = FuncOp("main", (list(block.arg_types), [tensor.result.type]), Region(block))
    found = export_model(ModuleOp([func], attributes={OPSETS: opsets_attr([("", 15)])}), WeightStore())
    onnx_package.checker.check_model(found, full_check=True)
    made = [t for t in node_types(found) if t not in ("Constant", "Identity", "Cast")]
    assert sorted(made) == sorted(nodes)
    given = (np.arange(len(symbols)) + 3).reshape(shape).astype(np.int64 if element == "i64" else np.int32)
    sizes = {**dict(zip(symbols, given.ravel().tolist())), "N": 9}
    feeds = {i.name: v for i, v in zip(found.graph.input, (given, np.zeros(9, np.float32)))}
    (result,) = run(found, feeds)
    assert result.ravel().tolist() == [dims.parse_dim(e).evaluate(sizes) for e in exprs] and list(result.shape) == out


RESULTS_FROM_OUTSIDE = {
    "sizes of the inputs": """(float[N] x, float[M] y, bool c) => (int64 k) {
        s = Size(x) t = Size(y)
        k = If(c) <then_branch = a () => (int64 p) { p = Identity(s) },
                   else_branch = b () => (int64 q) { q = Identity(t) }>
    }""",
    "inputs and constants": """(float[N] x, float[M] y, bool c) => (float[K] k) <float[2] w = {1, 2}> {
        k = If(c) <then_branch = a () => (float[K] p) { p = Identity(x) },
                   else_branch = b () => (float[K] q) { q = Identity(w) }>
    }""",
    "one value twice": """(float[N] x, float[M] y, bool c) => (float[N] k, float[N] l) {
        r = Neg(x)
        k, l = If(c) <then_branch = a () => (float[N] p, float[N] q) { p = Identity(r) q = Identity(r) },
                      else_branch = b () => (float[N] t, float[N] u) { t = Neg(r) v = Neg(r) u = Identity(v) }>
    }""",
    "each turn": """(float[N] x, float[M] y, bool c) => (float[N] k, int64[T] l) <int64 n = {3}> {
        s = Size(x)
        k, l = Loop(n, c, x) <body = b (int64 i, bool g, float[N] v) => (bool h, float[N] o, int64 e)
            { h = Identity(g) o = Identity(v) e = Identity(s) }>
    }""",
    "a branch in a branch": """(float[N] x, float[M] y, bool c) => (float[K] k) {
        k = If(c) <then_branch = a () => (float[K] p) { p = Identity(x) },
            else_branch = b () => (float[K] q) {
                q = If(c) <then_branch = d () => (float[K] r) { r = Identity(y) },
                           else_branch = e () => (float[K] t) { z = Neg(y) t = Identity(z) }> }>
    }""",
}


@pytest.mark.parametrize("case", RESULTS_FROM_OUTSIDE)
def test_results_of_bodies_are_made_in_them(case: str) -> None:
    """Whatever rules drop: checker and onnxruntime refuse a body whose result is a value from around it."""
    graph = onnx_package.parser.parse_graph("g " + RESULTS_FROM_OUTSIDE[case])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = simplify_model(m).model
    onnx_package.checker.check_model(found, full_check=True)
    for cond in (True, False):
        feeds = {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32), "c": np.array(cond)}
        for got, want in zip(run(found, feeds), run(m, feeds), strict=True):
            assert np.array_equal(got, want)


# Older opsets

X4 = np.random.default_rng(3).standard_normal((2, 3, 4, 4)).astype(np.float32)
X2 = X4[0, 0]
ONES = np.ones(3, np.float32)

OLD: list[tuple[int, NodeProto, dict[str, np.ndarray]]] = [
    (11, node("Squeeze", ["x"], ["y"], axes=[0]), {"x": X4[:1]}),
    (11, node("Unsqueeze", ["x"], ["y"], axes=[0, -1]), {"x": X2}),
    (12, node("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0), {"x": X4}),
    (17, node("ReduceMax", ["x"], ["y"], axes=[-1]), {"x": X4}),
    (17, node("ReduceMean", ["x"], ["y"]), {"x": X4}),
    (10, node("Clip", ["x"], ["y"], min=-0.5, max=0.25), {"x": X2}),
    (10, node("Dropout", ["x"], ["y"], ratio=0.25), {"x": X2}),
    (10, node("Pad", ["x"], ["y"], pads=[1, 0, 0, 2], value=1.5), {"x": X2}),
    (9, node("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, -1], axes=[2, 3]), {"x": X4}),
    (11, node("Split", ["x"], ["y", "z"], axis=1, split=[1, 2]), {"x": X4}),
    (9, node("TopK", ["x"], ["y", "z"], k=2), {"x": X2}),
    (11, node("Softmax", ["x"], ["y"], axis=1), {"x": X4}),
    (12, node("LogSoftmax", ["x"], ["y"], axis=-1), {"x": X4}),
    (9, node("Upsample", ["x", "s"], ["y"]), {"x": X4, "s": np.array([1, 1, 2, 2], np.float32)}),
    (10, node("Resize", ["x", "s"], ["y"], mode="linear"), {"x": X4, "s": np.array([1, 1, 2, 2], np.float32)}),
    (
        11,
        node("Resize", ["x", "r", "s"], ["y"], mode="linear"),
        {"x": X4, "r": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 3], np.float32)},
    ),
    (
        9,
        node("BatchNormalization", ["x", "a", "b", "m", "v"], ["y"], epsilon=0.01),
        {"x": X4, "a": ONES, "b": ONES, "m": ONES, "v": ONES},
    ),
    (9, node("Scatter", ["x", "i", "u"], ["y"], axis=1), {"x": X2, "i": np.zeros((4, 1), np.int64), "u": X2[:, :1]}),
    (16, node("GridSample", ["x", "g"], ["y"], mode="bicubic"), {"x": X4, "g": X4[:, :2, :2, :2] / 4}),
]


@pytest.mark.parametrize("at", range(len(OLD)), ids=[f"{n.op_type}-{v}" for v, n, _ in OLD])
def test_ops_that_rewrites_make_are_written_at_the_file_s_opset(at: int) -> None:
    """The upgraded op, as if a rewrite had made it, is written as a node of the old opset that computes the same."""
    opset, old, inputs = OLD[at]
    infos = [info(k, list(v.shape), helper.np_dtype_to_tensor_dtype(v.dtype)) for k, v in inputs.items()]
    fixed = [numpy_helper.from_array(v, k) for k, v in inputs.items() if k not in "xu"]
    listed = [i for i in infos if i.name in "xu"]
    m = model(
        [old],
        listed,
        [helper.make_empty_tensor_value_info(o) for o in old.output],
        opset,
        initializer=fixed,
        ir_version=7,
    )
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    for op in module.walk():
        for mark in ("onnx.node", "onnx.part", "onnx.whole"):
            op.attributes.pop(mark, None)
    written = export_model(module, weights)
    assert written.opset_import == m.opset_import
    fed = {k: v for k, v in inputs.items() if k in "xu"}
    for got, want in zip(run(written, fed), run(m, fed)):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def new_op(op: onnx.OnnxOp, opset: int) -> ModuleOp:
    """A module of one op that no file has."""
    block = Block(arg_types=[v.type for v in op.operands])
    op.operands = list(block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    func = FuncOp("main", (list(block.arg_types), [r.type for r in op.results]), Region(block))
    return ModuleOp([func], attributes={OPSETS: opsets_attr([("", opset)])})


def test_what_an_old_opset_cannot_say_is_refused() -> None:
    t, v = TensorType(f32, [2, 3]), TensorType(i64, [1])
    x, axes = Block(arg_types=[t, v]).args

    def refused(op: onnx.OnnxOp, opset: int) -> str:
        with pytest.raises(UnsupportedError) as caught:
            export_model(new_op(op, opset), WeightStore())
        return str(caught.value)

    assert "Gelu cannot be written in opset 13: it is new in opset 20" in refused(onnx.GeluOp.make([x], {}, [t]), 13)
    assert "its input 'axes' is computed" in refused(onnx.ReduceMaxOp.make([x, axes], {}, [t]), 13)
    assert "not known to be the last" in refused(onnx.SoftmaxOp.make([x], {"axis": 0}, [t]), 11)
    assert "it had no attribute 'allowzero'" in refused(onnx.ReshapeOp.make([x, axes], {"allowzero": 1}, [t]), 13)
    assert "no rule gives its older form" in refused(onnx.PReluOp.make([x, x], {}, [t]), 6)
    integers = TensorType(i64, [2, 3])
    y = Block(arg_types=[integers]).args[0]
    row = Block(arg_types=[TensorType(f32, [3])]).args[0]
    assert "its operands have different shapes, and did not broadcast" in refused(onnx.SumOp.make([x, row], {}, [t]), 7)
    assert "it took no int64" in refused(onnx.MatMulOp.make([y, y], {}, [integers]), 7)
    assert "it had 1 outputs" in refused(onnx.MaxPoolOp.make([x], {"kernel_shape": [1]}, [t, t]), 7)


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("opset", [9, 11, 13])
def test_sizes_of_0_are_restored_where_0_copies_a_size(opset: int, inferred: bool) -> None:
    """A Reshape with allowzero to the sizes of a value whose type is not known, or has symbols."""
    m = model([node("Relu", ["x"], ["r"]), node("Softmax", ["r"], ["y"], axis=1)], [info("x", ["A", "B", "C"])],
              [helper.make_empty_tensor_value_info("y")], min(opset, 12), ir_version=7)  # fmt: skip
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    if inferred:
        infer_shapes(module)
    module.attributes[OPSETS] = opsets_attr([("", opset)])
    for op in module.walk():
        for mark in ("onnx.node", "onnx.part", "onnx.whole"):
            op.attributes.pop(mark, None)
    written = export_model(module, weights)
    assert node_types(written).count("Reshape") == 2
    for shape in ((2, 3, 4), (2, 0, 3), (0, 2, 0), (0, 0, 0), (2, 3, 0)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        (got,), (want,) = run(written, {"x": x}), run(m, {"x": x})
        assert got.shape == want.shape == shape
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_sizes_that_are_not_0_need_no_more() -> None:
    t = TensorType(f32, [2, 3])
    x, y = Block(arg_types=[TensorType(f32, [6]), t]).args
    shape = onnx.ShapeOp.make([y])
    op = onnx.ReshapeOp.make([x, shape.results[0]], {"allowzero": 1}, [t])
    block = Block(arg_types=[x.type, y.type])
    shape.operands, op.operands = [block.args[1]], [block.args[0], shape.results[0]]
    block.add_ops([shape, op, ReturnOp(op.results[0])])
    func = FuncOp("main", (list(block.arg_types), [t]), Region(block))
    module = ModuleOp([func], attributes={OPSETS: opsets_attr([("", 13)])})
    assert node_types(export_model(module, WeightStore())) == ["Shape", "Reshape"]


@pytest.mark.parametrize("opset", [6, 9])
def test_a_product_without_a_bias_is_given_one_where_it_had_to_have_it(opset: int) -> None:
    t = TensorType(f32, [3, 3])
    a, b = Block(arg_types=[t, t]).args
    found = export_model(new_op(onnx.GemmOp.make([a, b], {"transB": 1}, [t]), opset), WeightStore())
    assert node_types(found) == ["Constant", "Gemm"] and len(found.graph.node[1].input) == 3
    onnx_package.checker.check_model(found, full_check=True)


@pytest.mark.parametrize("opset", [1, 7])
def test_a_sum_of_operands_of_one_shape_is_written_where_it_did_not_broadcast(opset: int) -> None:
    t = TensorType(f32, [3, 3])
    a, b = Block(arg_types=[t, t]).args
    found = export_model(new_op(onnx.SumOp.make([a, b], {}, [t]), opset), WeightStore())
    assert node_types(found) == ["Sum"]
    onnx_package.checker.check_model(found)


def test_constants_of_integers_are_initializers_before_opset_9() -> None:
    """Nodes made floats only then; and in files of that time initializers are inputs."""
    nodes = [node("Relu", ["x"], ["a"]), node("Shape", ["a"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    module, weights = import_model(model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], 8, ir_version=3))
    shape = first(module, onnx.ShapeOp)
    replace(shape, onnx.ConstantOp.make([], {"value": onnx.tensor_attr(np.array([2, 3]))}, [TensorType(i64, [2])]))
    found = export_model(module, weights)
    assert node_types(found) == ["Relu", "Reshape"]
    [fixed] = found.graph.initializer
    assert [i.name for i in found.graph.input] == ["x", fixed.name]
    onnx_package.checker.check_model(found, full_check=True)
    assert run(found, {"x": X2[:2, :3]})[0].tolist() == X2[:2, :3].tolist()


def test_reductions_over_no_axes() -> None:
    t = TensorType(f32, [2, 3])
    x = Block(arg_types=[t]).args[0]
    kept = export_model(new_op(onnx.ReduceMaxOp.make([x], {"noop_with_empty_axes": 1}, [t]), 13), WeightStore())
    assert node_types(kept) == ["Identity"]
    all_axes = export_model(
        new_op(onnx.ReduceMaxOp.make([x], {"keepdims": 0}, [TensorType(f32, [])]), 13), WeightStore()
    )
    assert node_types(all_axes) == ["ReduceMax"]


def test_a_group_that_is_touched_is_written_op_by_op() -> None:
    m = model([node("Softmax", ["x"], ["y"], axis=1)], [info("x", [2, 3, 4])], [info("y", [2, 3, 4])], 11)
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    assert export_model(module, weights) == m
    reshape = [op for op in module.walk() if isinstance(op, onnx.ReshapeOp)][-1]
    replace(reshape, onnx.IdentityOp.make([reshape.data]))
    found = export_model(module, weights)
    assert node_types(found) == ["Flatten", "Softmax", "Identity"]
    x = np.ones((2, 3, 4), np.float32)
    assert run(found, {"x": x})[0].shape == (2, 12)


def test_a_value_inside_a_group_that_others_read() -> None:
    m = model([node("ReduceMax", ["x"], ["y"], axes=[1])], [info("x", [2, 3])], [info("y", [2, 1])], 13)
    module, weights = import_model(m)
    upgrade_opset(module, weights)
    block = main_of(module).body.block
    constant, _, end = block.ops
    neg = onnx.NegOp.make([constant.results[0]])
    block.insert_op_before(neg, end)
    assert export_model(module, weights) == m  # nothing reads the new op
    end.operands = [*end.operands, neg.Y]
    found = export_model(module, weights)
    assert node_types(found) == ["Constant", "ReduceMax", "Neg"]
    assert helper.get_node_attr_value(found.graph.node[1], "axes") == [1]
