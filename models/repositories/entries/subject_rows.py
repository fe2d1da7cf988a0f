"""Of packed rows one subject's elements: its history, without the rest of each row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Integer, func, literal, literal_column, select, true

from models.arrays import BINARY_RESULTS, PackedArray
from models.repositories.entries.packed_rows import INPUTS, PackedRowRepository, with_inputs
from models.values import Cursor, LedgerRow

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
        """Of the rows of these rounds those that name a subject, each with its element alone.

        `after` and the order as with `rows_after`. Digest and link are the whole row's.
        """
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
            after = (rows[-1].round, rows[-1].release, rows[-1].subject_kind, rows[-1].observer)
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
        """What Postgres takes out of rows itself: to send them whole takes many times as long, and
        so do a thousand rounds that are not one array."""
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
