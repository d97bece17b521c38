"""Nodes as each version of their operator has them, in each element type that its schema allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from old_broadcasting import spreads
from onnx import AttributeProto, TensorProto, defs, helper

from .schema_nodes import ML, Node, body, element_of, made, nodes, retyped, tensor_of, texts

NEWEST = 28
ELEMENTS = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26, "float6e2m3": 27, "float6e3m2": 28,
}  # fmt: skip


@dataclass(frozen=True)
class Typed:
    """A node of one version, one of whose type variables has an element type."""

    node: Node
    version: int
    variable: str
    element: str

    def __str__(self) -> str:
        name = f"{self.node.domain}.{self.node.op}" if self.node.domain else self.node.op
        return f"{name}@{self.version} {self.variable}={self.element}"

    def feeds(self) -> dict[str, Any]:
        return {f"x{at}": value for at, value in enumerate(self.node.operands) if value is not None}

    def model(self) -> onnx.ModelProto:
        node = self.node
        names = ["" if value is None else f"x{at}" for at, value in enumerate(node.operands)]
        outputs = [f"y{at}" if wanted else "" for at, wanted in enumerate(node.results)]
        proto = helper.make_node(node.op, names, outputs, name="node", domain=node.domain)
        proto.attribute.extend(node.attributes.values())
        inputs = [info_of(name, value) for name, value in zip(names, node.operands) if value is not None]
        infos = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
        imports = {"": NEWEST if node.domain and node.domain != ML else 17} | {node.domain: self.version}
        return helper.make_model(
            helper.make_graph([proto], "g", inputs, infos),
            opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()],
            ir_version=8 if imports[""] < 21 else 10 if imports[""] < 25 else 13,
        )

    def is_valid(self) -> bool:
        """Whether the standard takes it, as far as its own inference sees, which does not look at old broadcasting."""
        shapes = [value.shape for value in self.node.operands if isinstance(value, np.ndarray)]
        if not self.node.domain and spreads(self.node.op, self.version, shapes, self.node.attributes):
            return False
        try:
            onnx.shape_inference.infer_shapes(self.model(), check_type=True, strict_mode=True)
        except onnx.shape_inference.InferenceError:
            return False
        return True


def info_of(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        return helper.make_tensor_sequence_value_info(name, element_of(value), None)
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        keys = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        items = TensorProto.STRING if isinstance(item, str) else TensorProto.FLOAT
        type_ = helper.make_map_type_proto(keys, helper.make_tensor_type_proto(items, []))
        return helper.make_value_info(name, type_)
    return helper.make_tensor_value_info(name, element_of(value), np.shape(value))


@cache
def versions() -> dict[tuple[str, str], list[defs.OpSchema]]:
    """Each operator's schemas, oldest first."""
    found: dict[tuple[str, str], list[defs.OpSchema]] = defaultdict(list)
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        found[schema.domain, schema.name].append(schema)
    return found


def every() -> Iterator[Typed]:
    """For each operator, version, type variable and element type one node, where one is known."""
    for key, schemas in sorted(versions().items()):
        for schema in schemas:
            older = [n for node in nodes().get(key, []) if (n := as_of(node, schema)) is not None]
            variables = dict.fromkeys(p.type_str for p in (*schema.inputs, *schema.outputs))
            if older and all(isinstance(v, dict) for v in older[0].operands if v is not None) and older[0].operands:
                yield from (Typed(node, schema.since_version, "map", str(at)) for at, node in enumerate(older))
            for variable in variables:
                for element in elements_of(schema, variable):
                    typed = (with_element(node, schema, variable, ELEMENTS[element]) for node in older)
                    node = next((n for n in typed if n is not None), None)
                    if node is not None:
                        yield Typed(node, schema.since_version, variable, element)


def elements_of(schema: defs.OpSchema, variable: str) -> list[str]:
    """The element types of tensors, by themselves or in containers, that a type variable may have."""
    constraint = next((c for c in schema.type_constraints if c.type_param_str == variable), None)
    allowed = [variable] if constraint is None else constraint.allowed_type_strs
    names = [text.partition("tensor(")[2].partition(")")[0] for text in allowed if "map" not in text]
    return list(dict.fromkeys(name for name in names if name))


def formal(schema: defs.OpSchema, index: int) -> defs.OpSchema.FormalParameter:
    return schema.inputs[min(index, len(schema.inputs) - 1)]


# Older versions

UNCHANGED = ("num_outputs",)
"""Attributes that say what older versions did anyway."""


def as_of(node: Node, schema: defs.OpSchema) -> Node | None:
    """The node in an older version: what are inputs now may have been attributes. None where it cannot say that."""
    if (special := SPECIAL.get((node.op, schema.since_version))) is not None:
        return special(node)
    newest = versions()[node.domain, node.op][-1]
    attributes: dict[str, AttributeProto] = {}
    for name, attribute in node.attributes.items():
        if name in schema.attributes:
            if attribute.type != schema.attributes[name].type.value:
                return None
            attributes[name] = attribute
        elif name not in UNCHANGED and not is_default(newest, attribute):
            return None
    operands = list(node.operands)
    then = [p.name for p in schema.inputs]
    if not is_variadic(schema) and [p.name for p in newest.inputs[: len(then)]] != then[: len(newest.inputs)]:
        operands = [None] * len(then)
    elif len(operands) > len(then) and not is_variadic(schema):
        operands = operands[: len(then)]
    else:
        return checked(replace(node, attributes=attributes), schema)
    for index, value in enumerate(node.operands):
        name = formal(newest, index).name
        if value is None:
            continue
        if name in then:
            operands[then.index(name)] = value
        elif (known := next((n for n in NAMES.get(name, (name,)) if n in schema.attributes), None)) is not None:
            plain = plain_value(value, schema.attributes[known].type.name)
            if plain != []:
                attributes[known] = helper.make_attribute(known, plain)
        else:
            return None
    while operands and operands[-1] is None:
        operands.pop()
    return checked(replace(node, operands=tuple(operands), attributes=attributes), schema)


