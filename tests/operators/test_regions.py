"""Pools over regions whose number of samples depends on the regions."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from .cases import check, model_of


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_as_many_samples_as_elements(kind: type[np.generic], coordinates: str, mode: str) -> None:
    """Regions inside, outside and across the edges of the image, of no size and of a negative one."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3, 9, 11)).astype(kind)
    corner = random.uniform(-3, 12, (8, 2))
    regions = np.concatenate([corner, corner + random.uniform(0, 9, (8, 2))], 1).astype(kind)
    regions[5] = [2, 3, 2, 3]
    regions[6] = [5, 6, 3, 2]
    regions[7] = [-20, -20, -15, -15]
    operands = [x, regions, random.integers(0, 2, 8)]
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "output_height": 3, "output_width": 2,
                  "spatial_scale": 0.75}  # fmt: skip
    [wanted] = check("RoiAlign", operands, attributes, tolerance=16, levels=("graph", "kernels", "tensor"))
    if kind != np.float16:
        model = model_of("RoiAlign", operands, attributes, [wanted], opset=16)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        [theirs] = session.run(None, {f"x{at}": o for at, o in enumerate(operands)})
        np.testing.assert_allclose(theirs, wanted, rtol=1e-5, atol=1e-5)
