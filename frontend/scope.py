"""Names of values while a graph is read."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from xdsl.ir import BlockArgument, SSAValue

from ..runtime.errors import ModelError


class Scope:
    """The values that names stand for, in a graph and those around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self._values: dict[str, SSAValue] = {}

    def find(self, name: str) -> SSAValue | None:
        """The value of a name, the innermost; None where there is none."""
        scope: Scope | None = self
        while scope is not None:
            value = scope._values.get(name)
            if value is not None:
                return value
            scope = scope._outer
        return None

    def define(self, name: str, value: SSAValue) -> None:
        """Gives a value its name. Raises ModelError where this graph has the name already."""
        if name in self._values:
            raise ModelError(f"the name '{name}' is given to two values of one graph")
        self._values[name] = value
        value.name_hint = hint_of(name)

    def is_argument(self, name: str) -> bool:
        """Whether the name is an input of this graph, so that an initializer of that name is only a default."""
        return isinstance(self._values.get(name), BlockArgument)

    def own_names(self) -> Collection[str]:
        """The names that this graph has given so far."""
        return self._values.keys()

    def all_names(self) -> list[str]:
        """All names that can be seen."""
        return [*self._values, *(self._outer.all_names() if self._outer is not None else ())]


class NotYet(Exception):
    """A node reads a name that no value has so far; perhaps a later node defines it."""

    def __init__(self, name: str, where: str, hint: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.where = where
        self.hint = hint


@lru_cache(maxsize=65536)
def hint_of(name: str) -> str | None:
    """A value's name as xDSL admits it after `%`, and prints it so that it parses back.

    xDSL takes `_7` at the end for its own suffix, drops it, and may then give two values one name.
    """
    text = re.sub(r"_(?=\d+$)", ".", re.sub(r"[^A-Za-z0-9_$.-]", "_", name))
    return f"v{text}" if text[:1].isdigit() or text[:1] in "-." else text or None


def needed(name: str, what: str) -> str:
    if not name:
        raise ModelError(f"{what} has no name")
    return name
