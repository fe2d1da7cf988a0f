"""Clients whose images are rotated, so that their data follow another distribution."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import ClientRows
from fedaudit.federations.levels import Levels
from fedaudit.randomness import CounterSource, Purpose, uniforms

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


def rotate(
    rows: ClientRows, positive_flipped: NDArray[np.bool_], *, first: NDArray[np.int64]
) -> None:
    """Rotate the images of these clients by 90 degrees counter-clockwise, in place.

    `positive_flipped`: [clients]; `first` [clients + 1]: where each client's rows begin. Raises
    InvalidInputError at /federation/rotate if rotation would change the shape of the images.
    """
    if rows.image is None:
        raise error_at(
            "/federation/rotate",
            f"rows of {rows.values.shape[1]} features are no images that could be turned; leave "
            "it out",
        )
    height, width, _ = rows.image
    if height != width:
        raise error_at(
            "/federation/rotate",
            f"images of {height} by {width} pixels are not square and would change their shape; "
            "leave it out",
        )
    for client in np.flatnonzero(positive_flipped):
        own = rows.values[first[client] : first[client + 1]]
        images = own.reshape(-1, *rows.image)
        images[...] = np.rot90(images, axes=(1, 2)).copy()


def rotation_levels(positive_flipped: NDArray[np.bool_], *, first: NDArray[np.int64]) -> Levels:
    """The attribute of the rows, client after client; both values exist whatever was drawn."""
    return Levels(VALUES, np.repeat(positive_flipped.astype(np.int64), np.diff(first)))
