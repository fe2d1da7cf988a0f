"""Trains shadow runs side by side, and looks at the attacked rows under each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.attacks.membership.row_observations import RowObserver
from fedaudit.training.base.cell import Cell, cells_at_once, stands_alone
from fedaudit.training.base.rounds import Trainer
from fedaudit.training.mechanisms.base import ClientMechanism, RecordMechanism, ServerMechanism
from fedaudit.training.mechanisms.registry import training_mechanism
from fedaudit.training.stack import open_stack
from fedaudit.training.stacked.stack_state import CellState

STACK_BYTES = 1 << 32
"""About what shadow runs that are trained together may take, by an estimate for runs that validate
every held-out client at once: 256 runs of the hospital task take a tenth of it."""
_ROUNDS = 4
"""Between two signs of progress."""


@dataclass(frozen=True, eq=False)
class ShadowObservations:
    """What was seen of the attacked rows under the shadow runs."""

    trained: NDArray[np.bool_]
    """[shadows, rows]: whether the shadow run trained on the row."""
    statistic: NDArray[np.float64]
    """[shadows, rows]: as in `Observations`."""

    @property
    def fewest(self) -> tuple[int, int]:
        """Shadow runs that trained on a row, and that did not, at least over the rows."""
        within = self.trained.sum(0)
        return int(within.min()), int(len(self.trained) - within.max())


def observe_shadows(
    cells: Sequence[Cell],
    trained: NDArray[np.bool_],
    rows: AttackedRows,
    *,
    device: str,
    progress: Callable[[float], None],
) -> ShadowObservations:
    """Trains the cells, as one stack where memory allows, and looks at the rows under each.

    `trained` [shadows, rows]: who trained on what. `progress` is given the share that is done.
    """
    observer = RowObserver(cells[0], rows, torch.device(device))
    statistic = np.zeros(trained.shape)
    together = 1 if stands_alone(cells[0]) else cells_at_once(cells[0], memory_bytes=STACK_BYTES)
    for first in range(0, len(cells), together):
        part = cells[first : first + together]
        share = len(part) / len(cells)

        def tell(done: float, first: int = first, share: float = share) -> None:
            progress(first / len(cells) + share * done)

        models = _train(part, device=device, progress=lambda done: tell(0.9 * done))
        for place, hypotheses in enumerate(models):
            statistic[first + place] = observer.observe(hypotheses).statistic
            tell(0.9 + 0.1 * (place + 1) / len(part))
    return ShadowObservations(trained, statistic)


def _train(
    cells: Sequence[Cell], *, device: str, progress: Callable[[float], None]
) -> list[NDArray[np.float32]]:
    """The hypotheses [k, n] of each cell at its best round."""
    trainer = open_stack(list(cells), device=device)
    rounds, played = len(cells) * cells[0].spec.training.rounds, 0
    while active := trainer.active:
        trainer.advance(_ROUNDS)
        # Cells that have stopped early count as done.
        played += _ROUNDS * len(active)
        progress(min(1.0, played / rounds))
    return [_best(trainer, position, cells[position]) for position in range(len(cells))]


def _best(trainer: Trainer, position: int, cell: Cell) -> NDArray[np.float32]:
    """The hypotheses that a result would have, without the scores that take most of its time."""
    mechanism = training_mechanism(cell.spec.privacy)
    match mechanism:
        case ClientMechanism() | ServerMechanism():
            return CellState.decode(trainer.checkpoint(position)).best_hypotheses
        case RecordMechanism():
            return trainer.result(position).hypotheses
        case _:
            assert_never(mechanism)
