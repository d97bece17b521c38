"""Every rule of the rule set: what it makes of a graph, checked by numbers on random sizes, and where it declines.

Of rules that change rounding, also how far from the exact value they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases_of_arithmetic import ARITHMETIC
from cases_of_blocks import BLOCKS, MASKED, TURNED, UNMASKED, UNTURNED
from cases_of_movement import MOVEMENT
from cases_of_recognition import RECOGNITION
from rule_case import Fires, module_of, rules
from sardonyx.dialects import onnx as dialect
from sardonyx.dialects.dims import dims_of
from sardonyx.dialects.onnx.model import main_of
from sardonyx.rewrites.driver import apply_patterns
from sardonyx.rewrites.simplify import exact_rules, file_rules, rounding_rules
from sardonyx.rewrites.simplify.redundancy import eliminate_dead_code
from sardonyx.semantics.facts import Facts
from sardonyx.semantics.interpreter import run_graph
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import ModuleOp, f32

from sardonyx import testing

CASES = MOVEMENT | ARITHMETIC | RECOGNITION | BLOCKS
for title, fires, declines in (("RecognizeAttention", MASKED, UNMASKED), ("RecognizeRotary", TURNED, UNTURNED)):
    CASES[title] = ([*CASES[title][0], *fires], [*CASES[title][1], *declines])
RULES = {rule.title(): rule for rule in rules()}


def left(module: ModuleOp) -> str:
    """The operators of main that something reads, in order, but constants."""
    eliminate_dead_code(module)
    ignored = (dialect.ConstantOp, dialect.InitializerOp)
    return " ".join(
        op.name.removeprefix("onnx.")
        for op in main_of(module).body.block.ops
        if isinstance(op, dialect.OnnxOp) and not isinstance(op, ignored)
    )


def test_every_rule_has_cases() -> None:
    assert set(CASES) == set(RULES)
    assert all(fires and declines for fires, declines in CASES.values())


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, (fires, _) in CASES.items() for c in fires])
def test_fires_and_keeps_values(name: str, case: Fires) -> None:
    module = module_of(case.text, decided=case.decided)
    text = str(module)
    testing.check(RULES[name], text, bindings=12, ranges=case.ranges, rtol=case.tolerance, atol=case.tolerance)
    apply_patterns(module, [RULES[name]])
    assert left(module) == case.left


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, (_, declines) in CASES.items() for t in declines])
def test_declines(name: str, text: str) -> None:
    module = module_of(text)
    assert apply_patterns(module, [RULES[name]]) == []


# --- rounding ---------------------------------------------------------------------------------------------------------

WEIGHTS, FACTS = WeightStore(), Facts()
SOMETIMES = ("FoldIntoWeights", "FoldScaleBefore", "FuseMatMulAdd")
"""Rules that change rounding in some cases."""

ROUNDING = (*(rule.title() for rule in rounding_rules(WEIGHTS)), *SOMETIMES)


def test_the_page_on_numerics_names_all_rules_that_round() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text()
    assert [name for name in (*ROUNDING, "DropNeutral") if f"`{name}`" not in page] == []
    exact = {
        *(rule.title() for rule in exact_rules(WEIGHTS, FACTS, exact=True, for_file=True)),
        *(rule.title() for rule in file_rules(WEIGHTS, FACTS, exact=True)),
    }
    assert exact & set(ROUNDING) == {"FoldIntoWeights", "FuseMatMulAdd"}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n in ROUNDING for c in CASES[n][0] if "float16" not in c.text])
def test_the_error_against_f64_is_bounded(name: str, case: Fires) -> None:
    before, after = module_of(case.text), module_of(case.text)
    apply_patterns(after, [RULES[name]])
    exact = module_of(case.text.replace("float[", "double[").replace("float ", "double "))
    rng = np.random.default_rng(7)
    feeds: dict[str, np.ndarray] = {}
    for argument in main_of(before).body.block.args:
        shape = [d.evaluate(dict.fromkeys(d.symbols, 5)) for d in dims_of(argument)]
        assert argument.name_hint is not None and argument.type.element_type == f32  # pyright: ignore
        feeds[argument.name_hint] = rng.standard_normal(shape).astype(np.float32)
    want = run_graph(exact, WEIGHTS, {key: value.astype(np.float64) for key, value in feeds.items()})
    old, new = run_graph(before, WEIGHTS, feeds), run_graph(after, WEIGHTS, feeds)
    for key, value in want.items():
        limit = 2 * np.abs(old[key] - value).max() + 2 * np.spacing(np.float32(np.abs(value).max()))
        assert np.abs(new[key] - value).max() <= limit
