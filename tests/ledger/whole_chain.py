"""A chain of links, followed from its first entry to its last."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.encoding import genesis, link


def first_broken_link(
    experiment_id: str, links: Iterable[tuple[bytes, NDArray[np.integer], bytes]]
) -> int | None:
    """The position of the first (digest, clusters, link) that does not follow from those before."""
    previous = genesis(experiment_id)
    for position, (digest, clusters, stored) in enumerate(links):
        previous = link(previous, digest, clusters)
        if previous != stored:
            return position
    return None
