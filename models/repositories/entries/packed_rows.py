"""Packed rows, whichever table holds them: inserted in blocks, read by round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sqlalchemy import Integer, Select, func, literal, literal_column, select, true, tuple_

from models.arrays import BINARY_RESULTS
from models.repositories.base import PartRepository
from models.values import Cursor, LedgerRow

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

_WHOLE: Mapping[str, str] = {}
_PARTS = "coalesce(json_array_length(components), 1)"
_ELEMENTS: Mapping[str, str] = {
    **{
        name: f"{name}[found.place:found.place]"
        for name in ("subjects", "outcomes", "releases", "clusters", "epsilons")
    },
    "radii": f"radii[(found.place - 1) * {_PARTS} + 1:found.place * {_PARTS}]",
}
"""The element of one subject of each column, as Postgres takes it out."""

Digest = tuple[int, int, str, str, bytes]


def one_subject(row: LedgerRow, subject: int) -> LedgerRow:
    """The row with a subject's element alone in each column."""
    [place] = np.flatnonzero(row.subjects == subject)[:1]
    parts = len(row.radii) // len(row.subjects)
    columns = {
        name: getattr(row, name)[place : place + 1]
        for name in ("subjects", "outcomes", "releases", "clusters")
    }
    epsilons = None if row.epsilons is None else row.epsilons[place : place + 1]
    radii = row.radii[parts * place : parts * (place + 1)]
    return replace(row, **columns, radii=radii, epsilons=epsilons)


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
                    **{name: row.inputs.get(name) for name in _INPUTS},
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
        """Packed rows with round_from <= round <= round_to, in the order of the key.

        `after` is a row's (round, release, subject_kind, observer); the answer begins behind it.
        """
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        statement = self._select(self._table, owner_id)
        if round_from is not None:
            statement = statement.where(table.round >= round_from)
        if round_to is not None:
            statement = statement.where(table.round <= round_to)
        if after is not None:
            # The first condition is implied by the second and lets the index begin there.
            statement = statement.where(table.round >= after[0], tuple_(*key) > tuple(after))
        return self._unpacked(statement.order_by(*key).limit(limit))

    def rows_of_subject(
        self,
        owner_id: str,
        subject: int,
        rounds: Sequence[int],
        *,
        after: Cursor | None,
        limit: int,
    ) -> list[LedgerRow]:
        """Of the rows of these rounds those that name a subject, each with its element alone.

        `after` and the order as with `rows_after`. Digest and link are the whole row's.
        """
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        statement = self._select(table, owner_id).where(table.round.in_(rounds)).order_by(*key)
        if after is not None:
            statement = statement.where(tuple_(*key) > tuple(after))
        if self._dialect() != "postgresql":
            rows = self._unpacked(statement)
            return [one_subject(row, subject) for row in rows if subject in row.subjects][:limit]
        # Postgres takes the elements out itself: sending whole rows takes many times as long.
        place = select(
            func.array_position(table.subjects, literal(subject, Integer)).label("place")
        )
        found = place.correlate(table).lateral("found")
        statement = statement.join(found, true()).where(found.c.place.is_not(None)).limit(limit)
        return self._unpacked(statement, taken=_ELEMENTS)

    def keys_after(
        self, owner_id: str, *, after: Cursor | None = None, limit: int = 100
    ) -> list[Cursor]:
        """The keys of the rows that `rows_after` gives, whatever their columns hold."""
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        statement = self._select(self._table, owner_id).with_only_columns(*key)
        if after is not None:
            statement = statement.where(table.round >= after[0], tuple_(*key) > tuple(after))
        return [tuple(row) for row in self.session.execute(statement.order_by(*key).limit(limit))]

    def row(self, owner_id: str, key: Cursor) -> LedgerRow | None:
        """The row with a key (round, release, subject_kind, observer)."""
        table = self._table
        round_, release, subject_kind, observer = key
        found = self._unpacked(
            self._select(self._table, owner_id).where(
                table.round == round_,
                table.release == release,
                table.subject_kind == subject_kind,
                table.observer == observer,
            )
        )
        return found[0] if found else None

    def digests(self, owner_id: str) -> Iterator[Digest]:
        """The key (round, release, subject_kind, observer) and digest of every row, in order."""
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        statement = self._select(self._table, owner_id).order_by(*key)
        rows = self.session.execute(
            statement.with_only_columns(*key, table.digest).execution_options(yield_per=1000)
        )
        for round_, release, kind, observer, digest in rows:
            yield round_, release, kind, observer, bytes(digest)

    def last_link(self, owner_id: str) -> bytes | None:
        """The chain's head: the link of the row that was inserted last; None before the first."""
        newest = self.last_row(owner_id)
        return None if newest is None else newest[1]

    def last_row(self, owner_id: str) -> tuple[int, bytes] | None:
        """Round and link of the row that was inserted last; None before the first.

        Rounds are inserted in the order (round, release), and the repeat of a lost round carries
        a later release.
        """
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        newest = self.session.execute(
            self._select(self._table, owner_id)
            .with_only_columns(table.round, table.link)
            .order_by(*(column.desc() for column in key))
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
        table = self._table
        counted = self._select(self._table, owner_id).with_only_columns(func.count())
        if observer is not None:
            counted = counted.where(table.observer == observer)
        return self.session.scalar(counted) or 0

    def _unpacked(
        self, statement: Select[Any], *, taken: Mapping[str, str] = _WHOLE
    ) -> list[LedgerRow]:
        """The rows of a statement, as plain columns: they are many, and nothing changes them.

        Rows of one run have the same inputs, and share them. `taken`: what stands for a column.
        """
        names = (*_COLUMNS, *self._more)
        columns = [getattr(self._table, name) for name in (*names, *_INPUTS)]
        table = self._table.__tablename__
        columns = [
            literal_column(f"{table}.{taken[column.key]}", column.type).label(column.key)
            if column.key in taken
            else column
            for column in columns
        ]
        found = []
        before: tuple[Any, ...] | None = None
        inputs: dict[str, Any] = {}
        result = self.session.execute(
            statement.with_only_columns(*columns), execution_options=BINARY_RESULTS
        )
        for row in result:
            if (stated := row[len(names) :]) != before:
                before, inputs = stated, dict(zip(_INPUTS, stated, strict=True))
            found.append(LedgerRow(**dict(zip(names, row, strict=False)), inputs=inputs))
        return found
