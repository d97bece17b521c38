"""The store of weights: numpy views on the model's files, by the handles that stand for them in the IR."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dialects.onnx.types import WeightAttr

Array = np.ndarray[Any, Any]


class WeightStore:
    """Arrays by handle. What comes from a file is a read-only view on it, so a store costs little memory."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def add(self, array: Array) -> WeightAttr:
        """Keeps the array (not a copy) under a new handle."""
        key = f"w{len(self._arrays)}"
        self._arrays[key] = array
        return WeightAttr(key)

    def get(self, handle: WeightAttr) -> Array:
        """The array of a handle. Raises KeyError for a handle of another store."""
        return self._arrays[handle.data]

    def __len__(self) -> int:
        return len(self._arrays)
