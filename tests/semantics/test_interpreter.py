"""The graph level's executor, on models as imported and on IR as later passes leave it."""

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects import onnx as onnx_dialect
from sardonyx.dialects.dims import Dims
from sardonyx.dialects.kernel import Kernel
from sardonyx.frontend.importer import import_model
from sardonyx.runtime.errors import InputError, ModelError, UnsupportedError
from sardonyx.semantics.interpreter import Interpreter, run_graph
from sardonyx.semantics.weights import WeightStore
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser


def parse(text):
    context = Context()
    for dialect in (Builtin, Func, onnx_dialect.Onnx, Dims, Kernel):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def run_model(text, inputs, observe=None):
    model = onnx.parser.parse_model(text)
    return run_graph(*import_model(model), inputs, observe)


def run_text(text, **inputs):
    return run_graph(parse(text), WeightStore(), inputs)


def f32(*values):
    return np.array(values, np.float32)


HEAD = '<ir_version: 10, opset_import: ["" : 25]>'


def test_bodies_see_the_values_around_them():
    outputs = run_model(
        HEAD
        + """
        g (bool b, float[N] x) => (y, z) {
            two = Constant <value = float {2.0}> ()
            y = If (b) <
                then_branch = t () => (u) { u = Mul (x, two) },
                else_branch = e () => (v) { w = Neg (x)  v = Mul (w, two) }
            >
            z = Add (y, x)
        }""",
        {"b": np.array(False), "x": f32(1, 2)},
    )
    assert outputs["y"].tolist() == [-2, -4]
    assert outputs["z"].tolist() == [-1, -2]


LOOP = (
    HEAD
    + """
    g (int64 n, float[2] x) => (last, all) {
        last, all = Loop (n, , x) <
            body = b (int64 i, bool c, float[2] s) => (d, t, u) {
                f = CastLike (i, s)
                t = Add (s, f)
                u = Mul (t, x)
                d = Identity (c)
            }
        >
    }"""
)


def test_loops_carry_and_stack():
    outputs = run_model(LOOP, {"n": np.array(3), "x": f32(1, 10)})
    assert outputs["last"].tolist() == [4, 13]
    assert outputs["all"].tolist() == [[1, 100], [2, 110], [4, 130]]


def test_observer_sees_every_iteration():
    seen = []

    def observe(value, result):
        if onnx_dialect.value_name(value) == "t":
            seen.append(result.tolist())

    run_model(LOOP, {"n": np.array(2), "x": f32(1, 10)}, observe)
    assert seen == [[1, 10], [2, 11]]


def test_local_functions_have_attributes_of_their_callers():
    outputs = run_model(
        """<ir_version: 10, opset_import: ["" : 25, "l" : 1]>
        g (float[N] x) => (y, z) {
            y = l.outer <slope = 0.5> (x)
            z = l.inner (x)
        }
        <domain: "l", opset_import: ["" : 25, "l" : 1]>
        outer <slope> (a) => (b) { b = l.inner <alpha: float = @slope> (a) }
        <domain: "l", opset_import: ["" : 25]>
        inner <alpha: float = 0.25> (a, unused) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
        """,
        {"x": f32(-4, 2)},
    )
    assert outputs["y"].tolist() == [-2, 2]
    assert outputs["z"].tolist() == [-1, 2]


def test_initializers_may_be_replaced_where_the_file_says_so():
    model = onnx.parser.parse_model(
        HEAD
        + """
        g (float[2] x, float[2] w) => (y) <float[2] w = {1.0, 2.0}, float[2] c = {3.0, 4.0}> {
            s = Add (x, w)
            y = Mul (s, c)
        }"""
    )
    module, weights = import_model(model)
    x = f32(0, 0)
    assert run_graph(module, weights, {"x": x})["y"].tolist() == [3, 8]
    assert run_graph(module, weights, {"x": x, "w": f32(5, 5)})["y"].tolist() == [15, 20]
    with pytest.raises(InputError, match="there is no input 'c'"):
        run_graph(module, weights, {"x": x, "c": x})


