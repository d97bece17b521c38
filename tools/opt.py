"""Single passes on IR text or on a model, as `xdsl-opt` runs them."""

from __future__ import annotations

from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError

from ..dialects.structured import Linalg
from ..frontend.importer import import_model
from ..runtime.errors import InputError, UsageError


def run_passes(file: Path, passes: str, universe: Universe) -> str:
    """The text of a module (from `.mlir` text, or imported from `.onnx`) after these passes, comma-separated.

    Dialects and passes are those of the universe and xDSL's own.  Raises InputError for a file that is not there and
    text that does not parse or verify, UsageError for passes that there are not.
    """
    context = context_of(universe)
    try:
        pipeline = PassPipeline.parse_spec(get_all_passes() | universe.all_passes, passes)
    except (ArgSpecParseError, ValueError) as e:
        raise UsageError(f"passes {passes!r}: {e}\n   = help: ours are {', '.join(universe.all_passes)}") from e
    module = read_module(file, context)
    try:
        pipeline.apply(context, module)
        module.verify()
    except DiagnosticException as e:
        raise InputError(str(e)) from e
    return str(module)


def context_of(universe: Universe) -> Context:
    """A context that reads the text of every level: xDSL's dialects, the universe's, and our `linalg.generic`."""
    context = Context()
    for name, factory in (get_all_dialects() | universe.all_dialects | {"linalg": lambda: Linalg}).items():
        context.register_dialect(name, factory)
    return context


def read_module(file: Path, context: Context) -> ModuleOp:
    """A module from IR text, or from a model; its table says where the weights are."""
    if file.suffix == ".onnx":
        module, weights = import_model(file)
        weights.attach(module)
        return module
    try:
        module = Parser(context, file.read_text(), str(file)).parse_module()
        module.verify()
    except OSError as e:
        raise InputError(f"{file}: cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise InputError(f"{file}: is no text: {e}") from e
    except (ParseError, DiagnosticException) as e:
        raise InputError(str(e)) from e
    return module
