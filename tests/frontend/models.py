"""Models for the frontend's tests: small ones that use every corner of the format."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr

import ml_dtypes
import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

F = TensorProto.FLOAT


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: object) -> NodeProto:
    return helper.make_node(op_type, inputs, outputs, **attributes)


def info(name: str, shape: list[int | str | None] | None = None, element: int = F) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    opset: int = 21,
    **extra: object,
) -> ModelProto:
    initializers = extra.pop("initializer", [])
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **{"ir_version": 10, **extra})


def simple(opset: int = 21) -> ModelProto:
    return model([node("Relu", ["x"], ["y"], name="relu")], [info("x", ["N", 3])], [info("y", ["N", 3])], opset)


# Models that an export could easily lose something of


def empty_texts() -> ModelProto:
    m = simple()
    m.doc_string = ""
    m.producer_name = ""
    m.domain = ""
    m.model_version = 0
    m.graph.doc_string = ""
    m.graph.node[0].doc_string = ""
    m.graph.node[0].domain = ""
    m.graph.node[0].overload = ""
    m.graph.input[0].doc_string = ""
    return m


def notes_everywhere() -> ModelProto:
    m = simple()
    m.doc_string = "größe\n"
    m.model_version = 7
    m.producer_version = "1.2"
    for target in (m, m.graph, m.graph.node[0], m.graph.input[0], m.graph.output[0]):
        target.metadata_props.add(key="k", value="v")
        target.metadata_props.add(key="k", value="w")
    m.graph.input[0].type.denotation = "IMAGE"
    m.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    m.graph.value_info.append(info("nowhere", [2]))
    m.graph.value_info.append(info("y", ["?", "p2o.Dim.0"]))
    annotation = m.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    return m


def opsets_twice() -> ModelProto:
    m = simple(7)
    m.opset_import.add(domain="ai.onnx.ml", version=3)
    m.opset_import.add(domain="ai.onnx", version=21)
    m.opset_import.add(domain="com.acme", version=1)
    return m


def every_element_type() -> ModelProto:
    tensors: list[TensorProto] = []
    for code in range(1, 29):
        name = TensorProto.DataType.Name(code)
        for count in (3, 5, 200, 2000):
            dtype = helper.tensor_dtype_to_np_dtype(code)
            if code == TensorProto.STRING:
                tensors.append(strings(name, count))
                continue
            array = (np.arange(count) % 3).astype(dtype)
            tensors.append(numpy_helper.from_array(array, f"{name}{count}raw"))
            if not name.startswith("FLOAT6"):
                values = array.astype(np.complex128 if "COMPLEX" in name else np.float64)
                typed = helper.make_tensor(f"{name}{count}typed", code, [count], values.tolist(), raw=False)
                tensors.append(typed)
    return model([], [], [], 25, initializer=tensors)


def strings(name: str, count: int) -> TensorProto:
    tensor = TensorProto(name=f"{name}{count}", data_type=TensorProto.STRING, dims=[count])
    tensor.string_data.extend([b"\xff\xfe", b"", "größe".encode(), b"plain"][i % 4] for i in range(count))
    return tensor


def odd_tensors() -> ModelProto:
    """Payloads that no reader would write: bits beyond the last element, booleans that are neither 0 nor 1."""
    four = TensorProto(name="four", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x21\xf3")
    true = TensorProto(name="true", data_type=TensorProto.BOOL, dims=[3], raw_data=b"\x00\x02\xff")
    nan = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    scalar = TensorProto(name="scalar", data_type=F, float_data=[2.5])
    nameless = NodeProto(op_type="Constant", output=["c"])
    nameless.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(numpy_helper.from_array(nan))
    big = numpy_helper.from_array(np.arange(5000, dtype=np.float32), "inner")
    big.doc_string = "a weight"
    second = node("Constant", [], ["d"], value=big)
    wide = helper.make_tensor("wide", TensorProto.DOUBLE, [300], np.arange(300).tolist())
    located = numpy_helper.from_array(np.ones(3, np.float32), "located")
    located.data_location = TensorProto.DEFAULT
    nodes = [nameless, second, node("Identity", ["true"], ["y"])]
    return model(nodes, [], [info("y", [3], TensorProto.BOOL)], initializer=[four, true, scalar, wide, located])


def absent_values() -> ModelProto:
    nodes = [
        node("Clip", ["x", "", "top"], ["a"]),
        node("Clip", ["x", "", ""], ["b"]),
        node("Resize", ["x4", "", "s"], ["r"]),
        node("LSTM", ["q", "w", "r3", "", "", "", ""], ["", "", "cell"], hidden_size=2),
        node("LSTM", ["q", "w", "r3"], ["seq", ""], hidden_size=2),
        node("Dropout", ["x"], ["d", ""]),
        node("com.acme.Op", ["", "x", ""], ["", "u", ""]),
    ]
    nodes[-1].domain = "com.acme"
    nodes[-1].op_type = "Op"
    top = numpy_helper.from_array(np.array(1.0, np.float32), "top")
    inputs = [info(n) for n in ("x", "x4", "s", "q", "w", "r3")]
    return model(nodes, inputs, [info(n) for n in ("a", "b", "r", "cell", "u")], initializer=[top])


def overridable(ir_version: int = 8) -> ModelProto:
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    unused = numpy_helper.from_array(np.ones(3, np.float32), "unused")
    inputs = [info("w", [3, 3]), info("x", ["N", 3]), info("unused", [3])]
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, inputs, [info("y", ["N", 3])], initializer=[weight, unused], ir_version=ir_version)


def not_sorted() -> ModelProto:
    nodes = [
        node("Add", ["b", "c"], ["y"], name="last"),
        node("Relu", ["x"], ["b"], name="first"),
        node("If", ["cond"], ["c"], name="branch", then_branch=body("Neg", "b"), else_branch=body("Abs", "x")),
    ]
    return model(nodes, [info("x", [2]), info("cond", [], TensorProto.BOOL)], [info("y", [2])])


def body(op_type: str, reads: str) -> GraphProto:
    return helper.make_graph([node(op_type, [reads], ["out"], name=f"inner_{op_type}")], op_type, [], [info("out")])


def control_flow() -> ModelProto:
    """Bodies that capture, that have initializers of their own, that are empty, and that hide a name around them."""
    inner = numpy_helper.from_array(np.ones(2000, np.float32), "k")
    then = helper.make_graph(
        [node("Add", ["x", "k"], ["t"]), node("Relu", ["t"], ["y"])], "then", [], [info("y")], [inner]
    )
    other = helper.make_graph([node("Identity", ["x"], ["z"])], "else", [], [info("z", [2000])], doc_string="other")
    other.value_info.append(info("z", ["M"]))
    loop = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Mul", ["v", "x"], ["v2"]), node("Identity", ["v2"], ["trace"])],
        "loop",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("v", [2000])],
        [info("go_on", [], TensorProto.BOOL), info("v2"), info("trace")],
    )
    passing = helper.make_graph([], "passing", [info("e", [])], [info("e", [])])
    nodes = [
        node("If", ["cond"], ["branch"], then_branch=then, else_branch=other),
        node("Loop", ["n", "cond", "branch"], ["final", "scanned"], body=loop),
        node("Scan", ["final"], ["same"], body=passing, num_scan_inputs=1),
    ]
    inputs = [info("x", [2000]), info("cond", [], TensorProto.BOOL), info("n", [], TensorProto.INT64)]
    return model(nodes, inputs, [info("same"), info("scanned")])


def functions() -> ModelProto:
    """Local functions: overloads, attributes with and without a default, absent inputs, calls of each other."""
    m = model(
        [
            node("Scaled", ["x"], ["a"], domain="local", alpha=2.0, name="call"),
            node("Scaled", ["a", "", "x"], ["b"], domain="local"),
            node("Twice", ["b"], ["y"], domain="local"),
        ],
        [info("x", ["N"])],
        [info("y", ["N"])],
    )
    m.graph.node[2].overload = "v2"
    m.opset_import.add(domain="local", version=1)
    scaled = FunctionProto(domain="local", name="Scaled", doc_string="", input=["p", "q", "r"], output=["s"])
    scaled.opset_import.add(domain="", version=18)
    constant = NodeProto(op_type="Constant", output=["alpha"])
    constant.attribute.add(name="value_float", ref_attr_name="alpha", type=AttributeProto.FLOAT)
    scaled.node.extend([constant, node("Mul", ["p", "alpha"], ["m"]), node("Clip", ["m", "q"], ["s"])])
    default = scaled.attribute_proto.add(name="alpha", type=AttributeProto.FLOAT)
    default.f = 0.5
    scaled.attribute.append("unused")
    scaled.value_info.append(info("m"))
    scaled.metadata_props.add(key="k", value="v")
    twice = FunctionProto(domain="local", name="Twice", overload="v2", input=["t"], output=["u"])
    twice.opset_import.add(domain="", version=21)
    twice.opset_import.add(domain="local", version=1)
    twice.node.extend(
        [node("Scaled", ["t"], ["h"], domain="local", alpha=3.0), node("Scaled", ["h"], ["u"], domain="local")]
    )
    m.functions.extend([scaled, twice])
    return m


def sparse() -> ModelProto:
    values = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([[0, 1], [2, 0]], np.int64))
    tensor = SparseTensorProto(values=values, indices=indices, dims=[3, 3])
    constant = SparseTensorProto()
    constant.CopyFrom(tensor)
    m = model([node("MatMul", ["x", "w"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])])
    m.graph.sparse_initializer.append(tensor)
    m.graph.node.append(helper.make_node("Constant", [], ["c"], sparse_value=constant))
    return m


def training() -> ModelProto:
    m = simple()
    entry = m.training_info.add()
    entry.initialization.name = "init"
    entry.initialization.node.append(node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(3000))))
    entry.algorithm.name = "step"
    entry.update_binding.add(key="w", value="k")
    return m


def custom_attributes() -> ModelProto:
    """Every kind of attribute, on an operator without a schema; also attributes as the first files had them."""
    custom = NodeProto(op_type="All", domain="com.acme", input=["x"], output=["y"])
    tensor = numpy_helper.from_array(np.arange(70, dtype=np.int32), "t")
    graph = helper.make_graph([node("Relu", ["x"], ["o"])], "g", [], [info("o")])
    values: dict[str, object] = {
        "f": 1.5,
        "i": -3,
        "s": b"\xff\x00",
        "t": tensor,
        "g": graph,
        "floats": [float("inf"), 0.1],
        "ints": list(range(1000)),
        "strings": [b"a", b"\xfe"],
        "tensors": [tensor, tensor],
        "graphs": [graph, graph],
        "tp": info("x", [1, "N"]).type,
        "größe": 1,
    }
    custom.attribute.extend(helper.make_attribute(key, value) for key, value in values.items())
    custom.attribute[0].doc_string = "about f"
    untyped = custom.attribute.add(name="untyped")
    untyped.i = 4
    old = node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3])
    old.attribute[0].ClearField("type")
    empty = custom.attribute.add(name="none", type=AttributeProto.INTS)
    assert not empty.ints
    return model([custom, old], [info("x", [1, 1, 8, 8]), info("w", [1, 1, 3, 3])], [info("y"), info("c")])


def outputs_that_are_inputs() -> ModelProto:
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    nodes = [node("Relu", ["x"], ["r"])]
    return model(nodes, [info("x", [3])], [info("x", [3]), info("w", [3]), info("r"), info("r")], initializer=[weight])


def devices() -> ModelProto:
    m = simple()
    configuration = m.configuration.add(name="two", num_devices=2)
    configuration.device.extend(["a", "b"])
    m.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)
    return m


def types_of_all_kinds() -> ModelProto:
    tensor = helper.make_tensor_type_proto(F, [2, "K"])
    infos = [
        helper.make_value_info("seq", helper.make_sequence_type_proto(tensor)),
        helper.make_value_info("opt", helper.make_optional_type_proto(tensor)),
        helper.make_value_info("map", helper.make_map_type_proto(TensorProto.INT64, tensor)),
        helper.make_value_info("sparse", helper.make_sparse_tensor_type_proto(F, [2, "K"])),
        info("any"),
        info("scalar", []),
        info("odd", ["?", "p2o.Dim.0", None, -1, 0, "2*N", "N", "max(N, 3)", ""]),
    ]
    return model([node("Identity", ["any"], ["y"])], infos, [info("y")])


def without_versions() -> ModelProto:
    """As early files are: neither an IR version nor an opset."""
    m = simple()
    m.ClearField("ir_version")
    del m.opset_import[:]
    return m


ODD_MODELS = (
    simple,
    without_versions,
    empty_texts,
    notes_everywhere,
    opsets_twice,
    every_element_type,
    odd_tensors,
    absent_values,
    overridable,
    lambda: overridable(3),
    not_sorted,
    control_flow,
    functions,
    sparse,
    training,
    custom_attributes,
    outputs_that_are_inputs,
    devices,
    types_of_all_kinds,
)


def backend_models() -> Iterator[tuple[str, str, ModelProto | str]]:
    """ONNX's own backend tests: their kind, name, and model or its path."""
    from pathlib import Path

    import onnx.backend.test as here
    from onnx.backend.test.loader import load_model_tests

    with redirect_stderr(io.StringIO()), np.errstate(all="ignore"):
        for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
            for case in load_model_tests(kind=kind):
                yield kind, case.name, case.model if case.model is not None else f"{case.model_dir}/model.onnx"
    for path in sorted((Path(here.__file__).parent / "data" / "light").glob("light_*.onnx")):
        yield "light", path.stem, str(path)


assert ml_dtypes is not None  # registers the dtypes that helper gives
