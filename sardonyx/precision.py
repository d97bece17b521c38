"""Precision modes: what products of f32 are computed with. Declared for each compilation; `explain` shows the mode.

* `f32`: f32 everywhere, the default.
* `f32-amx3`, `f32-amx6`: each f32 as a sum of two or three bf16 numbers, whose products (three or six of them) AMX adds
  in f32; errors of about 1e-6 and of f32's own size, relative to the sum of magnitudes.
* `bf16`: factors rounded to bf16, products added in f32 by `vdpbf16ps`, where that is faster than f32 is.

Whoever asks for a mode gets it or an error, never another mode.
"""

from __future__ import annotations

from .runtime.errors import InputError, UnsupportedError

NEEDS: dict[str, tuple[str, ...]] = {
    "f32": (),
    "f32-amx3": ("amx-tile", "amx-bf16"),
    "f32-amx6": ("amx-tile", "amx-bf16"),
    "bf16": ("avx512bf16",),
}
"""The modes, with the features of the CPU that each needs, by LLVM's names."""
FAST_BF16 = ("znver",)
"""How the names of CPUs begin whose `vdpbf16ps` takes no longer than an fma of f32 (measured on Zen 5, where it does
twice the work of one).  On Intel's it takes twice as long or more: there AMX is what bf16 is for."""


def check_precision(precision: str, cpu: str, features: str) -> None:
    """Raises InputError for a mode that there is not, UnsupportedError for one that the CPU or this version lacks."""
    if precision not in NEEDS:
        raise InputError(f"precision={precision!r}: there are {', '.join(NEEDS)}")
    there = set(features.split(","))
    missing = [name for name in NEEDS[precision] if f"+{name}" not in there]
    if missing:
        raise UnsupportedError(
            f"precision={precision!r} needs a CPU with {' and '.join(missing)}, which {cpu} does not have"
            "\n   = help: precision='f32' runs everywhere"
        )
    if precision == "bf16":
        if not cpu.startswith(FAST_BF16):
            raise UnsupportedError(
                f"precision='bf16': on {cpu} avx512bf16 is no faster than f32, and this version has no kernels for"
                " amx-bf16\n   = help: precision='f32' runs everywhere"
            )
    elif NEEDS[precision]:
        raise UnsupportedError(f"precision={precision!r}: this version has no kernels for {NEEDS[precision][-1]}")
