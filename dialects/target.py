"""The machine that code is made for: numbers only, so that a test or a cross-compile can pass another."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from xdsl.ir import Data, Dialect
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@dataclass(frozen=True)
class Target:
    """One CPU. `vector_bytes` is the width of a vector register (32: AVX2, 64: AVX-512), caches are bytes a core.

    `cpu` and `features` are LLVM's names (`znver5`, `+avx512f,...`).  With `plain`, the lowering takes it for a machine
    of one lane and three registers: no vectors, tiles of one element; an independent check of all that tiling does.
    """

    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    l1: int
    l2: int
    l3: int
    triple: str = "x86_64-unknown-linux-gnu"
    plain: bool = False

    def lanes(self, element_bytes: int) -> int:
        """How many elements of that size one vector register holds; 1 of those that no lane is wide enough for."""
        return 1 if self.plain or element_bytes > 8 else self.vector_bytes // element_bytes

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature (`avx512vnni`, `amx-tile`, ...) is there."""
        return f"+{feature}" in self.features.split(",")


AVX2 = Target("haswell", "+avx,+avx2,+fma,+f16c,+bmi,+bmi2", 32, 16, 32 << 10, 256 << 10, 8 << 20)
AVX512 = Target(
    "skylake-avx512",
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd",
    64,
    32,
    32 << 10,
    1 << 20,
    16 << 20,
)


@irdl_attr_definition
class TargetAttr(Data[Target]):
    """The module's attribute `sx.target`: `#target.cpu<"{json}">`."""

    name: ClassVar[str] = "target.cpu"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Target:
        with parser.in_angle_brackets():
            return Target(**json.loads(parser.parse_str_literal()))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(json.dumps(asdict(self.data)))


TargetDialect = Dialect("target", [], [TargetAttr])
