"""Objects to addresses. What an object may call from outside is a list of our own, never the whole process."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import cache

import llvmlite.binding as llvm

from .elf import MalformedObjectError, Symbols, symbols
from .errors import CompilerBug

MEMORY = ("memcpy", "memmove", "memset")
SYSTEM = ("syscall", "sched_getcpu")
MATH = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "sqrt", "hypot"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "tgamma", "lgamma", "fma", "fmod", "remainder", "copysign", "fmin", "fmax", "fabs"),
    *("floor", "ceil", "trunc", "round", "roundeven", "rint", "nearbyint", "ldexp"),
)
"""Functions of libm, each in its f64 form and, with an f added, in its f32 form."""


class Library:
    """One linked object: its exported addresses, and what keeps them alive."""

    def __init__(self, tracker: llvm.orcjit.ResourceTracker, names: Iterable[str], needs: tuple[Library, ...]) -> None:
        self._tracker = tracker
        self._needs = needs
        self.addresses: Mapping[str, int] = {name: tracker[name] for name in names}


class Linker:
    """Links objects in this process. Equal objects that need the same addresses are linked once.

    A library lives as long as something holds it: keep it wherever one of its addresses is kept.
    """

    def __init__(self) -> None:
        initialize_llvm()
        self._jit = llvm.create_lljit_compiler(suppress_errors=True)
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._libraries: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()

    def link(self, data: bytes, needs: Iterable[Library] = ()) -> Library:
        """Links one object; it may use the symbols of `needs` and those of the allow-list.

        Raises CompilerBug where the object is malformed or needs any other symbol.
        """
        try:
            table = symbols(data)
        except MalformedObjectError as error:
            raise CompilerBug(f"cannot link: {error}") from error
        imports, providers = self._resolve(table, tuple(needs))
        key = hashlib.sha256(data)
        for name, address in sorted(imports.items()):
            key.update(f"{name}={address};".encode())
        digest = key.hexdigest()
        with self._lock:
            library = self._libraries.get(digest)
            if library is None:
                library = self._link(data, table, imports, providers)
                self._libraries[digest] = library
            return library

    def _resolve(self, table: Symbols, needs: tuple[Library, ...]) -> tuple[dict[str, int], tuple[Library, ...]]:
        imports: dict[str, int] = {}
        providers: list[Library] = []
        missing: list[str] = []
        for name in table.undefined:
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

    def _link(self, data: bytes, table: Symbols, imports: Mapping[str, int], providers: tuple[Library, ...]) -> Library:
        builder = llvm.JITLibraryBuilder().add_object_img(data)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in table.defined:
            builder.export_symbol(name)
        try:
            tracker = builder.link(self._jit, f"sx{next(self._numbers)}")
        except RuntimeError as error:
            raise CompilerBug(f"cannot link an object: {error}") from error
        return Library(tracker, table.defined, providers)


@cache
def linker() -> Linker:
    """The process's linker."""
    return Linker()


@cache
def initialize_llvm() -> None:
    """Makes LLVM know this machine. Any number of calls do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


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
