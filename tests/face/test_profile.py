"""`sardonyx profile`: the parts add up to the whole, costs are the operators' own, and fusion stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from click.testing import CliRunner
from sardonyx.tools.machine import Machine
from sardonyx.tools.profile import evaluated, profile_program

from sardonyx.cli import cli
from sardonyx.options import Options
from sardonyx.program import Program, compile_with

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N, 256] x) => (float[N, 512] y)
{
    h = MatMul (x, v)
    r = Relu (h)
    y = Softmax (r)
}
"""
MACHINE = Machine(1, 1e11, 2e11, 1e11, 5e10, 2e10)


def model() -> onnx.ModelProto:
    made = onnx.parser.parse_model(MODEL)
    values = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(values, "v"))
    return made


@pytest.fixture(scope="module")
def timed() -> Program:
    return compile_with(model(), Options(timed=True), threads=1)


@pytest.fixture(scope="module")
def report(timed: Program) -> dict[str, Any]:
    feeds = {"x": np.random.default_rng(1).standard_normal((96, 256)).astype(np.float32)}
    return profile_program(timed, feeds, MACHINE, seconds=0.1)


def test_parts_add_up_to_the_whole(report: dict[str, Any]) -> None:
    parts = sum(step["seconds"] for step in report["steps"])
    assert parts + report["entry"] == pytest.approx(report["seconds"])
    assert 0 <= report["entry"] < 0.2 * report["seconds"]
    assert sum(step["share"] for step in report["steps"]) == pytest.approx(parts / report["seconds"])
    assert all(step["calls"] == 1 for step in report["steps"])


def test_operations_and_bytes_are_those_of_the_call(report: dict[str, Any]) -> None:
    assert sum(step["operations"] for step in report["steps"]) == 96 * 512 * (2 * 256 + 2)
    largest = max(report["steps"], key=lambda step: step["operations"])
    assert largest["bound"] in ("compute", "l2", "l3", "dram")
    assert largest["of_bound"] > 0
    assert largest["bytes"] >= 4 * (96 * 256 + 256 * 512 + 96 * 512)
    assert any("MatMul" in node for node in largest["nodes"])


def test_only_the_entry_is_another(timed: Program) -> None:
    plain = compile_with(model(), Options(), threads=1)
    x = np.random.default_rng(2).standard_normal((7, 256)).astype(np.float32)
    assert timed(x)["y"].tobytes() == plain(x)["y"].tobytes()
    explained = plain.explain().to_dict()
    assert "steps" not in explained
    names = [step["name"] for step in timed.explain().to_dict()["steps"]]
    assert names == [call["name"] for call in explained["kernels"]]


def test_trace_has_each_step_inside_of_the_call(report: dict[str, Any]) -> None:
    *steps, call = report["trace"]["traceEvents"]
    assert (call["name"], call["ts"]) == ("call", 0)
    ends = [event["ts"] + event["dur"] for event in steps]
    assert all(end <= event["ts"] for end, event in zip(ends, steps[1:]))
    assert steps[0]["ts"] >= 0 and ends[-1] <= call["dur"]


def test_loops_add_up_over_their_iterations() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[64] x, int64 n) => (float[64] y)
    {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[64] s) => (bool d, float[64] t)
            { d = Identity (c)  t = Exp (s) }>
    }
    """
    program = compile_with(onnx.parser.parse_model(text), Options(timed=True), threads=1)
    feeds = {"x": np.zeros(64, np.float32), "n": np.array(10)}
    report = profile_program(program, feeds, MACHINE, seconds=0.01)
    assert max(step["calls"] for step in report["steps"]) == 10
    assert sum(step["seconds"] for step in report["steps"]) <= report["seconds"]


def test_costs_that_only_a_run_tells_are_none() -> None:
    assert evaluated("4*N + u0", {"N": 3}) is None
    assert evaluated("4*N", {"N": 3}) == 12
    assert evaluated(None, {}) is None


def test_command(tmp_path: Path) -> None:
    path, trace = tmp_path / "m.onnx", tmp_path / "trace.json"
    onnx.save(model(), path)
    arguments = ["profile", str(path), "--size", "N=8", "--seconds", "0.01", "--threads", "1"]
    result = CliRunner().invoke(cli, [*arguments, "--json", "--chrome-trace", str(trace)], catch_exceptions=False)
    report = json.loads(result.output)
    assert result.exit_code == 0 and report["threads"] == 1 and report["machine"]["operations"] > 1e9
    assert len(json.loads(trace.read_text())["traceEvents"]) == len(report["steps"]) + 1
    text = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
    assert "the entry itself" in text and report["steps"][0]["name"] in text


def test_draws_of_a_timed_program(tmp_path: Path) -> None:
    """What unseeded draws count with is not where an entry notes its times."""
    path = tmp_path / "m.onnx"
    text = "g (float[8, 8] x) => (float[8, 8] y) { r = RandomNormalLike(x) y = MatMul(r, x) }"
    graph = onnx.parser.parse_graph(text)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10), path)
    result = CliRunner().invoke(cli, ["profile", str(path), "--seconds", "0.01", "--json"], catch_exceptions=False)
    assert json.loads(result.output)["steps"][0]["calls"] == 1
