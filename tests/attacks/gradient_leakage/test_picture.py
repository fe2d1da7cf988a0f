"""Pictures: a file that other software reads back, pixel by pixel."""

import struct
import zlib

import numpy as np
import pytest

from fedaudit.attacks.gradient_leakage.update_match import contact_sheet, png


def read_back(content: bytes) -> np.ndarray:
    """Pixels of a PNG file whose rows are not filtered, every checksum checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        body = content[place + 4 : place + 8 + length]
        assert struct.unpack_from(">I", content, place + 8 + length)[0] == zlib.crc32(body)
        chunks[body[:4]] = body[4:]
        place += 12 + length
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8
    channels = {0: 1, 2: 3}[kind]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape((height, width) if channels == 1 else (height, width, 3))


@pytest.mark.parametrize("size", [(5, 7), (5, 7, 3)])
def test_pixels_come_back(size: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    assert np.array_equal(read_back(png(pixels)), pixels)


def test_a_sheet_has_a_row_for_each_image_and_a_column_for_each_version() -> None:
    dark, bright = np.zeros((3, 4, 4, 1)), np.ones((3, 4, 4, 1))
    sheet = contact_sheet([dark, bright])
    side = 4 * 3 + 2
    assert sheet.shape == (3 * side, 2 * side)
    assert not sheet[: side - 2, : side - 2].any()
    assert (sheet[: side - 2, side : 2 * side - 2] == 255).all()
