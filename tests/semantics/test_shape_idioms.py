"""Sizes as exporters write them: the exact expression, and what an execution gives at many sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto
from sardonyx.dialects.dims import parse_dim, parse_dims

from sardonyx import infer_shapes

WORDS = ("in", "init", "at", "multiple", "zero", "zeros", "opset")


@dataclass
class Idiom:
    """One entry of the table: a model, and the sizes of some of its values."""

    name: str
    nodes: str = ""
    sizes: dict[str, str] = field(default_factory=dict[str, str])
    words: dict[str, str] = field(default_factory=dict[str, str])

    def model(self) -> ModelProto:
        """The model, whose outputs' types are left open."""
        nodes, numbers = named_numbers(self.nodes)
        listed = ", ".join(filter(None, [self.words.get("init"), *numbers]))
        initializers = f"<{listed}>" if listed else ""
        outputs = ", ".join(f"float[n] {name}" for name in self.sizes)
        model = onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : {self.words.get("opset", 20)}]>'
            f"g ({self.words['in']}) => ({outputs}) {initializers} {{ {nodes} }}"
        )
        for output in model.graph.output:
            output.ClearField("type")
        return model

    def bindings(self, names: list[str]) -> list[dict[str, int]]:
        """Sizes of the symbols to try."""
        if "at" in self.words:
            rows = [list(map(int, row.split())) for row in self.words["at"].split(",")]
        else:
            count, by = len(names), int(self.words.get("multiple", 1))
            rows = [[1] * count, [4] * count, list(range(3, 3 + count)), [7, 2, 5, 1, 3, 6, 2], [12, 5, 9, 31, 2, 4, 3]]
            rows = [[by * size for size in row[:count]] for row in rows]
            if self.words.get("zero") != "no":
                rows += [[0 if at == axis else 2 + at for at in range(count)] for axis in range(count)]
        return [dict(zip(names, row, strict=True)) for row in rows]


def named_numbers(nodes: str) -> tuple[str, list[str]]:
    """The nodes with a name in the place of each `$3` and `$[1, max]`, and the initializers of these names."""
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match[1], f"number{len(names)}")

    limits = {"max": str(2**63 - 1), "min": str(-(2**63))}
    nodes = re.sub(r"\$(-?\d+|\[[^]]*\])", name, nodes)
    made: list[str] = []
    for text, given in names.items():
        values = [limits.get(v.strip(), v.strip()) for v in text.strip("[]").split(",")]
        made.append(f"int64{f'[{len(values)}]' if text[0] == '[' else ''} {given} = {{{', '.join(values)}}}")
    return nodes, made


def idioms() -> list[Idiom]:
    here = Path(__file__).parent
    files = (
        "shape_idioms.txt",
        "shape_idioms_of_exporters.txt",
        "shape_idioms_of_frameworks.txt",
        "shape_idioms_of_networks.txt",
    )
    return [idiom for file in files for idiom in read(here / file)]


def read(file: Path) -> list[Idiom]:
    found: list[Idiom] = []
    for line in file.read_text().splitlines():
        word, _, rest = line.partition(": ")
        if line.startswith("# "):
            found.append(Idiom(line[2:]))
        elif not found or not line:
            continue
        elif line.startswith(" "):
            found[-1].nodes += line
        elif word in WORDS:
            found[-1].words[word] = rest
        else:
            found[-1].sizes[word.removesuffix(":")] = rest
    return found


CASES = [pytest.param(idiom, id=idiom.name) for idiom in idioms()]


def symbols(model: ModelProto) -> list[str]:
    """The symbols in the order in which the inputs name them."""
    dims = [d for i in model.graph.input for d in i.type.tensor_type.shape.dim]
    return list(dict.fromkeys(d.dim_param for d in dims if d.dim_param))


def sizes_of(model: ModelProto, name: str) -> list[str]:
    info = next(v for v in chain(model.graph.output, model.graph.value_info) if v.name == name)
    return [d.dim_param or str(d.dim_value) for d in info.type.tensor_type.shape.dim]


@pytest.mark.parametrize("idiom", CASES)
def test_sizes_are_the_expressions_expected(idiom: Idiom) -> None:
    model = idiom.model()
    inferred = infer_shapes(model)
    names = set(symbols(model))
    for name, text in idiom.sizes.items():
        found = sizes_of(inferred, name)
        wanted = text.split(", ") if "?" in text or "..." in text else [str(d) for d in parse_dims(text)]
        assert len(found) == len(wanted), f"{name} is [{', '.join(found)}]"
        for have, want in zip(found, wanted):
            free = parse_dim(have).symbols - names
            if want == "?":
                assert free, f"{name}: {have}"
            elif want == "...":
                assert not free, f"{name}: {have}"
            else:
                assert have == want, name


@pytest.mark.parametrize("idiom", CASES)
def test_sizes_are_those_of_an_execution(oracle: Any, idiom: Idiom) -> None:
    model = idiom.model()
    shapes = {i.name: i.type.tensor_type.shape.dim for i in model.graph.input}

    def zeros(name: str) -> Any:
        return lambda binding: np.zeros([d.dim_value or binding[d.dim_param] for d in shapes[name]])

    feeds = {name: zeros(name) for name in idiom.words.get("zeros", "").split()}
    outcome = oracle.check(model, idiom.bindings(symbols(model)), feeds)
    assert outcome.ran and (outcome.compared or outcome.fresh) and not outcome.refused
