"""Which rows membership is guessed of: members trained, non-members were held out. No torch.

The split draws who is held out at random, so members and non-members are exchangeable: nothing but
training tells them apart, and a guess that looks at the data alone has an AUC of 0.5. The seed of
a run determines its split, so an attacker who knew the seed would have nothing to guess.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.randomness import Purpose, Source
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of, training_records

MAX_ROWS_EACH = 25_000
"""Members, and non-members, that are attacked at most: enough for rates at 0.1 %."""
MAX_SCORES = 1 << 24
"""Rows times models that are looked at: 128 MiB for each figure of theirs."""


@dataclass(frozen=True, eq=False)
class AttackedRows:
    """The rows that are attacked, client after client; arrays [rows]."""

    place: NDArray[np.int64]
    """Where the row lies in the federation's arrays, ascending."""
    client: NDArray[np.int64]
    """Its client's index in the federation."""
    member: NDArray[np.bool_]
    """Whether it was trained on."""

    def __len__(self) -> int:
        return len(self.place)


def trained_rows(cell: Cell) -> NDArray[np.bool_]:
    """Which rows a run of the cell trains on: bool [rows of the federation]."""
    trained = np.zeros(cell.federation.rows, dtype=np.bool_)
    trained[training_records(cell.spec, cell.federation).place] = True
    return trained


def choose_rows(cell: Cell, source: Source, *, models: int) -> AttackedRows:
    """Members and non-members of the cell's run, a random sample where there are very many.

    Records that never enter a step, because their budgets are too small, are neither. `models`:
    how many are to be looked at.
    """
    trained = trained_rows(cell)
    candidates = np.ones(cell.federation.rows, dtype=np.bool_)
    use = record_use_of(cell.spec, cell.federation)
    if use is not None:
        place = training_records(cell.spec, cell.federation).place
        candidates[place[use.plan.left_out]] = False
    most = min(MAX_ROWS_EACH, MAX_SCORES // (2 * models))
    place = np.sort(
        np.concatenate(
            [
                _some(np.flatnonzero(candidates & trained), most, source, number=1),
                _some(np.flatnonzero(candidates & ~trained), most, source, number=2),
            ]
        )
    )
    return AttackedRows(place, cell.federation.client_of[place], trained[place])


def _some(rows: NDArray[np.int64], most: int, source: Source, *, number: int) -> NDArray[np.int64]:
    """At most so many of the rows, without replacement; `number` tells draws apart."""
    if len(rows) <= most:
        return rows
    words = source.wide_words(
        purpose=Purpose.ATTACK, round_=number, counters=np.arange(len(rows)), count=1
    )
    return rows[np.argsort(words[..., 0].reshape(-1), kind="stable")[:most]]
