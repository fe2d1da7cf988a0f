"""The mechanism of a spec.

This is the only place that names them all: a mechanism that a spec may name and this module does
not handle is an error to the type checker, and stops a run before it starts.
"""

from collections.abc import Sequence
from typing import assert_never

import torch

from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    PrivacySpec,
    RecordPersonalised,
)
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    NoMechanismTraining,
    Protection,
    RecordMechanism,
    ServerMechanism,
    TrainingMechanism,
    watched,
)
from fedaudit.training.mechanisms.gaussian import GaussianCentralTraining, GaussianLocalTraining
from fedaudit.training.mechanisms.laplace_l2 import LaplaceL2Training
from fedaudit.training.mechanisms.record_personalised import RecordPersonalisedTraining


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
