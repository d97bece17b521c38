"""The onnx dialect: the generated classes say what the schemas say, and every op prints, parses back and verifies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import defs, helper
from sardonyx.dialects import dims, onnx
from sardonyx.dialects.onnx import generate
from sardonyx.dialects.onnx.attributes import int_attr, ints_attr, key_of, name_of_key, string_attr, strings_attr
from sardonyx.dialects.onnx.declared import Declared, DeclaredAttr, declared_types
from sardonyx.dialects.onnx.nodes import NodeInfo, NodeTableAttr
from sardonyx.dialects.onnx.schema import Arity
from sardonyx.dialects.onnx.weight_table import WeightRow, WeightTableAttr
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Builtin, DictionaryAttr, ModuleOp, TensorType, f32, f64, i32, i64
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

X = TensorType(f32, [2, 3])
HISTORY = defs.get_all_schemas_with_history()


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, onnx.Onnx, dims.Dims):
        ctx.load_dialect(dialect)
    return ctx


def reparsed(module: ModuleOp) -> ModuleOp:
    """The module by way of its text, which must not change on the way."""
    text = str(module)
    again = Parser(context(), text).parse_module()
    assert str(again) == text
    assert module.is_structurally_equivalent(again)
    return again


def region(*, results: int = 1, args: int = 0) -> Region:
    block = Block(arg_types=[onnx.UNKNOWN] * args)
    made = [onnx.ConstantOp.make([], {"value_int": i}) for i in range(results)]
    block.add_ops([*made, onnx.YieldOp.make([m.output for m in made])])
    return Region(block)


def samples(cls: type[onnx.OnnxOp]) -> list[onnx.OnnxOp]:
    """The op with all of its optional parameters, with none, and with every other one."""
    schema = cls.SCHEMA
    source = Block(arg_types=[onnx.UNKNOWN] * 20).args
    graphs = [spec for spec in schema.attributes.values() if spec.kind == "GRAPH"]
    values = {"INT": 3, "FLOAT": 0.5, "STRING": "s", "INTS": [1, 2], "FLOATS": [0.5], "STRINGS": ["a", "ü"]}
    required = {
        name: values.get(spec.kind, np.zeros(2, np.float32))
        for name, spec in schema.attributes.items()
        if spec.required and spec.kind != "GRAPH"
    }
    found: list[onnx.OnnxOp] = []
    for present in (lambda at: True, lambda at: False, lambda at: at % 2 == 0):
        operands = [
            source[i] if f.arity is not Arity.OPTIONAL or present(i) else None for i, f in enumerate(schema.inputs)
        ]
        types = [
            onnx.UNKNOWN if f.arity is not Arity.OPTIONAL or present(i) else None for i, f in enumerate(schema.outputs)
        ]
        regions = [region(args=2) if spec.required or present(i) else None for i, spec in enumerate(graphs)]
        found.append(cls.make(operands, required, types, regions=regions))
    return found


def in_module(ops: list[Operation], arguments: int = 20) -> ModuleOp:
    """A module with the ops, whose operands become arguments of a function."""
    block = Block(arg_types=[onnx.UNKNOWN] * arguments)
    for op in ops:
        op.operands = [block.args[i] for i in range(len(op.operands))]
    block.add_ops([*ops, ReturnOp()])
    return ModuleOp([FuncOp("main", ([onnx.UNKNOWN] * arguments, []), Region(block))])


def test_generated_file_is_what_the_schemas_give() -> None:
    checked_in = Path(generate.__file__).with_name("ops_gen.py").read_text()
    assert generate.generate() == checked_in, "run: python -m sardonyx.dialects.onnx.generate"


def test_there_is_a_class_for_every_operator() -> None:
    wanted = {(s.domain, s.name) for s in HISTORY}
    assert set(onnx.OP_BY_NAME) == wanted
    assert sum(domain == "" for domain, _ in wanted) == 203
    assert sum(domain == "ai.onnx.ml" for domain, _ in wanted) == 19


@pytest.mark.parametrize("cls", onnx.OPS, ids=lambda cls: cls.name)
def test_op_prints_and_parses_back(cls: type[onnx.OnnxOp]) -> None:
    module = in_module(list(samples(cls)))
    module.verify()
    reparsed(module).verify()


@pytest.mark.parametrize("cls", onnx.OPS, ids=lambda cls: cls.name)
def test_defaults_are_the_schemas(cls: type[onnx.OnnxOp]) -> None:
    schema = cls.SCHEMA
    newest = [s for s in HISTORY if (s.domain, s.name) == (schema.domain, schema.op_type)]
    newest.sort(key=lambda s: s.since_version)
    op = samples(cls)[1]
    assert schema.since == newest[-1].since_version
    assert schema.first == newest[0].since_version
    for name, attribute in newest[-1].attributes.items():
        if attribute.required or not attribute.default_value.type:
            continue
        wanted = helper.get_attribute_value(attribute.default_value)
        wanted = wanted.decode() if isinstance(wanted, bytes) else wanted
        if isinstance(wanted, list):
            wanted = [w.decode() if isinstance(w, bytes) else w for w in wanted]
        found = onnx.attr(op, name)
        if isinstance(wanted, float):
            assert np.float32(found) == np.float32(wanted)
        elif not hasattr(wanted, "data_type"):  # tree ensembles have empty tensors as defaults, which mean none
            assert found == wanted


def test_operands_by_formal_position() -> None:
    args = Block(arg_types=[onnx.UNKNOWN] * 4).args
    clip = onnx.ClipOp.make([args[0], None, args[1]])
    assert clip.operand_at(0) is args[0]
    assert clip.operand_at(1) is None
    assert clip.operand_at(2) is args[1]
    assert clip.operand_at(3) is None
    assert clip.min is None
    assert clip.max is args[1]
    assert clip.formal_operands() == [args[0], None, args[1]]
    loop = onnx.LoopOp.make([None, args[0], args[1], args[2]], {}, [X, X], regions=[region(args=4)])
    assert loop.M is None
    assert loop.cond is args[0]
    assert [loop.operand_at(i) for i in range(5)] == [None, args[0], args[1], args[2], None]
    conv = onnx.ConvOp.make([args[0], args[1]])
    assert conv.B is None
    assert conv.operand_at(2) is None


def test_results_by_formal_position() -> None:
    args = Block(arg_types=[onnx.UNKNOWN] * 3).args
    lstm = onnx.LSTMOp.make(list(args), {"hidden_size": 4}, [X, None, X])
    assert lstm.Y is lstm.results[0]
    assert lstm.Y_h is None
    assert lstm.result_at(2) is lstm.Y_c is lstm.results[1]
    assert lstm.formal_results() == [lstm.results[0], None, lstm.results[1]]


def test_attributes_come_with_their_defaults() -> None:
    args = Block(arg_types=[onnx.UNKNOWN] * 2).args
    conv = onnx.ConvOp.make([args[0], args[1]], {"kernel_shape": [3, 3], "strides": None})
    assert "group" not in conv.properties
    assert onnx.attr(conv, "group") == 1
    assert onnx.attr(conv, "kernel_shape") == [3, 3]
    assert onnx.attr(conv, "strides") is None
    assert onnx.attr(conv, "auto_pad") == "NOTSET"
    with pytest.raises(KeyError):
        onnx.attr(conv, "epsilon")
    with pytest.raises(TypeError, match="no attribute 'alpha'"):
        onnx.ConvOp.make([args[0], args[1]], {"alpha": 1.0})


def test_origin_is_passed_on() -> None:
    arg = Block(arg_types=[X]).args[0]
    first = onnx.ReluOp.make([arg])
    first.attributes["origin"] = ints_attr((4,))
    second = onnx.AbsOp.make([first.Y], like=first)
    third = onnx.NegOp.make([second.Y])
    third.attributes["origin"] = ints_attr((2,))
    assert onnx.origin_of(second) == (4,)
    assert onnx.plain(onnx.origin_union([second, third])) == [2, 4]


# Verification


def message(op: Operation) -> str:
    with pytest.raises(VerifyException) as error:
        op.verify()
    return str(error.value)


def test_wrong_element_type_names_node_parameter_and_allowed_types() -> None:
    args = Block(arg_types=[TensorType(i32, [2]), TensorType(i32, [2])]).args
    op = onnx.ConvOp.make([args[0], args[1]])
    op.attributes["onnx.node"] = int_attr(0)
    table = NodeTableAttr((NodeInfo("encoder/conv_3", "Conv", "", "model.py:7"),))
    ModuleOp([op], attributes={"onnx.nodes": table})
    text = message(op)
    assert "onnx.Conv 'encoder/conv_3'" in text
    assert "input 0 ('X') is int32; Conv-22 takes bfloat16, double, float or float16" in text


def test_one_type_variable_has_one_type() -> None:
    args = Block(arg_types=[X, TensorType(f64, [2, 3])]).args
    text = message(onnx.AddOp.make([args[0], args[1]]))
    assert "input 1 ('B') is double, and input 0 ('A') is float; both are to be of one type" in text


def test_missing_attribute_and_operand() -> None:
    arg = Block(arg_types=[X]).args[0]
    assert "onnx.Cast: property 'to' expected" in message(onnx.CastOp.make([arg]))
    assert "onnx.Add" in message(onnx.AddOp.create(operands=[arg], result_types=[X]))


def test_types_that_are_not_inferred_yet_pass() -> None:
    args = Block(arg_types=[X, onnx.UNKNOWN]).args
    onnx.AddOp.make([args[0], args[1]]).verify()


def test_a_reference_may_stand_for_an_attribute() -> None:
    arg = Block(arg_types=[X]).args[0]
    onnx.EluOp.make([arg], {"alpha": onnx.RefAttr(string_attr("a"), string_attr("FLOAT"))}).verify()


# Text


def random_arrays() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    kinds = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.uint8, np.int64, np.uint64, np.bool_]
    arrays: list[np.ndarray] = []
    for kind in kinds:
        for size in (0, 1, 7):
            data = random.integers(0, 256, size * np.dtype(kind).itemsize, np.uint8)
            arrays.append((data & 1 if kind is np.bool_ else data).view(kind))
        arrays.append(np.zeros((2, 3), kind))
        arrays.append(np.ones((), kind))
    special = [np.inf, -np.inf, np.nan, 123456789.0, 1e30, -0.0, 1 / 3, 1e-45]
    with np.errstate(over="ignore"):
        arrays += [np.array(special, kind) for kind in (np.float32, np.float64, np.float16)]
    return arrays


@pytest.mark.parametrize("array", random_arrays(), ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_constants_keep_every_bit_in_text(array: np.ndarray) -> None:
    value = onnx.tensor_attr(array)
    assert onnx.dense_array(value).tobytes() == array.tobytes()
    constant = onnx.ConstantOp.make([], {"value": value}, [value.type])
    initializer = onnx.InitializerOp.make("w", value, value.type)
    again = reparsed(reparsed(ModuleOp([constant, initializer])))
    assert [op.properties["value"] for op in again.ops] == [value, value]


def test_numbers_keep_every_bit_in_text() -> None:
    values = [float("inf"), float("-inf"), float("nan"), 123456789.0, 0.1, -0.0, 1e-45]
    ops = [onnx.ConstantOp.make([], {"value_floats": values})]
    ops += [onnx.ConstantOp.make([], {"value_float": v}) for v in values]
    again = reparsed(ModuleOp(ops))
    first = next(iter(again.ops))
    assert np.array(onnx.attr(first, "value_floats"), np.float32).tobytes() == np.array(values, np.float32).tobytes()


def test_texts_of_any_bytes() -> None:
    texts = ["plain", 'a "quote"\\', "line\nbreak\0", "größe", b"\xff\xfe".decode("utf-8", "surrogateescape"), ""]
    attributes = {key_of(text): string_attr(text) for text in texts}
    properties: dict[str, Attribute] = {
        "domain": string_attr("com.größe"),
        "op_type": string_attr("Ö"),
        "attributes": DictionaryAttr({**attributes, "all": strings_attr(texts)}),
    }
    custom = onnx.CustomOp.build_at(properties, [], [])
    names = [onnx.InitializerOp.make(text, onnx.WeightAttr("w0"), X, True) for text in texts]
    again = reparsed(ModuleOp([custom, *names]))
    first, *rest = again.ops
    assert isinstance(first, onnx.CustomOp)
    assert onnx.plain(first.attributes_.data["all"]) == texts
    assert {name_of_key(key) for key in first.attributes_.data} == {*texts, "all"}
    assert [onnx.text_of(op.sym) for op in rest if isinstance(op, onnx.InitializerOp)] == texts


def test_unknown_operators_keep_their_positions() -> None:
    args = Block(arg_types=[X] * 3).args
    properties: dict[str, Attribute] = {
        "domain": string_attr("a"),
        "op_type": string_attr("B"),
        "attributes": DictionaryAttr({}),
        "graphs": strings_attr(["body"]),
    }
    op = onnx.CustomOp.build_at(properties, [args[0], None, args[1]], [None, X, None, X], {}, [region(args=1)])
    assert [op.operand_at(i) for i in range(4)] == [args[0], None, args[1], None]
    assert op.result_at(0) is None
    assert op.result_at(3) is op.results[1]
    copy = op.clone()
    assert copy.formal_results() == [None, copy.results[0], None, copy.results[1]]
    reparsed(in_module([op])).verify()


def test_tables_in_text() -> None:
    module = ModuleOp([])
    rows = (NodeInfo("a", "Conv", "enc.0", "m.py:3"), NodeInfo("ü\n", "Ä"))
    declared = (
        ("x", Declared("tensor(float)", (3, "N", None, "p2o.Dim.0", ""))),
        ("s", Declared("seq(tensor(float))", None)),
        ("scalar", Declared("tensor(int64)", ())),
    )
    weights = (WeightRow("w0", "m o.bin", 12, 4096, "9f", 1, (32, 32)), WeightRow("w1", "ü", 0, 0, "", 7, ()))
    module.attributes["onnx.nodes"] = NodeTableAttr(rows)
    module.attributes["onnx.declared"] = DeclaredAttr(declared)
    module.attributes["onnx.weights"] = WeightTableAttr(weights)
    again = reparsed(module)
    assert again.attributes["onnx.nodes"].data == rows
    assert declared_types(again) == dict(declared)
    assert again.attributes["onnx.weights"].data == weights


def test_names_of_values() -> None:
    args = Block(arg_types=[X] * 3).args
    lstm = onnx.LSTMOp.make(list(args), {"hidden_size": 4}, [X, None, X])
    assert onnx.value_name(lstm.results[1]) is None
    onnx.set_value_name(lstm.results[1], "cell")
    assert onnx.value_name(lstm.results[1]) == "cell"
    assert onnx.value_name(lstm.results[0]) is None
    assert onnx.value_name(args[0]) is None
    loop = onnx.LoopOp.make([], {}, [X], regions=[region(args=2)])
    loop.attributes["onnx.inputs"] = ArrayAttr([strings_attr(["i", "cond"])])
    assert [onnx.value_name(a) for a in loop.body.block.args] == ["i", "cond"]


def test_elements_have_one_number_one_name_and_one_dtype() -> None:
    for code, element in onnx.ELEMENT_TYPES.items():
        assert onnx.ELEMENT_CODES[element] == code
        text = onnx.type_string(TensorType(element, [1]))
        assert text == f"tensor({onnx.types.ELEMENT_NAMES[element]})"
        dtype = onnx.numpy_dtype(element)
        assert onnx.element_of_dtype(dtype) == element
        assert dtype == helper.tensor_dtype_to_np_dtype(code) or code == 8
    assert onnx.type_string(onnx.MapType(i64, TensorType(f32, []))) == "map(int64, float)"
    assert onnx.type_string(onnx.SequenceType(X)) == "seq(tensor(float))"
    assert onnx.type_string(onnx.UNKNOWN) is None


def test_importing_the_dialect_imports_neither_onnx_nor_numpy() -> None:
    code = (
        "import sys; import sardonyx.dialects.onnx;"
        "sys.exit(bool({'onnx', 'numpy', 'ml_dtypes', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
