"""What the tests of the face share: the demo's model, its images, and models from ONNX's text form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests of a session share one cache, which no other run has filled."""
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path_factory.getbasetemp() / "sardonyx-cache"))


@pytest.fixture
def digits() -> Path:
    return ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture
def images() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)


@pytest.fixture
def model() -> Callable[..., onnx.ModelProto]:
    """Makes a model of opset 22, or another, from a graph's text; other domains are imported at version 1."""

    def make(text: str, *domains: str, opset: int = 22) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        made = helper.make_model(parser.parse_graph(text), opset_imports=imports)
        for index, node in enumerate(made.graph.node):
            node.name = f"node_{index}"
        return made

    return make
