"""Trains the demo's classifier on the handwritten digits of scikit-learn and exports it to ONNX.

Needs `pip install torch onnxscript scikit-learn onnx`.  Writes `digits.onnx` (symbolic batch, under 300 kB) and
`test.npz` (the 360 images held out, with their labels).  The seed is fixed; the accuracy is printed.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
HELD_OUT = 360


class Attention(nn.Module):
    """Multi-head self-attention over the cells of the feature map."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, cells, width = x.shape
        qkv = self.qkv(x).reshape(batch, cells, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, dim=-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, cells, width))


class Digits(nn.Module):
    """Two convolutions, a transformer block over the 16 cells that are left, and a linear head."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, width, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        )  # fmt: skip
        self.place = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image).flatten(2).transpose(1, 2) + self.place
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return torch.softmax(self.head(x.mean(dim=1)), dim=-1)


def portable_traces(model: onnx.ModelProto) -> None:
    """Source lines stay in the nodes' metadata, without the folders of the machine that trained."""
    folders = (f"{HERE}/", f"{sysconfig.get_paths()['purelib']}/")
    for node in model.graph.node:
        for entry in node.metadata_props:
            for folder in folders:
                entry.value = entry.value.replace(folder, "")


def main() -> None:
    torch.manual_seed(7)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(images))
    images = (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = labels[order]
    test_images, test_labels = images[:HELD_OUT], labels[:HELD_OUT]
    x, y = torch.from_numpy(images[HELD_OUT:]), torch.from_numpy(labels[HELD_OUT:])
    model = Digits()
    epochs, batch = 60, 64
    steps = epochs * (len(x) // batch + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            shift = torch.randint(-1, 2, (2,)).tolist()
            moved = torch.roll(x[rows], shift, dims=(2, 3))
            loss = nn.functional.nll_loss(torch.log(model(moved) + 1e-9), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        answers = model(torch.from_numpy(test_images)).argmax(dim=1).numpy()
    print(f"accuracy on {HELD_OUT} held-out images: {(answers == test_labels).mean():.4f}")
    program = torch.onnx.export(
        model, (torch.from_numpy(test_images[:2]),), dynamo=True, opset_version=18, input_names=["image"],
        output_names=["probabilities"], dynamic_shapes={"image": {0: torch.export.Dim("batch", min=1)}},
    )  # fmt: skip
    assert program is not None
    exported = program.model_proto
    portable_traces(exported)
    (HERE / "digits.onnx").write_bytes(exported.SerializeToString(deterministic=True))
    np.savez_compressed(
        HERE / "test.npz", images=(test_images * 16).astype(np.uint8), labels=test_labels.astype(np.int64)
    )


if __name__ == "__main__":
    main()
