"""Which clients of each cell train, which are held out, and how their rows are scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.split import scored_rows, split_clients
from fedaudit.spec.sources import LeaveOneOut, RowSplit
from fedaudit.training.base.cell import Cell


@dataclass(frozen=True)
class Splits:
    """Client indices within each cell's own federation, ascending; the first axis is [cells]."""

    training: NDArray[np.int64]
    """[cells, clients]."""
    validation: NDArray[np.int64]
    """[cells, clients]."""
    _scored: NDArray[np.bool_] | None
    """[cells, validation clients, rows]."""

    def scored(
        self, clients: NDArray[np.int64], positions: Sequence[int]
    ) -> NDArray[np.bool_] | None:
        """The rows that are scored, of validation clients [len(positions), clients] of the cells
        at `positions`: bool [len(positions), clients, rows].

        None where every row is scored, by a choice made without it.
        """
        if self._scored is None:
            return None
        pairs = zip(clients, positions, strict=True)
        return np.stack(
            [
                self._scored[position, np.searchsorted(self.validation[position], own)]
                for own, position in pairs
            ]
        )


def split_cells(cells: Sequence[Cell]) -> Splits:
    """The splits of cells that can be stacked."""
    splits = [
        split_clients(
            cell.federation.clients,
            validation_fraction=cell.spec.federation.validation_fraction,
            seed=cell.spec.seed,
        )
        for cell in cells
    ]
    training = np.stack([split.training for split in splits]).astype(np.int64)
    validation = np.stack([split.validation for split in splits]).astype(np.int64)
    found = [_scored_rows(cell, own) for cell, own in zip(cells, validation, strict=True)]
    scored = [rows for rows in found if rows is not None]
    return Splits(training, validation, np.stack(scored) if scored else None)


def _scored_rows(cell: Cell, clients: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    scoring = cell.spec.federation.scoring
    match scoring:
        case LeaveOneOut():
            return None
        case RowSplit():
            mask = cell.federation.mask[clients]
            return scored_rows(
                mask.sum(1),
                clients=clients,
                longest=mask.shape[1],
                fraction=scoring.fraction,
                seed=cell.spec.seed,
            )
        case _:
            assert_never(scoring)
