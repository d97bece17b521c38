"""math to llvm."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from .scope import Translation

MATH: Mapping[type[Operation], Translation] = {}
