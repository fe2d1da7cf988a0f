"""Which trainer trains some cells."""

from collections.abc import Sequence
from typing import assert_never

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.trainer import Checkpoints, Trainer
from fedaudit.training.mechanisms.base import ClientMechanism, RecordMechanism, ServerMechanism
from fedaudit.training.mechanisms.registry import training_mechanism
from fedaudit.training.records.personalised import PersonalisedStack
from fedaudit.training.stack import Stack


def open_stack(
    cells: Sequence[Cell], *, device: str = "cpu", checkpoints: Checkpoints | None = None
) -> Trainer:
    """Starts the cells, or resumes those that have a checkpoint.

    Raises ValueError where the cells cannot be trained together, and InvalidInputError where a spec
    asks more of its records than they have.
    """
    mechanism = training_mechanism(cells[0].spec.privacy)
    match mechanism:
        case RecordMechanism():
            return PersonalisedStack(cells, device=device, checkpoints=checkpoints)
        case ClientMechanism() | ServerMechanism():
            return Stack(cells, device=device, checkpoints=checkpoints)
        case _:
            assert_never(mechanism)
