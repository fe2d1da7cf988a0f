"""Images client after client, without padding, with their labels and attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.levels import Levels
from fedaudit.federations.packing import check_size

MAX_IMAGES_BYTES = 2 * 2**30
"""Bytes of memory that the images of a federation may take."""
MAX_ROW_VALUES = 100_000
"""Pixels of an image."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Images with their labels, client after client."""

    clients: tuple[str, ...]
    """Sorted by code point."""
    rows: ClientRows
    labels: NDArray[np.int64]
    """[rows] positions in `classes`."""
    classes: tuple[str, ...]
    fingerprint: str
    notes: tuple[str, ...]


def square_image(width: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a flat row of `width` values; None if it is not square."""
    side = isqrt(width)
    return (side, side, 1) if side * side == width else None


def first_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[clients + 1] where each client's rows begin, for [clients] numbers of rows."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def check_clients(counts: NDArray[np.int64], where: str) -> None:
    """Refuse a federation of one client, or one whose padded labels and groups would be too
    large."""
    if len(counts) < 2:
        raise error_at(
            where, "there are images of one client at most; a federation needs at least two clients"
        )
    check_size(
        clients=len(counts),
        rows=int(counts.max()),
        features=0,
        where=where,
        remedy="split or shorten the largest client",
    )


def federation_of(data: LabelledRows, attributes: Mapping[str, Levels]) -> Federation:
    """The federation of these images; `attributes` are ordered client by client like the rows."""
    counts = np.diff(data.rows.first)
    mask = np.arange(int(counts.max())) < counts[:, None]
    labels = np.zeros(mask.shape, dtype=np.float64)
    labels[mask] = data.labels
    return Federation(
        features=data.rows,
        target=labels.astype(np.float32),
        raw_target=labels,
        mask=mask,
        client_names=data.clients,
        feature_names=_feature_names(data.rows),
        target_name="y",
        target_scale=1.0,
        classes=data.classes,
        attributes=tuple(
            Attribute(name, levels.values, _padded_codes(levels, mask))
            for name, levels in attributes.items()
        ),
        fingerprint=data.fingerprint,
        truth=None,
        notes=data.notes,
    )


def _padded_codes(levels: Levels, mask: NDArray[np.bool_]) -> NDArray[np.int16]:
    codes = np.full(mask.shape, -1, dtype=np.int16)
    codes[mask] = levels.codes
    return codes


def _feature_names(rows: ClientRows) -> tuple[str, ...]:
    if rows.image is None:
        return tuple(f"feature {place}" for place in range(rows.values.shape[1]))
    height, width, channels = rows.image
    pixels = [f"pixel {row},{column}" for row in range(height) for column in range(width)]
    if channels == 1:
        return tuple(pixels)
    return tuple(f"{pixel},{channel}" for pixel in pixels for channel in range(channels))
