"""Simplification: the rule set on the onnx dialect, to a fixpoint, with a log of what fired and what declined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from ...semantics.facts import Facts
from ...semantics.weights import WeightStore
from ..driver import Declined, Firing, Pattern, apply_patterns
from .activations import RecognizeActivation, RecognizeHardSigmoid
from .attention import RecognizeAttention, ShareHeads
from .control_flow import CopyYieldedConstant, InlineKnownIf, ReadWhatLoopsKeep, UnrollLoop
from .fold import GROWTH_IN_FILES, GROWTH_IN_PROGRAMS, Compute, fold_constants
from .groups import FoldIntoGroupNormalization, RecognizeGroupNormalization
from .identity import EXACT_IDENTITIES, DropNeutral
from .linear import FoldPad, FoldTransposeIntoGemm, FuseMatMulAdd
from .movement import (
    FlattenConcats,
    GatherBeforeTranspose,
    JoinSlices,
    JoinTransposes,
    MergeSlices,
    MergeTransposes,
    RejoinParts,
    SinkTranspose,
    SinkView,
    SplitBeforeTranspose,
)
from .normalizations import FoldScaleIntoNormalization, FoldShiftIntoNormalization, RecognizeNormalization
from .padding import CropPad
from .quantization import DropRequantize, ShareZeroPoint
from .recurrent import DropZeroState
from .reductions import FoldSqueezeIntoReduction, MergeReductions
from .redundancy import eliminate_common_subexpressions, eliminate_dead_code
from .rotary import RecognizeRotary, WidenRotary
from .sequences import ConcatWithoutSequence, GatherWithoutSequence, SplitWithoutSequence, TakeItem
from .upsampling import SpreadConvolution
from .views import MergeViews, SpellExpand, SpellReshape, SpellSlice, SpellTransposeOfOnes
from .weights import FoldIntoWeights, FoldScaleBefore, MergeConstants

MAX_ROUNDS = 8

MOST_UNROLLED = 64
"""A loop that would become more operators than this stays a loop."""


@dataclass
class Log:
    """What simplification did, in order, and what it left for the model's opset or because it failed.

    `settled` says that in the end no rule had anything left to do.
    """

    firings: list[Firing] = field(default_factory=list[Firing])
    declined: dict[Declined, None] = field(default_factory=dict[Declined, None])
    settled: bool = False


def exact_rules(
    weights: WeightStore, facts: Facts, *, exact: bool, for_file: bool, most_unrolled: int = MOST_UNROLLED
) -> tuple[Pattern, ...]:
    """Rules that keep every bit of every value; some do more, as docs/numerics.md lists, where `exact` is False."""
    return (
        InlineKnownIf(),
        UnrollLoop(weights, most_unrolled),
        ReadWhatLoopsKeep(),
        *EXACT_IDENTITIES,
        SplitWithoutSequence(),
        GatherWithoutSequence(),
        TakeItem(),
        ConcatWithoutSequence(),
        DropNeutral(exact),
        MergeTransposes(),
        GatherBeforeTranspose(),
        SinkTranspose(),
        SinkView(),
        MergeSlices(),
        CropPad(facts),
        RejoinParts(facts),
        MergeViews(facts, for_file),
        SplitBeforeTranspose(facts, for_file),
        MergeReductions(),
        FoldSqueezeIntoReduction(),
        DropRequantize(),
        ShareZeroPoint(weights),
        DropZeroState(),
        ShareHeads(),
        WidenRotary(),
        FoldPad(weights, facts),
        FoldIntoWeights(weights, exact),
    )


def rounding_rules(weights: WeightStore, *, for_file: bool = False) -> tuple[Pattern, ...]:
    """Rules that may change rounding, each listed in docs/numerics.md; `exact=True` leaves them out."""
    return (
        MergeConstants(weights),
        RecognizeActivation(),
        RecognizeHardSigmoid(),
        RecognizeNormalization(weights),
        FoldScaleIntoNormalization(weights),
        FoldShiftIntoNormalization(weights),
        RecognizeGroupNormalization(weights),
        FoldIntoGroupNormalization(weights),
        RecognizeAttention(weights, for_file),
        RecognizeRotary(weights),
        *(() if for_file else (SpreadConvolution(weights),)),
    )


def file_rules(weights: WeightStore, facts: Facts, *, exact: bool) -> tuple[Pattern, ...]:
    """Rules that make a model file shorter and a program no faster: there these ops share a kernel anyway."""
    return (
        JoinTransposes(),
        FlattenConcats(),
        JoinSlices(),
        FuseMatMulAdd(exact),
        FoldTransposeIntoGemm(),
        SpellTransposeOfOnes(facts),
        CopyYieldedConstant(),
        *(() if exact else (FoldScaleBefore(weights),)),
    )


def spelling_rules(facts: Facts) -> tuple[Pattern, ...]:
    """Rules that write what is known of sizes as numbers where a model file has computed it."""
    return (SpellReshape(facts), SpellExpand(), SpellSlice(facts))


def simplify(
    module: ModuleOp,
    weights: WeightStore,
    *,
    facts: Facts | None = None,
    exact: bool = False,
    opsets: Mapping[str, int] | None = None,
    without: frozenset[str] = frozenset(),
    most_unrolled: int = MOST_UNROLLED,
    compute: Compute | None = None,
) -> Log:
    """Runs all rules until none fires (at most `MAX_ROUNDS` times).

    The module should be inferred: rules ask for dims and element types, and leave alone what has none.  With `opsets`,
    by domain, the module is to be written as a model of these: rules that make operators which are newer decline, and
    those are run, too, that serve a file only.  `without` names rules that are left out; a loop that would become more
    than `most_unrolled` operators stays one; `compute` evaluates an op on large constants.
    """
    facts = facts if facts is not None else Facts()
    for_file = opsets is not None
    rules: list[Pattern] = [*exact_rules(weights, facts, exact=exact, for_file=for_file, most_unrolled=most_unrolled)]
    rules += [] if exact else rounding_rules(weights, for_file=for_file)
    rules += (*file_rules(weights, facts, exact=exact), *spelling_rules(facts)) if for_file else ()
    rules = [rule for rule in rules if rule.title() not in without]
    growth = GROWTH_IN_FILES if for_file else GROWTH_IN_PROGRAMS
    log = Log()

    def run(patterns: Sequence[Pattern]) -> list[Firing]:
        return apply_patterns(module, patterns, opsets=opsets, declined=log.declined)

    log.firings += run([rule for rule in rules if isinstance(rule, InlineKnownIf)])  # what cannot run may have no types
    for _ in range(MAX_ROUNDS):
        fired = run(rules)
        fired += fold_constants(module, weights, compute=compute, declined=log.declined, growth=growth)
        fired += eliminate_common_subexpressions(module)
        fired += eliminate_dead_code(module)
        log.firings += fired
        if not fired:
            log.settled = True
            break
    return log
