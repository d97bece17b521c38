"""The symbols of an ELF x86-64 object: what it defines and what it needs.

Source: System V ABI, chapters 4 (object files: section header, symbol table).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

MACHINE_X86_64 = 62
RELOCATABLE = 1
SYMBOL_TABLE = 2
UNDEFINED_SECTION = 0
LOCAL = 0


@dataclass(frozen=True)
class Symbols:
    """Names of the global and weak symbols of an object, in the order of its table."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


class MalformedObjectError(ValueError):
    """The bytes are no ELF object for x86-64, or are cut off."""


def symbols(data: bytes) -> Symbols:
    """The non-local symbols of the object `data`. Raises MalformedObjectError."""
    try:
        return _symbols(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedObjectError(f"the object is damaged: {error}") from error


def _symbols(data: bytes) -> Symbols:
    ident, kind, machine, _, _, _, sections_at, _, _, _, _, section_size, count, _ = HEADER.unpack_from(data)
    if ident[:6] != b"\x7fELF\x02\x01" or kind != RELOCATABLE or machine != MACHINE_X86_64:
        raise MalformedObjectError("no relocatable ELF object for x86-64")
    sections = [SECTION.unpack_from(data, sections_at + i * section_size) for i in range(count)]
    defined: list[str] = []
    undefined: list[str] = []
    for _, section_kind, _, _, offset, size, link, _, _, _ in sections:
        if section_kind != SYMBOL_TABLE:
            continue
        names_at = sections[link][4]
        for at in range(offset, offset + size, SYMBOL.size):
            name_at, info, _, section, _, _ = SYMBOL.unpack_from(data, at)
            if info >> 4 == LOCAL or not name_at:
                continue
            start = names_at + name_at
            name = data[start : data.index(b"\0", start)].decode()
            (undefined if section == UNDEFINED_SECTION else defined).append(name)
    return Symbols(tuple(defined), tuple(undefined))
