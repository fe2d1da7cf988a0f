"""The cells that every row needs: whose it is, and what came out."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.features import refuse_gaps
from fedaudit.spec.table import Table

_TARGET = "/federation/target"


class RequiredCells:
    """Leaves out rows without a client or a target where the spec says so, and counts them."""

    def __init__(self, source: Table, columns: Columns) -> None:
        self._source = source
        self._columns = columns
        self._left_out: dict[str, int] = {}

    def kept(self, rows: TableRows) -> TableRows:
        """The rows that have both. Raises InvalidInputError for the first one that lacks a cell
        whose lack is not declared."""
        kept = np.ones(len(rows), dtype=np.bool_)
        for name, where, what, drops in self._required():
            if not drops:
                refuse_gaps(rows, name, where, remedy=_remedy(what))
                continue
            empty = rows.empty(name, where) & kept
            self._left_out[what] = self._left_out.get(what, 0) + int(np.count_nonzero(empty))
            kept &= ~empty
        return rows if kept.all() else rows.where(kept)

    def checks(self, rows: TableRows) -> Iterator[tuple[str, Callable[[], None]]]:
        """Each column whose gaps are errors, and the check of these rows for them."""
        for name, where, what, drops in self._required():
            if not drops:
                yield name, partial(refuse_gaps, rows, name, where, remedy=_remedy(what))

    def present(self, rows: TableRows) -> NDArray[np.bool_]:
        """Which rows have both a client and a target, [rows]."""
        present = np.ones(len(rows), dtype=np.bool_)
        for name, where, _, _ in self._required():
            present &= ~rows.empty(name, where)
        return present

    @property
    def notes(self) -> tuple[str, ...]:
        """How many rows were left out, and for want of what; a row counts once."""
        return tuple(
            f"rows without a {what}, left out: {rows}"
            for what, rows in self._left_out.items()
            if rows
        )

    @property
    def left_out(self) -> int:
        """How many rows were left out."""
        return sum(self._left_out.values())

    def check_rows_left(self, rows: int) -> None:
        """Raises InvalidInputError where every row was left out."""
        if not rows and self.left_out:
            raise error_at(
                _TARGET,
                "every row lacks its client or its target; name other columns, or correct "
                "`missing_values`",
            )

    def _required(self) -> Iterator[tuple[str, str, str, bool]]:
        """Column, field of the spec, what the cell says, and whether rows without it are left
        out."""
        yield self._columns.target, _TARGET, "target", self._source.drops_without_target
        key = self._columns.client_key
        if key is not None:
            yield key.name, key.where, "client", self._source.drops_without_client


def _remedy(what: str) -> str:
    field = {"client": "missing_client", "target": "missing_target"}[what]
    return f"fill the gap, or leave such rows out by `{field}: drop-row`"
