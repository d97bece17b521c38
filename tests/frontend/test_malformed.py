"""Wrong files: each a ModelError that says what is wrong, at once, and never an error from inside."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from models import ODD_MODELS, control_flow, functions, info, model, node, simple
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper
from sardonyx.frontend.exporter import export_model
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.inline_functions import inline_functions
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import Error, ModelError, UnsupportedError

import sardonyx as sx


def problem(source: ModelProto | bytes | Path, kind: type[Error] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        import_model(source)
    return str(caught.value)


def broken(edit: Callable[[ModelProto], object], base: Callable[[], ModelProto] = simple) -> str:
    m = base()
    edit(m)
    return problem(m)


def tensor(**fields: object) -> ModelProto:
    """A model with one initializer, of float and three elements unless said otherwise."""
    proto = TensorProto(**{"name": "w", "data_type": TensorProto.FLOAT, "dims": [3], **fields})
    m = simple()
    m.graph.initializer.append(proto)
    return m


def test_no_model_at_all(tmp_path: Path) -> None:
    assert problem(b"") == "the file is empty"
    assert "no ONNX model, or damaged" in problem(b"hello world, this is no protobuf at all")
    assert "no graph" in problem(ModelProto(ir_version=8))
    assert "cannot be read: No such file" in problem(tmp_path / "absent.onnx")
    assert "not a regular file" in problem(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert problem(tmp_path / "empty") == f"{tmp_path / 'empty'}: the file is empty"


def test_names() -> None:
    assert "node 'relu' (Relu) reads 'z', which nothing defines" in broken(
        lambda m: m.graph.node[0].input.__setitem__(0, "z")
    )
    close = broken(lambda m: m.graph.node.append(node("Abs", ["inputs_0"], ["q"])), lambda: renamed("inputs_1"))
    assert "reads 'inputs_0', which nothing defines (there is 'inputs_1')" in close
    assert "'y' is given to two values" in broken(lambda m: m.graph.node.append(node("Abs", ["x"], ["y"])))
    assert "'x' is given to two values" in broken(lambda m: m.graph.node.append(node("Abs", ["x"], ["x"])))
    assert "'x' is given to two values" in broken(lambda m: m.graph.input.append(info("x")))
    assert "'w' is given to two values" in problem(twice_the_same_initializer())
    assert "the graph's output list reads 'nothing'" in broken(lambda m: m.graph.output.append(info("nothing")))
    assert "an input of the graph has no name" in broken(lambda m: m.graph.input.append(info("")))
    assert "reads 'b'" in broken(lambda m: m.graph.node[0].input.__setitem__(0, "b"), control_flow)


def renamed(name: str) -> ModelProto:
    return model([node("Relu", [name], ["y"])], [info(name)], [info("y")])


def twice_the_same_initializer() -> ModelProto:
    m = tensor(raw_data=bytes(12))
    m.graph.initializer.append(m.graph.initializer[0])
    return m


def test_circles() -> None:
    nodes = [
        node("Add", ["x", "c"], ["a"], name="one"),
        node("Abs", ["a"], ["b"]),
        node("Neg", ["b"], ["c"], name="two"),
    ]
    text = problem(model(nodes, [info("x")], [info("c")]))
    assert "wait for each other: node 'one' (Add), the node Abs that makes 'b', node 'two' (Neg)" in text
    assert "wait for each other" in problem(model([node("Abs", ["a"], ["a"])], [], [info("a")]))


def test_tensors() -> None:
    assert "so 12 bytes, and holds 11" in problem(tensor(raw_data=bytes(11)))
    assert "so 12 bytes, and holds 4000" in problem(tensor(raw_data=bytes(4000)))
    assert "so 12 bytes, and holds 8" in problem(tensor(float_data=[1.0, 2.0]))
    assert "has the sizes [-1]" in problem(tensor(dims=[-1], raw_data=bytes(12)))
    assert "has the sizes" in problem(tensor(dims=[1 << 40, 1 << 40], raw_data=bytes(12)))
    assert "element type 99" in problem(tensor(data_type=99, raw_data=bytes(12)))
    assert "element type 0" in problem(tensor(data_type=0, raw_data=bytes(12)))
    assert "2 strings" in problem(tensor(data_type=TensorProto.STRING, string_data=[b"a", b"b"]))
    assert "field of another element type" in problem(
        tensor(data_type=TensorProto.INT32, dims=[500], float_data=[0.0] * 500)
    )
    assert "one segment" in problem(tensor(segment=TensorProto.Segment(begin=0, end=2), raw_data=bytes(12)))


def test_a_tensor_has_its_values_in_one_field() -> None:
    both = tensor(float_data=[1.0, 2.0, 3.0], raw_data=bytes(12))
    assert problem(both) == "tensor 'w' has values in 'raw_data' and in 'float_data'"
    large = tensor(dims=[1000], float_data=[1.0] * 1000, int64_data=[1])
    assert "tensor 'w' has values in " in problem(large)


def test_an_initializer_that_is_also_an_input() -> None:
    def with_input(*args: object) -> ModelProto:
        m = tensor(raw_data=bytes(12))
        m.graph.input.append(info("w", *args))
        return m

    assert problem(with_input([4])) == "'w' has the sizes [4] as an input, and [3] as an initializer"
    assert problem(with_input(["K", 1])) == "'w' has the sizes [K, 1] as an input, and [3] as an initializer"
    assert problem(with_input([3], TensorProto.INT64)) == "'w' is int64 as an input, and float as an initializer"
    for fits in ([3], ["K"], [None], None):
        import_model(with_input(fits))


def test_a_negative_size() -> None:
    m = simple()
    m.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -4
    assert problem(m) == "input 'x' has the size -4 on axis 1"
    m.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1  # exporters write it for a size that is not known
    import_model(m)


@pytest.mark.parametrize("name", ["sx_threads", "__fact1", "v1000000001", "u0", "v0", "d0", "_", "min"])
def test_a_size_may_have_any_name(name: str) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Add", ["a", "x"], ["y"])]
    given = np.ones((4, 3), np.float32)
    program = sx.compile(model(nodes, [info("x", [name, 3])], [info("y", [name, 3])]))
    assert program({"x": given})["y"].tolist() == [[0.0] * 3] * 4


def test_nodes() -> None:
    def with_node(*args: object, **attributes: object) -> str:
        return problem(model([node(*args, **attributes)], [info("x")], [info("y")]))

    assert "lacks its input 1 ('B')" in with_node("Add", ["x"], ["y"])
    assert "lacks its input 0 ('A')" in with_node("Add", ["", "x"], ["y"])
    assert "has 3 inputs, not 2" in with_node("Add", ["x", "x", "x"], ["y"])
    assert "its input 1 has no name" in with_node("Concat", ["x", "", "x"], ["y"], axis=0)
    assert "has 2 outputs, not 1" in with_node("Relu", ["x"], ["y", "z"])
    assert "has 0 outputs, and needs 1" in with_node("Relu", ["x"], [])
    assert "lacks the attribute 'to'" in with_node("Cast", ["x"], ["y"])
    assert "no attribute 'alpha'" in with_node("Relu", ["x"], ["y"], alpha=1.0)
    assert "its attribute 'alpha' is INT, not FLOAT" in with_node("Elu", ["x"], ["y"], alpha=1)
    twice = node("Elu", ["x"], ["y"], alpha=1.0)
    twice.attribute.append(twice.attribute[0])
    assert "has the attribute 'alpha' twice" in problem(model([twice], [info("x")], [info("y")]))
    odd = NodeProto(op_type="Op", domain="com.acme", input=["x"], output=["y"])
    odd.attribute.add(name="a")
    import_model(model([odd], [info("x")], [info("y")]))  # an empty list, as the first files had them


def test_old_nodes_have_the_inputs_of_their_version() -> None:
    assert "has 2 inputs, not 1" in problem(model([node("Squeeze", ["x", "x"], ["y"])], [info("x")], [info("y")], 11))
    assert "Squeeze-13 has no attribute 'axes'" in problem(
        model([node("Squeeze", ["x"], ["y"], axes=[0])], [info("x")], [info("y")], 13)
    )


def test_a_newer_opset_is_unsupported() -> None:
    assert "opset 99 of ai.onnx" in problem(simple(99), UnsupportedError)


def test_a_later_version_of_the_format() -> None:
    later = simple()
    later.ir_version = 999
    assert "is of IR version 999" in problem(later, UnsupportedError)


def test_bad_utf8() -> None:
    data = simple().SerializeToString().replace(b"relu", b"r\xffl\xfe")
    assert "no UTF-8" in problem(data)
    assert "no UTF-8" in problem(simple().SerializeToString().replace(b"\x01x", b"\x01\xff"))


def test_deep_nesting_is_refused_quickly() -> None:
    inner = model([node("Identity", ["x"], ["y"])], [], [info("y")]).graph
    for _ in range(40):
        outer = model([node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)], [], [info("y")]).graph
        if outer.ByteSize() > 1 << 18:
            break
        inner.CopyFrom(outer)
    m = simple()
    m.graph.node.append(node("If", ["x"], ["z"], then_branch=inner, else_branch=inner))
    start = time.process_time()
    with pytest.raises(ModelError, match="reads 'c'"):
        import_model(m.SerializeToString())
    assert time.process_time() - start < 2


# Local functions


def chain(length: int, *, fan: int, closed: bool = False) -> ModelProto:
    """Functions f0, f1, ...: each calls the next `fan` times, the last one the first where `closed`."""
    m = functions()
    del m.functions[1:]
    template = m.functions.pop(0)
    for index in range(length):
        f = m.functions.add()
        f.CopyFrom(template)
        f.name, f.domain = f"f{index}", "local"
        f.opset_import.add(domain="local", version=1)
        del f.node[:]
        del f.input[1:]
        del f.value_info[:]
        last = index == length - 1
        op, domain = ("f0" if closed else "Relu") if last else f"f{index + 1}", "local" if closed or not last else ""
        values = ["p", *(f"t{i}" for i in range(fan - 1)), "s"]
        f.node.extend(node(op, [a], [b], domain=domain) for a, b in pairwise(values))
    del m.graph.node[:]
    m.graph.node.append(node("f0", ["x"], ["y"], domain="local", name="first"))
    return m


def test_recursion() -> None:
    module, _ = import_model(chain(3, fan=1, closed=True))
    with pytest.raises(ModelError, match=r"in a circle: local\.f0 -> local\.f1 -> local\.f2 -> local\.f0"):
        inline_functions(module)


def test_explosion_is_counted_and_not_made() -> None:
    module, weights = import_model(chain(31, fan=2))
    start = time.process_time()
    with pytest.raises(UnsupportedError, match=f"stand for {2**31:,} nodes, of which at most 200,000") as caught:
        upgrade_opset(module, weights)
    assert time.process_time() - start < 2
    lines = str(caught.value).splitlines()
    assert lines[1] == f"  --> node 'first' calls local.f0: {2**31:,} nodes"
    assert lines[2] == f"   | local.f0 calls local.f1 2 times, of {2**30:,} nodes each"


def with_function(call: NodeProto, opsets: bool = True) -> ModelProto:
    body = node("LeakyRelu", ["p"], ["q"])
    body.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 21)] * opsets
    m = model([call], [info("x")], [info("y")])
    m.opset_import.add(domain="my", version=1)
    m.functions.append(helper.make_function("my", "F", ["p"], ["q"], [body], imports, ["slope"]))
    return m


def test_attributes_of_a_call() -> None:
    import_model(with_function(node("F", ["x"], ["y"], domain="my", slope=0.5)))
    import_model(with_function(node("F", ["x"], ["y"], domain="my")))
    wrong = problem(with_function(node("F", ["x"], ["y"], domain="my", name="call", slope=3)))
    assert wrong == "node 'call' (F): its attribute 'slope' is INT, and the function takes FLOAT"
    unknown = node("F", ["x"], ["y"], domain="my", name="call", angle=3.0)
    assert problem(with_function(unknown)) == "node 'call' (F): the function 'F' has no attribute 'angle'"


def test_a_function_imports_what_it_uses() -> None:
    text = problem(with_function(node("F", ["x"], ["y"], domain="my"), opsets=False))
    assert "function 'F': the node LeakyRelu that makes 'q' is of ai.onnx, and the function imports no" in text


def test_two_functions_of_one_name() -> None:
    m = functions()
    m.functions.append(m.functions[0])
    assert "two local functions" in problem(m)


# Damage at random


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 20))])
def test_random_damage(seed: int) -> None:
    """Whatever is done to a file's bytes: it is read, or it is a ModelError, within two seconds."""
    rng = random.Random(seed)
    sources = [make().SerializeToString() for make in ODD_MODELS]
    survivors = 0
    for _ in range(300):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                del data[at:]
                data += b"\0" * (not data)
            elif kind == 1:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                data[at] = rng.randrange(256)
            else:
                other = rng.randrange(len(data))
                data[at : at + 9] = data[other : other + 9]
        start = time.process_time()  # the machine may be busy with other things
        try:
            module, weights = import_model(bytes(data))
            export_model(module, weights)
            upgrade_opset(module, weights)
            export_model(module, weights)
            survivors += 1
        except Error:
            pass
        assert time.process_time() - start < 2
    assert survivors > 5
