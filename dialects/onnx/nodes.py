"""The module's table of the file's nodes: what `origin` ids stand for."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from .types import parse_text, print_text


class NodeInfo(NamedTuple):
    """A node of the file: name, operator, scope of modules ("model/encoder/attn"), source line ("model.py:41")."""

    name: str
    op_type: str
    scope: str = ""
    line: str = ""

    def __str__(self) -> str:
        where = " ".join(part for part in (self.line, self.scope) if part)
        label = repr(self.name) if self.name else self.op_type
        return f"{label} ({where})" if where else label


@irdl_attr_definition
class NodeTableAttr(Data[tuple[NodeInfo, ...]]):
    """`#onnx.nodes<["conv1", "Conv", "model/stem", "model.py:41"], ...>`: the module's attribute `onnx.nodes`."""

    name: ClassVar[str] = "onnx.nodes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[NodeInfo, ...]:
        def row() -> NodeInfo:
            return NodeInfo(*parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_text(parser)))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, row))

    def print_parameter(self, printer: Printer) -> None:
        def row(info: NodeInfo) -> None:
            printer.print_string("[")
            printer.print_list(info, lambda text: print_text(printer, text))
            printer.print_string("]")

        with printer.in_angle_brackets():
            printer.print_list(self.data, row)
