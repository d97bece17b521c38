"""What must hold of the lists that describe the trees of an ensemble, so that every walk ends in a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .context import ShapeError

Array = np.ndarray[Any, Any]


def places_of(attribute: str, trees: Array, nodes: Array, all_trees: Array, all_nodes: Array) -> Array:
    """Where the nodes that an attribute refers to are in the lists. Raises ShapeError for one that is not there."""
    both = np.stack([np.append(all_trees, trees), np.append(all_nodes, nodes)])
    _, known = np.unique(both, axis=1, return_inverse=True)
    known = known.reshape(-1)
    listed, wanted = known[: len(all_trees)], known[len(all_trees) :]
    place = np.full(len(known), -1, np.int64)
    place[listed[::-1]] = np.arange(len(listed))[::-1]  # the first of a name that several nodes have
    found = place[wanted]
    absent = np.flatnonzero(found < 0)
    if absent.size:
        tree, node = trees[absent[0]], nodes[absent[0]]
        raise ShapeError(f"its attribute '{attribute}' refers to node {node} of tree {tree}, which is not there")
    return found


def require_ends(parents: Array, children: Array, count: int, named: Callable[[int], str]) -> None:
    """Raises ShapeError where one of `count` nodes leads back to itself; `named` is what the file calls a node."""
    order = np.argsort(parents, kind="stable")
    parents, children = parents[order], children[order]
    first = np.searchsorted(parents, np.arange(count + 1))
    waiting = np.bincount(children, minlength=count)  # for so many ways that lead to a node
    ready = np.flatnonzero(waiting == 0)
    done = 0
    while ready.size:
        done += ready.size
        counts = first[ready + 1] - first[ready]
        begins = np.repeat(first[ready] - np.cumsum(counts) + counts, counts)
        below = children[begins + np.arange(len(begins))]
        np.subtract.at(waiting, below, 1)
        ready = np.unique(below[waiting[below] == 0])
    if done < count:
        raise ShapeError(f"{named(_on_cycle(parents, children, waiting > 0))} leads back to itself")


def _on_cycle(parents: Array, children: Array, stuck: Array) -> int:
    """A node of a cycle: each stuck node has a stuck one above it, so the way up comes round."""
    kept = stuck[parents] & stuck[children]
    above = dict(zip(children[kept].tolist(), parents[kept].tolist()))
    seen: set[int] = set()
    node = int(np.flatnonzero(stuck)[0])
    while node not in seen:
        seen.add(node)
        node = above[node]
    return node
