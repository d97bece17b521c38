"""xDSL's linalg dialect with a `linalg.generic` whose text is read back also where it has several results.

xDSL prints the types of several results in parentheses, which its own parser takes for a function type.
"""

from __future__ import annotations

from xdsl.dialects.linalg import Linalg as XdslLinalg
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Dialect
from xdsl.printer import Printer


class GenericOp(linalg.GenericOp):
    """A `linalg.generic`, printed as `linalg.generic {...} ins(...) outs(...) {...} -> tensor<4xf32>, tensor<f32>`."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" {indexing_maps = ")
        printer.print_attribute(self.indexing_maps)
        printer.print_string(", iterator_types = [")
        printer.print_list(self.iterator_types, lambda kind: printer.print_string_literal(kind.data))
        printer.print_string("]}")
        for name, values in (("ins", self.inputs), ("outs", self.outputs)):
            if values:
                printer.print_string(f" {name}(")
                printer.print_list(values, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list(values.types, printer.print_attribute)
                printer.print_string(")")
        if self.attributes:
            printer.print_string(" attrs =")
            printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body)
        if self.res:
            printer.print_string(" -> ")
            printer.print_list(self.res, lambda result: printer.print_attribute(result.type))


Linalg = Dialect(
    "linalg",
    [GenericOp if op is linalg.GenericOp else op for op in XdslLinalg.operations],
    list(XdslLinalg.attributes),
)
"""To be loaded in place of xDSL's."""
