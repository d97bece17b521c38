"""ImageDecoder on streams made here, and on some that other programs made (with the pixels that those give back)."""

import base64
import hashlib
import io
import struct
import sys
import zlib

import numpy as np
import pytest
from sardonyx.semantics.reference import REFERENCE


def decode(data, pixel_format="RGB"):
    stream = np.frombuffer(bytes(data), np.uint8)
    return REFERENCE["", "ImageDecoder"]([stream], {"pixel_format": pixel_format})[0]


# 13 x 11 pixels, written by Pillow 13; the digest is of the RGB pixels that it reads
FOREIGN = {
    "progressive": (
        "376e59c83031645e",
        '|JeWF01!$>Nk#wx0RR9200961|JwjV01XKW3knDg3knMk4h;_zAQcl55)&sJ9v2`kDKRiEDJ?8BI!Zn>HbyrrEkIX6ModmpQ&KWM'
        'T47pHU`kO^PygEhLjevB4iga*CKVMXPc<zyPft%zPft%zPft%zPft%zPft%zPft%zPft%zPft%zPft%zPft%zPft%zPft%zPf!2C'
        '01*fP4FC%R0U`hb5di}c0sq7R6aWDL000000000000000000I5!~hfl0RR910000000000000001pnFq3<CiG0uTcb0003{h6oye'
        '|HJ?n5CH%K000000000000000009CbGXL5D2mt{A0R;kD$+MYj|HJ?m5dZ@K000000000000000000Cs|Jncu0RsU6KLJ`#|HJ?n'
        '5dZ@L0000000000000000009K693u&2mt~C0Y3p`+5f}<6c7Ob000000000000000001EW+5iXv0RRR+0w4dx02dGe0RaI300000'
        '00000000000TChp+5iXv0RRC%A)`$pj-UV901N{G00IC50000G3;)Cb6%hde00000000000000000031|Jncu0RsU6KM+O#!~hl%'
        '00RI3000000000000000009yI+5iXv0s#R(5NjX*!~ho%0RRI400000000000000000DuK|Jncu0RaF3KM=)UP~{!3|Je',
    ),
    "restarts": (
        "49290ee82e87da56",
        '|JeWF01!$>Nk#wx0RR9200961|JwjV02B@n5)Ta&5)cv>6%-gAG9exu93DL^E+jHZKuk+VKt@GST61DhRc%&9Mr4R(ZFhTtf`Lw8'
        'jhBplmUDiAeE-`3Lje^R7akfOJ0T%Ed{ahKe0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0+R-e0=}F'
        '01*fP4FC%R0U-ba5di}c0sq7R9{>OW1pxs80RaI300000000010s{mE1_uZU3Jd?l0JRVR0s#X90t5pE1q1{D00Dgg0s{a95d{(<'
        'F+m0sQDFxnaTGFvk)a49Lb1UWQqk}vGh%Xr2?`b$7#SKRCMPH<Dl|1VH#j*uLqtVJM@UIZQ&d$}S6EqEV`OD!XJ~0^b98lfcX)Yv'
        'gM@{Khlq)al9QB`mY0~BnxdnmrKYE-sj9NGw6(UkxVgH*!^FkL$H>Xb($mz{*4NnC+Tr5k<mKk)=;`Y5^7Hid_V@Vt`v1fL9{~UZ'
        '0RaI40RaI40RR91000010s{mE1_uZU3Jd?l0JRYS0s#U91Oo&I1q1{D0Rndb0RjUN1O*{61`<J02Vrp&A~Jyp6he`qvB3!=Gg9ys'
        'Vsg<679=#`CGi&+85$-hC@Cs6Ha9pqIzvQ7Mn_0VN>fx-R##YAT4Q8oW@l(=YIAgTc6WGrdV+(5g@%WSiHeewl$Dm3n3<ZQqok##'
        'r>Lo_va__cwzs&sy28W6#m2|T$;#5x)YaD4*xB0R<K*S$=jiF`^7Hid_V@Vt`v2Vk1ONj6+5ij#0RRFK0}%i}0NQsxN8wmAIrCfV'
        'Toq#dqdRbkavcMx@;?f|nMa!6T2*HKqZSeShyU3',
    ),
    "packbits": (
        "659305d3f664c10a",
        'Nl7XIFaQ7m0slY&yFdZ$paH(10rx-wx}X8xfC0B)0s4RezhD9CfC0Z?0rh|Y2><{A0{{U4000XB000320{{U4000dD000630{{U4'
        '00031000940{{U4000Gm000I70{{U400031000pI1ONd5000O8000&N0{{U4000dD000*O1ONd5001Wd000~T0{{U40003100000'
        '000',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_streams_of_other_programs(name):
    digest, *parts = FOREIGN[name]
    pixels = decode(base64.b85decode("".join(parts)))
    assert pixels.shape == (13, 11, 3)
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == digest


def png(width, height, depth, colour, rows, interlaced=0, palette=b""):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"PLTE", palette) if palette else b"")
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def filtered(kind, line, above, step):
    """A PNG row as an encoder writes it."""
    line, above = line.astype(int), above.astype(int)
    left = np.concatenate([np.zeros(step, int), line[:-step]])
    corner = np.concatenate([np.zeros(step, int), above[:-step]])
    guess = left + above - corner
    distance = [np.abs(guess - v) for v in (left, above, corner)]
    nearest = np.where(
        (distance[0] <= distance[1]) & (distance[0] <= distance[2]),
        left,
        np.where(distance[1] <= distance[2], above, corner),
    )
    predicted = [np.zeros_like(line), left, above, (left + above) // 2, nearest][kind]
    return bytes([kind]) + ((line - predicted) % 256).astype(np.uint8).tobytes()


@pytest.mark.parametrize("kind", range(5))
def test_png_filters(kind):
    pixels = np.random.default_rng(kind).integers(0, 256, (6, 5, 3)).astype(np.uint8)
    lines = pixels.reshape(6, 15)
    above = np.vstack([np.zeros((1, 15), np.uint8), lines[:-1]])
    rows = [filtered(kind, line, up, 3) for line, up in zip(lines, above, strict=True)]
    np.testing.assert_array_equal(decode(png(5, 6, 8, 2, rows)), pixels)


def test_png_interlaced_palette_of_two_bits():
    index = np.random.default_rng(0).integers(0, 4, (9, 11))
    palette = np.array([[1, 2, 3], [40, 50, 60], [0, 255, 0], [9, 9, 9]], np.uint8)
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = []
    for top, left, down, right in passes:
        for row in index[top::down, left::right]:
            if len(row):
                bits = "".join(f"{v:02b}" for v in row)
                bits += "0" * (-len(bits) % 8)
                rows.append(bytes([0]) + int(bits, 2).to_bytes(len(bits) // 8, "big"))
    data = png(11, 9, 2, 3, rows, 1, palette.tobytes())
    np.testing.assert_array_equal(decode(data), palette[index])


def test_png_of_16_bits_and_with_transparency():
    rows = [b"\0" + bytes([10, 1, 20, 2, 30, 3, 99, 9])]
    assert decode(png(1, 1, 16, 6, rows)).tolist() == [[[10, 20, 30]]]
    assert decode(png(1, 1, 8, 4, [b"\0\x07\xff"]), "Grayscale").tolist() == [[[7]]]


def test_tiff_lzw_across_code_lengths():
    """1,200 bytes need codes of 9, 10 and 11 bits."""
    pixels = np.random.default_rng(1).integers(0, 256, (30, 40)).astype(np.uint8)
    table, prefix = {bytes([i]): i for i in range(256)}, b""
    packed = f"{256:09b}"
    for value in pixels.tobytes():
        longer = prefix + bytes([value])
        if longer in table:
            prefix = longer
            continue
        packed += f"{table[prefix]:0{max(9, (len(table) + 2).bit_length())}b}"
        table[longer] = len(table) + 2
        prefix = bytes([value])
    packed += f"{table[prefix]:0{max(9, (len(table) + 2).bit_length())}b}"
    packed += f"{257:0{max(9, (len(table) + 3).bit_length())}b}"
    packed += "0" * (-len(packed) % 8)
    strip = int(packed, 2).to_bytes(len(packed) // 8, "big")
    fields = [(256, 40), (257, 30), (258, 8), (259, 5), (262, 1), (273, 8), (278, 30), (279, len(strip))]
    directory = struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", t, 4, 1, v) for t, v in fields)
    data = struct.pack("<2sHI", b"II", 42, 8 + len(strip)) + strip + directory + bytes(4)
    np.testing.assert_array_equal(decode(data, "Grayscale")[:, :, 0], pixels)


def test_bmp_upside_down_and_with_a_palette():
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    rows = b"".join(row[:, ::-1].tobytes() + bytes(2) for row in pixels)
    head = struct.pack("<IiiHHIIiiII", 40, 2, -2, 1, 24, 0, 0, 0, 0, 0, 0)
    np.testing.assert_array_equal(decode(b"BM" + struct.pack("<III", 0, 0, 54) + head + rows), pixels)
    head = struct.pack("<IiiHHIIiiII", 40, 3, 1, 1, 4, 0, 0, 0, 0, 2, 0)
    palette = bytes([3, 2, 1, 0, 6, 5, 4, 0])
    data = b"BM" + struct.pack("<III", 0, 0, 62) + head + palette + bytes([0x10, 0x10, 0, 0])
    assert decode(data).tolist() == [[[4, 5, 6], [1, 2, 3], [4, 5, 6]]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"P1 # bits\n2 2\n0 1\n10", [[255, 0], [0, 255]]),
        (b"P2\n2 1\n15\n0 15\n", [[0, 255]]),
        (b"P4\n3 1\n\xa0", [[0, 255, 0]]),
        (b"P5\n2 1\n255\n\x07\x08", [[7, 8]]),
        (b"P5 1 1 65535\n\x80\x80", [[128]]),
    ],
)
def test_pnm(data, expected):
    assert decode(data, "Grayscale")[:, :, 0].tolist() == expected


def test_formats_and_orders():
    data = b"P6 1 1 255\n\x01\x02\x03"
    assert decode(data).tolist() == [[[1, 2, 3]]]
    assert decode(data, "BGR").tolist() == [[[3, 2, 1]]]
    assert decode(b"P6 1 1 255\n\xff\x00\x00", "Grayscale").tolist() == [[[76]]]
    assert decode(b"P5 1 1 255\n\x05").tolist() == [[[5, 5, 5]]]
    with pytest.raises(ValueError, match="no pixel_format 'CMYK'"):
        decode(data, "CMYK")


@pytest.mark.parametrize("cut", [0, 1, 4, 20, 60, 300, 500])
@pytest.mark.parametrize("name", FOREIGN)
def test_damaged_streams_give_no_pixels_or_an_image(name, cut):
    data = bytearray(base64.b85decode("".join(FOREIGN[name][1:])))
    data[cut : cut + 40] = bytes(40)
    pixels = decode(data)
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert decode(data[:cut]).shape[2] == 3


def test_headers_that_promise_too_much():
    assert decode(b"P6 999999 999999 255\n\x00").shape == (0, 0, 3)
    assert decode(png(2**31 - 1, 2**31 - 1, 8, 2, [])).shape == (0, 0, 3)


def test_no_image_is_empty():
    assert decode(b"nothing").shape == (0, 0, 3)
    assert decode(b"", "Grayscale").shape == (0, 0, 1)


@pytest.mark.parametrize("name, mode", [("WEBP", "RGB"), ("JPEG2000", "RGB"), ("JPEG2000", "L"), ("WEBP", "RGBA")])
def test_formats_of_pillow(name, mode):
    from PIL import Image

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 7) if mode == "L" else (5, 7, len(mode)), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, name, lossless=True, exact=True)
    wanted = pixels.reshape(5, 7, -1)[:, :, :3]
    np.testing.assert_array_equal(decode(stream.getvalue()), np.broadcast_to(wanted, (5, 7, 3)))
    assert decode(stream.getvalue(), "Grayscale").shape == (5, 7, 1)
    assert decode(stream.getvalue()[:40]).shape == (0, 0, 3)


@pytest.mark.parametrize("start", [b"RIFF\0\0\0\0WEBPVP8 ", b"\0\0\0\x0cjP  \r\n\x87\n"])
def test_formats_that_need_pillow_say_so(start, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(NotImplementedError, match=r"sardonyx\[images\]"):
        decode(start)
