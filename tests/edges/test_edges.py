"""Operators on the values and shapes at their edges, and random networks, against ONNX's reference and onnxruntime.

Both are asked, and a result has to be that of one of them: where they differ, the cases leave out what the standard
leaves open, and a comment says so.  Every case runs natively, in turn with known sizes and with symbols.
"""

from __future__ import annotations

import importlib
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from old_broadcasting import spreads
from onnx.reference import ReferenceEvaluator

import sardonyx as sx

from .arithmetic import model_of_sizes
from .case import OPSET, Case, by_onnxruntime, by_reference, difference
from .networks import network
from .values import F32, Array

FAMILIES = ("pointwise", "reductions", "movement", "windows")
SHARDS = 20
SAMPLE = 400
"""Each so manieth case is also run by the fast suite."""


@cache
def cases(family: str) -> list[Case]:
    module = importlib.import_module(f".{family}", __package__)
    return list(module.cases(np.random.default_rng(zlib.crc32(family.encode()))))


def disagreement(case: Case, forms: Sequence[bool] = (False, True)) -> str | None:
    """What is wrong with the results of a case; None where nothing is. Its sizes are symbols in the forms of True."""
    found = [r for r in (by_reference(case), by_onnxruntime(case)) if not isinstance(r, Exception)]
    for dynamic in forms:
        program = sx.compile(case.model(dynamic))
        if hosted := program.explain().to_dict()["hosted"]:
            return f"hosted: {hosted}"
        outputs = program(case.feeds())
        got = [outputs[name] for name in case.outputs()]
        differences = [difference(case, got, want) for want in found]
        if differences and all(differences):
            return f"{'symbols' if dynamic else 'sizes'}: {differences[0]}"
    return None


@cache
def versions() -> dict[str, list[onnx.defs.OpSchema]]:
    """Each operator's schemas, oldest first."""
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if not schema.domain and schema.since_version <= OPSET:
            found.setdefault(schema.name, []).append(schema)
    return found


def older(case: Case) -> Iterator[Case]:
    """The case at the opset before each later version of its operator, where it is valid there.

    The reference evaluator is asked alone only where onnxruntime gives the same for the newest version.
    """
    newest = versions()[case.op][-1].attributes
    for schema, later in pairwise(versions()[case.op]):
        kinds = {name: a.type for name, a in schema.attributes.items()}
        if any(kinds.get(name) != newest[name].type for name in case.attributes):
            continue
        found = replace(case, opset=later.since_version - 1)
        shapes = [np.shape(x) for x in case.operands if x is not None]
        if not case.domain and spreads(case.op, found.opset, shapes, case.attributes):
            continue
        model = found.model()
        try:
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except onnx.shape_inference.InferenceError:  # other operands or types than it has now
            continue
        reference, other = by_reference(found), by_onnxruntime(found)
        if not isinstance(other, Exception) or (not isinstance(reference, Exception) and both_agree(case)):
            yield found


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 0)], ids=str)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_old_softmax_of_nothing(op: str, shape: tuple[int, ...]) -> None:
    for opset in (10, 12):
        for axis in range(len(shape)):
            assert disagreement(Case(op, (np.zeros(shape, F32),), {"axis": axis}, opset=opset)) is None


def both_agree(case: Case) -> bool:
    reference, other = by_reference(case), by_onnxruntime(case)
    if isinstance(reference, Exception) or isinstance(other, Exception):
        return isinstance(other, Exception)
    return difference(case, reference, other) is None


def wrong(chosen: Sequence[Case]) -> dict[str, str]:
    """What is wrong with each case; one has known sizes, the next symbols."""
    return {str(case): text for i, case in enumerate(chosen) if (text := disagreement(case, [i % 2 == 1]))}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_cases(family: str) -> None:
    assert not {str(case): text for case in cases(family)[::SAMPLE] if (text := disagreement(case))}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("family", FAMILIES)
def test_cases(family: str, shard: int) -> None:
    assert not wrong(cases(family)[shard::SHARDS])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("family", FAMILIES)
def test_older_versions(family: str, shard: int) -> None:
    chosen = cases(family)[shard :: 4 * SHARDS]
    assert not wrong([old for case in chosen for old in older(case)])


def network_differs(seed: int, dtype: np.dtype) -> str | None:
    """What is wrong with a random network's results; None where nothing is, or nobody else computes it."""
    model, feeds = network(seed, dtype)
    got = sx.compile(model).run(None, feeds)
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def reference() -> list[Array]:
        return ReferenceEvaluator(model).run(None, feeds)

    def onnxruntime() -> list[Array]:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    differences: list[str | None] = []
    for run in (reference, onnxruntime):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                want = run()
        except Exception:  # what a peer cannot run, it refuses in ways without a common class
            continue
        differences.append(next((text for g, w in zip(got, want) if (text := far(g, w))), None))
    return differences[0] if differences and all(differences) else None


def far(got: Array, want: Array) -> str | None:
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    tolerance = 2e-4
    if np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"off by {np.nanmax(np.abs(got - want))}"


@pytest.mark.parametrize("seed", [1, 2])
def test_two_networks(seed: int) -> None:
    assert network_differs(seed, F32) is None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_networks(shard: int) -> None:
    seeds = range(shard, 300, SHARDS)
    found = {seed: network_differs(seed, F32) for seed in seeds}
    assert not {seed: text for seed, text in found.items() if text}


REFUSED = ("would copy a size", "in the shape of Reshape", "in a shape", "of Split", "k of TopK")
"""What may be refused though the reference runs: a 0 in the shape of Reshape that would not be the size that was
computed, and what it does not check: sizes below -1 there, those of Split, and a k below 0."""


def may_be_refused(error: Exception) -> bool:
    return any(text in str(error) for text in REFUSED)


def sizes_differ(seed: int) -> str | None:
    """What is wrong with a model of computed sizes at one of its bindings; None where nothing is."""
    model, bindings = model_of_sizes(seed)
    if not model.graph.output:
        return None
    reference = ReferenceEvaluator(model)

    def run(feeds: dict[str, Array]) -> list[Array] | Exception:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return [np.asarray(v) for v in reference.run(None, feeds)]
            except Exception as error:  # numpy code without checks of its own: it fails in any way
                return error

    wanted = [run(feeds) for feeds in bindings]
    full = [w for w, feeds in zip(wanted, bindings) if all(x.size for x in feeds.values())]
    try:
        program = sx.compile(model, threads=1)
    except sx.ModelError as error:  # no sizes fit, but perhaps some of 0
        runs = any(not isinstance(w, Exception) for w in full)
        return f"refused as a whole: {error}" if runs and not may_be_refused(error) else None
    for feeds, want in zip(bindings, wanted):
        shapes = {name: x.shape for name, x in feeds.items()}
        try:
            got = list(program(feeds).values())
        except sx.InputError as error:
            if not isinstance(want, Exception) and not may_be_refused(error):
                return f"{shapes}: {error}"
            continue
        if isinstance(want, Exception):
            continue  # numpy has no reshape to -1 beside a 0, and no pad below 0
        for g, w in zip(got, want):
            if text := far(g, w):
                return f"{shapes}: {text}"
    return None


@pytest.mark.parametrize("seed", [3, 8])
def test_two_models_of_computed_sizes(seed: int) -> None:
    assert sizes_differ(seed) is None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_computed_sizes(shard: int) -> None:
    found = {seed: sizes_differ(seed) for seed in range(shard, 400, SHARDS)}
    assert not {seed: text for seed, text in found.items() if text}
