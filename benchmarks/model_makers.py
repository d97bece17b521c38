"""Models to measure, made from seeds: graphs in ONNX's text form, weights of numpy, no other framework needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

Array = np.ndarray[Any, Any]


@dataclass
class Maker:
    """Collects nodes and weights; values are named by what makes them."""

    seed: int = 0
    lines: list[str] = field(default_factory=list[str])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """A weight, by default of the size that keeps the size of what it is multiplied with."""
        name = f"w{len(self.weights)}"
        fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        values = self._random.standard_normal(shape) * (fan_in**-0.5 if scale is None else scale)
        self.weights[name] = values.astype(np.float32)
        return name

    def constant(self, values: object, dtype: Any = np.float32) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(values, dtype)
        return name

    def node(self, call: str) -> str:
        """A node of one result, written `Op <attributes> (operands)`."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {call}")
        return name

    def model(self, signature: str, results: str, values: dict[str, str]) -> onnx.ModelProto:
        """The model; `values` names the graph's results."""
        ends = [f"{name} = Identity ({value})" for name, value in values.items()]
        body = "\n".join([*self.lines, *ends])
        text = f'<ir_version: 10, opset_import: ["" : 20]> g ({signature}) => ({results}) {{ {body} }}'
        made = onnx.parser.parse_model(text)
        made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in self.weights.items())
        onnx.checker.check_model(made)
        return made


