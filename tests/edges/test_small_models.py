"""Small models that were wrong or refused once, each with known and with symbolic sizes, and what the standard says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import sardonyx as sx

from .case import Case, by_reference
from .values import Array


def outputs_of(case: Case, dynamic: bool) -> list[Array]:
    return sx.compile(case.model(dynamic)).run(None, case.feeds())


WORDS = np.array(["a", "Zz"], object)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("words", [WORDS, WORDS[:1].reshape(()), WORDS.reshape(2, 1)], ids=["list", "scalar", "column"])
def test_an_initializer_of_strings_is_read_where_nothing_folds_it(words: Array, dynamic: bool) -> None:
    for case in (
        Case("StringConcat", (WORDS, words), constants=[1]),
        Case("Equal", (words, WORDS), constants=[0]),
        Case("Identity", (words,), constants=[0]),
        Case("Where", (np.array([True, False]), words, WORDS), constants=[1]),
    ):
        (got,) = outputs_of(case, dynamic)
        want = by_reference(case)
        assert not isinstance(want, Exception)
        assert got.shape == want[0].shape and got.tolist() == want[0].tolist()


def test_an_initializer_of_strings_is_an_output_and_survives_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path))
    tensor = helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"a", b"Zz"])
    info = helper.make_tensor_value_info("words", onnx.TensorProto.STRING, [2])
    model = helper.make_model(helper.make_graph([], "g", [], [info], [tensor]), ir_version=10)
    for _ in range(2):
        assert sx.compile(model)()["words"].tolist() == ["a", "Zz"]


@pytest.mark.parametrize("dynamic", [False, True])
def test_columns_of_truths_make_a_true_place_where_any_is_true(dynamic: bool) -> None:
    columns = np.array([[[True, True], [True, False]]])
    case = Case("Col2Im", (columns, np.array([3]), np.array([2])), {"dilations": [1]}, constants=[1, 2])
    (got,) = outputs_of(case, dynamic)
    assert got.tolist() == [[[True, True, False]]]


def test_the_length_of_the_block_tells_the_rank_of_an_image() -> None:
    """Only the sizes of the image are known; those of the block are data."""
    case = Case("Col2Im", (np.ones((1, 2, 2), np.float32), np.array([3]), np.array([2])), constants=[1])
    model = case.model(dynamic=True)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "length"
    assert sx.compile(model)(case.feeds())["y0"].tolist() == [[[1.0, 2.0, 1.0]]]


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [None, [2, 1]])
def test_sizes_of_resize_are_data_and_how_many_they_are_too(axes: list[int] | None, policy: str) -> None:
    x = np.arange(72, dtype=np.float32).reshape(2, 6, 6)
    sizes = np.array([8, 3] if axes else [3, 8, 3])
    attributes = {"mode": "nearest", "keep_aspect_ratio_policy": policy, **({"axes": axes} if axes else {})}
    case = Case("Resize", (x, None, None, sizes), attributes)
    model = case.model(dynamic=True)
    want = by_reference(case)
    assert not isinstance(want, Exception)
    for length in (sizes.size, "length"):
        dim = model.graph.input[1].type.tensor_type.shape.dim[0]
        dim.Clear()
        if isinstance(length, str):
            dim.dim_param = length
        else:
            dim.dim_value = length
        (got,) = sx.compile(model).run(None, case.feeds())
        assert got.shape == want[0].shape and np.array_equal(got, want[0])


def test_sizes_of_resize_that_only_the_run_tells() -> None:
    """The sizes go through `GatherElements` by indices that the run finds."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[A, B] x, float[C] keys, int64[C] given) => (float[P, Q] y) <int64[1] two = {2}>
        {
            v, at = TopK<axis = 0>(keys, two)
            sizes = GatherElements(given, at)
            y = Resize<mode = "nearest">(x, , , sizes)
        }"""
    program = sx.compile(onnx.parser.parse_model(text))
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    got = program(x=x, keys=np.array([1, 2], np.float32), given=np.array([2, 4]))["y"]
    assert got.tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]


@pytest.mark.parametrize("fuse", [False, True])
def test_a_result_in_the_middle_is_left_out(fuse: bool) -> None:
    x, ones = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
    statistics = (np.zeros(3, np.float32), np.ones(3, np.float32))
    for case in (
        Case("LayerNormalization", (x, ones), results=3),
        Case("BatchNormalization", (x, ones, ones, *statistics), {"training_mode": 1}, results=3),
    ):
        every = sx.compile(case.model()).run(None, case.feeds())
        model = case.model()
        model.graph.node[0].output[1] = ""
        del model.graph.output[1]
        got = sx.compile(model, fuse=fuse).run(None, case.feeds())
        assert [a.tobytes() for a in got] == [every[0].tobytes(), every[2].tobytes()]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.uint8])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Neg", "Abs"])
def test_integers_of_constants_wrap(op: str, dtype: type[np.generic]) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = np.array([least, most, most], dtype), np.array([-1 if least else 1, most, 4], dtype)
    if op == "Sub":
        a, b = b, a
    if op == "Neg" and not least:
        return  # not of unsigned integers
    operands = (a,) if op in ("Neg", "Abs") else (a, b)
    (got,) = outputs_of(Case(op, operands, constants=range(len(operands))), False)
    with np.errstate(all="ignore"):
        function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Abs": np.abs}.get(op)
        want = a // b if function is None else function(*operands)
    assert got.tolist() == want.tolist()


def test_a_part_is_taken_where_its_position_is_computed() -> None:
    """The position comes behind the sequence: in the body that maps it, and in the same block."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[A, 2] x, int64 i) => (float[P, 2] y, float[1, 2] z)
        <int64 one = {1}>
        {
            parts = SplitToSequence(x, one)
            j = Add(i, one)
            z = SequenceAt(parts, j)
            again = SplitToSequence(x, one)
            mapped = SequenceMap<body = b (float[p, q] e) => (float[p, q] r) { r = Neg(e) }>(again)
            y = ConcatFromSequence<axis = 0>(mapped)
        }"""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = sx.compile(onnx.parser.parse_model(text))(x=x, i=np.array(0))
    assert np.array_equal(got["y"], -x) and np.array_equal(got["z"], x[1:2])


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_a_symmetric_window_of_one_place_is_no_number(op: str) -> None:
    for constants in ([], [0]):
        (got,) = outputs_of(Case(op, (np.array(1),), {"periodic": 0}, constants=constants), False)
        assert got.shape == (1,) and np.isnan(got[0])


def test_no_gram_has_the_weight_zero_also_where_weights_are_below() -> None:
    attributes = {"mode": "IDF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
    pool = {"ngram_indexes": [0, 1], "pool_int64s": [5, 6], "weights": [-2.0, -3.0]}
    (got,) = outputs_of(Case("TfIdfVectorizer", (np.array([5, 5]),), {**attributes, **pool}), False)
    assert got.tolist() == [-2, 0] and not np.signbit(got[1])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_all_axes_are_data(keepdims: int) -> None:
    """As many as there are: it does not matter which comes where."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4, 1)
    case = Case("ReduceSum", (x, np.array([2, -4, 3, 1])), {"keepdims": keepdims})
    model = case.model(dynamic=True)
    for length in (4, None):
        if length is None:
            model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "length"
        (got,) = sx.compile(model).run(None, case.feeds())
        assert got.tolist() == x.sum(keepdims=bool(keepdims)).tolist()


