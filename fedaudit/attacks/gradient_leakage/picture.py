"""Pictures of reconstructions as PNG files (ISO/IEC 15948)."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOURS = 0, 2
_GAP, _PAPER, _SCALE = 2, 255, 3


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A file of pixels [height, width] in grey, or [height, width, 3] in colours."""
    height, width = pixels.shape[:2]
    kind = _GREY if pixels.ndim == 2 else _COLOURS
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    # Before each row stands the number of its filter: none.
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))
    data = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in chunks)


def contact_sheet(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.uint8]:
    """Pixels of a sheet of pictures: a row for each image, a column for each of its versions.

    `columns`: [images, height, width, channels] from 0 to 1 each. Images of one or three channels
    are shown as they are, others by the mean of their channels.
    """
    shown = [_shown(column) for column in columns]
    sheet = np.concatenate([np.concatenate(list(column), axis=0) for column in shown], axis=1)
    return np.squeeze(sheet, axis=-1) if sheet.shape[-1] == 1 else sheet


def _shown(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    if images.shape[-1] not in (1, 3):
        images = images.mean(-1, keepdims=True)
    grey = (np.clip(images, 0, 1) * 255 + 0.5).astype(np.uint8)
    larger = grey.repeat(_SCALE, axis=1).repeat(_SCALE, axis=2)
    gaps = ((0, 0), (0, _GAP), (0, _GAP), (0, 0))
    return np.pad(larger, gaps, constant_values=_PAPER)


def _chunk(name: bytes, content: bytes) -> bytes:
    checked = name + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
