"""Which clients of each cell train, which are held out, and how their rows are scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.packing import first_rows
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
    _scored: tuple[NDArray[np.bool_], ...] | None
    """By cell, the rows of its validation clients, client after client; None where every row is
    scored, by a choice made without it."""
    _first: tuple[NDArray[np.int64], ...]
    """By cell, where the rows of each validation client begin: [clients + 1]."""

    def scored(
        self, clients: NDArray[np.int64], positions: Sequence[int], *, rows: int
    ) -> NDArray[np.bool_] | None:
        """The rows that are scored, of validation clients [len(positions), clients] of the cells
        at `positions`: bool [len(positions), clients, rows], False beyond a client's own.

        None where every row is scored, by a choice made without it.
        """
        if self._scored is None:
            return None
        found = np.zeros((*clients.shape, rows), dtype=np.bool_)
        for place, (own, position) in enumerate(zip(clients, positions, strict=True)):
            members = np.searchsorted(self.validation[position], own)
            first = self._first[position]
            index = first[members, None] + np.arange(rows)
            within = index < first[members + 1, None]
            found[place][within] = self._scored[position][index[within]]
        return found

    def scored_rows(self, clients: NDArray[np.int64], position: int) -> NDArray[np.bool_] | None:
        """The same of clients [clients] of one cell, their rows end to end."""
        if self._scored is None:
            return None
        first, own = self._first[position], np.searchsorted(self.validation[position], clients)
        return np.concatenate([self._scored[position][first[at] : first[at + 1]] for at in own])


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
    pairs = list(zip(cells, validation, strict=True))
    found = [_scored_rows(cell, own) for cell, own in pairs]
    scored = tuple(rows for rows in found if rows is not None)
    first = tuple(first_rows(cell.federation.counts[own]) for cell, own in pairs)
    return Splits(training, validation, scored or None, first)


def _scored_rows(cell: Cell, clients: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    scoring = cell.spec.federation.scoring
    match scoring:
        case LeaveOneOut():
            return None
        case RowSplit():
            return scored_rows(
                cell.federation.counts[clients],
                clients=clients,
                fraction=scoring.fraction,
                seed=cell.spec.seed,
            )
        case _:
            assert_never(scoring)
