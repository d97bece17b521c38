"""Ops that together are one node of the file: what an upgrade or the instantiation of a call made of it.

All members carry `onnx.part`, the node's id.  The member that the node's results come from carries `onnx.whole`: a
fingerprint of the members, which inputs of the node the group reads, and which values are its results.  While the
fingerprint holds, export writes the node as it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from .attributes import int_attr, ints_attr, plain

PART, WHOLE = "onnx.part", "onnx.whole"


@dataclass(frozen=True)
class Group:
    """A node's members in block order, its inputs and results by formal position (None for absent ones).

    `unread` are the positions of inputs that the node has and no member reads: which values they are is not known here.
    """

    node: int
    members: tuple[Operation, ...]
    inputs: tuple[SSAValue | None, ...]
    results: tuple[SSAValue | None, ...]
    unread: tuple[int, ...]


def part_of(op: Operation) -> int | None:
    """The node that the op is a part of; None where it is none or a node of its own."""
    found = op.attributes.get(PART)
    return found.value.data if isinstance(found, IntegerAttr) else None


def mark_group(
    node: int, members: Sequence[Operation], inputs: Sequence[SSAValue | None], results: Sequence[SSAValue | None]
) -> None:
    """Makes the ops (of one block, in its order) a group. A result may be one of the inputs."""
    if not members:
        return
    for op in members:
        op.attributes[PART] = int_attr(node)
    mark, outside = _fingerprint(members)
    places = [_place(value, members, inputs) for value in results]
    read = [next(i for i, v in enumerate(inputs) if v is value) for value in outside if value in inputs]
    if len(read) < len(outside):
        return  # it reads more than the node does (what a body takes from around it), so it cannot be written as it
    members[-1].attributes[WHOLE] = DictionaryAttr(
        {
            "fingerprint": StringAttr(mark),
            "members": int_attr(len(members)),
            "inputs": ints_attr(tuple(read)),
            "present": ints_attr(tuple(int(v is not None) for v in inputs)),
            "results": ArrayAttr([ints_attr(place) for place in places]),
        }
    )


def _place(value: SSAValue | None, members: Sequence[Operation], inputs: Sequence[SSAValue | None]) -> tuple[int, ...]:
    """() for an absent result, (member, result) for a member's, (input,) for an input that is passed on."""
    if value is None:
        return ()
    for index, op in enumerate(members):
        for at, result in enumerate(op.results):
            if result is value:
                return index, at
    return (next(i for i, v in enumerate(inputs) if v is value),)


def group_at(op: Operation) -> Group | None:
    """The group whose last member this op is, if it is still as it was made; None otherwise."""
    whole, node = op.attributes.get(WHOLE), part_of(op)
    if not isinstance(whole, DictionaryAttr) or node is None:
        return None
    found = whole.data
    members = tuple(_members_before(op, node, plain(found["members"])))
    mark, outside = _fingerprint(members)
    read: list[int] = plain(found["inputs"])
    present: list[int] = plain(found["present"])
    if found["fingerprint"] != StringAttr(mark) or len(outside) != len(read):
        return None
    inputs: list[SSAValue | None] = [None] * len(present)
    for at, value in zip(read, outside):
        inputs[at] = value
    results: list[SSAValue | None] = []
    for place in (plain(p) for p in cast("ArrayAttr[Attribute]", found["results"])):
        match place:
            case []:
                results.append(None)
            case [at]:
                results.append(inputs[at])
            case [member, at]:
                results.append(members[member].results[at])
            case _:
                return None
    unread = tuple(at for at, there in enumerate(present) if there and at not in read)
    return Group(node, members, tuple(inputs), tuple(results), unread)


def _members_before(last: Operation, node: int, count: int) -> list[Operation]:
    """The group's members up to `last`, as many as there are; they need not be neighbours."""
    members: list[Operation] = []
    op: Operation | None = last
    while op is not None and len(members) < count:
        if part_of(op) == node:
            members.append(op)
        op = op.prev_op
    return members[::-1]


def _fingerprint(members: Sequence[Operation]) -> tuple[str, list[SSAValue]]:
    """A digest of what the ops are and how they are connected, and the values that they read from outside."""
    numbers: dict[SSAValue, str] = {}
    outside: list[SSAValue] = []
    text: list[str] = []

    def visit(op: Operation) -> None:
        text.append(op.name)
        text.extend(f"{key}={value}" for key, value in sorted(op.properties.items()))
        for operand in op.operands:
            if operand not in numbers:
                numbers[operand] = f"<{len(outside)}"
                outside.append(operand)
            text.append(numbers[operand])
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    numbers[argument] = f"%{len(numbers)}"
                for inner in block.ops:
                    visit(inner)
        for result in op.results:
            numbers[result] = f"%{len(numbers)}"
        text.append(f"{len(op.results)};")

    for op in members:
        visit(op)
    return hashlib.blake2b("\n".join(text).encode(), digest_size=8).hexdigest(), outside
