"""LLVM IR text to machine code: text in, bytes out, so that processes can compile side by side.

(Threads cannot: llvmlite holds one lock round LLVM.)

No optimization passes run before the code generator.  Vectors, unrolling, inlining and what is computed outside of a
loop were settled at the levels above; on kernels written so, LLVM's O1 pipeline changed no running time by 1 % and
doubled the time to compile.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ..dialects.target import Target
from ..runtime.elf import symbols

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
        "_GLOBAL_OFFSET_TABLE_",  # ELF's own
    }
)
"""The external symbols that an object may need; the runtime resolves these in the process and no others."""


class ObjectError(RuntimeError):
    """LLVM refused the text, or the object needs a symbol that it may not need: a bug of the compiler."""


def compile_object(text: str, target: Target, also: Set[str] = frozenset()) -> bytes:
    """The relocatable ELF object of an LLVM IR module. It may need the symbols `also` besides the allowed ones."""
    module, machine = _prepared(text, target)
    image: bytes = machine.emit_object(module)
    unknown = sorted(set(symbols(image).undefined) - ALLOWED_SYMBOLS - also)
    if unknown:
        raise ObjectError(f"the object needs {', '.join(unknown)}")
    return image


def assembly(text: str, target: Target) -> str:
    """The same module as assembly text, for people."""
    module, machine = _prepared(text, target)
    return str(machine.emit_assembly(module))


def _prepared(text: str, target: Target) -> tuple[Any, Any]:
    machine = _machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ObjectError(f"LLVM refuses the module: {error}") from error
    module.data_layout = str(machine.target_data)
    return module, machine


@cache
def _machine(target: Target) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )
