"""The tuner: measured variants with the same bits, kept by kernel and machine, taken by later compilations."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from sardonyx.lowering.choices import Choices, Given
from sardonyx.lowering.kernels import matmul_plan
from sardonyx.lowering.variants import ROUNDS, variants
from sardonyx.runtime.tuned import forget_tuned, load_tuned, store_tuned

import sardonyx as sx
from sardonyx.cli import cli
from sardonyx.compiler import host_target
from sardonyx.measure import MeasureJob, MeasureJobs, Timing
from sardonyx.options import tuned_file
from sardonyx.tuner import render_tuning, tune
from sardonyx.workers import Executor, InProcess, Processes, WorkerDied

Maker = Callable[..., onnx.ModelProto]
PRODUCT = "g (float[N, 900] a, float[900, 40] b) => (float[N, 40] y) { y = MatMul(a, b) }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "cache"))
    for name, value in {"tuner.FIRST_SECONDS": 0, "tuner.ROUND_SECONDS": 0, "measure.SAMPLE_SECONDS": 0}.items():
        monkeypatch.setattr(f"sardonyx.{name}", value)


class Recorder(Executor):
    """Runs jobs here and keeps them; a job's timings may be changed."""

    def __init__(self, change: Callable[[Timing], Timing] = lambda t: t) -> None:
        self.jobs: list[MeasureJob] = []
        self.change = change

    def submit(self, job: Any) -> Future[Any]:
        several = isinstance(job, MeasureJobs)
        self.jobs += job.jobs if several else [job]
        future: Future[Any] = Future()
        future.set_result(job.run() if several else [self.change(t) for t in job.run()])
        return future


def faster(timing: Timing) -> Timing:
    """One variant wins by far."""
    if timing.seconds is None:
        return timing
    won = timing.given == {"matmul": {"rows": 13, "vectors": 2}}
    return Timing(timing.given, 1e-9 if won else 1e-3, timing.choices, timing.same_bits, timing.error)


def test_the_winner_is_kept_and_later_compilations_take_it(model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model(PRODUCT)
    a, b = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((20, 900), (900, 40)))
    plain = sx.compile(proto)
    before = plain.explain().to_dict()["functions"]["matmul_0"]["schedule"]["matmul"]
    assert (before["rows"], before["vectors"]) != (13, 2)
    recorder = Recorder(faster)
    found: list[Given] = [{"rows": 13, "vectors": 2}, {"rows": 99}, {"rows": 6}]
    monkeypatch.setattr("sardonyx.tuner.variants", lambda part, chosen, target, turn: found[: 3 - 2 * turn])
    report = tune(proto, budget=60, sizes=["N=20"], workers=recorder)
    [row] = report["kernels"]
    assert row["schedule"] == {"matmul": {"rows": 13, "vectors": 2}} and row["gain"] > 100 and row["dims"] == (20,)
    assert not row["rejected"] and (row["tried"], row["refused"], row["share"]) == (3, 1, 1.0)
    assert len(recorder.jobs) == 4  # the default, two rounds, and once more
    tuned = sx.compile(proto)
    after = tuned.explain().to_dict()["functions"]["matmul_0"]["schedule"]["matmul"]
    assert (after["rows"], after["vectors"]) == (13, 2)
    assert tuned(a, b)["y"].tobytes() == plain(a, b)["y"].tobytes()
    off = sx.compile(proto, tuned=False).explain().to_dict()["functions"]["matmul_0"]["schedule"]["matmul"]
    assert off == before
    given = sx.compile(proto, schedule={"matmul_0": {"matmul": {"rows": 3}}}).explain().to_dict()["functions"]
    assert given["matmul_0"]["schedule"]["matmul"]["rows"] == 3
    assert forget_tuned(tuned_file(None)) == 1
    assert sx.compile(proto).explain().to_dict()["functions"]["matmul_0"]["schedule"]["matmul"] == before


def test_what_was_found_for_constants_or_exact_is_not_taken_elsewhere(model: Maker) -> None:
    """With a weight the choice may be for another algorithm."""
    text = "g (float[1, 32, 28, 28] x, float[32, 32, 3, 3] w) => (float[1, 32, 26, 26] y) { y = Conv(x, w) }"
    proto, constant = model(text), model(text)
    constant.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((32, 32, 3, 3), np.float32), "w"))
    del constant.graph.input[1]
    report = tune(constant, budget=0, keep=False)
    key = report["kernels"][0]["key"]
    path = tuned_file(None)
    assert path is not None
    store_tuned(path, "cpu", {key: {"schedule": {"conv": {"rows": 3, "vectors": 2}}}})

    def conv(program: sx.Program) -> dict[str, Any]:
        [function] = program.explain().to_dict()["functions"].values()
        return function["schedule"]["conv"]

    found = conv(sx.compile(constant))
    assert (found["algorithm"], found["rows"], found["vectors"]) == ("winograd", 3, 2)
    assert conv(sx.compile(proto)) == conv(sx.compile(proto, tuned=False))
    assert conv(sx.compile(constant, exact=True)) == conv(sx.compile(constant, exact=True, tuned=False))


def job_of(proto: onnx.ModelProto, *schedules: Any, sizes: tuple[str, ...] = ()) -> MeasureJob:
    """The model's one kernel under these schedules, as the tuner would measure it."""
    recorder = Recorder()
    tune(proto, budget=0, sizes=sizes, workers=recorder, keep=False)
    [job] = recorder.jobs
    return MeasureJob(job.text, job.dims, job.constants, ({}, *schedules), job.target, 1, seconds=0.01)


