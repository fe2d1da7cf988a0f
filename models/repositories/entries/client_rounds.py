"""Which rounds name a subject: an index over the packed ledger, made behind the newest rounds.

It answers nothing by itself: whoever asks for one subject's history is given that subject's part of
the packed rows, and reads those rows only that name it. Everything in it follows from them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, update

from models.arrays import BINARY_RESULTS
from models.repositories.base import ExperimentPartRepository
from models.tables.experiments import Experiment
from models.tables.ledger import ClientRounds, LedgerTotals

BLOCK_ROUNDS = 1024
"""Rounds of a block: the first has rounds 1 to 1,024."""
_PARTS = 128
"""Subjects of one remainder by this number share a row, so that rows are neither many nor long."""
_BLOCKS_AT_ONCE = 32

Index = Mapping[int, tuple[NDArray[np.int32], NDArray[np.int32]]]
"""Of one block, by part: subjects and the rounds that name them, side by side, in that order."""


def block_of(round_: int) -> int:
    """The block that a round lies in, from 0."""
    return (round_ - 1) // BLOCK_ROUNDS


def index_of(rows: Iterable[tuple[int, NDArray[np.int32]]]) -> Index:
    """The index that follows from the rounds and subjects of the rows of one block."""
    pairs = [who.astype(np.int64) << 32 | round_ for round_, who in rows if who.size]
    if not pairs:
        return {}
    ordered = np.sort(np.concatenate(pairs))  # several times as fast as numpy's unique
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    subjects, rounds = (distinct >> 32).astype(np.int32), (distinct & 0xFFFFFFFF).astype(np.int32)
    parts = subjects % _PARTS
    order = np.argsort(parts, kind="stable")
    known, begin = np.unique(parts[order], return_index=True)
    split = zip(
        known.tolist(),
        np.split(subjects[order], begin[1:]),
        np.split(rounds[order], begin[1:]),
        strict=True,
    )
    return {part: (who, when) for part, who, when in split}


def same_index(one: Index, other: Index) -> bool:
    """Whether two indices are equal."""
    return one.keys() == other.keys() and all(
        np.array_equal(mine, its)
        for part in one
        for mine, its in zip(one[part], other[part], strict=True)
    )


class ClientRoundsRepository(ExperimentPartRepository):
    """The index of each experiment, block after block."""

    def waiting(
        self, limit: int, *, leaving_out: Collection[str] = ()
    ) -> list[tuple[str, str, int]]:
        """Experiments whose next block is complete: id, project and the rounds indexed so far."""
        rows = self.session.execute(
            select(Experiment.id, Experiment.project_id, LedgerTotals.indexed_rounds)
            .join(LedgerTotals, LedgerTotals.experiment_id == Experiment.id)
            .where(
                Experiment.rounds_done >= LedgerTotals.indexed_rounds + BLOCK_ROUNDS,
                Experiment.id.not_in(leaving_out),
            )
            .order_by(Experiment.id)
            .limit(limit)
        )
        return [(id_, project_id, indexed) for id_, project_id, indexed in rows]

    def indexed_rounds(self, experiment_id: str) -> int:
        """How many rounds are in the index; the rows of later ones have to be looked through."""
        totals = self._select(LedgerTotals, experiment_id)
        return self.session.scalar(totals.with_only_columns(LedgerTotals.indexed_rounds)) or 0

    def add(self, experiment_id: str, project_id: str, block: int, index: Index) -> bool:
        """Adds the next block; False where another process has done so."""
        first = block * BLOCK_ROUNDS
        moved = self._execute(
            update(LedgerTotals)
            .where(
                LedgerTotals.experiment_id == experiment_id, LedgerTotals.indexed_rounds == first
            )
            .values(indexed_rounds=first + BLOCK_ROUNDS)
        )
        if moved:
            place = {"experiment_id": experiment_id, "project_id": project_id, "block": block}
            self._insert(
                ClientRounds,
                [
                    {**place, "part": part, "subjects": who, "rounds": when}
                    for part, (who, when) in index.items()
                ],
            )
        return bool(moved)

    def block(self, experiment_id: str, block: int) -> Index:
        """What is stored of a block."""
        statement = self._select(ClientRounds, experiment_id).where(ClientRounds.block == block)
        rows = self.session.execute(
            statement.with_only_columns(
                ClientRounds.part, ClientRounds.subjects, ClientRounds.rounds
            ),
            execution_options=BINARY_RESULTS,
        )
        return {part: (who, when) for part, who, when in rows}

    def rounds_of(
        self, experiment_id: str, subject: int, *, first: int, last: int, limit: int
    ) -> list[int]:
        """At least `limit` rounds that name the subject, ascending, or all from `first` to
        `last`."""
        found: list[int] = []
        begin, end = block_of(max(first, 1)), block_of(last)
        while begin <= end and len(found) < limit:
            for who, when in self._part(experiment_id, subject, begin, begin + _BLOCKS_AT_ONCE):
                mine = when[who == subject]
                found += mine[(mine >= first) & (mine <= last)].tolist()
            begin += _BLOCKS_AT_ONCE
        return found

    def _part(
        self, experiment_id: str, subject: int, begin: int, end: int
    ) -> Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        statement = self._select(ClientRounds, experiment_id).where(
            ClientRounds.block >= begin,
            ClientRounds.block < end,
            ClientRounds.part == subject % _PARTS,
        )
        rows = self.session.execute(
            statement.with_only_columns(ClientRounds.subjects, ClientRounds.rounds).order_by(
                ClientRounds.block
            ),
            execution_options=BINARY_RESULTS,
        )
        return [(who, when) for who, when in rows]
