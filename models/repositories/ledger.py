"""The packed ledger: inserted in blocks, read by round."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select, tuple_

from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository
from models.tables.experiments import Experiment
from models.tables.ledger import Ledger, LedgerTotals, ReleaseIntent
from models.values import Cursor, Intent, LedgerRow, LedgerTotalsRow

_INPUTS = (
    "mechanism",
    "n",
    "noise_multiplier",
    "radius",
    "radius_floor",
    "clip",
    "noise",
    "guarantee",
    "event",
    "delta",
    "adjacency",
    "accountant",
    "components",
)
_COLUMNS = (
    "round",
    "release",
    "subject_kind",
    "observer",
    "subjects",
    "outcomes",
    "radii",
    "releases",
    "clusters",
    "epsilons",
    "digest",
    "link",
    "interrupted",
)

_FOLLOWED = (
    select(Ledger.experiment_id)
    .where(
        Ledger.experiment_id == ReleaseIntent.experiment_id,
        Ledger.round == ReleaseIntent.round,
        Ledger.release == ReleaseIntent.release,
    )
    .exists()
)

Digest = tuple[int, int, str, str, bytes]


class LedgerRepository(ExperimentPartRepository):
    """Ledger rows, which are only ever inserted, and what is kept beside them."""

    def insert(self, experiment_id: str, project_id: str, rows: Sequence[LedgerRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        self._insert(
            Ledger,
            [
                {
                    **owner,
                    **{name: getattr(row, name) for name in _COLUMNS},
                    **{name: row.inputs.get(name) for name in _INPUTS},
                }
                for row in rows
            ],
        )

    def rows_after(
        self,
        experiment_id: str,
        round_from: int | None = None,
        round_to: int | None = None,
        *,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> list[LedgerRow]:
        """Packed rows with round_from <= round <= round_to, in the order of the key.

        `after` is a row's (round, release, subject_kind, observer); the answer begins behind it.
        """
        key = (Ledger.round, Ledger.release, Ledger.subject_kind, Ledger.observer)
        statement = self._select(Ledger, experiment_id)
        if round_from is not None:
            statement = statement.where(Ledger.round >= round_from)
        if round_to is not None:
            statement = statement.where(Ledger.round <= round_to)
        if after is not None:
            # The first condition is implied by the second and lets the index begin there.
            statement = statement.where(Ledger.round >= after[0], tuple_(*key) > tuple(after))
        return [_unpack(row) for row in self._all(statement.order_by(*key).limit(limit))]

    def keys_after(
        self, experiment_id: str, *, after: Cursor | None = None, limit: int = 100
    ) -> list[Cursor]:
        """The keys of the rows that `rows_after` gives, whatever their columns hold."""
        key = (Ledger.round, Ledger.release, Ledger.subject_kind, Ledger.observer)
        statement = self._select(Ledger, experiment_id).with_only_columns(*key)
        if after is not None:
            statement = statement.where(Ledger.round >= after[0], tuple_(*key) > tuple(after))
        return [tuple(row) for row in self.session.execute(statement.order_by(*key).limit(limit))]

    def row(self, experiment_id: str, key: Cursor) -> LedgerRow | None:
        """The row with a key (round, release, subject_kind, observer)."""
        round_, release, subject_kind, observer = key
        found = self._one(
            self._select(Ledger, experiment_id).where(
                Ledger.round == round_,
                Ledger.release == release,
                Ledger.subject_kind == subject_kind,
                Ledger.observer == observer,
            )
        )
        return None if found is None else _unpack(found)

    def digests(self, experiment_id: str) -> Iterator[Digest]:
        """The key (round, release, subject_kind, observer) and digest of every row, in order."""
        key = (Ledger.round, Ledger.release, Ledger.subject_kind, Ledger.observer)
        statement = self._select(Ledger, experiment_id).order_by(*key)
        rows = self.session.execute(
            statement.with_only_columns(*key, Ledger.digest).execution_options(yield_per=1000)
        )
        for round_, release, kind, observer, digest in rows:
            yield round_, release, kind, observer, bytes(digest)

    def last_link(self, experiment_id: str) -> bytes | None:
        """The chain's head: the link of the row that was inserted last; None before the first."""
        newest = self.last_row(experiment_id)
        return None if newest is None else newest[1]

    def last_row(self, experiment_id: str) -> tuple[int, bytes] | None:
        """Round and link of the row that was inserted last; None before the first.

        Rounds are inserted in the order (round, release), and the repeat of a lost round carries
        a later release.
        """
        key = (Ledger.round, Ledger.release, Ledger.subject_kind, Ledger.observer)
        newest = self.session.execute(
            self._select(Ledger, experiment_id)
            .with_only_columns(Ledger.round, Ledger.link)
            .order_by(*(column.desc() for column in key))
            .limit(1)
        ).first()
        return None if newest is None else (newest[0], bytes(newest[1]))

    def count(self, experiment_id: str, *, observer: str | None = None) -> int:
        """The number of packed rows; of one observer, or of all."""
        counted = self._select(Ledger, experiment_id).with_only_columns(func.count())
        if observer is not None:
            counted = counted.where(Ledger.observer == observer)
        return self.session.scalar(counted) or 0

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


def _unpack(row: Ledger) -> LedgerRow:
    values: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    values.update(digest=bytes(row.digest), link=bytes(row.link))
    return LedgerRow(**values, inputs={name: getattr(row, name) for name in _INPUTS})
