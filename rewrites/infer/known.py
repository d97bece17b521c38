"""What inference says of a module, to be compared with what it says once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from ...dialects import dims
from ...dialects.dims import Dim, dims_of
from ...dialects.onnx.model import main_of
from .walk import symbols_dims

Pair = tuple[Dim, Dim]


@dataclass(frozen=True)
class Known:
    """The ops of `main` without guards and binders, the types of all values, and the elements of known tensors."""

    ops: list[Operation]
    types: list[Attribute]
    elements: list[tuple[Dim, ...]]

    def is_same(self, other: Known) -> bool:
        """Whether both say the same, but for the names of symbols that only one of them has."""
        if self.ops != other.ops or len(self.types) != len(other.types):
            return False
        pairs: list[Pair] = []
        for mine, its in zip(self.types, other.types, strict=True):
            if mine != its:
                if not _differ_in_sizes(mine, its):
                    return False
                pairs += zip(dims_of(mine), dims_of(its), strict=True)
        for mine, its in zip(self.elements, other.elements, strict=True):
            pairs += zip(mine, its, strict=True)
        return not pairs or _are_renamed(pairs, self.symbols(), other.symbols())

    def symbols(self) -> set[str]:
        """All symbols in sizes and elements."""
        return {name for d in self._dims() for name in d.symbols}

    def _dims(self) -> Iterator[Dim]:
        for type_ in self.types:
            yield from symbols_dims(type_)
        for found in self.elements:
            yield from found


def known_of(module: ModuleOp) -> Known:
    """What the last inference has found."""
    known = Known([], [], [])
    for op in main_of(module).walk():
        if isinstance(op, dims.AssumeOp | dims.BindOp):
            continue
        known.ops.append(op)
        known.types.extend(r.type for r in op.results)
        known.types.extend(a.type for region in op.regions for block in region.blocks for a in block.args)
        if isinstance(op, dims.TensorOp):
            known.elements.append(op.exprs.data)
    return known


def _differ_in_sizes(a: Attribute, b: Attribute) -> bool:
    """Whether two types are tensors of the same elements and rank."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    return a.element_type == b.element_type and len(a.shape) == len(b.shape)


def _are_renamed(pairs: Iterable[Pair], before: set[str], after: set[str]) -> bool:
    """Whether symbols that are gone, each in the place of a new one, are all that pairs of expressions differ in."""
    binding: dict[str, Dim] = {}
    for mine, its in pairs:
        if mine is its:
            continue
        gone, new = mine.symbols - its.symbols - binding.keys(), its.symbols - mine.symbols
        if len(gone) == 1 and (left := new - {str(d) for d in binding.values()}):
            old, name = next(iter(gone)), next(iter(left))
            if len(left) > 1 or old in after or name in before:
                return False
            binding[old] = Dim.symbol(name)
        if mine.subs(binding) is not its:
            return False
    return True
