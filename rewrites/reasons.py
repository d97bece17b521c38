"""Why operators share a kernel or do not: the closed set of reasons, and what is recorded of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xdsl.ir import Operation


class Reason(StrEnum):
    """Why two operators share a kernel, or why they do not."""

    PRODUCER = "the producer is computed where it is read"
    EPILOGUE = "the consumer runs in the template's epilogue"
    OPERAND = "the template reads its operand through the producer"
    PROLOGUE = "the template's kernel makes its operand itself"
    BEHIND = "the consumer runs behind the template, on parts of its result"
    SIBLINGS = "both read the same value over the same space"
    ROWS = "both run row by row over the same rows"
    SHAPE = "the iteration spaces are not known to be equal"
    TEMPLATE_INPUT = "the template reads its operand from memory"
    WRITTEN = "the template in front writes its result in the consumer's order"
    WIDENED = "the convolution behind the consumer makes the wider elements where it copies them"
    PARTS = "other kernels read other parts of the same value, and one pass makes all of them"
    TURNED = "a transposed part is made by tiles, and not element by element where it is joined"
    RECOMPUTE = "the producer would be computed more than once"
    USERS = "the producer's value is also needed elsewhere"
    CYCLE = "a third kernel stands between them"
    AXES = "the reduced axes are not the trailing ones"
    ALL_AXES = "all axes are reduced, so that there are no rows"
    MOVEMENT = "a movement operator cannot run in this group"
    VIEW = "a view stands between them"
    WINDOW = "a window reads each element several times"
    WINDOW_RESULT = "an operator over windows has no epilogue"
    POINTWISE_ONLY = "a template's epilogue takes pointwise operators only"
    NO_EPILOGUE = "the template has no epilogue"
    SIZE = "the kernel would have too many operators or operands"
    TWO_TEMPLATES = "each of them is a template"
    OTHER_KERNEL = "the consumer runs in the kernel of another template"
    CONTROL = "control flow stands between them"
    UNFUSED = "fusion is switched off"


TAKEN = frozenset(
    (Reason.PRODUCER, Reason.EPILOGUE, Reason.OPERAND, Reason.PROLOGUE, Reason.BEHIND, Reason.SIBLINGS, Reason.ROWS)
)


@dataclass(frozen=True)
class Decision:
    """What was decided for one pair; `missing` is a fact that, given as an assumption, would let it fuse."""

    producer: Operation
    consumer: Operation
    reason: Reason
    missing: str | None = None
