"""Decides which lazy tensors a kernel computes into memory, and which of those share one loop nest.

Roots are what must exist as tensors: results, reductions, templates and their operands, and values that would be
computed again too often.  Roots over the same iteration space that do not need each other whole run in one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...dialects.dims.expression import ONE
from .graph import Dims, Leaf, Literal, Node, Pointwise, Reduce, Sizes, Template, TemplateResult, Use, View

LOAD = 1.0
COSTLY = 4.0
"""What makes recomputing a value for each element of a larger space dearer than keeping it: a division, say."""


@dataclass(eq=False)
class Group:
    """Roots that one loop nest computes, or a template with the roots of its epilogue."""

    roots: list[Node]
    space: Dims
    template: Template | None = None
    needs: set[Group] = field(default_factory=set["Group"])

    def depends_on(self, other: Group) -> bool:
        """Whether it needs the other group, directly or not."""
        stack, seen = [self], {self}
        while stack:
            for need in stack.pop().needs:
                if need is other:
                    return True
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
        return False


def space_of(root: Node) -> Dims:
    """The dims that a root's loops run over, without those of size 1."""
    dims = root.source.dims if isinstance(root, Reduce) else root.dims
    return tuple(d for d in dims if d is not ONE)


def is_stored(node: Node) -> bool:
    """Whether its elements are in memory, or constants, without any root."""
    return isinstance(node, (Leaf, Literal, Sizes))


def is_tensor(node: Node) -> bool:
    """Whether there is a tensor of it without any root."""
    return isinstance(node, (Leaf, Literal))


def is_boundary(node: Node) -> bool:
    """Whether it can only be a root: its elements are not a formula of an index."""
    return isinstance(node, (Reduce, Template, TemplateResult))


def in_order(results: Iterable[Node]) -> list[Node]:
    """All nodes that the results need, each after those that it reads."""
    order: list[Node] = []
    done: set[Node] = set()
    stack = [(r, False) for r in reversed(list(results))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source, _ in reversed(node.reads()))
    return order


