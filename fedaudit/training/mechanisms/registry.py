"""The mechanism of a spec, and `record-personalised` in training.

This is the only place that names them all: a mechanism that a spec may name and this module does
not handle is an error to the type checker, and stops a run before it starts.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import torch

from fedaudit.arrays import Floats
from fedaudit.networks.record_gradients import clipped_gradients
from fedaudit.networks.stacked_network import Loss
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import Local
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import RecordSteps, local_optimiser
from fedaudit.training.mechanisms.base import RecordProtection, Unprotected, privacy_of, watched
from fedaudit.training.mechanisms.gaussian import (
    Protection,
    distance_server,
    gaussian_server,
    gaussian_uploads,
)
from fedaudit.training.mechanisms.laplace_l2 import laplace_uploads


def build_record_protection(
    cell: Cell, loss: Loss, plan: RecordPlan, *, clients: int
) -> RecordProtection:
    """The local steps of a cell whose `clients` training clients follow this plan, private record
    by record: the baseline `privacy-free` has neither clip nor noise.

    Raises ValueError for a mechanism that does not protect records, and for a plan whose noise is
    no positive number.
    """
    [privacy], local = privacy_of([cell], RecordPersonalised), cell.spec.training.local
    if local.steps is None:
        raise ValueError(f"{privacy.mechanism} takes a number of steps, and no epochs")
    noise = _noise_multipliers(plan, clients)
    steps = RecordSteps(
        gradients=clipped_gradients(cell.shape, loss),
        optimiser=local_optimiser(local, local.step_size),
        steps=local.steps,
        clip=float("inf") if plan.runs is None else privacy.clip,
        normaliser=_normaliser(local, noise),
    )
    return watched(RecordProtection(steps, noise))


def _noise_multipliers(plan: RecordPlan, clients: int) -> Floats:
    """Multiplier of each client; zeros only where the plan has no noise at all."""
    if plan.runs is None:
        return np.zeros(clients)
    noise = np.array([run.noise_multiplier for run in plan.runs])
    if noise.shape != (clients,) or not (np.isfinite(noise) & (noise > 0)).all():
        raise ValueError("every client of a private plan needs noise of its own")
    return noise


def _normaliser(local: Local, noise: Floats) -> float:
    """What sums of gradients are divided by, a public number: the batch size where one is given.

    Otherwise the noise multiplier, which follows from public numbers where every record has a rate
    of its own: the noise on a step is then as large as the clip.
    """
    if local.batch_size is not None:
        return float(local.batch_size)
    return max(1.0, float(noise[0]))


def build_protection(cells: Sequence[Cell], device: torch.device) -> Protection:
    """What protects the updates of cells that can be stacked.

    Raises ValueError for a mechanism that is not trained update by update, and for cells of
    several mechanisms.
    """
    privacy = cells[0].spec.privacy
    match privacy:
        case NoMechanism():
            privacy_of(cells, NoMechanism)
            return watched(Unprotected())
        case LaplaceL2():
            return watched(laplace_uploads(cells, device))
        case GaussianLocal():
            return watched(gaussian_uploads(cells, device))
        case GaussianCentral():
            return watched(gaussian_server(cells, device))
        case GaussianDistance():
            return watched(distance_server(cells, device))
        case RecordPersonalised():
            raise ValueError(f"updates are not protected by {privacy.mechanism} here")
        case _:
            assert_never(privacy)
