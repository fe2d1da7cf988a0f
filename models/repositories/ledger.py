"""Packed rows, whichever table holds them, and the ledger: inserted in blocks, read by round."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Integer, Row, Select, func, literal, select, tuple_

from models.arrays import BINARY_RESULTS
from models.clock import utc_now
from models.database import Database
from models.repositories.base import ExperimentPartRepository, PartRepository
from models.tables.experiments import Experiment
from models.tables.federations import ErasedLedger
from models.tables.ledger import Ledger, LedgerTotals, PackedEntry, ReleaseIntent
from models.values import Cursor, LedgerRow

_COLUMNS = tuple(one.name for one in fields(LedgerRow) if one.name not in ("inputs", "declaration"))
INPUTS = tuple(name for name in PackedEntry.__annotations__ if name not in _COLUMNS)
"""What a row states of its mechanism: rows with equal inputs share one object of them."""

Digest = tuple[int, int, str, str, bytes]


class PackedRowRepository(PartRepository):
    """Packed rows of one owner, which are only ever inserted."""

    _table: ClassVar[type[Any]]
    """A table with the columns of `PackedEntry` and its key."""
    _more: ClassVar[tuple[str, ...]] = ()
    """Columns that this table has besides."""

    def insert(self, owner_id: str, project_id: str, rows: Sequence[LedgerRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = {self._owner: owner_id, "project_id": project_id}
        self._insert(
            self._table,
            [
                {
                    **owner,
                    **{name: getattr(row, name) for name in (*_COLUMNS, *self._more)},
                    **{name: row.inputs.get(name) for name in INPUTS},
                }
                for row in rows
            ],
        )

    def rows_after(
        self,
        owner_id: str,
        round_from: int | None = None,
        round_to: int | None = None,
        *,
        after: Cursor | None = None,
        limit: int = 100,
        naming: int | None = None,
    ) -> list[LedgerRow]:
        """Packed rows with round_from <= round <= round_to, ordered by key, behind the key `after`:
        (round, release, subject_kind, observer). `naming`: a subject; where the database can, rows
        that do not name it are left out."""
        table = self._table
        statement = self.behind(owner_id, after)
        if round_from is not None:
            statement = statement.where(table.round >= round_from)
        if round_to is not None:
            statement = statement.where(table.round <= round_to)
        if naming is not None and self._dialect() == "postgresql":
            statement = statement.where(literal(naming, Integer) == func.any(table.subjects))
        return self.unpacked(statement.limit(limit))

    def blocks(self, owner_id: str, first: int, last: int) -> Iterator[list[LedgerRow]]:
        """The packed rows of these rounds, read in blocks within the caller's transaction."""
        after: Cursor | None = None
        while rows := self.rows_after(owner_id, first, last, after=after, limit=_ROWS_AT_ONCE):
            yield rows
            after = rows[-1].key

    def keys_after(
        self, owner_id: str, *, after: Cursor | None = None, limit: int = 100
    ) -> list[Cursor]:
        """The keys of the rows that `rows_after` gives, whatever their columns hold."""
        statement = self.behind(owner_id, after).with_only_columns(*self._key)
        return [tuple(row) for row in self.session.execute(statement.limit(limit))]

    def row(self, owner_id: str, key: Cursor) -> LedgerRow | None:
        """The row with a key (round, release, subject_kind, observer)."""
        same = (column == value for column, value in zip(self._key, key, strict=True))
        found = self.unpacked(self._select(self._table, owner_id).where(*same))
        return found[0] if found else None

    def digests(self, owner_id: str) -> Iterator[Digest]:
        """The key (round, release, subject_kind, observer) and digest of every row, in order."""
        columns: list[Any] = [*self._key, self._table.digest]
        statement = self.behind(owner_id, None).with_only_columns(*columns)
        rows = self.session.execute(statement.execution_options(yield_per=1000))
        for round_, release, kind, observer, digest in rows:
            yield round_, release, kind, observer, bytes(digest)

    def last_link(self, owner_id: str) -> bytes | None:
        """The chain's head: the link of the row that was inserted last; None before the first."""
        newest = self.last_row(owner_id)
        return None if newest is None else newest[1]

    def last_row(self, owner_id: str) -> tuple[int, bytes] | None:
        """Round and link of the row inserted last; None before the first. Rounds are inserted in
        the order (round, release); the repeat of a lost round has a later release."""
        newest = self.session.execute(
            self._select(self._table, owner_id)
            .with_only_columns(self._table.round, self._table.link)
            .order_by(*(column.desc() for column in self._key))
            .limit(1)
        ).first()
        return None if newest is None else (newest[0], bytes(newest[1]))

    def newest_observers(self, owner_id: str) -> set[str]:
        """Against whom the packed rows of the newest round are charged; empty without any."""
        newest = self.last_row(owner_id)
        if newest is None:
            return set()
        observer = self._table.observer
        rows = self._select(self._table, owner_id).where(self._table.round == newest[0])
        return set(self.session.scalars(rows.with_only_columns(observer)))

    def count(self, owner_id: str, *, observer: str | None = None) -> int:
        """The number of packed rows; of one observer, or of all."""
        counted = self._select(self._table, owner_id).with_only_columns(func.count())
        if observer is not None:
            counted = counted.where(self._table.observer == observer)
        return self.session.scalar(counted) or 0

    def behind(self, owner_id: str, after: Cursor | None) -> Select[Any]:
        """The rows behind a key, in the order of keys."""
        statement = self._select(self._table, owner_id).order_by(*self._key)
        if after is None:
            return statement
        # The first condition is implied by the second and lets the index begin there.
        return statement.where(self._table.round >= after[0], tuple_(*self._key) > tuple(after))

    @property
    def _key(self) -> tuple[ColumnElement[Any], ...]:
        table = self._table
        return (table.round, table.release, table.subject_kind, table.observer)

    def unpacked(self, statement: Select[Any]) -> list[LedgerRow]:
        """The statement's rows, read as plain columns since they are many; rows with equal inputs
        share them."""
        names = (*_COLUMNS, *self._more)
        columns = [getattr(self._table, name) for name in (*names, *INPUTS)]
        result = self.session.execute(
            statement.with_only_columns(*columns), execution_options=BINARY_RESULTS
        )
        return [
            LedgerRow(**dict(zip(names, row, strict=False)), inputs=inputs)
            for row, inputs in with_inputs(result)
        ]


