"""ImageDecoder: BMP, JPEG, PNG, PNM and TIFF by decoders of our own, in Python and numpy; the others by Pillow."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ..dtypes import Array
from ..mathematics import Function
from .bits import DecodeError
from .jpeg import decode_jpeg
from .pillow import decode_by_pillow
from .plain import decode_bmp, decode_pnm
from .png import decode_png
from .tiff import decode_tiff

# the first bytes of a stream -> its decoder, to [H, W, 1 or 3]
_DECODERS: dict[bytes, Callable[[bytes], Array]] = {
    b"BM": decode_bmp,
    b"\xff\xd8\xff": decode_jpeg,
    b"\x89PNG\r\n\x1a\n": decode_png,
    b"II*\x00": decode_tiff,
    b"MM\x00*": decode_tiff,
    **{b"P%d" % n: decode_pnm for n in range(1, 7)},
    b"RIFF": decode_by_pillow,  # WebP
    b"\x00\x00\x00\x0cjP": decode_by_pillow,  # JPEG 2000 in its file format
    b"\xff\x4f\xff\x51": decode_by_pillow,  # its bare code stream
}


def image_decoder(stream: Array, /, *, pixel_format: str = "RGB") -> Array:
    """[H, W, 3] in RGB or BGR, or [H, W, 1] in grey; [0, 0, channels] for what is no image.

    Raises NotImplementedError for WebP and JPEG 2000 where Pillow is not installed.
    """
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise ValueError(f"ImageDecoder has no pixel_format {pixel_format!r}")
    data = stream.tobytes()
    decode = next((d for start, d in _DECODERS.items() if data.startswith(start)), None)
    grey = pixel_format == "Grayscale"
    try:
        if decode is None:
            raise DecodeError("no known image format")
        pixels = decode(data)
    except NotImplementedError:
        raise
    except (DecodeError, ValueError, KeyError, IndexError, struct.error):
        return np.zeros((0, 0, 1 if grey else 3), np.uint8)
    if grey:
        return _grey(pixels)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.ascontiguousarray(pixels if pixel_format == "RGB" else pixels[:, :, ::-1])


def _grey(pixels: Array) -> Array:
    """Luma of ITU-R BT.601 in fixed point of 16 bits."""
    if pixels.shape[2] == 1:
        return pixels
    weighted = pixels.astype(np.int64) @ np.array([19595, 38470, 7471])
    return ((weighted + 0x8000) >> 16).astype(np.uint8)[:, :, None]


IMAGES: dict[str, Function] = {"ImageDecoder": image_decoder}
