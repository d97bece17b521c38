"""Arenas and growing regions."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest
from sardonyx.runtime import memory
from sardonyx.runtime.memory import Arena, GrowingRegion, Mapping


def is_mapped(address: int) -> bool:
    """Whether this process has memory at the address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return True
    return False


def test_mappings_are_zero_and_go_with_their_object() -> None:
    mapping = Mapping(3 << 20)
    assert mapping.size == 4 << 20
    assert mapping.address % 4096 == 0
    block = (ctypes.c_uint8 * mapping.size).from_address(mapping.address)
    assert block[0] == block[mapping.size - 1] == 0
    address = mapping.address
    del mapping
    gc.collect()
    assert not is_mapped(address)


@pytest.mark.parametrize("size", [0, -1, 1 << 46, 1 << 70])
def test_absurd_sizes_are_errors(size: int) -> None:
    with pytest.raises(MemoryError):
        Mapping(size)


def test_an_arena_grows_and_keeps_what_it_has() -> None:
    arena = Arena()
    assert (arena.address, arena.size) == (0, 0)
    arena.reserve(0)
    assert arena.size == 0
    arena.reserve(100)
    first = arena.address
    assert arena.size >= 100
    arena.reserve(50)
    assert arena.address == first
    arena.reserve(1 << 20)
    assert arena.size >= 1 << 20
    with pytest.raises(MemoryError):
        arena.reserve(1 << 46)
    assert arena.size >= 1 << 20
    (ctypes.c_uint8 * arena.size).from_address(arena.address)[arena.size - 1] = 7


def test_what_is_behind_an_arena_can_be_asked_for() -> None:
    arena = Arena()
    arena.reserve(5000)
    last = arena.address + arena.size
    assert all(is_mapped(last + at) for at in range(0, memory.BEHIND, 4096))


def test_a_region_grows_in_place_up_to_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 << 20)
    region = GrowingRegion()
    assert region.end == region.address
    address = region.address
    for size in (1, 5000, 3 << 20, 8 << 20):
        region.reach(address + size)
        assert region.address == address
        assert region.end >= address + size
        ctypes.c_uint8.from_address(address + size - 1).value = 1
    with pytest.raises(MemoryError):
        region.reach(address + (8 << 20) + 1)
    region.reach(address + 100)


def test_a_limit_on_address_space_leaves_a_smaller_region(monkeypatch: pytest.MonkeyPatch) -> None:
    original = memory.Mapping

    class Limited(original):
        def __init__(self, size: int, **options: int) -> None:
            if size > 1 << 30:
                raise MemoryError(size)
            super().__init__(size, **options)

    monkeypatch.setattr(memory, "Mapping", Limited)
    region = GrowingRegion()
    region.reach(region.address + (1 << 20))
    with pytest.raises(MemoryError):
        region.reach(region.address + (1 << 30) + 1)