@dataclass(frozen=True)
class RowSource:
    """The packed rows of one owner; without a project, whichever project's they are."""

    repository: type[PackedRowRepository]
    owner_id: str
    project_id: str | None = None


def stored_rows(
    database: Database, source: RowSource, *, first: int | None = None, last: int | None = None
) -> Iterator[LedgerRow]:
    """The rows in order, of the rounds from `first` to `last`, read in short transactions. Raises
    the error of a row that cannot be read."""
    after: Cursor | None = None
    while True:
        with database.read() as session:
            rows = source.repository(session, source.project_id).rows_after(
                source.owner_id, first, last, after=after, limit=_ROWS_AT_ONCE
            )
        yield from rows
        if len(rows) < _ROWS_AT_ONCE:
            return
        after = rows[-1].key


def with_inputs(
    rows: Iterable[tuple[Any, ...] | Row[Any]],
) -> Iterator[tuple[tuple[Any, ...] | Row[Any], Mapping[str, Any]]]:
    """Rows that end with their inputs, and these: one object for rows with the same."""
    before: tuple[Any, ...] | None = None
    inputs: dict[str, Any] = {}
    for row in rows:
        if (stated := row[-len(INPUTS) :]) != before:
            before, inputs = stated, dict(zip(INPUTS, stated, strict=True))
        yield row, inputs


def one_subject(row: LedgerRow, subject: int) -> LedgerRow:
    """The row with a subject's element alone in each column; with none where it has none."""
    place = np.flatnonzero(row.subjects == subject)[:1]
    columns = {
        name: getattr(row, name)[place] for name in ("subjects", "outcomes", "releases", "clusters")
    }
    parts = len(row.radii) // max(1, len(row.subjects))
    return replace(
        row,
        **columns,
        radii=row.radii.reshape(-1, max(1, parts))[place].ravel(),
        epsilons=None if row.epsilons is None else row.epsilons[place],
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
