"""Sizes of a loop's states behind the loop, as expressions of those before it and of the number of iterations.

Of a state's size s an iteration makes s + g.  Where g is the same each time, or told by the iteration's number i, the
sum over all iterations is known:  g * T;  for g = i, T*(T - 1)//2;  for g = f(i + 1) - f(i), f(T) - f(0).  A size that
is cut to max(s - k, 0) is max(s - k*T, 0).  Sizes that grow while others shrink are known by what they have together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...dialects.dims import Dim
from ...dialects.dims.expression import ZERO, Call, Monomial, dim_max, dim_min
from ...semantics.facts import Facts, simplified

_MAX_TERMS, _MAX_CHOICES = 16, 4
"""Longer expressions are not kept."""
_MAX_TRIED = 4
"""Calls of an expression that may tell what it is a difference of."""


@dataclass(frozen=True)
class Change:
    """A size of a state: its symbol in the body, what it is before the loop, and what an iteration makes of it."""

    size: Dim
    start: Dim
    end: Dim


@dataclass(frozen=True)
class Course:
    """A size before iteration i, and behind the loop; the former is None where no iteration's number is known."""

    at: Dim | None
    after: Dim


@dataclass
class Courses:
    """The courses of a loop's sizes, by the size's symbol; those that cannot be told are left out."""

    changes: Sequence[Change]
    trips: Dim
    iteration: Dim | None
    visible: Callable[[Dim], bool]
    """Whether an expression is known outside of the body."""
    facts: Facts
    """What holds in an iteration."""

    def find(self) -> dict[str, Course]:
        self.found: dict[str, Course] = {}
        waiting = list(self.changes)
        while waiting:
            left = [change for change in waiting if not self._tell(change)]
            if len(left) == len(waiting):
                break
            waiting = left
        return self.found

    def _tell(self, change: Change) -> bool:
        """Adds the course of a size where it can be told."""
        size, start = change.size, change.start
        gain = self._known(change.end - size)
        if size.symbols.isdisjoint(gain.symbols):
            sums = self._sums(gain)
            if sums is not None:
                return self._keep(change, lambda t: start + sums(t))
        elif (less := cut(size, simplified(change.end, self.facts))) is not None:
            return self._keep(change, lambda t: dim_max(start - less * t, 0))
        return any(self._tell_with(change, other) for other in self.changes if str(other.size) in self.found)

    def _tell_with(self, change: Change, other: Change) -> bool:
        """Adds the course of a size where what it has together with another one, of known course, can be told."""
        course = self.found[str(other.size)]
        times = _opposed(change.end - change.size, other.end - other.size)
        if times is None:
            return False
        sums = self._sums(self._known(change.end - change.size + times * (other.end - other.size)))
        if sums is None:
            return False
        together = change.start + times * other.start
        after = together + sums(self.trips) - times * course.after
        at = course.at
        if at is None or self.iteration is None:
            return self._add(change, None, after)
        return self._add(change, together + sums(self.iteration) - times * at, after)

    def _known(self, d: Dim) -> Dim:
        """An expression of an iteration, with sizes of known course by its number."""
        d = d.subs({name: course.at for name, course in self.found.items() if course.at is not None})
        return d if self.visible(d) else simplified(d, self.facts)

    def _keep(self, change: Change, course: Callable[[Dim], Dim]) -> bool:
        at = None if self.iteration is None else course(self.iteration)
        return self._add(change, at, course(self.trips))

    def _add(self, change: Change, at: Dim | None, after: Dim) -> bool:
        if len(after.terms) > _MAX_TERMS or after.choices > _MAX_CHOICES:
            return False
        self.found[str(change.size)] = Course(at, after)
        return True

    def _sums(self, gain: Dim) -> Callable[[Dim], Dim] | None:
        """The sum of the gains of iterations 0 to t - 1, as a function of t; None where it cannot be told."""
        if self.visible(gain):
            return lambda t: gain * t
        iteration = self.iteration
        if iteration is None or not self.visible(gain.subs({str(iteration): 0})):
            return None
        name = str(iteration)
        straight = Dim.of_terms((c, m) for c, m in gain.terms if not _has_call_of(m, name))
        first = straight.subs({name: 0})
        slope = straight.subs({name: 1}) - first
        step = self._difference(gain - straight, iteration)
        if step is None or straight is not first + slope * iteration:
            first, slope = ZERO, ZERO
            step = self._proved_difference(gain, iteration)
            if step is None:
                return None

        def total(t: Dim) -> Dim:
            return first * t + slope * (t * (t - 1) // 2) + step.subs({name: t}) - step.subs({name: 0})

        return total

    def _difference(self, whole: Dim, iteration: Dim) -> Dim | None:
        """f where the terms of the whole are those of f(i + 1) - f(i)."""
        for sign in (1, -1):
            part = Dim.of_terms((-c, m) for c, m in whole.terms if c * sign < 0)
            if part.subs({str(iteration): iteration + 1}) - part is whole:
                return part
        return None

    def _proved_difference(self, gain: Dim, iteration: Dim) -> Dim | None:
        """min(a, n) where an iteration takes what is between i*k and i*k + k of n: its calls tell a and n."""
        name = str(iteration)
        for call in list(dict.fromkeys(_calls_of(gain, name)))[:_MAX_TRIED]:
            for shift in (0, -1):
                part = dim_min(*(a.subs({name: iteration + shift}) for a in call.args))
                if self.facts.prove_eq(gain, part.subs({name: iteration + 1}) - part):
                    return part
        return None


def _has_call_of(monomial: Monomial, name: str) -> bool:
    return any(atom.args is not None and name in atom.symbols for atom, _ in monomial)


def _calls_of(d: Dim, name: str) -> Iterator[Call]:
    """The calls of min and max that a symbol is in, also inside of others."""
    for _, monomial in d.terms:
        for atom, _ in monomial:
            if atom.args is not None and name in atom.symbols:
                if atom.kind in ("min", "max"):
                    yield atom
                for argument in atom.args:
                    yield from _calls_of(argument, name)


def cut(size: Dim, after: Dim) -> int | None:
    """k > 0 where an iteration leaves `max(size - k, 0)` of a size."""
    constants = [
        a.value for _, m in after.terms for atom, _ in m if atom.args is not None for a in atom.args if a.is_const
    ]
    return next((k for k in constants if k > 0 and dim_max(size - k, 0) is after), None)


def _opposed(gain: Dim, other: Dim) -> int | None:
    """How often another gain is to be added so that the first call that both have is gone."""
    counts = {m: c for c, m in other.terms if any(atom.args is not None for atom, _ in m)}
    return next((-c // counts[m] for c, m in gain.terms if m in counts and c % counts[m] == 0), None)


__all__ = ["Change", "Course", "Courses"]
