"""Expressions in symbols as nodes: what inference knows of a shape, written so that other runtimes compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from ..dialects import dims
from ..dialects.dims import Dim
from ..dialects.dims.expression import Atom, Call
from ..dialects.onnx.attributes import int_attr
from ..dialects.onnx.types import ELEMENT_CODES
from ..runtime.errors import UnsupportedError

Write = Callable[[str, Sequence[str], Mapping[str, Attribute]], str]
Constant = Callable[[np.ndarray[tuple[int, ...], np.dtype[np.int64]]], str]


class Symbols:
    """Where symbols have their values: a size of a tensor, or an element of an integer tensor."""

    def __init__(self, outer: Symbols | None = None) -> None:
        self._outer = outer
        self._sizes: dict[str, tuple[str, int]] = {}
        self._elements: dict[str, tuple[str, int]] = {}

    def bind_type(self, name: str, type_: Attribute) -> None:
        """Notes the symbols that are sizes of the value of that name."""
        encoding = type_.encoding if isinstance(type_, TensorType) else None
        if isinstance(encoding, dims.ShapeAttr):
            for axis, dim in enumerate(encoding.data):
                if len(dim.symbols) == 1 and dim is Dim.symbol(next(iter(dim.symbols))):
                    self._sizes.setdefault(str(dim), (name, axis))

    def bind_elements(self, name: str, symbols: Sequence[str]) -> None:
        """Notes that the value of that name holds the symbols' values."""
        for index, symbol in enumerate(symbols):
            self._elements.setdefault(symbol, (name, index))

    def find(self, symbol: str) -> tuple[str, int, bool] | None:
        """The value's name, the axis or element, and whether it is a size."""
        for found, is_size in ((self._sizes.get(symbol), True), (self._elements.get(symbol), False)):
            if found is not None:
                return *found, is_size
        return self._outer.find(symbol) if self._outer is not None else None


class DimWriter:
    """Writes expressions as nodes on int64 tensors of one element."""

    def __init__(self, symbols: Symbols, write: Write, constant: Constant) -> None:
        self._symbols = symbols
        self._write = write
        self._constant = constant
        self._known: dict[Dim, str] = {}

    def tensor(self, exprs: Sequence[Dim], type_: Attribute) -> str:
        """The name of a tensor of that type with those elements."""
        assert isinstance(type_, TensorType)
        shape = tuple(type_.get_shape())
        element: Attribute = type_.element_type
        parts = [self.of(dim) for dim in exprs]
        whole = self._write("Concat", parts, {"axis": int_attr(0)})
        if len(shape) != 1:
            whole = self._write("Reshape", [whole, self._constant(np.array(shape, np.int64))], {})
        code = ELEMENT_CODES[element]
        return whole if code == 7 else self._write("Cast", [whole], {"to": int_attr(code)})

    def of(self, dim: Dim) -> str:
        """The name of a tensor of one element with the value."""
        name = self._known.get(dim)
        if name is None:
            name = self._known[dim] = self._sum(dim)
        return name

    def _sum(self, dim: Dim) -> str:
        if dim.is_const:
            return self._number(dim.value)
        total: str | None = None
        for coefficient, powers in dim.terms:
            factors = [self._atom(atom) for atom, power in powers for _ in range(power)]
            if coefficient != 1 or not factors:
                factors.append(self._number(coefficient))
            term = factors[0]
            for factor in factors[1:]:
                term = self._write("Mul", [term, factor], {})
            total = term if total is None else self._write("Add", [total, term], {})
        assert total is not None
        return total

    def _number(self, value: int) -> str:
        return self._constant(np.array([value], np.int64))

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Call):
            return self._call(atom)
        found = self._symbols.find(atom.name)
        if found is None:
            raise UnsupportedError(f"the size {atom.name} is in a shape, and no value here has it")
        name, index, is_size = found
        if is_size:
            name = self._write("Shape", [name], {})
        else:
            name = self._write("Reshape", [name, self._number(-1)], {})
        return self._write("Gather", [name, self._number(index)], {"axis": int_attr(0)})

    def _call(self, call: Call) -> str:
        args = [self.of(arg) for arg in call.args]
        match call.kind:
            case "min":
                return self._write("Min", args, {})
            case "max":
                return self._write("Max", args, {})
            case "mod":
                return self._write("Mod", args, {})
            case "floordiv":  # Div rounds to zero, Mod has the divisor's sign
                rest = self._write("Mod", args, {})
                return self._write("Div", [self._write("Sub", [args[0], rest], {}), args[1]], {})
            case "broadcast":
                result = args[0]
                for other in args[1:]:
                    is_one = self._write("Equal", [result, self._number(1)], {})
                    result = self._write("Where", [is_one, other, result], {})
                return result


def bind_value(symbols: Symbols, name: str, value: SSAValue) -> None:
    """Notes the symbols that are sizes of a value."""
    symbols.bind_type(name, value.type)
