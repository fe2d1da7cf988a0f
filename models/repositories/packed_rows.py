"""Packed rows, whichever table holds them: inserted in blocks, read by round."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Integer,
    Row,
    Select,
    func,
    literal,
    literal_column,
    select,
    true,
    tuple_,
)

from models.arrays import BINARY_RESULTS, PackedArray
from models.database import Database
from models.repositories.base import PartRepository
from models.tables.ledger import PackedEntry
from models.values import Cursor, LedgerRow

_COLUMNS = tuple(one.name for one in fields(LedgerRow) if one.name not in ("inputs", "declaration"))
INPUTS = tuple(name for name in PackedEntry.__annotations__ if name not in _COLUMNS)
"""What a row states of its mechanism: rows with equal inputs share one object of them."""
_ROWS_AT_ONCE = 500

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
    ) -> list[LedgerRow]:
        """Packed rows with round_from <= round <= round_to, ordered by key, behind the key `after`:
        (round, release, subject_kind, observer)."""
        table = self._table
        statement = self.behind(owner_id, after)
        if round_from is not None:
            statement = statement.where(table.round >= round_from)
        if round_to is not None:
            statement = statement.where(table.round <= round_to)
        return self.unpacked(statement.limit(limit))

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


_ELEMENTS = {
    "outcomes": np.int16,
    "releases": np.int32,
    "clusters": np.int16,
    "epsilons": np.float64,
}
"""Columns of which a subject has one element."""
_PARTS = "coalesce(json_array_length(ledger.components), 1)"
_RADII = f"ledger.radii[(found.place - 1) * {_PARTS} + 1:found.place * {_PARTS}]"
_OF_ROWS = ("round", "release", "subject_kind", "observer", "digest", "link", "interrupted")
_ROUNDS = PackedArray("int32")
_WHOLE_ROWS_AT_ONCE = 128
"""Rows that are read as a whole for one subject's sake."""


def one_subject(row: LedgerRow, subject: int) -> LedgerRow:
    """The row with a subject's element alone in each column; with none where it has none."""
    place = np.flatnonzero(row.subjects == subject)[:1]
    columns = {
        name: getattr(row, name)[place] for name in ("subjects", *_ELEMENTS) if name != "epsilons"
    }
    parts = len(row.radii) // max(1, len(row.subjects))
    return replace(
        row,
        **columns,
        radii=row.radii.reshape(-1, max(1, parts))[place].ravel(),
        epsilons=None if row.epsilons is None else row.epsilons[place],
    )


class SubjectRowRepository(PackedRowRepository):
    """Rows of the table `ledger`, as one subject's history needs them."""

    def rows_of_subject(
        self,
        owner_id: str,
        subject: int,
        rounds: Sequence[int],
        *,
        after: Cursor | None,
        limit: int,
    ) -> list[LedgerRow]:
        """The rows of these rounds that name a subject, each with that subject's element only.
        `after` and order as in `rows_after`; digest and link are the whole row's."""
        if self._dialect() == "postgresql":
            return self._taken_out(owner_id, subject, rounds, after=after, limit=limit)
        found: list[LedgerRow] = []
        for begin in range(0, len(rounds), _WHOLE_ROWS_AT_ONCE):
            some = self._table.round.in_(rounds[begin : begin + _WHOLE_ROWS_AT_ONCE])
            rows = self.unpacked(self.behind(owner_id, after).where(some))
            found += [one_subject(row, subject) for row in rows if subject in row.subjects]
        return found[:limit]

    def looked_through(
        self,
        owner_id: str,
        subject: int,
        round_from: int,
        round_to: int | None,
        *,
        after: Cursor | None,
        limit: int,
    ) -> list[LedgerRow]:
        """As `rows_after`, but each row has a subject's element alone, or none."""
        found: list[LedgerRow] = []
        while len(found) < limit:
            size = min(_WHOLE_ROWS_AT_ONCE, limit - len(found))
            rows = self.rows_after(owner_id, round_from, round_to, after=after, limit=size)
            found += [one_subject(row, subject) for row in rows]
            if len(rows) < size:
                break
            after = rows[-1].key
        return found

    def _taken_out(
        self,
        owner_id: str,
        subject: int,
        rounds: Sequence[int],
        *,
        after: Cursor | None,
        limit: int,
    ) -> list[LedgerRow]:
        """Extracts the elements in Postgres, since whole rows, or a thousand rounds that are not
        one array, take many times as long to send."""
        table = self._table
        looked_up = func.array_position(table.subjects, literal(subject, Integer)).label("place")
        # With an offset it is looked up once a row, and not again for each column.
        found = select(looked_up).correlate(table).offset(literal_column("0")).lateral("found")
        among = table.round == func.any(literal(np.asarray(rounds, np.int32), _ROUNDS))
        elements: list[Any] = [
            literal_column(f"ledger.{name}[found.place]").label(name) for name in _ELEMENTS
        ]
        rows = self.session.execute(
            self.behind(owner_id, after)
            .where(among)
            .join(found, true())
            .where(found.c.place.is_not(None))
            .limit(limit)
            .with_only_columns(
                *elements,
                literal_column(_RADII, table.radii.type).label("radii"),
                *(getattr(table, name) for name in (*_OF_ROWS, *INPUTS)),
            ),
            execution_options=BINARY_RESULTS,
        ).all()
        return _side_by_side(subject, [tuple(row) for row in rows])


def _side_by_side(subject: int, rows: Sequence[tuple[Any, ...]]) -> list[LedgerRow]:
    """Rows of one subject, whose columns are views of arrays over all of them."""
    columns = {
        name: np.array([row[place] for row in rows], dtype)
        for place, (name, dtype) in enumerate(_ELEMENTS.items())
    }
    outcomes, releases, clusters, epsilons = columns.values()
    who, width = np.array([subject], np.int32), len(_ELEMENTS)
    found = []
    for place, (row, inputs) in enumerate(with_inputs(rows)):
        [epsilon, radii], mine = row[width - 1 : width + 1], slice(place, place + 1)
        found.append(
            LedgerRow(
                **dict(zip(_OF_ROWS, row[width + 1 :], strict=False)),
                subjects=who,
                outcomes=outcomes[mine],
                radii=radii,
                releases=releases[mine],
                clusters=clusters[mine],
                epsilons=None if epsilon is None else epsilons[mine],
                inputs=inputs,
            )
        )
    return found
