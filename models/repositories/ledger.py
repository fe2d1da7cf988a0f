"""The packed ledger: inserted in blocks, read by round."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository
from models.repositories.packed_rows import PackedRowRepository, one_subject
from models.tables.experiments import Experiment
from models.tables.federations import ErasedLedger
from models.tables.ledger import Ledger, LedgerTotals, ReleaseIntent
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


_ROWS_AT_ONCE = 500
"""Rows that are read for one subject's sake."""


class LedgerRepository(PackedRowRepository, ExperimentPartRepository):
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
        """As `rows_after`, with one subject's elements, of the rows that name it."""
        found: list[LedgerRow] = []
        while len(found) < limit:
            rows = self.rows_after(
                experiment_id,
                round_from,
                round_to,
                after=after,
                limit=_ROWS_AT_ONCE,
                naming=subject,
            )
            found += [one_subject(row, subject) for row in rows if subject in row.subjects]
            if len(rows) < _ROWS_AT_ONCE:
                break
            after = rows[-1].key
        return found[:limit]

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