NAMES = {"K": ("k",), "constant_value": ("value",), "pads": ("pads", "paddings")}


def plain_value(value: Any, kind: str) -> Any:
    flat = np.asarray(value).ravel().tolist()
    return flat if kind.endswith("S") else flat[0]


def is_variadic(schema: defs.OpSchema) -> bool:
    return bool(schema.inputs) and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic


def is_default(schema: defs.OpSchema, attribute: AttributeProto) -> bool:
    default = schema.attributes[attribute.name].default_value if attribute.name in schema.attributes else None
    if default is None or not default.type:
        return attribute.name == "allowzero" and not attribute.i
    return helper.get_attribute_value(default) == helper.get_attribute_value(attribute)


def checked(node: Node, schema: defs.OpSchema) -> Node | None:
    """The node, if it has what the version demands."""
    missing = any(a.required and a.name not in node.attributes for a in schema.attributes.values())
    fits = schema.min_input <= len(node.operands) <= schema.max_input and len(node.results) <= schema.max_output
    return None if missing or not fits else node


SPECIAL: dict[tuple[str, int], Callable[[Node], Node | None]] = {
    ("GroupNormalization", 18): lambda n: n if len(set(map(np.shape, n.operands[1:]))) == 1 and (
        n.attributes["num_groups"].i == len(n.operands[1]) and "stash_type" not in n.attributes) else None,
    ("LabelEncoder", 1): lambda n: made("LabelEncoder", texts("a", "c", "x"), classes_strings=["a", "b"], domain=ML),
    ("PRelu", 1): lambda n: replace(n, operands=(n.operands[0], n.operands[0].reshape(-1)[:1])),
    ("PRelu", 6): lambda n: replace(n, operands=(n.operands[0], n.operands[0].reshape(-1)[:1])),
    ("Scan", 8): lambda n: replace(n, operands=(None, *(v[None] for v in n.operands)))
    if set(n.attributes) <= {"body", "num_scan_inputs"} and len(n.operands) == 2 else None,
    ("Tile", 1): lambda n: made("Tile", n.operands[0], np.array(2, np.float32), np.array(1, np.float32)),
    ("Upsample", 1): lambda n: made("Upsample", n.operands[0], width_scale=2.0, height_scale=2.0),
    ("Upsample", 7): lambda n: made("Upsample", n.operands[0], scales=[1.0, 1.0, 2.0, 2.0]),
}  # fmt: skip


# Element types

CHOOSE_RESULT = ("to", "dtype", "output_dtype", "output_datatype")
CARRIED = {"Loop": 2, "Scan": 0, "SequenceMap": 0, "If": 1}
"""Operators with bodies: from which operand on the element type is the body's."""


def with_element(node: Node, schema: defs.OpSchema, variable: str, element: int) -> Node | None:
    """The node whose operands of a type variable have an element type; None where neither they nor an attribute can."""
    if node.op in CARRIED:
        return with_body_of(node, element) if variable in ("V", "S", "O") else None
    operands = [
        value if value is None or isinstance(value, dict) or formal(schema, at).type_str != variable
        else retyped(value, element)
        for at, value in enumerate(node.operands)
    ]  # fmt: skip
    listed = [formal(schema, at).type_str for at, v in enumerate(node.operands) if v is not None]
    if variable in listed:
        return replace(node, operands=tuple(operands))
    name = next((n for n in CHOOSE_RESULT if n in schema.attributes), None)
    if variable not in [p.type_str for p in schema.outputs]:
        return None
    if name is not None:
        text = schema.attributes[name].type.name == "STRING"
        value = TensorProto.DataType.Name(element) if text else element
        return replace(node, attributes=node.attributes | {name: helper.make_attribute(name, value)})
    if node.op in ("Constant", "ConstantOfShape") and "value" in node.attributes:
        array = retyped(onnx.numpy_helper.to_array(node.attributes["value"].t), element)
        return replace(node, attributes={"value": helper.make_attribute("value", tensor_of(array, element))})
    return None


def with_body_of(node: Node, element: int) -> Node | None:
    """A node with bodies that hand on what they are given; one of another form is left out."""
    first = CARRIED[node.op]
    operands = tuple(v if v is None or at < first else retyped(v, element) for at, v in enumerate(node.operands))
    names = ("then_branch", "else_branch") if node.op == "If" else ("body",)
    plain = {"num_scan_inputs"} | set(names)
    if not set(node.attributes) <= plain:
        return None
    bodies = {name: helper.make_attribute(name, body(node.op, element)) for name in names}
    given = len(bodies[names[0]].g.output) - (node.op == "Loop")  # whether it goes on is no result
    return Node(node.domain, node.op, operands, node.attributes | bodies, (True,) * given)
