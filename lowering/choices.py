"""What is chosen for a part of a kernel: named numbers, printed, given from outside where somebody knows better.

A *part* is a template op ("conv", "matmul"; a second one of a kind is "conv.2") or all of a kernel's loops over
generics ("loops").  Its choices are the fields of a frozen dataclass that derives from `Choices`; the cost model fills
them in from the op's sizes and the `Target`.  They stand on the kernel function as the attribute `kernel.schedule`, a
dictionary by part: what is there before the lowering is taken as given, the rest is chosen, and afterwards everything
is there.

No choice may change the order in which an element's terms are added, so that results have the same bits whatever the
schedule: fields that decide the order are in a class's `FIXED`, with the reason, are printed, and cannot be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation

from ..dialects import kernel

SCHEDULE = "kernel.schedule"
LOOPS = "loops"
"""The part that is a kernel's generics."""
GRAIN_CYCLES = 15_000
"""Work worth a thread: about 5 us."""

ORDER = "it decides the order of additions, and with it the bits of the result"
VECTOR_WIDTH = "it is the width of the target's vectors"

Number: TypeAlias = "int | str"
Given: TypeAlias = Mapping[str, Number]
"""Fields of one part, by name."""
Schedule: TypeAlias = Mapping[str, Given]
"""Choices by part."""


class ScheduleError(ValueError):
    """Choices that were given and cannot be: an unknown or fixed field, or sizes that do not fit."""


@dataclass(frozen=True)
class Choices:
    """The choices that every part has; derived classes add theirs.

    `grain_cycles`: the cycles of work that are worth another thread.
    """

    grain_cycles: int = field(default=GRAIN_CYCLES, kw_only=True)

    FIXED: ClassVar[Mapping[str, str]] = {}
    """Fields that cannot be given, with the reason."""

    def numbers(self) -> dict[str, Number]:
        """All fields, for printing and for the attribute."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def free(cls) -> list[str]:
        """The fields that may be given."""
        return [f.name for f in fields(cls) if f.name not in cls.FIXED]

    def check(self, part: str, given: Given) -> None:
        """Raises ScheduleError where something given is not a field, is fixed, or is not what was chosen."""
        for name, value in given.items():
            if name not in (f.name for f in fields(self)):
                raise ScheduleError(f"{part} has no choice {name!r}; there are {', '.join(self.free())}")
            chosen = getattr(self, name)
            if name in self.FIXED and chosen != value:
                raise ScheduleError(f"{name} of {part} cannot be set: {self.FIXED[name]}")
            if chosen != value or type(chosen) is not type(value):
                raise ScheduleError(f"{name} of {part} cannot be {value!r} here, but {chosen!r}")


@dataclass
class Part:
    """A part while it is lowered: its name, what is given for it, and then what was chosen."""

    name: str
    given: Given = field(default_factory=dict[str, Number])
    chosen: Choices = field(default_factory=Choices)

    def adopt(self, choices: Choices) -> None:
        """Takes these choices. Raises ScheduleError where they are not those that are given."""
        choices.check(self.name, self.given)
        self.chosen = choices


def given_number(given: Given, name: str, default: int, least: int = 0) -> int:
    """A field that any number from `least` on may be given for."""
    value = given.get(name, default)
    return value if isinstance(value, int) and value >= least else default


def parts_of(block: Block) -> dict[kernel.TemplateOp, str]:
    """The template ops of a kernel with the names of their parts."""
    names: dict[kernel.TemplateOp, str] = {}
    counts: dict[str, int] = {}
    for op in block.ops:
        if isinstance(op, kernel.TemplateOp):
            template = op.template.data
            counts[template] = counts.get(template, 0) + 1
            names[op] = template if counts[template] == 1 else f"{template}.{counts[template]}"
    return names


def schedule_of(function: Operation) -> dict[str, dict[str, Number]]:
    """The choices that stand on a kernel."""
    attribute = function.attributes.get(SCHEDULE)
    found: dict[str, dict[str, Number]] = {}
    if isinstance(attribute, DictionaryAttr):
        for part, numbers in attribute.data.items():
            assert isinstance(numbers, DictionaryAttr)
            found[part] = {name: _plain(value) for name, value in numbers.data.items()}
    return found


def schedule_attribute(schedule: Schedule) -> DictionaryAttr:
    """The attribute `kernel.schedule`."""
    return DictionaryAttr({
        part: DictionaryAttr({name: _attribute(value) for name, value in sorted(numbers.items())})
        for part, numbers in sorted(schedule.items())
    })  # fmt: skip


def merged(schedules: Sequence[Schedule]) -> dict[str, dict[str, Number]]:
    """Several schedules as one; of a field that several have, the last."""
    found: dict[str, dict[str, Number]] = {}
    for schedule in schedules:
        for part, numbers in schedule.items():
            found.setdefault(part, {}).update(numbers)
    return found


def read_schedule(value: Any, where: str) -> dict[str, dict[str, Number]]:
    """A schedule as people write it. Raises ScheduleError, naming the place, for what is none."""
    if not isinstance(value, Mapping):
        raise ScheduleError(f"{where}: expected parts with their choices, such as {{'conv': {{'rows': 7}}}}")
    found: dict[str, dict[str, Number]] = {}
    for part, numbers in value.items():
        if not isinstance(numbers, Mapping):
            raise ScheduleError(f"{where}: {part!r} has no choices by name, such as {{'rows': 7}}")
        for name, number in numbers.items():
            if not isinstance(number, int | str) or isinstance(number, bool):
                raise ScheduleError(f"{where}: {part}.{name} is {number!r}, neither a whole number nor a word")
        found[str(part)] = dict(numbers)
    return found


def _attribute(value: Number) -> Attribute:
    return IntegerAttr(value, i64) if isinstance(value, int) else StringAttr(value)


def _plain(value: Attribute) -> Number:
    assert isinstance(value, IntegerAttr | StringAttr)
    return value.data if isinstance(value, StringAttr) else value.value.data
