"""How many rows of each group the clients train on."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import split_clients
from fedaudit.spec.experiment import ExperimentSpec


def training_group_rows(
    federation: Federation, spec: ExperimentSpec
) -> dict[str, NDArray[np.int32]]:
    """Attribute -> int32 [clients, groups], 0 for clients that are held out for validation.

    Where rows instead of clients are held out, every row counts. Rows without a value are not
    counted.
    """
    trains = np.ones(federation.clients, dtype=np.bool_)
    source = spec.federation
    if not source.holds_out_rows:
        trains[:] = False
        split = split_clients(
            federation.clients, validation_fraction=source.validation_fraction, seed=spec.seed
        )
        trains[split.training] = True
    found: dict[str, NDArray[np.int32]] = {}
    for attribute in federation.attributes:
        groups = len(attribute.values)
        known = attribute.codes >= 0
        slot = federation.client_of[known] * groups + attribute.codes[known]
        counted = np.bincount(slot, minlength=federation.clients * groups)
        rows = counted.reshape(federation.clients, groups).astype(np.int32)
        rows[~trains] = 0
        found[attribute.name] = rows
    return found
