"""Simplification: the rule set on the onnx dialect, to a fixpoint, with a log of what fired."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from ...semantics.facts import Facts
from ...semantics.weights import WeightStore
from ..driver import Firing, Pattern, apply_patterns
from .batch_norm import FoldBatchNormIntoConv
from .control_flow import InlineKnownIf
from .fold import fold_constants
from .identity import IDENTITIES
from .redundancy import eliminate_common_subexpressions, eliminate_dead_code

MAX_ROUNDS = 8

EXACT: tuple[Pattern, ...] = (InlineKnownIf(), *IDENTITIES)
"""Rules that keep every bit of every value."""

ROUNDING: tuple[Pattern, ...] = ()
"""Rules that may change rounding, each listed in docs/numerics.md; `exact=True` leaves them out."""


def simplify(
    module: ModuleOp, weights: WeightStore, *, facts: Facts | None = None, exact: bool = False
) -> list[Firing]:
    """Runs all rules until none fires (at most `MAX_ROUNDS` times); returns what fired, in order.

    The module must be inferred: rules ask for dims and element types, and keep them.
    """
    rules: Sequence[Pattern] = EXACT if exact else (*EXACT, *ROUNDING, FoldBatchNormIntoConv(weights))
    log: list[Firing] = apply_patterns(module, [InlineKnownIf()])  # first: what cannot run need not have types
    for _ in range(MAX_ROUNDS):
        fired = apply_patterns(module, rules)
        fired += fold_constants(module, weights)
        fired += eliminate_common_subexpressions(module)
        fired += eliminate_dead_code(module)
        log += fired
        if not fired:
            break
    return log