def test_other_bits_are_found_and_the_report_says_so(model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(model(PRODUCT), {"matmul": {"rows": 3}}, sizes=("N=20",))
    usual = matmul_plan.choose

    def other(*arguments: Any, **named: Any) -> Any:
        plan = usual(*arguments, **named)
        if plan.rows == 3:  # what no choice may do
            object.__setattr__(plan, "depth_block", 64)
        return plan

    monkeypatch.setattr("sardonyx.lowering.kernels.matmul.choose", other)
    default, variant = job.run()
    assert default.same_bits and default.seconds
    assert not variant.same_bits and variant.seconds is None


def test_a_variant_with_other_bits_is_rejected_and_reported(model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Given] = [{"rows": 13}]
    monkeypatch.setattr("sardonyx.tuner.variants", lambda part, chosen, target, turn: found if turn == 0 else [])
    report = tune(model(PRODUCT), budget=30, sizes=["N=20"], keep=False, workers=Recorder(wrong))
    [row] = report["kernels"]
    assert row["schedule"] == {} and row["rejected"] == [{"schedule": {"matmul": {"rows": 13}}}]
    assert "REJECTED, other bits" in render_tuning(report)


def wrong(timing: Timing) -> Timing:
    """As if every variant gave other bits."""
    return Timing(timing.given, None, timing.choices, False) if timing.given else timing


def test_a_variant_that_cannot_be_is_no_failure(model: Maker) -> None:
    default, refused = job_of(model(PRODUCT), {"matmul": {"rows": 99}}, sizes=("N=20",)).run()
    assert default.seconds and not default.error
    assert refused.seconds is None and refused.same_bits and "rows of matmul cannot be 99" in refused.error


@pytest.mark.parametrize(
    "text",
    [
        "g (float[1, 5] x, int64[4] i) => (float[4, 5] y) { y = Gather(x, i) }",
        "g (int32[N, 4] x, int32[N, 4] z) => (int32[N, 4] y) { y = Sub(x, z) }",
        "g (bool[2, 2] c, float16[2, 2] x) => (float16[2, 2] y) { y = Where(c, x, x) }",
        "g (uint8[2, 8] a, int8[8, 3] b) => (int32[2, 3] y) { y = MatMulInteger(a, b) }",
    ],
)
def test_operands_that_kernels_take(model: Maker, text: str) -> None:
    [timing] = job_of(model(text)).run()
    assert timing.seconds


def test_a_kernel_is_measured_in_a_process(model: Maker) -> None:
    with Processes(timeout=60) as workers:
        report = tune(model(PRODUCT), budget=0, sizes=["N=4"], workers=workers, keep=False)
    assert report["kernels"][0]["default"] > 0 and report["file"] is None


def test_a_kernel_that_fails_has_its_reason_in_the_report(model: Maker) -> None:
    class Failing(InProcess):
        def submit(self, job: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result([sx.UnsupportedError("no such machine")])
            return future

    report = tune(model(PRODUCT), budget=5, sizes=["N=4"], workers=Failing(), keep=False)
    [row] = report["kernels"]
    assert row["default"] is None and row["error"] == "no such machine"
    assert "not measured: no such machine" in render_tuning(report)


def test_a_crash_of_one_kernel_leaves_the_others(model: Maker) -> None:
    class Crashing(InProcess):
        """Dies whenever the product is among the kernels."""

        def submit(self, job: Any) -> Future[Any]:
            if any("onnx.MatMul" in one.text for one in job.jobs):
                future: Future[Any] = Future()
                future.set_exception(WorkerDied("a worker died: SIGSEGV"))
                return future
            return super().submit(job)

    text = "g (float[4, 8] a, float[8, 8] b) => (float[4, 8] y) { t = Softmax(a) y = MatMul(t, b) }"
    report = tune(model(text), budget=0, workers=Crashing(), keep=False)
    rows = {row["name"]: row for row in report["kernels"]}
    assert rows["softmax_0"]["default"] and not rows["softmax_0"]["error"]
    assert rows["matmul_0"]["default"] is None and rows["matmul_0"]["error"] == "a worker died: SIGSEGV"


def test_the_command(model: Maker, tmp_path: Path) -> None:
    model_file = tmp_path / "model.onnx"
    text = "g (float[N, 8] a, float[8, 8] b) => (float[N, 8] y) { t = Softmax(a) y = MatMul(t, b) }"
    onnx.save(model(text), model_file)
    found = CliRunner().invoke(cli, ["tune", str(model_file), "--budget", "1", "--workers", "here", "--json"])
    report = json.loads(found.stdout)
    names = {row["name"] for row in report["kernels"]}
    assert names == set(sx.compile(model_file).explain().to_dict()["functions"]) and len(names) == 2
    assert abs(sum(row["share"] for row in report["kernels"]) - 1) < 1e-6


def test_a_damaged_file_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    store_tuned(path, "cpu", {"a": {"schedule": {}}})
    store_tuned(path, "cpu", {"b": {"schedule": {}}})
    assert set(load_tuned(path)) == {"a", "b"}
    path.write_text("{")
    assert load_tuned(path) == {}


@pytest.mark.parametrize("template", [*ROUNDS, "topk"])
def test_variants_differ_from_what_was_chosen(template: str) -> None:
    chosen: Given = {"rows": 14, "vectors": 2, "panels": 1, "row_block": 140, "steps_ahead": 8, "grain_cycles": 15000,
                     "algorithm": "direct", "vectors_over": "positions", "outer": "positions", "column_tile": 1024,
                     "block_stretch": 512, "straight_cycles": 160, "most_lanes": 64}  # fmt: skip
    for turn in range(2):
        found = variants(template, chosen, host_target(), turn)
        assert len(found) <= 6
        assert all(any(chosen.get(n) != v for n, v in given.items()) for given in found)
    assert variants(template, chosen, host_target(), 1)
    assert Choices.free() == ["grain_cycles"]
