"""Whether the attacks of a spec can be carried out on its data. No torch.

The service asks when a spec is submitted, a worker and `fedaudit run` before they train.
"""

from typing import assert_never

import numpy as np

from fedaudit.attacks.canaries import canary_pool
from fedaudit.attacks.membership import shadow_design
from fedaudit.federations.federation import ClientRows
from fedaudit.federations.split import training_clients
from fedaudit.spec.attacks import (
    AttackSpec,
    CanariesSpec,
    ClientInferenceSpec,
    ClusterMembershipSpec,
    GradientLeakageSpec,
    MembershipSpec,
)
from fedaudit.spec.errors import FieldError, of_spec, pointer, raise_errors
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import training_records

LEAST_CLIENTS = 5
"""Fewest clients on either side of `client-inference`: among fewer an AUC is chance."""


def check_attacks(cell: Cell) -> None:
    """Raises InvalidInputError if an attack of the cell's spec cannot be carried out."""
    found = []
    for position, attack in enumerate(cell.spec.attacks):
        at = pointer("attacks", position)
        found += of_spec(attack.retired(at)) or faults(attack, cell, at=at)
    raise_errors(found)


def faults(attack: AttackSpec, cell: Cell, *, at: str) -> list[FieldError]:
    """Why the data do not suffice for an attack, whose pointer is `at`."""
    match attack:
        case CanariesSpec():
            return canary_pool.faults(attack, cell, pointer=at)
        case MembershipSpec():
            return shadow_design.faults(attack, cell, pointer=at)
        case ClientInferenceSpec():
            few = _client_inference_faults(cell, at=at)
            return few or shadow_design.faults(attack, cell, pointer=at)
        case GradientLeakageSpec():
            return _gradient_leakage_faults(attack, cell, at=at)
        case ClusterMembershipSpec():
            return _cluster_membership_faults(cell, at=at)
        case _:
            assert_never(attack)


def _client_inference_faults(cell: Cell, *, at: str) -> list[FieldError]:
    federation = cell.federation
    trained, left_out = shadow_design.trained_rows(cell), federation.left_out
    scored = ~trained if left_out is None else ~trained & ~left_out
    inside, outside = (len(np.unique(federation.client_of[rows])) for rows in (trained, scored))
    if left_out is not None:  # of whose rows a power of two is kept
        outside = 1 << (outside.bit_length() - 1) if outside else 0
    least = max(LEAST_CLIENTS, cell.spec.fairness.minimum_group_clients)
    if min(inside, outside) >= least:
        return []
    message = (
        f"compares clients that train with those held out, and needs {least} of each with scored "
        "rows (more with `fairness.exclude`); use data with more clients, another "
        "`federation.validation_fraction`, or leave this attack out"
    )
    return [FieldError(f"{at}/kind", message, of_spec=True)]


def _cluster_membership_faults(cell: Cell, *, at: str) -> list[FieldError]:
    clients = training_clients(cell.federation.clients, cell.spec.federation)
    least = cell.spec.fairness.minimum_group_size
    if clients >= least:
        return []
    message = (
        "too few clients train: figures of fewer than `fairness.minimum_group_size` "
        f"({least}) choices are suppressed; use data with more clients, or leave this attack out"
    )
    return [FieldError(f"{at}/kind", message, of_spec=True)]


def _gradient_leakage_faults(spec: GradientLeakageSpec, cell: Cell, *, at: str) -> list[FieldError]:
    features, found = cell.federation.features, []
    if not isinstance(features, ClientRows) or features.image is None:
        message = (
            "reconstructs images, and these rows have no height and width; store them as "
            "[images, height, width], or leave the attack out"
        )
        found.append(FieldError(f"{at}/kind", message, of_spec=True))
    own = training_records(cell.spec, cell.federation).counts
    if int(own.sum()) < spec.images:
        message = f"{spec.images} images are more than the training clients have; attack fewer"
        found.append(FieldError(f"{at}/images", message))
    return found
