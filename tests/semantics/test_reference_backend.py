"""ONNX's own backend tests on the graph level's executor: a sample always, all of them in the long suite."""

import hashlib
import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from sardonyx.dialects.onnx import model as names
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.runtime.errors import UnsupportedError
from sardonyx.semantics.interpreter import Interpreter

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

# what the standard leaves to chance
RANDOM = re.compile(r"test_bernoulli|test_training_dropout")

EXPECTED_FAILURES = {
    "test_gradient_of_add": "Gradient differentiates the graph around it; it is no function of its operands",
    "test_gradient_of_add_and_mul": "Gradient differentiates the graph around it; it is no function of its operands",
}


def load_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(case.name, case) for kind in KINDS for case in load_model_tests(kind=kind)]


CASES = load_cases()


def sampled(name):
    """One in sixteen, the same ones every time."""
    return hashlib.sha256(name.encode()).digest()[0] % 16 == 0


def parameters():
    for name, case in CASES:
        marks = [] if sampled(name) else [pytest.mark.slow]
        if name in EXPECTED_FAILURES:
            marks.append(pytest.mark.xfail(reason=EXPECTED_FAILURES[name], raises=UnsupportedError, strict=True))
        yield pytest.param(case, id=name, marks=marks)


def value_of(path, type_proto):
    data = path.read_bytes()
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))


def plain(value):
    """Test data hold protos where numpy has no type."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def loaded(case):
    """The model, and the inputs and outputs of each data set."""
    if case.model is not None:
        return case.model, [([plain(v) for v in i], [plain(v) for v in o]) for i, o in case.data_sets]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        ends = (("input", model.graph.input), ("output", model.graph.output))
        values = [
            [value_of(data / f"{end}_{i}.pb", infos[i].type) for i in range(len(list(data.glob(f"{end}_*.pb"))))]
            for end, infos in ends
        ]
        sets.append(tuple(values))
    return model, sets


def check(got, want, case):
    if isinstance(want, list | tuple):
        assert isinstance(got, list)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            check(g, w, case)
    elif want is None or isinstance(want, dict):
        assert got == want
    else:
        check_tensor(got, np.asarray(want), case)


def check_tensor(got, want, case):
    assert isinstance(got, np.ndarray)
    assert got.shape == want.shape
    if want.dtype.kind in "OUS":
        assert [str(v) for v in got.reshape(-1)] == [str(v) for v in want.reshape(-1)]
        return
    assert got.dtype == want.dtype
    if RANDOM.search(case.name):
        return
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=case.rtol, atol=case.atol)


def prepared(model):
    """The model on the graph level's executor: from inputs to outputs, both in the model's order."""
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    interpreter = Interpreter(module, weights)
    main = names.main_of(module)
    inputs, outputs = names.names_of(main, names.INPUTS), names.names_of(main, names.OUTPUTS)

    def run(values):
        results = interpreter.run(dict(zip(inputs, values, strict=True)))
        return [results[name] for name in outputs]

    return run


@pytest.mark.parametrize("case", list(parameters()))
def test_backend(case):
    model, sets = loaded(case)
    run = prepared(model)
    for inputs, outputs in sets:
        got = run(inputs)
        for g, w in zip(got, outputs, strict=True):
            check(g, w, case)


LIGHT = sorted((Path(onnx.backend.test.__file__).parent / "data" / "light").glob("light_*.onnx"))


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models(path):
    model = onnx.load(path)
    stored = onnx.TensorProto.FromString(next(path.parent.glob(path.stem + "_output_0.pb")).read_bytes())
    weights = {t.name for t in model.graph.initializer}
    feeds = []
    for info in model.graph.input:
        if info.name not in weights:
            shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            feeds.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    (y,) = prepared(model)(feeds)
    np.testing.assert_allclose(y, numpy_helper.to_array(stored), rtol=1e-3, atol=1e-5)
