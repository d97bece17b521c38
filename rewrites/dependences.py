"""What in a block must run before what: paths between groups of operators, and an order for them."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation

from .groups import Group
from .uses import bound_symbols, symbols_of


@dataclass
class Dependences:
    """The ops of a block by number, and what each needs.  Of groups, all ops run at one time."""

    block: Block
    index: dict[Operation, int] = field(default_factory=dict[Operation, int])
    binders: dict[str, Operation] = field(default_factory=dict[str, Operation])
    _needs: dict[Operation, list[Operation]] = field(default_factory=dict[Operation, list[Operation]])

    def __post_init__(self) -> None:
        for at, op in enumerate(self.block.ops):
            self.index[op] = at
            for symbol in bound_symbols(op):
                self.binders[symbol] = op

    def needs(self, op: Operation) -> list[Operation]:
        """The ops of this block that must run before `op`: producers, those of values its regions capture, binders."""
        if (known := self._needs.get(op)) is not None:
            return known
        found: list[Operation] = []
        for inner in op.walk():
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is self.block:
                    found.append(owner)
            for symbol in symbols_of(inner):
                if (binder := self.binders.get(symbol)) is not None and binder is not op:
                    found.append(binder)
        self._needs[op] = needs = [f for f in found if f is not op]
        return needs

    def has_path_between(
        self, p: Group, c: Group, group_of: Mapping[Operation, Group], through: Collection[Operation] = ()
    ) -> bool:
        """Whether on some path from `p` to `c` there is an op outside of both that is not one of `through`."""
        last = max(self.index[op] for op in c.ops)
        members = {*p.ops, *c.ops}
        first = min(self.index[op] for op in p.ops)
        # whether what the way went through so far is more than views
        stack = [(n, False) for op in c.ops for n in self.needs(op) if n not in members]
        seen: set[tuple[Operation, bool]] = set()
        while stack:
            op, behind = stack.pop()
            real = behind or op not in through
            if (op, real) in seen or self.index[op] < first or self.index[op] > last:
                continue
            seen.add((op, real))
            for member in group_of[op].ops if op in group_of else [op]:
                for need in self.needs(member):
                    if need in p.ops:
                        if real:
                            return True
                    elif need not in members:
                        stack.append((need, real))
        return False

    def in_order(self, group_of: Mapping[Operation, Group]) -> list[Group | Operation]:
        """Groups and other ops so that each comes after what it needs, else as the block has them."""
        units: dict[int, Group | Operation] = {}
        unit_of: dict[Operation, int] = {}
        for op, at in self.index.items():
            group = group_of.get(op)
            key = at if group is None else max(self.index[o] for o in group.ops)
            units[key] = group if group is not None else op
            unit_of[op] = key
        waiting: dict[int, set[int]] = {}
        followers: dict[int, list[int]] = {}
        for key, unit in units.items():
            members = unit.ops if isinstance(unit, Group) else [unit]
            before = {unit_of[n] for op in members for n in self.needs(op)} - {key}
            waiting[key] = before
            for b in before:
                followers.setdefault(b, []).append(key)
        ready = [key for key, before in waiting.items() if not before]
        heapq.heapify(ready)
        order: list[Group | Operation] = []
        while ready:
            key = heapq.heappop(ready)
            order.append(units[key])
            for f in followers.get(key, ()):
                waiting[f].discard(key)
                if not waiting[f]:
                    heapq.heappush(ready, f)
        assert len(order) == len(units), "the groups of a block form a cycle"
        return order
