"""LLVM IR text to machine code: text in, bytes out, so that processes can compile side by side.

(Threads cannot: llvmlite holds one lock round LLVM.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ..dialects.target import Target

ALLOWED_SYMBOLS = frozenset(
    {
        # what LLVM itself makes of large copies and fills
        "memcpy",
        "memset",
        "memmove",
        # f64 functions, one call a lane
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "pow", "cbrt", "fmod"),
        "fmodf",
        # ELF's own
        "_GLOBAL_OFFSET_TABLE_",
        "",
    }
)
"""The external symbols that an object may need; the runtime resolves these in the process and no others."""


class ObjectError(RuntimeError):
    """LLVM refused the text, or the object needs a symbol that it may not need: a bug of the compiler."""


def compile_object(text: str, target: Target, also: Set[str] = frozenset()) -> bytes:
    """The relocatable ELF object of an LLVM IR module. It may need the symbols `also` besides the allowed ones."""
    module, machine = _prepared(text, target)
    image: bytes = machine.emit_object(module)
    unknown = sorted(set(undefined_symbols(image)) - ALLOWED_SYMBOLS - also)
    if unknown:
        raise ObjectError(f"the object needs {', '.join(unknown)}")
    return image


def assembly(text: str, target: Target) -> str:
    """The same module as assembly text, for people."""
    module, machine = _prepared(text, target)
    return str(machine.emit_assembly(module))


def optimized(text: str, target: Target) -> str:
    """The module as LLVM's code generator gets it, for people."""
    return str(_prepared(text, target)[0])


def _prepared(text: str, target: Target) -> tuple[Any, Any]:
    machine = _machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ObjectError(f"LLVM refuses the module: {error}") from error
    module.data_layout = str(machine.target_data)
    _optimize(module, machine)
    return module, machine


def _optimize(module: Any, machine: Any) -> None:
    """A few cheap passes; vectors, unrolling and inlining were settled above."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = False
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    manager.run(module, builder)


@cache
def _machine(target: Target) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def undefined_symbols(image: bytes) -> Iterator[str]:
    """The names that an ELF64 object leaves to the linker."""
    if image[:4] != b"\x7fELF":
        raise ObjectError("not an ELF object")
    (sections,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, sections + i * entry_size) for i in range(count)]
    for _, kind, _, _, offset, size, link, _, _, _ in headers:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for at in range(offset + 24, offset + size, 24):  # the first entry is empty
            name, _, _, section = struct.unpack_from("<IBBH", image, at)
            if section == 0:
                yield image[names + name : image.index(b"\0", names + name)].decode()
