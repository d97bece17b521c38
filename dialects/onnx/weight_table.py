"""The module's table of weights: in which file, where, and with what digest a handle's bytes are."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from .types import parse_text, print_text


class WeightRow(NamedTuple):
    """`nbytes` from `offset` on of `file`; `element` is ONNX's number of the element type (TensorProto.DataType)."""

    key: str
    file: str
    offset: int
    nbytes: int
    digest: str
    element: int
    shape: tuple[int, ...]


@irdl_attr_definition
class WeightTableAttr(Data[tuple[WeightRow, ...]]):
    """`#onnx.weights<["w0", "model.onnx", 1200, 4096, "9f..", 1, [32, 32]], ...>`: the module's `onnx.weights`."""

    name: ClassVar[str] = "onnx.weights"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[WeightRow, ...]:
        def comma() -> None:
            parser.parse_punctuation(",")

        def row() -> WeightRow:
            parser.parse_punctuation("[")
            key = parse_text(parser)
            comma()
            file = parse_text(parser)
            comma()
            offset = parser.parse_integer()
            comma()
            nbytes = parser.parse_integer()
            comma()
            digest = parse_text(parser)
            comma()
            element = parser.parse_integer()
            comma()
            shape = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            parser.parse_punctuation("]")
            return WeightRow(key, file, offset, nbytes, digest, element, tuple(shape))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, row))

    def print_parameter(self, printer: Printer) -> None:
        def row(found: WeightRow) -> None:
            printer.print_string("[")
            print_text(printer, found.key)
            printer.print_string(", ")
            print_text(printer, found.file)
            printer.print_string(f", {found.offset}, {found.nbytes}, ")
            print_text(printer, found.digest)
            printer.print_string(f", {found.element}, {list(found.shape)}]")

        with printer.in_angle_brackets():
            printer.print_list(self.data, row)
