"""Packed rows, whichever table holds them: inserted in blocks, read by round."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import Row, Select, func, tuple_

from models.arrays import BINARY_RESULTS
from models.repositories.base import PartRepository
from models.values import Cursor, LedgerRow

INPUTS = (
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
        """Packed rows with round_from <= round <= round_to, in the order of the key.

        `after` is a row's (round, release, subject_kind, observer); the answer begins behind it.
        """
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
        found = self.unpacked(
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

    def behind(self, owner_id: str, after: Cursor | None) -> Select[Any]:
        """The rows behind a key, in the order of keys."""
        table = self._table
        key = (table.round, table.release, table.subject_kind, table.observer)
        statement = self._select(table, owner_id).order_by(*key)
        if after is None:
            return statement
        # The first condition is implied by the second and lets the index begin there.
        return statement.where(table.round >= after[0], tuple_(*key) > tuple(after))

    def unpacked(self, statement: Select[Any]) -> list[LedgerRow]:
        """The rows of a statement, as plain columns: they are many, and nothing changes them.

        Rows of one run have the same inputs, and share them.
        """
        names = (*_COLUMNS, *self._more)
        columns = [getattr(self._table, name) for name in (*names, *INPUTS)]
        result = self.session.execute(
            statement.with_only_columns(*columns), execution_options=BINARY_RESULTS
        )
        return [
            LedgerRow(**dict(zip(names, row, strict=False)), inputs=inputs)
            for row, inputs in with_inputs(result)
        ]


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
