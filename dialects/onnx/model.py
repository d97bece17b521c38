"""What a module says of the model that it is: attributes of the module and of its functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from .attributes import int_attr, string_attr, text_of
from .structure import InitializerOp

MAIN = "main"
OPSETS = "onnx.opsets"  # of the module, or of a local function: [["", 17], ["ai.onnx.ml", 3]]
IR_VERSION = "onnx.ir_version"
INPUTS = "onnx.inputs"  # of a function: names; of an op with bodies: one list of names for each body
OUTPUTS = "onnx.outputs"  # of a function: names
RANGES = "onnx.ranges"  # of the main function: conditions on sizes of its inputs that the file declares
FUNCTION = "onnx.function"  # of a local function: {domain, name, overload}
PARAMETERS = "onnx.parameters"  # of a local function: its attributes, each with its default or nothing


def main_of(module: ModuleOp) -> FuncOp:
    """The function that is the model's graph. Raises KeyError without one."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == MAIN:
            return op
    raise KeyError("the module has no function @main")


def declared_ranges(main: FuncOp) -> list[str]:
    """The conditions on sizes of inputs that the file declares."""
    found = main.attributes.get(RANGES)
    return [text_of(text) for text in found] if isinstance(found, ArrayAttr) else []


def fix_defaults(module: ModuleOp, overridden: Collection[str] = ()) -> list[str]:
    """Makes initializers that the file lists as inputs constants, but for those that are overridden.

    Gives the names of all of them.  A file of an old IR version lists every weight so, and hardly any caller gives one:
    as constants they are folded and packed; a call that does give one gets a program of its own.
    """
    names: list[str] = []
    for op in main_of(module).body.block.ops:
        if isinstance(op, InitializerOp) and op.overridable is not None:
            name = text_of(op.sym)
            names.append(name)
            if name not in overridden:
                del op.properties["overridable"]
    return names


def is_local_function(func: FuncOp) -> bool:
    """Whether a function is a local function of the file, kept as it came."""
    return FUNCTION in func.attributes


def identity_of(func: FuncOp) -> tuple[str, str, str]:
    """The domain, name and overload of a local function."""
    found = cast("DictionaryAttr", func.attributes[FUNCTION]).data
    return text_of(found["domain"]), text_of(found["name"]), text_of(found["overload"])


def opsets_of(op: ModuleOp | FuncOp) -> dict[str, int]:
    """The opset versions that a module, or a local function, imports, by domain (the last one listed)."""
    found = op.attributes.get(OPSETS)
    rows = cast("ArrayAttr[ArrayAttr[Attribute]]", found) if isinstance(found, ArrayAttr) else ()
    versions: dict[str, int] = {}
    for row in rows:
        domain, version = row.data
        versions[normal_domain(text_of(domain))] = cast("IntegerAttr[Any]", version).value.data
    return versions


def opsets_attr(rows: list[tuple[str, int]]) -> Attribute:
    """The attribute that `opsets_of` reads."""
    return ArrayAttr([ArrayAttr([string_attr(domain), int_attr(version)]) for domain, version in rows])


def normal_domain(domain: str) -> str:
    """The domain with one spelling for the default one."""
    return "" if domain == "ai.onnx" else domain


def names_of(func: FuncOp, key: str) -> list[str]:
    """The names in a function's INPUTS or OUTPUTS; empty where it has none."""
    found = func.attributes.get(key)
    return [text_of(name) for name in cast("ArrayAttr[Attribute]", found)] if isinstance(found, ArrayAttr) else []
