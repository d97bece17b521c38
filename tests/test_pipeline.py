"""The pipeline's table: its order, its legality, and the file that a failing step leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper
from sardonyx.rewrites.driver import origins_of

import sardonyx as sx
from sardonyx import pipeline
from sardonyx.compiler import state_of


def model() -> bytes:
    """Softmax(Relu(x W + b)) with a symbolic batch."""
    value = helper.make_tensor_value_info
    weight = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [0.25 * (i % 7) - 0.5 for i in range(32)])
    bias = helper.make_tensor("b", TensorProto.FLOAT, [4], [0.1, -0.2, 0.3, 0.0])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Add", ["m", "b"], ["a"], name="bias"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "slice",
        [value("x", TensorProto.FLOAT, ["N", 8])],
        [value("y", TensorProto.FLOAT, None)],
        [weight, bias],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


def test_steps_stand_in_the_order_that_they_need() -> None:
    names = [name for stage in pipeline.PIPELINE for name, _ in stage.steps]
    assert len(names) == len(set(names))
    for earlier, later, why in pipeline.ORDER:
        assert names.index(earlier) < names.index(later), why


def test_every_level_is_reached_and_legal() -> None:
    for level in pipeline.LEVELS:
        module = sx.lower(model(), to=level)
        module.verify()
        stage = next(s for s in pipeline.PIPELINE if s.level == level)
        assert {op.name.split(".")[0] for op in module.walk()} <= stage.leaves


def test_an_op_that_is_left_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = tuple(
        pipeline.Stage(s.level, s.steps, s.leaves - {"onnx"} if s.level == "graph" else s.leaves)
        for s in pipeline.PIPELINE
    )
    monkeypatch.setattr(pipeline, "PIPELINE", narrow)
    with pytest.raises(sx.CompilerBug, match=r"onnx\.\w+ is left over after level 'graph'"):
        sx.lower(model(), to="graph")


def test_a_step_that_raises_leaves_a_file_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(state: pipeline.State) -> None:
        raise ZeroDivisionError("as asked")

    stages = tuple(
        pipeline.Stage(s.level, (*s.steps, ("broken", broken)), s.leaves) if s.level == "kernels" else s
        for s in pipeline.PIPELINE
    )
    monkeypatch.setattr(pipeline, "PIPELINE", stages)
    with pytest.raises(sx.CompilerBug, match=r"step 'broken' failed with ZeroDivisionError: as asked") as caught:
        list(pipeline.run(state_of(model()), to="kernels"))
    assert caught.value.reproducer is not None
    text = Path(caught.value.reproducer).read_text()
    assert text.startswith("// RUN: xdsl-opt %s") and "kernel.call" in text
    assert f"file: {caught.value.reproducer}" in str(caught.value)
    with pytest.raises(sx.CompilerBug) as again:
        list(pipeline.run(state_of(model()), to="kernels"))
    assert again.value.reproducer not in (None, caught.value.reproducer)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(sx.CompilerBug, match=r"step 'broken' failed with ZeroDivisionError: as asked$") as unwritten:
        list(pipeline.run(state_of(model()), to="kernels"))
    assert unwritten.value.reproducer is None


def test_the_runner_tells_each_step_and_its_time() -> None:
    done = list(pipeline.run(state_of(model()), to="schedule"))
    assert [d.step for d in done] == [n for s in pipeline.PIPELINE[:5] for n, _ in s.steps]
    assert all(d.seconds >= 0 for d in done)


@pytest.mark.parametrize("level", pipeline.LEVELS)
def test_every_op_says_where_it_comes_from(level: str) -> None:
    module = sx.lower(model(), to=level)
    for op in module.walk():
        if op is not module:
            assert origins_of(op), f"{op.name} has no origin"
