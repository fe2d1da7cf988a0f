"""The ledger: packed rows, inserted in blocks, read by round."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Integer, Select, exists, func, literal, or_, select, tuple_

from fedaudit.stored import KeyedDigest, LedgerRow
from models.arrays import BINARY_RESULTS
from models.database import Database
from models.repositories.base import ExperimentPartRepository, table_of
from models.tables.experiments import Checkpoint, Experiment
from models.tables.federations import ErasedLedger
from models.tables.ledger import Ledger, LedgerCheckpoint, LedgerTotals, ReleaseIntent
from models.values import Cursor, utc_now

_COLUMNS = tuple(one.name for one in fields(LedgerRow) if one.name != "inputs")
_OWNER = ("experiment_id", "project_id")
INPUTS = tuple(name for name in Ledger.__annotations__ if name not in (*_COLUMNS, *_OWNER))
"""What a row states of its mechanism: rows with equal inputs share one object of them."""

_ROWS_AT_ONCE = 500
"""Rows that are read for one subject's sake."""


_FOLLOWED = (
    select(Ledger.experiment_id)
    .where(
        Ledger.experiment_id == ReleaseIntent.experiment_id,
        Ledger.round == ReleaseIntent.round,
        Ledger.release == ReleaseIntent.release,
    )
    .exists()
)
_KEY: tuple[ColumnElement[Any], ...] = tuple(
    table_of(Ledger).c[name] for name in ("round", "release", "subject_kind", "observer")
)


