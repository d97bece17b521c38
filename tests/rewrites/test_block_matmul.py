"""Products with packed weights of a few bits: machine code against numpy, with every operand and form."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnxruntime import InferenceSession
from sardonyx.dialects import onnx
from sardonyx.dialects.kernel import CallOp
from sardonyx.semantics.block_weights import pack_of_blocks, pack_words, unpack_of_blocks, unpack_words
from xdsl.dialects.builtin import TensorType

import sardonyx as sx

from .contrib_cases import Array, Case

RANDOM = np.random.default_rng(11)
FORMS = (None, "packed", "float")


def numbers_of(packed: Array, bits: int) -> Array:
    """Low bits first, along the last axis."""
    shifts = np.arange(0, 8, bits)
    return (packed[..., None] >> shifts & (1 << bits) - 1).reshape(*packed.shape[:-1], -1)


def node(
    a: Array, columns: int, bits: int, block: int, zeros: str | None, groups: Array | None = None, bias: bool = False,
    level: int = 0,
) -> tuple[Case, Array]:  # fmt: skip
    """A case with its exact product, of rows rounded to bytes where the level says so."""
    depth, dtype = a.shape[-1], a.dtype
    blocks = -(-depth // block)
    packed = RANDOM.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    scales = RANDOM.uniform(0.01, 0.02, (columns, blocks)).astype(dtype)
    given: Array | None = None
    zero: Any = np.full((columns, blocks), 1 << bits - 1)
    if zeros == "packed":
        given = RANDOM.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
        zero = numbers_of(given, bits)[:, :blocks]
    elif zeros == "float":
        given = RANDOM.uniform(0, 1 << bits, (columns, blocks)).astype(dtype)
        zero = given.astype(np.float64)
    added = RANDOM.standard_normal(columns).astype(dtype) if bias else None
    known = {"K": depth, "N": columns, "bits": bits, "block_size": block, "accuracy_level": level}
    inputs = [a, packed, scales, given, groups, added]
    case = Case("MatMulNBits", inputs, known, constant=frozenset({1, 2, 3, 4, 5}))
    numbers = numbers_of(packed.reshape(columns, -1), bits)[:, :depth]
    of_depth = np.arange(depth) // block if groups is None else groups
    weights = (numbers - zero[:, of_depth]) * scales.astype(np.float64)[:, of_depth]
    left = rounded(a.astype(np.float64), of_depth) if level == 4 else a.astype(np.float64)
    return case, left @ weights.T + (0 if added is None else added.astype(np.float64))


def rounded(a: Array, of_depth: Array) -> Array:
    """The numbers of each group as bytes times a scale."""
    found = np.zeros(a.shape)
    for group in np.unique(of_depth):
        at = of_depth == group
        greatest = np.abs(a[..., at]).max(-1, keepdims=True, initial=0)
        kind = np.float32 if greatest.min() > 1e-19 else np.float64  # as f32 rounds, where its range is enough
        inverse = kind(127) / np.maximum(greatest, 1e-300).astype(kind)
        found[..., at] = np.rint(a[..., at].astype(kind) * inverse) * (greatest / 127)
    return found


def check(case: Case, wanted: Array, bound: float = 3e-6) -> None:
    program = sx.compile(case.model())
    assert program.explain().to_dict()["hosted"] == []
    found = program(**case.feeds())["y"]
    assert found.dtype == case.feeds()["x0"].dtype and found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0) <= bound * np.abs(wanted).max(initial=1)


def rows(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("bits, zeros, level", list(product((2, 4, 8), FORMS, (0, 4))))
def test_forms(bits: int, zeros: str | None, level: int) -> None:
    """A depth that ends within a block and a word, columns that end within a panel, several rows or one."""
    for a, columns, block in ((rows(1, 75), 37, 16), (rows(2, 9, 500), 70, 64)):
        check(*node(a, columns, bits, block, zeros, bias=True, level=level))


@pytest.mark.parametrize("level", [0, 4])
def test_any_sizes(level: int) -> None:
    """The numbers of rows are known when the product runs: none, one, a few, many."""
    case, _ = node(rows(1, 1, 448), 33, 4, 32, "packed", level=level)
    program = sx.compile(replace(case, symbolic=True).model())
    for shape in ((0, 3), (1, 1), (1, 3), (3, 1), (2, 4), (5, 7)):
        a = rows(*shape, 448)
        graph = sx.lower(replace(case, inputs=[a, *case.inputs[1:]]).model(), to="graph")
        found, wanted = program(x0=a)["y"], sx.run(graph, {"x0": a})["y"]
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)


def test_rows_do_not_depend_on_each_other() -> None:
    """A row's results have the same bits alone and among others."""
    a = rows(17, 800)
    for level in (0, 4):
        case, _ = node(a, 48, 4, 32, "packed", level=level)
        program = sx.compile(replace(case, symbolic=True).model())
        together = program(x0=a)["y"]
        for r in (0, 16):
            np.testing.assert_array_equal(program(x0=a[r : r + 1])["y"][0], together[r])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("zeros", FORMS)
