"""Which trainer trains some cells."""

from collections.abc import Sequence

from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.training.cell import Cell
from fedaudit.training.personalised import PersonalisedStack
from fedaudit.training.stack import Stack
from fedaudit.training.trainer import Checkpoints, Trainer


def open_stack(
    cells: Sequence[Cell], *, device: str = "cpu", checkpoints: Checkpoints | None = None
) -> Trainer:
    """Starts the cells, or resumes those that have a checkpoint.

    Raises ValueError where they cannot be trained together, and InvalidInputError where a spec asks
    more of its records than they have.
    """
    if any(isinstance(cell.spec.privacy, RecordPersonalised) for cell in cells):
        return PersonalisedStack(cells, device=device, checkpoints=checkpoints)
    return Stack(cells, device=device, checkpoints=checkpoints)
