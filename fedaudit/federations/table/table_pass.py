"""One pass over a table of any size, with the same checks as loading it."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at, pointer
from fedaudit.federations.groups.sensitive import MAX_GROUPS, group_names
from fedaudit.federations.levels import levels_of
from fedaudit.federations.profiles.profile_figures import AttributeCounts
from fedaudit.federations.profiles.tallies import ClientTally, GroupTally, Positions
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.features import read_features
from fedaudit.federations.table.required_cells import RequiredCells
from fedaudit.federations.table.target_pass import GroupValues, TargetFound, TargetPass
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Table


class TablePass:
    """What a table holds, counted batch by batch; memory for clients, groups and classes only."""

    def __init__(self, source: Table, columns: Columns, fairness: Groups) -> None:
        self._source = source
        self._columns = columns
        self._features = tuple(column.as_codes for column in columns.features)
        self._edges = fairness.edges
        key = columns.client_key
        self.required = RequiredCells(source, columns)
        self.clients = None if key is None else ClientTally(key.name, key.where)
        self.target = TargetPass(source, fairness)
        self.rows = 0
        """Rows that are kept."""
        self.left_out = 0
        """Rows with a gap in a feature whose rule omits such rows."""
        self.missing: dict[str, int] = {}
        """Empty cells of each column that may have some."""
        self._tallies = {name: GroupTally() for name in columns.sensitive}
        self._positions = {name: Positions() for name in columns.sensitive}

    def add(self, rows: TableRows) -> None:
        """Check and count rows. Raises InvalidInputError naming column and row."""
        rows = self.required.kept(rows)
        if not len(rows):
            return
        clients = self._clients(rows)
        kept = self._complete(rows)
        if not kept.all():
            rows = rows.where(kept)
            clients = None if clients is None else clients[kept]
        self.rows += len(rows)
        self.left_out += len(kept) - len(rows)
        if not len(rows):
            return
        read_features(rows, self._features, scales=self._source.scale, standardise=None)
        if self.clients is not None and clients is not None:
            self.clients.add(clients)
        groups = {
            name: self._groups(rows, name, place)
            for place, name in enumerate(self._columns.sensitive)
        }
        self._count(groups, clients, rows)

    def attributes(self, file: SourceFile) -> tuple[TargetFound, list[AttributeCounts]]:
        """The target and the attributes after the last row. Raises InvalidInputError."""
        values = {name: self._values(name) for name in self._columns.sensitive}
        target = self.target.found(file, {name: found[0] for name, found in values.items()})
        counts = []
        for place, (name, (names, order)) in enumerate(values.items()):
            tally, where = self._tallies[name], pointer("fairness", "sensitive", place)
            if tally.missing == self.rows:
                raise error_at(where, f"{name!r} is empty in every row; name another column")
            rows, scored, favourable = (found[order] for found in tally.counts(len(names)))
            counts.append(
                AttributeCounts(
                    name=name,
                    where=where,
                    constant=tally.constant,
                    values=names,
                    rows=rows,
                    missing=tally.missing,
                    scored=scored,
                    favourable=scored - favourable if target.positive_flipped else favourable,
                    no_rule=target.no_rule,
                )
            )
            if tally.missing:
                self.missing[name] = tally.missing
        return target, counts

    def _clients(self, rows: TableRows) -> NDArray[np.int64] | None:
        if self.clients is None:
            return None
        values, codes = rows.encoded(self.clients.name, self.clients.where)
        return self.clients.number(values, codes)

    def _complete(self, rows: TableRows) -> NDArray[np.bool_]:
        """The rows where no feature is empty whose rule omits such rows, [rows]."""
        kept = np.ones(len(rows), dtype=np.bool_)
        for column in self._features:
            if not (column.feature.drops_rows or column.feature.fills_gaps):
                continue  # an empty cell is an error, raised where the column is read
            empty = rows.empty(column.name, column.where)
            if count := int(np.count_nonzero(empty)):
                self.missing[column.name] = self.missing.get(column.name, 0) + count
            if column.feature.drops_rows:
                kept &= ~empty
        return kept

    def _groups(
        self, rows: TableRows, name: str, place: int
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The groups of an attribute in these rows, and each row's index among them."""
        edges = self._edges.get(name)
        if edges is None:
            where = pointer("fairness", "sensitive", place)
            values, codes = rows.encoded(name, where)
            if len(self._positions[name]) + len(values) > MAX_GROUPS:
                self._check_groups(name, values, where)
            gaps = np.array([value == "" for value in values], dtype=np.bool_)
            return values, np.where(gaps[codes], -1, codes)
        where = pointer("fairness", "edges", name)
        numbers = rows.numbers(name, where, missing_allowed=True)
        codes = np.searchsorted(np.array(edges), numbers, side="right")
        return list(group_names(edges)), np.where(np.isnan(numbers), -1, codes)

    def _check_groups(self, name: str, values: list[str], where: str) -> None:
        self._positions[name].of(values)
        if len(self._positions[name]) > MAX_GROUPS:
            raise error_at(
                where,
                f"{name!r} has more than {MAX_GROUPS} distinct values, and so many groups are "
                "allowed; bring them into fewer groups, numbers by `edges`",
            )

    def _count(
        self, groups: GroupValues, clients: NDArray[np.int64] | None, rows: TableRows
    ) -> None:
        scored, favourable = self.target.outcomes(rows, groups)
        for name, (values, codes) in groups.items():
            places = np.append(self._positions[name].of(values), -1)  # the last entry: no group
            self._tallies[name].add(places[codes], clients, scored=scored, favourable=favourable)

    def _values(self, name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The groups of an attribute in their order, and the index of each in its tally."""
        seen = self._positions[name].values
        if name in self._edges:
            return group_names(self._edges[name]), np.arange(len(seen))
        levels = levels_of(seen, np.arange(len(seen)), numeric=True)
        return levels.values, np.argsort(levels.codes)
