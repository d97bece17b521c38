"""The reference functions are those of the schemas: every operator, every input, every attribute with its default."""

import inspect

import numpy as np
import onnx
import pytest
from onnx import defs
from sardonyx.semantics.reference import DTYPES, REFERENCE
from sardonyx.semantics.reference.dtypes import dtype_of

# Gradient needs the graph around it
NO_FUNCTION = {("ai.onnx.preview.training", "Gradient")}
# a contributed operator, and the compiler's own
WITHOUT_SCHEMA = {
    ("com.microsoft", "DynamicQuantizeLSTM"),
    ("com.microsoft", "Inverse"),
    *(("sardonyx", name) for name in ("BlockMatMul", "Couple", "Lookup", "NGrams", "Quantile", "StackTexts", "Trees")),
}


def newest_schemas():
    found = {}
    for schema in defs.get_all_schemas():
        found[schema.domain, schema.name] = schema
    return found


SCHEMAS = newest_schemas()
CASES = sorted(SCHEMAS.keys() & REFERENCE.keys())


OUTPUTS = ("outputs",)
OWN = {("", "Attention"): (*OUTPUTS, "empty_rows", "shared_key")}
"""Parameters that are no attributes of the schema."""


def test_every_operator_has_a_function():
    assert SCHEMAS.keys() - REFERENCE.keys() == NO_FUNCTION
    assert {key for key in REFERENCE if key not in SCHEMAS} == WITHOUT_SCHEMA


def parameters_of(key):
    return inspect.signature(REFERENCE[key].function).parameters.values()


@pytest.mark.parametrize("key", CASES, ids=lambda k: f"{k[0]}.{k[1]}")
def test_attributes_are_the_schema_s(key):
    named = {p.name: p for p in parameters_of(key) if p.kind is p.KEYWORD_ONLY and p.name not in OWN.get(key, OUTPUTS)}
    schema = SCHEMAS[key]
    assert named.keys() == schema.attributes.keys()
    for name, attribute in schema.attributes.items():
        default = named[name].default
        if attribute.default_value.name:
            expected = onnx.helper.get_attribute_value(attribute.default_value)
            given = REFERENCE[key]._defaults.get(name, default)
            assert plain(given) == plain(expected), name
        elif attribute.required:
            assert default is inspect.Parameter.empty, name
        else:
            # lists that an ensemble cannot do without have an empty default
            assert default is None or plain(default) in ([], [0.0]), name


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("key", CASES, ids=lambda k: f"{k[0]}.{k[1]}")
def test_operands_are_the_schema_s(key):
    positional = [p for p in parameters_of(key) if p.kind is p.POSITIONAL_ONLY]
    variadic = [p for p in parameters_of(key) if p.kind is p.VAR_POSITIONAL]
    schema = SCHEMAS[key]
    Option = defs.OpSchema.FormalParameterOption
    fixed = [i for i in schema.inputs if i.option != Option.Variadic]
    assert len(positional) == len(fixed)
    assert bool(variadic) == (len(fixed) < len(schema.inputs))
    for parameter, formal in zip(positional, fixed, strict=True):
        optional = formal.option == Option.Optional
        assert (parameter.default is None) == optional, parameter.name


def test_element_types_are_those_of_onnx():
    numbers = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    assert numbers == DTYPES.keys()
    for number in numbers - {onnx.TensorProto.STRING}:
        assert DTYPES[number] == onnx.helper.tensor_dtype_to_np_dtype(number)
    with pytest.raises(ValueError, match="0 is not an element type"):
        dtype_of(0)


def test_results_are_tensors_not_scalars():
    (y,) = REFERENCE["", "ReduceSum"]([np.ones((2, 3), np.float32)], {"keepdims": 0})
    assert isinstance(y, np.ndarray)
    assert y.shape == ()
    assert y.dtype == np.float32


def test_strings_come_out_as_str():
    (y,) = REFERENCE["", "Identity"]([np.array([["a", "bc"]])])
    assert y.dtype == object
    assert y.tolist() == [["a", "bc"]]
    assert type(y[0, 0]) is str
