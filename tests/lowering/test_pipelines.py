"""Rows in a pipeline: the same bits as row by row, whatever the number of rows and threads, and only where it pays."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects.dims import as_dim, parse_dim
from sardonyx.dialects.target import AVX2, AVX512
from sardonyx.lowering import policy

import sardonyx as sx

SOFTMAX = "y = Softmax (x)"
NORMALIZED = "y = LayerNormalization (x, g, b)"
BOTH = "n = LayerNormalization (x, g, b)  s = Add (n, x)  y = LogSoftmax (s)"
CHECKED = "p = Softmax (x)  y = ReduceSum <keepdims = 0> (p)"


def results(body: str, sizes: tuple[int | str, ...], data: np.ndarray, threads: int = 1) -> bytes:
    text, width = ",".join(map(str, sizes)), sizes[-1]
    result = "float" if body is CHECKED else f"float[{text}]"
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
    g (float[{text}] x, float[{width}] g, float[{width}] b) => ({result} y) {{ {body} }}""")
    random = np.random.default_rng(1)
    g, b = (random.standard_normal(data.shape[-1]).astype(np.float32) for _ in range(2))
    return sx.compile(model, threads=threads)(data, g, b)["y"].tobytes()


@pytest.mark.parametrize("body", [SOFTMAX, NORMALIZED, BOTH, CHECKED])
@pytest.mark.parametrize("sizes", [("N", "W"), ("N", 515), (41, 515), (2, 41, 130)])
def test_bits_do_not_depend_on_the_pipeline(
    body: str, sizes: tuple[int | str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = {"N": 41, "W": 515}
    shape = tuple(bound[s] if isinstance(s, str) else s for s in sizes)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    monkeypatch.setattr(policy, "in_a_pipeline", lambda *_: False)
    expected = results(body, sizes, x)
    monkeypatch.setattr(policy, "in_a_pipeline", lambda steps, *_: steps > 1)
    assert results(body, sizes, x) == expected
    assert results(body, sizes, x, threads=2) == expected
    for rows in (0, 1, 2, 3) if sizes[0] == "N" and body is not CHECKED else ():
        assert results(body, sizes, x[:rows]) == expected[: 4 * rows * shape[1]]


def test_short_rows_few_rows_and_rows_beyond_the_caches_go_in_turn() -> None:
    def piped(rows: str, row_bytes: int | str, cost: float, steps: int = 3) -> bool:
        size = as_dim(row_bytes) if isinstance(row_bytes, int) else parse_dim(row_bytes)
        return policy.in_a_pipeline(steps, parse_dim(rows), size, cost, AVX512)

    costly, cheap = 14.0, 6.0
    assert piped("4096", 8192, costly) and piped("N", 8192, costly) and piped("N", "8*W", costly)
    assert not piped("8", 8192, costly) and not piped("4096", 512, costly) and not piped("4096", 1 << 20, costly)
    assert piped("4096", 4096, cheap) and not piped("4096", 1 << 15, cheap) and not piped("4096", "8*W", cheap)
    assert not piped("4096", 8192, costly, steps=1) and not piped("4096", 8192, costly, steps=5)
    assert not policy.in_a_pipeline(3, as_dim(4096), as_dim(8192), costly, AVX2)
