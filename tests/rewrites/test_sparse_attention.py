"""com.microsoft's SparseAttention against numpy, and against onnxruntime, whose caches are written where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from sardonyx.semantics.reference import REFERENCE

import sardonyx as sx

Array = np.ndarray[Any, Any]
BLOCK, LONGEST, SIZE = 16, 64, 16


def tables(layouts: int) -> tuple[Array, Array, Array]:
    """Starts of rows and numbers of blocks, and the same as flags."""
    count = LONGEST // BLOCK
    flags = np.zeros((layouts, count, count), bool)
    for layout in range(layouts):
        for row in range(count):
            flags[layout, row, : row + 1] = [row - c < 2 or (c + layout) % 3 == 2 for c in range(row + 1)]
    starts = np.pad(flags.sum(2).cumsum(1), ((0, 0), (1, 0))).astype(np.int32)
    columns = np.full((layouts, starts[:, -1].max()), -1, np.int32)
    for layout in range(layouts):
        columns[layout, : starts[layout, -1]] = np.nonzero(flags[layout])[1]
    return starts, columns, flags


class Case:
    """One call: queries that are the whole sequence, or the last of it."""

    def __init__(
        self, queries: int, lengths: list[int], heads: int, shared: int, layouts: int, rotary: int, packed: bool
    ) -> None:
        rng = np.random.default_rng(0)
        batch = len(lengths)
        self.q, self.k, self.v = (
            rng.standard_normal((batch, queries, n * SIZE)).astype(np.float32) for n in (heads, shared, shared)
        )
        self.pasts = [rng.standard_normal((batch, shared, LONGEST, SIZE)).astype(np.float32) for _ in range(2)]
        starts, columns, self.flags = tables(layouts)
        angles = rng.random((LONGEST, SIZE // 2)) * 3
        self.angles = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        self.lengths, self.heads, self.shared, self.rotary = lengths, heads, shared, rotary
        given = [np.concatenate([self.q, self.k, self.v], -1), None, None] if packed else [self.q, self.k, self.v]
        total, keys = np.array([max(lengths)], np.int32), np.array(lengths, np.int32)
        self.operands: list[Array | None] = [*given, *self.pasts, starts, columns, total, keys]
        self.operands += self.angles * rotary

    def model(self, symbolic: bool) -> ModelProto:
        names = ["" if v is None else f"x{at}" for at, v in enumerate(self.operands)]
        infos: list[Any] = []
        for name, value in zip(names, self.operands):
            if value is not None:
                open_ = symbolic and value.ndim in (3, 4)
                sizes = [f"{name}_{axis}" for axis in range(value.ndim)] if open_ else value.shape
                infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes))
        attributes = {"num_heads": self.heads, "kv_num_heads": self.shared, "sparse_block_size": BLOCK}
        node = helper.make_node(
            "SparseAttention", names, ["y", "k", "v"], "node", domain="com.microsoft", do_rotary=self.rotary,
            **attributes,
        )  # fmt: skip
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "k", "v")]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(helper.make_graph([node], "g", infos, results), opset_imports=imports, ir_version=10)

    def feeds(self) -> dict[str, Array]:
        return {f"x{at}": v for at, v in enumerate(self.operands) if v is not None}

    def by_numpy(self) -> list[Array]:
        """Sample by sample and head by head."""
        queries = self.q.shape[1]
        caches = [past.copy() for past in self.pasts]
        y = np.zeros(self.q.shape, np.float64)
        for sample, length in enumerate(self.lengths):
            first = 0 if queries == max(self.lengths) else length - queries
            places = np.arange(first, first + queries)
            q, k, v = (x[sample].reshape(queries, -1, SIZE).swapaxes(0, 1) for x in (self.q, self.k, self.v))
            if self.rotary:
                turn = REFERENCE["", "RotaryEmbedding"]
                q, k = (turn([x[None], *self.angles, places[None]], {}, 1)[0][0] for x in (q, k))
            caches[0][sample, :, places], caches[1][sample, :, places] = k.swapaxes(0, 1), v.swapaxes(0, 1)
            for head in range(self.heads):
                keys, values = (cache[sample, head * self.shared // self.heads].astype(np.float64) for cache in caches)
                flags = self.flags[head % len(self.flags)]
                for at, place in enumerate(places):
                    near = np.repeat(flags[place // BLOCK], BLOCK)[: place + 1]
                    score = np.where(near, keys[: place + 1] @ q[head, at] / np.sqrt(SIZE), -np.inf)
                    e = np.exp(score - score.max())
                    y[sample, at, head * SIZE : (head + 1) * SIZE] = e / e.sum() @ values[: place + 1]
        return [y, *caches]

    def by_onnxruntime(self) -> list[Array]:
        session = onnxruntime.InferenceSession(self.model(False).SerializeToString())
        binding = session.io_binding()
        values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(v.copy()) for n, v in self.feeds().items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output("y")
        binding.bind_ortvalue_output("k", values["x3"])
        binding.bind_ortvalue_output("v", values["x4"])
        session.run_with_iobinding(binding)
        return [value.numpy().copy() for value in binding.get_outputs()]


CASES = [
    Case(32, [32], 4, 2, 1, 0, False),
    Case(32, [32], 4, 2, 2, 1, True),
    Case(64, [64, 64], 6, 2, 3, 0, False),
    Case(1, [40, 40], 4, 4, 4, 1, False),
    Case(1, [40, 21], 4, 2, 2, 1, False),
    Case(32, [32, 20], 4, 2, 2, 0, False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.q.shape[1]}-{c.lengths}-{c.heads}-{len(c.flags)}-{c.rotary}")
@pytest.mark.parametrize("symbolic", [False, True])
def test_blocks_of_keys(case: Case, symbolic: bool) -> None:
    program = sx.compile(case.model(symbolic), cache=False)
    assert program.explain().to_dict()["hosted"] == []
    found, wanted = list(program(case.feeds()).values()), case.by_numpy()
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    if len(set(case.lengths)) == 1:  # onnxruntime reads what is not there for a shorter sample
        for got, want in zip(found, case.by_onnxruntime()):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