def test_sizes_and_types_of_inputs_are_checked():
    text = HEAD + "g (float[N, 3] x, float[N] y) => (z) { z = Identity (x) }"
    ok = np.zeros((2, 3), np.float32)
    run_model(text, {"x": ok, "y": np.zeros(2, np.float32)})
    for inputs, message in (
        ({"x": ok}, "the input 'y' is missing"),
        ({"x": ok, "y": np.zeros(3, np.float32)}, "input 'y' has size 3 on axis 0, not N = 2"),
        ({"x": ok[:, :2], "y": np.zeros(2, np.float32)}, "input 'x' has size 2 on axis 1, not 3"),
        ({"x": ok[0], "y": np.zeros(2, np.float32)}, r"input 'x' has the shape \[3\], not 2 axes"),
        ({"x": ok.astype(np.float64), "y": np.zeros(2, np.float32)}, "elements of float64, not of float32"),
    ):
        with pytest.raises(InputError, match=message):
            run_model(text, inputs)


def test_errors_name_the_node():
    model = onnx.parser.parse_model(HEAD + "g (float[3] x, int64[1] i) => (y) { y = Gather (x, i) }")
    model.graph.node[0].name = "pick"
    module, weights = import_model(model)
    with pytest.raises(InputError, match=r"onnx.Gather 'pick': index 3 is out of range for an axis of size 3"):
        run_graph(module, weights, {"x": f32(1, 2, 3), "i": np.array([3])})


def test_older_nodes_want_an_upgrade():
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["" : 11]> g (float[1, 2] x) => (y) { y = Squeeze <axes = [0]> (x) }'
    )
    with pytest.raises(UnsupportedError, match="older opset"):
        run_graph(*import_model(model), {"x": np.zeros((1, 2), np.float32)})


def test_outputs_are_the_caller_s_own():
    model = onnx.parser.parse_model(HEAD + "g (float[2] x) => (y, w) <float[2] w = {1.0, 2.0}> { y = Identity (x) }")
    module, weights = import_model(model)
    x = f32(1, 2)
    outputs = run_graph(module, weights, {"x": x})
    outputs["y"][0] = outputs["w"][0] = 7
    assert x.tolist() == [1, 2]
    assert run_graph(module, weights, {"x": x})["w"].tolist() == [1, 2]


def test_one_node_alone():
    module, weights = import_model(
        onnx.parser.parse_model(HEAD + "g (float[2] x) => (y) { y = LeakyRelu <alpha = 0.5> (x) }")
    )
    (op,) = [op for op in module.walk() if op.name == "onnx.LeakyRelu"]
    (y,) = Interpreter(module, weights).evaluate(op, [f32(-2, 4)])
    assert y.tolist() == [-1, 4]


KERNELS = """
func.func @main(%x: tensor<?x4xf32, #dims.shape<"N, 4">>) -> (tensor<?xf32, #dims.shape<"4*N">>, tensor<2xi64>)
    attributes {onnx.inputs = ["x"], onnx.outputs = ["y", "s"]} {
  "dims.assume"() <{condition = "N <= 8", why = "the kernel holds eight rows"}> : () -> ()
  %0 = kernel.call @k0 <"N, 2*N"> (%x) : (tensor<?x4xf32, #dims.shape<"N, 4">>) -> tensor<?x4xf32, #dims.shape<"N, 4">>
  %1 = kernel.view %0 : tensor<?x4xf32, #dims.shape<"N, 4">> to tensor<?xf32, #dims.shape<"4*N">>
  %2 = dims.tensor <"N, 2*N + 1"> : tensor<2xi64>
  func.return %1, %2 : tensor<?xf32, #dims.shape<"4*N">>, tensor<2xi64>
}
func.func private @k0(%d0: index, %d1: index, %a: tensor<?x4xf32, #dims.shape<"d0, 4">>)
    -> tensor<?x4xf32, #dims.shape<"d0, 4">> {
  %s = dims.tensor <"d1"> : tensor<1xi64>
  %c = onnx.Cast(%s) {to = 1 : i64} : (tensor<1xi64>) -> tensor<1xf32>
  %r = onnx.Add(%a, %c) : (tensor<?x4xf32, #dims.shape<"d0, 4">>, tensor<1xf32>)
    -> tensor<?x4xf32, #dims.shape<"d0, 4">>
  func.return %r : tensor<?x4xf32, #dims.shape<"d0, 4">>
}
"""


