"""Images client after client, some of them rotated, with their labels and attributes."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.mapped import check_size
from fedaudit.randomness import CounterSource, Purpose, uniforms
from fedaudit.spec.errors import error_at

MAX_IMAGES_BYTES = 2 * 2**30
"""Bytes of memory that the images of a federation may take."""
MAX_ROW_VALUES = 100_000
"""Pixels of an image."""


def square_image(width: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a flat row of `width` values; None if it is not square."""
    side = isqrt(width)
    return (side, side, 1) if side * side == width else None


def check_clients(counts: NDArray[np.int64], where: str) -> None:
    """Refuse a federation of one client, or one whose labels and groups would be too large."""
    if len(counts) < 2:
        raise error_at(
            where, "there are images of one client at most; a federation needs at least two clients"
        )
    check_size(
        rows=int(counts.sum()), features=0, where=where, remedy="leave out clients or images"
    )


def feature_names(rows: ClientRows) -> tuple[str, ...]:
    """A name for each pixel."""
    if rows.image is None:
        return tuple(f"feature {place}" for place in range(rows.values.shape[1]))
    height, width, channels = rows.image
    pixels = [f"pixel {row},{column}" for row in range(height) for column in range(width)]
    if channels == 1:
        return tuple(pixels)
    return tuple(f"{pixel},{channel}" for pixel in pixels for channel in range(channels))


ATTRIBUTE = "rotated"
VALUES = ("no", "yes")


def rotated_clients(clients: int, *, probability: float, seed: int) -> NDArray[np.bool_]:
    """[clients] whether a client's images are rotated, independently with `probability`.

    A client is identified by its index, so the draw depends only on the seed and the client names.
    """
    words = CounterSource(seed).words(
        purpose=Purpose.ROTATION, round_=0, counters=np.arange(clients), count=1
    )
    return uniforms(words[:, 0]) < probability


def rotate(federation: Federation, turned: NDArray[np.bool_]) -> Attribute:
    """Rotate the images of these clients by 90 degrees counter-clockwise, in place.

    `turned`: [clients]. The attribute that says so has both values, whatever was drawn. Raises
    InvalidInputError at /federation/rotate if rotation would change the shape of the images.
    """
    rows = federation.features
    if not isinstance(rows, ClientRows) or rows.image is None:
        raise error_at(
            "/federation/rotate",
            f"rows of {federation.width} features are no images that could be turned; leave it out",
        )
    height, width, _ = rows.image
    if height != width:
        raise error_at(
            "/federation/rotate",
            f"images of {height} by {width} pixels are not square and would change their shape; "
            "leave it out",
        )
    for client in np.flatnonzero(turned).tolist():
        images = rows.values[federation.own(client)].reshape(-1, *rows.image)
        images[...] = np.rot90(images, axes=(1, 2)).copy()
    return Attribute(ATTRIBUTE, VALUES, turned.astype(np.int16)[federation.client_of])