def conv(
    m: Maker, x: str, inputs: int, outputs: int, size: int, stride: int = 1, group: int = 1, act: str = "Relu"
) -> str:
    """A convolution with batch normalization, as exported, and an activation."""
    pad = size // 2
    w = m.weight(outputs, inputs // group, size, size)
    attributes = f"kernel_shape=[{size},{size}], strides=[{stride},{stride}], pads=[{pad},{pad},{pad},{pad}]"
    y = m.node(f"Conv <{attributes}, group={group}> ({x}, {w})")
    scale, bias = m.constant(np.ones(outputs)), m.constant(np.zeros(outputs))
    y = m.node(f"BatchNormalization ({y}, {scale}, {bias}, {bias}, {scale})")
    return m.node(f"{act} ({y})") if act else y


def resnet() -> onnx.ModelProto:
    """Basic blocks in four stages at 112x112, as ResNet-18 has them."""
    m = Maker()
    x = conv(m, "x", 3, 64, 7, 2)
    x = m.node(f"MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> ({x})")
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = conv(m, x, channels, width, 3, stride)
            inner = conv(m, inner, width, width, 3, act="")
            if stride != 1 or channels != width:
                x = conv(m, x, channels, width, 1, stride, act="")
            x = m.node(f"Relu ({m.node(f'Add ({inner}, {x})')})")
            channels = width
    x = m.node(f"Flatten ({m.node(f'GlobalAveragePool ({x})')})")
    y = m.node(f"Gemm ({x}, {m.weight(512, 1000)}, {m.weight(1000)})")
    return m.model("float[1,3,112,112] x", "float[1,1000] y", {"y": y})


def mobilenet() -> onnx.ModelProto:
    """Inverted bottlenecks with depthwise convolutions and clipped activations."""
    m = Maker()
    low, high = m.constant(0.0), m.constant(6.0)

    def clipped(value: str) -> str:
        return m.node(f"Clip ({value}, {low}, {high})")

    x = clipped(conv(m, "x", 3, 32, 3, 2, act=""))
    channels = 32
    for width, stride, repeat in ((16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3)):
        for number in range(repeat):
            wide = channels * 6
            inner = clipped(conv(m, x, channels, wide, 1, act=""))
            inner = clipped(conv(m, inner, wide, wide, 3, stride if not number else 1, group=wide, act=""))
            inner = conv(m, inner, wide, width, 1, act="")
            x = m.node(f"Add ({inner}, {x})") if number else inner
            channels = width
    x = m.node(f"Flatten ({m.node(f'GlobalAveragePool ({x})')})")
    y = m.node(f"Gemm ({x}, {m.weight(96, 1000)}, {m.weight(1000)})")
    return m.model("float[1,3,224,224] x", "float[1,1000] y", {"y": y})


def linear(m: Maker, x: str, inputs: int, outputs: int) -> str:
    product = m.node(f"MatMul ({x}, {m.weight(inputs, outputs)})")
    return m.node(f"Add ({product}, {m.weight(outputs, scale=0.02)})")


def gelu(m: Maker, x: str) -> str:
    """As exporters write it out."""
    inner = m.node(f"Erf ({m.node(f'Div ({x}, {m.constant(2**0.5)})')})")
    product = m.node(f"Mul ({x}, {m.node(f'Add ({inner}, {m.constant(1.0)})')})")
    return m.node(f"Mul ({product}, {m.constant(0.5)})")


def normalized(m: Maker, x: str, width: int) -> str:
    scale, bias = m.constant(np.ones(width)), m.constant(np.zeros(width))
    return m.node(f"LayerNormalization <axis=-1> ({x}, {scale}, {bias})")


def transformer() -> onnx.ModelProto:
    """Two encoder blocks of width 768 with 12 heads on 128 tokens, with a mask, of any batch."""
    m, width, heads = Maker(), 768, 12
    split, joined = m.constant([0, 0, heads, width // heads], np.int64), m.constant([0, 0, width], np.int64)
    scale = m.constant((width // heads) ** -0.5)
    x = "x"
    for _ in range(2):
        parts: list[str] = []
        for perm in ("0,2,1,3", "0,2,3,1", "0,2,1,3"):
            part = m.node(f"Reshape ({linear(m, x, width, width)}, {split})")
            parts.append(m.node(f"Transpose <perm=[{perm}]> ({part})"))
        scores = m.node(f"Mul ({m.node(f'MatMul ({parts[0]}, {parts[1]})')}, {scale})")
        shares = m.node(f"Softmax <axis=-1> ({m.node(f'Add ({scores}, mask)')})")
        mixed = m.node(f"Transpose <perm=[0,2,1,3]> ({m.node(f'MatMul ({shares}, {parts[2]})')})")
        mixed = linear(m, m.node(f"Reshape ({mixed}, {joined})"), width, width)
        x = normalized(m, m.node(f"Add ({x}, {mixed})"), width)
        inner = linear(m, gelu(m, linear(m, x, width, 4 * width)), 4 * width, width)
        x = normalized(m, m.node(f"Add ({x}, {inner})"), width)
    return m.model("float[B,128,768] x, float[B,1,1,128] mask", "float[B,128,768] y", {"y": x})


def tagger() -> onnx.ModelProto:
    """An embedding, a bidirectional LSTM of 128, and scores of tags, for 50 words."""
    m, words, hidden, tags = Maker(), 5000, 128, 20
    x = m.node(f"Gather ({m.weight(words, 64, scale=1.0)}, ids)")
    w, r = m.weight(2, 4 * hidden, 64), m.weight(2, 4 * hidden, hidden)
    y = m.node(f'LSTM <hidden_size={hidden}, direction="bidirectional"> ({x}, {w}, {r})')
    y = m.node(f"Transpose <perm=[0,2,1,3]> ({y})")
    y = m.node(f"Reshape ({y}, {m.constant([0, 0, 2 * hidden], np.int64)})")
    y = m.node(f"LogSoftmax <axis=-1> ({linear(m, y, 2 * hidden, tags)})")
    return m.model("int64[50,B] ids", "float[50,B,20] y", {"y": y})


def mlp() -> onnx.ModelProto:
    """Four layers of 512, of any batch."""
    m = Maker()
    x = "x"
    for inputs in (64, 512, 512, 512):
        x = m.node(f"Relu ({linear(m, x, inputs, 512)})")
    y = m.node(f"Sigmoid ({linear(m, x, 512, 1)})")
    return m.model("float[B,64] x", "float[B,1] y", {"y": y})


def trivial() -> onnx.ModelProto:
    """One addition of four numbers: what a call costs."""
    m = Maker()
    return m.model("float[4] x", "float[4] y", {"y": m.node("Add (x, x)")})


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, int]]] = {
    "resnet": (resnet, {}),
    "mobilenet": (mobilenet, {}),
    "transformer": (transformer, {"B": 1}),
    "tagger": (tagger, {"B": 4}),
    "mlp": (mlp, {"B": 16}),
    "trivial": (trivial, {}),
}
"""What makes each model, and the sizes to run it with."""