@pytest.mark.parametrize("constants", [[], [0, 1, 2], [1, 2]])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 0.0), (-0.0, 0.0)])
def test_a_zero_inside_of_bounds_of_zero_keeps_its_sign(bounds: tuple[float, float], constants: list[int]) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        low, high = (np.array(b, dtype) for b in bounds)
        (got,) = outputs_of(Case("Clip", (np.array([0.0, -0.0], dtype), low, high), constants=constants), False)
        assert np.signbit(got).tolist() == [False, True]


@pytest.mark.parametrize("constants", [[], [0]])
def test_what_is_no_number_is_resized_where_it_is(constants: list[int]) -> None:
    x = np.array([np.nan, 1, 2, 4, np.inf], np.float32)
    (got,) = outputs_of(
        Case("Resize", (x, None, np.array([2], np.float32)), {"mode": "linear"}, constants=constants), False
    )
    assert np.array_equal(got[3:7], np.array([1.25, 1.75, 2.5, 3.5], np.float32)) and np.isnan(got[:2]).all()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("constants", [[], [0]])
def test_a_softmax_of_one_score_is_of_it_and_its_negative(constants: list[int], dynamic: bool) -> None:
    scores = np.array([[-2.5], [0.5], [1.5]], np.float32)
    attributes = {"coefficients": [1.0], "intercepts": [0.0], "classlabels_ints": [5, -1], "post_transform": "SOFTMAX"}
    case = Case("LinearClassifier", (scores,), attributes, 2, constants, "ai.onnx.ml", 1)
    labels, table = outputs_of(case, dynamic)
    second = 1 / (1 + np.exp(-2 * scores[:, 0]))
    assert labels.tolist() == [5, -1, -1] and np.allclose(table, np.stack([1 - second, second], 1), atol=1e-6)
