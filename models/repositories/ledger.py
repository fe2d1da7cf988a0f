"""The packed ledger: inserted in blocks, read by round."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select, update

from models.arrays import BINARY_RESULTS
from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository
from models.repositories.packed_rows import SubjectRowRepository
from models.tables.experiments import Experiment
from models.tables.federations import ErasedLedger
from models.tables.ledger import ClientRounds, Ledger, LedgerTotals, ReleaseIntent
from models.values import Cursor, LedgerRow

_FOLLOWED = (
    select(Ledger.experiment_id)
    .where(
        Ledger.experiment_id == ReleaseIntent.experiment_id,
        Ledger.round == ReleaseIntent.round,
        Ledger.release == ReleaseIntent.release,
    )
    .exists()
)


class LedgerRepository(SubjectRowRepository, ExperimentPartRepository):
    """Ledger rows, which are only ever inserted, and what is kept beside them."""

    _table = Ledger

    def history(
        self,
        experiment_id: str,
        subject: int,
        round_from: int | None = None,
        round_to: int | None = None,
        *,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> list[LedgerRow]:
        """As `rows_after`, with one subject's elements; in indexed rounds, rows without it are left
        out."""
        index = ClientRoundsRepository(self.session, self.project_id)
        indexed = index.indexed_rounds(experiment_id)
        first = max(round_from or 1, 1 if after is None else after[0])
        last = indexed if round_to is None else min(indexed, round_to)
        rows: list[LedgerRow] = []
        if first <= last:
            # One round more, because all rows of the first may lie before the place to begin at.
            rounds = index.rounds_of(
                experiment_id, subject, first=first, last=last, limit=limit + 1
            )
            rows = self.rows_of_subject(
                experiment_id, subject, rounds[: limit + 1], after=after, limit=limit
            )
        if len(rows) < limit:
            begin, left = max(first, indexed + 1), limit - len(rows)
            rows += self.looked_through(
                experiment_id, subject, begin, round_to, after=after, limit=left
            )
        return rows

    def put_totals(
        self,
        experiment_id: str,
        project_id: str,
        *,
        releases: NDArray[np.int32],
        refusals: int,
        withheld: int,
    ) -> None:
        """Overwrites the running totals; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        totals = {"releases": releases, "refusals": refusals, "withheld": withheld}
        self._put(LedgerTotals, {**owner, **totals})

    def get_totals(self, experiment_id: str) -> LedgerTotals | None:
        """The running totals; None before the first flush."""
        return self._one(self._select(LedgerTotals, experiment_id))

    def add_intents(
        self,
        experiment_id: str,
        project_id: str,
        intents: Sequence[tuple[int, int, NDArray[np.int32]]],
    ) -> None:
        """Notes (round, release, subjects) that are about to be charged, before noise is drawn."""
        owner = {"experiment_id": experiment_id, "project_id": project_id, "created_at": utc_now()}
        names = ("round", "release", "subjects")
        rows = [{**owner, **dict(zip(names, intent, strict=True))} for intent in intents]
        self._insert(ReleaseIntent, rows)

    def open_intents(self, experiment_id: str) -> list[ReleaseIntent]:
        """Intents that no ledger row followed: their noise may have been drawn."""
        return self._all(
            self._select(ReleaseIntent, experiment_id)
            .where(~_FOLLOWED)
            .order_by(ReleaseIntent.round, ReleaseIntent.release)
        )

    def ended_with_open_intents(
        self, limit: int, *, excluded: Collection[str] = ()
    ) -> list[tuple[str, str]]:
        """Experiments that failed or were cancelled with open intents: (id, project id). Not those
        that diverged or succeeded: their worker knows that the rest of its last block did not run.
        `excluded`: ids to leave out."""
        rows = self.session.execute(
            select(ReleaseIntent.experiment_id, ReleaseIntent.project_id)
            .join(Experiment, Experiment.id == ReleaseIntent.experiment_id)
            .where(
                ~_FOLLOWED,
                Experiment.status.in_(("failed", "cancelled")),
                func.coalesce(Experiment.status_reason, "") != "diverged",
                ReleaseIntent.experiment_id.not_in(excluded),
                # Without names nothing can be entered any more.
                ReleaseIntent.experiment_id.not_in(select(ErasedLedger.owner_id)),
            )
            .distinct()
            .limit(limit)
        )
        return [(experiment_id, project_id) for experiment_id, project_id in rows]

    def charged_releases(self, experiment_id: str, *, observers: int = 1) -> list[int]:
        """The most releases charged to any subject, open intents included, against each observer in
        the order of names. Raises ValueError if the totals are not of so many observers."""
        totals = self.get_totals(experiment_id)
        released = np.zeros(0, np.int64) if totals is None else totals.releases.astype(np.int64)
        charged = released.reshape(observers, -1)
        intents = self.open_intents(experiment_id)
        if intents:
            lost = np.concatenate([intent.subjects for intent in intents])
            size = max(charged.shape[1], int(lost.max(initial=-1)) + 1)
            charged = np.pad(charged, ((0, 0), (0, size - charged.shape[1])))
            charged = charged + np.bincount(lost, minlength=size)
        most: list[int] = charged.max(axis=1, initial=0).tolist()
        return most


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
        """At least `limit` rounds that name the subject, ascending, or all in the range."""
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
