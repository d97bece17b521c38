"""What is in an ELF x86-64 object: its sections, its symbols, and the places that wait for addresses.

Source: System V ABI, chapter 4 (object files: section header, symbol table, relocation), and its x86-64 supplement.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")

MACHINE_X86_64 = 62
RELOCATABLE = 1
SYMBOL_TABLE = 2
RELOCATIONS = 4
NO_BYTES = 8
IN_MEMORY, EXECUTABLE = 2, 4
ABSOLUTE_SECTION = 0xFFF1
COMMON_SECTION = 0xFFF2
UNDEFINED_SECTION = 0
LOCAL = 0


@dataclass(frozen=True)
class Symbols:
    """Names of the global and weak symbols of an object, in the order of its table."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A section that is in memory when the object runs: its bytes (zeros where it has none), alignment, and kind."""

    data: bytes
    align: int
    executable: bool


@dataclass(frozen=True)
class Symbol:
    """A name's place in a section; section None where another object defines it."""

    name: str
    section: int | None
    offset: int
    is_local: bool


@dataclass(frozen=True)
class Relocation:
    """Bytes of a section that get the address of a symbol plus a number, in the form that `kind` says."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class Object:
    """All that linking needs. Sections are by their number in the file."""

    sections: dict[int, Section]
    symbols: list[Symbol]
    relocations: list[Relocation]


class MalformedObjectError(ValueError):
    """The bytes are no ELF object for x86-64, or are cut off."""


def symbols(data: bytes) -> Symbols:
    """The non-local symbols of the object `data`. Raises MalformedObjectError."""
    named = [s for s in read(data).symbols if s.name and not s.is_local]
    return Symbols(
        tuple(s.name for s in named if s.section is not None), tuple(s.name for s in named if s.section is None)
    )


def read(data: bytes) -> Object:
    """The object `data`. Raises MalformedObjectError."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedObjectError(f"the object is damaged: {error}") from error


def _read(data: bytes) -> Object:
    ident, kind, machine, _, _, _, sections_at, _, _, _, _, section_size, count, _ = HEADER.unpack_from(data)
    if ident[:6] != b"\x7fELF\x02\x01" or kind != RELOCATABLE or machine != MACHINE_X86_64:
        raise MalformedObjectError("no relocatable ELF object for x86-64")
    headers = [SECTION.unpack_from(data, sections_at + i * section_size) for i in range(count)]
    found = Object({}, [], [])
    for number, (_, kind, flags, _, offset, size, link, info, align, _) in enumerate(headers):
        if kind == SYMBOL_TABLE:
            names_at = headers[link][4]
            found.symbols.extend(_symbol(data, names_at, at) for at in range(offset, offset + size, SYMBOL.size))
        elif kind == RELOCATIONS:
            for at in range(offset, offset + size, RELOCATION.size):
                place, what, addend = RELOCATION.unpack_from(data, at)
                found.relocations.append(Relocation(info, place, what & 0xFFFFFFFF, what >> 32, addend))
        elif flags & IN_MEMORY:
            content = bytes(size) if kind == NO_BYTES else data[offset : offset + size]
            if len(content) != size:
                raise MalformedObjectError("a section is cut off")
            found.sections[number] = Section(content, max(1, align), bool(flags & EXECUTABLE))
    return found


def _symbol(data: bytes, names_at: int, at: int) -> Symbol:
    name_at, info, _, section, value, _ = SYMBOL.unpack_from(data, at)
    start = names_at + name_at
    name = data[start : data.index(b"\0", start)].decode() if name_at else ""
    if section in (ABSOLUTE_SECTION, COMMON_SECTION) and info >> 4 != LOCAL:
        raise MalformedObjectError(f"the symbol {name} is in no section")
    return Symbol(name, None if section == UNDEFINED_SECTION else section, value, info >> 4 == LOCAL)
