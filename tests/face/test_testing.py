"""The check of patterns: what it says of values that differ."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sardonyx.testing import difference

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("want", "got", "says"),
    [
        ([1.0, NAN], [1.0, 2.0], "at [1]: nan -> 2.0, a difference of nan"),
        ([NAN, 2.0], [NAN, NAN], "at [1]: 2.0 -> nan, a difference of nan"),
        ([NAN], [2.0], "at [0]: nan -> 2.0, a difference of nan"),
        ([INF, 1.0], [INF, 2.0], "at [1]: 1.0 -> 2.0, a difference of 1"),
        ([INF, 1.0], [-INF, 2.0], "at [0]: inf -> -inf, a difference of inf"),
        (NAN, 2.0, "at []: nan -> 2.0, a difference of nan"),
    ],
)
def test_the_largest_difference(want: float, got: float, says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"Rule changes the value of y {says}")):
        difference("Rule", "y", np.array(want), np.array(got), 1e-5, 1e-6)


def test_what_is_equal() -> None:
    both = np.array([NAN, INF, -INF, 1.0])
    assert difference("Rule", "y", both, both.copy(), 0, 0) == 0.0
    assert difference("Rule", "y", np.array(NAN), np.array(NAN), 0, 0) == 0.0
    assert difference("Rule", "y", both, both + 0.5, 1, 0) == 0.5
