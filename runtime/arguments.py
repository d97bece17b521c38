"""The arguments of a call: by position, by name or in one mapping, brought into the order of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from .arrays import Array, Spec
from .errors import InputError
from .usage import NAMED_VALUES

_SHOWN_NAMES = 20


class Arguments:
    """What a program takes: the base of all that is called as one."""

    specs: list[Spec]
    input_names: list[str]

    def _default(self, index: int) -> Array:
        """The weight that an input is where the caller gives none."""
        raise NotImplementedError

    def _in_order(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        if not args:
            return self._named(kwargs)
        if len(args) == 1 and isinstance(args[0], Mapping):
            feeds = cast("Mapping[str, object]", args[0])
            if twice := [name for name in kwargs if name in feeds]:
                raise InputError(f"input {quoted(twice)} is given twice, in the mapping and by name")
            return self._named({**feeds, **kwargs})
        if len(args) > len(self.specs):
            raise InputError(f"{len(args)} arguments, the model has {count_text(len(self.specs), 'input')}")
        given = dict(zip(self.input_names, args))
        twice = [name for name in kwargs if name in given]
        if twice:
            raise InputError(f"input {quoted(twice)} is given twice, by position and by name")
        return self._named({**given, **kwargs}) if kwargs or len(args) < len(self.specs) else list(args)

    def _named(self, feeds: Mapping[str, object]) -> list[object]:
        """The values in the order of the inputs."""
        if type(feeds) is not dict:
            NAMED_VALUES.check("feeds", feeds)
        unknown = [name for name in feeds if name not in self.input_names]
        if unknown:
            raise InputError(f"no input named {quoted(unknown)}; the inputs are {quoted(self.input_names)}")
        values: list[object] = []
        for spec in self.specs:
            if spec.name in feeds:
                values.append(feeds[spec.name])
            elif spec.default is not None:
                values.append(self._default(spec.default))
            else:
                missing = [s.name for s in self.specs if s.default is None and s.name not in feeds]
                raise InputError(f"input {quoted(missing)} is missing; the inputs are {quoted(self.input_names)}")
        return values


def quoted(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN_NAMES]) + more


def count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
