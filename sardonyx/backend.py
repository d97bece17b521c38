"""The standard `onnx.backend` interface: `prepare(model).run(inputs)`, `run_model`, `run_node`.

https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend import base

from .dialects.onnx import OnnxOp
from .dialects.onnx import model as names
from .frontend.importer import import_model
from .rewrites.upgrade import upgrade_opset
from .runtime.errors import InputError, UnsupportedError
from .semantics.interpreter import Interpreter
from .semantics.reference import NUMBERS, Value, as_value


class SardonyxRep(base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        main = names.main_of(interpreter.module)
        self.inputs = names.names_of(main, names.INPUTS)
        self.outputs = names.names_of(main, names.OUTPUTS)
        self.hosted = sorted({op.SCHEMA.op_type for op in main.walk() if isinstance(op, OnnxOp)})
        """The names of the operators that do not run as native code."""

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Value, ...]:
        """The outputs in the model's order.

        `inputs` are the inputs in the model's order, or by name in a mapping, or the only one.  Raises InputError for
        inputs that do not fit, UnsupportedError for operators that we lack.
        """
        if isinstance(inputs, Mapping):
            feed = dict(inputs)
        else:
            listed = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(listed) > len(self.inputs):
                raise InputError(f"{len(listed)} inputs for a model of {len(self.inputs)}")
            feed = dict(zip(self.inputs, listed))
        results = self._interpreter.run(feed)
        return tuple(results[name] for name in self.outputs)


class SardonyxBackend(base.Backend):
    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether we have all that the model needs."""
        try:
            cls.prepare(model, device)
        except UnsupportedError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SardonyxRep:
        """The model made ready.  Raises ModelError where it is wrong, UnsupportedError for what we lack."""
        if not cls.supports_device(device):
            raise UnsupportedError(f"there is no device {device!r}, only CPU")
        module, weights = import_model(model)
        upgrade_opset(module, weights)
        return SardonyxRep(Interpreter(module, weights))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Value, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> tuple[Value, ...]:
        """The outputs of one node, at the newest opset or `opset_version`; `inputs` are its tensors that are there."""
        values = [as_value(v) for v in inputs]
        given = [name for name in node.input if name]
        infos = [_value_info(name, value) for name, value in zip(given, values, strict=True)]
        wanted = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        domains = {"": version, node.domain: _newest(node.domain) if node.domain else version}
        imports = [helper.make_opsetid(domain, number) for domain, number in domains.items()]
        graph = helper.make_graph([node], "node", infos, wanted)
        return cls.run_model(helper.make_model(graph, opset_imports=imports), values, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


def _value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    if not isinstance(value, np.ndarray):
        raise InputError(f"the input {name!r} of a node is no tensor")
    return helper.make_tensor_value_info(name, NUMBERS[value.dtype], value.shape)


def _newest(domain: str) -> int:
    return max((s.since_version for s in onnx.defs.get_all_schemas() if s.domain == domain), default=1)


is_compatible = SardonyxBackend.is_compatible
prepare = SardonyxBackend.prepare
run = SardonyxBackend.run_model
run_model = SardonyxBackend.run_model
run_node = SardonyxBackend.run_node
supports_device = SardonyxBackend.supports_device
