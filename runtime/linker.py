"""Objects to addresses. What an object may call from outside is a list of our own, never the whole process.

An object's sections are laid out in pages of their own; its calls to the outside go through jumps behind its code,
since an address may be further away than a call reaches.  Pages with code are made executable when nothing is written
to them any more.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import struct
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import cache

from .elf import MalformedObjectError, Object, Relocation, read
from .errors import CompilerBug
from .memory import PAGE, protect
from .memory import Mapping as Pages

MEMORY = ("memcpy", "memmove", "memset")
SYSTEM = ("syscall", "sched_getcpu")
MATH = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "sqrt", "hypot"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "tgamma", "lgamma", "fma", "fmod", "remainder", "copysign", "fmin", "fmax", "fabs"),
    *("floor", "ceil", "trunc", "round", "roundeven", "rint", "nearbyint", "ldexp"),
)
"""Functions of libm, each in its f64 form and, with an f added, in its f32 form."""


ABSOLUTE, RELATIVE, BY_STUB = (1,), (2, 4), (9, 41, 42)
"""Kinds of relocations: R_X86_64_64; PC32 and PLT32; GOTPCREL, GOTPCRELX and REX_GOTPCRELX."""
STUB = struct.Struct("<6sQ2x")
JUMP = b"\xff\x25\x00\x00\x00\x00"
"""`jmp *0(%rip)`: to the address that stands behind it."""
ADDRESS_IN_STUB = len(JUMP)


class Library:
    """One linked object: its exported addresses, and what keeps them alive."""

    def __init__(self, pages: Pages, addresses: Mapping[str, int], needs: tuple[Library, ...]) -> None:
        self._pages = pages
        self._needs = needs
        self.addresses = addresses


class Linker:
    """Links objects in this process. Equal objects that need the same addresses are linked once.

    A library lives as long as something holds it: keep it wherever one of its addresses is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()

    def link(self, data: bytes, needs: Iterable[Library] = ()) -> Library:
        """Links one object; it may use the symbols of `needs` and those of the allow-list.

        Raises CompilerBug where the object is malformed or needs any other symbol.
        """
        try:
            content = read(data)
        except MalformedObjectError as error:
            raise CompilerBug(f"cannot link: {error}") from error
        imports, providers = self._resolve(content, tuple(needs))
        key = hashlib.sha256(data)
        for name, address in sorted(imports.items()):
            key.update(f"{name}={address};".encode())
        digest = key.hexdigest()
        with self._lock:
            library = self._libraries.get(digest)
            if library is None:
                pages, addresses = Layout(content, imports).load()
                library = self._libraries[digest] = Library(pages, addresses, providers)
            return library

    def _resolve(self, content: Object, needs: tuple[Library, ...]) -> tuple[dict[str, int], tuple[Library, ...]]:
        imports: dict[str, int] = {}
        providers: list[Library] = []
        missing: list[str] = []
        for symbol in content.symbols:
            name = symbol.name
            if symbol.section is not None or not name:
                continue
            provider = next((library for library in needs if name in library.addresses), None)
            if provider is not None:
                imports[name] = provider.addresses[name]
                providers.append(provider)
            elif (address := external_symbols().get(name)) is not None:
                imports[name] = address
            elif name != "_GLOBAL_OFFSET_TABLE_":
                missing.append(name)
        if missing:
            raise CompilerBug(f"an object needs symbols that nothing provides: {', '.join(missing)}")
        return imports, tuple(dict.fromkeys(providers))


class Layout:
    """Where the sections of an object go: code, then the jumps to imported symbols, and from a new page on data."""

    def __init__(self, content: Object, imports: Mapping[str, int]) -> None:
        self.content, self.imports = content, imports
        self.starts: dict[int, int] = {}
        end = 0
        for executable in (True, False):
            for number, section in content.sections.items():
                if section.executable == executable:
                    end = _aligned(end, section.align)
                    self.starts[number] = end
                    end += len(section.data)
            if executable:
                end = _aligned(end, STUB.size)
                self.stubs = {number: end + STUB.size * i for i, number in enumerate(self._indirect())}
                end += STUB.size * len(self.stubs)
                self.code = end = _aligned(end, PAGE)
        self.size = end

    def _indirect(self) -> list[int]:
        """The symbols that are reached through an address in memory: imported ones, and those that code wants so."""
        symbols, relocations = self.content.symbols, self.content.relocations
        used = {r.symbol for r in relocations if symbols[r.symbol].section is None or r.kind in BY_STUB}
        return sorted(number for number in used if symbols[number].section is not None or symbols[number].name)

    def _address(self, base: int, number: int) -> int:
        """Of a symbol, where the object is loaded at `base`."""
        symbol = self.content.symbols[number]
        if symbol.section is None:
            return self.imports[symbol.name]
        return base + self.starts[symbol.section] + symbol.offset

    def load(self) -> tuple[Pages, dict[str, int]]:
        """The object in memory, and the addresses of its symbols."""
        pages = Pages(max(1, self.size))
        memory = (ctypes.c_char * self.size).from_address(pages.address)
        for number, section in self.content.sections.items():
            start = self.starts[number]
            memory[start : start + len(section.data)] = section.data
        for number, at in self.stubs.items():
            STUB.pack_into(memory, at, JUMP, self._address(pages.address, number))
        for relocation in self.content.relocations:
            if relocation.section in self.starts:
                self._relocate(memory, pages.address, relocation)
        protect(pages, self.code, mmap.PROT_READ | mmap.PROT_EXEC)
        exported = [s for s in self.content.symbols if s.name and not s.is_local and s.section in self.starts]
        return pages, {s.name: pages.address + self.starts[s.section or 0] + s.offset for s in exported}

    def _relocate(self, memory: ctypes.Array[ctypes.c_char], base: int, relocation: Relocation) -> None:
        number, kind = relocation.symbol, relocation.kind
        place = self.starts[relocation.section] + relocation.offset
        if kind in ABSOLUTE:
            struct.pack_into("<q", memory, place, self._address(base, number) + relocation.addend)
            return
        if kind in BY_STUB:
            target = self.stubs[number] + ADDRESS_IN_STUB
        elif kind in RELATIVE:
            imported = self.content.symbols[number].section is None
            target = self.stubs[number] if imported else self._address(base, number) - base
        else:
            raise CompilerBug(f"cannot link an object: it has a relocation of kind {kind}")
        struct.pack_into("<i", memory, place, target + relocation.addend - place)


def _aligned(offset: int, unit: int) -> int:
    return -(-offset // unit) * unit


@cache
def linker() -> Linker:
    """The process's linker."""
    return Linker()


@cache
def external_symbols() -> Mapping[str, int]:
    """Every symbol from outside that an object may use, with its address in this process."""
    process = ctypes.CDLL(None)
    libm = ctypes.CDLL("libm.so.6")
    found: dict[str, int] = {}
    for name in (*MEMORY, *SYSTEM):
        found[name] = address_of(process, name)
    for name in MATH:
        for spelling in (name, f"{name}f"):
            if hasattr(libm, spelling):  # an old C library lacks the newest
                found[spelling] = address_of(libm, spelling)
    return found


def address_of(library: ctypes.CDLL, name: str) -> int:
    """The address of a function of a shared library."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None, name
    return address
