"""Choices that are given for kernels: taken, refused with a reason, in the keys, and never seen in the bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sardonyx.lowering.choices import Choices
from sardonyx.lowering.kernels.attention_plan import AttentionPlan
from sardonyx.lowering.kernels.conv_plan import ConvPlan
from sardonyx.lowering.kernels.depthwise import ColumnTile
from sardonyx.lowering.kernels.matmul_plan import Plan
from sardonyx.lowering.kernels.winograd_plan import WinogradPlan
from sardonyx.lowering.policy import LoopsChoices

import sardonyx as sx
from sardonyx.options import Options, program_key

Maker = Callable[[str], onnx.ModelProto]


@pytest.fixture
def model(model: Callable[..., onnx.ModelProto]) -> Maker:
    """Models of the opset that has Attention."""

    def make(text: str) -> onnx.ModelProto:
        made = model(text)
        made.opset_import[0].version = 23
        return made

    return make


MODELS = {
    "matmul": "g (float[33, 70] a, float[70, 50] b) => (float[33, 50] y) { y = MatMul(a, b) }",
    "rows": "g (float[N, 70] a, float[70, 50] b) => (float[N, 50] y) { y = MatMul(a, b) }",
    "few rows": "g (float[3, 900] a, float[900, 50] b) => (float[3, 50] y) { y = MatMul(a, b) }",
    "conv": """g (float[1, 20, 9, 9] x, float[40, 20, 3, 3] w) => (float[1, 40, 9, 9] y)
        { y = Conv<pads=[1, 1, 1, 1]>(x, w) }""",
    "depthwise": """g (float[1, 20, 9, 9] x, float[20, 1, 3, 3] w) => (float[1, 20, 9, 9] y)
        { y = Conv<pads=[1, 1, 1, 1], group=20>(x, w) }""",
    "conv_transpose": """g (float[1, 20, 9, 9] x, float[20, 12, 3, 3] w) => (float[1, 12, 19, 19] y)
        { y = ConvTranspose<strides=[2, 2]>(x, w) }""",
    "attention": """g (float[1, 2, 21, 16] q, float[1, 2, 300, 16] k, float[1, 2, 300, 16] v) => (float[1, 2, 21, 16] y)
        { y = Attention(q, k, v) }""",
    "causal": """g (float[1, 2, 197, 16] q, float[1, 1, 197, 16] k, float[1, 1, 197, 16] v) => (float[1, 2, 197, 16] y)
        { y = Attention<is_causal=1>(q, k, v) }""",
    "columns": "g (float[70, 90] x) => (float[1, 90] y) { axes = Constant<value_ints=[0]>() y = ReduceSum(x, axes) }",
    "row chain": "g (float[70, 90] x) => (float[70, 90] y) { y = Softmax(x) }",
    "transpose": "g (float[70, 90] x) => (float[90, 70] y) { t = Transpose<perm=[1, 0]>(x) y = Exp(t) }",
}

CASES: list[tuple[str, dict[str, dict[str, int | str]]]] = [
    ("matmul", {"matmul": {"rows": 5}}),
    ("matmul", {"matmul": {"rows": 4, "vectors": 3, "row_block": 8, "steps_ahead": 0}}),
    ("matmul", {"matmul": {"rows": 7, "panels": 2, "vectors": 1, "grain_cycles": 1}}),
    ("rows", {"matmul": {"tail_rows": 1, "rows": 3}}),
    ("few rows", {"matmul": {"panels": 1, "rows": 2}}),
    ("conv", {"conv": {"rows": 5, "vectors": 1, "vectors_over": "positions", "outer": "channels"}}),
    ("conv", {"conv": {"vectors_over": "channels", "rows": 3, "steps_ahead": 9, "grain_cycles": 1}}),
    ("conv", {"conv": {"vectors_over": "positions", "channels_ahead": 2, "tiles_ahead": 1}}),
    ("depthwise", {"conv": {"rows": 3}}),
    ("depthwise", {"conv": {"algorithm": "direct"}}),
    ("conv_transpose", {"conv_transpose": {"rows": 5, "vectors": 2, "vectors_over": "positions"}}),
    ("attention", {"attention": {"rows": 5, "grain_cycles": 1}}),
    ("causal", {"attention": {"rows": 5, "grain_cycles": 1}}),
    ("columns", {"loops": {"column_tile": 64, "straight_cycles": 20, "most_lanes": 8}}),
    ("row chain", {"loops": {"most_lanes": 4, "grain_cycles": 1, "serial_cycles": 0}}),
    ("transpose", {"loops": {"block_stretch": 16, "most_lanes": 8, "parallel_iterations": 1}}),
]


def feeds_of(proto: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    sizes = {i.name: [d.dim_value or 9 for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    return {name: rng.standard_normal(size, np.float32) for name, size in sizes.items()}


@pytest.fixture(scope="module")
def usual() -> dict[str, np.ndarray[Any, Any]]:
    return {}


@pytest.mark.parametrize(("name", "choices"), CASES, ids=[f"{n} {json.dumps(c)}" for n, c in CASES])
def test_choices_are_taken_and_not_seen_in_the_bits(
    model: Maker, usual: dict[str, np.ndarray[Any, Any]], name: str, choices: dict[str, dict[str, int | str]]
) -> None:
    proto = model(MODELS[name])
    feeds = feeds_of(proto)
    if name not in usual:
        usual[name] = sx.compile(proto, cache=False)(feeds)["y"]
    program = sx.compile(proto, cache=False, schedule={"*": choices})
    [function] = program.explain().to_dict()["functions"].values()
    for part, numbers in choices.items():
        assert function["schedule"][part].items() >= numbers.items()
    assert program(feeds)["y"].tobytes() == usual[name].tobytes()


def with_weights(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with this input a constant."""
    value = feeds_of(proto)[name]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    proto.graph.input.remove(next(i for i in proto.graph.input if i.name == name))
    return proto


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("conv", {"algorithm": "winograd", "rows": 4, "vectors": 2, "steps_ahead": 0}),
        ("matmul", {"rows": 3, "vectors": 4, "row_block": 6}),
    ],
)
def test_packed_weights_follow_the_choices(model: Maker, name: str, choices: dict[str, int | str]) -> None:
    text = MODELS[name].replace("1, 20, 9, 9", "1, 20, 30, 30").replace("1, 40, 9, 9", "1, 40, 30, 30")
    proto = with_weights(model(text), "w" if name == "conv" else "b")
    feeds = feeds_of(proto)
    plain, other = sx.compile(proto, cache=False), sx.compile(proto, cache=False, schedule={"*": {name: choices}})
    [function] = other.explain().to_dict()["functions"].values()
    assert function["schedule"][name].items() >= choices.items()
    assert other(feeds)["y"].tobytes() == plain(feeds)["y"].tobytes()


