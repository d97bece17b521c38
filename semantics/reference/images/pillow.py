"""WebP and JPEG 2000 by Pillow, which the extra `images` installs: codecs too large to have of our own."""

from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np

from ..dtypes import Array
from .bits import DecodeError


def decode_by_pillow(data: bytes) -> Array:
    """[H, W, 1 or 3]; an image with transparency or a palette is what its colours are without it.

    Raises NotImplementedError where Pillow is not installed or was built without the codec, DecodeError for bad data.
    """
    try:
        # untyped on purpose: the product has the same types whether the extra is installed or not
        pillow: Any = importlib.import_module("PIL.Image")
        features: Any = importlib.import_module("PIL.features")
    except ImportError as error:
        raise NotImplementedError("images in WebP and JPEG 2000 need Pillow: install sardonyx[images]") from error
    codec = "webp" if data.startswith(b"RIFF") else "jpg_2000"
    if not features.check(codec):
        raise NotImplementedError(f"this build of Pillow has no codec {codec}")
    try:
        with pillow.open(io.BytesIO(data), formats=("WEBP", "JPEG2000")) as image:
            pixels = np.asarray(image.convert("L" if image.mode == "L" else "RGB"))
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DecodeError(str(error)) from error
    return pixels.reshape(*pixels.shape[:2], -1)