def test_half(dtype: Any, zeros: str | None) -> None:
    for level in (0, 4):
        check(*node(rows(3, 96, dtype=dtype), 40, 4, 32, zeros, bias=True, level=level), bound=5e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_blocks_in_any_order(bits: int) -> None:
    """Each index of the depth names its block: of equal sizes, so that an order of the depth does it, or of others."""
    blocks = np.repeat(np.arange(4), 32).astype(np.int32)
    for groups in (RANDOM.permutation(blocks), RANDOM.integers(0, 4, 128).astype(np.int32)):
        check(*node(rows(3, 128), 20, bits, 32, "packed", groups))


def test_the_greatest_numbers() -> None:
    """Rows of zeros, of one number, and of numbers whose quotient by the greatest is a tie."""
    a = np.zeros((4, 64), np.float32)
    a[1, 5], a[2] = -3e36, 1e-38
    a[3] = np.arange(64) - 0.5
    a[3, 0] = 127
    for row in a[1:]:
        case, wanted = node(row, 8, 8, 32, "packed", level=4)
        found = sx.compile(case.model())(**case.feeds())["y"]
        assert np.abs(found - wanted).max() <= 1e-3 * np.abs(wanted).max()
    case, _ = node(a[:1], 8, 8, 32, "packed", level=4)
    assert not sx.compile(case.model())(**case.feeds())["y"].any()


@pytest.mark.parametrize("a", [rows(0, 64), rows(64), rows(1, 1, 1, 64)], ids=["none", "vector", "axes"])
def test_ranks(a: Array) -> None:
    check(*node(a, 5, 4, 16, None))


def test_weights_stay_packed() -> None:
    """The bias joins the kernel, whose operands have for each weight 4 bits of a word and a share of a scale."""
    case, _ = node(rows(1, 256), 64, 4, 32, None, bias=True)
    module = sx.lower(case.model(), to="kernels")
    [call] = [op for op in module.walk() if isinstance(op, CallOp)]
    weights = [v.type for v in call.inputs if isinstance(v.owner, onnx.ConstantOp | onnx.InitializerOp)]
    assert sum(prod(t.get_shape()) for t in weights if isinstance(t, TensorType)) == 256 * 64 // 8 + 256 * 64 // 32


def test_layout() -> None:
    for bits in (2, 4, 8):
        numbers = RANDOM.integers(0, 1 << bits, (45, 64)).astype(np.uint8)
        np.testing.assert_array_equal(unpack_words(pack_words(numbers, bits), bits, 45), numbers)
    values = rows(45, 3)
    np.testing.assert_array_equal(unpack_of_blocks(pack_of_blocks(values), 45), values)


@pytest.mark.parametrize(("count", "depth"), [(1, 256), (8, 256), (1, 2048), (8, 2048)])
@pytest.mark.parametrize(("bits", "block"), [(4, 32), (4, 128), (8, 32)])
def test_errors_are_of_the_size_of_onnxruntime_s(count: int, depth: int, bits: int, block: int) -> None:
    errors = np.zeros(2)
    for _ in range(3):
        case, wanted = node(rows(count, depth), 64, bits, block, None)
        model = case.model()
        session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        [theirs] = session.run(None, case.feeds())
        ours = sx.compile(model)(**case.feeds())["y"]
        errors += [np.square(y - wanted).mean() for y in (ours, theirs)]
    assert np.sqrt(errors[0]) <= 1.5 * np.sqrt(errors[1])
