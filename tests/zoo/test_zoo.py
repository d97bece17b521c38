"""Real models, as their packages ship them: right, the same bits however they are run, and within the planned arena.

`make zoo` fetches them.  What is not here is skipped, by name; with SARDONYX_ZOO_REQUIRED it is an error.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arena import ALIGNMENT, bindings, planned, symbols_of, touched
from fetch import catalog, is_here, path_of, zoo_folder
from sardonyx.tools.explain import explain

import sardonyx as sx

Entry = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
REQUIRED = bool(os.environ.get("SARDONYX_ZOO_REQUIRED"))
ENTRIES = {entry["id"]: entry for entry in catalog()}
CONTROL = ("If", "Loop", "Scan")


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests of a session share one cache, which no other run has filled."""
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path_factory.getbasetemp() / "sardonyx-cache"))


def model_of(name: str) -> tuple[Path, Entry]:
    entry = ENTRIES[name]
    if not is_here(entry):
        assert not REQUIRED, f"{name} is not in {zoo_folder()}: run make zoo"
        pytest.skip(f"{name} is not in {zoo_folder()}: run make zoo")
    return path_of(entry), entry


def feeds_of(entry: Entry) -> Arrays:
    """Random inputs of the sizes and ranges that the catalog has."""
    rng = np.random.default_rng(0)
    feeds: Arrays = {}
    for name, (dtype, shape, *limits) in entry["inputs"].items():
        low, high = limits or (0, 1)
        if dtype.startswith("float"):
            feeds[name] = rng.uniform(low, high, shape).astype(dtype)
        else:
            feeds[name] = rng.integers(low, high + 1, shape).astype(dtype)
    return feeds


def bits(value: Any) -> Any:
    array = np.ascontiguousarray(value)
    return value if array.dtype.hasobject else (array.dtype, array.shape, array.tobytes())


def assert_close(got: Any, want: Any, entry: Entry) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    elif "cosine" in entry:
        a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
        size = np.linalg.norm(b)
        assert a @ b >= entry["cosine"] * np.linalg.norm(a) * size and np.linalg.norm(a - b) <= 0.2 * size
    else:
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=entry["atol"])


def test_what_is_left_out_is_said() -> None:
    missing = [name for name, entry in ENTRIES.items() if not is_here(entry)]
    if missing:
        assert not REQUIRED, f"not in {zoo_folder()}: {', '.join(missing)}; run make zoo"
        warnings.warn(
            f"{len(missing)} of {len(ENTRIES)} real models are not tested, since they are not in {zoo_folder()} "
            f"(make zoo fetches them): {', '.join(missing)}",
            stacklevel=1,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_is_right_and_its_bits_are_always_the_same(name: str) -> None:
    import onnxruntime

    path, entry = model_of(name)
    feeds, assume = feeds_of(entry), entry.get("assume", ())
    program = sx.compile(path, threads=1, assume=assume)
    outputs = program(feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    for key, value in want.items():
        assert_close(outputs[key], value, entry)
    for options in ({"threads": 2}, {"threads": 1, "fuse": False}):
        other = sx.compile(path, assume=assume, **options)
        again = other(feeds)
        for key, value in outputs.items():
            assert bits(again[key]) == bits(value), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_touches_the_arena_that_is_planned(name: str) -> None:
    path, entry = model_of(name)
    feeds, assume = feeds_of(entry), entry.get("assume", ())
    program = sx.compile(path, threads=1, assume=assume)
    for given in bindings(program, feeds):
        sizes = symbols_of(program, given)
        peak = program.memory_analysis(**sizes).peak
        assert peak == planned(program, **sizes)
        used = touched(program, given)
        assert used <= peak, sizes
        if not any(op in CONTROL for op in operators(path)):
            assert used > peak - ALIGNMENT, sizes


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_a_fact_that_a_pair_lacks_makes_it_fuse(name: str) -> None:
    path, entry = model_of(name)
    given = tuple(entry.get("assume", ()))
    before = explain(sx.lower(path, to="kernels", assume=given))
    for fact in dict.fromkeys(p["missing"] for p in before["pairs"] if "missing" in p):
        after = explain(sx.lower(path, to="kernels", assume=(*given, fact)))
        assert len(after["kernels"]) < len(before["kernels"])
        apart = [ends(after, p) for p in after["pairs"]]
        for pair in before["pairs"]:
            if pair.get("missing") == fact:
                first, second = ends(before, pair)
                assert not any(first <= a and second <= b for a, b in apart), fact


def ends(report: Mapping[str, Any], pair: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """The model's nodes in the two kernels of a pair."""
    first, second = (set(report["kernels"][pair[end]]["nodes"]) for end in ("producer", "consumer"))
    return first, second


def operators(path: Path) -> set[str]:
    import onnx

    return {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
