"""What a file declares of its values' types. Evidence, not truth: inference decides, and where they differ says so."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from .types import parse_text, print_text

DECLARED = "onnx.declared"  # the attribute of a function, or of an op with bodies

Size = int | str | None  # dim_value, dim_param, neither


class Declared(NamedTuple):
    """ONNX's type string, `tensor(float)`, and for a tensor its sizes as written; None where the file has no shape."""

    type: str
    sizes: tuple[Size, ...] | None


@irdl_attr_definition
class DeclaredAttr(Data[tuple[tuple[str, Declared], ...]]):
    """`#onnx.declared<"x" "tensor(float)" [3, "N", ?], "s" "seq(tensor(float))", ...>`, by value name."""

    name: ClassVar[str] = "onnx.declared"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Declared], ...]:
        def size() -> Size:
            if parser.parse_optional_punctuation("?") is not None:
                return None
            number = parser.parse_optional_integer(allow_boolean=False)
            return parse_text(parser) if number is None else number

        def entry() -> tuple[str, Declared]:
            name, type_ = parse_text(parser), parse_text(parser)
            sizes = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, size)
            return name, Declared(type_, None if sizes is None else tuple(sizes))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        def size(value: Size) -> None:
            if isinstance(value, str):
                print_text(printer, value)
            else:
                printer.print_string("?" if value is None else str(value))

        def entry(item: tuple[str, Declared]) -> None:
            name, found = item
            print_text(printer, name)
            printer.print_string(" ")
            print_text(printer, found.type)
            if found.sizes is not None:
                printer.print_string(" [")
                printer.print_list(found.sizes, size)
                printer.print_string("]")

        with printer.in_angle_brackets():
            printer.print_list(self.data, entry)


def declared_types(op: Operation) -> dict[str, Declared]:
    """What the file declares of the values of a function or a body, by name; empty where it declares nothing."""
    found = op.attributes.get(DECLARED)
    return dict(found.data) if isinstance(found, DeclaredAttr) else {}