class LedgerRepository(ExperimentPartRepository):
    """Packed rows of experiments and of declared ledgers, which are only ever inserted, and what is
    kept beside those of experiments."""

    def insert(self, owner_id: str, rows: Sequence[LedgerRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = self._owned(owner_id)
        inputs, stated, values = None, dict[str, Any](), []
        for row in rows:
            if row.inputs is not inputs:
                inputs, stated = row.inputs, {name: row.inputs.get(name) for name in INPUTS}
            values.append({**owner, **vars(row), **stated})
            del values[-1]["inputs"]
        self._insert(Ledger, values)

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
        statement = self.behind(owner_id, after)
        if round_from is not None:
            statement = statement.where(Ledger.round >= round_from)
        if round_to is not None:
            statement = statement.where(Ledger.round <= round_to)
        if naming is not None and self._dialect() == "postgresql":
            statement = statement.where(literal(naming, Integer) == func.any(Ledger.subjects))
        return self.unpacked(statement.limit(limit))

    def blocks(
        self,
        owner_id: str,
        *rounds: int | None,
        after: Cursor | None = None,
        naming: int | None = None,
    ) -> Iterator[list[LedgerRow]]:
        """The packed rows that `rows_after` gives, in blocks within the caller's transaction."""
        asked = partial(self.rows_after, owner_id, *rounds, limit=_ROWS_AT_ONCE, naming=naming)
        while rows := asked(after=after):
            yield rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].key

    def of_round(self, owner_id: str, round_: int) -> list[LedgerRow]:
        """The packed rows of one round, repeats included."""
        return [row for rows in self.blocks(owner_id, round_, round_) for row in rows]

    def keys_after(self, owner_id: str, *, after: Cursor | None, limit: int) -> list[Cursor]:
        """The keys of the rows that `rows_after` gives, whatever their columns hold."""
        statement = self.behind(owner_id, after).with_only_columns(*_KEY)
        return [tuple(row) for row in self.session.execute(statement.limit(limit))]

    def row(self, owner_id: str, key: Cursor) -> LedgerRow | None:
        """The row with a key (round, release, subject_kind, observer)."""
        same = (column == value for column, value in zip(_KEY, key, strict=True))
        found = self.unpacked(self._select(Ledger, owner_id).where(*same))
        return found[0] if found else None

    def digests(self, owner_id: str, *, upto: int | None = None) -> Iterator[KeyedDigest]:
        """The key (round, release, subject_kind, observer) and digest of every row, in order; of
        those up to a round."""
        columns: list[Any] = [*_KEY, Ledger.digest]
        statement = self.behind(owner_id, None).with_only_columns(*columns)
        if upto is not None:
            statement = statement.where(Ledger.round <= upto)
        rows = self.session.execute(statement.execution_options(yield_per=1000))
        for round_, release, kind, observer, digest in rows:
            yield round_, release, kind, observer, bytes(digest)

    def declarations(self, owner_id: str) -> dict[int, bytes | None]:
        """What the chain holds of each round's declaration beside its entries, by round."""
        mine = self.behind(owner_id, None).with_only_columns(Ledger.round, Ledger.declaration)
        found = self.session.execute(mine)
        return {round_: None if one is None else bytes(one) for round_, one in found}

    def first_declaration(self, owner_id: str) -> int | None:
        """The first round of which the chain holds what was declared beside its entries."""
        mine = self._select(Ledger, owner_id).where(Ledger.declaration.is_not(None))
        return self.session.scalar(mine.with_only_columns(func.min(Ledger.round)))

    def last_row(self, owner_id: str) -> tuple[int, bytes] | None:
        """Round and link of the row inserted last; None before the first. Rounds are inserted in
        the order (round, release); the repeat of a lost round has a later release."""
        newest = self.session.execute(
            self._select(Ledger, owner_id)
            .with_only_columns(Ledger.round, Ledger.link)
            .order_by(*(column.desc() for column in _KEY))
            .limit(1)
        ).first()
        return None if newest is None else (newest[0], bytes(newest[1]))

    def newest_observers(self, owner_id: str) -> set[str]:
        """Observers that the packed rows of the newest round charge against; empty without any."""
        mine = self._select(Ledger, owner_id)
        newest = mine.with_only_columns(func.max(Ledger.round)).scalar_subquery()
        rows = mine.where(Ledger.round == newest).with_only_columns(Ledger.observer)
        return set(self.session.scalars(rows))

    def count(self, owner_id: str, *, observer: str | None = None) -> int:
        """The number of packed rows; of one observer, or of all."""
        counted = self._select(Ledger, owner_id).with_only_columns(func.count())
        if observer is not None:
            counted = counted.where(Ledger.observer == observer)
        return self.session.scalar(counted) or 0

    def behind(self, owner_id: str, after: Cursor | None) -> Select[Any]:
        """The rows behind a key, in the order of keys."""
        statement = self._select(Ledger, owner_id).order_by(*_KEY)
        if after is None:
            return statement
        # The first condition is implied by the second and lets the index begin there.
        return statement.where(Ledger.round >= after[0], tuple_(*_KEY) > tuple(after))

    def unpacked(self, statement: Select[Any]) -> list[LedgerRow]:
        """The statement's rows, read as plain columns since they are many; rows with equal inputs
        share them."""
        columns = [table_of(Ledger).c[name] for name in (*_COLUMNS, *INPUTS)]
        asked = statement.with_only_columns(*columns).execution_options(**BINARY_RESULTS)
        found, before, inputs = list[LedgerRow](), None, dict[str, Any]()
        for row in self._rows(asked):
            if (stated := row[-len(INPUTS) :]) != before:
                before, inputs = stated, dict(zip(INPUTS, stated, strict=True))
            found.append(LedgerRow(**dict(zip(_COLUMNS, row, strict=False)), inputs=inputs))
        return found

    def history(
        self, owner_id: str, subject: int, *rounds: int | None, after: Cursor | None, limit: int
    ) -> list[LedgerRow]:
        """Like `rows_after`, with one subject's elements, for the rows that name it."""
        blocks = self.blocks(owner_id, *rounds, after=after, naming=subject)
        named = (row for rows in blocks for row in rows if subject in row.subjects)
        return [one_subject(row, subject) for row in islice(named, limit)]

    def begun(self, experiment_ids: Collection[str]) -> set[str]:
        """Those of which anything of a run is stored, or was counted."""
        parts = (Ledger, ReleaseIntent, LedgerTotals, LedgerCheckpoint, Checkpoint)
        stored = (exists().where(table_of(one).c.experiment_id == Experiment.id) for one in parts)
        some = or_(Experiment.rounds_done > 0, *stored)
        these = select(Experiment.id).where(Experiment.id.in_(experiment_ids), some)
        return set(self.session.scalars(these))

    def put_totals(
        self, experiment_id: str, *, releases: NDArray[np.int32], refusals: int, withheld: int
    ) -> None:
        """Overwrites the running totals, each of them; inside a fenced transaction."""
        totals = {"releases": releases, "refusals": refusals, "withheld": withheld}
        self._put(LedgerTotals, self._owned(experiment_id, **totals))

    def get_totals(self, experiment_id: str) -> LedgerTotals | None:
        """The running totals; None before the first flush."""
        return self._one(self._select(LedgerTotals, experiment_id))

    def add_intents(
        self, experiment_id: str, intents: Sequence[tuple[int, int, NDArray[np.int32]]]
    ) -> None:
        """Notes (round, release, subjects) that are about to be charged, before noise is drawn."""
        owner = self._owned(experiment_id, created_at=utc_now())
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

    def ended_with_open_intents(self, *, excluded: Collection[str]) -> list[tuple[str, str]]:
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


def stored_rows(
    database: Database,
    owner_id: str,
    project_id: str | None = None,
    *,
    first: int | None = None,
    last: int | None = None,
) -> Iterator[LedgerRow]:
    """The rows of one owner in order, of the rounds from `first` to `last`, read in short
    transactions; without a project, whichever project's they are. Raises the error of a row that
    cannot be read."""
    after: Cursor | None = None
    while True:
        with database.autocommit_read() as session:
            ledger = LedgerRepository(session, project_id)
            rows = ledger.rows_after(owner_id, first, last, after=after, limit=_ROWS_AT_ONCE)
        yield from rows
        if len(rows) < _ROWS_AT_ONCE:
            return
        after = rows[-1].key


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
