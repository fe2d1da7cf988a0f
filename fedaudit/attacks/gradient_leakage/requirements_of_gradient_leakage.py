"""What data must have for images to be reconstructed from updates. No torch."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows
from fedaudit.federations.split import split_clients
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.errors import FieldError
from fedaudit.training.base.cell import Cell


def faults(spec: GradientLeakageSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """What the data lack for the attack, at its fields; `pointer` is that of the attack."""
    features, found = cell.federation.features, []
    if not isinstance(features, ClientRows) or features.image is None:
        found.append(
            FieldError(
                f"{pointer}/kind",
                "reconstructs images, and these rows have no height and width; store them as "
                "[images, height, width], or leave the attack out",
                of_spec=True,
            )
        )
    own = cell.federation.counts[attackable_clients(cell)]
    updates = int((own // spec.images_per_update).sum())
    if updates * spec.images_per_update < spec.images:
        # Without the number: numbers for every `images_per_update` are the clients' sizes.
        found.append(
            FieldError(
                f"{pointer}/images",
                f"{spec.images} images in updates of {spec.images_per_update} of one client are "
                "more than the training clients have; attack fewer, or fewer in one update",
            )
        )
    return found


def attackable_clients(cell: Cell) -> NDArray[np.int64]:
    """The clients that train, whose updates a server sees: indices, ascending."""
    source = cell.spec.federation
    if source.holds_out_rows:
        return np.arange(cell.federation.clients)
    split = split_clients(
        cell.federation.clients, validation_fraction=source.validation_fraction, seed=cell.spec.seed
    )
    return split.training.astype(np.int64)
