"""Range of floats: how many there are, and those of 16 bits in the precisions in which they may be made."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from .cases import check


@pytest.mark.parametrize("stash", [1, 10, 11, 16], ids=["f32", "f16", "f64", "bf16"])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_counted_in(kind: type[np.generic], stash: int) -> None:
    operands = [np.array(v, kind) for v in (0.1, 30, 0.3)]
    [made] = check("Range", operands, {"stash_type": stash}, levels=("graph", "tensor"))
    np.testing.assert_allclose(made.astype(np.float64), np.arange(len(made)) * 0.3 + 0.1, rtol=2e-2)


@pytest.mark.parametrize("constants", [(), (0, 1, 2)], ids=["given", "known"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_counted_exactly(kind: type[np.generic], constants: tuple[int, ...]) -> None:
    """By the numbers as they are: a third of the f32 next to 0.3 is below the one next to 0.1."""
    for start, limit, delta in ((0, 0.3, 0.1), (0.1, 1.1, 0.1), (0, 1, 0.1), (1, 0, -0.1)):
        operands = [np.array(v, kind) for v in (start, limit, delta)]
        [made] = check("Range", operands, constants=constants, levels=("graph", "tensor"))
        assert len(made) == len(np.arange(*(float(v) for v in operands)))
