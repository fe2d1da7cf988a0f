"""The mechanism of a spec, and `record-personalised` in training.

This is the only place that names them all: a mechanism that a spec may name and this module does
not handle is an error to the type checker, and stops a run before it starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch

from fedaudit.arrays import Floats
from fedaudit.networks.record_gradients import clipped_gradients
from fedaudit.networks.stacked_network import Loss
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    PrivacySpec,
    RecordPersonalised,
)
from fedaudit.spec.training import Local
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import RecordSteps, local_optimiser
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    NoMechanismTraining,
    Protection,
    RecordMechanism,
    RecordProtection,
    ServerMechanism,
    TrainingMechanism,
    watched,
)
from fedaudit.training.mechanisms.gaussian import GaussianCentralTraining, GaussianLocalTraining
from fedaudit.training.mechanisms.laplace_l2 import LaplaceL2Training


@dataclass(frozen=True)
class RecordPersonalisedTraining(RecordMechanism):
    """`record-personalised` in training."""

    privacy: RecordPersonalised
    name = "record-personalised"

    def protection(
        self, cell: Cell, loss: Loss, plan: RecordPlan, *, clients: int
    ) -> RecordProtection:
        """See `RecordMechanism`. The baseline `privacy-free` has neither clip nor noise."""
        local = cell.spec.training.local
        if local.steps is None:
            raise ValueError(f"{self.name} takes a number of steps, and no epochs")
        clip, noise = self.privacy.clip, _noise_multipliers(plan, clients)
        if plan.runs is None:
            clip = float("inf")
        steps = RecordSteps(
            gradients=clipped_gradients(cell.shape, loss),
            optimiser=local_optimiser(local, local.step_size),
            steps=local.steps,
            clip=clip,
            normaliser=_normaliser(local, noise),
        )
        return RecordProtection(steps, noise)


def _noise_multipliers(plan: RecordPlan, clients: int) -> Floats:
    """Of each client; zeros only where the plan says that there is no noise at all."""
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


def training_mechanism(privacy: PrivacySpec) -> TrainingMechanism:
    """The mechanism of a spec, with its parameters, as it is trained with."""
    return watched(_mechanism(privacy))


def _mechanism(privacy: PrivacySpec) -> TrainingMechanism:
    match privacy:
        case NoMechanism():
            return NoMechanismTraining(privacy)
        case LaplaceL2():
            return LaplaceL2Training(privacy)
        case GaussianLocal():
            return GaussianLocalTraining(privacy)
        case GaussianCentral():
            return GaussianCentralTraining(privacy)
        case RecordPersonalised():
            return RecordPersonalisedTraining(privacy)
        case _:
            assert_never(privacy)


def build_protection(cells: Sequence[Cell], device: torch.device) -> Protection:
    """What protects the updates of cells that can be stacked.

    Raises ValueError for a mechanism that is not trained update by update.
    """
    mechanism = training_mechanism(cells[0].spec.privacy)
    match mechanism:
        case ClientMechanism() | ServerMechanism():
            return mechanism.protection(cells, device)
        case RecordMechanism():
            raise ValueError(f"updates are not protected by {mechanism.name} here")
        case _:
            assert_never(mechanism)