def test_the_kernels_level_runs():
    outputs = run_text(KERNELS, x=np.zeros((3, 4), np.float32))
    assert outputs["y"].tolist() == [6] * 12
    assert outputs["s"].tolist() == [3, 7]
    with pytest.raises(InputError, match=r"N <= 8 does not hold \(the kernel holds eight rows\)"):
        run_text(KERNELS, x=np.zeros((9, 4), np.float32))
    for condition in "N < 9", "8 >= N", "9 > N":
        text = KERNELS.replace("N <= 8", condition)
        assert run_text(text, x=np.zeros((8, 4), np.float32))["s"].tolist() == [8, 17]
        with pytest.raises(InputError, match="does not hold"):
            run_text(text, x=np.zeros((9, 4), np.float32))


def test_symbols_of_computed_values():
    text = """
    func.func @main(%x: tensor<?xf32, #dims.shape<"N">>, %n: tensor<1xi64>)
        -> (tensor<1x?xi64, #dims.shape<"1, u0">>, tensor<?xf32, #dims.shape<"v0 + u0">>)
        attributes {onnx.inputs = ["x", "n"], onnx.outputs = ["i", "z"]} {
      dims.bind %n ["v0"] : tensor<1xi64>
      %i = onnx.NonZero(%x) {dims.binds = ["u0"]} : (tensor<?xf32, #dims.shape<"N">>)
        -> tensor<1x?xi64, #dims.shape<"1, u0">>
      %s = dims.tensor <"v0 + u0"> : tensor<1xi64>
      %z = onnx.ConstantOfShape(%s) : (tensor<1xi64>) -> tensor<?xf32, #dims.shape<"v0 + u0">>
      func.return %i, %z : tensor<1x?xi64, #dims.shape<"1, u0">>, tensor<?xf32, #dims.shape<"v0 + u0">>
    }"""
    outputs = run_text(text, x=f32(0, 5, 6), n=np.array([4]))
    assert outputs["i"].tolist() == [[1, 2]]
    assert outputs["z"].shape == (6,)


def test_a_kernel_s_types_are_checked():
    wrong = KERNELS.replace('<"N, 2*N"> (%x)', '<"N + 1, 2*N"> (%x)')
    with pytest.raises(InputError, match="has size 3 on axis 0, not d0 = 4"):
        run_text(wrong, x=np.zeros((3, 4), np.float32))


def test_missing_function():
    with pytest.raises(ModelError, match="no function @k0"):
        run_text(KERNELS.replace("private @k0", "private @k1"), x=np.zeros((3, 4), np.float32))


def test_scan_output_of_no_iteration_has_its_type():
    text = """
    func.func @main(%n: tensor<i64>, %x: tensor<?xi32, #dims.shape<"N">>) -> (tensor<?x?xi32, #dims.shape<"u0, N">>)
        attributes {onnx.inputs = ["n", "x"], onnx.outputs = ["y"]} {
      %y = onnx.Loop(%n, _) ({
      ^bb0(%i: tensor<i64>, %c: tensor<i1>):
        onnx.Yield %c, %x : tensor<i1>, tensor<?xi32, #dims.shape<"N">>
      }) {dims.binds = ["u0"]} : (tensor<i64>) -> tensor<?x?xi32, #dims.shape<"u0, N">>
      func.return %y : tensor<?x?xi32, #dims.shape<"u0, N">>
    }"""
    x = np.arange(5, dtype=np.int32)
    for count in (0, 2):
        y = run_text(text, n=np.array(count), x=x)["y"]
        assert (y.shape, y.dtype) == ((count, 5), np.int32)
