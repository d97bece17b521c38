"""The standard `onnx.backend` interface: `prepare(model).run(inputs)`, `run_model`, `run_node`.

https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper
from onnx.backend import base

from .program import Program, compile
from .runtime.errors import InputError, UnsupportedError, UsageError
from .runtime.usage import KINDS, is_list, shown
from .semantics.reference import NUMBERS, Value, as_value


class SardonyxRep(base.BackendRep):
    """A compiled model.

    `inputs` and `outputs` are names in the model's order, `hosted` the operators that do not run as native code.
    """

    def __init__(self, program: Program, given: Sequence[str], listed: Sequence[str]) -> None:
        self.program = program
        self.inputs = list(given)
        self.outputs = [spec.name for spec in program.outputs]
        self.hosted: list[str] = sorted(set(program.explain().to_dict()["hosted"]))
        self._listed = list(listed)
        self._count = len(self.inputs) if self.inputs == [spec.name for spec in program.inputs] else -1
        """How many inputs there are, where the program takes them in the model's order; else -1."""

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the model's order.

        `inputs` are the inputs in the model's order, or by name in a mapping, or the only one; a list that is longer
        than the inputs without a default has those with one too, in the file's order.  None stands for an optional
        without a value.  Raises InputError for inputs that do not fit.
        """
        if isinstance(inputs, list):
            given: list[object] = inputs
            if len(given) == self._count:
                return tuple(self.program.loaded.run_in_order(given))
        if not isinstance(inputs, np.ndarray) and not is_list(inputs):
            raise UsageError(f"inputs={shown(inputs)}: a list of the inputs, a mapping from names, or the only one")
        if isinstance(inputs, Mapping):
            feed = dict(cast("Mapping[str, object]", inputs))
        else:
            values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            names = self.inputs if len(values) <= len(self.inputs) else self._listed
            if len(values) > len(names):
                raise InputError(f"{len(values)} inputs for a model of {len(names)}")
            feed = dict(zip(names, values))
        return tuple(self.program.run(None, feed))


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
        """The model, compiled; `kwargs` are options of `sardonyx.compile`.

        Raises ModelError where the model is wrong, UnsupportedError for what we lack.
        """
        if not isinstance(model, onnx.ModelProto):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a model is a ModelProto, not {type(model).__name__}")
        KINDS["device"].check("device", device)
        if not cls.supports_device(device):
            raise UnsupportedError(f"there is no device {device!r}, only CPU")
        program = compile(model, **kwargs)
        listed = [value.name for value in model.graph.input]
        defaults = {tensor.name for tensor in model.graph.initializer}
        defaults |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        return SardonyxRep(program, [name for name in listed if name not in defaults], listed)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
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
