"""A program whose ranks the inputs decide: each call answers its question, and goes to the code for that answer.

What no input tells by itself, the branch that an If takes, a program is asked that computes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from .arguments import Arguments
from .arrays import Array, Spec, as_input
from .errors import InputError
from .manifest import Manifest, Place, Question, value_function


class Callee(Protocol):
    """What code for one answer can do: a loaded program, or a program with a further question."""

    input_names: list[str]

    manifest: Manifest

    def explained(self) -> Any: ...
    def run(self, names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[Any]: ...
    def run_in_order(self, values: Sequence[object]) -> list[Any]: ...
    def bind(self, feeds: Mapping[str, object], outputs: Mapping[str, Array] | None = None) -> Callable[[], Any]: ...


class Zero:
    """An expression on the sizes and elements of inputs that may be 0, and the assumption that it is."""

    def __init__(self, question: Question) -> None:
        [self.assumption] = question["assumptions"]
        self._places = list(question["places"].values())
        self._value = value_function(question["expression"], list(question["places"]))

    def holds(self, values: Sequence[object]) -> bool:
        """Whether it is 0 for these inputs; not where they do not fit."""
        found: list[int] = []
        for place in self._places:
            value = values[place["input"]] if place["input"] < len(values) else None
            at = place["at"]
            if not isinstance(value, np.ndarray) or at >= (value.ndim if place["kind"] == "axis" else value.size):
                return False
            found.append(value.shape[at] if place["kind"] == "axis" else int(value.reshape(-1)[at]))
        return self._value(found) == 0


class OpenRanks(Arguments):
    """Is called as a loaded program is. `variant` gives the program under an assumption; it may have to be compiled."""

    def __init__(self, manifest: Manifest, variant: Callable[[str], Callee], threads: int) -> None:
        """A question that inputs do not answer themselves has a program, which is made at once."""
        question = manifest.get("question")
        assert question is not None
        self.manifest = manifest
        self._variant = variant
        self.threads = threads
        self.specs = [Spec(spec) for spec in manifest["inputs"]]
        self.input_names = [spec.name for spec in self.specs]
        self.output_names = [spec["name"] for spec in manifest["outputs"]]
        self._assumptions = question["assumptions"]
        self._places = list(question["places"].values())
        self._value = value_function(question["expression"], list(question["places"]))
        self._asked = variant(question["asks"]) if "asks" in question else None
        self._variants: dict[int, Callee] = {}
        self._lock = threading.Lock()

    def explained(self) -> dict[str, Any]:
        """The question's report, with what the programs for the answers so far say of themselves."""
        explain: dict[str, Any] = dict(self.manifest["explain"])
        explain["variants"] = {self._assumption(value): c.explained() for value, c in self._variants.items()}
        for each in explain["variants"].values():
            for key in ("kernels", "hosted", "refused", "guards"):  # what counts kernels stays with each variant
                explain[key] = [*explain[key], *each[key]]
            explain["functions"] = {**explain["functions"], **each["functions"]}
        return explain

    def __call__(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Runs the program for the answer that these inputs give. Raises InputError for inputs that do not fit."""
        return dict(zip(self.output_names, self.run_in_order(self._in_order(args, kwargs))))

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[Any]:
        """The outputs named, or all of them (None), as a list."""
        return self._callee(self._named(feeds)).run(names, feeds)

    def run_in_order(self, values: Sequence[object]) -> list[Any]:
        """All outputs, of all inputs in their order."""
        return self._callee(values).run_in_order(values)

    def run_into(self, outputs: Mapping[str, Array], feeds: Mapping[str, object]) -> None:
        """Runs the program and writes the named outputs into these arrays."""
        self.bind(feeds, outputs)()

    def bind(self, feeds: Mapping[str, object], outputs: Mapping[str, Array] | None = None) -> Callable[[], Any]:
        """A call of the program for these inputs' answer, with its arrays fixed."""
        return self._callee(self._named(feeds)).bind(feeds, outputs)

    def _default(self, index: int) -> Array:
        raise InputError(f"input '{self.input_names[index]}' is missing")

    def _callee(self, values: Sequence[object]) -> Callee:
        """The program for the answer that these inputs give; the first time it is compiled, or found in the cache."""
        if self._asked is not None:
            value = int(self._asked.run_in_order(values)[0].reshape(-1)[0])
        else:
            value = self._value([self._known(values, place) for place in self._places])
        if len(self._assumptions) == 2:
            value = int(value != 0)
        found = self._variants.get(value)
        if found is None:
            with self._lock:
                found = self._variants.get(value)
                if found is None:
                    found = self._variants[value] = self._variant(self._assumption(value))
        return found

    def _assumption(self, value: int) -> str:
        return self._assumptions[value] if len(self._assumptions) == 2 else self._assumptions[0].format(value)

    def _known(self, values: Sequence[object], place: Place) -> int:
        """The value of a symbol."""
        index, at = place["input"], place["at"]
        if index >= len(values):
            raise InputError(f"input '{self.input_names[index]}' is missing")
        value = values[index]
        if place["kind"] == "rank" and isinstance(value, (list, tuple)) and self.specs[index].is_object:
            return self._rank_in(index, cast("Sequence[object]", value))
        array = value if isinstance(value, np.ndarray) else as_input(value, self.specs[index])
        if place["kind"] == "rank":
            return array.ndim
        if place["kind"] == "axis":
            if at >= array.ndim:
                raise InputError(
                    f"input '{self.input_names[index]}' has rank {array.ndim}, expected {self.specs[index].rank}"
                )
            return array.shape[at]
        if at >= array.size:
            raise InputError(f"input '{self.input_names[index]}' has {array.size} elements, and no element {at}")
        return int(array.reshape(-1)[at])

    def _rank_in(self, index: int, tensors: Sequence[object]) -> int:
        """The one rank that the tensors of a sequence have; of none, 1."""
        ranks = sorted({np.ndim(cast("Any", tensor)) for tensor in tensors}) or [1]
        if len(ranks) > 1:
            raise InputError(f"input '{self.input_names[index]}' has tensors of ranks {ranks[0]} and {ranks[-1]}")
        return ranks[0]
