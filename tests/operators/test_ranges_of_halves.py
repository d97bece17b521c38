"""Range of 16-bit floats, in the precisions in which it may count."""

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
