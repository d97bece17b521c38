"""Other choices for a part of a kernel that may be faster: a few neighbours of what the cost model chose.

They come in two rounds: first register tiles and algorithms, then, around the best of those, blocks, prefetches and
grains.  Nothing here decides whether a variant can be: the lowering refuses what cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..dialects.target import Target
from .choices import GRAIN_CYCLES, LOOPS, Given, Number
from .kernels.strassen import STRASSEN

MOST = 6
"""Variants of one round, at most."""

Chosen = Mapping[str, Number]


def variants(part: str, chosen: Chosen, target: Target, turn: int) -> list[Given]:
    """What to give for a part instead, in the first round (turn 0) or the second, likely ones first."""
    template = part.split(".")[0]
    found: list[Given] = []
    for given in ROUNDS.get(template, (nothing, grains))[turn](chosen, target):
        changes = any(chosen.get(name) != value for name, value in given.items())
        if changes and given not in found:
            found.append(given)
    return found[:MOST]


def nothing(chosen: Chosen, target: Target) -> Iterator[Given]:
    """No variant."""
    return iter(())


def number(chosen: Chosen, name: str) -> int:
    """A choice that is a number."""
    value = chosen.get(name, 0)
    return value if isinstance(value, int) else 0


def tiles(chosen: Chosen, target: Target) -> Iterator[Given]:
    """The highest tile for each number of vectors, by how many products a loaded value is used in; then lower ones."""
    registers, panels = target.vector_registers, max(1, number(chosen, "panels"))
    heights = {v: (registers - v * panels - 1) // (v * panels) for v in range(1, 7)}
    usable = [(rows, v) for v, rows in heights.items() if rows > 0]
    for rows, v in sorted(usable, key=lambda t: (t[0] + t[1]) / (t[0] * t[1]) - (t[0] * t[1]) / 100):
        yield {"rows": rows, "vectors": v}
    rows, v = number(chosen, "rows"), number(chosen, "vectors")
    for lower in (rows - 1, rows * 2 // 3, rows // 2):
        if lower > 0:
            yield {"rows": lower, "vectors": v}


def product_tiles(chosen: Chosen, target: Target) -> Iterator[Given]:
    """As `tiles`; the panels of a few rows too. By Strassen's algorithm panels have their width."""
    if chosen.get("algorithm") == STRASSEN:
        for rows in (number(chosen, "rows") - 1, number(chosen, "rows") - 2):
            yield {"rows": rows}
        return
    if number(chosen, "panels") > 1:
        for panels in (1, 2, 3, 4, 6):
            yield {"panels": panels}
    yield from tiles(chosen, target)


def product_blocks(chosen: Chosen, target: Target) -> Iterator[Given]:
    rows, block = number(chosen, "rows"), number(chosen, "row_block")
    if chosen.get("algorithm") != STRASSEN:
        yield {"steps_ahead": 0}
        yield {"steps_ahead": number(chosen, "steps_ahead") * 2}
    yield {"row_block": max(rows, block // 2 // max(rows, 1) * rows)}
    yield {"row_block": block * 2}
    yield {"groups_ahead": 1 - number(chosen, "groups_ahead")}
    yield from grains(chosen, target)


def conv_tiles(chosen: Chosen, target: Target) -> Iterator[Given]:
    """What vectors run over, another algorithm with the same sums, and register tiles."""
    if chosen.get("algorithm") == "depthwise":
        for rows in (8, 6, 4, 3, 2):
            yield {"rows": rows}
        yield {"algorithm": "direct"}
        return
    if chosen.get("algorithm") == "direct":
        other = "channels" if chosen.get("vectors_over") == "positions" else "positions"
        yield {"vectors_over": other}
    for given in tiles(chosen, target):
        kept = {"vectors_over": chosen["vectors_over"]} if "vectors_over" in chosen else {}
        yield {**given, **kept}


def conv_blocks(chosen: Chosen, target: Target) -> Iterator[Given]:
    if chosen.get("algorithm") == "direct":
        yield {"outer": "channels" if chosen.get("outer") == "positions" else "positions"}
        yield {"channels_ahead": 0 if number(chosen, "channels_ahead") else 8}
        yield {"tiles_ahead": 0 if number(chosen, "tiles_ahead") else 1}
    if chosen.get("algorithm") != "depthwise":
        yield {"steps_ahead": 0 if number(chosen, "steps_ahead") else 32}
    yield from grains(chosen, target)


def attention_tiles(chosen: Chosen, target: Target) -> Iterator[Given]:
    rows = number(chosen, "rows")
    for other in (rows - 1, rows * 2 // 3, rows // 2, rows // 3):
        if other > 0:
            yield {"rows": other}


def loop_vectors(chosen: Chosen, target: Target) -> Iterator[Given]:
    yield {"most_lanes": max(4, target.lanes(8))}
    yield {"column_tile": number(chosen, "column_tile") // 2}
    yield {"column_tile": number(chosen, "column_tile") * 2}
    yield {"straight_cycles": number(chosen, "straight_cycles") * 2}
    yield {"straight_cycles": number(chosen, "straight_cycles") // 3}


def loop_blocks(chosen: Chosen, target: Target) -> Iterator[Given]:
    yield {"parallel_iterations": 8}
    yield {"block_stretch": number(chosen, "block_stretch") // 4}
    yield {"serial_cycles": 4 * GRAIN_CYCLES}
    yield from grains(chosen, target)


def grains(chosen: Chosen, target: Target) -> Iterator[Given]:
    grain = number(chosen, "grain_cycles")
    yield {"grain_cycles": grain * 4}
    yield {"grain_cycles": max(1, grain // 4)}


Variants = Callable[[Chosen, Target], Iterator[Given]]

ROUNDS: dict[str, tuple[Variants, Variants]] = {
    "attention": (attention_tiles, grains),
    "conv": (conv_tiles, conv_blocks),
    "conv_transpose": (conv_tiles, conv_blocks),
    "convinteger": (tiles, conv_blocks),
    "einsum": (product_tiles, product_blocks),
    "matmul": (product_tiles, product_blocks),
    "matmulinteger": (product_tiles, product_blocks),
    "qlinearconv": (tiles, conv_blocks),
    "qlinearmatmul": (product_tiles, product_blocks),
    LOOPS: (loop_vectors, loop_blocks),
}
"""By template: the variants of both rounds. A template that is not here has a grain only."""