@dataclass
class Plan:
    """The groups in execution order, for the results in the order given; `extra` are further roots."""

    results: Sequence[Node]
    extra: Sequence[Node] = ()

    def __post_init__(self) -> None:
        self.order = in_order(self.results)
        self.roots: set[Node] = {n for n in self.order if isinstance(n, (Reduce, Template))}
        self.roots.update(r for r in self.results if not is_tensor(r) and not isinstance(r, TemplateResult))
        self.roots.update(n for n in self.extra if n in set(self.order))
        for node in self.order:
            if isinstance(node, Template):
                self.roots.update(i for i in node.inputs if not is_tensor(i))
        self.groups = self._grouped()
        chosen = self._worth_keeping()
        if chosen:
            self.roots.update(chosen)
            self.groups = self._grouped()

    @cached_property
    def costs(self) -> dict[Node, float]:
        """The cost of one element of each node, with all that is inlined, where no further root is chosen."""
        costs: dict[Node, float] = {}
        for node in self.order:
            if is_boundary(node) or is_stored(node):
                costs[node] = LOAD if not isinstance(node, (Literal, Sizes)) else 0
            else:
                own = node.cost + sum(LOAD if s in self.roots else costs[s] for s, _ in node.reads())
                costs[node] = min(own, 1e6)
        return costs

    def _worth_keeping(self) -> list[Node]:
        """Values that are cheaper to keep than to compute again: used by several groups, or often by one."""
        group_of = {root: g for g in self.groups for root in g.roots}
        users: dict[Node, set[Group]] = {n: set() for n in self.order}
        often: set[Node] = set()
        chosen: list[Node] = []
        for node in reversed(self.order):
            if node in self.roots:
                users[node] = {group_of[node]}
            elif (
                not is_stored(node)
                and not isinstance(node, TemplateResult)
                and self._is_worth_keeping(node, users, often)
            ):
                chosen.append(node)
                users[node] = set()  # its own group, in which what it reads is used once
            if isinstance(node, Template):
                continue
            for source, use in node.reads():
                users[source] |= users[node] or {Group([node], ())}
                if use is Use.MANY or (use is Use.ONCE and node in often and node not in self.roots):
                    often.add(source)
                elif node in often and node not in self.roots and node not in chosen:
                    often.add(source)
        return chosen

    def _is_worth_keeping(self, node: Node, users: dict[Node, set[Group]], often: set[Node]) -> bool:
        cost = self.costs[node]
        if isinstance(node, View):
            return False  # what it shows is kept instead
        if node in often and cost - LOAD * _loads(node) >= COSTLY:
            return True
        count = len(users[node])
        return count > 1 and cost * (count - 1) > count + 2

    # Groups

    def _grouped(self) -> list[Group]:
        group_of: dict[Node, Group] = {}
        groups: list[Group] = []
        for root in self.order:
            if root not in self.roots:
                continue
            group = self._join(root, groups, group_of)
            group_of[root] = group
        return _sorted(groups)

    def _join(self, root: Node, groups: list[Group], group_of: dict[Node, Group]) -> Group:
        needed = self.needed_roots(root)
        space = space_of(root)
        if isinstance(root, Template):
            group = Group([root], space, root, {group_of[n] for n in needed})
            groups.append(group)
            return group
        for group in groups:
            if self._fits(root, space, needed, group, group_of):
                group.roots.append(root)
                group.needs |= {group_of[n] for n in needed} - {group}
                return group
        group = Group([root], space, None, {group_of[n] for n in needed})
        groups.append(group)
        return group

    def _fits(
        self, root: Node, space: Dims, needed: dict[Node, bool], group: Group, group_of: dict[Node, Group]
    ) -> bool:
        if group.template is not None:
            if not self._is_epilogue(root, group.template, needed):
                return False
        elif group.space != space:
            return False
        for need, aligned in needed.items():
            other = group_of[need]
            if other is group:
                if not aligned or isinstance(need, Reduce):
                    return False
            elif other.depends_on(group):
                return False
        return True

    def _is_epilogue(self, root: Node, template: Template, needed: dict[Node, bool]) -> bool:
        """Whether the root can be computed where the template stores: all of it that anyone reads goes through it."""
        if not template.accumulates or isinstance(root, Reduce) or root.dims != template.results[0].dims:
            return False
        if needed.get(template) is not True:
            return False
        result = template.results[0]
        return result not in self.results and self._is_read_only_by(result, root)

    def _is_read_only_by(self, result: Node, root: Node) -> bool:
        inside = set(self.inlined(root))
        return all(node in inside for node in self.order if any(s is result for s, _ in node.reads()))

    def inlined(self, root: Node) -> list[Node]:
        """The nodes whose formulas are part of the root's, with itself."""
        found: dict[Node, None] = {root: None}
        stack = [root]
        while stack:
            for source, _ in stack.pop().reads():
                if source not in found and source not in self.roots and not is_boundary(source):
                    found[source] = None
                    stack.append(source)
        return list(found)

    def needed_roots(self, root: Node) -> dict[Node, bool]:
        """The roots that it reads, and whether only the elements at its own place of the iteration space."""
        needed: dict[Node, bool] = {}
        seen: set[tuple[Node, bool]] = set()
        stack: list[tuple[Node, bool]] = [(root, True)]
        while stack:
            node, aligned = stack.pop()
            for source, use in node.reads():
                here = aligned and use is Use.ALIGNED
                if isinstance(source, TemplateResult):
                    source = source.template
                if source in self.roots:
                    needed[source] = needed.get(source, True) and here
                elif not is_stored(source) and (source, here) not in seen:
                    seen.add((source, here))
                    stack.append((source, here))
        return {n: a for n, a in needed.items() if not is_stored(n)}


def _loads(node: Node) -> int:
    """The elements that a node reads itself, at most: what inlining costs in any case."""
    return len(node.reads())


def _sorted(groups: list[Group]) -> list[Group]:
    """Each group after those that it needs, else as they are."""
    done: dict[Group, None] = {}

    def visit(group: Group) -> None:
        if group not in done:
            for need in (g for g in groups if g in group.needs):
                visit(need)
            done[group] = None

    for group in groups:
        visit(group)
    return list(done)


__all__ = ["Group", "Plan", "Pointwise", "space_of"]
