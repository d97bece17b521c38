"""What a case of a rule is: a graph in ONNX's text, and what the rule leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.driver import Pattern
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.simplify import exact_rules, file_rules, rounding_rules, spelling_rules
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.semantics.facts import Facts
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Fires:
    """A graph, and the operators that are left: constants and what nothing reads do not count."""

    text: str
    left: str
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    tolerance: float = 1e-5
    decided: bool = True
    """Whether inference has written what it knows into the graph, and decided branches."""


Cases = dict[str, tuple[Sequence[Fires], Sequence[str]]]
"""By the rule's name: graphs on which it fires, and on which it declines."""

X = "(float[N, 4] x) => (float[A, B] y)"
X3 = "(float[N, 3, 4] x) => (y)"


def module_of(text: str, opset: int = 24, *, decided: bool = True) -> ModuleOp:
    """A graph in ONNX's text, inferred."""
    graph = onnx.parser.parse_graph("g " + text)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    infer_shapes(module, weights, compile_mode=decided)
    return module


def rules() -> list[Pattern]:
    """All rules, each once."""
    weights, facts = WeightStore(), Facts()
    found = [
        *exact_rules(weights, facts, exact=False, for_file=False),
        *rounding_rules(weights),
        *file_rules(weights, facts, exact=False),
        *spelling_rules(facts),
    ]
    assert len({rule.title() for rule in found}) == len(found)
    return found