def test_a_schedule_that_was_printed_can_be_given(model: Maker, tmp_path: Path) -> None:
    proto = model(MODELS["rows"])
    functions = sx.compile(proto, cache=False).explain().to_dict()["functions"]
    for identity in ("key", None):
        given = {(f[identity] if identity else name): f["schedule"] for name, f in functions.items()}
        file = tmp_path / "schedule.json"
        file.write_text(json.dumps(given))
        assert sx.compile(proto, cache=False, schedule=file).explain().to_dict()["functions"] == functions


@pytest.mark.parametrize(
    ("name", "schedule", "message"),
    [
        ("matmul", {"*": {"matmul": {"depth_block": 64}}}, "depth_block of matmul cannot be set: it decides the order"),
        ("matmul", {"*": {"matmul": {"lanes": 8}}}, "lanes of matmul cannot be set: it is the width"),
        ("matmul", {"*": {"matmul": {"rows": 99}}}, "rows of matmul cannot be 99 here"),
        ("matmul", {"*": {"matmul": {"rows": "5"}}}, "rows of matmul cannot be '5' here"),
        ("matmul", {"*": {"matmul": {"tiles": 1}}}, "has no choice 'tiles'; there are grain_cycles, rows, vectors"),
        ("matmul", {"matmul_0": {"loops": {"most_lanes": 4}}}, "there is no part 'loops' in this kernel"),
        ("matmul", {"nothing": {"matmul": {"rows": 1}}}, "there is no kernel 'nothing'; the kernels are matmul_0"),
        ("matmul", {"*": {"matmul": {"rows": 1.5}}}, "matmul.rows is 1.5, neither"),
        ("matmul", {"*": {"matmul": 3}}, "'matmul' has no choices by name"),
        ("matmul", {"*": {"foo": {"rows": 1}}}, "schedule of '*': no kernel has a part 'foo'"),
        ("matmul", {"*": 3}, "expected parts with their choices"),
        ("matmul", "no/such/file.json", "no/such/file.json"),
        ("conv", {"*": {"conv": {"algorithm": "winograd"}}}, "algorithm of conv cannot be 'winograd' here"),
        ("attention", {"*": {"attention": {"key_block": 64}}}, "it decides the order of additions"),
        ("columns", {"*": {"loops": {"accumulators": 8}}}, "it decides the order of additions"),
        ("row chain", {"*": {"loops": {"most_lanes": 1}}}, "most_lanes of loops cannot be 1 here"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(model: Maker, name: str, schedule: Any, message: str) -> None:
    with pytest.raises(sx.InputError, match=message.replace("(", r"\(").replace(".", r"\.").replace("*", r"\*")):
        sx.compile(model(MODELS[name]), cache=False, schedule=schedule)


def test_a_kernel_without_the_part_is_not_meant_by_every(model: Maker) -> None:
    text = "g (float[8, 8] a, float[8, 8] b) => (float[8, 8] y) { t = Softmax(a) y = MatMul(t, b) }"
    program = sx.compile(model(text), cache=False, schedule={"*": {"matmul": {"rows": 2}}})
    parts = [set(f["schedule"]) for f in program.explain().to_dict()["functions"].values()]
    assert parts == [{"loops"}, {"matmul"}]


def test_choices_are_part_of_both_keys(model: Maker) -> None:
    """Neither a program nor an object that was made with other choices is found in the caches."""
    proto = model(MODELS["matmul"])
    for rows in (None, 5, 6, None):
        schedule = None if rows is None else {"*": {"matmul": {"rows": rows}}}
        program = sx.compile(proto, schedule=schedule)
        [function] = program.explain().to_dict()["functions"].values()
        assert function["schedule"]["matmul"]["rows"] == (rows or 11)
    assert program_key(Options(), None) != program_key(Options(schedule="{}"), None)


def test_the_text_of_a_kernel_has_the_choices_of_its_program(model: Maker) -> None:
    program = sx.compile(model(MODELS["matmul"]), cache=False, schedule={"*": {"matmul": {"rows": 5}}})
    assert "rows = 5 : i64" in program.kernels["matmul_0"].ir("loops")
    assert "rows = 11 : i64" in str(sx.lower(model(MODELS["matmul"]), to="loops"))


@pytest.mark.parametrize("kind", [AttentionPlan, Choices, ColumnTile, ConvPlan, LoopsChoices, Plan, WinogradPlan])
def test_what_is_fixed_is_a_field(kind: type[Choices]) -> None:
    names = {f.name for f in fields(kind)}
    assert kind.FIXED.keys() < names
    assert set(kind.free()) == names - kind.FIXED.keys()
