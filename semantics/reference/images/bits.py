"""Reading bits from the front of bytes, the highest bit first."""

from __future__ import annotations

import zlib


class DecodeError(ValueError):
    """The stream is damaged, or is none of the format."""


# more than any camera has: what promises more is damaged, or made to exhaust the memory
_MOST_PIXELS = 1 << 28


def checked_size(width: int, height: int) -> None:
    """Raises DecodeError for an image without pixels, or with more than can be meant."""
    if width <= 0 or height <= 0 or width * height > _MOST_PIXELS:
        raise DecodeError(f"an image of {width} x {height}")


def inflated(data: bytes, most: int) -> bytes:
    """zlib's data unpacked, `most` bytes of it at most.  Raises DecodeError for a damaged stream."""
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error as error:
        raise DecodeError(f"an image's data are damaged: {error}") from None


class BitReader:
    """Bits of `data`; beyond its end come zeros, `margin` bytes of them at most.

    Raises DecodeError for more, so that no damaged stream reads for ever.
    """

    def __init__(self, data: bytes, margin: int = 64) -> None:
        self._data = data + bytes(margin)
        self._at = 0
        self._bits = 0
        self._count = 0

    def peek(self, count: int) -> int:
        """The next `count` bits, 32 at most."""
        while self._count < count:
            if self._at >= len(self._data):
                raise DecodeError("the image's data end too early")
            self._bits = (self._bits << 8 | self._data[self._at]) & 0xFFFFFFFFFF
            self._at += 1
            self._count += 8
        return self._bits >> (self._count - count) & ((1 << count) - 1)

    def skip(self, count: int) -> None:
        self._count -= count

    def take(self, count: int) -> int:
        value = self.peek(count) if count else 0
        self._count -= count
        return value
