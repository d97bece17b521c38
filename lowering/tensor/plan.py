"""Decides which lazy tensors a kernel computes into memory, and which of those share one loop nest.

Roots are what must exist as tensors: results, reductions, templates and their operands, and values that would be
computed again too often.  Roots over the same iteration space that do not need each other whole run in one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE, ZERO
from .graph import Dims, Leaf, Literal, Node, Reduce, Sizes, Template, TemplateResult, Use, View
from .index_space import IndexSpace, product

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
        stack: list[Group] = [self]
        seen: set[Group] = {self}
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


def reduces_first(root: Node) -> bool:
    """Whether a root reduces the first axis of its loops, so that it has no rows and runs behind what it reads.

    Then it reads what is stored, and computes nothing again.
    """
    if not isinstance(root, Reduce):
        return False
    first = next((axis for axis, d in enumerate(root.source.dims) if d is not ONE), None)
    return first in root.axes


def is_stored(node: Node) -> bool:
    """Whether its elements are in memory, or constants, without any root."""
    return isinstance(node, (Leaf, Literal, Sizes))


def is_tensor(node: Node) -> bool:
    """Whether there is a tensor of it without any root."""
    return isinstance(node, (Leaf, Literal))


def is_boundary(node: Node) -> bool:
    """Whether it can only be a root: its elements are not a formula of an index."""
    return isinstance(node, (Reduce, Template, TemplateResult))


def kept_node(node: Node) -> Node:
    """The node whose tensor also serves for this one: what is behind views that only change the dims."""
    while isinstance(node, View) and is_reinterpreted(node):
        node = node.source
    return node


def is_reinterpreted(view: View) -> bool:
    """Whether a view has its source's elements in the same order: other dims, no other place for any element."""
    if product(view.dims) is not product(view.source.dims):
        return False
    loops = {f"i{k}": d for k, d in enumerate(view.dims) if d is not ONE}
    space = IndexSpace(loops)
    index = tuple(Dim.symbol(f"i{k}") if d is not ONE else ZERO for k, d in enumerate(view.dims))
    inner = view.index_map(space, index)
    return space.linearize(inner, view.source.dims) is space.linearize(index, view.dims)


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
        wanted = [*self.results, *self.extra]
        for node in self.order:
            if isinstance(node, Template):
                wanted.extend(node.inputs)
        for node in map(kept_node, wanted):
            if not is_tensor(node) and not isinstance(node, TemplateResult):
                self.roots.add(node)
        self._keep_what_is_repeated()
        self.groups = self._grouped()
        self._keep_what_is_shared()
        self.groups = self._grouped()

    def _inlining_costs(self) -> dict[Node, float]:
        """The cost of one element of each node, with all that is inlined into it."""
        costs: dict[Node, float] = {}
        for node in self.order:
            if is_boundary(node) or is_stored(node):
                costs[node] = 0 if isinstance(node, (Literal, Sizes)) else LOAD
            else:
                own = node.cost + sum(LOAD if s in self.roots else costs[s] for s, _ in node.reads())
                costs[node] = min(own, 1e6)
        return costs

    def _keep_what_is_repeated(self) -> None:
        """Makes roots of costly values that one consumer reads many times (a row's statistics, say)."""
        repeated: set[Node] = set()
        for node in reversed(self.order):
            if isinstance(node, Template):
                continue
            for source, use in node.reads():
                if use is Use.MANY or (isinstance(node, View) and node in repeated):
                    repeated.add(source)
        costs = self._inlining_costs()
        for node in self.order:
            own = node.cost + sum(0 if s in self.roots else costs[s] for s, _ in node.reads())
            costs[node] = LOAD if node in self.roots else costs[node]
            if node in repeated and self._may_keep(node):
                work = own - sum(LOAD for s, _ in node.reads() if is_stored(s) and not isinstance(s, (Literal, Sizes)))
                if work >= COSTLY:
                    self.roots.add(node)

    def _keep_what_is_shared(self) -> None:
        """Makes roots of values that several groups need, where keeping them is cheaper than computing them again."""
        costs = self._inlining_costs()
        group_of = {root: g for g in self.groups for root in g.roots}
        users: dict[Node, set[Group]] = {n: set() for n in self.order}
        chosen: list[Node] = []
        for node in reversed(self.order):
            if node in self.roots:
                users[node] = {group_of[node]}
            elif self._may_keep(node) and costs[node] * (len(users[node]) - 1) > len(users[node]) + 2:
                chosen.append(node)
                users[node] = {Group([node], ())}  # what it reads is used in one place
            if not isinstance(node, Template):
                for source, _ in node.reads():
                    users[source] |= users[node]
        self.roots.update(chosen)

    def _may_keep(self, node: Node) -> bool:
        """Whether a node could become a root; of a view, what it shows is kept instead."""
        return node not in self.roots and not is_stored(node) and not is_boundary(node) and not isinstance(node, View)

    # Groups

    def _grouped(self) -> list[Group]:
        """The groups, in order; a template whose result is also read outside of its epilogue gets none."""
        self._stored_whole: set[Template] = {t for t in self.roots if isinstance(t, Template) and self._is_result(t)}
        while True:
            group_of: dict[Node, Group] = {}
            groups: list[Group] = []
            for root in self.order:
                if root in self.roots:
                    group_of[root] = self._join(root, groups, group_of)
            read_outside = self._read_outside(group_of)
            if not read_outside:
                return _sorted(groups)
            self._stored_whole |= read_outside

    def _is_result(self, template: Template) -> bool:
        return any(kept_node(r) in template.results for r in self.results)

    def _read_outside(self, group_of: dict[Node, Group]) -> set[Template]:
        """Templates with an epilogue whose own result some root outside of their group reads too."""
        found: set[Template] = set()
        for root, group in group_of.items():
            for need in self.needed_roots(root):
                other = group_of[need]
                if other is not group and isinstance(need, Template) and len(other.roots) > 1:
                    found.add(need)
        return found

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
                if not aligned or isinstance(need, Reduce) or reduces_first(root):
                    return False
            elif other.depends_on(group):
                return False
        return True

    def _is_epilogue(self, root: Node, template: Template, needed: dict[Node, bool]) -> bool:
        """Whether the root can be computed where the template stores."""
        if not template.accumulates or template in self._stored_whole or isinstance(root, Reduce):
            return False
        return root.dims == template.results[0].dims and needed.get(template) is True

    def origin_of(self, group: Group) -> tuple[int, ...]:
        """The ids of the model's nodes that a group computes."""
        seen: set[Node] = set(group.roots)
        stack = list(group.roots)
        found: set[int] = set()
        while stack:
            node = stack.pop()
            found.update(node.origin)
            for source, _ in node.reads():
                if source not in seen and source not in self.roots and not is_boundary(source):
                    seen.add(source)
                    stack.append(source)
        return tuple(sorted(found))

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
