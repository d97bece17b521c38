"""Writing models: what no rewrite has touched as it came, byte for byte; the rest at the model's own opset.

The file that a module was read from is read again, and each op compared with what its node gives now: the same op means
the same node, with everything that the proto holds.  Names are the file's where a value has one.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto, defs
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block

from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.base import describe, value_name
from ..runtime.errors import ModelError, UnsupportedError
from ..semantics.weights import WeightStore
from .damage import refuse_bad_text, refuse_unknown
from .dim_nodes import Symbols
from .graph_writer import GraphWriter
from .header import WRITE_HEADER, header_of
from .importer import Reader
from .inspection import names_in
from .output import Output
from .protos import add_info, copy_head


def export_model(
    module: ModuleOp, weights: WeightStore, *, embed_external: bool = False, source: Reader | None = None
) -> ModelProto:
    """The module as a model: exactly the one it was read from where nothing has been rewritten.

    External data stays external, by the same relative paths; with `embed_external` it is written into the model.
    `source` is that file as it was read, with a module that no rewrite has touched; without, it is read again.
    Raises UnsupportedError for an op that the model's opset cannot express, or that is of no graph level; ModelError
    where the file had fields that this version of ONNX does not know, which would be lost.
    """
    exporter = _Exporter(module, weights, embed_external, source or _read_again(module, weights))
    try:
        return exporter.model()
    except UnicodeDecodeError:
        if exporter.source is not None:
            refuse_bad_text(exporter.source.proto)
        raise


class _Exporter:
    def __init__(self, module: ModuleOp, weights: WeightStore, embed_external: bool, source: Reader | None) -> None:
        self._module = module
        self.source = source
        self._output = Output(weights, self.source, embed_external, names_in(module))
        self._versions = names.opsets_of(module) or {"": defs.onnx_opset_version()}

    def model(self) -> ModelProto:
        """The whole model."""
        proto = ModelProto()
        main = names.main_of(self._module)
        if self.source is not None:
            refuse_unknown(self.source.proto)
            proto.CopyFrom(self.source.proto)
            proto.ClearField("graph")
            proto.ClearField("functions")
            self._output.restore_all(proto)
        self._write_header(proto)
        self._output.ir_version = proto.ir_version
        for op in self._module.ops:
            if isinstance(op, FuncOp) and names.is_local_function(op):
                self._write_function(op, proto)
            elif not isinstance(op, FuncOp) or op is not main:
                raise UnsupportedError(f"{describe(op)} is of no graph level, so no model can be written")
        self._write_main(main, proto.graph)
        for domain, version in self._output.added.items():
            proto.opset_import.add(domain=domain, version=version)
        return proto

    # The model's head

    def _write_header(self, proto: ModelProto) -> None:
        """Writes what differs from the file: a module made by hand, or edited."""
        wanted = {k: v for k, v in self._module.attributes.items() if k in WRITE_HEADER}
        came = header_of(self.source.proto) if self.source is not None else {}
        for key in WRITE_HEADER:
            if wanted.get(key) != came.get(key):
                WRITE_HEADER[key](proto, wanted.get(key))
        given = self.source.proto if self.source is not None else None
        if not proto.HasField("ir_version") and (given is None or given.HasField("ir_version")):
            proto.ir_version = 10
        if not proto.opset_import and (given is None or given.opset_import):
            proto.opset_import.add(domain="", version=self._versions[""])

    # Functions

    def _write_main(self, func: FuncOp, graph: GraphProto) -> None:
        came = self._main_source()
        block = func.body.block
        if came is not None:
            copy_head(came[0], graph)
        elif "onnx.name" in func.attributes:
            graph.name = text_of(func.attributes["onnx.name"])
        else:
            graph.name = "main"
        ordered = came is None or self.source is None or came[1] not in self.source.unsorted
        writer = GraphWriter(self._output, block, self._versions, came, symbols=Symbols(reuse=ordered))
        inputs = names.names_of(func, names.INPUTS)
        writer.name_arguments(inputs if len(inputs) == len(block.args) else [])
        outputs = names.names_of(func, names.OUTPUTS)
        last = block.last_op
        if not isinstance(last, ReturnOp):
            raise ModelError("the function @main has no end")
        if len(outputs) != len(last.operands):
            outputs = [value_name(v) or f"output_{i}" for i, v in enumerate(last.operands)]
        writer.reserve_outputs(list(last.operands), outputs)
        writer.write(graph, list(zip(last.operands, outputs)))
        writer.write_inputs(graph)
        listed = came[0].output if came is not None else ()
        for index, (value, name) in enumerate(zip(last.operands, outputs)):
            source = listed[index] if index < len(listed) and listed[index].name == name else None
            add_info(graph.output, name, value.type, source)
        writer.keep_declared(graph)

    def _main_source(self) -> tuple[GraphProto, Block] | None:
        if self.source is None:
            return None
        block = names.main_of(self.source.module).body.block
        return self.source.graphs[block], block

    def _write_function(self, func: FuncOp, model: ModelProto) -> None:
        proto = model.functions.add()
        symbol = func.sym_name.data
        source = self.source.functions.get(symbol) if self.source is not None else None
        if self.source is None or source is None:
            raise UnsupportedError(f"the local function @{symbol} is not the file's, and new ones cannot be written")
        came = next(f for f in self.source.module.ops if isinstance(f, FuncOp) and f.sym_name.data == symbol)
        same = func.attributes == came.attributes and func.properties == came.properties
        if not same or not func.body.is_structurally_equivalent(came.body):
            raise UnsupportedError(f"the local function @{symbol} has been changed, and cannot be written")
        proto.CopyFrom(source)
        self._output.restore_all(proto)


def _read_again(module: ModuleOp, weights: WeightStore) -> Reader | None:
    """The file that the module was read from, read again in the same way."""
    if weights.source is None:
        return None
    fed = names.names_of(names.main_of(module), names.INPUTS)
    return Reader(weights.source, weights.folder, fed)
