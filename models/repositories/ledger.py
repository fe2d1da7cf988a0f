"""The packed ledger: inserted in blocks, read by round."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository
from models.repositories.entries.client_rounds import ClientRoundsRepository
from models.repositories.entries.subject_rows import SubjectRowRepository
from models.tables.experiments import Experiment
from models.tables.ledger import Ledger, LedgerTotals, ReleaseIntent
from models.tables.lifecycle.erasures import ErasedLedger
from models.values import Cursor, Intent, LedgerRow, LedgerTotalsRow

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
        """As `rows_after`, but each row has a subject's element alone, or none; where rounds are
        indexed, rows without it are left out."""
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

    def get_totals(self, experiment_id: str) -> LedgerTotalsRow | None:
        """The running totals; None before the first flush."""
        row = self._one(self._select(LedgerTotals, experiment_id))
        return None if row is None else LedgerTotalsRow(row.releases, row.refusals, row.withheld)

    def add_intents(
        self,
        experiment_id: str,
        project_id: str,
        intents: Sequence[tuple[int, int, NDArray[np.int32]]],
    ) -> None:
        """Notes (round, release, subjects) that are about to be charged, before noise is drawn."""
        now = utc_now()
        self._insert(
            ReleaseIntent,
            [
                {
                    "experiment_id": experiment_id,
                    "project_id": project_id,
                    "round": round_,
                    "release": release,
                    "subjects": subjects,
                    "created_at": now,
                }
                for round_, release, subjects in intents
            ],
        )

    def open_intents(self, experiment_id: str) -> list[Intent]:
        """Intents that no ledger row followed: their noise may have been drawn."""
        rows = self._all(
            self._select(ReleaseIntent, experiment_id)
            .where(~_FOLLOWED)
            .order_by(ReleaseIntent.round, ReleaseIntent.release)
        )
        return [Intent(row.round, row.release, row.subjects) for row in rows]

    def ended_with_open_intents(
        self, limit: int, *, excluded: Collection[str] = ()
    ) -> list[tuple[str, str]]:
        """Experiments that failed or were cancelled with open intents: (id, project id).

        Not those that diverged or succeeded: their worker lived, and knows that the rest of its
        last block was never played. `excluded`: ids of others to leave out.
        """
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
        """The most releases that any one subject is charged, open intents included.

        Before each observer, in the order of their names. Raises ValueError where the totals are
        not those of so many observers.
        """
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
